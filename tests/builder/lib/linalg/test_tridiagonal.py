"""builder.lib.linalg: tridiagonal matrices, compared with full matrices of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run, run_portable
from matrix_cases import matrices, rounding_unit
from tables import each_row

import builder as xb
from builder import lib

BOTH = pytest.mark.parametrize("runner", [run, run_portable])


def diagonals(n: int, t: Any) -> list[Any]:
    """Return dominant diagonals of two matrices; the ignored elements are not finite."""
    lower, main, upper = (matrices((2, 1, n), t) for _ in range(3))
    main, upper = main + 8, 2 * upper
    lower[..., 0], upper[..., -1] = np.nan, np.inf
    return [lower, main, upper]


def full(lower: Any, main: Any, upper: Any) -> Any:
    """Return the matrices in double precision."""
    n = main.shape[-1]
    a = np.zeros((2, n, n), np.result_type(main.dtype, np.float64))
    rows = np.arange(n)
    a[:, rows, rows] = main[:, 0]
    a[:, rows[1:], rows[:-1]] = lower[:, 0, 1:]
    a[:, rows[:-1], rows[1:]] = upper[:, 0, :-1]
    return a


@BOTH
@pytest.mark.parametrize("t", [np.float32, np.complex128])
def test_solver(runner: Callable[..., Any], t: Any) -> None:
    sizes = 1, 2, 7
    systems = [(*diagonals(n, t), matrices((2, 3, n), t)) for n in sizes]
    results = runner(
        lambda *all: [lib.tridiagonal_solver(*all[i : i + 4]) for i in range(0, len(all), 4)],
        *(array for system in systems for array in system),
    )
    for (lower, main, upper, rhs), x in zip(systems, results, strict=True):
        want = np.linalg.solve(full(lower, main, upper), np.swapaxes(rhs, 1, 2))
        assert x.dtype == t
        unit = 10 * rounding_unit(t)
        np.testing.assert_allclose(x, np.swapaxes(want, 1, 2), rtol=unit, atol=unit)


@pytest.mark.parametrize("t", [np.float64, np.complex64])
def test_products(t: Any) -> None:
    cases = [(*reversed(diagonals(n, t)), matrices((2, n, 3), t)) for n in (1, 2, 7)]
    results = run(
        lambda *all: [lib.tridiagonal_mat_mul(*all[i : i + 4]) for i in range(0, len(all), 4)],
        *(array for case in cases for array in case),
    )
    for (upper, main, lower, rhs), y in zip(cases, results, strict=True):
        unit = 10 * rounding_unit(t)
        np.testing.assert_allclose(y, full(lower, main, upper) @ rhs, rtol=unit, atol=10 * unit)


def test_special_systems() -> None:
    """A singular matrix, one that needs an exchange of rows, narrow floats, and no elements."""
    ones, rhs = np.ones((1, 2)), np.array([[1.0, 2.0]])
    narrow = [one.astype(ml_dtypes.bfloat16) for one in (ones, 3 * ones, ones, 8 * rhs)]
    empty = np.ones((1, 0))
    solve = lib.tridiagonal_solver
    singular, exchanged, rounded, none, product = run(
        lambda one, zero, b, e, *narrow: [
            *(solve(one, one, one, b), solve(one, zero, one, b), solve(*narrow)),
            *(solve(e, e, e, e), lib.tridiagonal_mat_mul(e, e, e, xb.transpose(e, [1, 0]))),
        ],
        *(ones, 0 * ones, rhs, empty, *narrow),
    )
    assert np.isnan(singular).all()
    assert np.array_equal(exchanged, [[2, 1]])
    assert np.array_equal(rounded, np.array([[1, 5]], ml_dtypes.bfloat16))
    assert none.shape == (1, 0)
    assert product.shape == (0, 1)


@each_row(
    "shapes, message",
    [
        (["f32[8]"] * 4, "rhs must have at least two dimensions, got f32[8]"),
        (["f32[8,1]"] * 3 + ["f32[2,8]"], "lower_diagonal must have the sizes [1, 8]"),
        (["f32[1,8]"] * 2 + ["f64[1,8]", "f32[2,8]"], "upper_diagonal must have the type of rhs"),
        (["s32[1,8]"] * 4, "rhs must be of a floating-point or complex type"),
        (["f32[1,<=8]"] * 4, "rhs must have fixed sizes"),
    ],
)
def test_errors(shapes: list[str], message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        lib.tridiagonal_solver(*map(b.parameter, shapes))
    assert message in str(caught.value)
