"""builder.lib.special, compared with SciPy in double precision.

SciPy's own errors near zeros and poles are larger than those of f32, so that the results in f64 are
compared in ulps of the expected value or of 1, whichever is larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from exact_gamma import gamma_slopes, gamma_values, log_gamma_values
from library_calls import run
from tables import each_row

import builder as xb
import lowering
from builder import lib

FLOATS = ("f16", "bf16", "f32", "f64")
RANDOM = np.random.default_rng(1)
STATE = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def _equal_arguments() -> None:
    """Each test has the same arguments, whatever ran before it."""
    RANDOM.bit_generator.state = STATE


EDGES = [0, 1, -1, 2, -2, 0.5, -0.5, 1.5, 2.5, 8, -8, 30, 1e30, -1e30, 1e300, np.inf, np.nan]


@cache
def compiled(function: Callable[..., Any], size: int, *dtypes: Any) -> Any:
    b = xb.XlaBuilder("compiled")
    parameters = [b.parameter(xb.array_shape(dtype, [size])) for dtype in dtypes]
    return lowering.compile(b.build(function(*parameters)), "cpu")


def values_of(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return the results of a function for vectors, which are repeated up to one of few sizes.

    A test of other vectors then needs no other program: compilation takes most of the time.
    """
    vectors = [np.asarray(array) for array in arrays]
    count = len(vectors[0])
    size = -(-count // 1024) * 1024
    program = compiled(function, size, *[vector.dtype for vector in vectors])
    return np.asarray(program(*[np.resize(vector, size) for vector in vectors]))[:count]


def normal_numbers(values: Any, name: str) -> Any:
    """Return the values of a type, without subnormal numbers: XLA's CPU takes them for zeros."""
    dtype = xb.as_primitive_type(name).dtype
    with np.errstate(over="ignore"):
        numbers = np.asarray(values).astype(dtype)
    tiny = float(ml_dtypes.finfo(dtype).smallest_normal)
    subnormal = (abs(numbers.astype(float)) < tiny) & (numbers.astype(float) != 0)
    return numbers[~subnormal]


def check(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    *arrays: Any,
    ulps: float,
    smallest: float = 0.0,
) -> None:
    """Compare `function` with `reference`, in ulps of the expected values or of `smallest`."""
    got = values_of(function, *arrays).astype(float)
    dtype = arrays[0].dtype
    limits = ml_dtypes.finfo(dtype)
    eps, tiny = float(limits.eps), float(limits.smallest_normal)
    with np.errstate(all="ignore"):
        expected = np.asarray(reference(*(a.astype(float) for a in arrays)))
        rounded = expected.astype(dtype).astype(float)
        # Results below the normal numbers may be flushed to zero.
        scale = np.maximum(np.maximum(abs(expected), smallest), tiny / eps / ulps) * eps
        errors = abs(got - expected) / scale
    errors[(got == rounded) | (np.isnan(got) & np.isnan(rounded))] = 0
    errors[np.isnan(errors)] = np.inf
    rounding = 0.5 if dtype.itemsize == 2 else 0.0
    worst = errors.argmax()
    case = [float(a[worst]) for a in arrays]
    assert errors[worst] <= ulps + rounding, (case, got[worst], expected[worst])


@pytest.mark.parametrize("name", FLOATS)
def test_erfc(name: str) -> None:
    # SciPy rounds the square of large numbers in f64.
    largest = 3 if name == "f64" else 30
    x = normal_numbers([0, -1e30, 1e30, np.nan, *np.linspace(-7, largest, 3001)], name)
    check(lib.erfc, scipy.special.erfc, x, ulps=10 if name == "f64" else 6)


def test_erfc_of_large_numbers() -> None:
    """In f64, compared with the continued fraction DLMF 7.9.1 in exact arithmetic."""
    from decimal import Decimal, getcontext

    getcontext().prec = 50
    x = np.array([2.7, 5.3, 8.964, 17.928, 25.1])
    root = Decimal("1.7724538509055160272981674833411451827975494561224")
    expected = []
    for number in map(Decimal, x.tolist()):
        fraction = number
        for k in range(2000, 0, -1):
            fraction = number + Decimal(k) / 2 / fraction
        expected.append(float((-number * number).exp() / fraction / root))
    np.testing.assert_allclose(values_of(lib.erfc, x), expected, rtol=6 * np.finfo(float).eps)


@pytest.mark.parametrize("name", FLOATS)
def test_erf_inv(name: str) -> None:
    near_one = 1 - 10.0 ** -np.linspace(0, 16, 400)
    small = 10.0 ** -np.linspace(0, 300, 100)
    x = [*EDGES, -np.inf, *np.linspace(-1, 1, 2001), *near_one, *-near_one, *small]
    check(lib.erf_inv, scipy.special.erfinv, normal_numbers(x, name), ulps=3)


def gamma_arguments(name: str) -> Any:
    powers = 10.0 ** np.linspace(-300, 300, 601)
    numbers = normal_numbers([*EDGES, *np.linspace(-0.6, 12, 4001), *powers], name)
    return numbers[numbers.astype(float) != -np.inf]  # where SciPy's result is another


@pytest.mark.parametrize("name", FLOATS)
def test_lgamma(name: str) -> None:
    smallest = 1.0 if name == "f64" else 0.0
    x = gamma_arguments(name)
    x = x[x.astype(float) > -0.5]
    # 3 with a fused multiply-add, which not every CPU has: the polynomial then rounds products too.
    check(lib.lgamma, scipy.special.gammaln, x, ulps=4, smallest=smallest)
    negative = normal_numbers(-RANDOM.uniform(0.5, 60, 2000), name)
    check(lib.lgamma, scipy.special.gammaln, negative, ulps=4, smallest=1.0)
    poles = np.array([-np.inf, -3, 0]).astype(x.dtype)
    assert values_of(lib.lgamma, poles).tolist() == [np.inf] * 3


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_lgamma_in_ulps_of_the_result(name: str) -> None:
    """Where it is small: around its roots 1 and 2, and in between."""
    x = np.linspace(0.9, 2.1, 3000).astype(name.replace("f", "float"))
    expected = np.array(log_gamma_values(x.tolist()))
    errors = abs(values_of(lib.lgamma, x) - expected) / np.spacing(abs(expected.astype(x.dtype)))
    assert errors.max() <= 4  # 3 with a fused multiply-add


@pytest.mark.parametrize("name", FLOATS)
def test_digamma(name: str) -> None:
    x = gamma_arguments(name)
    check(lib.digamma, scipy.special.digamma, x, ulps=8, smallest=1.0)
    check(lib.digamma, scipy.special.digamma, x[x.astype(float) > 0], ulps=2, smallest=1.0)
    # SciPy is not accurate near the poles, nor in f64 at negative numbers.
    negative = -(RANDOM.integers(1, 60, 2000) + RANDOM.uniform(0.1, 0.9, 2000))
    negative = normal_numbers(negative, name) if name == "f64" else negative.astype(np.float32)
    ulps = 30 if negative.dtype == np.float64 else 10
    check(lib.digamma, scipy.special.digamma, negative, ulps=ulps, smallest=1.0)
    distances = np.float32([2.0**-j for j in range(2, 16)])
    for pole in range(-8, 0):
        near = np.concatenate([pole - distances, pole + distances])
        check(lib.digamma, scipy.special.digamma, near[near < -0.5], ulps=8, smallest=1.0)
    poles = values_of(lib.digamma, np.array([0.0, -0.0, -3, -np.inf])).tolist()
    assert poles[:2] == [-np.inf] * 2
    assert np.isnan(poles[2:]).all()


@pytest.mark.parametrize("name", FLOATS)
def test_scaled_bessel_functions(name: str) -> None:
    powers = 10.0 ** np.linspace(-30, 300, 331)
    x = normal_numbers([0, 1e300, np.nan, *np.linspace(-20, 20, 2001), *powers, *-powers], name)
    for function, reference in (
        (lib.bessel_i0e, scipy.special.i0e),
        (lib.bessel_i1e, scipy.special.i1e),
    ):
        # SciPy has the same series as f64.
        check(function, reference, x, ulps=4 if function is lib.bessel_i0e else 10)


@pytest.mark.parametrize("name", FLOATS)
def test_zeta(name: str) -> None:
    exponents = [1.001, 1.5, 2, 3, 7.25, 20, 150]
    bases = [1e-3, 0.3, 0.999, 1, 1.5, 2, 5, 9.5, 33, 1000]
    x, q = (normal_numbers(a.reshape(-1), name) for a in np.meshgrid(exponents, bases))
    check(lib.zeta, scipy.special.zeta, x, q, ulps=16)

    def by_definition(x: Any, q: Any) -> Any:
        """For q above -60: the sum of 60 terms, and a zeta function of positive numbers."""
        negative = np.array([((b + np.arange(60)) ** -a).sum() for a, b in zip(x, q, strict=True)])
        return negative + scipy.special.zeta(x, q + 60)

    # Terms of odd powers cancel.
    for exponents, smallest in ([2, 4, 6], 0.0), ([3, 7], 128.0):
        x, q = np.meshgrid(exponents, [-0.5, -0.25, -1.75, -6.5, -40.25])
        x, q = (normal_numbers(a.reshape(-1), name) for a in (x, q))
        check(lib.zeta, by_definition, x, q, ulps=16, smallest=smallest)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_zeta_near_its_pole(name: str) -> None:
    """The integral of the terms that are left out is not negligible there."""
    x, q = np.meshgrid([1.0625, 1.001953125], [2.0**-20, 2.0**-10, 0.5, 1e4])
    x, q = (normal_numbers(a.reshape(-1), name) for a in (x, q))
    check(lib.zeta, scipy.special.zeta, x, q, ulps=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATS)
def test_polygamma_of_large_orders(name: str) -> None:
    """The factorial or the zeta function alone is out of the range of f32."""
    n, x = (v.reshape(-1) for v in np.meshgrid([11, 20, 40, 62, 90], [6, 17, 57, 110.5, 7168]))
    if name == "f64":
        n, x = np.concatenate([n, [90, 100, 160]]), np.concatenate([x, [1000, 400, 40]])
    n, x = (normal_numbers(v, name) for v in (n, x))

    def weight(n: Any, x: Any) -> Any:
        return 4 + scipy.special.gammaln(n + 1) + (n + 1) * abs(np.log(x))

    limits = ml_dtypes.finfo(n.dtype)
    with np.errstate(all="ignore"):
        n_wide, x_wide = n.astype(float), x.astype(float)
        expected = scipy.special.polygamma(n_wide, x_wide)
        ulps = weight(n_wide, x_wide) + (0.5 if n.dtype.itemsize == 2 else 0)
    got = values_of(lib.polygamma, n, x).astype(float)
    used = (abs(expected) < float(limits.max)) & (abs(expected) > 2 * float(limits.smallest_normal))
    assert used.sum() > (2 if name == "f16" else 9)
    errors = abs(got - expected)[used] / abs(expected[used]) / float(limits.eps)
    assert (errors <= ulps[used]).all()
    infinite = values_of(lib.polygamma, np.array([1, 90.0], n.dtype), np.full(2, np.inf, n.dtype))
    assert infinite.astype(float).tolist() == [0, 0]


def test_poles_of_zeta() -> None:
    x = np.array([1, 0.5, -3, 2, 3, 2, 2.5, 2, np.nan, 2])
    q = np.array([2, 2, 2, 0, 0, -3, -1.5, np.inf, 1, np.nan])
    expected = [np.inf, np.nan, np.nan, np.inf, np.nan, np.inf, np.nan, 0, np.nan, np.nan]
    for pole in (0, -1, -1.5):
        x, q, expected = np.append(x, 1), np.append(q, pole), [*expected, np.inf]
    np.testing.assert_array_equal(values_of(lib.zeta, x, q), expected)


@each_row("name", FLOATS)
def test_polygamma(name: str) -> None:
    n, x = np.meshgrid([0, 1, 2, 3, 5, 9], [0.1, 0.7, 1, 1.4, 2.5, 6, 30, 200])
    n, x = (normal_numbers(a.reshape(-1), name) for a in (n, x))
    check(lib.polygamma, scipy.special.polygamma, n, x, ulps=40, smallest=1e-9)
    # The reflection of the trigamma function, DLMF 5.15.6.
    x = normal_numbers([-0.25, -0.75, -3.5, -20.25], name)

    def trigamma(n: Any, x: Any) -> Any:
        return (np.pi / np.sin(np.pi * (x - np.round(x)))) ** 2 - scipy.special.polygamma(1, 1 - x)

    check(lib.polygamma, trigamma, x * 0 + x.dtype.type(1), x, ulps=16)
    orders = np.array([0.5, -1, np.nan, 1, 2, 0], x.dtype)
    poles = np.array([1, 1, 1, 0, 0, 0], x.dtype)
    expected = [np.nan, np.nan, np.nan, np.inf, np.nan, -np.inf]
    np.testing.assert_array_equal(values_of(lib.polygamma, orders, poles).astype(float), expected)


GAMMA_GRID = np.meshgrid(
    [0.1, 0.5, 1, 2.5, 7.875, 8, 30, 200], [0.0625, 0.3, 1, 1.125, 2, 7, 8.5, 29, 33, 180, 210]
)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATS)
def test_igamma(name: str) -> None:
    a, x = (normal_numbers(v.reshape(-1), name) for v in GAMMA_GRID)
    # SciPy has errors of 20 ulps in f64.
    ulps, smallest = (40, 1.0) if name == "f64" else (35, 1e-3)
    check(lib.igamma, scipy.special.gammainc, a, x, ulps=ulps, smallest=smallest)
    check(lib.igammac, scipy.special.gammaincc, a, x, ulps=ulps, smallest=smallest)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_igamma_far_from_its_mean(name: str) -> None:
    """Results are relative: the error is that of a power with an exponent of up to 100."""
    a, x = (normal_numbers(v, name) for v in ([8, 30, 5, 40], [0.25, 1, 0.01, 9]))
    check(lib.igamma, scipy.special.gammainc, a, x, ulps=150)
    a, x = (normal_numbers(v, name) for v in ([0.5, 3, 8, 20], [40, 60, 70, 80]))
    check(lib.igammac, scipy.special.gammaincc, a, x, ulps=150)


