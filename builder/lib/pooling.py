"""Pooling of images: maxima and averages of windows, and the gradient of the averages.

Sizes and strides of windows have an entry for each dimension of the array, as in XLA, or for each
spatial dimension. Averages of types narrower than f32 are computed in f32 and rounded once.

XLA: pooling.h and conv_grad_size_util.h of the client library. The gradient of `max_pool` is
`xb.select_and_scatter` with `xb.ge` and `xb.add`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from builder.attributes import Padding
from builder.attributes.padding import PaddingLike, explicit_padding, padding_argument
from builder.checking import flag, integer, integers
from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import array_argument, as_type, bounded_argument, shape_of, widened
from builder.lib.constants import min_value, zeros
from builder.lib.convolution import TensorFormat, TensorFormatLike, wrong_rank
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.dynamic import get_dimension_size
from builder.ops.reduction import reduce_window
from builder.types.primitive_type import s32
from builder.types.shape import UNBOUNDED, ArrayShape


class SpatialDimensionOutputSizeAndPadding(NamedTuple):
    """The size of a spatial dimension, and the padding before and after its elements."""

    output_size: int
    pad_before: int
    pad_after: int


@library_function("MaxPool")
def max_pool(
    x: XlaOp,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    padding: PaddingLike,
    data_format: TensorFormatLike,
) -> XlaOp:
    """Return the largest element in each position of a window.

    Args:
        x: an array of real numbers; any sizes may be dynamic.
        kernel_size: the sizes of the window.
        strides: the distances between positions of the window.
        padding: "SAME", "VALID", or a pair (low, high) for each spatial dimension. Padding is never
            the largest.
        data_format: a `TensorFormat`, or its text, such as "NHWC".

    Raises:
        ShapeInferenceError: the type is complex; a sequence does not fit `data_format`; a size or
            stride is not positive; "SAME" for an unbounded size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 28, 28, 3])
        >>> lib.max_pool(x, [2, 2], [2, 2], "VALID", "NHWC").shape
        f32[8,14,14,3]
    """
    form, shape, kernel, strides = _window("max_pool", x, kernel_size, strides, data_format)
    pads = _padding("max_pool", form, padding)
    lowest = min_value(x.builder, shape.element_type)
    return reduce_window(x, lowest, ew.max, kernel, strides, pads)


@library_function("AvgPool")
def avg_pool(
    x: XlaOp,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    padding: PaddingLike,
    data_format: TensorFormatLike,
    counts_include_padding: bool,
) -> XlaOp:
    """Return the average of the elements in each position of a window.

    Args:
        x: an array of numbers. Sums of integers wrap, and averages are rounded toward zero.
        kernel_size: the sizes of the window.
        strides: the distances between positions of the window.
        padding: a pair (low, high) for each spatial dimension, "SAME" or "VALID".
        data_format: a `TensorFormat`, or its text, such as "NHWC".
        counts_include_padding: whether padding counts as zeros; otherwise it does not count, and
            the average of a window without elements is NaN.

    Raises:
        ShapeInferenceError: the type is pred; a sequence does not fit `data_format`; a size or
            stride is not positive; a size along the window is unbounded and padding does not
            count.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[8, 3, 28, 28])
        >>> lib.avg_pool(x, [3, 3], [1, 1], "SAME", "NCHW", False).shape
        f32[8,3,28,28]
    """
    form, shape, kernel, strides = _window("avg_pool", x, kernel_size, strides, data_format)
    includes = flag("avg_pool", "counts_include_padding", counts_include_padding)
    pads = _padding("avg_pool", form, padding)
    windowed = [size for size, width in zip(shape.dimensions, kernel, strict=True) if width > 1]
    if not includes and UNBOUNDED in windowed:
        bounded_argument("avg_pool", "x", shape)
    sums = reduce_window(widened(x), 0, ew.add, kernel, strides, pads)
    if includes:
        return as_type(ew.div(sums, math.prod(kernel)), shape.element_type)
    sizes = [
        get_dimension_size(x, number) if is_dynamic else size
        for number, (size, is_dynamic) in enumerate(
            zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
        )
    ]
    pairs = _pairs(pads, shape.dimensions, kernel, strides)
    return as_type(_divided_by_counts(sums, sizes, kernel, strides, pairs), shape.element_type)


@library_function("AvgPoolGrad")
def avg_pool_grad(
    out_backprop: XlaOp,
    gradients_size: Sequence[int],
    kernel_size: Sequence[int],
    strides: Sequence[int],
    spatial_padding: PaddingLike,
    data_format: TensorFormatLike,
    counts_include_padding: bool,
) -> XlaOp:
    """Return the gradient of `avg_pool` for its operand.

    Args:
        out_backprop: the gradient for the result of `avg_pool`, of fixed sizes.
        gradients_size: the sizes of the operand of `avg_pool`.
        kernel_size, strides, spatial_padding, data_format, counts_include_padding: see `avg_pool`.

    Returns:
        An array of `gradients_size`.

    Raises:
        ShapeInferenceError: the sizes of `out_backprop` are not those of the result of `avg_pool`;
            see also `avg_pool`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> g = xb.XlaBuilder().parameter(xb.f32[8, 14, 14, 3])
        >>> lib.avg_pool_grad(g, [8, 28, 28, 3], [2, 2], [2, 2], "VALID", "NHWC", True).shape
        f32[8,28,28,3]
    """
    op, name = "avg_pool_grad", "out_backprop"
    form, shape, kernel, strides = _window(
        op, out_backprop, kernel_size, strides, data_format, name
    )
    sizes = integers(op, "gradients_size", gradients_size)
    if len(sizes) != form.rank or min(sizes) < 0:
        rule = f"gradients_size must be the {form.rank} sizes of an array"
        raise error_of(ShapeInferenceError, op, rule, got=list(sizes))
    includes = flag(op, "counts_include_padding", counts_include_padding)
    bounded_argument(op, name, shape)
    pairs = _pairs(_padding(op, form, spatial_padding), sizes, kernel, strides)
    around = []
    for number, size in enumerate(sizes):
        low, high = pairs[number]
        window = (kernel[number], shape.dimensions[number], 1, strides[number])
        _, before, after = conv_grad_extract_and_verify_dimension(
            size + low + high, *window, Padding.VALID
        )
        around.append((before - low, after - high))
    if shape.element_count == 0:
        return zeros(out_backprop.builder, shape.element_type[sizes])
    wide = widened(out_backprop)
    if includes:
        shares = ew.div(wide, math.prod(kernel))
    else:
        shares = _divided_by_counts(wide, sizes, kernel, strides, pairs)
    gradients = reduce_window(shares, 0, ew.add, kernel, None, around, base_dilations=strides)
    return as_type(gradients, shape.element_type)


@library_function("MakeSpatialPadding")
def make_spatial_padding(
    input_size: Sequence[int],
    kernel_size: Sequence[int],
    strides: Sequence[int],
    padding: Padding | Literal["SAME", "VALID"],
    data_format: TensorFormatLike,
) -> list[tuple[int, int]]:
    """Return "SAME" or "VALID" padding as a pair (low, high) for each spatial dimension.

    Args:
        input_size: the sizes of the padded array; for all dimensions or for the spatial ones.
        kernel_size: the sizes of the window.
        strides: the distances between positions of the window; positive.
        padding: a `Padding` or its name.
        data_format: a `TensorFormat`, or its text, such as "NHWC".

    Raises:
        ShapeInferenceError: a sequence does not fit `data_format`; a size is negative, or a size of
            the window or a stride is not positive.

    Example:
        >>> from builder import lib
        >>> lib.make_spatial_padding([5, 6], [3, 4], [2, 1], "SAME", "NHWC")
        [(1, 1), (1, 2)]
    """
    op = "make_spatial_padding"
    form = TensorFormat.of(data_format, op)
    entries = [
        _entries(op, form, "input_size", input_size, 0),
        _entries(op, form, "kernel_size", kernel_size),
        _entries(op, form, "strides", strides),
    ]
    pairs = explicit_padding(_named_padding(op, padding), *entries)
    return [pairs[number] for number in form.spatial_dimensions]


@library_function("ConvGradExtractAndVerifyDimension")
def conv_grad_extract_and_verify_dimension(
    input_size: int,
    filter_size: int,
    output_size: int,
    dilation: int,
    stride: int,
    padding: Padding | Literal["SAME", "VALID"],
) -> SpatialDimensionOutputSizeAndPadding:
    """Return the padding of output gradients for the convolution that computes input gradients.

    The gradients of the output are dilated by the stride and padded. The convolution of the result
    with the reversed filter, without strides, then has the size of the input.

    Args:
        input_size: the size of the input in a spatial dimension.
        filter_size: the size of the filter.
        output_size: the size of the output, which is checked.
        dilation: the distance between the elements of the filter.
        stride: the distance between the positions of the filter.
        padding: a `Padding` or its name.

    Returns:
        The size of the dilated gradients, and the padding before and after them.

    Raises:
        ShapeInferenceError: `output_size` is not the number of positions of the filter; the stride
            or the dilation is not positive.

    Example:
        >>> from builder import lib
        >>> lib.conv_grad_extract_and_verify_dimension(7, 3, 4, 1, 2, "SAME")
        SpatialDimensionOutputSizeAndPadding(output_size=7, pad_before=1, pad_after=1)
    """
    op = "conv_grad_extract_and_verify_dimension"
    numbers = {
        "input_size": input_size,
        "filter_size": filter_size,
        "output_size": output_size,
        "dilation": dilation,
        "stride": stride,
    }
    for name, value in numbers.items():
        least = 0 if name in ("input_size", "output_size") else 1
        if integer(op, name, value) < least:
            raise error_of(ShapeInferenceError, op, f"{name} must be {least} or more", got=value)
    named = _named_padding(op, padding)
    width = (filter_size - 1) * dilation + 1
    ((low, high),) = explicit_padding(named, [input_size], [width], [stride])
    positions = max(low + input_size + high - width + stride, 0) // stride
    if output_size != positions:
        rule = (
            f"output_size must be {positions}, the number of positions of a filter of {width} with "
            f"stride {stride} and padding {named.value} in {input_size}"
        )
        raise error_of(ShapeInferenceError, op, rule, got=output_size)
    dilated_size = (positions - 1) * stride + 1
    before = width - 1 - low
    after = input_size + width - 1 - dilated_size - before
    return SpatialDimensionOutputSizeAndPadding(dilated_size, before, after)


Pairs = Sequence[tuple[int, int]]


def _window(
    op: str,
    operand: XlaOp,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    data_format: TensorFormatLike,
    name: str = "x",
) -> tuple[TensorFormat, ArrayShape, tuple[int, ...], tuple[int, ...]]:
    """Return the format and the shape of an operand, and the window's sizes and strides."""
    shape = array_argument(op, name, operand)
    form = TensorFormat.of(data_format, op)
    if form.rank != shape.rank:
        raise wrong_rank(op, name, form, shape)
    kernel = _entries(op, form, "kernel_size", kernel_size)
    return form, shape, kernel, _entries(op, form, "strides", strides)


