"""Random numbers. `builder.lib.random` has functions with reproducible results, from keys.

Operation Semantics: RngBitGenerator, RngNormal, RngUniform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from builder.attributes import RandomAlgorithm, RandomAlgorithmLike
from builder.checking import CONVERT, Check
from builder.graph.recording import record, resolve_builder, rollback_on_error, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.ops.operands import Operand, is_number, need_op, number_as
from builder.schema import ElementTypes, Trait
from builder.schema.definition import (
    FLOATING,
    ORDERED,
    REAL_NUMBER,
    UNSIGNED,
    Attribute,
    CostClass,
    define,
)
from builder.schema.kinds import SHAPE, Enumeration
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, ShapeLike, TupleShape, shape_argument


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
        check.fail("shape must be the shape of an array", got=shape)
    element_type = shape.element_type
    # StableHLO rng (I1), (C2); Operation Semantics: RngBitGenerator
    if element_type not in allowed.types:
        check.fail(f"shape must be of {allowed.text} type", got=shape, fix=fix)
    # StableHLO rng (C1)
    for name in scalars:
        if check.scalar(name).element_type is not element_type:
            check.fail(
                f"{name} must be of the element type of the result, {element_type}",
                got=check.array(name).element_type,
                fix=f"{CONVERT}; nothing is promoted silently",
            )
    # Not in XLA: random numbers of dynamic sizes are not supported.
    if not shape.is_static:
        fix = "draw numbers for the largest size, and reduce that with xb.set_dimension_size"
        check.fail("shape must have static sizes", got=shape, fix=fix)
    return shape.with_layout(None)


RNG: Final = define(
    "rng",
    "a b",
    (
        Attribute(
            "distribution",
            Enumeration("rng_distribution", prefix="rng_"),
            stablehlo="rng_distribution",
        ),
    ),
    element_types={"a": ORDERED, "b": ORDERED},
    cost=CostClass.TRANSCENDENTAL,
    traits=Trait.STATEFUL,
)


def _draw(
    op: str,
    arguments: dict[str, Operand],
    shape: Shape,
    infer_shape: Callable[[Shape, Shape, Shape], ArrayShape],
) -> XlaOp:
    """Record a random op whose distribution has two scalar parameters.

    At least one parameter must be an op; the other may be a number. The attribute `distribution` is
    the name of the op.
    """
    first, second = arguments.values()
    beside = second if type(second) is XlaOp else need_op(op, next(iter(arguments)), first)
    if not isinstance(shape, ArrayShape):
        shape = infer_shape(beside.shape, beside.shape, shape)  # raises
    with rollback_on_error(resolve_builder(op, beside)):
        low, high = (
            number_as(op, value, shape.element_type, beside)
            if type(value) is not XlaOp and is_number(value)
            else need_op(op, name, value)
            for name, value in arguments.items()
        )
        result = infer_shape(low.shape, high.shape, shape)
        return record("rng", result, (low, high), shared_attributes(distribution=op))


@per_signature
def _rng_normal_shape(mu: Shape, sigma: Shape, shape: Shape) -> ArrayShape:
    check = Check("rng_normal", mu=mu, sigma=sigma)
    fix = "draw floating-point numbers, and convert them with xb.convert_element_type"
    return _result(check, shape, FLOATING, fix, "mu", "sigma")


@op_by_hand(RNG, _rng_normal_shape, cpp_name="RngNormal", section="RngNormal")
def rng_normal(mu: Operand, sigma: Operand, shape: ShapeLike) -> XlaOp:
    """Return normally distributed random numbers, different in each run.

    Args:
        mu: the mean, a scalar of the result's element type.
        sigma: the standard deviation, a scalar of the same type. Either `mu` or `sigma` may be a
            number, but not both.
        shape: the shape of the result: an array of floating-point type and static sizes.

    Returns:
        An array of shape `shape`.

    Raises:
        OperandError: neither `mu` nor `sigma` is an XlaOp; `shape` is not a shape.
        ShapeInferenceError: `mu` or `sigma` is not a scalar of the result's element type; this type
            is not floating-point; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> mean = b.constant(0.0, xb.f32)
        >>> xb.rng_normal(mean, 1.0, xb.f32[2, 3]).shape
        f32[2,3]

    Operation Semantics: RngNormal.
    """
    result = shape_argument("rng_normal", "shape", shape)
    return _draw("rng_normal", {"mu": mu, "sigma": sigma}, result, _rng_normal_shape)


@per_signature
def _rng_uniform_shape(a: Shape, b: Shape, shape: Shape) -> ArrayShape:
    check = Check("rng_uniform", a=a, b=b)
    fix = "draw the real and imaginary parts, and combine both with xb.complex"
    return _result(check, shape, RNG.element_types["a"], fix, "a", "b")


@op_by_hand(RNG, _rng_uniform_shape, cpp_name="RngUniform", section="RngUniform")
def rng_uniform(a: Operand, b: Operand, shape: ShapeLike) -> XlaOp:
    """Return random numbers distributed uniformly in ``[a, b)``, different in each run.

    The numbers are undefined if `b` is not greater than `a`, or if either is not finite.

    Args:
        a: the lower end, a scalar of the result's element type.
        b: the upper end, a scalar of the same type. Either `a` or `b` may be a number, not both.
        shape: the shape of the result: an array of boolean, integral or floating-point type and
            static sizes.

    Returns:
        An array of shape `shape`.

    Raises:
        OperandError: neither `a` nor `b` is an XlaOp; `shape` is not a shape.
        ShapeInferenceError: `a` or `b` is not a scalar of the result's element type; this type is
            complex; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> sides = b.constant(6, xb.s32)
        >>> xb.rng_uniform(0, sides, xb.s32[100]).shape
        s32[100]

    Operation Semantics: RngUniform.
    """
    result = shape_argument("rng_uniform", "shape", shape)
    return _draw("rng_uniform", {"a": a, "b": b}, result, _rng_uniform_shape)


def _rng_bit_generator_shape(initial_state: Shape, shape: Shape) -> TupleShape:
    check = Check("rng_bit_generator", initial_state=initial_state)
    state = check.array("initial_state")
    # StableHLO rng_bit_generator (I2)
    fix = "reinterpret initial_state as unsigned integers with xb.bitcast_convert_type"
    check.element_types(RNG_BIT_GENERATOR.element_types, fix=fix)
    is_pred = isinstance(shape, ArrayShape) and shape.element_type is pt.pred
    if is_pred:
        fix = "draw unsigned integers, and compare the integers: bits < n"
    else:
        fix = "draw the bits of the real and the imaginary part separately"
    result = _result(check, shape, REAL_NUMBER, fix)
    bits = pt.from_name(f"u{result.element_type.bits}")
    return TupleShape([state.with_layout(None), result.with_element_type(bits)])


RNG_BIT_GENERATOR: Final = define(
    "rng_bit_generator",
    "initial_state",
    (
        Attribute(
            "algorithm",
            Enumeration("rng_algorithm", RandomAlgorithm, prefix="RNG_", is_lower=True),
            stablehlo="rng_algorithm",
        ),
    ),
    element_types={"initial_state": UNSIGNED},
    cost=CostClass.TRANSCENDENTAL,
)


@op(RNG_BIT_GENERATOR, _rng_bit_generator_shape, shape=SHAPE)
def rng_bit_generator(
    algorithm: RandomAlgorithmLike, initial_state: XlaOp, shape: ShapeLike
) -> XlaOp:
    """Return random bits generated from a state, and the next state.

    Equal states give equal bits. The bits that an algorithm generates from a state may differ
    between kinds of devices and versions of XLA.

    On CPU the state is a key followed by a counter, both u64: RNG_THREE_FRY takes ``u64[2]``;
    RNG_PHILOX and RNG_DEFAULT take ``u64[2]`` or, with a counter of 128 bits, low half first,
    ``u64[3]``. The key is unchanged, and the counter is advanced by the number of blocks generated:
    of 64 bits for RNG_THREE_FRY, of 128 bits for the others. Elements of at most 32 bits consume 32
    bits each.

    Args:
        algorithm: a RandomAlgorithm or its name.
        initial_state: an array of unsigned integral type. The supported shapes depend on the
            algorithm and the device.
        shape: the shape of the bits: an array of integral or floating-point type and static sizes.

    Returns:
        A tuple: the next state, of the shape of `initial_state`; and an array of the sizes of
        `shape`, of unsigned integers as wide as the element type of `shape`.

    Raises:
        ShapeInferenceError: the state or the shape has an unsupported element type; the algorithm
            does not exist.
        OperandError: `shape` is not a shape.

    Example:
        >>> import builder as xb
        >>> state = xb.XlaBuilder().parameter(xb.u64[2])
        >>> xb.rng_bit_generator("RNG_THREE_FRY", state, xb.u32[3, 5]).shape
        (u64[2], u32[3,5])

    Operation Semantics: RngBitGenerator.
    """
