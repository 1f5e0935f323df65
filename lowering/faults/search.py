"""The search for a smaller program: programs, the predicate with its limits, and changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from builder.errors import XlaError
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.trip_count import LoopCounter, loop_counter
from builder.rewriting.constants import bind
from builder.schema import Trait, opcodes_with
from builder.types.shape import ArrayShape, TokenShape, leaves
from lowering.faults.predicates import Predicate
from lowering.faults.recording_again import CannotChangeError

STRUCTURE: Final = opcodes_with(Trait.STRUCTURE)


class Program(NamedTuple):
    """A computation, and an argument for each parameter."""

    computation: XlaComputation
    arguments: tuple[Any, ...]


class TimeIsOverError(Exception):
    """The time limit is reached."""


@dataclass(slots=True)
class Search:
    """The predicate with its limits, and the smallest program until now.

    Attributes:
        predicate: whether a program shows the fault.
        end: the time at which the search ends.
        show: shows a text while the search goes on.
        best: the smallest program that shows the fault, first the entire program.
        tried: how many programs were tried.
        loops_end: whether all loops of the entire program are known to end.
    """

    predicate: Predicate
    end: float
    show: Callable[[str], None]
    best: Program
    tried: int = 0
    loops_end: bool = field(init=False)

    def __post_init__(self) -> None:
        self.loops_end = _loops_end(self.best)

    @property
    def needs_values(self) -> bool:
        """Whether arguments must be values that the program computes."""
        return bool(getattr(self.predicate, "needs_values", True))

    def is_bad(self, program: Program) -> bool:
        """Return whether a smaller program shows the fault; then it is the best one.

        A program that is refused does not show it, and neither does one that might never end.
        """
        if self.loops_end and not _loops_end(program):
            return False
        try:
            return self.is_bad_as_it_is(program)
        except XlaError:
            return False

    def is_bad_as_it_is(self, program: Program) -> bool:
        """Return whether a program shows the fault; then it is the best one.

        Raises:
            TimeIsOverError: the time limit is reached.
            XlaError: the predicate raises it.
        """
        if time.monotonic() > self.end:
            raise TimeIsOverError
        self.tried += 1
        is_bad = bool(self.predicate(program.computation, *program.arguments))
        if is_bad:
            self.best = program
        size = size_of(self.best.computation)
        self.show(f"{size} op{'s' * (size != 1)}, {self.tried} programs tried")
        return is_bad


def all_parts(computation: XlaComputation) -> tuple[XlaComputation, ...]:
    """Return a computation and those that it applies."""
    return (computation, *computation.called_computations())


def size_of(computation: XlaComputation) -> int:
    """Return the number of ops, with those of applied computations."""
    parts = all_parts(computation)
    return sum(op.opcode not in STRUCTURE for part in parts for op in part.ops)


def with_changes(
    search: Search,
    program: Program,
    changes: Callable[[Program], Iterator[Callable[[], Program]]],
) -> Program:
    """Apply changes that keep the fault; after one that does, start again."""
    is_changed = True
    while is_changed:
        is_changed = False
        for change in changes(program):
            changed = attempt(search, change)
            if changed is not None:
                program, is_changed = changed, True
                break
    return program


def attempt(search: Search, change: Callable[[], Program]) -> Program | None:
    """Return the program that a change makes if it shows the fault, otherwise None."""
    try:
        changed = change()
    except (XlaError, CannotChangeError):
        return None  # the change does not fit where its result is used
    return changed if search.is_bad(changed) else None


def loops_in(computation: XlaComputation) -> list[XlaOp]:
    """Return the loops in a computation and in the computations that it applies."""
    return [op for part in all_parts(computation) for op in part.ops if op.opcode == "while"]


def loop_counters(program: Program) -> list[LoopCounter | None]:
    """Return the counter of each loop, where it is known from constants and from arguments."""
    if not loops_in(program.computation):
        return []
    values: dict[str | int, Any] = {}
    for number, parameter in enumerate(program.computation.parameters):
        parts = list(leaves(parameter.shape))
        counts = any(isinstance(p, ArrayShape) and _is_integer(p) for p in parts)
        if counts and not any(isinstance(part, TokenShape) for part in parts):
            values[number] = jax.tree.map(np.asarray, program.arguments[number])
    bound = bind(program.computation, values) if values else program.computation
    return [loop_counter(loop) for loop in loops_in(bound)]


def _is_integer(shape: ArrayShape) -> bool:
    return not shape.rank and shape.element_type.is_integral


def _loops_end(program: Program) -> bool:
    """Return whether all loops are known to end."""
    return all(
        counter is not None and counter.trips() is not None for counter in loop_counters(program)
    )
