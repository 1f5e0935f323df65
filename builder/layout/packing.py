"""From an array to the buffer that holds it in memory, and back.

Tiled layout: Tiling as pad-reshape-transpose; Shapes and Layout: Padding.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from builder.errors import OperandError, ShapeInferenceError, brief
from builder.layout.indexing import layout_of, physical_of, placed_array
from builder.layout.stages import Stage, stages
from builder.layout.strided_copy import strided_copy, words
from builder.types.layout import PaddingValue
from builder.types.primitive_type import PrimitiveType, dtype_text
from builder.types.shape import ArrayShape, ShapeLike

__all__ = ["pack", "unpack"]

Array = npt.NDArray[Any]

_GREATEST: Final = 2**63 - 1

_MOST_DIMENSIONS: Final = 64
"""Of NumPy's arrays; there is no name for it in NumPy 2."""

_UNMASK: Final = "there are no masks in XLA; fill it: array.filled(value)"


def pack(array: Array, shape: ShapeLike) -> Array:
    """The buffer of an array: its elements in the order of memory, with all padding.

    Args:
        array: a NumPy array of the shape's dimensions and of its element type's dtype; nothing is
            converted. Bounded dimensions have their bounds as sizes.
        shape: an array shape without unbounded dimensions, or its text.

    Returns:
        A new array of one dimension. It is of the array's dtype and holds `buffer_size` elements,
        unless the layout gives elements another size than they have in NumPy. Then it is of uint8,
        the bytes of memory: elements of less than a byte begin at the low bits, as many in a byte
        as there is room for; of wider ones the value is in the low bytes (little-endian) and low
        bits. Bits that belong to no value are zero.

        Padding is filled with the layout's padding value: lowest and highest are the infinities of
        types that have some, and else the least and greatest number. Where nothing is said of it,
        padding is zero.

    Raises:
        OperandError: no array shape; no NumPy array, or one of another dtype.
        ShapeInferenceError: a dimension is unbounded; the array has other sizes; the padding value
            is none that the element type has; there is not enough memory for the padding.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> array = np.array([[1, 2, 3], [4, 5, 6]], np.int8)
        >>> layout.pack(array, "s8[2,3]{0,1}")
        array([1, 4, 2, 5, 3, 6], dtype=int8)
        >>> layout.pack(array, "s8[2,3]{0,1:pad(3,5)=zero}")
        array([1, 4, 0, 2, 5, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0], dtype=int8)
        >>> layout.pack(np.array([True, False, True]), "pred[3]{0:E(1)}")
        array([5], dtype=uint8)

    Shapes and Layout: Padding; Tiled layout: Tiling as pad-reshape-transpose.
    """
    wanted = placed_array("pack", shape)
    element = wanted.element_type
    if not isinstance(array, np.ndarray):
        fix = f"numpy.asarray(array, numpy.dtype({element.dtype.name!r}))"
        raise _not_numpy("pack", "array", brief(array), fix)
    if isinstance(array, np.ma.MaskedArray):
        raise _not_numpy("pack", "array", "a masked array", _UNMASK)
    if array.dtype != element.dtype:
        raise OperandError(
            f"pack: the elements of {wanted} are of dtype {element.dtype}, "
            f"got an array of {array.dtype}\nfix: array.astype({dtype_text(element.dtype)})",
            op="pack",
            shapes={"shape": wanted},
        )
    if array.shape != wanted.dimensions:
        raise ShapeInferenceError(
            f"pack: the array of {wanted} has sizes {list(wanted.dimensions)}, "
            f"got {list(array.shape)}",
            op="pack",
            shapes={"shape": wanted},
        )
    try:
        # More bytes than 63 bits can count NumPy does not even try to get.
        found = _in_memory(array, wanted) if wanted.padded_byte_size <= _GREATEST else None
    except MemoryError:
        found = None
    if found is None:
        raise ShapeInferenceError(
            f"pack: the buffer of {wanted} takes {brief(wanted.padded_byte_size)} bytes, padding "
            "included, and there is not enough memory",
            op="pack",
            shapes={"shape": wanted},
        )
    return found


