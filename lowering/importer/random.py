"""Importer of stablehlo.rng."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from lowering.importer.registry import importer
from lowering.importer.scope import Scope

_DISTRIBUTIONS = {"NORMAL": xb.rng_normal, "UNIFORM": xb.rng_uniform}


@importer("stablehlo.rng")
def rng(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record rng_normal or rng_uniform. The third operand, the sizes, is ignored: the result's type
    has the sizes too."""
    distribution = _DISTRIBUTIONS[scope.attribute(operation, "rng_distribution")]
    return distribution(operands[0], operands[1], scope.result_shape(operation))
