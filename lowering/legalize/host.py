"""Infeed, outfeed and Python functions, which a program on CPU calls Python for; send and recv."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.shape import ArrayShape
from lowering import infeed, jaxlib_api
from lowering.errors import CompileError, LoweringError, recorded_at
from lowering.host_calls import (
    PYTHON_CALL,
    PythonFunction,
    SharedCallback,
    guarded,
    python_callback,
)
from lowering.legalize.registry import STANDS_FOR, Rewriter, Value, refuse, rewrite
from lowering.legalize.sharding import CHANGES, check_partitioned
from lowering.rules.orders import layouts_text
from lowering.types import attribute_text, shape_of_type

_CHANNELS: Final = {
    "send": "xb.collective_permute sends from replica to replica, xb.outfeed and xb.python_call to "
    "the host",
    "recv": "xb.collective_permute sends from replica to replica; xb.infeed_with_token and "
    "xb.python_call receive from the host",
}


def _is_between_devices(operation: ir.Operation) -> bool:
    return "is_host_transfer" not in operation.attributes or not bool(
        ir.BoolAttr(operation.attributes["is_host_transfer"])
    )


def _is_to_the_host(operation: ir.Operation) -> bool:
    return not _is_between_devices(operation)


def _says_who_or_is_to_the_host(operation: ir.Operation) -> bool:
    """Whether it says which device sends to which, or is refused for another reason."""
    pairs, words = "source_target_pairs", "mhlo.frontend_attributes"
    attributes = operation.attributes
    said = pairs in attributes or (words in attributes and pairs in str(attributes[words]))
    return said or _is_to_the_host(operation)


for _name, _fix in _CHANNELS.items():
    refuse(f"stablehlo.{_name}", "cpu", reason="XLA has no code for it there", fix=_fix)
    # XLA asks its client for a function that takes or brings the elements; jaxlib passes none on.
    refuse(
        f"stablehlo.{_name}",
        *("gpu", "tpu"),
        reason="jaxlib gives a client no way to the host's side of it",
        fix="pass values as arguments and results",
        unless=_is_between_devices,
    )
    _fix = "xb.collective_permute sends from replica to replica"
    refuse(
        f"stablehlo.{_name}",
        "gpu",
        reason="XLA wants to know which device sends to which, which it does not say",
        fix=_fix,
        unless=_says_who_or_is_to_the_host,
    )
    refuse(
        f"stablehlo.{_name}",
        "tpu",
        reason="XLA's compiler dies of it there",
        fix=_fix,
        unless=_is_to_the_host,
    )
for _name in ("infeed", "outfeed"):
    refuse(
        f"stablehlo.{_name}",
        *("gpu", "tpu"),
        reason="jaxlib gives a client no way to it, and the program would wait for ever",
        fix="pass values as arguments and results, or compile for 'cpu'",
    )


@rewrite("stablehlo.infeed", "cpu")
def _infeed(rewriter: Rewriter, operation: ir.Operation) -> None:
    """A call of a function that takes the next value out of the device's queue."""
    *data, token = [result.type for result in operation.results]
    if not data:
        # Nothing is read for an empty tuple.
        rewriter.replace(operation, list(operation.operands))
        return
    shapes = [_array(t) for t in data]
    name, place = rewriter.name, recorded_at(operation.location)
    devices, waits = rewriter.devices, rewriter.failure.waits

    def read(device: Any, _arguments: Sequence[Any]) -> tuple[Any, ...]:
        if len(devices) == 1:
            return (*infeed.read(device, shapes, name, place), None)
        begun = time.monotonic()
        arrays = infeed.read(device, shapes, name, place, most=waits.left(device))
        waits.add(device, time.monotonic() - begun, devices)
        return (*arrays, None)

    call = _call(rewriter, operation, [*data, token], "infeed", read)
    rewriter.replace(operation, list(call.results))


