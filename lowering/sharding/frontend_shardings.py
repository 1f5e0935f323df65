"""Convert HLO's forms of Shardy's shardings and manual computations to those of Shardy.

In HLO, and in modules converted from HLO, Shardy's shardings are only in frontend attributes. XLA
reads them if the module also declares the meshes. XLA aborts on a module that names a mesh without
declaring it.

A manual computation is code that each device runs on its shards. HLO has no
``sdy.manual_computation``. XLA writes a call of the body between two custom calls:
GlobalToLocalShape converts arrays to shards, and LocalToGlobalShape converts shards to arrays.
XLA's partitioner supports only Shardy's operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from jaxlib.mlir import ir

from builder.errors import error_of
from builder.sharding.text import as_per_value, leaf_texts
from builder.types.shape import Shape, leaf_count
from lowering.errors import CompileError, LoweringError, recorded_at
from lowering.jaxlib_api import mlir
from lowering.mlir.operations import (
    argument_attributes,
    attribute_text,
    call_target,
    called_function,
    checked_dictionary,
    entry,
    entry_text,
    functions_in,
    operations_in,
    operations_where,
    place_of,
    set_argument_attributes,
    symbol_name,
)
from lowering.reading.bytecode_tables import module_strings
from lowering.sharding.texts import FRONTEND, GSPMD, MESHES, SHARDY, parse_meshes

TO_SHARDS: Final = "xla.sdy.GlobalToLocalShape"
"""The target of the custom call that converts operands of a manual computation to shards."""

FROM_SHARDS: Final = "xla.sdy.LocalToGlobalShape"
"""The target of the custom call that converts results of a manual computation to arrays."""

IN_SHARDINGS: Final = "xla.sdy.in_shardings"
OUT_SHARDINGS: Final = "xla.sdy.out_shardings"
MANUAL_AXES: Final = "xla.sdy.manual_axes"
"""A frontend attribute of the custom calls `TO_SHARDS` and `FROM_SHARDS`: the manual axes."""

BODY: Final = "xla.sdy.manual_computation_body"
"""Text that XLA requires in the name of a manual computation's function."""

_ELEMENT: Final = "stablehlo.get_tuple_element"
_NO_SHARDINGS: Final = "#sdy.sharding_per_value<[]>"


def may_have_manual_calls(strings: bytes) -> bool:
    """Whether a module may have manual computations, given the strings in its bytecode."""
    return TO_SHARDS.encode() in strings or FROM_SHARDS.encode() in strings


def join_manual_calls(module: ir.Module) -> None:
    """Replace `TO_SHARDS`, a call and `FROM_SHARDS` by `sdy.manual_computation`, in place.

    Raises:
        LoweringError: another operation is between a custom call and the call, or an attribute is
            missing.
    """
    calls = operations_in(module.operation, ("func.call",))
    counts = Counter(map(called_function, calls))
    with module.context, ir.Location.unknown():
        while conversions := _calls_of(module, FROM_SHARDS):  # a copied body may have further ones
            for conversion in conversions:
                _join(module, without_tuple(conversion), counts)
        for conversion in _calls_of(module, TO_SHARDS):
            _refuse(conversion)


def has_manual_calls(module: ir.Module) -> bool:
    """Whether a module has custom calls of `TO_SHARDS` or `FROM_SHARDS`."""
    return bool(_calls_of(module, TO_SHARDS) or _calls_of(module, FROM_SHARDS))


def _calls_of(module: ir.Module, target: str) -> list[ir.Operation]:
    return operations_where(module, lambda operation: call_target(operation) == target)


def _refuse(conversion: ir.Operation) -> NoReturn:
    rule = (
        f"the custom call {call_target(conversion)}{recorded_at(conversion.location)} must "
        f"{_PLACES[str(call_target(conversion))]} one xb.call"
    )
    fix = f"call one computation on the results of {TO_SHARDS}, and pass its results, in order, "
    raise error_of(LoweringError, "compile", rule, f"{fix}to {FROM_SHARDS}")


_PLACES: Final = {
    TO_SHARDS: "produce all arguments of",
    FROM_SHARDS: "have as operands all results of",
}
"""How each custom call surrounds the call of the computation that the devices run on shards."""


