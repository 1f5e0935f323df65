"""Elementwise ops in StableHLO; the inverse and hyperbolic functions in CHLO.

A few combinations of op and type compute wrong numbers in XLA's CPU backend, or take minutes to
compile; they are written another way here, each with its reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, intern_array
from builder.xla_op import XlaOp
from lowering.rules.registry import DIRECT, Value, rule
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


def _converted(ctx: Emitter, value: Value, shape: ArrayShape, to: PrimitiveType) -> Value:
    return ctx.value("stablehlo.convert", shape.with_element_type(to), [value])


def chlo_function(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    shape = _array(op)
    name = f"chlo.{op.opcode}"
    if shape.element_type.bits > 8:
        return ctx.value(name, shape, operands)
    # These are written out as sums and products, each rounded to the type: f8e8m0fnu gives wrong
    # numbers, and XLA 0.12 takes half a minute to compile the other 8-bit floats, or dies.
    wide = _converted(ctx, operands[0], shape, pt.f32)
    result = ctx.value(name, shape.with_element_type(pt.f32), [wide])
    return _converted(ctx, result, shape, shape.element_type)


for _opcode in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"):
    rule(_opcode)(chlo_function)


@rule("popcnt")
def popcnt(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    shape = _array(op)
    if shape.element_type.is_signed and shape.element_type.bits < 8:
        # XLA's CPU backend extends the sign first, and counts those bits too.
        unsigned = shape.with_element_type(pt.u4 if shape.element_type is pt.s4 else pt.u2)
        bits = ctx.value("stablehlo.bitcast_convert", unsigned, operands)
        count = ctx.value("stablehlo.popcnt", unsigned, [bits])
        return ctx.value("stablehlo.bitcast_convert", shape, [count])
    return ctx.value("stablehlo.popcnt", shape, operands)


@rule("convert")
def convert(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    shape = _array(op)
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)
    value = operands[0]
    if source.element_type.is_complex and shape.element_type is pt.pred:
        # XLA looks at the real part alone; nonzero means either part.
        zero = _zeros(ctx, source)
        return ctx.value("stablehlo.compare", shape, [value, zero], _comparison(ctx, "NE", "FLOAT"))
    if source.element_type is pt.f4e2m1fn and shape.element_type.is_integral:
        # XLA takes the largest value, 6, for an infinity.
        value = _converted(ctx, value, source, pt.f32)
    return ctx.value("stablehlo.convert", shape, [value])


def _zeros(ctx: Emitter, shape: ArrayShape) -> Value:
    scalar = intern_array(shape.element_type, ())
    zero = ctx.value(
        "stablehlo.constant",
        scalar,
        [],
        {"value": dense_elements(np.zeros((), scalar.element_type.dtype), ctx.mlir.types[scalar])},
    )
    dimensions = {"broadcast_dimensions": ctx.mlir.i64_array(())}
    return ctx.value("stablehlo.broadcast_in_dim", shape, [zero], dimensions)


def _comparison(ctx: Emitter, direction: str, kind: str) -> dict[str, ir.Attribute]:
    return {
        "comparison_direction": ctx.mlir.parsed(f"#stablehlo<comparison_direction {direction}>"),
        "compare_type": ctx.mlir.parsed(f"#stablehlo<comparison_type {kind}>"),
    }


@rule("compare")
def compare(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    element_type = op.operands[0].shape.element_type
    if element_type.is_floating or element_type.is_complex:
        kind = "TOTALORDER" if op.attributes["total_order"] else "FLOAT"
    else:
        kind = "SIGNED" if element_type.is_signed else "UNSIGNED"
    attributes = _comparison(ctx, op.attributes["comparison_direction"], kind)
    return ctx.value("stablehlo.compare", op.shape, operands, attributes)


@rule("reduce_precision")
def reduce_precision(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {name: ctx.mlir.i32(op.attributes[name]) for name in op.attributes}
    return ctx.value("stablehlo.reduce_precision", op.shape, operands, attributes)


@rule("map")
def map(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"dimensions": ctx.mlir.i64_array(op.attributes["dimensions"])}
    operation = ctx.create("stablehlo.map", op.shape, operands, attributes, regions=1)
    ctx.emit_region(operation.regions[0], op.attributes["to_apply"])
    return operation.result


@rule("constant")
def constant(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    tensor = ctx.mlir.types[op.shape]
    attributes = {"value": dense_elements(op.attributes["value"], tensor)}
    return ctx.value("stablehlo.constant", op.shape, operands, attributes)
