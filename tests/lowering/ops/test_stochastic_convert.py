"""stochastic_convert_type executed on CPU, compared with exact fractions, and refused types."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support import parameter_like, run

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType, from_name

FLOATS = [t for t in ALL if t.is_floating]
SIGNED = [t for t in ALL if t.is_integral and t.is_signed]


def rounded(value: float, random: int, source: PrimitiveType, to: PrimitiveType) -> int:
    """Round away from zero if the random bits are less than the fraction of the value."""
    if math.isnan(value):
        return 0
    if not to.min < value < to.max:
        return int(to.min if value < 0 else to.max)
    whole = math.floor(abs(value))
    fraction = (Fraction(abs(value)) - whole) * 2**source.bits
    # The fraction is truncated to the number of random bits.
    up = random < math.floor(fraction)
    return int(math.copysign(1, value)) * (whole + up)


def numbers(t: PrimitiveType, size: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(7)
    drawn = np.concatenate([rng.standard_normal(size) * 3, rng.integers(-9, 9, size) / 4])
    corners = [0.0, -0.0, 1.5, -2.25, 7, -8, 3 * 2**-10]
    if t.bits >= 16:
        corners += [math.nan, math.inf, -math.inf, 3e4, -3e4, 1e-7, -1e-7, 127.75]
    return np.concatenate([corners, drawn]).astype(t.dtype)


def random_bits(t: PrimitiveType, size: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 2**t.bits - 1, size, np.uint64, endpoint=True)
    bits[::7] = 0
    bits[3::7] = 2**t.bits - 1
    return bits.astype(from_name(f"u{t.bits}").dtype)


@pytest.mark.slow
def test_to_signed_integers() -> None:
    """Every type of floating point to s8, and one of each number of bits to the other integers."""
    b = xb.XlaBuilder()
    arrays, operands = {}, {}
    for source in FLOATS:
        values = numbers(source, 150)
        arrays[source] = [values, random_bits(source, values.size)]
        operands[source] = [parameter_like(b, a) for a in arrays[source]]
    cases, results = [], []
    for to in SIGNED:
        sources = FLOATS if to is xb.s8 else [xb.f4e2m1fn, xb.f8e4m3fn, xb.f16, xb.f32, xb.f64]
        # XLA compiles a concatenation of four to one loop.
        for start in range(0, len(sources), 4):
            some = sources[start : start + 4]
            cases.append((to, some))
            ops = [xb.stochastic_convert_type(*operands[source], to) for source in some]
            results.append(xb.concat_in_dim(ops, 0))
    arguments = [a for both in arrays.values() for a in both]
    for (to, some), got in zip(cases, run(b.build(xb.tuple(*results)), *arguments), strict=True):
        assert got.dtype == to.dtype
        want = []
        for source in some:
            values, random = arrays[source]
            pairs = zip(values.astype(np.float64).tolist(), random.tolist(), strict=True)
            want += [rounded(value, bits, source, to) for value, bits in pairs]
        assert got.astype(np.int64).tolist() == want, (some, to)


def test_fractions_of_floats_of_16_bits() -> None:
    """2**16, the number of random bits, is an infinity in f16, and bf16 has 8 bits of a number."""
    sources = (xb.f16, xb.bf16)
    values = np.array([0.5, -0.5, 1.25, -2.75, 0.25, 7.5, -100.5, 200])
    random = np.array([2**15 - 1, 2**15, 2**14 - 1, 2**15, 2**14, 0, 1, 5], np.uint16)
    b = xb.XlaBuilder()
    operands = [[b.parameter(t[8]), b.parameter(xb.u16[8])] for t in sources]
    results = xb.tuple(*(xb.stochastic_convert_type(*each, xb.s8) for each in operands))
    arguments = [a for t in sources for a in (values.astype(t.dtype), random)]
    for t, got in zip(sources, run(b.build(results), *arguments), strict=True):
        pairs = zip(arguments[2 * sources.index(t)].astype(float), random.tolist(), strict=True)
        assert got.tolist() == [rounded(value, bits, t, xb.s8) for value, bits in pairs]


@pytest.mark.parametrize("sizes", [(), (0, 3), (300, 1000)])
def test_shapes_and_the_mean(sizes: tuple[int, ...]) -> None:
    b = xb.XlaBuilder()
    x, r = b.parameter(xb.f32[sizes]), b.parameter(xb.u32[sizes])
    computation = b.build(xb.stochastic_convert_type(x, r, xb.s8))
    random = random_bits(xb.f32, math.prod(sizes)).reshape(sizes)
    got = run(computation, np.full(sizes, 2.25, np.float32), random)
    assert got.shape == sizes
    assert set(np.unique(got)) <= {2, 3}
    if got.size > 1000:
        # A seventh of the values is never rounded up, a seventh always, and a quarter of the rest.
        assert abs(got.mean(dtype=np.float64) - (2 + (1 + 5 / 4) / 7)) < 0.01


@pytest.mark.parametrize("t", [xb.bf16, xb.f16, xb.u8], ids=str)
def test_unsupported_types_are_lowered_and_refused(t: PrimitiveType) -> None:
    b = xb.XlaBuilder("rounding")
    x, r = b.parameter(xb.f32[3]), b.parameter(xb.u32[3])
    module = lowering.lower(b.build(xb.stochastic_convert_type(x, r, t)))
    assert "mhlo.stochastic_convert" in module.text
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(module)
    text = str(caught.value)
    assert text.startswith("compile: rounding: stochastic_convert")
    assert "can't run on cpu: XLA supports stochastic rounding to signed integers" in text
    assert "fix: convert to signed integers" in text
    assert caught.value.op == "stochastic_convert"


def test_a_loaded_module_that_converts_to_signed_integers() -> None:
    module = lowering.load_bytes(
        """func.func @main(%x: tensor<2xf32>, %r: tensor<2xui32>) -> tensor<2xi8> {
          %0 = "mhlo.stochastic_convert"(%x, %r) : (tensor<2xf32>, tensor<2xui32>) -> tensor<2xi8>
          return %0 : tensor<2xi8>
        }"""
    )
    values, random = np.full(2, 2.5, np.float32), np.array([0, 2**31], np.uint32)
    assert np.asarray(lowering.compile(module)(values, random)).tolist() == [3, 2]
