"""builder.lib.linalg: eigenvalues, by LAPACK and by the portable algorithm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import library_targets, run, run_portable
from matrix_cases import matrices
from tables import each_row

import builder as xb
import lowering
from builder import lib

# Long programs, tested by reconstruction; the other decompositions are optimized.

BOTH = pytest.mark.parametrize("runner", [run, run_portable])


def hermitian(sizes: tuple[int, ...], dtype: Any = np.float32) -> Any:
    a = matrices(sizes, dtype)
    return a + np.conj(a.swapaxes(-1, -2))


def check_eigh(a: Any, vectors: Any, values: Any) -> None:
    """Check a v = v w, v^H v = 1 and w, with errors of some ulps of the norm for each row."""
    *_, n = a.shape
    assert (vectors.shape, vectors.dtype) == (a.shape, a.dtype)
    assert (values.shape, values.dtype) == (a.shape[:-1], a.real.dtype)
    wide = np.result_type(a.dtype, np.float64)
    scale = abs(a).max(initial=1e-300)
    exact, v, w = a.astype(wide) / scale, vectors.astype(wide), values.astype(np.float64) / scale
    limit = 8 * np.sqrt(n) * np.finfo(a.dtype).eps
    norm = np.linalg.norm(exact, axis=(-2, -1))
    assert (np.linalg.norm(exact @ v - v * w[..., None, :], axis=(-2, -1)) <= limit * norm).all()
    assert (abs(np.conj(v.swapaxes(-1, -2)) @ v - np.eye(n)) <= limit).all()
    assert (abs(w - np.linalg.eigvalsh(exact)) <= limit * norm[..., None]).all()
    assert (np.diff(values) >= 0).all()


def decomposed(runner: Callable[..., Any], given: list[Any]) -> Any:
    """Return the eigenvectors and eigenvalues of each array."""
    flat = runner(lambda *all: [part for one in all for part in lib.eigh(one)], *given)
    return [flat[start : start + 2] for start in range(0, len(flat), 2)]


def check(runner: Callable[..., Any], given: list[Any]) -> None:
    for a, result in zip(given, decomposed(runner, given), strict=True):
        check_eigh(a, *result)


def test_by_lapack() -> None:
    types = np.float32, np.float64, np.complex64, np.complex128
    given = [hermitian(sizes, t) for t in types for sizes in ((1, 1), (7, 7), (2, 3, 4, 4))]
    check(run, [*given, hermitian((512, 512)), hermitian((80, 80), np.complex128)])


def test_portable() -> None:
    """Jacobi's method: odd and even sizes, sizes without a pair, and many sweeps."""
    given = [hermitian((2, 7, 7)), hermitian((1, 1)), hermitian((32, 32), np.float64)]
    check(run_portable, [*given, hermitian((2, 2, 5, 5), np.complex64)])


@BOTH
def test_degenerate(runner: Callable[..., Any]) -> None:
    """Repeated, vanishing, graded, huge and tiny eigenvalues."""
    q = np.linalg.qr(matrices((12, 12), np.float64))[0]
    spectra = [np.repeat([1.0, 2, -3], 4), np.repeat([0.0, 1], [9, 3]), 10.0 ** -np.arange(12)]
    given = np.stack([(q * w) @ q.T for w in spectra] + [np.zeros((12, 12)), np.ones((12, 12))])
    given = (given + given.swapaxes(-1, -2)) / 2
    small = hermitian((4, 4), np.float64)
    check(runner, [given, small * 1e-290, small * 1e290, np.diag([3.0, 1, 2])])


@BOTH
def test_empty(runner: Callable[..., Any]) -> None:
    given = [np.zeros(sizes, np.complex64) for sizes in ((0, 0), (3, 0, 0), (2, 0, 3, 3))]
    for a, (vectors, values) in zip(given, decomposed(runner, given), strict=True):
        assert (vectors.shape, values.shape) == (a.shape, a.shape[:-1])
        assert values.dtype == np.float32


@BOTH
def test_nan_and_inf(runner: Callable[..., Any]) -> None:
    """The results for a matrix that is not finite are NaN; those for others are not."""
    a = hermitian((4, 5, 5))
    a[0, 3, 1] = np.nan
    a[1, 2, 2] = np.inf
    a[3, 1, 3] = np.nan  # above the diagonal, which is not read
    vectors, values = runner(lib.eigh, a)
    assert np.isnan(vectors[:2]).all()
    assert np.isnan(values[:2]).all()
    a[3, 1, 3] = a[3, 3, 1]
    check_eigh(a[2:], vectors[2:], values[2:])


@BOTH
def test_triangles(runner: Callable[..., Any]) -> None:
    """One triangle is read, and the real part of the diagonal; `eigvalsh` returns the same."""
    a = matrices((5, 5), np.complex64)

    def function(x: Any) -> Any:
        flags = True, False
        return *(lib.eigh(x, one, False)[1] for one in flags), *(lib.eigvalsh(x, o) for o in flags)

    results = runner(function, a)
    for uplo, *found in zip("LU", results[:2], results[2:], strict=True):
        wanted = np.linalg.eigvalsh(a, uplo)
        for values in found:
            np.testing.assert_allclose(values, wanted, rtol=0, atol=2e-6 * abs(wanted).max())


