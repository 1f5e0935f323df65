"""Scope: where the operations of one body are recorded.

The walk is a loop over operations, and for each a look into the tables of `registry`. Functions and
regions become computations of their own, each recorded when all that it applies is there.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn

from jaxlib.mlir import ir

from builder.errors import XlaError
from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.control_flow import tuple as tuple_of
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape
from lowering.errors import LoweringError
from lowering.importer.annotations import annotate, foreign_names
from lowering.importer.bodies import Body
from lowering.importer.by_schema import importer_of
from lowering.importer.failures import failure, unknown
from lowering.importer.registry import Value
from lowering.importer.tables import Place, Tables
from lowering.sharding.attributes import SHARDINGS

__all__ = ["Scope", "closed", "opened"]

_PARTS: Final = frozenset(("tuple", "get_tuple_element"))
"""Opcodes of which nothing is there in StableHLO: what is noted on them would be lost."""


class Scope:
    """A body that is being recorded.

    Attributes:
        builder: what it is recorded with.
        tables: those of the module.
        functions: the computations of the functions that may be called, by symbol.
        values: the op of each value.
        bodies: of the operation that is being recorded: the bodies of its regions.
        applied: the computations of regions that were recorded already, by body.
        taken_back_to: where ops were taken back, the number of the first of them.
    """

    __slots__ = (
        "applied",
        "bodies",
        "builder",
        "functions",
        "tables",
        "taken_back_to",
        "values",
    )

    def __init__(
        self,
        builder: XlaBuilder,
        tables: Tables,
        functions: dict[str, XlaComputation],
        applied: dict[Body, XlaComputation],
    ) -> None:
        self.builder = builder
        self.tables = tables
        self.functions = functions
        self.applied = applied
        self.values: dict[Value, XlaOp] = {}
        self.bodies: tuple[Body, ...] = ()
        self.taken_back_to = 0

    def attribute(self, operation: ir.Operation, name: str, default: Any = None) -> Any:
        """What an attribute of an operation says; see `tables.decoded`."""
        try:
            attribute = operation.attributes.get(name)
        except TypeError:  # of complex elements, which MLIR's Python has no class for
            raise failure(operation, f"its {name} holds elements that can't be read") from None
        try:
            return default if attribute is None else self.tables.value(attribute)
        except TypeError:  # the same, inside
            raise failure(operation, f"its {name} holds elements that can't be read") from None

    def result_shape(self, operation: ir.Operation, number: int = 0) -> ArrayShape | TokenShape:
        """The shape that the file says a result has."""
        shape = self.tables.shape(operation.results[number].type)
        assert not isinstance(shape, TupleShape)  # MLIR's verifier has said so
        return shape

    def computation(self, number: int = 0) -> XlaComputation:
        """What a region of the operation that is being recorded applies."""
        return self.applied[self.bodies[number]]

    def captured(self, number: int = 0) -> list[XlaOp]:
        """The values from outside that a region uses."""
        return [self.values[value] for value in self.bodies[number].captures]

    def record(self, body: Body) -> list[XlaOp]:
        """Records the operations of a body; gives the values that it returns."""
        values = self.values
        *operations, last = body.operations
        self.tables.find_places(operations)
        for position, operation in enumerate(operations):
            self.bodies = body.inner.get(position, ())
            operands = [values[value] for value in operation.operands]
            found = self._import(operation, operands)
            for result, op in zip(operation.results, found, strict=True):
                if op is not None:
                    if op.shape is not self.tables.shape(result.type):
                        self._refuse_shape(operation, result, op)
                    values[result] = op
        return [values[value] for value in last.operands]

    def _import(self, operation: ir.Operation, operands: list[XlaOp]) -> Sequence[XlaOp | None]:
        """Record an operation by its importer; return the values of its results."""
        ops = self.builder.ops
        begin = len(ops)
        name = operation.name
        recorder = self.tables.importers.get(name)
        try:
            if recorder is None:
                recorder = importer_of(name)
                if recorder is None:
                    raise unknown(operation)
                self.tables.importers[name] = recorder
            value = recorder(self, operation, operands)
        except LoweringError:
            raise
        except XlaError as error:
            raise failure(operation, str(error)) from error
        except RecursionError:
            reason = "its types or attributes are nested too deep"
            raise failure(operation, reason) from None
        results: Sequence[XlaOp | None]
        if not isinstance(value, XlaOp):
            results = value
        elif type(value.shape) is TupleShape:
            results = self._elements(operation, value)
        else:
            results = (value,)
        begin = begin if len(ops) >= begin else self.taken_back_to
        recorded = ops[begin:]
        self._note_places(recorded, self.tables.place(operation.location))
        names = foreign_names(operation, name, self.tables)
        if names:
            self._note(operation, names, recorded)
        return results

    def _refuse_shape(self, operation: ir.Operation, result: Value, op: XlaOp) -> NoReturn:
        """Raise LoweringError for an op whose shape is not that of the result in the file."""
        raise failure(
            operation,
            f"the file says that it gives {self.tables.shape(result.type)}, and by shape inference "
            f"it gives {op.shape}",
        )

    def _note_places(self, recorded: list[XlaOp], place: Place) -> None:
        """Notes on ops where they are from, and on the one that does the work the name."""
        code, offset, name = place
        for op in recorded:
            op.code, op.lasti = code, offset
        if recorded and name is not None:
            _principal(recorded).name = name

    def placed(self, begin: int, location: ir.Location) -> None:
        """Notes on the ops recorded from number `begin` on that they are from there."""
        code, offset, _ = self.tables.place(location)
        self._note_places(self.builder.ops[begin:], (code, offset, None))

    def _note(
        self, operation: ir.Operation, names: Sequence[str], recorded: Sequence[XlaOp]
    ) -> None:
        """Notes on the op that stands for an operation what that says for others."""
        if not recorded:  # the operation is left out, and what it says with it
            lost = [name for name in names if name in SHARDINGS]
            if lost:
                raise failure(operation, f"there is no op to note its {lost[0]} on")
            return
        try:
            annotate(_principal(recorded), operation.attributes, names, self.tables)
        except LoweringError as error:
            raise failure(operation, str(error)) from None

    def take_back(self, ops: Sequence[XlaOp], values: Iterable[Value]) -> None:
        """Takes back the ops recorded last, if they are these, and nothing uses their values but
        the operation that is being recorded, which goes without them."""
        recorded = self.builder.ops
        last = recorded[len(recorded) - len(ops) :]
        are_these = len(last) == len(ops) and all(map(operator.is_, last, ops))
        if are_these and all(len(list(value.uses)) == 1 for value in values):
            self.taken_back_to = len(recorded) - len(ops)
            del recorded[self.taken_back_to :]

    def _elements(self, operation: ir.Operation, value: XlaOp) -> Sequence[XlaOp | None]:
        """Return a tuple as the results of an operation: its first elements, those that are used;
        the tuple itself where the result is a tuple."""
        results = list(operation.results)
        if len(results) == 1 and isinstance(results[0].type, ir.TupleType):
            return (value,)
        return [
            None if next(iter(result.uses), None) is None else value[number]
            for number, result in enumerate(results)
        ]


def _principal(recorded: Sequence[XlaOp]) -> XlaOp:
    """Of the ops that stand for an operation the one that does its work."""
    return next((op for op in reversed(recorded) if op.opcode not in _PARTS), recorded[-1])


def opened(op: XlaOp) -> Iterator[XlaOp]:
    """The leaves of a value, which may be a nested tuple."""
    pending = [op]
    while pending:
        one = pending.pop()
        if isinstance(one.shape, TupleShape):
            pending.extend(reversed([one[i] for i in range(len(one.shape.elements))]))
        else:
            yield one


def closed(builder: XlaBuilder, shape: Shape, leaves: Iterator[XlaOp]) -> XlaOp:
    """A value of this shape, whose leaves are the next of `leaves`."""
    if not isinstance(shape, TupleShape):
        return next(leaves)
    open_tuples: list[tuple[Iterator[Shape], list[XlaOp]]] = [(iter(shape.elements), [])]
    while True:
        remaining, inside = open_tuples[-1]
        for element in remaining:
            if isinstance(element, TupleShape):
                open_tuples.append((iter(element.elements), []))
                break
            inside.append(next(leaves))
        else:
            open_tuples.pop()
            made = tuple_of(*inside) if inside else builder.empty_tuple()
            if not open_tuples:
                return made
            open_tuples[-1][1].append(made)
