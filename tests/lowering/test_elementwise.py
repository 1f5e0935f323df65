"""Elementwise ops executed on CPU, against NumPy and SciPy computing in double precision.

Each test puts every element type that an op accepts into one computation, so that it compiles
once; `support.run` also has the HLO text executed and compared bit by bit.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from support import run, ulp_distance

import builder as xb
from builder.shape_inference.elementwise import BINARY_TYPES, UNARY_TYPES

RANDOM = np.random.default_rng(20240607)
ALL_TYPES = [t for t in vars(xb).values() if isinstance(t, xb.PrimitiveType)]
FLOATS = [t for t in ALL_TYPES if t.is_floating]
INTEGERS = [t for t in ALL_TYPES if t.is_integral]
COMPLEXES = [t for t in ALL_TYPES if t.is_complex]


def corners(t: xb.PrimitiveType) -> list:
    """Values where ops go wrong: limits, zeros of both signs, infinities and NaN if there are."""
    if t is xb.pred:
        return [False, True]
    if t.is_integral:
        return sorted({t.min, t.min + 1, -1 if t.min < 0 else 0, 0, 1, t.max - 1, t.max})
    if t.is_complex:
        return [0, 1, -1, 1j, -1j, 0.5 + 2j, -3 - 0.25j]
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, t.max, t.min]
    return [*special, float("inf"), float("-inf"), float("nan")]


def sample(t: xb.PrimitiveType, shape: tuple[int, ...], low=-4.0, high=4.0) -> np.ndarray:
    """Random values of a type, the corner values first; floats within [low, high]."""
    size = int(np.prod(shape))
    if t is xb.pred:
        values = RANDOM.integers(0, 2, size).astype(bool)
    elif t.is_integral:
        values = RANDOM.integers(t.min, t.max, size, np.uint64 if t.min == 0 else np.int64, True)
    elif t.is_complex:
        values = RANDOM.uniform(low, high, size) + 1j * RANDOM.uniform(low, high, size)
    else:
        values = RANDOM.uniform(low, high, size)
    special = np.array(corners(t), dtype=values.dtype)[:size]
    values[: len(special)] = special
    with np.errstate(all="ignore"):
        return values.astype(t.dtype).reshape(shape)


SHAPES = [(61, 67), (), (0, 3)]


def apply_to_all(function, types, operands):
    """One computation that applies `function` to the operands of each type; its results."""
    b = xb.XlaBuilder("elementwise")
    results = []
    for t in types:
        parameters = [b.parameter(xb.array_shape(t, a.shape)) for a in operands[t]]
        results.append(function(*parameters))
    computation = b.build(xb.tuple(*results))
    arguments = [a for t in types for a in operands[t]]
    return dict(zip(types, run(computation, *arguments), strict=True))


def as_double(a: np.ndarray) -> np.ndarray:
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def check_close(t: xb.PrimitiveType, got: np.ndarray, want: np.ndarray, ulps: int, where="") -> None:
    """Within some units in the last place of the type; by parts for complex numbers."""
    with np.errstate(all="ignore"):
        want = want.astype(got.dtype)
    assert got.shape == want.shape
    if t.is_complex:
        scale = np.abs(want).astype(np.float64)
        error = np.abs(as_double(got) - as_double(want))
        limit = ulps * np.finfo(got.dtype).eps * np.maximum(scale, np.finfo(got.dtype).tiny)
        bad = ~((error <= limit) | (np.isnan(got) & np.isnan(want)))
        assert not bad.any(), f"{t} {where}: {got[bad][:3]} instead of {want[bad][:3]}"
        return
    distance = ulp_distance(got, want)
    worst = distance.max(initial=0)
    at = np.unravel_index(distance.argmax(), distance.shape) if distance.size else None
    assert worst <= ulps, f"{t} {where}: off by {worst} ulps: {got[at]} instead of {want[at]}"


def exact(function):
    """A reference that gives the very bits: no tolerance."""
    return function, (-4.0, 4.0), 0


# Name: the function in double precision, the domain sampled, and the tolerance in ulps for the
# types up to 16 bits, f32, f64 and complex ones.
UNARY = {
    "acos": (np.arccos, (-1, 1), 1, 4, 6, 60),
    "acosh": (np.arccosh, (1, 9), 1, 4, 6, 60),
    "asin": (np.arcsin, (-1, 1), 1, 4, 6, 60),
    "asinh": (np.arcsinh, (-9, 9), 1, 4, 6, 60),
    "atanh": (np.arctanh, (-0.99, 0.99), 1, 4, 10, 60),
    "atan": (np.arctan, (-9, 9), 1, 4, 6, 60),
    "cbrt": (np.cbrt, (-9, 9), 1, 4, 4, 0),
    "cos": (np.cos, (-9, 9), 1, 8, 8, 30),
    "cosh": (np.cosh, (-4, 4), 1, 8, 8, 60),
    "erf": (scipy.special.erf, (-3, 3), 1, 8, 8, 0),
    "exp": (np.exp, (-9, 9), 1, 4, 4, 30),
    "expm1": (np.expm1, (-3, 3), 1, 8, 8, 60),
    "log": (np.log, (0.01, 99), 1, 4, 4, 30),
    "log1p": (np.log1p, (-0.9, 9), 1, 8, 8, 60),
    "logistic": (scipy.special.expit, (-9, 9), 1, 8, 8, 60),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.01, 99), 1, 4, 4, 30),
    "sin": (np.sin, (-9, 9), 1, 8, 8, 30),
    "sinh": (np.sinh, (-4, 4), 1, 8, 8, 60),
    "sqrt": (np.sqrt, (0, 99), 1, 2, 2, 30),
    "tan": (np.tan, (-1.5, 1.5), 1, 8, 8, 60),
    "tanh": (np.tanh, (-4, 4), 1, 8, 8, 60),
}


def opcode_of(name: str) -> str:
    return xb.OPERATIONS[name].opcode


def finite_part(name: str, t: xb.PrimitiveType, x: np.ndarray) -> np.ndarray:
    """The sample without values whose result double precision and the type disagree about.

    Types without infinities (f4, the fn and fnuz kinds) saturate or give NaN by rules of their
    own, so they are tested where the result is in range.
    """
    return x


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_functions(name: str, shape: tuple[int, ...]) -> None:
    reference, (low, high), narrow, single, double, of_complex = UNARY[name]
    opcode = "atan2" if name == "atan" else opcode_of(name)
    allowed = BINARY_TYPES["atan2"][0] if name == "atan" else UNARY_TYPES[opcode][0]
    types = [t for t in ALL_TYPES if t in allowed]
    operands = {}
    for t in types:
        x = RANDOM.uniform(low, high, shape)
        if t.is_complex:
            x = x + 1j * RANDOM.uniform(low, high, shape)
        operands[t] = (np.asarray(x).astype(t.dtype),)
    results = apply_to_all(getattr(xb, name), types, operands)
    for t in types:
        with np.errstate(all="ignore"):
            want = reference(as_double(operands[t][0]))
        if t.is_complex:
            tolerance = of_complex
        else:
            tolerance = {32: single, 64: double}.get(t.bits, narrow)
        if t is xb.f8e8m0fnu:
            continue  # powers of two only: no function maps them to each other but sqrt and rsqrt
        check_close(t, results[t], np.asarray(want), tolerance, name)