def _join(module: ir.Module, from_shards: ir.Operation, counts: Counter[str]) -> None:
    """Replace the call before `from_shards`; `counts` has the number of calls of each function."""
    call = _only_source(from_shards)
    if call is None or call.name != "func.call":
        _refuse(from_shards)
    to_shards = None
    operands: list[ir.Value[Any]] = []
    in_shardings = _NO_SHARDINGS
    if len(call.operands):
        to_shards = _only_source(call)
        if to_shards is None or call_target(to_shards) != TO_SHARDS:
            _refuse(from_shards)
        operands = list(to_shards.operands)
        in_shardings = _frontend_text(to_shards, IN_SHARDINGS)
    attributes = {
        "in_shardings": ir.Attribute.parse(in_shardings),
        "out_shardings": ir.Attribute.parse(_frontend_text(from_shards, OUT_SHARDINGS)),
        "manual_axes": ir.Attribute.parse(_frontend_text(from_shards, MANUAL_AXES)),
    }
    joined = ir.Operation.create(
        "sdy.manual_computation",
        [result.type for result in from_shards.results],
        operands,
        attributes,
        regions=1,
        loc=call.location,
        ip=ir.InsertionPoint(from_shards),
    )
    callee = called_function(call)
    (function,) = functions_in(module.operation, callee)
    counts[callee] -= 1
    if counts[callee]:
        function = function.clone(ip=ir.InsertionPoint(function)).operation
        counts.update(map(called_function, operations_in(function, ("func.call",))))
    function.regions[0].blocks[0].append_to(joined.regions[0])
    function.erase()
    block = joined.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1].operation
    returned = list(terminator.operands)
    terminator.erase()
    with ir.InsertionPoint(block):
        ir.Operation.create("sdy.return", operands=returned)
    for old, new in zip(from_shards.results, joined.results, strict=True):
        old.replace_all_uses_with(new)
    for operation in (from_shards, call, to_shards):
        if operation is not None:
            operation.erase()


def _only_source(user: ir.Operation) -> ir.Operation | None:
    """Return the operation whose results are exactly the operands of `user`.

    Return None if there is no such operation, or if it has other users.
    """
    values = list(user.operands)
    owners = [value.owner for value in values if isinstance(value, ir.OpResult)]
    if len(owners) < len(values) or not owners:
        return None
    source: Any = owners[0]
    if source.name == _ELEMENT and isinstance(source.operands[0], ir.OpResult):
        tuple_of_results: Any = source.operands[0].owner
        source = without_tuple(tuple_of_results)
        values = list(user.operands)
    if list(source.results) != list(values):
        return None
    users = {use.owner for result in source.results for use in result.uses}
    return source.operation if users == {user} else None


def _frontend_text(operation: ir.Operation, name: str) -> str:
    attributes = operation.attributes
    frontend = attributes.get(FRONTEND)
    text = None if frontend is None else attribute_text(entry(ir.DictAttr(frontend), name))
    if text is None:
        rule = f"the custom call {call_target(operation)}{place_of(operation)} must "
        raise error_of(LoweringError, "compile", f"{rule}have the frontend attribute {name}")
    return text


def without_tuple(operation: ir.Operation) -> ir.Operation:
    """Replace an operation that returns a tuple of arrays by one with a result for each array.

    Return the new operation: Shardy has one sharding for each result. Return an operation that does
    not return such a tuple unchanged.
    """
    results = operation.results
    if len(results) != 1 or not isinstance(results[0].type, ir.TupleType):
        return operation
    (result,) = results
    types = [result.type.get_type(n) for n in range(result.type.num_types)]
    if any(isinstance(element, ir.TupleType) for element in types):
        return operation
    ip = ir.InsertionPoint(operation)
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    flat = ir.Operation.create(
        operation.name, types, list(operation.operands), attributes, loc=operation.location, ip=ip
    )
    for user in [use.owner for use in result.uses]:
        if user.name == _ELEMENT:
            index = ir.IntegerAttr(user.attributes["index"]).value
            user.results[0].replace_all_uses_with(flat.results[index])
            user.operation.erase()
    if next(iter(result.uses), None) is not None:
        joined = ir.Operation.create(
            "stablehlo.tuple", [result.type], list(flat.results), loc=operation.location, ip=ip
        )
        result.replace_all_uses_with(joined.results[0])
    operation.erase()
    return flat


_SHARDING: Final = "xla.sdy.sharding"
_CONSTRAINT: Final = "Sharding"
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
