"""Scope: where the operations of one body are recorded.

The walk is a loop over operations, and for each a look into the tables of `registry`. Functions and
regions become computations of their own, each recorded when all that it applies is there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from builder.computation import XlaComputation
from builder.errors import XlaError
from builder.ops.control_flow import tuple as tuple_of
from builder.shape import ArrayShape, Shape, TokenShape, TupleShape
from builder.xla_builder import XlaBuilder
from builder.xla_op import XlaOp
from lowering.errors import LoweringError, recorded_at
from lowering.importer.annotations import annotate, foreign_names, has_foreign
from lowering.importer.bodies import Body
from lowering.importer.registry import Imported, Value
from lowering.importer.tables import Place, T, Tables
from lowering.sharding_attributes import SHARDINGS

__all__ = ["Scope", "closed", "failure", "opened", "unknown"]

_new: Final = object.__new__
_shape_of: Final[Callable[[XlaOp], Shape]] = operator.attrgetter("shape")

_PARTS: Final = frozenset(("tuple", "get_tuple_element"))
"""Opcodes of which nothing is there in StableHLO: what is noted on them would be lost."""


_LACKING: Final = {
    "sdy.manual_computation": "what it holds is done by each device with its part of the arrays, "
    "and no op of XLA's has such a computation",
    "stablehlo.async_start": "what begins and ends apart is made by XLA itself",
}
"""Why there is no op for some operations."""


def failure(operation: ir.Operation, reason: str) -> LoweringError:
    """The error of an operation that can't be imported."""
    where = recorded_at(operation.location).rstrip(",")
    return LoweringError(
        f"to_computation: {operation.name}{where}: {reason}", op=str(operation.name)
    )


def unknown(operation: ir.Operation) -> LoweringError:
    """The error of an operation that there is no op for."""
    why = _LACKING.get(operation.name)
    return failure(operation, "there is no op for it" + (f": {why}" if why else ""))


