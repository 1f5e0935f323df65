"""The values in a partitioned program that are manual: each partition has its own value.

In a program that XLA partitions, most values are full arrays. Values are manual between
spmd_full_to_shard_shape and spmd_shard_to_full_shape, and inside sdy.manual_computation.
Collective operations across partitions require manual operands. An exception is an all_reduce of
replicated arrays in groups of equal size: each partition combines copies of the full array, so the
results are equal. XLA aborts on an all_reduce of an array that it shards, and on operations with
both full and manual operands inside a loop or a branch. A reduce_scatter of a full array returns an
array that is declared as replicated, but differs between devices. A collective_permute of a full
array exchanges the shards that XLA happens to choose.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from jaxlib.mlir import ir

from lowering.errors import CompileError
from lowering.legalize.partitions import is_manual, is_replicated, shards_nothing
from lowering.mlir.operations import (
    BRANCHES,
    CALLS,
    CONTROL_FLOW,
    call_target,
    called_function,
    enclosing,
    main_function,
    operations_in,
    place_of,
    symbol_name,
)
from lowering.sharding.participants import COLLECTIVES, Mode, participants
from lowering.sharding.partitioning import Partitioning

_TERMINATORS: Final = ("stablehlo.return", "func.return", "sdy.return")
_NEEDS_MANUAL: Final = (
    "requires a manual operand (each partition has its own value), got a full array, which XLA "
    "shards"
)
_AS_MANUAL: Final = (
    "pass xb.spmd_full_to_shard_shape(x, tiling), and convert the result back with "
    "xb.spmd_shard_to_full_shape; or remove all shardings: each partition then has its own arrays"
)
_OR_REPLICATED: Final = (
    "; or record it in `with b.sharding('{replicated}')` to combine copies of the full array"
)


class ValueKinds(NamedTuple):
    """The values of a partitioned program by kind.

    Constants, and values computed from constants alone, are in neither set.

    Attributes:
        manual: values that each partition has separately.
        full: full arrays, which XLA may shard.
    """

    manual: set[Any]
    full: set[Any]


def value_kinds(module: ir.Operation) -> ValueKinds:
    """Infer which values of a module are manual, and which are full arrays."""
    manual: set[Any] = set()
    full: set[Any] = set(_arguments(main_function(module)))
    functions: dict[str, ir.Operation] = {}
    calls: dict[str, list[ir.Operation]] = {}
    operations = operations_in(module)
    for operation in operations:
        if operation.name == "func.func":
            functions[symbol_name(operation)] = operation
        elif operation.name in CALLS:
            calls.setdefault(called_function(operation), []).append(operation)
        elif operation.name == "sdy.manual_computation":
            manual.update(_arguments(operation))

    def successors(operation: ir.Operation, number: int) -> list[Any]:
        """The block arguments and results that receive the value of an operand."""
        if operation.name in _TERMINATORS:
            return _returned_as(operation, number, calls)
        if operation.name == "stablehlo.while":
            return [operation.results[number], *_arguments(operation, number)]
        return _arguments(functions[called_function(operation)], number)

    def visit(operation: ir.Operation) -> None:
        if (
            operation.name in _TERMINATORS
            or operation.name == "stablehlo.while"
            or (operation.name in CALLS and called_function(operation) in functions)
        ):
            for number, operand in enumerate(operation.operands):
                for kind in (manual, full):
                    if operand in kind:
                        kind.update(successors(operation, number))
            return
        operands, results = list(operation.operands), list(operation.results)
        target = call_target(operation)
        if target == "SPMDShardToFullShape":
            full.update(results)
        elif (
            target == "SPMDFullToShardShape"
            or operation.name == "stablehlo.partition_id"
            or is_manual(operation)
            or not manual.isdisjoint(operands)
        ):
            manual.update(results)
        elif not full.isdisjoint(operands):
            full.update(results)

    size = -1
    while size != (size := len(manual) + len(full)):
        for operation in operations:
            visit(operation)
    return ValueKinds(manual, full - manual)


def check_manual_values(module: ir.Operation, name: str, partitioning: Partitioning) -> None:
    """Raise CompileError for full arrays where XLA aborts, or computes wrong results.

    Args:
        module: the operation of a verified module.
        name: the computation's name, for messages.
        partitioning: how XLA partitions the module.
    """
    kinds = value_kinds(module)
    if not (kinds.manual or kinds.full):
        return
    for operation in operations_in(module):
        rule, fix = "", ""
        if operation.name in COLLECTIVES:
            is_full = not (
                kinds.full.isdisjoint(operation.operands)
                or is_manual(operation)
                or participants(operation).mode is Mode.REPLICAS
            )
            adds_copies = is_full and _gives_equal_results(operation)
            if is_full and not (
                adds_copies and (is_replicated(operation) or shards_nothing(module))
            ):
                rule, fix = _NEEDS_MANUAL, _AS_MANUAL
                if adds_copies and not partitioning.is_shardy:
                    fix += _OR_REPLICATED
        elif _has_mixed_operands_inside(operation, kinds):
            rule = (
                "inside a loop or a branch requires only full arrays or only manual operands, got "
                "a full array and a manual operand (each partition has its own value)"
            )
            fix = (
                "convert the full array with xb.spmd_full_to_shard_shape(value, '{replicated}') "
                "before the loop or branch"
            )
        if rule:
            kind = operation.name.partition(".")[2]
            place = place_of(operation)
            raise CompileError(
                f"{kind}{place} {rule}",
                context=("compile", name),
                fix=fix,
                op=kind,
            )


def _gives_equal_results(operation: ir.Operation) -> bool:
    """Whether an operation has equal results on all devices if the operands are equal on all."""
    return (
        operation.name == "stablehlo.all_reduce"
        and len({len(group) for group in participants(operation).groups}) <= 1
    )


def _has_mixed_operands_inside(operation: ir.Operation, kinds: ValueKinds) -> bool:
    """Whether an operation in a loop or a branch has both full and manual operands."""
    if operation.name in (*_TERMINATORS, *CALLS, "stablehlo.while"):
        return False
    operands = list(operation.operands)
    if kinds.manual.isdisjoint(operands) or kinds.full.isdisjoint(operands):
        return False
    return any(outer.name in CONTROL_FLOW for outer in enclosing(operation))


def _arguments(operation: ir.Operation, number: int | None = None) -> list[Any]:
    """All arguments of an operation's blocks, or only argument `number` of each block."""
    blocks = [list(block.arguments) for region in operation.regions for block in region.blocks]
    selected = slice(None) if number is None else slice(number, number + 1)
    return [argument for block in blocks for argument in block[selected]]


def _returned_as(
    terminator: ir.Operation, number: int, calls: dict[str, list[ir.Operation]]
) -> list[Any]:
    """The results and block arguments that receive an operand of a region's terminator."""
    parent = terminator.parent
    if parent is None:
        return []
    if parent.name == "func.func":
        return [call.results[number] for call in calls.get(symbol_name(parent.operation), ())]
    if parent.name in BRANCHES:
        return [parent.results[number]]
    if parent.name == "stablehlo.while":
        body = parent.regions[1].blocks[0].operations[-1].operation
        if body == terminator:
            return [parent.results[number], *_arguments(parent.operation, number)]
    return []
