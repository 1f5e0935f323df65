"""``@xb.computation(...)``: a computation written as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from builder.computation import XlaComputation
from builder.nested import record_callable
from builder.program_layouts import result_shape
from builder.shape import ShapeLike, shape_argument

__all__ = ["computation"]


def computation(
    *shapes: ShapeLike, result: ShapeLike | None = None
) -> Callable[[Callable[..., Any]], XlaComputation]:
    """Turns a function of XlaOps into an XlaComputation, recorded at once.

    Args:
        shapes: the shape of each parameter, in order. Parameters are named as the function's
            arguments are.
        result: the result's shape with the layouts in which it is given; None for the default
            ones. See `XlaBuilder.build`.

    Returns:
        A decorator. What the function returns, an op or a sequence of ops for a tuple, is the
        root. The function's builder is that of its arguments: ``x.builder.constant(...)``.

    Raises:
        SignatureError: the function takes another number of arguments.
        OperandError: it returns no XlaOp.
        ShapeInferenceError: `result` is not the root's shape but for layouts.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[32, 784], "f32[784,10]", xb.f32[10])
        ... def affine(x, w, bias):
        ...     return xb.add(x @ w, bias, broadcast_dimensions=[1])
        >>> affine.program_shape
        (x: f32[32,784], w: f32[784,10], bias: f32[10]) -> f32[32,10]
    """
    resolved = [shape_argument("computation", f"shape {i}", s) for i, s in enumerate(shapes)]
    wanted = None if result is None else shape_argument("computation", "result", result)

    def record(function: Callable[..., Any]) -> XlaComputation:
        recorded = record_callable("computation", "function", function, resolved)
        if wanted is not None:
            result_shape("computation", recorded.root.shape, wanted)
        return recorded.builder.build(recorded.root, result=wanted)

    return record
