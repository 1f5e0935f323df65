"""Shardings of Shardy in frontend attributes, converted to Shardy's own attributes.

In HLO, and in modules converted from HLO, Shardy's shardings are only in frontend attributes. XLA
reads them if the module also declares the meshes. XLA aborts on a module that names a mesh without
declaring it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.errors import error_of
from builder.sharding.text import as_per_value, leaf_texts
from builder.types.shape import Shape, leaf_count
from lowering.errors import CompileError, LoweringError
from lowering.jaxlib_api import mlir
from lowering.mlir.operations import (
    argument_attributes,
    attribute_text,
    call_target,
    checked_dictionary,
    entry_text,
    functions_in,
    operations_in,
    set_argument_attributes,
    symbol_name,
)
from lowering.reading.bytecode_tables import module_strings
from lowering.sharding.manual_computations import (
    has_manual_calls,
    join_manual_calls,
    may_have_manual_calls,
    without_tuple,
)
from lowering.sharding.texts import FRONTEND, GSPMD, MESHES, SHARDY, parse_meshes

_SHARDING: Final = "xla.sdy.sharding"
_CONSTRAINT: Final = "Sharding"
_ELEMENT: Final = "stablehlo.get_tuple_element"
_RESULT: Final = "xla.sdy.FuncResultSharding"


def check_meshes(strings: bytes, name: str) -> None:
    """Raise CompileError if a module has shardings in frontend attributes, but no meshes.

    Args:
        strings: the strings in the module's bytecode.
        name: the computation's name, for messages.
    """
    if f"{_SHARDING}\0".encode() in strings and f"{MESHES}\0".encode() not in strings:
        raise CompileError(
            f"shardings in frontend attributes ({_SHARDING}) require a declaration of their meshes",
            got="none",
            context=("compile", name),
            fix=f"add the frontend attribute {MESHES} to the module, or remove the shardings",
        )


def with_shardings(module: ir.Module, parameters: Sequence[Shape]) -> ir.Module:
    """Return the module, or a copy in which Shardy's frontend attributes are converted.

    Args:
        module: the module; it does not change.
        parameters: the shapes of the entry computation's parameters.

    Raises:
        LoweringError: see `read_shardings`.
    """
    code = mlir.bytecode(module)
    strings = module_strings(code)
    if not (has_shardy_text(strings) or may_have_manual_calls(strings)):
        return module
    copy = ir.Module.parse(code, mlir.new_context())
    read_shardings(copy, parameters, "compile")
    return copy


def has_shardy_text(strings: bytes) -> bool:
    """Whether a module has Shardy's frontend attributes, given the strings in its bytecode."""
    return any(f"{name}\0".encode() in strings for name in (_SHARDING, MESHES))


def read_shardings(module: ir.Module, parameters: Sequence[Shape], op: str = "from_hlo") -> None:
    """Convert frontend attributes to Shardy's meshes and shardings, in place.

    Args:
        module: a module that jaxlib has converted from HLO.
        parameters: the shapes of the entry computation's parameters; the module has no tuples.
        op: the function that the user called, for messages.

    Raises:
        LoweringError: a sharding can't be parsed, or names a mesh that does not exist; or a custom
            call of a manual computation is not next to the computation's call.
    """
    sharded = [o for o in operations_in(module.operation) if _sharding_in(o.attributes)]
    with module.context, ir.Location.unknown():
        try:
            _declare_meshes(module, op)
            for function in list(functions_in(module.operation)):
                is_entry = symbol_name(function) == "main"
                _convert_arguments(function, parameters if is_entry else ())
            if sharded or _has_sharded_arguments(module) or has_manual_calls(module):
                _remove_tilings(module.operation)
            # First, because `without_tuple` erases them.
            for operation in sorted(sharded, key=lambda one: one.name != _ELEMENT):
                _convert_operation(operation)
            if op == "compile":
                join_manual_calls(module)
            module.operation.verify()
        except LoweringError:
            raise
        except (ir.MLIRError, ValueError) as error:
            report = str(error).strip().splitlines()
            reason = next((line for line in report if "error:" in line), report[-1])
            rule = f"a sharding does not fit the module: {reason.partition('error: ')[2]}"
            fix = f"declare the mesh in the frontend attribute {MESHES} of the module"
            raise error_of(LoweringError, op, rule, fix, detail=str(error)) from None


