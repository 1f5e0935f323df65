"""The least that recording costs in Python, and building a module operation by operation.

Whoever records ops in Python makes an object of each, with what it takes from others: `objects`
makes these, and nothing else.

An existing module is walked once, and all that its operations are made of is noted: names, result
types, attributes, locations, and for each operand its place in the list of values so far. Building
is then one call of `ir.Operation.create` for each operation, those in regions included, and the
verifier. Nothing is inferred, translated or looked up but the operands, which any program has to
find. The data of constants was copied into the context when the first module was made, and isn't
again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxlib.mlir import ir

__all__ = ["Floor", "objects"]


class _Object:
    """As many attributes as an XlaOp has."""

    __slots__ = ("a", "b", "c", "d", "e", "f", "g", "h", "operands")


def objects(count: int) -> list[_Object]:
    """So many objects, each with a tuple of two that were there before."""
    made: list[_Object] = []
    new = object.__new__
    first = before = _Object()
    for number in range(count):
        one = new(_Object)
        one.a = one.b = one.c = one.d = None
        one.e = one.f = one.g = None
        one.h = number
        one.operands = (before, first)
        made.append(one)
        before = one
    return made


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
    # Of each region its blocks, and StableHLO has one in each; None where there are no regions.
    regions: tuple[tuple[_Block, ...], ...] | None


def _attributes(operation: Any) -> dict[str, Any] | None:
    found = operation.attributes
    # One entry is a NamedAttribute in jaxlib 0.10, the name alone from 0.11 on.
    names = [getattr(entry, "name", entry) for entry in found]
    return {name: found[name] for name in names} or None


class Floor:
    """Builds a module again.

    Attributes:
        count: how many operations it has, those in regions included.
    """

    def __init__(self, module: Any) -> None:
        self.count = 0
        self._location = ir.Location.unknown(module.context)
        # The place of each value in the list of values so far.
        self._places: dict[Any, int] = {}
        self._name = _attributes(module.operation)
        operations = [one.operation for one in module.body.operations]
        self._operations = tuple(self._walked(operation) for operation in operations)
        del self._places

    def _place(self, value: Any) -> None:
        self._places[value] = len(self._places)

    def _walked(self, operation: Any) -> _Operation:
        self.count += 1
        operands = tuple(self._places[value] for value in operation.operands)
        regions = tuple(
            tuple(self._walked_block(block) for block in region.blocks)
            for region in operation.regions
        )
        for result in operation.results:
            self._place(result)
        return _Operation(
            operation.name,
            tuple(result.type for result in operation.results),
            operands,
            _attributes(operation),
            operation.location,
            regions or None,
        )

    def _walked_block(self, block: Any) -> _Block:
        for argument in block.arguments:
            self._place(argument)
        return _Block(
            tuple(argument.type for argument in block.arguments),
            tuple(argument.location for argument in block.arguments),
            tuple(self._walked(one.operation) for one in block.operations),
        )

    def create(self) -> Any:
        """The module, not verified."""
        module = ir.Module.create(self._location)
        for name, attribute in (self._name or {}).items():
            module.operation.attributes[name] = attribute
        with ir.InsertionPoint(module.body):
            self._build(self._operations, [])
        return module

    def _build(self, operations: tuple[_Operation, ...], values: list[Any]) -> None:
        create = ir.Operation.create
        for name, types, operands, attributes, location, regions in operations:
            found = [values[place] for place in operands]
            if regions is None:
                made = create(name, types, found, attributes, None, 0, location)
            else:
                made = create(name, types, found, attributes, None, len(regions), location)
                for region, blocks in zip(made.regions, regions, strict=True):
                    for inner in blocks:
                        block = ir.Block.create_at_start(region, inner.types, inner.locations)
                        values.extend(block.arguments)
                        with ir.InsertionPoint(block):
                            self._build(inner.operations, values)
            if len(types) == 1:
                values.append(made.result)
            elif types:
                values.extend(made.results)
