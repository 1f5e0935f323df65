"""Pack an array into a buffer with its layout, and unpack it.

Tiled layout: Tiling as pad-reshape-transpose; Shapes and Layout: Padding.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.layout.indexing import bounded_array, layout_of, physical_of
from builder.layout.stages import Stage, stages, strided_copy, words
from builder.support.frames import without_internal_frames
from builder.types.expected_arrays import array_for
from builder.types.foreign_arrays import UnreadableArrayError, read_array
from builder.types.layout import PaddingValue
from builder.types.primitive_type import PrimitiveType, dtype_text
from builder.types.shape import ArrayShape, ShapeLike

Array = npt.NDArray[Any]

_MAX_BYTES: Final = 2**63 - 1

_MAX_DIMENSIONS: Final = 64
"""The maximum rank of a NumPy array; NumPy 2 exports no constant for it."""


@without_internal_frames
def pack(array: Any, shape: ShapeLike) -> Array:
    """Return the buffer of an array: its elements in memory order, with padding.

    Args:
        array: an array of NumPy or another library with the shape's dimensions and the dtype of its
            element type, which `pack` does not convert; or nested lists of numbers, which it
            converts. The sizes of bounded dimensions are their bounds.
        shape: an array shape without unbounded dimensions, or its text.

    Returns:
        A new array of one dimension, with the array's dtype and `buffer_size` elements.

        If the layout's element size differs from NumPy's, the result is the bytes of the buffer
        instead, with dtype uint8. If elements are smaller than a byte, each byte contains as many
        as fit, the first in the low bits. If elements are larger than NumPy's, each value is in the
        low bits (little-endian). Unused bits are zero.

        Padding has the layout's padding value. The values `lowest` and `highest` are infinities if
        the type has them, and its least and greatest number otherwise. An unspecified padding value
        is zero.

    Raises:
        OperandError: `shape` is not an array shape, or `array` is not an array of the shape's
            dtype.
        ShapeInferenceError: a dimension is unbounded, the sizes of `array` are not the shape's, the
            element type does not have the padding value, or there is not enough memory for the
            padding.

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
    target = bounded_array("pack", shape)
    element = target.element_type
    fix = f"write numpy.asarray(array, numpy.dtype({element.dtype.name!r}))"
    array = _read("pack", "array", array, fix, target)
    if array.dtype != element.dtype:
        rule = f"array must be of dtype {element.dtype} for {target}"
        fix = f"write array.astype({dtype_text(element.dtype)})"
        raise error_of(OperandError, "pack", rule, fix, got=array.dtype, shapes={"shape": target})
    if array.shape != target.dimensions:
        sizes = list(target.dimensions)
        rule = f"array must have the sizes {sizes} for {target}"
        raise error_of(
            ShapeInferenceError, "pack", rule, got=list(array.shape), shapes={"shape": target}
        )
    size = target.padded_byte_size
    try:
        if size > _MAX_BYTES:
            raise MemoryError  # NumPy would raise another exception
        return _in_memory(array, target)
    except MemoryError:
        rule = f"not enough memory for the buffer of {target}, {brief(size)} bytes with padding"
        raise error_of(ShapeInferenceError, "pack", rule, shapes={"shape": target}) from None


