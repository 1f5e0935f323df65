"""interpret: run a computation on StableHLO's reference interpreter, and inspect its values."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, overload

import jax
import numpy as np

from builder.errors import BuilderError, OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.inspection.table import count_text
from builder.schema import SCHEMAS, Trait
from builder.support.display import Displayed
from builder.types.shape import ArrayShape, Shape, has_unbounded_sizes, leaves
from lowering.errors import ArgumentError, DeviceError, ExecutionError, LoweringError
from lowering.importer import to_computation
from lowering.importer.importing import for_device
from lowering.interpreter import helper
from lowering.interpreter.instrumentation import with_probes, with_results
from lowering.interpreter.interpreter_support import DebugCall, interpreter_bytecode
from lowering.pjrt.devices import device, sharding_of
from lowering.pjrt.host_arrays import result_packer
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments
from lowering.running.program import ProgramInfo
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import StablehloModule
from lowering.stablehlo.platforms import for_platform
from lowering.stablehlo.sources import ModuleSource, module_of

Program = StablehloModule | XlaComputation
Probe = bool | XlaOp | int | str | Iterable[XlaOp | int | str] | None
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Interpretation(Displayed):
    """The result of `lowering.interpret` with `probe`.

    Attributes:
        computation: the interpreted computation; for a file or module the result of
            `lowering.to_computation`.
        result: the result, as `interpret` returns it without `probe`.
        values: the value of each probed op, in the order of recording: a NumPy array, a tuple of
            arrays nested like the op's shape, or None for a token. For an op in a computation that
            other ops apply (a called function, the condition or body of a loop, a reducer), a list
            with the value in each execution of the op, in order; empty if it was not executed.
    """

    computation: XlaComputation
    result: Any
    values: dict[XlaOp, Any]

    def __getitem__(self, op: XlaOp | int) -> Any:
        """Return the value of a probed op, given the op or its number in the computation.

        Raises:
            OperandError: `op` is neither, or was not probed.
        """
        found = _numbered(self.computation, op)
        if not isinstance(found, XlaOp) or found not in self.values:
            got = brief(op)
            if isinstance(op, str):
                fix = f"index with an op, such as computation.find({got})[0]"
            else:
                fix = "pass probe=True, or a probe that includes the op, and index with that op"
            rule = f"the values are those of {count_text(len(self.values), 'probed op')}"
            raise error_of(OperandError, "interpret", rule, fix, got=got)
        return self.values[found]

    def __repr__(self) -> str:
        count = count_text(len(self.values), "probed op")
        return f"<Interpretation of {self.computation.name!r}: {count}>"

    def _parts(self) -> list[Part]:
        probed = list(self.values.items())
        rows = [
            [f"%{op.id} {op.opcode}", op.name or "", str(op.shape), _value_text(value)]
            for op, value in probed[:_SHOWN]
        ]
        rows.append(["result", "", str(self.computation.root.shape), _value_text(self.result)])
        more = len(probed) - _SHOWN
        caption = f"{more:,} more ops; values has all" if more > 0 else ""
        columns = (Column("op", no_wrap=True), Column("name"), Column("shape"), Column("value"))
        count = count_text(len(probed), "probed op")
        heading = Heading("Interpretation", self.computation.name, count)
        return [heading, TextTable("", columns, rows, caption)]


def _numbered(computation: XlaComputation, op: Any) -> Any:
    """Return the op with a number in the computation; return other values unchanged."""
    ops = computation.ops
    return ops[op] if isinstance(op, int) and -len(ops) <= op < len(ops) else op


_SHOWN: Final = 100
_ELEMENTS: Final = 8


def _value_text(value: Any) -> str:
    """Return a value in one line, of a long array its first elements."""
    if isinstance(value, list):  # of an op that is executed several times
        latest = f", the last time {_value_text(value[-1])}" if value else ""
        return f"executed {len(value)} times{latest}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_value_text, value))})"
    if not isinstance(value, np.ndarray):
        return brief(value)
    elements = ", ".join(f"{element:.6g}" for element in value.reshape(-1)[:_ELEMENTS].tolist())
    return f"[{elements}, ...]" if value.size > _ELEMENTS else f"[{elements}]"


@overload
def interpret(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    probe: Literal[False] | None = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Any: ...


@overload
def interpret(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    probe: Literal[True] | XlaOp | int | str | Iterable[XlaOp | int | str],
    timeout: float | None = None,
    **by_name: Any,
) -> Interpretation: ...


@explained
def interpret(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    probe: Probe = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Any:
    """Run a computation on StableHLO's reference interpreter.

    The interpreter follows the StableHLO specification op by op, in the element type of each op. It
    is slow and serves as a reference. It runs in a helper process, which the first call starts in a
    few tenths of a second.

    Operations with an expansion in XLA or this library are expanded: the functions of CHLO, batch
    normalization, Fourier transforms, ragged_dot, top_k. Other unsupported operations are refused
    by name: cholesky, random numbers, custom and Python calls, communication, dynamic sizes.

    Args:
        computation: an XlaComputation, or what `lowering.load` accepts.
        args: the arguments, as for a compiled computation; see `lowering.Executable`.
        probe: ops whose values to return besides the result. True selects all ops of the
            computation itself. Else one or several of: XlaOps (also of computations that ops
            apply), numbers of ops in the computation, or opcodes. An opcode selects all ops with
            this opcode, also in computations that ops apply. None or False selects no ops.
        timeout: the time limit in seconds; None for no limit.
        by_name: arguments by the names of their parameters, except for parameters with the name
            "probe" or "timeout".

    Returns:
        The result: NumPy arrays, with element types of ml_dtypes where NumPy has none; nested in
        tuples like the root, or like the function's result; None for a token. Its static type is
        Any, because the root may be any tree. With `probe` an Interpretation with the result and
        the values.

    Raises:
        ArgumentError: the arguments do not match the parameters.
        ExecutionError: the interpreter does not support an op, failed (for instance on an integer
            division by zero), or exceeded `timeout`. The message has the op and its source line.
        LoweringError: StableHLO cannot express the computation.
        ModuleFileError: the file cannot be read.
        OperandError: `computation` is neither a computation nor what `lowering.load` accepts; or
            `probe` selects no ops.
        BuilderError: an op in `probe` belongs to another computation.

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
    program = program_of("interpret", computation, _host())
    seconds = checked_timeout("interpret", timeout)
    if probe is None or probe is False:
        arguments, nest = flat_arguments(program, args, by_name)
        return nest(run(program, arguments, timeout=seconds))
    if not isinstance(program, XlaComputation):
        program = to_computation(program)
    entry, nested = _probed(program, probe)
    arguments, nest = flat_arguments(program, args, by_name)
    names = {op: str(number) for number, op in enumerate(nested)}
    instrumented, copies = with_probes(program, names) if nested else (program, None)
    instrumented = with_results(
        instrumented, [op if copies is None else copies[op] for op in entry]
    )
    probed: dict[str, list[bytes]] = {}
    result, *entry_values = run(instrumented, arguments, timeout=seconds, probes=probed)
    values = dict(zip(entry, entry_values, strict=True))
    for op, name in names.items():
        values[op] = _executions(op.shape, probed.get(name, []))
    computations = (*program.called_computations(), program)  # callees before their callers
    ordered = {op: values[op] for each in computations for op in each.ops if op in values}
    return Interpretation(program, nest(result), ordered)


