"""Find MLIR operations, and read the attributes of operations, functions and arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.errors import error_of
from builder.schema import SCHEMAS
from lowering.errors import recorded_at

REFERRING: Final = {
    schema.stablehlo: attribute.stablehlo
    for schema in SCHEMAS.values()
    for attribute in schema.computation_attributes
    if attribute.stablehlo
}
"""For each operation that refers to functions: the attribute that names the functions."""

CALLS: Final = {
    name: attribute for name, attribute in REFERRING.items() if name != "stablehlo.custom_call"
}
"""For each operation that calls a function: the attribute that names the function."""

BRANCHES: Final = ("stablehlo.if", "stablehlo.case")
"""Operations that execute one of their regions."""

CONTROL_FLOW: Final = (*BRANCHES, "stablehlo.while")
"""Operations whose regions may contain any operation."""


def operations_where(
    root: ir.Module | ir.Operation, condition: Callable[[ir.Operation], bool]
) -> list[ir.Operation]:
    """List the operations in `root` that satisfy a condition, inner ones before outer ones."""
    matches: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if condition(operation):
            matches.append(operation)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit)
    return matches


def operations_in(root: ir.Operation, names: Collection[str] | None = None) -> list[ir.Operation]:
    """List the operations inside `root`, and `root` itself.

    An operation comes after the operations in its regions. A loop over this list may raise
    exceptions; a callback of MLIR's walk may not, because the walk does not propagate exceptions.

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


def functions_in(module: ir.Operation, name: str | None = None) -> Iterator[ir.Operation]:
    """Yield the functions of a module; with `name`, only the functions of this name."""
    for view in module.regions[0].blocks[0].operations:
        operation: ir.Operation = view.operation
        if operation.name == "func.func" and name in (None, symbol_name(operation)):
            yield operation


def main_function(module: ir.Operation) -> ir.Operation:
    """The function @main of a loaded module, which always has one."""
    return next(functions_in(module, "main"))


def module_with_main(
    context: ir.Context, arguments: Sequence[ir.Type], results: Sequence[ir.Type]
) -> tuple[ir.Module, ir.Block]:
    """Return a module with a function @main of these types, and the function's empty block."""
    with ir.Location.unknown(context):
        module = ir.Module.create()
        main = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(
                    ir.FunctionType.get(list(arguments), list(results))
                ),
            },
            regions=1,
            ip=ir.InsertionPoint(module.body),
        )
        return module, main.regions[0].blocks.append(*arguments)


def enclosing_function_name(operation: ir.Operation) -> str:
    """The name of the function around an operation; empty outside of functions."""
    functions = (one for one in enclosing(operation) if one.name == "func.func")
    return next(map(symbol_name, functions), "")


def called_function(call: ir.Operation) -> str:
    """The name of the function that an operation of `CALLS` calls."""
    return ir.FlatSymbolRefAttr(call.attributes[CALLS[call.name]]).value


def referenced_functions(operation: ir.Operation) -> list[str]:
    """The names of the functions that an operation refers to."""
    name = REFERRING.get(operation.name)
    if name is None or name not in operation.attributes:
        return []
    value = operation.attributes[name]
    symbols = list(ir.ArrayAttr(value)) if isinstance(value, ir.ArrayAttr) else [value]
    return [symbol.value for symbol in symbols if isinstance(symbol, ir.FlatSymbolRefAttr)]


def place_of(operation: ir.Operation) -> str:
    """Return ", recorded at FILE:LINE," for an operation; "" if no line is known.

    The operations in functions of this library have no lines of their own. Their place is that of
    the nearest call or composite: ", needed by NAME, recorded at FILE:LINE,". To find it takes a
    walk over the module, so this is only for errors.
    """
    place = recorded_at(operation.location)
    if place:
        return place
    *_, module = [operation, *enclosing(operation)]
    references = [one for one in operations_in(module, REFERRING) if referenced_functions(one)]
    seen: set[str] = set()
    while not place:
        name = enclosing_function_name(operation)
        callers = (one for one in references if name in referenced_functions(one))
        caller = None if name in seen else next(callers, None)
        if caller is None:
            return ""
        seen.add(name)
        operation, place = caller, recorded_at(caller.location)
    composite = operation.attributes.get("name")
    return f", needed by {name if composite is None else attribute_text(composite)}{place}"


def call_target(operation: ir.Operation) -> str:
    """The target of a custom call; empty for other operations."""
    if operation.name != "stablehlo.custom_call":
        return ""
    return attribute_text(operation.attributes["call_target_name"]) or ""


def attribute_text(attribute: ir.Attribute | None) -> str | None:
    """The text of a string attribute; None for other attributes; bytes not in UTF-8 become "?"."""
    if not isinstance(attribute, ir.StringAttr):
        return None
    data: bytes = ir.StringAttr(attribute).value_bytes
    return data.decode("utf-8", "replace").replace("\ufffd", "?")


def entry(attributes: ir.DictAttr | Mapping[str, ir.Attribute], name: str) -> ir.Attribute | None:
    """The attribute `name`; None if it is absent, or MLIR's Python bindings can't represent it."""
    with contextlib.suppress(KeyError, TypeError):
        return attributes[name]
    return None


def entry_text(attributes: ir.DictAttr | Mapping[str, ir.Attribute], name: str) -> str | None:
    """The text of the string attribute `name`; None if `attributes` has none of this name."""
    return attribute_text(entry(attributes, name))


def dictionary(attribute: ir.Attribute) -> dict[str, ir.Attribute]:
    """The entries of a dictionary attribute.

    Raises:
        TypeError: MLIR's Python bindings have no class for an entry.
        KeyError: the entries are not sorted by name.
    """
    entries = ir.DictAttr(attribute)
    names = [entries[position].name for position in range(len(entries))]
    # By name: `entries[position].attr` aborts the process if Python has no class for the entry.
    return {name: entries[name] for name in names}


def checked_dictionary(attribute: ir.Attribute, op: str = "compile") -> dict[str, ir.Attribute]:
    """The entries of a dictionary attribute.

    Args:
        attribute: the dictionary attribute.
        op: the function that the user called, for the message.

    Raises:
        LoweringError: MLIR's Python bindings can't read an entry; see `dictionary`.
    """
    try:
        return dictionary(attribute)
    except (KeyError, TypeError):
        from lowering.errors import LoweringError  # imports `builder`

        rule = f"MLIR's Python bindings can't read the attributes {attribute}"
        fix = "remove locations and complex numbers from these attributes"
        raise error_of(LoweringError, op, rule, fix) from None


def argument_attributes(
    function: ir.Operation, key: str = "arg_attrs", op: str = "compile"
) -> list[dict[str, ir.Attribute]]:
    """The attributes of each argument ("arg_attrs") or result ("res_attrs") of a function.

    Raises:
        LoweringError: see `checked_dictionary`.
    """
    if key in function.attributes:
        return [checked_dictionary(named, op) for named in ir.ArrayAttr(function.attributes[key])]
    function_type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    values = function_type.inputs if key == "arg_attrs" else function_type.results
    return [{} for _ in values]


def set_argument_attributes(
    function: ir.Operation, key: str, attributes: Sequence[Mapping[str, ir.Attribute]]
) -> None:
    """Replace the attributes of all arguments ("arg_attrs") or results ("res_attrs")."""
    if attributes:
        context = function.context
        entries = [ir.DictAttr.get(dict(named), context) for named in attributes]
        function.attributes[key] = ir.ArrayAttr.get(entries, context)