@without_internal_frames
def unpack(buffer: Any, shape: ShapeLike) -> Array:
    """Return the array in a buffer; the inverse of `pack`.

    Args:
        buffer: an array of one dimension, with the dtype and the size of the result of `pack`.
            The values of padding and of unused bits are ignored.
        shape: an array shape without unbounded dimensions, or its text.

    Returns:
        A new C-contiguous array with the shape's dimensions and its element type's dtype.

    Raises:
        OperandError: `shape` is not an array shape, or `buffer` is not an array of the required
            dtype.
        ShapeInferenceError: a dimension is unbounded, the shape has more dimensions than a NumPy
            array can have, or the size of `buffer` is not that of the result of `pack`.

    Example:
        >>> import numpy as np
        >>> from builder import layout
        >>> layout.unpack(np.array([1, 4, 2, 5, 3, 6], np.int8), "s8[2,3]{0,1}")
        array([[1, 2, 3],
               [4, 5, 6]], dtype=int8)

    Tiled layout: Tiling as pad-reshape-transpose.
    """
    source = bounded_array("unpack", shape)
    element, bits = source.element_type, source.element_size_in_bits
    if source.rank > _MAX_DIMENSIONS:
        rule = f"shape can't have more than the {_MAX_DIMENSIONS} dimensions of a NumPy array"
        raise error_of(
            ShapeInferenceError,
            "unpack",
            rule,
            got=f"{brief(source)} of rank {source.rank}",
            shapes={"shape": source},
        )
    fix = "convert bytes with numpy.frombuffer, a list with numpy.asarray"
    buffer = _read("unpack", "buffer", buffer, fix)
    is_native = bits == 8 * element.dtype.itemsize
    dtype = element.dtype if is_native else np.dtype(np.uint8)
    if buffer.dtype != dtype:
        reason = "" if is_native else f", with elements of {bits} bits"
        convert = "view" if _is_reinterpretable(buffer.dtype, dtype) else "astype"
        rule = f"buffer must be of dtype {dtype} for {source}{reason}"
        fix = f"write buffer.{convert}({dtype_text(dtype)})"
        raise error_of(
            OperandError, "unpack", rule, fix, got=buffer.dtype, shapes={"shape": source}
        )
    size = physical_of(source).size if is_native else source.padded_byte_size
    if buffer.shape != (size,):
        rule = f"buffer must have the sizes [{size}] for {source}"
        raise error_of(
            ShapeInferenceError, "unpack", rule, got=list(buffer.shape), shapes={"shape": source}
        )
    if bits < 8:
        buffer = _split_bytes(buffer, physical_of(source).size, element, bits)
    elif not is_native:
        buffer = _narrowed(buffer, element, bits)
    return _unpacked(buffer, source)


def _read(function: str, name: str, value: Any, fix: str, shape: ArrayShape | None = None) -> Array:
    """Return the array of any library in an argument; lists only for `pack`, which has a shape."""
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return value  # in its own byte order, which the callers check
    try:
        array = read_array(value) if shape is None else array_for(value, shape)
    except UnreadableArrayError as error:
        rule = f"{name} must be an array"
        raise error_of(OperandError, function, rule, error.fix or fix, got=error.got) from None
    if array is None:
        rule = f"{name} must be an array"
        raise error_of(OperandError, function, rule, fix, got=brief(value))
    return array


