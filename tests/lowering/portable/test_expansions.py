"""The numbers that expansions compute, compared with NumPy's and with XLA's operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import builder as xb
import lowering
from lowering.mlir.operations import operations_in

_RANDOM = np.random.default_rng(0)
_TYPES = {xb.f32: 2e-5, xb.f64: 1e-12, xb.c64: 2e-5, xb.c128: 1e-12}


def _expanded(
    names: str | Sequence[str], function: Callable[..., Any], *arrays: Any
) -> tuple[lowering.StablehloModule, lowering.StablehloModule]:
    """Return the module of a function with some operations and without them."""
    without = [names] if isinstance(names, str) else names
    b = xb.XlaBuilder("program")
    result = function(*(b.parameter(xb.array_shape(a.dtype, a.shape)) for a in arrays))
    computation = b.build(result if isinstance(result, xb.XlaOp) else xb.tuple(*result))
    module = lowering.lower(computation, without=without)
    found = {operation.name for operation in operations_in(module.module.operation)}
    assert found.isdisjoint(f"stablehlo.{name}" for name in without)
    return lowering.lower(computation), module


def _run(module: lowering.StablehloModule, *arrays: Any) -> list[np.ndarray]:
    results = lowering.compile(module, "cpu")(*arrays)
    return [np.asarray(x) for x in (results if isinstance(results, tuple) else (results,))]


def _numbers(element_type: xb.PrimitiveType, *sizes: int) -> np.ndarray:
    numbers = _RANDOM.standard_normal(sizes) + 1j * _RANDOM.standard_normal(sizes)
    return (numbers if element_type.is_complex else numbers.real).astype(element_type.dtype)


def _adjoint(a: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(a, -1, -2))


@pytest.mark.parametrize("element_type", _TYPES)
def test_cholesky(element_type):
    arrays = []
    for sizes in ((2, 3, 5, 5), (1, 1), (2, 0, 0), (0, 3, 3)):
        a = _numbers(element_type, *sizes)
        arrays.append(a @ _adjoint(a) + np.eye(sizes[-1], dtype=a.dtype))
    _, module = _expanded(
        "cholesky",
        lambda *x: [xb.cholesky(a, lower) for a in x for lower in (True, False)],
        *arrays,
    )
    for number, actual in enumerate(_run(module, *arrays)):
        a = arrays[number // 2]
        assert actual.shape == a.shape
        expected = np.linalg.cholesky(a) if a.size else a
        np.testing.assert_allclose(
            actual, _adjoint(expected) if number % 2 else expected, atol=_TYPES[element_type]
        )


def test_cholesky_reads_one_triangle_and_is_nan_without_a_factor():
    a = np.float32([[4, np.nan], [2, 5]])
    not_definite = np.float32([[1, 0], [2, 1]])
    _, module = _expanded(
        "cholesky", lambda x, y: [xb.cholesky(x), xb.cholesky(y)], a, not_definite
    )
    first, second = lowering.interpret(module, a, not_definite)
    np.testing.assert_allclose(first, [[2, 0], [1, 2]])
    assert np.isnan(second).all()


@pytest.mark.parametrize("element_type", [xb.f32, xb.c128])
def test_triangular_solve(element_type):
    a, b = _numbers(element_type, 2, 4, 4) + 3 * np.eye(4), _numbers(element_type, 2, 4, 3)
    a = a.astype(b.dtype)
    forms = list(
        itertools.product(
            (True, False), (True, False), (True, False), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
        )
    )

    def solutions(a, b):
        return [
            xb.triangular_solve(a, b if form[0] else xb.transpose(b, [0, 2, 1]), *form)
            for form in forms
        ]

    _, module = _expanded("triangular_solve", solutions, a, b)
    for (is_left, lower, unit, transpose), x in zip(forms, _run(module, a, b), strict=True):
        matrix = np.tril(a, -1) if lower else np.triu(a, 1)
        matrix = matrix + np.eye(4) * (1 if unit else a)
        if transpose != "NO_TRANSPOSE":
            matrix = np.swapaxes(matrix, 1, 2)
        if transpose == "ADJOINT":
            matrix = matrix.conj()
        right = b if is_left else np.swapaxes(b, 1, 2)
        product = matrix @ x if is_left else x @ matrix
        np.testing.assert_allclose(product, right, atol=10 * _TYPES[element_type])


def test_triangular_solve_of_empty_systems():
    arrays = [np.zeros((0, 0), "f4"), np.zeros((0, 2), "f4"), np.ones((1, 1), "f4")]

    def solutions(a, b, c):
        form = (True, True, False, "NO_TRANSPOSE")
        return [xb.triangular_solve(a, b, *form), xb.triangular_solve(c, c, *form)]

    _, module = _expanded("triangular_solve", solutions, *arrays)
    assert [x.shape for x in _run(module, *arrays)] == [(0, 2), (1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("element_type", "lengths"), [(xb.f32, [1, 7, 12]), (xb.f64, [2, 134])])
def test_fourier_transforms(element_type, lengths):
    """Lengths of small and, in one type, of large prime factors, odd and even."""
    dtype = element_type.complex_type.dtype
    arrays = [_numbers(element_type.complex_type, 2, n) for n in lengths]

    def transforms(*ops):
        results = []
        for op, n in zip(ops, lengths, strict=True):
            half = xb.slice_in_dim(op, 0, n // 2 + 1, 1, 1)
            results += [
                xb.fft(op, "FFT", [n]),
                xb.fft(op, "IFFT", [n]),
                xb.fft(xb.real(op), "RFFT", [n]),
                xb.fft(half, "IRFFT", [n]),
            ]
        return results

    _, module = _expanded("fft", transforms, *arrays)
    results = iter(_run(module, *arrays))
    for x, n in zip(arrays, lengths, strict=True):
        for expected in (
            np.fft.fft(x),
            np.fft.ifft(x),
            np.fft.rfft(x.real),
            np.fft.irfft(x[:, : n // 2 + 1], n),
        ):
            actual = next(results)
            assert actual.dtype == (dtype if np.iscomplexobj(expected) else element_type.dtype)
            error = np.abs(actual - expected).max() / np.abs(expected).max()
            assert error < _TYPES[element_type] / 5


def test_fourier_transforms_of_several_dimensions():
    x = _numbers(xb.f32, 2, 3, 4, 5)
    _, module = _expanded(
        "fft",
        lambda x: [
            xb.fft(x, "RFFT", [3, 4, 5]),
            xb.fft(xb.fft(x, "RFFT", [3, 4, 5]), "IRFFT", [3, 4, 5]),
            xb.fft(xb.reshape(xb.slice_in_dim(x, 0, 0, 1, 0), [0, 3, 20]), "RFFT", [20]),
        ],
        x,
    )
    transformed, restored, empty = _run(module, x)
    np.testing.assert_allclose(transformed, np.fft.rfftn(x, axes=(1, 2, 3)), atol=1e-4)
    np.testing.assert_allclose(restored, x, atol=1e-5)
    assert empty.shape == (0, 3, 11)


def test_the_interpreter_runs_expansions():
    x = _numbers(xb.f32, 3, 6)
    _, module = _expanded("fft", lambda x: xb.real(xb.fft(x, "RFFT", [6])), x)
    assert "stablehlo.complex" in module.text
    np.testing.assert_allclose(lowering.interpret(module, x), np.fft.rfft(x).real, atol=1e-5)


_SPECIAL = [0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 1e9, np.inf, -np.inf, np.nan, 8388609]
_ELEMENTWISE: dict[str, tuple[Callable[[xb.XlaOp], xb.XlaOp], float]] = {
    "round_nearest_even": (xb.round_nearest_even, 0),
    "round_nearest_afz": (xb.round, 0),
    "is_finite": (xb.is_finite, 0),
    "clamp": (lambda x: xb.clamp(-1.0, x, 2.0), 0),
    "reduce_precision": (lambda x: xb.reduce_precision(x, 4, 3), 0),
    "tan": (xb.tan, 8),
    "logistic": (xb.logistic, 8),
    "cbrt": (xb.cbrt, 8),
    "exponential_minus_one": (xb.expm1, 8),
    "log_plus_one": (xb.log1p, 8),
}


def _of_each(function: Callable[[xb.XlaOp], xb.XlaOp], *ops: xb.XlaOp) -> list[xb.XlaOp]:
    return [function(op) for op in ops]


def test_elementwise_operations():
    """One program has all operations, and another one has the expansions of all of them."""
    numbers = np.concatenate([_SPECIAL, _RANDOM.standard_normal(200) * 10])
    numbers = np.concatenate([numbers, _RANDOM.standard_normal(50) * 1e-4, [-0.999, -1, -3]])
    arrays = [numbers.astype(t.dtype) for t in (xb.f32, xb.f64, xb.bf16)]
    module, expansion = _expanded(
        [*_ELEMENTWISE],
        lambda *ops: [op for f, _ in _ELEMENTWISE.values() for op in _of_each(f, *ops)],
        *arrays,
    )
    cases = itertools.product(_ELEMENTWISE, arrays)
    results = _run(module, *arrays), _run(expansion, *arrays)
    for (name, array), expected, actual in zip(cases, *results, strict=True):
        assert actual.dtype == expected.dtype
        expected, actual = expected.astype(np.float64), actual.astype(np.float64)
        eps = {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}[array.dtype.itemsize]
        rtol = _ELEMENTWISE[name][1] * eps
        np.testing.assert_allclose(actual, expected, rtol=rtol, err_msg=name)
        zeros = expected == 0
        assert (np.signbit(actual) == np.signbit(expected))[zeros].all(), name


@pytest.mark.parametrize("element_type", [xb.f8e4m3fn, xb.f8e4m3b11fnuz, xb.f8e5m2, xb.f16])
def test_is_finite_of_types_with_and_without_infinities(element_type):
    with np.errstate(invalid="ignore"):
        numbers = np.array([0, 1, -2, np.inf, -np.inf, np.nan]).astype(element_type.dtype)
    module, expansion = _expanded("is_finite", xb.is_finite, numbers)
    (expected,), (actual,) = _run(module, numbers), _run(expansion, numbers)
    np.testing.assert_array_equal(actual, expected)


def test_counting_bits():
    types = (xb.u8, xb.s8, xb.u32, xb.s64, xb.u4)
    arrays = [np.array([0, 1, 3, 7, 5, 2 ** (t.bits - 1) - 1, 6]).astype(t.dtype) for t in types]
    arrays += [(-array.astype(np.int64)).astype(array.dtype) for array in arrays]
    for name, function in (("popcnt", xb.population_count), ("count_leading_zeros", xb.clz)):
        module, expansion = _expanded(name, partial(_of_each, function), *arrays)
        for expected, actual in zip(_run(module, *arrays), _run(expansion, *arrays), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_random_bits():
    """The bits and the next states of XLA."""
    state = np.array([2**63 + 5, 2**64 - 1, 7], np.uint64)
    shapes = (xb.u64[5], xb.u8[7])

    def bits(x):
        pair = xb.slice_in_dim(x, 0, 2, 1, 0)
        drawn = [
            xb.rng_bit_generator(algorithm, used, shape)
            for algorithm, used in (
                ("RNG_THREE_FRY", pair),
                ("RNG_PHILOX", pair),
                ("RNG_PHILOX", x),
                ("RNG_DEFAULT", x),
            )
            for shape in shapes
        ]
        return [part for both in drawn for part in (both[0], both[1])]

    module, expansion = _expanded("rng_bit_generator", bits, state)
    for expected, actual in zip(_run(module, state), _run(expansion, state), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_batch_normalization():
    x, scale = _numbers(xb.f32, 6, 3), np.float32([1, 2, 3])
    for name, function in {
        "batch_norm_training": lambda x, s: list(xb.batch_norm_training(x, s, s, 0.1, 1)),
        "batch_norm_inference": lambda x, s: [xb.batch_norm_inference(x, s, s, s, s, 0.1, 1)],
    }.items():
        module, expansion = _expanded(name, function, x, scale)
        for expected, actual in zip(_run(module, x, scale), _run(expansion, x, scale), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
