"""Branches said as loops, in which the interpreter tells what it is asked to tell.

It hands its probes on into the bodies of loops and into called functions, but not into the branches
of a conditional, and dies of those it meets there. A loop that runs once or not at all computes
what a branch does.
"""

from __future__ import annotations

from typing import Any, Final

from jaxlib.mlir import ir

__all__ = ["as_loops"]

_CONDITIONALS: Final = ("stablehlo.if", "stablehlo.case")
_TOKEN: Final = "!stablehlo.token"


def as_loops(module: ir.Operation) -> None:
    """Puts a loop for each branch of each conditional in its place, the one behind the other.

    All of them carry the results, which only the branch that is chosen exchanges.
    """
    found: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in _CONDITIONALS:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(look)
    for operation in found:
        with operation.location:
            _replace(operation)


def _replace(operation: ir.Operation) -> None:
    at = ir.InsertionPoint(operation)
    branches = [region.blocks[0] for region in operation.regions]
    chosen = _chosen(operation, len(branches), at)
    values = [_nothing(result.type, at) for result in operation.results]
    for number, branch in enumerate(branches):
        values = _loop(branch, _equal(chosen, _number(number, at), at), values, at)
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def _chosen(operation: ir.Operation, count: int, at: ir.InsertionPoint) -> Any:
    """The number of the branch that is taken."""
    given, last = operation.operands[0], _number(count - 1, at)
    if operation.name == "stablehlo.if":
        return _said("select", last.type, [given, _number(0, at), last], at)
    # A number that no branch has is the last one's: as unsigned, negative ones are larger.
    unsigned = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))
    numbers = [_said("bitcast_convert", unsigned, [one], at) for one in (given, last)]
    least = _said("minimum", unsigned, numbers, at)
    return _said("bitcast_convert", last.type, [least], at)


def _loop(branch: ir.Block, is_chosen: Any, values: list[Any], at: ir.InsertionPoint) -> list[Any]:
    """What a branch gives if it is chosen, and else `values`."""
    carried = [is_chosen, *values]
    kinds = [value.type for value in carried]
    places = [ir.Location.current] * len(kinds)
    loop = ir.Operation.create("stablehlo.while", kinds, carried, regions=2, ip=at)
    condition, body = (region.blocks.append(*kinds, arg_locs=places) for region in loop.regions)
    _end([condition.arguments[0]], ir.InsertionPoint(condition))
    *inside, end = [view.operation for view in branch.operations]
    inner = ir.InsertionPoint(body)
    done = _constant("false", kinds[0], inner)
    last = _end([done, *end.operands], inner)
    end.erase()
    for one in inside:
        one.move_before(last)
    return list(loop.results)[1:]


def _end(values: list[Any], at: ir.InsertionPoint) -> ir.Operation:
    return ir.Operation.create("stablehlo.return", operands=values, ip=at)


def _number(value: int, at: ir.InsertionPoint) -> Any:
    kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return _constant(str(value), kind, at)


def _nothing(kind: ir.Type, at: ir.InsertionPoint) -> Any:
    """A value of a type, whichever."""
    if str(kind) == _TOKEN:
        return _said("after_all", kind, [], at)
    element = str(ir.RankedTensorType(kind).element_type)
    if element == "i1":
        return _constant("false", kind, at)
    if element.startswith("complex<"):
        return _constant("(0.0, 0.0)", kind, at)
    # (f8e8m0fnu has no zero.)
    return _constant("0" if element.lstrip("u").startswith("i") else "1.0", kind, at)


def _constant(element: str, kind: ir.Type, at: ir.InsertionPoint) -> Any:
    # Python has no attribute for elements of some types, such as complex ones.
    made = ir.Operation.parse(f"%0 = stablehlo.constant dense<{element}> : {kind}")
    at.insert(made)
    return made.results[0]


def _equal(one: Any, other: Any, at: ir.InsertionPoint) -> Any:
    kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    direction = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
    return ir.Operation.create(
        "stablehlo.compare", [kind], [one, other], {"comparison_direction": direction}, ip=at
    ).results[0]


def _said(name: str, kind: ir.Type, operands: list[Any], at: ir.InsertionPoint) -> Any:
    return ir.Operation.create(f"stablehlo.{name}", [kind], operands, ip=at).results[0]
