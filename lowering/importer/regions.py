"""Regions become computations, as the ops take them that apply them.

A loop's condition and body take the state, which is a tuple where it has several parts; what they
use from outside becomes parts of it that stay as they are. A branch takes as its operand what it
uses from outside. Reducers and their like take the region's arguments; from outside they may use
constants, which are recorded inside once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.control_flow import tuple as tuple_of
from builder.types.shape import Shape, TupleShape
from lowering.importer.bodies import Body, Holder
from lowering.importer.failures import failure
from lowering.importer.registry import IMPORTERS, Value
from lowering.importer.scope import Scope
from lowering.importer.tables import Tables

__all__ = ["Regions"]

_BRANCHING = ("stablehlo.if", "stablehlo.case")


class Regions:
    """The computations of the regions of one module.

    Attributes:
        applied: of each body that was recorded its computation.
    """

    __slots__ = ("_functions", "_known", "_tables", "applied")

    def __init__(self, tables: Tables, functions: dict[str, XlaComputation]) -> None:
        self.applied: dict[Body, XlaComputation] = {}
        self._tables = tables
        self._functions = functions
        # Regions that are alike, as the thousands of sums in a program, are one computation.
        self._known: dict[Any, XlaComputation] = {}

    def record(self, holders: Sequence[Holder]) -> None:
        """Records the regions of these operations, of which inner ones stand first."""
        for operation, bodies in holders:
            name = operation.name
            if name == "stablehlo.while":
                self._loop(operation, bodies)
                continue
            for number, body in enumerate(bodies):
                if name in _BRANCHING:
                    self._branch(body, number)
                else:
                    self._applied(operation, body)

    def scope(self, name: str) -> Scope:
        """A scope for a computation of its own."""
        return Scope(XlaBuilder(name), self._tables, self._functions, self.applied)

    def _shapes(self, values: Iterable[Value]) -> list[Shape]:
        return [self._tables.shape(value.type) for value in values]

    def _record_once(
        self, body: Body, kind: str, make: Callable[[], XlaComputation], *, located: bool
    ) -> None:
        """Sets the computation of a body: the one of an equal body, or what `make` records.

        Args:
            kind: bodies of different kinds are not compared.
            located: whether equal bodies have equal locations.
        """
        key = body.key(with_locations=located)
        if key is None:
            self.applied[body] = make()
            return
        known = self._known.get((kind, key))
        if known is None:
            known = self._known[kind, key] = make()
        self.applied[body] = known

    def _of_one_parameter(
        self, name: str, shapes: Sequence[Shape], values: Sequence[Value]
    ) -> tuple[Scope, list[XlaOp]]:
        """A scope with one parameter for these values, a tuple unless it is one."""
        scope = self.scope(name)
        if len(shapes) == 1:
            leaves = [scope.builder.parameter(shapes[0])]
        else:
            leaves = list(scope.builder.parameter(TupleShape(shapes)))
        scope.values.update(zip(values, leaves, strict=True))
        return scope, leaves

    def _loop(self, operation: ir.Operation, bodies: Sequence[Body]) -> None:
        captures = list(dict.fromkeys(value for body in bodies for value in body.captures))
        shapes = self._shapes([*operation.operands, *captures])

        def state(name: str, body: Body) -> XlaComputation:
            scope, leaves = self._of_one_parameter(name, shapes, [*body.arguments, *captures])
            returned = scope.record(body)
            if name == "body" and len(shapes) != 1:
                parts = [*returned, *leaves[len(returned) :]]
                returned = [tuple_of(*parts) if parts else scope.builder.empty_tuple()]
            return scope.builder.build(returned[0])

        for name, body in zip(("condition", "body"), bodies, strict=True):
            body.captures = captures  # of both, as both get the whole state
            self._record_once(body, name, partial(state, name, body), located=True)

    def _branch(self, body: Body, number: int) -> None:
        def branch() -> XlaComputation:
            shapes = self._shapes(body.captures)
            scope, _ = self._of_one_parameter(name, shapes, body.captures)
            return _built(scope, scope.record(body))

        name = f"branch_{number}"
        self._record_once(body, name, branch, located=True)

    def _applied(self, operation: ir.Operation, body: Body) -> None:
        def applied() -> XlaComputation:
            scope = self.scope(operation.name.rpartition(".")[2])
            for value, shape in zip(body.arguments, self._shapes(body.arguments), strict=True):
                scope.values[value] = scope.builder.parameter(shape)
            for value in body.captures:
                scope.values[value] = self._constant(scope, operation, value)
            return _built(scope, scope.record(body))

        self._record_once(body, "", applied, located=False)

    def _constant(self, scope: Scope, operation: ir.Operation, value: Value) -> XlaOp:
        """Records a constant from outside again."""
        owner = getattr(value.owner, "operation", None)  # None of an argument
        if owner is None or owner.name != "stablehlo.constant":
            raise failure(
                operation,
                "its region uses a value from outside, which XLA's computations of this kind "
                "can't, unless it is a constant",
            )
        constant = IMPORTERS["stablehlo.constant"](scope, owner, [])
        assert isinstance(constant, XlaOp)  # it has one result
        return constant


def _built(scope: Scope, returned: Sequence[XlaOp]) -> XlaComputation:
    """The computation that gives these values: one as it is, others as a tuple."""
    if len(returned) == 1:
        return scope.builder.build(returned[0])
    whole = tuple_of(*returned) if returned else scope.builder.empty_tuple()
    return scope.builder.build(whole)
