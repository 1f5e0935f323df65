"""Traversal of MLIR operations, and the attributes of functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from jaxlib.mlir import ir

from lowering.mlir.types import attribute_text
from lowering.mlir.walking import operations_where

__all__ = [
    "CALLS",
    "argument_attributes",
    "call_target",
    "called_function",
    "dictionary",
    "enclosing",
    "enclosing_function_name",
    "main_function",
    "operations_in",
    "set_argument_attributes",
    "symbol_name",
]

CALLS: Final = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Operations that call a function, and the attribute that names the function."""


def operations_in(root: ir.Operation, names: Collection[str] | None = None) -> list[ir.Operation]:
    """List the operations inside `root`, and `root` itself.

    An operation comes after the operations in its regions. A caller can raise exceptions while it
    iterates over the list; MLIR's walk does not propagate them.

    Args:
        root: the operation.
        names: the names of the operations to list; None for all.
    """
    return operations_where(root, lambda operation: names is None or operation.name in names)


def enclosing(operation: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the operations around an operation, the innermost first."""
    parent = operation.parent
    while parent is not None:
        yield parent.operation
        parent = parent.operation.parent


def symbol_name(operation: ir.Operation) -> str:
    """The name of a function, a module or a mesh."""
    return attribute_text(operation.attributes["sym_name"]) or ""


def main_function(module: ir.Operation) -> ir.Operation:
    """The function @main of a loaded module."""
    for view in module.regions[0].blocks[0].operations:
        operation: ir.Operation = view.operation
        if operation.name == "func.func" and symbol_name(operation) == "main":
            return operation
    raise AssertionError("a loaded module has a function @main")


def enclosing_function_name(operation: ir.Operation) -> str:
    """The name of the function around an operation; empty outside of functions."""
    functions = (one for one in enclosing(operation) if one.name == "func.func")
    return next(map(symbol_name, functions), "")


def called_function(call: ir.Operation) -> str:
    """The name of the function that one of the `CALLS` calls."""
    return ir.FlatSymbolRefAttr(call.attributes[CALLS[call.name]]).value


def call_target(operation: ir.Operation) -> str:
    """The target of a custom call; empty for other operations."""
    if operation.name != "stablehlo.custom_call":
        return ""
    return attribute_text(operation.attributes["call_target_name"]) or ""


def dictionary(attribute: ir.Attribute) -> dict[str, ir.Attribute]:
    """The entries of a dictionary attribute.

    Raises:
        KeyError, TypeError: Python has no class for an entry.
    """
    entries = ir.DictAttr(attribute)
    names = [entries[position].name for position in range(len(entries))]
    # By name: `entries[position].attr` aborts the process if Python has no class for the entry.
    return {name: entries[name] for name in names}


def argument_attributes(
    function: ir.Operation, key: str = "arg_attrs"
) -> list[dict[str, ir.Attribute]]:
    """The attributes of each argument ("arg_attrs") or result ("res_attrs") of a function."""
    if key in function.attributes:
        return [dictionary(entry) for entry in ir.ArrayAttr(function.attributes[key])]
    function_type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    values = function_type.inputs if key == "arg_attrs" else function_type.results
    return [{} for _ in values]


def set_argument_attributes(
    function: ir.Operation, key: str, attributes: Sequence[Mapping[str, ir.Attribute]]
) -> None:
    """Replace the attributes of all arguments ("arg_attrs") or results ("res_attrs")."""
    if attributes:
        context = function.context
        entries = [ir.DictAttr.get(dict(entry), context) for entry in attributes]
        function.attributes[key] = ir.ArrayAttr.get(entries, context)
