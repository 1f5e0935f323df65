"""builder.lib.linalg: singular value decompositions, by LAPACK and by the portable algorithm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import library_targets, run, run_portable
from matrix_cases import matrices
from support import compiled_once
from tables import each_row

import builder as xb
import lowering
from builder import lib

# Long programs, tested by reconstruction; the other decompositions are optimized.

BOTH = pytest.mark.parametrize("runner", [run, run_portable])


def adjoint(a: Any) -> Any:
    return np.conj(a.swapaxes(-1, -2))


def check_svd(a: Any, u: Any, d: Any, v: Any, full_matrices: bool = True) -> None:
    """Check a v = u d, orthonormal u and v, and d, with errors of some ulps of the norm a row."""
    *batch, m, n = a.shape
    k = min(m, n)
    assert u.shape == (*batch, m, m if full_matrices else k)
    assert v.shape == (*batch, n, n if full_matrices else k)
    assert d.shape == (*batch, k)
    assert (u.dtype, d.dtype, v.dtype) == (a.dtype, a.real.dtype, a.dtype)
    wide = np.result_type(a.dtype, np.float64)
    scale = abs(a).max(initial=1e-300)
    exact, values = a.astype(wide) / scale, d.astype(np.float64) / scale
    left, right = u.astype(wide), v.astype(wide)
    limit = 16 * np.sqrt(max(m, n)) * np.finfo(a.dtype).eps
    norm = np.linalg.norm(exact, axis=(-2, -1))
    for unitary in (left, right):
        assert (abs(adjoint(unitary) @ unitary - np.eye(unitary.shape[-1])) <= limit).all()
    error = (left[..., :k] * values[..., None, :]) @ adjoint(right[..., :k]) - exact
    assert (np.linalg.norm(error, axis=(-2, -1)) <= limit * norm).all()
    wanted = np.linalg.svd(exact, compute_uv=False)
    assert (abs(values - wanted) <= limit * norm[..., None]).all()
    assert (d >= 0).all()
    assert (np.diff(d) <= 0).all()


def check(runner: Callable[..., Any], given: list[Any]) -> None:
    """Check full and thin results, and `svdvals`, for each array."""

    def function(*all: Any) -> Any:
        results = []
        for one in all:
            results += [*lib.svd(one), *lib.svd(one, full_matrices=False), lib.svdvals(one)]
        return results

    flat = runner(function, *given)
    for index, a in enumerate(given):
        *both, values = flat[7 * index : 7 * index + 7]
        check_svd(a, *both[:3])
        check_svd(a, *both[3:], full_matrices=False)
        limit = 16 * max(a.shape[-2:]) * np.finfo(a.dtype).eps * both[1].max(initial=1e-300)
        np.testing.assert_allclose(values, both[1], rtol=0, atol=limit)


def test_by_lapack() -> None:
    types = np.float32, np.float64, np.complex64, np.complex128
    given = [matrices(sizes, t) for t in types for sizes in ((7, 7), (2, 6, 3), (2, 1, 3, 5))]
    check(run, [*given, matrices((1, 1))])


def test_large() -> None:
    a = matrices((512, 512))
    check_svd(a, *run(lib.svd, a))
    a = matrices((300, 20), np.complex128)
    check_svd(a, *run(lambda x: lib.svd(x, full_matrices=False), a), full_matrices=False)


@pytest.mark.slow
def test_portable() -> None:
    """Jacobi's method: odd and even sizes, tall and wide, and sizes without a pair."""
    check(run_portable, [matrices((2, 7, 7)), matrices((2, 4, 7), np.complex64)])
    given = [matrices((1, 1)), matrices((3, 1), np.float64), matrices((24, 24), np.float64)]
    for a in given:
        check_svd(a, *run_portable(lib.svd, a))


@BOTH
def test_degenerate(runner: Callable[..., Any]) -> None:
    """Repeated, vanishing, graded, huge and tiny singular values."""
    p, q = (np.linalg.qr(matrices((n, n), np.float64))[0] for n in (12, 8))
    spectra = [np.repeat([2.0, 1], 4), np.repeat([1.0, 0], [3, 5]), 10.0 ** -np.arange(8)]
    given = [(p[:, :8] * d) @ q.T for d in spectra]
    given = np.stack([*given, np.zeros((12, 8)), np.ones((12, 8)), np.eye(12, 8)])
    small = matrices((4, 4), np.float64)
    batches = [given, np.stack([small * 1e-290, small * 1e290])]
    flat = runner(lambda x, y: [*lib.svd(x), *lib.svd(y)], *batches)
    for a, results in zip(batches, (flat[:3], flat[3:]), strict=True):
        for index, matrix in enumerate(a):
            check_svd(matrix, *(one[index] for one in results))


