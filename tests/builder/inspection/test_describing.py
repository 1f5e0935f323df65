"""What ops, computations, builders and shardings show."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
from html_pages import Page, page_of
from rich.console import Console
from tables import each_row

import builder as xb
from builder.inspection.describing import parts_of
from builder.inspection.parts import CellGrid


def chain(length: int, name: str = "chain") -> xb.XlaComputation:
    b = xb.XlaBuilder(name)
    x = b.parameter(xb.f32[4], "x")
    for _ in range(length):
        x = xb.sin(x)
    return b.build(x)


def shown_in_terminal(shown: Any) -> str:
    out = Console(width=120, file=io.StringIO(), color_system=None)
    out.print(shown)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def rows(page: Page) -> int:
    return page.tags.count("tr")


def test_an_op_shows_its_fields() -> None:
    b = xb.XlaBuilder("<b>")
    x = b.parameter(xb.f32[2, 3], "x")
    y = xb.transpose(x, [1, 0])
    y.name = "<turned>"
    page = page_of(y)
    assert {"transpose", "f32[3,2]", "<XlaOp %0 'x' = f32[2,3] parameter()>"} <= {
        text.strip() for text in page.texts
    }
    assert "permutation{1,0}" in page.text
    assert "'<turned>'" in page.text
    assert "test_describing.py" in page.text
    assert "y = xb.transpose(x, [1, 0])" in page.text
    assert "f32[3,2]" in shown_in_terminal(y)


def test_an_op_with_many_operands_is_short() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2])
    page = page_of(xb.tuple(*[x] * 1000))
    assert "970 more" in page.texts
    assert rows(page) < 40


def test_a_builder_shows_its_parameters() -> None:
    b = xb.XlaBuilder("model")
    assert "open, 0 ops recorded" in page_of(b).text
    b.parameter(xb.f32[256], "weights")
    page = page_of(b)
    assert {"weights", "f32[256]", "1 KiB"} <= {*page.texts}
    b.build()
    assert "built, 1 op recorded" in page_of(b).text


def test_a_computation_shows_its_ops_with_their_sources() -> None:
    page = page_of(chain(3))
    assert "4 ops" in page.texts
    assert {"x", "f32[4]", "→ result"} <= {*page.texts}
    assert len(page.titles) == 4
    assert page.titles[1].endswith("\nx = xb.sin(x)")
    assert "details" in page.tags  # the HLO text
    assert {"HloModule", "%sine.1"} <= {*page.texts}


@each_row("length, folded", [(28, None), (30, "1 more op"), (600, "571 more ops")])
def test_ops_are_folded_after_30_rows(length: int, folded: str | None) -> None:
    page = page_of(chain(length))
    assert (folded in page.texts) if folded else not any("more op" in t for t in page.texts)
    assert rows(page) < 560


def test_applied_computations_are_folded() -> None:
    b = xb.XlaBuilder("outer")
    x = b.parameter(xb.f32[4], "x")
    total = xb.reduce(xb.call(chain(2, "inner"), x), 0.0, xb.add, dimensions=[0])
    computation = b.build(total)
    page = page_of(computation)
    assert "10 ops in 3 computations" in page.texts
    assert page.tags.count("details") == 3  # both computations, and the HLO text
    assert "%inner (x: f32[4]) -> f32[4], 3 ops" in page.texts
    assert "▸ %inner (x: f32[4]) -> f32[4], 3 ops" in shown_in_terminal(computation)


def test_large_computations_are_small_pages() -> None:
    assert len(chain(50_000)._repr_html_()) < 400_000
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[4])
    for number in range(200):
        x = xb.call(chain(1, f"called{number}"), x)
    page = page_of(b.build(x))
    assert "160 more computations; table(nested=True) has all" in page.texts
    big = xb.XlaBuilder()
    big.constant(np.arange(10**6, dtype=np.float32))
    assert len(big.build()._repr_html_()) < 10_000


def test_large_constants_are_abbreviated() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.c64[300], "x")
    large = b.constant(np.arange(300, dtype=np.complex64))
    text = page_of(b.build(xb.tuple(x + large, b.constant([1.5, 2.5], xb.f32)))).text
    assert "constant({...})" in text
    assert "constant({1.5, 2.5})" in text
    assert "(299, 0)" not in text


def grid(shown: Any) -> list[list[str]]:
    (found,) = [part for part in parts_of(shown) if isinstance(part, CellGrid)]
    return [[cell.text for cell in cells] for _, cells in found.rows]


def test_meshes_show_their_devices() -> None:
    mesh = xb.Mesh({"data": 2, "model": 3}, devices=(5, 4, 3, 2, 1, 0))
    assert grid(mesh) == [["5", "4", "3"], ["2", "1", "0"]]
    page = page_of(mesh)
    assert {"data=2, model=3: 6 devices", "data 1", "model 2"} <= {*page.texts}
    cube = page_of(xb.Mesh({"x": 2, "y": 2, "z": 2}))
    assert {"x 0", "x 1"} <= {*cube.texts}
    assert "4,096 parts, which are not drawn" in page_of(xb.Mesh({"x": 4096})).texts
    assert page_of(xb.Mesh({"x": 1}))


@each_row(
    "dimensions, expected",
    [
        (("x", "y"), [["0", "1"], ["2", "3"]]),
        (("y", "x"), [["0", "2"], ["1", "3"]]),
        ((None, "y"), [["0, 2", "1, 3"]]),
        ((("y", "x"),), [["0", "2", "1", "3"]]),
    ],
)
def test_shardings_show_the_devices_of_each_part(
    dimensions: tuple[Any, ...], expected: list[list[str]]
) -> None:
    sharding = xb.Mesh({"x": 2, "y": 2}).sharding(*dimensions)
    assert grid(sharding) == expected
    assert grid(xb.parse_tiling(sharding.tiling)) == expected
    page_of(sharding)


@each_row(
    "dimensions, texts",
    [
        (("x", "y"), {"parts along dimension 0 down, 1 across"}),
        ((None, "y", "x"), {"parts along dimension 1 down, 2 across"}),
        (("x",), {"parts along dimension 0 across; each part is on 2 devices (replicated)"}),
    ],
)
def test_grids_of_parts_name_their_dimensions(dimensions: tuple[Any, ...], texts: set[str]) -> None:
    assert texts <= {*page_of(xb.Mesh({"x": 2, "y": 2}).sharding(*dimensions)).texts}


def test_parts_along_three_dimensions() -> None:
    texts = {*page_of(xb.Mesh({"x": 2, "y": 2, "z": 2}).sharding("x", "y", "z")).texts}
    assert {"dimension 0: 0", "dimension 0: 1"} <= texts


def test_up_to_18_devices_have_different_colours() -> None:
    page = page_of(xb.Mesh({"x": 18}))
    assert len({name for name in page.classes if name.startswith("xb-colour")}) == 18


@each_row(
    "tiling, text",
    [
        ("{replicated}", "each device has the array"),
        ("{maximal device=3}", "device 3 has the array"),
        ("{manual}", "each device has an array of its own"),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "each part is on 2 devices"),
    ],
)
def test_tilings_without_a_grid(tiling: str, text: str) -> None:
    assert text in page_of(xb.parse_tiling(tiling)).text
    assert text in shown_in_terminal(xb.parse_tiling(tiling))


def test_replicated_arrays() -> None:
    sharding = xb.Mesh({"x": 2, "y": 2}).sharding()
    assert "each device has the array" in page_of(sharding).texts


def test_diffs_are_shown_side_by_side() -> None:
    def built(op: Any) -> xb.XlaComputation:
        b = xb.XlaBuilder("model")
        x = b.parameter(xb.f32[4], "x")
        return b.build(xb.neg(op(x)))

    one, two = built(xb.exp), built(lambda x: xb.sin(xb.sqrt(x)))
    page = page_of(one.diff(two))
    assert page.classes.count("xb-changed") == 2
    assert page.classes.count("xb-added") == 1
    assert {"    opcode: exponential", "    opcode: sqrt"} <= {*page.texts}
    assert "model: equal" in page_of(one.diff(one)).texts
    assert "+ %2 = f32[4] sine(%1)" in shown_in_terminal(one.diff(two))


def test_objects_without_parts_are_found() -> None:
    with pytest.raises(NotImplementedError, match="int defines no _parts"):
        parts_of(1)


def test_errors_show_the_line_the_operands_and_the_fix() -> None:
    b = xb.XlaBuilder()
    x, y = b.parameter(xb.f32[2], "x"), b.parameter(xb.f32[3], "y")
    with pytest.raises(xb.ShapeInferenceError) as caught:
        x + y
    page = page_of(caught.value)
    assert "add: dimension 0 has sizes 2 and 3; the sizes must be equal, or one size must be 1" in (
        page.texts
    )
    assert re.search(r"→ +\d+          x \+ y", page.text)
    assert {"operand", "lhs", "f32[2]", "rhs", "f32[3]", "fix"} <= {*page.texts}


def test_errors_of_texts_show_the_place() -> None:
    with pytest.raises(xb.ShapeTextError) as caught:
        xb.parse_shape("f32[2,")
    assert "  f32[2,\n        ^" in page_of(caught.value).text
