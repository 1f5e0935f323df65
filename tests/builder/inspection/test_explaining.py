"""Pictures of ops, compared with the reference interpreter, with NumPy and with devices."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import run_replicated
from tables import each_row

import builder as xb
import lowering

SVG = "{http://www.w3.org/2000/svg}"

Record = Callable[[xb.XlaBuilder], xb.XlaOp]


def arg(b: xb.XlaBuilder, *sizes: int) -> xb.XlaOp:
    return b.parameter(xb.s32[sizes])


def numbers(b: xb.XlaBuilder, values: Any) -> xb.XlaOp:
    return b.constant(np.int32(values))


def computed(picture: xb.Explanation, arrays: list[Any], result: int, sizes: Any) -> Any:
    """The sums of products that the picture has for a result."""
    values = np.zeros(sizes, np.int64)
    for index in np.ndindex(*sizes):
        for term in picture.sources(index, result):
            values[index] += prod(int(arrays[operand][at]) for operand, at in term)
    return values


GATHER = xb.GatherDimensionNumbers([1], [0], [0], 1)
DOT = xb.DotDimensionNumbers([2], [0], [1], [1])
SCATTER = xb.ScatterDimensionNumbers([1], [0], [0], 1)


def take(_: Any, new: Any) -> Any:
    return new


RECORDED: dict[str, Record] = {
    "broadcast_in_dim": lambda b: xb.broadcast_in_dim(arg(b, 3, 2), [3, 2, 2], [0, 2]),
    "broadcast_in_dim of size 1": lambda b: xb.broadcast_in_dim(arg(b, 1, 3), [2, 3], [0, 1]),
    "broadcast_in_dim of a scalar": lambda b: xb.broadcast_in_dim(arg(b), [2, 3], []),
    "transpose": lambda b: xb.transpose(arg(b, 2, 3, 4), [2, 0, 1]),
    "reshape": lambda b: xb.reshape(arg(b, 2, 3), [3, 2]),
    "reshape with dimensions": lambda b: xb.reshape(arg(b, 2, 3), [6], dimensions=[1, 0]),
    "rev": lambda b: xb.rev(arg(b, 2, 3), [1]),
    "slice": lambda b: xb.slice(arg(b, 4, 6), [1, 0], [4, 6], [2, 3]),
    "concatenate": lambda b: xb.concatenate([arg(b, 2, 3), arg(b, 2, 2)], 1),
    "pad": lambda b: xb.pad(arg(b, 2, 3), arg(b), [(1, 0, 2), (-1, 2, 1)]),
    "pad that removes interior padding": lambda b: xb.pad(arg(b, 3), arg(b), [(-2, -1, 1)]),
    "dynamic_slice": lambda b: xb.dynamic_slice(
        arg(b, 3, 4), [numbers(b, 2), numbers(b, -3)], [2, 2]
    ),
    "dynamic_update_slice": lambda b: xb.dynamic_update_slice(
        arg(b, 3, 4), arg(b, 2, 2), [numbers(b, 2), numbers(b, 1)]
    ),
    "gather of rows": lambda b: xb.gather(
        arg(b, 4, 3), numbers(b, [[2], [0], [9]]), GATHER, [1, 3]
    ),
    "gather with batches": lambda b: xb.gather(
        arg(b, 2, 3, 4),
        numbers(b, [[[0, 1], [2, 1]], [[1, 1], [0, 0]]]),
        xb.GatherDimensionNumbers([2], [1], [1, 2], 2, [0], [0]),
        [1, 1, 2],
    ),
    "gather with the indices first": lambda b: xb.gather(
        arg(b, 3, 4),
        numbers(b, [[2, 0, 1], [1, 3, 0]]),
        xb.GatherDimensionNumbers([1], [0], [0, 1], 0),
        [1, 2],
    ),
    "gather of scalars": lambda b: xb.gather(
        arg(b, 4), numbers(b, [3, 1]), xb.GatherDimensionNumbers([], [0], [0], 1), [1]
    ),
    "scatter": lambda b: xb.scatter(
        arg(b, 4, 3), numbers(b, [[2], [0], [2], [7]]), arg(b, 4, 3), xb.add, SCATTER
    ),
    "scatter that replaces": lambda b: xb.scatter(
        arg(b, 4, 3), numbers(b, [[2], [0]]), arg(b, 2, 3), take, SCATTER
    ),
    "scatter with batches": lambda b: xb.scatter(
        arg(b, 2, 4),
        numbers(b, [[[0], [2]], [[1], [1]]]),
        arg(b, 2, 2, 2),
        xb.add,
        xb.ScatterDimensionNumbers([2], [], [1], 2, [0], [0]),
    ),
    "reduce": lambda b: xb.reduce(arg(b, 2, 3, 4), arg(b), xb.add, [2, 0]),
    "reduce_window": lambda b: xb.reduce_window(
        arg(b, 4, 5), 0, xb.add, [2, 3], [1, 2], [(1, 0), (1, 1)]
    ),
    "reduce_window with dilations": lambda b: xb.reduce_window_with_general_padding(
        arg(b, 5), 0, xb.add, [2], [1], [2], [3], [(2, 1)]
    ),
    "select_and_scatter": lambda b: xb.select_and_scatter(
        numbers(b, [[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8], [9, 7, 9, 3]]),
        xb.ge,
        [2, 2],
        [2, 2],
        "VALID",
        arg(b, 2, 2),
        0,
        xb.add,
    ),
    "sort": lambda b: xb.sort(numbers(b, [[3, 1, 2], [5, 4, 9]]), dimension=1),
    "sort, descending": lambda b: xb.sort(
        numbers(b, [[3, 1, 2], [5, 4, 9]]), lambda x, y: x > y, dimension=0
    ),
    "dot": lambda b: arg(b, 2, 3) @ arg(b, 3, 4),
    "dot_general": lambda b: xb.dot_general(arg(b, 3, 2, 4), arg(b, 4, 2, 2), DOT),
    "convolution": lambda b: xb.conv_general_dilated(
        arg(b, 1, 4, 4, 2),
        arg(b, 2, 3, 2, 2),
        [1, 2],
        [(1, 0), (1, 1)],
        [1, 1],
        [1, 1],
        "b01f_01io->b01f",
    ),
    "convolution with dilations": lambda b: xb.conv_general_dilated(
        arg(b, 2, 5, 1), arg(b, 2, 1, 3), [2], [(2, 1)], [2], [3], "b0f_0io->b0f"
    ),
    "convolution with groups": lambda b: xb.conv_general_dilated(
        arg(b, 1, 3, 4), arg(b, 2, 2, 4), [1], "VALID", [1], [1], "b0f_0io->b0f", 2
    ),
    "convolution with groups of batches": lambda b: xb.conv_general_dilated(
        arg(b, 4, 3, 2), arg(b, 2, 2, 4), [1], "VALID", [1], [1], "b0f_0io->0bf", 1, 2
    ),
}


@pytest.fixture(scope="module")
def interpreted() -> dict[str, tuple[xb.XlaOp, list[Any], Any]]:
    """Each op with the values of its operands and of its result."""
    b = xb.XlaBuilder()
    ops = {name: record(b) for name, record in RECORDED.items()}
    rng = np.random.default_rng(0)
    computation = b.build(xb.tuple(*ops.values()))
    values = {p: rng.integers(1, 90, p.shape.dimensions, np.int32) for p in computation.parameters}
    results = lowering.interpret(computation, *values.values())
    found = {}
    for (name, op), result in zip(ops.items(), results, strict=True):
        inputs = op.operands[0].operands if name == "reshape with dimensions" else op.operands
        arrays = [values[x] if x in values else x.attributes.get("value", 0) for x in inputs]
        found[name] = op, arrays, result
    return found


@each_row("name", RECORDED)
def test_pictures_compute_what_the_interpreter_computes(
    name: str, interpreted: dict[str, tuple[xb.XlaOp, list[Any], Any]]
) -> None:
    op, arrays, expected = interpreted[name]
    picture = xb.explain(op)
    np.testing.assert_array_equal(computed(picture, arrays, 0, expected.shape), expected)
    ET.fromstring(picture.svg())


COLLECTIVES: dict[str, Callable[[xb.XlaOp], xb.XlaOp]] = {
    "all_gather": lambda x: xb.all_gather(x, 1, 2, [[0, 2], [3, 1]]),
    "all_reduce": lambda x: xb.all_reduce(x, xb.add, [[0, 1], [2, 3]]),
    "all_to_all": lambda x: xb.all_to_all(x, 0, 1, 2, [[1, 0], [2, 3]]),
    "collective_permute": lambda x: xb.collective_permute(x, [(0, 1), (1, 3), (3, 0)]),
    "collective_broadcast": lambda x: xb.collective_broadcast(x, [[2, 0], [1, 3]]),
    "reduce_scatter": lambda x: xb.reduce_scatter(x, xb.add, 0, 4),
}


def test_pictures_of_collectives_compute_what_devices_compute() -> None:
    b = xb.XlaBuilder()
    x = arg(b, 4, 2)
    ops = [record(x) for record in COLLECTIVES.values()]
    rows = np.random.default_rng(0).integers(1, 90, (4, 4, 2), np.int32)
    found = run_replicated(b.build(xb.tuple(*ops)), rows, num_replicas=4)
    for number, op in enumerate(ops):
        picture = xb.explain(op, replicas=4)
        for replica, results in enumerate(found):
            values = computed(picture, rows, replica, results[number].shape)
            np.testing.assert_array_equal(values, results[number], err_msg=op.opcode)


def test_operands_of_a_sort_move_together() -> None:
    b = xb.XlaBuilder()
    keys, _ = xb.sort([numbers(b, [2, 0, 1]), arg(b, 3)])
    picture = xb.explain(keys.operands[0])
    places = [[picture.sources([i], result)[0][0] for i in range(3)] for result in range(2)]
    assert places == [[(n, (i,)) for i in (1, 2, 0)] for n in range(2)]


def test_examples_replace_values_that_are_not_constant() -> None:
    b = xb.XlaBuilder()
    op = xb.gather(arg(b, 4, 3), b.parameter(xb.s32[2, 1], "i"), GATHER, [1, 3])
    assert "start_indices is not a constant" in str(xb.explain(op))
    given = xb.explain(op, values={"start_indices": [[3], [1]]})
    assert "not a constant" not in str(given)
    assert given.sources([0, 2]) == [[(0, (3, 2))]]


def test_texts_have_terms_and_notes() -> None:
    b = xb.XlaBuilder()
    text = str(xb.explain(xb.reduce_window(arg(b, 3), 0, xb.max, [3], [1], "SAME")))
    assert "result[1] = max(0, a0, a1, a2)" in text
    assert "padding and holes in a window have the init value" in text
    text = str(xb.explain(xb.reduce(arg(b, 2, 2), b.parameter(xb.s32[()]), xb.add, [0])))
    assert "b + a0 + a2  b + a1 + a3" in text
    text = str(xb.explain(xb.dynamic_slice(arg(b, 4), [numbers(b, 9)], [2])))
    assert "the start index 9 of dimension 0 is clamped to 2" in text


def test_equal_elements_have_equal_colours() -> None:
    b = xb.XlaBuilder()
    root = ET.fromstring(xb.explain(xb.rev(arg(b, 5), [0])).svg())
    fills: dict[str, set[str]] = {}
    for group in root.iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        if rect is not None and text is not None:
            fills.setdefault(str(text.text), set()).add(rect.attrib["fill"])
    assert sorted(fills) == ["a0", "a1", "a2", "a3", "a4"]
    assert all(len(colours) == 1 for colours in fills.values())
    assert len({colour for colours in fills.values() for colour in colours}) == 5


def test_notebooks_show_pictures_and_terminals_text(tmp_path: Path) -> None:
    b = xb.XlaBuilder()
    picture = xb.explain(xb.rev(arg(b, 3), [0]))
    assert "<svg" in picture._repr_html_()
    picture.save(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text() == picture.svg() + "\n"
    # In a dark page, text that had its colour would be white on white.
    assert ET.fromstring(picture.svg()).attrib["color"] == "#111"
    picture.save(tmp_path / "picture.txt")
    assert (tmp_path / "picture.txt").read_text() == f"{picture}\n"
    assert repr(picture).startswith("<Explanation of <XlaOp %1")


@each_row(
    "call, message",
    [
        (lambda b: xb.explain(3), "explain: op must be an XlaOp, got 3"),
        (lambda b: xb.explain(arg(b, 2)), "explain: there is no picture of parameter"),
        (
            lambda b: xb.explain(xb.rev(arg(b, 400), [0])),
            r"at most 600 elements, got 800 \(s32\[400\], s32\[400\]\)\nfix: explain reverse on",
        ),
        (lambda b: xb.explain(xb.rev(arg(b, 0), [0])), "explain: reverse has no elements"),
        (
            lambda b: xb.explain(xb.sort(arg(b, 2)), values={"x": 1}),
            "must have names of operands of sort, got 'x'\nfix: write one of operand",
        ),
        (
            lambda b: xb.explain(xb.sort(arg(b, 2)), values={"operand": [1, 2, 3]}),
            r"the values of operand must be numbers of the shape s32\[2\], got \[1, 2, 3\]",
        ),
        (
            lambda b: xb.explain(xb.sort(arg(b, 2)), values=[1]),
            "values must be a mapping from names of operands to arrays, got \\[1\\]",
        ),
        (
            lambda b: xb.explain(xb.sort(arg(b, 2)), values={"operand": [[1], [2, 3]]}),
            r"the values of operand must be numbers of the shape s32\[2\], got",
        ),
        (
            lambda b: xb.explain(xb.collective_permute(arg(b, 2), [(0, 10**12)])),
            "a picture has at most 600 replicas, got 1,000,000,000,001",
        ),
        (
            lambda b: xb.explain(xb.all_gather(arg(b, 2), 0, 2), replicas=0),
            "replicas must be 2, as the op determines, got 0",
        ),
        (lambda b: xb.explain(xb.all_to_all(arg(b, 4), 0, 0, 2), replicas=4), "must be 2, .*got 4"),
        (
            lambda b: xb.explain(xb.reduce_scatter(arg(b, 6), xb.add, 0, 2), replicas=3),
            "replicas must be 2, as the op determines, got 3",
        ),
        (
            lambda b: xb.explain(xb.all_reduce(arg(b, 2), xb.add, [[0, 1]]), replicas=3),
            "replicas must be 2, as the op determines, got 3",
        ),
        (
            lambda b: xb.explain(xb.all_reduce(arg(b, 2), xb.add), replicas=0),
            "replicas must be at least 1, got 0",
        ),
        (
            lambda b: xb.explain(xb.collective_permute(arg(b, 2), [(0, 3)]), replicas=2),
            "replicas must be at least 4, got 2",
        ),
        (lambda b: xb.explain(xb.rev(arg(b, 2), [0]), replicas=2), "replicas is for collectives"),
        (
            lambda b: xb.explain(xb.sort(arg(b, 2), lambda x, y: xb.clz(x) < y)),
            "has the op count_leading_zeros, which pictures do not evaluate",
        ),
    ],
)
def test_mistakes(call: Callable[[xb.XlaBuilder], Any], message: str) -> None:
    with pytest.raises(xb.XlaError, match=message):
        call(xb.XlaBuilder())