def poisson(a: int, x: float) -> tuple[float, float]:
    """Return P(a, x) and Q(a, x) for an integer a: sums of Poisson probabilities (DLMF 8.4.9)."""
    with localcontext(prec=60):
        wide = Decimal(x)
        terms = [(-wide).exp()]
        for k in range(1, a + 400):
            terms.append(terms[-1] * wide / k)
        return float(sum(terms[a:])), float(sum(terms[:a]))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_igamma_of_integers(name: str) -> None:
    a, x = (v.reshape(-1) for v in np.meshgrid([1, 2, 5, 13, 18, 31], [0.5, 1.25, 6, 14, 33, 70]))
    a, x = normal_numbers(a, name), normal_numbers(x, name)
    points = zip(a.astype(int).tolist(), x.tolist(), strict=True)
    expected = np.array([poisson(*point) for point in points]).T
    for function, wanted in zip((lib.igamma, lib.igammac), expected, strict=True):
        is_normal = wanted > 2 * np.finfo(a.dtype).tiny
        errors = (abs(values_of(function, a, x) - wanted) / wanted)[is_normal]
        wanted = wanted[is_normal]
        assert (errors <= 5 * np.finfo(a.dtype).eps * np.maximum(1, -np.log(wanted))).all()


def near_large_parameters(name: str, parameters: list[float]) -> tuple[Any, Any]:
    """Return parameters and arguments at most 8 standard deviations or a third from their means."""
    points = [(p, p + z * p**0.5) for p in parameters for z in (-8, -3, -0.5, 0, 0.3, 1, 4, 7)]
    points += [(p, p * ratio) for p in parameters if p < 2000 for ratio in (0.72, 0.9, 1.28)]
    dtype = xb.as_primitive_type(name).dtype
    a, x = np.array([point for point in points if point[1] > 0]).T.astype(dtype)
    return a, x


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_igamma_of_large_parameters(name: str) -> None:
    """The error is that of a power: 5 ulps of its exponent, also far from the mean."""
    largest = [1e100, 1e300] if name == "f64" else [1e36]
    a, x = near_large_parameters(name, [31.5, 32, 100, 1234.5, 1e4, 1e6, 1e17, 1e30, *largest])
    expected = np.array([gamma_values(*map(float, point)) for point in zip(a, x, strict=True)]).T
    got = [values_of(function, a, x) for function in (lib.igamma, lib.igammac)]
    for values, wanted in zip(got, expected, strict=True):
        errors = abs(values - wanted) / (wanted * np.maximum(1, -np.log(wanted)))
        assert errors.max() <= 5 * np.finfo(a.dtype).eps


