"""``@xb.computation(...)``: a computation written as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from builder.computation import XlaComputation
from builder.nested import build, record_callable
from builder.shape import ShapeLike, shape_argument

__all__ = ["computation"]


def computation(*shapes: ShapeLike) -> Callable[[Callable[..., Any]], XlaComputation]:
    """Turns a function of XlaOps into an XlaComputation, recorded at once.

    Args:
        shapes: the shape of each parameter, in order. Parameters are named as the function's
            arguments are.

    Returns:
        A decorator. What the function returns, an op or a sequence of ops for a tuple, is the
        root. The function's builder is that of its arguments: ``x.builder.constant(...)``.

    Raises:
        SignatureError: the function takes another number of arguments.
        OperandError: it returns no XlaOp.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[32, 784], "f32[784,10]", xb.f32[10])
        ... def affine(x, w, bias):
        ...     return xb.add(x @ w, bias, broadcast_dimensions=[1])
        >>> affine.program_shape
        (x: f32[32,784], w: f32[784,10], bias: f32[10]) -> f32[32,10]
    """
    resolved = [shape_argument("computation", f"shape {i}", s) for i, s in enumerate(shapes)]

    def record(function: Callable[..., Any]) -> XlaComputation:
        return build(record_callable("computation", "function", function, resolved))

    return record
