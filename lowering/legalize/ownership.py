"""Of which values each partition has its own, in a program that XLA cuts up.

XLA works on whole values, but for those parts of a program that say what each partition does: from
spmd_full_to_shard_shape on to spmd_shard_to_full_shape, and inside of sdy.manual_computation.
Operations across partitions belong there. Of a whole value an all_reduce there ends the process,
and so does what mixes a whole value with those of the partitions in a loop or a branch. Elsewhere a
reduce_scatter gives an array that has other elements on each device and claims to be the same on
all of them, and a collective_permute exchanges the shards that XLA happened to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from jaxlib.mlir import ir

from lowering.errors import CompileError, recorded_at
from lowering.legalize.partitions import is_manual
from lowering.mlir.types import attribute_text
from lowering.sharding.participants import COLLECTIVES, Mode, participants
from lowering.sharding.partitioning import main_function

__all__ = ["Ownership", "check_parts", "ownership"]

_LEAVING: Final = ("stablehlo.return", "func.return", "sdy.return")
_BRANCHING: Final = ("stablehlo.if", "stablehlo.case")
_CALLING: Final = {"func.call": "callee", "stablehlo.composite": "decomposition"}


class Ownership(NamedTuple):
    """Values of a program that is cut up; constants, and what is made of them, are in neither.

    Attributes:
        own: those of which each partition has its own.
        whole: those that are whole, however XLA cuts them up.
    """

    own: set[Any]
    whole: set[Any]


def ownership(module: ir.Operation) -> Ownership:
    """Which values of a module are the partitions' own, and which are whole."""
    own: set[Any] = set()
    whole: set[Any] = set(_arguments(main_function(module)))
    functions: dict[str, ir.Operation] = {}
    calls: dict[str, list[ir.Operation]] = {}

    def note(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "func.func":
            functions[attribute_text(operation.attributes["sym_name"]) or ""] = operation
        elif operation.name in _CALLING:
            calls.setdefault(_callee(operation), []).append(operation)
        elif operation.name == "sdy.manual_computation":
            own.update(_arguments(operation))
        return ir.WalkResult.ADVANCE

    def pass_on(value: Any, others: Sequence[Any]) -> None:
        for known in (own, whole):
            if value in known:
                known.update(others)

    def look(operation: ir.Operation) -> ir.WalkResult:
        operands, results = list(operation.operands), list(operation.results)
        if operation.name in _LEAVING:
            for number, operand in enumerate(operands):
                pass_on(operand, _receivers(operation, number, calls))
            return ir.WalkResult.ADVANCE
        if operation.name == "stablehlo.while":
            for number, operand in enumerate(operands):
                pass_on(operand, [results[number], *_arguments(operation, number)])
            return ir.WalkResult.ADVANCE
        if operation.name in _CALLING and _callee(operation) in functions:
            for number, operand in enumerate(operands):
                pass_on(operand, _arguments(functions[_callee(operation)], number))
            return ir.WalkResult.ADVANCE
        target = _target(operation)
        if target == "SPMDShardToFullShape":
            whole.update(results)
        elif (
            target == "SPMDFullToShardShape"
            or operation.name == "stablehlo.partition_id"
            or is_manual(operation)
            or not own.isdisjoint(operands)
        ):
            own.update(results)
        elif not whole.isdisjoint(operands):
            whole.update(results)
        return ir.WalkResult.ADVANCE

    module.walk(note)
    before = -1
    while before != (before := len(own) + len(whole)):
        module.walk(look)
    return Ownership(own, whole - own)


def check_parts(module: ir.Operation, name: str) -> None:
    """Raises CompileError for what XLA dies of, or gets wrong, where values of both kinds meet.

    Args:
        module: the operation of a verified module, which XLA is to cut up.
        name: the computation's name, for messages.
    """
    known = ownership(module)
    wrong: list[CompileError] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        kind = operation.name.partition(".")[2]
        reason = ""
        if operation.name in COLLECTIVES:
            if not (
                known.whole.isdisjoint(operation.operands)
                or is_manual(operation)
                or participants(operation).mode is Mode.REPLICAS
            ):
                reason = (
                    "combines what each partition has, and its operand is a whole array, which "
                    "XLA cuts up as it finds best\nfix: give it "
                    "xb.spmd_full_to_shard_shape(x, tiling), and turn the result back with "
                    "xb.spmd_shard_to_full_shape; or leave out all shardings: each partition then "
                    "has arrays of its own"
                )
        elif _is_mixed_inside(operation, known):
            reason = (
                "has what each partition has of its own and a whole value as operands, inside of "
                "a loop or a branch, where XLA can't bring them together\nfix: take the whole one "
                "as xb.spmd_full_to_shard_shape(value, '{replicated}') before that"
            )
        if reason:
            wrong.append(
                CompileError(
                    f"compile: {name}: {kind}{recorded_at(operation.location)} {reason}", op=kind
                )
            )
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    if known.own or known.whole:
        module.walk(look)
    if wrong:
        raise wrong[0]


def _is_mixed_inside(operation: ir.Operation, known: Ownership) -> bool:
    """Whether an operation in a loop or a branch has operands of both kinds."""
    if operation.name in (*_LEAVING, *_CALLING, "stablehlo.while"):
        return False
    operands = list(operation.operands)
    if known.own.isdisjoint(operands) or known.whole.isdisjoint(operands):
        return False
    parent = operation.parent
    while parent is not None and parent.name not in ("stablehlo.while", *_BRANCHING):
        parent = parent.parent
    return parent is not None


def _arguments(operation: ir.Operation, number: int | None = None) -> list[Any]:
    """The arguments of the blocks of an operation, or those of one number."""
    blocks = [list(block.arguments) for region in operation.regions for block in region.blocks]
    return [one for block in blocks for one in (block if number is None else block[number:][:1])]


def _receivers(
    leaving: ir.Operation, number: int, calls: dict[str, list[ir.Operation]]
) -> list[Any]:
    """What an operand of a return becomes."""
    parent = leaving.parent
    if parent is None:
        return []
    if parent.name == "func.func":
        name = attribute_text(parent.attributes["sym_name"]) or ""
        return [call.results[number] for call in calls.get(name, ())]
    if parent.name in _BRANCHING:
        return [parent.results[number]]
    if parent.name == "stablehlo.while":
        body = parent.regions[1].blocks[0].operations[-1].operation
        if body == leaving:
            return [parent.results[number], *_arguments(parent, number)]
    return []


def _callee(operation: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(operation.attributes[_CALLING[operation.name]]).value


def _target(operation: ir.Operation) -> str:
    """What a custom call calls; nothing for other operations."""
    if operation.name != "stablehlo.custom_call":
        return ""
    return attribute_text(operation.attributes["call_target_name"]) or ""
