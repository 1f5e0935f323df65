"""Elementwise ops in StableHLO; the inverse and hyperbolic functions in CHLO.

A few combinations of op and type compute wrong numbers in XLA's CPU backend, or take minutes to
compile; they are written another way here. `builder.workarounds` says which and why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from builder import primitive_type as pt
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, Shape, array_shape, intern_array
from builder.workarounds import (
    TRANSCENDENTAL,
    WRITTEN_OUT,
    counts_from_negative_zero,
    is_awkward_bitcast,
    is_awkward_convert,
    is_awkward_power,
    is_narrow_function,
    is_narrow_signed,
    is_narrow_stochastic_convert,
    is_pred_sum,
    is_signed_integral,
    may_divide_by_zero,
    widens_four_bits,
)
from builder.xla_op import XlaOp
from lowering.mlir_attributes import Attribute, dense_elements, i32, i64, i64_array, truth
from lowering.rules.registry import DIRECT, Region, Value, direct, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter


def is_integral(op: XlaOp) -> bool:
    return op.shape.element_type.is_integral


DIRECT.update(
    {
        opcode: f"stablehlo.{opcode}"
        for opcode in (
            *("abs", "cbrt", "ceil", "count_leading_zeros", "cosine", "exponential"),
            *("exponential_minus_one", "floor", "imag", "is_finite", "log", "log_plus_one"),
            *("logistic", "negate", "not", "real", "round_nearest_afz", "round_nearest_even"),
            *("rsqrt", "sign", "sine", "sqrt", "tan", "tanh"),
            *("add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply"),
            *("or", "power", "remainder", "shift_left", "shift_right_arithmetic"),
            *("shift_right_logical", "subtract", "xor", "clamp", "select", "bitcast_convert"),
        )
    }
)


def _array(op: XlaOp) -> ArrayShape:
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    return op.shape


DIRECT.update({opcode: f"chlo.{opcode}" for opcode in (*TRANSCENDENTAL, "erf")})


def narrow_function(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """In f32."""
    shape = _array(op)
    wide = ctx.converted(operands[0], shape, pt.f32)
    result = ctx.value(f"chlo.{op.opcode}", shape.with_element_type(pt.f32), [wide])
    return ctx.converted(result, shape, shape.element_type)


for _opcode in (*TRANSCENDENTAL, "erf"):
    rule(_opcode, when=is_narrow_function)(narrow_function)


DIRECT["popcnt"] = "stablehlo.popcnt"
DIRECT["convert"] = "stablehlo.convert"


@rule("popcnt", when=is_narrow_signed)
def popcnt_narrow_signed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """As unsigned."""
    shape = _array(op)
    unsigned = shape.with_element_type(pt.u4 if shape.element_type is pt.s4 else pt.u2)
    bits = ctx.value("stablehlo.bitcast_convert", unsigned, operands)
    count = ctx.value("stablehlo.popcnt", unsigned, [bits])
    return ctx.value("stablehlo.bitcast_convert", shape, [count])


@rule("convert", when=is_awkward_convert)
def awkward_convert(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    shape = _array(op)
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    value = operands[0]
    if source.element_type.is_complex and shape.element_type is pt.pred:
        # Nonzero means either part.
        attributes = compare({"comparison_direction": "NE", "compare_type": "FLOAT"})
        values = [value, filled(ctx, source, 0)]
        return ctx.value("stablehlo.compare", shape, values, attributes)
    if source.element_type.is_complex:
        parts = source.with_element_type(source.element_type.real_type)
        value = ctx.value("stablehlo.real", parts, [value])
    elif widens_four_bits(source.element_type, shape.element_type):
        return widened(ctx, value, source, shape.element_type)
    else:
        value = ctx.converted(value, source, pt.f32)
    return ctx.value("stablehlo.convert", shape, [value])


def widened(ctx: Emitter, value: Value, shape: Shape, to: PrimitiveType) -> Value:
    """A value of array shape `shape` converted to a type that holds all of its values."""
    result = ctx.converted(value, shape, to)
    assert isinstance(shape, ArrayShape)  # inference has said so
    if not widens_four_bits(shape.element_type, to):
        return result
    wide = shape.with_element_type(to)
    if sum(wide.dynamic_dimensions) > 1:
        # StableHLO broadcasts to one bounded dimension at most, and clamps any number of them.
        bound = _constant(ctx, intern_array(to, ()), np.array(4).astype(to.dtype))
        four = ctx.value("stablehlo.clamp", wide, [bound, result, bound])
    else:
        four = filled(ctx, wide, 4)
    down = "shift_right_arithmetic" if to.is_signed else "shift_right_logical"
    up = ctx.value("stablehlo.shift_left", wide, [result, four])
    return ctx.value(f"stablehlo.{down}", wide, [up, four])


@rule("add", when=is_pred_sum)
def add_preds(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """As their `or`."""
    return ctx.value("stablehlo.or", op.shape, operands)


@rule("divide", when=is_integral)
@rule("remainder", when=is_integral)
def division(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """With a barrier behind a divisor that may be 0."""
    if may_divide_by_zero(op):
        shape = op.operands[1].shape
        divisor = ctx.value("stablehlo.optimization_barrier", shape, operands[1:])
        operands = [operands[0], divisor]
    return ctx.value(f"stablehlo.{op.opcode}", op.shape, operands)


def filled(ctx: Emitter, shape: ArrayShape, number: int | float) -> Value:
    """An array of one number throughout."""
    scalar = intern_array(shape.element_type, ())
    value = _constant(ctx, scalar, np.array(number).astype(scalar.element_type.dtype))
    dimensions = {"broadcast_dimensions": i64_array(())}
    return ctx.value("stablehlo.broadcast_in_dim", shape, [value], dimensions)


@rule("bitcast_convert", when=is_awkward_bitcast)
def awkward_bitcast(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    source, target = op.operands[0].shape, _array(op)
    assert isinstance(source, ArrayShape)
    if target.element_type is pt.pred:
        return _bits_as_preds(ctx, operands[0], source, target)
    if source.element_type is pt.pred:
        return _preds_as_bits(ctx, operands[0], source, target)
    if source.element_type is pt.c128:
        return _halved_complex(ctx, operands[0], source, target)
    return _doubled_complex(ctx, operands[0], source, target)


def _word(bits: int) -> PrimitiveType:
    return pt.from_name(f"u{bits}")


def _bits_as_preds(ctx: Emitter, value: Value, source: ArrayShape, target: ArrayShape) -> Value:
    """Bit by bit."""
    bits = source.element_type.bits
    words = source.with_element_type(_word(bits))
    value = ctx.value("stablehlo.bitcast_convert", words, [value])
    if bits < 8:
        value = widened(ctx, value, words, pt.u8)
    each = target.with_element_type(_word(max(bits, 8)))
    places = {"broadcast_dimensions": i64_array(tuple(range(source.rank)))}
    spread = ctx.value("stablehlo.broadcast_in_dim", each, [value], places)
    shifted = ctx.value("stablehlo.shift_right_logical", each, [spread, _counted(ctx, each)])
    lowest = ctx.value("stablehlo.and", each, [shifted, filled(ctx, each, 1)])
    return ctx.converted(lowest, each, pt.pred)


def _preds_as_bits(ctx: Emitter, value: Value, source: ArrayShape, target: ArrayShape) -> Value:
    """The same back."""
    bits = target.element_type.bits
    each = source.with_element_type(_word(max(bits, 8)))
    wide = ctx.converted(value, source, each.element_type)
    shifted = ctx.value("stablehlo.shift_left", each, [wide, _counted(ctx, each)])
    scalar = intern_array(each.element_type, ())
    zero = _constant(ctx, scalar, np.zeros((), scalar.element_type.dtype))
    words = target.with_element_type(each.element_type)
    dimensions = {"dimensions": i64_array((source.rank - 1,))}
    either = Region((scalar, scalar), lambda pair: ctx.value("stablehlo.or", scalar, pair))
    result = ctx.value("stablehlo.reduce", words, [shifted, zero], dimensions, [either])
    if bits < 8:
        result = ctx.converted(result, words, _word(bits))
    return ctx.value("stablehlo.bitcast_convert", target, [result])


def _counted(ctx: Emitter, shape: ArrayShape) -> Value:
    """0, 1, 2, ... along the last dimension."""
    return ctx.value("stablehlo.iota", shape, [], {"iota_dimension": i64(shape.rank - 1)})


def _halved_complex(ctx: Emitter, value: Value, source: ArrayShape, target: ArrayShape) -> Value:
    """The halves of the real part make the first number, those of the imaginary part the second."""
    halves = target.with_element_type(pt.f32)
    part = source.with_element_type(pt.f64)
    real, imag = (
        ctx.value("stablehlo.bitcast_convert", halves, [ctx.value(name, part, [value])])
        for name in ("stablehlo.real", "stablehlo.imag")
    )
    pair = [_paired(ctx, halves, real, imag, i) for i in (0, 1)]
    return ctx.value("stablehlo.complex", target, pair)


def _doubled_complex(ctx: Emitter, value: Value, source: ArrayShape, target: ArrayShape) -> Value:
    """The same back."""
    halves = source.with_element_type(pt.f32)
    low, high = (ctx.value(name, halves, [value]) for name in ("stablehlo.real", "stablehlo.imag"))
    part = target.with_element_type(pt.f64)
    pair = [
        ctx.value("stablehlo.bitcast_convert", part, [_paired(ctx, halves, low, high, i)])
        for i in (0, 1)
    ]
    return ctx.value("stablehlo.complex", target, pair)


def _paired(ctx: Emitter, shape: ArrayShape, first: Value, second: Value, index: int) -> Value:
    """Element `index` of the last dimension of two arrays [..., 2], side by side."""
    *outer, _ = shape.dimensions
    one = intern_array(shape.element_type, (*outer, 1))
    bounds = {
        "start_indices": i64_array((0,) * len(outer) + (index,)),
        "limit_indices": i64_array((*outer, index + 1)),
        "strides": i64_array((1,) * shape.rank),
    }
    taken = [ctx.value("stablehlo.slice", one, [v], bounds) for v in (first, second)]
    dimension = {"dimension": i64(shape.rank - 1)}
    return ctx.value("stablehlo.concatenate", shape, taken, dimension)


@rule("power", when=is_integral)
def integral_power(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """0 where an even base is raised to 64 or more."""
    if not is_awkward_power(op):
        return ctx.value("stablehlo.power", op.shape, operands)
    shape = _array(op)
    base, exponent = operands
    zero = filled(ctx, shape, 0)
    kind = "SIGNED" if shape.element_type.is_signed else "UNSIGNED"
    lowest_bit = ctx.value("stablehlo.and", shape, [base, filled(ctx, shape, 1)])
    answers = shape.with_element_type(pt.pred)
    is_even, is_large = (
        ctx.value(
            "stablehlo.compare",
            answers,
            pair,
            compare({"comparison_direction": direction, "compare_type": kind}),
        )
        for pair, direction in (
            ([lowest_bit, zero], "EQ"),
            ([exponent, filled(ctx, shape, 64)], "GE"),
        )
    )
    gone = ctx.value("stablehlo.and", answers, [is_even, is_large])
    power = ctx.value("stablehlo.power", shape, operands, {WRITTEN_OUT: truth(True)})
    return ctx.value("stablehlo.select", shape, [gone, zero, power])


@direct("compare")
def compare(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: f"#stablehlo<{kind} {attributes[name]}>"
        for name, kind in (
            ("comparison_direction", "comparison_direction"),
            ("compare_type", "comparison_type"),
        )
    }


@rule("stochastic_convert")
def stochastic_convert(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """To signed integers in the words that XLA's compilers find for it; StableHLO has none.

    (Of bounded sizes, which constants can't have, they find them themselves.)
    """
    value, random = operands
    shape = _array(op)
    if not (is_signed_integral(shape.element_type) and shape.is_static):
        return ctx.value("mhlo.stochastic_convert", shape, operands)
    real, bits = (operand.shape for operand in op.operands)
    assert isinstance(real, ArrayShape)  # inference has said so
    assert isinstance(bits, ArrayShape)
    if is_narrow_stochastic_convert(op):
        wide, words = real.with_element_type(pt.f32), bits.with_element_type(pt.u32)
        value = ctx.converted(value, real, pt.f32)
        by = filled(ctx, words, 32 - bits.element_type.bits)
        random = ctx.converted(random, bits, pt.u32)
        random = ctx.value("stablehlo.shift_left", words, [random, by])
        real, bits = wide, words
    magnitude = ctx.value("stablehlo.abs", real, [value])
    whole = ctx.value("stablehlo.floor", real, [magnitude])
    fraction = ctx.value("stablehlo.subtract", real, [magnitude, whole])
    # 2 to the number of bits is no f16: there in f32.
    scaled = real.with_element_type(pt.f32) if real.element_type is pt.f16 else real
    if scaled is not real:
        fraction = ctx.converted(fraction, real, pt.f32)
    factor = filled(ctx, scaled, 2**bits.element_type.bits)
    fraction = ctx.value("stablehlo.multiply", scaled, [fraction, factor])
    chance = ctx.converted(fraction, scaled, bits.element_type)
    rounded = ctx.converted(whole, real, shape.element_type)
    more = ctx.value("stablehlo.add", shape, [rounded, filled(ctx, shape, 1)])
    up = compared(ctx, bits, "LT", "UNSIGNED", random, chance)
    rounded = ctx.value("stablehlo.select", shape, [up, more, rounded])
    below = compared(ctx, real, "LT", "FLOAT", value, filled(ctx, real, 0))
    opposite = ctx.value("stablehlo.negate", shape, [rounded])
    result = ctx.value("stablehlo.select", shape, [below, opposite, rounded])
    for end, direction in ((shape.element_type.min, "LE"), (shape.element_type.max, "GE")):
        # An end that no f16 reaches is at infinity.
        limit = float(end) if abs(end) <= real.element_type.max else math.copysign(math.inf, end)
        beyond = compared(ctx, real, direction, "FLOAT", value, filled(ctx, real, limit))
        result = ctx.value(
            "stablehlo.select", shape, [beyond, filled(ctx, shape, int(end)), result]
        )
    return result


def compared(
    ctx: Emitter, shape: ArrayShape, direction: str, kind: str, lhs: Value, rhs: Value
) -> Value:
    """Two values of array shape `shape` compared."""
    attributes = compare({"comparison_direction": direction, "compare_type": kind})
    return ctx.value("stablehlo.compare", shape.with_element_type(pt.pred), [lhs, rhs], attributes)


@rule("mulhi")
def mulhi(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """By a product of twice the width. (CHLO has a mulhi, which the CPU backend of XLA 0.10 can't
    fuse with other operations.)"""
    shape = _array(op)
    bits, signed = shape.element_type.bits, shape.element_type.is_signed
    if bits == 64:
        return _mulhi_of_halves(ctx, shape, operands)
    wide = shape.with_element_type(pt.from_name(f"{'s' if signed else 'u'}{max(2 * bits, 32)}"))
    factors = [ctx.converted(value, shape, wide.element_type) for value in operands]
    product = ctx.value("stablehlo.multiply", wide, factors)
    shift = f"stablehlo.shift_right_{'arithmetic' if signed else 'logical'}"
    upper = ctx.value(shift, wide, [product, filled(ctx, wide, bits)])
    return ctx.converted(upper, wide, shape.element_type)


def _mulhi_of_halves(ctx: Emitter, shape: ArrayShape, operands: list[Value]) -> Value:
    """Of 64 bits: of two halves each, lower ones unsigned, and what is carried between them."""

    def emit(name: str, *values: Value) -> Value:
        return ctx.value(f"stablehlo.{name}", shape, list(values))

    shift = f"shift_right_{'arithmetic' if shape.element_type.is_signed else 'logical'}"
    by, mask = filled(ctx, shape, 32), filled(ctx, shape, 2**32 - 1)
    (low_x, high_x), (low_y, high_y) = (
        (emit("and", v, mask), emit(shift, v, by)) for v in operands
    )
    carried = emit("shift_right_logical", emit("multiply", low_x, low_y), by)
    middle = emit("add", emit("multiply", high_x, low_y), carried)
    other = emit("add", emit("multiply", low_x, high_y), emit("and", middle, mask))
    above = emit("add", emit("multiply", high_x, high_y), emit(shift, middle, by))
    return emit("add", above, emit(shift, other, by))


@direct("reduce_precision")
def reduce_precision(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {name: i32(value) for name, value in attributes.items()}


@direct("constant")
def constant(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    array = attributes["value"]
    return {"value": dense_elements(array, _shape_of(array.dtype, array.shape))}


_shape_of = lru_cache(maxsize=4096)(array_shape)


@rule("constant", when=lambda op: counts_from_negative_zero(op.attributes["value"]))
def hidden_count(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Where it can't be seen that it counts."""
    shape = _array(op)
    opposite = _constant(ctx, shape, np.negative(op.attributes["value"]))
    held = ctx.value("stablehlo.optimization_barrier", shape, [opposite])
    return ctx.value("stablehlo.negate", shape, [held])


def _constant(ctx: Emitter, shape: ArrayShape, array: np.ndarray[Any, Any]) -> Value:
    attributes = {"value": dense_elements(array, shape)}
    return ctx.value("stablehlo.constant", shape, [], attributes)
