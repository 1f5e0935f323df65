"""Elementwise ops executed on CPU, compared with NumPy and SciPy in double precision.

Most tests compute all ops of a table on all element types in one computation, which compiles once;
`run_together` makes it small. Types of up to 16 bits are tested with every value, types of up to 8
bits in binary ops with every pair of values, wider types with corner values and random bits.

XLA's CPU backend flushes subnormal f32 and f64 numbers to zero before and after each operation.
bf16 is computed in f32, and its smallest values, which are subnormal as f32, are flushed too. The
references flush in the same way. f8e8m0fnu is computed in f64, which flushes none of its values.
Ops that move bits or change signs (abs, neg, real, select, bitcast, ...) flush nothing. The other
narrow types have no values that small.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy
from support import assert_same_bits, parameter_like, run, ulp_distance
from tables import mostly_slow

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType

FLOATS = [t for t in ALL if t.is_floating]
INTEGERS = [t for t in ALL if t.is_integral]
COMPLEXES = [t for t in ALL if t.is_complex]
IN_DOUBLE = (xb.f64, xb.c128, xb.f8e8m0fnu)
"""The types that are computed in double precision."""
WIDE_SIZE = 64 * 64
"""The number of values of a wide type: a multiple of the vector size, since LLVM compiles a second
loop for a remainder. `test_functions` has a shape of 61 by 67 too."""

Operands = dict[PrimitiveType, tuple[np.ndarray, ...]]


@pytest.fixture(params=["every type", "optimized"])
def floats(request: pytest.FixtureRequest) -> list[PrimitiveType]:
    """Every floating-point type; with LLVM's optimizations, the types that LLVM has."""
    if request.param == "every type":
        return FLOATS
    request.getfixturevalue("optimized")
    return [xb.f16, xb.bf16, xb.f32, xb.f64]


@pytest.fixture(autouse=True)
def no_warnings_of_numpy():
    """The references compute with NaN, infinities and overflow on purpose."""
    with np.errstate(all="ignore"):
        yield


def generator(seed: int = 0) -> np.random.Generator:
    """Return a generator whose numbers do not depend on the tests that ran before."""
    return np.random.default_rng(20240607 + seed)


