"""Regions become computations, as the ops take them that apply them.

A loop's condition and body take the state, which is a tuple where it has several parts; what they
use from outside becomes parts of it that stay as they are. A branch takes as its operand what it
uses from outside. Reducers and their like take the region's arguments; from outside they may use
constants, which are recorded inside once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from builder.computation import XlaComputation
from builder.ops.control_flow import tuple as tuple_of
from builder.shape import Shape, TupleShape
from builder.xla_builder import XlaBuilder
from builder.xla_op import XlaOp
from lowering.importer.bodies import Body, Holder
from lowering.importer.registry import IMPORTERS
from lowering.importer.scope import Scope, failure
from lowering.importer.tables import Tables

__all__ = ["Regions"]

_BRANCHING = ("stablehlo.if", "stablehlo.case")


class Regions:
    """The computations of the regions of one module.

    Attributes:
        applied: of each body that was recorded its computation.
    """

    __slots__ = ("_alike", "_functions", "_tables", "applied")

    def __init__(self, tables: Tables, functions: dict[str, XlaComputation]) -> None:
        self.applied: dict[Body, XlaComputation] = {}
        self._tables = tables
        self._functions = functions
        # Regions that are alike, as the thousands of sums in a program, are one computation.
        self._alike: dict[Any, XlaComputation] = {}

    def record(self, holders: Sequence[Holder]) -> None:
        """Records the regions of these operations, of which inner ones stand first."""
        names = self._tables.outline.names
        for body, position, inner in holders:
            name = names[body.entries[position][0]]
            if name == "stablehlo.while":
                self._loop(body, position, inner)
                continue
            for number, one in enumerate(inner):
                if name in _BRANCHING:
                    self.applied[one] = self._branch(one, number)
                else:
                    self.applied[one] = self._applied(name, one)

    def scope(self, name: str) -> Scope:
        """A scope for a computation of its own."""
        return Scope(XlaBuilder(name), self._tables, self._functions, self.applied)

    def _shapes(self, body: Body, values: Iterable[int]) -> list[Shape]:
        """The shapes of values that may be used in a body."""
        return [self._tables.numbered_shape(body.type_of(one), body, one) for one in values]

    def _of_one_parameter(
        self, name: str, shapes: Sequence[Shape], values: Sequence[int]
    ) -> tuple[Scope, list[XlaOp]]:
        """A scope with one parameter for these values, a tuple unless it is one."""
        scope = self.scope(name)
        if len(shapes) == 1:
            leaves = [scope.builder.parameter(shapes[0])]
        else:
            leaves = list(scope.builder.parameter(TupleShape(shapes)))
        scope.values.update(zip(values, leaves, strict=True))
        return scope, leaves

    def _loop(self, around: Body, position: int, inner: tuple[Body, ...]) -> None:
        captures = list(dict.fromkeys(value for body in inner for value in body.captures))
        operands = around.entries[position][5]
        shapes = self._shapes(around, [*operands, *captures])
        for name, body in zip(("condition", "body"), inner, strict=True):
            body.captures = captures
            outside = [*_arguments(body), *captures]
            scope, leaves = self._of_one_parameter(name, shapes, outside)
            returned = scope.record(body)
            if name == "body" and len(shapes) != 1:
                state = [*returned, *leaves[len(returned) :]]
                returned = [tuple_of(*state) if state else scope.builder.empty_tuple()]
            self.applied[body] = scope.builder.build(returned[0])

    def _branch(self, body: Body, number: int) -> XlaComputation:
        shapes = self._shapes(body, body.captures)
        scope, _ = self._of_one_parameter(f"branch_{number}", shapes, body.captures)
        return _built(scope, scope.record(body))

    def _applied(self, name: str, body: Body) -> XlaComputation:
        key = None if body.captures else _key(body)
        found = None if key is None else self._alike.get(key)
        if found is not None:
            return found
        scope = self.scope(name.rpartition(".")[2])
        arguments = _arguments(body)
        for value, shape in zip(arguments, self._shapes(body, arguments), strict=True):
            scope.values[value] = scope.builder.parameter(shape)
        for value in body.captures:
            owner = getattr(body.value(value).owner, "operation", None)  # None of an argument
            if owner is None or owner.name != "stablehlo.constant":
                assert body.holder is not None  # a function has no captures
                outer, position, _ = body.holder
                raise failure(
                    outer.operation(position),
                    "its region uses a value from outside, which XLA's computations of this kind "
                    "can't, unless it is a constant",
                )
            constant = IMPORTERS["stablehlo.constant"](scope, owner, [])
            assert isinstance(constant, XlaOp)  # it has one result
            scope.values[value] = constant
        computation = _built(scope, scope.record(body))
        if key is not None:
            self._alike[key] = computation
        return computation


def _arguments(body: Body) -> range:
    return range(body.first, body.first + body.argument_count)


def _built(scope: Scope, returned: Sequence[XlaOp]) -> XlaComputation:
    """The computation that gives these values: one as it is, others as a tuple."""
    if len(returned) == 1:
        return scope.builder.build(returned[0])
    whole = tuple_of(*returned) if returned else scope.builder.empty_tuple()
    return scope.builder.build(whole)


def _key(body: Body) -> Any:
    """What two bodies have in common that are the same computation; None for one with regions.

    It is all but where they stand: locations, and at what number their values begin.
    """
    first = body.first
    said: list[Any] = [body.argument_count, *body.types]
    for kind, _, attributes, properties, types, operands, inner in body.entries:
        if inner:
            return None
        said += kind, attributes, properties, len(types), len(operands)
        said += [value - first for value in operands]
    return tuple(said)
