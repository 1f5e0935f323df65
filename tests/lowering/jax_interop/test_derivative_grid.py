"""Derivatives of elementwise ops and of functions of the library at special points.

The points are zeros, the smallest and the largest numbers, integers, poles and infinities, in f32
and f64. All functions of a type are one program. The references are closed forms, computed in
extended precision, and values of mpmath. Where a reference is NaN, the derivative does not exist;
anywhere else NaN is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import exact_derivatives as exact
import numpy as np
import pytest
import scipy.special

import builder as xb
import lowering
from builder import lib
from builder.lib.registry import DIFFERENTIABLE
from lowering.ops.elementwise import FUNCTIONS

pytestmark = pytest.mark.slow

NAN, INF = np.nan, np.inf
_SMALLEST_NORMAL = {"f32": 1.1754943508222875e-38, "f64": 2.2250738585072014e-308}

LINE = np.array([1e-40, -1e-40, *exact.LINE], np.longdouble)
"""Also numbers that XLA's CPU takes for zeros in f32."""
_SIDE = exact.rounded(
    *(0, 1.2e-38, 1e-30, 1e-20, 1e-10, 0.25, 0.5, 1, 1.5, 2, 3, 10, 16.5, 100, 1e5, 1e10, 1e20),
    *(1e30, INF),
)
PLANE = np.array(list(product([*_SIDE, *[-x for x in _SIDE]], repeat=2)), np.longdouble).T


class Case(NamedTuple):
    """A function, operands, and the derivatives of the sum of its results.

    Attributes:
        function: a function of ops.
        operands: arrays of longdouble.
        derivatives: by each operand, as a function of the operands or an array; None if the
            function is not differentiated by it.
        ulps: the largest error, in ulps of the derivative or of `floor`, times the logarithm of the
            derivative if that is larger than 1.
        floor: the size of the terms that cancel in the derivative.
    """

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    derivatives: tuple[Any, ...]
    ulps: float = 24
    floor: Any = 0.0


def zero(*operands: Any) -> Any:
    return 0 * np.sign(operands[0])


def inside(condition: Any, value: Any) -> Any:
    return np.where(condition, value, NAN)


# Closed forms, in NumPy's terms. Outside of the domain of an op, they are NaN.
UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": lambda x: inside(x != 0, np.sign(x)),
    "acos": lambda x: inside(abs(x) <= 1, -1 / np.sqrt((1 - x) * (1 + x))),
    "acosh": lambda x: inside(x >= 1, 1 / np.sqrt(x - 1) / np.sqrt(x + 1)),
    "asin": lambda x: inside(abs(x) <= 1, 1 / np.sqrt((1 - x) * (1 + x))),
    "asinh": lambda x: 1 / np.sqrt(x * x + 1),
    "atanh": lambda x: inside(abs(x) < 1, 1 / ((1 - x) * (1 + x))),
    "cbrt": lambda x: 1 / (3 * np.cbrt(x) ** 2),
    "ceil": zero,
    "cosh": np.sinh,
    "cosine": lambda x: -np.sin(x),
    "erf": lambda x: 2 / np.sqrt(np.longdouble(np.pi)) * np.exp(-x * x),
    "exponential": np.exp,
    "exponential_minus_one": np.exp,
    "floor": zero,
    "log": lambda x: inside(x > 0, 1 / x),
    "log_plus_one": lambda x: inside(x > -1, 1 / (1 + x)),
    "logistic": lambda x: 1 / (2 * np.cosh(x / 2)) ** 2,
    "negate": lambda x: zero(x) - 1,
    "round_nearest_afz": zero,
    "round_nearest_even": zero,
    "rsqrt": lambda x: inside(x > 0, -0.5 / (x * np.sqrt(x))),
    "sign": zero,
    "sine": np.cos,
    "sinh": np.cosh,
    "sqrt": lambda x: inside(x >= 0, 0.5 / np.sqrt(x)),
    "tan": lambda x: 1 / np.cos(x) ** 2,
    "tanh": lambda x: 1 / np.cosh(x) ** 2,
}
CANCELLING = {"exponential_minus_one", "logistic", "tanh"}
"""jax computes their derivatives from results near -1 or 1."""


def one(x: Any, y: Any) -> Any:
    return zero(x + y) + 1


