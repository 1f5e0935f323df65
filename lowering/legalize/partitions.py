"""Shardings of a program on several partitions, and their removal from programs for one.

In a program without shardings, each partition runs the complete program on its own arrays; the
program may use partition_id and collective operations across partitions. XLA's partitioner would
partition or replicate the arrays instead. XLA calls the required sharding "manual", and needs it on
every operation.

If a program has some shardings, XLA infers the others (`lowering.sharding.partitioning`). The
arguments are an exception: XLA would choose their shardings differently in each version.
"""

from __future__ import annotations

import re
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from builder.sharding.tiling import parse_tilings
from lowering.errors import CompileError
from lowering.legalize.registry import Target, Value
from lowering.mlir.attribute_values import ALIASING
from lowering.mlir.operations import (
    argument_attributes,
    attribute_text,
    call_target,
    enclosing,
    main_function,
    operations_in,
    place_of,
    set_argument_attributes,
)
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
