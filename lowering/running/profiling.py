"""Measure the time of the parts of a call, and describe the memory that a program needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from builder.inspection.parts import Bar, Heading, Part, Segment
from builder.inspection.rendering import bytes_text, seconds_text
from builder.support.display import Displayed
from lowering.running.op_times import OpTimes, traced_times

_CALL_PARTS: Final = ("transfer", "run", "fetch")
"""The fields of `Profile` with the parts of a call, which exclude compiling."""


@dataclass(frozen=True, slots=True)
class Memory(Displayed):
    """The memory in bytes that a program needs on each of its devices.

    Attributes:
        arguments: the size of the arguments.
        results: the size of the results.
        aliased: the size of results that are written to the memory of arguments; `arguments` and
            `results` include this size too.
        temporary: the size of temporary buffers.
        code: the size of the program itself and its constants, as far as XLA counts them.
    """

    arguments: int
    results: int
    aliased: int
    temporary: int
    code: int

    @property
    def total(self) -> int:
        """Return the memory that a run needs: the sum, with aliased memory counted once."""
        return self.arguments + self.results - self.aliased + self.temporary + self.code

    def _parts(self) -> list[Part]:
        # Aliased results are part of the arguments.
        amounts = {
            "arguments": self.arguments,
            "results": self.results - self.aliased,
            "temporary": self.temporary,
            "code": self.code,
        }
        segments = [Segment(name, count, bytes_text(count)) for name, count in amounts.items()]
        aliased = f", {bytes_text(self.aliased)} aliased" if self.aliased else ""
        return [Bar(f"memory of each device: {bytes_text(self.total)}{aliased}", segments)]


@dataclass(frozen=True, slots=True)
class Profile(Displayed):
    """The seconds that the parts of one call took; each part ended before the next began.

    Attributes:
        compile: compiling the program before the call, or reading it from the compilation cache; 0
            for a program that was loaded from a file.
        transfer: checking the arguments, and copying them to the devices.
        run: the program, until all results are ready.
        fetch: copying the results to NumPy arrays; on CPU jax does not copy all of them.
        result: the result of the call (not a time).

    `by_op` has the time of each op of the program.
    """

    compile: float
    transfer: float
    run: float
    fetch: float
    result: Any = field(repr=False)
    _by_op: Callable[[Any], OpTimes] = field(repr=False, compare=False)

    def by_op(self, *, perfetto: str | os.PathLike[str] | None = None) -> OpTimes:
        """Run the program again, and return the time of each instruction of the optimized program.

        The times are those of XLA's own trace, which `jax.profiler` records. An instruction is
        often a fusion of several recorded ops, which are listed with their lines. Loops and
        branches are left out: the instructions in their bodies are listed. The run has the
        arguments of the profile, so donated `jax.Array`s can't be used; pass NumPy arrays instead.

        Args:
            perfetto: a file for the whole trace, which https://ui.perfetto.dev displays; its name
                ends in ".json.gz". None for no file.

        Returns:
            The times of the instructions that the run executed, the slowest first, in a table.

        Raises:
            ArgumentError: an argument was donated.
            ExecutionError: a trace of `jax.profiler` runs already; the platform reports no times.
            ModuleFileError: the file can't be written.

        Example:
            >>> import builder as xb, lowering, numpy as np
            >>> @xb.computation(xb.f32[64, 64])
            ... def layer(x):
            ...     return xb.tanh(xb.sort(x, dimension=0))
            >>> x = np.ones((64, 64), np.float32)
            >>> times = lowering.compile(layer, "cpu").profile(x).by_op()
            >>> sorted(times.instructions[0].opcodes + times.instructions[1].opcodes)
            ['sort', 'tanh']
        """
        return self._by_op(perfetto)

    def __str__(self) -> str:
        """Return the times with units: "compiled in 30 ms; transfer 2 us, run 5 us, fetch 1 us"."""
        parts = (f"{name} {seconds_text(getattr(self, name))}" for name in _CALL_PARTS)
        return f"compiled in {seconds_text(self.compile)}; {', '.join(parts)}"

    def _parts(self) -> list[Part]:
        # Without compiling, which takes so long that the other parts would not be visible.
        seconds = {name: getattr(self, name) for name in _CALL_PARTS}
        segments = [Segment(name, time, seconds_text(time)) for name, time in seconds.items()]
        call = seconds_text(self.transfer + self.run + self.fetch)
        compiled = f"compiled in {seconds_text(self.compile)}"
        return [Heading("Profile", "", compiled), Bar(f"one call: {call}", segments)]


def profiled(
    name: str,
    compile_seconds: float,
    prepare: Callable[[], Any],
    run: Callable[[Any], Any],
    hlo_text: Callable[[], str],
) -> Profile:
    """Execute a call, and return a Profile with the time of each part.

    Args:
        name: the name of the program.
        compile_seconds: the time that compiling took.
        prepare: puts the arguments on the devices, and returns them for `run`.
        run: executes the program, and returns the result.
        hlo_text: returns the text of the optimized program.
    """
    wait: Any = jax.block_until_ready
    start = time.perf_counter()
    prepared = prepare()
    try:
        wait(prepared)
    except RuntimeError:
        run(prepared)  # raises an ArgumentError if an array was deleted
        raise
    transferred = time.perf_counter()
    result = wait(run(prepared))
    executed = time.perf_counter()
    for array in jax.tree.leaves(result):
        if array.is_fully_addressable:
            np.asarray(array)
        else:  # over several processes: the shards of this one
            for shard in array.addressable_shards:
                np.asarray(shard.data)
    fetched = time.perf_counter()
    return Profile(
        compile=compile_seconds,
        transfer=transferred - start,
        run=executed - transferred,
        fetch=fetched - executed,
        result=result,
        _by_op=partial(traced_times, name, lambda: wait(run(prepare())), hlo_text),
    )