def unpack(buffer: Array, shape: ShapeLike) -> Array:
    """The array that is in a buffer: the way back from `pack`.

    Args:
        buffer: a NumPy array of one dimension, of the dtype and the size that `pack` gives. What
            its padding holds does not matter, nor do the bits that belong to no value.
        shape: an array shape without unbounded dimensions, or its text.

    Returns:
        A new array of the shape's dimensions and of its element type's dtype, C-contiguous.

    Raises:
        OperandError: no array shape; no NumPy array, or one of another dtype.
        ShapeInferenceError: a dimension is unbounded; the shape has more dimensions than NumPy's
            arrays; the buffer has another size.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> layout.unpack(np.array([1, 4, 2, 5, 3, 6], np.int8), "s8[2,3]{0,1}")
        array([[1, 2, 3],
               [4, 5, 6]], dtype=int8)

    Tiled layout: Tiling as pad-reshape-transpose.
    """
    wanted = placed_array("unpack", shape)
    element, bits = wanted.element_type, wanted.element_size_in_bits
    if wanted.rank > _MOST_DIMENSIONS:
        raise ShapeInferenceError(
            f"unpack: NumPy's arrays have at most {_MOST_DIMENSIONS} dimensions, "
            f"got {brief(wanted)} of {wanted.rank}",
            op="unpack",
            shapes={"shape": wanted},
        )
    if not isinstance(buffer, np.ndarray):
        raise _not_numpy("unpack", "buffer", brief(buffer), "numpy.frombuffer reads bytes")
    if isinstance(buffer, np.ma.MaskedArray):
        raise _not_numpy("unpack", "buffer", "a masked array", _UNMASK)
    is_natural = bits == 8 * element.dtype.itemsize
    dtype = element.dtype if is_natural else np.dtype(np.uint8)
    if buffer.dtype != dtype:
        why = "" if is_natural else f", whose elements take {bits} bits,"
        convert = "view" if _is_same_bits(buffer.dtype, dtype) else "astype"
        raise OperandError(
            f"unpack: the buffer of {wanted}{why} is of dtype {dtype}, got {buffer.dtype}\n"
            f"fix: buffer.{convert}({dtype_text(dtype)})",
            op="unpack",
            shapes={"shape": wanted},
        )
    size = physical_of(wanted).size if is_natural else wanted.padded_byte_size
    if buffer.shape != (size,):
        raise ShapeInferenceError(
            f"unpack: the buffer of {wanted} has the one dimension [{size}], "
            f"got {list(buffer.shape)}",
            op="unpack",
            shapes={"shape": wanted},
        )
    if bits < 8:
        buffer = _unnarrowed(buffer, physical_of(wanted).size, element, bits)
    elif not is_natural:
        buffer = _unwidened(buffer, element, bits)
    return _unpacked(buffer, wanted)


def _not_numpy(function: str, name: str, got: str, fix: str) -> OperandError:
    return OperandError(
        f"{function}: {name} must be a NumPy array, got {got}\nfix: {fix}", op=function
    )


