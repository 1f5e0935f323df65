"""Convolutions.

Operation Semantics: Conv, ConvWithGeneralPadding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builder.attributes import (
    ConvolutionDimensionNumbers,
    ConvolutionDimensionNumbersLike,
    Padding,
    PaddingLike,
    Precision,
    PrecisionLike,
)
from builder.attributes.window import padding_argument
from builder.check import flags, integer, integers, optional_integers
from builder.graph.recording import record, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.contraction.dot_product import preferred_type
from builder.ops.operands import need_op
from builder.ops.rules import contraction as infer
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import ArrayShape, Shape


@per_signature
def _plan(
    name: str,
    lhs: Shape,
    rhs: Shape,
    window: tuple[
        tuple[int, ...], Padding | tuple[tuple[int, int], ...], tuple[int, ...], tuple[int, ...]
    ],
    window_reversal: tuple[bool, ...],
    dimension_numbers: ConvolutionDimensionNumbers | None,
    group_counts: tuple[int, int],
    precision: tuple[Precision, Precision],
    preferred_element_type: PrimitiveType | None,
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = infer.conv_general_dilated.strict(
        lhs,
        rhs,
        *window,
        dimension_numbers,
        *group_counts,
        preferred_element_type,
        window_reversal,
        op=name,
    )
    inferred = infer.convolution_window.strict(
        lhs, rhs, *window, dimension_numbers, window_reversal
    )
    return shape, shared_attributes(
        window_strides=inferred.strides,
        padding=inferred.padding,
        lhs_dilation=inferred.lhs_dilation,
        rhs_dilation=inferred.rhs_dilation,
        window_reversal=inferred.reversal,
        dimension_numbers=dimension_numbers or ConvolutionDimensionNumbers.default(shape.rank - 2),
        feature_group_count=group_counts[0],
        batch_group_count=group_counts[1],
        precision=precision,
    )


Window = tuple[Sequence[int], PaddingLike, Sequence[int] | None, Sequence[int] | None]
"""The arguments `window_strides`, `padding`, `lhs_dilation` and `rhs_dilation`."""

Options = tuple[int, int, PrecisionLike, PrimitiveTypeLike | None]
"""The arguments `feature_group_count`, `batch_group_count`, `precision` and
`preferred_element_type`."""


def _record(
    name: str,
    lhs: XlaOp,
    rhs: XlaOp,
    window: Window,
    dimension_numbers: ConvolutionDimensionNumbersLike | None,
    options: Options,
    window_reversal: Sequence[bool] | None = None,
) -> XlaOp:
    """Convert the arguments of the convolution `name`, infer the result's shape, and record it."""
    need_op(name, "lhs", lhs)
    need_op(name, "rhs", rhs)
    window_strides, padding, lhs_dilation, rhs_dilation = window
    feature_group_count, batch_group_count, precision, preferred_element_type = options
    shape, attributes = _plan(
        name,
        lhs.shape,
        rhs.shape,
        (
            integers(name, "window_strides", window_strides),
            padding_argument(name, padding),
            optional_integers(name, "lhs_dilation", lhs_dilation),
            optional_integers(name, "rhs_dilation", rhs_dilation),
        ),
        ()
        if window_reversal is None
        else flags(name, "window_reversal", window_reversal, "spatial dimension"),
        None
        if dimension_numbers is None
        else ConvolutionDimensionNumbers.of(dimension_numbers, op=name),
        (
            integer(name, "feature_group_count", feature_group_count),
            integer(name, "batch_group_count", batch_group_count),
        ),
        Precision.pair(precision, op=name),
        preferred_type(name, preferred_element_type),
    )
    return record("convolution", shape, (lhs, rhs), attributes)


