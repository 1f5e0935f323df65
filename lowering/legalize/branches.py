"""Branches of a partitioned program whose results have different shardings.

Both of XLA's partitioners take the sharding of the last operation of each branch, and fail if these
differ.
"""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Target, Value
from lowering.sharding.attributes import SHARDINGS

__all__ = ["part_branches"]

_BRANCHING: Final = ("stablehlo.if", "stablehlo.case")


def part_branches(target: Target, module: ir.Operation) -> None:
    """End branches whose shardings differ with an operation that has no sharding."""
    found: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in _BRANCHING:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(look)
    for operation in found:
        ends = [region.blocks[0].operations[-1].operation for region in operation.regions]
        for number in range(len(operation.results)):
            texts = [_sharding_of(end.operands[number]) for end in ends]
            if len({*texts} - {""}) > 1:
                for end, text in zip(ends, texts, strict=True):
                    if text and "manual" not in text:
                        _pass_through(target, end, number)


def _sharding_of(value: Value) -> str:
    """The sharding of a value on the operation that defines it; empty if it has none."""
    if isinstance(value.owner, ir.Block):
        return ""
    operation = value.owner.operation
    names = ("sharding",) if operation.name == "sdy.sharding_constraint" else SHARDINGS
    return next((str(operation.attributes[n]) for n in names if n in operation.attributes), "")


def _pass_through(target: Target, end: ir.Operation, number: int) -> None:
    """Pass a result of a branch through an operation that changes nothing."""
    value = end.operands[number]
    end.operands[number] = OpBuilder(target, end)("optimization_barrier", value.type, [value])
