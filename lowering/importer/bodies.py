"""The regions of a function: their operations, and the values that they use from outside."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxlib.mlir import ir


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
