"""Infeed, outfeed and Python functions, for which a CPU program calls Python; send and recv."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.errors import CompileError, LoweringError, recorded_at
from lowering.host import infeed
from lowering.host.callbacks import (
    PYTHON_CALL,
    PythonFunction,
    SharedCallback,
    guarded,
    python_callback,
)
from lowering.jaxlib_api import compilation
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import (
    ALL_PLATFORMS,
    STANDS_FOR,
    Target,
    Value,
    refuse,
    rewrite,
)
from lowering.legalize.sharding import CHANGES, check_partitioned
from lowering.mlir.types import attribute_text, shape_of_type
from lowering.stablehlo.rules.operand_layouts import layouts_text

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


@rewrite("stablehlo.infeed", platforms=("cpu",))
def _infeed(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    """Call a Python function that takes the next value out of the device's queue.

    jaxlib gives a client no access to the infeed of XLA's CPU backend.
    """
    *data, token = [result.type for result in operation.results]
    if not data:
        # Nothing is read for an empty tuple.
        return list(operation.operands)
    shapes = [_array(t) for t in data]
    name, place = b.target.name, recorded_at(operation.location)
    devices, waits = b.target.devices, b.target.failure.waits

    def read(device: Any, _arguments: Sequence[Any]) -> tuple[Any, ...]:
        if len(devices) == 1:
            return (*infeed.read(device, shapes, name, place), None)
        begun = time.monotonic()
        arrays = infeed.read(device, shapes, name, place, most=waits.left(device))
        waits.add(device, time.monotonic() - begun, devices)
        return (*arrays, None)

    call = _call(b, operation, [*data, token], "infeed", read)
    return list(call.results)


@rewrite("stablehlo.outfeed", platforms=("cpu",))
def _outfeed(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    """Call a Python function that puts a value into the device's queue.

    jaxlib gives a client no access to the outfeed of XLA's CPU backend.
    """
    if len(operation.operands) == 1:
        return list(operation.operands)
    devices, waits = b.target.devices, b.target.failure.waits

    def write(device: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
        infeed.write(device, arguments[:-1])
        if len(devices) > 1:
            waits.add(device, 0.0, devices)
        return (None,)

    call = _call(b, operation, [operation.results[0].type], "outfeed", write)
    return list(call.results)


@rewrite("stablehlo.custom_call", platforms=ALL_PLATFORMS)
def _python_call(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Call a Python function through jaxlib, and give other registered calls row-major layouts.

    A call without layouts gets those that XLA chooses, which a function does not learn. The calls
    that change between whole arrays and shards are checked, and removed if there is one partition.
    """
    target = attribute_text(operation.attributes["call_target_name"])
    if target in CHANGES:
        return check_partitioned(b.target, operation, target)
    if target != PYTHON_CALL:
        if target not in compilation.registered_targets(b.target.platform):
            return None
        _set_layouts(operation)
        return list(operation.results)
    place = recorded_at(operation.location)
    called = _function_of(b.target, operation, place)
    if b.target.platform != "cpu":
        raise CompileError(
            f"compile: {b.target.name}: python_call{place} can't run on {b.target.platform}: a "
            f"program calls Python on CPU alone, got function {called.name}{called.place}\n"
            f"fix: compile for 'cpu', or split the computation there",
            op="python_call",
        )
    function = python_callback(called, b.target.name, place)
    types = [result.type for result in operation.results]
    call = _callback(b, types, list(operation.operands), "python_call", function)
    if "has_side_effect" in operation.attributes:
        call.attributes["has_side_effect"] = operation.attributes["has_side_effect"]
    return list(call.results)


def _function_of(target: Target, operation: ir.Operation, place: str) -> PythonFunction:
    """The function that a call refers to, which must have come with the module."""
    name, index = "?", None
    if "backend_config" in operation.attributes:
        text = str(operation.attributes["backend_config"])
        name = (re.search(r'name = "([^"]*)"', text) or ["", "?"])[1]
        found = re.search(r"\bindex = (\d+)", text)
        index = None if found is None else int(found[1])
    if index is None or index >= len(target.functions):
        raise CompileError(
            f"compile: {target.name}: python_call{place} calls the Python function {name}, which "
            f"the module does not hold: it was read from a file or a text\n"
            f"fix: compile the computation itself, in the program that records it",
            op="python_call",
        )
    return target.functions[index]


def _array(mlir_type: ir.Type) -> ArrayShape:
    shape = shape_of_type(mlir_type)
    assert isinstance(shape, ArrayShape)  # the verifier has said so
    return shape


def _call(
    b: OpBuilder,
    operation: ir.Operation,
    results: Sequence[ir.Type],
    stands_for: str,
    function: Callable[[Any, Sequence[Any]], tuple[Any, ...]],
) -> ir.Operation:
    """A call of a function that gets the device on which the program runs."""
    if b.target.num_partitions > 1:
        raise CompileError(
            f"compile: {b.target.name}: {stands_for}{recorded_at(operation.location)} can't run "
            f"where a replica is cut into partitions, got {b.target.num_partitions}\n"
            f"fix: run it on replicas, or pass values as arguments",
            op=stands_for,
        )
    devices = b.target.devices
    operands = list(operation.operands)
    if len(devices) == 1:

        def call(*arguments: Any) -> tuple[Any, ...]:
            return function(devices[0], arguments)

    else:
        operands.insert(0, b("replica_id", intern_array(pt.u32, ()), []))

        def call(*arguments: Any) -> tuple[Any, ...]:
            return function(devices[int(np.asarray(arguments[0]))], arguments[1:])

    made = _callback(b, results, operands, stands_for, call)
    made.attributes["has_side_effect"] = ir.BoolAttr.get(True)
    return made


def _callback(
    b: OpBuilder,
    results: Sequence[ir.Type],
    operands: Sequence[Value],
    stands_for: str,
    function: Callable[..., tuple[Any, ...]],
) -> ir.Operation:
    """A custom call of a Python function, whose exceptions are stored."""
    if len(b.target.devices) > 1:
        shapes = [shape_of_type(t) for t in results]
        index = b.target.add_callback(SharedCallback(function, shapes, b.target.failure))
    else:
        index = b.target.add_callback(guarded(function))
    attributes: dict[str, ir.Attribute] = {
        "call_target_name": ir.StringAttr.get(compilation.CALLBACK_TARGET),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        "backend_config": ir.Attribute.parse(f"{{index = {index} : ui64}}"),
        STANDS_FOR: ir.StringAttr.get(stands_for),
    }
    made = b.create("custom_call", results, operands, attributes)
    _set_layouts(made)
    return made


def _set_layouts(call: ir.Operation) -> None:
    """Give the operands and results of a call row-major layouts, unless it has layouts.

    XLA would choose layouts by the producers of the operands and the users of the results, such as
    a program with column-major results, and not pass them to the function.
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
