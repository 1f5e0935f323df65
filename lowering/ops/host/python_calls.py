"""Calls of Python functions.

jax's own callbacks are pointers of this process. So in a trace that is recorded again, a call is
traced as a custom call with a number instead, and becomes a `python_call` again when the result is
imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir

import builder as xb
from builder.attributes.host import CustomCallApiVersion, ffi_dictionary
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.ops.host import PYTHON_CALL_TARGET, python_call
from builder.types.shape import ArrayShape, TokenShape, TupleShape, fold, leaves
from lowering.host.callbacks import PythonFunction, python_callback
from lowering.jaxlib_api.lazy_jax import jax, jax_experimental
from lowering.mlir.attributes import i32, quoted
from lowering.mlir.flattening import flatten
from lowering.ops.derivatives.steps import with_derivative_of
from lowering.ops.importing import failure, flat_values, nested_value
from lowering.ops.registry import (
    Context,
    Imported,
    Step,
    Value,
    jax_rule,
    place,
    refusal,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


@stablehlo_rule("python_call")
def emit_python_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a custom call with the function's name, and its number among the module's functions."""
    recorded = op.attributes
    function = PythonFunction(
        recorded["function"], recorded["name"], tuple(o.shape for o in op.operands), op.shape
    )
    # A call may be emitted more than once, for instance one in a reducer.
    functions = ctx.python_functions
    index, _ = functions.setdefault(function.key, (len(functions), function))
    config = {"index": index, "name": recorded["name"]}
    attributes = {
        **ctx.attributes_of(op),
        "call_target_name": quoted(PYTHON_CALL_TARGET),
        "api_version": i32(int(CustomCallApiVersion.API_VERSION_TYPED_FFI)),
        "backend_config": ffi_dictionary("python_call", config),
    }
    return ctx.value("stablehlo.custom_call", op.shape, flatten(operands), attributes)


def import_python_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record the call of a Python function; only modules from `lower` contain such calls."""
    config = scope.attribute(operation, "backend_config") or {}
    functions = scope.tables.python_functions
    index = config.get("index")  # HLO text has none
    if not isinstance(index, int) or not 0 <= index < len(functions):
        name = config.get("name", "without a name")
        raise failure(
            operation,
            f"the custom call needs the Python function {name}, and files contain no Python "
            f"functions",
        )
    record = functions[index]
    leaves = iter(operands)
    arguments = [nested_value(scope, shape, leaves) for shape in record.operands]
    named = scope.attributes("python_call", operation)
    if arguments:
        op = xb.python_call(record.function, arguments, record.result, **named)
    else:
        op = scope.builder.python_call(record.function, record.result, **named)
    return list(flat_values(op)) if isinstance(op.shape, TupleShape) else op


@jax_rule("python_call")
def jax_python_call(ctx: Context, op: XlaOp) -> Step:
    recorded = op.attributes
    shapes = [leaf for leaf in leaves(op.shape) if isinstance(leaf, ArrayShape)]
    if any(isinstance(leaf, TokenShape) for leaf in leaves(op.shape)):
        raise refusal(op, "jax can't pass a token to it", "call the function without a token")
    called = PythonFunction(
        recorded["function"], recorded["name"], tuple(o.shape for o in op.operands), op.shape
    )
    function = python_callback(called, ctx.computation.name, place(op))
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    results = [described(s.dimensions, s.element_type.dtype) for s in shapes]
    has_effect = recorded["has_side_effect"]

    def step(*operands: Value) -> Value:
        flat = jax.tree_util.tree_leaves(operands)
        if has_effect:
            values = jax_experimental.io_callback(function, results, *flat)
        elif can_record(op):
            values = traced_call(op, flat)
        else:
            values = jax.pure_callback(function, results, *flat, vmap_method="sequential")
        each = iter(values)
        return fold(op.shape, lambda _: next(each), tuple)

    def differentiable(*_: Value) -> Value:
        raise refusal(op, *_NO_DERIVATIVE)

    return step if has_effect else with_derivative_of(step, differentiable)


_NO_DERIVATIVE: Final = (
    "a Python function has no derivative",
    "call it in a computation with a derivative of its own: xb.custom_gradient",
)


_TARGET: Final = "xlabuilder.recorded_call."

_calls: Final[ContextVar[list[XlaOp] | None]] = ContextVar("python_calls", default=None)
"""The calls that were traced; None if the trace is for jax itself."""


class RecordedCalls:
    """The calls of Python functions in a trace."""

    def __init__(self, calls: list[XlaOp]) -> None:
        self._calls = calls

    def restored(self, computation: XlaComputation) -> XlaComputation:
        """Return the computation of the trace, with these calls."""

        def restore(op: XlaOp, operands: Any) -> XlaOp | None:
            target = op.attributes["call_target_name"] if op.opcode == "custom_call" else ""
            if not target.startswith(_TARGET):
                return None
            call = self._calls[int(target.removeprefix(_TARGET))]
            function = call.attributes["function"]
            record = partial(python_call, function, list(operands))
            if not operands:
                record = partial(operands.builder.python_call, function)
            result: XlaOp = record(call.shape)
            return result[0] if result.shape.is_tuple and not op.shape.is_tuple else result

        return computation.replace(restore, nested=True) if self._calls else computation


@contextlib.contextmanager
def recorded_calls() -> Iterator[RecordedCalls]:
    """Trace calls of Python functions so that they can be recorded again.

    For traces of functions that jax has not traced before and never runs.
    """
    calls: list[XlaOp] = []
    token = _calls.set(calls)
    try:
        yield RecordedCalls(calls)
    finally:
        _calls.reset(token)


def can_record(op: XlaOp) -> bool:
    """Return whether a call in the current trace can be recorded again."""
    shapes = [operand.shape for operand in op.operands]
    results = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    is_flat = all(isinstance(shape, ArrayShape) for shape in (*shapes, *results))
    return _calls.get() is not None and is_flat and bool(results)


def traced_call(op: XlaOp, operands: list[Value]) -> list[Value]:
    """Trace a call; return the arrays of its result."""
    calls = _calls.get()
    assert calls is not None
    calls.append(op)
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    results = [
        described(shape.dimensions, shape.element_type.dtype)
        for shape in leaves(op.shape)
        if isinstance(shape, ArrayShape)
    ]
    target = f"{_TARGET}{len(calls) - 1}"
    call: Any = jax.ffi.ffi_call(target, results, vmap_method="sequential")
    return list(call(*operands))
