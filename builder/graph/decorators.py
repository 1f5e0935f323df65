"""Decorators: ``@xb.computation``, and `custom_gradient` for derivatives that users write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from builder.errors import OperandError, ShapeInferenceError, SignatureError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import ReusableFunction, as_computation, record_callable
from builder.layout.program_layouts import result_shape
from builder.support.arguments import is_function
from builder.support.caches import per_signature
from builder.support.frames import without_internal_frames
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import (
    ArrayShape,
    Shape,
    ShapeLike,
    TokenShape,
    TupleShape,
    fold,
    shape_argument,
)


@overload
def computation(function: Callable[..., Any], /) -> ReusableFunction: ...


@overload
def computation() -> Callable[[Callable[..., Any]], ReusableFunction]: ...


@overload
def computation(
    shape: ShapeLike, /, *shapes: ShapeLike, result: ShapeLike | None = None
) -> Callable[[Callable[..., Any]], XlaComputation]: ...


@explained
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

    @without_internal_frames
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


@overload
def custom_gradient(
    computation: XlaComputation, backward: XlaComputation | Callable[..., Any]
) -> XlaComputation: ...


@overload
def custom_gradient(
    computation: ReusableFunction, backward: XlaComputation | Callable[..., Any]
) -> ReusableFunction: ...


@explained
def custom_gradient(computation: Any, backward: Any) -> Any:
    """Return a computation like `computation`, with a derivative written by hand.

    `lowering.gradients`, `lowering.grad` and `lowering.to_jax` use the derivative wherever the
    computation is applied: by `call`, as the body of a loop, as the entry. Thus custom calls,
    Python calls and loops without a known trip count can be differentiated. As with
    `jax.custom_vjp`, only in reverse mode.

    The derivative is not part of the program: lowering and all exports ignore it, and an exported
    computation that is imported again has none. `inline` records the ops without it, and `replace`
    drops it if it changes the computation.

    Args:
        computation: an XlaComputation, or a function of ``@xb.computation``.
        backward: the gradients: an XlaComputation or a function. It is called with the operands of
            `computation`, then its result, then the gradient of the loss with respect to the
            result. It returns the gradients with respect to the operands, in order: a tuple, or for
            one operand the gradient. A gradient has the shape of its value. Integers, preds and
            tokens have no gradients: they are left out, also as elements of tuples.

    Returns:
        A computation with the same name, ops and program shape. For a function of
        ``@xb.computation`` such a function; its derivative is recorded and checked for each
        signature.

    Raises:
        SignatureError: `backward` does not take these parameters.
        ShapeInferenceError: `backward` returns other shapes; no operand or no part of the result is
            of a floating-point or complex type.
        OperandError: an argument is not a computation or a function of that kind.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[3])
        ... def log1pexp(x):
        ...     return xb.log1p(xb.exp(x))
        >>> def derivative(x, y, dy):
        ...     return dy * xb.logistic(x)
        >>> softplus = xb.custom_gradient(log1pexp, derivative)
        >>> softplus.derivative.program_shape
        (x: f32[3], y: f32[3], dy: f32[3]) -> f32[3]
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> xb.call(softplus, x).shape
        f32[3]
    """
    if isinstance(computation, XlaComputation):
        return _with_derivative(computation, _derivative(computation, backward))
    if not isinstance(computation, ReusableFunction):
        rule = "computation must be an XlaComputation"
        fix = "write @xb.computation above the function" if callable(computation) else ""
        raise error_of(OperandError, "custom_gradient", rule, fix, got=brief(computation))
    function = computation.__wrapped__
    return ReusableFunction(function, lambda c: _with_derivative(c, _derivative(c, backward)))


@per_signature
def gradient_shape(shape: Shape) -> Shape | None:
    """Return the shape of a gradient with respect to a value of `shape`; None if there is none.

    Example:
        >>> import builder as xb
        >>> gradient_shape(xb.parse_shape("(s32[], f32[3], (pred[]))"))
        (f32[3])
    """
    return fold(shape, _leaf_gradient, _tuple_gradient)


def gradient_shapes(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes of the gradients with respect to values that have them."""
    return [found for shape in shapes if (found := gradient_shape(shape)) is not None]


def _leaf_gradient(leaf: ArrayShape | TokenShape) -> Shape | None:
    if isinstance(leaf, TokenShape):
        return None
    kind = leaf.element_type
    return leaf.with_layout(None) if kind.is_floating or kind.is_complex else None


def _tuple_gradient(elements: list[Shape | None]) -> Shape | None:
    found = [element for element in elements if element is not None]
    return TupleShape(found) if found else None


def _derivative(computation: XlaComputation, backward: Any) -> XlaComputation:
    """Return `backward` as a computation for the signature of `computation`."""
    signature = computation.signature
    gradients = gradient_shapes(signature.parameters)
    cotangent = gradient_shape(signature.result)
    if cotangent is None or not gradients:
        side = "the result" if cotangent is None else "an operand"
        rule = f"{side} of {computation.name!r} must be of a floating-point or complex type"
        raise error_of(ShapeInferenceError, "custom_gradient", rule, got=signature)
    shapes = (*signature.parameters, signature.result, cotangent)
    derivative = as_computation("custom_gradient", "backward", backward, shapes)
    got = derivative.signature
    if got.parameters != shapes:
        listed = ", ".join(map(str, shapes))
        rule = (
            f"the parameters of backward must be the operands of {computation.name!r}, its result "
            f"and the gradient of the result, ({listed})"
        )
        raise error_of(SignatureError, "custom_gradient", rule, got=got)
    expected = gradients[0] if len(gradients) == 1 else TupleShape(gradients)
    if got.result is not expected:
        rule = (
            "backward must return the gradients with respect to the operands of "
            f"{computation.name!r}, {expected}"
        )
        fix = "return one gradient, of the operand's shape, for each operand that has one"
        shapes_by_name = {"gradients": expected, "result of backward": got.result}
        raise error_of(
            ShapeInferenceError, "custom_gradient", rule, fix, got=got.result, shapes=shapes_by_name
        )
    return derivative


def _with_derivative(computation: XlaComputation, derivative: XlaComputation) -> XlaComputation:
    shape = computation.program_shape
    return XlaComputation(
        computation.name,
        computation.ops,
        computation.root,
        computation.parameters,
        shape.result,
        aliases=computation.aliases,
        donors=computation.donors,
        annotations=computation.annotations,
        sharding_form=computation._sharding_form,
        derivative=derivative,
        inlined_calls=computation._inlined_calls,
    )
