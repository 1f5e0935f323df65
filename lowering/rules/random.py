"""Random numbers in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from builder import primitive_type as pt
from builder.shape import ArrayShape, intern_array
from builder.xla_op import XlaOp
from lowering.mlir_attributes import dense_elements
from lowering.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter


@rule("rng")
def rng(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    assert isinstance(op.shape, ArrayShape)  # inference has said so
    sizes = np.array(op.shape.dimensions, np.int64)
    shape = intern_array(pt.s64, (op.shape.rank,))
    value = {"value": dense_elements(sizes, shape)}
    dimensions = ctx.value("stablehlo.constant", shape, [], value)
    distribution = op.attributes["distribution"].removeprefix("rng_").upper()
    attributes = {"rng_distribution": f"#stablehlo<rng_distribution {distribution}>"}
    return ctx.value("stablehlo.rng", op.shape, [*operands, dimensions], attributes)


@rule("rng_bit_generator")
def rng_bit_generator(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    algorithm = op.attributes["algorithm"].name.removeprefix("RNG_")
    attributes = {"rng_algorithm": f"#stablehlo<rng_algorithm {algorithm}>"}
    return ctx.value("stablehlo.rng_bit_generator", op.shape, operands, attributes)