def _host() -> jax.Device:
    """Return a CPU device; jax's default device if jax is configured without CPU."""
    try:
        return device("cpu")
    except DeviceError:
        return device()


def program_of(op: str, value: Any, target: jax.Device) -> Program:
    """Return the computation or module that a user passed as `value` to the function `op`.

    Of a program for several platforms, return that for the platform of `target`.

    Raises:
        OperandError: `value` is neither a computation nor what `lowering.load` accepts.
        ArgumentError: a parameter has an unbounded size.
    """
    if isinstance(value, XlaComputation):
        program: Program = for_device(value, target)
    else:
        program = for_platform(module_of(value, op), target)
    check_sizes(op, program)
    return program


def check_sizes(op: str, program: Program) -> None:
    """Raise ArgumentError if a parameter has an unbounded size; `op` is the public function."""
    shape = program.program_shape
    for name, parameter in zip(shape.parameter_names, shape.parameters, strict=True):
        if has_unbounded_sizes(parameter):
            rule = f"parameter {name} must not have unbounded sizes"
            is_computation = isinstance(program, XlaComputation)
            module = "lowering.lower(computation)" if is_computation else "module"
            fix = f"pass the sizes: lowering.to_computation({module}, argument_shapes=[...])"
            raise error_of(ArgumentError, op, rule, fix, got=parameter)


def checked_timeout(op: str, timeout: Any) -> float | None:
    """Return the argument `timeout` as a float, or None for no limit.

    Raises:
        OperandError: `timeout` is neither a positive number nor None.
    """
    if timeout is None:
        return None
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if is_number and 0 < timeout <= threading.TIMEOUT_MAX:
        return float(timeout)
    longest = f"up to {threading.TIMEOUT_MAX:.0f}"
    rule = f"timeout must be a number of seconds above 0, {longest}, or None"
    raise error_of(OperandError, op, rule, got=brief(timeout))


