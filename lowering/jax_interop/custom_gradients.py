"""Custom derivatives of computations, as jax.custom_vjp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from builder.graph.computation import XlaComputation
from builder.graph.custom_gradients import gradient_shape, gradient_shapes
from builder.types.shape import Shape, TupleShape
from lowering.ops.registry import Step, Value


def with_custom_gradient(computation: XlaComputation, function: Step, backward: Step) -> Step:
    """Return `function`, which evaluates a computation, with the derivative `backward`.

    Args:
        computation: the computation, which has a derivative.
        function: its function.
        backward: the function of its derivative.
    """
    shapes = computation.signature.parameters
    is_one = len(gradient_shapes(shapes)) == 1
    differentiable: Any = jax.custom_vjp(function)

    def forward(*operands: Value) -> tuple[Value, Any]:
        result = function(*operands)
        return result, (operands, result)

    def transpose(saved: Any, cotangent: Value) -> tuple[Value, ...]:
        operands, result = saved
        found = backward(*operands, result, _selected(computation.signature.result, cotangent))
        remaining = iter([found] if is_one else found)
        return tuple([_filled(shape, remaining) for shape in shapes])

    differentiable.defvjp(forward, transpose)
    step: Step = differentiable
    return step


def _selected(shape: Shape, value: Value) -> Value:
    """Return the parts of a value that have gradients, nested as `gradient_shape` of `shape`."""
    if not isinstance(shape, TupleShape):
        return value
    return tuple(
        [
            _selected(element, part)
            for element, part in zip(shape.elements, value, strict=True)
            if gradient_shape(element) is not None
        ]
    )


def _filled(shape: Shape, gradients: Iterator[Value]) -> Value:
    """Return the next gradient, with None for each part of `shape` that has no gradient."""
    if gradient_shape(shape) is None:
        return None
    gradient = next(gradients)
    if not isinstance(shape, TupleShape):
        return gradient
    parts = iter(gradient)
    return tuple([_filled(element, parts) for element in shape.elements])
