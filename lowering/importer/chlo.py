"""Importers of operations that have no op: those of CHLO that broadcast, and decomposed ones."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.ops.runtime_sizes import broadcast_scalar
from builder.schema import Schema
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import SchemaImporter, importer_of
from lowering.importer.constants import constant
from lowering.importer.decompositions import call_decomposition
from lowering.importer.scope import Scope
from lowering.jaxlib_api import artifacts
from lowering.ops.dynamic import constants_of, static_result
from lowering.ops.importing import failure
from lowering.ops.registry import DECOMPOSITIONS, IMPORTERS, importer

for _name in ("conj", "square"):  # ops of XLA's client library
    IMPORTERS[f"chlo.{_name}"] = SchemaImporter(Schema(_name, "operand"), xb.OPERATIONS[_name])

IMPORTERS["chlo.constant"] = constant


@importer(
    *(
        f"chlo.broadcast_{info.opcode}"
        for info in xb.OPERATIONS.values()
        if info.schema.operands == "lhs rhs"
        and info.schema.stablehlo.startswith("stablehlo.")
        and "broadcast_dimensions" in inspect.signature(info.function).parameters
    )
)
def broadcasting(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a binary operation by its public op, which broadcasts operands in the same way."""
    record: Any = importer_of(f"stablehlo.{operation.name.removeprefix('chlo.broadcast_')}")
    dimensions = _broadcast_dimensions(scope, operation, operands)
    op: XlaOp = record(scope, operation, operands, broadcast_dimensions=dimensions)
    return op


def _broadcast_dimensions(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> Sequence[int] | None:
    """Return the dimensions of the higher-rank operand to which the lower-rank operand's dimensions
    correspond: by default the last ones; None if the ranks are equal."""
    dimensions: tuple[int, ...] | None = scope.attribute(operation, "broadcast_dimensions")
    ranks = [op.shape.rank for op in operands if isinstance(op.shape, ArrayShape)]
    if dimensions is not None or min(ranks) == max(ranks):
        return dimensions
    return range(max(ranks) - min(ranks), max(ranks))


@importer("chlo.broadcast_select")
def broadcast_select(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    result = scope.result_array(operation)
    broadcast = []
    for op in operands:
        assert isinstance(op.shape, ArrayShape)  # verified by MLIR
        if op.shape.dimensions != result.dimensions:
            last = range(result.rank - op.shape.rank, result.rank)
            op = xb.broadcast_in_dim(op, result.dimensions, last)
        broadcast.append(op)
    return xb.select(*broadcast)


@importer("chlo.atan")
def atan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.atan(operands[0])


@importer("chlo.is_inf")
def is_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(xb.abs(operands[0]), float("inf"))


@importer("chlo.is_pos_inf")
def is_pos_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(operands[0], float("inf"))


@importer("chlo.is_neg_inf")
def is_neg_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(operands[0], float("-inf"))


_COMPLEX: Final = re.compile(r"#complex\.number<:\w+ (\S+), (\S+)>.*")


@importer("chlo.constant_like")
def constant_like(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape, value = scope.result_array(operation), scope.attribute(operation, "value")
    parts = _COMPLEX.fullmatch(str(value))
    try:
        number = value if parts is None else complex(float(parts[1]), float(parts[2]))
        scalar = np.array(number).astype(shape.element_type.dtype)
    except (TypeError, ValueError):
        raise failure(operation, f"the attribute value must be a number, got {value}") from None
    if not shape.is_bounded:
        return broadcast_scalar(scope.builder.constant(scalar), shape, operands)
    return scope.builder.constant(np.broadcast_to(scalar, shape.dimensions))


def decomposed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return call_decomposition(scope, operation, operands, artifacts.decomposed)


for _name in (
    "bessel_i1e",
    "broadcast_next_after",
    "broadcast_polygamma",
    "broadcast_zeta",
    "digamma",
    "erf_inv",
    "erfc",
    "lgamma",
    "next_after",
    "polygamma",
    "zeta",
):
    DECOMPOSITIONS[f"chlo.{_name}"] = decomposed


@importer("stablehlo.dynamic_conv", "stablehlo.dynamic_gather")
def with_constant_sizes(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    static_result(scope, operation)
    constants = constants_of(scope, operation, (2,))
    return call_decomposition(scope, operation, operands, artifacts.refined, constants)