@pytest.mark.slow
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_gradients_of_igamma_with_large_parameters(name: str) -> None:
    a, x = near_large_parameters(name, [32, 100, 1234.5, 1e4, 1e17, 1e30])
    slopes = np.array([gamma_slopes(*map(float, point)) for point in zip(a, x, strict=True)]).T
    functions = (lib.igamma_grad_a, lib.random_gamma_grad)
    gradient, sample = (values_of(function, a, x) for function in functions)
    eps = np.finfo(a.dtype).eps
    density = np.array([min(gamma_values(*map(float, p))) for p in zip(a, x, strict=True)])
    errors = abs(gradient - slopes[0]) / abs(slopes[0]) / np.maximum(1, -np.log(density))
    assert errors.max() <= 4 * eps
    expected = -slopes[0] / slopes[1]
    np.testing.assert_allclose(sample, expected, rtol=40 * eps)
    if name == "f64":
        large = np.full(2, 1e300)
        np.testing.assert_allclose(values_of(functions[1], large, large), 1)


def test_igamma_of_small_parameters() -> None:
    """Q(a, x) is a times the exponential integral for tiny a; SciPy's gammaincc has less digits."""
    x = 10.0 ** np.linspace(-300, 1.5, 200)
    for a in (1e-280, 1e-20):
        used = x[abs(np.log(x)) * a < 1e-17]
        expected = scipy.special.exp1(used) * a
        got = values_of(lib.igammac, np.full_like(used, a), used)
        np.testing.assert_allclose(got, expected, rtol=64 * np.finfo(float).eps)
    a, x = (v.reshape(-1) for v in np.meshgrid([1e-3, 0.1, 0.3, 0.5], np.linspace(0.01, 0.9, 20)))
    expected = scipy.special.gammaincc(a, x)
    np.testing.assert_allclose(values_of(lib.igammac, a, x), expected, rtol=2e-13)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_parameters_near_the_smallest_normal_number(kind: Any) -> None:
    """P(a, x) is 1 - a E1(x), and I(a, k a, x) is k / (1 + k), up to the terms of a."""
    tiny = np.finfo(kind).tiny
    a = np.repeat(tiny * np.array([1, 1.5, 2, 7, 1000], kind), 3)
    x = np.tile(np.array([1e-3, 0.5, 1], kind), 5)
    np.testing.assert_allclose(values_of(lib.igamma, a, x), 1, rtol=4 * np.finfo(kind).eps)
    exponential = scipy.special.exp1(x.astype(float)).astype(kind)
    upper = values_of(lib.igammac, a, x)
    # A CPU may flush results below the normal range to zero.
    tolerance = {"rtol": 32 * np.finfo(kind).eps, "atol": tiny}
    np.testing.assert_allclose(upper, exponential * a, **tolerance)
    np.testing.assert_allclose(values_of(lib.igamma_grad_a, a, x), -exponential, **tolerance)
    for factor in (1, 2):
        got = values_of(lib.regularized_incomplete_beta, a, factor * a, x * kind(0.5))
        np.testing.assert_allclose(got, factor / (1 + factor), rtol=32 * np.finfo(kind).eps)