@rewrite("stablehlo.outfeed", "cpu")
def _outfeed(rewriter: Rewriter, operation: ir.Operation) -> None:
    """A call of a function that puts a value into the device's queue."""
    if len(operation.operands) == 1:
        rewriter.replace(operation, list(operation.operands))
        return
    devices, waits = rewriter.devices, rewriter.failure.waits

    def write(device: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
        infeed.write(device, arguments[:-1])
        if len(devices) > 1:
            waits.add(device, 0.0, devices)
        return (None,)

    call = _call(rewriter, operation, [operation.results[0].type], "outfeed", write)
    rewriter.replace(operation, list(call.results))


@rewrite("stablehlo.custom_call", "cpu", "gpu", "tpu")
def _python_call(rewriter: Rewriter, operation: ir.Operation) -> None:
    """A call of a Python function; other custom calls are said to be in rows, but for those that
    XLA's partitioner knows."""
    target = attribute_text(operation.attributes["call_target_name"])
    if target in CHANGES:
        check_partitioned(rewriter, operation, target)
        return
    if target != PYTHON_CALL:
        if target in jaxlib_api.registered_targets(rewriter.platform):
            _say_layouts(operation)
        return
    place = recorded_at(operation.location)
    called = _function_of(rewriter, operation, place)
    if rewriter.platform != "cpu":
        raise CompileError(
            f"compile: {rewriter.name}: python_call{place} can't run on {rewriter.platform}: a "
            f"program calls Python on CPU alone, got function {called.name}{called.place}\n"
            f"fix: compile for 'cpu', or split the computation there",
            op="python_call",
        )
    function = python_callback(called, rewriter.name, place)
    types = [result.type for result in operation.results]
    call = _callback(rewriter, operation, types, list(operation.operands), "python_call", function)
    if "has_side_effect" in operation.attributes:
        call.attributes["has_side_effect"] = operation.attributes["has_side_effect"]
    rewriter.replace(operation, list(call.results))


def _function_of(rewriter: Rewriter, operation: ir.Operation, place: str) -> PythonFunction:
    """The function that a call means, which the module must have brought along."""
    name, index = "?", None
    if "backend_config" in operation.attributes:
        text = str(operation.attributes["backend_config"])
        name = (re.search(r'name = "([^"]*)"', text) or ["", "?"])[1]
        found = re.search(r"\bindex = (\d+)", text)
        index = None if found is None else int(found[1])
    if index is None or index >= len(rewriter.functions):
        raise CompileError(
            f"compile: {rewriter.name}: python_call{place} calls the Python function {name}, which "
            f"the module does not hold: it was read from a file or a text\n"
            f"fix: compile the computation itself, in the program that records it",
            op="python_call",
        )
    return rewriter.functions[index]


def _array(mlir_type: ir.Type) -> ArrayShape:
    shape = shape_of_type(mlir_type)
    assert isinstance(shape, ArrayShape)  # the verifier has said so
    return shape


def _call(
    rewriter: Rewriter,
    operation: ir.Operation,
    results: Sequence[ir.Type],
    stands_for: str,
    function: Callable[[Any, Sequence[Any]], tuple[Any, ...]],
) -> ir.Operation:
    """A call of a function that is told on which device the program runs."""
    if rewriter.num_partitions > 1:
        raise CompileError(
            f"compile: {rewriter.name}: {stands_for}{recorded_at(operation.location)} can't run "
            f"where a replica is cut into partitions, got {rewriter.num_partitions}\n"
            f"fix: run it on replicas, or pass values as arguments",
            op=stands_for,
        )
    devices = rewriter.devices
    operands = list(operation.operands)
    if len(devices) == 1:

        def call(*arguments: Any) -> tuple[Any, ...]:
            return function(devices[0], arguments)

    else:
        number_type = ir.Type.parse("tensor<ui32>")
        number = rewriter.create("stablehlo.replica_id", [number_type], [], before=operation)
        operands.insert(0, number.result)

        def call(*arguments: Any) -> tuple[Any, ...]:
            return function(devices[int(np.asarray(arguments[0]))], arguments[1:])

    made = _callback(rewriter, operation, results, operands, stands_for, call)
    made.attributes["has_side_effect"] = ir.BoolAttr.get(True)
    return made


def _callback(
    rewriter: Rewriter,
    operation: ir.Operation,
    results: Sequence[ir.Type],
    operands: Sequence[Value],
    stands_for: str,
    function: Callable[..., tuple[Any, ...]],
) -> ir.Operation:
    """A custom call of a Python function before `operation`; what it raises is kept."""
    if len(rewriter.devices) > 1:
        shapes = [shape_of_type(t) for t in results]
        index = rewriter.add_callback(SharedCallback(function, shapes, rewriter.failure))
    else:
        index = rewriter.add_callback(guarded(function))
    attributes: dict[str, ir.Attribute] = {
        "call_target_name": ir.StringAttr.get(jaxlib_api.CALLBACK_TARGET),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        "backend_config": ir.Attribute.parse(f"{{index = {index} : ui64}}"),
        STANDS_FOR: ir.StringAttr.get(stands_for),
    }
    made = rewriter.create("stablehlo.custom_call", results, operands, attributes, before=operation)
    _say_layouts(made)
    return made


def _say_layouts(call: ir.Operation) -> None:
    """Has operands and results be row-major, as functions take them, if nothing is said.

    XLA would choose layouts by what gives the operands and takes the results, such as the end of a
    program that gives columns, and tell the function nothing of it.
    """
    if "operand_layouts" in call.attributes:
        return
    results = [result.type for result in call.results]
    if len(results) == 1 and isinstance(results[0], ir.TupleType):
        results = [results[0].get_type(i) for i in range(results[0].num_types)]
    operands = [operand.type for operand in call.operands]
    try:
        shapes = [[shape_of_type(t) for t in types] for types in (operands, results)]
    except LoweringError:  # a module of others, with types of which XLA has no arrays
        return
    for name, found in zip(("operand_layouts", "result_layouts"), shapes, strict=True):
        call.attributes[name] = ir.Attribute.parse(layouts_text(found))
