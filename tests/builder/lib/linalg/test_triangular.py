"""builder.lib.linalg: LU decompositions, by LAPACK and by the portable algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy
from library_calls import run, run_portable
from matrix_cases import each, matrices, rounding_unit
from tables import each_row

import builder as xb
import lowering
from builder import lib

BOTH = pytest.mark.parametrize("runner", [run, run_portable])


def exchanged(pivots: Any, size: int) -> Any:
    order = np.arange(size)
    for row, pivot in enumerate(pivots):
        order[[row, pivot]] = order[[pivot, row]]
    return order


def check_lu(a: Any, factors: Any, pivots: Any, permutation: Any) -> None:
    """Check P a = L U, up to the bound of the rounding errors in Higham's theorem 9.3."""
    *batch, m, n = a.shape
    k = min(m, n)
    assert (factors.shape, factors.dtype) == (a.shape, a.dtype)
    assert pivots.shape == (*batch, k)
    assert permutation.shape == (*batch, m)
    wide = np.result_type(a.dtype, np.float64)
    unit = rounding_unit(a.dtype)
    for matrix, lu, swaps, order in each(a.astype(wide), factors.astype(wide), pivots, permutation):
        lower, upper = np.tril(lu, -1)[:, :k] + np.eye(m, k), np.triu(lu)[:k]
        assert np.array_equal(order, exchanged(swaps, m))
        error = abs(lower @ upper - matrix[order])
        assert (error <= k * unit * (abs(lower) @ abs(upper))).all()
        assert (abs(lower) <= 1.5).all()


@BOTH
def test_lu(runner: Callable[..., Any]) -> None:
    types = np.float32, np.float64, np.complex64, np.complex128
    shapes = (6, 6), (2, 7, 4), (2, 1, 3, 8), (1, 1)
    given = [matrices(sizes, t) for sizes, t in zip(shapes, types, strict=True)]
    given.append(matrices((140, 132), np.float64))  # more columns than a panel has
    for a, result in zip(given, decomposed(runner, given), strict=True):
        check_lu(a, *result)
        for matrix, pivots in each(a, result[1][..., None]):
            assert np.array_equal(pivots[:, 0], scipy.linalg.lu_factor(matrix)[1])


@BOTH
def test_singular_and_empty(runner: Callable[..., Any]) -> None:
    ranks_1 = np.ones((2, 4, 3), np.float32)
    below = np.triu(matrices((5, 5)), 1)
    given = [np.zeros((3, 4), np.float32), ranks_1, below]
    given += [np.zeros(sizes, np.complex64) for sizes in ((0, 0), (3, 0), (0, 3), (2, 0, 3, 3))]
    for a, result in zip(given, decomposed(runner, given), strict=True):
        check_lu(a, *result)


@BOTH
def test_nan_and_inf(runner: Callable[..., Any]) -> None:
    """A NaN in one matrix spreads to no other, and permutations remain permutations."""
    a = matrices((3, 4, 4))
    a[0, 1, 0] = np.nan
    a[1] = np.nan
    (result,) = decomposed(runner, [a])
    check_lu(a[2:], *(part[2:] for part in result))
    assert np.isnan(result[0][:2]).any(axis=(1, 2)).all()
    assert np.array_equal(np.sort(result[2]), np.tile(np.arange(4), (3, 1)))


def test_other_types() -> None:
    """Narrow floats and integers are decomposed in wider floats, and rounded once."""
    exact = np.array([[4, 2, 8], [2, 5, 4], [1, 2, 3]])
    types = [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, np.int8, np.int64]
    given = [exact.astype(t) for t in types]
    for a, (factors, pivots, _) in zip(given, decomposed(run, given), strict=True):
        want, want_pivots = scipy.linalg.lu_factor(exact.astype(np.float64))
        assert factors.dtype == a.dtype
        assert np.array_equal(factors, want.astype(a.dtype))
        assert np.array_equal(pivots, want_pivots)


def decomposed(runner: Callable[..., Any], given: list[Any]) -> Any:
    """Return the factors, pivots and permutation of each array."""
    flat = runner(lambda *all: [part for one in all for part in lib.lu(one)], *given)
    return [flat[start : start + 3] for start in range(0, len(flat), 3)]


def test_bounded_sizes() -> None:
    """The part beyond the sizes has no influence."""
    b = xb.XlaBuilder("bounded")
    x = b.parameter("f32[<=3,<=5,<=6]")
    program = lowering.compile(b.build(xb.tuple(*lib.lu(x))), "cpu")
    a = matrices((2, 3, 4))
    factors, pivots, permutation = map(np.asarray, program(a))
    assert pivots.shape == (3, 5)
    check_lu(a, factors, pivots[:2, :3], permutation[:2, :3])


@each_row(
    "shape, message",
    [
        ("f32[3]", "lu: a must have at least two dimensions, got f32[3]"),
        ("f32[3,?]", "lu: a must not have an unbounded size, got f32[3,?]"),
        ("(f32[3,3])", "lu: a must be an array"),
    ],
)
def test_errors(shape: str, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        lib.lu(xb.XlaBuilder().parameter(shape))
    assert message in str(caught.value)
