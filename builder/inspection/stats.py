"""The cost of a computation: its operations, and the bytes that the ops read and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from builder.inspection.rendering import Printable, bytes_text, flops_text
from builder.inspection.table import count_text
from builder.support.display import Column, TextTable


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
