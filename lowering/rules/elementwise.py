"""Elementwise ops in StableHLO; the inverse and hyperbolic functions in CHLO.

A few combinations of op and type compute wrong numbers in XLA's CPU backend, or take minutes to
compile; they are written another way here, each with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, Shape, intern_array
from builder.xla_op import XlaOp
from lowering.mlir_context import MlirContext
from lowering.rules.registry import DIRECT, Value, direct, rule
from lowering.types import dense_elements

if TYPE_CHECKING:
    from lowering.emitter import Emitter

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
DIRECT["erf"] = "chlo.erf"


def _array(op: XlaOp) -> ArrayShape:
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    return op.shape


_CHLO = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh")
DIRECT.update({opcode: f"chlo.{opcode}" for opcode in _CHLO})


def _is_narrow(op: XlaOp) -> bool:
    return op.shape.element_type.bits <= 8


def narrow_function(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """In f32: XLA writes these functions out as sums and products, each rounded to the type.

    So f8e8m0fnu gets wrong numbers, and XLA 0.12 takes half a minute to compile some of the other
    8-bit types, or dies.
    """
    shape = _array(op)
    wide = ctx.converted(operands[0], shape, pt.f32)
    result = ctx.value(f"chlo.{op.opcode}", shape.with_element_type(pt.f32), [wide])
    return ctx.converted(result, shape, shape.element_type)


for _opcode in _CHLO:
    rule(_opcode, when=_is_narrow)(narrow_function)


DIRECT["popcnt"] = "stablehlo.popcnt"
DIRECT["convert"] = "stablehlo.convert"


def _is_narrow_signed(op: XlaOp) -> bool:
    return op.shape.element_type in (pt.s2, pt.s4)


@rule("popcnt", when=_is_narrow_signed)
def popcnt_narrow_signed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """As unsigned: XLA's CPU backend extends the sign first, and counts those bits too."""
    shape = _array(op)
    unsigned = shape.with_element_type(pt.u4 if shape.element_type is pt.s4 else pt.u2)
    bits = ctx.value("stablehlo.bitcast_convert", unsigned, operands)
    count = ctx.value("stablehlo.popcnt", unsigned, [bits])
    return ctx.value("stablehlo.bitcast_convert", shape, [count])


def _is_awkward(op: XlaOp) -> bool:
    source, target = op.operands[0].shape.element_type, op.shape.element_type
    return (source.is_complex and target is pt.pred) or (
        source is pt.f4e2m1fn and target.is_integral
    )


@rule("convert", when=_is_awkward)
def awkward_convert(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    shape = _array(op)
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    if source.element_type.is_complex:
        # XLA looks at the real part alone; nonzero means either part.
        values = [operands[0], _filled(ctx, source, 0)]
        attributes = compare(ctx.mlir, {"comparison_direction": "NE", "compare_type": "FLOAT"})
        return ctx.value("stablehlo.compare", shape, values, attributes)
    # XLA takes the largest f4e2m1fn, 6, for an infinity.
    wide = ctx.converted(operands[0], source, pt.f32)
    return ctx.value("stablehlo.convert", shape, [wide])


def _filled(ctx: Emitter, shape: ArrayShape, number: int) -> Value:
    """An array of one number throughout."""
    scalar = intern_array(shape.element_type, ())
    value = _constant(ctx, scalar, np.array(number).astype(scalar.element_type.dtype))
    dimensions = {"broadcast_dimensions": ctx.mlir.i64_array(())}
    return ctx.value("stablehlo.broadcast_in_dim", shape, [value], dimensions)


def is_awkward_bitcast(op: XlaOp) -> bool:
    source, target = op.operands[0].shape.element_type, op.shape.element_type
    return source is not target and (source.is_complex or pt.pred in (source, target))


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
    """Bit by bit: to StableHLO and XlaBuilder a pred is one bit, to XLA's backends eight."""
    bits = source.element_type.bits
    words = source.with_element_type(_word(bits))
    value = ctx.value("stablehlo.bitcast_convert", words, [value])
    if bits < 8:
        value = ctx.converted(value, words, pt.u8)
    each = target.with_element_type(_word(max(bits, 8)))
    places = {"broadcast_dimensions": ctx.mlir.i64_array(tuple(range(source.rank)))}
    spread = ctx.value("stablehlo.broadcast_in_dim", each, [value], places)
    shifted = ctx.value("stablehlo.shift_right_logical", each, [spread, _counted(ctx, each)])
    lowest = ctx.value("stablehlo.and", each, [shifted, _filled(ctx, each, 1)])
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
    dimensions = {"dimensions": ctx.mlir.i64_array((source.rank - 1,))}
    reduced = ctx.create("stablehlo.reduce", words, [shifted, zero], dimensions, regions=1)
    either = ctx.mlir.types[scalar]
    block = ir.Block.create_at_start(reduced.regions[0], [either, either], [ctx.loc, ctx.loc])
    inside: dict[str, Any] = {"loc": ctx.loc, "ip": ir.InsertionPoint(block)}
    arguments = list(block.arguments)
    together = ir.Operation.create("stablehlo.or", [either], arguments, **inside)
    ir.Operation.create("stablehlo.return", [], [together.result], **inside)
    result: Value = reduced.result
    if bits < 8:
        result = ctx.converted(result, words, _word(bits))
    return ctx.value("stablehlo.bitcast_convert", target, [result])


def _counted(ctx: Emitter, shape: ArrayShape) -> Value:
    """0, 1, 2, ... along the last dimension."""
    return ctx.value(
        "stablehlo.iota", shape, [], {"iota_dimension": ctx.mlir.i64(shape.rank - 1)}
    )


def _halved_complex(ctx: Emitter, value: Value, source: ArrayShape, target: ArrayShape) -> Value:
    """The halves of the real part make the first number, those of the imaginary part the second.

    XLA's bitcast of complex numbers to another width ends the process.
    """
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
        "start_indices": ctx.mlir.i64_array((0,) * len(outer) + (index,)),
        "limit_indices": ctx.mlir.i64_array((*outer, index + 1)),
        "strides": ctx.mlir.i64_array((1,) * shape.rank),
    }
    taken = [ctx.value("stablehlo.slice", one, [v], bounds) for v in (first, second)]
    dimension = {"dimension": ctx.mlir.i64(shape.rank - 1)}
    return ctx.value("stablehlo.concatenate", shape, taken, dimension)


