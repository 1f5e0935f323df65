"""Broadcasts, reshapes, slices and the like in StableHLO, one operation each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder import primitive_type as pt
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, Shape
from builder.xla_op import XlaOp
from lowering.rules.registry import DIRECT, Value, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter

DIRECT["reshape"] = "stablehlo.reshape"


@rule("broadcast_in_dim")
def broadcast_in_dim(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"broadcast_dimensions": ctx.mlir.i64_array(op.attributes["broadcast_dimensions"])}
    return ctx.value("stablehlo.broadcast_in_dim", op.shape, operands, attributes)


@rule("transpose")
def transpose(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"permutation": ctx.mlir.i64_array(op.attributes["permutation"])}
    return ctx.value("stablehlo.transpose", op.shape, operands, attributes)


@rule("reverse")
def reverse(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"dimensions": ctx.mlir.i64_array(op.attributes["dimensions"])}
    return ctx.value("stablehlo.reverse", op.shape, operands, attributes)


@rule("concatenate")
def concatenate(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"dimension": ctx.mlir.i64(op.attributes["dimension"])}
    element_type = op.shape.element_type
    if element_type not in (pt.s2, pt.u2):
        return ctx.value("stablehlo.concatenate", op.shape, operands, attributes)
    # XLA's CPU backend dies of 2-bit elements here.
    wide = pt.s8 if element_type is pt.s2 else pt.u8
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    values = [
        _converted(ctx, value, operand.shape, wide)
        for operand, value in zip(op.operands, operands, strict=True)
    ]
    joined = op.shape.with_element_type(wide)
    value = ctx.value("stablehlo.concatenate", joined, values, attributes)
    return _converted(ctx, value, joined, element_type)


def _converted(ctx: Emitter, value: Value, shape: Shape, to: PrimitiveType) -> Value:
    assert isinstance(shape, ArrayShape)  # inference has said so
    return ctx.value("stablehlo.convert", shape.with_element_type(to), [value])


@rule("pad")
def pad(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    dimensions = op.attributes["padding_config"].dimensions
    attributes = {
        name: ctx.mlir.i64_array(tuple([getattr(d, name) for d in dimensions]))
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    }
    return ctx.value("stablehlo.pad", op.shape, operands, attributes)


@rule("slice")
def slice(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {name: ctx.mlir.i64_array(values) for name, values in op.attributes.items()}
    return ctx.value("stablehlo.slice", op.shape, operands, attributes)


@rule("iota")
def iota(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"iota_dimension": ctx.mlir.i64(op.attributes["iota_dimension"])}
    return ctx.value("stablehlo.iota", op.shape, operands, attributes)
