"""The time of each instruction of a program, from XLA's own trace of a run.

The profiler of jax reports how long each instruction of the optimized program took. An instruction
is often a fusion of several recorded ops; the text of the program has these, with their lines.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax

from builder.errors import error_of
from builder.inspection.parts import Bar, Column, Heading, Part, Segment, TextTable
from builder.inspection.rendering import seconds_text
from builder.schema import SCHEMAS, Trait, opcodes_with
from builder.support.display import Displayed
from builder.support.frames import shown_file
from lowering.errors import ExecutionError, unescaped
from lowering.stablehlo.module import path_text, write_atomically


@dataclass(frozen=True, slots=True)
class OpTime:
    """The time of an instruction of the optimized program.

    Attributes:
        name: the name of the instruction in `executable.hlo_text()`.
        opcodes: the opcode of the instruction; for a fusion those of the ops that it contains, in
            order. Parameters, constants, and ops that only change shapes are left out.
        sources: the lines where these ops were recorded, as "file:line", in order.
        seconds: the time in seconds, the sum over all executions, on all devices.
        times: the number of executions.
    """

    name: str
    opcodes: tuple[str, ...]
    sources: tuple[str, ...]
    seconds: float
    times: int


@dataclass(frozen=True, slots=True)
class OpTimes(Displayed):
    """The times of the instructions of a program in one run.

    Attributes:
        name: the name of the program.
        instructions: those that the run executed, the slowest first.
        seconds: the sum of their times. Instructions may run at the same time, on several threads
            or devices, so a run may take less.
    """

    name: str
    instructions: tuple[OpTime, ...]
    seconds: float

    def __str__(self) -> str:
        """Return a line for each of the slowest instructions."""
        lines = [f"{self.name}: {seconds_text(self.seconds)} in {len(self.instructions)} ops"]
        for each in self.instructions[:_SHOWN]:
            share, time, times, name, opcodes, sources = self._cells(each)
            lines.append(
                f"  {share:>4} {time:>8} {times:>5}  {name}: {opcodes}  {sources}".rstrip()
            )
        return "\n".join([*lines, *self._more()])

    def __repr__(self) -> str:
        count = len(self.instructions)
        return f"<OpTimes of {self.name!r}: {count} ops, {seconds_text(self.seconds)}>"

    def _parts(self) -> list[Part]:
        slowest = [*self.instructions[:_BARS]]
        segments = [
            Segment(each.name, each.seconds, seconds_text(each.seconds)) for each in slowest
        ]
        rest = self.seconds - sum(each.seconds for each in slowest)
        if rest > 0:
            segments.append(Segment("others", rest, seconds_text(rest)))
        rows = [self._cells(each) for each in self.instructions[:_SHOWN]]
        return [
            Heading("OpTimes", self.name, seconds_text(self.seconds)),
            Bar("the slowest instructions", segments),
            TextTable("", _COLUMNS, rows, "\n".join(self._more())),
        ]

    def _cells(self, each: OpTime) -> list[str]:
        share = each.seconds / self.seconds if self.seconds else 0.0
        opcodes, sources = _counted(each.opcodes), ", ".join(dict.fromkeys(each.sources))
        time = seconds_text(each.seconds)
        return [f"{share:.0%}", time, f"{each.times}x", each.name, opcodes, sources]

    def _more(self) -> list[str]:
        more = len(self.instructions) - _SHOWN
        return [f"{more:,} more in .instructions"] if more > 0 else []


_SHOWN: Final = 30
_BARS: Final = 5

_COLUMNS: Final = (
    Column("share", is_number=True),
    Column("time", is_number=True, no_wrap=True),
    Column("runs", is_number=True),
    Column("instruction", no_wrap=True, style="cyan"),
    Column("ops"),
    Column("recorded at"),
)


def _counted(opcodes: Iterable[str]) -> str:
    """Return opcodes as text, with the number of those that occur several times."""
    counts: dict[str, int] = {}
    for opcode in opcodes:
        counts[opcode] = counts.get(opcode, 0) + 1
    return ", ".join(f"{count} {op}" if count > 1 else op for op, count in counts.items())


def traced_times(
    name: str,
    run: Callable[[], Any],
    hlo_text: Callable[[], str],
    perfetto: str | os.PathLike[str] | None,
) -> OpTimes:
    """Run a program under jax's profiler, and return the times of its instructions.

    Args:
        name: the name of the program.
        run: runs the program and waits for its end.
        hlo_text: returns the text of the optimized program.
        perfetto: the file for the trace; see `Profile.by_op`.

    Raises:
        ExecutionError: a trace runs already; the trace has no instructions of the program.
        ModuleFileError: the file can't be written.
    """
    path = None if perfetto is None else path_text(perfetto, "by_op")
    text = hlo_text()
    module = text.removeprefix("HloModule ").partition(",")[0].partition("\n")[0]
    with tempfile.TemporaryDirectory(prefix="xlabuilder-profile-") as folder:
        options: Any = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        try:
            jax.profiler.start_trace(
                folder, profiler_options=options, create_perfetto_trace=path is not None
            )
        except RuntimeError as error:
            fix = "stop the trace of jax.profiler that is running"
            raise error_of(ExecutionError, "by_op", str(error), fix) from None
        stop_trace: Callable[[], None] = jax.profiler.stop_trace
        try:
            run()
        finally:
            stop_trace()
        files = Path(folder).rglob("*.xplane.pb")
        traces = [jax.profiler.ProfileData.from_file(str(file)) for file in files]
        durations = _durations(module, traces)
        if path is not None:
            trace = next(Path(folder).rglob("perfetto_trace.json.gz"))
            write_atomically(path, [trace.read_bytes()])
    if not durations:
        rule = f"the trace of {name} has no times of instructions"
        fix = "the platform does not report them; use jax.profiler.trace and its own tools"
        raise error_of(ExecutionError, "by_op", rule, fix)
    instructions = _instructions(text)
    times = [
        _op_time(each, seconds, instructions)
        for each, seconds in durations.items()
        if not _contains_others(each, durations, instructions)
    ]
    times.sort(key=lambda each: -each.seconds)
    return OpTimes(name, tuple(times), sum(each.seconds for each in times))


def _durations(module: str, traces: Iterable[Any]) -> dict[str, list[float]]:
    """Return the seconds of each execution of the instructions of a module, by name."""
    durations: dict[str, list[float]] = defaultdict(list)
    with warnings.catch_warnings():
        # jaxlib 0.12 on Python 3.13 aborts the process if the warning about a class of its traces
        # is an error.
        warnings.filterwarnings("ignore", "builtin type", DeprecationWarning)
        for trace in traces:
            for event in _events(trace):
                stats = dict(event.stats)
                if stats.get("hlo_module") == module and "hlo_op" in stats:
                    durations[str(stats["hlo_op"])].append(event.duration_ns / 1e9)
    return durations


def _events(trace: Any) -> Iterator[Any]:
    for plane in trace.planes:
        for line in plane.lines:
            yield from line.events


# The text of the optimized program


@dataclass(frozen=True, slots=True)
class _Instruction:
    """An instruction of the text: its opcode, line, and the computations that it calls."""

    opcode: str
    source: str
    called: tuple[str, ...]
    computations: Mapping[str, list[str]]
    """The names of the instructions of each computation of the program."""


_HEADER: Final = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_LINE: Final = re.compile(r"^  (?:ROOT )?%?([\w.-]+) = (.*)$")
_OPCODE: Final = re.compile(r"(?:^|[\]})] ?)\s*([a-z][\w-]*)\(")
_CALLED: Final = re.compile(
    r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
    r"|(?:branch_computations|called_computations)=\{([^}]*)\}"
)
_FILE: Final = re.compile(r'source_file="((?:[^"\\]|\\.)*)"')
_LINE_NUMBER: Final = re.compile(r"source_line=(\d+)")
_TARGET: Final = re.compile(r'custom_call_target="([^"]*)"')

_FREE: Final = {
    *(SCHEMAS[opcode].hlo for opcode in opcodes_with(Trait.STRUCTURE)),
    *("constant", "broadcast", "bitcast", "reshape"),
}
"""Instructions without a computation, which are left out of a fusion's opcodes."""


