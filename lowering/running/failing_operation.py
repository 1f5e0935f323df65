"""Find the operation for which XLA can't compile a module: XLA's reports rarely name it.

A helper process compiles each operation of the module alone, because XLA might abort.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import jax
from jaxlib.mlir import ir

from lowering.errors import CompileError
from lowering.jaxlib_api import compilation, mlir
from lowering.legalize import legalize
from lowering.legalize.precompile_checks import check_compilable
from lowering.mlir.operations import CALLS, module_with_main, operations_in
from lowering.reading.helper_process import HelperError, in_helper

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
