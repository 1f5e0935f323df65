"""Convert multi-dimensional indices to linear indices in the buffer, and back.

The functions correspond to XLA's IndexUtil, but support all layouts and arrays of indices. A linear
index that belongs to no element of the array is padding. Dimensions of size 1, which are common in
tiled layouts, cost no arithmetic.

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

from builder.errors import OperandError, ShapeInferenceError, XlaError, brief, error_of
from builder.support.frames import without_internal_frames
from builder.types.layout import Layout, in_order, int_or_none
from builder.types.physical import Physical, Tiling, physical
from builder.types.shape import UNBOUNDED, ArrayShape, ShapeLike, shape_of

# An int or an int64 array; the typing module has no name for their common operations.
Number = Any


def divided(number: Number, size: int) -> tuple[Number, Number]:
    """Return the quotient and the remainder, with one division, because NumPy divides slowly."""
    if size == 1:
        return number, 0
    quotient = number // size
    return quotient, number - quotient * size


def ravel(index: Iterable[Number], sizes: Sequence[int]) -> Number:
    """Return the linear index of `index` in a row-major array of sizes `sizes`."""
    place: Number = 0
    for number, size in zip(index, sizes, strict=True):
        place = _sum(place if size == 1 else place * size, number)
    return place


def _sum(first: Number, second: Number) -> Number:
    if isinstance(first, int) and first == 0:
        return second
    return first if isinstance(second, int) and second == 0 else first + second


def unravel(place: Number, sizes: Sequence[int]) -> list[Number]:
    """Convert the linear index `place` to an index for each dimension of a row-major array.

    Only the first index can be out of bounds. The index of a dimension of size 1 is the int 0, even
    if `place` is an array.
    """
    index: list[Number] = []
    for size in reversed(sizes[1:]):
        place, last = divided(place, size)
        index.append(last)
    if sizes:
        index.append(place)
    return index[::-1]


def combined(tiling: Tiling, index: Iterable[Number]) -> list[Number]:
    """Convert an index of `tiling.before` to an index of `tiling.combined`."""
    numbers = iter(index)
    return [ravel([next(numbers) for _ in group], group) for group in tiling.groups]


def tiled(tiling: Tiling, numbers: Sequence[Number]) -> tuple[list[Number], list[Number]]:
    """Split an index from `combined` into the index of a tile and the index in the tile.

    The index of the tile starts with the indices of the untiled dimensions.
    """
    untiled = numbers[: tiling.untiled]
    pairs = list(map(divided, numbers[tiling.untiled :], tiling.tile))
    return [*untiled, *(quotient for quotient, _ in pairs)], [rest for _, rest in pairs]


Integer = int | np.integer[Any]

_MAX_NUMBER = 2**63 - 1


@without_internal_frames
def layout_of(shape: ShapeLike) -> Layout:
    """Return the layout of an array shape, or the default (row-major) if the shape has none.

    Args:
        shape: an array shape, or its text.

    Raises:
        OperandError: `shape` is not an array shape.

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
    return _layout(array)


@without_internal_frames
def physical_dimensions(shape: ShapeLike) -> tuple[int, ...]:
    """Return the sizes of the buffer as a row-major array: after padding, ordering and tiling.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions
            have their bounds as sizes.

    Returns:
        The sizes, the most major dimension first. For a tiled layout, the numbers of tiles precede
        the sizes of the tile. The alignment of the buffer's end is not included, see `buffer_size`.

    Raises:
        OperandError: `shape` is not an array shape.
        ShapeInferenceError: a dimension is unbounded.

    Example:
        >>> from builder import layout
        >>> layout.physical_dimensions("f32[3,5]{1,0:T(2,2)}")
        (2, 3, 2, 2)
        >>> layout.physical_dimensions("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}")
        (56, 37, 2, 3)

    Tiled layout: Tiling as pad-reshape-transpose.
    """
    return physical_of(bounded_array("physical_dimensions", shape)).dimensions


@without_internal_frames
def buffer_size(shape: ShapeLike) -> int:
    """Return the number of elements in the buffer, including padding and alignment.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions
            have their bounds as sizes.

    Returns:
        The number of elements; every linear index is smaller. For bytes see
        `ArrayShape.padded_byte_size`.

    Raises:
        OperandError: `shape` is not an array shape.
        ShapeInferenceError: a dimension is unbounded.

    Example:
        >>> from builder import layout
        >>> layout.buffer_size("f32[3,5]{1,0:T(2,2)}")
        24
        >>> layout.buffer_size("f32[3,5]{1,0:L(8)}")
        16

    Tiled layout.
    """
    return physical_of(bounded_array("buffer_size", shape)).size


