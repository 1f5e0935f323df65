"""Rewrites of infeed, outfeed and Python calls to callbacks on CPU, and refusals of transfers."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.ops.host import PYTHON_CALL_TARGET
from builder.types import primitive_type as pt
from builder.types.shape import TokenShape, TupleShape, intern_array
from lowering.errors import CompileError, ExecutionError, LoweringError, recorded_at
from lowering.host import infeed
from lowering.host.callbacks import (
    PythonFunction,
    SharedCallback,
    guarded,
    python_callback,
)
from lowering.jaxlib_api import compilation
from lowering.legalize.loaded_modules import check_signature
from lowering.legalize.op_builder import OpBuilder, array_of
from lowering.legalize.partitions import SHAPE_CONVERSIONS, replace_shape_conversion
from lowering.legalize.registry import (
    ALL_PLATFORMS,
    PUBLIC_NAME,
    Target,
    Value,
    refuse,
    rewrite,
)
from lowering.mlir.attributes import layouts_text
from lowering.mlir.operations import attribute_text
from lowering.mlir.types import shape_of_type

_PERMUTE: Final = "use xb.collective_permute to send from replica to replica"

_ON_CPU: Final = {
    "send": f"{_PERMUTE}, and xb.outfeed or xb.python_call to send to the host",
    "recv": f"{_PERMUTE}, and xb.infeed_with_token or xb.python_call to receive from the host",
}


def _is_between_devices(operation: ir.Operation) -> bool:
    flag = "is_host_transfer"
    attributes = operation.attributes
    return flag not in attributes or not bool(ir.BoolAttr(attributes[flag]))


def _is_host_transfer(operation: ir.Operation) -> bool:
    return not _is_between_devices(operation)


def _has_pairs_or_is_host_transfer(operation: ir.Operation) -> bool:
    """Whether a transfer has source_target_pairs, or is with the host (refused separately)."""
    pairs, frontend = "source_target_pairs", "mhlo.frontend_attributes"
    attributes = operation.attributes
    has_pairs = pairs in attributes or (
        frontend in attributes and pairs in str(attributes[frontend])
    )
    return has_pairs or _is_host_transfer(operation)


for _name, _fix in _ON_CPU.items():
    refuse(
        f"stablehlo.{_name}",
        "cpu",
        reason=f"XLA's CPU backend does not support {_name}",
        fix=_fix,
    )
    # XLA's client accepts functions that transfer the elements, but jaxlib does not expose them.
    refuse(
        f"stablehlo.{_name}",
        *("gpu", "tpu"),
        reason="jaxlib has no interface for the host's side of the transfer",
        fix="pass values as arguments and results",
        unless=_is_between_devices,
    )
    refuse(
        f"stablehlo.{_name}",
        "gpu",
        reason=f"XLA requires the attribute source_target_pairs of {_name}, got none",
        fix=_PERMUTE,
        unless=_has_pairs_or_is_host_transfer,
    )
    refuse(
        f"stablehlo.{_name}",
        "tpu",
        reason=f"XLA's compiler aborts on a {_name} between devices",
        fix=_PERMUTE,
        unless=_is_host_transfer,
    )
for _name in ("infeed", "outfeed"):
    refuse(
        f"stablehlo.{_name}",
        *("gpu", "tpu"),
        reason=f"jaxlib has no interface for the host's side of {_name}, and the program would "
        "wait forever",
        fix="pass values as arguments and results, or compile for 'cpu'",
    )


@rewrite("stablehlo.infeed", platforms=("cpu",))
def infeed_as_callback(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    """Replace an infeed by a call of a Python function that takes a value from the device's queue.

    jaxlib has no interface for the infeed of XLA's CPU backend.
    """
    *data, token = [result.type for result in operation.results]
    if not data:
        # An empty tuple has no data to read.
        return list(operation.operands)
    shapes = [array_of(result) for result in list(operation.results)[:-1]]
    name, place = b.target.name, recorded_at(operation.location)
    devices, waits = b.target.devices, b.target.failure.waits

    def read(device: Any, _arguments: Sequence[Any]) -> tuple[Any, ...]:
        if len(devices) == 1:
            return (*infeed._read(device, shapes, name, place), None)
        started = time.monotonic()
        arrays = infeed._read(device, shapes, name, place, most=waits.left(device))
        waits.add(device, time.monotonic() - started, devices)
        return (*arrays, None)

    return _call_with_device(b, operation, [*data, token], "infeed", read)


@rewrite("stablehlo.outfeed", platforms=("cpu",))
def outfeed_as_callback(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    """Replace an outfeed by a call of a Python function that adds the value to the device's queue.

    jaxlib has no interface for the outfeed of XLA's CPU backend.
    """
    if len(operation.operands) == 1:
        return list(operation.operands)
    devices, waits = b.target.devices, b.target.failure.waits

    def write(device: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
        infeed._write(device, arguments[:-1])
        if len(devices) > 1:
            waits.add(device, 0.0, devices)
        return (None,)

    return _call_with_device(b, operation, [operation.results[0].type], "outfeed", write)


@rewrite("stablehlo.custom_call", platforms=ALL_PLATFORMS)
def calls_of_registered_functions(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Call Python functions through jaxlib, and set row-major layouts of other custom calls.

    A module of jax refers to Python functions by index, and does not contain them, so XLA would
    crash. Without layouts, XLA would choose the layouts of a call's operands and results, and the
    called function can't query these layouts. Conversions between full arrays and shards are
    removed if there is one partition. Calls that XLA implements are checked.
    """
    if PUBLIC_NAME in operation.attributes:
        return None  # created by a rewrite
    target = attribute_text(operation.attributes["call_target_name"])
    check_signature(b.target, operation, target)
    if target in SHAPE_CONVERSIONS:
        return replace_shape_conversion(b.target, operation, target)
    if target in _JAX_CALLBACKS:
        return _supply_function(b, operation, target)
    if target != PYTHON_CALL_TARGET:
        if target not in compilation.registered_targets(b.target.platform):
            return None
        _set_layouts(operation)
        return operation.results
    place = recorded_at(operation.location)
    function = _recorded_function(b.target, operation, place)
    _check_platform(b.target, "python_call", place, f"{function.name}{function.place}")
    call_function = python_callback(function, b.target.name, place)
    types = [result.type for result in operation.results]
    call = callback(b, types, list(operation.operands), "python_call", call_function)
    if "has_side_effect" in operation.attributes:
        call.attributes["has_side_effect"] = operation.attributes["has_side_effect"]
    return list(call.results)


