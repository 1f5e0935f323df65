"""Programs of several partitions: those of which each has arrays of its own, and those cut up.

XLA's partitioner cuts the arrays of a program, or keeps them the same everywhere. A program that
says nothing of it and speaks of partitions itself (by partition_id, or by operations across them)
means something else: that every partition runs all of it on its own arrays. The partitioner calls
that manual, and has to be told so of every operation.

Of a program that says of something how it is cut up (`lowering.sharding.partitioning`) XLA works
out the rest. Only at its entry nothing is left to XLA: it would take arguments cut up in a way that
nobody asked for, another with each version.
"""

from __future__ import annotations

import re
from typing import Final

from jaxlib.mlir import ir

from lowering.mlir.donations import ALIASING
from lowering.mlir.types import attribute_text
from lowering.sharding.attributes import GSPMD, SHARDINGS, SHARDY
from lowering.sharding.partitioning import Partitioning, main_function

__all__ = [
    "complete_shardings",
    "drop_shardings",
    "has_shardings",
    "is_manual",
    "make_manual",
    "mark_manual",
]

_MANUAL: Final = "{manual}"
_ALL_MANUAL: Final = re.compile(r'"\{manual\}"|"\{(\{manual\}(, ?)?)+\}"')
_WITHOUT: Final = ("func.func", "func.return", "stablehlo.return", "builtin.module")


def make_manual(module: ir.Operation) -> None:
    """Says of everything in a module without shardings that each partition has its own."""
    mark_manual(module)
    sharding = ir.StringAttr.get(_MANUAL, module.context)
    main = main_function(module)
    for key in ("arg_attrs", "res_attrs"):
        entries = _entries(main, key)
        for one in entries:
            one[GSPMD] = sharding
        _set_entries(main, key, entries)


def mark_manual(operation: ir.Operation) -> None:
    """Says of an operation, and of what stands inside, that each partition has its own."""
    texts: dict[int, ir.Attribute] = {}

    def mark(one: ir.Operation) -> ir.WalkResult:
        count = len(one.results)
        if one.name not in _WITHOUT and count:
            if count not in texts:
                text = _MANUAL if count == 1 else "{" + ", ".join([_MANUAL] * count) + "}"
                texts[count] = ir.StringAttr.get(text, one.context)
            one.attributes[GSPMD] = texts[count]
        return ir.WalkResult.ADVANCE

    operation.walk(mark)


def has_shardings(words: bytes) -> bool:
    """Whether there may be shardings in a module of which these are the texts."""
    return b"sharding" in words


def drop_shardings(module: ir.Operation) -> None:
    """Takes out what a program for one partition says of its shardings, which means nothing there.

    A TPU's compiler lays arguments and results out as their shards would be all the same, in other
    tiles than arrays on the device have, or fails of it. What stands in a manual computation of
    Shardy's is left to XLA.
    """
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        for name in SHARDINGS:
            if name in operation.attributes:
                del operation.attributes[name]
        if operation.name == "func.func":
            for key in ("arg_attrs", "res_attrs"):
                entries = _entries(operation, key)
                kept = [{k: v for k, v in one.items() if k not in SHARDINGS} for one in entries]
                if kept != entries:
                    _set_entries(operation, key, kept)
        elif operation.name == "sdy.sharding_constraint" or (
            operation.name == "stablehlo.custom_call"
            and attribute_text(operation.attributes["call_target_name"]) == "Sharding"
        ):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    for operation in found:
        for result, operand in zip(operation.results, operation.operands, strict=True):
            result.replace_all_uses_with(operand)
        operation.erase()


def is_manual(operation: ir.Operation) -> bool:
    """Whether of a program that is cut up each partition has its own of an operation.

    In GSPMD's words only what is said of the operation itself is looked at.
    """
    if GSPMD in operation.attributes and _ALL_MANUAL.fullmatch(str(operation.attributes[GSPMD])):
        return True
    parent = operation.parent
    while parent is not None and parent.name != "sdy.manual_computation":
        parent = parent.parent
    return parent is not None


def complete_shardings(module: ir.Operation, partitioning: Partitioning) -> None:
    """Says of each argument without a sharding that it is whole on every device.

    A result that is written to the memory of an argument, and of which nothing is said, is cut up
    as that one is: anywhere else it would not fit there.
    """
    main = main_function(module)
    key = SHARDY if partitioning.is_shardy else GSPMD
    kinds = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    arguments, results = _entries(main, "arg_attrs"), _entries(main, "res_attrs")
    for entries, kind in zip(arguments, kinds, strict=True):
        if key not in entries and isinstance(kind, ir.RankedTensorType):
            entries[key] = _whole(kind.rank, module.context, is_shardy=partitioning.is_shardy)
        if ALIASING in entries:
            number = ir.IntegerAttr(entries[ALIASING]).value
            results[number].setdefault(key, entries[key])
    _set_entries(main, "arg_attrs", arguments)
    _set_entries(main, "res_attrs", results)


def _whole(rank: int, context: ir.Context, *, is_shardy: bool) -> ir.Attribute:
    """The sharding of an array of so many dimensions that is whole on every device."""
    if not is_shardy:
        return ir.StringAttr.get("{replicated}", context)
    dimensions = ", ".join(["{}"] * rank)
    return ir.Attribute.parse(f"#sdy.sharding<mesh<[]>, [{dimensions}]>", context)


def _entries(function: ir.Operation, key: str) -> list[dict[str, ir.Attribute]]:
    """The attributes of all arguments ("arg_attrs") or results ("res_attrs") of a function."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    count = len(kind.inputs if key == "arg_attrs" else kind.results)
    if key not in function.attributes:
        return [{} for _ in range(count)]
    found = []
    for one in ir.ArrayAttr(function.attributes[key]):
        fields = ir.DictAttr(one)
        named = [fields[position] for position in range(len(fields))]
        found.append({entry.name: entry.attr for entry in named})
    return found


def _set_entries(function: ir.Operation, key: str, entries: list[dict[str, ir.Attribute]]) -> None:
    if entries:
        context = function.context
        listed = [ir.DictAttr.get(one, context) for one in entries]
        function.attributes[key] = ir.ArrayAttr.get(listed, context)
