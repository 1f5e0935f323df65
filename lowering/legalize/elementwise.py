"""Elementwise ops that a platform lacks."""

from __future__ import annotations

from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.shape import ArrayShape
from builder.workarounds import is_signed_integral
from lowering.legalize.registry import refuse
from lowering.types import shape_of_type


def _gives_signed_integers(operation: ir.Operation) -> bool:
    shape = shape_of_type(operation.results[0].type)
    return isinstance(shape, ArrayShape) and is_signed_integral(shape.element_type)


refuse(
    "mhlo.stochastic_convert",
    "cpu",
    "gpu",
    reason="XLA's compiler for it rounds at random to signed integers only",
    fix="convert to signed integers, or add the random bits below those that are kept, by "
    "xb.bitcast_convert_type, and cut them off by xb.reduce_precision",
    unless=_gives_signed_integers,
)


def _is_not_of_f64(operation: ir.Operation) -> bool:
    shape = shape_of_type(operation.results[0].type)
    return not (isinstance(shape, ArrayShape) and shape.element_type is pt.f64)


refuse(
    "stablehlo.reduce_precision",
    "tpu",
    reason="XLA has none of f64 there, whose numbers are pairs of f32",
    fix="convert to f32 before it, with xb.convert_element_type",
    unless=_is_not_of_f64,
)
