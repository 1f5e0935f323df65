"""Conversion of elements to another type, and rounding within a type.

Operation Semantics: ConvertElementType, BitcastConvertType, ReducePrecision.
"""

from __future__ import annotations

from typing import Final

from builder.checking import Check
from builder.graph.recording import record
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.ops.elementwise.common import within
from builder.ops.elementwise.comparison import ne
from builder.schema import BUILDER_H, Attribute, CostClass, define
from builder.schema.definition import ANY, FLOATING, UNSIGNED
from builder.schema.equal_sizes import all_equal_sizes
from builder.schema.kinds import ELEMENT_TYPE, INTEGER32
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array, of_same_sizes


@per_signature
def _convert_element_type_shape(operand: Shape, new_element_type: PrimitiveType) -> ArrayShape:
    check = Check("convert_element_type", operand=operand)
    array = check.array("operand")
    # Operation Semantics: ConvertElementType
    if not new_element_type.is_array_element:
        check.fail("new_element_type must be an element type of arrays", got=new_element_type)
    return of_same_sizes(array, new_element_type)


CONVERT: Final = define(
    "convert",
    "operand",
    cpp_name="ConvertElementType",
    element_types={"operand": ANY},
    cost=CostClass.ELEMENTWISE,
    tolerance=within(1, 2),
    equal_sizes=all_equal_sizes,
)


# A form of its own: complex to pred is another op.
def _record_conversion(_: str, operand: XlaOp, new_element_type: PrimitiveType) -> XlaOp:
    shape = _convert_element_type_shape(operand.shape, new_element_type)
    if new_element_type is pt.pred and operand.shape.element_type.is_complex:
        return ne(operand, 0)  # a convert would drop the imaginary part first
    return record("convert", shape, (operand,), depth=3)


@op(
    CONVERT,
    _convert_element_type_shape,
    by=_record_conversion,
    aliases=("convert",),
    new_element_type=ELEMENT_TYPE,
)
def convert_element_type(operand: XlaOp, new_element_type: PrimitiveTypeLike) -> XlaOp:
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


def _bitcast_convert_type_shape(operand: Shape, new_element_type: PrimitiveType) -> ArrayShape:
    check = Check("bitcast_convert_type", operand=operand)
    array = check.array("operand")
    old = array.element_type
    # Operation Semantics: BitcastConvertType
    if not new_element_type.is_array_element:
        check.fail("new_element_type must be an element type of arrays", got=new_element_type)
    # StableHLO bitcast_convert (C2)
    if old.is_complex != new_element_type.is_complex:
        check.fail("both types must be complex, or both real", got=f"{old} to {new_element_type}")
    sizes, dynamic = array.dimensions, array.dynamic_dimensions
    if old.bits == new_element_type.bits:
        return intern_array(new_element_type, sizes, dynamic)
    wide, narrow = max(old.bits, new_element_type.bits), min(old.bits, new_element_type.bits)
    ratio = wide // narrow
    # StableHLO bitcast_convert (C1)
    if wide % narrow:
        check.fail(
            "one element width must be a multiple of the other",
            got=f"{old.bits} and {new_element_type.bits} bits",
        )
    if old.bits > new_element_type.bits:
        return intern_array(new_element_type, (*sizes, ratio), (*dynamic, False))
    # As in XLA, the bound of a bounded last dimension is compared.
    # StableHLO bitcast_convert (C1)
    if not sizes or sizes[-1] not in (ratio, UNBOUNDED):
        last = array.dimension_text(array.rank - 1) if sizes else "none"
        check.fail(
            f"{ratio} elements of {old} make one of {new_element_type}, so the last dimension must "
            f"be {ratio}",
            got=last,
            dimension=array.rank - 1 if sizes else None,
            fix=f"reshape the operand to [..., {ratio}]",
        )
    return intern_array(new_element_type, sizes[:-1], dynamic[:-1])


BITCAST_CONVERT: Final = define(
    "bitcast_convert",
    "operand",
    cpp_name="BitcastConvertType",
    element_types={"operand": ANY},
    cost=CostClass.ELEMENTWISE,
    equal_sizes=all_equal_sizes,
)


@op(BITCAST_CONVERT, _bitcast_convert_type_shape, new_element_type=ELEMENT_TYPE)
def bitcast_convert_type(operand: XlaOp, new_element_type: PrimitiveTypeLike) -> XlaOp:
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


def _stochastic_convert_type_shape(
    operand: Shape, random: Shape, new_element_type: PrimitiveType
) -> ArrayShape:
    check = Check("stochastic_convert_type", operand=operand, random=random)
    array, bits = check.arrays()
    # XLA shape_inference.cc: InferStochasticConvertShape
    check.element_types(STOCHASTIC_CONVERT.element_types)
    width = array.element_type.bits
    if bits.element_type.bits != width:
        check.fail(
            f"random must have as many bits as the operand's elements, {width}",
            got=bits.element_type,
            fix=f"pass random numbers of type u{width}",
        )
    if (array.dimensions, array.dynamic_dimensions) != (bits.dimensions, bits.dynamic_dimensions):
        check.fail("operand and random must have the same sizes")
    if not (new_element_type.is_integral or new_element_type.is_floating):
        check.fail(
            "new_element_type must be an integer or floating-point type", got=new_element_type
        )
    return of_same_sizes(array, new_element_type)


STOCHASTIC_CONVERT: Final = define(
    "stochastic_convert",
    "operand random",
    cpp_name="StochasticConvertType",
    section=BUILDER_H,
    element_types={"operand": FLOATING, "random": UNSIGNED},
    stablehlo="mhlo.stochastic_convert",
    cost=CostClass.ELEMENTWISE,
    equal_sizes=all_equal_sizes,
)


@op(STOCHASTIC_CONVERT, _stochastic_convert_type_shape, new_element_type=ELEMENT_TYPE)
def stochastic_convert_type(
    operand: XlaOp, random: XlaOp, new_element_type: PrimitiveTypeLike
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


def _reduce_precision_shape(operand: Shape, exponent_bits: int, mantissa_bits: int) -> ArrayShape:
    check = Check("reduce_precision", operand=operand)
    array = check.array("operand")
    # StableHLO reduce_precision (I1), (C2), (C3), (I2), (I3)
    check.element_types(REDUCE_PRECISION.element_types)
    for name, bits, least in (
        ("exponent_bits", exponent_bits, 1),
        ("mantissa_bits", mantissa_bits, 0),
    ):
        if not least <= bits < 2**31:
            check.fail(f"{name} must be from {least} to 2**31 - 1", got=bits)
    return of_same_sizes(array, array.element_type)


REDUCE_PRECISION: Final = define(
    "reduce_precision",
    "operand",
    (Attribute("exponent_bits", INTEGER32), Attribute("mantissa_bits", INTEGER32)),
    element_types={"operand": FLOATING},
    cost=CostClass.ELEMENTWISE,
    tolerance=within(1, 2),
    equal_sizes=all_equal_sizes,
)


@op(REDUCE_PRECISION, _reduce_precision_shape)
def reduce_precision(operand: XlaOp, exponent_bits: int, mantissa_bits: int) -> XlaOp:
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