def flat_arguments(
    program: Program, args: Sequence[Any], by_name: Mapping[str, Any], op: str = "interpret"
) -> tuple[list[Array], Callable[[Any], Any]]:
    """Return the arrays for `@main`, and the function that nests the result of the call.

    The arguments are checked like those of a compiled computation. Tokens are omitted.

    Raises:
        ArgumentError: the arguments do not match the parameters.
    """
    if isinstance(program, XlaComputation):
        tree = None if program.annotations is None else program.annotations.nesting
    else:
        tree = program.tree
    info = ProgramInfo(program.name, program.program_shape, tree=tree)
    arguments = Arguments(info, sharding_of(_host()))
    ordered, nest = arguments.bind(tuple(args), by_name)
    arrays = []
    for value, leaf in zip(arguments.flatten(ordered), arguments.leaves, strict=True):
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            if value.is_deleted():
                raise arguments.refusal(leaf, DELETED, DELETED_FIX)
            value = np.asarray(value)  # on any device
        if not leaf.shape.is_static:
            raise ExecutionError(
                "StableHLO's reference interpreter supports static sizes only",
                got=f"parameter {leaf.name} of {program.name}: {leaf.shape}",
                fix=f"run {program.name} on a device: lowering.compile; or use a static size",
                op=op,
            )
        array = np.asarray(arguments.put(value, leaf))
        if isinstance(leaf.shape, ArrayShape):
            arrays.append(array)
    return arrays, nest


def run(
    program: Program,
    arguments: Sequence[Array],
    *,
    timeout: float | None = None,
    probes: dict[str, list[bytes]] | None = None,
) -> Any:
    """Run a program on the interpreter; return its result, nested like its root.

    Args:
        program: the program.
        arguments: the result of `flat_arguments`.
        timeout: the time limit in seconds; None for no limit.
        probes: a dict, by name of a probe, to which the bytes that each probe reports are added.

    Raises:
        ExecutionError: see `interpret`.
    """
    code, calls = _bytecode(program)
    pieces = [code, *map(_elements, arguments)]
    probing = bool(calls) or probes is not None
    try:
        names, answer = helper.ask(pieces, probing=probing, timeout=timeout)
    except helper.HelperTimeoutError:
        rule = f"{program.name} exceeded the time limit of {timeout:g} seconds"
        fix = "pass a larger timeout=, or use smaller arrays: the interpreter is slow"
        raise error_of(ExecutionError, "interpret", rule, fix) from None
    except helper.HelperCrashError as crash:
        raise _crash_error(program, arguments, crash.report, timeout) from None
    remaining = iter(answer)
    result = _unpacked(program.program_shape.result, remaining)
    reported = iter(names)  # a print or a check reports its operands, one after the other
    for name in reported:
        call = calls.get(name)
        if call is not None:
            call.run(_unpacked(call.operands, remaining), "")
            for _ in range(call.pieces - 1):
                next(reported)
        elif probes is not None:
            probes.setdefault(name, []).append(next(remaining))
    return result


def _bytecode(program: Program) -> tuple[bytes, dict[str, DebugCall]]:
    if isinstance(program, XlaComputation):
        return interpreter_bytecode(lower(program))
    try:
        return interpreter_bytecode(program)
    except ExecutionError:
        # Importing replaces some obsolete operations by supported ones.
        try:
            imported = lower(to_computation(program))
        except LoweringError:
            pass
        else:
            return interpreter_bytecode(imported)
        raise


def nested_value(shape: Shape, read: Callable[[ArrayShape], Any]) -> Any:
    """Return a value nested like `shape`, with an array from `read` for each array leaf."""
    return result_packer(shape)(
        [read(leaf) if isinstance(leaf, ArrayShape) else None for leaf in leaves(shape)]
    )


def _unpacked(shape: Shape, pieces: Iterator[bytes]) -> Any:
    """Decode a value of a shape from the next pieces of bytes that the helper process sent."""

    def read(leaf: ArrayShape) -> Array:
        dtype = leaf.element_type.dtype
        if not leaf.element_type.is_complex:
            return np.frombuffer(bytearray(next(pieces)), dtype).reshape(leaf.dimensions)
        array = np.empty(leaf.dimensions, dtype)
        part = leaf.element_type.real_type.dtype
        array.real = np.frombuffer(next(pieces), part).reshape(leaf.dimensions)
        array.imag = np.frombuffer(next(pieces), part).reshape(leaf.dimensions)
        return array

    return nested_value(shape, read)


def _executions(shape: Shape, pieces: list[bytes]) -> list[Any]:
    """Return the values that a probe reported, one for each execution of the op."""
    arrays = [leaf for leaf in leaves(shape) if isinstance(leaf, ArrayShape)]
    piece_count = sum(2 if leaf.element_type.is_complex else 1 for leaf in arrays)
    count = len(pieces) // piece_count if piece_count else 0
    remaining = iter(pieces)
    return [_unpacked(shape, remaining) for _ in range(count)]


