"""Convert HLO's manual computations, which each device runs on its shards, to Shardy's.

HLO has no ``sdy.manual_computation``. XLA writes a call of the body between two custom calls:
GlobalToLocalShape converts arrays to shards, and LocalToGlobalShape converts shards to arrays.
XLA's partitioner supports only Shardy's operation.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NoReturn

from jaxlib.mlir import ir

from builder.errors import error_of
from lowering.errors import LoweringError, recorded_at
from lowering.mlir.operations import (
    attribute_text,
    call_target,
    called_function,
    entry,
    functions_in,
    operations_in,
    operations_where,
    place_of,
)
from lowering.sharding.texts import FRONTEND

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
        f"the custom call {call_target(conversion)}{recorded_at(conversion.location)} must be "
        f"next to the call of the computation that each device runs on its shards"
    )
    fix = f"call one computation on the results of {TO_SHARDS}, and pass its results, in order, "
    raise error_of(LoweringError, "compile", rule, f"{fix}to {FROM_SHARDS}")


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
