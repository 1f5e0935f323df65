"""Where elements lie: from a multi-dimensional index to the place in the buffer, and back.

This is XLA's IndexUtil, for every layout, and for whole arrays of indices at once. The buffer holds
padding too: places that no element of the array is at.

Shapes and Layout: Indexing into arrays; Tiled layout: Linear index formulas for tiling given a
shape and a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from builder.errors import OperandError, ShapeInferenceError, XlaError, brief
from builder.layout.digits import Number, combined, divided, ravel, tiled, unravel
from builder.types.layout import Layout, in_order, int_or_none
from builder.types.physical_layout import Physical, physical
from builder.types.shape import ArrayShape, ShapeLike, shape_of

__all__ = [
    "buffer_size",
    "is_padding",
    "layout_of",
    "linear_index",
    "multi_index",
    "physical_dimensions",
    "physical_of",
    "placed_array",
]

Integer = int | np.integer[Any]

_GREATEST = 2**63 - 1


def layout_of(shape: ShapeLike) -> Layout:
    """The layout of an array shape: the one asked for, or else the default, major to minor.

    Args:
        shape: an array shape, or its text.

    Returns:
        A layout, never None.

    Raises:
        OperandError: no array shape.

    Example:
        >>> import builder as xb
        >>> from builder import layout
        >>> layout.layout_of(xb.f32[2, 3])
        {1,0}
        >>> layout.layout_of("f32[2,3]{0,1}")
        {0,1}

    Shapes and Layout: Default minor-to-major ordering.
    """
    array = _array("layout_of", shape)
    return array.layout or _default(array.rank)


def physical_dimensions(shape: ShapeLike) -> tuple[int, ...]:
    """The sizes of the buffer, seen as a row-major array: after padding, order and tiles.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions count
            at their bounds.

    Returns:
        The sizes, the most major dimension first. Of a tiled layout the counts of tiles stand
        before the sizes of the tile. What aligns the buffer's end is not among them, see
        `buffer_size`.

    Raises:
        OperandError: no array shape.
        ShapeInferenceError: a dimension is unbounded.

    Example:
        >>> from builder import layout
        >>> layout.physical_dimensions("f32[3,5]{1,0:T(2,2)}")
        (2, 3, 2, 2)
        >>> layout.physical_dimensions("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}")
        (56, 37, 2, 3)

    Tiled layout: Tiling as pad-reshape-transpose.
    """
    return physical_of(placed_array("physical_dimensions", shape)).dimensions


def buffer_size(shape: ShapeLike) -> int:
    """The number of elements that the buffer has room for, padding and alignment included.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions count
            at their bounds.

    Returns:
        A number of elements; linear indices are smaller than it. For bytes see
        `ArrayShape.padded_byte_size`.

    Raises:
        OperandError: no array shape.
        ShapeInferenceError: a dimension is unbounded.

    Example:
        >>> from builder import layout
        >>> layout.buffer_size("f32[3,5]{1,0:T(2,2)}")
        24
        >>> layout.buffer_size("f32[3,5]{1,0:L(8)}")
        16

    Tiled layout.
    """
    return physical_of(placed_array("buffer_size", shape)).size


@overload
def linear_index(shape: ShapeLike, multi_index: npt.NDArray[np.integer[Any]]) -> Any: ...


@overload
def linear_index(  # type: ignore[overload-overlap]  # of ints alone, this one is meant
    shape: ShapeLike, multi_index: Iterable[Integer]
) -> int: ...


@overload
def linear_index(
    shape: ShapeLike, multi_index: Iterable[Integer | npt.NDArray[np.integer[Any]]]
) -> npt.NDArray[np.int64]: ...


def linear_index(shape: ShapeLike, multi_index: Iterable[Any]) -> Any:
    """The place of an element in the buffer.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions count
            at their bounds.
        multi_index: one index for each dimension, in the order of their numbers: ints, or NumPy
            arrays of integers that broadcast together, as `numpy.ravel_multi_index` takes them.

    Returns:
        An int; of arrays, an int64 array of the shape they broadcast to.

    Raises:
        OperandError: no array shape; indices that are no integers.
        ShapeInferenceError: a dimension is unbounded; more or fewer indices than dimensions, an
            index out of bounds (negative ones too), arrays that do not broadcast together.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> layout.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))
        17
        >>> layout.linear_index("f32[2,3]{0,1}", (0, np.arange(3)))
        array([0, 2, 4])

    Shapes and Layout: Indexing into arrays; Tiled layout: Linear index formulas for tiling given a
    shape and a tile.
    """
    array = placed_array("linear_index", shape)
    numbers = _indices(array, multi_index)
    counted = np.broadcast_shapes(*(n.shape for n in numbers if isinstance(n, np.ndarray)))
    is_one = not any(isinstance(n, np.ndarray) for n in numbers)
    if not is_one and not prod(counted):
        # Of no index: sizes that are multiplied below may be beyond 64 bits in empty buffers.
        return np.empty(counted, np.int64)
    place = _to_linear(physical_of(array), _default_or(array).minor_to_major, numbers)
    if is_one:
        return place
    is_new = isinstance(place, np.ndarray) and not any(place is number for number in numbers)
    if is_new and place.shape == counted:
        return place
    found = np.empty(counted, np.int64)
    found[...] = place
    return found


@overload
def multi_index(
    shape: ShapeLike, linear_index: Integer, *, padding: int | None = None
) -> tuple[int, ...]: ...


@overload
def multi_index(
    shape: ShapeLike, linear_index: npt.NDArray[np.integer[Any]], *, padding: int | None = None
) -> tuple[npt.NDArray[np.int64], ...]: ...


def multi_index(shape: ShapeLike, linear_index: Any, *, padding: int | None = None) -> Any:
    """The element that is at a place of the buffer.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions count
            at their bounds.
        linear_index: a place in the buffer, or a NumPy array of places.
        padding: stands for the index, in every dimension, of a place that is padding; None to
            refuse such places.

    Returns:
        One index for each dimension, in the order of their numbers: ints, or int64 arrays.

    Raises:
        OperandError: no array shape; no integers.
        ShapeInferenceError: a dimension is unbounded; a place is outside of the buffer; one is
            padding and nothing is given to stand for that.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> layout.multi_index("f32[3,5]{1,0:T(2,2)}", 17)
        (2, 3)
        >>> layout.multi_index("f32[3,5]{1,0:T(2,2)}", np.arange(16, 20), padding=-1)
        (array([ 2,  2, -1, -1]), array([ 2,  3, -1, -1]))

    Shapes and Layout: Indexing into arrays.
    """
    array = placed_array("multi_index", shape)
    place = _place("multi_index", array, linear_index)
    stands = None if padding is None else int_or_none(padding)
    if padding is not None and (stands is None or not -_GREATEST - 1 <= stands <= _GREATEST):
        raise OperandError(
            f"multi_index: padding is an int of 64 bits, or None, got {brief(padding)}",
            op="multi_index",
        )
    if isinstance(place, np.ndarray) and not place.size:
        return tuple(np.empty(place.shape, np.int64) for _ in range(array.rank))
    numbers, is_outside = _to_multi(array, place)
    if stands is None:
        if np.any(is_outside):
            first = place if isinstance(place, int) else place[is_outside].item(0)
            raise ShapeInferenceError(
                f"multi_index: no element is at place {first} of {array}: it is padding\n"
                "fix: ask is_padding first, or give padding=-1 to get -1 as the index there",
                op="multi_index",
                shapes={"shape": array},
            )
    elif isinstance(place, int):
        numbers = [stands] * array.rank if is_outside else numbers
    else:
        return tuple(np.where(is_outside, stands, _array_of(n, place)) for n in numbers)
    return tuple(numbers if isinstance(place, int) else (_array_of(n, place) for n in numbers))


@overload
def is_padding(shape: ShapeLike, linear_index: Integer) -> bool: ...


@overload
def is_padding(
    shape: ShapeLike, linear_index: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.bool_]: ...


def is_padding(shape: ShapeLike, linear_index: Any) -> Any:
    """Whether a place of the buffer is padding: no element of the array is there.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions count
            at their bounds.
        linear_index: a place in the buffer, or a NumPy array of places.

    Returns:
        A bool, or an array of bools.

    Raises:
        OperandError: no array shape; no integers.
        ShapeInferenceError: a dimension is unbounded; a place is outside of the buffer.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> layout.is_padding("f32[2,3]{0,1:pad(3,5)}", 2)
        True
        >>> np.flatnonzero(~layout.is_padding("f32[2,3]{0,1:pad(3,5)}", np.arange(15)))
        array([0, 1, 3, 4, 6, 7])

    Shapes and Layout: Padding; Tiled layout.
    """
    array = placed_array("is_padding", shape)
    place = _place("is_padding", array, linear_index)
    if isinstance(place, int):
        return bool(_to_multi(array, place)[1])
    found = np.zeros(place.shape, np.bool_)
    if place.size:
        found |= _to_multi(array, place)[1]
    return found


def physical_of(shape: ArrayShape) -> Physical:
    """The steps of the shape's layout. No dimension may be unbounded."""
    return physical(shape.dimensions, _default_or(shape))