def _recorded_function(target: Target, operation: ir.Operation, place: str) -> PythonFunction:
    """The Python function that a call refers to; CompileError unless the process recorded it."""
    text = ""
    if "backend_config" in operation.attributes:
        text = str(operation.attributes["backend_config"])
    index = re.search(r"\bindex = (\d+)", text)
    if index is None or int(index[1]) >= len(target.functions):
        name = (re.search(r'name = "([^"]*)"', text) or ["", "?"])[1]
        raise CompileError(
            f"python_call{place} requires the Python function {name}, "
            "which a module that was read from a file or from text does not contain",
            context=("compile", target.name),
            fix="compile the computation itself, in the program that records it",
            op="python_call",
        )
    return target.functions[int(index[1])]


_JAX_CALLBACKS: Final = frozenset(
    f"xla_{kind}python_{platform}_callback"
    for kind in ("", "ffi_", "ffi_partitioned_")
    for platform in ("cpu", "gpu")
)
"""The targets of jax's calls of Python functions: pure_callback, io_callback, debug.print."""

_CONFIGURATIONS: Final = ("mhlo.backend_config", "backend_config")
"""The attributes that may contain the index of a Python function."""


def _supply_function(b: OpBuilder, operation: ir.Operation, call_target: str) -> Sequence[Value]:
    """Make a call of jax refer to the Python function that `compile` received for its index."""
    target, place = b.target, recorded_at(operation.location)
    index, name = _function_index(operation)
    if index is None or index >= len(target.supplied):
        got = f"{len(target.supplied)} functions" if target.supplied else "no functions"
        fix = "lower the program without callbacks, since the module can't contain the functions"
        if index is not None:
            fix = (
                f"pass the functions to compile: callbacks=[function], a list of {index + 1} "
                f"or more functions, with None for a function that is never called"
            )
        raise CompileError(
            f"custom_call of {call_target!r}{place} requires the Python "
            f"function{'' if index is None else f' {index}'} of the process that lowered the "
            "module",
            got=got,
            context=("compile", target.name),
            fix=fix,
            op="custom_call",
        )
    _check_platform(target, f"custom_call of {call_target!r}", place, f"{index}")
    if target.num_partitions > 1 and "partitioned" in call_target:
        raise CompileError(
            f"custom_call of {call_target!r}{place} can't run on several partitions",
            got=f"num_partitions={target.num_partitions}",
            context=("compile", target.name),
            fix="compile for one partition",
            op="custom_call",
        )
    callback = _without_tokens(operation, target.supplied[index], index, target.name, place)
    number = _add_callback(target, [r.type for r in operation.results], callback)
    operation.attributes[name] = ir.Attribute.parse(f"{{index = {number} : ui64}}")
    operation.attributes["call_target_name"] = ir.StringAttr.get(compilation.CALLBACK_TARGET)
    _set_layouts(operation)
    return operation.results


def _function_index(operation: ir.Operation) -> tuple[int | None, str]:
    """Return the index of the Python function in a call of jax, and the index attribute's name.

    Return None and "" if no attribute contains an index.
    """
    for name in _CONFIGURATIONS:
        text = str(operation.attributes[name]) if name in operation.attributes else ""
        index = re.search(r"\bindex = (\d+)", text)
        if index is not None:
            return int(index[1]), name
    return None, ""