def test_gradients_of_igamma_with_tiny_parameters() -> None:
    """P(a, x) is 1 - a E1(x), of the exponential integral."""
    x = np.concatenate([10.0 ** np.linspace(-10, 0, 20), np.linspace(1, 30, 20)])
    a = np.full_like(x, 1e-30)
    functions = (lib.igamma_grad_a, lib.random_gamma_grad)
    gradient, sample = (values_of(function, a, x) for function in functions)
    expected = scipy.special.exp1(x)
    np.testing.assert_allclose(gradient, -expected, rtol=1e-13)
    np.testing.assert_allclose(sample, expected * x * np.exp(x) / a, rtol=1e-13)


def test_igamma_is_fast_everywhere() -> None:
    """No argument needs more than 2000 steps; all results are in [0, 1]."""
    numbers = np.array([1e-300, 1e-9, 0.3, 1, 1.01, 7.9, 31.9, 33, 900, 1e5, 1e16, 1e80, 1e308])
    a, x = (v.reshape(-1) for v in np.meshgrid(numbers, numbers))
    x = np.concatenate([x, a * 0.7, a * 0.699, a * 1.3, a * 1.301, a])
    a = np.tile(a, 6)
    got = [values_of(function, a, x) for function in (lib.igamma, lib.igammac)]
    for values in got:
        assert ((values >= 0) & (values <= 1)).all()
    np.testing.assert_allclose(got[0] + got[1], 1, rtol=1e-12)
    clearly = ((x < a * 0.5) | (x * 0.5 > a)) & (x < 1e300) & (a < 1e300)  # SciPy overflows
    expected = scipy.special.gammainc(a[clearly], x[clearly])
    np.testing.assert_allclose(got[0][clearly], expected, rtol=2e-11, atol=1e-13)