def placed_array(function: str, shape: Any) -> ArrayShape:
    """The array shape, with sizes that are known, that was given to a function."""
    array = _array(function, shape)
    if not array.is_bounded:
        raise ShapeInferenceError(
            f"{function}: the buffer of {array} has no size: a dimension is unbounded\n"
            "fix: give the dimension a size, or a bound ('<=n')",
            op=function,
            shapes={"shape": array},
            dimension=array.dimensions.index(-1),
        )
    return array


def _array(function: str, shape: Any) -> ArrayShape:
    try:
        found = shape_of(shape)
    except XlaError as error:
        _need_no_other(function, shape)
        raise error.in_argument(function, "shape") from None
    if not isinstance(found, ArrayShape):
        kind = "a tuple's parts are" if found.is_tuple else "a token is"
        raise OperandError(
            f"{function}: shape must be the shape of an array, got {brief(found)}\n"
            f"fix: {kind} {'laid out one by one' if found.is_tuple else 'no data'}",
            op=function,
            shapes={"shape": found},
        )
    return found


def _need_no_other(function: str, shape: Any) -> None:
    """Raises if what stands in the place of a shape is known for something else."""
    is_text = isinstance(shape, str) and shape.lstrip().startswith("{")
    if is_text or isinstance(shape, Layout):
        got, fix = f"the layout {brief(shape)}", "shape.with_layout(layout)"
    elif isinstance(shape, np.ndarray):
        got = f"an array of {shape.dtype} with sizes {list(shape.shape)}"
        call = _OF_ARRAYS.get(function)
        fix = "array_shape(array.dtype, array.shape)"
        if call is not None:
            fix = f"the arguments are swapped, write {call}"
    else:
        return
    raise OperandError(
        f"{function}: shape must be the shape of an array, got {got}\nfix: {fix}", op=function
    )