def test_narrow_types() -> None:
    """Narrow floats are decomposed in f32, and rounded once."""
    exact = np.array([[2, 1], [1, 2]])
    types = [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn]
    given = [exact.astype(t) for t in types]
    for a, (vectors, values) in zip(given, decomposed(run, given), strict=True):
        assert vectors.dtype == values.dtype == a.dtype
        assert np.array_equal(values.astype(float), [1, 3])
        assert np.array_equal(abs(vectors), np.full((2, 2), 0.5**0.5, np.float32).astype(a.dtype))


@each_row(
    "shape, cpu, gpu",
    [
        ("f32[3,3]", "lapack_ssyevd_ffi", "cusolver_syevd_ffi"),
        ("f64[2,3,3]", "lapack_dsyevd_ffi", "cusolver_syevd_ffi"),
        ("c64[3,3]", "lapack_cheevd_ffi", "cusolver_syevd_ffi"),
        ("c128[3,3]", "lapack_zheevd_ffi", "cusolver_syevd_ffi"),
        ("bf16[3,3]", "lapack_ssyevd_ffi", "cusolver_syevd_ffi"),
    ],
)
def test_libraries(shape: str, cpu: str, gpu: str) -> None:
    b = xb.XlaBuilder("recorded")
    x = b.parameter(shape)
    module = lowering.lower(b.build(xb.tuple(*lib.eigh(x), lib.eigvalsh(x))))
    assert library_targets(module, "cpu") == [cpu, cpu]
    assert library_targets(module, "gpu") == [gpu, gpu]


def test_failures_of_lapack_are_nan() -> None:
    """LAPACK's status of a matrix that it cannot decompose makes all results NaN."""
    b = xb.XlaBuilder("recorded")
    shape = xb.f32[2, 3, 3]
    inner = xb.XlaBuilder("inner")
    inner.parameter(shape)
    inside = inner.build(xb.tuple(lib.zeros(inner, shape), lib.zeros(inner, "f32[2,3]")))
    root = xb.composite_call(inside, [b.parameter(shape)], "xlabuilder.eigh", version=1)
    a = hermitian((2, 3, 3))
    a[0] = np.nan
    vectors, values = map(np.asarray, lowering.compile(b.build(root), "cpu")(a))
    assert np.isnan(vectors[0]).all()
    assert np.isnan(values[0]).all()
    check_eigh(a[1], vectors[1], values[1])


def test_files(tmp_path: Path) -> None:
    """A file holds the composites; read again, it has the same results."""
    b = xb.XlaBuilder("recorded")
    x = b.parameter(xb.c64[2, 4, 4])
    module = lowering.lower(b.build(xb.tuple(*lib.eigh(x), lib.eigvalsh(x))))
    (tmp_path / "eigh.artifact").write_bytes(module.artifact())
    loaded = lowering.load(tmp_path / "eigh.artifact")
    assert loaded.text.count("stablehlo.composite") == 2
    a = hermitian((2, 4, 4), np.complex64)
    results = [map(np.asarray, lowering.compile(one, "cpu")(a)) for one in (module, loaded)]
    assert all(map(np.array_equal, *results))


def test_bounded_sizes() -> None:
    """The first eigenvalues, and the bounded vectors, are those of the part within the sizes."""
    b = xb.XlaBuilder("bounded")
    x = b.parameter("f32[<=3,<=5,<=5]")
    results = lib.eigh(x)
    assert [str(one.shape) for one in results] == ["f32[<=3,<=5,<=5]", "f32[3,5]"]
    program = lowering.compile(b.build(xb.tuple(*results)), "cpu")
    a = hermitian((2, 3, 3))
    vectors, values = map(np.asarray, program(a))
    check_eigh(a, vectors, values[:2, :3])


@each_row(
    "shape, message",
    [
        ("f32[3]", "eigh: a must have at least two dimensions, got f32[3]"),
        ("f32[?,3,3]", "eigh: a must not have an unbounded size, got f32[?,3,3]"),
        ("f32[3,4]", "eigh: a must be an array of square matrices, got f32[3,4]"),
        ("s32[3,3]", "eigh: a must be of floating-point or complex type, got s32[3,3]"),
        ("(f32[3,3])", "eigh: a must be an array"),
    ],
)
def test_errors(shape: str, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        lib.eigh(xb.XlaBuilder().parameter(shape))
    assert message in str(caught.value)


def test_flags() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[3, 3])
    for call in (
        lambda: lib.eigh(x, 1),
        lambda: lib.eigh(x, True, None),
        lambda: lib.eigvalsh(x, 0),
    ):
        with pytest.raises(xb.XlaError, match="must be True or False"):
            call()