class Scope:
    """A body that is being recorded.

    Attributes:
        builder: what it is recorded with.
        tables: those of the module.
        functions: the computations of the functions that may be called, by symbol.
        values: the op of each value, by its number (see `bodies`).
        bodies: of the operation that is being recorded: the bodies of its regions.
        applied: the computations of regions that were recorded already, by body.
        taken_back_to: where ops were taken back, the number of the first of them.
    """

    __slots__ = (
        "_known",
        "_operation",
        "_types",
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
        self.values: dict[int, XlaOp] = {}
        self.bodies: tuple[Body, ...] = ()
        # Of the operation that is being recorded: what was found in its attributes, and the numbers
        # of its results' types.
        self._operation: ir.Operation | None = None
        self._known: dict[Any, Any] = {}
        self._types: Sequence[int] = ()
        self.taken_back_to = 0

    def attribute(self, operation: ir.Operation, name: str, default: Any = None) -> Any:
        """What an attribute of an operation says; see `tables.decoded`."""
        known = self.remembered(operation)
        try:
            return known[name, default]
        except KeyError:
            pass
        try:
            attribute = operation.attributes.get(name)
            found = default if attribute is None else self.tables.value(attribute)
            known[name, default] = found
            return found
        except TypeError:  # of complex elements, which MLIR's Python has no class for
            raise failure(operation, f"its {name} holds elements that can't be read") from None

    def read(self, operation: ir.Operation, name: str, reader: Callable[[ir.Attribute], T]) -> T:
        """What a reader of its kind of attributes makes of one that every such operation has."""
        known = self.remembered(operation)
        try:
            found: T = known[name, reader]
        except KeyError:
            found = known[name, reader] = self.tables.read(operation.attributes[name], reader)
        return found

    def remembered(self, operation: ir.Operation) -> dict[Any, Any]:
        """What was found in the attributes of an operation: of those that have the same, the same.

        It spares what asking MLIR takes, which is 2 us for an attribute.
        """
        return self._known if operation is self._operation else {}

    def has(self, operation: ir.Operation, name: str) -> bool:
        """Whether an operation has an attribute of this name."""
        known = self.remembered(operation)
        found: bool | None = known.get(name)
        if found is None:
            found = known[name] = name in operation.attributes
        return found

    def result_shape(self, operation: ir.Operation, number: int = 0) -> ArrayShape | TokenShape:
        """The shape that the file says a result has."""
        shape = None
        if operation is self._operation:
            shape = self.tables.numbered_shapes.get(self._types[number])
        if shape is None:
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
        values, tables, builder = self.values, self.tables, self.builder
        ops, notes, places = builder.ops, builder.current_notes, tables.numbered_places
        alike, made, applied = tables.alike, tables.made, self.applied
        number = body.first + body.argument_count
        value_of = values.__getitem__
        for position, entry in enumerate(body.entries[:-1]):
            kind, location, attributes, properties, types, numbers, inner = entry
            # Here and below `map` goes without a frame of Python's, in two thirds of the time.
            operands = tuple(map(value_of, numbers))
            begin = len(ops)
            key: tuple[Any, ...] | None = None
            if alike[kind] and attributes < 0 and len(types) == 1:
                # Of 10,000 operations some dozens differ in more than the values of their operands.
                # To append the others as shape inference has found the first of their kind takes
                # 1 us, and to go through the public op again 2 to 10.
                key = kind, properties, types[0], *map(_shape_of, operands)
                if inner:
                    key = *key, *[applied[one] for one in inner]
                known = made.get(key)
                if known is not None:
                    # As `recording.append`: written out, since a call more costs a tenth.
                    op = _new(XlaOp)
                    op.opcode, op.shape, op.attributes = known
                    op.operands = operands
                    op.builder = builder
                    op.notes = notes
                    op.id = begin
                    place = places.get(location) or tables.numbered_place(body, position)
                    op.code, op.lasti, name = place
                    if name is not None:
                        op.name = name
                    ops.append(op)
                    values[number] = op
                    number += 1
                    continue
            found = self._import(body, position, [*operands])
            if key is not None:
                self._keep(key, begin, found[0], operands)
            values.update((number + n, one) for n, one in enumerate(found) if one is not None)
            number += len(types)
        return [values[value] for value in body.entries[-1][5]]

    def _import(self, body: Body, position: int, operands: list[XlaOp]) -> Sequence[XlaOp | None]:
        """Records an operation by its importer; gives the values of its results."""
        _, _, attributes, _, types, _, _ = body.entries[position]
        ops, tables = self.builder.ops, self.tables
        begin = len(ops)
        found = self._call_importer(body, position, operands)
        if isinstance(found, XlaOp):
            found = (found,)
        begin = begin if len(ops) >= begin else self.taken_back_to
        self._note_places(ops[begin:], tables.numbered_place(body, position))
        if attributes >= 0:  # others than the properties that every operation of its kind has
            self._note(body.operation(position), begin)
        shapes = tables.numbered_shapes
        for offset, (type_, one) in enumerate(zip(types, found, strict=True)):
            if one is not None and one.shape is not shapes.get(type_):
                operation = body.operation(position)
                self._check_shape(operation, operation.results[offset], one)
                shapes[type_] = one.shape
        return found

    def _call_importer(self, body: Body, position: int, operands: list[XlaOp]) -> Imported:
        kind, _, attributes, properties, types, _, inner = body.entries[position]
        tables = self.tables
        try:
            plain = tables.plain[kind]
            if plain is not None:
                return plain(*operands)
            recorder = tables.importers[kind]
            operation = self._operation = body.operation(position)
            if recorder is None:
                raise unknown(operation)
            self.bodies, self._types = inner, types
            self._known = tables.known[kind, attributes, properties]
            return recorder(self, operation, operands)
        except LoweringError:
            raise
        except XlaError as error:
            raise failure(body.operation(position), str(error)) from error
        except RecursionError:
            reason = "its types or attributes are nested too deep"
            raise failure(body.operation(position), reason) from None

    def _keep(
        self, key: tuple[Any, ...], begin: int, found: XlaOp | None, operands: Sequence[XlaOp]
    ) -> None:
        """Keeps what an operation has become, if it is one op with the same operands."""
        recorded = self.builder.ops[begin:]
        if (
            found is not None
            and len(recorded) == 1
            and recorded[0] is found
            and len(found.operands) == len(operands)
            and all(map(operator.is_, found.operands, operands))
        ):
            self.tables.made[key] = found.opcode, found.shape, found.attributes

    def _check_shape(self, operation: ir.Operation, result: Value, op: XlaOp) -> None:
        """Refuses an op whose shape is not that of the result which it stands for."""
        said = self.tables.shape(result.type)
        if op.shape is not said:
            raise failure(
                operation,
                f"the file says that it gives {said}, and by shape inference it gives {op.shape}",
            )

    def _note_places(self, recorded: list[XlaOp], place: Place) -> None:
        """Notes on ops where they are from, and on the one that does the work the name."""
        code, offset, name = place
        for op in recorded:
            op.code, op.lasti = code, offset
        if recorded and name is not None:
            _principal(recorded).name = name

    def placed(self, begin: int, place: Place) -> None:
        """Notes on the ops recorded from number `begin` on that they are from there."""
        code, offset, _ = place
        self._note_places(self.builder.ops[begin:], (code, offset, None))

    def _note(self, operation: ir.Operation, begin: int) -> None:
        """Notes on the op that stands for an operation what that says for others."""
        if not has_foreign(operation):
            return
        names = foreign_names(operation)
        if not names:
            return
        recorded = self.builder.ops[begin:]
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

    def results(self, operation: ir.Operation, value: XlaOp) -> Imported:
        """A value as the results of an operation: a tuple's elements, another as it is."""
        return self.elements(operation, value) if isinstance(value.shape, TupleShape) else value

    def elements(self, operation: ir.Operation, whole: XlaOp) -> list[XlaOp | None]:
        """The first elements of a tuple as the results of an operation, those that are used."""
        return [
            None if next(iter(result.uses), None) is None else whole[number]
            for number, result in enumerate(operation.results)
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