_OF_ARRAYS: Final = {
    "is_padding": "is_padding(shape, linear_index)",
    "linear_index": "linear_index(shape, multi_index)",
    "multi_index": "multi_index(shape, linear_index)",
    "pack": "pack(array, shape)",
    "unpack": "unpack(buffer, shape)",
}
"""How the functions are called that take arrays besides the shape."""


@lru_cache(maxsize=256)
def _default(rank: int) -> Layout:
    return Layout(range(rank - 1, -1, -1))


def _default_or(shape: ArrayShape) -> Layout:
    return shape.layout or _default(shape.rank)


def _number(function: str, what: str, value: Any) -> Number:
    """An int, or an array of integers of whatever width."""
    if isinstance(value, np.ndarray) and value.ndim:
        if value.dtype.kind in "iu":
            return value
        raise OperandError(
            f"{function}: {what} must be of integers, got an array of {value.dtype}", op=function
        )
    is_bools = isinstance(value, np.ndarray) and value.dtype.kind == "b"
    number = None if is_bools else int_or_none(value)
    if number is None:
        raise OperandError(
            f"{function}: {what} is an int, or a NumPy array of integers, got {brief(value)}"
            + (f"\nfix: numpy.asarray({brief(value)})" if isinstance(value, (list, tuple)) else ""),
            op=function,
        )
    return number


