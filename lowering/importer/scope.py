"""Scope: where the operations of one body are recorded.

The walk is a loop over operations, and for each a look into the tables of `registry`. Functions and
regions become computations of their own, each recorded when all that it applies is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final

from jaxlib.mlir import ir

from builder.computation import XlaComputation
from builder.errors import XlaError
from builder.ops.control_flow import tuple as tuple_of
from builder.shape import ArrayShape, Shape, TokenShape, TupleShape
from builder.xla_builder import XlaBuilder
from builder.xla_op import XlaOp, noted
from lowering.errors import LoweringError, recorded_at
from lowering.importer.bodies import Body
from lowering.importer.registry import IMPORTERS, PLAIN, Imported, Value
from lowering.importer.tables import T, Tables

__all__ = ["Scope", "closed", "failure", "opened"]

_ANNOTATIONS: Final = (
    ("mhlo.sharding", "sharding"),
    ("mhlo.frontend_attributes", "frontend_attributes"),
)
"""Attributes that any operation may have, and what they are called in an op's notes."""


def failure(operation: ir.Operation, reason: str) -> LoweringError:
    """The error of an operation that can't be imported."""
    where = recorded_at(operation.location).rstrip(",")
    return LoweringError(
        f"to_computation: {operation.name}{where}: {reason}", op=str(operation.name)
    )


class Scope:
    """A body that is being recorded.

    Attributes:
        builder: what it is recorded with.
        tables: those of the module.
        functions: the computations of the functions that may be called, by symbol.
        values: the op of each MLIR value.
        bodies: of the operation that is being recorded: the bodies of its regions.
        applied: the computations of regions that were recorded already, by body.
    """

    __slots__ = ("applied", "bodies", "builder", "functions", "tables", "values")

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

    def attribute(self, operation: ir.Operation, name: str, default: Any = None) -> Any:
        """What an attribute of an operation says; see `tables.decoded`."""
        try:
            found = operation.attributes.get(name)
            return default if found is None else self.tables.value(found)
        except TypeError:  # of complex elements, which MLIR's Python has no class for
            raise failure(operation, f"its {name} holds elements that can't be read") from None

    def read(self, operation: ir.Operation, name: str, reader: Callable[[ir.Attribute], T]) -> T:
        """What a reader of its kind of attributes makes of one that every such operation has."""
        return self.tables.read(operation.attributes[name], reader)

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
        values, tables, ops = self.values, self.tables, self.builder.ops
        shapes, places = tables.shapes, tables.places
        for operation, inner in body.operations[:-1]:
            operands = [values[value] for value in operation.operands]
            begin = len(ops)
            plain = PLAIN.get(operation.name)
            try:
                if plain is None:
                    self.bodies = inner
                    found = self._imported(operation, operands)
                else:
                    found = plain(*operands)
            except LoweringError:
                raise
            except XlaError as error:
                raise failure(operation, str(error)) from error
            # What is asked of MLIR is most of the time here, as each answer is an object made: 0.2
            # to 0.5 us. A location is compared as the attribute that it is, the same wherever an
            # operation is from there, and text is made of it once.
            location = operation.location
            place = places.get(location.attr)
            code, name = place if place is not None else tables.place(location)
            if len(ops) == begin + 1:  # as nearly always: 0.3 us less than by a slice
                op = ops[begin]
                op.code, op.lasti = code, 0
                if name is not None:
                    op.name = name
            else:
                self._note_places(ops[begin:], code, name)
            if len(operation.attributes):
                self._note(operation, begin)
            if isinstance(found, XlaOp):
                result = operation.result
                if found.shape is not shapes.get(result.type):
                    self._check_shape(operation, result, found)
                values[result] = found
                continue
            for result, one in zip(operation.results, found, strict=True):
                if one is not None:
                    self._check_shape(operation, result, one)
                    values[result] = one
        terminator, _ = body.operations[-1]
        return [values[value] for value in terminator.operands]

    def _imported(self, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
        known = IMPORTERS.get(operation.name)
        if known is None:
            raise failure(operation, "there is no op for it")
        return known(self, operation, operands)

    def _check_shape(self, operation: ir.Operation, result: Value, op: XlaOp) -> None:
        """Refuses an op whose shape is not that of the result which it stands for."""
        said = self.tables.shape(result.type)
        if op.shape is not said:
            raise failure(
                operation,
                f"the file says that it gives {said}, and by shape inference it gives {op.shape}",
            )

    def _note_places(self, recorded: list[XlaOp], code: CodeType | None, name: str | None) -> None:
        """Notes on ops where they are from, and on the last the name."""
        for op in recorded:
            op.code, op.lasti = code, 0
        if recorded and name is not None:
            recorded[-1].name = name

    def placed(self, begin: int, location: ir.Location) -> None:
        """Notes on the ops recorded from number `begin` on that they are from there."""
        code, _ = self.tables.place(location)
        self._note_places(self.builder.ops[begin:], code, None)

    def _note(self, operation: ir.Operation, begin: int) -> None:
        """Notes on the last op recorded, if any since number `begin`, what the operation says for
        others."""
        ops = self.builder.ops
        if len(ops) > begin:
            self.annotate(ops[-1], operation.attributes)

    def annotate(self, op: XlaOp, attributes: ir.OpAttributeMap | ir.DictAttr) -> None:
        """Notes on an op what attributes of an operation, or of an argument, say for others."""
        for name, field in _ANNOTATIONS:
            if name in attributes:
                op.notes = noted(op.notes, **{field: self.tables.value(attributes[name])})

    def results(self, operation: ir.Operation, value: XlaOp) -> Imported:
        """A value as the results of an operation: a tuple's elements, another as it is."""
        return self.elements(operation, value) if isinstance(value.shape, TupleShape) else value

    def elements(self, operation: ir.Operation, whole: XlaOp) -> list[XlaOp | None]:
        """The first elements of a tuple as the results of an operation, those that are used."""
        return [
            None if next(iter(result.uses), None) is None else whole[number]
            for number, result in enumerate(operation.results)
        ]


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
