"""Convolutions.

Operation Semantics: Conv, ConvWithGeneralPadding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
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
from builder.check import flags, integer, integers
from builder.graph.recording import record
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op
from builder.schema import SCHEMAS
from builder.shape_inference import contraction as infer
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import ArrayShape, Shape

__all__ = [
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
]


@per_signature
def _plan(
    name: str,
    lhs: Shape,
    rhs: Shape,
    window_strides: tuple[int, ...],
    padding: Padding | tuple[tuple[int, int], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ConvolutionDimensionNumbers | None,
    feature_group_count: int,
    batch_group_count: int,
    precision: tuple[Precision, Precision],
    preferred_element_type: PrimitiveType | None,
    window_reversal: tuple[bool, ...],
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = infer.conv_general_dilated.strict(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        preferred_element_type,
        window_reversal,
        op=name,
    )
    window = infer.convolution_window.strict(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        window_reversal,
    )
    return shape, _attributes(
        window,
        dimension_numbers or ConvolutionDimensionNumbers.default(shape.rank - 2),
        feature_group_count,
        batch_group_count,
        precision,
    )


@per_signature
def _attributes(
    window: infer.ConvolutionWindow,
    numbers: ConvolutionDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: tuple[Precision, Precision],
) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "window_strides": window.strides,
            "padding": window.padding,
            "lhs_dilation": window.lhs_dilation,
            "rhs_dilation": window.rhs_dilation,
            "window_reversal": window.reversal,
            "dimension_numbers": numbers,
            "feature_group_count": feature_group_count,
            "batch_group_count": batch_group_count,
            "precision": precision,
        }
    )


def _record(
    name: str,
    lhs: XlaOp,
    rhs: XlaOp,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: ConvolutionDimensionNumbersLike | None,
    feature_group_count: int,
    batch_group_count: int,
    precision: PrecisionLike,
    preferred_element_type: PrimitiveTypeLike | None,
    window_reversal: Sequence[bool] | None = None,
) -> XlaOp:
    """What all of them do: coerce, infer, record."""
    need_op(name, "lhs", lhs)
    need_op(name, "rhs", rhs)
    shape, attributes = _plan(
        name,
        lhs.shape,
        rhs.shape,
        integers(name, "window_strides", window_strides),
        padding_argument(name, padding),
        () if lhs_dilation is None else integers(name, "lhs_dilation", lhs_dilation),
        () if rhs_dilation is None else integers(name, "rhs_dilation", rhs_dilation),
        None
        if dimension_numbers is None
        else ConvolutionDimensionNumbers.of(dimension_numbers, op=name),
        integer(name, "feature_group_count", feature_group_count),
        integer(name, "batch_group_count", batch_group_count),
        Precision.pair(precision, op=name),
        None
        if preferred_element_type is None
        else pt.element_type_argument(name, "preferred_element_type", preferred_element_type),
        ()
        if window_reversal is None
        else flags(name, "window_reversal", window_reversal, "spatial dimension"),
    )
    return record("convolution", shape, (lhs, rhs), attributes)


@op(SCHEMAS["convolution"], cpp_name="Conv", section="Conv")
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
    """A convolution as neural networks have it, padded to keep the size or not at all.

    What it computes is told at `conv_with_general_padding`, and what can be said besides at
    `conv_general_dilated`.

    Args:
        lhs: the input, [batch, features, spatial dimensions...].
        rhs: the kernel, [output features, input features, spatial dimensions...], of the input's
            rank and element type.
        window_strides: for each spatial dimension how far the window moves each time.
        padding: Padding.SAME or Padding.VALID; also pairs, as in `conv_with_general_padding`.
        lhs_dilation, rhs_dilation, feature_group_count, batch_group_count, precision,
            preferred_element_type: as in `conv_general_dilated`.

    Returns:
        An array [batch, output features, positions of the window...]. With SAME there are as many
        positions as elements, divided by the stride and rounded up.

    Raises:
        ShapeInferenceError: as in `conv_general_dilated`.

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
    return _record(
        "conv",
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        None,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
    )


@op(SCHEMAS["convolution"], cpp_name="ConvWithGeneralPadding", section="ConvWithGeneralPadding")
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
    """A convolution as neural networks have it, with the padding of each side given.

    A window of the kernel's size is laid on the input at each position that the strides allow.
    For each of them and each output feature, what lies in the window is multiplied with the kernel
    of that feature, element by element, and summed over the window and all input features.

    Args:
        lhs: the input, [batch, features, spatial dimensions...].
        rhs: the kernel, [output features, input features, spatial dimensions...], of the input's
            rank and element type.
        window_strides: for each spatial dimension how far the window moves each time.
        padding: for each spatial dimension a pair (low, high): so many zeros are put before and
            after the input; if negative, so many elements are taken away. Also Padding.SAME or
            VALID.
        lhs_dilation, rhs_dilation, feature_group_count, batch_group_count, precision,
            preferred_element_type: as in `conv_general_dilated`.

    Returns:
        An array [batch, output features, positions of the window...].

    Raises:
        ShapeInferenceError: as in `conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 3, 32, 32]), b.parameter(xb.f32[16, 3, 5, 5])
        >>> xb.conv_with_general_padding(x, kernel, [1, 1], [(2, 3), (-1, 0)]).shape
        f32[8,16,33,27]

    Operation Semantics: ConvWithGeneralPadding.
    """
    return _record(
        "conv_with_general_padding",
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        None,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
    )


