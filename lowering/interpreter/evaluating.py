"""interpret: a computation on StableHLO's reference interpreter, and what happens inside of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from builder.errors import BuilderError, OperandError, brief
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape, leaves
from lowering.errors import DeviceError, ExecutionError, LoweringError
from lowering.importer import to_computation
from lowering.interpreter import helper
from lowering.interpreter.instrumentation import with_probes, with_results
from lowering.interpreter.interpreter_support import Interpretable, interpretable, recorded
from lowering.pjrt.devices import device, sharding_of
from lowering.pjrt.nesting import result_packer
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments
from lowering.running.program import ProgramInfo
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import StablehloModule, load

__all__ = ["Interpretation", "Program", "interpret", "program_of", "run"]

Program = StablehloModule | XlaComputation
Probe = bool | XlaOp | int | str | Iterable[XlaOp | int | str] | None


@dataclass(frozen=True, slots=True)
class Interpretation:
    """What `lowering.interpret` gives when it is asked for values inside of a computation.

    Attributes:
        computation: the computation that was interpreted; of a file or module the one that
            `lowering.to_computation` makes of it.
        result: the result, as `interpret` gives it by itself.
        values: for each op that was asked for its value, in the order of recording: a NumPy array,
            a tuple of them, nested as the op's shape is, or None for a token. Of an op in a
            computation that others apply (a called function, the condition or body of a loop, a
            reducer) it is a list of the values of its executions, in their order; empty
            if it was not executed.
    """

    computation: XlaComputation
    result: Any
    values: dict[XlaOp, Any]

    def __getitem__(self, op: XlaOp | int) -> Any:
        """The value of an op, given itself or by its number in the computation."""
        return self.values[self.computation.ops[op] if isinstance(op, int) else op]


def interpret(
    computation: StablehloModule | XlaComputation | str | os.PathLike[str],
    /,
    *args: Any,
    probe: Probe = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Any:
    """Runs a computation on StableHLO's reference interpreter.

    The interpreter does what the StableHLO specification says, op by op, in the element type of
    each op, slowly: it is there to be compared with. It runs in a helper process, which is started
    with the first call, in a few tenths of a second, and kept.

    What it lacks is expanded into what it has where XLA or this library say how: the functions of
    CHLO, batch normalization, ragged_dot, top_k. The rest is refused by name: Fourier transforms
    (before jaxlib 0.12), cholesky, random numbers, custom and Python calls, communication, sizes
    that are not fixed.

    Args:
        computation: an XlaComputation, a StablehloModule, or the path of a file that holds one.
        args: the arguments, as a compiled computation takes them; see `lowering.Executable`.
        probe: ops whose values are asked for besides the result: True for all of the computation
            itself; or XlaOps (also of computations that ops apply), numbers of ops in the
            computation, or opcodes, which stand for all such ops at any depth; one of them, or
            several.
            None, or False, for no values.
        timeout: for how many seconds it may run; None for as long as it takes.
        by_name: arguments by the names of their parameters, but for those that are called "probe"
            or "timeout".

    Returns:
        The result: NumPy arrays, with element types of ml_dtypes where NumPy has none; nested in
        tuples as the root is; None for a token. With `probe` an Interpretation, which holds the
        result and the values.

    Raises:
        ArgumentError: the arguments are not those that the computation takes.
        ExecutionError: it holds an op that the interpreter lacks, or the interpreter failed (of an
            integer division by zero, for instance): names the op, and where it was recorded. Or it
            took longer than `timeout`.
        LoweringError: it can't be said in StableHLO.
        ModuleFileError: the file can't be read.
        OperandError: neither a computation nor a module nor a path; `probe` names no ops.
        BuilderError: an op to be probed belongs to another computation.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[2])
        ... def model(x):
        ...     return xb.exp(xb.neg(x * x))
        >>> lowering.interpret(model, np.float32([0, 1]))
        array([1.        , 0.36787945], dtype=float32)
        >>> seen = lowering.interpret(model, np.float32([0, 2]), probe=["multiply", "negate"])
        >>> {op.opcode: value.tolist() for op, value in seen.values.items()}
        {'multiply': [0.0, 4.0], 'negate': [-0.0, -4.0]}
    """
    program = program_of("interpret", computation)
    seconds = checked_timeout("interpret", timeout)
    if probe is None or probe is False:
        return run(program, flat_arguments(program, args, by_name), timeout=seconds)
    if not isinstance(program, XlaComputation):
        program = to_computation(program)
    entry, nested = _probed(program, probe)
    arguments = flat_arguments(program, args, by_name)
    names = {op: str(number) for number, op in enumerate(nested)}
    whole, places = with_probes(program, names) if nested else (program, None)
    asked = with_results(whole, [op if places is None else places[op] for op in entry])
    told: dict[str, list[Any]] = {}
    result, *values = run(asked, arguments, timeout=seconds, probes=told)
    found = dict(zip(entry, values, strict=True))
    for op, name in names.items():
        found[op] = _executions(op.shape, told.get(name, []))
    ordered = {op: found[op] for op in _in_order(program, found)}
    return Interpretation(program, result, ordered)


def program_of(op: str, given: Any) -> Program:
    """The computation or module that a function was given, in whatever form.

    Raises:
        OperandError: nothing of the kind.
    """
    if isinstance(given, (XlaComputation, StablehloModule)):
        return given
    if isinstance(given, (str, os.PathLike)):
        return load(given)
    hint = ""
    if isinstance(given, XlaOp):
        hint = "\nfix: build the computation first: op.builder.build(op)"
    raise OperandError(
        f"{op}: expected an XlaComputation, a StablehloModule or the path of a file, got "
        f"{brief(given)}{hint}",
        op=op,
    )


def checked_timeout(op: str, timeout: Any) -> float | None:
    """A number of seconds, or None.

    Raises:
        OperandError: neither.
    """
    if timeout is None:
        return None
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout > 0:
        return float(timeout)
    raise OperandError(
        f"{op}: timeout must be a number of seconds above 0, or None, got {brief(timeout)}",
        op=op,
    )


def flat_arguments(
    program: Program, args: Sequence[Any], by_name: Mapping[str, Any]
) -> list[np.ndarray[Any, Any]]:
    """The arrays that `@main` takes, checked as a compiled computation checks its arguments.

    Tokens are left out.

    Raises:
        ArgumentError: they are not those that the computation takes.
    """
    try:
        target = device("cpu")
    except DeviceError:  # jax was told to do without
        target = device()
    arguments = Arguments(ProgramInfo(program.name, program.program_shape), sharding_of(target))
    given = arguments.by_position(tuple(args), dict(by_name)) if by_name else tuple(args)
    found = []
    for value, leaf in zip(arguments.flatten(given), arguments.leaves, strict=True):
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            if value.is_deleted():
                raise arguments.refusal(leaf, DELETED, DELETED_FIX)
            value = np.asarray(value)  # on whatever device it is
        if not leaf.shape.is_static:
            raise _open(program.name, leaf.name, leaf.shape)
        array = np.asarray(arguments.put(value, leaf))
        if isinstance(leaf.shape, ArrayShape):
            found.append(array)
    return found


def _open(name: str, parameter: str, shape: Shape) -> ExecutionError:
    return ExecutionError(
        f"interpret: parameter {parameter} of {name} is of {shape}, and StableHLO's reference "
        f"interpreter has fixed sizes only\n"
        f"fix: compile it for a device: lowering.compile; or give the parameter a fixed size",
        op="interpret",
    )


def run(
    program: Program,
    arguments: Sequence[np.ndarray[Any, Any]],
    *,
    timeout: float | None = None,
    probes: dict[str, list[Any]] | None = None,
) -> Any:
    """The result of a program on the interpreter, nested as its root is.

    Args:
        program: what to run.
        arguments: made by `flat_arguments`.
        timeout: for how many seconds it may run.
        probes: takes up what probes told, by their names: each a list of pieces of bytes.

    Raises:
        ExecutionError: as `interpret`.
    """
    if isinstance(program, XlaComputation):
        legal = interpretable(lower(program))
    else:
        try:
            legal = interpretable(program)
        except ExecutionError:
            # Some operations that are no longer written are read as others that it has.
            legal = _imported(program)
    pieces = [legal.code, *map(_bytes_of, arguments)]
    try:
        told, found = helper.ask(pieces, probing=probes is not None, timeout=timeout)
    except helper.HelperTooSlowError:
        raise ExecutionError(
            f"interpret: {program.name} took longer than {timeout:g} seconds, and was ended\n"
            f"fix: give it more time, or smaller arrays: the interpreter is slow",
            op="interpret",
        ) from None
    except helper.HelperDiedError as died:
        raise _death(program, arguments, died.report, timeout) from None
    remaining = iter(found)
    result = unpacked(program.program_shape.result, remaining)
    if probes is not None:
        for name, piece in zip(told, remaining, strict=True):
            probes.setdefault(name, []).append(piece)
    return result


def _imported(module: StablehloModule) -> Interpretable:
    """A module that the interpreter lacks operations for, said again by this library."""
    try:
        again = lower(to_computation(module))
    except LoweringError:
        return interpretable(module)  # which says what is lacking
    return interpretable(again)


def unpacked(shape: Shape, pieces: Any) -> Any:
    """The next value of a shape, from the pieces of bytes that the helper process sent."""
    flat = [
        _array(leaf, pieces) if isinstance(leaf, ArrayShape) else None for leaf in leaves(shape)
    ]
    return result_packer(shape)(flat)


def _array(shape: ArrayShape, pieces: Any) -> np.ndarray[Any, Any]:
    dtype = shape.element_type.dtype
    if not shape.element_type.is_complex:
        return np.frombuffer(bytearray(next(pieces)), dtype).reshape(shape.dimensions)
    array = np.empty(shape.dimensions, dtype)
    part = shape.element_type.real_type.dtype
    array.real = np.frombuffer(next(pieces), part).reshape(shape.dimensions)
    array.imag = np.frombuffer(next(pieces), part).reshape(shape.dimensions)
    return array


def _executions(shape: Shape, pieces: list[Any]) -> list[Any]:
    """The values of a probe, one for each time that it was met."""
    a_time = sum(
        2 if leaf.element_type.is_complex else 1
        for leaf in leaves(shape)
        if isinstance(leaf, ArrayShape)
    )
    count = len(pieces) // a_time if a_time else 0
    remaining = iter(pieces)
    return [unpacked(shape, remaining) for _ in range(count)]


# Ops that are asked for


def _probed(computation: XlaComputation, probe: Any) -> tuple[list[XlaOp], list[XlaOp]]:
    """The ops asked for: those of the computation itself, and those of computations applied.

    Raises:
        OperandError, BuilderError: `probe` asks for none, or for ops of another computation.
    """
    if probe is True:
        return list(computation.ops), []
    asked = [probe] if isinstance(probe, (XlaOp, int, str)) else _listed(probe)
    applied = computation.called_computations()
    entry: dict[XlaOp, None] = {}
    nested: dict[XlaOp, None] = {}
    for one in asked:
        if isinstance(one, str):
            mine = [op for op in computation.ops if op.opcode == one]
            theirs = [op for inner in applied for op in inner.ops if op.opcode == one]
            if not mine and not theirs:
                raise OperandError(
                    f"interpret: {computation.name} has no op with the opcode {one!r}, which is to "
                    f"be probed\nfix: opcodes are those of the ops: "
                    f"{', '.join(sorted({op.opcode for op in computation.ops})[:20])}",
                    op="interpret",
                )
            entry.update(dict.fromkeys(mine))
            nested.update(dict.fromkeys(theirs))
        elif isinstance(one, int) and not isinstance(one, bool):
            if not 0 <= one < len(computation.ops):
                raise OperandError(
                    f"interpret: {computation.name} has ops 0 to {len(computation.ops) - 1}, got "
                    f"{one} to be probed",
                    op="interpret",
                )
            entry[computation.ops[one]] = None
        elif isinstance(one, XlaOp):
            if _is_of(one, computation):
                entry[one] = None
            elif any(_is_of(one, inner) for inner in applied):
                nested[one] = None
            else:
                raise BuilderError(
                    f"interpret: an op to be probed belongs to another computation than "
                    f"{computation.name!r} and those that its ops apply, got\n  {one!r}",
                    op="interpret",
                )
        else:
            raise _no_op(one)
    return list(entry), list(nested)


def _listed(probe: Any) -> list[Any]:
    try:
        return list(probe)
    except TypeError:
        raise _no_op(probe) from None


def _no_op(value: object) -> OperandError:
    return OperandError(
        f"interpret: probe takes True, XlaOps, numbers of ops or opcodes, got {brief(value)}",
        op="interpret",
    )


def _is_of(op: XlaOp, computation: XlaComputation) -> bool:
    return op.id < len(computation.ops) and computation.ops[op.id] is op


def _in_order(computation: XlaComputation, found: Mapping[XlaOp, Any]) -> Iterable[XlaOp]:
    """Ops in the order of recording; those of computations applied before those that apply them."""
    for one in (*computation.called_computations(), computation):
        yield from (op for op in one.ops if op in found)


# Deaths


def _death(
    program: Program,
    arguments: Sequence[np.ndarray[Any, Any]],
    report: str,
    timeout: float | None,
) -> ExecutionError:
    """What to say when the interpreter has aborted: of which op, if that can be found out."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    reason = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")
    reason = reason.removeprefix("LLVM ERROR: ")[:200]
    said = f": {reason}" if reason else ""
    op = _culprit(program, arguments, timeout)
    if op is None:
        return ExecutionError(
            f"interpret: StableHLO's reference interpreter has died of {program.name}{said}",
            op="interpret",
            detail=report,
        )
    hint = ""
    if op.opcode in ("divide", "remainder") and not reason:
        hint = "\nfix: of integers it dies where the divisor is 0; take 1 there"
    return ExecutionError(
        f"interpret: StableHLO's reference interpreter has died of {op.opcode}, op {op.id} of "
        f"{program.name}{recorded(op)}{said}{hint}",
        op=op.opcode,
        detail=report,
    )


