"""Infer the result shapes of random number generators.

Operation Semantics: RngBitGenerator, RngNormal, RngUniform.
"""

from __future__ import annotations

from builder.check import CONVERT, Check
from builder.ops.rules.public import public
from builder.schema import SCHEMAS, ElementTypes
from builder.schema.element_types import FLOATING, REAL_NUMBER
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, TupleShape


def _result(
    check: Check, shape: Shape, allowed: ElementTypes, fix: str, *scalars: str
) -> ArrayShape:
    """Check `shape` and the scalar operands; return `shape` without its layout.

    Args:
        check: the op and its operands.
        shape: the shape of the random numbers.
        allowed: the element types that `shape` may have.
        fix: the fix that messages suggest for other element types.
        scalars: the names of the scalar operands, which must have the element type of `shape`.
    """
    # StableHLO rng (C3)
    if not isinstance(shape, ArrayShape):
        check.fail(f"shape must be the shape of an array, got {shape}")
    element_type = shape.element_type
    # StableHLO rng (I1), (C2); Operation Semantics: RngBitGenerator
    if element_type not in allowed.types:
        check.fail(f"shape must be of {allowed.text} type, got {shape}", fix=fix)
    # StableHLO rng (C1)
    for name in scalars:
        if check.scalar(name).element_type is not element_type:
            check.fail(
                f"{name} must be of the element type of the result, {element_type}, "
                f"got {check.array(name).element_type}",
                fix=f"{CONVERT}; nothing is promoted silently",
            )
    # Not in XLA: random numbers of dynamic sizes are not supported.
    if not shape.is_static:
        fix = "draw numbers for the largest size, and reduce that with xb.set_dimension_size"
        check.fail(f"shape must have static sizes, got {shape}", fix=fix)
    return shape.with_layout(None)


@public
def rng_normal(mu: Shape, sigma: Shape, shape: Shape) -> ArrayShape:
    """Return the shape of normally distributed numbers: `shape`.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.random.rng_normal(xb.f32[()], xb.f32[()], xb.f32[2, 3])
        f32[2,3]
    """
    check = Check("rng_normal", mu=mu, sigma=sigma)
    fix = "draw floating-point numbers, and convert them with xb.convert_element_type"
    return _result(check, shape, FLOATING, fix, "mu", "sigma")


@public
def rng_uniform(a: Shape, b: Shape, shape: Shape) -> ArrayShape:
    """Return the shape of uniformly distributed numbers: `shape`.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.random.rng_uniform(xb.s32[()], xb.s32[()], xb.s32[2, 3])
        s32[2,3]
    """
    check = Check("rng_uniform", a=a, b=b)
    fix = "draw the real and imaginary parts, and combine both with xb.complex"
    return _result(check, shape, SCHEMAS["rng"].element_types["a"], fix, "a", "b")


@public
def rng_bit_generator(initial_state: Shape, shape: Shape) -> TupleShape:
    """Return the shape of the tuple (new state, random bits).

    The bits are unsigned integers with the sizes of `shape`, as wide as its element type.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.random.rng_bit_generator(xb.u64[2], xb.f32[5])
        (u64[2], u32[5])
    """
    check = Check("rng_bit_generator", initial_state=initial_state)
    state = check.array("initial_state")
    # StableHLO rng_bit_generator (I2)
    fix = "reinterpret initial_state as unsigned integers with xb.bitcast_convert_type"
    check.element_types(SCHEMAS["rng_bit_generator"].element_types, fix=fix)
    is_pred = isinstance(shape, ArrayShape) and shape.element_type is pt.pred
    if is_pred:
        fix = "draw unsigned integers, and compare the integers: bits < n"
    else:
        fix = "draw the bits of the real and the imaginary part separately"
    result = _result(check, shape, REAL_NUMBER, fix)
    bits = pt.from_name(f"u{result.element_type.bits}")
    return TupleShape([state.with_layout(None), result.with_element_type(bits)])
