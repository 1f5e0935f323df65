"""builder.lib.linalg: systems of equations, inverses, determinants, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run, run_portable
from matrix_cases import adjoint, matrices, rounding_unit
from tables import each_row

import builder as xb
from builder import lib

BOTH = pytest.mark.parametrize("runner", [run, run_portable])


def check_solution(a: Any, x: Any, b: Any) -> None:
    """Check that x solves a system whose matrix differs from `a` by rounding errors."""
    assert (x.shape, x.dtype) == ((*a.shape[:-2], a.shape[-1], *b.shape[a.ndim - 1 :]), a.dtype)
    wide = np.result_type(a.dtype, np.float64)
    unit = 20 * a.shape[-1] * rounding_unit(a.dtype)
    a, x, b = (one.astype(wide) for one in (a, x, b))
    if x.ndim < a.ndim:
        x, b = x[..., None], b[..., None]
    norm = np.linalg.norm(a, axis=(-2, -1))[..., None, None]
    length = np.linalg.norm(x, axis=-2, keepdims=True) + np.linalg.norm(b, axis=-2, keepdims=True)
    assert (abs(a @ x - b) <= unit * (norm + 1) * length).all()


@BOTH
@pytest.mark.parametrize("t", [np.float32, np.complex128])
def test_systems(runner: Callable[..., Any], t: Any) -> None:
    a, b, v = matrices((2, 5, 5), t), matrices((2, 5, 3), t), matrices((2, 5), t)
    definite = a @ adjoint(a) + np.eye(5, dtype=t)

    def record(a: xb.XlaOp, b: xb.XlaOp, v: xb.XlaOp, definite: xb.XlaOp) -> list[xb.XlaOp]:
        lower, upper = xb.cholesky(definite), xb.cholesky(definite, False)
        return [
            *(lib.solve(a, b), lib.solve(a, v), lib.inv(a)),
            *(lib.cholesky_solve(lower, b), lib.cholesky_solve(upper, v, False)),
        ]

    solutions = runner(record, a, b, v, definite)
    ones = np.broadcast_to(np.eye(5, dtype=t), a.shape)
    systems = (a, b), (a, v), (a, ones), (definite, b), (definite, v)
    for (matrix, right), x in zip(systems, solutions, strict=True):
        check_solution(matrix, x, right)


def test_large_systems() -> None:
    a, b = matrices((512, 512), np.float64), matrices((512, 7), np.float64)
    check_solution(a, run(lib.solve, a, b), b)


@BOTH
@pytest.mark.parametrize("t", [np.float64, np.complex64])
def test_least_squares(runner: Callable[..., Any], t: Any) -> None:
    """The residual is orthogonal to the columns, and the solution to the null space."""
    tall, right = matrices((2, 6, 3), t), matrices((2, 6), t)
    wide, more = matrices((3, 5), t), matrices((3, 2), t)
    x, y = runner(lambda a, b, c, d: [lib.lstsq(a, b), lib.lstsq(c, d)], tall, right, wide, more)
    want = np.linalg.pinv(tall) @ right[..., None]
    unit = 50 * rounding_unit(t)
    np.testing.assert_allclose(x, want[..., 0], rtol=unit, atol=unit)
    np.testing.assert_allclose(y, np.linalg.pinv(wide) @ more, rtol=unit, atol=unit)
    assert x.dtype == y.dtype == t


@BOTH
@pytest.mark.parametrize("t", [np.float32, np.complex128])
def test_determinants(runner: Callable[..., Any], t: Any) -> None:
    singular = np.ones((3, 3), t)
    odd = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 2]], t)  # one exchange
    a = np.stack([matrices((3, 3), t), singular, odd, -odd])
    empty, large = np.zeros((0, 0), t), 1e30 * matrices((3, 3), t)
    det, sign, log, det_0, sign_0, log_0, sign_1, log_1 = runner(
        lambda a, empty, large: [
            *(lib.det(a), *lib.slogdet(a), lib.det(empty), *lib.slogdet(empty)),
            *lib.slogdet(large),
        ],
        *(a, empty, large),
    )
    unit = 20 * rounding_unit(t)
    wide = a.astype(np.complex128)
    np.testing.assert_allclose(det, np.linalg.det(wide), rtol=unit, atol=unit)
    np.testing.assert_allclose(sign, np.array([*_sign(wide[:1]), 0, -1, 1]), rtol=unit, atol=unit)
    want = np.array([np.linalg.slogdet(wide[0])[1], -np.inf, np.log(2), np.log(2)])
    np.testing.assert_allclose(log, want, rtol=unit, atol=unit)
    assert (det_0, sign_0, log_0) == (1, 1, 0)
    wide = large.astype(np.complex128)
    np.testing.assert_allclose(sign_1, _sign(wide), rtol=unit, atol=unit)
    np.testing.assert_allclose(log_1, np.linalg.slogdet(wide)[1], rtol=unit)
    assert det.dtype == sign.dtype == t
    assert log.dtype == np.finfo(t).dtype


def _sign(a: Any) -> Any:
    return np.linalg.slogdet(a)[0]


def test_logdet() -> None:
    a = np.stack([np.diag([2.0, 3.0]), np.diag([2.0, -3.0]), np.ones((2, 2))])
    np.testing.assert_allclose(run(lib.logdet, a), [np.log(6), np.nan, -np.inf], rtol=1e-15)


def test_singular_systems() -> None:
    """One singular matrix leaves the other solutions of a batch finite."""
    a = np.stack([np.ones((3, 3)), matrices((3, 3), np.float64)])
    b = matrices((2, 3), np.float64)
    x = run(lib.solve, a, b)
    assert not np.isfinite(x[0]).any()
    check_solution(a[1], x[1], b[1])


def test_narrow_floats() -> None:
    """The results are rounded once."""
    a, b = np.array([[3, 1], [4, 2]]), np.array([1, 5])
    for t in (ml_dtypes.bfloat16, np.float16):
        x, determinant = run(lambda a, b: [lib.solve(a, b), lib.det(a)], a.astype(t), b.astype(t))
        assert x.dtype == determinant.dtype == t
        assert np.array_equal(x, np.array([-1.5, 5.5], t))
        assert determinant == 2


@pytest.mark.parametrize("n", [0, 1])
def test_smallest_systems(n: int) -> None:
    a, b, none = np.full((n, n), 2.0), np.ones((n, 3)), np.ones((n, 0))
    results = run(lambda a, b, c: [lib.solve(a, b), lib.inv(a), lib.solve(a, c)], a, b, none)
    for x, right in zip(results, (b, np.eye(n), none), strict=True):
        assert np.array_equal(x, right / 2)


@each_row(
    "function, shapes, message",
    [
        (
            lib.solve,
            ["f32[3,2]", "f32[3]"],
            "solve: a must be square, got f32[3,2]\nfix: use lib.lstsq",
        ),
        (lib.solve, ["f32[3]", "f32[3]"], "a must have at least two dimensions"),
        (lib.solve, ["s32[3,3]", "s32[3]"], "a must be of a floating-point or complex type"),
        (lib.solve, ["f32[3,3]", "f64[3]"], "b must have the type of a, f32, got f64[3]"),
        (lib.solve, ["f32[3,3]", "f32[2]"], "b must be vectors [3] or matrices [3,k], got f32[2]"),
        (lib.solve, ["f32[5,3,3]", "f32[3]"], "b must be vectors [5,3] or matrices [5,3,k]"),
        (lib.solve, ["f32[<=3,3]", "f32[3]"], "a must have fixed sizes, got f32[<=3,3]"),
        (lib.solve, ["f32[3,3]", "f32[3,<=2]"], "b must have fixed sizes, got f32[3,<=2]"),
        (lib.cholesky_solve, ["f32[3,3]", "f64[3]"], "b must have the type of factor, f32"),
        (lib.cholesky_solve, ["f32[2,3]", "f32[2]"], "factor must be square"),
        (lib.lstsq, ["f32[3,2]", "f32[2]"], "b must be vectors [3] or matrices [3,k], got f32[2]"),
        (lib.inv, ["f32[3,2]"], "inv: a must be square, got f32[3,2]\nfix: use lib.pinv"),
        (lib.det, ["pred[2,2]"], "det: a must be of a floating-point or complex type"),
        (lib.logdet, ["c64[2,2]"], "logdet: a must be of a floating-point type, got c64[2,2]"),
        (lib.slogdet, ["f32[?,?]"], "a must not have an unbounded size"),
    ],
)
def test_errors(function: Callable[..., Any], shapes: list[str], message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        function(*map(b.parameter, shapes))
    assert message in str(caught.value)
