"""Elements turned into another type, or rounded within their own.

Operation Semantics: ConvertElementType, BitcastConvertType, ReducePrecision.
"""

from __future__ import annotations

from builder import primitive_type as pt, shape_inference
from builder.ops.operands import need_op
from builder.ops.registry import op
from builder.primitive_type import PrimitiveTypeLike
from builder.recording import record
from builder.shape_inference.check import integer
from builder.xla_op import XlaOp


@op("ConvertElementType", opcode="convert", section="ConvertElementType", aliases=("convert",))
def convert_element_type(operand: XlaOp, new_element_type: PrimitiveTypeLike) -> XlaOp:
    """Each element converted to another type, as C++'s static_cast does.

    Floating point to integer rounds toward zero, saturates at the ends of the range, and makes 0
    of NaN; integer to floating point rounds to the nearest; complex to real drops the imaginary
    part; anything but zero becomes true as a pred.

    Args:
        operand: an array.
        new_element_type: the type of the result.

    Returns:
        An array of the operand's sizes.

    Raises:
        ShapeInferenceError: the operand is no array.
        ValueError: there is no such type.

    Example:
        >>> import builder as xb
        >>> xb.convert_element_type(xb.XlaBuilder().parameter(xb.s32[3]), xb.f32).shape
        f32[3]

    Operation Semantics: ConvertElementType.
    """
    source = need_op("convert_element_type", "operand", operand)
    wanted = pt.as_primitive_type(new_element_type)
    shape = shape_inference.elementwise.convert_element_type(source.shape, wanted)
    return record("convert", shape, (source,))


@op("BitcastConvertType", opcode="bitcast_convert", section="BitcastConvertType")
def bitcast_convert_type(operand: XlaOp, new_element_type: PrimitiveTypeLike) -> XlaOp:
    """The same bits read as another type; nothing is converted.

    Args:
        operand: an array.
        new_element_type: the type to read the bits as. A type of half the width adds a last
            dimension of size 2, and so on; a type of twice the width takes such a dimension away.

    Returns:
        An array of the new type.

    Raises:
        ShapeInferenceError: complex to real or back; or the last dimension does not fill whole
            elements of the new type.

    Example:
        >>> import builder as xb
        >>> xb.bitcast_convert_type(xb.XlaBuilder().parameter(xb.f32[10]), xb.f16).shape
        f16[10,2]

    Operation Semantics: BitcastConvertType.
    """
    source = need_op("bitcast_convert_type", "operand", operand)
    wanted = pt.as_primitive_type(new_element_type)
    shape = shape_inference.elementwise.bitcast_convert_type(source.shape, wanted)
    return record("bitcast_convert", shape, (source,))


@op("ReducePrecision", opcode="reduce_precision", section="ReducePrecision")
def reduce_precision(operand: XlaOp, exponent_bits: int, mantissa_bits: int) -> XlaOp:
    """Floating-point values rounded to fewer exponent and mantissa bits, in the same type.

    Args:
        operand: an array of floating point.
        exponent_bits: at least 1.
        mantissa_bits: at least 0. (The document's signature has the two the other way round; its
            table, and XlaBuilder, have them so.)

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: not floating point, or too few bits.

    Example:
        >>> import builder as xb
        >>> xb.reduce_precision(xb.XlaBuilder().parameter(xb.f32[3]), 5, 10).shape
        f32[3]

    Operation Semantics: ReducePrecision.
    """
    source = need_op("reduce_precision", "operand", operand)
    exponent = integer("reduce_precision", "exponent_bits", exponent_bits)
    mantissa = integer("reduce_precision", "mantissa_bits", mantissa_bits)
    shape = shape_inference.elementwise.reduce_precision(source.shape, exponent, mantissa)
    attributes = {"exponent_bits": exponent, "mantissa_bits": mantissa}
    return record("reduce_precision", shape, (source,), attributes)
