"""lowering.compare of complex numbers: no false alarms, and errors are found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from support import parameter_like

import builder as xb
import lowering
from lowering.interpreter import comparing
from lowering.interpreter.tolerances import complex_distances

TYPES = [np.complex64, np.complex128]


class Case(NamedTuple):
    """An op, the same function of NumPy, and the standard deviation of its operands' parts."""

    op: Callable[..., xb.XlaOp]
    function: Callable[..., Any]
    arity: int = 1
    scales: tuple[float, ...] = (0.1, 1, 8)


CASES = {
    "add": Case(xb.add, np.add, 2),
    "mul": Case(xb.mul, np.multiply, 2),
    "div": Case(xb.div, np.divide, 2),
    "exp": Case(xb.exp, np.exp),
    "log": Case(xb.log, np.log),
    "sqrt": Case(xb.sqrt, np.sqrt),
    "rsqrt": Case(xb.rsqrt, lambda x: 1 / np.sqrt(x)),
    "tanh": Case(xb.tanh, np.tanh),
    "pow": Case(xb.pow, np.power, 2, (0.1, 1, 2)),
    "sin": Case(xb.sin, np.sin, 1, (1, 4)),
    "sign": Case(xb.sign, lambda x: x / np.abs(x)),
    "abs": Case(xb.abs, np.abs),
    "dot": Case(lambda x, y: xb.dot(x, y), np.matmul, 2),
    "tensordot": Case(
        lambda x, y: xb.dot_general(x, y, xb.DotDimensionNumbers([0, 1], [1, 0])),
        lambda x, y: np.tensordot(x, y, ([0, 1], [1, 0])),
        2,
    ),
    "fft": Case(lambda x: xb.fft(x, "FFT", [16, 16]), np.fft.fft2),
    "ifft": Case(lambda x: xb.fft(x, "IFFT", [16]), np.fft.ifft),
}


def numbers(rng: np.random.Generator, dtype: Any, sizes: tuple[int, ...], scale: Any = 1) -> Any:
    parts = rng.standard_normal((2, *sizes)) * scale
    return (parts[0] + 1j * parts[1]).astype(dtype)


