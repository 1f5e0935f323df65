"""Shapes of convolutions.

Operation Semantics: Conv, ConvWithGeneralPadding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.attributes import ConvolutionDimensionNumbers
from builder.attributes.window import Padding
from builder.check import Check, sizes_differ
from builder.ops.rules.contraction.dot_product import is_promotable
from builder.ops.rules.public import public
from builder.ops.rules.window import window_list, window_padding, windows_along
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape

_OP = "conv_general_dilated"
_MOST_SPATIAL = 10
"""The maximum number of spatial dimensions: HLO text has one digit for each."""


@dataclass(frozen=True, slots=True)
class ConvolutionWindow:
    """The movement of the kernel over the input: each field has an entry per spatial dimension.

    Attributes:
        strides: the distances between windows.
        padding: pairs (low, high): the zeros added before and after the input.
        lhs_dilation: the distances between elements of the input, with zeros between them.
        rhs_dilation: the distances between elements of the kernel.
        reversal: whether the kernel is reversed.
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
    """Return the window of a convolution with explicit padding and no defaults.

    The arguments are those of `conv_general_dilated`.

    Raises:
        ShapeInferenceError: an argument does not fit the operands' ranks, or is out of range.

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
    of = "dimension of the window"
    # StableHLO convolution (C2-C9)
    strides, spread, gaps = (
        window_list(check, values, spatial, of=of, name=name)
        for name, values in (
            ("window_strides", window_strides),
            ("lhs_dilation", lhs_dilation),
            ("rhs_dilation", rhs_dilation),
        )
    )
    reversal = tuple(window_reversal) or (False,) * spatial
    check.one_for_each(reversal, spatial, of=of, name="window_reversal")
    # xla_builder.h: ConvGeneralDilated
    if padding is Padding.SAME and any(d != 1 for d in spread):
        check.fail(
            f"Padding.SAME is ambiguous where the input is dilated, got lhs_dilation "
            f"{list(spread)}",
            fix="pass pairs (low, high)",
        )
    sizes = [left.dimensions[d] for d in numbers.input_spatial_dimensions]
    window = [right.dimensions[d] for d in numbers.kernel_spatial_dimensions]
    pairs = window_padding(check, padding, sizes, window, strides, spread, gaps, of=of)
    return ConvolutionWindow(strides, pairs, spread, gaps, reversal)


def _spatial_rank(check: Check, lhs: ArrayShape, rhs: ArrayShape) -> int:
    """Return the number of spatial dimensions."""
    # StableHLO convolution (C1)
    if lhs.rank != rhs.rank:
        check.fail(f"lhs and rhs must have the same rank, got {lhs.rank} and {rhs.rank}")
    # XLA shape_inference.cc: InferConvolveShape
    if lhs.rank < 2:
        check.fail(
            f"lhs needs a batch and a feature dimension, and rhs an input and an output feature "
            f"dimension, got rank {lhs.rank}"
        )
    # Not in XLA: a limit of HLO text.
    if lhs.rank - 2 > _MOST_SPATIAL:
        check.fail(f"there must be at most {_MOST_SPATIAL} spatial dimensions, got {lhs.rank - 2}")
    return lhs.rank - 2


def _each_dimension_once(check: Check, numbers: ConvolutionDimensionNumbers, spatial: int) -> None:
    """Check that each dimension of input, kernel and output has exactly one dimension number."""
    names = numbers.__match_args__
    for of, fields in (("input", names[:3]), ("kernel", names[3:6]), ("output", names[6:])):
        first, second, places = (getattr(numbers, field) for field in fields)
        # StableHLO convolution (C12), (C17), (C19)
        check.one_for_each(places, spatial, of="spatial dimension", name=fields[2])
        # StableHLO convolution (C13), (C18), (C20)
        for name, listed in zip(fields, ([first], [second], places), strict=True):
            for number in listed:
                check.in_rank(number, spatial + 2, of=f"the {of}", name=name)
        if len({first, second, *places}) != spatial + 2:
            check.fail(
                f"{fields[0]}, {fields[1]} and {fields[2]} must name each dimension of the {of} "
                f"once, got {first}, {second} and {list(places)}"
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
    """Return the shape of a convolution: batch, output features and positions of the window.

    Args:
        lhs, rhs: the input and the kernel.
        window_strides, lhs_dilation, rhs_dilation: one number for each spatial dimension; an empty
            sequence for 1 in each dimension.
        padding: SAME, VALID or a pair (low, high) for each spatial dimension.
        dimension_numbers: which dimensions of the input, the kernel and the result are batch,
            feature and spatial dimensions; None for the default of `conv`.
        feature_group_count, batch_group_count: the number of groups of features or of the batch.
        preferred_element_type: the element type of the result; None for that of the operands.
        window_reversal: one bool for each spatial dimension; does not affect the shape.
        op: the name of the op, for messages.

    Example:
        >>> import builder as xb
        >>> x, kernel = xb.f32[7, 3, 10, 10], xb.f32[5, 3, 4, 4]
        >>> infer = xb.shape_inference.contraction.conv_general_dilated
        >>> infer(x, kernel, [2, 1], [(0, 0), (1, 1)])
        f32[7,5,4,9]
    """
    lists = (window_strides, padding, lhs_dilation, rhs_dilation)
    window = convolution_window.strict(lhs, rhs, *lists, dimension_numbers, window_reversal, op)
    check = Check(op, lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    # StableHLO convolution (C27)
    element_type = check.same_element_type()
    n = dimension_numbers or ConvolutionDimensionNumbers.default(left.rank - 2)
    _groups(check, left, right, n, feature_group_count, batch_group_count)
    # XLA shape_inference.cc: InferConvolveShape
    if right.dynamic_dimensions[n.kernel_output_feature_dimension]:
        check.fail(
            f"the kernel must have a static number of output features, got the dynamic dimension "
            f"{n.kernel_output_feature_dimension} of rhs",
            dimension=n.kernel_output_feature_dimension,
        )
    result = element_type if preferred_element_type is None else preferred_element_type
    # XLA shape_inference.cc: InferConvolveShape
    if not _is_preferable(element_type, result):
        check.fail(
            f"preferred_element_type must be the operands' element type, {element_type}, a wider "
            f"type of its kind, or another float with as many bits, got {result}",
            fix="convert the operands or the result with xb.convert_element_type",
        )
    sizes = [0] * left.rank
    dynamic = [False] * left.rank
    batch = left.dimensions[n.input_batch_dimension]
    sizes[n.output_batch_dimension] = batch if batch == UNBOUNDED else batch // batch_group_count
    dynamic[n.output_batch_dimension] = left.dynamic_dimensions[n.input_batch_dimension]
    sizes[n.output_feature_dimension] = right.dimensions[n.kernel_output_feature_dimension]
    moves = zip(
        window.strides, window.padding, window.lhs_dilation, window.rhs_dilation, strict=True
    )
    for i, move in enumerate(moves):
        source, kernel = n.input_spatial_dimensions[i], n.kernel_spatial_dimensions[i]
        target = n.output_spatial_dimensions[i]
        old, size = left.dimensions[source], right.dimensions[kernel]
        # XLA shape_inference.cc: InferWindowFromDimensions
        if size < 1:
            got = "an unbounded size" if size == UNBOUNDED else str(size)
            check.fail(
                f"the window must have at least one element along each dimension, got {got} along "
                f"dimension {i} of the window",
                dimension=i,
            )
        sizes[target] = windows_along(check, "the window", i, old, size, *move)
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
    """Check that the group counts divide the sizes; an unbounded size is divisible by any count."""
    counts = {"feature_group_count": feature_groups, "batch_group_count": batch_groups}
    # StableHLO convolution (C21), (C22), (C23)
    for name, count in counts.items():
        if count < 1:
            check.fail(f"{name} must be 1 or more, got {count}")
    if feature_groups > 1 and batch_groups > 1:
        check.fail(
            f"feature_group_count and batch_group_count must not both be more than 1, "
            f"got {feature_groups} and {batch_groups}"
        )
    features = lhs.dimensions[numbers.input_feature_dimension]
    kernel_features = rhs.dimensions[numbers.kernel_input_feature_dimension]
    product = kernel_features if kernel_features == UNBOUNDED else kernel_features * feature_groups
    # StableHLO convolution (C11), (C14)
    if sizes_differ(features, product):
        check.fail(
            f"the kernel's input features times feature_group_count must be the input's features, "
            f"got {kernel_features} (dimension {numbers.kernel_input_feature_dimension} of rhs) "
            f"times {feature_groups} for {features} (dimension "
            f"{numbers.input_feature_dimension} of lhs)",
            dimension=numbers.input_feature_dimension,
        )
    outputs = rhs.dimensions[numbers.kernel_output_feature_dimension]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    # StableHLO convolution (C16), (C15), (C10)
    for name, of, size in (
        ("feature_group_count", "the number of output features", outputs),
        ("batch_group_count", "the number of output features", outputs),
        ("batch_group_count", "the size of the input's batch", batch),
    ):
        if size != UNBOUNDED and size % counts[name]:
            check.fail(f"{name} must divide {of}, got {counts[name]} for {size}")
