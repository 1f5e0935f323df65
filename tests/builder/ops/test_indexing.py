"""Shapes of slices and updates at run-time indices, of gathers and scatters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tables import each_row

import builder as xb
from builder.types.primitive_type import ALL

GATHER = xb.GatherDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
ROWS = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
BATCHED = xb.GatherDimensionNumbers([1], [], [1], 1, [0], [0])
SCATTER = xb.ScatterDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
SCATTER_ROWS = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
SCATTER_BATCHED = xb.ScatterDimensionNumbers([1], [], [1], 1, [0], [0])


def parameters(*shapes: Any) -> list[xb.XlaOp]:
    b = xb.XlaBuilder("indexing")
    return [b.parameter(shape) for shape in shapes]


# --- DynamicSlice, DynamicUpdateSlice ------------------------------------------------------------


@each_row(
    "operand, sizes, shape",
    [
        ("f32[5]", [2], "f32[2]"),
        ("f32[4,3]", [2, 2], "f32[2,2]"),
        ("pred[4,3]", [4, 3], "pred[4,3]"),
        ("c64[]", [], "c64[]"),
        ("u4[7,0]", [3, 0], "u4[3,0]"),
        ("f32[7]", [0], "f32[0]"),
        # A slice of all of a bounded dimension is bounded; a smaller one is not.
        ("f32[<=5,<=4]", [5, 3], "f32[<=5,3]"),
        ("f32[<=1]", [1], "f32[1]"),
        ("f32[<=1]", [0], "f32[0]"),
        ("f32[?,5]", [9, 5], "f32[9,5]"),
    ],
)
def test_dynamic_slice_shape(operand: str, sizes: list[int], shape: str) -> None:
    x, i = parameters(operand, xb.s64[()])
    got = xb.dynamic_slice(x, [i] * len(sizes), sizes)
    assert str(got.shape) == shape
    assert got.opcode == "dynamic_slice"
    assert got.operands == (x, *[i] * len(sizes))
    assert got.attributes == {"slice_sizes": tuple(sizes)}


@each_row(
    "operand, update, shape",
    [
        ("f32[5]", "f32[2]", "f32[5]"),
        ("s2[4,3]", "s2[0,3]", "s2[4,3]"),
        ("f32[]", "f32[]", "f32[]"),
        ("f32[<=5,4]", "f32[2,4]", "f32[<=5,4]"),
        # An update of all of a dimension keeps its bound; a smaller one does not.
        ("f32[5,4]", "f32[<=5,<=3]", "f32[<=5,4]"),
        ("f32[?,4]", "f32[?,4]", "f32[?,4]"),
        ("f32[?,4]", "f32[7,4]", "f32[?,4]"),
        ("f32[7,4]", "f32[?,4]", "f32[7,4]"),
    ],
)
def test_dynamic_update_slice_shape(operand: str, update: str, shape: str) -> None:
    x, u, i = parameters(operand, update, xb.u8[()])
    got = xb.dynamic_update_slice(x, u, [i] * len(x.shape.dimensions))
    assert str(got.shape) == shape
    assert got.opcode == "dynamic_update_slice"
    assert got.operands[:2] == (x, u)


@each_row("t", [t for t in ALL if t.is_integral])
def test_start_indices_of_every_integer_type(t: xb.PrimitiveType) -> None:
    x, i, v = parameters(xb.f32[4, 3], t[()], t[2])
    assert xb.dynamic_slice(x, (i, i), [1, 1]).shape is xb.f32[1, 1]
    assert xb.dynamic_slice(x, v, [1, 1]).shape is xb.f32[1, 1]


@each_row("as_list", [False, True])
def test_a_vector_of_start_indices_becomes_scalars(as_list: bool) -> None:
    x, v, u = parameters(xb.f32[4, 3], "s32[<=2]", xb.f32[1, 1])
    start = [v] if as_list else v
    for got in (xb.dynamic_slice(x, start, [1, 1]), xb.dynamic_update_slice(x, u, start)):
        first, second = got.operands[-2:]
        assert first.shape is second.shape is xb.s32[()]
        assert [o.operands[0].attributes["start_indices"] for o in (first, second)] == [(0,), (1,)]
        assert first.operands[0].operands == (v,)
    scalar, none = parameters(xb.f32[()], xb.s32[0])
    assert xb.dynamic_slice(scalar, none, []).operands == (scalar,)


def test_numbers_as_start_indices() -> None:
    """They become constants of the type of the start indices that are ops."""
    x, i = parameters(xb.f32[4, 3], xb.u16[()])
    got = xb.dynamic_slice(x, [2, i], [2, 1])
    assert got.operands[1].opcode == "constant"
    assert got.operands[1].shape is xb.u16[()]
    assert xb.dynamic_slice(x, [2, 0], [2, 1]).operands[1].shape is xb.s32[()]
    assert xb.dynamic_slice(x, np.array([2, 0]), [2, 1]).operands[1].shape is xb.s64[()]
    assert xb.dynamic_slice(x, [1, np.int8(1)], [1, 1]).operands[1].shape is xb.s8[()]
    (large,) = parameters(xb.u8[2**40])
    assert xb.dynamic_slice(large, [2**39], [1]).operands[1].shape is xb.s64[()]
    (unbounded,) = parameters("f32[?]")
    assert xb.dynamic_slice(unbounded, [2**20], [2]).shape is xb.f32[2]


def test_equal_attributes_are_shared() -> None:
    x, i, v = parameters(xb.f32[4, 3], xb.s32[()], xb.s32[7])
    slices = [xb.dynamic_slice(x, [i, i], [1, 2]) for _ in range(2)]
    assert slices[0].attributes is slices[1].attributes
    gathers = [xb.gather(x, v, replace(ROWS), [1, 3]) for _ in range(2)]
    assert gathers[0].attributes is gathers[1].attributes


# --- Gather, Scatter -----------------------------------------------------------------------------


@each_row(
    "operand, indices, numbers, sizes, shape",
    [
        ("f32[16,11]", "s64[5,2]", GATHER, [8, 6], "f32[5,8,6]"),
        ("f32[16,11]", "s64[4,5,2]", ([2, 3], [], [0, 1], 2), [8, 6], "f32[4,5,8,6]"),
        ("f32[16,11]", "s64[4,5]", ([2], [0], [0], 2), [1, 11], "f32[4,5,11]"),
        # Index vectors along the first dimension; offsets around the others.
        ("f32[16,11]", "u8[2,5]", ([0, 2], [], [1, 0], 0), [8, 6], "f32[8,5,6]"),
        ("pred[3]", "s4[]", ([], [0], [0], 0), [1], "pred[]"),
        ("c128[5,6]", "s32[2]", ([], [0, 1], [1, 0], 0), [1, 1], "c128[]"),
        ("s2[5,6]", "s32[3,0]", ([0, 1], [], [], 1), [5, 6], "s2[5,6,3]"),
        ("f32[]", "s32[4,0]", ([], [], [], 1), [], "f32[4]"),
        ("f32[3,4]", "s32[0,2]", ([1], [0], [0, 1], 1), [1, 0], "f32[0,0]"),
        # Batching dimensions, in any order in start_indices.
        ("f32[7,9]", "s32[7,1]", BATCHED, [1, 2], "f32[7,2]"),
        (
            "f32[7,9,3]",
            "s32[3,5,1,7]",
            ([3], [], [1], 2, [0, 2], [3, 0]),
            [1, 2, 1],
            "f32[3,5,7,2]",
        ),
        ("f32[0,9]", "s32[0,1]", BATCHED, [0, 2], "f32[0,2]"),
        # Bounded: slices of all of a bounded dimension, and dimensions of start_indices.
        ("f32[<=16,<=11]", "s64[<=5,2]", GATHER, [8, 11], "f32[<=5,8,<=11]"),
        ("f32[<=7,9]", "s32[7,1]", BATCHED, [1, 2], "f32[7,2]"),
        ("f32[?,11]", "s64[?,2]", GATHER, [8, 11], "f32[?,8,11]"),
        ("f32[16,11]", "s64[5,?]", GATHER, [8, 11], "f32[5,8,11]"),
        ("f32[?,9]", "s32[7,1]", BATCHED, [1, 2], "f32[7,2]"),
    ],
)
def test_gather_shape(
    operand: str, indices: str, numbers: Any, sizes: list[int], shape: str
) -> None:
    x, i = parameters(operand, indices)
    if not isinstance(numbers, xb.GatherDimensionNumbers):
        numbers = xb.GatherDimensionNumbers(*numbers)
    got = xb.gather(x, i, numbers, sizes, True, True)
    named = xb.gather(x, i, numbers, sizes, indices_are_sorted=True, unique_indices=True)
    assert named.attributes is got.attributes
    assert str(got.shape) == shape
    assert got.operands == (x, i)
    assert got.attributes == {
        "dimension_numbers": numbers,
        "slice_sizes": tuple(sizes),
        "indices_are_sorted": True,
    }


@each_row(
    "operand, indices, updates, numbers",
    [
        ("f32[16,11]", "s64[5,2]", "f32[5,8,6]", SCATTER),
        ("f32[16,11]", "s64[5]", "f32[5,11]", SCATTER_ROWS),
        ("f32[16,11]", "u8[2,5]", "f32[8,5,6]", ([0, 2], [], [1, 0], 0)),
        ("pred[3]", "s4[]", "pred[]", ([], [0], [0], 0)),
        ("s2[5,6]", "s32[3,0]", "s2[5,6,3]", ([0, 1], [], [], 1)),
        ("f32[]", "s32[4,0]", "f32[4]", ([], [], [], 1)),
        ("f32[3,4]", "s32[0,2]", "f32[0,0]", ([1], [0], [0, 1], 1)),
        ("f32[7,9]", "s32[7,1]", "f32[7,2]", SCATTER_BATCHED),
        ("f32[7,9,3]", "s32[3,5,1,7]", "f32[3,5,7,2]", ([3], [], [1], 2, [0, 2], [3, 0])),
        ("f32[<=16,<=11]", "s64[<=5,2]", "f32[5,8,<=6]", SCATTER),
        ("f32[?,11]", "s64[?,2]", "f32[?,8,?]", SCATTER),
        ("f32[16,11]", "s64[5,?]", "f32[5,8,6]", SCATTER),
        ("f32[?,9]", "s32[7,1]", "f32[7,2]", SCATTER_BATCHED),
    ],
)
def test_scatter_shape(operand: str, indices: str, updates: str, numbers: Any) -> None:
    x, i, u = parameters(operand, indices, updates)
    if not isinstance(numbers, xb.ScatterDimensionNumbers):
        numbers = xb.ScatterDimensionNumbers(*numbers)
    got = xb.scatter(x, i, u, lambda a, v: v, numbers, unique_indices=True)
    assert got.shape is x.shape
    assert got.operands == (x, i, u)
    assert got.attributes["indices_are_sorted"] is False
    assert got.attributes["unique_indices"] is True
    by_position = xb.scatter(x, i, u, lambda a, v: v, numbers, True, False)
    assert by_position.attributes["indices_are_sorted"] is True
    assert by_position.attributes["unique_indices"] is False
    several = xb.scatter([x, x], i, [u, u], lambda a, b, v, w: (v, b), numbers)
    assert several.shape is xb.tuple_shape([x.shape, x.shape])
    assert xb.scatter([x], i, [u], lambda a, v: (v,), numbers).shape is x.shape


def test_scatter_of_several_types_and_bounds() -> None:
    x, y, i, u, v = parameters("f32[16,<=11]", "s8[16,11]", "s32[5]", "f32[5,11]", "s8[5,11]")
    got = xb.scatter([x, y], i, [u, v], lambda a, b, c, d: (a + c, b - d), SCATTER_ROWS)
    assert str(got.shape) == "(f32[16,<=11], s8[16,11])"


def test_scatter_takes_a_computation() -> None:
    @xb.computation(xb.f32[()], xb.f32[()])
    def larger(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.max(a, b)

    x, i, u = parameters(xb.f32[16, 11], xb.s32[5], xb.f32[5, 11])
    assert xb.scatter(x, i, u, larger, SCATTER_ROWS).called_computations == (larger,)
    one, other = (xb.scatter(x, i, u, xb.add, SCATTER_ROWS) for _ in range(2))
    assert one.called_computations[0] is other.called_computations[0]


def test_dimension_numbers_as_a_mapping() -> None:
    x, i, u = parameters(xb.f32[16, 11], xb.s32[5], xb.f32[5, 11])
    numbers = {
        "offset_dims": [1],
        "collapsed_slice_dims": [0],
        "start_index_map": [0],
        "index_vector_dim": 1,
    }
    assert xb.gather(x, i, numbers, [1, 11]).attributes["dimension_numbers"] == ROWS
    numbers = {
        "update_window_dims": np.array([1]),
        "inserted_window_dims": [0],
        "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": np.int64(1),
        "input_batching_dims": [],
    }
    got = xb.scatter(x, i, u, xb.add, numbers)
    assert got.attributes["dimension_numbers"] == SCATTER_ROWS


def test_start_indices_inside_a_loop() -> None:
    """Values of the enclosing builder are captured, vectors and scalars."""
    x, v, zero = parameters(xb.f32[4, 3], xb.s32[2], xb.s32[()])

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        part = xb.dynamic_slice(state[1], v, [1, 1])
        return state[0] + 1, xb.dynamic_update_slice(state[1], part, [state[0], zero])

    loop = xb.while_(lambda state: state[0] < 3, body, [zero, x])
    assert str(x.builder.build(loop).root.shape).startswith("(s32[], f32[4,3]")