def _entries(
    op: str, form: TensorFormat, name: str, values: Sequence[int], least: int = 1
) -> tuple[int, ...]:
    """Return the entries of an argument for all dimensions, each at least `least`."""
    entries = form.full(op, name, values)
    if min(entries) < least:
        rule = f"each entry of {name} must be {least} or more"
        raise error_of(ShapeInferenceError, op, rule, got=list(values))
    return entries


def _named_padding(op: str, padding: Any) -> Padding:
    named = padding_argument(op, padding)
    if isinstance(named, Padding):
        return named
    rule = "padding must be Padding.SAME or Padding.VALID"
    raise error_of(ShapeInferenceError, op, rule, got=list(named))


def _padding(op: str, form: TensorFormat, padding: PaddingLike) -> Padding | Pairs:
    """Return a named padding, or a pair (low, high) for each dimension."""
    pads = padding_argument(op, padding)
    if isinstance(pads, Padding):
        return pads
    if len(pads) != form.rank - 2:
        rule = f"padding must have a pair for each of the {form.rank - 2} spatial dimensions"
        raise error_of(ShapeInferenceError, op, rule, got=list(pads))
    pairs = [(0, 0)] * form.rank
    for number, pair in zip(form.spatial_dimensions, pads, strict=True):
        pairs[number] = pair
    return pairs


def _pairs(
    pads: Padding | Pairs, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> Pairs:
    return explicit_padding(pads, sizes, kernel, strides) if isinstance(pads, Padding) else pads


def _divided_by_counts(
    sums: XlaOp,
    sizes: Sequence[int | XlaOp],
    kernel: Sequence[int],
    strides: Sequence[int],
    pairs: Pairs,
) -> XlaOp:
    """Divide the sum of each window by the number of its elements that are not padding.

    Args:
        sums: the sums of windows over an array.
        sizes: the sizes of this array; scalars of type s32 where they are dynamic.
        kernel, strides, pairs: the window.
    """
    shape = shape_of(sums)
    windowed = [n for n, size in enumerate(kernel) if size != 1 or pairs[n] != (0, 0)]
    positions = tuple(shape.dimensions[n] for n in windowed)
    total: XlaOp | None = None
    for index, number in enumerate(windowed):
        first = sums.builder.iota(s32[positions], index) * strides[number] - pairs[number][0]
        end = ew.min(first + kernel[number], sizes[number])
        count = as_type(ew.max(end - ew.max(first, 0), 0), shape.element_type)
        total = count if total is None else total * count
    return sums if total is None else ew.div(sums, total, windowed)
