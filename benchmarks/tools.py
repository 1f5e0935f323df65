"""Measure tools at scale: the text of a table, `compare`, saving a module; and whole processes.

Each is measured beside a step on the same program that a user has waited for already, or beside
what jax takes for the same program. All times are CPU times of the process, with all of its
threads; for the processes, of the whole process.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import numpy as np

import builder as xb
import lowering
from benchmarks.graphs import GRAPHS
from benchmarks.imports import fresh_interpreter
from benchmarks.languages import jax_lax, ours as with_ops
from benchmarks.timing import beside, timed

__all__ = [
    *("COMPARED", "EXPORTED", "FULL", "INSPECTED", "QUICK", "SAVED", "TEXT", "Sizes"),
    "measure_tools",
]

EXPORTED: Final = "a process that saves one op"
INSPECTED: Final = "xlabuilder inspect of its file"
TEXT: Final = "text of table(limit=None)"
COMPARED: Final = "compare(c, reference=d)"
SAVED: Final = "save as "


class Sizes(NamedTuple):
    """The sizes of the programs.

    Attributes:
        text: ops of the table.
        compared: numbers of ops of the programs that are compared.
        saved: ops of the module that is saved.
    """

    text: int
    compared: tuple[int, ...]
    saved: int


FULL: Final = Sizes(10_000, (500, 2_000), 200_000)
QUICK: Final = Sizes(1_000, (40,), 2_000)

_SIZE: Final = 64


def measure_tools(
    sizes: Sizes, *, rounds: int, seconds: float, on_progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure each tool beside its reference, in turns.

    Args:
        sizes: the sizes of the programs.
        rounds: the maximum number of rounds.
        seconds: the time after which a contender is left out of further rounds.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "tools", as documented in `benchmarks/figures.py`.
    """
    measured = [
        _text(sizes.text),
        *map(_compared, sizes.compared),
        *(_saved(sizes.saved, suffix) for suffix in (".mlirbc", ".stablehlo")),
    ]
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        measured += _processes(Path(folder))
        for what, reference, ops, ours, theirs in measured:
            on_progress(f"{what}, {ops:,} ops")
            compared = beside(ours, theirs, rounds=rounds, seconds=seconds)
            entries.append({"what": what, "beside": reference, "ops": ops, **compared})
    return entries


_Measured = tuple[str, str, int, Callable[[], float], Callable[[], float]]


def _text(size: int) -> _Measured:
    """Return the text of all rows of a table, beside the text of a jaxpr."""
    graph = GRAPHS["chain"]
    computation = with_ops.record(graph, size)
    function, arguments = jax_lax.record(graph, size)
    jaxpr = jax.make_jaxpr(function)(*arguments)
    ops = len(computation.ops)
    return (
        TEXT,
        "text of a jaxpr",
        ops,
        lambda: timed(lambda: str(computation.table(limit=None)))[0],
        lambda: timed(str, jaxpr)[0],
    )


def _compared(size: int) -> _Measured:
    """Return the comparison of two programs, beside what it computes the values with.

    All ops have the same shape, and the programs differ in one op, in the middle. The values are
    computed by both programs with the values of all ops as results.
    """
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(_SIZE, _SIZE)).astype(np.float32) for _ in range(2)]

    def program(name: str, factor: float, *, all_values: bool = False) -> xb.XlaComputation:
        b = xb.XlaBuilder(name)
        x, y = (b.parameter(xb.f32[_SIZE, _SIZE]) for _ in range(2))
        values = [x]
        for number in range(size // 2):
            product = xb.tanh(values[-1])
            values += [product, xb.sub(y, product)]
            if number == size // 4:
                values.append(values[-1] * factor)
        return b.build(xb.tuple(*values) if all_values else values[-1])

    one, other = program("one", 2.0), program("other", 3.0)

    def compare() -> Any:
        found = lowering.compare(one, *arrays, reference=other)
        first = found.first
        if first is None or first.opcode != "multiply":
            raise AssertionError(f"the first op that differs is not found, but {first}")

    def compute() -> Any:
        for name, factor in (("one", 2.0), ("other", 3.0)):
            run = lowering.compile(program(name, factor, all_values=True))
            jax.block_until_ready(run(*arrays))

    ops = len(one.ops)
    return (
        COMPARED,
        "computing all values of c and d",
        ops,
        lambda: timed(compare)[0],
        lambda: timed(compute)[0],
    )


def _saved(size: int, suffix: str) -> _Measured:
    """Return the saving of a module, beside its lowering."""
    computation = with_ops.record(GRAPHS["chain"], size)
    module = lowering.lower(computation)

    def save() -> float:
        with tempfile.TemporaryDirectory() as folder:
            return timed(module.save, Path(folder, f"chain{suffix}"))[0]

    lower = partial(timed, lowering.lower, computation)
    return f"{SAVED}{suffix}", "lowering.lower", len(computation.ops), save, lambda: lower()[0]


def process_ratios(rounds: int, seconds: float) -> dict[str, float]:
    """Return the ratios of the least times of processes, beside one that lowers with jax."""
    with tempfile.TemporaryDirectory() as folder:
        measured = {
            what: beside(ours, theirs, rounds=rounds, seconds=seconds)["ms"]
            for what, _, _, ours, theirs in _processes(Path(folder))
        }
    return {what: ms["ours"]["least"] / ms["reference"]["least"] for what, ms in measured.items()}


_EXPORT: Final = """\
import builder as xb
import lowering
x = xb.XlaBuilder("one").parameter(xb.f32[4], "x")
lowering.lower(x.builder.build(xb.exp(x))).save({file!r})
"""
_TRACE: Final = """\
import jax
jax.jit(jax.numpy.exp).trace(jax.ShapeDtypeStruct((4,), "float32")).lower()
"""


def _processes(folder: Path) -> list[_Measured]:
    """Return processes that export and inspect a program of one op, beside jax's lowering of it."""
    python, file = fresh_interpreter(str(folder / "compiled")), folder / "one.stablehlo"

    def process(*arguments: str) -> Callable[[], float]:
        def run() -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            python(*arguments)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        run()  # fills the cache of compiled modules
        return run

    export, trace = process("-c", _EXPORT.format(file=str(file))), process("-c", _TRACE)
    inspect = process("-m", "lowering.cli", "inspect", str(file))
    reference = "a process that lowers it with jax"
    return [(EXPORTED, reference, 2, export, trace), (INSPECTED, reference, 2, inspect, trace)]
