"""Operations of MHLO: what jaxlib makes of the HLO that StableHLO has no operations for."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope


@importer("mhlo.fusion")
def fusion(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    computation = scope.computation()
    return xb.call(computation, *operands) if operands else scope.builder.call(computation)


@importer("mhlo.copy", "mhlo.domain")
def same(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    # What they say is where an array lies and how it is cut up, not what it holds.
    return operands[0]


@importer("mhlo.bitcast")
def bitcast(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """The bytes of an array taken for another: its elements in the order that they lie in memory
    are reshaped, and then are those of the result in the order in which that lies.
    """
    (operand,) = operands
    source, target = operand.shape, scope.result_shape(operation)
    if not isinstance(source, ArrayShape) or not isinstance(target, ArrayShape):
        raise failure(operation, "it is of arrays")
    if source.element_type is not target.element_type:
        if source.element_type.bits != target.element_type.bits:
            raise failure(operation, "its elements are of another width")
        operand = xb.bitcast_convert_type(operand, target.element_type)
    before = _major_to_minor(scope, operation, "source_layout", source)
    after = _major_to_minor(scope, operation, "result_layout", target)
    in_memory = [target.dimensions[number] for number in after]
    placed = _transposed(operand, before)
    if [source.dimensions[number] for number in before] != in_memory:
        placed = xb.reshape(placed, in_memory)
    return _transposed(placed, [after.index(number) for number in range(len(after))])


def _major_to_minor(
    scope: Scope, operation: ir.Operation, name: str, shape: ArrayShape
) -> list[int]:
    said = scope.attribute(operation, name)
    if said is None:
        return list(range(shape.rank))
    return [int(number) for number in said][::-1]


def _transposed(operand: XlaOp, order: list[int]) -> XlaOp:
    return operand if order == sorted(order) else xb.transpose(operand, order)
