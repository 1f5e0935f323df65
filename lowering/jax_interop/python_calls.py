"""Calls of Python functions in computations that jax transforms and that are recorded again.

jax's own callbacks are pointers of this process. So a call is traced as a custom call with a number
instead, and becomes a `python_call` again when the result is imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import jax

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.ops.host import python_call
from builder.types.shape import ArrayShape, TupleShape, leaves
from lowering.jax_interop.registry import Value

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
