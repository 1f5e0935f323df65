"""Convolutions.

Operation Semantics: Conv, ConvWithGeneralPadding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from builder.attributes import (
    ConvolutionDimensionNumbers,
    ConvolutionDimensionNumbersLike,
    Padding,
    PaddingLike,
    Precision,
    PrecisionLike,
)
from builder.checking import Check, sizes_differ
from builder.graph.xla_op import XlaOp
from builder.ops.contraction.dot_product import (
    DEFAULT_PRECISION,
    PRECISION_ATTRIBUTE,
    is_promotable,
)
from builder.ops.definition import op
from builder.ops.reduction.windows import window_list, window_padding, window_text, windows_along
from builder.schema.definition import (
    ANY,
    BUILDER_H,
    Attribute,
    CostClass,
    Group,
    LargestTerm,
    Tolerance,
    define,
)
from builder.schema.equal_sizes import Pairs, SizedOp
from builder.schema.kinds import (
    CONVOLUTION_DIMENSIONS,
    ELEMENT_TYPE,
    INTEGER,
    INTEGERS,
    WINDOW_PADDING,
    Flags,
)
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import UNBOUNDED, ArrayShape, Shape

_MOST_SPATIAL: Final = 10
"""The maximum number of spatial dimensions: HLO text has one digit for each."""


class ConvolutionWindow(NamedTuple):
    """The movement of the kernel over the input: each field has an entry per spatial dimension.

    Attributes:
        window_strides: the distances between windows.
        padding: pairs (low, high): the zeros added before and after the input.
        lhs_dilation: the distances between elements of the input, with zeros between them.
        rhs_dilation: the distances between elements of the kernel.
        window_reversal: whether the kernel is reversed.
    """

    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    window_reversal: tuple[bool, ...]


def convolution_window(
    lhs: Shape,
    rhs: Shape,
    window_strides: Sequence[int],
    padding: Padding | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: ConvolutionDimensionNumbers | None,
    window_reversal: Sequence[bool] | None,
    op: str,
) -> ConvolutionWindow:
    """Return the window of a convolution with explicit padding and no defaults.

    The arguments are those of `_convolution_shape`.
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
    reversal = tuple(window_reversal or ()) or (False,) * spatial
    check.one_for_each(reversal, spatial, of=of, name="window_reversal", neutral=(False,) * spatial)
    # xla_builder.h: ConvGeneralDilated
    if padding is Padding.SAME and any(d != 1 for d in spread):
        check.fail(
            "Padding.SAME is ambiguous where the input is dilated",
            got=f"lhs_dilation {list(spread)}",
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
        check.fail("lhs and rhs must have the same rank", got=f"{lhs.rank} and {rhs.rank}")
    # XLA shape_inference.cc: InferConvolveShape
    if lhs.rank < 2:
        check.fail(
            "lhs needs a batch and a feature dimension, and rhs an input and an output feature "
            "dimension",
            got=f"rank {lhs.rank}",
        )
    # Not in XLA: a limit of HLO text.
    if lhs.rank - 2 > _MOST_SPATIAL:
        check.fail(f"there must be at most {_MOST_SPATIAL} spatial dimensions", got=lhs.rank - 2)
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
                "once",
                got=f"{first}, {second} and {list(places)}",
            )


