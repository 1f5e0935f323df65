"""Shardings of a program on several partitions, their removal from programs for one, manual values.

In a program without shardings, each partition runs the complete program on its own arrays; the
program may use partition_id and collective operations across partitions. XLA's partitioner would
partition or replicate the arrays instead. XLA calls the required sharding "manual", and needs it on
every operation.

If a program has some shardings, XLA infers the others (`lowering.sharding.partitioning`). The
arguments are an exception: XLA would choose their shardings differently in each version.

Values are manual between spmd_full_to_shard_shape and spmd_shard_to_full_shape, and inside
sdy.manual_computation: each partition has its own value. Most other values are full arrays.
Collective operations across partitions require manual operands. An exception is an all_reduce of
replicated arrays in groups of equal size: each partition combines copies of the full array, so the
results are equal. XLA aborts on an all_reduce of an array that it shards, and on operations with
both full and manual operands inside a loop or a branch. A reduce_scatter of a full array returns an
array that is declared as replicated, but differs between devices. A collective_permute of a full
array exchanges the shards that XLA happens to choose.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from builder.sharding.tiling import parse_tilings
from lowering.errors import CompileError
from lowering.legalize.registry import Target, Value
from lowering.mlir.attributes import ALIASING
from lowering.mlir.operations import (
    BRANCHES,
    CALLS,
    CONTROL_FLOW,
    argument_attributes,
    attribute_text,
    call_target,
    called_function,
    enclosing,
    main_function,
    operations_in,
    place_of,
    set_argument_attributes,
    symbol_name,
)
from lowering.sharding.participants import COLLECTIVES, Mode, participants
from lowering.sharding.partitioning import Partitioning
from lowering.sharding.texts import GSPMD, SHARDINGS, SHARDY

SHAPE_CONVERSIONS: Final = {
    "SPMDFullToShardShape": "spmd_full_to_shard_shape",
    "SPMDShardToFullShape": "spmd_shard_to_full_shape",
}
"""For each custom call that converts a shape, by its target: the op that records the call."""


def replace_shape_conversion(
    target: Target, operation: ir.Operation, call_target: str
) -> list[Value] | None:
    """Replace a shape conversion by its operand if there is one partition.

    XLA does not support the conversion in such a program. Return None if there are several
    partitions.

    Raises:
        CompileError: there is one partition, and the operand and the result differ in size.
    """
    if target.num_partitions > 1:
        return None
    before, after = operation.operands[0].type, operation.results[0].type
    if before != after:
        op = SHAPE_CONVERSIONS[call_target]
        raise CompileError(
            f"{op}{place_of(operation)} requires a program that XLA partitions",
            got=f"num_partitions=1, operand {before}, result {after}",
            context=("compile", target.name),
            fix="call lowering.compile(computation, num_partitions=N), where N is the number of "
            "devices in the sharding",
            op=op,
        )
    return list(operation.operands)


_MANUAL: Final = "{manual}"
_ALL_MANUAL: Final = re.compile(r'"\{manual\}"|"\{(\{manual\}(, ?)?)+\}"')
# XLA does not update the sharding of a loop with side effects when it removes unused values, and
# aborts on a sharding of a branch with a token.
_NEVER_SHARDED: Final = (
    *(
        "stablehlo.while",
        "stablehlo.if",
        "stablehlo.case",
        "func.func",
        "func.return",
        "stablehlo.return",
        "builtin.module",
    ),
)


def make_manual(module: ir.Operation) -> None:
    """Mark all operations, arguments and results of a module as manually partitioned."""
    mark_manual(module)
    sharding = ir.StringAttr.get(_MANUAL, module.context)
    main = main_function(module)
    for key in ("arg_attrs", "res_attrs"):
        attributes = argument_attributes(main, key)
        set_argument_attributes(main, key, [{**entry, GSPMD: sharding} for entry in attributes])


def mark_manual(operation: ir.Operation) -> None:
    """Mark an operation, and the operations in its regions, as manually partitioned."""
    for inner in operations_in(operation):
        count = len(inner.results)
        if inner.name not in _NEVER_SHARDED and count:
            text = _MANUAL if count == 1 else "{" + ", ".join([_MANUAL] * count) + "}"
            inner.attributes[GSPMD] = ir.StringAttr.get(text, inner.context)


def has_shardings(strings: bytes) -> bool:
    """Whether a module may have shardings; `strings` are the strings in its bytecode."""
    return b"sharding" in strings


def drop_shardings(module: ir.Operation) -> None:
    """Remove the shardings from a program for one partition, where they have no meaning.

    A TPU's compiler nevertheless gives arguments and results the tiled layout of their shards, or
    fails. A manual computation of Shardy is left to XLA.
    """
    for operation in operations_in(module):
        for name in SHARDINGS:
            if name in operation.attributes:
                del operation.attributes[name]
        if operation.name == "func.func":
            for key in ("arg_attrs", "res_attrs"):
                attributes = argument_attributes(operation, key)
                unsharded = [
                    {k: v for k, v in entry.items() if k not in SHARDINGS} for entry in attributes
                ]
                if unsharded != attributes:
                    set_argument_attributes(operation, key, unsharded)
        elif operation.name == "sdy.sharding_constraint" or call_target(operation) == "Sharding":
            for result, operand in zip(operation.results, operation.operands, strict=True):
                result.replace_all_uses_with(operand)
            operation.erase()


def is_manual(operation: ir.Operation) -> bool:
    """Whether an operation is manually partitioned: one instance runs on each partition.

    GSPMD shardings of enclosing operations are ignored.
    """
    if GSPMD in operation.attributes and _ALL_MANUAL.fullmatch(str(operation.attributes[GSPMD])):
        return True
    return any(outer.name == "sdy.manual_computation" for outer in enclosing(operation))


def is_replicated(operation: ir.Operation) -> bool:
    """Whether an operation has a GSPMD sharding that replicates its results on all devices.

    A sharding of Shardy on an operation does not prevent that XLA shards the operation.
    """
    return GSPMD in operation.attributes and _replicates(operation.attributes[GSPMD])


def _shardings(attributes: Any) -> list[ir.Attribute]:
    """The shardings among the attributes of an operation, an argument or a result."""
    return [attributes[key] for key in SHARDINGS if key in attributes]


def shards_nothing(module: ir.Operation) -> bool:
    """Whether all shardings of a module replicate arrays, so that XLA shards no array."""
    for operation in operations_in(module):
        if operation.name.startswith("sdy.") and operation.name != "sdy.mesh":
            return False
        shardings = _shardings(operation.attributes)
        if operation.name == "func.func":
            for key in ("arg_attrs", "res_attrs"):
                for attributes in argument_attributes(operation, key):
                    shardings += _shardings(attributes)
        if not all(map(_replicates, shardings)):
            return False
    return True


def _replicates(sharding: ir.Attribute) -> bool:
    """Whether a sharding replicates an array, or all arrays of a tuple, on all devices."""
    text = attribute_text(sharding)
    if text is not None:
        tilings = parse_tilings(text)
        return all(
            tiling.kind == "replicated"
            for tiling in (tilings if isinstance(tilings, tuple) else (tilings,))
        )
    values = (
        sdy.TensorShardingPerValueAttr(sharding).shardings
        if sdy.TensorShardingPerValueAttr.isinstance(sharding)
        else [sharding]
    )
    dimensions = [
        sdy.DimensionShardingAttr(dimension)
        for value in values
        for dimension in sdy.TensorShardingAttr(value).dimension_shardings
    ]
    return all(dimension.is_closed and not len(dimension.axes) for dimension in dimensions)


def complete_shardings(module: ir.Operation, partitioning: Partitioning) -> None:
    """Replicate each argument without a sharding on all devices.

    A result without a sharding that aliases an argument gets the sharding of the argument. Shards
    of other sizes would not fit in the argument's memory.
    """
    main = main_function(module)
    key = SHARDY if partitioning.is_shardy else GSPMD
    types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    arguments = argument_attributes(main)
    results = argument_attributes(main, "res_attrs")
    for attributes, argument_type in zip(arguments, types, strict=True):
        if key not in attributes and isinstance(argument_type, ir.RankedTensorType):
            attributes[key] = replicated(argument_type.rank, module.context, partitioning)
        if ALIASING in attributes:
            number = ir.IntegerAttr(attributes[ALIASING]).value
            results[number].setdefault(key, attributes[key])
    set_argument_attributes(main, "arg_attrs", arguments)
    set_argument_attributes(main, "res_attrs", results)


def replicated(rank: int, context: ir.Context, partitioning: Partitioning) -> ir.Attribute:
    """The sharding that replicates an array of this rank on all devices."""
    if not partitioning.is_shardy:
        return ir.StringAttr.get("{replicated}", context)
    dimensions = ", ".join(["{}"] * rank)
    return ir.Attribute.parse(f"#sdy.sharding<mesh<[]>, [{dimensions}]>", context)


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
                "is inside a loop or a branch, where XLA can't combine a full array with a manual "
                "one (each partition has its own value of a manual array)"
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
