"""Probes: the operations whose operands the interpreter's process reports.

A probe is recorded as an optimization_barrier with a frontend attribute. The interpreter's process
receives a custom call with side effects instead, which no pass removes.

The interpreter supports probes in the bodies of loops and in called functions, but aborts on probes
in the branches of a conditional. A loop that runs once or not at all computes the same values as a
branch.
"""

from __future__ import annotations

from typing import Any, Final

from jaxlib.mlir import ir

from lowering.mlir.operations import BRANCHES, operations_where

PROBE: Final = "xlabuilder.probe"
"""Marks a probe: a frontend attribute of an optimization_barrier, or a custom call's target."""

_FRONTEND: Final = "mhlo.frontend_attributes"


def barrier_name(operation: ir.Operation) -> str | None:
    """Return the probe's name if an operation is a probe's optimization_barrier, else None."""
    if operation.name != "stablehlo.optimization_barrier" or _FRONTEND not in operation.attributes:
        return None
    attributes = ir.DictAttr(operation.attributes[_FRONTEND])
    return ir.StringAttr(attributes[PROBE]).value if PROBE in attributes else None


def probe_name(operation: ir.Operation) -> str | None:
    """Return the probe's name if an operation is a probe's custom call, else None."""
    if operation.name != "stablehlo.custom_call":
        return None
    if ir.StringAttr(operation.attributes["call_target_name"]).value != PROBE:
        return None
    return ir.StringAttr(operation.attributes["backend_config"]).value


_TOKEN: Final = "!stablehlo.token"


def replace_conditionals(module: ir.Operation) -> None:
    """Replace each conditional by a sequence of loops, one for each branch.

    The loops pass on the conditional's results; only the loop of the selected branch runs, once,
    and sets the results.
    """
    for operation in operations_where(module, lambda each: each.name in BRANCHES):
        with operation.location:
            _replace(operation)


def _replace(operation: ir.Operation) -> None:
    at = ir.InsertionPoint(operation)
    branches = [region.blocks[0] for region in operation.regions]
    selected = _selected(operation, len(branches), at)
    values = [_placeholder(result.type, at) for result in operation.results]
    for number, branch in enumerate(branches):
        values = _loop(branch, _equal(selected, _index(number, at), at), values, at)
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def _selected(operation: ir.Operation, count: int, at: ir.InsertionPoint) -> Any:
    """Emit operations that compute the number of the selected branch."""
    operand, last = operation.operands[0], _index(count - 1, at)
    if operation.name == "stablehlo.if":
        return create("select", last.type, [operand, _index(0, at), last], at)
    # An index out of range selects the last branch; negative ones are large as unsigned.
    unsigned = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))
    numbers = [create("bitcast_convert", unsigned, [value], at) for value in (operand, last)]
    minimum = create("minimum", unsigned, numbers, at)
    return create("bitcast_convert", last.type, [minimum], at)


def _loop(
    branch: ir.Block, is_selected: Any, values: list[Any], at: ir.InsertionPoint
) -> list[Any]:
    """Emit a loop that returns the results of `branch` if `is_selected`, else `values`."""
    carried = [is_selected, *values]
    types = [value.type for value in carried]
    locations = [ir.Location.current] * len(types)
    loop = ir.Operation.create("stablehlo.while", types, carried, regions=2, ip=at)
    condition, body = (region.blocks.append(*types, arg_locs=locations) for region in loop.regions)
    _return([condition.arguments[0]], ir.InsertionPoint(condition))
    *operations, terminator = [view.operation for view in branch.operations]
    inner = ir.InsertionPoint(body)
    done = _constant("false", types[0], inner)
    last = _return([done, *terminator.operands], inner)
    terminator.erase()
    for operation in operations:
        operation.move_before(last)
    return list(loop.results)[1:]


def _return(values: list[Any], at: ir.InsertionPoint) -> ir.Operation:
    return ir.Operation.create("stablehlo.return", operands=values, ip=at)


def _index(value: int, at: ir.InsertionPoint) -> Any:
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return _constant(str(value), scalar, at)


def _placeholder(value_type: ir.Type, at: ir.InsertionPoint) -> Any:
    """Emit an arbitrary value of type `value_type`."""
    if str(value_type) == _TOKEN:
        return create("after_all", value_type, [], at)
    element = str(ir.RankedTensorType(value_type).element_type)
    if element == "i1":
        return _constant("false", value_type, at)
    if element.startswith("complex<"):
        return _constant("(0.0, 0.0)", value_type, at)
    # f8e8m0fnu has no zero.
    return _constant("0" if element.lstrip("u").startswith("i") else "1.0", value_type, at)


def _constant(element: str, value_type: ir.Type, at: ir.InsertionPoint) -> Any:
    # MLIR's Python bindings have no attributes for elements of some types, such as complex ones.
    constant = ir.Operation.parse(f"%0 = stablehlo.constant dense<{element}> : {value_type}")
    at.insert(constant)
    return constant.results[0]


def _equal(lhs: Any, rhs: Any, at: ir.InsertionPoint) -> Any:
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    direction = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
    return create("compare", scalar, [lhs, rhs], at, {"comparison_direction": direction})


def create(
    name: str,
    result: ir.Type,
    operands: list[Any],
    at: ir.InsertionPoint,
    attributes: dict[str, ir.Attribute] | None = None,
) -> Any:
    """Create an operation of StableHLO, and return its result."""
    operation = ir.Operation.create(f"stablehlo.{name}", [result], operands, attributes, ip=at)
    return operation.results[0]
