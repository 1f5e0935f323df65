"""Pictures of computations as graphs."""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from html_pages import ALLOWED, ATTRIBUTES, Page
from tables import each_row

import builder as xb
from builder.inspection.pictures.outline import Group, level_of, outline_of
from builder.inspection.pictures.svg import Size, layout_of

SVG = "{http://www.w3.org/2000/svg}"


def model() -> xb.XlaComputation:
    b = xb.XlaBuilder("model")
    x, w = b.parameter(xb.f32[8, 4], "x"), b.parameter(xb.f32[4, 2], "w")
    with b.scope("encoder"):
        with b.scope("dense"):
            y = x @ w
        with b.scope("norm"):
            total = xb.reduce(xb.exp(y), 0.0, xb.add, dimensions=[1])
    return b.build(xb.while_(lambda s: xb.reduce_all(s, 0.0, xb.add) < 9.0, lambda s: s + s, total))


def layers(count: int, *, scoped: bool) -> xb.XlaComputation:
    b = xb.XlaBuilder("layers")
    x = b.parameter(xb.f32[4], "x")
    y = x
    for number in range(count):
        if scoped and number % 20 == 0:
            names = b.scope(f"layer{number // 20}")
            names.__enter__()
        y = xb.sin(y) + x
        if scoped and number % 20 == 19:
            names.__exit__(None, None, None)
    return b.build(y)


def parsed(svg: str) -> ET.Element:
    """Parse an SVG, and check what every picture must fulfil."""
    root = ET.fromstring(svg)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "g", "rect", "path", "text", "title"}
    for element in root.iter():
        assert not {"id", "class", "style", "href", "onload"} & {*element.keys()}
        assert not any("url(" in value for value in element.attrib.values())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for left, top, w, h in rectangles(root):
        assert left >= 0
        assert top >= 0
        assert left + w <= width + 1
        assert top + h <= height + 1
    return root


