"""Raise errors for programs that fail to run, and name the operation that XLA can't compile.

As in jax, a call returns before the program has ended, and XLA reports a later failure when a
result is read. If a failure is likely, the call waits instead, and raises an error that names the
cause.

If XLA can't compile a module, its report rarely names the operation. A helper process compiles each
operation of the module alone, because XLA might abort.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import jax
import numpy as np
from jaxlib.mlir import ir

from builder.inspection.rendering import bytes_text
from lowering.errors import CompileError, ExecutionError
from lowering.jaxlib_api import compilation, mlir
from lowering.mlir.operations import CALLS, module_with_main, operations_in
from lowering.pjrt.failures import (
    host_memory,
    is_out_of_memory,
    requested_bytes_text,
    without_status_code,
)
from lowering.reading.helper_process import HelperError, in_helper
from lowering.running.program import ProgramInfo


def bytes_needed(loaded: Any) -> int:
    """Return the bytes of arguments, results and temporary values; 0 if XLA does not report them.

    XLA counts them for each call, which takes milliseconds for a program with many results.
    """
    return sum(_memory(loaded).values())


def must_wait(info: ProgramInfo, device: jax.Device, needed: int) -> bool:
    """Return whether a call waits for the end of the program.

    A call waits for a program that calls Python functions, that calls registered functions on CPU
    that can report an error, or that needs more memory than the device has.

    Args:
        info: the program.
        device: a device that it runs on.
        needed: its `bytes_needed`.
    """
    if info.callbacks or (info.handlers and device.platform == "cpu"):
        return True
    return needed > _memory_of(device)


def may_lack_memory(needed: int) -> bool:
    """Return whether a program needs so many bytes that an out-of-memory error is possible.

    For smaller programs, calls do not translate out-of-memory errors: it would slow down each call.
    """
    return needed > _LITTLE_MEMORY


_LITTLE_MEMORY: Final = 1 << 20


def _memory(loaded: Any) -> dict[str, int]:
    """Return the sizes in bytes of the arguments, results and temporary values.

    The dictionary is empty if XLA does not report the sizes.
    """
    try:
        memory = compilation.compiled_memory(loaded)
    except (RuntimeError, AttributeError):
        return {}
    return {name: memory[name] for name in ("arguments", "results", "temporary")}


@lru_cache(maxsize=256)
def _memory_of(device: jax.Device) -> float:
    """Return the size of a device's memory in bytes; infinity if it is not reported."""
    any_device: Any = device
    if any_device.platform == "cpu":
        return host_memory()
    try:
        return float(any_device.memory_stats()["bytes_limit"])
    except (AttributeError, KeyError, RuntimeError, TypeError, NotImplementedError):
        return float("inf")  # each is the answer of some plugin that does not report its memory


def check_numbers(name: str, results: Sequence[jax.Array]) -> None:
    """Raise FloatingPointError for a NaN or an infinity, if jax's flags request it.

    jax itself checks the results of calls that jaxlib executes without Python.

    Args:
        name: the program's name.
        results: the program's results.
    """
    # Reading the flags through jax.config is much slower.
    nans, infs = jax.debug_nans.value, jax.debug_infs.value
    if not nans and not infs:
        return
    for is_enabled, test, kind in ((nans, np.isnan, "nan"), (infs, np.isinf, "inf")):
        for array in results if is_enabled else ():
            if jax.numpy.issubdtype(array.dtype, np.inexact) and test(np.asarray(array)).any():
                raise FloatingPointError(f"invalid value ({kind}) encountered in {name}")


def raise_execution_error(
    error: RuntimeError | ValueError, info: ProgramInfo, loaded: Any, where: str
) -> None:
    """Raise ExecutionError if memory ran out, or a registered function of a custom_call failed.

    Args:
        error: jaxlib's error, raised by the call or by waiting for its end.
        info: the program's metadata.
        loaded: the LoadedExecutable.
        where: the device or devices, for messages.
    """
    if isinstance(error, ExecutionError):
        return  # raised by a Python function that several devices call
    if is_out_of_memory(error):
        parts = ", ".join(f"{bytes_text(n)} of {name}" for name, n in _memory(loaded).items())
        needs = f"; the program needs {parts} on each device" if parts else ""
        raise ExecutionError(
            f"out of memory on {where}{requested_bytes_text(error)}{needs}",
            context=(info.name,),
            fix="make the program's arrays smaller, donate arguments that are not needed "
            "afterwards (donate=[...]), or delete arrays (array.delete())",
            detail=str(error),
        ) from None
    report = without_status_code(str(error))
    # XLA refuses deleted and donated arguments before it calls a handler.
    if info.handlers and not re.search("deleted|donated", report):
        fix = ""
        if re.search("attributes|decode|Wrong number of", report):
            fix = (
                "pass the attributes, operands and results of the handler's binding, with "
                "exactly the types of the binding: numpy.float32(2.5) for a float, 2.5 for a "
                "double, 2 for an int64_t"
            )
        raise ExecutionError(
            f"custom_call of {' or '.join(info.handlers)} failed: {report}",
            context=(info.name,),
            fix=fix,
            op="custom_call",
            detail=str(error),
        ) from None