def _sharding_in(attributes: ir.OpAttributeMap | Mapping[str, ir.Attribute]) -> str:
    """Return the text of the Shardy sharding in frontend attributes; empty if there is none."""
    if FRONTEND not in attributes:
        return ""
    return entry_text(ir.DictAttr(attributes[FRONTEND]), _SHARDING) or ""


def _remove(
    attributes: ir.OpAttributeMap | dict[str, ir.Attribute], name: str
) -> ir.Attribute | None:
    """Remove a frontend attribute, and return its value; None if it does not exist."""
    frontend = checked_dictionary(attributes[FRONTEND])
    removed = frontend.pop(name, None)
    del attributes[FRONTEND]
    if frontend:
        attributes[FRONTEND] = ir.DictAttr.get(frontend)
    return removed


def _declare_meshes(module: ir.Module, op: str) -> None:
    attributes = module.operation.attributes
    if FRONTEND not in attributes:
        return
    text = _remove(attributes, MESHES)
    if text is None:
        return
    name = symbol_name(module.operation) if "sym_name" in module.operation.attributes else "main"
    meshes = parse_meshes(attribute_text(text) or "", op, name)
    ip = ir.InsertionPoint.at_block_begin(module.body)
    for name, mesh in meshes.items():
        symbol = ir.StringAttr.get(name)
        ir.Operation.create("sdy.mesh", attributes={"sym_name": symbol, "mesh": mesh}, ip=ip)


def _convert_arguments(function: ir.Operation, parameters: Sequence[Shape]) -> None:
    """Convert the Shardy shardings of a function's arguments, in place.

    `parameters` contains the shapes of the entry's parameters; it is empty for other functions.
    """
    if "arg_attrs" not in function.attributes:
        return
    arguments = argument_attributes(function)
    # Each leaf of a tuple has the shardings of all leaves.
    places = [(n, count) for count in map(leaf_count, parameters) for n in range(count)]
    for number, attributes in enumerate(arguments):
        text = _sharding_in(attributes)
        if text:
            position, count = places[number] if places else (0, 1)
            _remove(attributes, _SHARDING)
            attributes[SHARDY] = ir.Attribute.parse(leaf_texts(text, count)[position])
    set_argument_attributes(function, "arg_attrs", arguments)


def _has_sharded_arguments(module: ir.Module) -> bool:
    return any(
        SHARDY in attributes
        for function in functions_in(module.operation)
        for attributes in argument_attributes(function)
    )


def _remove_tilings(module: ir.Operation) -> None:
    """Remove GSPMD shardings, as XLA does: XLA writes both GSPMD and Shardy shardings.

    A sharding constraint with only a GSPMD sharding is not changed: its program mixes both forms.
    """
    for operation in operations_in(module):
        if operation.name == "func.func":
            for key in ("arg_attrs", "res_attrs"):
                entries = argument_attributes(operation, key)
                if any(GSPMD in attributes for attributes in entries):
                    for attributes in entries:
                        attributes.pop(GSPMD, None)
                    set_argument_attributes(operation, key, entries)
        elif GSPMD in operation.attributes and (
            call_target(operation) != _CONSTRAINT or _sharding_in(operation.attributes)
        ):
            del operation.attributes[GSPMD]


def _convert_operation(operation: ir.Operation) -> None:
    text = _sharding_in(operation.attributes)
    _remove(operation.attributes, _SHARDING)
    if operation.name == _ELEMENT:
        return  # it repeats the shardings of its operand
    target = call_target(operation)
    if target not in (_CONSTRAINT, _RESULT):
        attribute = ir.Attribute.parse(as_per_value(text))
        without_tuple(operation).attributes[SHARDY] = attribute
        return
    sharding = ir.Attribute.parse(leaf_texts(text, 1)[0])
    (value,) = operation.operands
    if target == _RESULT:
        _shard_returned_value(operation, sharding)
    else:
        constraint = ir.Operation.create(
            "sdy.sharding_constraint",
            [operation.results[0].type],
            [value],
            {"sharding": sharding},
            loc=operation.location,
            ip=ir.InsertionPoint(operation),
        )
        value = constraint.results[0]
    operation.results[0].replace_all_uses_with(value)
    operation.erase()


def _shard_returned_value(operation: ir.Operation, sharding: ir.Attribute) -> None:
    """Add a sharding to each function result that returns the operation's value."""
    for use in operation.results[0].uses:
        function = use.owner.parent
        if use.owner.name == "func.return" and function is not None:
            results = argument_attributes(function, "res_attrs")
            results[use.operand_number][SHARDY] = sharding
            set_argument_attributes(function, "res_attrs", results)
