"""Record the regions of operations as computations.

- Loops: the condition and the body take the state, a tuple unless it is one value. Values from
  outside that either region uses become loop-invariant parts of the state.
- Branches: a branch takes the values from outside that it uses.
- Other regions, such as reducers: the computation takes the region's arguments. Constants from
  outside that the region uses are recorded again in the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.types.shape import Shape, TupleShape
from lowering.importer.annotations import annotations_of_region
from lowering.importer.scope import Body, RegionOperation, Scope
from lowering.importer.tables import Tables
from lowering.mlir.operations import BRANCHES
from lowering.ops.importing import failure
from lowering.ops.registry import IMPORTERS
from lowering.sharding.frontend_shardings import BODY


class Regions:
    """The computations of the regions of one module.

    Attributes:
        computations: the computation of each recorded body.
    """

    __slots__ = ("_by_key", "_functions", "_tables", "computations")

    def __init__(self, tables: Tables, functions: dict[str, XlaComputation]) -> None:
        self.computations: dict[Body, XlaComputation] = {}
        self._tables = tables
        self._functions = functions
        # Equal regions are one computation: programs have thousands of equal reducers.
        self._by_key: dict[Any, XlaComputation] = {}

    def record(self, operations: Sequence[RegionOperation]) -> None:
        """Record the regions of `operations`, in which inner operations come before outer ones."""
        for operation, bodies in operations:
            if operation.name == "stablehlo.while":
                self._record_loop(operation, bodies)
                continue
            for number, body in enumerate(bodies):
                if operation.name in BRANCHES:
                    self._record_branch(operation, body, f"branch_{number}")
                else:
                    self._record_applied(operation, body)

    def scope(self, name: str) -> Scope:
        """Return a scope for a new computation."""
        return Scope(XlaBuilder(name), self._tables, self._functions, self.computations)

    def _shapes(self, values: Iterable[ir.Value[Any]]) -> list[Shape]:
        return [self._tables.shape(value.type) for value in values]

    def _record_once(
        self, body: Body, kind: str, record: Callable[[], XlaComputation], *, with_locations: bool
    ) -> None:
        """Set the computation of a body: reuse that of an equal body, or record a computation.

        Args:
            body: the body.
            kind: the kind of the body; only bodies of the same kind can be equal.
            record: a function that records a new computation for the body.
            with_locations: whether bodies must have equal locations to be equal.
        """
        key = body.key(with_locations=with_locations)
        computation = None if key is None else self._by_key.get((kind, key))
        if computation is None:
            computation = record()
            if key is not None:
                self._by_key[kind, key] = computation
        self.computations[body] = computation

    def _scope_of_values(
        self,
        operation: ir.Operation,
        name: str,
        shapes: Sequence[Shape],
        values: Sequence[ir.Value[Any]],
    ) -> tuple[Scope, list[XlaOp]]:
        """Return a scope with one parameter for `values`, and the op of each value.

        The parameter is a tuple unless there is one value. The ops have the source line of
        `operation`, whose region is recorded.
        """
        scope = self.scope(name)
        if len(shapes) == 1:
            leaves = [scope.builder.parameter(shapes[0])]
        else:
            leaves = list(scope.builder.parameter(TupleShape(shapes)))
        scope.set_place(0, operation.location)
        scope.values.update(zip(values, leaves, strict=True))
        return scope, leaves

    def _record_loop(self, operation: ir.Operation, bodies: Sequence[Body]) -> None:
        captures = list(dict.fromkeys(value for body in bodies for value in body.captures))
        shapes = self._shapes([*operation.operands, *captures])

        def record(name: str, body: Body) -> XlaComputation:
            state = [*body.arguments, *captures]
            scope, leaves = self._scope_of_values(operation, name, shapes, state)
            returned = scope.record(body)
            others = [] if name == "condition" else leaves[len(returned) :]
            return _built(scope, operation, body, [*returned, *others])

        for name, body in zip(("condition", "body"), bodies, strict=True):
            body.captures = captures  # of both bodies: the state is the same
            self._record_once(body, name, partial(record, name, body), with_locations=True)

    def _record_branch(self, operation: ir.Operation, body: Body, name: str) -> None:
        def record() -> XlaComputation:
            shapes = self._shapes(body.captures)
            scope, _ = self._scope_of_values(operation, name, shapes, body.captures)
            return _built(scope, operation, body, scope.record(body))

        self._record_once(body, name, record, with_locations=True)

    def _record_applied(self, operation: ir.Operation, body: Body) -> None:
        is_manual = operation.name == "sdy.manual_computation"

        def record() -> XlaComputation:
            scope = self.scope(BODY if is_manual else operation.name.rpartition(".")[2])
            for value, shape in zip(body.arguments, self._shapes(body.arguments), strict=True):
                scope.values[value] = scope.builder.parameter(shape)
            for value in body.captures:
                scope.values[value] = self._constant(scope, operation, value)
            scope.set_place(0, operation.location)
            return _built(scope, operation, body, scope.record(body))

        kind = BODY if is_manual else ""
        self._record_once(body, kind, record, with_locations=is_manual)

    def _constant(self, scope: Scope, operation: ir.Operation, value: ir.Value[Any]) -> XlaOp:
        """Record a constant from outside the region again, in `scope`."""
        owner = getattr(value.owner, "operation", None)  # None for a block argument
        if owner is None or owner.name != "stablehlo.constant":
            raise failure(
                operation,
                "a region of the operation uses a value from outside the region that is not a "
                "constant, which XLA does not support",
            )
        constant = IMPORTERS["stablehlo.constant"](scope, owner, [])
        assert isinstance(constant, XlaOp)  # a constant has one result
        return constant


def _built(
    scope: Scope, operation: ir.Operation, body: Body, returned: Sequence[XlaOp]
) -> XlaComputation:
    """Build the computation of a body that returns `returned`, as a tuple unless it is one value.

    The tuple op has the source line of `operation`, whose region is recorded.
    """
    scope.builder.annotations = annotations_of_region(body.operations[-1])
    if len(returned) == 1:
        return scope.builder.build(returned[0])
    start = len(scope.builder.ops)
    root = scope.tuple_of(returned)
    scope.set_place(start, operation.location)
    return scope.builder.build(root)