def corners(t: PrimitiveType) -> list[Any]:
    """Corner values of a type: limits, zeros of both signs, infinities, NaN."""
    if t is xb.pred:
        return [False, True]
    if t.is_integral:
        return sorted({t.min, t.min + 1, 0, 1, 2, 3, t.max - 1, t.max} | ({-1} & {t.min // 2 | -1}))
    info = ml_dtypes.finfo(t.real_type.dtype)
    tiny, smallest = float(info.smallest_normal), float(info.smallest_subnormal)
    small = [tiny, -tiny, smallest, -smallest, tiny - smallest]
    special = [float("inf"), float("-inf"), float("nan"), t.max, t.min]
    return [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, *special, *small]


def values(t: PrimitiveType, rng: np.random.Generator) -> np.ndarray:
    """Every value of a type of up to 16 bits; corner values and random bits of a wider type."""
    if t is xb.pred:
        return np.array([False, True])
    if t.is_complex:
        parts = values(t.real_type, rng)
        together = np.empty(parts.size, t.dtype)
        together.real, together.imag = parts, rng.permutation(parts)
        return together
    if t.is_integral and t.bits < 8:
        return np.arange(t.min, t.max + 1).astype(t.dtype)
    if t.bits <= 16:
        bits = np.arange(1 << t.bits, dtype=f"u{t.byte_width}")
        return bits.view(t.dtype)
    random = rng.integers(0, 1 << t.bits, WIDE_SIZE, f"u{t.byte_width}").view(t.dtype)
    if t.is_integral:
        # Of every magnitude: most random bits are large numbers.
        random = random >> rng.integers(0, t.bits, WIDE_SIZE).astype(t.dtype)
    else:
        random[1000:3000] = rng.uniform(-20, 20, 2000)
        random[3000:3500] = np.round(random[2000:2500]) + 0.5
    first = np.array(corners(t)).astype(t.dtype)
    random[: first.size] = first
    return random


def pairs(t: PrimitiveType, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return every pair of values of a type of up to 8 bits; every pair of corner values and random
    pairs of a wider type."""
    every = values(t, rng)
    if t.bits <= 8:
        return np.repeat(every, every.size), np.tile(every, every.size)
    special = np.array(corners(t)).astype(t.dtype)
    if t.is_complex:
        special = every[: special.size]
    count = WIDE_SIZE + -(special.size**2) % 64
    return (
        np.concatenate(
            [np.repeat(special, special.size), np.resize(rng.permutation(every), count)]
        ),
        np.concatenate([np.tile(special, special.size), np.resize(rng.permutation(every), count)]),
    )


def apply_to_all(
    function: Callable[..., Any], types: Sequence[PrimitiveType], operands: Operands
) -> dict[PrimitiveType, Any]:
    """Apply `function` to the operands of each type, in one computation, and return the results."""
    b = xb.XlaBuilder("elementwise")
    results = [function(*(parameter_like(b, a) for a in operands[t])) for t in types]
    arguments = [a for t in types for a in operands[t]]
    return dict(zip(types, run(b.build(xb.tuple(*results)), *arguments), strict=True))


def run_together(
    b: xb.XlaBuilder, groups: Sequence[Sequence[xb.XlaOp]], arguments: Sequence[np.ndarray]
) -> list[list[np.ndarray]]:
    """Run the computation of some ops of rank 1, in groups of ops of one type.

    The program has concatenations of eight ops, the most that XLA compiles to one loop. Compiling
    a loop takes longer than compiling the ops in it.
    """
    parts = [group[start : start + 8] for group in groups for start in range(0, len(group), 8)]
    root = xb.tuple(*(xb.concat_in_dim(part, 0) for part in parts))
    arrays: list[np.ndarray] = []
    for part, together in zip(parts, run(b.build(root), *arguments), strict=True):
        ends = np.cumsum([op.shape.dimensions[0] for op in part])
        arrays += np.split(together, ends[:-1])
    rest = iter(arrays)
    return [[next(rest) for _ in group] for group in groups]


def apply_each(
    names: Iterable[str], operands: Operands
) -> dict[tuple[str, PrimitiveType], np.ndarray]:
    """Apply the ops of these names to the operands of each type that they take.

    Args:
        names: the names of ops with results of the operands' shape.
        operands: the operands of each type, of rank 1.

    Returns:
        The results by name and type.
    """
    b = xb.XlaBuilder("elementwise")
    groups: dict[Any, dict[tuple[str, PrimitiveType], xb.XlaOp]] = {}
    for t, arrays in operands.items():
        parameters = [parameter_like(b, a) for a in arrays]
        for name in names:
            if t in types_of(name):
                result = getattr(xb, name)(*parameters)
                groups.setdefault((t, result.shape.element_type), {})[name, t] = result
    arguments = [a for arrays in operands.values() for a in arrays]
    results = run_together(b, [[*ops.values()] for ops in groups.values()], arguments)
    keys = [key for ops in groups.values() for key in ops]
    return dict(zip(keys, itertools.chain(*results), strict=True))


def as_double(a: np.ndarray) -> np.ndarray:
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def of_subnormals(
    got: np.ndarray, want: np.ndarray, t: PrimitiveType, *operands: np.ndarray
) -> np.ndarray:
    """Return `want`; for subnormal operands `got` if it is equal after flushing.

    On CPUs with instructions for bf16, jaxlib 0.12 compares flushed numbers and returns the operand
    unflushed. Which one of several zeros it returns is not specified.
    """
    has_subnormal = np.zeros(got.shape, bool)
    for operand in operands:
        has_subnormal |= (flushed(as_double(operand), t) == 0) & (as_double(operand) != 0)
    is_equal = flushed(as_double(got), t) == as_double(want)
    return np.where(has_subnormal & is_equal, got, want)


def flushed(x: np.ndarray, t: PrimitiveType) -> np.ndarray:
    """Flush the doubles that are subnormal in the type in which the CPU computes `t`."""
    if np.iscomplexobj(x):
        parts = np.empty(x.shape, x.dtype)
        parts.real, parts.imag = flushed(x.real, t), flushed(x.imag, t)
        return parts
    tiny = np.finfo(np.float64 if t in IN_DOUBLE else np.float32).tiny
    return np.where(np.abs(x) < tiny, np.copysign(0, x), x)


def rounded(x: np.ndarray, t: PrimitiveType) -> np.ndarray:
    """Round doubles to results of type `t`, as the CPU does."""
    if t not in IN_DOUBLE:
        x = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)
    return flushed(x, t).astype(t.dtype)


def in_range(want: np.ndarray, t: PrimitiveType) -> np.ndarray:
    """Whether each result can be compared: f4e2m1fn has neither infinities nor NaN, for which XLA
    and ml_dtypes return different values."""
    if t is not xb.f4e2m1fn:
        return np.ones(want.shape, bool)
    return np.isfinite(want) & (np.abs(want) <= t.max)


def as_numbers(a: np.ndarray) -> np.ndarray:
    """Integers as Python ints, which do not overflow."""
    wide = a.astype(np.uint64 if a.dtype == np.uint64 else np.int64)
    return wide.astype(object)


def wrapped(numbers: Any, t: PrimitiveType) -> np.ndarray:
    """Python integers modulo the width of an integer type."""
    flat = [(int(n) - t.min) % (1 << t.bits) + t.min for n in np.asarray(numbers, object).flat]
    wide = np.array(flat, np.uint64 if t.min == 0 else np.int64)
    return wide.astype(t.dtype).reshape(np.shape(numbers))


def types_of(name: str) -> list[PrimitiveType]:
    """Return the element types of a unary or binary op."""
    if name == "conj":
        return COMPLEXES
    allowed, *_ = xb.OPERATIONS[name].schema.element_types.values()
    return [t for t in ALL if t in allowed.types]


# Approximated functions: name -> the function in double precision, the sampled domain, and the
# tolerances: in ulps for types of up to 16 bits, for f32 and for f64; in epsilons of the result's
# magnitude for complex types. The largest observed error is at most half of each.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, float], int, int, int, int]] = {
    "acos": (np.arccos, (-1, 1), 2, 4, 4, 6),
    "acosh": (np.arccosh, (1, 9), 4, 6, 6, 6),
    "asin": (np.arcsin, (-1, 1), 2, 4, 4, 6),
    "asinh": (np.arcsinh, (-9, 9), 2, 4, 4, 6),
    "atan": (np.arctan, (-9, 9), 2, 4, 4, 6),
    "atanh": (np.arctanh, (-0.99, 0.99), 2, 6, 6, 6),
    "cbrt": (np.cbrt, (-9, 9), 1, 2, 6, 0),
    "cos": (np.cos, (-9, 9), 1, 2, 2, 20),
    "cosh": (np.cosh, (-4, 4), 1, 2, 4, 30),
    "erf": (lambda x: scipy.special.erf(x), (-3, 3), 1, 8, 4, 0),
    "exp": (np.exp, (-9, 9), 2, 2, 2, 4),
    "expm1": (np.expm1, (-3, 3), 4, 8, 8, 4),
    "log": (np.log, (0.01, 99), 1, 2, 2, 4),
    # 28 epsilons in c128 with jaxlib 0.10, 2 with 0.12.
    "log1p": (np.log1p, (-0.9, 9), 2, 4, 5, 60),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), (-9, 9), 4, 4, 4, 8),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.01, 99), 1, 2, 4, 4),
    # The complex sine is inaccurate near multiples of pi.
    "sin": (np.sin, (-9, 9), 1, 2, 2, 100),
    "sinh": (np.sinh, (-4, 4), 2, 10, 6, 16),
    "sqrt": (np.sqrt, (0, 99), 1, 0, 0, 4),
    "tan": (np.tan, (-1.5, 1.5), 1, 2, 2, 8),
    "tanh": (np.tanh, (-4, 4), 1, 8, 8, 8),
}
WIDE = (xb.f32, xb.f64, xb.c64, xb.c128)


def sample(
    name: str, t: PrimitiveType, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Return values of the domain of an approximated function, and special values."""
    low, high = FUNCTIONS[name][1]
    x = np.asarray(rng.uniform(low, high, shape))
    if t.is_complex:
        x = x + 1j * rng.uniform(low, high, shape)
    elif x.size > 1:
        x.flat[:5] = [0.0, -0.0, float("inf"), float("-inf"), float("nan")]
    return x.astype(t.dtype)


def check_function(name: str, t: PrimitiveType, x: np.ndarray, got: np.ndarray) -> None:
    reference, _, narrow, single, double, of_complex = FUNCTIONS[name]
    want = np.asarray(reference(as_double(x)))
    if t.is_complex:
        check_complex(got, want, of_complex, (name, t))
    else:
        tolerance = {32: single, 64: double}.get(t.bits, narrow)
        check_real(got, want, tolerance, (name, t), in_range(want, t))


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("first", mostly_slow(range(0, len(FUNCTIONS), 3), 1))
def test_functions(first: int) -> None:
    b = xb.XlaBuilder("functions")
    cases, ops = [], []
    for name in [*FUNCTIONS][first : first + 3]:
        rng = generator(len(name) + 1)
        for t in [t for t in types_of(name) if t in WIDE]:
            # The shape makes no difference for a type.
            for shape in ((61, 67), (), (0, 3)) if t is xb.f32 else ((64, 64),):
                x = sample(name, t, shape, rng)
                cases.append((name, t, x))
                ops.append(getattr(xb, name)(parameter_like(b, x)))
    results = run(b.build(xb.tuple(*ops)), *(x for *_, x in cases))
    for case, got in zip(cases, results, strict=True):
        check_function(*case, got)


@pytest.mark.slow
def test_functions_of_narrow_types() -> None:
    """XLA converts the operands to a wider type. LLVM has f16 and bf16, which get all functions,
    and the other types get a third of the functions each."""
    b = xb.XlaBuilder("narrow")
    operands, ops = [], []
    cases = {}
    for t in [t for t in FLOATS if t not in WIDE]:
        names = [*FUNCTIONS] if t in (xb.f16, xb.bf16) else [*FUNCTIONS][FLOATS.index(t) % 3 :: 3]
        cases[t] = [(name, sample(name, t, (4096,), generator(len(name)))) for name in names]
        operands += [x for _, x in cases[t]]
        ops.append([getattr(xb, name)(parameter_like(b, x)) for name, x in cases[t]])
    for (t, of_type), results in zip(cases.items(), run_together(b, ops, operands), strict=True):
        for (name, x), result in zip(of_type, results, strict=True):
            check_function(name, t, x, result)


def check_bits(got: np.ndarray, want: np.ndarray, name: str, t: PrimitiveType) -> None:
    """Assert that values are identical, and name the function and the type of its operands."""
    try:
        assert_same_bits(got, want)
    except AssertionError as error:
        error.add_note(f"{name} of {t}")
        raise


def check_real(got, want, ulps: int, where, compared=True) -> None:
    """Assert that values differ by at most some ulps of the type, and NaN only where expected."""
    want = want.astype(got.dtype)
    distance = np.where(compared, ulp_distance(got, want), 0)
    worst = distance.max(initial=0)
    at = distance.argmax() if distance.size else 0
    assert worst <= ulps, f"{where}: off by {worst} ulps: {got.flat[at]}, not {want.flat[at]}"


def check_complex(got, want, epsilons: float, where) -> None:
    """Assert that values differ by some epsilons of the magnitude at most; NaN for infinities."""
    error = np.abs(as_double(got) - want) / np.finfo(got.dtype).eps
    bad = ~((error <= epsilons * np.abs(want)) | (np.isnan(got) & ~np.isfinite(want)))
    assert not bad.any(), f"{where}: {got[bad][:3]}, not {want[bad][:3]}: {error[bad][:3]}"


# Unary ops that are exact: functions in double precision, compared to the last bit.


def away_from_zero(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x)


EXACT: dict[str, Callable[..., Any]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "reciprocal": lambda x: 1 / x,
    "round": away_from_zero,
    "round_nearest_even": np.rint,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
}


def test_exact_functions_of_floats(floats: list[PrimitiveType]) -> None:
    operands: Operands = {t: (values(t, generator()),) for t in floats}
    for (name, t), got in apply_each(EXACT, operands).items():
        want = np.asarray(EXACT[name](flushed(as_double(operands[t][0]), t)))
        expected = rounded(want, t)
        if name == "sqrt" and t is xb.f8e3m4:
            # Computed in f16 and rounded again: sqrt(0.96875) is 1.
            check_real(got, expected, 1, (name, t))
            continue
        where = in_range(want, t)
        if t is xb.f8e8m0fnu:
            # sqrt and reciprocal flush the smallest value; ceil and sign do not.
            where &= flushed(as_double(operands[t][0]), t) != 0
        check_bits(got[where], expected[where], name, t)


# Ops that move bits or change a sign flush nothing, and keep -0 and every NaN.
UNROUNDED: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "neg": np.negative,
    "real": np.real,
    "imag": np.imag,
    "is_finite": np.isfinite,
}


def test_moves_of_floats() -> None:
    operands: Operands = {t: (values(t, generator()),) for t in FLOATS}
    for (name, t), got in apply_each(UNROUNDED, operands).items():
        want = np.asarray(UNROUNDED[name](as_double(operands[t][0])))
        wanted_type = xb.pred if name == "is_finite" else t
        check_bits(got, want.astype(wanted_type.dtype), name, t)


def test_functions_of_complex_parts() -> None:
    for t in COMPLEXES:
        x = values(t, generator())
        b = xb.XlaBuilder("parts")
        p = parameter_like(b, x)
        parts = xb.complex(xb.imag(p), xb.real(p))
        root = xb.tuple(xb.real(p), xb.imag(p), xb.conj(p), xb.neg(p), parts)
        real, imag, conjugate, negative, swapped = run(b.build(root), x)
        assert_same_bits(real, x.real.copy())
        assert_same_bits(imag, x.imag.copy())
        assert_same_bits(conjugate, np.conj(x))
        assert_same_bits(negative, -x)
        assert_same_bits(swapped.real.copy(), x.imag.copy())
        assert_same_bits(swapped.imag.copy(), x.real.copy())


@pytest.mark.parametrize("name", ["abs", "sign", "square", "reciprocal", "sqrt"])
def test_functions_of_complex_numbers(name: str) -> None:
    reference = {**EXACT, **UNROUNDED}[name]
    if name == "sign":  # z / |z|
        reference = lambda z: np.where(z == 0, 0, z / np.abs(z))  # noqa: E731
    rng = generator()
    operands = {}
    for t in COMPLEXES:
        z = rng.uniform(-9, 9, WIDE_SIZE) + 1j * rng.uniform(-9, 9, WIDE_SIZE)
        z[:6] = [0, 1, -1, 1j, -1j, 3 + 4j]
        operands[t] = (z.astype(t.dtype),)
    results = apply_to_all(getattr(xb, name), COMPLEXES, operands)
    for t in COMPLEXES:
        want = np.asarray(reference(as_double(operands[t][0])))
        zero = operands[t][0] == 0
        if name == "abs":
            check_real(results[t], want, 2, (name, t))
        else:
            check_complex(results[t][~zero], want[~zero], 4, (name, t))


@pytest.mark.parametrize("t", [np.complex64, np.complex128])
def test_complex_atan2_of_files(t: type) -> None:
    """The formula of XLA, without the overflow of its squares."""
    numbers = [1, -1, 1e-3 + 1j, -2 + 0.5j, 3 - 4j, 0.5j, 2j, 1e-20, 1e-6j, -0.7 + 1e-8j, 0]
    rng = np.random.default_rng(7)
    parts = rng.standard_normal((4, 500))
    ys = np.array([y for y in numbers for _ in numbers] + [*(parts[0] + 1j * parts[1])], t)
    xs = np.array([x for _ in numbers for x in numbers] + [*(parts[2] + 1j * parts[3])], t)
    array = f"tensor<{len(ys)}xcomplex<f{32 if t is np.complex64 else 64}>>"
    module = lowering.load_bytes(
        f"func.func @main(%y: {array}, %x: {array}) -> {array} {{ "
        f"%0 = stablehlo.atan2 %y, %x : {array} return %0 : {array} }}"
    )
    compiled = lowering.compile(module, "cpu")
    y, x = ys.astype(np.clongdouble), xs.astype(np.clongdouble)
    with np.errstate(all="ignore"):
        root = np.sqrt(x * x + y * y)
        want = np.where((y == 0) & (x == 0), 0, -1j * np.log((x + 1j * y) / root))
    # At poles, and where the root of a negative number has either sign, there is no single value.
    is_regular = np.isfinite(want) & ((root.real > 1e-9 * abs(root)) | (root == 0))
    assert is_regular.sum() > 550
    got = np.asarray(compiled(ys, xs))
    error = np.abs(got - want)[is_regular]
    assert (error <= 16 * np.finfo(t).eps * np.abs(want)[is_regular] + 1e-19).all()
    # The result depends on the quotient only.
    large = t(2.0**100 if t is np.complex64 else 2.0**1000)
    scaled = np.asarray(compiled(ys * large, xs * large))
    normal = np.minimum(abs(ys), abs(xs)) > 1e-3
    np.testing.assert_array_equal(scaled[normal], got[normal])
    infinite = np.asarray(compiled(np.full_like(ys, complex(np.inf, 0)), np.ones_like(xs)))
    np.testing.assert_allclose(infinite, np.pi / 2, rtol=1e-6)


def test_complex_atan_of_large_and_special_numbers() -> None:
    """XLA's complex atan2 is NaN for these."""
    numbers = [0.0, 0.5, 2.0, 1e-8, 1e30, -1e30, np.inf, -np.inf, np.nan]
    for t in COMPLEXES:
        largest = float(np.finfo(t.real_type.dtype).max)
        parts = [*numbers, largest, -largest]
        z = np.array([complex(x, y) for x in parts for y in parts] + [1j, -1j], t.dtype)
        got = as_double(apply_to_all(xb.atan, [t], {t: (z,)})[t])
        with np.errstate(all="ignore"):
            want = np.arctan(as_double(z))
        eps = float(np.finfo(t.real_type.dtype).eps)
        tiny = float(np.finfo(t.real_type.dtype).tiny)
        np.testing.assert_allclose(got.real, want.real, rtol=4 * eps)
        has_imaginary = ~np.isnan(z.real)  # of NaN + 0i the imaginary part is 0 by C99
        np.testing.assert_allclose(
            got.imag[has_imaginary], want.imag[has_imaginary], rtol=4 * eps, atol=tiny
        )


INTEGER_FUNCTIONS: dict[str, Callable[[int, PrimitiveType], int]] = {
    "abs": lambda n, t: abs(n),  # the smallest value is its own absolute value
    "clz": lambda n, t: t.bits - (n % (1 << t.bits)).bit_length(),
    "neg": lambda n, t: -n,
    "not_": lambda n, t: ~n,
    "population_count": lambda n, t: (n % (1 << t.bits)).bit_count(),
    "sign": lambda n, t: (n > 0) - (n < 0),
    "square": lambda n, t: n * n,
}


def test_functions_of_integers() -> None:
    operands: Operands = {t: (values(t, generator()),) for t in INTEGERS}
    for (name, t), got in apply_each(INTEGER_FUNCTIONS, operands).items():
        want = [INTEGER_FUNCTIONS[name](n, t) for n in as_numbers(operands[t][0])]
        check_bits(got, wrapped(want, t), name, t)


def test_not_of_preds() -> None:
    x = np.array([False, True])
    (got,) = apply_to_all(xb.not_, [xb.pred], {xb.pred: (x,)}).values()
    assert got.tolist() == [True, False]


# Binary ops.


def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NaN if either is; +0 is larger than -0."""
    result = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, result)


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": larger,
    "min": lambda a, b: -larger(-a, -b),
}


def test_binary_of_floats(floats: list[PrimitiveType]) -> None:
    operands: Operands = {t: pairs(t, generator()) for t in floats}
    for (name, t), got in apply_each([*BINARY, "rem"], operands).items():
        a, b = map(as_double, operands[t])
        if name == "rem":  # the sign is that of the dividend
            want = np.fmod(a, b)
            expected = want.astype(t.dtype)
            # The result is exact even if it is subnormal; only subnormal divisors are flushed.
            where = in_range(want, t) & ((flushed(b, t) == b) | np.isnan(b))
        else:
            want = BINARY[name](flushed(a, t), flushed(b, t))
            expected = rounded(want, t)
            where = in_range(want, t)
            if name in ("max", "min"):
                expected = of_subnormals(got, expected, t, *operands[t])
        check_bits(got[where], expected[where], name, t)


@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_power_and_angle_of_floats(name: str) -> None:
    types = [t for t in types_of(name) if t.is_floating]
    operands = {t: pairs(t, generator()) for t in types}
    results = apply_to_all(getattr(xb, name), types, operands)
    for t in types:
        a, b = map(as_double, operands[t])
        want = {"pow": np.power, "atan2": np.arctan2}[name](a, b)
        # XLA flushes subnormal numbers only in some steps: atan2(5e-324, -1) is -pi.
        where = in_range(want, t) & (flushed(a, t) == a) & (flushed(b, t) == b)
        where |= np.isnan(a) | np.isnan(b)
        expected = rounded(want, t)
        check_real(results[t], expected, 4 if t.bits >= 32 else 1, (name, t), where)


COMPLEX_BINARY: dict[str, tuple[Callable[..., Any], float]] = {
    "add": (np.add, 1),
    "sub": (np.subtract, 1),
    "mul": (np.multiply, 2),
    "div": (np.divide, 4),
    "pow": (np.power, 100),
    "atan2": (lambda y, x: -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)), 100),
}


@pytest.mark.parametrize("name", mostly_slow(COMPLEX_BINARY, 1))
def test_binary_of_complex_numbers(name: str) -> None:
    reference, epsilons = COMPLEX_BINARY[name]
    rng = generator()
    operands = {}
    for t in COMPLEXES:
        a, b = rng.uniform(-4, 4, (2, 64, 64)) + 1j * rng.uniform(-4, 4, (2, 64, 64))
        operands[t] = (a.astype(t.dtype), b.astype(t.dtype))
    results = apply_to_all(getattr(xb, name), COMPLEXES, operands)
    for t in COMPLEXES:
        a, b = map(as_double, operands[t])
        check_complex(results[t], reference(a, b), epsilons, (name, t))


def quotient(a: int, b: int) -> int:
    """XLA's integer division: toward zero; division by zero gives all ones."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    """XLA's remainder: of the dividend's sign; the dividend for a divisor of zero."""
    return a if b == 0 else a - quotient(a, b) * b


def power(a: int, b: int, t: PrimitiveType) -> int:
    """XLA's integer power: modulo the width; rounded toward zero for negative exponents."""
    if b < 0:
        return a ** (b % 2) if abs(a) == 1 else 0
    return pow(a % (1 << t.bits), b, 1 << t.bits)


def shifted_right(a: int, b: int, t: PrimitiveType, *, logical: bool) -> int:
    amount = b % (1 << t.bits)  # as an unsigned number
    if not logical:
        # The highest bit is copied, for unsigned numbers too.
        a = (a + (1 << t.bits >> 1)) % (1 << t.bits) - (1 << t.bits >> 1)
        return a >> min(amount, t.bits)
    return (a % (1 << t.bits)) >> amount if amount < t.bits else 0


def shifted_left(a: int, b: int, t: PrimitiveType) -> int:
    amount = b % (1 << t.bits)
    return a << amount if amount < t.bits else 0


INTEGER_BINARY: dict[str, Callable[[int, int, PrimitiveType], int]] = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul": lambda a, b, t: a * b,
    "mulhi": lambda a, b, t: (a * b) >> t.bits,
    "div": lambda a, b, t: quotient(a, b),
    "rem": lambda a, b, t: remainder(a, b),
    "max": lambda a, b, t: max(a, b),
    "min": lambda a, b, t: min(a, b),
    "pow": power,
    "and_": lambda a, b, t: a & b,
    "or_": lambda a, b, t: a | b,
    "xor": lambda a, b, t: a ^ b,
    "shift_left": shifted_left,
    "shift_right_arithmetic": lambda a, b, t: shifted_right(a, b, t, logical=False),
    "shift_right_logical": lambda a, b, t: shifted_right(a, b, t, logical=True),
}


SHIFTS = ("shift_left", "shift_right_arithmetic", "shift_right_logical")
# jaxlib does not convert the HLO text of a program with mulhi.
OTHERS = tuple(name for name in INTEGER_BINARY if name not in (*SHIFTS, "mulhi"))


@pytest.mark.parametrize("names", [SHIFTS, ("mulhi",), OTHERS], ids=["shifts", "mulhi", "others"])
def test_binary_of_integers(names: Sequence[str]) -> None:
    operands: Operands = {}
    rng = generator()
    for t in INTEGERS:
        a, b = pairs(t, rng)
        if names is SHIFTS:
            # Shifts near the width.
            amounts = [0, 1, t.bits - 1, t.bits, t.bits + 1, 2 * t.bits, -1]
            b = b.copy()
            b[::3] = wrapped(rng.choice(amounts, b[::3].size).tolist(), t)
        if a.size > 5120:  # the reference is computed by Python, one number at a time
            chosen = rng.permutation(a.size)[:5120]
            a, b = a[chosen], b[chosen]
        operands[t] = (a, b)
    for (name, t), got in apply_each(names, operands).items():
        a, b = map(as_numbers, operands[t])
        want = [INTEGER_BINARY[name](x, y, t) for x, y in zip(a, b, strict=True)]
        check_bits(got, wrapped(want, t), name, t)


def test_binary_of_preds() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    names = ("add", "mul", "max", "min", "and_", "or_", "xor")
    for (name, t), got in apply_each(names, {xb.pred: (a, b)}).items():
        either = name in ("add", "max", "or_")
        want = a ^ b if name == "xor" else a | b if either else a & b
        check_bits(got, want, name, t)


def test_every_unary_and_binary_op_is_tested_here() -> None:
    tested = {*FUNCTIONS, *EXACT, *UNROUNDED, *INTEGER_FUNCTIONS, *BINARY, *INTEGER_BINARY}
    tested |= {"rem", "pow", "atan2", "complex", "conj"}
    assert {name for name, info in xb.OPERATIONS.items() if info.schema.result} <= tested


# Shapes of other ranks: the value of an element does not depend on the shape.


def test_scalars_and_empty_arrays_of_every_type() -> None:
    for shape in ((), (0, 3)):
        b = xb.XlaBuilder("shapes")
        arguments = [np.resize(np.array([1], t.dtype), shape) for t in ALL]
        parameters = [parameter_like(b, a) for a in arguments]
        sums = [xb.add(p, p) for p in parameters]
        equal = [xb.eq(p, s) for p, s in zip(parameters, sums, strict=True)]
        # One array, so that XLA compiles fewer loops.
        together = xb.concat_in_dim([xb.broadcast(same, [1]) for same in equal], 0)
        *got, compared = run(b.build(xb.tuple(*sums, together)), *arguments)
        for t, total, same in zip(ALL, got, compared, strict=True):
            one = np.ones(shape, t.dtype)
            two = one if t is xb.pred else wrapped(2, t) if t.is_integral else (one + one)
            assert_same_bits(total, np.resize(np.asarray(two, t.dtype), shape))
            assert_same_bits(same, np.full(shape, t is xb.pred))


# Comparisons.

DIRECTIONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}


def test_comparisons() -> None:
    operands: Operands = {t: pairs(t, generator()) for t in ALL}
    ordered = {t: operands[t] for t in ALL if not t.is_complex}
    results = apply_each(DIRECTIONS, ordered)
    results |= apply_each(("eq", "ne"), {t: operands[t] for t in COMPLEXES})
    for (name, t), got in results.items():
        a, b = operands[t]
        if t.is_floating or t.is_complex:
            a, b = flushed(as_double(a), t), flushed(as_double(b), t)
        elif t.is_integral:
            a, b = as_numbers(a), as_numbers(b)
        check_bits(got, DIRECTIONS[name](a, b).astype(bool), name, t)


def test_compare_takes_the_direction() -> None:
    operands = pairs(xb.s8, generator())

    def compared(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(*(xb.compare(a, b, name.upper()) for name in DIRECTIONS))

    results = apply_to_all(compared, [xb.s8], {xb.s8: operands})[xb.s8]
    for name, got in zip(DIRECTIONS, results, strict=True):
        check_bits(got, DIRECTIONS[name](*operands), name, xb.s8)


@pytest.mark.slow
def test_comparisons_in_total_order() -> None:
    operands: Operands = {t: pairs(t, generator()) for t in ALL if not t.is_complex}
    places: Operands = {}
    for t, arrays in operands.items():
        if t.is_floating:
            places[t] = tuple(place_in_total_order(a, t) for a in arrays)
        else:
            places[t] = tuple(as_numbers(a) for a in arrays) if t.is_integral else arrays
    compared = {f"{name}_total_order": function for name, function in DIRECTIONS.items()}
    for (name, t), got in apply_each(compared, operands).items():
        check_bits(got, compared[name](*places[t]).astype(bool), name, t)


def place_in_total_order(x: np.ndarray, t: PrimitiveType) -> np.ndarray:
    """The rank of values in the total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    bits = x.view(f"u{t.byte_width}").astype(object)
    if t is xb.f8e8m0fnu:  # no sign
        return bits
    top = 1 << (t.bits - 1)
    places = np.array([top - 1 - n if n & top else n for n in bits], object)
    if t.name.endswith("fnuz"):  # the only NaN has the bits of -0 in other types
        places[bits == top] = -top - 1
    return places


# Conversions.


def converted(x: np.ndarray, source: PrimitiveType, to: PrimitiveType) -> np.ndarray:
    if source.is_complex and not to.is_complex:
        if to is xb.pred:
            return flushed(x, source) != 0
        return converted(x.real.copy(), source.real_type, to)
    if source.is_integral or source is xb.pred:
        numbers = as_numbers(x)
        if to is xb.pred:
            return (numbers != 0).astype(bool)
        if to.is_integral:
            return wrapped(numbers, to)
        wide = x.astype(np.uint64 if source is xb.u64 else np.int64)
        if to is xb.f64 or to is xb.c128:
            return wide.astype(to.dtype)
        return wide.astype(np.float32).astype(to.dtype)
    numbers = as_double(x)
    if to is xb.pred:
        return flushed(numbers, source) != 0
    if to.is_integral:
        clipped = (0 if n != n else min(max(n, to.min), to.max) for n in numbers.tolist())
        return wrapped([int(n) for n in clipped], to)
    if (to in (xb.f64, xb.c128)) != (source in (xb.f64, xb.c128)) and xb.f8e8m0fnu not in (
        source,
        to,
    ):
        numbers = flushed(numbers, xb.f32)
    return numbers.astype(to.dtype)


def numbers_of(source: PrimitiveType) -> np.ndarray:
    x = values(source, generator())
    return np.resize(x[::13], 5120) if x.size > 5120 else x


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3))
def test_convert_element_type(first: int) -> None:
    targets = [t for t in ALL if t is not xb.pred][first::3]
    operands = [numbers_of(t) for t in ALL]
    b = xb.XlaBuilder("convert")
    parameters = [parameter_like(b, x) for x in operands]
    ops = [[xb.convert_element_type(p, to) for p in parameters] for to in targets]
    for to, results in zip(targets, run_together(b, ops, operands), strict=True):
        for source, x, result in zip(ALL, operands, results, strict=True):
            where = in_range(as_double(x).real, to)
            check_bits(result[where], converted(x, source, to)[where], str(to), source)


def test_convert_the_largest_numbers_of_f4_to_integers() -> None:
    """6 is not an infinity."""
    x = np.array([6, -6, 4]).astype(xb.f4e2m1fn.dtype)
    types = (xb.s4, xb.s8, xb.s32, xb.s64)
    p = parameter_like(xb.XlaBuilder(), x)
    results = run(p.builder.build(xb.tuple(*(xb.convert(p, t) for t in types))), x)
    assert [got.astype(int).tolist() for got in results] == [[6, -6, 4]] * 4


def test_convert_element_type_to_preds() -> None:
    operands = {t: (numbers_of(t),) for t in ALL}
    # A subnormal number is true or false depending on whether XLA converts or compares it.
    for t in (xb.bf16, xb.f8e8m0fnu):
        numbers = as_double(operands[t][0])
        is_normal = (flushed(numbers, xb.f32) == numbers) | np.isnan(numbers)
        operands[t] = (operands[t][0][is_normal],)
    b = xb.XlaBuilder("convert")
    arguments = [x for (x,) in operands.values()]
    ops = [xb.convert_element_type(parameter_like(b, x), xb.pred) for x in arguments]
    (results,) = run_together(b, [ops], arguments)
    for t, x, got in zip(ALL, arguments, results, strict=True):
        check_bits(got, converted(x, t, xb.pred), "pred", t)


def raw_bits(x: np.ndarray, t: PrimitiveType) -> np.ndarray:
    """The bits of each element along a new last dimension, the lowest first."""
    unsigned = f"u{t.byte_width}"
    if t is xb.pred:
        raw = x.astype(np.uint8)
    elif t.is_integral and t.bits < 8:
        raw = x.astype(np.int8).view(np.uint8)
    else:
        raw = x.view(unsigned)
    return (raw[..., None] >> np.arange(t.bits, dtype=raw.dtype)) & raw.dtype.type(1)


def same_width_or_first(source: PrimitiveType) -> list[PrimitiveType]:
    """The types of the same width, and one type of each other width, which varies."""
    result = [t for t in ALL if t.bits == source.bits and not t.is_complex]
    for bits in {1, 2, 4, 8, 16, 32, 64} - {source.bits}:
        there = [t for t in ALL if t.bits == bits and not t.is_complex]
        result.append(there[ALL.index(source) % len(there)])
    return result


@pytest.mark.slow
def test_bitcast_convert_type() -> None:
    """The low part of a wide element is the first of the narrow ones; a pred is one bit."""
    b = xb.XlaBuilder("bitcast")
    arguments = []
    groups: dict[PrimitiveType, list[tuple[PrimitiveType, np.ndarray, xb.XlaOp]]] = {}
    for source in (t for t in ALL if not t.is_complex):
        x = values(source, generator())
        for to in same_width_or_first(source):
            ratio = max(1, to.bits // source.bits)
            operand = np.resize(x, (5, 7, ratio) if ratio > 1 else (5, 7))
            arguments.append(operand)
            result = xb.bitcast_convert_type(parameter_like(b, operand), to)
            ratio = max(1, source.bits // to.bits)
            assert result.shape.dimensions == ((5, 7, ratio) if ratio > 1 else (5, 7))
            groups.setdefault(to, []).append((source, operand, xb.reshape(result, [35 * ratio])))
    ops = [[op for *_, op in group] for group in groups.values()]
    for (to, group), arrays in zip(groups.items(), run_together(b, ops, arguments), strict=True):
        for (source, operand, _), got in zip(group, arrays, strict=True):
            bits = raw_bits(got, to).reshape(35, -1)
            assert (bits == raw_bits(operand, source).reshape(35, -1)).all(), (source, to)


def test_bitcast_of_complex_numbers() -> None:
    wide, narrow = (values(t, generator())[:4000] for t in (xb.c128, xb.c64))
    narrow = narrow.reshape(2, 1000, 2)
    b = xb.XlaBuilder("bitcast")
    p, q = parameter_like(b, wide), parameter_like(b, narrow)
    types = [(p, xb.c128), (q, xb.c64), (p, xb.c64), (q, xb.c128)]
    got = run(b.build(xb.tuple(*(xb.bitcast_convert_type(o, t) for o, t in types))), wide, narrow)
    assert [g.shape for g in got] == [(4000,), (2, 1000, 2), (4000, 2), (2, 1000)]
    for result, source in zip(got, (wide, narrow, wide, narrow), strict=True):
        assert result.tobytes() == source.tobytes()


# Clamp, select, map, reduce_precision.


def test_clamp() -> None:
    types = [t for t in ALL if not t.is_complex]
    operands: Operands = {}
    for t in types:
        rng = generator()
        x = values(t, rng)
        low, high = rng.permutation(x), rng.permutation(x)
        operands[t] = (low, x, high, *(np.resize(v, ()) for v in (x[1], x[-1])))

    b = xb.XlaBuilder("clamp")
    ops = []
    for t in types:
        low, x, high, lowest, highest = (parameter_like(b, a) for a in operands[t])
        ops.append([xb.clamp(low, x, high), xb.clamp(lowest, x, highest)])
    together = run_together(b, ops, [a for t in types for a in operands[t]])
    for t, results in zip(types, together, strict=True):
        low, x, high, lowest, highest = operands[t]
        for got, (least, most) in zip(results, [(low, high), (lowest, highest)], strict=True):
            if t.is_floating:
                a, v, c = (flushed(as_double(o), t) for o in (least, x, most))
                want = rounded(-larger(-larger(a, v), -c), t)
                want = of_subnormals(got, want, t, least, x, most)
            else:
                want = np.minimum(np.maximum(as_numbers(least), as_numbers(x)), as_numbers(most))
                want = want.astype(bool) if t is xb.pred else wrapped(want, t)
            assert_same_bits(got, want)


def test_select() -> None:
    """No bit changes: subnormal numbers and the payloads of wide NaNs are kept."""
    operands: Operands = {}
    rng = generator()
    for t in ALL:
        a = values(t, rng)
        scalar = np.bool_(t.is_signed)
        operands[t] = (rng.random(a.shape) < 0.5, a, rng.permutation(a), np.asarray(scalar))

    builder = xb.XlaBuilder("select")
    ops = []
    for t in ALL:
        which, a, b, scalar = (parameter_like(builder, array) for array in operands[t])
        ops.append([xb.select(which, a, b), xb.select(scalar, a, b)])
    together = run_together(builder, ops, [a for t in ALL for a in operands[t]])
    for t, (got, whole) in zip(ALL, together, strict=True):
        which, a, b, scalar = operands[t]
        chosen = np.where(which, a, b)
        assert_same_bits(got, chosen)
        assert_same_bits(whole, a if scalar else b)
        if t.bits >= 32 or not t.is_floating:  # the others are computed in wider types
            assert got.tobytes() == chosen.tobytes()


def test_worked_examples_of_the_document() -> None:
    """Operation Semantics: Clamp, ConvertElementType, Select, Map, BitcastConvertType."""
    b = xb.XlaBuilder("examples")
    s32 = lambda *v: b.constant(np.array(v, np.int32))  # noqa: E731
    v1, v2 = s32(1, 2, 3, 4), s32(100, 200, 300, 400)
    results = {
        "clamp": (xb.clamp(0, s32(-1, 5, 9), 6), [0, 5, 6]),
        "convert": (xb.convert_element_type(s32(0, 1, 2), xb.f32), [0.0, 1.0, 2.0]),
        "select": (
            xb.select(b.constant([True, False, False, True]), v1, v2),
            [1, 200, 300, 4],
        ),
        "scalar select": (xb.select(b.constant(True), v1, v2), [1, 2, 3, 4]),
        "map": (xb.map([v1, v2], lambda x, y: x * 2 + y), [102, 204, 306, 408]),
    }
    got = run(b.build(xb.tuple(*(op for op, _ in results.values()))))
    for (name, (_, want)), array in zip(results.items(), got, strict=True):
        assert array.tolist() == want, name
    assert got[1].dtype == np.float32


def test_map_of_one_to_three_operands() -> None:
    types = (xb.s8, xb.u4, xb.s32, xb.f8e4m3fn, xb.f8e8m0fnu, xb.bf16, xb.f32, xb.c64)
    operands: Operands = {t: (np.ones((2, 3), t.dtype), np.ones((), t.dtype)) for t in types}

    def mapped(x, scalar):
        return xb.tuple(
            xb.map(x, xb.neg),
            xb.map([x, scalar], xb.sub),
            xb.map([x, scalar, x], lambda a, b, c: xb.eq(a * b, c), dimensions=[0, 1]),
        )

    for t, (one, two, three) in apply_to_all(mapped, types, operands).items():
        if t is not xb.f8e8m0fnu and not (t.is_integral and t.min == 0):
            assert (as_double(one) == -1).all()
            assert (as_double(two) == 0).all()
        assert_same_bits(three, np.ones((2, 3), bool))
    which = np.array([True, False])
    (got,) = apply_to_all(lambda x: xb.map(x, xb.not_), [xb.pred], {xb.pred: (which,)}).values()
    assert_same_bits(got, ~which)


def test_map_of_several_types() -> None:
    b = xb.XlaBuilder("mixed")
    which, x, n = b.parameter(xb.pred[4]), b.parameter(xb.f64[4]), b.parameter(xb.s8[4])
    root = xb.map([which, x, n], lambda p, v, m: xb.select(p, v, xb.convert(m, xb.f64)))
    chosen, numbers = np.array([1, 0, 0, 1], bool), np.array([1.5, 2.5, 3.5, np.nan])
    got = run(b.build(root), chosen, numbers, np.array([-7, -8, -9, -10], np.int8))
    assert_same_bits(got, np.array([1.5, -8, -9, np.nan]))


def test_reduce_precision() -> None:
    precisions = [(4, 1), (5, 10), (8, 7), (11, 52), (1, 0)]
    operands = [values(t, generator()) for t in FLOATS]
    b = xb.XlaBuilder("reduce_precision")
    parameters = [parameter_like(b, x) for x in operands]
    ops = [[xb.reduce_precision(p, *precision) for precision in precisions] for p in parameters]
    results = run_together(b, ops, operands)
    for t, operand, arrays in zip(FLOATS, operands, results, strict=True):
        for precision, got in zip(precisions, arrays, strict=True):
            check_reduced(operand, t, *precision, got)


def check_reduced(
    operand: np.ndarray,
    t: PrimitiveType,
    exponent_bits: int,
    mantissa_bits: int,
    got: np.ndarray,
) -> None:
    x = as_double(operand)
    info = ml_dtypes.finfo(t.dtype)
    # Ties are rounded to even. Overflow becomes infinite and subnormal results zero, unless the
    # type has no more exponents. Types of up to 8 bits are computed in f16.
    exponents = 5 if t.bits <= 8 and t is not xb.f8e8m0fnu else info.nexp
    fraction, exponent = np.frexp(x)
    near = np.ldexp(np.rint(np.ldexp(fraction, mantissa_bits + 1)), exponent - mantissa_bits - 1)
    if exponent_bits < exponents:
        bias = 2 ** (exponent_bits - 1) - 1
        near = np.where(np.abs(near) >= 2.0 ** (bias + 1), np.copysign(np.inf, x), near)
        near = np.where(np.abs(near) < 2.0 ** (1 - bias), np.copysign(0, x), near)
    want = np.where(np.isfinite(x), near, x)
    # The rules do not define the rounding of the type's own subnormal numbers.
    where = in_range(want, t) & ~(np.abs(x) < float(info.smallest_normal)) | (x == 0)
    name = f"reduce_precision to {exponent_bits} and {mantissa_bits} bits"
    check_bits(got[where], want.astype(t.dtype)[where], name, t)


# Constants and iota.


def constants_of(t: PrimitiveType) -> list[np.ndarray]:
    """Return arrays of NaN payloads, zeros of both signs and subnormal numbers, in memory in
    several ways."""
    rng = generator()
    every = values(t, rng)
    if t.is_floating and t.bits >= 16:
        nan = np.array(float("nan"), t.dtype)
        unsigned = f"u{t.byte_width}"
        payloads = nan.view(unsigned) | rng.integers(0, 99, 9).astype(unsigned)
        every = np.concatenate([payloads.view(t.dtype), every[:500]])
    if t.is_complex:
        every.real[1], every.imag[1] = -0.0, np.nan
    wide = np.resize(every, (6, 50))
    return [
        *(wide, wide.T, wide[::-2, 3::7], every[:30], every[-1:], every[-1]),
        *(np.full((3, 4), every[-1]), np.zeros((0,), t.dtype), np.zeros((2, 0, 3), t.dtype)),
        np.zeros((3,), t.dtype),
        wide.astype(t.dtype.newbyteorder(">")) if t.byte_width > 1 and t is not xb.bf16 else wide,
    ]


@pytest.mark.slow
def test_constants() -> None:
    """Constants keep every bit."""
    b = xb.XlaBuilder("constants")
    cases = [(t, array) for t in ALL for array in constants_of(t)]
    got = run(b.build(xb.tuple(*(b.constant(array) for _, array in cases))))
    for (t, array), result in zip(cases, got, strict=True):
        native = np.asarray(array).astype(t.dtype.newbyteorder("="))
        assert result.dtype == t.dtype
        assert result.shape == np.shape(array)
        assert result.tobytes() == native.tobytes(), t


def test_constants_that_count_from_negative_zero() -> None:
    """XLA would replace them by an iota, whose first element is +0."""
    arrays = []
    for t in (*FLOATS, *COMPLEXES):
        counted = np.array([-0.0, 1, 2, 3]).astype(t.dtype)
        arrays += [counted, counted[:2], counted.reshape(2, 2), np.arange(4).astype(t.dtype)]
        if t.is_complex:
            arrays.append(np.conj(np.arange(3)).astype(t.dtype) * t.dtype.type(1 - 0j))
            arrays[-1].imag = -0.0
    b = xb.XlaBuilder("counting")
    for array, got in zip(
        arrays, run(b.build(xb.tuple(*(b.constant(a) for a in arrays)))), strict=True
    ):
        assert got.dtype == array.dtype
        assert got.tobytes() == array.tobytes()


def test_iota() -> None:
    b = xb.XlaBuilder("iota")
    results, expected = [], []
    for t in ALL:
        if t in (xb.pred, xb.f8e8m0fnu):  # pred has no 2, f8e8m0fnu no 0
            continue
        size = 2 if t.bits == 2 else 5 if t is not xb.f4e2m1fn else 4
        # The shape makes no difference for a type.
        other = (((size,), 0), ((size, 2, 3), 0), ((0, 4), 0)) if t in (xb.s4, xb.f32) else ()
        for shape, dimension in (((3, size), 1), *other):
            if dimension == 0 or size == shape[dimension]:
                results.append(b.iota(xb.array_shape(t, shape), dimension))
                sizes = [1] * len(shape)
                sizes[dimension] = shape[dimension]
                counted = np.arange(shape[dimension]).astype(np.float64).reshape(sizes)
                expected.append(np.broadcast_to(counted, shape).astype(t.dtype))
    for got, want in zip(run(b.build(xb.tuple(*results))), expected, strict=True):
        assert_same_bits(got, want)


# Broadcasting.


def broadcast_examples() -> list[tuple[Any, Any, Any, Any]]:
    """(lhs, rhs, broadcast_dimensions, sum), from the Broadcasting document, and further cases."""
    matrix = np.array([[1, 2, 3], [4, 5, 6]])
    a432 = np.arange(24).reshape(4, 3, 2)
    return [
        # The scalar and the vectors of the section "Principles".
        (matrix, np.array(7), None, matrix + 7),
        (matrix, np.array([7, 8, 9]), [1], matrix + np.array([[7, 8, 9], [7, 8, 9]])),
        (matrix, np.array([7, 8]), [0], matrix + np.array([[7, 7, 7], [8, 8, 8]])),
        # A matrix and a cuboid: over dimensions 1 and 2, 0 and 1, 0 and 2.
        (a432, np.arange(6).reshape(3, 2), [1, 2], a432 + np.arange(6).reshape(1, 3, 2)),
        (a432, np.arange(12).reshape(4, 3), [0, 1], a432 + np.arange(12).reshape(4, 3, 1)),
        (a432, np.arange(8).reshape(4, 2), [0, 2], a432 + np.arange(8).reshape(4, 1, 2)),
        # Degenerate dimensions: 1x2 and 4x1 make 4x2.
        (
            np.array([[1, 2]]),
            np.array([[10], [20], [30], [40]]),
            None,
            np.array([[11, 12], [21, 22], [31, 32], [41, 42]]),
        ),
        (np.array([[1, 2, 3]]), matrix, None, matrix + np.array([[1, 2, 3]])),
        # Both: a 1x2 matrix and a vector of 4 over dimension 0 make 4x2.
        (
            np.array([[1, 2]]),
            np.array([10, 20, 30, 40]),
            [0],
            np.array([[11, 12], [21, 22], [31, 32], [41, 42]]),
        ),
        # A 1x2 matrix into 4x3x1, over dimensions 1 and 2, makes 4x3x2.
        (
            np.array([[5, 7]]),
            np.arange(12).reshape(4, 3, 1),
            [1, 2],
            np.arange(12).reshape(4, 3, 1) + np.array([5, 7]),
        ),
        # Sizes of 1 in both operands, and sizes of 0.
        (np.ones((1, 1), int), np.ones((5, 1), int), None, np.full((5, 1), 2)),
        (np.ones((1, 3), int), np.ones((0, 3), int), None, np.zeros((0, 3), int)),
        (np.ones((0, 3), int), np.array([1, 2, 3]), [1], np.zeros((0, 3), int)),
    ]


def test_broadcasting_with_numbers() -> None:
    b = xb.XlaBuilder("broadcasting")
    results, arguments, expected = [], [], []
    others = itertools.cycle((xb.f64, xb.bf16, xb.c64, xb.u4, xb.pred))
    for lhs, rhs, dimensions, want in broadcast_examples():
        for t in (xb.s32, next(others)):
            modulus = 16 if t is xb.u4 else 1000
            pair = [(v % modulus).astype(t.dtype) for v in (lhs, rhs)]
            left, right = (parameter_like(b, v) for v in pair)
            arguments += pair
            # The operand of lower rank may be lhs or rhs.
            results += [xb.add(left, right, dimensions), xb.add(right, left, dimensions)]
            total = (want % modulus).astype(t.dtype)
            expected += [total, total]
    for got, want in zip(run(b.build(xb.tuple(*results)), *arguments), expected, strict=True):
        assert_same_bits(got, want)


def test_numbers_beside_ops_become_constants_of_their_type() -> None:
    b = xb.XlaBuilder("numbers")
    x, n = b.parameter(xb.f64[3], "x"), b.parameter(xb.s8[3], "n")
    results = [
        x + 0.1,
        0.1 - x,
        2 / x,
        n * -3,
        x > 1,
        xb.max(n, 0),
        xb.pow(2, n),
        -x,
        xb.rem(n, 3),
        xb.rem(xb.rem(n, 3) + 3, 3),  # the fix in the error of n % 3
        n >> 1,
    ]
    v, m = np.array([0.5, 1.5, -2.0]), np.array([1, -5, 7], np.int8)
    got = run(b.build(xb.tuple(*results)), v, m)
    expected = [v + 0.1, 0.1 - v, 2 / v, m * np.int8(-3), v > 1, np.maximum(m, np.int8(0))]
    expected += [
        np.array([2, 0, -128], np.int8),
        -v,
        np.array([1, -2, 1], np.int8),
        m % np.int8(3),
        m >> np.int8(1),
    ]
    for result, want in zip(got, expected, strict=True):
        assert_same_bits(result, want)
