"""lowering.minimize: the smallest program that shows a fault."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

import jax
import numpy as np

from builder.checking import flag
from builder.errors import OperandError, XlaError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_element, is_parameter, is_tuple
from builder.ops.operands import need_computation
from builder.rewriting.copying import inline
from builder.support.arguments import is_function
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.faults.predicates import (
    Predicate,
    command,
    crashes,
    differs,
    is_not_finite,
    npz_of_arguments,
)
from lowering.faults.search import (
    STRUCTURE,
    Program,
    Search,
    TimeIsOverError,
    all_parts,
    size_of,
    with_changes,
)
from lowering.faults.simplifying import (
    is_static,
    with_fewer_iterations,
    with_simple_attributes,
    with_simple_types,
    with_smaller_sizes,
)
from lowering.interpreter.comparing import nested_arguments
from lowering.interpreter.evaluating import check_sizes, flat_arguments
from lowering.interpreter.instrumentation import with_results
from lowering.pjrt.devices import device_argument
from lowering.running.compiling import compile
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import path_text, write_atomically

T = TypeVar("T")

_SHOWN: Final = 10
"""How many source lines the text of a result has."""

_UNROLLED: Final = (1, 2, 4, 8)
"""How many iterations of a loop are tried in the place of the loop."""


@dataclass(frozen=True, slots=True)
class Minimized:
    """A program that shows a fault, made as small as possible.

    Attributes:
        computation: the program.
        arguments: an argument for each parameter, with which the fault occurs.
        tried: how many programs were tried.
        seconds: how long it took.
        is_finished: True if no smaller program was found; False if the time ran out.
    """

    computation: XlaComputation
    arguments: tuple[Any, ...]
    tried: int
    seconds: float
    is_finished: bool

    def save(self, path: str | os.PathLike[str]) -> list[str]:
        """Write the program as StableHLO text, and the arguments next to it; return both paths.

        The arguments are in an ``.npz`` file of the same name, with the names of the parameters:
        `xlabuilder run` and `compare` read it by their option ``--input``.

        Args:
            path: the file; its suffix is ``.mlir``.

        Raises:
            ModuleFileError: a file can't be written.
            OperandError: `path` is not a path, or has another suffix.
        """
        name = path_text(path, "save")
        if not name.endswith(".mlir"):
            rule = "the path must end in .mlir, for StableHLO text"
            raise error_of(OperandError, "save", rule, got=brief(name))
        arrays = f"{name.removesuffix('.mlir')}.npz"
        write_atomically(name, [lower(self.computation).text.encode()])
        content = npz_of_arguments(self.computation.program_shape, self.arguments)
        write_atomically(arrays, [content])
        return [name, arrays]

    def __str__(self) -> str:
        count = size_of(self.computation)
        state = "" if self.is_finished else "; the time was over"
        ops = [op for op in self.computation.ops if op.opcode not in STRUCTURE]
        sources = [f"{op.opcode}, recorded at {op.source}" for op in ops if op.source is not None]
        more = [f"and {len(sources) - _SHOWN} more"] if len(sources) > _SHOWN else []
        effort = f"after {self.tried} programs in {self.seconds:.1f} s{state}"
        listed = [f"  {line}" for line in (*sources[:_SHOWN], *more)]
        first = f"{count} op{'s' * (count != 1)} {effort}"
        return "\n".join([first, *listed, str(self.computation)])


@explained
def minimize(
    computation: XlaComputation,
    is_bad: Predicate,
    /,
    *args: Any,
    seconds: float = 120.0,
    progress: bool = False,
) -> Minimized:
    """Return the smallest program that shows a fault of a computation.

    Ops are removed: an op whose value is needed becomes a parameter, with the value that it had as
    the argument. Calls are inlined, loops and conditionals replaced by a body or a branch, and ops
    by an operand of the same shape, also inside of applied computations. Then the remaining ops
    become simpler: dimensions get smaller and arguments are sliced accordingly; loops get fewer
    iterations; annotations, padding, strides and the like are removed; element types become f32,
    s32 and c64; arguments become zeros and ones. The order is fixed, so the same program has the
    same result.

    Args:
        computation: an XlaComputation with fixed sizes.
        is_bad: called with a computation and an argument for each of its parameters; returns
            whether the fault occurs. A smaller program for which it raises an `XlaError`, because
            the program is refused, does not show the fault. `lowering.faults` has predicates:
            `crashes`, `differs`, `is_not_finite`, `command`.
        args: the arguments, as for a compiled computation.
        seconds: the time after which the smallest program until then is returned.
        progress: show the number of ops and the time in a line on a terminal.

    Raises:
        ArgumentError: the arguments do not match the parameters.
        OperandError: `computation` is not a computation; `is_bad` is not a function, or is false
            for the whole computation.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[2])
        ... def model(x):
        ...     y = xb.exp(x) - 1.0
        ...     return xb.log(y) * 2.0 + y
        >>> found = lowering.minimize(
        ...     model, lowering.faults.is_not_finite("cpu"), np.float32([1, 0])
        ... )
        >>> [op.opcode for op in found.computation.ops], found.arguments
        (['parameter', 'log'], (array([0.], dtype=float32),))
    """
    need_computation("minimize", computation)
    if not is_function(is_bad):
        rule = "is_bad must be a function of a computation and its arguments"
        fix = "pass lowering.faults.differs(device), for instance"
        raise error_of(OperandError, "minimize", rule, fix, got=brief(is_bad))
    makers: list[Any] = [is_not_finite, differs, crashes, command]
    if is_bad in makers:
        rule = f"is_bad must be a predicate, which lowering.faults.{is_bad.__name__} returns"
        fix = f"call it: lowering.faults.{is_bad.__name__}(...)"
        raise error_of(OperandError, "minimize", rule, fix, got="the function itself")
    check_sizes("minimize", computation)
    flat, _ = flat_arguments(computation, args, {}, "minimize")
    program = Program(computation, tuple(nested_arguments(computation, flat)))
    start = time.monotonic()
    end = start + _seconds(seconds)
    with _shown(flag("minimize", "progress", progress)) as show:
        search = Search(is_bad, end, show, best=program)
        # A check that fails would hide the fault. It is the fault if there is none without it.
        stripped = Program(computation.strip_debug(), program.arguments)
        if stripped.computation is not computation and search.is_bad(stripped):
            program = stripped
        elif not search.is_bad_as_it_is(program):
            rule = "is_bad must be true for the whole computation"
            fix = "call it with the computation and these arguments to see why it is not"
            raise error_of(OperandError, "minimize", rule, fix, got="false")
        try:
            program, is_finished = _minimized(search, program), True
        except TimeIsOverError:
            program, is_finished = search.best, False
    return Minimized(*program, search.tried, time.monotonic() - start, is_finished)


@contextlib.contextmanager
def _shown(progress: bool) -> Iterator[Callable[[str], None]]:
    """Return a function that shows a text, in a line with a spinner and the time."""
    if not progress:
        yield _ignored
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("minimize", total=None)
        yield lambda text: bar.update(task, description=f"minimize: {text}")


def _ignored(_: str) -> None:
    """Show nothing."""


def _seconds(seconds: Any) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        rule = "seconds must be a positive number"
        raise error_of(OperandError, "minimize", rule, got=brief(seconds))
    return float(seconds)


def _minimized(search: Search, program: Program) -> Program:
    """Apply all steps until none makes the program smaller."""
    while True:
        before = program
        for step in (_with_fewer_ops, _with_expanded_ops, _with_replaced_ops):
            program = step(search, program)
        for step in _KEEPING_OPS if is_static(program) else ():
            program = step(search, program)
        if program is before:
            return _with_simple_arguments(search, program)


_KEEPING_OPS: Final = (
    with_smaller_sizes,
    with_fewer_iterations,
    with_simple_attributes,
    with_simple_types,
)
"""The steps after which the program has the same ops."""


# Fewer ops


def _with_fewer_ops(search: Search, program: Program) -> Program:
    """Keep as few ops as possible; the values of others become arguments."""
    computation = program.computation
    values = _values(search, program)
    ops = [op for op in computation.ops if not is_parameter(op)]
    kept = _fewest(ops, lambda some: search.is_bad(_part(program, values, some)))
    if len(kept) == len(ops):
        return program
    part = _part(program, values, kept)
    # Without the tuple of the results, the part has another one.
    left = [op for op in part.computation.ops if not is_parameter(op)]
    return part if len(left) < len(ops) else program


def _fewest(items: Sequence[T], is_bad: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return a part of a sequence for which `is_bad` holds, and for no part with one item less.

    It holds for all items. This is delta debugging: Zeller and Hildebrandt, "Simplifying and
    isolating failure-inducing input" (2002).
    """
    parts = 2
    while len(items) >= 2:
        bounds = [len(items) * number // parts for number in range(parts + 1)]
        ranges = list(pairwise(bounds))
        for start, end in ranges:
            if is_bad(items[start:end]):
                items, parts = items[start:end], 2
                break
        else:
            for start, end in ranges if parts > 2 else ():
                rest = [*items[:start], *items[end:]]
                if is_bad(rest):
                    items, parts = rest, max(parts - 1, 2)
                    break
            else:
                if parts >= len(items):
                    break
                parts = min(2 * parts, len(items))
    return items


def _part(program: Program, values: dict[XlaOp, Any], ops: Sequence[XlaOp]) -> Program:
    """Return the program of some ops, with the values of their other operands as arguments."""
    kept = set(ops)
    inputs = list(dict.fromkeys(o for op in ops for o in op.operands if o not in kept))
    used = {operand for op in ops for operand in op.operands}
    results = [op for op in ops if op not in used]
    part = program.computation.extract(results[0] if len(results) == 1 else results, inputs=inputs)
    return Program(_named(part, program), tuple([values[each] for each in inputs]))


def _named(computation: XlaComputation, program: Program) -> XlaComputation:
    """Return a part of a program with the name of the program."""
    computation.name = program.computation.name
    return computation


def _values(search: Search, program: Program) -> dict[XlaOp, Any]:
    """Return the value of each op, or numbers in its place if they do not matter."""
    computation, arguments = program
    values: dict[XlaOp, Any] = dict(zip(computation.parameters, arguments, strict=True))
    if search.needs_values:
        try:
            run = compile(with_results(computation, computation.ops), device_argument("", "cpu"))
            _, *found = run(*arguments)
        except XlaError:
            pass  # replaced by numbers
        else:
            return dict(zip(computation.ops, jax.tree.map(np.asarray, found), strict=True))
    for op in computation.ops:
        values.setdefault(op, _numbers(op.shape, 1))
    return values


def _numbers(shape: Shape, number: int) -> Any:
    if isinstance(shape, TupleShape):
        return tuple([_numbers(element, number) for element in shape.elements])
    if not isinstance(shape, ArrayShape):
        return None
    return np.full(shape.dimensions, number).astype(shape.element_type.dtype)


# Other ops


def _with_expanded_ops(search: Search, program: Program) -> Program:
    """Replace ops that apply computations by the ops of one of these."""
    return with_changes(search, program, _expansions)


def _expansions(program: Program) -> Iterator[Callable[[], Program]]:
    """Yield programs in which one op is replaced by a call of what it applies, inlined."""
    computation = program.computation
    for target in computation.ops:
        for number, called in enumerate(target.called_computations):
            operands = slice(None)
            if target.opcode == "conditional":
                operands = slice(number + 1, number + 2)
            given = [operand.shape for operand in target.operands[operands]]
            is_same = called.root.shape is target.shape
            if not is_same or given != [p.shape for p in called.parameters]:
                continue

            # A fault may need some iterations: their values become arguments later.
            for times in _UNROLLED if target.opcode == "while" else (1,):
                yield _expansion(program, target, called, operands, times)


def _expansion(
    program: Program, target: XlaOp, called: XlaComputation, operands: slice, times: int
) -> Callable[[], Program]:
    """Return a function of no arguments that replaces an op by what it applies, some times."""

    def replacement(op: XlaOp, values: Any) -> XlaOp | None:
        if op is not target:
            return None
        result = inline(called, *tuple(values)[operands])
        for _ in range(times - 1):
            result = inline(called, result)
        return result

    return lambda: _without_unused_ops(program, program.computation.replace(replacement))


def _with_replaced_ops(search: Search, program: Program) -> Program:
    """Replace ops by one of their operands, also in applied computations."""
    return with_changes(search, program, _replacements)


def _replacements(program: Program) -> Iterator[Callable[[], Program]]:
    """Yield programs in which one op is replaced by an operand."""
    computation = program.computation
    every = all_parts(computation)
    counting = {op for part in every for op in _counting_ops(part)}
    for part in every:
        for target in reversed(part.ops):
            for number, operand in enumerate(target.operands):
                is_same = operand.shape is target.shape
                if not is_same or target.opcode in STRUCTURE or target in counting:
                    continue

                def changed(target: XlaOp = target, number: int = number) -> Program:
                    def replacement(op: XlaOp, values: Any) -> XlaOp | None:
                        return values[number] if op is target else None

                    new = computation.replace(replacement, nested=True)
                    return _without_unused_ops(program, new)

                yield changed


def _counting_ops(computation: XlaComputation) -> set[XlaOp]:
    """Return the ops on which the ends of the loops of a computation depend.

    Without them a loop might have no end.
    """
    found: set[XlaOp] = set()
    for op in computation.ops:
        if op.opcode != "while":
            continue
        condition, body = op.attributes["condition"], op.attributes["body"]
        tested = _ancestors([condition.root])
        numbers = {o.attributes["index"] for o in tested if is_element(o)}
        found |= tested
        root = body.root
        found |= _ancestors([root.operands[n] for n in numbers] if is_tuple(root) else [root])
        for part in (*condition.called_computations(), *body.called_computations()):
            found |= set(part.ops)
    return found


def _ancestors(ops: Sequence[XlaOp]) -> set[XlaOp]:
    """Return some ops, and all ops of their computation that their values depend on."""
    found = set(ops)
    pending = list(ops)
    while pending:
        new = [operand for operand in pending.pop().operands if operand not in found]
        found.update(new)
        pending += new
    return found


def _without_unused_ops(program: Program, changed: XlaComputation) -> Program:
    """Return a changed program without the ops that no result needs; parameters remain."""
    part = changed.extract(changed.root, inputs=list(changed.parameters))
    return program._replace(computation=_named(part, program))


def _with_simple_arguments(search: Search, program: Program) -> Program:
    """Replace arguments by zeros or ones, and remove parameters that no op uses."""
    used = {operand for op in program.computation.ops for operand in op.operands}
    used.add(program.computation.root)
    pairs = zip(program.computation.parameters, program.arguments, strict=True)
    needed = [(parameter, argument) for parameter, argument in pairs if parameter in used]
    if len(needed) < len(program.arguments):
        inputs = [parameter for parameter, _ in needed]
        part = program.computation.extract(program.computation.root, inputs=inputs)
        smaller = Program(_named(part, program), tuple([argument for _, argument in needed]))
        program = smaller if search.is_bad(smaller) else program
    for number, parameter in enumerate(program.computation.parameters):
        for value in (0, 1):
            arguments = list(program.arguments)
            arguments[number] = _numbers(parameter.shape, value)
            if search.is_bad(Program(program.computation, tuple(arguments))):
                program = Program(program.computation, tuple(arguments))
                break
    return program
