"""Random numbers.

Operation Semantics: RngBitGenerator, RngNormal, RngUniform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from builder.attributes import RandomAlgorithm, RandomAlgorithmLike
from builder.graph.recording import record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import Number, is_number, need_op, number_as
from builder.schema import SCHEMAS
from builder.shape_inference import random as infer
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, ShapeLike, TupleShape, shape_argument

__all__ = ["rng_bit_generator", "rng_normal", "rng_uniform"]

_normal_shape = per_signature(infer.rng_normal.strict)
_uniform_shape = per_signature(infer.rng_uniform.strict)

# Attributes that are equal are one mapping.
_NORMAL: Final = MappingProxyType({"distribution": "rng_normal"})
_UNIFORM: Final = MappingProxyType({"distribution": "rng_uniform"})


def _drawn(
    op: str,
    names: tuple[str, str],
    first: XlaOp | Number,
    second: XlaOp | Number,
    shape: Shape,
    infer_shape: Callable[[Shape, Shape, Shape], ArrayShape],
    attributes: Mapping[str, str],
) -> XlaOp:
    """Records numbers of a distribution that two scalars describe, of which one may be a number."""
    if type(first) is XlaOp and type(second) is XlaOp:
        result = infer_shape(first.shape, second.shape, shape)
        return record("rng", result, (first, second), attributes)
    beside = second if type(second) is XlaOp else need_op(op, names[0], first)
    if not isinstance(shape, ArrayShape):
        shape = infer_shape(beside.shape, beside.shape, shape)  # raises
    with rollback_on_error(resolve_builder(op, beside)):
        scalars = []
        for name, value in zip(names, (first, second), strict=True):
            if type(value) is not XlaOp and is_number(value):
                value = number_as(op, value, shape.element_type, beside)
            scalars.append(need_op(op, name, value))
        one, other = scalars
        result = infer_shape(one.shape, other.shape, shape)
        return record("rng", result, (one, other), attributes)


@op(SCHEMAS["rng"], cpp_name="RngNormal", section="RngNormal")
def rng_normal(mu: XlaOp | Number, sigma: XlaOp | Number, shape: ShapeLike) -> XlaOp:
    """Random numbers that are normally distributed; others in each run.

    Args:
        mu: the mean, a scalar of the result's element type.
        sigma: the standard deviation, a scalar of that type. One of the two may be a number.
        shape: the shape of the result: an array's, of floating-point type and fixed sizes.

    Returns:
        An array of that shape.

    Raises:
        OperandError: neither `mu` nor `sigma` is an XlaOp; `shape` is no shape.
        ShapeInferenceError: they are no scalars of the result's type, or that is no floating-point
            type; its sizes are not fixed.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> mean = b.constant(0.0, xb.f32)
        >>> xb.rng_normal(mean, 1.0, xb.f32[2, 3]).shape
        f32[2,3]

    Operation Semantics: RngNormal.
    """
    result = shape_argument("rng_normal", "shape", shape)
    return _drawn("rng_normal", ("mu", "sigma"), mu, sigma, result, _normal_shape, _NORMAL)


@op(SCHEMAS["rng"], cpp_name="RngUniform", section="RngUniform")
def rng_uniform(a: XlaOp | Number, b: XlaOp | Number, shape: ShapeLike) -> XlaOp:
    """Random numbers that are uniformly distributed from `a`, included, to `b`, excluded; others
    in each run.

    If `b` is not greater than `a`, or the two are not finite, the numbers are not defined.

    Args:
        a: the lower end, a scalar of the result's element type.
        b: the upper end, a scalar of that type. One of the two may be a number.
        shape: the shape of the result: an array's, of boolean, integral or floating-point type and
            fixed sizes.

    Returns:
        An array of that shape.

    Raises:
        OperandError: neither `a` nor `b` is an XlaOp; `shape` is no shape.
        ShapeInferenceError: they are no scalars of the result's type, or that is complex; its
            sizes are not fixed.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> sides = b.constant(6, xb.s32)
        >>> xb.rng_uniform(0, sides, xb.s32[100]).shape
        s32[100]

    Operation Semantics: RngUniform.
    """
    result = shape_argument("rng_uniform", "shape", shape)
    return _drawn("rng_uniform", ("a", "b"), a, b, result, _uniform_shape, _UNIFORM)


@per_signature
def _bits_plan(
    algorithm: RandomAlgorithm, initial_state: Shape, shape: Shape
) -> tuple[TupleShape, Mapping[str, RandomAlgorithm]]:
    result = infer.rng_bit_generator.strict(initial_state, shape)
    return result, MappingProxyType({"algorithm": algorithm})


@op(SCHEMAS["rng_bit_generator"])
def rng_bit_generator(
    algorithm: RandomAlgorithmLike, initial_state: XlaOp, shape: ShapeLike
) -> XlaOp:
    """Random bits made out of a state, and the state for the next ones.

    Equal states give equal bits. Which bits an algorithm makes of a state may differ from one kind
    of device, or version of XLA, to another.

    On a CPU the state is a key and, after it, a counter, both u64: RNG_THREE_FRY takes ``u64[2]``,
    RNG_PHILOX and RNG_DEFAULT ``u64[2]`` or, with a counter of 128 bits, low half first,
    ``u64[3]``. The key stays as it is, and the counter goes on by the number of blocks that were
    made of it: 64 bits each of RNG_THREE_FRY, 128 bits of the others. Elements of at most 32 bits
    take 32 bits each.

    Args:
        algorithm: a RandomAlgorithm or its name.
        initial_state: an array of unsigned integral type. Which shapes there are depends on the
            algorithm and the device.
        shape: the shape of the bits: an array's, of integral or floating-point type and fixed
            sizes.

    Returns:
        A tuple: the state afterwards, of the shape of `initial_state`, and an array of the sizes
        of `shape`, of unsigned integers that are as wide as its elements.

    Raises:
        ShapeInferenceError: the state is not of such a type, or the shape; there is no such
            algorithm.
        OperandError: `shape` is no shape.

    Example:
        >>> import builder as xb
        >>> state = xb.XlaBuilder().parameter(xb.u64[2])
        >>> xb.rng_bit_generator("RNG_THREE_FRY", state, xb.u32[3, 5]).shape
        (u64[2], u32[3,5])

    Operation Semantics: RngBitGenerator.
    """
    method = RandomAlgorithm.of(algorithm)
    state = need_op("rng_bit_generator", "initial_state", initial_state)
    wanted = shape_argument("rng_bit_generator", "shape", shape)
    result, attributes = _bits_plan(method, state.shape, wanted)
    return record("rng_bit_generator", result, (state,), attributes)
