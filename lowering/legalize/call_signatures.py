"""The operands and results of the custom calls that XLA's compiler itself implements.

MLIR does not verify them, and XLA's compiler aborts if there are others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from lowering.errors import CompileError
from lowering.legalize.registry import Target
from lowering.mlir.operations import place_of
from lowering.mlir.types import array_shape_of_type
from lowering.sharding.texts import FRONTEND


def check_signature(target: Target, operation: ir.Operation, call_target: str | None) -> None:
    """Raise CompileError for a custom call of XLA with operands or results that it can't have."""
    known = _SIGNATURES.get(call_target or "")
    if known is None or known.applies(operation):
        return
    operands, results = (
        ", ".join(str(value.type) for value in values) or "none"
        for values in (operation.operands, operation.results)
    )
    raise CompileError(
        f"custom_call of {call_target!r}"
        f"{place_of(operation)} must have {known.rule}, because XLA's compiler "
        f"implements this target, got operands {operands}, results {results}",
        context=("compile", target.name),
        fix=known.fix,
        op="custom_call",
    )


def _is_like_first(operation: ir.Operation) -> bool:
    """Whether the only result has the element type and the sizes or bounds of the first operand."""
    if not len(operation.operands) or len(operation.results) != 1:
        return False
    operand, result = operation.operands[0], operation.results[0]
    before, after = array_shape_of_type(operand.type), array_shape_of_type(result.type)
    if before is None or after is None:
        return bool(operand.type == result.type)
    return before.element_type is after.element_type and before.dimensions == after.dimensions


def _is_like_operand(operation: ir.Operation) -> bool:
    return len(operation.operands) == 1 and _is_like_first(operation)


def _converts_sizes(operation: ir.Operation) -> bool:
    if (len(operation.operands), len(operation.results)) != (1, 1):
        return False
    before, after = (
        array_shape_of_type(operation.operands[0].type),
        array_shape_of_type(operation.results[0].type),
    )
    if before is None or after is None:
        return False
    return before.element_type is after.element_type and before.rank == after.rank


def _has_sharding(operation: ir.Operation) -> bool:
    attributes = operation.attributes.get(FRONTEND)
    is_sharded = isinstance(attributes, ir.DictAttr) and "xla.sdy.sharding" in attributes
    return is_sharded and _is_like_operand(operation)


def _is_top_k(operation: ir.Operation) -> bool:
    if (len(operation.operands), len(operation.results)) != (1, 2):
        return False
    operand = array_shape_of_type(operation.operands[0].type)
    values, indices = (array_shape_of_type(result.type) for result in operation.results)
    if operand is None or values is None or indices is None or operand.rank not in (1, 2):
        return False
    types = (operand.element_type, values.element_type, indices.element_type)
    return (
        types == (pt.f32, pt.f32, pt.s32)
        and values.dimensions == indices.dimensions
        and values.rank == operand.rank
        and values.dimensions[:-1] == operand.dimensions[:-1]
        and values.dimensions[-1] <= operand.dimensions[-1]
    )


class _Signature(NamedTuple):
    """What a target of XLA requires: a condition, its text for messages, and a fix."""

    applies: Callable[[ir.Operation], bool]
    rule: str
    fix: str = "correct the types of the call, or call another target"


_SAME: Final = _Signature(_is_like_operand, "one operand, and one result of its type")
_CONVERSION: Final = _Signature(
    _converts_sizes, "one operand, and one result of its element type and number of dimensions"
)

_SIGNATURES: Final = {
    **dict.fromkeys(
        ("Sharding", "LayoutConstraint", "annotate_device_placement", "MoveToHost", "MoveToDevice"),
        _SAME,
    ),
    **dict.fromkeys(("SPMDFullToShardShape", "SPMDShardToFullShape"), _CONVERSION),
    "xla.sdy.FuncResultSharding": _Signature(
        _has_sharding, f"the frontend attribute xla.sdy.sharding, {_SAME.rule}"
    ),
    "SetBound": _Signature(_is_like_first, "one result of the first operand's type"),
    "SliceToDynamic": _Signature(
        lambda _: False,
        "been made by XLA's compiler, not by a program",
        "use xb.set_dimension_size for an array of bounded size",
    ),
    "TopK": _Signature(
        _is_top_k,
        "an operand f32[n] or f32[m,n], and results of f32 and s32 with at most n columns",
        "use xb.top_k, or chlo.top_k in a module",
    ),
}
