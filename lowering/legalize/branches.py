"""Branches of a program that XLA cuts up whose results are said to lie in different ways.

XLA takes what is said of the last operation of each branch, finds that they are not the same, and
fails: in both of its partitioners, whoever wrote the program.
"""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.legalize.registry import Value
from lowering.sharding_attributes import SHARDINGS

__all__ = ["part_branches"]

_BRANCHING: Final = ("stablehlo.if", "stablehlo.case")


def part_branches(module: ir.Operation) -> None:
    """Puts an operation of which nothing is said at the end of branches that do not agree."""
    found: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in _BRANCHING:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(look)
    for operation in found:
        ends = [region.blocks[0].operations[-1].operation for region in operation.regions]
        for number in range(len(operation.results)):
            said = [_sharding_of(end.operands[number]) for end in ends]
            if len({*said} - {""}) > 1:
                for end, text in zip(ends, said, strict=True):
                    if text and "manual" not in text:
                        _pass_through(end, number)


def _sharding_of(value: Value) -> str:
    """What is said of a value by the operation that gives it; nothing, if nothing is."""
    if isinstance(value.owner, ir.Block):
        return ""
    operation = value.owner.operation
    names = ("sharding",) if operation.name == "sdy.sharding_constraint" else SHARDINGS
    return next((str(operation.attributes[n]) for n in names if n in operation.attributes), "")


def _pass_through(end: ir.Operation, number: int) -> None:
    """Has a branch give a value by an operation that changes nothing."""
    value = end.operands[number]
    made = ir.Operation.create(
        "stablehlo.optimization_barrier",
        results=[value.type],
        operands=[value],
        loc=end.location,
        ip=ir.InsertionPoint(end),
    )
    end.operands[number] = made.results[0]
