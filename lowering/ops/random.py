"""Random numbers.

There are no rules for jax: vmap of `lax.rng_bit_generator` uses the first state for the whole
batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.ops.emitting import constant
from lowering.ops.registry import Value, array_of, importer, stablehlo_rule

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


@stablehlo_rule("rng")
def emit_rng(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit an rng operation, which takes the sizes of its result as an operand."""
    shape = array_of(op.shape)
    sizes = constant(ctx, intern_array(pt.s64, (shape.rank,)), shape.dimensions)
    return ctx.value("stablehlo.rng", shape, [*operands, sizes], ctx.attributes_of(op))


_DISTRIBUTIONS = {"NORMAL": xb.rng_normal, "UNIFORM": xb.rng_uniform}


@importer("stablehlo.rng")
def import_rng(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record rng_normal or rng_uniform. The third operand, the sizes, is ignored: the result's type
    has the sizes too."""
    distribution = _DISTRIBUTIONS[scope.attribute(operation, "rng_distribution")]
    return distribution(operands[0], operands[1], scope.result_shape(operation))