@overload
def linear_index(shape: ShapeLike, multi_index: npt.NDArray[np.integer[Any]]) -> Any: ...


@overload
def linear_index(  # type: ignore[overload-overlap]  # the first match, for ints alone
    shape: ShapeLike, multi_index: Iterable[Integer]
) -> int: ...


@overload
def linear_index(
    shape: ShapeLike, multi_index: Iterable[Integer | npt.NDArray[np.integer[Any]]]
) -> npt.NDArray[np.int64]: ...


@without_internal_frames
def linear_index(shape: ShapeLike, multi_index: Iterable[Any]) -> Any:
    """Return the linear index of an element in the buffer.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions
            have their bounds as sizes.
        multi_index: an index for each dimension, by dimension number: ints, or NumPy arrays of
            integers that broadcast together, as in `numpy.ravel_multi_index`.

    Returns:
        An int; for arrays, an int64 array of the shape to which they broadcast.

    Raises:
        OperandError: `shape` is not an array shape, or an index is not an integer.
        ShapeInferenceError: a dimension is unbounded, the number of indices is not the rank, an
            index is negative or out of bounds, or the arrays do not broadcast together.

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
    array = bounded_array("linear_index", shape)
    numbers = _indices(array, multi_index)
    arrays = [n for n in numbers if isinstance(n, np.ndarray)]
    result_shape = np.broadcast_shapes(*(n.shape for n in arrays))
    if arrays and not prod(result_shape):
        # The sizes of an empty buffer may overflow 64 bits when they are multiplied.
        return np.empty(result_shape, np.int64)
    place = _to_linear(array, numbers)
    if not arrays:
        return place
    is_new = isinstance(place, np.ndarray) and not any(place is number for number in arrays)
    if is_new and place.shape == result_shape:
        return place
    return np.array(np.broadcast_to(place, result_shape), np.int64, order="C")


@overload
def multi_index(
    shape: ShapeLike, linear_index: Integer, *, padding: int | None = None
) -> tuple[int, ...]: ...


@overload
def multi_index(
    shape: ShapeLike, linear_index: npt.NDArray[np.integer[Any]], *, padding: int | None = None
) -> tuple[npt.NDArray[np.int64], ...]: ...


@without_internal_frames
def multi_index(shape: ShapeLike, linear_index: Any, *, padding: int | None = None) -> Any:
    """Return the multi-dimensional index of a linear index in the buffer.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions
            have their bounds as sizes.
        linear_index: an index in the buffer, or a NumPy array of indices.
        padding: the index to return in each dimension if the linear index is padding; None to
            raise an error for padding.

    Returns:
        An index for each dimension, by dimension number: ints, or int64 arrays.

    Raises:
        OperandError: `shape` is not an array shape, or an index is not an integer.
        ShapeInferenceError: a dimension is unbounded, an index is outside the buffer, or an index
            is padding and `padding` is None.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> layout.multi_index("f32[3,5]{1,0:T(2,2)}", 17)
        (2, 3)
        >>> layout.multi_index("f32[3,5]{1,0:T(2,2)}", np.arange(16, 20), padding=-1)
        (array([ 2,  2, -1, -1]), array([ 2,  3, -1, -1]))

    Shapes and Layout: Indexing into arrays.
    """
    array = bounded_array("multi_index", shape)
    place = _place("multi_index", array, linear_index)
    fill = None if padding is None else int_or_none(padding)
    if padding is not None and (fill is None or not -_MAX_NUMBER - 1 <= fill <= _MAX_NUMBER):
        rule = "padding must be an int of 64 bits, or None"
        raise error_of(OperandError, "multi_index", rule, got=brief(padding))
    if isinstance(place, np.ndarray) and not place.size:
        return tuple(np.empty(place.shape, np.int64) for _ in range(array.rank))
    numbers, is_padding = _to_multi(array, place)
    if fill is None and np.any(is_padding):
        first = place if isinstance(place, int) else place[is_padding].item(0)
        rule = f"linear index {first} of {array} is padding"
        fix = "test with is_padding first, or pass padding=-1 to get -1 for padding"
        raise error_of(ShapeInferenceError, "multi_index", rule, fix, shapes={"shape": array})
    if isinstance(place, int):
        return (fill,) * array.rank if is_padding else tuple(numbers)
    arrays = (_array_of(number, place) for number in numbers)
    return tuple(arrays if fill is None else (np.where(is_padding, fill, n) for n in arrays))


@overload
def is_padding(shape: ShapeLike, linear_index: Integer) -> bool: ...


@overload
def is_padding(
    shape: ShapeLike, linear_index: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.bool_]: ...


@without_internal_frames
def is_padding(shape: ShapeLike, linear_index: Any) -> Any:
    """Return whether a linear index belongs to no element of the array.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions
            have their bounds as sizes.
        linear_index: an index in the buffer, or a NumPy array of indices.

    Returns:
        A bool, or an array of bools.

    Raises:
        OperandError: `shape` is not an array shape, or an index is not an integer.
        ShapeInferenceError: a dimension is unbounded, or an index is outside the buffer.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> layout.is_padding("f32[2,3]{0,1:pad(3,5)}", 2)
        True
        >>> np.flatnonzero(~layout.is_padding("f32[2,3]{0,1:pad(3,5)}", np.arange(15)))
        array([0, 1, 3, 4, 6, 7])

    Shapes and Layout: Padding; Tiled layout.
    """
    array = bounded_array("is_padding", shape)
    place = _place("is_padding", array, linear_index)
    if isinstance(place, int):
        return bool(_to_multi(array, place)[1])
    result = np.zeros(place.shape, np.bool_)
    if place.size:
        result |= _to_multi(array, place)[1]
    return result


def physical_of(shape: ArrayShape) -> Physical:
    """Return the `Physical` form of a shape without unbounded dimensions."""
    return physical(shape.dimensions, _layout(shape))


def bounded_array(function: str, shape: Any) -> ArrayShape:
    """Convert the `shape` argument of a function to an array shape without unbounded dimensions."""
    array = _array(function, shape)
    if not array.is_bounded:
        rule = "shape can't have unbounded dimensions"
        fix = "write a size or a bound ('<=n') for the dimension"
        facts = {"shapes": {"shape": array}, "dimension": array.dimensions.index(UNBOUNDED)}
        raise error_of(ShapeInferenceError, function, rule, fix, got=array, **facts)
    return array


def _array(function: str, shape: Any) -> ArrayShape:
    try:
        array = shape_of(shape)
    except XlaError as error:
        _check_other_type(function, shape)
        raise error._in_argument(function, "shape") from None
    if not isinstance(array, ArrayShape):
        fix = "pass the elements of the tuple one by one" if array.is_tuple else ""
        rule = "shape must be the shape of an array"
        raise error_of(OperandError, function, rule, fix, got=brief(array), shapes={"shape": array})
    return array


def _check_other_type(function: str, shape: Any) -> None:
    """Raise if a layout or an array was passed as `shape`."""
    is_text = isinstance(shape, str) and shape.lstrip().startswith("{")
    if is_text or isinstance(shape, Layout):
        got, fix = f"the layout {brief(shape)}", "write shape.with_layout(layout)"
    elif isinstance(shape, np.ndarray):
        got = f"an array of {shape.dtype} with sizes {list(shape.shape)}"
        fix = "write xb.array_shape(array.dtype, array.shape)"
        if function in _ARRAY_FUNCTIONS:
            fix = f"swap the arguments: {_ARRAY_FUNCTIONS[function]}"
    else:
        return
    raise error_of(OperandError, function, "shape must be the shape of an array", fix, got=got)


_ARRAY_FUNCTIONS: Final = {
    "is_padding": "is_padding(shape, linear_index)",
    "linear_index": "linear_index(shape, multi_index)",
    "multi_index": "multi_index(shape, linear_index)",
    "pack": "pack(array, shape)",
    "unpack": "unpack(buffer, shape)",
}
"""The signatures of the functions that take a shape and an array."""


@lru_cache(maxsize=256)
def _default(rank: int) -> Layout:
    return Layout(range(rank - 1, -1, -1))


def _layout(shape: ArrayShape) -> Layout:
    return shape.layout or _default(shape.rank)


def _number(function: str, what: str, value: Any) -> Number:
    """Check that `value` is an int or an array of integers, and return it."""
    if isinstance(value, np.ndarray) and value.ndim:
        if value.dtype.kind in "iu":
            return value
        got = f"an array of {value.dtype}"
    else:
        is_bool = isinstance(value, np.ndarray) and value.dtype.kind == "b"
        number = None if is_bool else int_or_none(value)
        if number is not None:
            return number
        got = brief(value)
    fix = ""
    if isinstance(value, (list, tuple)) and all(int_or_none(item) is not None for item in value):
        fix = f"write numpy.asarray({got})"
    rule = f"{what} must be an int or a NumPy array of integers"
    raise error_of(OperandError, function, rule, fix, got=got)


def _array_of(number: Number, place: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return `number` as an array of the shape of `place` that shares no memory with `place`."""
    if isinstance(number, int):
        return np.full(place.shape, number, np.int64)
    result: npt.NDArray[np.int64] = place.copy() if number is place else number
    return result


