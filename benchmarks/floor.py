"""Lower bounds for recording ops in Python and for building a module operation by operation.

A recorder in Python creates an object per op, with references to other objects. `objects` creates
these and nothing else.

`Floor` traverses an existing module once and stores the parts of its operations: names, result
types, attributes, locations, and the index of each operand in the list of values so far. Building
is then a call of `ir.Operation.create` for each operation, including those in regions, followed by
the verifier. Nothing is inferred, translated or looked up except the operands. The data of
constants is in the context already and is not copied again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxlib.mlir import ir

__all__ = ["Floor", "objects"]


class _Object:
    """As many attributes as an XlaOp has."""

    __slots__ = ("a", "b", "c", "d", "e", "f", "g", "h", "operands")


def objects(count: int) -> list[_Object]:
    """Return `count` objects, each with a tuple of two earlier ones."""
    created: list[_Object] = []
    new = object.__new__
    first = previous = _Object()
    for number in range(count):
        current = new(_Object)
        current.a = current.b = current.c = current.d = None
        current.e = current.f = current.g = None
        current.h = number
        current.operands = (previous, first)
        created.append(current)
        previous = current
    return created


class _Block(NamedTuple):
    types: tuple[Any, ...]
    locations: tuple[Any, ...]
    operations: tuple[_Operation, ...]


class _Operation(NamedTuple):
    name: str
    types: tuple[Any, ...]
    operands: tuple[int, ...]
    attributes: Any
    location: Any
    # The blocks of each region; None without regions.
    regions: tuple[tuple[_Block, ...], ...] | None


def _attributes(operation: Any) -> dict[str, Any] | None:
    attributes = operation.attributes
    # Iteration gives NamedAttribute objects in jaxlib 0.10, and names from 0.11 on.
    names = [getattr(entry, "name", entry) for entry in attributes]
    return {name: attributes[name] for name in names} or None


class Floor:
    """Rebuilds a module.

    Attributes:
        count: the number of its operations, including those in regions.
    """

    def __init__(self, module: Any) -> None:
        self.count = 0
        self._location = ir.Location.unknown(module.context)
        # The index of each value in the list of values so far.
        self._indices: dict[Any, int] = {}
        self._module_attributes = _attributes(module.operation) or {}
        self._operations = self._described(module.body)
        del self._indices

    def _number(self, values: Any) -> None:
        for value in values:
            self._indices[value] = len(self._indices)

    def _described(self, block: Any) -> tuple[_Operation, ...]:
        return tuple(self._describe(view.operation) for view in block.operations)

    def _describe(self, operation: Any) -> _Operation:
        self.count += 1
        operands = tuple(self._indices[value] for value in operation.operands)
        regions = tuple(
            tuple(self._describe_block(block) for block in region.blocks)
            for region in operation.regions
        )
        self._number(operation.results)
        return _Operation(
            operation.name,
            tuple(result.type for result in operation.results),
            operands,
            _attributes(operation),
            operation.location,
            regions or None,
        )

    def _describe_block(self, block: Any) -> _Block:
        self._number(block.arguments)
        return _Block(
            tuple(argument.type for argument in block.arguments),
            tuple(argument.location for argument in block.arguments),
            self._described(block),
        )

    def create(self) -> Any:
        """Return the module, not verified."""
        module = ir.Module.create(self._location)
        for name, attribute in self._module_attributes.items():
            module.operation.attributes[name] = attribute
        with ir.InsertionPoint(module.body):
            self._build(self._operations, [])
        return module

    def _build(self, operations: tuple[_Operation, ...], values: list[Any]) -> None:
        create = ir.Operation.create
        for name, types, operands, attributes, location, regions in operations:
            arguments = [values[index] for index in operands]
            if regions is None:
                created = create(name, types, arguments, attributes, None, 0, location)
            else:
                count = len(regions)
                created = create(name, types, arguments, attributes, None, count, location)
                for region, blocks in zip(created.regions, regions, strict=True):
                    for inner in blocks:
                        block = ir.Block.create_at_start(region, inner.types, inner.locations)
                        values.extend(block.arguments)
                        with ir.InsertionPoint(block):
                            self._build(inner.operations, values)
            if len(types) == 1:
                values.append(created.result)
            elif types:
                values.extend(created.results)