@op_by_hand(SCHEMAS["convolution"], cpp_name="Conv", section="Conv")
def conv(
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Convolve `lhs` with the kernel `rhs`, padded to keep the size (SAME) or not at all (VALID).

    `conv_with_general_padding` defines the result; `conv_general_dilated` describes all arguments.

    Args:
        lhs: the input, [batch, features, spatial dimensions...].
        rhs: the kernel, [output features, input features, spatial dimensions...], of the input's
            rank and element type.
        window_strides: the stride of the window in each spatial dimension.
        padding: Padding.SAME or Padding.VALID; also pairs, see `conv_with_general_padding`.
        lhs_dilation, rhs_dilation, feature_group_count, batch_group_count, precision,
            preferred_element_type: see `conv_general_dilated`.

    Returns:
        An array [batch, output features, window positions...]. With SAME the number of positions is
        the size divided by the stride, rounded up.

    Raises:
        ShapeInferenceError: see `conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 3, 32, 32]), b.parameter(xb.f32[16, 3, 5, 5])
        >>> xb.conv(x, kernel, [1, 1], xb.Padding.SAME).shape
        f32[8,16,32,32]
        >>> xb.conv(x, kernel, [2, 2], xb.Padding.VALID).shape
        f32[8,16,14,14]

    Operation Semantics: Conv.
    """
    window = window_strides, padding, lhs_dilation, rhs_dilation
    options = feature_group_count, batch_group_count, precision, preferred_element_type
    return _record("conv", lhs, rhs, window, None, options)


@op_by_hand(
    SCHEMAS["convolution"], cpp_name="ConvWithGeneralPadding", section="ConvWithGeneralPadding"
)
def conv_with_general_padding(
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Convolve `lhs` with the kernel `rhs`, with explicit padding on each side.

    A window of the kernel's size moves over the input in steps of the strides. At each position,
    and for each output feature, the elements in the window are multiplied by that feature's kernel
    and summed over the window and all input features.

    Args:
        lhs: the input, [batch, features, spatial dimensions...].
        rhs: the kernel, [output features, input features, spatial dimensions...], of the input's
            rank and element type.
        window_strides: the stride of the window in each spatial dimension.
        padding: for each spatial dimension a pair (low, high): the number of zeros added before and
            after the input; a negative number removes elements. Also Padding.SAME or VALID.
        lhs_dilation, rhs_dilation, feature_group_count, batch_group_count, precision,
            preferred_element_type: see `conv_general_dilated`.

    Returns:
        An array [batch, output features, window positions...].

    Raises:
        ShapeInferenceError: see `conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 3, 32, 32]), b.parameter(xb.f32[16, 3, 5, 5])
        >>> xb.conv_with_general_padding(x, kernel, [1, 1], [(2, 3), (-1, 0)]).shape
        f32[8,16,33,27]

    Operation Semantics: ConvWithGeneralPadding.
    """
    window = window_strides, padding, lhs_dilation, rhs_dilation
    options = feature_group_count, batch_group_count, precision, preferred_element_type
    return _record("conv_with_general_padding", lhs, rhs, window, None, options)


@op_by_hand(SCHEMAS["convolution"], cpp_name="ConvWithGeneralDimensions")
def conv_with_general_dimensions(
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: PaddingLike,
    dimension_numbers: ConvolutionDimensionNumbersLike,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Convolve as `conv` does, with dimensions in any order.

    Args:
        lhs, rhs: the input and the kernel, of one rank and element type.
        window_strides: the stride of the window in each spatial dimension.
        padding: Padding.SAME or Padding.VALID; also pairs (low, high).
        dimension_numbers: ConvolutionDimensionNumbers, or a string such as "b01f_01io->b01f".
        feature_group_count, batch_group_count, precision, preferred_element_type: see
            `conv_general_dilated`.

    Returns:
        An array of batch, output features and window positions, ordered by `dimension_numbers`.

    Raises:
        ShapeInferenceError: see `conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 32, 32, 3]), b.parameter(xb.f32[5, 5, 3, 16])
        >>> numbers = "b01f_01io->b01f"
        >>> xb.conv_with_general_dimensions(x, kernel, [2, 2], xb.Padding.SAME, numbers).shape
        f32[8,16,16,16]

    Not in Operation Semantics; XlaBuilder's ConvWithGeneralDimensions.
    """
    window = window_strides, padding, None, None
    options = feature_group_count, batch_group_count, precision, preferred_element_type
    return _record("conv_with_general_dimensions", lhs, rhs, window, dimension_numbers, options)


