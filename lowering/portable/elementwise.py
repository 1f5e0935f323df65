"""Elementwise operations by others, and random bits by the arithmetic of their algorithm."""

from __future__ import annotations

from collections.abc import Sequence

import builder as xb
from builder import lib
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.types.primitive_type import float_info
from builder.types.shape import ArrayShape, TupleShape
from lowering.portable.expanding import expansion


def in_f32(x: XlaOp) -> XlaOp:
    """Convert floats of less than 32 bits to f32."""
    element_type = shape_of(x).element_type
    return as_type(x, xb.f32) if element_type.bits < 32 else x


@expansion("tan")
def tan(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """sin(x) / cos(x)."""
    x = in_f32(operands[0])
    return as_type(xb.sin(x) / xb.cos(x), shape_of(op).element_type)


@expansion("logistic")
def logistic(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """1 / (1 + exp(-x))."""
    x = in_f32(operands[0])
    return as_type(1 / (1 + xb.exp(-x)), shape_of(op).element_type)


@expansion("cbrt")
def cbrt(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """exp(log(|x|) / 3), improved by a step of Newton's method, with the sign of x."""
    x = in_f32(operands[0])
    size = xb.abs(x)
    root = xb.exp(xb.log(size) / 3)
    improved = root - (root - size / (root * root)) / 3
    is_regular = xb.and_(root > 0, size < float("inf"))
    root = xb.sign(x) * xb.select(is_regular, improved, size)
    return as_type(root, shape_of(op).element_type)


@expansion("exponential_minus_one")
def exponential_minus_one(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """2 t / (1 - t) with t = tanh(x / 2); exp(x) - 1 for large x."""
    x = in_f32(operands[0])
    half = xb.tanh(x / 2)
    result = xb.select(xb.abs(x) < 1, 2 * half / (1 - half), xb.exp(x) - 1)
    return as_type(result, shape_of(op).element_type)


@expansion("log_plus_one")
def log_plus_one(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """2 artanh(x / (2 + x)) for small x, by its series; log(1 + x) for others."""
    x = in_f32(operands[0])
    ratio = x / (2 + x)
    square = ratio * ratio
    # The square is at most 1/9 where |x| < 1/2.
    terms = 8 if shape_of(x).element_type.bits <= 32 else 18
    series = lib.full_like(x, 1 / (2 * terms + 1))
    for term in reversed(range(terms)):
        series = series * square + 1 / (2 * term + 1)
    result = xb.select(xb.abs(x) < 0.5, 2 * ratio * series, xb.log(1 + x))
    return as_type(result, shape_of(op).element_type)


@expansion("round_nearest_even")
def round_nearest_even(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Round down or up, and to the even number from the middle."""
    return _rounded(op, operands[0], to_even=True)


@expansion("round_nearest_afz")
def round_nearest_afz(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Round down or up, and away from zero from the middle."""
    return _rounded(op, operands[0], to_even=False)


def _rounded(op: XlaOp, operand: XlaOp, *, to_even: bool) -> XlaOp:
    x = in_f32(operand)
    size = xb.abs(x)
    down = xb.floor(size)
    fraction = size - down
    rises = fraction > 0.5
    if to_even:
        is_odd = xb.ne(down - 2 * xb.floor(down / 2), 0)
        rises = xb.or_(rises, xb.and_(xb.eq(fraction, 0.5), is_odd))
    else:
        rises = fraction >= 0.5
    # For infinite and NaN x, the fraction is NaN, so x remains.
    rounded = xb.select(xb.eq(fraction, fraction), xb.select(rises, down + 1, down), size)
    return as_type(xb.sign(x) * rounded, shape_of(op).element_type)


@expansion("is_finite")
def is_finite(_: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """|x| < infinity."""
    # Some types of 8 bits have no infinity to compare with.
    return xb.abs(in_f32(operands[0])) < float("inf")


@expansion("clamp")
def clamp(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """min(max(x, low), high)."""
    low, x, high = (
        xb.broadcast(each, shape_of(op).dimensions) if not shape_of(each).rank else each
        for each in operands
    )
    return xb.min(xb.max(x, low), high)


@expansion("popcnt")
def popcnt(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Add up the bits in groups of 2, 4, 8, ... bits."""
    return as_type(_bits_set(_as_unsigned(operands[0])), shape_of(op).element_type)


@expansion("count_leading_zeros")
def count_leading_zeros(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Set all bits after the first one that is set, and count those that are not set."""
    x = _as_unsigned(operands[0])
    width = shape_of(x).element_type.bits
    distance = 1
    while distance < width:
        x = xb.or_(x, xb.shift_right_logical(x, distance))
        distance *= 2
    return as_type(_bits_set(xb.not_(x)), shape_of(op).element_type)


@expansion("reduce_precision")
def reduce_precision(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp:
    """Round the bits to fewer mantissa bits, then large and small exponents to infinity and 0."""
    (x,) = operands
    element_type = shape_of(x).element_type
    info = float_info(element_type)
    mantissa, exponent = info.nmant, info.nexp
    kept, exponent_bits = op.attributes["mantissa_bits"], op.attributes["exponent_bits"]
    bits = xb.bitcast_convert_type(x, f"u{element_type.bits}")
    if kept < mantissa:
        last = 1 << (mantissa - kept)
        is_odd = xb.shift_right_logical(xb.and_(bits, last), mantissa - kept)
        bits = xb.and_(bits + is_odd + ((last >> 1) - 1), (1 << element_type.bits) - last)
    if exponent_bits < exponent:
        sign = 1 << (element_type.bits - 1)
        infinity = ((1 << exponent) - 1) << mantissa
        bias, new_bias = (1 << (exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        power = xb.and_(bits, infinity)
        zero = xb.and_(bits, sign)
        bits = xb.select(power > (bias + new_bias) << mantissa, xb.or_(zero, infinity), bits)
        bits = xb.select(power <= (bias - new_bias) << mantissa, zero, bits)
    return xb.select(xb.ne(x, x), x, xb.bitcast_convert_type(bits, element_type))


def _as_unsigned(x: XlaOp) -> XlaOp:
    element_type = shape_of(x).element_type
    if not element_type.is_signed:
        return x
    return xb.bitcast_convert_type(x, f"u{element_type.bits}")


def _bits_set(x: XlaOp) -> XlaOp:
    width = shape_of(x).element_type.bits
    distance = 1
    while distance < width:
        group = (1 << distance) - 1
        mask = sum(group << position for position in range(0, width, 2 * distance))
        x = xb.and_(x, mask) + xb.and_(xb.shift_right_logical(x, distance), mask)
        distance *= 2
    return x


@expansion("rng_bit_generator")
def rng_bit_generator(op: XlaOp, operands: Sequence[XlaOp]) -> list[XlaOp]:
    """Threefry-2x32, or Philox-4x32 for the algorithms RNG_PHILOX and RNG_DEFAULT.

    The bits are those of XLA's CPU backend.
    """
    (state,) = operands
    key, counter = state[0], state[1:]
    assert isinstance(op.shape, TupleShape)  # checked by inference
    shape = op.shape.elements[1]
    assert isinstance(shape, ArrayShape)  # checked by inference
    if op.attributes["algorithm"].name == "RNG_THREE_FRY":
        bits, next_counter = lib.three_fry_bit_generator(key, counter, shape)
    else:
        (size,) = shape_of(counter).dimensions
        if size == 1:  # the key is the high half of the counter too
            counter = xb.rev(state, [0])
        bits, next_counter = lib.philox_bit_generator(key, counter, shape)
        next_counter = xb.slice_in_dim(next_counter, 0, size, 1, 0)
    next_state = xb.concat_in_dim([xb.reshape(key, [1]), next_counter], 0)
    return [next_state, as_type(bits, shape.element_type)]