def _first_outside(number: Number, size: int) -> int | None:
    """Return the first value that is negative or not less than `size`, or None if all are valid."""
    if isinstance(number, int):
        return None if 0 <= number < size else number
    if not number.size or (int(number.min()) >= 0 and int(number.max()) < size):
        return None
    return int(number[(number < 0) | (number >= size)].item(0))


def _indices(shape: ArrayShape, multi_index: Any) -> list[Number]:
    """Check the `multi_index` argument, and convert its arrays to int64."""
    values = in_order(multi_index)
    if values is None:
        raise OperandError(
            f"multi_index must be a sequence with an index for each dimension of {shape}",
            got=brief(multi_index),
            op="linear_index",
        )
    indices = list(values)
    if len(indices) != shape.rank:
        count = f"{shape.rank} ind{'ex' if shape.rank == 1 else 'ices'}"
        got = len(indices)
        rule = f"multi_index must have {count}, one for each dimension of {shape}"
        raise error_of(ShapeInferenceError, "linear_index", rule, got=got, shapes={"shape": shape})
    numbers = [
        _number("linear_index", f"the index of dimension {d} of {shape}", value)
        for d, value in enumerate(indices)
    ]
    for dimension, (number, size) in enumerate(zip(numbers, shape.dimensions, strict=True)):
        outside = _first_outside(number, size)
        if outside is not None:
            raise ShapeInferenceError(
                f"index {brief(outside)} is out of bounds for dimension "
                f"{dimension} of {shape}, whose size is {size}",
                fix=f"add {size} to the index" if -size <= outside < 0 else "",
                op="linear_index",
                shapes={"shape": shape},
                dimension=dimension,
            )
    shapes = [n.shape for n in numbers if isinstance(n, np.ndarray)]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        rule = "the index arrays must broadcast together"
        raise error_of(
            ShapeInferenceError,
            "linear_index",
            rule,
            got=f"the shapes {listed}",
            shapes={"shape": shape},
        ) from None
    return [n if isinstance(n, int) else n.astype(np.int64, copy=False) for n in numbers]


