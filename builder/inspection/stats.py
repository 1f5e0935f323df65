"""What a computation costs: its operations, and the bytes that they read and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from builder.inspection.rendering import (
    Column,
    Sheet,
    as_html,
    as_rich,
    as_text,
    bytes_text,
    flops_text,
)

if TYPE_CHECKING:
    from rich.console import Group

    from builder.graph.computation import XlaComputation

__all__ = ["ArrayTotals", "ComputationStats", "LoopStats", "OpcodeStats", "stats_of"]


@dataclass(frozen=True, slots=True)
class ArrayTotals:
    """How many arrays there are, and how much they hold.

    Attributes:
        count: the arrays, tuples looked through.
        elements: their elements, bounded dimensions counted at their bounds.
        bytes: the bytes of their elements.
    """

    count: int
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OpcodeStats:
    """What all ops of one opcode cost.

    Attributes:
        opcode: theirs.
        ops: how many are recorded, in the computation and in those it applies, each once.
        executions: how many of them run, as control flow goes: an op in the body of a loop as
            often as the loop does. Ops of functions that are applied to elements, such as a
            reducer, are not counted: their operations stand with the op that applies them.
        flops: operations on elements that are not transcendental, integer ones too.
        transcendentals: exponentials, logarithms, roots, sines and the like, of elements.
        bytes_accessed: bytes read and written, each op by itself.
    """

    opcode: str
    ops: int
    executions: int
    flops: int
    transcendentals: int
    bytes_accessed: int


class LoopStats(NamedTuple):
    """A `while` or a `scan`, and how often it runs.

    Attributes:
        computation: the name of the computation that it stands in.
        number: its number there.
        trip_count: how often its body runs; None where that is not known: it is counted once.
    """

    computation: str
    number: int
    trip_count: int | None


@dataclass(frozen=True, slots=True)
class ComputationStats:
    """What a computation costs, by opcode and in all; made by `XlaComputation.stats`.

    Attributes:
        name: the computation's.
        ops: how many ops are recorded, in the computation and in those it applies, each once.
        computations: how many computations it applies, and they apply.
        parameters, constants, results: arrays that go in, that are in it, and that come out.
        by_opcode: an `OpcodeStats` for each opcode, most FLOPs first.
        flops, transcendentals, bytes_accessed: those of all opcodes together.
        loops: the loops, and how often each is taken to run.
        uncounted: opcodes, with their numbers of ops, of whose work nothing is known: what custom
            calls compute. Only the bytes of their operands and results are counted.

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
        """The loops of which it is not known how often they run; each is counted once."""
        return tuple(loop for loop in self.loops if loop.trip_count is None)

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON: numbers, texts, lists and dicts."""
        return {
            "name": self.name,
            "ops": self.ops,
            "computations": self.computations,
            **{
                name: _fields(getattr(self, name))
                for name in ("parameters", "constants", "results")
            },
            "flops": self.flops,
            "transcendentals": self.transcendentals,
            "bytes_accessed": self.bytes_accessed,
            "by_opcode": {opcode: _fields(one) for opcode, one in self.by_opcode.items()},
            "loops": [loop._asdict() for loop in self.loops],
            "uncounted": dict(self.uncounted),
        }

    def __str__(self) -> str:
        return as_text(self._sheets())

    def __rich__(self) -> Group:
        return as_rich(self._sheets())

    def _repr_html_(self) -> str:
        return as_html(self._sheets())

    def _sheets(self) -> list[Sheet]:
        rows = [
            [
                one.opcode,
                f"{one.ops:,}",
                f"{one.executions:,}",
                flops_text(one.flops),
                f"{one.transcendentals:,}",
                bytes_text(one.bytes_accessed),
            ]
            for one in self.by_opcode.values()
        ]
        everything = sum(one.executions for one in self.by_opcode.values())
        rows.append(
            [
                "all",
                f"{self.ops:,}",
                f"{everything:,}",
                flops_text(self.flops),
                f"{self.transcendentals:,}",
                bytes_text(self.bytes_accessed),
            ]
        )
        totals = ", ".join(
            f"{name}: {one.count:,} ({one.elements:,} elements, {bytes_text(one.bytes)})"
            for name, one in (
                ("parameters", self.parameters),
                ("constants", self.constants),
                ("results", self.results),
            )
        )
        notes = [totals]
        for loop in self.loops:
            where = f"loop %{loop.number} of {loop.computation}"
            if loop.trip_count is None:
                notes.append(f"{where}: nobody knows how often it runs; counted once")
            else:
                notes.append(f"{where}: runs {loop.trip_count:,} times")
        for opcode, count in self.uncounted.items():
            plural = "" if count == 1 else "s"
            notes.append(f"{count:,} {opcode}{plural}: bytes alone; what is computed is not known")
        if len(notes) > _MOST_NOTES:
            notes[_MOST_NOTES:] = [f"and {len(notes) - _MOST_NOTES:,} lines more"]
        return [Sheet(self.name, _COLUMNS, rows, "\n".join(notes))]


_MOST_NOTES: Final = 20

_COLUMNS: Final = (
    Column("opcode", is_whole=True, style="cyan"),
    Column("ops", is_number=True, is_whole=True),
    Column("executions", is_number=True),
    Column("FLOPs", is_number=True, is_whole=True, style="green"),
    Column("transcendentals", is_number=True),
    Column("bytes", is_number=True, is_whole=True, style="magenta"),
)


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__match_args__}


def stats_of(computation: XlaComputation) -> ComputationStats:
    """What a computation costs; see `XlaComputation.stats`."""
    from builder.inspection.counting import counted  # which needs more than those who import this

    return counted(computation)