def recorded(function: Callable[..., xb.XlaOp], *arguments: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("complex")
    return b.build(function(*(parameter_like(b, argument) for argument in arguments)))


def relative_error(got: Any, expected: Any) -> float:
    """The largest error of a number, relative to the largest number."""
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_correct_results_agree(name: str, dtype: Any) -> None:
    case = CASES[name]
    scales = np.resize(case.scales, (16, 1))
    rng = np.random.default_rng(0)
    arguments = [numbers(rng, dtype, (16, 16), scales) for _ in range(case.arity)]
    c = recorded(case.op, *arguments)
    comparison = lowering.compare(c, *arguments, device="cpu")
    assert comparison.agrees, str(comparison)
    assert len(comparison.ops) == 1  # it was compared
    expected = case.function(*(x.astype(np.complex128) for x in arguments))
    error = relative_error(lowering.interpret(c, *arguments), expected)
    assert error < 300 * np.finfo(dtype).eps


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_perturbed_results_differ(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    compiled = comparing.compile

    def perturbed(value: Any) -> Any:
        value = np.array(value)
        largest = np.unravel_index(np.abs(value).argmax(), value.shape)
        value[largest] *= 1 + 1e-3 if value.dtype.kind == "f" else 1 + 1e-3j
        return value

    def compile(*arguments: Any, **options: Any) -> Callable[..., Any]:
        return lambda *xs: jax.tree.map(perturbed, compiled(*arguments, **options)(*xs))

    monkeypatch.setattr(comparing, "compile", compile)
    rng = np.random.default_rng(7)
    arguments = [numbers(rng, dtype, (16, 16)) for _ in range(case.arity)]
    comparison = lowering.compare(recorded(case.op, *arguments), *arguments, device="cpu")
    assert comparison.first is not None
    assert comparison.first.beyond == 1
    assert not comparison.results[0].agrees


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "length"),
    # The error grows with the length; the interpreter takes a second for the last one.
    [*product(["FFT", "IFFT", "RFFT", "IRFFT"], [8, 31, 100, 512]), ("FFT", 4096)],
)
def test_transforms_agree(kind: str, length: int) -> None:
    rng = np.random.default_rng(length)
    x = numbers(rng, np.complex64, (2, length // 2 + 1 if kind == "IRFFT" else length))
    argument = x.real if kind == "RFFT" else x
    c = recorded(lambda x: xb.fft(x, kind, [length]), argument)
    comparison = lowering.compare(c, argument, device="cpu")
    assert comparison.agrees, str(comparison)
    assert not comparison.left_out


POOL: list[tuple[Callable[..., xb.XlaOp], Callable[..., Any], int]] = [
    *((case.op, case.function, case.arity) for name, case in CASES.items() if name != "abs"),
    (xb.sub, np.subtract, 2),
    (xb.neg, np.negative, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("seed", range(2))
def test_random_programs_agree(seed: int, dtype: Any) -> None:
    """Each op has operands with elements around 1, computed by earlier ops."""
    rng = np.random.default_rng(seed)
    arguments = [numbers(rng, dtype, (16, 16)) for _ in range(2)]
    checks: list[tuple[xb.XlaOp, Callable[..., Any], list[xb.XlaOp]]] = []

    def program(*parameters: xb.XlaOp) -> xb.XlaOp:
        values = list(parameters)
        for _ in range(15):
            op, function, arity = POOL[rng.integers(len(POOL))]
            operands = [values[rng.integers(len(values))] for _ in range(arity)]
            value = op(*operands)
            checks.append((value, function, operands))
            values.append(xb.sign(value) * operands[0] if value.shape.rank else values[0])
        return xb.tuple(*values)

    c = recorded(program, *arguments)
    comparison = lowering.compare(c, *arguments, device="cpu")
    assert comparison.first is None, str(comparison)
    assert not comparison.left_out
    reference = lowering.interpret(c, *arguments, probe=True)
    for value, function, operands in checks:
        expected = function(*(reference[o].astype(np.complex128) for o in operands))
        error = relative_error(reference[value], expected)
        assert error < 300 * np.finfo(dtype).eps, value


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", TYPES)
def test_the_distance_of_complex_numbers(dtype: Any) -> None:
    info = np.finfo(dtype)
    eps, most = float(info.eps), float(info.max)
    pairs: list[tuple[complex, complex, float]] = [
        (1, 1, 0),
        (1 + 1e-30j, 1 + 2e-30j, 0),  # the smaller part does not count
        (1, 1 + eps, 1),
        (1 + 1j, 1 + 3 * eps + (1 + 4 * eps) * 1j, 5),
        (1j * most, -1j * most, 4 / eps - 2),
        (0, complex(0.0, -0.0), 0),
        (complex(INF, 1), complex(INF, 2), 0),
        (complex(INF, 0), complex(most, 0), 1),  # one of the two overflowed
        (complex(INF, 0), complex(-INF, 0), 4 / eps),
        (complex(INF, 0), complex(0, INF), 2 / eps * 2**0.5),
        (complex(NAN, 1), complex(2, NAN), 0),
        (complex(NAN, NAN), complex(INF, NAN), 0),
        (complex(NAN, 1), 1 + 1j, INF),
        (1, complex(INF, NAN), INF),
    ]
    a, b = (np.array([pair[i] for pair in pairs], dtype) for i in range(2))
    expected = [pair[2] for pair in pairs]
    np.testing.assert_allclose(complex_distances(a, b), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(complex_distances(b, a), complex_distances(a, b))


def test_the_distance_in_ulps_of_a_larger_number() -> None:
    a, b = np.complex64([1, 1]), np.complex64([1 + 2**-20, 1 + 2**-20 * 1j])
    np.testing.assert_array_equal(complex_distances(a, b), [8, 8])
    np.testing.assert_array_equal(complex_distances(a, b, 4.0), [2, 2])


def test_moved_complex_numbers_are_compared_by_parts() -> None:
    c = xb.computation(xb.c64[2])(lambda x: xb.rev(x, [0]))

    def planted(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
        return xb.exp(operands[0]) if op.opcode == "reverse" else None

    x = np.zeros(2, np.complex64)
    x[1] = complex(NAN, INF)
    comparison = lowering.compare(c, x, device="cpu", device_computation=c.replace(planted))
    assert comparison.first is not None
    assert comparison.first.beyond == 2
