"""Conversion of elements to another type, and rounding within a type.

Operation Semantics: ConvertElementType, BitcastConvertType, ReducePrecision.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Never

from builder.check import integer
from builder.graph.calls import unknown_arguments
from builder.graph.recording import record
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops import rules as shape_inference
from builder.ops.elementwise.comparison import ne
from builder.ops.operands import need_op
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveTypeLike
from builder.types.shape import ArrayShape, Shape


@op_by_hand(SCHEMAS["convert"], aliases=("convert",))
def convert_element_type(
    operand: XlaOp, new_element_type: PrimitiveTypeLike, **unknown: Never
) -> XlaOp:
    """Convert each element to another type, as C++'s static_cast does.

    Floating point to integer rounds toward zero, saturates at the ends of the range, and converts
    NaN to 0. Integer to floating point rounds to the nearest. Complex to real drops the imaginary
    part. Every number except zero converts to true. Complex to pred is recorded as a comparison
    with 0, because `convert` would drop the imaginary part first.

    Args:
        operand: an array.
        new_element_type: the type of the result.

    Returns:
        An array of the operand's sizes.

    Raises:
        ShapeInferenceError: the operand is not an array.
        ValueError: `new_element_type` is not an element type.

    Example:
        >>> import builder as xb
        >>> xb.convert_element_type(xb.XlaBuilder().parameter(xb.s32[3]), xb.f32).shape
        f32[3]

    Operation Semantics: ConvertElementType.
    """
    if unknown:
        raise unknown_arguments(convert_element_type, unknown)
    name = "convert_element_type"
    source = need_op(name, "operand", operand)
    element_type = pt.element_type_argument(name, "new_element_type", new_element_type)
    shape = _convert_shape(source.shape, element_type)
    assert isinstance(source.shape, ArrayShape)  # checked by inference
    if element_type is pt.pred and source.shape.element_type.is_complex:
        return ne(source, 0)
    return record("convert", shape, (source,))


_convert_shape = per_signature(shape_inference.elementwise.convert_element_type.strict)


@op_by_hand(SCHEMAS["bitcast_convert"])
def bitcast_convert_type(
    operand: XlaOp, new_element_type: PrimitiveTypeLike, **unknown: Never
) -> XlaOp:
    """Reinterpret the bits of the elements as another type.

    Args:
        operand: an array.
        new_element_type: the type of the result. If it is N times narrower, the result has one more
            dimension, of size N. If it is N times wider, the last dimension, which must be of size
            N, is removed.

    Returns:
        An array of the new type.

    Raises:
        ShapeInferenceError: one type is complex and the other is not; the last dimension is not
            of size N.

    Example:
        >>> import builder as xb
        >>> xb.bitcast_convert_type(xb.XlaBuilder().parameter(xb.f32[10]), xb.f16).shape
        f16[10,2]

    Operation Semantics: BitcastConvertType.
    """
    if unknown:
        raise unknown_arguments(bitcast_convert_type, unknown)
    name = "bitcast_convert_type"
    source = need_op(name, "operand", operand)
    element_type = pt.element_type_argument(name, "new_element_type", new_element_type)
    shape = _bitcast_shape(source.shape, element_type)
    return record("bitcast_convert", shape, (source,))


_bitcast_shape = per_signature(shape_inference.elementwise.bitcast_convert_type.strict)


@op_by_hand(SCHEMAS["stochastic_convert"])
def stochastic_convert_type(
    operand: XlaOp,
    random: XlaOp,
    new_element_type: PrimitiveTypeLike,
    **unknown: Never,
) -> XlaOp:
    """Convert each element to another type, rounded up or down at random.

    An element is rounded to an integer away from zero if its fraction is greater than
    ``random / 2**bits``, where `bits` is the width of `random`: 2.25 becomes 3 for a quarter of all
    random numbers, and 2 for the others. Values outside of the range saturate; NaN becomes 0.

    Args:
        operand: an array of floating point.
        random: unsigned integers of as many bits as the operand's elements, of the operand's sizes;
            see `rng_bit_generator`.
        new_element_type: the type of the result: integers or floating point. XLA's compilers for
            CPU and GPU convert to signed integers only; conversions to other types can be recorded
            and lowered, but not compiled.

    Returns:
        An array of the operand's sizes.

    Raises:
        ShapeInferenceError: a type is not allowed; `random` is not of the operand's sizes and
            bits.
        ValueError: `new_element_type` is not an element type.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, random = b.parameter(xb.f32[3]), b.parameter(xb.u32[3])
        >>> xb.stochastic_convert_type(x, random, xb.s8).shape
        s8[3]

    Not in Operation Semantics; XlaBuilder's StochasticConvertType.
    """
    if unknown:
        raise unknown_arguments(stochastic_convert_type, unknown)
    name = "stochastic_convert_type"
    source = need_op(name, "operand", operand)
    bits = need_op(name, "random", random)
    element_type = pt.element_type_argument(name, "new_element_type", new_element_type)
    shape = _stochastic_shape(source.shape, bits.shape, element_type)
    return record("stochastic_convert", shape, (source, bits))


_stochastic_shape = per_signature(shape_inference.elementwise.stochastic_convert_type.strict)


@op_by_hand(SCHEMAS["reduce_precision"])
def reduce_precision(
    operand: XlaOp, exponent_bits: int, mantissa_bits: int, **unknown: Never
) -> XlaOp:
    """Round floating-point numbers to fewer exponent and mantissa bits, in the same type.

    Args:
        operand: an array of floating point.
        exponent_bits: at least 1.
        mantissa_bits: at least 0. (The signature in Operation Semantics has `mantissa_bits` before
            `exponent_bits`; XlaBuilder has the order of this function.)

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: the operand is not floating point; a number of bits is too small.

    Example:
        >>> import builder as xb
        >>> xb.reduce_precision(xb.XlaBuilder().parameter(xb.f32[3]), 5, 10).shape
        f32[3]

    Operation Semantics: ReducePrecision.
    """
    if unknown:
        raise unknown_arguments(reduce_precision, unknown)
    source = need_op("reduce_precision", "operand", operand)
    exponent = integer("reduce_precision", "exponent_bits", exponent_bits)
    mantissa = integer("reduce_precision", "mantissa_bits", mantissa_bits)
    shape, attributes = _precision_plan(source.shape, exponent, mantissa)
    return record("reduce_precision", shape, (source,), attributes)


@per_signature
def _precision_plan(
    operand: Shape, exponent_bits: int, mantissa_bits: int
) -> tuple[Shape, Mapping[str, int]]:
    shape = shape_inference.elementwise.reduce_precision.strict(
        operand, exponent_bits, mantissa_bits
    )
    bits = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
    return shape, MappingProxyType(bits)