@op_by_hand(SCHEMAS["convolution"], cpp_name="ConvGeneral")
def conv_general(
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: PaddingLike,
    dimension_numbers: ConvolutionDimensionNumbersLike,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Convolve as `conv_with_general_padding` does, with dimensions in any order.

    Args:
        lhs, rhs: the input and the kernel, of one rank and element type.
        window_strides: the stride of the window in each spatial dimension.
        padding: for each spatial dimension a pair (low, high); also Padding.SAME or VALID.
        dimension_numbers: ConvolutionDimensionNumbers, or a string such as "b01f_01io->b01f".
        feature_group_count, batch_group_count, precision, preferred_element_type: see
            `conv_general_dilated`.

    Returns:
        An array of batch, output features and window positions, ordered by `dimension_numbers`.

    Raises:
        ShapeInferenceError: see `conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 32, 3]), b.parameter(xb.f32[5, 3, 16])
        >>> xb.conv_general(x, kernel, [1], [(4, 0)], "b0f_0io->b0f").shape
        f32[8,32,16]

    Not in Operation Semantics; XlaBuilder's ConvGeneral.
    """
    window = window_strides, padding, None, None
    options = feature_group_count, batch_group_count, precision, preferred_element_type
    return _record("conv_general", lhs, rhs, window, dimension_numbers, options)


@op_by_hand(SCHEMAS["convolution"])
def conv_general_dilated(
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: ConvolutionDimensionNumbersLike,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
    window_reversal: Sequence[bool] | None = None,
) -> XlaOp:
    """Convolve `lhs` with the kernel `rhs`, with every attribute that a convolution has.

    Args:
        lhs, rhs: the input and the kernel, of one rank and element type. Each has a batch or output
            feature dimension, a feature dimension, and up to 10 spatial dimensions. The kernel's
            spatial dimensions are not empty.
        window_strides: the stride of the window in each spatial dimension. An empty sequence here,
            and in the sequences below, means 1 everywhere.
        padding: for each spatial dimension a pair (low, high): the number of zeros added before and
            after the dilated input; a negative number removes elements. Or Padding.SAME, for inputs
            that are not dilated: the number of window positions is the size divided by the stride,
            rounded up. Or Padding.VALID: no padding.
        lhs_dilation: for each spatial dimension the distance between the input's elements, with
            zeros between them; None for 1. Larger values give a transposed convolution.
        rhs_dilation: the same for the kernel's elements. Larger values give an atrous convolution.
        dimension_numbers: ConvolutionDimensionNumbers, or a string such as "b01f_01io->b01f".
        feature_group_count: the number of groups into which the input features and the output
            features are divided, in order. Each group of input features is convolved to one group
            of output features, so the kernel's input feature dimension is the size of a group. The
            number of groups must divide both numbers of features.
        batch_group_count: the number of groups into which the batch and the output features are
            divided. Each batch group gives one group of output features, and the result's batch
            size is the input's divided by `batch_group_count`. The number of groups must divide the
            batch size and the number of output features. It can't be combined with
            `feature_group_count`.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT if omitted.
        preferred_element_type: the element type of the result and of the sums: a wider type of the
            same kind; by default the element type of the operands.
        window_reversal: for each spatial dimension whether the kernel is reversed.

    Returns:
        An array of batch, output features and window positions, ordered by `dimension_numbers`.

    Raises:
        ShapeInferenceError: ranks or element types differ; a dimension is named twice or not at
            all; a sequence does not have one entry for each spatial dimension; a stride, dilation
            or count is below 1; feature counts do not match or are not divisible by the group
            count; padding removes more elements than there are.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 6, 10]), b.parameter(xb.f32[4, 3, 3])
        >>> y = xb.conv_general_dilated(x, kernel, [1], [(1, 1)], [2], [3], "bf0_oi0->bf0", 2)
        >>> y.shape
        f32[8,4,15]

    Not in Operation Semantics; XlaBuilder's ConvGeneralDilated. That document describes the
    arguments under ConvWithGeneralPadding.
    """
    window = window_strides, padding, lhs_dilation, rhs_dilation
    options = feature_group_count, batch_group_count, precision, preferred_element_type
    return _record(
        "conv_general_dilated", lhs, rhs, window, dimension_numbers, options, window_reversal
    )
