"""Refusals of slices and updates at runtime indices, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb

GATHER = xb.GatherDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
ROWS = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
BATCHED = xb.GatherDimensionNumbers([1], [], [1], 1, [0], [0])
BAD_LAST = replace(BATCHED, index_vector_dim=0)
SCATTER = xb.ScatterDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
SCATTER_BATCHED = xb.ScatterDimensionNumbers([1], [], [1], 1, [0], [0])
MATRIX, STARTS, WINDOWS, SCALAR = xb.f32[16, 11], xb.s64[5, 2], xb.f32[5, 8, 6], xb.s32[()]


def parameters(*shapes: Any) -> list[xb.XlaOp]:
    b = xb.XlaBuilder("indexing")
    return [b.parameter(shape) for shape in shapes]


Refusal = tuple[tuple[Any, ...], Callable[..., Any], str]


def gathered(numbers: Any, sizes: Any = (8, 6), **promises: Any) -> Callable[..., xb.XlaOp]:
    """Return a gather on x f32[16,11] and i s64[5,2] with one argument of a valid one replaced."""
    return lambda x, i: xb.gather(x, i, numbers, sizes, **promises)


def fields_of(kind: type[Any], *values: Any) -> dict[str, Any]:
    """Return the fields of dimension numbers as a mapping, without checking them."""
    return dict(zip(kind.__match_args__, values, strict=False))


def scattered(numbers: Any, **promises: Any) -> Callable[..., xb.XlaOp]:
    return lambda x, i, u: xb.scatter(x, i, u, xb.add, numbers, **promises)


REFUSED: dict[str, list[Refusal]] = {
    "dynamic_slice": [
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i], [2, 2]),
            (
                "start_indices must have one index for each dimension of operand: 2, got 1\n"
                "  operand       f32[16,11]\n"
                "  start index 0 s32[]"
            ),
        ),
        (
            (MATRIX, xb.s32[3]),
            lambda x, i: xb.dynamic_slice(x, i, [2, 2]),
            "start_indices must have one index for each dimension of operand: 2, got s32[3]",
        ),
        (
            (MATRIX, xb.s32[2, 1]),
            lambda x, i: xb.dynamic_slice(x, [i, i], [2, 2]),
            "start index 0 must be a scalar, got s32[2,1]",
        ),
        (
            (MATRIX, xb.s32[2]),
            lambda x, i: xb.dynamic_slice(x, [i, i], [2, 2]),
            "start_indices must be scalars or a single vector, got 2 arrays",
        ),
        (
            (MATRIX, SCALAR, xb.s64[()]),
            lambda x, i, j: xb.dynamic_slice(x, [i, j], [2, 2]),
            "start_indices must be of one type, got s32[] and s64[]\n",
        ),
        (
            (MATRIX, xb.f32[()]),
            lambda x, i: xb.dynamic_slice(x, [i, i], [2, 2]),
            "start index 0 must be of integer type, got f32\n",
        ),
        (
            (MATRIX, xb.pred[2]),
            lambda x, i: xb.dynamic_slice(x, i, [2, 2]),
            "start index 0 must be of integer type, got pred\n",
        ),
        (
            (MATRIX, xb.tuple_shape([SCALAR, SCALAR])),
            lambda x, i: xb.dynamic_slice(x, [i, i], [2, 2]),
            "start index 0 must be an array, got a tuple",
        ),
        (
            (MATRIX, xb.tuple_shape([SCALAR])),
            lambda x, i: xb.dynamic_slice(x, [i, 1], [2, 2]),
            "start index 0 must be an array, got a tuple",
        ),
        (
            (xb.tuple_shape([MATRIX]), SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i], [2]),
            "operand must be an array, got a tuple",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, i], [2]),
            "size_indices must have one entry for each dimension of operand: 2, got 1: [2]",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, i], [2, -1]),
            "the sizes in size_indices must not be negative, got -1 in [2, -1]",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, i], [2, 12]),
            "a slice size must be at most the operand's size, 11, got 12 for dimension 1",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, i], 2),
            "size_indices must be a sequence of integers, got 2",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, -1], [2, 2]),
            (
                "start index 1 must be 0 to 9, got -1\n"
                "  operand f32[16,11]\n"
                "fix: count from 0, and choose an index at which the slice is inside the operand"
            ),
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [15, i], [2, 2]),
            "start index 0 must be 0 to 14, got 15\n",
        ),
        (
            ("f32[?]", SCALAR),
            lambda x, i: xb.dynamic_slice(x, [-2], [2]),
            "start index 0 must be at least 0, got -2\n",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, 1.5], [2, 2]),
            "start index 1 must be an integer, got 1.5",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, True], [2, 2]),
            "start index 1 must be an integer, got True",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, 2**70], [2, 2]),
            "start index 1 must fit 64 bits",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, "1"], [2, 2]),
            "start index 1 must be an XlaOp, got str: '1'",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, [i, [1]], [2, 2]),
            "start index 1 must be an XlaOp, got list: [1]",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, 3, [2, 2]),
            "start_indices must be a sequence of XlaOps, or a vector, got int: 3",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, "ab", [2, 2]),
            "start_indices must be a sequence of XlaOps, or a vector, got str: 'ab'",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(x, range(10**15), [2, 2]),
            "start_indices must have one index for each dimension of operand: 2, got ",
        ),
        (
            (MATRIX, SCALAR),
            lambda x, i: xb.dynamic_slice(None, [i, i], [2, 2]),
            "operand must be an XlaOp, got NoneType: None",
        ),
        (
            (xb.f32[300], xb.u8[()]),
            lambda x, i: xb.dynamic_slice(x, [290], np.array([[1]])),
            "each entry of size_indices must be an integer",
        ),
        (
            (xb.f32[300, 300], xb.u8[()]),
            lambda x, i: xb.dynamic_slice(x, [i, 290], [1, 1]),
            "u8 can't represent the Python number 290",
        ),
    ],
    "dynamic_update_slice": [
        (
            (MATRIX, xb.f32[2, 2], SCALAR),
            lambda x, u, i: xb.dynamic_update_slice(x, u, [i]),
            (
                "start_indices must have one index for each dimension of operand: 2, got 1\n"
                "  operand       f32[16,11]\n"
                "  update        f32[2,2]\n"
                "  start index 0 s32[]"
            ),
        ),
        (
            (MATRIX, xb.f32[2], SCALAR),
            lambda x, u, i: xb.dynamic_update_slice(x, u, [i, i]),
            "update must have as many dimensions as operand: 2, got 1",
        ),
        (
            (MATRIX, xb.bf16[2, 2], SCALAR),
            lambda x, u, i: xb.dynamic_update_slice(x, u, [i, i]),
            "operands must have one element type, got f32, bf16",
        ),
        (
            (MATRIX, xb.f32[2, 12], SCALAR),
            lambda x, u, i: xb.dynamic_update_slice(x, u, [i, i]),
            "update must not be larger than operand, got 12 and 11 for dimension 1",
        ),
        (
            (MATRIX, xb.f32[2, 2], SCALAR),
            lambda x, u, i: xb.dynamic_update_slice(x, u, [0, 10]),
            "start index 1 must be 0 to 9, got 10\n  operand f32[16,11]\n  update  f32[2,2]\n",
        ),
        (
            (MATRIX, xb.f32[2, 2], xb.u32[()]),
            lambda x, u, i: xb.dynamic_update_slice(x, u, [i, np.int32(1)]),
            "start_indices must be of one type, got u32[] and s32[]",
        ),
        (
            (MATRIX, xb.tuple_shape([MATRIX]), SCALAR),
            lambda x, u, i: xb.dynamic_update_slice(x, u, [i, i]),
            "update must be an array, got a tuple",
        ),
        (
            (MATRIX, xb.f32[2, 2], SCALAR),
            lambda x, u, i: xb.dynamic_update_slice(x, 1.0, [i, i]),
            "update must be an XlaOp, got float: 1.0",
        ),
    ],
    "gather": [
        (
            (MATRIX, xb.f32[5, 2]),
            gathered(GATHER),
            (
                "start_indices must be of integer type, got f32\n"
                "  operand       f32[16,11]\n"
                "  start_indices f32[5,2]"
            ),
        ),
        (
            (MATRIX, xb.pred[5, 2]),
            gathered(GATHER),
            "start_indices must be of integer type, got pred",
        ),
        (
            (xb.tuple_shape([MATRIX]), STARTS),
            gathered(GATHER),
            "operand must be an array, got a tuple",
        ),
        (
            (MATRIX, xb.tuple_shape([STARTS])),
            gathered(GATHER),
            "start_indices must be an array, got a tuple",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, index_vector_dim=3)),
            "index_vector_dim must be a dimension of start_indices, or its rank: 0 to 2, got 3",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, index_vector_dim=-1)),
            "index_vector_dim must be a dimension of start_indices, or its rank: 0 to 2, got -1",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[1, 3])),
            "offset_dims must be a dimension of the result (0 to 2), got 3",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[-1, 1])),
            "offset_dims must be a dimension of the result (0 to 2), got -1",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[2, 1])),
            "offset_dims must be ascending, got 1 after 2 in [2, 1]",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[1, 1])),
            "offset_dims must not name a dimension twice, got 1 twice in [1, 1]",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, start_index_map=[0])),
            (
                "start_index_map must have one entry for each component of an index vector: 2, got "
                "1: [0]"
            ),
        ),
        (
            (MATRIX, xb.s64[5]),
            gathered(GATHER),
            (
                "start_index_map must have one entry for each component of an index vector: 1, "
                "got 2: [0, 1]"
            ),
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, start_index_map=[0, 2])),
            "start_index_map must be a dimension of operand (0 to 1), got 2",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, start_index_map=[1, 1])),
            "start_index_map must not name a dimension twice, got 1 twice in [1, 1]",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[1], collapsed_slice_dims=[2])),
            "collapsed_slice_dims must be a dimension of operand (0 to 1), got 2",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[], collapsed_slice_dims=[1, 0])),
            "collapsed_slice_dims must be ascending, got 0 after 1 in [1, 0]",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[], collapsed_slice_dims=[1, 1])),
            "collapsed_slice_dims must not name a dimension twice, got 1 twice",
        ),
        (
            (MATRIX, STARTS),
            gathered(GATHER, [8]),
            "slice_sizes must have one entry for each dimension of operand: 2, got 1: [8]",
        ),
        (
            (MATRIX, STARTS),
            gathered(replace(GATHER, offset_dims=[1])),
            (
                "offset_dims, collapsed_slice_dims and operand_batching_dims must together "
                "have one entry for each dimension of operand: 2, got 1, 0 and 0"
            ),
        ),
        (
            (MATRIX, STARTS),
            gathered(GATHER, [8, -6]),
            "the sizes in slice_sizes must not be negative, got -6 in [8, -6]",
        ),
        (
            (MATRIX, STARTS),
            gathered(GATHER, [17, 6]),
            "a slice size must be at most the operand's size, 16, got 17 for dimension 0",
        ),
        (
            ("f32[<=16,11]", STARTS),
            gathered(GATHER, [17, 6]),
            "a slice size must be at most the operand's size, <=16, got 17 for dimension 0",
        ),
        (
            (MATRIX, xb.s64[5]),
            gathered(ROWS, [2, 11]),
            "the slice size of a collapsed dimension must be 1, got 2 for dimension 0",
        ),
        (
            (MATRIX, xb.s64[5]),
            gathered(ROWS, [0, 11]),
            "the slice size of a collapsed dimension must be 1, got 0 for dimension 0",
        ),
        (
            (MATRIX, xb.s64[16, 1]),
            gathered(BATCHED, [2, 11]),
            "the slice size of a batching dimension must be 1, got 2 for dimension 0",
        ),
        (
            (MATRIX, xb.s64[16, 1]),
            gathered(BATCHED, [0, 11]),
            "the slice size of a batching dimension must be 1, got 0 for dimension 0",
        ),
        (
            (MATRIX, xb.s64[15, 1]),
            gathered(BATCHED, [1, 11]),
            (
                "batching dimensions must have equal sizes, got dimension 0 of operand "
                "(size 16) and dimension 0 of start_indices (size 15)"
            ),
        ),
        (
            (MATRIX, xb.s64[1, 16]),
            gathered(BAD_LAST, [1, 11]),
            "start_indices_batching_dims must not contain index_vector_dim, got 0",
        ),
        (
            (MATRIX, xb.s64[16, 1]),
            gathered(replace(BATCHED, start_indices_batching_dims=[2]), [1, 11]),
            "start_indices_batching_dims must be a dimension of start_indices (0 to 1), got 2",
        ),
        (
            (MATRIX, xb.s64[16, 1]),
            gathered(replace(BATCHED, operand_batching_dims=[2]), [1, 11]),
            "operand_batching_dims must be a dimension of operand (0 to 1), got 2",
        ),
        (
            (MATRIX, xb.s64[16, 1]),
            gathered(replace(BATCHED, start_indices_batching_dims=[]), [1, 11]),
            (
                "operand_batching_dims and start_indices_batching_dims must have the same length, "
                "got 1 and 0"
            ),
        ),
        (
            (MATRIX, xb.s64[16, 1]),
            gathered(replace(BATCHED, operand_batching_dims=[1]), [1, 1]),
            (
                "batching dimensions must have equal sizes, got dimension 1 of operand "
                "(size 11) and dimension 0 of start_indices (size 16)"
            ),
        ),
        (
            (xb.f32[16, 16], xb.s64[16, 1]),
            gathered(replace(BATCHED, operand_batching_dims=[1]), [1, 1]),
            "operand_batching_dims and start_index_map must not name the same dimension, got 1",
        ),
        (
            (MATRIX, xb.s64[16, 1]),
            gathered(replace(BATCHED, collapsed_slice_dims=[0]), [1, 11]),
            (
                "operand_batching_dims and collapsed_slice_dims must not name the same "
                "dimension, got 0"
            ),
        ),
        (
            (xb.f32[2, 2, 3], xb.s64[2, 2, 1]),
            gathered(xb.GatherDimensionNumbers([2], [], [2], 2, [1, 0], [0, 1]), [1, 1, 1]),
            "operand_batching_dims must be ascending, got 0 after 1 in [1, 0]",
        ),
        (
            (xb.f32[2, 2, 3], xb.s64[2, 2, 1]),
            gathered(xb.GatherDimensionNumbers([2], [], [2], 2, [0, 1], [0, 0]), [1, 1, 1]),
            "start_indices_batching_dims must not name a dimension twice, got 0 twice",
        ),
        (
            (MATRIX, STARTS),
            gathered(GATHER, indices_are_sorted=1),
            "indices_are_sorted must be True or False, got 1",
        ),
        (
            (MATRIX, STARTS),
            gathered(GATHER, unique_indices="no"),
            "unique_indices must be True or False, got 'no'",
        ),
        (
            (MATRIX, STARTS),
            gathered(([1, 2], [], [0, 1], 1)),
            (
                "dimension_numbers must be GatherDimensionNumbers, got ([1, 2], [], [0, 1], 1)\n"
                "fix: write xb.GatherDimensionNumbers(offset_dims, collapsed_slice_dims, "
            ),
        ),
        (
            (MATRIX, STARTS),
            gathered(SCATTER),
            "dimension_numbers must be GatherDimensionNumbers, got ScatterDimensionNumbers(",
        ),
        (
            (MATRIX, STARTS),
            gathered({"offset_dims": [1, 2], "start_index_map": [0, 1]}),
            (
                "dimension_numbers must have the fields of GatherDimensionNumbers, "
                "got no collapsed_slice_dims, index_vector_dim\n"
            ),
        ),
        (
            (MATRIX, STARTS),
            gathered({"offsets": [1, 2]}),
            (
                "dimension_numbers must have the fields of GatherDimensionNumbers, "
                "got unknown ['offsets']\n"
            ),
        ),
        (
            (MATRIX, STARTS),
            gathered(fields_of(xb.GatherDimensionNumbers, [1], [0], [0], None)),
            "index_vector_dim must be an integer, got None",
        ),
        (
            (MATRIX, STARTS),
            gathered(fields_of(xb.GatherDimensionNumbers, [1], 0, [0], 0)),
            "collapsed_slice_dims must be a sequence of integers, got 0",
        ),
        (
            (MATRIX, STARTS),
            lambda x, i: xb.gather(x, [[0, 1]], GATHER, [8, 6]),
            "start_indices must be an XlaOp, got list: [[0, 1]]",
        ),
        (
            ("u8[2147483648,2147483648]", "s32[4,0]"),
            gathered(xb.GatherDimensionNumbers([1, 2], [], [], 1), [2**31, 2**31]),
            "the result u8[4,2147483648,2147483648] would have more than 2**63 - 1 elements",
        ),
    ],
    "scatter": [
        (
            (MATRIX, xb.f32[5, 2], WINDOWS),
            scattered(SCATTER),
            (
                "scatter_indices must be of integer type, got f32\n"
                "  operand         f32[16,11]\n"
                "  scatter_indices f32[5,2]\n"
                "  updates         f32[5,8,6]"
            ),
        ),
        (
            (xb.tuple_shape([MATRIX]), STARTS, WINDOWS),
            scattered(SCATTER),
            "operand 0 must be an array, got a tuple",
        ),
        (
            (MATRIX, xb.tuple_shape([STARTS]), WINDOWS),
            scattered(SCATTER),
            "scatter_indices must be an array, got a tuple",
        ),
        (
            (MATRIX, STARTS, xb.tuple_shape([WINDOWS])),
            scattered(SCATTER),
            "updates must be an array, got a tuple",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter([], i, [], xb.add, SCATTER),
            "at least one operand is needed, got none",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter([x, x], i, [u], lambda a, b, c, d: (a, b), SCATTER),
            "updates must have one entry for each operand: 2, got 1: [f32[5,8,6]]",
        ),
        (
            (MATRIX, xb.f32[16, 12], STARTS, WINDOWS),
            lambda x, y, i, u: xb.scatter([x, y], i, [u, u], lambda a, b, c, d: (a, b), SCATTER),
            (
                "operands must have the same sizes, got f32[16,11] and f32[16,12]\n"
                "  operand 0       f32[16,11]\n"
                "  operand 1       f32[16,12]\n"
                "  scatter_indices s64[5,2]\n"
                "  updates 0       f32[5,8,6]\n"
                "  updates 1       f32[5,8,6]"
            ),
        ),
        (
            (MATRIX, xb.f32[16], STARTS, WINDOWS),
            lambda x, y, i, u: xb.scatter([x, y], i, [u, u], lambda a, b, c, d: (a, b), SCATTER),
            "operands must have the same sizes, got f32[16,11] and f32[16]",
        ),
        (
            (MATRIX, STARTS, WINDOWS, xb.f32[5, 8, 5]),
            lambda x, i, u, v: xb.scatter([x, x], i, [u, v], lambda a, b, c, d: (a, b), SCATTER),
            "updates must have the same sizes, got f32[5,8,6] and f32[5,8,5]",
        ),
        (
            (MATRIX, STARTS, xb.f64[5, 8, 6]),
            scattered(SCATTER),
            "updates must be of their operand's type, f32, got f64",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(replace(SCATTER, index_vector_dim=3)),
            ("index_vector_dim must be a dimension of scatter_indices, or its rank: 0 to 2, got 3"),
        ),
        (
            (MATRIX, STARTS, xb.f32[5, 8]),
            scattered(SCATTER),
            (
                "updates must have 3 dimensions: 2 in update_window_dims and 1 from "
                "scatter_indices, got 2"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(replace(SCATTER, update_window_dims=[1, 3])),
            "update_window_dims must be a dimension of updates (0 to 2), got 3",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(replace(SCATTER, update_window_dims=[2, 1])),
            "update_window_dims must be ascending, got 1 after 2 in [2, 1]",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(replace(SCATTER, update_window_dims=[1, 1])),
            "update_window_dims must not name a dimension twice, got 1 twice in [1, 1]",
        ),
        (
            (MATRIX, STARTS, xb.f32[5, 8]),
            scattered(replace(SCATTER, update_window_dims=[1], inserted_window_dims=[2])),
            "inserted_window_dims must be a dimension of operand (0 to 1), got 2",
        ),
        (
            (MATRIX, STARTS, xb.f32[5]),
            scattered(replace(SCATTER, update_window_dims=[], inserted_window_dims=[1, 0])),
            "inserted_window_dims must be ascending, got 0 after 1 in [1, 0]",
        ),
        (
            (MATRIX, STARTS, xb.f32[5]),
            scattered(replace(SCATTER, update_window_dims=[], inserted_window_dims=[0, 0])),
            "inserted_window_dims must not name a dimension twice, got 0 twice",
        ),
        (
            (MATRIX, STARTS, xb.f32[5, 8]),
            scattered(replace(SCATTER, update_window_dims=[1])),
            (
                "update_window_dims, inserted_window_dims and input_batching_dims must together "
                "have one entry for each dimension of operand: 2, got 1, 0 and 0"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(replace(SCATTER, scatter_dims_to_operand_dims=[1])),
            (
                "scatter_dims_to_operand_dims must have one entry for each component of "
                "an index vector: 2, got 1: [1]"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(replace(SCATTER, scatter_dims_to_operand_dims=[0, -1])),
            "scatter_dims_to_operand_dims must be a dimension of operand (0 to 1), got -1",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(replace(SCATTER, scatter_dims_to_operand_dims=[0, 0])),
            "scatter_dims_to_operand_dims must not name a dimension twice, got 0 twice",
        ),
        (
            (MATRIX, STARTS, xb.f32[5, 8, 12]),
            scattered(SCATTER),
            (
                "a window of updates must not be larger than dimension 1 of operand, 11, got 12 "
                "for dimension 2"
            ),
        ),
        (
            (MATRIX, STARTS, xb.f32[6, 8, 6]),
            scattered(SCATTER),
            (
                "updates must have the sizes of scatter_indices outside the window: 5, got 6 for "
                "dimension 0"
            ),
        ),
        (
            (MATRIX, xb.s64[15, 1], xb.f32[15, 2]),
            scattered(SCATTER_BATCHED),
            (
                "batching dimensions must have equal sizes, got dimension 0 of operand "
                "(size 16) and dimension 0 of scatter_indices (size 15)"
            ),
        ),
        (
            (MATRIX, xb.s64[16, 1], xb.f32[16, 2]),
            scattered(replace(SCATTER_BATCHED, scatter_indices_batching_dims=[1])),
            "scatter_indices_batching_dims must not contain index_vector_dim, got 1",
        ),
        (
            (MATRIX, xb.s64[16, 1], xb.f32[16, 2]),
            scattered(replace(SCATTER_BATCHED, scatter_indices_batching_dims=[])),
            (
                "input_batching_dims and scatter_indices_batching_dims must have the same length, "
                "got 1 and 0"
            ),
        ),
        (
            (MATRIX, xb.s64[16, 1], xb.f32[16, 2]),
            scattered(replace(SCATTER_BATCHED, inserted_window_dims=[0])),
            "input_batching_dims and inserted_window_dims must not name the same dimension, got 0",
        ),
        (
            (MATRIX, xb.s64[16, 1], xb.f32[16, 2]),
            scattered(replace(SCATTER_BATCHED, scatter_dims_to_operand_dims=[0])),
            (
                "input_batching_dims and scatter_dims_to_operand_dims must not name the same "
                "dimension, got 0"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter(x, i, u, lambda a, b: a > b, SCATTER),
            (
                "update_computation must be of signature (f32[], f32[]) -> f32[] "
                "(current, update), got (a: f32[], b: f32[]) -> pred[]\n"
                "  operand         f32[16,11]\n"
                "  scatter_indices s64[5,2]\n"
                "  updates         f32[5,8,6]\n"
                "fix: return f32[], the new element"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter([x, x], i, [u, u], lambda a, b, c, d: a, SCATTER),
            (
                "update_computation must be of signature (f32[], f32[], f32[], f32[]) -> "
                "(f32[], f32[]) (current..., updates...), got (a: f32[],"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter(x, i, u, lambda a: a, SCATTER),
            (
                "update_computation is called with 2 arguments (f32[], f32[]), got a callable that "
                "does not take them"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter(x, i, u, None, SCATTER),
            "update_computation must be an XlaComputation or a callable, got None",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter(x, i, 1.0, xb.add, SCATTER),
            "updates must be a sequence of XlaOps, got float: 1.0",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            lambda x, i, u: xb.scatter(x, 3, u, xb.add, SCATTER),
            "scatter_indices must be an XlaOp, got int: 3",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(GATHER),
            "dimension_numbers must be ScatterDimensionNumbers, got GatherDimensionNumbers(",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered({"index_vector_dim": 1}),
            (
                "dimension_numbers must have the fields of ScatterDimensionNumbers, got no "
                "update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims"
            ),
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(SCATTER, indices_are_sorted=None),
            "indices_are_sorted must be True or False, got None",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(SCATTER, unique_indices=0),
            "unique_indices must be True or False, got 0",
        ),
        (
            (MATRIX, STARTS, WINDOWS),
            scattered(fields_of(xb.ScatterDimensionNumbers, [1, 2], [], [0.5, 1], 1)),
            "each entry of scatter_dims_to_operand_dims must be an integer, got 0.5",
        ),
    ],
}


@each_row("op, index", [(op, i) for op, cases in REFUSED.items() for i in range(len(cases))])
def test_refused(op: str, index: int) -> None:
    shapes, call, message = REFUSED[op][index]
    operands = parameters(*shapes)
    builder = operands[0].builder
    with pytest.raises(xb.XlaError) as caught:
        call(*operands)
    assert str(caught.value).startswith(f"{op}: {message}")
    assert caught.value.op == op
    assert len(builder.ops) == len(operands)


def test_wrong_signatures_raise_signature_errors() -> None:
    x, i, u = parameters(MATRIX, STARTS, WINDOWS)
    with pytest.raises(xb.SignatureError):
        xb.scatter(x, i, u, lambda a, b: a > b, SCATTER)


def test_operands_of_another_builder() -> None:
    x, u = parameters(MATRIX, WINDOWS)
    other, start, part, vector = parameters(STARTS, SCALAR, xb.f32[1, 1], xb.s32[2])
    for call in (
        lambda: xb.gather(x, other, GATHER, [8, 6]),
        lambda: xb.scatter(x, other, u, xb.add, SCATTER),
        lambda: xb.dynamic_slice(x, [start, 0], [1, 1]),
        lambda: xb.dynamic_slice(x, vector, [1, 1]),
        lambda: xb.dynamic_update_slice(x, part, [0, 0]),
    ):
        with pytest.raises(xb.BuilderError, match="belong to different builders"):
            call()
    assert len(x.builder.ops) == 2


def test_an_update_computation_does_not_capture() -> None:
    x, i, u = parameters(MATRIX, STARTS, WINDOWS)
    scale = x.builder.constant(2.0, xb.f32)
    with pytest.raises(xb.BuilderError, match="the update_computation of scatter can't use values"):
        xb.scatter(x, i, u, lambda a, v: a + v * scale, SCATTER)