def rectangles(
    element: ET.Element, x: float = 0, y: float = 0
) -> list[tuple[float, float, float, float]]:
    moved = re.match(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    if moved:
        x, y = x + float(moved[1]), y + float(moved[2])
    found = []
    if element.tag == f"{SVG}rect":
        left, top = x + float(element.get("x", 0)), y + float(element.get("y", 0))
        found.append((left, top, float(element.attrib["width"]), float(element.attrib["height"])))
    for child in element:
        found += rectangles(child, x, y)
    return found


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_ops_shapes_and_frames_are_drawn() -> None:
    shown = texts(parsed(model().draw().svg()))
    assert {"x", "w", "dot_general", "exponential", "reduce (add)", "while"} <= {*shown}
    assert {"encoder", "dense", "norm", "condition", "body"} <= {*shown}
    assert {"f32[8,4]", "f32[8,2]", "f32[8]"} <= {*shown}
    assert {"contraction", "elementwise", "reduction", "control flow"} <= {*shown}


def test_closed_groups_are_boxes() -> None:
    shown = texts(parsed(model().draw(limit=0).svg()))
    assert "encoder" in shown
    assert "4 ops" in shown
    assert "condition: 5 ops, body: 2 ops" in shown
    assert not {"dot_general", "dense"} & {*shown}


def test_one_scope_is_drawn() -> None:
    picture = model().draw(scope="encoder/norm")
    shown = texts(parsed(picture.svg()))
    assert {"exponential", "%2 dot_general"} <= {*shown}
    assert not {"while", "x"} & {*shown}
    with pytest.raises(xb.OperandError, match=r"fix: did you mean 'encoder/norm'"):
        model().draw(scope="encoder/nrm")
    with pytest.raises(xb.OperandError, match="scope must be a string, got 3"):
        model().draw(scope=3)  # type: ignore[arg-type]  # the wrong type is the test
    with pytest.raises(xb.ShapeInferenceError, match="limit must not be negative, got -1"):
        model().draw(limit=-1)


def test_texts_are_escaped() -> None:
    b = xb.XlaBuilder("<model>")
    x = b.parameter(xb.f32[2], '<script>"&\x1b')
    x = xb.exp(x)
    x.name = "</svg>/]]>"
    computation = b.build(xb.neg(x))
    root = parsed(computation.draw().svg())
    assert '<script>"&\\x1b' in texts(root)
    check_page(computation.draw()._repr_html_())
    assert '\\"' in computation.draw().dot()


class _PageWithSvg(Page):
    """A page with pictures, which `parsed` checks."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ALLOWED:
            super().handle_starttag(tag, [(k, v) for k, v in attrs if k in ATTRIBUTES])
        else:
            self.tags.append(tag)
            self.pending.append(tag)


def check_page(html: str) -> Page:
    page = _PageWithSvg()
    page.feed(html)
    page.close()
    assert not page.pending
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        parsed(svg)
    return page


def test_notebooks_fold_groups() -> None:
    page = check_page(model().draw()._repr_html_())
    summaries = [text for text in page.texts if text.endswith(" ops")]
    assert "encoder: 4 ops" in summaries
    assert "dense: 1 op" in page.texts
    assert page.tags.count("svg") == page.tags.count("details") + 1 == 6
    assert page.tags.count("script") == 1
    assert page.classes.count("xb-pans") == 6
    small = check_page(layers(3, scoped=False).draw()._repr_html_())
    assert small.tags.count("svg") == 1
    assert "details" not in small.tags


@pytest.mark.slow
@each_row("scoped", [True, False])
def test_large_graphs_open_on_an_outline(scoped: bool) -> None:
    computation = layers(10_000, scoped=scoped)
    start = time.process_time()
    picture = computation.draw()
    svg, html = picture.svg(), picture._repr_html_()
    assert time.process_time() - start < 10  # a loaded machine; it takes less than 2
    assert len(texts(parsed(svg))) < 1500
    assert len(html) < 4_000_000
    assert "more groups and computations have no picture here" in html


def test_deep_computations_are_drawn() -> None:
    b = xb.XlaBuilder("inner")
    computation = b.build(xb.neg(xb.exp(b.parameter(xb.f32[2], "x"))))
    for number in range(2000):
        b = xb.XlaBuilder(f"call{number}")
        x = b.parameter(xb.f32[2], "x")
        computation = b.build(xb.neg(xb.call(computation, x)))
    picture = computation.draw(limit=10_000)
    parsed(picture.svg())
    check_page(picture._repr_html_())
    assert picture.dot().count("subgraph") == 2001
    deep = xb.XlaBuilder("deep")
    x = deep.parameter(xb.f32[2], "x")
    with deep.scope("/".join("a" * 5000)):
        x = xb.exp(x)
    assert parsed(deep.build(xb.neg(x)).draw().svg()) is not None


def test_groups_that_depend_on_each_other() -> None:
    b = xb.XlaBuilder("both")
    x = b.parameter(xb.f32[2], "x")
    for _ in range(3):
        with b.scope("a"):
            x = xb.exp(x)
        with b.scope("b"):
            x = xb.sin(x)
    computation = b.build(x)
    assert level_of(outline_of(computation)).edges.keys() == {(0, 1), (1, 2), (2, 1)}
    assert {"a", "b"} <= {*texts(parsed(computation.draw(limit=0).svg()))}


def test_edges_of_a_level_are_the_operands() -> None:
    computation = model()
    level = level_of(outline_of(computation))
    assert not level.ports
    names = [c.name if isinstance(c, Group) else c.opcode for c in level.children]
    assert names == ["parameter", "parameter", "encoder", "while"]
    edges = {edge: [op.opcode for op in ops] for edge, ops in level.edges.items()}
    assert edges == {(0, 2): ["parameter"], (1, 2): ["parameter"], (2, 3): ["reduce"]}


def test_many_values_from_outside_share_a_port() -> None:
    b = xb.XlaBuilder()
    xs = [b.parameter(xb.f32[2], f"x{i}") for i in range(40)]
    with b.scope("sum"):
        y = xs[0]
        for x in xs[1:]:
            y = y + x
    shown = texts(parsed(b.build(y).draw(scope="sum").svg()))
    assert "29 values from outside" in shown


def test_constants_show_their_values() -> None:
    b = xb.XlaBuilder()
    x = b.constant(np.float32(1.5)) + b.constant(np.float32(2))
    assert {"1.5", "2"} <= {*texts(parsed(b.build(x).draw().svg()))}


def test_nodes_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        count = int(rng.integers(1, 50))
        sizes = [Size(float(w), float(h)) for w, h in rng.uniform(10, 200, (count, 2))]
        pairs = rng.integers(0, count, (2 * count, 2)).tolist()
        edges = {(a, b) for a, b in pairs if a != b}
        layout = layout_of(sizes, edges)
        boxes = [(*corner, *size) for corner, size in zip(layout.corners, sizes, strict=True)]
        for (x, y, w, h), (x2, y2, w2, h2) in itertools.combinations(boxes, 2):
            assert (
                x + w <= x2 + 0.5 or x2 + w2 <= x + 0.5 or y + h <= y2 + 0.5 or y2 + h2 <= y + 0.5
            )
        for edge in edges:
            route = layout.routes[edge]
            assert len(route) % 3 == 1
            (left, top, w, h), (left2, top2, w2, _) = (boxes[node] for node in edge)
            assert route[0] == pytest.approx((left + w / 2, top + h), abs=2)
            assert route[-1] == pytest.approx((left2 + w2 / 2, top2), abs=2)
        assert all(x >= -1e-6 and x + w <= layout.width + 1e-6 for x, _, w, _ in boxes)
        assert all(y >= 0 and y + h <= layout.height + 1e-6 for _, y, _, h in boxes)


def test_a_missing_graphviz_is_an_error_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(ModuleNotFoundError, match=r"draw requires pygraphviz: run `pip install"):
        model().draw().svg()
    assert model().draw().dot()


def test_edges_of_graphs_without_cycles_point_down() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        count = int(rng.integers(2, 50))
        names = rng.permutation(count).tolist()
        pairs = rng.integers(0, count, (2 * count, 2)).tolist()
        edges = {(names[min(pair)], names[max(pair)]) for pair in pairs if pair[0] != pair[1]}
        layout = layout_of([Size(30, 20)] * count, edges)
        for begin, end in edges:
            assert layout.corners[begin][1] < layout.corners[end][1]


def test_constants_are_with_their_users() -> None:
    b = xb.XlaBuilder("constants")
    x, one, two = b.parameter(xb.f32[2], "x"), b.constant(1.0, xb.f32), b.constant(2.0, xb.f32)
    with b.scope("a"):
        y = xb.exp(x) + one
        with b.scope("b"):
            y = y + two
    with b.scope("c"):
        y = y + two
    outline = outline_of(b.build(y))
    (group, _) = [child for child in outline.children if isinstance(child, Group)]
    assert one.id in [child.id for child in group.children if isinstance(child, xb.XlaOp)]
    assert two.id in [child.id for child in outline.children if isinstance(child, xb.XlaOp)]


@each_row("count", [3, 100])
def test_parameters_are_apart_from_runs(count: int) -> None:
    b = xb.XlaBuilder()
    x, *_ = [b.parameter(xb.f32[2], f"x{i}") for i in range(count)]
    for _ in range(3000):
        x = xb.sin(x)
    outline = outline_of(b.build(x))
    names = [c.name if isinstance(c, Group) else c.opcode for c in outline.children]
    parameters = ["parameter"] * 3 if count == 3 else ["parameters"]
    assert names[: len(parameters)] == parameters
    assert names[-1].endswith(f" to %{count + 2999}")
    assert all(len(c.children) <= 100 for c in outline.children if isinstance(c, Group))


def test_the_scope_of_all_ops_has_no_frame() -> None:
    b = xb.XlaBuilder("traced")
    x = b.parameter(xb.f32[2], "x")
    with b.scope("jit(f)"):
        y = xb.exp(x)
        with b.scope("layer"):
            y = xb.sin(y)
    outline = outline_of(b.build(y))
    assert [getattr(c, "opcode", "group") for c in outline.children] == [
        "parameter",
        "exponential",
        "group",
    ]
    assert outline.name == "traced"


def test_dot_has_all_ops_and_operands() -> None:
    computation = model()
    text = computation.draw().dot()
    computations = [computation, *computation.called_computations()]
    ops = [op for c in computations for op in c.ops]
    solid = len(re.findall(r"^  c\d+_\d+ -> c\d+_\d+ \[label=", text, re.MULTILINE))
    assert solid == sum(len(op.operands) for op in ops)
    assert len(re.findall(r"^ +c\d+_\d+ \[label=", text, re.MULTILINE)) == len(ops)
    assert text.count("{") == text.count("}")
    assert text.startswith('digraph "model" {')
    assert 'label="dense"' in text


def test_pictures_are_saved(tmp_path: Path) -> None:
    picture = model().draw()
    picture.save(tmp_path / "g.svg")
    picture.save(tmp_path / "g.dot")
    root = parsed((tmp_path / "g.svg").read_text())
    assert root[0].attrib["fill"] == "#fff"
    assert (tmp_path / "g.dot").read_text() == picture.dot()
    with pytest.raises(
        xb.OperandError, match=r"path must end in .svg, .dot, .gv or .json, got 'g.png'"
    ):
        picture.save("g.png")
    assert repr(picture) == f"<GraphPicture of 'model', {len(picture.computation.ops)} ops>"


def test_model_explorer_has_all_ops_and_operands(tmp_path: Path) -> None:
    computation = model()
    text = computation.to_model_explorer()
    collection = json.loads(text)
    assert collection["label"] == "model"
    graphs = {graph["id"]: graph["nodes"] for graph in collection["graphs"]}
    computations = [computation, *computation.called_computations()]
    assert len(graphs) == len(computations)
    assert sum(map(len, graphs.values())) == sum(len(each.ops) for each in computations)
    for nodes in graphs.values():
        ids = {node["id"] for node in nodes}
        assert len(ids) == len(nodes)
        for node in nodes:
            assert {edge["sourceNodeId"] for edge in node["incomingEdges"]} <= ids
            assert {*node["subgraphIds"]} <= {*graphs}
    by_label = {node["label"]: node for node in graphs["model"]}
    assert by_label["dot_general"]["namespace"] == "encoder/dense"
    assert len(by_label["while"]["subgraphIds"]) == 2
    edges = [edge["sourceNodeId"] for edge in by_label["dot_general"]["incomingEdges"]]
    assert edges == ["0", "1"]
    computation.draw().save(tmp_path / "g.json")
    assert (tmp_path / "g.json").read_text() == text


def test_borders_are_inside_of_boxes() -> None:
    # A dark page hides the ink around a box.
    b = xb.XlaBuilder("result")
    result = b.constant(2.0, xb.f32) + b.parameter(xb.f32[()], "x")
    root = parsed(b.build(result).draw().svg())
    boxes = [
        group.findall(f"{SVG}rect")
        for group in root.iter(f"{SVG}g")
        if group.find(f"{SVG}title") is not None
    ]
    borders = [rects[1] for rects in boxes if len(rects) == 2]
    assert ["stroke-dasharray" in border.attrib for border in borders] == [True, False]
    for border in borders:
        assert (border.attrib["x"], border.attrib["fill"]) == ("2", "none")
