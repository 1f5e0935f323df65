"""builder.lib.sorting, compared with NumPy's lexsort and the total order of IEEE 754."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

ORDERED = np.array(
    [-np.nan, -np.inf, -2.5, -1e-40, -0.0, 0.0, 1e-40, 2.5, np.inf, np.nan], np.float32
)


def test_total_order() -> None:
    order = np.random.default_rng(0).permutation(len(ORDERED))
    positions = np.arange(len(ORDERED), dtype=np.int32)

    def record(x: xb.XlaOp, numbers: xb.XlaOp) -> list[xb.XlaOp]:
        types = [x.shape.element_type, numbers.shape.element_type]
        ascending = lib.create_scalar_lt_computation(types)
        descending = lib.create_scalar_gt_computation(types)
        return [xb.sort([x, numbers], order)[1] for order in (ascending, descending)]

    for dtype in (np.float32, np.float64):
        x = ORDERED.astype(dtype)[order]
        ascending, descending = run(record, x, order.astype(np.int32))
        np.testing.assert_array_equal(ascending, positions)
        np.testing.assert_array_equal(descending, positions[::-1])


def test_several_keys() -> None:
    draw = np.random.default_rng(1)
    keys = [draw.integers(0, 3, 200).astype(np.int32) for _ in range(3)]
    keys[1] = keys[1].astype(np.float32)
    numbers = np.arange(200, dtype=np.int32)

    def record(a: xb.XlaOp, b: xb.XlaOp, c: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        types = [op.shape.element_type for op in (a, b, c, n)]
        comparators = [xb.lt, None, xb.gt_total_order, xb.lt]
        order = lib.create_scalar_comparison_computation(
            "by_keys", [types[0], types[3], *types[1:3]], [xb.lt, None, xb.gt_total_order, xb.lt]
        )
        assert order.name == "by_keys"
        assert len(comparators) == len(types)
        return xb.sort([a, n, b, c], order, is_stable=True)[1]

    expected = np.lexsort([numbers, keys[2], -keys[1], keys[0]])
    np.testing.assert_array_equal(run(record, *keys, numbers), expected)


@each_row(
    "call, message",
    [
        (
            lambda: lib.create_scalar_lt_computation([]),
            "must have a type for each operand, got none",
        ),
        (lambda: lib.create_scalar_gt_computation(["f33"]), "create_scalar_gt_.*: operand_types: "),
        (lambda: lib.create_scalar_lt_computation([xb.c64]), "create_scalar_lt_computation: "),
        (
            lambda: lib.create_scalar_comparison_computation("x", [xb.f32], []),
            r"comparators must have a function or None for each operand: 1, got \[\]\nfix: write",
        ),
        (
            lambda: lib.create_scalar_lt_computation(xb.f32),
            r"operand_types must be a list of types, got f32\nfix: write \[xb.f32\]",
        ),
        (
            lambda: lib.create_scalar_comparison_computation("x", [xb.f32], xb.gt),
            "comparators must have a function or None for each operand: 1, got <function",
        ),
        (
            lambda: lib.create_scalar_comparison_computation("x", [xb.f32], [None]),
            r"got \[None\]",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError, match=message):
        call()
