"""The cost of a computation: its operations, and the bytes that the ops read and write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.costs import Cost, cost_of, size_in_bytes
from builder.inspection.rendering import Printable, bytes_text, flops_text
from builder.inspection.table import count_text
from builder.inspection.trip_count import trip_count
from builder.schema import SCHEMAS, CostClass
from builder.support.display import Column, TextTable
from builder.types.shape import ArrayShape, Shape, leaves


@dataclass(frozen=True, slots=True)
class ArrayTotals:
    """The number and the total size of several arrays, such as all parameters.

    Attributes:
        count: the number of arrays, including arrays in tuples.
        elements: the number of elements; a bounded dimension counts with its bound.
        bytes: the bytes of the elements.
    """

    count: int
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OpcodeStats:
    """The cost of all ops of one opcode.

    Attributes:
        opcode: the opcode.
        ops: the number of recorded ops, in the computation and in each computation that the
            computation applies.
        executions: the number of executed ops: an op in the body of a loop counts once per
            iteration. Ops of functions that are applied to elements, such as a reducer, are not
            counted: their operations are part of the op that applies them.
        flops: the number of arithmetic operations on elements, including integer operations and
            excluding transcendental functions.
        transcendentals: the number of transcendental functions of elements, such as exponentials,
            logarithms, roots and sines.
        bytes_accessed: the bytes that the ops read and write, without fusion.
    """

    opcode: str
    ops: int
    executions: int
    flops: int
    transcendentals: int
    bytes_accessed: int


class LoopStats(NamedTuple):
    """The trip count of a `while` or a `scan`.

    Attributes:
        computation: the name of the computation with the loop.
        number: the number of the loop op in that computation.
        trip_count: the number of iterations. If it is unknown, `trip_count` is None, and the stats
            count one iteration.
    """

    computation: str
    number: int
    trip_count: int | None


@dataclass(frozen=True, slots=True)
class ComputationStats(Printable):
    """The cost of a computation, in total and by opcode; returned by `XlaComputation.stats`.

    Attributes:
        name: the name of the computation.
        ops: the number of recorded ops, in this computation and in each computation that this
            computation applies, directly or indirectly.
        computations: the number of computations that this computation applies, directly or
            indirectly.
        parameters, constants, results: the `ArrayTotals` of parameters, constants and results.
        by_opcode: an `OpcodeStats` for each opcode, most FLOPs first.
        flops, transcendentals, bytes_accessed: the totals of all opcodes.
        loops: the loops with their trip counts.
        uncounted: for each opcode with unknown FLOPs, such as custom_call, the number of ops. Only
            the bytes of their operands and results are counted.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder("affine")
        >>> x, w = b.parameter(xb.f32[8, 32]), b.parameter(xb.f32[32, 16])
        >>> stats = b.build(xb.tanh(x @ w)).stats()
        >>> stats.flops, stats.transcendentals, stats.bytes_accessed
        (8192, 128, 4608)
        >>> stats.by_opcode["dot_general"].flops, stats.parameters.bytes
        (8192, 3072)
    """

    name: str
    ops: int
    computations: int
    parameters: ArrayTotals
    constants: ArrayTotals
    results: ArrayTotals
    by_opcode: Mapping[str, OpcodeStats]
    flops: int
    transcendentals: int
    bytes_accessed: int
    loops: tuple[LoopStats, ...]
    uncounted: Mapping[str, int]

    @property
    def unknown_loops(self) -> tuple[LoopStats, ...]:
        """The loops with an unknown trip count; the totals count one iteration of each loop."""
        return tuple(loop for loop in self.loops if loop.trip_count is None)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as a dict that `json.dumps` accepts."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__match_args__}
        return fields | {
            **{name: asdict(fields[name]) for name in _TOTALS},
            "by_opcode": {opcode: asdict(stats) for opcode, stats in self.by_opcode.items()},
            "loops": [loop._asdict() for loop in self.loops],
            "uncounted": dict(self.uncounted),
        }

    def _parts(self) -> list[TextTable]:
        executions = sum(stats.executions for stats in self.by_opcode.values())
        total = OpcodeStats(
            "all", self.ops, executions, self.flops, self.transcendentals, self.bytes_accessed
        )
        rows = [
            [
                stats.opcode,
                f"{stats.ops:,}",
                f"{stats.executions:,}",
                flops_text(stats.flops),
                f"{stats.transcendentals:,}",
                bytes_text(stats.bytes_accessed),
            ]
            for stats in (*self.by_opcode.values(), total)
        ]
        totals: list[tuple[str, ArrayTotals]] = [(name, getattr(self, name)) for name in _TOTALS]
        notes = [
            ", ".join(
                f"{name}: {arrays.count:,} ({count_text(arrays.elements, 'element')}, "
                f"{bytes_text(arrays.bytes)})"
                for name, arrays in totals
            )
        ]
        for loop in self.loops:
            count = loop.trip_count
            trips = "unknown trip count; counted once" if count is None else f"runs {count:,} times"
            notes.append(f"loop %{loop.number} of {loop.computation}: {trips}")
        for opcode, count in self.uncounted.items():
            plural = "" if count == 1 else "s"
            notes.append(f"{count:,} {opcode}{plural}: only bytes are counted")
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [f"and {len(notes) - _MAX_NOTES:,} more lines"]
        return [TextTable(self.name, _COLUMNS, rows, "\n".join(notes))]


_TOTALS: Final = ("parameters", "constants", "results")

_MAX_NOTES: Final = 20

_COLUMNS: Final = (
    Column("opcode", no_wrap=True, style="cyan"),
    Column("ops", is_number=True, no_wrap=True),
    Column("executions", is_number=True),
    Column("FLOPs", is_number=True, no_wrap=True, style="green"),
    Column("transcendentals", is_number=True),
    Column("bytes", is_number=True, no_wrap=True, style="magenta"),
)


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
