"""Elementwise ops that a platform lacks."""

from __future__ import annotations

from jaxlib.mlir import ir

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
