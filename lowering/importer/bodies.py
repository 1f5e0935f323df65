"""What a function of a module consists of: its operations, and the regions inside them.

An operation is an `Entry` of numbers, as they stand in the module's bytecode (see `outline`).
MLIR's own object of it is made when something is asked of it: of an addition nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from jaxlib.mlir import ir

from lowering.importer.registry import Value

__all__ = ["Body", "Entry", "Holder"]

Entry = tuple[int, int, int, int, Sequence[int], Sequence[int], "tuple[Body, ...]"]
"""An operation: the numbers of its name, location, attributes and properties (-1 if it has none),
of its results' types and of its operands; and the bodies of its regions."""

Holder = tuple["Body", int, "tuple[Body, ...]"]
"""An operation with regions: the body that it stands in, its position there, and their bodies."""

_STEPS: Final = 100
"""From operation to operation MLIR goes so many times in the time that Python's iterator needs."""


class Body:
    """The one block of a region.

    Values are numbers: those of a body begin where those around it end, arguments come first, then
    the results of its operations in order. A body that uses nothing from outside begins at 0.

    Attributes:
        first: the number of its first value.
        count: how many values it has.
        types: of each of them the number of its type.
        argument_count: how many of them are the block's arguments.
        argument_places: of each argument the number of its location; -1 if it has none.
        entries: its operations; the terminator is last.
        captures: values from outside that operations here use, or those in regions inside, each
            once, in the order of their first use. Of a function there are none.
        holder: the body around it, the position there of the operation that it belongs to, and the
            number of the region.
    """

    __slots__ = (
        "_block",
        "_operations",
        "_rest",
        "_steps",
        "_walked",
        "argument_count",
        "argument_places",
        "captures",
        "count",
        "entries",
        "first",
        "holder",
        "types",
    )

    def __init__(self, first: int, count: int, holder: tuple[Body, int, int] | None) -> None:
        self.first = first
        self.count = count
        self.holder = holder
        self.types: list[int] = []
        self.argument_count = 0
        self.argument_places: list[int] = []
        self.entries: list[Entry] = []
        self.captures: list[int] = []
        self._block: Any = None
        self._operations: dict[int, ir.Operation] = {}
        # The operations that Python's iterator has not come to, and how many it has; how many steps
        # MLIR has taken since to find others.
        self._rest: Iterator[ir.Operation] | None = None
        self._walked = 0
        self._steps = 0

    def stands_for(self, block: Any) -> None:
        """Says which block of MLIR's it is; others know it by the body around them."""
        self._block = block

    @property
    def block(self) -> Any:
        """MLIR's own object."""
        outer: list[Body] = []
        body = self
        while body._block is None:
            outer.append(body)
            assert body.holder is not None  # or the block is known
            body = body.holder[0]
        for body in reversed(outer):
            assert body.holder is not None
            around, position, region = body.holder
            body._block = around.operation(position).regions[region].blocks[0]
        return self._block

    @property
    def arguments(self) -> list[Value]:
        """The block's arguments."""
        return list(self.block.arguments)

    def operation(self, position: int) -> ir.Operation:
        """MLIR's own object of an operation.

        It is a link of a chain. Python's iterator takes 1 us a link, and MLIR goes from the first
        to one that is asked for in 10 ns a link. So that is done until it has taken as long as the
        iterator would have: of 10,000 operations mostly some dozens are asked for, which took
        0.4 us for each of all.
        """
        known = self._operations
        found = known.get(position)
        if found is not None:
            return found
        left = position + 1 - self._walked
        self._steps += position
        if self._steps < (left - 1) * _STEPS:
            known[position] = self.block.operations[position].operation
            return known[position]
        if self._rest is None:
            self._rest = (view.operation for view in self.block.operations)
        for number, one in enumerate(islice(self._rest, left), self._walked):
            known.setdefault(number, one)
        self._walked, self._steps = position + 1, 0
        return known[position]

    def around(self, value: int) -> Body:
        """The body that has a value which may be used here."""
        body = self
        while value < body.first:
            assert body.holder is not None  # what is outside is somewhere
            body = body.holder[0]
        return body

    def type_of(self, value: int) -> int:
        """The number of the type of a value that may be used here."""
        if value >= self.first:  # nearly always, in a third of the time
            return self.types[value - self.first]
        body = self.around(value)
        return body.types[value - body.first]

    def definition(self, value: int) -> tuple[int, int] | None:
        """The position of the operation with this result, and which it is; None of an argument."""
        left = value - self.first - self.argument_count
        if left < 0:
            return None
        for position, entry in enumerate(self.entries):
            results = len(entry[4])
            if left < results:
                return position, left
            left -= results
        raise AssertionError(f"no value {value} in {self.first} + {self.count}")

    def value(self, value: int) -> Value:
        """MLIR's own object of a value that may be used here."""
        body = self.around(value)
        found = body.definition(value)
        if found is None:
            return body.arguments[value - body.first]
        position, number = found
        result: Value = body.operation(position).results[number]
        return result

    def find_captures(self) -> None:
        """Fills in the captures, when inner bodies have theirs."""
        first = self.first
        if first:
            captures: dict[int, None] = {}
            for *_, operands, inner in self.entries:
                captures.update((value, None) for value in operands if value < first)
                for one in inner:
                    captures.update((value, None) for value in one.captures if value < first)
            self.captures = list(captures)