def _instructions(text: str) -> dict[str, _Instruction]:
    """Return the instructions of a program by name."""
    found: dict[str, _Instruction] = {}
    computations: dict[str, list[str]] = {}
    names: list[str] = []
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header is not None:
            names = computations[header[1]] = []
            continue
        match = _LINE.match(line)
        if match is None:
            continue
        names.append(match[1])
        rest = match[2]
        opcode = _OPCODE.search(_without_tuple_type(rest))
        file, number = _FILE.search(rest), _LINE_NUMBER.search(rest)
        source = ""
        if file is not None and number is not None:
            source = f"{shown_file(unescaped(file[1]))}:{number[1]}"
        name = "" if opcode is None else opcode[1]
        target = _TARGET.search(rest) if name == "custom-call" else None
        called = [
            each.strip().lstrip("%")
            for one, several in _CALLED.findall(rest)
            for each in (several.split(",") if several else [one])
        ]
        kind = name if target is None else target[1]
        found[match[1]] = _Instruction(kind, source, tuple(called), computations)
    return found


def _without_tuple_type(text: str) -> str:
    """Return an instruction's text without the type at its beginning, if that is a tuple."""
    depth = 0
    for position, character in enumerate(text if text.startswith("(") else ""):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return "]" + text[position + 1 :]
    return text


def _op_time(
    name: str, seconds: Sequence[float], instructions: Mapping[str, _Instruction]
) -> OpTime:
    inner = list(_inner(name, instructions))
    ops = [each for each in inner if each.opcode not in _FREE] or inner
    opcodes = tuple(each.opcode.replace("-", "_") for each in ops)
    sources = tuple(each.source for each in ops if each.source)
    return OpTime(name, opcodes, sources, sum(seconds), len(seconds))


def _inner(name: str, instructions: Mapping[str, _Instruction]) -> Iterator[_Instruction]:
    """Yield the instructions that a fusion contains, or the instruction itself."""
    pending = [name]
    while pending:
        each = instructions.get(pending.pop())
        if each is None:
            continue
        if each.opcode in ("fusion", "call"):
            for called in reversed(each.called):
                pending += reversed(each.computations.get(called, []))
        else:
            yield each


def _contains_others(
    name: str, durations: Mapping[str, Any], instructions: Mapping[str, _Instruction]
) -> bool:
    """Whether an instruction is a loop, a branch or a call whose instructions have times too."""
    pending, seen = [name], {name}
    while pending:
        each = instructions.get(pending.pop())
        if each is None or each.opcode == "fusion":
            continue
        for called in each.called:
            for inner in each.computations.get(called, []):
                if inner in durations:
                    return True
                if inner not in seen:
                    seen.add(inner)
                    pending.append(inner)
    return False
