"""Dynamic sizes: dimensions whose size is a runtime value.

Operation Semantics: GetDimensionSize, SetDimensionSize. XlaBuilder: RemoveDynamicDimension,
DynamicReshape, MhloDynamicBroadcastInDim. StableHLO: dynamic_iota, real_dynamic_slice,
dynamic_pad.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from builder.checking import Check, flags, integer, integers, sizes_differ
from builder.graph.recording import record, resolve_builder, rollback_on_error, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp, constant_value
from builder.ops.definition import op
from builder.ops.operands import Operand, is_number, need_op, number_as
from builder.schema import ElementTypes
from builder.schema.definition import (
    ANY,
    BUILDER_H,
    NUMBER,
    S32,
    S32_OR_S64,
    STABLEHLO,
    Attribute,
    define,
)
from builder.schema.equal_sizes import equal_sizes_except, sizes_of_result
from builder.schema.kinds import DIMENSION, INTEGERS, SHAPE
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, ShapeLike, intern_array

_DIMENSION: Final = (Attribute("dimension", DIMENSION, "dimensions"),)

_MOST: Final = pt.s32.max


def _fits_s32(check: Check, size: int, dimension: int, of: str) -> None:
    """Check that the size of a dimension fits s32, the type of sizes at run time."""
    # XLA shape_inference.cc: InferGetDimensionSizeShape
    if size > _MOST:
        check.fail(
            f"dimension {dimension} of {of} must have a size that fits s32, at most {_MOST}",
            got=size,
            dimension=dimension,
        )


def _get_dimension_size_shape(operand: Shape, dimension: int) -> ArrayShape:
    check = Check("get_dimension_size", operand=operand)
    array = check.array("operand")
    # StableHLO get_dimension_size (C1)
    check.dimension(dimension, of="operand", name="dimension")
    _fits_s32(check, array.dimensions[dimension], dimension, "operand")
    return intern_array(pt.s32, ())


GET_DIMENSION_SIZE: Final = define(
    "get_dimension_size", "operand", _DIMENSION, element_types={"operand": ANY}
)


@op(GET_DIMENSION_SIZE, _get_dimension_size_shape)
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


def _size(check: Check, name: str, allowed: ElementTypes) -> None:
    """Check that operand `name` can be the size of a dimension: a scalar of a type in `allowed`."""
    # XLA shape_inference.cc: InferSetDimensionSizeShape, InferDynamicReshapeShape
    check.scalar(name)
    fix = f"convert {name} to s32 with xb.convert_element_type"
    check.element_type(name, allowed, fix=fix)


def _with_dynamic(array: ArrayShape, dimension: int, dynamic: bool) -> ArrayShape:
    """Return `array` with `dimension` marked as dynamic, or as static if `dynamic` is False."""
    dynamic_dimensions = list(array.dynamic_dimensions)
    dynamic_dimensions[dimension] = dynamic
    return intern_array(array.element_type, array.dimensions, tuple(dynamic_dimensions))


@per_signature
def _set_dimension_size_shape(
    operand: Shape, size: Shape, dimension: int, value: int | None = None
) -> ArrayShape:
    """Return the operand's shape with `dimension` made dynamic; its static size becomes its bound.

    `value` is the value of the operand `size`, or None if that is not a constant.
    """
    check = Check("set_dimension_size", operand=operand, size=size)
    array = check.array("operand")
    # XLA shape_inference.cc: InferSetDimensionSizeShape
    check.dimension(dimension, of="operand", name="dimension")
    _size(check, "size", SET_DIMENSION_SIZE.element_types["size"])
    bound = array.dimensions[dimension]
    _fits_s32(check, bound, dimension, "operand")
    # Operation Semantics: SetDimensionSize
    if value is not None and (value < 0 or 0 <= bound < value):
        check.fail(
            f"size must be from 0 to the size or bound of dimension {dimension}, "
            f"{array.dimension_text(dimension)}",
            got=value,
            dimension=dimension,
        )
    return _with_dynamic(array, dimension, True)


SET_DIMENSION_SIZE: Final = define(
    "set_dimension_size",
    "operand size",
    _DIMENSION,
    element_types={"operand": ANY, "size": S32},
    equal_sizes=equal_sizes_except("dimension"),
)


# It has a body, because the size may be a number; the rule checks the value of a constant.
@op_by_hand(SET_DIMENSION_SIZE, _set_dimension_size_shape)
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
        shape = _set_dimension_size_shape(source.shape, value.shape, number, _constant_value(value))
        return record("set_dimension_size", shape, (source, value), attributes)


def _s32(name: str, argument: str, value: Any, beside: XlaOp) -> XlaOp:
    """Return `value` if it is an op; record a number as an s32 constant."""
    if type(value) is XlaOp or not is_number(value):
        return need_op(name, argument, value)
    return number_as(name, value, pt.s32, beside)


def _constant_value(size: XlaOp) -> int | None:
    """Return the value of `size` if the op is an s32 constant, else None."""
    value = constant_value(size)
    return None if value is None or size.shape is not pt.s32[()] else int(value)


@per_signature
def _remove_dynamic_dimension_shape(operand: Shape, dimension: int) -> ArrayShape:
    check = Check("remove_dynamic_dimension", operand=operand)
    array = check.array("operand")
    # xla_builder.h: RemoveDynamicDimension
    check.dimension(dimension, of="operand", name="dimension")
    _fits_s32(check, array.dimensions[dimension], dimension, "operand")
    # xla_builder.h: RemoveDynamicDimension
    if array.dimensions[dimension] < 0:
        check.fail(
            f"dimension {dimension} must have a bound, which becomes its static size",
            got=array,
            fix="set the bound in the parameter's shape: '<=n' instead of '?'",
            dimension=dimension,
        )
    return _with_dynamic(array, dimension, False)


# It has a body, because the bound is recorded as a constant.
@op_by_hand(
    SET_DIMENSION_SIZE,
    _remove_dynamic_dimension_shape,
    cpp_name="RemoveDynamicDimension",
    section=BUILDER_H,
)
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
    shape = _remove_dynamic_dimension_shape(source.shape, number)
    size = number_as("remove_dynamic_dimension", shape.dimensions[number], pt.s32, source)
    return record("set_dimension_size", shape, (source, size), shared_attributes(dimension=number))


def set_to_bound(operand: XlaOp, dimension: int, size: XlaOp) -> XlaOp:
    """Record `remove_dynamic_dimension` with the existing constant `size` as the bound."""
    shape = _remove_dynamic_dimension_shape(operand.shape, dimension)
    attributes = shared_attributes(dimension=dimension)
    return record("set_dimension_size", shape, (operand, size), attributes)


@per_signature
def _dynamic_reshape_shape(
    operand: Shape,
    dim_sizes: Sequence[Shape],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> ArrayShape:
    check = Check.numbered("dynamic_reshape", "dim size", dim_sizes)
    check.shapes = {"operand": operand} | check.shapes
    array = check.array("operand")
    # XLA shape_inference.cc: InferDynamicReshapeShape
    check.sizes([n for n in new_size_bounds if n != UNBOUNDED], name="new_size_bounds")
    rank, of = len(new_size_bounds), "entry of new_size_bounds"
    check.one_for_each(dims_are_dynamic, rank, of=of, name="dims_are_dynamic")
    check.one_for_each(dim_sizes, rank, of=of, name="dim_sizes")
    for index in range(rank):
        _size(check, f"dim size {index}", DYNAMIC_RESHAPE.element_types["sizes"])
    # Not in XLA: a size cannot be both unbounded and static
    for index, (bound, dynamic) in enumerate(zip(new_size_bounds, dims_are_dynamic, strict=True)):
        if bound == UNBOUNDED and not dynamic:
            check.fail(
                "dims_are_dynamic must be True for an unbounded size",
                got=f"False in dims_are_dynamic[{index}]",
            )
    shape = check.result(array.element_type, new_size_bounds, dims_are_dynamic)
    # xla_builder.h: MhloDynamicReshape
    if not shape.is_bounded:
        return shape
    # XLA shape_inference.cc: InferDynamicReshapeShape
    if not array.is_bounded:
        check.fail(
            "operand must not have unbounded dimensions if the result has none",
            fix="pass xb.UNBOUNDED in new_size_bounds, or reshape to static sizes with xb.reshape",
        )
    # StableHLO dynamic_reshape (C2)
    if shape.element_count != array.element_count:
        check.fail(
            f"the number of elements must stay the same, dynamic sizes counted at their bounds: "
            f"operand has {array.element_count}, the result {shape} has {shape.element_count}"
        )
    for index, bound in enumerate(new_size_bounds):
        _fits_s32(check, bound, index, "the result")
    return shape


DYNAMIC_RESHAPE: Final = define(
    "dynamic_reshape",
    "operand *sizes",
    section=BUILDER_H,
    element_types={"operand": ANY, "sizes": S32},
    first_size=1,
    equal_sizes=sizes_of_result,
)


# It has a body, because sizes may be numbers.
@op_by_hand(DYNAMIC_RESHAPE, _dynamic_reshape_shape)
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
        shape = _dynamic_reshape_shape(source.shape, shapes, bounds, are_dynamic)
        return record("dynamic_reshape", shape, (source, *sizes))


def _dynamic_broadcast_in_dim_shape(
    operand: Shape, output_dimensions: Shape, broadcast_dimensions: Sequence[int], shape: Shape
) -> ArrayShape:
    check = Check("dynamic_broadcast_in_dim", operand=operand, output_dimensions=output_dimensions)
    array, sizes = check.arrays()
    # StableHLO dynamic_broadcast_in_dim (C1)
    if not isinstance(shape, ArrayShape) or shape.element_type is not array.element_type:
        check.fail("shape must be an array of the operand's element type", got=shape)
    allowed = DYNAMIC_BROADCAST_IN_DIM.element_types["output_dimensions"]
    # StableHLO dynamic_broadcast_in_dim (I2)
    check.element_type("output_dimensions", allowed)
    # StableHLO dynamic_broadcast_in_dim (C7)
    if sizes.rank != 1 or sizes_differ(sizes.dimensions[0], shape.rank):
        check.fail(
            f"output_dimensions must be a vector with one size for each dimension of {shape}",
            got=sizes,
        )
    # StableHLO dynamic_broadcast_in_dim (C2), (C3), (C4)
    check.one_for_each_dimension(broadcast_dimensions, of="operand", name="broadcast_dimensions")
    for place in broadcast_dimensions:
        check.in_rank(place, shape.rank, of="shape", name="broadcast_dimensions")
    check.unique(broadcast_dimensions, name="broadcast_dimensions")
    for index, place in enumerate(broadcast_dimensions):
        size, new_size = array.dimensions[index], shape.dimensions[place]
        # StableHLO dynamic_broadcast_in_dim (C5)
        if size != 1 and sizes_differ(size, new_size):
            check.fail(
                f"dimension {index} of operand has size {array.dimension_text(index)}, dimension "
                f"{place} of the result has size {shape.dimension_text(place)}; these sizes must "
                f"be equal, or the operand's size must be 1",
                dimension=index,
            )
    return shape.with_layout(None)


DYNAMIC_BROADCAST_IN_DIM: Final = define(
    "dynamic_broadcast_in_dim",
    "operand output_dimensions",
    (Attribute("broadcast_dimensions", INTEGERS),),
    cpp_name="MhloDynamicBroadcastInDim",
    section=BUILDER_H,
    element_types={"operand": ANY, "output_dimensions": S32_OR_S64},
    first_size=1,
    equal_sizes=sizes_of_result,
)


@op(DYNAMIC_BROADCAST_IN_DIM, _dynamic_broadcast_in_dim_shape, shape=SHAPE)
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
        shape: the shape of the result. Its sizes are compared with `output_dimensions` at run time
            only.

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


def _dynamic_iota_shape(output_dimensions: Shape, iota_dimension: int, shape: Shape) -> ArrayShape:
    check = Check("dynamic_iota", output_dimensions=output_dimensions, shape=shape)
    sizes, array = check.arrays()
    # StableHLO dynamic_iota: output_shape is a vector of integers
    check.element_type("output_dimensions", DYNAMIC_IOTA.element_types["output_dimensions"])
    # StableHLO dynamic_iota: the type of result
    check.element_type("shape", NUMBER, fix="use an integer type, and compare the result")
    # StableHLO dynamic_iota (C2)
    if sizes.rank != 1 or sizes_differ(sizes.dimensions[0], array.rank):
        check.fail("output_dimensions must be a vector with one size for each dimension of shape")
    # StableHLO dynamic_iota (C1)
    check.dimension(iota_dimension, of="shape", name="iota_dimension")
    # Not in StableHLO: an iota of a bounded size is not supported.
    if any(
        d and n != UNBOUNDED
        for n, d in zip(array.dimensions, array.dynamic_dimensions, strict=True)
    ):
        fix = "use the bounds, and xb.set_dimension_size for the sizes of the result"
        check.fail("shape must not have bounded sizes", got=array, fix=fix)
    return array.with_layout(None)


DYNAMIC_IOTA: Final = define(
    "dynamic_iota",
    "output_dimensions",
    (Attribute("iota_dimension", DIMENSION),),
    cpp_name="(none)",
    section=STABLEHLO,
    element_types={"output_dimensions": S32_OR_S64},
    first_size=0,
    equal_sizes=sizes_of_result,
)


@op(DYNAMIC_IOTA, _dynamic_iota_shape, shape=SHAPE)
def dynamic_iota(output_dimensions: XlaOp, iota_dimension: int, shape: ShapeLike) -> XlaOp:
    """Return an array of runtime sizes, with the index of each element along a dimension.

    For fixed sizes use `XlaBuilder.iota`.

    Args:
        output_dimensions: the sizes of the result: a vector of s32 or s64.
        iota_dimension: the dimension to count along.
        shape: the shape of the result: an array of numbers; its sizes are fixed or unbounded.
            They are compared with `output_dimensions` at run time only.

    Returns:
        An array of shape `shape`.

    Raises:
        ShapeInferenceError: `shape` is not an array of numbers, or has bounded sizes;
            `output_dimensions` is not a vector with an entry for each dimension of the result; the
            dimension is out of range.
        OperandError: `shape` is not a shape.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> sizes = b.parameter(xb.s32[2])
        >>> xb.dynamic_iota(sizes, 1, xb.f32[2, 3]).shape
        f32[2,3]

    Not in Operation Semantics; StableHLO's dynamic_iota.
    """


def _resized(check: Check, operand: str, vectors: Sequence[str], shape: Shape) -> ArrayShape:
    """Check an op that takes runtime numbers for each dimension; return the shape of its result.

    Args:
        check: the check, which has the operands.
        operand: the array's name.
        vectors: the names of the vectors, which have a number for each dimension.
        shape: the shape of the result.
    """
    array = check.array(operand)
    # StableHLO dynamic_pad (C2): of integers, one for each dimension; so real_dynamic_slice
    for name in vectors:
        numbers = check.array(name)
        check.element_type(name, S32_OR_S64)
        if numbers.rank != 1 or sizes_differ(numbers.dimensions[0], array.rank):
            check.fail(f"{name} must be a vector with one number for each dimension of {operand}")
    # StableHLO dynamic_pad: the vectors have one type
    check.same_element_type(*vectors)
    # StableHLO dynamic_pad (C1)
    if (
        not isinstance(shape, ArrayShape)
        or shape.element_type is not array.element_type
        or shape.rank != array.rank
        or not (shape.is_static or not shape.is_bounded)
    ):
        rule = f"shape must be an array of {operand}'s rank and element type, without bounded sizes"
        check.fail(rule, got=shape)
    return shape.with_layout(None)


def _real_dynamic_slice_shape(
    operand: Shape, start_indices: Shape, limit_indices: Shape, strides: Shape, shape: Shape
) -> ArrayShape:
    names = "start_indices", "limit_indices", "strides"
    check = Check(
        "real_dynamic_slice",
        operand=operand,
        start_indices=start_indices,
        limit_indices=limit_indices,
        strides=strides,
    )
    return _resized(check, "operand", names, shape)


REAL_DYNAMIC_SLICE: Final = define(
    "real_dynamic_slice",
    "operand start_indices limit_indices strides",
    cpp_name="(none)",
    section=STABLEHLO,
    element_types={
        "operand": ANY,
        **dict.fromkeys(("start_indices", "limit_indices", "strides"), S32_OR_S64),
    },
    first_size=1,
)


@op(REAL_DYNAMIC_SLICE, _real_dynamic_slice_shape, shape=SHAPE)
def real_dynamic_slice(
    operand: XlaOp,
    start_indices: XlaOp,
    limit_indices: XlaOp,
    strides: XlaOp,
    shape: ShapeLike,
) -> XlaOp:
    """Return a slice whose start, limit and stride along each dimension are runtime values.

    For a slice of a fixed size at a runtime start use `dynamic_slice`.

    Args:
        operand: an array.
        start_indices, limit_indices, strides: a number for each dimension: vectors of s32 or s64.
        shape: the shape of the result; its sizes are fixed or unbounded. Before run time, they are
            not compared with the operands.

    Returns:
        An array of shape `shape`.

    Raises:
        ShapeInferenceError: the operand is not an array; a vector does not have a number for each
            of its dimensions; `shape` has another rank or element type, or bounded sizes.
        OperandError: `shape` is not a shape.

    Example:
        >>> import builder as xb, numpy as np
        >>> b = xb.XlaBuilder()
        >>> x, limit = b.parameter(xb.f32[8]), b.parameter(xb.s32[1])
        >>> zero, one = b.constant(np.int32([0])), b.constant(np.int32([1]))
        >>> xb.real_dynamic_slice(x, zero, limit, one, xb.f32[3]).shape
        f32[3]

    Not in Operation Semantics; StableHLO's real_dynamic_slice.
    """


def _dynamic_pad_shape(
    operand: Shape,
    padding_value: Shape,
    edge_padding_low: Shape,
    edge_padding_high: Shape,
    interior_padding: Shape,
    shape: Shape,
) -> ArrayShape:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    check = Check(
        "dynamic_pad",
        operand=operand,
        padding_value=padding_value,
        edge_padding_low=edge_padding_low,
        edge_padding_high=edge_padding_high,
        interior_padding=interior_padding,
    )
    # StableHLO dynamic_pad (C1)
    check.same_element_type("operand", "padding_value")
    # StableHLO dynamic_pad: padding_value is a scalar
    if check.array("padding_value").rank:
        check.fail("padding_value must be a scalar", argument="padding_value")
    return _resized(check, "operand", names, shape)


DYNAMIC_PAD: Final = define(
    "dynamic_pad",
    "operand padding_value edge_padding_low edge_padding_high interior_padding",
    cpp_name="(none)",
    section=STABLEHLO,
    element_types={
        "operand": ANY,
        "padding_value": ANY,
        **dict.fromkeys(("edge_padding_low", "edge_padding_high", "interior_padding"), S32_OR_S64),
    },
    first_size=2,
)


@op(DYNAMIC_PAD, _dynamic_pad_shape, shape=SHAPE)
def dynamic_pad(
    operand: XlaOp,
    padding_value: XlaOp,
    edge_padding_low: XlaOp,
    edge_padding_high: XlaOp,
    interior_padding: XlaOp,
    shape: ShapeLike,
) -> XlaOp:
    """Pad an array by numbers of elements that are runtime values; see `pad`.

    Args:
        operand: an array.
        padding_value: a scalar of the operand's element type.
        edge_padding_low, edge_padding_high, interior_padding: for each dimension the number of
            elements that are added before, after and between the elements: vectors of s32 or s64.
            Those at the edges may be negative, which removes elements.
        shape: the shape of the result; its sizes are fixed or unbounded. Before run time, they are
            not compared with the operands.

    Returns:
        An array of shape `shape`.

    Raises:
        ShapeInferenceError: the operand is not an array; the value is not a scalar of its type; a
            vector does not have a number for each dimension; `shape` has another rank or element
            type, or bounded sizes.
        OperandError: `shape` is not a shape.

    Example:
        >>> import builder as xb, numpy as np
        >>> b = xb.XlaBuilder()
        >>> x, low = b.parameter(xb.f32[8]), b.parameter(xb.s32[1])
        >>> none = b.constant(np.int32([0]))
        >>> xb.dynamic_pad(x, b.constant(0.0, xb.f32), low, none, none, xb.f32[9]).shape
        f32[9]

    Not in Operation Semantics; StableHLO's dynamic_pad.
    """
