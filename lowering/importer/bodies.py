"""What a function of a module consists of: its operations, and the regions inside them.

Regions stand in operations, which stand in regions, and so on. All are found first, and listed the
inner ones before those around them: whoever goes through the list has what is inside when it comes
to what is around it, and nothing recurses.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from lowering.importer.registry import Value

__all__ = ["Body", "Holder", "bodies"]


class Body:
    """The one block of a region.

    Attributes:
        operations: its operations, each with the bodies of its regions; the terminator is last.
        arguments: the block's arguments.
        captures: values from outside that operations here use, or those in regions inside, each
            once, in the order of their first use. Of a function there are none.
    """

    __slots__ = ("arguments", "captures", "operations")

    operations: list[tuple[ir.Operation, tuple[Body, ...]]]
    arguments: list[Value]
    captures: list[Value]

    def __init__(self, block: Any) -> None:
        self.arguments = list(block.arguments)
        self.captures = []
        self.operations = []


Holder = tuple[ir.Operation, tuple[Body, ...]]
"""An operation with regions, and their bodies."""


def bodies(function: ir.Operation) -> tuple[Body, list[Holder]]:
    """The body of a function, and the operations in it that have regions, inner ones first."""
    block = function.regions[0].blocks[0]
    whole = Body(block)
    holders: list[Holder] = []
    pending = [(whole, block)]
    while pending:
        body, block = pending.pop()
        for view in block.operations:
            operation = view.operation
            inner: tuple[Body, ...] = ()
            if len(operation.regions):
                blocks = [region.blocks[0] for region in operation.regions if len(region.blocks)]
                inner = tuple(map(Body, blocks))
                holders.append((operation, inner))
                pending += zip(inner, blocks, strict=True)
            body.operations.append((operation, inner))
    holders.reverse()
    for _, inner in holders:
        for one in inner:
            _find_captures(one)
    return whole, holders


def _find_captures(body: Body) -> None:
    """Fills in the captures of a body, whose inner ones have theirs."""
    inside = set(body.arguments)
    captures: dict[Value, None] = {}
    for operation, inner in body.operations:
        used = [*operation.operands, *(value for one in inner for value in one.captures)]
        captures.update((value, None) for value in used if value not in inside)
        inside.update(operation.results)
    body.captures = list(captures)