def _convolution_shape(
    lhs: Shape,
    rhs: Shape,
    window_strides: Sequence[int],
    padding: Padding | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvolutionDimensionNumbers | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    preferred_element_type: PrimitiveType | None = None,
    window_reversal: Sequence[bool] | None = None,
    *,
    op: str,
) -> ArrayShape:
    """Return the shape of a convolution: batch, output features and positions of the window.

    `dimension_numbers` is None for those of `conv`; None or an empty list means 1 in each
    dimension. `op` is the op to name in messages.
    """
    lists = (window_strides, padding, lhs_dilation, rhs_dilation)
    window = convolution_window(lhs, rhs, *lists, dimension_numbers, window_reversal, op)
    check = Check(op, lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    # StableHLO convolution (C27)
    element_type = check.same_element_type()
    n = dimension_numbers or ConvolutionDimensionNumbers.default(left.rank - 2)
    _groups(check, left, right, n, feature_group_count, batch_group_count)
    # XLA shape_inference.cc: InferConvolveShape
    if right.dynamic_dimensions[n.kernel_output_feature_dimension]:
        check.fail(
            "the kernel must have a static number of output features",
            got=f"the dynamic dimension {n.kernel_output_feature_dimension} of rhs",
            dimension=n.kernel_output_feature_dimension,
        )
    result = element_type if preferred_element_type is None else preferred_element_type
    # XLA shape_inference.cc: InferConvolveShape
    if not _is_preferable(element_type, result):
        check.fail(
            f"preferred_element_type must be the operands' element type, {element_type}, a wider "
            "type of its kind, or another float with as many bits",
            got=result,
            fix="convert the operands or the result with xb.convert_element_type",
        )
    sizes = [0] * left.rank
    dynamic = [False] * left.rank
    batch = left.dimensions[n.input_batch_dimension]
    sizes[n.output_batch_dimension] = batch if batch == UNBOUNDED else batch // batch_group_count
    dynamic[n.output_batch_dimension] = left.dynamic_dimensions[n.input_batch_dimension]
    sizes[n.output_feature_dimension] = right.dimensions[n.kernel_output_feature_dimension]
    moves = zip(
        window.window_strides,
        window.padding,
        window.lhs_dilation,
        window.rhs_dilation,
        strict=True,
    )
    for i, move in enumerate(moves):
        source, kernel = n.input_spatial_dimensions[i], n.kernel_spatial_dimensions[i]
        target = n.output_spatial_dimensions[i]
        old, size = left.dimensions[source], right.dimensions[kernel]
        # XLA shape_inference.cc: InferWindowFromDimensions
        if size < 1:
            got = "an unbounded size" if size == UNBOUNDED else str(size)
            check.fail(
                "the window must have at least one element along each dimension",
                got=f"{got} along dimension {i} of the window",
                dimension=i,
            )
        sizes[target] = windows_along(check, "the window", i, old, size, *move)
        dynamic[target] = left.dynamic_dimensions[source] or right.dynamic_dimensions[kernel]
    return check.result(result, sizes, dynamic)


def _is_preferable(element_type: PrimitiveType, to: PrimitiveType) -> bool:
    if is_promotable(element_type, to):
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
            check.fail(f"{name} must be 1 or more", got=count)
    if feature_groups > 1 and batch_groups > 1:
        check.fail(
            "feature_group_count and batch_group_count must not both be more than 1",
            got=f"{feature_groups} and {batch_groups}",
        )
    features = lhs.dimensions[numbers.input_feature_dimension]
    kernel_features = rhs.dimensions[numbers.kernel_input_feature_dimension]
    product = kernel_features if kernel_features == UNBOUNDED else kernel_features * feature_groups
    # StableHLO convolution (C11), (C14)
    if sizes_differ(features, product):
        number = numbers.kernel_input_feature_dimension
        fix = "state the order of the dimensions, if it is another one"
        if features % feature_groups == 0:
            fix = f"make dimension {number} of rhs {features // feature_groups}; or {fix}"
        check.fail(
            "the kernel's input features times feature_group_count must be the input's features",
            got=f"{kernel_features} (dimension {numbers.kernel_input_feature_dimension} of rhs) "
            f"times {feature_groups} for {features} (dimension "
            f"{numbers.input_feature_dimension} of lhs)",
            fix=fix,
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
            check.fail(f"{name} must divide {of}", got=f"{counts[name]} for {size}")


def _convolution_attributes(
    lhs: ArrayShape,
    rhs: ArrayShape,
    window_strides: Sequence[int],
    padding: Padding | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvolutionDimensionNumbers | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: tuple[Precision, Precision] | None = None,
    window_reversal: Sequence[bool] | None = None,
    *,
    op: str,
) -> Mapping[str, Any]:
    lists = (window_strides, padding, lhs_dilation, rhs_dilation)
    window = convolution_window(lhs, rhs, *lists, dimension_numbers, window_reversal, op)
    return {
        **window._asdict(),
        "dimension_numbers": dimension_numbers or ConvolutionDimensionNumbers.default(lhs.rank - 2),
        "feature_group_count": feature_group_count,
        "batch_group_count": batch_group_count,
        "precision": precision or DEFAULT_PRECISION,
    }


def _kernel_size(op: Any) -> int:
    """Return the maximum number of products that are added up for an element of a convolution."""
    kernel = op.operands[1].shape.dimensions
    output = op.attributes["dimension_numbers"].kernel_output_feature_dimension
    return math.prod(size for d, size in enumerate(kernel) if d != output)


def _window(op: Any) -> str:
    attributes = op.attributes
    kernel = op.operands[1].shape.dimensions
    size = [kernel[d] for d in attributes["dimension_numbers"].kernel_spatial_dimensions]
    lists = {
        "stride": attributes["window_strides"],
        "lhs_dilate": attributes["lhs_dilation"],
        "rhs_dilate": attributes["rhs_dilation"],
        "rhs_reversal": [int(is_reversed) for is_reversed in attributes["window_reversal"]],
    }
    return window_text(size, attributes["padding"], lists)


def _equal_sizes(op: SizedOp) -> Pairs:
    numbers, (lhs, rhs), result = op.attributes["dimension_numbers"], op.operands, op.results[0]
    if op.attributes["batch_group_count"] == 1:
        yield result[numbers.output_batch_dimension], lhs[numbers.input_batch_dimension]
    if op.attributes["feature_group_count"] == 1:
        yield lhs[numbers.input_feature_dimension], rhs[numbers.kernel_input_feature_dimension]


CONVOLUTION: Final = define(
    "convolution",
    "lhs rhs",
    (
        Group(_window),
        Attribute("window_strides", INTEGERS, None, absent=()),
        Attribute("padding", WINDOW_PADDING, None, absent=Padding.VALID),
        Attribute("lhs_dilation", INTEGERS, None, absent=None),
        Attribute("rhs_dilation", INTEGERS, None, absent=None),
        Attribute("window_reversal", Flags("spatial dimension"), None),
        Attribute("dimension_numbers", CONVOLUTION_DIMENSIONS, "dim_labels"),
        Attribute("feature_group_count", INTEGER, omitted=1),
        Attribute("batch_group_count", INTEGER, omitted=1),
        PRECISION_ATTRIBUTE,
    ),
    cpp_name="ConvGeneralDilated",
    section=BUILDER_H,
    element_types={"lhs": ANY, "rhs": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(2, terms=_kernel_size, largest_term=LargestTerm.PRODUCT),
    equal_sizes=_equal_sizes,
)


@op(
    CONVOLUTION,
    _convolution_shape,
    _convolution_attributes,
    cpp_name="Conv",
    section="Conv",
    preferred_element_type=ELEMENT_TYPE,
)
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
        >>> x, kernel = b.parameter(xb.f32[2, 3, 12, 12]), b.parameter(xb.f32[8, 3, 5, 5])
        >>> xb.conv(x, kernel, [1, 1], xb.Padding.SAME).shape
        f32[2,8,12,12]
        >>> xb.conv(x, kernel, [2, 2], xb.Padding.VALID).shape
        f32[2,8,4,4]

    Operation Semantics: Conv.
    """


@op(
    CONVOLUTION,
    _convolution_shape,
    _convolution_attributes,
    cpp_name="ConvWithGeneralPadding",
    section="ConvWithGeneralPadding",
    preferred_element_type=ELEMENT_TYPE,
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
        >>> x, kernel = b.parameter(xb.f32[2, 3, 12, 12]), b.parameter(xb.f32[8, 3, 5, 5])
        >>> xb.conv_with_general_padding(x, kernel, [1, 1], [(2, 3), (-1, 0)]).shape
        f32[2,8,13,7]

    Operation Semantics: ConvWithGeneralPadding.
    """


@op(
    CONVOLUTION,
    _convolution_shape,
    _convolution_attributes,
    cpp_name="ConvWithGeneralDimensions",
    preferred_element_type=ELEMENT_TYPE,
)
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
        >>> x, kernel = b.parameter(xb.f32[2, 12, 12, 3]), b.parameter(xb.f32[5, 5, 3, 8])
        >>> numbers = "b01f_01io->b01f"
        >>> xb.conv_with_general_dimensions(x, kernel, [2, 2], xb.Padding.SAME, numbers).shape
        f32[2,6,6,8]

    Not in Operation Semantics; XlaBuilder's ConvWithGeneralDimensions.
    """


@op(
    CONVOLUTION,
    _convolution_shape,
    _convolution_attributes,
    cpp_name="ConvGeneral",
    preferred_element_type=ELEMENT_TYPE,
)
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


@op(
    CONVOLUTION,
    _convolution_shape,
    _convolution_attributes,
    preferred_element_type=ELEMENT_TYPE,
)
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
