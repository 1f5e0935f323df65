"""Dynamic sizes: dimensions whose size is a runtime value.

Operation Semantics: GetDimensionSize, SetDimensionSize. XlaBuilder: RemoveDynamicDimension,
DynamicReshape, MhloDynamicBroadcastInDim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builder.check import flags, integer, integers
from builder.graph.recording import record, resolve_builder, rollback_on_error, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.operands import Operand, dimensions_attribute, is_number, need_op, number_as
from builder.ops.rules import dynamic as infer
from builder.schema import BUILDER_H, SCHEMAS
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import ShapeLike, shape_argument

_get_shape = per_signature(infer.get_dimension_size.strict)
_set_shape = per_signature(infer.set_dimension_size.strict)
_reshape_shape = per_signature(infer.dynamic_reshape.strict)
_broadcast_shape = per_signature(infer.dynamic_broadcast_in_dim.strict)


@op_by_hand(SCHEMAS["get_dimension_size"])
def get_dimension_size(operand: XlaOp, dimension: int) -> XlaOp:
    """Return the runtime size of one dimension.

    Args:
        operand: an array; its sizes may be fixed, bounded or unbounded.
        dimension: one of the operand's dimensions, of size at most 2**31 - 1.

    Returns:
        A scalar s32.

    Raises:
        ShapeInferenceError: the operand is not an array; the dimension is out of range or too
            large.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter("f32[<=5,3]")
        >>> xb.get_dimension_size(x, 0).shape
        s32[]

    Operation Semantics: GetDimensionSize.
    """
    source = need_op("get_dimension_size", "operand", operand)
    number = integer("get_dimension_size", "dimension", dimension)
    shape = _get_shape(source.shape, number)
    return record("get_dimension_size", shape, (source,), shared_attributes(dimension=number))


@op_by_hand(SCHEMAS["set_dimension_size"])
def set_dimension_size(operand: XlaOp, size: Operand, dimension: int) -> XlaOp:
    """Return the operand with the runtime size of one dimension set.

    The elements are not moved. Elements beyond the size are padding, which later operations ignore.
    The size can be set again; a larger size restores elements that were there before.

    Args:
        operand: an array.
        size: a scalar s32, or a number: at least 0 and at most the dimension's size or bound. A
            runtime value outside that range is clamped to the range.
        dimension: one of the operand's dimensions, of size at most 2**31 - 1.

    Returns:
        An array of the operand's sizes; the size of `dimension` becomes a bound.

    Raises:
        ShapeInferenceError: the operand is not an array; the dimension is out of range or too
            large; the size is not a scalar s32, or is a number outside the bound.
        ConstantError: the number does not fit s32.

    Example:
        >>> import builder as xb
        >>> v = xb.XlaBuilder().parameter(xb.f32[10])
        >>> five = xb.set_dimension_size(v, 5, 0)
        >>> five.shape
        f32[<=10]
        >>> xb.reduce(five, 0.0, xb.add, [0]).shape     # reduces five elements
        f32[]

    Operation Semantics: SetDimensionSize.
    """
    source = need_op("set_dimension_size", "operand", operand)
    number = integer("set_dimension_size", "dimension", dimension)
    attributes = shared_attributes(dimension=number)
    with rollback_on_error(resolve_builder("set_dimension_size", source)):
        value = _s32("set_dimension_size", "size", size, source)
        shape = _set_shape(source.shape, value.shape, number, _constant_value(value))
        return record("set_dimension_size", shape, (source, value), attributes)


def _s32(name: str, argument: str, value: Any, beside: XlaOp) -> XlaOp:
    """Return `value` if it is an op; record a number as an s32 constant."""
    if type(value) is XlaOp or not is_number(value):
        return need_op(name, argument, value)
    return number_as(name, value, pt.s32, beside)


def _constant_value(size: XlaOp) -> int | None:
    """Return the value of `size` if the op is an s32 constant, else None."""
    if size.opcode != "constant" or size.shape is not pt.s32[()]:
        return None
    return int(size.attributes["value"])


@op_by_hand(SCHEMAS["set_dimension_size"], cpp_name="RemoveDynamicDimension", section=BUILDER_H)
def remove_dynamic_dimension(operand: XlaOp, dimension: int) -> XlaOp:
    """Make one dimension static: its bound becomes its size.

    Elements beyond the former runtime size are undefined, unless the size was set by
    `set_dimension_size`, which preserves these elements. Recorded as `set_dimension_size`.

    Args:
        operand: an array.
        dimension: one of the operand's dimensions; a dimension of fixed size is unchanged.

    Returns:
        An array of the operand's sizes; the size of `dimension` is fixed.

    Raises:
        ShapeInferenceError: the operand is not an array; the dimension is out of range, unbounded,
            or larger than 2**31 - 1.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter("f32[<=5,<=3]")
        >>> xb.remove_dynamic_dimension(x, 0).shape
        f32[5,<=3]

    Not in Operation Semantics; XlaBuilder's RemoveDynamicDimension.
    """
    source = need_op("remove_dynamic_dimension", "operand", operand)
    number = integer("remove_dynamic_dimension", "dimension", dimension)
    shape = infer.remove_dynamic_dimension.strict(source.shape, number)
    size = number_as("remove_dynamic_dimension", shape.dimensions[number], pt.s32, source)
    return record("set_dimension_size", shape, (source, size), shared_attributes(dimension=number))


def set_to_bound(operand: XlaOp, dimension: int, size: XlaOp) -> XlaOp:
    """Record `remove_dynamic_dimension` with the existing constant `size` as the bound."""
    shape = infer.remove_dynamic_dimension.strict(operand.shape, dimension)
    attributes = shared_attributes(dimension=dimension)
    return record("set_dimension_size", shape, (operand, size), attributes)


@op_by_hand(SCHEMAS["dynamic_reshape"])
def dynamic_reshape(
    operand: XlaOp,
    dim_sizes: Sequence[Operand],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> XlaOp:
    """Reshape the operand, in the same element order, to sizes that are runtime values.

    Args:
        operand: an array, whose sizes may be dynamic.
        dim_sizes: the runtime size of each dimension of the result: scalars s32, or numbers. Their
            product must be the number of elements that the operand has at run time.
        new_size_bounds: the bound, or the size, of each dimension of the result. Their product must
            be the number of elements in the operand's bounds, unless a bound is `xb.UNBOUNDED`.
        dims_are_dynamic: whether each dimension of the result has a dynamic size. For the other
            dimensions, `dim_sizes` repeats the entries of `new_size_bounds`.

    Returns:
        An array of sizes `new_size_bounds`, bounded where `dims_are_dynamic` is true.

    Raises:
        ShapeInferenceError: the operand is not an array; the operand is unbounded and the result is
            not; the numbers of sizes or of elements differ; a size is not a scalar s32.
        ConstantError: a number does not fit s32.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, n = b.parameter("f32[<=4,3]"), b.parameter(xb.s32[()])
        >>> xb.dynamic_reshape(x, [n * 3], [12], [True]).shape
        f32[<=12]

    Not in Operation Semantics; XlaBuilder's DynamicReshape.
    """
    source = need_op("dynamic_reshape", "operand", operand)
    bounds = integers("dynamic_reshape", "new_size_bounds", new_size_bounds)
    are_dynamic = flags(
        "dynamic_reshape", "dims_are_dynamic", dims_are_dynamic, "dimension of the result"
    )
    values = dim_sizes if isinstance(dim_sizes, (list, tuple)) else [dim_sizes]
    ops = [value for value in values if type(value) is XlaOp]
    with rollback_on_error(resolve_builder("dynamic_reshape", source, *ops)):
        sizes = [
            _s32("dynamic_reshape", f"dim size {index}", value, source)
            for index, value in enumerate(values)
        ]
        shapes = tuple([size.shape for size in sizes])
        shape = _reshape_shape(source.shape, shapes, bounds, are_dynamic)
        return record("dynamic_reshape", shape, (source, *sizes))


@op_by_hand(SCHEMAS["dynamic_broadcast_in_dim"])
def dynamic_broadcast_in_dim(
    operand: XlaOp,
    output_dimensions: XlaOp,
    broadcast_dimensions: Sequence[int],
    shape: ShapeLike,
) -> XlaOp:
    """Broadcast the operand to sizes that are runtime values.

    Ops on arrays with unbounded dimensions record this op to broadcast scalars, numbers and
    operands of size 1.

    Args:
        operand: an array.
        output_dimensions: the sizes of the result: a vector of s32 or s64.
        broadcast_dimensions: for each dimension of the operand the corresponding dimension of the
            result. Size 1 is broadcast to any size; other sizes must be equal.
        shape: the shape of the result. Before run time, its sizes are not compared with
            `output_dimensions`.

    Returns:
        An array of shape `shape`.

    Raises:
        ShapeInferenceError: the operand is not an array; its sizes or its element type do not match
            `shape`; `output_dimensions` is not a vector with an entry for each dimension of
            the result.
        OperandError: `shape` is not a shape.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> row, sizes = b.parameter(xb.f32[3]), b.parameter(xb.s32[2])
        >>> xb.dynamic_broadcast_in_dim(row, sizes, [1], xb.f32[2, 3]).shape
        f32[2,3]

    Not in Operation Semantics; XlaBuilder's MhloDynamicBroadcastInDim.
    """
    name = "dynamic_broadcast_in_dim"
    source = need_op(name, "operand", operand)
    sizes = need_op(name, "output_dimensions", output_dimensions)
    places = integers(name, "broadcast_dimensions", broadcast_dimensions)
    target = shape_argument(name, "shape", shape)
    result = _broadcast_shape(source.shape, sizes.shape, places, target)
    attributes = dimensions_attribute("broadcast_dimensions", places)
    return record(name, result, (source, sizes), attributes)