@BOTH
def test_empty(runner: Callable[..., Any]) -> None:
    given = [np.zeros(sizes, np.complex64) for sizes in ((0, 0), (3, 0), (2, 0, 3), (0, 2, 3))]
    check(runner, given)


@BOTH
def test_nan_and_inf(runner: Callable[..., Any]) -> None:
    """The results for a matrix that is not finite are NaN; those for others are not."""
    a = matrices((3, 4, 5), np.complex64)
    a[0, 3, 1] = np.nan
    a[1, 2, 2] = complex(0, np.inf)
    results = runner(lib.svd, a)
    assert all(np.isnan(one[:2]).all() for one in results)
    check_svd(a[2], *(one[2] for one in results))


def test_narrow_types() -> None:
    """Narrow floats are decomposed in f32, and rounded once."""
    exact = np.array([[3, 0], [0, -4]])
    for kind in (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2):
        u, d, v = run(lib.svd, exact.astype(kind))
        assert u.dtype == d.dtype == v.dtype == kind
        assert np.array_equal(d.astype(float), [4, 3])
        product = u.astype(float) * d.astype(float) @ v.astype(float).T
        assert np.array_equal(product, exact)


def test_bounded_sizes() -> None:
    """Elements beyond the sizes count as zeros; the first results are those of the part within."""
    b = xb.XlaBuilder("bounded")
    x = b.parameter("f32[<=3,<=5,<=6]")
    results = *lib.svd(x), lib.svdvals(x)
    shapes = ["f32[<=3,5,<=5]", "f32[<=3,<=5]", "f32[<=3,6,<=6]", "f32[<=3,<=5]"]
    assert [str(one.shape) for one in results] == shapes
    thin = lib.svd(x, full_matrices=False)
    assert [str(one.shape) for one in thin] == [*shapes[:2], "f32[<=3,6,<=5]"]
    program = lowering.compile(b.build(xb.tuple(*results)), "cpu")
    a = matrices((2, 3, 4))
    u, d, v, values = map(np.asarray, program(a))
    check_svd(a, u[:, :3, :3], d, v[:, :4, :4][:, :, :3], full_matrices=False)
    np.testing.assert_allclose(values, d, rtol=1e-5)


@pytest.mark.parametrize(
    ("element_type", "letter"), [("f32", "s"), ("f64", "d"), ("c64", "c"), ("c128", "z")]
)
def test_libraries(element_type: str, letter: str, tmp_path: Path) -> None:
    """Files hold the composites, and give the same results when read again."""
    b = xb.XlaBuilder("recorded")
    x = b.parameter(f"{element_type}[2,3,4]")
    results = *lib.svd(x), *lib.svd(x, full_matrices=False), lib.svdvals(x)
    module = lowering.lower(b.build(xb.tuple(*results)))
    (tmp_path / "svd.artifact").write_bytes(module.artifact())
    loaded = lowering.load(tmp_path / "svd.artifact")
    for one in (module, loaded):  # the decompositions, which have calls as well, follow
        assert library_targets(one, "cpu")[:3] == [f"lapack_{letter}gesdd_ffi"] * 3
        assert library_targets(one, "gpu")[:3] == ["cusolver_gesvd_ffi"] * 3
        assert library_targets(one, "tpu")[:3] == ["composite"] * 3
    a = matrices((2, 3, 4), xb.as_primitive_type(element_type).dtype)
    with compiled_once():
        both = [map(np.asarray, lowering.compile(one, "cpu")(a)) for one in (module, loaded)]
    assert all(map(np.array_equal, *both))


@each_row(
    "shape, message",
    [
        ("f32[3]", "svd: a must have at least two dimensions, got f32[3]"),
        ("f32[?,3,3]", "svd: a must not have an unbounded size, got f32[?,3,3]"),
        ("s32[3,3]", "svd: a must be of floating-point or complex type, got s32[3,3]"),
        ("(f32[3,3])", "svd: a must be an array"),
    ],
)
def test_errors(shape: str, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        lib.svd(xb.XlaBuilder().parameter(shape))
    assert message in str(caught.value)


def test_flag() -> None:
    with pytest.raises(xb.XlaError, match="svd: full_matrices must be True or False, got 1"):
        lib.svd(xb.XlaBuilder().parameter(xb.f32[3, 3]), full_matrices=1)  # type: ignore[arg-type]