def _array_of(number: Number, place: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The index of each of these places: 0 may have come for all of them, or `place` itself."""
    if isinstance(number, int):
        return np.full(place.shape, number, np.int64)
    found: npt.NDArray[np.int64] = place.copy() if number is place else number
    return found


def _first_outside(number: Number, size: int) -> int | None:
    """The first value that is negative or not smaller than `size`."""
    if isinstance(number, int):
        return None if 0 <= number < size else number
    if not number.size or (int(number.min()) >= 0 and int(number.max()) < size):
        return None
    return int(number[(number < 0) | (number >= size)].item(0))


def _indices(shape: ArrayShape, multi_index: Any) -> list[Number]:
    """The indices, checked, arrays as int64."""
    each = in_order(multi_index)
    if each is None:
        raise OperandError(
            f"linear_index: multi_index is a sequence with an index for each dimension of {shape}, "
            f"got {brief(multi_index)}",
            op="linear_index",
        )
    given = list(each)
    if len(given) != shape.rank:
        raise ShapeInferenceError(
            f"linear_index: {shape} takes {shape.rank} ind{'ex' if shape.rank == 1 else 'ices'}, "
            f"one for each dimension, got {len(given)}",
            op="linear_index",
            shapes={"shape": shape},
        )
    numbers = [
        _number("linear_index", f"the index of dimension {d} of {shape}", value)
        for d, value in enumerate(given)
    ]
    for dimension, (number, size) in enumerate(zip(numbers, shape.dimensions, strict=True)):
        outside = _first_outside(number, size)
        if outside is not None:
            raise ShapeInferenceError(
                f"linear_index: index {brief(outside)} is out of bounds for dimension "
                f"{dimension} of {shape}, whose size is {size}"
                + (f"\nfix: index + {size} counts from the end" if -size <= outside < 0 else ""),
                op="linear_index",
                shapes={"shape": shape},
                dimension=dimension,
            )
    shapes = [n.shape for n in numbers if isinstance(n, np.ndarray)]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeInferenceError(
            "linear_index: the index arrays must broadcast together, got the shapes "
            + ", ".join(map(str, shapes)),
            op="linear_index",
            shapes={"shape": shape},
        ) from None
    return [n if isinstance(n, int) else n.astype(np.int64, copy=False) for n in numbers]


def _place(function: str, shape: ArrayShape, linear_index: Any) -> Number:
    """Places in the buffer, checked, an array as int64."""
    place = _number(function, "linear_index", linear_index)
    size = physical_of(shape).size
    outside = _first_outside(place, size)
    if outside is not None:
        raise ShapeInferenceError(
            f"{function}: linear index {brief(outside)} is outside of the buffer of {shape}, "
            f"which has {size} element{'' if size == 1 else 's'}"
            + (", padding included" if size != shape.element_count else ""),
            op=function,
            shapes={"shape": shape},
        )
    return place if isinstance(place, int) else place.astype(np.int64, copy=False)


def _to_linear(steps: Physical, minor_to_major: Sequence[int], numbers: list[Number]) -> Number:
    """The formula of the document, a tile after the other."""
    index = [numbers[d] for d in reversed(minor_to_major)]
    for tiling in steps.tilings:
        # A scalar is tiled as an array of one element.
        which, where = tiled(tiling, combined(tiling, index or [0]))
        index = [*which, *where]
    return ravel(index, steps.dimensions)


def _to_multi(shape: ArrayShape, place: Number) -> tuple[list[Number], Number]:
    """The way back: an index for each dimension, and whether the place is padding.

    What is padding for one tile goes on as if it were an element; its index means nothing.
    """
    steps = physical_of(shape)
    is_outside: Number = False
    if steps.tail:
        count = prod(steps.dimensions)
        is_outside = place >= count
        _, place = divided(place, count)
    index = unravel(place, steps.dimensions)
    for tiling in reversed(steps.tilings):
        untiled, length = tiling.untiled, len(tiling.tile)
        which, where = index[untiled : untiled + length], index[untiled + length :]
        sizes = zip(tiling.counts, tiling.tile, strict=True)
        digits = zip(which, where, strict=True)
        numbers = [*index[:untiled], *map(ravel, digits, sizes)]
        index = []
        for number, group, padded in zip(numbers, tiling.groups, tiling.padded, strict=True):
            if padded > prod(group):
                is_outside = is_outside | (number >= prod(group))
            index += unravel(number, group)
    numbers = [0] * shape.rank
    # A tiled scalar has one index left, of no dimension: `zip` ends before it.
    for dimension, number in zip(reversed(_default_or(shape).minor_to_major), index, strict=False):
        numbers[dimension] = number
        if steps.sizes[dimension] > shape.dimensions[dimension]:
            is_outside = is_outside | (number >= shape.dimensions[dimension])
    return numbers, is_outside
