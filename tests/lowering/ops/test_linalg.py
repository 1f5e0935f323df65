"""Linear algebra and Fourier transforms executed on CPU, compared with NumPy and SciPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy
from support import parameter_like, run
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType

FLOATS = [t for t in ALL if t.is_floating]
COMPLEXES = [t for t in ALL if t.is_complex]
MATRICES = [t for t in FLOATS + COMPLEXES if t is not xb.f8e8m0fnu]
NO = xb.Transpose.NO_TRANSPOSE

# The unit roundoff of each type; tolerances are small multiples of it.
STEP = {xb.bf16: 2**-8, xb.f16: 2**-11, xb.f32: 2**-24, xb.f64: 2**-53}
STEP |= {xb.c64: STEP[xb.f32], xb.c128: STEP[xb.f64]}


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def numbers(t: PrimitiveType, *shape: int, seed: int = 1) -> np.ndarray:
    """Return random numbers from -1 to 1."""
    rng = np.random.default_rng(seed)
    x: Any = rng.uniform(-1, 1, shape)
    if t.is_complex:
        x = x + 1j * rng.uniform(-1, 1, shape)
    return x.astype(t.dtype)


def positive_definite(t: PrimitiveType, *shape: int) -> np.ndarray:
    m = wide(numbers(t, *shape))
    product = m @ m.conj().swapaxes(-1, -2) / max(shape[-1], 1)
    return (product + np.eye(shape[-1])).astype(t.dtype)


def one_triangle(a: np.ndarray, lower: bool, unit_diagonal: bool = False) -> np.ndarray:
    """Set the elements that must not be read to NaN (or another value in types without NaN)."""
    n = a.shape[-1]
    other = np.ones((n, n), bool)
    other = np.triu(other, not unit_diagonal) if lower else np.tril(other, unit_diagonal - 1)
    spoilt = a.copy()
    spoilt[..., other] = np.array(np.nan).astype(a.dtype)
    return spoilt


def cholesky_of(a: np.ndarray, lower: bool) -> np.ndarray:
    """Decompose each matrix by SciPy in double precision."""
    result = np.empty(a.shape, wide(a).dtype)
    for place in np.ndindex(a.shape[:-2]):
        whole = wide(a)[place]
        result[place] = scipy.linalg.cholesky(whole, lower=lower) if whole.size else whole
    return result


def assert_near(got: np.ndarray, want: np.ndarray, steps: float) -> None:
    """Assert that results differ by at most `steps` roundings of the largest magnitude."""
    assert got.shape == want.shape
    if got.size:
        step = STEP[xb.as_primitive_type(got.dtype)]
        error = np.abs(wide(got) - want).max()
        assert error <= steps * step * np.abs(want).max()


def assert_rounded(got: np.ndarray, want: np.ndarray, steps: float) -> None:
    """`assert_near`; types of up to 8 bits are computed in f32, and must be rounded correctly."""
    if got.dtype.itemsize > 1:
        assert_near(got, want, steps)
    else:
        assert np.array_equal(wide(got), wide(want.astype(got.dtype)))


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_of_every_type(lower: bool) -> None:
    b = xb.XlaBuilder("cholesky")
    matrices, results = [], []
    for t in MATRICES:
        a = positive_definite(t, 2, 3, 3)
        matrices.append(a)
        results.append(xb.cholesky(parameter_like(b, a), lower))
    spoilt = [one_triangle(a, lower) for a in matrices]
    for a, got in zip(matrices, run(b.build(xb.tuple(*results)), *spoilt), strict=True):
        assert got.dtype == a.dtype
        other = np.triu(np.ones((3, 3), bool), 1)
        triangle = np.where(other if lower else other.T, np.zeros((), got.dtype), got)
        assert_rounded(triangle, cholesky_of(a, lower), 4)


def test_cholesky_of_powers_of_two() -> None:
    """f8e8m0fnu has no zero, so its matrices have one element."""
    b = xb.XlaBuilder("powers")
    x = np.array([4, 1, 2.0**-100, 2.0**60]).astype(xb.f8e8m0fnu.dtype).reshape(4, 1, 1)
    got = run(b.build(xb.cholesky(parameter_like(b, x))), x)
    assert wide(got).ravel().tolist() == [2, 1, 2.0**-50, 2.0**30]


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 5, 5), (1, 1), (2, 3, 2, 2), (200, 200)])
def test_cholesky_shapes(shape: tuple[int, ...]) -> None:
    b = xb.XlaBuilder("shapes")
    a = positive_definite(xb.f64, *shape)
    x = parameter_like(b, a)
    lower, upper = run(b.build(xb.tuple(xb.cholesky(x), xb.cholesky(x, False))), a)
    assert_near(np.tril(lower), cholesky_of(a, True), 8)
    assert_near(np.triu(upper), cholesky_of(a, False), 8)


def test_a_matrix_that_is_not_positive_definite_gives_nan() -> None:
    b = xb.XlaBuilder("indefinite")
    x = b.parameter(xb.f32[2, 2, 2])
    a = np.array([[[4, 2], [2, 5]], [[1, 2], [2, 1]]], np.float32)
    good, bad = run(b.build(xb.cholesky(x)), a)
    assert np.tril(good).tolist() == [[2, 0], [1, 2]]
    assert np.isnan(bad).all()


OPTIONS = list(itertools.product((True, False), (True, False), (True, False), xb.Transpose))


def solution(
    a: np.ndarray,
    b: np.ndarray,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: xb.Transpose,
) -> np.ndarray:
    """Solve each system by SciPy in double precision; x op(a) = b is solved transposed."""
    result = np.empty(b.shape, wide(b).dtype)
    trans = list(xb.Transpose).index(transpose_a)
    for place in np.ndindex(a.shape[:-2]):
        matrix, right = wide(a)[place], wide(b)[place]
        if not right.size:
            continue
        options = {"lower": lower, "unit_diagonal": unit_diagonal, "check_finite": False}
        if left_side:
            solved = scipy.linalg.solve_triangular(matrix, right, trans=trans, **options)
        elif transpose_a is xb.Transpose.ADJOINT:
            solved = scipy.linalg.solve_triangular(matrix.conj(), right.T, **options).T
        else:
            solved = scipy.linalg.solve_triangular(matrix, right.T, trans=1 - trans, **options).T
        result[place] = solved
    return result


def triangular(t: PrimitiveType, *shape: int) -> np.ndarray:
    """Return matrices whose triangles are both well-conditioned."""
    n = shape[-1]
    return (wide(numbers(t, *shape)) / (2 * max(n, 1)) + 1.5 * np.eye(n)).astype(t.dtype)


@pytest.mark.parametrize("t", [xb.f32, xb.c128], ids=str)
def test_triangular_solve_with_all_options(t: PrimitiveType) -> None:
    b = xb.XlaBuilder("every_way")
    a, left, right = triangular(t, 2, 4, 4), numbers(t, 2, 4, 3), numbers(t, 2, 3, 4)
    sides = {True: (left, parameter_like(b, left)), False: (right, parameter_like(b, right))}
    arguments, matrices = [left, right], {}
    for lower, unit in itertools.product((True, False), repeat=2):
        arguments.append(one_triangle(a, lower, unit))
        matrices[lower, unit] = arguments[-1], parameter_like(b, arguments[-1])
    results = [
        xb.triangular_solve(matrices[lower, unit][1], sides[side][1], side, lower, unit, transpose)
        for side, lower, unit, transpose in OPTIONS
    ]
    assert len(results) == 24
    got = run(b.build(xb.tuple(*results)), *arguments)
    for one, (side, lower, unit, transpose) in zip(got, OPTIONS, strict=True):
        want = solution(matrices[lower, unit][0], sides[side][0], side, lower, unit, transpose)
        assert_near(one, want, 8)


def test_triangular_solve_of_every_type() -> None:
    b = xb.XlaBuilder("types")
    pairs, results, ways = [], [], []
    for t, way in zip(MATRICES, itertools.cycle(OPTIONS[5::7]), strict=False):
        side, lower, unit, transpose = way
        a, right = triangular(t, 2, 3, 3), numbers(t, 2, *((3, 2) if side else (2, 3)))
        pairs += [one_triangle(a, lower, unit), right]
        x, y = (parameter_like(b, p) for p in pairs[-2:])
        results.append(xb.triangular_solve(x, y, side, lower, unit, transpose))
        ways.append(way)
    for number, got in enumerate(run(b.build(xb.tuple(*results)), *pairs)):
        a, right = pairs[2 * number : 2 * number + 2]
        assert got.dtype == right.dtype
        assert_rounded(got, solution(a, right, *ways[number]), 8)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0, 0), (0, 2)),
        ((3, 3), (3, 0)),
        ((0, 3, 3), (0, 3, 2)),
        ((1, 1), (1, 1)),
        ((2, 3, 2, 2), (2, 3, 2, 1)),
        ((200, 200), (200, 3)),
    ],
)
def test_triangular_solve_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    builder = xb.XlaBuilder("shapes")
    matrix, right = triangular(xb.f64, *a), numbers(xb.f64, *b)
    x, y = parameter_like(builder, matrix), parameter_like(builder, right)
    got = run(builder.build(xb.triangular_solve(x, y, True, False, False, NO)), matrix, right)
    assert_near(got, solution(matrix, right, True, False, False, NO), 16)


def test_a_system_solved_by_cholesky_and_triangular_solve() -> None:
    """Solve a x = b by a = l l^H."""
    b = xb.XlaBuilder("system")
    a, right = positive_definite(xb.c128, 6, 6), numbers(xb.c128, 6, 2, seed=2)
    x, y = parameter_like(b, a), parameter_like(b, right)
    factor = xb.cholesky(x)
    half = xb.triangular_solve(factor, y, True, True, False, NO)
    root = xb.triangular_solve(factor, half, True, True, False, xb.Transpose.ADJOINT)
    assert_near(run(b.build(root), a, right), np.linalg.solve(a, right), 64)


class TestBoundedSizes:
    """Matrices smaller than their bounds: elements beyond the sizes do not affect results."""

    def test_cholesky(self) -> None:
        b = xb.XlaBuilder("bounded")
        x, n = b.parameter(xb.f64[2, 4, 4]), b.parameter(xb.s32[()])
        a = positive_definite(xb.f64, 2, 4, 4)
        want = cholesky_of(a[:, :3, :3], True)
        a[:, 3], a[:, :, 3] = -100, np.nan
        small = xb.set_dimension_size(xb.set_dimension_size(x, n, 1), n, 2)
        (got,) = run(b.build(xb.tuple(xb.cholesky(small))), a, np.int32(3))
        assert_near(np.tril(got), want, 8)

    def test_cholesky_of_a_bounded_batch(self) -> None:
        b = xb.XlaBuilder("batch")
        x, n = b.parameter(xb.f32[3, 2, 2]), b.parameter(xb.s32[()])
        a = positive_definite(xb.f32, 3, 2, 2)
        got = run(b.build(xb.cholesky(xb.set_dimension_size(x, n, 0), False)), a, np.int32(2))
        assert_near(np.triu(got), cholesky_of(a[:2], False), 4)

    @pytest.mark.parametrize("left_side", [True, False])
    def test_triangular_solve(self, left_side: bool) -> None:
        b = xb.XlaBuilder("bounded")
        x, y, n = b.parameter(xb.f64[4, 4]), b.parameter(xb.f64[4, 4]), b.parameter(xb.s32[()])
        a, right = triangular(xb.f64, 4, 4), numbers(xb.f64, 4, 4)
        part = right[:3] if left_side else right[:, :3]
        want = solution(a[:3, :3], part, left_side, False, False, NO)
        a[3], a[:, 3] = np.nan, np.inf
        part = right[3:] if left_side else right[:, 3:]
        part[:] = np.nan
        matrix = xb.set_dimension_size(xb.set_dimension_size(x, n, 0), n, 1)
        vectors = xb.set_dimension_size(y, n, 0 if left_side else 1)
        root = xb.triangular_solve(matrix, vectors, left_side, False, False, NO)
        got = run(b.build(root), a, right, np.int32(3))
        assert_near(got, want, 8)

    def test_fft(self) -> None:
        b = xb.XlaBuilder("bounded")
        x, n = b.parameter(xb.f32[3, 6]), b.parameter(xb.s32[()])
        a = numbers(xb.f32, 3, 6)
        got = run(b.build(xb.fft(xb.set_dimension_size(x, n, 0), "RFFT", [6])), a, np.int32(2))
        assert_near(got, scipy.fft.rfft(wide(a[:2])), 8)

    def test_transformed_dimensions_must_have_fixed_sizes(self) -> None:
        b = xb.XlaBuilder("bounded")
        x, n = b.parameter(xb.c64[3, 6]), b.parameter(xb.s32[()])
        root = xb.fft(xb.set_dimension_size(x, n, 1), "FFT", [6])
        with pytest.raises(lowering.CompileError, match="fft_length must equal the sizes of the"):
            lowering.compile(b.build(root))


def along_each(x: np.ndarray, count: int, inverse: bool) -> np.ndarray:
    """Transform along each of the last dimensions, the last one first, as documented."""
    for axis in range(x.ndim - 1, x.ndim - 1 - count, -1):
        x = (scipy.fft.ifft if inverse else scipy.fft.fft)(x, axis=axis)
    return x


SHAPES = [(8,), (1,), (3, 5), (2, 4, 6, 7), (2, 3, 4), (1, 1, 2), (0, 4), (4, 0), (0,), (10007,)]


@pytest.mark.parametrize("t", COMPLEXES, ids=str)
def test_fft_and_its_inverse(t: PrimitiveType) -> None:
    b = xb.XlaBuilder("fft")
    results, arguments, expected = [], [], []
    for shape in SHAPES:
        x = numbers(t, *shape)
        arguments.append(x)
        operand = parameter_like(b, x)
        for count, kind in itertools.product((1, 2, 3), ("FFT", "IFFT")):
            if count <= x.ndim:
                results.append(xb.fft(operand, kind, shape[-count:]))
                expected.append(along_each(wide(x), count, kind == "IFFT") if x.size else wide(x))
    for got, want in zip(run(b.build(xb.tuple(*results)), *arguments), expected, strict=True):
        assert got.dtype == t.dtype
        assert_near(got, want, 16)


@pytest.mark.parametrize("t", [xb.f32, xb.f64], ids=str)
def test_rfft_and_its_inverse(t: PrimitiveType) -> None:
    b = xb.XlaBuilder("rfft")
    results, arguments, expected, originals = [], [], [], []
    for shape in SHAPES:
        x = numbers(t, *shape)
        arguments.append(x)
        operand = parameter_like(b, x)
        for count in (1, 2, 3):
            if count > x.ndim:
                continue
            halved = xb.fft(operand, "RFFT", shape[-count:])
            results += [halved, xb.fft(halved, "IRFFT", shape[-count:])]
            want: Any = np.empty(halved.shape.dimensions, complex)
            if x.size:
                # A real transform of the last dimension, then complex ones of the others.
                want = scipy.fft.rfft(wide(x))
                for axis in range(x.ndim - 2, x.ndim - 1 - count, -1):
                    want = scipy.fft.fft(want, axis=axis)
            expected.append(want)
            originals.append(wide(x))
    got = run(b.build(xb.tuple(*results)), *arguments)
    for halved, back, want, original in zip(got[::2], got[1::2], expected, originals, strict=True):
        assert_near(halved, want, 16)
        assert back.dtype == t.dtype
        assert_near(back, original, 32)


def test_irfft_of_operands_without_symmetry() -> None:
    """For both possible lengths, and operands that are not transforms of real numbers."""
    b = xb.XlaBuilder("irfft")
    x = numbers(xb.c128, 3, 4)
    operand = parameter_like(b, x)
    lengths = [[6], [7], [3, 6], [3, 7]]
    results = [xb.fft(operand, "IRFFT", length) for length in lengths]
    for got, length in zip(run(b.build(xb.tuple(*results)), x), lengths, strict=True):
        axes = tuple(range(-len(length), 0))
        assert_near(got, scipy.fft.irfftn(x, length, axes), 16)


def test_irfft_of_length_0() -> None:
    b = xb.XlaBuilder("nothing")
    x = numbers(xb.c64, 3, 1)
    assert run(b.build(xb.fft(parameter_like(b, x), "IRFFT", [0])), x).shape == (3, 0)


@each_row(
    "shape, fft_type, fft_length",
    [
        (xb.c64[8], "FFT", [7]),
        (xb.c64[8], "FFT", [9]),
        (xb.c64[8], "IFFT", [0]),
        (xb.c128[3, 2, 8], "FFT", [2, 3, 8]),
        (xb.c64[8], "IFFT", [1_000_000]),
    ],
)
def test_other_lengths_are_refused(
    shape: xb.ArrayShape, fft_type: str, fft_length: list[int]
) -> None:
    """XLA crashes for longer lengths; results of shorter ones are uninitialized."""
    b = xb.XlaBuilder("lengths")
    module = lowering.lower(b.build(xb.fft(b.parameter(shape), fft_type, fft_length)))
    # As lowered, and read from text.
    for one in (module, lowering.load_bytes(module.text.encode())):
        with pytest.raises(lowering.CompileError) as caught:
            lowering.compile(one)
        assert caught.value.op == "fft"
        assert (
            "can't run on cpu: fft_length must equal the sizes of the transformed dimensions"
            in str(caught.value)
        )
        assert "fix: pass the sizes of the transformed dimensions as fft_length" in str(
            caught.value
        )