def _is_reinterpretable(dtype: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether to recommend `view` rather than `astype` for an array of `dtype`.

    `view` is correct if the array contains the bytes of values of `target`. `astype` is correct if
    the array contains values that were computed in another type.
    """
    is_swapped = dtype.newbyteorder() == target
    return dtype.itemsize in (1, target.itemsize) and not (is_swapped or dtype.hasobject)


def _in_memory(array: Array, shape: ArrayShape) -> Array:
    buffer = _packed(array, shape)
    element, bits = shape.element_type, shape.element_size_in_bits
    if bits < 8:
        return _joined_bytes(words(buffer), element.bits, bits)
    return buffer if bits == 8 * element.dtype.itemsize else _widened(buffer, element.bits, bits)


def _major_to_minor(shape: ArrayShape) -> tuple[int, ...]:
    return layout_of(shape).minor_to_major[::-1]


def _stages(shape: ArrayShape) -> tuple[Stage, ...]:
    return stages(tuple(shape.dimensions[d] for d in _major_to_minor(shape)), physical_of(shape))


def _packed(array: Array, shape: ArrayShape) -> Array:
    """Return the buffer of `array`, with elements of NumPy's size rather than the layout's."""
    form = physical_of(shape)
    buffer = np.empty(form.size, array.dtype)
    if not form.size:
        return buffer
    # Only padding is filled, because filling the buffer takes as long as writing the elements.
    fill: Any = 0
    if form.size != shape.element_count:
        fill = words(_padding_element(shape))[0]
    body = words(buffer)
    if not shape.element_count:
        body[:] = fill
        return buffer
    if form.tail:
        body[-form.tail :] = fill
        body = body[: -form.tail]
    source = words(array).transpose(_major_to_minor(shape))
    all_stages = _stages(shape)
    for stage in all_stages:
        if not _is_view(source, stage):
            # Dimensions can only be combined if they are contiguous.
            source = _contiguous(source)
        source = source.reshape(stage.sizes)
        is_last = stage is all_stages[-1]
        target = (body if is_last else np.empty(stage.size, body.dtype)).reshape(stage.dimensions)
        _copy(stage, source, target, to_buffer=True)
        # After the copy, which touches new memory in order: the system clears memory in large
        # pages, and padding has a few elements in each of them.
        for ranges in stage.paddings:
            target[tuple(slice(first, first + count) for first, count in ranges)] = fill
        source = target
    return buffer


def _unpacked(buffer: Array, shape: ArrayShape) -> Array:
    """Return the array in a buffer whose elements have NumPy's size rather than the layout's."""
    form = physical_of(shape)
    array = np.empty(shape.dimensions, buffer.dtype)
    if not array.size:
        return array
    ordered = words(array).transpose(_major_to_minor(shape))
    source = words(buffer)[: form.size - form.tail]
    all_stages = _stages(shape)
    is_in_place = _is_view(ordered, all_stages[0])
    for stage in reversed(all_stages):
        if is_in_place and stage is all_stages[0]:
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
    """Return whether `array` can be reshaped to `stage.sizes` without a copy."""
    return [n for n in array.shape if n != 1] == [n for n in stage.sizes if n != 1]


def _copy(stage: Stage, array: Array, buffer: Array, *, to_buffer: bool) -> None:
    """Copy elements between an array of `stage.sizes` and a buffer of `stage.dimensions`."""
    strides = [0] * len(stage.dimensions)
    for stride, digits in zip(array.strides, stage.digits, strict=True):
        for digit in digits:
            strides[digit.axis] = stride * digit.weight
    for block in stage.blocks:
        # With an ellipsis, because indexing with () returns a scalar rather than an array.
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
    copy = np.empty(array.shape, array.dtype)
    strided_copy(copy, copy.strides, array, array.strides, array.shape)
    return copy


_EXTREMES: Final = {PaddingValue.LOWEST_PAD: -np.inf, PaddingValue.HIGHEST_PAD: np.inf}


def _padding_element(shape: ArrayShape) -> Array:
    """Return the padding value as an array of one element."""
    element, value = shape.element_type, layout_of(shape).padding_value
    zeros = np.zeros(1, element.dtype)
    if value in (PaddingValue.INVALID_PAD, PaddingValue.UNKNOWN_PAD):
        return zeros

    def refuse(missing: str) -> ShapeInferenceError:
        rule = f"{element} has no {missing} for the padding value {value.text}"
        return error_of(ShapeInferenceError, "pack", rule, got=shape, shapes={"shape": shape})

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


def _joined_bytes(elements: Array, value_bits: int, bits: int) -> Array:
    """Pack several one-byte elements into each byte."""
    per_byte = 8 // bits
    packed = np.zeros(-(-len(elements) // per_byte), np.uint8)
    for i in range(per_byte):
        part = elements[i::per_byte] & (2**value_bits - 1)
        part <<= i * bits
        packed[: len(part)] |= part
    return packed


def _split_bytes(packed: Array, count: int, element: PrimitiveType, bits: int) -> Array:
    per_byte = 8 // bits
    elements = np.empty(count, np.uint8)
    for i in range(per_byte):
        part = elements[i::per_byte]
        np.right_shift(packed[: len(part)], i * bits, out=part)
    elements &= 2**element.bits - 1
    return elements.view(element.dtype)


def _widened(elements: Array, value_bits: int, bits: int) -> Array:
    """Return the bytes of `elements`, after each element is extended to `bits` bits."""
    width = elements.dtype.itemsize
    memory = np.zeros((len(elements), bits // 8), np.uint8)
    memory[:, :width] = elements.view(np.uint8).reshape(-1, width)
    if value_bits < 8:
        memory[:, 0] &= 2**value_bits - 1
    return memory.reshape(-1)


def _narrowed(memory: Array, element: PrimitiveType, bits: int) -> Array:
    width = element.dtype.itemsize
    low = np.ascontiguousarray(memory.reshape(-1, bits // 8)[:, :width]).reshape(-1)
    if element.bits < 8:
        low &= 2**element.bits - 1
    return low.view(element.dtype)
