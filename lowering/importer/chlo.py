"""Operations of CHLO that are no ops here, or several: broadcasts that are implied, functions."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.schema import Schema
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import SchemaImporter, importer_of
from lowering.importer.constants import constant
from lowering.importer.decompositions import call_in_other_words
from lowering.importer.failures import failure
from lowering.importer.registry import DECOMPOSITIONS, IMPORTERS, Imported, importer
from lowering.importer.scope import Scope
from lowering.jaxlib_api import artifacts

for _name in ("conj", "square"):
    # No operation of its own in XLA: the public op records others.
    IMPORTERS[f"chlo.{_name}"] = SchemaImporter(Schema(_name, "operand"), xb.OPERATIONS[_name])

IMPORTERS["chlo.constant"] = constant


@importer(
    *(
        f"chlo.broadcast_{info.opcode}"
        for info in xb.OPERATIONS.values()
        if "broadcast_dimensions" in inspect.signature(info.function).parameters
    )
)
def broadcasting(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a binary operation, whose public op broadcasts the operands as this one does."""
    record: Any = importer_of(f"stablehlo.{operation.name.removeprefix('chlo.broadcast_')}")
    places = _places(scope, operation, operands)
    found: Imported = record(scope, operation, operands, broadcast_dimensions=places)
    return found


def _places(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> tuple[int, ...] | range | None:
    """Which dimensions of the larger operand the smaller one has: the last, unless it is said."""
    said: tuple[int, ...] | None = scope.attribute(operation, "broadcast_dimensions")
    ranks = [op.shape.rank for op in operands if isinstance(op.shape, ArrayShape)]
    if said is not None or min(ranks) == max(ranks):
        return said
    return range(max(ranks) - min(ranks), max(ranks))


@importer("chlo.broadcast_select")
def broadcast_select(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    whole = scope.result_shape(operation)
    assert isinstance(whole, ArrayShape)  # MLIR's verifier has said so
    sizes, same = whole.dimensions, []
    for op in operands:
        assert isinstance(op.shape, ArrayShape)  # MLIR's verifier has said so
        places = range(whole.rank - op.shape.rank, whole.rank)
        needed = op.shape.dimensions != sizes
        same.append(xb.broadcast_in_dim(op, sizes, places) if needed else op)
    return xb.select(*same)


@importer("chlo.atan")
def atan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    shape = scope.result_shape(operation)
    if isinstance(shape, ArrayShape) and shape.element_type.is_complex:
        # xb.atan is an atan2, as XlaBuilder has it, and less exact than what CHLO means.
        return function(scope, operation, operands)
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
    shape, value = scope.result_shape(operation), scope.attribute(operation, "value")
    assert isinstance(shape, ArrayShape)  # MLIR's verifier has said so
    parts = _COMPLEX.fullmatch(str(value))
    try:
        number = value if parts is None else complex(float(parts[1]), float(parts[2]))
        one = np.array(number).astype(shape.element_type.dtype)
    except (TypeError, ValueError):
        raise failure(operation, f"{value} is not read as a number") from None
    return scope.builder.constant(np.broadcast_to(one, shape.dimensions))


def function(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    return call_in_other_words(scope, operation, operands, artifacts.decomposed)


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
    DECOMPOSITIONS[f"chlo.{_name}"] = function