def _without_tokens(
    operation: ir.Operation,
    function: Callable[..., Any] | None,
    index: int,
    computation: str,
    place: str,
) -> Callable[..., tuple[Any, ...]]:
    """Return the function for XLA to call, which passes arrays to `function`, but no tokens."""
    if function is None:
        reason = f"calls the Python function {index}, and callbacks[{index}] is None"
        fix = f"pass a function as callbacks[{index}]"

        def fail(*_: Any) -> tuple[Any, ...]:
            rule = f"custom_call{place} {reason}"
            raise ExecutionError(rule, op="custom_call", fix=fix, context=(computation,))

        return fail
    operands = tuple(shape_of_type(operand.type) for operand in operation.operands)
    results = [shape_of_type(result.type) for result in operation.results]
    arrays = [shape for shape in results if not isinstance(shape, TokenShape)]

    @functools.wraps(function, updated=())
    def call(*arguments: Any) -> Any:
        result = function(*(a for a in arguments if a is not None))
        return result if arrays else ()

    shape = arrays[0] if len(arrays) == 1 else TupleShape(arrays)
    called = PythonFunction(call, getattr(function, "__name__", repr(function)), operands, shape)
    checked = python_callback(called, computation, place, "custom_call")

    def with_tokens(*arguments: Any) -> tuple[Any, ...]:
        values = iter(checked(*arguments))
        return tuple(None if isinstance(s, TokenShape) else next(values) for s in results)

    return with_tokens


def _check_platform(target: Target, call: str, place: str, function: str) -> None:
    """Refuse a call of a Python function on platforms other than CPU."""
    if target.platform != "cpu":
        raise CompileError(
            f"{call}{place} can't run on {target.platform}: it calls the Python function "
            f"{function}, and only programs on CPU can call Python",
            context=("compile", target.name),
            fix="compile for 'cpu', or split the computation at the call of the function",
            op=call.partition(" ")[0],
        )


def _call_with_device(
    b: OpBuilder,
    operation: ir.Operation,
    results: Sequence[ir.Type],
    public_name: str,
    function: Callable[[Any, Sequence[Any]], tuple[Any, ...]],
) -> list[Value]:
    """Create a call of a Python function; its arguments are the running device and the operands."""
    if b.target.num_partitions > 1:
        raise CompileError(
            f"{public_name}{recorded_at(operation.location)} can't run on several partitions",
            got=f"num_partitions={b.target.num_partitions}",
            context=("compile", b.target.name),
            fix="run the program on replicas, or pass values as arguments",
            op=public_name,
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

    made = callback(b, results, operands, public_name, call)
    made.attributes["has_side_effect"] = ir.BoolAttr.get(True)
    return list(made.results)


def callback(
    b: OpBuilder,
    results: Sequence[ir.Type],
    operands: Sequence[Value],
    public_name: str,
    function: Callable[..., tuple[Any, ...]],
) -> ir.Operation:
    """Create a custom call of a Python function; the callback stores the function's exceptions."""
    index = _add_callback(b.target, results, function)
    attributes: dict[str, ir.Attribute | str] = {
        "call_target_name": ir.StringAttr.get(compilation.CALLBACK_TARGET),
        "api_version": "4 : i32",
        "backend_config": f"{{index = {index} : ui64}}",
        PUBLIC_NAME: ir.StringAttr.get(public_name),
    }
    made = b.create("custom_call", results, operands, attributes)
    _set_layouts(made)
    return made


def _add_callback(
    target: Target, results: Sequence[ir.Type], function: Callable[..., tuple[Any, ...]]
) -> int:
    """Add a callback that calls a Python function and stores its exceptions; return the index."""
    if len(target.devices) > 1:
        shapes = [shape_of_type(t) for t in results]
        return target.add_callback(SharedCallback(function, shapes, target.failure))
    return target.add_callback(guarded(function))


def _set_layouts(call: ir.Operation) -> None:
    """Set row-major layouts of the operands and results of a call, unless the call has layouts.

    Otherwise XLA chooses layouts by the producers of the operands and the users of the results, and
    does not pass the layouts to the function.
    """
    if "operand_layouts" in call.attributes:
        return
    results = [result.type for result in call.results]
    if len(results) == 1 and isinstance(results[0], ir.TupleType):
        results = [results[0].get_type(i) for i in range(results[0].num_types)]
    operands = [operand.type for operand in call.operands]
    try:
        shapes = [[shape_of_type(t) for t in types] for types in (operands, results)]
    except LoweringError:  # a module from another tool, with element types that XLA does not have
        return
    for name, shapes_of_values in zip(("operand_layouts", "result_layouts"), shapes, strict=True):
        call.attributes[name] = ir.Attribute.parse(layouts_text(shapes_of_values))