@pytest.mark.parametrize("function", ["igamma_grad_a", "random_gamma_grad"])
def test_gradients_of_igamma(function: str) -> None:
    """Compared with central differences of SciPy's gammainc, over its derivative by x or not."""
    a, x = (v.reshape(-1) for v in np.meshgrid([0.5, 1, 2.5, 8, 30], [0.3, 1.5, 4, 9, 25, 40]))
    step = 1e-4 * a
    upper = [scipy.special.gammaincc(a + k * step, x) for k in (-2, -1, 1, 2)]
    lower = [-scipy.special.gammainc(a + k * step, x) for k in (-2, -1, 1, 2)]
    # The smaller of the two has the smaller rounding errors.
    points = np.where(x > a, upper, lower)
    expected = -(points[0] - 8 * points[1] + 8 * points[2] - points[3]) / (12 * step)
    if function == "random_gamma_grad":
        density = np.exp((a - 1) * np.log(x) - x - scipy.special.gammaln(a))
        expected = -expected / density
    for dtype, rtol in ((np.float64, 5e-9), (np.float32, 2e-4)):
        got = values_of(getattr(lib, function), a.astype(dtype), x.astype(dtype))
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=float(np.finfo(dtype).tiny))


def edges_of_igamma(name: str) -> tuple[Any, Any]:
    dtype = xb.as_primitive_type(name).dtype
    inf, nan = np.inf, np.nan
    a = np.array([0, -1, 2, 2, 2, nan, 1, inf, inf]).astype(dtype)
    return a, np.array([1, 1, -1, 0, inf, 1, nan, 1, inf]).astype(dtype)


