"""Shapes of random numbers.

Operation Semantics: RngBitGenerator, RngNormal, RngUniform.
"""

from __future__ import annotations

from builder.check import Check
from builder.shape_inference.public import public
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, TupleShape

__all__ = ["rng_bit_generator", "rng_normal", "rng_uniform"]


def _drawn(check: Check, first: str, second: str, shape: Shape) -> ArrayShape:
    """The result's shape, whose element type the two scalars that describe it must have."""
    if not isinstance(shape, ArrayShape):
        check.fail(f"shape must be an array's, got {shape}")
    for name in (first, second):
        scalar = check.scalar(name)
        if scalar.element_type is not shape.element_type:
            check.fail(
                f"{name} must be of the element type of the result, {shape.element_type}, "
                f"got {scalar.element_type}",
                fix="convert it with xb.convert_element_type; nothing is promoted silently",
            )
    return shape


def _sized(check: Check, shape: ArrayShape) -> ArrayShape:
    """The shape without a layout; nothing can be drawn before its number is known."""
    if not shape.is_static:
        check.fail(
            f"shape must have fixed sizes, got {shape}",
            fix="draw the largest size, and make it smaller with xb.set_dimension_size",
        )
    return shape.with_layout(None)


@public
def rng_normal(mu: Shape, sigma: Shape, shape: Shape) -> ArrayShape:
    """Shape of normally distributed numbers: the one asked for.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.random.rng_normal(xb.f32[()], xb.f32[()], xb.f32[2, 3])
        f32[2,3]
    """
    check = Check("rng_normal", mu=mu, sigma=sigma)
    if isinstance(shape, ArrayShape) and not shape.element_type.is_floating:
        check.fail(
            f"shape must be of floating-point type, got {shape}",
            fix="draw floating-point numbers, and convert them with xb.convert_element_type",
        )
    return _sized(check, _drawn(check, "mu", "sigma", shape))


@public
def rng_uniform(a: Shape, b: Shape, shape: Shape) -> ArrayShape:
    """Shape of uniformly distributed numbers: the one asked for.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.random.rng_uniform(xb.s32[()], xb.s32[()], xb.s32[2, 3])
        s32[2,3]
    """
    check = Check("rng_uniform", a=a, b=b)
    if isinstance(shape, ArrayShape) and shape.element_type.is_complex:
        check.fail(
            f"shape must be of boolean, integral or floating-point type, got {shape}",
            fix="draw the two parts, and make complex numbers of them with xb.complex",
        )
    return _sized(check, _drawn(check, "a", "b", shape))


@public
def rng_bit_generator(initial_state: Shape, shape: Shape) -> TupleShape:
    """Shape of (the state afterwards, random bits): unsigned integers as wide as was asked for.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.random.rng_bit_generator(xb.u64[2], xb.f32[5])
        (u64[2], u32[5])
    """
    check = Check("rng_bit_generator", initial_state=initial_state)
    state = check.array("initial_state")
    if not state.element_type.is_integral or state.element_type.is_signed:
        check.fail(
            f"initial_state must be of unsigned integral type, got {state}",
            fix="xb.bitcast_convert_type makes unsigned integers of the same bits",
        )
    if not isinstance(shape, ArrayShape):
        check.fail(f"shape must be an array's, got {shape}")
    element_type = shape.element_type
    if element_type is pt.pred or element_type.is_complex:
        check.fail(
            f"shape must be of integral or floating-point type, got {shape}",
            fix="compare bits, for instance bits < n, for preds"
            if element_type is pt.pred
            else "draw the bits of the two parts",
        )
    bits = _sized(check, shape).with_element_type(_unsigned(element_type))
    return TupleShape([state.with_layout(None), bits])


def _unsigned(element_type: PrimitiveType) -> PrimitiveType:
    return pt.from_name(f"u{element_type.bits}")
