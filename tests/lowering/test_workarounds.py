"""Programs that XLA gets wrong, or dies of, when they are given to it in their plain words.

`builder.workarounds` says what is written otherwise. What is expected here is plain arithmetic.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support import run

import builder as xb
import lowering


def evaluate(function, *arguments):
    """`function(builder, ops...)` run on the arguments, by both routes."""
    b = xb.XlaBuilder("workaround")
    parameters = []
    for argument in arguments:
        element_type = xb.as_primitive_type(argument.dtype)
        parameters.append(b.parameter(xb.array_shape(element_type, argument.shape)))
    return run(b.build(function(b, *parameters)), *arguments)


def test_the_sum_of_two_constant_preds() -> None:
    for left, right in [(True, True), (True, False), (False, False)]:
        got = evaluate(lambda b, p=left, q=right: xb.add(b.constant(p), b.constant(q)))
        assert bool(got) is (left or right)


@pytest.mark.parametrize("t", [xb.s4, xb.u4], ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "shift_left", "not_", "neg", "square"])
def test_four_bits_wrap_before_they_are_widened(t: xb.PrimitiveType, name: str) -> None:
    every = np.arange(t.min, t.max + 1)
    x, y = (v.reshape(-1) for v in np.meshgrid(every, every))
    wide = xb.s8 if t is xb.s4 else xb.u8
    reference = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "shift_left": np.where((y >= 0) & (y < 4), x << np.clip(y, 0, 3), 0),
        "not_": ~x,
        "neg": -x,
        "square": x * x,
    }[name] & 15
    if t is xb.s4:
        reference = np.where(reference > 7, reference - 16, reference)
    one_operand = name in ("not_", "neg", "square")

    def program(b: xb.XlaBuilder, lhs: xb.XlaOp, rhs: xb.XlaOp) -> xb.XlaOp:
        function = getattr(xb, name)
        return xb.convert(function(lhs) if one_operand else function(lhs, rhs), wide)

    got = evaluate(program, x.astype(t.dtype), y.astype(t.dtype))
    assert_array_equal(got, reference.astype(wide.dtype))


@pytest.mark.parametrize("t", [xb.s4, xb.u4], ids=str)
def test_four_bits_wrap_before_a_dot_in_eight(t: xb.PrimitiveType) -> None:
    x = np.array([[7, 5], [3, 6]])
    wide = xb.s8 if t is xb.s4 else xb.u8
    got = evaluate(lambda b, a: xb.dot(a + a, a, preferred_element_type=wide), x.astype(t.dtype))
    twice = (x + x) & 15
    if t is xb.s4:
        twice = np.where(twice > 7, twice - 16, twice)
    assert_array_equal(got, (twice @ x).astype(wide.dtype))


@pytest.mark.parametrize("t", [xb.s8, xb.s32, xb.u16, xb.u64], ids=str)
def test_even_bases_to_the_64_and_more(t: xb.PrimitiveType) -> None:
    base = np.array([0, 2, 4, 6, 2, 3, 1, 1], t.dtype)
    exponent = np.array([64, 64, 65, 100, 3, 3, 64, 127], t.dtype)
    got = evaluate(lambda b, x, y: xb.pow(x, y), base, exponent)
    assert_array_equal(got, np.array([0, 0, 0, 0, 8, 27, 1, 1], t.dtype))


@pytest.mark.parametrize("t", [xb.f32, xb.f64, xb.s32, xb.bf16, xb.u8], ids=str)
@pytest.mark.parametrize("source", [np.complex64, np.complex128])
def test_complex_constants_as_real_numbers(t: xb.PrimitiveType, source: type) -> None:
    for value in (source(1 + 2j), np.array([1 + 2j, 3 - 1j], source)):
        got = evaluate(lambda b, v=value: xb.convert(b.constant(v), t))
        assert_array_equal(got, np.real(value).astype(t.dtype))


@pytest.mark.parametrize("name", ["div", "rem"])
@pytest.mark.parametrize("t", [xb.s8, xb.s32, xb.u32, xb.s64], ids=str)
def test_constants_divided_by_zero(name: str, t: xb.PrimitiveType) -> None:
    """XLA's own answers where it is not a constant: all bits of the quotient, the dividend."""

    def program(b: xb.XlaBuilder) -> xb.XlaOp:
        five, zero = b.constant(5, t), b.constant(0, t)
        count = b.iota(xb.array_shape(t, [1]), 0)
        function = getattr(xb, name)
        return xb.tuple(
            function(five, zero),
            function(xb.broadcast(five, [1]), count),
            function(five, zero + 0),
            function(xb.broadcast(five, [1]), xb.broadcast(zero, [1])),
        )

    wanted = np.array({"div": -1, "rem": 5}[name]).astype(t.dtype)
    for got in evaluate(program):
        assert_array_equal(got.reshape(()), wanted)


def test_a_stride_beyond_the_slice() -> None:
    x = np.arange(5, dtype=np.float32)
    got = evaluate(lambda b, a: xb.slice(a, [1], [4], [2**63 - 1]), x)
    assert_array_equal(got, x[1:2])


@pytest.mark.parametrize("t", [xb.f8e4m3fn, xb.f8e5m2, xb.f4e2m1fn], ids=str)
def test_erf_of_narrow_types_in_every_version(t: xb.PrimitiveType) -> None:
    @xb.computation(xb.array_shape(t, [3]))
    def narrow(x: xb.XlaOp) -> xb.XlaOp:
        return xb.erf(x)

    module = lowering.lower(narrow)
    x = np.array([0.0, 0.5, -1.0], t.dtype)
    want = np.array([0.0, 0.5204999, -0.8427008]).astype(t.dtype)
    assert_array_equal(run(narrow, x), want)
    # f4e2m1fn itself came to StableHLO later.
    loaded = lowering.load_bytes(module.artifact("current" if t is xb.f4e2m1fn else "1.0.0"))
    assert_array_equal(np.asarray(lowering.compile(loaded)(x)), want)
