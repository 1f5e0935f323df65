"""Shapes of convolutions.

Operation Semantics: Conv, ConvWithGeneralPadding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.attributes import ConvolutionDimensionNumbers
from builder.attributes.window import Padding
from builder.check import Check
from builder.shape_inference.contraction.dot_product import is_promotable
from builder.shape_inference.public import public
from builder.shape_inference.window import (
    one_for_each,
    positive,
    window_padding,
    windows_along,
)
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape

__all__ = ["ConvolutionWindow", "conv_general_dilated", "convolution_window"]

_OP = "conv_general_dilated"
_MOST_SPATIAL = 10
"""HLO text numbers spatial dimensions with one digit each."""


@dataclass(frozen=True, slots=True)
class ConvolutionWindow:
    """How the kernel moves over the input: for each spatial dimension one entry of each field.

    Attributes:
        strides: how far it moves each time.
        padding: how many zeros are put before and after the input.
        lhs_dilation: how far apart the elements of the input are put, with zeros between them.
        rhs_dilation: the same for those of the kernel.
        reversal: whether the kernel is turned round.
    """

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    reversal: tuple[bool, ...]


@public
def convolution_window(
    lhs: Shape,
    rhs: Shape,
    window_strides: Sequence[int],
    padding: Padding | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] = (),
    rhs_dilation: Sequence[int] = (),
    dimension_numbers: ConvolutionDimensionNumbers | None = None,
    window_reversal: Sequence[bool] = (),
    op: str = _OP,
) -> ConvolutionWindow:
    """The window of a convolution with nothing left to be worked out.

    Arguments are those of `conv_general_dilated`. Raises a ShapeInferenceError unless they go with
    the operands' ranks and are in range.

    Example:
        >>> import builder as xb
        >>> x, kernel = xb.f32[1, 1, 6], xb.f32[1, 1, 3]
        >>> xb.shape_inference.contraction.convolution_window(x, kernel, [2], xb.Padding.SAME)
        ConvolutionWindow(strides=(2,), padding=((0, 1),), lhs_dilation=(1,), rhs_dilation=(1,), \
reversal=(False,))
    """
    check = Check(op, lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    spatial = _spatial_rank(check, left, right)
    numbers = dimension_numbers or ConvolutionDimensionNumbers.default(spatial)
    _each_dimension_once(check, numbers, spatial)
    strides = one_for_each(check, window_strides, spatial, name="window_strides")
    spread = one_for_each(check, lhs_dilation, spatial, name="lhs_dilation")
    gaps = one_for_each(check, rhs_dilation, spatial, name="rhs_dilation")
    reversal = one_for_each(check, window_reversal, spatial, name="window_reversal", default=0)
    positive(check, strides, name="window_strides")
    positive(check, spread, name="lhs_dilation")
    positive(check, gaps, name="rhs_dilation")
    if padding is Padding.SAME and any(d != 1 for d in spread):
        check.fail(
            f"Padding.SAME has no one meaning where the input is dilated, got lhs_dilation "
            f"{list(spread)}",
            fix="give pairs (low, high)",
        )
    sizes = [left.dimensions[d] for d in numbers.input_spatial_dimensions]
    window = [right.dimensions[d] for d in numbers.kernel_spatial_dimensions]
    pairs = window_padding(check, padding, sizes, window, strides, spread, gaps)
    return ConvolutionWindow(strides, pairs, spread, gaps, tuple(map(bool, reversal)))


def _spatial_rank(check: Check, lhs: ArrayShape, rhs: ArrayShape) -> int:
    """How many spatial dimensions there are."""
    if lhs.rank != rhs.rank:
        check.fail(f"lhs and rhs must have the same rank, got {lhs.rank} and {rhs.rank}")
    if lhs.rank < 2:
        check.fail(
            f"lhs must have a batch and a feature dimension, and rhs two for features, besides the "
            f"spatial ones, got rank {lhs.rank}"
        )
    spatial = lhs.rank - 2
    if spatial > _MOST_SPATIAL:
        check.fail(f"there must be at most {_MOST_SPATIAL} spatial dimensions, got {spatial}")
    return spatial


def _each_dimension_once(check: Check, numbers: ConvolutionDimensionNumbers, spatial: int) -> None:
    """The input's, the kernel's and the output's numbers are a permutation of the dimensions."""
    n = numbers
    for of, fields in (
        ("input", ("input_batch_dimension", "input_feature_dimension")),
        ("kernel", ("kernel_input_feature_dimension", "kernel_output_feature_dimension")),
        ("output", ("output_batch_dimension", "output_feature_dimension")),
    ):
        field = f"{of}_spatial_dimensions"
        places: tuple[int, ...] = getattr(n, field)
        if len(places) != spatial:
            check.fail(
                f"{field} must have one entry for each spatial dimension: {spatial}, "
                f"got {len(places)}: {list(places)}"
            )
        first, second = (getattr(n, name) for name in fields)
        for name, number in (
            *zip(fields, (first, second), strict=True),
            *((field, p) for p in places),
        ):
            if not 0 <= number < spatial + 2:
                check.fail(
                    f"{name} must be a dimension of the {of}, 0 to {spatial + 1}, got {number}",
                    dimension=number,
                )
        if len({first, second, *places}) != spatial + 2:
            check.fail(
                f"{fields[0]}, {fields[1]} and {field} must name each dimension of the {of} once, "
                f"got {first}, {second} and {list(places)}"
            )


