"""Convolutions of images, with named orders of dimensions.

XLA: pooling.h of the client library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from builder.attributes import ConvolutionDimensionNumbers
from builder.attributes.fields import set_integers
from builder.attributes.padding import PaddingLike
from builder.checking import first_duplicate, integers, refusal
from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import array_argument, one_or_several, typed_argument
from builder.lib.registry import library_function
from builder.ops.contraction import conv_general_dilated
from builder.support.bundles import Bundle, bundle
from builder.types.shape import ArrayShape


@bundle
class TensorFormat(Bundle):
    """Which dimensions of an array are the batch, the features and the spatial dimensions.

    Functions also accept a text such as "NHWC": N is the batch, C the features, and every other
    letter a spatial dimension.

    Attributes:
        batch_dimension: the dimension of independent examples.
        feature_dimension: the dimension of features, or channels.
        spatial_dimensions: the dimensions that a window moves along.

    Example:
        >>> from builder import lib
        >>> lib.TensorFormat.of("NHWC")
        TensorFormat(batch_dimension=0, feature_dimension=3, spatial_dimensions=(1, 2))
    """

    batch_dimension: int
    feature_dimension: int
    spatial_dimensions: tuple[int, ...]

    def __init__(
        self,
        batch_dimension: int,
        feature_dimension: int,
        spatial_dimensions: Sequence[int],
    ) -> None:
        set_integers(self, batch_dimension, feature_dimension, spatial_dimensions)
        numbers = (self.batch_dimension, self.feature_dimension, *self.spatial_dimensions)
        if sorted(numbers) != list(range(len(numbers))):
            rule = f"the dimensions must be 0 to {len(numbers) - 1}, each once"
            raise refusal("TensorFormat", rule, list(numbers))

    @classmethod
    def of(cls, value: TensorFormatLike, op: str = "TensorFormat") -> TensorFormat:
        """Return `value` as a TensorFormat.

        Raises:
            ShapeInferenceError: `value` is neither a TensorFormat nor a text with N, C and other
                letters, each once.
        """
        if isinstance(value, TensorFormat):
            return value
        if (
            isinstance(value, str)
            and first_duplicate(value) is None
            and {"N", "C"} <= set(value)
            and value.isalpha()
        ):
            spatial = tuple(n for n, letter in enumerate(value) if letter not in "NC")
            return cls(value.index("N"), value.index("C"), spatial)
        rule = "data_format must be a TensorFormat, or N, C and a letter for each spatial dimension"
        raise refusal(op, rule, value, 'write for instance "NHWC"')

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return 2 + len(self.spatial_dimensions)

    def full(self, op: str, name: str, values: Any) -> tuple[int, ...]:
        """Return an argument, such as the strides, with one entry for each dimension.

        Args:
            op, name: the function and the argument, for messages.
            values: an entry for each dimension, or for each spatial dimension only. In the latter
                case the entries for the batch and the features are 1.

        Raises:
            ShapeInferenceError: the number of entries is neither the rank nor the number of
                spatial dimensions.
        """
        given = integers(op, name, values)
        if len(given) == self.rank:
            return given
        if len(given) != self.rank - 2:
            rule = (
                f"{name} must have an entry for each of the {self.rank} dimensions, or for each of "
                f"the {self.rank - 2} spatial ones"
            )
            raise error_of(ShapeInferenceError, op, rule, got=list(given))
        entries = [1] * self.rank
        for number, entry in zip(self.spatial_dimensions, given, strict=True):
            entries[number] = entry
        return tuple(entries)


TensorFormatLike = TensorFormat | str
"""A TensorFormat, or its text, such as "NHWC"."""


def wrong_rank(op: str, name: str, form: TensorFormat, shape: ArrayShape) -> ShapeInferenceError:
    """Return the error for an array whose rank is not that of its format."""
    usual = {3: "NWC", 4: "NHWC", 5: "NDHWC"}.get(shape.rank)
    rule = f"{name} must have the {form.rank} dimensions of data_format"
    fix = f"write for instance data_format={usual!r}" if usual else "reshape it"
    return error_of(ShapeInferenceError, op, rule, fix, got=shape)


@library_function()
def conv(
    x: XlaOp,
    kernel: XlaOp,
    strides: int | Sequence[int] = 1,
    padding: PaddingLike = "SAME",
    data_format: TensorFormatLike = "NHWC",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> XlaOp:
    """Convolve images with a kernel, which is not reversed.

    Args:
        x: images with the dimensions of `data_format`, of any number of spatial dimensions.
        kernel: an array of the type and rank of `x`. If the features of `x` are its last dimension
            ("NHWC"), the kernel has the spatial dimensions, then the input features, then the
            output features (HWIO). Otherwise ("NCHW") it has the output features, the input
            features, then the spatial dimensions (OIHW). The kernel's input features are the
            features of one group.
        strides: the distances between positions of the kernel; one for each spatial dimension, or
            one for all.
        padding: "SAME", "VALID", or a pair (low, high) for each spatial dimension.
        data_format: a `TensorFormat`, or its text, such as "NHWC", "NCHW", "NWC" or "NDHWC".
        dilation: the distances between elements of the kernel, as for `strides`.
        groups: the number of groups into which the input and output features are divided; each
            group is convolved by itself. For a depthwise convolution, pass the number of input
            features.

    Returns:
        Images with the output features, with the dimensions of `data_format`.

    Raises:
        ShapeInferenceError: ranks, types, features or groups do not match; see
            `xb.conv_general_dilated`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, kernel = b.parameter(xb.f32[8, 28, 28, 3]), b.parameter(xb.f32[5, 5, 3, 16])
        >>> lib.conv(x, kernel, strides=2).shape
        f32[8,14,14,16]
    """
    shape = array_argument("conv", "x", x)
    form = TensorFormat.of(data_format, "conv")
    is_last = form.feature_dimension == form.rank - 1
    if form.rank != shape.rank:
        raise wrong_rank("conv", "x", form, shape)
    if typed_argument("conv", "kernel", kernel, shape.element_type).rank != form.rank:
        rule = f"kernel must have the {form.rank} dimensions of x"
        order = "spatial, input, output" if is_last else "output, input, spatial"
        fix = f"give the kernel dimensions in the order {order}"
        raise error_of(ShapeInferenceError, "conv", rule, fix, got=kernel.shape)
    images = (form.batch_dimension, form.feature_dimension, form.spatial_dimensions)
    count = len(form.spatial_dimensions)
    if is_last:
        kernels = (count, count + 1, tuple(range(count)))
    else:
        kernels = (1, 0, tuple(range(2, form.rank)))
    return conv_general_dilated(
        x,
        kernel,
        _for_each("strides", strides, count),
        padding,
        None,
        _for_each("dilation", dilation, count),
        ConvolutionDimensionNumbers(*images, *kernels, *images),
        groups,
    )


def _for_each(name: str, value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Return the entries of an argument, one for each of `count` spatial dimensions."""
    given = one_or_several("conv", name, value)
    entries = given if isinstance(value, Iterable) else given * count
    if len(entries) != count:
        rule = f"{name} must have an entry for each of the {count} spatial dimensions"
        raise error_of(ShapeInferenceError, "conv", rule, got=list(given))
    if min(entries, default=1) < 1:
        raise error_of(ShapeInferenceError, "conv", f"{name} must be positive", got=list(given))
    return entries