def _place(function: str, shape: ArrayShape, linear_index: Any) -> Number:
    """Check linear indices, and convert an array to int64."""
    place = _number(function, "linear_index", linear_index)
    size = physical_of(shape).size
    outside = _first_outside(place, size)
    if outside is not None:
        raise ShapeInferenceError(
            f"linear index {brief(outside)} is outside the buffer of {shape}, "
            f"which has {size} element{'' if size == 1 else 's'}"
            + (", padding included" if size != shape.element_count else ""),
            op=function,
            shapes={"shape": shape},
        )
    return place if isinstance(place, int) else place.astype(np.int64, copy=False)


def _to_linear(shape: ArrayShape, numbers: list[Number]) -> Number:
    """Return the linear index, by the formula of the Tiled layout document, tile by tile."""
    form = physical_of(shape)
    index = [numbers[d] for d in reversed(_layout(shape).minor_to_major)]
    for tiling in form.tilings:
        # A scalar is tiled as an array of one element.
        tile, in_tile = tiled(tiling, combined(tiling, index or [0]))
        index = [*tile, *in_tile]
    return ravel(index, form.dimensions)


def _to_multi(shape: ArrayShape, place: Number) -> tuple[list[Number], Number]:
    """Return the multi-dimensional index of the linear index `place`, and whether it is padding.

    If `place` is padding, the multi-dimensional index is meaningless.
    """
    form = physical_of(shape)
    is_padding: Number = False
    if form.tail:
        count = prod(form.dimensions)
        is_padding = place >= count
        _, place = divided(place, count)
    index = unravel(place, form.dimensions)
    for tiling in reversed(form.tilings):
        untiled, length = tiling.untiled, len(tiling.tile)
        sizes = zip(tiling.counts, tiling.tile, strict=True)
        digits = zip(index[untiled : untiled + length], index[untiled + length :], strict=True)
        numbers = [*index[:untiled], *map(ravel, digits, sizes)]
        index = []
        for number, group, padded in zip(numbers, tiling.groups, tiling.padded, strict=True):
            if padded > prod(group):
                is_padding = is_padding | (number >= prod(group))
            index += unravel(number, group)
    numbers = [0] * shape.rank
    # A tiled scalar has an index without a dimension, which `zip` drops.
    for dimension, number in zip(reversed(_layout(shape).minor_to_major), index, strict=False):
        numbers[dimension] = number
        if form.sizes[dimension] > shape.dimensions[dimension]:
            is_padding = is_padding | (number >= shape.dimensions[dimension])
    return numbers, is_padding