@each_row("name", FLOATS)
def test_edges_of_igamma(name: str) -> None:
    nan = np.nan
    for function, expected in (
        (lib.igamma, [nan, nan, nan, 0, 1, nan, nan, 0, nan]),
        (lib.igammac, [1, 1, 1, 1, 0, nan, nan, 1, nan]),
    ):
        got = values_of(function, *edges_of_igamma(name)).astype(float)
        np.testing.assert_array_equal(got, expected)


# Narrower types are computed in f32.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["bf16", "f32", "f64"])
def test_edges_of_gradients_of_igamma(name: str) -> None:
    nan, edges = np.nan, edges_of_igamma(name)
    got = values_of(lib.igamma_grad_a, *edges).astype(float)
    np.testing.assert_array_equal(got, [nan, nan, nan, 0, 0, nan, nan, 0, nan])
    got = values_of(lib.random_gamma_grad, *edges).astype(float)
    np.testing.assert_array_equal(got[[0, 1, 2, 3, 5, 6]], [nan, nan, nan, 0, nan, nan])


@pytest.mark.parametrize("name", FLOATS)
def test_regularized_incomplete_beta(name: str) -> None:
    grid = np.meshgrid(
        [0.0625, 0.5, 1, 3, 20], [0.0625, 0.5, 1, 3, 20], [0, 0.01, 0.3, 0.5, 0.7, 1]
    )
    a, b, x = (normal_numbers(v.reshape(-1), name) for v in grid)
    reference = scipy.special.betainc
    check(lib.regularized_incomplete_beta, reference, a, b, x, ulps=32, smallest=1.0)
    a, b, x = (
        normal_numbers(v, name)
        for v in ([0, 1, 1, 1, np.nan, 1], [1, -1, 1, 1, 1, 1], [0.5, 0.5, -0.5, 1.5, 1, np.nan])
    )
    assert np.isnan(values_of(lib.regularized_incomplete_beta, a, b, x).astype(float)).all()


