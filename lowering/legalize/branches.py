"""A rewrite of conditionals whose branches return values of different shardings.

Both partitioners of XLA use the sharding of the last operation of each branch, and fail if these
shardings differ.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Target, Value
from lowering.mlir.operations import BRANCHES, operations_in
from lowering.sharding.attributes import SHARDINGS


def separate_branch_shardings(target: Target, module: ir.Operation) -> None:
    """Append an optimization_barrier without a sharding to branches whose shardings differ."""
    for operation in operations_in(module, BRANCHES):
        ends = [region.blocks[0].operations[-1].operation for region in operation.regions]
        for number in range(len(operation.results)):
            texts = [_sharding_of(end.operands[number]) for end in ends]
            if len({*texts} - {""}) > 1:
                for end, text in zip(ends, texts, strict=True):
                    if text and "manual" not in text:
                        b = OpBuilder(target, end)
                        barrier = b.elementwise("optimization_barrier", end.operands[number])
                        end.operands[number] = barrier


def _sharding_of(value: Value) -> str:
    """The sharding of the operation that defines a value, as text; empty without a sharding."""
    if isinstance(value.owner, ir.Block):
        return ""
    operation = value.owner.operation
    names = ("sharding",) if operation.name == "sdy.sharding_constraint" else SHARDINGS
    return next((str(operation.attributes[n]) for n in names if n in operation.attributes), "")