def _is_same_bits(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether memory of one dtype is likely to hold elements of another: bytes that were read, or
    words of the same width. Else it is numbers that were computed in another type."""
    is_swapped = given.newbyteorder() == wanted
    return given.itemsize in (1, wanted.itemsize) and not (is_swapped or given.hasobject)


def _in_memory(array: Array, shape: ArrayShape) -> Array:
    buffer = _packed(array, shape)
    element, bits = shape.element_type, shape.element_size_in_bits
    if bits < 8:
        return _narrowed(words(buffer), element.bits, bits)
    return buffer if bits == 8 * element.dtype.itemsize else _widened(buffer, element.bits, bits)


def _major_to_minor(shape: ArrayShape) -> tuple[int, ...]:
    return layout_of(shape).minor_to_major[::-1]


def _stages(shape: ArrayShape) -> tuple[Stage, ...]:
    return stages(tuple(shape.dimensions[d] for d in _major_to_minor(shape)), physical_of(shape))


def _packed(array: Array, shape: ArrayShape) -> Array:
    """The buffer, its elements as NumPy has them."""
    steps = physical_of(shape)
    buffer = np.empty(steps.size, array.dtype)
    if not steps.size:
        return buffer
    # Only padding is filled: to fill all of the buffer first would take as long again as to write
    # the elements.
    fill: Any = 0
    if steps.size != shape.element_count:
        fill = words(_padding_element(shape))[0]
    body = words(buffer)
    if not shape.element_count:
        body[:] = fill
        return buffer
    if steps.tail:
        body[-steps.tail :] = fill
        body = body[: -steps.tail]
    source = words(array).transpose(_major_to_minor(shape))
    parts = _stages(shape)
    for stage in parts:
        if not _is_view(source, stage):
            # Dimensions are combined, which memory in another order than theirs does not allow.
            source = _contiguous(source)
        source = source.reshape(stage.sizes)
        is_last = stage is parts[-1]
        made = (body if is_last else np.empty(stage.size, body.dtype)).reshape(stage.dimensions)
        for ranges in stage.paddings:
            made[tuple(slice(first, first + count) for first, count in ranges)] = fill
        _copy(stage, source, made, to_buffer=True)
        source = made
    return buffer


def _unpacked(buffer: Array, shape: ArrayShape) -> Array:
    """The array in a buffer of elements as NumPy has them."""
    steps = physical_of(shape)
    array = np.empty(shape.dimensions, buffer.dtype)
    if not array.size:
        return array
    ordered = words(array).transpose(_major_to_minor(shape))
    source = words(buffer)[: steps.size - steps.tail]
    parts = _stages(shape)
    is_in_place = _is_view(ordered, parts[0])
    for stage in reversed(parts):
        if is_in_place and stage is parts[0]:
            target = ordered.reshape(stage.sizes)
        else:
            target = np.empty(stage.sizes, source.dtype)
        _copy(stage, target, source.reshape(stage.dimensions), to_buffer=False)
        source = target
    if not is_in_place:
        source = source.reshape(ordered.shape)
        strided_copy(ordered, ordered.strides, source, source.strides, source.shape)
    return array


def _is_view(array: Array, stage: Stage) -> bool:
    """Whether the array has the sizes of the stage but for some of 1, so that it can be looked at
    with those whatever its strides are."""
    return [n for n in array.shape if n != 1] == [n for n in stage.sizes if n != 1]


def _copy(stage: Stage, array: Array, buffer: Array, *, to_buffer: bool) -> None:
    """Copies the elements of a stage between the array and the buffer, seen as its dimensions."""
    strides = [0] * len(stage.dimensions)
    for stride, digits in zip(array.strides, stage.digits, strict=True):
        for digit in digits:
            strides[digit.axis] = stride * digit.weight
    for block in stage.blocks:
        # With an ellipsis, as without dimensions NumPy gives a number and no array.
        within: tuple[Any, ...] = tuple(slice(f, f + count) for f, count in block.ranges)
        start: tuple[Any, ...] = tuple(slice(first, None) for first in block.offsets)
        inside, outside = buffer[(..., *within)], array[(..., *start)]
        if to_buffer:
            strided_copy(inside, inside.strides, outside, strides, inside.shape)
        else:
            strided_copy(outside, strides, inside, inside.strides, inside.shape)


def _contiguous(array: Array) -> Array:
    if array.flags.c_contiguous:
        return array
    made = np.empty(array.shape, array.dtype)
    strided_copy(made, made.strides, array, array.strides, array.shape)
    return made


_EXTREMES: Final = {PaddingValue.LOWEST_PAD: -np.inf, PaddingValue.HIGHEST_PAD: np.inf}


def _padding_element(shape: ArrayShape) -> Array:
    """An array of one element: what padding is filled with."""
    element, value = shape.element_type, layout_of(shape).padding_value
    zeros = np.zeros(1, element.dtype)
    if value in (PaddingValue.INVALID_PAD, PaddingValue.UNKNOWN_PAD):
        return zeros

    def refuse(what: str) -> ShapeInferenceError:
        return ShapeInferenceError(
            f"pack: padding of {shape} is {value.text}, and {element} has no {what}",
            op="pack",
            shapes={"shape": shape},
        )

    if value is PaddingValue.ZERO_PAD:
        if zeros.astype(np.complex128)[0]:
            raise refuse("zero")
        return zeros
    if value is PaddingValue.ONE_PAD:
        return np.ones(1, element.dtype)
    if element.is_complex:
        raise refuse("order")
    extreme = _EXTREMES[value]
    if element.is_floating:
        with np.errstate(invalid="ignore"):
            infinity = np.array([extreme]).astype(element.dtype)
        if float(infinity[0]) == extreme:
            return infinity
    return np.array([element.min if extreme < 0 else element.max]).astype(element.dtype)


def _narrowed(elements: Array, value_bits: int, bits: int) -> Array:
    """Elements of a byte each, several in a byte."""
    each = 8 // bits
    packed = np.zeros(-(-len(elements) // each), np.uint8)
    for place in range(each):
        part = elements[place::each] & (2**value_bits - 1)
        part <<= place * bits
        packed[: len(part)] |= part
    return packed


def _unnarrowed(packed: Array, count: int, element: PrimitiveType, bits: int) -> Array:
    each = 8 // bits
    elements = np.empty(count, np.uint8)
    for place in range(each):
        part = elements[place::each]
        np.right_shift(packed[: len(part)], place * bits, out=part)
    elements &= 2**element.bits - 1
    return elements.view(element.dtype)


def _widened(elements: Array, value_bits: int, bits: int) -> Array:
    """The bytes of elements that take more than theirs."""
    width = elements.dtype.itemsize
    memory = np.zeros((len(elements), bits // 8), np.uint8)
    memory[:, :width] = elements.view(np.uint8).reshape(-1, width)
    if value_bits < 8:
        memory[:, 0] &= 2**value_bits - 1
    return memory.reshape(-1)


def _unwidened(memory: Array, element: PrimitiveType, bits: int) -> Array:
    width = element.dtype.itemsize
    own = np.ascontiguousarray(memory.reshape(-1, bits // 8)[:, :width]).reshape(-1)
    if element.bits < 8:
        own &= 2**element.bits - 1
    return own.view(element.dtype)
