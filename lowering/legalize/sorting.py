"""Sorts that a platform lacks."""

from __future__ import annotations

from jaxlib.mlir import ir

from lowering.legalize.registry import refuse
from lowering.legalize.words import array_of


def _are_alike(operation: ir.Operation) -> bool:
    """Whether no operand is of four bits, or all are, or there is one alone."""
    bits = {array_of(operand).element_type.bits for operand in operation.operands}
    return 4 not in bits or len(bits) == 1


refuse(
    "stablehlo.sort",
    "gpu",
    reason="XLA sorts elements of 4 bits there with no others beside them",
    fix="convert those of 4 bits to s8, u8 or bf16 with xb.convert_element_type",
    unless=_are_alike,
)
