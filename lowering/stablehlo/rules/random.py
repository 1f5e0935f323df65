"""Random numbers of a distribution in StableHLO, whose sizes are an operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.mlir.attributes import dense_elements
from lowering.stablehlo.rules.registry import Value, attributes_of, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


@rule("rng")
def rng(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    assert isinstance(op.shape, ArrayShape)  # checked by inference
    sizes = np.array(op.shape.dimensions, np.int64)
    shape = intern_array(pt.s64, (op.shape.rank,))
    value = {"value": dense_elements(sizes, shape)}
    dimensions = ctx.value("stablehlo.constant", shape, [], value)
    return ctx.value("stablehlo.rng", op.shape, [*operands, dimensions], attributes_of(op))