@op(SCHEMAS["convolution"], cpp_name="ConvWithGeneralDimensions")
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
    """`conv` with dimensions in any order.

    Args:
        lhs, rhs: the input and the kernel, of one rank and element type.
        window_strides: for each spatial dimension how far the window moves each time.
        padding: Padding.SAME or Padding.VALID; also pairs (low, high).
        dimension_numbers: ConvolutionDimensionNumbers, or a text such as "b01f_01io->b01f".
        feature_group_count, batch_group_count, precision, preferred_element_type: as in
            `conv_general_dilated`.

    Returns:
        An array of batch, output features and positions of the window, in the order told.

    Raises:
        ShapeInferenceError: as in `conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 32, 32, 3]), b.parameter(xb.f32[5, 5, 3, 16])
        >>> numbers = "b01f_01io->b01f"
        >>> xb.conv_with_general_dimensions(x, kernel, [2, 2], xb.Padding.SAME, numbers).shape
        f32[8,16,16,16]

    Not in the document; XlaBuilder's ConvWithGeneralDimensions.
    """
    return _record(
        "conv_with_general_dimensions",
        lhs,
        rhs,
        window_strides,
        padding,
        None,
        None,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
    )


@op(SCHEMAS["convolution"], cpp_name="ConvGeneral")
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
    """`conv_with_general_padding` with dimensions in any order.

    Args:
        lhs, rhs: the input and the kernel, of one rank and element type.
        window_strides: for each spatial dimension how far the window moves each time.
        padding: for each spatial dimension a pair (low, high); also Padding.SAME or VALID.
        dimension_numbers: ConvolutionDimensionNumbers, or a text such as "b01f_01io->b01f".
        feature_group_count, batch_group_count, precision, preferred_element_type: as in
            `conv_general_dilated`.

    Returns:
        An array of batch, output features and positions of the window, in the order told.

    Raises:
        ShapeInferenceError: as in `conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 32, 3]), b.parameter(xb.f32[5, 3, 16])
        >>> xb.conv_general(x, kernel, [1], [(4, 0)], "b0f_0io->b0f").shape
        f32[8,32,16]

    Not in the document; XlaBuilder's ConvGeneral.
    """
    return _record(
        "conv_general",
        lhs,
        rhs,
        window_strides,
        padding,
        None,
        None,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
    )


@op(SCHEMAS["convolution"])
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
    """A convolution with everything that can be said of one.

    Args:
        lhs, rhs: the input and the kernel, of one rank and element type: a batch or output
            feature dimension, a feature dimension, and up to 10 spatial ones. The kernel has an
            element or more along each spatial dimension.
        window_strides: for each spatial dimension how far the window moves each time; as with the
            following sequences, an empty one stands for all 1.
        padding: for each spatial dimension a pair (low, high): so many zeros are put before and
            after the dilated input; if negative, so many elements are taken away. Or Padding.SAME,
            which pads so that there are as many positions as elements, divided by the stride and
            rounded up, for inputs that are not dilated; or Padding.VALID, which does not pad.
        lhs_dilation: for each spatial dimension how far apart the input's elements are put, with
            zeros between them; None for 1. (Also called a transposed convolution.)
        rhs_dilation: the same for the kernel. (Also called an atrous convolution.)
        dimension_numbers: ConvolutionDimensionNumbers, or a text such as "b01f_01io->b01f".
        feature_group_count: the input's features and the output features are cut into so many
            groups of neighbours, each group of the one being convolved to give one of the other.
            The kernel has then as many input features as a group. It divides both counts.
        batch_group_count: the batch and the output features are cut into so many groups, and each
            of the one gives one of the other. It divides both, and the result's batch is the
            input's divided by it. Not together with feature_group_count.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT when not
            given.
        preferred_element_type: the element type of the result: the operands' (when not given), or
            a wider one of its kind, in which the sums are then made.
        window_reversal: for each spatial dimension whether the kernel is turned round.

    Returns:
        An array of batch, output features and positions of the window, in the order told.

    Raises:
        ShapeInferenceError: ranks or element types differ; a dimension is named twice or not at
            all; there is not one entry for each spatial dimension; a stride, dilation or count is
            below 1; features do not go together or are not divided by the count of groups; padding
            takes away more than there is.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 6, 10]), b.parameter(xb.f32[4, 3, 3])
        >>> y = xb.conv_general_dilated(x, kernel, [1], [(1, 1)], [2], [3], "bf0_oi0->bf0", 2)
        >>> y.shape
        f32[8,4,15]

    Not in the document; XlaBuilder's ConvGeneralDilated. The arguments are those that the document
    describes under ConvWithGeneralPadding.
    """
    return _record(
        "conv_general_dilated",
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
        window_reversal,
    )
