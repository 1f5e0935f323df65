"""Polynomials, logarithms, element types and checks, for the special functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.math import array_shape, floating_type
from builder.ops.elementwise import convert_element_type, or_
from builder.ops.reduction import reduce_all
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType


def in_f32(function: Callable[..., XlaOp], *operands: XlaOp) -> XlaOp:
    """Compute in f32 if the operands have at most 16 bits; the result has the operands' type."""
    kind = floating_type("", x=operands[0])
    if kind.bits > 16:
        return function(*operands)
    return convert_element_type(
        function(*(convert_element_type(x, pt.f32) for x in operands)), kind
    )


def polynomial(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Return the polynomial with these coefficients; the first one is that of the highest power."""
    value = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        value = (value + coefficient) * x
    return value + coefficients[-1]


def log1p_less(x: XlaOp) -> XlaOp:
    """Return log(1 + x) - x for |x| up to 0.5, by the series of the inverse hyperbolic tangent."""
    s = x / (x + 2.0)
    square = s * s
    count = 18 if is_double(x) else 8
    series = polynomial(square, [2 / (2 * k + 1) for k in range(count, 0, -1)])
    return s * (square * series - x)


def kind_of(x: XlaOp) -> PrimitiveType:
    """Return the element type of a floating-point array."""
    return floating_type("", x=x)


def is_double(x: XlaOp) -> bool:
    """Return whether the element type is f64."""
    return kind_of(x) is pt.f64


def eps_of(x: XlaOp) -> float:
    """Return the difference between 1 and the next larger number of f32 or f64."""
    return 2.0**-52 if is_double(x) else 2.0**-23


def any_of(preds: XlaOp) -> XlaOp:
    """Return whether an element is true, as a scalar."""
    return reduce_all(preds, preds.builder.constant(False), or_)


def need_one_shape(op: str, **operands: XlaOp) -> None:
    """Refuse operands that are not floating-point arrays of one shape."""
    floating_type(op, **operands)
    shapes = [array_shape(op, name, x).with_layout(None) for name, x in operands.items()]
    if any(shape != shapes[0] for shape in shapes):
        got = " and ".join(map(str, shapes))
        rule = f"{', '.join(operands)} must have one shape"
        raise error_of(
            ShapeInferenceError, op, rule, "broadcast one with xb.broadcast_in_dim", got=got
        )