_MOST_TRIALS: Final = 20


def _culprit(
    program: Program, arguments: Sequence[np.ndarray[Any, Any]], timeout: float | None
) -> XlaOp | None:
    """The op of the computation itself that the interpreter dies of, found by halving."""
    if not isinstance(program, XlaComputation):
        try:
            program = to_computation(program)
        except ValueError:  # what can't be imported can't be taken apart
            return None
    ops = program.ops
    low, high = 0, len(ops)  # it stands the first `low` of them, and dies of the first `high`
    for _ in range(_MOST_TRIALS):
        if high - low <= 1:
            return ops[low] if low < high else None
        middle = (low + high) // 2
        if _stands(program, middle, arguments, timeout):
            low = middle
        else:
            high = middle
    return None


def _stands(
    program: XlaComputation,
    count: int,
    arguments: Sequence[np.ndarray[Any, Any]],
    timeout: float | None,
) -> bool:
    """Whether the interpreter stands the first ops of a computation."""
    part = XlaComputation(
        program.name, program.ops[:count], program.ops[count - 1], program.parameters
    )
    pieces = [interpretable(lower(part)).code, *map(_bytes_of, arguments)]
    try:
        helper.ask(pieces, probing=True, timeout=timeout)
    except helper.HelperDiedError:
        return False
    except helper.HelperTooSlowError:
        return True
    return True


def _bytes_of(array: np.ndarray[Any, Any]) -> bytes | memoryview:
    """The elements of an array; MLIR is given them as they lie there."""
    elements: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(elements)