_MOST_OPERATIONS: Final = 200
"""The maximum number of operations that are compiled."""

_SECONDS: Final = 120.0
"""The time limit of the helper process."""

_SKIPPED: Final = frozenset(
    ("builtin.module", "func.func", "func.return", "stablehlo.return", "stablehlo.constant", *CALLS)
)


def failing_operation(
    module: ir.Module, report: str, platform: str, num_replicas: int, num_partitions: int
) -> ir.Operation | None:
    """Return the operation for which XLA can't compile a module; None if it is unknown.

    Args:
        module: the module, before `legalize`.
        report: XLA's report, which quotes some operations. If no operation fails alone, the first
            one whose name occurs in the report is returned.
        platform: the platform; operations are compiled alone only for "cpu".
        num_replicas, num_partitions: the numbers of devices.
    """
    operations = [each for each in operations_in(module.operation) if each.name not in _SKIPPED]
    quoted = [each for each in operations if f"'{each.name}'" in report]
    if len(quoted) == 1:
        return quoted[0]
    if platform == "cpu":
        number = _number_of_failing_operation(module, num_replicas, num_partitions)
        if number is not None:
            return operations[number]
    letters = _letters(report)
    return next((o for o in operations if _letters(o.name.partition(".")[2]) in letters), None)


def _letters(text: str) -> str:
    """Return the letters of a text: XLA writes the name all_reduce as AllReduce or all-reduce."""
    return re.sub("[^a-z0-9]", "", text.lower())


def _number_of_failing_operation(
    module: ir.Module, num_replicas: int, num_partitions: int
) -> int | None:
    head = json.dumps([num_replicas, num_partitions]).encode()
    try:
        answer = in_helper(
            number_of_failing_operation,
            head + b"\n" + mlir.bytecode(module),
            crash_reason="XLA aborts on an operation",
            seconds=_SECONDS,
        )
    except HelperError:
        return None
    return int(answer) if answer else None


def number_of_failing_operation(source: bytes) -> bytes:
    """Return the position of the failing operation, as text; empty if there is none.

    Args:
        source: the numbers of replicas and partitions as JSON, a line break, and the bytecode.
    """
    head, _, code = source.partition(b"\n")
    replicas, partitions = json.loads(head)
    settings = {"jax_platforms": "cpu", "jax_num_cpu_devices": replicas * partitions}
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]  # jax has no types
    module = mlir.read_module(mlir.new_context(), code)
    compiled = set()
    operations = [each for each in operations_in(module.operation) if each.name not in _SKIPPED]
    for number, operation in enumerate(operations):
        alone = _alone(operation)
        text = str(alone)
        if text in compiled:
            continue
        compiled.add(text)
        if not _compiles(alone, replicas, partitions):
            return str(number).encode()
        if len(compiled) == _MOST_OPERATIONS:
            break
    return b""


def _compiles(module: ir.Module, replicas: int, partitions: int) -> bool:
    # lazy imports: a saved executable is loaded and called without the rewrites
    from lowering.legalize import legalize
    from lowering.legalize.precompile_checks import check_compilable

    devices = jax.devices()
    try:
        legalized = legalize(module, "main", "cpu", replicas, partitions, devices=devices)
        check_compilable(legalized.operation, "main", "cpu")
        compilation.compile_and_load(
            devices, legalized.code, num_replicas=replicas, num_partitions=partitions
        )
    except CompileError:
        return True  # a check that the module has passed: it concerns the operation's surroundings
    except (ValueError, ir.MLIRError):
        return False
    return True


def _alone(operation: ir.Operation) -> ir.Module:
    """Return a module whose @main has a copy of an operation, its regions included."""
    captured = list(dict.fromkeys(_captured(operation)))
    values = [*operation.operands, *captured]
    results = [result.type for result in operation.results]
    with operation.context, ir.Location.unknown(operation.context):
        types = [value.type for value in values]
        module, block = module_with_main(operation.context, types, results)
        end = ir.InsertionPoint(block)
        copy = operation.clone(end).operation
        arguments = list(block.arguments)
        for position in range(len(operation.operands)):
            copy.operands[position] = arguments[position]
        replaced = dict(zip(captured, arguments[len(operation.operands) :], strict=True))
        for inner in operations_in(copy):
            for position, value in enumerate(inner.operands):
                if inner is not copy and value in replaced:
                    inner.operands[position] = replaced[value]
        ir.Operation.create("func.return", operands=list(copy.results), ip=end)
    return module


def _captured(operation: ir.Operation) -> Iterator[Any]:
    """Yield the values from outside of an operation that its regions use."""
    inner = [each for each in operations_in(operation) if each != operation]
    inside: list[Any] = [result for each in inner for result in each.results]
    for each in (operation, *inner):
        for region in each.regions:
            for block in region.blocks:
                inside.extend(block.arguments)
    defined = set(inside)
    for each in inner:
        yield from (value for value in each.operands if value not in defined)