# Selection of ops


def _probed(computation: XlaComputation, probe: Any) -> tuple[list[XlaOp], list[XlaOp]]:
    """Return the ops that `probe` selects: in the computation, and in computations it applies.

    Raises:
        OperandError: `probe` selects no ops.
        BuilderError: `probe` has an op of another computation.
    """
    if probe is True:
        return list(computation.ops), []
    if isinstance(probe, (XlaOp, int, str)):
        probe = [probe]
    try:
        selectors = list(probe)
    except TypeError:
        raise _not_an_op(probe) from None
    applied = computation.called_computations()
    entry: dict[XlaOp, None] = {}
    nested: dict[XlaOp, None] = {}
    for selector in selectors:
        if isinstance(selector, str):
            in_entry = [op for op in computation.ops if op.opcode == selector]
            in_applied = [op for inner in applied for op in inner.ops if op.opcode == selector]
            if not in_entry and not in_applied:
                raise OperandError(
                    f"{computation.name} has no op with the probed opcode {selector!r}",
                    fix="use an opcode of its ops: "
                    f"{', '.join(sorted({op.opcode for op in computation.ops})[:20])}",
                    op="interpret",
                )
            entry.update(dict.fromkeys(in_entry))
            nested.update(dict.fromkeys(in_applied))
        elif isinstance(selector, int) and not isinstance(selector, bool):
            if not 0 <= selector < len(computation.ops):
                raise OperandError(
                    f"{computation.name} has ops 0 to {len(computation.ops) - 1}",
                    got=f"the probed op {selector}",
                    op="interpret",
                )
            entry[computation.ops[selector]] = None
        elif isinstance(selector, XlaOp):
            if _is_of(selector, computation):
                entry[selector] = None
            elif any(_is_of(selector, inner) for inner in applied):
                nested[selector] = None
            else:
                raise BuilderError(
                    f"a probed op must belong to {computation.name!r} or to a "
                    "computation that its ops apply",
                    got=f"\n  {selector!r}",
                    op="interpret",
                )
        else:
            raise _not_an_op(selector)
    return list(entry), list(nested)


def _not_an_op(value: object) -> OperandError:
    rule = "probe must be True, XlaOps, numbers of ops or opcodes"
    return error_of(OperandError, "interpret", rule, got=brief(value))


def _is_of(op: XlaOp, computation: XlaComputation) -> bool:
    return op.id < len(computation.ops) and computation.ops[op.id] is op


# Crashes


def _crash_error(
    program: Program, arguments: Sequence[Array], report: str, timeout: float | None
) -> ExecutionError:
    """Return the error for a crash of the interpreter, with the op that caused it if possible."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    reason = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")
    reason = reason.removeprefix("LLVM ERROR: ")[:200]
    suffix, fix = f": {reason}" if reason else "", ""
    op = _crashing_op(program, arguments, timeout)
    where = program.name
    if op is not None:
        recorded = f", recorded at {op.source}" if op.source else ""
        where = f"{op.opcode}, op {op.id} of {program.name}{recorded}"
        if Trait.DIVISION in SCHEMAS[op.opcode].traits and not reason:
            fix = "avoid integer divisors of 0: for instance, select 1 in place of 0"
    return ExecutionError(
        f"StableHLO's reference interpreter crashed on {where}{suffix}",
        context=("interpret",),
        fix=fix,
        op="interpret" if op is None else op.opcode,
        detail=report,
    )


def _crashing_op(
    program: Program, arguments: Sequence[Array], timeout: float | None
) -> XlaOp | None:
    """Find the op of the computation that crashes the interpreter, by bisection, or None."""
    if not isinstance(program, XlaComputation):
        try:
            program = to_computation(program)
        except ValueError:  # can't be imported
            return None
    name, ops, parameters = program.name, program.ops, program.parameters
    elements = list(map(_elements, arguments))

    def crashes(count: int) -> bool:
        """Return whether the first `count` ops crash the interpreter."""
        prefix = XlaComputation(name, ops[:count], ops[count - 1], parameters)
        try:
            pieces = [interpreter_bytecode(lower(prefix))[0], *elements]
            helper.ask(pieces, probing=True, timeout=timeout)
        except helper.HelperCrashError:
            return True
        except helper.HelperTimeoutError:
            pass
        return False

    return ops[bisect.bisect_left(range(1, len(ops)), True, key=crashes)]


def _elements(array: Array) -> bytes | memoryview:
    """The bytes of an array's elements, in row-major order."""
    elements: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(elements)
