"""Infer the result shapes of ops on dynamic dimensions: get and set sizes, reshape, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from builder.check import Check, sizes_differ
from builder.ops.rules.public import public
from builder.schema import SCHEMAS, ElementTypes
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array

_MOST: Final = pt.s32.max


def _fits_s32(check: Check, size: int, dimension: int, of: str) -> None:
    """Check that the size of a dimension fits s32, the type of sizes at run time."""
    # XLA shape_inference.cc: InferGetDimensionSizeShape
    if size > _MOST:
        check.fail(
            f"dimension {dimension} of {of} must have a size that fits s32, at most {_MOST}, got "
            f"{size}",
            dimension=dimension,
        )


def _with_dynamic(array: ArrayShape, dimension: int, dynamic: bool) -> ArrayShape:
    """Return `array` with `dimension` marked as dynamic, or as static if `dynamic` is False."""
    dynamic_dimensions = list(array.dynamic_dimensions)
    dynamic_dimensions[dimension] = dynamic
    return intern_array(array.element_type, array.dimensions, tuple(dynamic_dimensions))


def _size(check: Check, name: str, allowed: ElementTypes) -> None:
    """Check that operand `name` can be the size of a dimension: a scalar of a type in `allowed`."""
    # XLA shape_inference.cc: InferSetDimensionSizeShape, InferDynamicReshapeShape
    check.scalar(name)
    fix = f"convert {name} to s32 with xb.convert_element_type"
    check.element_type(name, allowed, fix=fix)


@public
def get_dimension_size(operand: Shape, dimension: int) -> ArrayShape:
    """Return the shape of the size of a dimension: an s32 scalar.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.dynamic.get_dimension_size(xb.parse_shape("f32[<=5,3]"), 0)
        s32[]
    """
    check = Check("get_dimension_size", operand=operand)
    array = check.array("operand")
    # StableHLO get_dimension_size (C1)
    check.dimension(dimension, of="operand", name="dimension")
    _fits_s32(check, array.dimensions[dimension], dimension, "operand")
    return intern_array(pt.s32, ())


@public
def set_dimension_size(
    operand: Shape, size: Shape, dimension: int, value: int | None = None
) -> ArrayShape:
    """Return the operand's shape with `dimension` made dynamic; its static size becomes its bound.

    Args:
        operand: the shape of the array.
        size: the shape of the operand `size`.
        dimension: the dimension whose size becomes dynamic.
        value: the value of the operand `size`, or None if the value is not a constant.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.dynamic.set_dimension_size(xb.f32[5, 3], xb.s32[()], 0)
        f32[<=5,3]
    """
    check = Check("set_dimension_size", operand=operand, size=size)
    array = check.array("operand")
    # XLA shape_inference.cc: InferSetDimensionSizeShape
    check.dimension(dimension, of="operand", name="dimension")
    _size(check, "size", SCHEMAS["set_dimension_size"].element_types["size"])
    bound = array.dimensions[dimension]
    _fits_s32(check, bound, dimension, "operand")
    # Operation Semantics: SetDimensionSize
    if value is not None and (value < 0 or 0 <= bound < value):
        check.fail(
            f"size must be from 0 to the size or bound of dimension {dimension}, "
            f"{array.dimension_text(dimension)}, got {value}",
            dimension=dimension,
        )
    return _with_dynamic(array, dimension, True)


@public
def remove_dynamic_dimension(operand: Shape, dimension: int) -> ArrayShape:
    """Return the operand's shape with `dimension` made static; its bound becomes its static size.

    Example:
        >>> import builder as xb
        >>> shape = xb.parse_shape("f32[<=5,<=3]")
        >>> xb.shape_inference.dynamic.remove_dynamic_dimension(shape, 0)
        f32[5,<=3]
    """
    check = Check("remove_dynamic_dimension", operand=operand)
    array = check.array("operand")
    # xla_builder.h: RemoveDynamicDimension
    check.dimension(dimension, of="operand", name="dimension")
    _fits_s32(check, array.dimensions[dimension], dimension, "operand")
    # xla_builder.h: RemoveDynamicDimension
    if array.dimensions[dimension] < 0:
        check.fail(
            f"dimension {dimension} must have a bound, which becomes its static size, got {array}",
            fix="set the bound in the parameter's shape: '<=n' instead of '?'",
            dimension=dimension,
        )
    return _with_dynamic(array, dimension, False)


@public
def dynamic_reshape(
    operand: Shape,
    dim_sizes: Sequence[Shape],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> ArrayShape:
    """Return the shape of an array reshaped to sizes computed at run time.

    Example:
        >>> import builder as xb
        >>> size = xb.s32[()]
        >>> operand = xb.parse_shape("f32[<=4,3]")
        >>> xb.shape_inference.dynamic.dynamic_reshape(operand, [size], [12], [True])
        f32[<=12]
    """
    check = Check.numbered("dynamic_reshape", "dim size", dim_sizes)
    check.shapes = {"operand": operand} | check.shapes
    array = check.array("operand")
    # XLA shape_inference.cc: InferDynamicReshapeShape
    check.sizes([n for n in new_size_bounds if n != UNBOUNDED], name="new_size_bounds")
    rank, of = len(new_size_bounds), "entry of new_size_bounds"
    check.one_for_each(dims_are_dynamic, rank, of=of, name="dims_are_dynamic")
    check.one_for_each(dim_sizes, rank, of=of, name="dim_sizes")
    for index in range(rank):
        _size(check, f"dim size {index}", SCHEMAS["dynamic_reshape"].element_types["sizes"])
    # Not in XLA: a size cannot be both unbounded and static
    for index, (bound, dynamic) in enumerate(zip(new_size_bounds, dims_are_dynamic, strict=True)):
        if bound == UNBOUNDED and not dynamic:
            check.fail(
                "dims_are_dynamic must be True for an unbounded size, got False in "
                f"dims_are_dynamic[{index}]"
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


@public
def dynamic_broadcast_in_dim(
    operand: Shape, output_dimensions: Shape, broadcast_dimensions: Sequence[int], shape: Shape
) -> ArrayShape:
    """Return `shape`, without its layout: the shape of a broadcast to sizes computed at run time.

    Example:
        >>> import builder as xb
        >>> infer = xb.shape_inference.dynamic.dynamic_broadcast_in_dim
        >>> infer(xb.f32[3], xb.s32[2], [1], "f32[?,3]")
        f32[?,3]
    """
    check = Check("dynamic_broadcast_in_dim", operand=operand, output_dimensions=output_dimensions)
    array, sizes = check.arrays()
    # StableHLO dynamic_broadcast_in_dim (C1)
    if not isinstance(shape, ArrayShape) or shape.element_type is not array.element_type:
        check.fail(f"shape must be an array of the operand's element type, got {shape}")
    allowed = SCHEMAS["dynamic_broadcast_in_dim"].element_types["output_dimensions"]
    # StableHLO dynamic_broadcast_in_dim (I2)
    check.element_type("output_dimensions", allowed)
    # StableHLO dynamic_broadcast_in_dim (C7)
    if sizes.rank != 1 or sizes_differ(sizes.dimensions[0], shape.rank):
        check.fail(
            f"output_dimensions must be a vector with one size for each dimension of {shape}, "
            f"got {sizes}"
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
