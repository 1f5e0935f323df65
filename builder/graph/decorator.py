"""``@xb.computation``: a computation written as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import ReusableFunction, record_callable
from builder.layout.program_layouts import result_shape
from builder.support.arguments import is_function
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ShapeLike, shape_argument


@overload
def computation(function: Callable[..., Any], /) -> ReusableFunction: ...


@overload
def computation() -> Callable[[Callable[..., Any]], ReusableFunction]: ...


@overload
def computation(
    shape: ShapeLike, /, *shapes: ShapeLike, result: ShapeLike | None = None
) -> Callable[[Callable[..., Any]], XlaComputation]: ...


def computation(*shapes: Any, result: ShapeLike | None = None) -> Any:
    """Turn a function of XlaOps into an XlaComputation, or into a function recorded on use.

    With shapes (``@xb.computation(xb.f32[2])``) the function is recorded at once, and the result is
    an XlaComputation. Without shapes (``@xb.computation``, also ``@xb.computation()``) it becomes a
    `ReusableFunction`, which is recorded once for each signature that it is used with.

    Args:
        shapes: the shape of each parameter, in order. Parameters have the names of the function's
            arguments.
        result: the result's shape with the layouts in which a compiled computation returns the
            result; None for the default layouts. See `XlaBuilder.build`.

    Returns:
        A decorator; for ``@xb.computation`` without parentheses, the ReusableFunction. The
        decorated function returns the root: an op, or a sequence of ops for a tuple. It gets its
        builder from an argument: ``x.builder.constant(...)``.

    Raises:
        SignatureError: the function does not take one argument for each shape.
        OperandError: the function's result is not an XlaOp; the decorated object is not a
            function; `result` is passed without shapes.
        ShapeInferenceError: `result` differs from the root's shape by more than layouts.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[32, 784], "f32[784,10]", xb.f32[10])
        ... def affine(x, w, bias):
        ...     return xb.add(x @ w, bias, broadcast_dimensions=[1])
        >>> affine.program_shape
        (x: f32[32,784], w: f32[784,10], bias: f32[10]) -> f32[32,10]

        Recorded once for all reductions of f32:

        >>> @xb.computation
        ... def larger(a, b):
        ...     return xb.select(a > b, a, b)
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 3])
        >>> rows, columns = (xb.reduce(x, 0.0, larger, [d]) for d in (0, 1))
        >>> rows.called_computations == columns.called_computations
        True
    """
    if not shapes or _is_decorated(shapes):
        if result is not None:
            rule = "result requires the shapes of the parameters"
            fix = "write @xb.computation(shape of each parameter, ..., result=...)"
            raise error_of(OperandError, "computation", rule, fix, got="none")
        return _reusable(*shapes) if shapes else _reusable
    resolved = [shape_argument("computation", f"shape {i}", s) for i, s in enumerate(shapes)]
    if result is not None:
        result = shape_argument("computation", "result", result)

    def record(function: Callable[..., Any]) -> XlaComputation:
        if not is_function(function):
            raise _not_a_function(function)
        recorded = record_callable("computation", "function", function, resolved)
        if result is not None:
            result_shape("computation", recorded.root.shape, result)
        return recorded.builder.build(recorded.root, result=result)

    return record


def _is_decorated(arguments: tuple[Any, ...]) -> bool:
    (first, *rest) = arguments
    return not rest and callable(first) and not isinstance(first, PrimitiveType)


def _reusable(function: Any) -> ReusableFunction:
    if isinstance(function, ReusableFunction):
        return function
    if not is_function(function):
        raise _not_a_function(function)
    return ReusableFunction(function)


def _not_a_function(function: Any) -> OperandError:
    rule = "expected a function of XlaOps"
    return error_of(
        OperandError,
        "computation",
        rule,
        "write @xb.computation above a function",
        got=brief(function),
    )
