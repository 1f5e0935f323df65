"""builder.lib.sorting, compared with NumPy and with xb.top_k."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

DESCENDING = lib.create_scalar_gt_computation([xb.f32, xb.s32])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, ml_dtypes.bfloat16])
def test_argsort(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(-5, 5, (3, 40, 2)).astype(dtype)
    last, middle, down, empty = run(
        lambda x: (
            lib.argsort(x),
            lib.argsort(x, 1),
            lib.argsort(x, axis=-2, descending=True),
            lib.argsort(x[:, :0], 1),
        ),
        x,
    )
    keys = x.astype(np.float32)
    np.testing.assert_array_equal(last, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(middle, np.argsort(keys, axis=1, kind="stable"))
    np.testing.assert_array_equal(down, np.argsort(-keys, axis=1, kind="stable"))
    assert empty.shape == (3, 0, 2)


def test_argsort_of_complex_numbers() -> None:
    x = np.array([2 + 1j, 1 + 5j, 2 - 1j, 1 - 5j], np.complex64)
    np.testing.assert_array_equal(run(lib.argsort, x), [3, 1, 2, 0])


PARTITIONS = [
    *((5, 7), (90, 11)),  # the last part is smaller; and smaller than k
    *((5, 8), (5, 1), (5, 17), (100, 10), (101, 10), (1, 1003), (0, 4)),
]


@pytest.mark.parametrize(
    ("dtype", "cases"),
    [(np.float32, PARTITIONS), (np.int16, PARTITIONS[:2]), (ml_dtypes.bfloat16, PARTITIONS[:1])],
)
def test_partitions(dtype: Any, cases: list[tuple[int, int]]) -> None:
    """Equal elements keep their order, also those of different partitions."""
    x = np.random.default_rng(1).integers(-40, 40, (3, 1003)).astype(dtype)

    def record(x: xb.XlaOp) -> list[xb.XlaOp]:
        results = [lib.top_k_with_partitions(x, k, n) for k, n in cases]
        results.append(lib.top_k_with_partitions(x[0], 7, 100, xb.u64))
        results.append(lib.top_k_with_partitions(x[1:, :255], 7, 4, xb.u8))
        return [part for result in results for part in result]

    results = iter(run(record, x))
    for array, k, kind in [
        *[(x, k, np.int32) for k, _ in cases],
        (x[0], 7, np.uint64),
        (x[1:, :255], 7, np.uint8),
    ]:
        indices = np.argsort(-array.astype(np.float32), axis=-1, kind="stable")[..., :k]
        np.testing.assert_array_equal(next(results), np.take_along_axis(array, indices, -1))
        np.testing.assert_array_equal(next(results), indices.astype(kind), strict=True)


def scores_and_indices(x: xb.XlaOp, dimension: int) -> list[xb.XlaOp]:
    return [x, x.builder.iota(xb.s32[x.shape.dimensions], dimension)]


def last(b: xb.XlaBuilder) -> list[xb.XlaOp]:
    return [lib.min_value(b, xb.f32), b.constant(-1, xb.s32)]


def test_windows() -> None:
    """Without aggregation, the result has the greatest element of each window and its index."""
    draw = np.random.default_rng(2)
    vector, matrix = draw.normal(size=5000), draw.normal(size=(3, 900, 2))
    vector, matrix = vector.astype(np.float32), matrix.astype(np.float32)

    def record(vector: xb.XlaOp, matrix: xb.XlaOp) -> list[xb.XlaOp]:
        results = []
        for x, dimension in ((vector, 0), (matrix, 1)):
            for operands in (scores_and_indices(x, dimension), [x]):
                order = DESCENDING if len(operands) == 2 else lambda a, b: a > b
                results.append(
                    lib.approx_top_k(
                        operands,
                        last(x.builder)[: len(operands)],
                        *(10, dimension, order, 0.9, False),
                    )
                )
        return [part for result in results for part in result]

    results = iter(run(record, vector, matrix))
    for x, tile, window in ((vector[None, :, None], 1024, 4), (matrix, 128, 4)):
        outer, size, inner = x.shape
        tiles = -(-size // (tile * window))
        padded = np.full((outer, tiles * window * tile, inner), -np.inf, np.float32)
        padded[:, :size] = x
        numbers = np.full(padded.shape, -1)
        numbers[:, :size] = np.arange(size)[None, :, None]
        parts = padded.reshape(outer, tiles, window, tile, inner)
        chosen = parts.argmax(2)[:, :, None]
        values = parts.max(2).reshape(outer, -1, inner)
        numbers = np.take_along_axis(numbers.reshape(parts.shape), chosen, 2).reshape(values.shape)
        expected = xb_size(size, 1 if x.shape[0] == 1 else 3)
        assert values.shape[1] == expected
        for part in (values, numbers, values):
            np.testing.assert_array_equal(next(results).reshape(values.shape), part)


def xb_size(size: int, rank: int) -> int:
    return lib.approx_top_k_reduction_output_size(size, rank, 10, 0.9, False)[0]


def test_recall_and_order() -> None:
    """The recall is at least 0.8 on average, the results are in order, and the indices belong."""
    x = np.random.default_rng(3).normal(size=(64, 20_000)).astype(np.float32)

    def record(x: xb.XlaOp) -> list[xb.XlaOp]:
        results = []
        for k, function in ((20, lib.approx_top_k), (20, lib.approx_top_k_fallback)):
            inits = last(x.builder)
            results.extend(function(scores_and_indices(x, 1), inits, k, 1, DESCENDING, 0.8))
        for function in (lib.approx_top_k, lib.approx_top_k_fallback):
            results.extend(function(scores_and_indices(x, 1), last(x.builder), 1, 1, DESCENDING))
        return results

    approximate, indices, exact, exact_indices, *greatest = run(record, x)
    size, log2_window = lib.approx_top_k_reduction_output_size(20_000, 2, 20, 0.8, False)
    assert (size, log2_window) == (256, 7)
    order = np.argsort(-x, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(exact_indices, order)
    np.testing.assert_array_equal(exact, np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(approximate, np.take_along_axis(x, indices, 1))
    assert (np.diff(approximate) <= 0).all()
    found = np.mean([len({*a} & {*b}) for a, b in zip(indices, order, strict=True)]) / 20
    assert 0.8 <= found < 1
    for values in greatest[::2]:
        np.testing.assert_array_equal(values, exact[:, :1])
    for numbers in greatest[1::2]:
        np.testing.assert_array_equal(numbers, order[:, :1])


def test_an_operand_that_is_a_part_is_reduced_further() -> None:
    size = lib.approx_top_k_reduction_output_size
    assert size(1000, 3, 100, 0.99, False, 1_000_000) == (128, 3)
    assert size(1024, 3, 2, 0.8, False, 5000) == (128, 3)
    assert size(4096, 2, 100, 0.5, False) == (256, 4)
    assert size(4096, 2, 1, 0.5, False) == (128, 5)


@each_row(
    "call, message",
    [
        (
            lambda b, x: lib.argsort(b.parameter("f32[<=4]")),
            "argsort: x must not have bounded sizes",
        ),
        (lambda b, x: lib.argsort(x, 2), "argsort: axis must be a dimension"),
        (lambda b, x: lib.argsort(xb.complex(x, x), descending=True), "in ascending order only"),
        (
            lambda b, x: lib.top_k_with_partitions(x, 2, 0),
            "num_partitions must be at least 1, got 0",
        ),
        (lambda b, x: lib.top_k_with_partitions(x, 9, 4), "top_k_with_partitions: top_k: k must"),
        (
            lambda b, x: lib.top_k_with_partitions(x, 1, 2, xb.f32),
            "must be an integer type, got f32",
        ),
        (
            lambda b, x: lib.top_k_with_partitions(b.parameter(xb.f32[300]), 1, 2, xb.s8),
            "element_type must represent the index 299, got s8",
        ),
        (
            lambda b, x: lib.top_k_with_partitions(b.parameter("f32[<=300]"), 1, 2),
            "dimension 0 of x must have a fixed size",
        ),
        (
            lambda b, x: lib.approx_top_k([x], [], 1, 1, DESCENDING),
            "one init value for each operand, got 1 and 0",
        ),
        (
            lambda b, x: lib.approx_top_k([x], last(b)[:1], 1, 1, lambda p, q: p > q),
            "aggregate_to_topk requires at least two operands.*\nfix: add the indices",
        ),
        (
            lambda b, x: lib.approx_top_k(scores_and_indices(x, 1), last(b), 1, 2, DESCENDING),
            "approx_top_k: axis must be a dimension",
        ),
        (
            lambda b, x: lib.approx_top_k([x, x], last(b), 1, 1, DESCENDING),
            r"init value 1 must be of operand 1's element type, f32, got s32\[\]",
        ),
        (
            lambda b, x: lib.approx_top_k([x, x[:, 1:]], last(b), 1, 1, DESCENDING),
            "the operands must have the same sizes",
        ),
        (
            lambda b, x: lib.approx_top_k(scores_and_indices(x, 1), last(b), 1, 1, lambda *p: p[0]),
            r"comparator must be of signature \(f32\[\], f32\[\], s32\[\], s32\[\]\) -> pred\[\]",
        ),
        (
            lambda b, x: lib.approx_top_k(scores_and_indices(x, 1), last(b), 9, 1, DESCENDING),
            "approx_top_k: slice_in_dim: a limit index must be at most the size",
        ),
        (
            lambda b, x: lib.approx_top_k(
                [b.parameter("f32[2000]")],
                [b.constant(0.0, xb.f32)],
                *(5, 0, lambda p, q: p > q, 1.5, False),
            ),
            "recall_target must be above 0 and at most 1, got 1.5",
        ),
        (
            lambda b, x: lib.approx_top_k(
                [b.parameter("f32[<=9000]")],
                [b.constant(0.0, xb.f32)],
                *(5, 0, lambda p, q: p > q, 0.5, False),
            ),
            "dimension 0 of operand 0 must have a fixed size",
        ),
        (
            lambda b, x: lib.approx_top_k(
                [b.parameter("f32[?]")],
                [b.constant(0.0, xb.f32)],
                *(5, 0, lambda p, q: p > q, 0.5, False),
            ),
            "axis must be a dimension of fixed or bounded size",
        ),
        (
            lambda b, x: lib.approx_top_k_reduction_output_size(9, 1, 1, "a", False),
            "recall_target must be a number, got 'a'",
        ),
        (
            lambda b, x: lib.approx_top_k_reduction_output_size(9000, 1, 1, 0.9, False, 5),
            "input_size_override must be negative or at least the size, 9000, got 5",
        ),
        (
            lambda b, x: lib.approx_top_k_reduction_output_size(-1, 1, 1, 0.9, False),
            "input_size must not be negative, got -1",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError, match=message):
        call(b, b.parameter(xb.f32[4, 8]))


def test_the_size_of_a_reduction_of_nothing() -> None:
    assert lib.approx_top_k_reduction_output_size(0, 1, 1, 0.95, False) == (0, 0)
    with pytest.raises(xb.XlaError, match="input_size must not be negative, got -1"):
        lib.approx_top_k_reduction_output_size(-1, 1, 1, 0.95, False)


def test_the_recall_of_the_fallback_is_checked() -> None:
    b = xb.XlaBuilder("program")
    x, i = b.parameter(xb.f32[9], "x"), b.parameter(xb.s32[9], "i")
    inits = [b.constant(0.0, xb.f32), b.constant(0, xb.s32)]
    wrong: Any = "high"
    with pytest.raises(xb.OperandError, match="recall_target must be"):
        lib.approx_top_k_fallback([x, i], inits, 2, 0, lambda a, c, *_: a > c, wrong)