@public
def conv_general_dilated(
    lhs: Shape,
    rhs: Shape,
    window_strides: Sequence[int],
    padding: Padding | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] = (),
    rhs_dilation: Sequence[int] = (),
    dimension_numbers: ConvolutionDimensionNumbers | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    preferred_element_type: PrimitiveType | None = None,
    window_reversal: Sequence[bool] = (),
    op: str = _OP,
) -> ArrayShape:
    """Shape of a convolution: batch, output features and the positions of the window.

    Args:
        lhs, rhs: the input and the kernel.
        window_strides, lhs_dilation, rhs_dilation: for each spatial dimension; empty for 1.
        padding: SAME, VALID or a pair (low, high) for each spatial dimension.
        dimension_numbers: which dimension is what; None for those of `conv`.
        feature_group_count, batch_group_count: into how many groups features or batch are cut.
        preferred_element_type: the element type of the result.
        window_reversal: for each spatial dimension; changes no shape.
        op: the name of the op, for messages.

    Example:
        >>> import builder as xb
        >>> x, kernel = xb.f32[7, 3, 10, 10], xb.f32[5, 3, 4, 4]
        >>> infer = xb.shape_inference.contraction.conv_general_dilated
        >>> infer(x, kernel, [2, 1], [(0, 0), (1, 1)])
        f32[7,5,4,9]
    """
    window = convolution_window.strict(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        window_reversal,
        op,
    )
    check = Check(op, lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    element_type = check.same_element_type()
    n = dimension_numbers or ConvolutionDimensionNumbers.default(left.rank - 2)
    _groups(check, left, right, n, feature_group_count, batch_group_count)
    if right.dynamic_dimensions[n.kernel_output_feature_dimension]:
        check.fail(
            f"the kernel must have a fixed number of output features, got dimension "
            f"{n.kernel_output_feature_dimension} of rhs of dynamic size",
            dimension=n.kernel_output_feature_dimension,
        )
    result = element_type if preferred_element_type is None else preferred_element_type
    if not _is_preferable(element_type, result):
        check.fail(
            f"preferred_element_type must be the operands' element type, {element_type}, a wider "
            f"one of its kind, or another float of as many bits, got {result}",
            fix="convert the operands or the result with xb.convert_element_type",
        )
    sizes = [0] * left.rank
    dynamic = [False] * left.rank
    batch = left.dimensions[n.input_batch_dimension]
    sizes[n.output_batch_dimension] = batch if batch == UNBOUNDED else batch // batch_group_count
    dynamic[n.output_batch_dimension] = left.dynamic_dimensions[n.input_batch_dimension]
    sizes[n.output_feature_dimension] = right.dimensions[n.kernel_output_feature_dimension]
    for i, (source, kernel, target) in enumerate(
        zip(
            n.input_spatial_dimensions,
            n.kernel_spatial_dimensions,
            n.output_spatial_dimensions,
            strict=True,
        )
    ):
        sizes[target] = windows_along(
            check,
            i,
            left.dimensions[source],
            right.dimensions[kernel],
            window.strides[i],
            window.padding[i],
            window.lhs_dilation[i],
            window.rhs_dilation[i],
        )
        dynamic[target] = left.dynamic_dimensions[source] or right.dynamic_dimensions[kernel]
    return check.result(result, sizes, dynamic)


def _is_preferable(element_type: PrimitiveType, to: PrimitiveType) -> bool:
    if is_promotable.strict(element_type, to):
        return True
    return element_type.is_floating and to.is_floating and to.bits == element_type.bits


def _groups(
    check: Check,
    lhs: ArrayShape,
    rhs: ArrayShape,
    numbers: ConvolutionDimensionNumbers,
    feature_groups: int,
    batch_groups: int,
) -> None:
    """What the counts of groups must divide. A size that is unbounded divides as it must."""
    for name, count in (
        ("feature_group_count", feature_groups),
        ("batch_group_count", batch_groups),
    ):
        if count < 1:
            check.fail(f"{name} must be 1 or more, got {count}")
    if feature_groups > 1 and batch_groups > 1:
        check.fail(
            f"feature_group_count and batch_group_count must not both be more than 1, "
            f"got {feature_groups} and {batch_groups}"
        )
    features = lhs.dimensions[numbers.input_feature_dimension]
    kernel_features = rhs.dimensions[numbers.kernel_input_feature_dimension]
    if UNBOUNDED not in (features, kernel_features) and (
        features != kernel_features * feature_groups
    ):
        check.fail(
            f"the kernel's input features times feature_group_count must be the input's features, "
            f"got {kernel_features} (dimension {numbers.kernel_input_feature_dimension} of rhs) "
            f"times {feature_groups} for {features} (dimension "
            f"{numbers.input_feature_dimension} of lhs)",
            dimension=numbers.input_feature_dimension,
        )
    outputs = rhs.dimensions[numbers.kernel_output_feature_dimension]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    for name, count, what, size in (
        ("feature_group_count", feature_groups, "the number of output features", outputs),
        ("batch_group_count", batch_groups, "the number of output features", outputs),
        ("batch_group_count", batch_groups, "the size of the input's batch", batch),
    ):
        if size != UNBOUNDED and size % count:
            check.fail(f"{name} must divide {what}, got {count} for {size}")