def binomial_tail(a: int, b: int, x: float) -> float:
    """Return I(a, b, x) for integers: a sum of binomial probabilities (DLMF 8.17.5)."""
    exact, n = Fraction(x), a + b - 1
    total = sum(math.comb(n, j) * exact**j * (1 - exact) ** (n - j) for j in range(a, n + 1))
    return float(total)


def errors_of_beta(a: Any, b: Any, x: Any, expected: Any) -> Any:
    """Return errors in ulps, times the negative logarithm of a small result, or in ulps of 1."""
    got = values_of(lib.regularized_incomplete_beta, a, b, x)
    is_direct = x < (a - 0.5) / (a + b)
    relative = expected * np.maximum(1, -np.log(expected))
    return abs(got - expected) / np.where(is_direct, relative, 1) / np.finfo(a.dtype).eps


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_regularized_incomplete_beta_of_integers(name: str) -> None:
    cases = [
        *((1, 7, 0.25), (7, 1, 0.75), (2, 3, 0.625), (5, 300, 2.0**-6), (300, 5, 0.984375)),
        *((9, 9, 0.5), (60, 40, 0.5625), (150, 250, 0.3125), (150, 250, 0.4375), (350, 8, 0.875)),
    ]
    a, b, x = np.array(cases).T.astype(xb.as_primitive_type(name).dtype)
    expected = np.array([binomial_tail(*case) for case in cases])
    assert errors_of_beta(a, b, x, expected).max() <= 32


def test_regularized_incomplete_beta_of_all_sizes() -> None:
    """Parameters of f32 from 1e-3 to 1e5, with x near the mean and far from it."""
    a, b = (10.0 ** RANDOM.uniform(-3, 5, 1500) for _ in range(2))
    mean = a / (a + b)
    near = mean + RANDOM.uniform(-5, 5, 1500) * np.sqrt(mean * (1 - mean) / (a + b + 1))
    x = np.where(RANDOM.uniform(size=1500) < 0.7, near, RANDOM.uniform(size=1500))
    a, b, x = (v.astype(np.float32) for v in (a, b, np.clip(x, 1e-6, 1 - 1e-6)))
    expected = scipy.special.betainc(a.astype(float), b.astype(float), x.astype(float))
    used = expected > 1e-37
    assert errors_of_beta(*(v[used] for v in (a, b, x, expected))).max() <= 32


