"""Shapes of sizes known only when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from builder.check import Check
from builder.shape_inference.public import public
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, intern_array

__all__ = [
    "dynamic_reshape",
    "get_dimension_size",
    "remove_dynamic_dimension",
    "set_dimension_size",
]

_MOST: Final = pt.s32.max


def _measured(check: Check, dimension: int) -> ArrayShape:
    """The operand, whose `dimension` must have a size that an s32 holds."""
    array = check.array("operand")
    check.dimension(dimension, of="operand", name="dimension")
    if array.dimensions[dimension] > _MOST:
        check.fail(
            f"dimension {dimension} is of size {array.dimensions[dimension]}, and sizes at run "
            f"time are s32, at most {_MOST}",
            dimension=dimension,
        )
    return array


def _marked(array: ArrayShape, dimension: int, dynamic: bool) -> ArrayShape:
    """The same array with a dimension that is dynamic, or is not."""
    marks = list(array.dynamic_dimensions)
    marks[dimension] = dynamic
    return intern_array(array.element_type, array.dimensions, tuple(marks))


def _size(check: Check, name: str) -> None:
    """The operand called `name` must be a size: a scalar s32."""
    shape = check.array(name)
    if shape.rank or shape.element_type is not pt.s32:
        check.fail(
            f"{name} must be a scalar of type s32, got {shape}",
            fix=None if shape.rank else "convert it: xb.convert_element_type(size, xb.s32)",
        )


@public
def get_dimension_size(operand: Shape, dimension: int) -> ArrayShape:
    """Shape of a dimension's size: a scalar s32.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.dynamic.get_dimension_size(xb.parse_shape("f32[<=5,3]"), 0)
        s32[]
    """
    check = Check("get_dimension_size", operand=operand)
    _measured(check, dimension)
    return intern_array(pt.s32, ())


@public
def set_dimension_size(
    operand: Shape, size: Shape, dimension: int, value: int | None = None
) -> ArrayShape:
    """Shape of an array one dimension of which gets a size at run time: its size is the bound.

    Args:
        operand: the array.
        size: the shape of the size.
        dimension: the one that gets it.
        value: the size, where it is known.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.dynamic.set_dimension_size(xb.f32[5, 3], xb.s32[()], 0)
        f32[<=5,3]
    """
    check = Check("set_dimension_size", operand=operand, size=size)
    array = check.array("operand")
    check.dimension(dimension, of="operand", name="dimension")
    _size(check, "size")
    _measured(check, dimension)
    bound = array.dimensions[dimension]
    if value is not None and (value < 0 or 0 <= bound < value):
        check.fail(
            f"size must not be negative, nor more than dimension {dimension} has room for, "
            f"{array.dimension_text(dimension)}, got {value}",
            dimension=dimension,
        )
    return _marked(array, dimension, True)


@public
def remove_dynamic_dimension(operand: Shape, dimension: int) -> ArrayShape:
    """Shape of an array one dimension of which gets its bound as its size.

    Example:
        >>> import builder as xb
        >>> shape = xb.parse_shape("f32[<=5,<=3]")
        >>> xb.shape_inference.dynamic.remove_dynamic_dimension(shape, 0)
        f32[5,<=3]
    """
    check = Check("remove_dynamic_dimension", operand=operand)
    array = _measured(check, dimension)
    if array.dimensions[dimension] < 0:
        check.fail(
            f"dimension {dimension} must have a bound, which becomes its size",
            dimension=dimension,
        )
    return _marked(array, dimension, False)


@public
def dynamic_reshape(
    operand: Shape,
    dim_sizes: Sequence[Shape],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> ArrayShape:
    """Shape of an array reshaped to sizes that are known at run time.

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
    check.sizes(new_size_bounds, name="new_size_bounds")
    for what, count in (
        ("dims_are_dynamic", len(dims_are_dynamic)),
        ("dim_sizes", len(dim_sizes)),
    ):
        if count != len(new_size_bounds):
            check.fail(
                f"{what} must have one entry for each of new_size_bounds, "
                f"{len(new_size_bounds)}, got {count}"
            )
    for index in range(len(dim_sizes)):
        _size(check, f"dim size {index}")
    if not array.is_bounded:
        check.fail("operand must have a bound in each dimension")
    shape = check.result(array.element_type, new_size_bounds, dims_are_dynamic)
    if shape.element_count != array.element_count:
        check.fail(
            f"the number of elements must stay the same, dynamic sizes counted at their bounds: "
            f"operand has {array.element_count}, the result {shape} has {shape.element_count}"
        )
    for index, bound in enumerate(new_size_bounds):
        if bound > _MOST:
            check.fail(
                f"dimension {index} of the result is of size {bound}, and sizes at run time are "
                f"s32, at most {_MOST}",
                dimension=index,
            )
    return shape
