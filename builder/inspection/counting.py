"""Compute the costs for `XlaComputation.stats`. Each computation is counted once, callees first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.costs import Cost, cost_of, size_in_bytes
from builder.inspection.stats import ArrayTotals, ComputationStats, LoopStats, OpcodeStats
from builder.inspection.trip_count import trip_count
from builder.schema import SCHEMAS, CostClass
from builder.types.shape import ArrayShape, Shape, leaves

_Row = tuple[int, ...]
"""Four numbers for an opcode: executions, FLOPs, transcendentals and bytes accessed."""

_Rows = Mapping[str, _Row]
"""The row (executions, FLOPs, transcendentals, bytes accessed) of each opcode."""

_LOOPS: Final = ("while", "scan")


class _Counter:
    """Counts the ops of computations.

    Attributes:
        rows: the cost of one run of each computation, by opcode.
        costs: the cost of one run of each computation, in total.
        loops: the loops in the counted computations.
        recorded: the number of recorded ops by opcode.
    """

    def __init__(self) -> None:
        self.rows: dict[XlaComputation, _Rows] = {}
        self.costs: dict[XlaComputation, Cost] = {}
        self.loops: list[LoopStats] = []
        self.recorded: Counter[str] = Counter()

    def count(self, computation: XlaComputation) -> None:
        """Count a computation whose applied computations have been counted."""
        rows: dict[str, _Row] = {}
        # Ops with the same opcode, shapes and attributes have the same cost.
        counts: Counter[tuple[object, ...]] = Counter()
        examples: dict[tuple[object, ...], XlaOp] = {}
        for op in computation.ops:
            key: tuple[object, ...] = (
                op.opcode,
                op.shape,
                # The trip count of a loop depends on its initial values.
                op.id if op.opcode == "while" else id(op.attributes),
                *[o.shape for o in op.operands],
            )
            counts[key] += 1
            examples.setdefault(key, op)
        for key, count in counts.items():
            op = examples[key]
            self.recorded[op.opcode] += count
            _add(rows, {op.opcode: (1, *cost_of(op, self.costs.__getitem__))}, count)
            for called, runs in self._called(op, computation, count):
                _add(rows, called, runs * count)
        self.rows[computation] = rows
        self.costs[computation] = Cost(
            *[sum(row[kind] for row in rows.values()) for kind in (1, 2, 3)]
        )

    def _called(
        self, op: XlaOp, computation: XlaComputation, count: int
    ) -> list[tuple[_Rows, int]]:
        """Return the rows and the number of runs of each computation that a control-flow op runs.

        An empty list for other ops.
        """
        attributes, rows = op.attributes, self.rows
        if op.opcode in ("call", "composite"):
            return [(rows[attributes["to_apply"]], 1)]
        if op.opcode == "conditional":
            return [(self._most_expensive(attributes["branch_computations"]), 1)]
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

    def _most_expensive(self, branches: Iterable[XlaComputation]) -> _Rows:
        """Return, as XLA does, each kind of cost from the branch in which it is highest."""
        result: dict[str, list[int]] = {}
        for kind in range(4):
            rows = max(
                (self.rows[branch] for branch in branches),
                key=lambda rows: sum(row[kind] for row in rows.values()),
            )
            for opcode, row in rows.items():
                if row[kind]:
                    result.setdefault(opcode, [0, 0, 0, 0])[kind] = row[kind]
        return {opcode: tuple(row) for opcode, row in result.items()}


def _add(rows: dict[str, _Row], added: _Rows, times: int) -> None:
    for opcode, row in added.items():
        old = rows.get(opcode, (0, 0, 0, 0))
        rows[opcode] = tuple(a + times * b for a, b in zip(old, row, strict=True))


def stats_of(computation: XlaComputation) -> ComputationStats:
    """Return the cost of a computation; see `XlaComputation.stats`."""
    counter = _Counter()
    called = computation.called_computations()
    constants: list[Shape] = []
    for each in (*called, computation):
        counter.count(each)
        constants += [op.shape for op in each.ops if op.opcode == "constant"]
    rows, cost = counter.rows[computation], counter.costs[computation]
    by_opcode = [
        OpcodeStats(opcode, count, *rows.get(opcode, (0, 0, 0, 0)))
        for opcode, count in counter.recorded.items()
    ]
    by_opcode.sort(key=lambda stats: (-stats.flops, -stats.bytes_accessed, stats.opcode))
    shape = computation.program_shape
    return ComputationStats(
        name=computation.name,
        ops=counter.recorded.total(),
        computations=len(called),
        parameters=_totals(shape.parameters),
        constants=_totals(constants),
        results=_totals([shape.result]),
        by_opcode=MappingProxyType({stats.opcode: stats for stats in by_opcode}),
        flops=cost.flops,
        transcendentals=cost.transcendentals,
        bytes_accessed=cost.bytes_accessed,
        loops=tuple(sorted(counter.loops, key=lambda loop: loop.trip_count is not None)),
        uncounted=MappingProxyType(
            {
                opcode: count
                for opcode, count in counter.recorded.items()
                if SCHEMAS[opcode].cost is CostClass.CUSTOM
            }
        ),
    )


def _totals(shapes: Iterable[Shape]) -> ArrayTotals:
    arrays = [leaf for shape in shapes for leaf in leaves(shape) if isinstance(leaf, ArrayShape)]
    size = sum(size_in_bytes(array) for array in arrays)
    return ArrayTotals(len(arrays), sum(array.element_count for array in arrays), size)
