"""builder.lib.linalg: QR decompositions, by LAPACK and by the portable algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy
from library_calls import run, run_portable
from matrix_cases import adjoint, matrices, rounding_unit
from tables import each_row

import builder as xb
import lowering
from builder import lib

BOTH = pytest.mark.parametrize("runner", [run, run_portable])

TYPES = np.float32, np.float64, np.complex64, np.complex128

EMPTY = [np.zeros(sizes, np.complex64) for sizes in ((0, 0), (3, 0), (0, 3), (2, 0, 3, 3))]


def decomposed(runner: Callable[..., Any], function: Any, given: list[Any]) -> Any:
    """Return the two results of a function for each array."""
    flat = runner(lambda *all: [part for one in all for part in function(one)], *given)
    return zip(given, flat[::2], flat[1::2], strict=True)


def check_qr(a: Any, q: Any, r: Any, full_matrices: bool) -> None:
    """Check a = Q R, that Q is orthonormal, and that R is a triangle."""
    *batch, m, n = a.shape
    k = m if full_matrices else min(m, n)
    assert (q.shape, r.shape) == ((*batch, m, k), (*batch, k, n))
    assert q.dtype == r.dtype == a.dtype
    unit, wide = 4 * max(m, n) * rounding_unit(a.dtype), np.result_type(a.dtype, np.float64)
    a, q, r = (one.astype(wide) for one in (a, q, r))
    assert not np.tril(r, -1).any()
    assert (abs(adjoint(q) @ q - np.eye(k)) <= unit).all()
    # Errors are relative to the length of the column.
    assert (abs(q @ r - a) <= unit * np.linalg.norm(a, axis=-2, keepdims=True)).all()


@BOTH
@pytest.mark.parametrize("full_matrices", [False, True])
def test_qr(runner: Callable[..., Any], full_matrices: bool) -> None:
    shapes = (6, 6), (2, 7, 4), (2, 1, 3, 8), (1, 1)
    given = [matrices(sizes, t) for sizes, t in zip(shapes, TYPES, strict=True)]
    given += [matrices((1, 1)), np.zeros((4, 3), np.float32), np.ones((2, 4, 3), np.complex64)]
    for a, q, r in decomposed(
        runner, lambda x: lib.qr(x, full_matrices=full_matrices), [*given, *EMPTY]
    ):
        check_qr(a, q, r, full_matrices)


def test_panels() -> None:
    """More columns than one panel of the portable algorithm has."""
    for a, q, r in decomposed(run_portable, lib.qr, [matrices((135, 140), np.float64)]):
        check_qr(a, q, r, False)


def test_large_matrices() -> None:
    given = [matrices((512, 512)), matrices((512, 300), np.float64), matrices((200, 512))]
    for a, q, r in decomposed(run, lib.qr, given):
        check_qr(a, q, r, False)


@BOTH
def test_extreme_magnitudes(runner: Callable[..., Any]) -> None:
    """Squares of these elements overflow, or are 0."""
    a = matrices((5, 4), np.float64)
    scales, types = (1e37, 1e-30, 1e300, 1e-290), (np.float32, np.float32, np.float64, np.float64)
    given = [(a * scale).astype(t) for scale, t in zip(scales, types, strict=True)]
    for scale, t, result in zip(scales, types, decomposed(runner, lib.qr, given), strict=True):
        one, q, r = result
        check_qr(one / t(scale), q, r / t(scale), False)


@BOTH
def test_factors_are_those_of_lapack(runner: Callable[..., Any]) -> None:
    shapes = (6, 6), (7, 4), (3, 8), (5, 5)
    given = [matrices(sizes, t) for sizes, t in zip(shapes, TYPES, strict=True)]
    for a, factors, taus in decomposed(runner, lib.qr_decomposition, given):
        (want, want_taus), _ = scipy.linalg.qr(a, mode="raw")
        unit = 50 * rounding_unit(a.dtype)
        np.testing.assert_allclose(factors, want, rtol=unit, atol=10 * unit)
        np.testing.assert_allclose(taus, want_taus, rtol=unit, atol=10 * unit)


@BOTH
def test_product_of_reflectors(runner: Callable[..., Any]) -> None:
    """The definition, for vectors and factors that belong to no decomposition."""
    cases = [
        (t, sizes, k) for t in TYPES for sizes, k in (((2, 5, 4), 4), ((5, 4), 2), ((3, 3), 0))
    ]
    given = [(matrices(sizes, t), matrices((*sizes[:-2], k), t)) for t, sizes, k in cases]
    product = lib.product_of_elementary_householder_reflectors
    flat = [one for pair in given for one in pair]
    results = runner(lambda *all: [product(*all[i : i + 2]) for i in range(0, len(all), 2)], *flat)
    for (a, taus), result in zip(given, results, strict=True):
        *batch, m, n = a.shape
        want = np.broadcast_to(np.eye(m), (*batch, m, m))
        for column in range(taus.shape[-1]):
            v = a[..., column : column + 1] * (np.arange(m) > column)[:, None]
            v = v + np.eye(m)[:, column : column + 1]
            want = want @ (np.eye(m) - taus[..., column, None, None] * v @ adjoint(v))
        scale = 200 * rounding_unit(a.dtype) * abs(want).max()
        np.testing.assert_allclose(result, want[..., :n], rtol=0, atol=scale)


def test_other_types() -> None:
    """Narrow floats and integers are decomposed in wider floats, and rounded once."""
    a = np.array([[3, 1], [4, 2]])
    types = [ml_dtypes.bfloat16, np.float16, np.int16, np.uint64]
    want = run(lib.qr, a.astype(np.float64))
    for one, q, r in decomposed(run, lib.qr, [a.astype(t) for t in types]):
        assert q.dtype == r.dtype == one.dtype
        if one.dtype.kind not in "iu":
            assert np.array_equal(q, want[0].astype(one.dtype))
            assert np.array_equal(r, want[1].astype(one.dtype))


@pytest.mark.parametrize("full_matrices", [False, True])
@pytest.mark.parametrize("sizes", [(2, 4, 3), (1, 2, 3), (3, 3, 1)], ids=str)
def test_bounded_sizes(sizes: tuple[int, ...], full_matrices: bool) -> None:
    """The part beyond the sizes has no influence."""
    b = xb.XlaBuilder("bounded")
    x = b.parameter("f32[<=3,<=5,<=4]")
    factors = lib.qr_decomposition(x)
    program = lowering.compile(
        b.build(xb.tuple(*lib.qr(x, full_matrices=full_matrices), *factors)), "cpu"
    )
    a = matrices(sizes)
    count, m, n = sizes
    q, r, packed, taus = map(np.asarray, program(a))
    k = min(m, n)
    assert packed.shape == a.shape
    assert np.array_equal(np.triu(packed)[:, :k], r[:count, :k, :n])
    assert not taus[:count, k:].any()
    check_qr(a, q[:count, :m, :k], r[:count, :k, :n], False)


@each_row(
    "shapes, message",
    [
        (["f32[3]"], "qr: a must have at least two dimensions, got f32[3]"),
        (["f32[3,?]"], "qr: a must not have an unbounded size, got f32[3,?]"),
        (["f32[2,3]", "f32[2]"], "a must not have more columns than rows, got f32[2,3]"),
        (["f32[3,2]", "f64[2]"], "taus must have the type of a, f32, got f64[2]"),
        (["f32[3,2]", "f32[3]"], "taus must have at most 2 elements, and the batch sizes []"),
        (["f32[4,3,2]", "f32[2]"], "the batch sizes [4] of a, got f32[2]"),
        (["f32[4,3,2]", "f32[]"], "the batch sizes [4] of a, got f32[]"),
        (["f32[3,2]", "f32[?]"], "taus must not have an unbounded size"),
    ],
)
def test_errors(shapes: list[str], message: str) -> None:
    b = xb.XlaBuilder()
    function = lib.qr if len(shapes) == 1 else lib.product_of_elementary_householder_reflectors
    with pytest.raises(xb.XlaError) as caught:
        function(*map(b.parameter, shapes))
    assert message in str(caught.value)


def test_full_matrices_is_a_bool() -> None:
    with pytest.raises(xb.XlaError, match="qr: full_matrices must be"):
        lib.qr(xb.XlaBuilder().parameter("f32[2,2]"), 1)
