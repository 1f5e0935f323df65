"""Importers of MHLO operations, which jaxlib's converter creates for HLO beyond StableHLO."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.scope import Scope
from lowering.ops.importing import failure
from lowering.ops.registry import importer


@importer("mhlo.fusion")
def fusion(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.call(scope.computation(), operands)


@importer("mhlo.copy", "mhlo.domain")
def identity(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Return the operand: the operation changes only the layout or the sharding."""
    return operands[0]


@importer("mhlo.bitcast")
def bitcast(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a bitcast as reshapes and transposes that keep the order of elements in memory."""
    (operand,) = operands
    source, target = operand.shape, scope.result_shape(operation)
    if not isinstance(source, ArrayShape) or not isinstance(target, ArrayShape):
        raise failure(operation, "the operand and the result of a bitcast must be arrays")
    if source.element_type is not target.element_type:
        if source.element_type.bits != target.element_type.bits:
            raise failure(
                operation,
                "the element types of a bitcast's operand and result must have the same width",
            )
        operand = xb.bitcast_convert_type(operand, target.element_type)
    before = _major_to_minor(scope, operation, "source_layout", source)
    after = _major_to_minor(scope, operation, "result_layout", target)
    in_memory = [target.dimensions[number] for number in after]
    operand = _transposed(operand, before)
    if [source.dimensions[number] for number in before] != in_memory:
        operand = xb.reshape(operand, in_memory)
    return _transposed(operand, list(map(after.index, range(len(after)))))


def _major_to_minor(
    scope: Scope, operation: ir.Operation, name: str, shape: ArrayShape
) -> list[int]:
    minor_to_major = scope.attribute(operation, name, range(shape.rank)[::-1])
    return [int(number) for number in minor_to_major][::-1]


def _transposed(operand: XlaOp, order: list[int]) -> XlaOp:
    return operand if order == sorted(order) else xb.transpose(operand, order)
