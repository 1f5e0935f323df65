"""Scope: records the operations of one function body or region.

A scope loops over the operations of a body, and calls the importer for each operation's name. Each
function and each region becomes a computation, which is recorded after the computations that it
applies.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from jaxlib.mlir import ir

from builder.errors import XlaError
from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.control_flow import call as xb_call, tuple as xb_tuple
from builder.schema import SCHEMAS
from builder.types.shape import ArrayShape, TokenShape, TupleShape
from lowering.errors import LoweringError
from lowering.importer.annotations import annotate, foreign_names
from lowering.importer.by_schema import encoded_importer, importer_of, schema_importer
from lowering.importer.tables import Place, Tables
from lowering.mlir.attributes import UNREADABLE
from lowering.mlir.types import UnsupportedTypeError
from lowering.ops.importing import failure, is_used, unsupported
from lowering.sharding.texts import SHARDINGS
from lowering.stablehlo.schema_attributes import read_attributes


class Body:
    """The one block of a region.

    Attributes:
        arguments: the block's arguments.
        operations: the block's operations; the terminator is last.
        inner: the bodies of the operations with regions, by position in `operations`.
        captures: the values from outside that operations here or in inner regions use, without
            duplicates, in the order of first use. Empty for the body of a function.
    """

    __slots__ = ("_numbers", "arguments", "captures", "inner", "operations")

    def __init__(self, block: ir.Block) -> None:
        self.arguments: list[ir.Value[Any]] = list(block.arguments)
        self.operations: list[ir.Operation] = [view.operation for view in block.operations]
        self.inner: dict[int, tuple[Body, ...]] = {}
        self.captures: list[ir.Value[Any]] = []
        self._numbers: dict[ir.Value[Any], int] = {}

    def find_captures(self) -> None:
        """Set `captures`. The captures of inner bodies must be set."""
        numbers = self._numbers
        captures: dict[ir.Value[Any], None] = {}
        for value in self.arguments:
            numbers[value] = len(numbers)
        for position, operation in enumerate(self.operations):
            used = list(operation.operands)
            for body in self.inner.get(position, ()):
                used += body.captures
            captures.update(dict.fromkeys(value for value in used if value not in numbers))
            for value in operation.results:
                numbers[value] = len(numbers)
        self.captures = list(captures)

    def key(self, *, with_locations: bool) -> tuple[Any, ...] | None:
        """Return a key that is equal for bodies that consist of equal operations.

        Return None for a body that is not compared: it uses values from outside, contains regions,
        or has attributes that Python cannot read.
        """
        if self.captures or self.inner:
            return None
        numbers = self._numbers
        key: list[Any] = [value.type for value in self.arguments]
        for operation in self.operations:
            attributes = operation.attributes
            try:
                named = [(name, attributes[name]) for name in attributes]
            except TypeError:  # complex elements have no Python class
                return None
            key += operation.name, *named, *[numbers[value] for value in operation.operands]
            key += [value.type for value in operation.results]
            if with_locations:
                # Equal locations have different hashes, and their attributes equal ones.
                key.append(operation.location.attr)
        return tuple(key)


class RegionOperation(NamedTuple):
    """An operation with regions, and their bodies."""

    operation: ir.Operation
    bodies: tuple[Body, ...]


def region_operations(function: ir.Operation) -> list[RegionOperation]:
    """Return a function and its operations that have regions; inner operations come first."""
    operations: list[RegionOperation] = []
    pending = [RegionOperation(function, _bodies(function))]
    while pending:
        current = pending.pop()
        operations.append(current)
        for body in current.bodies:
            for position, operation in enumerate(body.operations):
                if len(operation.regions):
                    body.inner[position] = _bodies(operation)
                    pending.append(RegionOperation(operation, body.inner[position]))
    operations.reverse()
    for _, bodies in operations[:-1]:
        for body in bodies:
            body.find_captures()
    return operations


def _bodies(operation: ir.Operation) -> tuple[Body, ...]:
    return tuple(Body(region.blocks[0]) for region in operation.regions if len(region.blocks))


_NO_OPERATION: Final = frozenset(("tuple", "get_tuple_element"))
"""Opcodes that are lowered to no operation. An attribute in the metadata of such an op would be
lost."""


class Scope:
    """Records the operations of a body with a builder.

    Attributes:
        builder: the XlaBuilder that records the operations.
        tables: the caches of the import.
        functions: the computations of recorded functions, by symbol.
        computations: the computations of recorded regions, by body.
        values: the op of each MLIR value.
        bodies: the bodies of the regions of the current operation.
    """

    __slots__ = (
        "_start",
        "bodies",
        "builder",
        "computations",
        "functions",
        "tables",
        "values",
    )

    def __init__(
        self,
        builder: XlaBuilder,
        tables: Tables,
        functions: dict[str, XlaComputation],
        computations: dict[Body, XlaComputation],
    ) -> None:
        self.builder = builder
        self.tables = tables
        self.functions = functions
        self.computations = computations
        self.values: dict[ir.Value[Any], XlaOp] = {}
        self.bodies: tuple[Body, ...] = ()
        self._start = 0

    def attribute(self, operation: ir.Operation, name: str, default: Any = None) -> Any:
        """Return the value of an attribute of an operation; see `attribute_value`."""
        try:
            attribute = operation.attributes.get(name)
            return default if attribute is None else self.tables.value(attribute)
        except TypeError:  # MLIR's Python has no class for complex elements
            raise failure(operation, f"{name} {UNREADABLE}") from None

    def attributes(self, opcode: str, operation: ir.Operation) -> dict[str, Any]:
        """Return the attributes of an op with this opcode, from those of an operation."""
        return read_attributes(SCHEMAS[opcode], operation.attributes)

    def arguments(self, opcode: str, operation: ir.Operation, *supplied: str) -> dict[str, Any]:
        """Return the arguments of the public op for an operation, other than its operands.

        Args:
            opcode: the opcode whose schema describes the operation.
            operation: the operation.
            supplied: the parameters whose arguments the caller passes.
        """
        return schema_importer(opcode, *supplied).arguments(self, operation)

    def by_schema(
        self, opcode: str, operation: ir.Operation, operands: list[XlaOp], **arguments: Any
    ) -> XlaOp:
        """Record an operation by the importer that is derived from the schema of an opcode.

        Args:
            opcode: the opcode.
            operation: the operation.
            operands: its operands.
            arguments: arguments of the public op that the schema does not determine.
        """
        return schema_importer(opcode, *arguments)(self, operation, operands, **arguments)

    def chlo_op(
        self, operation: ir.Operation, operands: list[XlaOp], name: str, attributes: str
    ) -> XlaOp | None:
        """Record the CHLO operation that an operation encodes, as in portable artifacts.

        Args:
            operation: the operation.
            operands: its operands.
            name: the name of the CHLO operation.
            attributes: the name of the attribute that contains those of the CHLO operation.

        Returns:
            The op; None if the operation encodes none.
        """
        importer = encoded_importer(operation, name, attributes)
        if importer is None:
            return None
        return importer.call(operands, self.attribute(operation, attributes, {}))

    def result_shape(self, operation: ir.Operation, number: int = 0) -> ArrayShape | TokenShape:
        """Return the shape of a result, from its type in the file."""
        shape = self.tables.shape(operation.results[number].type)
        assert not isinstance(shape, TupleShape)  # verified by MLIR
        return shape

    def result_array(self, operation: ir.Operation) -> ArrayShape:
        """Return the array shape of the first result, from its type in the file."""
        shape = self.result_shape(operation)
        assert isinstance(shape, ArrayShape)  # verified by MLIR
        return shape

    def computation(self, number: int = 0) -> XlaComputation:
        """Return the computation of a region of the current operation."""
        return self.computations[self.bodies[number]]

    def captured(self, number: int = 0) -> list[XlaOp]:
        """Return the ops of the values from outside that a region of the current operation uses."""
        return [self.values[value] for value in self.bodies[number].captures]

    def tuple_of(self, ops: Sequence[XlaOp]) -> XlaOp:
        """Record a tuple, which may be empty."""
        return xb_tuple(*ops) if ops else self.builder.empty_tuple()

    def call(self, computation: XlaComputation, operands: Sequence[XlaOp]) -> XlaOp:
        """Record a call, which may have no operands."""
        return xb_call(computation, *operands) if operands else self.builder.call(computation)

    def record(self, body: Body) -> list[XlaOp]:
        """Record the operations of a body; return the ops of the values that the body returns."""
        values = self.values
        *operations, last = body.operations
        self.tables.find_places(operations)
        for position, operation in enumerate(operations):
            self.bodies = body.inner.get(position, ())
            operands: list[Any] = [values.get(value) for value in operation.operands]
            try:
                ops = self._import(operation, operands)
                shapes = [self.tables.shape(result.type) for result in operation.results]
            except UnsupportedTypeError as error:
                fix = "use arrays of XLA's element types, without an encoding"
                raise failure(operation, error, fix=fix) from None
            for result, op, shape in zip(operation.results, ops, shapes, strict=True):
                if op is not None:
                    if op.shape is not shape:
                        reason = f"a result is {shape} in the file, and shape inference gives "
                        raise failure(operation, f"{reason}{op.shape}")
                    values[result] = op
        return [values[value] for value in last.operands]

    def _import(self, operation: ir.Operation, operands: list[XlaOp]) -> Sequence[XlaOp | None]:
        """Record an operation by its importer; return the op of each result."""
        name = operation.name
        self._start = len(self.builder.ops)
        importer = self.tables.importers.get(name)
        try:
            if importer is None:
                importer = importer_of(name)
                if importer is None:
                    raise unsupported(operation)
                self.tables.importers[name] = importer
            value = importer(self, operation, operands)
        except LoweringError:
            raise
        except XlaError as error:
            raise failure(operation, error) from error
        except RecursionError:
            raise failure(operation, "types or attributes are nested too deep") from None
        results: Sequence[XlaOp | None]
        if not isinstance(value, XlaOp):
            results = value
        elif type(value.shape) is TupleShape:
            results = _elements(operation, value)
        else:
            results = (value,)
        recorded = self.builder.ops[self._start :]
        place = self.tables.place(operation.location)
        _set_place(recorded, place)
        if recorded and place.name is not None:
            _principal(recorded).name = place.name
        names = foreign_names(operation, name, self.tables)
        if names:
            self._annotate(operation, names, recorded)
        return results

    def set_place(self, start: int, location: ir.Location) -> None:
        """Set the source line of the ops from number `start` on."""
        _set_place(self.builder.ops[start:], self.tables.place(location))

    def _annotate(
        self, operation: ir.Operation, names: Sequence[str], recorded: Sequence[XlaOp]
    ) -> None:
        """Set the metadata of the principal op of an operation from the attributes `names`."""
        if not recorded:  # the operation is dropped with its attributes
            lost = [name for name in names if name in SHARDINGS]
            if lost:
                raise failure(
                    operation,
                    f"the import removes the operation, and its attribute {lost[0]} is lost",
                )
            return
        try:
            annotate(_principal(recorded), operation.attributes, names, self.tables)
        except LoweringError as error:
            raise failure(operation, error) from None

    def drop_last(self, ops: Sequence[XlaOp], values: Iterable[ir.Value[Any]]) -> None:
        """Remove `ops` if they are the last recorded ops and each of `values` has one user.

        Ops with annotations remain.
        """
        recorded = self.builder.ops
        start = len(recorded) - len(ops)
        are_last = start >= 0 and all(map(operator.is_, recorded[start:], ops))
        is_annotated = any(op.metadata is not None and any(op.metadata[1:4]) for op in ops)
        if are_last and not is_annotated and all(len(list(value.uses)) == 1 for value in values):
            self._start = start
            del recorded[start:]


def _set_place(ops: Iterable[XlaOp], place: Place) -> None:
    code, offset, _, op_type = place
    for op in ops:
        op._code, op._lasti = code, offset
        if op_type is not None:
            op.op_type = op_type


def _elements(operation: ir.Operation, value: XlaOp) -> Sequence[XlaOp | None]:
    """Split a tuple into the results of an operation, None for an unused result.

    If the operation has one result, a tuple, return the tuple itself.
    """
    results = list(operation.results)
    if len(results) == 1 and isinstance(results[0].type, ir.TupleType):
        return (value,)
    return [value[number] if is_used(result) else None for number, result in enumerate(results)]


def _principal(recorded: Sequence[XlaOp]) -> XlaOp:
    """Return the op that represents an operation, among the ops recorded for the operation."""
    return next((op for op in reversed(recorded) if op.opcode not in _NO_OPERATION), recorded[-1])