def test_edges_of_regularized_incomplete_beta() -> None:
    inf = np.inf
    a = np.array([2, 2, inf, inf, 2, 2, inf, inf])
    b = np.array([3, 3, 3, 3, inf, inf, inf, 3])
    x = np.array([0, 1, 0.5, 1, 0.5, 0, 0.5, 0])
    got = values_of(lib.regularized_incomplete_beta, a, b, x)
    np.testing.assert_array_equal(got, [0, 1, 0, 1, 1, 0, np.nan, 0])


def test_regularized_incomplete_beta_takes_scalars() -> None:
    x = np.linspace(0, 1, 5)
    got = run(lib.regularized_incomplete_beta, np.full(5, 2.0), np.float64(3), x)
    np.testing.assert_allclose(got, scipy.special.betainc(2, 3, x), rtol=1e-14)
    b = xb.XlaBuilder()
    narrow = b.parameter("f8e5m2[2]")
    with pytest.raises(
        xb.OperandError, match="must be of f16, bf16, f32 or f64, got f8e5m2\nfix: "
    ):
        lib.regularized_incomplete_beta(narrow, narrow, narrow)
    scalar, vector = b.parameter("f32[]"), b.parameter("f32[2]")
    with pytest.raises(xb.ShapeInferenceError, match=r"a must have the sizes of the result, got f"):
        lib.regularized_incomplete_beta(scalar, vector, vector)
    wide = b.parameter("f32[?]")
    with pytest.raises(xb.ShapeInferenceError, match=r"sizes of a must be constant or bounded"):
        lib.regularized_incomplete_beta(wide, wide, wide)


BINARY = (
    lib.zeta,
    lib.polygamma,
    lib.igamma,
    lib.igammac,
    lib.igamma_grad_a,
    lib.random_gamma_grad,
)


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_shapes_of_two(function: Callable[..., xb.XlaOp]) -> None:
    b = xb.XlaBuilder()
    for text in ("f32[2,0,3]", "f16[<=5,2]", "f8e5m2[]", "f64[4]"):
        assert function(b.parameter(text), b.parameter(text)).shape == xb.parse_shape(text)
    empty = np.zeros((2, 0), np.float32)
    assert run(function, empty, empty).shape == (2, 0)
    name = function.__name__
    with pytest.raises(xb.OperandError, match=rf"^{name}: \w+ must be a floating-point array"):
        function(b.parameter("s32[2]"), b.parameter("s32[2]"))
    with pytest.raises(xb.OperandError, match=rf"^{name}: \w, \w must have one element type, got"):
        function(b.parameter("f32[2]"), b.parameter("f16[2]"))
    with pytest.raises(xb.ShapeInferenceError, match=rf"^{name}: \w, \w must have one shape, got"):
        function(b.parameter("f32[2]"), b.parameter("f32[]"))


UNARY = (lib.erfc, lib.erf_inv, lib.lgamma, lib.digamma, lib.bessel_i0e, lib.bessel_i1e)


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_shapes(function: Callable[..., xb.XlaOp]) -> None:
    b = xb.XlaBuilder()
    for text in ("f32[2,0,3]", "f16[<=5,2]", "f8e5m2[]", "f64[4]"):
        x = b.parameter(text)
        assert function(x).shape == x.shape
    assert run(function, np.zeros((2, 0), np.float32)).shape == (2, 0)
    unbounded = b.parameter("f32[?]")
    if function in (lib.erf_inv, lib.lgamma, lib.digamma):
        with pytest.raises(xb.ShapeInferenceError, match="must be constant or bounded, got f32"):
            function(unbounded)
    else:
        assert function(unbounded).shape == unbounded.shape
    for text in ("s32[2]", "c64[2]", "(f32[2])", "pred[]"):
        with pytest.raises(xb.OperandError, match=rf"^{function.__name__}: \w+ must be an? "):
            function(b.parameter(text))
