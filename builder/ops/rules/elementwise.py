"""Infer result shapes of elementwise ops: arithmetic, comparison, clamp, select, conversion, map.

The schema of each opcode lists the element types that `unary` and `binary` accept.

Operation Semantics: Element-wise binary arithmetic operations, Element-wise comparison
operations, Element-wise unary functions, Clamp, Select, ConvertElementType, BitcastConvertType,
ReducePrecision, Map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from builder.check import Check, any_dynamic, same_sizes
from builder.errors import SignatureError
from builder.ops.rules.broadcasting import broadcast_sizes
from builder.ops.rules.public import public
from builder.schema import SCHEMAS, ResultType, Schema
from builder.schema.comparison import comparable
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    intern_array,
)

COMPARISON_DIRECTIONS: Final = ("EQ", "NE", "GE", "GT", "LE", "LT")


def _schema_of(check: Check, opcode: str, operands: str) -> Schema:
    """Return the schema of an elementwise opcode.

    Args:
        check: the op, for messages.
        opcode: the opcode.
        operands: the operand names that the schema must have, such as "lhs rhs".
    """
    schema = SCHEMAS.get(opcode)
    if schema is None or schema.result is None or schema.operands != operands:
        # Not in XLA: the opcode is an argument of inference only
        opcodes = [s.opcode for s in SCHEMAS.values() if s.result and s.operands == operands]
        check.fail(f"opcode must be one of {', '.join(opcodes)}, got {opcode!r}")
    return schema


def _result_type(schema: Schema, element_type: PrimitiveType) -> PrimitiveType:
    match schema.result:
        case ResultType.REAL_PART:
            return element_type.real_type
        case ResultType.COMPLEX:
            return element_type.complex_type or element_type
        case ResultType.PRED:
            return pt.pred
        case _:
            return element_type


@public
def unary(opcode: str, operand: Shape, op: str = "") -> ArrayShape:
    """Return the shape of a unary elementwise op's result, which has the operand's sizes.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.unary("real", xb.c64[3])
        f32[3]
    """
    check = Check(op or opcode, operand=operand)
    array = check.array("operand")
    schema = _schema_of(check, opcode, "operand")
    # Operation Semantics: Element-wise unary functions; the section of the schema
    check.element_types(schema.element_types)
    element_type = _result_type(schema, array.element_type)
    return intern_array(element_type, array.dimensions, array.dynamic_dimensions)


@public
def binary(
    opcode: str,
    lhs: Shape,
    rhs: Shape,
    broadcast_dimensions: tuple[int, ...] | None = None,
    op: str = "",
) -> ArrayShape:
    """Return the shape of a binary elementwise op's result; the operands are broadcast.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.binary("add", xb.f32[2, 3], xb.f32[3], (1,))
        f32[2,3]
    """
    check = Check(op or opcode, lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    # Operation Semantics: Element-wise binary arithmetic operations
    element_type = check.same_element_type()
    schema = _schema_of(check, opcode, "lhs rhs")
    allowed = schema.element_types["lhs"]
    # Operation Semantics: Element-wise binary arithmetic operations; the section of the schema
    if element_type not in allowed.types:
        check.fail(f"operands must be of {allowed.text} type, got {element_type}")
    sizes, dynamic = broadcast_sizes(check, left, right, broadcast_dimensions)
    return intern_array(_result_type(schema, element_type), sizes, dynamic)


@public
def compare(
    lhs: Shape,
    rhs: Shape,
    direction: str,
    broadcast_dimensions: tuple[int, ...] | None = None,
    *,
    total_order: bool = False,
    op: str = "",
) -> ArrayShape:
    """Return the shape of a comparison's result: pred, with the sizes of the broadcast operands.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.compare(xb.s32[4], xb.s32[()], "LT")
        pred[4]
    """
    check = Check(op or "compare", lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    # StableHLO compare (C1)
    element_type = check.same_element_type()
    # Operation Semantics: Element-wise comparison operations
    if direction not in COMPARISON_DIRECTIONS:
        check.fail(
            f"direction must be one of {', '.join(COMPARISON_DIRECTIONS)}, got {direction!r}"
        )
    if element_type not in comparable(direction, total_order=total_order).types:
        check.fail(
            f"complex numbers have no order, got {element_type}",
            fix="compare the xb.abs of the operands, or the xb.real and xb.imag",
        )
    sizes, dynamic = broadcast_sizes(check, left, right, broadcast_dimensions)
    return intern_array(pt.pred, sizes, dynamic)


@public
def clamp(min: Shape, operand: Shape, max: Shape) -> ArrayShape:
    """Return the shape of ``clamp(min, operand, max)``: the shape of `operand`.

    `min` and `max` have the operand's shape or are scalars. As in XLA, a scalar operand is
    broadcast to the sizes of `min` and `max`; the bounds of bounded dimensions become static sizes.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.clamp("s32[]", "s32[3]", "s32[]")
        s32[3]
    """
    check = Check("clamp", min=min, operand=operand, max=max)
    low, array, high = check.arrays()
    # StableHLO clamp (C3)
    element_type = check.same_element_type()
    # Operation Semantics: Clamp
    fix = "clamp the xb.real and xb.imag of complex numbers, which have no order"
    check.element_types(SCHEMAS["clamp"].element_types, fix=fix)
    result = next((shape for shape in (array, low, high) if shape.rank), array)
    for name, bound in (("min", low), ("max", high)):
        # StableHLO clamp (C1), (C2)
        if bound.rank and not same_sizes(bound, result):
            check.fail(
                f"{name} must be a scalar or have the operand's sizes"
                if array.rank
                else "min and max must have the same sizes, or be scalars",
                fix=f"broadcast {name} first with xb.broadcast_in_dim",
            )
    dynamic = result.dynamic_dimensions
    if not array.rank:
        # A scalar operand is broadcast to static sizes.
        dynamic = tuple(n == UNBOUNDED for n in result.dimensions)
    return intern_array(element_type, result.dimensions, dynamic)


@public
def select(pred: Shape, on_true: Shape, on_false: Shape) -> Shape:
    """Return the shape of ``select(pred, on_true, on_false)``: the shape that both values have.

    A scalar `pred` matches values of any shape, including tuples. A scalar value is broadcast to
    the sizes of the other operands.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.select("pred[]", "f32[4]", "f32[4]")
        f32[4]
    """
    check = Check("select", pred=pred, on_true=on_true, on_false=on_false)
    if on_true.is_tuple or on_false.is_tuple:
        # xla_builder.h: Select
        if on_true is not on_false:
            check.fail("on_true and on_false must have the same shape")
        which = check.array("pred")
        # xla_builder.h: Select
        if which.element_type is not pt.pred or which.rank:
            check.fail(f"pred must be a scalar of type pred if the values are tuples, got {which}")
        return on_true
    which, first, second = check.arrays()
    # StableHLO select (I1)
    fix = "convert pred to a pred array, for instance with xb.ne(pred, 0)"
    check.element_types(SCHEMAS["select"].element_types, fix=fix)
    # StableHLO select (C2)
    check.same_element_type("on_true", "on_false")
    # Like XLA, take the sizes from pred, if it is not a scalar, as far as sizes are unbounded.
    arrays = [a for a in (which, first, second) if a.rank]
    result = arrays[0] if arrays else first
    for name, array in (("pred", which), ("on_true", first), ("on_false", second)):
        # StableHLO select (C1), (C2)
        if array.rank and not all(same_sizes(array, other) for other in arrays):
            check.fail(
                f"{name} must be a scalar or have the sizes of the other operands",
                fix=f"broadcast {name} first with xb.broadcast_in_dim",
            )
    dynamic = any_dynamic(arrays, result.dimensions)
    return intern_array(first.element_type, result.dimensions, dynamic)


@public
def convert_element_type(operand: Shape, new_element_type: PrimitiveType) -> ArrayShape:
    """Return the shape of a conversion: the operand's sizes with the new element type.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.convert_element_type("s32[3]", xb.f32)
        f32[3]
    """
    check = Check("convert_element_type", operand=operand)
    array = check.array("operand")
    # Operation Semantics: ConvertElementType
    if not new_element_type.is_array_element:
        check.fail(f"new_element_type must be an element type of arrays, got {new_element_type}")
    return intern_array(new_element_type, array.dimensions, array.dynamic_dimensions)


@public
def bitcast_convert_type(operand: Shape, new_element_type: PrimitiveType) -> ArrayShape:
    """Return the shape of the operand with its bits read as another element type.

    If the new type is N times narrower, the result has one more dimension, of size N. If it is N
    times wider, the last dimension, which must be of size N, is removed.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.bitcast_convert_type("f32[10]", xb.f16)
        f16[10,2]
    """
    check = Check("bitcast_convert_type", operand=operand)
    array = check.array("operand")
    old = array.element_type
    # Operation Semantics: BitcastConvertType
    if not new_element_type.is_array_element:
        check.fail(f"new_element_type must be an element type of arrays, got {new_element_type}")
    # StableHLO bitcast_convert (C2)
    if old.is_complex != new_element_type.is_complex:
        check.fail(f"both types must be complex, or both real, got {old} to {new_element_type}")
    sizes, dynamic = array.dimensions, array.dynamic_dimensions
    if old.bits == new_element_type.bits:
        return intern_array(new_element_type, sizes, dynamic)
    wide, narrow = max(old.bits, new_element_type.bits), min(old.bits, new_element_type.bits)
    ratio = wide // narrow
    # StableHLO bitcast_convert (C1)
    if wide % narrow:
        check.fail(
            f"one element width must be a multiple of the other, got {old.bits} and "
            f"{new_element_type.bits} bits"
        )
    if old.bits > new_element_type.bits:
        return intern_array(new_element_type, (*sizes, ratio), (*dynamic, False))
    # As in XLA, the bound of a bounded last dimension is compared.
    # StableHLO bitcast_convert (C1)
    if not sizes or sizes[-1] not in (ratio, UNBOUNDED):
        last = array.dimension_text(array.rank - 1) if sizes else "none"
        check.fail(
            f"{ratio} elements of {old} make one of {new_element_type}, so the last dimension must "
            f"be {ratio}, got {last}",
            dimension=array.rank - 1 if sizes else None,
            fix=f"reshape the operand to [..., {ratio}]",
        )
    return intern_array(new_element_type, sizes[:-1], dynamic[:-1])


@public
def reduce_precision(operand: Shape, exponent_bits: int, mantissa_bits: int) -> ArrayShape:
    """Return the shape of the operand, whose element type must be a floating-point type.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.elementwise.reduce_precision("f32[3]", 5, 10)
        f32[3]
    """
    check = Check("reduce_precision", operand=operand)
    array = check.array("operand")
    # StableHLO reduce_precision (I1), (C2), (C3), (I2), (I3)
    check.element_types(SCHEMAS["reduce_precision"].element_types)
    for name, bits, least in (
        ("exponent_bits", exponent_bits, 1),
        ("mantissa_bits", mantissa_bits, 0),
    ):
        if not least <= bits < 2**31:
            check.fail(f"{name} must be from {least} to 2**31 - 1, got {bits}")
    return intern_array(array.element_type, array.dimensions, array.dynamic_dimensions)


@public
def stochastic_convert_type(
    operand: Shape, random: Shape, new_element_type: PrimitiveType
) -> ArrayShape:
    """Return the shape of a stochastic conversion: the operand's sizes, the new element type.

    Example:
        >>> import builder as xb
        >>> infer = xb.shape_inference.elementwise
        >>> infer.stochastic_convert_type(xb.f32[4], xb.u32[4], xb.s8)
        s8[4]
    """
    check = Check("stochastic_convert_type", operand=operand, random=random)
    array, bits = check.arrays()
    # XLA shape_inference.cc: InferStochasticConvertShape
    check.element_types(SCHEMAS["stochastic_convert"].element_types)
    width = array.element_type.bits
    if bits.element_type.bits != width:
        check.fail(
            f"random must have as many bits as the operand's elements, {width}, "
            f"got {bits.element_type}",
            fix=f"pass random numbers of type u{width}",
        )
    if (array.dimensions, array.dynamic_dimensions) != (bits.dimensions, bits.dynamic_dimensions):
        check.fail("operand and random must have the same sizes")
    if not (new_element_type.is_integral or new_element_type.is_floating):
        check.fail(
            f"new_element_type must be an integer or floating-point type, got {new_element_type}"
        )
    return intern_array(new_element_type, array.dimensions, array.dynamic_dimensions)


@public
def map(
    operands: Sequence[Shape], computation: ProgramShape, dimensions: Sequence[int]
) -> ArrayShape:
    """Return the shape of a scalar computation applied to arrays of the same sizes.

    `dimensions` must list all dimensions, in order. The result has the computation's element type.
    A scalar operand is broadcast if it has the element type of the arrays.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.elementwise.map(["f32[4]", "f32[4]"], add, [0])
        f32[4]
    """
    check = Check.numbered("map", "operand", operands)
    # StableHLO map (C2)
    arrays = check.arrays()
    position = next((i for i, a in enumerate(arrays) if a.rank), 0)
    first = arrays[position]
    for index, array in enumerate(arrays):
        scalar = not array.rank and array.element_type is first.element_type
        # StableHLO map (C1)
        if not same_sizes(array, first) and not scalar:
            check.fail(
                "operands must have the same sizes, or be scalars of the arrays' type; "
                f"operand {index} differs from operand {position}",
                fix="broadcast the smaller operand first with xb.broadcast_in_dim",
            )
    all_dimensions = tuple(range(first.rank))
    # StableHLO map (C3)
    if tuple(dimensions) != all_dimensions:
        check.fail(
            f"dimensions must be all dimensions of the operands in order, {list(all_dimensions)}, "
            f"got {list(dimensions)}",
            fix="pass all dimensions in order; XLA does not map over only some dimensions",
        )
    signature = ", ".join(f"{a.element_type}[]" for a in arrays)
    # StableHLO map (C4)
    if len(computation.parameters) != len(arrays):
        check.signature(
            "computation",
            computation,
            f"a function of {len(arrays)} scalars, one for each operand, ({signature}) -> a scalar",
        )
    for array, parameter in zip(arrays, computation.parameters, strict=True):
        # StableHLO map (C4)
        if parameter is not intern_array(array.element_type, ()):
            check.signature("computation", computation, f"of signature ({signature}) -> a scalar")
    result = computation.result
    # StableHLO map (C4)
    if not isinstance(result, ArrayShape) or result.rank:
        check.fail(
            f"computation must return a scalar, got {result} from {computation}",
            error=SignatureError,
        )
    # As in XLA, the sizes that are dynamic are those of the first array.
    return intern_array(result.element_type, first.dimensions, first.dynamic_dimensions)
