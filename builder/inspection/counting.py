"""Counting what computations cost: each once, callees before callers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.costs import CUSTOM, Cost, cost_of, size_in_bytes
from builder.inspection.stats import ArrayTotals, ComputationStats, LoopStats, OpcodeStats
from builder.inspection.trip_count import trip_count
from builder.types.shape import ArrayShape, Shape, leaves

__all__ = ["counted"]

_Row = tuple[int, int, int, int]
"""Executions, FLOPs, transcendentals and bytes of an opcode."""

_LOOPS: Final = ("while", "scan")


class _Tally:
    """What has been counted so far: of each computation what one run of it costs, by opcode."""

    def __init__(self) -> None:
        self.rows: dict[XlaComputation, dict[str, _Row]] = {}
        self.sums: dict[XlaComputation, Cost] = {}
        self.loops: list[LoopStats] = []
        self.recorded: Counter[str] = Counter()

    def applied(self, computation: XlaComputation) -> Cost:
        return self.sums[computation]

    def enter(self, computation: XlaComputation) -> None:
        """Counts a computation whose applied computations are all counted."""
        rows: dict[str, list[int]] = {}
        # Ops of the same opcode, shapes and attributes cost the same: 0.4 us an op, and not 2.
        times: Counter[tuple[object, ...]] = Counter()
        examples: dict[tuple[object, ...], XlaOp] = {}
        for op in computation.ops:
            opcode = op.opcode
            key: tuple[object, ...] = (
                opcode,
                op.shape,
                # Where a loop begins stands in the op before it.
                op.id if opcode == "while" else id(op.attributes),
                *[o.shape for o in op.operands],
            )
            times[key] += 1
            examples.setdefault(key, op)
        for key, count in times.items():
            op = examples[key]
            self.recorded[op.opcode] += count
            add(rows, op.opcode, (1, *cost_of(op, self.applied)), count)
            for inner, runs in self.entered(op, computation, count):
                for opcode, row in inner.items():
                    add(rows, opcode, row, runs * count)
        fixed = {opcode: (row[0], row[1], row[2], row[3]) for opcode, row in rows.items()}
        self.rows[computation] = fixed
        self.sums[computation] = Cost(
            *[sum(row[place] for row in fixed.values()) for place in (1, 2, 3)]
        )

    def entered(
        self, op: XlaOp, computation: XlaComputation, count: int
    ) -> Iterable[tuple[Mapping[str, _Row], int]]:
        """What control flow leads to from an op: the rows of computations, and how often."""
        attributes, rows = op.attributes, self.rows
        if op.opcode in ("call", "composite"):
            return [(rows[attributes["to_apply"]], 1)]
        if op.opcode == "conditional":
            return [(self.dearest(attributes["branch_computations"]), 1)]
        if op.opcode not in _LOOPS:
            return []
        trips = trip_count(op)
        numbers = [op.id]
        if count > 1:
            numbers = [o.id for o in computation.ops if o.attributes is attributes]
        self.loops += [LoopStats(computation.name, number, trips) for number in numbers]
        runs = 1 if trips is None else trips
        if op.opcode == "scan":
            return [(rows[attributes["to_apply"]], runs)]
        tests = 1 if trips is None else trips + 1
        return [(rows[attributes["body"]], runs), (rows[attributes["condition"]], tests)]

    def dearest(self, branches: Iterable[XlaComputation]) -> dict[str, _Row]:
        """Of each of the costs that of the branch where it is highest, as XLA has it."""
        found: dict[str, list[int]] = {}
        for place in range(4):
            best = max(
                (self.rows[branch] for branch in branches),
                key=lambda rows: sum(row[place] for row in rows.values()),
            )
            for opcode, row in best.items():
                if row[place]:
                    found.setdefault(opcode, [0, 0, 0, 0])[place] = row[place]
        return {opcode: (row[0], row[1], row[2], row[3]) for opcode, row in found.items()}


def add(rows: dict[str, list[int]], opcode: str, row: _Row, times: int) -> None:
    """Adds a row, so many times, to that of its opcode."""
    found = rows.get(opcode)
    if found is None:
        found = rows[opcode] = [0, 0, 0, 0]
    for place in range(4):
        found[place] += times * row[place]


def counted(computation: XlaComputation) -> ComputationStats:
    """What a computation costs."""
    tally = _Tally()
    called = computation.called_computations()
    constants: list[Shape] = []
    for one in (*called, computation):
        tally.enter(one)
        constants += [op.shape for op in one.ops if op.opcode == "constant"]
    rows, total = tally.rows[computation], tally.sums[computation]
    by_opcode = {
        opcode: OpcodeStats(opcode, count, *rows.get(opcode, (0, 0, 0, 0)))
        for opcode, count in tally.recorded.items()
    }
    ordered = sorted(
        by_opcode.values(), key=lambda one: (-one.flops, -one.bytes_accessed, one.opcode)
    )
    shape = computation.program_shape
    return ComputationStats(
        name=computation.name,
        ops=tally.recorded.total(),
        computations=len(called),
        parameters=_totals(shape.parameters),
        constants=_totals(constants),
        results=_totals([shape.result]),
        by_opcode=MappingProxyType({one.opcode: one for one in ordered}),
        flops=total.flops,
        transcendentals=total.transcendentals,
        bytes_accessed=total.bytes_accessed,
        loops=tuple(sorted(tally.loops, key=lambda loop: loop.trip_count is not None)),
        uncounted=MappingProxyType(
            {opcode: count for opcode, count in tally.recorded.items() if opcode in CUSTOM}
        ),
    )


def _totals(shapes: Iterable[Shape]) -> ArrayTotals:
    arrays = [leaf for shape in shapes for leaf in leaves(shape) if isinstance(leaf, ArrayShape)]
    size = sum(size_in_bytes(array) for array in arrays)
    return ArrayTotals(len(arrays), sum(array.element_count for array in arrays), size)