def choice(is_chosen: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the derivatives of an operand that is chosen; equal ones share it."""

    def first(x: Any, y: Any) -> Any:
        return np.where(x == y, 0.5, np.where(is_chosen(x, y), 1.0, 0.0))

    return first, lambda x, y: 1 - first(x, y)


def of_angle(y: Any, x: Any) -> Any:
    is_defined = ((x != 0) | (y != 0)) & ~(np.isinf(x) & np.isinf(y))
    return inside(is_defined, np.where(np.isinf(x) | np.isinf(y), 0, x / (x * x + y * y)))


def of_base(x: Any, y: Any) -> Any:
    # The parity of large exponents is not that of the numbers less 1, in f32.
    is_defined = (x > 0) | ((y == np.floor(y)) & (abs(y) < 2**24))
    is_defined &= np.isfinite(y) & ((x != 0) | (y >= 1))
    return np.where(y == 0, 0, inside(is_defined, y * x ** (y - 1)))


def of_exponent(x: Any, y: Any) -> Any:
    value = np.where(x == 0, 0, np.log(x) * x**y)
    is_defined = (x > 0) & np.isfinite(y) & ((x < INF) | (y != 0)) | ((x == 0) & (y > 0))
    return inside(is_defined, np.where((x == INF) & (y < 0), 0, value))


BINARY: dict[str, tuple[Any, Any]] = {
    "add": (one, one),
    "atan2": (of_angle, lambda y, x: -of_angle(x, y)),
    "divide": (
        lambda x, y: inside(y != 0, 1 / y),
        lambda x, y: inside((y != 0) & ~np.isinf(x), -x / y**2),
    ),
    "maximum": choice(np.greater),
    "minimum": choice(np.less),
    "multiply": (lambda x, y: y, lambda x, y: x),
    "power": (of_base, of_exponent),
    "remainder": (
        lambda x, y: inside(np.isfinite(x) & (y != 0), 1.0),
        lambda x, y: inside(np.isfinite(x) & (y != 0), -np.trunc(x / y)),
    ),
    "subtract": (one, lambda x, y: -one(x, y)),
}
OTHERS = {"clamp", "complex", "imag", "real", "select"}
"""Ops that are tested elsewhere: of complex numbers, and of three operands."""
OF_INTEGERS = {
    *("and", "count_leading_zeros", "is_finite", "mulhi", "not", "or", "popcnt", "shift_left"),
    *("shift_right_arithmetic", "shift_right_logical", "xor"),
}


def function_of(opcode: str, count: int) -> Any:
    """Return the function that records an opcode with `count` operands."""
    for info in xb.OPERATIONS.values():
        parameters = inspect.signature(info.function).parameters.values()
        required = [p for p in parameters if p.default is p.empty and p.name != "unknown"]
        if info.opcode == opcode and len(required) == count:
            return info.function
    raise KeyError(opcode)


def elementwise_cases() -> Iterator[tuple[str, Case]]:
    for opcode, slope in UNARY.items():
        floor = float(opcode in CANCELLING)
        yield opcode, Case(function_of(opcode, 1), (LINE,), (slope,), floor=floor)
    for opcode, slopes in BINARY.items():
        yield opcode, Case(function_of(opcode, 2), tuple(PLANE), slopes)


def test_all_elementwise_ops_are_on_the_grid() -> None:
    assert {*UNARY, *BINARY, *OTHERS, *OF_INTEGERS} == {*FUNCTIONS}


def gelu_slope(x: Any) -> Any:
    """Return the derivative of x times the normal distribution function."""
    x = x.astype(float)
    return scipy.special.ndtr(x) + np.where(
        np.isinf(x), 0, x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    )


def approximate_gelu_slope(x: Any) -> Any:
    factor = 2 * np.sqrt(2 / np.longdouble(np.pi))
    exponent = factor * (x + 0.044715 * x**3)
    slope = factor * (1 + 3 * 0.044715 * x**2)
    tail = np.where(abs(x) > 100, 0, x * slope / (2 * np.cosh(exponent / 2)) ** 2)
    return 1 / (1 + np.exp(-exponent)) + tail


def silu_slope(x: Any) -> Any:
    rest = 1 / (1 + np.exp(x))
    return inside(np.isfinite(x), (1 - rest) * (1 + x * rest))


_BASES = np.array(exact.POINTS["zeta"]).T[1]
_TIMES = np.array(exact.POINTS["igamma"]).T[1]
ACCURACY: dict[str, tuple[float, Any]] = {
    "lgamma": (24, 1.0),
    "digamma": (24, 1.0),
    "polygamma": (64, 2.0**12),
    "zeta": (64, np.where(_BASES < 0, 64.0, 0.0)),
    "igamma_grad_a": (
        64,
        exact.values_of("igamma", 1) * abs(np.log(np.clip(_TIMES, 1e-30, 1e30))),
    ),
    "bessel_i0e": (512, 0.0),
    "bessel_i1e": (2048, 0.0),
}
"""The ulps and the floor of special functions; 64 and 0 for others."""


def library_cases() -> Iterator[tuple[str, Case]]:
    yield "relu", Case(lib.relu, (LINE,), (lambda x: np.where(x > 0, 1.0, 0.0),))
    yield "gelu", Case(lib.gelu, (LINE,), (approximate_gelu_slope,), 64, 1e-2)
    yield "gelu", Case(lambda x: lib.gelu(x, False), (LINE,), (gelu_slope,), 64, 1e-2)
    yield "silu", Case(lib.silu, (LINE,), (silu_slope,), floor=1.0)
    yield "sigmoid", Case(lib.sigmoid, (LINE,), (UNARY["logistic"],), floor=1.0)

    def erfc(x: Any) -> Any:
        return -UNARY["erf"](x)

    yield "erfc", Case(lib.erfc, (LINE,), (erfc,), 64)
    for name, points in exact.POINTS.items():
        operands = tuple(np.array(points, np.longdouble).T)
        slopes = [exact.values_of(name, number) for number in range(len(operands))]
        yield (
            name,
            Case(
                lib.FUNCTIONS[name].function, operands, tuple(slopes), *ACCURACY.get(name, (64, 0))
            ),
        )
    name = "igammac"
    operands = tuple(np.array(exact.POINTS["igamma"], np.longdouble).T)
    slopes = [-exact.values_of("igamma", number) for number in (0, 1)]
    yield name, Case(lib.igammac, operands, tuple(slopes), 64)


ROWS = np.array(
    [
        *([1, 2, 3], [3, 1, 2], [1, 1, 0], [0, 0, 0], [0, 2, 3], [0, 0, 3], [2, 0, 0]),
        *([-200, -100, 88], [1e20, 0, -1e20], [-INF, 1, 2], [1, -INF, -INF], [INF, 0, 1]),
        [-INF, -INF, -INF],
    ],
    np.longdouble,
)
WEIGHTS = np.array([1, 2, 4], np.longdouble)


def by_rows(slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of rows."""
    return lambda rows: np.array([slope(row) for row in rows])


def shares(x: Any) -> Any:
    """Return the derivative of the maximum."""
    is_largest = x == x.max()
    return is_largest / is_largest.sum()


def probabilities(x: Any) -> Any:
    if np.isinf(x.max()):
        return x * NAN
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def log_sum_slope(x: Any) -> Any:
    return shares(x) if np.isinf(x.max()) else probabilities(x)


def softmax_slope(x: Any) -> Any:
    p = probabilities(x)
    return p * (WEIGHTS - (p * WEIGHTS).sum())


def log_softmax_slope(x: Any) -> Any:
    return WEIGHTS - probabilities(x) * WEIGHTS.sum()


def cumulative(slope: Callable[[Any], Any], *, reverse: bool = False) -> Callable[[Any], Any]:
    """Return the derivative of a cumulative function, given that of its last result."""

    def total(x: Any) -> Any:
        found = np.zeros_like(x)
        for position, weight in enumerate(WEIGHTS):
            part = slice(position, None) if reverse else slice(position + 1)
            found[part] += weight * slope(x[part])
        return found

    return total


def without_ties(slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: slope(x) if len(set(x)) == 3 else x * NAN


def product_slope(x: Any) -> Any:
    return np.array([np.delete(x, number).prod() for number in range(len(x))])


def deviation_slope(x: Any) -> Any:
    difference = x - x.mean()
    return difference / len(x) / np.sqrt((difference**2).mean())


def moderate(slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return NaN for rows with numbers whose squares overflow in f32."""
    return lambda x: slope(x) if abs(x).max() < 1e19 else x * NAN


def weighted(function: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    """Return a function of rows times `WEIGHTS`."""

    def called(x: xb.XlaOp) -> xb.XlaOp:
        result = function(x, -1, **arguments)
        weights = x.builder.constant(list(map(float, WEIGHTS)), x.shape.element_type)
        return xb.mul(result, weights, [1])

    return called


def row_cases() -> Iterator[tuple[str, Case]]:
    def case(function: Callable[..., Any], slope: Callable[[Any], Any], floor: float = 1.0) -> Case:
        return Case(function, (ROWS,), (by_rows(slope),), floor=floor)

    def least(x: Any) -> Any:
        return shares(-x)

    for name, function, slope in (
        ("max", lib.max, shares),
        ("min", lib.min, least),
        ("sum", lib.sum, np.ones_like),
        ("prod", lib.prod, product_slope),
        ("logsumexp", lib.logsumexp, log_sum_slope),
        ("var", lib.var, moderate(lambda x: 2 * (x - x.mean()) / 3)),
        ("std", lib.std, moderate(deviation_slope)),
        (
            "norm",
            lambda x, axis: lib.norm(x, axis=axis),
            moderate(lambda x: x / np.sqrt((x * x).sum())),
        ),
    ):
        yield name, case(lambda x, f=function: f(x, axis=-1), slope)
    for name, slope in (("softmax", softmax_slope), ("log_softmax", log_softmax_slope)):
        yield name, case(weighted(getattr(lib, name)), slope)
    for name, slope in (
        ("cumsum", np.ones_like),
        ("cumprod", product_slope),
        ("cummax", without_ties(shares)),
        ("cummin", without_ties(least)),
        ("cumlogsumexp", without_ties(log_sum_slope)),
    ):
        function = getattr(lib, name)
        for reverse in (False, True):
            total = cumulative(slope, reverse=reverse)
            yield name, case(weighted(function, reverse=reverse), without_ties(total))
    portions = np.array([[0.5, 0, 0.25]] * len(ROWS), np.longdouble)
    slopes = by_logits, by_labels
    yield "cross_entropy", Case(lib.cross_entropy, (ROWS, portions), slopes, floor=1.0)
    numbers = np.arange(len(ROWS)) % 3
    yield (
        "cross_entropy",
        Case(
            lambda x: lib.cross_entropy(x, x.builder.constant(numbers.tolist(), xb.s32)),
            (ROWS,),
            (lambda x: by_rows(probabilities)(x) - np.eye(3)[numbers],),
            floor=1.0,
        ),
    )


def by_logits(x: Any, labels: Any) -> Any:
    return by_rows(probabilities)(x) * labels.sum(1, keepdims=True) - labels


def by_labels(x: Any, labels: Any) -> Any:
    shifted = x - x.max(1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return inside((labels > 0) | np.isfinite(logarithms), -logarithms)


CASES = [*elementwise_cases(), *library_cases(), *row_cases()]


def test_all_functions_with_derivatives_are_on_the_grid() -> None:
    # `largest_number` is a part of softmax; `det` is tested with the other library functions, and
    # `parts_between`, a part of split, with gradients. The others have no derivative.
    rest = {"largest_number", "det", "parts_between", "next_after", "random_gamma_grad"}
    assert {*DIFFERENTIABLE} - rest <= {name for name, _ in CASES}


def errors_of(case: Case, number: int, got: Any, name: str) -> list[str]:
    """Return the points at which a derivative is wrong."""
    dtype, tiny = got.dtype, _SMALLEST_NORMAL[name]
    operands = tuple([x.astype(dtype).astype(np.longdouble) for x in case.operands])
    slope = case.derivatives[number]
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(slope(*operands) if callable(slope) else slope, got.shape)
        size = abs(expected)
        ulps = case.ulps * np.maximum(1, np.where(size > 0, abs(np.log(size)), 1))
        bound = ulps * np.finfo(dtype).eps * np.maximum(size, case.floor) + 8 * tiny
        is_right = np.isfinite(expected) & (abs(got - expected) <= bound)
        is_right |= np.isnan(expected) | (got == expected.astype(dtype))
    for operand in operands:  # which may count as zero
        is_right |= (operand != 0) & (abs(operand) < tiny) & ~np.isnan(got)
    return [
        f"{[float(x[place]) for x in operands]}: {got[place]}, not {float(expected[place])}"
        for place in map(tuple, np.argwhere(~is_right).tolist())
    ]


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_derivatives(name: str) -> None:
    kind = xb.as_primitive_type(name)
    b = xb.XlaBuilder(f"derivatives_{name}")
    arguments, operands = [], []
    losses = []
    for _, case in CASES:
        arrays = [x.astype(kind.dtype) for x in case.operands]
        arguments += arrays
        operands.append([b.parameter(kind[x.shape]) for x in arrays])
        losses.append(lib.sum(case.function(*operands[-1])))
    loss = losses[0]
    for other in losses[1:]:
        loss = loss + other
    wanted = [
        [x for x, slope in zip(each, case.derivatives, strict=True) if slope is not None]
        for each, (_, case) in zip(operands, CASES, strict=True)
    ]
    found = lowering.gradients(loss, wanted)
    program = lowering.compile(b.build(xb.tuple(*[op for ops in found for op in ops])), "cpu")
    results = iter(program(*arguments))
    wrong = []
    for opcode, case in CASES:
        for number, slope in enumerate(case.derivatives):
            if slope is not None:
                errors = errors_of(case, number, np.asarray(next(results)), name)
                wrong += [f"{opcode} by operand {number} at {error}" for error in errors]
    assert not wrong, "\n".join([f"{len(wrong)} wrong", *wrong[:200]])
