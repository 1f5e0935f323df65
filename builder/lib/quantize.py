"""Numbers that are quantized to 8 or 16 bits, and packed in u32.

XLA: quantize.h of the client library.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from builder.checking import flag
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import array_argument, as_type, bounded_argument, real_number
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.reshaping import broadcast_in_dim, collapse, transpose
from builder.support.bundles import Bundle, bundle, set_fields
from builder.types.primitive_type import (
    PrimitiveTypeLike,
    bf16,
    element_type_argument,
    f32,
    u8,
    u16,
    u32,
)


@bundle
class QuantizedRange(Bundle):
    """The limits of the numbers that `dequantize` returns.

    Attributes:
        min: the number that the smallest integer stands for; rounded to bf16, as in XLA.
        max: the number that the largest integer stands for; rounded to bf16.

    Example:
        >>> from builder import lib
        >>> lib.QuantizedRange(0.0, 255.5)
        QuantizedRange(min=0.0, max=256.0)
    """

    min: float
    max: float

    def __init__(self, min: float = 0.0, max: float = 0.0) -> None:
        numbers = [
            real_number("QuantizedRange", name, value)
            for name, value in (("min", min), ("max", max))
        ]
        set_fields(self, *[float(np.asarray(number).astype(bf16.dtype)) for number in numbers])


@library_function("PackToUint32")
def pack_to_uint32(x: Any) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Pack an array of u8 or u16 into an array of u32 for `dequantize`.

    Each u32 contains four u8 or two u16, the first one in the highest bits. The last u32 is filled
    up with zeros.

    Args:
        x: a NumPy array of type uint8 or uint16 with at least one dimension. The numbers of
            the last dimension are packed; a list is an array of its numbers.

    Returns:
        A NumPy array of type uint32.

    Raises:
        OperandError: the array has another type, or no dimension.

    Example:
        >>> import numpy as np
        >>> from builder import lib
        >>> [f"{number:x}" for number in lib.pack_to_uint32(np.array([1, 2, 3, 4, 5], np.uint8))]
        ['1020304', '5000000']
    """
    array = np.asarray(x)
    if array.dtype not in (np.uint8, np.uint16) or not array.ndim:
        rule = "x must be an array of uint8 or uint16"
        fix = "convert with numpy.asarray(x, numpy.uint8)"
        raise error_of(
            OperandError, "pack_to_uint32", rule, fix, got=f"{array.dtype}[{array.shape}]"
        )
    count = u32.dtype.itemsize // array.dtype.itemsize
    missing = -array.shape[-1] % count
    padded = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
    # A number of big-endian type has its first byte in the highest bits.
    order = padded.astype(array.dtype.newbyteorder(">"))
    packed = np.ascontiguousarray(order).view(np.dtype(">u4"))
    return packed.astype(np.uint32)


@library_function("Dequantize")
def dequantize(
    x: XlaOp,
    range: QuantizedRange,
    element_type: PrimitiveTypeLike,
    mode_string: str = "MIN_COMBINED",
    transpose_output: bool = False,
) -> XlaOp:
    """Return the numbers that quantized integers, packed in u32, stand for.

    In mode MIN_COMBINED, the integers of the type are mapped to evenly spaced numbers from the
    minimum to the maximum of the range. The results are computed in f32 and rounded once.

    Args:
        x: an array of u32 with at least one dimension, see `pack_to_uint32`.
        range: the numbers that the smallest and the largest integer of the type stand for.
        element_type: the type of the packed integers: u8 or u16. XLA has it as template argument.
        mode_string: "MIN_COMBINED", the only mode that XLA has.
        transpose_output: whether to reverse the order of the result's dimensions.

    Returns:
        An array of bf16. Its last dimension is four times as large as that of `x` for u8, and twice
        as large for u16.

    Raises:
        ShapeInferenceError: the input is not of type u32, has no dimension or an unbounded size;
            the type is neither u8 nor u16.
        OperandError: the mode is not MIN_COMBINED; `range` is not a `QuantizedRange`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> packed = xb.XlaBuilder().parameter(xb.u32[5, 2])
        >>> lib.dequantize(packed, lib.QuantizedRange(-1.0, 1.0), xb.u8).shape
        bf16[5,8]
    """
    op = "dequantize"
    shape = array_argument(op, "x", x)
    if shape.element_type is not u32 or not shape.rank:
        rule = "x must be of type u32 with at least one dimension"
        raise error_of(ShapeInferenceError, op, rule, got=shape)
    bounded_argument(op, "x", shape)
    if not isinstance(range, QuantizedRange):
        rule = "range must be a QuantizedRange"
        raise error_of(
            OperandError, op, rule, "write lib.QuantizedRange(min, max)", got=brief(range)
        )
    kind = element_type_argument(op, "element_type", element_type)
    if kind not in (u8, u16):
        raise error_of(ShapeInferenceError, op, "element_type must be u8 or u16", got=kind)
    if mode_string != "MIN_COMBINED":
        rule = 'mode_string must be "MIN_COMBINED"'
        raise error_of(OperandError, op, rule, got=brief(mode_string))
    is_transposed = flag(op, "transpose_output", transpose_output)
    count = u32.bits // kind.bits
    shifts = x.builder.constant([kind.bits * n for n in builtins.range(count)][::-1], u32)
    dimensions = list(builtins.range(shape.rank))
    wide = broadcast_in_dim(x, [*shape.dimensions, count], dimensions)
    integers = ew.and_(ew.shift_right_logical(wide, shifts, [shape.rank]), int(kind.max))
    numbers = collapse(as_type(integers, f32), [shape.rank - 1, shape.rank])
    result = as_type(numbers * ((range.max - range.min) / kind.max) + range.min, bf16)
    return transpose(result, dimensions[::-1]) if is_transposed else result
