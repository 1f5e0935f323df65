"""Random numbers."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope

_DRAWN = {"NORMAL": xb.rng_normal, "UNIFORM": xb.rng_uniform}


@importer("stablehlo.rng")
def rng(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    # The third operand holds the sizes, which the result's type says too.
    draw = _DRAWN[scope.attribute(operation, "rng_distribution")]
    return draw(operands[0], operands[1], scope.result_shape(operation))


@importer("stablehlo.rng_bit_generator")
def rng_bit_generator(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    algorithm = f"RNG_{scope.attribute(operation, 'rng_algorithm')}"
    shape = scope.result_shape(operation, 1)
    return xb.rng_bit_generator(algorithm, operands[0], shape)
