"""Broadcasts, reshapes, slices and the like in StableHLO, one operation each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from builder import primitive_type as pt
from builder.shape import ArrayShape
from builder.workarounds import is_of_two_bits, stride_within
from builder.xla_op import XlaOp
from lowering.mlir_attributes import Attribute, i64, i64_array
from lowering.rules.registry import DIRECT, Value, direct, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter

Attributes = dict[str, Attribute]

DIRECT["reshape"] = "stablehlo.reshape"


@direct("broadcast_in_dim")
@direct("transpose")
@direct("reverse")
def dimension_lists(attributes: Mapping[str, Any]) -> Attributes:
    """Lists of dimensions or indices, called in StableHLO as they are here."""
    return {name: i64_array(values) for name, values in attributes.items()}


@direct("slice")
def slice_bounds(attributes: Mapping[str, Any]) -> Attributes:
    starts, limits = attributes["start_indices"], attributes["limit_indices"]
    strides = attributes["strides"]
    if strides.count(1) == len(strides):
        return dimension_lists(attributes)
    strides = tuple(map(stride_within, starts, limits, strides))
    return dimension_lists({**attributes, "strides": strides})


@direct("concatenate")
@direct("iota")
def dimension(attributes: Mapping[str, Any]) -> Attributes:
    """One dimension, called in StableHLO as it is here."""
    return {name: i64(value) for name, value in attributes.items()}


@direct("pad")
def padding(attributes: Mapping[str, Any]) -> Attributes:
    dimensions = attributes["padding_config"].dimensions
    return {
        name: i64_array(tuple(getattr(d, name) for d in dimensions))
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    }


@rule("concatenate", when=is_of_two_bits)
def concatenate_two_bits(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """By way of 8 bits."""
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    wide = pt.s8 if op.shape.element_type is pt.s2 else pt.u8
    values = [
        ctx.converted(value, operand.shape, wide)
        for operand, value in zip(op.operands, operands, strict=True)
    ]
    joined = op.shape.with_element_type(wide)
    attributes = dimension(op.attributes)
    value = ctx.value("stablehlo.concatenate", joined, values, attributes)
    return ctx.converted(value, joined, op.shape.element_type)