def is_awkward_power(op: XlaOp) -> bool:
    """A power of integers whose exponent is not known to be below 64."""
    element_type = op.shape.element_type
    if not element_type.is_integral or element_type.max < 64:
        return False
    exponent = op.operands[1]
    if exponent.opcode == "broadcast_in_dim":
        exponent = exponent.operands[0]
    return exponent.opcode != "constant" or bool((exponent.attributes["value"] >= 64).any())


@rule("power", when=is_awkward_power)
def awkward_power(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """XLA looks at the low 6 bits of an exponent, since 2 to the 64 is more than any type holds.

    But 0 to the 64 is 0, not 1.
    """
    shape = _array(op)
    zero = _filled(ctx, shape, 0)
    answers = shape.with_element_type(pt.pred)
    is_zero, is_power = (
        ctx.value(
            "stablehlo.compare",
            answers,
            [value, zero],
            compare(
                ctx.mlir,
                {
                    "comparison_direction": direction,
                    "compare_type": "SIGNED" if shape.element_type.is_signed else "UNSIGNED",
                },
            ),
        )
        for value, direction in zip(operands, ("EQ", "NE"), strict=True)
    )
    stays = ctx.value("stablehlo.and", answers, [is_zero, is_power])
    power = ctx.value("stablehlo.power", shape, operands)
    return ctx.value("stablehlo.select", shape, [stays, zero, power])


@direct("compare")
def compare(mlir: MlirContext, attributes: Mapping[str, Any]) -> dict[str, ir.Attribute]:
    return {
        name: mlir.parsed(f"#stablehlo<{kind} {attributes[name]}>")
        for name, kind in (
            ("comparison_direction", "comparison_direction"),
            ("compare_type", "comparison_type"),
        )
    }


@direct("reduce_precision")
def reduce_precision(mlir: MlirContext, attributes: Mapping[str, Any]) -> dict[str, ir.Attribute]:
    return {name: mlir.i32(value) for name, value in attributes.items()}


@rule("map")
def map(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"dimensions": ctx.mlir.i64_array(op.attributes["dimensions"])}
    operation = ctx.create("stablehlo.map", op.shape, operands, attributes, regions=1)
    ctx.emit_region(operation.regions[0], op.attributes["to_apply"])
    return operation.result


@rule("constant")
def constant(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    array = op.attributes["value"]
    if array.ndim != 1 or not counts_from_negative_zero(array):
        return _constant(ctx, op.shape, array)
    # XLA takes [-0, 1, 2, ...] for [0, 1, 2, ...], which it counts up itself.
    opposite = _constant(ctx, op.shape, np.negative(array))
    held = ctx.value("stablehlo.optimization_barrier", op.shape, [opposite])
    return ctx.value("stablehlo.negate", op.shape, [held])


def _constant(ctx: Emitter, shape: Shape, array: np.ndarray[Any, Any]) -> Value:
    attributes = {"value": dense_elements(array, ctx.mlir.types[shape])}
    return ctx.value("stablehlo.constant", shape, [], attributes)


def counts_from_negative_zero(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array equals 0, 1, 2, ... though it has a negative zero in it."""
    if array.dtype.kind in "biu" or array.ndim != 1 or array.size < 2:
        return False
    if array[0] != 0 or array[1] != 1:
        return False
    wide = array.astype(np.complex128)
    if not np.array_equal(wide, np.arange(array.size)):
        return False
    return bool(np.signbit(wide.real).any() or np.signbit(wide.imag).any())
