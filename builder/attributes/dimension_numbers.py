"""Dimension numbers of dot products, convolutions, gathers and scatters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, Self

from builder.attributes.fields import construct, set_integers, unpackable
from builder.checking import integer, integers, refusal
from builder.errors import ShapeInferenceError, brief, error_of
from builder.support.bundles import Bundle, bundle, set_fields
from builder.support.caches import per_signature
from builder.support.frames import without_internal_frames


@bundle
class DotDimensionNumbers(Bundle):
    """The contracting and the batch dimensions of a dot product.

    Attributes:
        lhs_contracting_dimensions: the dimensions of lhs that are summed over.
        rhs_contracting_dimensions: the corresponding dimensions of rhs, in the same order.
        lhs_batch_dimensions: the dimensions of lhs that index independent products.
        rhs_batch_dimensions: the corresponding dimensions of rhs, in the same order.

    Example:
        >>> import builder as xb
        >>> xb.DotDimensionNumbers([2], [1], [0], [0]).lhs_contracting_dimensions
        (2,)
    """

    lhs_contracting_dimensions: tuple[int, ...]
    rhs_contracting_dimensions: tuple[int, ...]
    lhs_batch_dimensions: tuple[int, ...]
    rhs_batch_dimensions: tuple[int, ...]

    def __init__(
        self,
        lhs_contracting_dimensions: Sequence[int] = (),
        rhs_contracting_dimensions: Sequence[int] = (),
        lhs_batch_dimensions: Sequence[int] = (),
        rhs_batch_dimensions: Sequence[int] = (),
    ) -> None:
        set_integers(
            self,
            lhs_contracting_dimensions,
            rhs_contracting_dimensions,
            lhs_batch_dimensions,
            rhs_batch_dimensions,
        )

    @classmethod
    def of(cls, value: DotDimensionNumbersLike, op: str = "dot_general") -> DotDimensionNumbers:
        """Return `value` as DotDimensionNumbers; a pair of pairs of lists is converted.

        Args:
            value: DotDimensionNumbers, or lists of dimensions in the form
                ``((lhs contracting, rhs contracting), (lhs batch, rhs batch))``.
            op: the op, for messages.

        Raises:
            ShapeInferenceError: `value` is neither.
        """
        if isinstance(value, DotDimensionNumbers):
            return value
        key = _key(value)
        try:
            if key is not None:
                return _listed(*key)
        except ShapeInferenceError:
            pass  # raised below for the original value
        try:
            contracting, batch = map(unpackable, unpackable(value))
            (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = contracting, batch
        except (TypeError, ValueError):
            rule = "dimension_numbers must be DotDimensionNumbers or a pair of pairs"
            fix = (
                "write lists of dimensions as ((lhs contracting, rhs contracting), (lhs batch, rhs "
                "batch))"
            )
            raise refusal(op, rule, value, fix) from None
        return construct(cls, op, lhs_contracting, rhs_contracting, lhs_batch, rhs_batch)


_SEQUENCES = (list, tuple)
_listed = per_signature(DotDimensionNumbers)


def _key(numbers: Any) -> tuple[tuple[int, ...], ...] | None:
    """Return a pair of pairs of lists of ints as the fields of DotDimensionNumbers, else None.

    The usual argument, which many ops repeat. The loop is unrolled, because that is faster.
    """
    pairs: Any = numbers if type(numbers) in _SEQUENCES else ()
    if [len(pair) for pair in pairs if type(pair) in _SEQUENCES] != [2, 2] or len(pairs) != 2:
        return None
    (lhs, rhs), (lhs_batch, rhs_batch) = pairs
    fields = lhs, rhs, lhs_batch, rhs_batch
    for field in fields:
        if type(field) not in _SEQUENCES:
            return None
        for number in field:
            if type(number) is not int:
                return None
    return tuple(lhs), tuple(rhs), tuple(lhs_batch), tuple(rhs_batch)


DotDimensionNumbersLike = DotDimensionNumbers | Sequence[Sequence[Sequence[int]]]
"""DotDimensionNumbers, or ((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""


@bundle
class RaggedDotDimensionNumbers(Bundle):
    """The dimensions of a dot product with one dimension divided into groups of different sizes.

    Attributes:
        dot_dimension_numbers: the numbers of the dot product; also accepted as the pair of pairs
            that `dot_general` accepts.
        lhs_ragged_dimensions: the dimension of lhs that is divided into groups: exactly one.
        rhs_group_dimensions: the dimension of rhs that indexes the groups: one if the ragged
            dimension is neither contracting nor batch, otherwise none.

    Example:
        >>> import builder as xb
        >>> numbers = xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        >>> numbers.dot_dimension_numbers.rhs_contracting_dimensions
        (1,)
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: tuple[int, ...]
    rhs_group_dimensions: tuple[int, ...]

    def __init__(
        self,
        dot_dimension_numbers: DotDimensionNumbersLike,
        lhs_ragged_dimensions: Sequence[int] = (),
        rhs_group_dimensions: Sequence[int] = (),
    ) -> None:
        kind = type(self).__name__
        set_fields(
            self,
            DotDimensionNumbers.of(dot_dimension_numbers, op=kind),
            integers(kind, "lhs_ragged_dimensions", lhs_ragged_dimensions),
            integers(kind, "rhs_group_dimensions", rhs_group_dimensions),
        )

    @classmethod
    def of(cls, value: RaggedDotDimensionNumbersLike) -> RaggedDotDimensionNumbers:
        """Return `value` as RaggedDotDimensionNumbers; a triple of its fields is converted.

        Raises:
            ShapeInferenceError: `value` is neither.
        """
        if isinstance(value, RaggedDotDimensionNumbers):
            return value
        try:
            numbers, ragged, group = unpackable(value)
        except (TypeError, ValueError):
            rule = "dimension_numbers must be RaggedDotDimensionNumbers or a triple of its fields"
            fix = "write for instance ((([1], [1]), ([], [])), [0], [0])"
            raise refusal("ragged_dot", rule, value, fix) from None
        return construct(cls, "ragged_dot", numbers, ragged, group)


RaggedDotDimensionNumbersLike = RaggedDotDimensionNumbers | Sequence[Any]
"""RaggedDotDimensionNumbers, or (dot dimension numbers, ragged dimensions, group dimensions)."""


_OP: Final = "conv_general_dilated"
_TEXT: Final = r"([bf0-9]+)_([io0-9]+)->([bf0-9]+)"

_MOST_SPATIAL: Final = 1000
"""A limit on the number of spatial dimensions, larger than the rank of any array."""


@bundle
class ConvolutionDimensionNumbers(Bundle):
    """The meaning of each dimension of the input, the kernel and the output of a convolution.

    ``ConvolutionDimensionNumbers.of("b01f_01io->b01f")`` is HLO's short form. It lists the
    dimensions of the input, the kernel and the output in their order: b for batch, f for feature,
    i and o for input and output feature, and the spatial dimensions by number.

    Attributes:
        input_batch_dimension: the dimension of lhs that indexes independent inputs.
        input_feature_dimension: the dimension of lhs that is summed over.
        input_spatial_dimensions: the dimensions of lhs that the window moves along.
        kernel_input_feature_dimension: the dimension of rhs that corresponds to lhs's features.
        kernel_output_feature_dimension: the dimension of rhs that indexes the output's features.
        kernel_spatial_dimensions: the dimensions of rhs that form the window, in the same order.
        output_batch_dimension: the dimension of the result for the batch.
        output_feature_dimension: the dimension of the result for the output features.
        output_spatial_dimensions: the dimensions of the result for the positions of the window.

    Example:
        >>> import builder as xb
        >>> numbers = xb.ConvolutionDimensionNumbers.of("b01f_01io->b01f")
        >>> numbers.kernel_output_feature_dimension, numbers.input_spatial_dimensions
        (3, (1, 2))
        >>> print(xb.ConvolutionDimensionNumbers.default(2))
        bf01_oi01->bf01
    """

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    def __init__(
        self,
        input_batch_dimension: int,
        input_feature_dimension: int,
        input_spatial_dimensions: Sequence[int],
        kernel_input_feature_dimension: int,
        kernel_output_feature_dimension: int,
        kernel_spatial_dimensions: Sequence[int],
        output_batch_dimension: int,
        output_feature_dimension: int,
        output_spatial_dimensions: Sequence[int],
    ) -> None:
        set_integers(
            self,
            input_batch_dimension,
            input_feature_dimension,
            input_spatial_dimensions,
            kernel_input_feature_dimension,
            kernel_output_feature_dimension,
            kernel_spatial_dimensions,
            output_batch_dimension,
            output_feature_dimension,
            output_spatial_dimensions,
        )

    @classmethod
    @without_internal_frames
    def default(cls, spatial: int) -> ConvolutionDimensionNumbers:
        """Return the dimension numbers that `conv` uses for `spatial` spatial dimensions.

        The order is batch, features, spatial dimensions. In the kernel, output features come first.

        Raises:
            ShapeInferenceError: `spatial` is not an integer, is negative, or is too large.
        """
        count = integer(cls.__name__, "spatial", spatial)
        if not 0 <= count <= _MOST_SPATIAL:
            rule = f"spatial must be from 0 to {_MOST_SPATIAL}"
            raise error_of(ShapeInferenceError, cls.__name__, rule, got=count)
        places = tuple(range(2, 2 + count))
        return cls(0, 1, places, 1, 0, places, 0, 1, places)

    @classmethod
    def of(
        cls, value: ConvolutionDimensionNumbersLike, op: str = _OP
    ) -> ConvolutionDimensionNumbers:
        """Return `value` as ConvolutionDimensionNumbers; parse a string: ``"b01f_01io->b01f"``.

        Args:
            value: ConvolutionDimensionNumbers, or a string.
            op: the op, for messages.

        Raises:
            ShapeInferenceError: `value` is neither.
        """
        if isinstance(value, ConvolutionDimensionNumbers):
            return value
        numbers = _of_text(value) if isinstance(value, str) else None
        if numbers is None:
            raise refusal(
                op,
                "dimension_numbers must be ConvolutionDimensionNumbers or a string that names each "
                "dimension of the input, the kernel and the output once",
                value,
                'write for instance "b01f_01io->b01f"',
            )
        return numbers

    def labels(self, rank: int) -> tuple[list[str], list[str], list[str]]:
        """Return the label of each dimension of the input, the kernel and the output.

        Args:
            rank: the rank of the input, the kernel and the output. A dimension that is in none of
                the fields has an empty label.
        """
        labels = [""] * rank, [""] * rank, [""] * rank
        fields = [getattr(self, name) for name in self.__match_args__]
        for index, (part, letters) in enumerate(zip(labels, _LETTERS, strict=True)):
            *numbers, spatial = fields[3 * index : 3 * index + 3]
            for label, number in (*zip(letters, numbers, strict=True), *enumerate(spatial)):
                if 0 <= number < rank:
                    part[number] = str(label)
        return labels

    def __str__(self) -> str:
        """HLO's short form if the numbers are valid, otherwise all fields."""
        rank = len(self.input_spatial_dimensions) + 2
        labels = self.labels(rank)
        if any("" in part for part in labels) or rank > 12:
            return repr(self)
        source, kernel, result = map("".join, labels)
        return f"{source}_{kernel}->{result}"


_LETTERS: Final = ("bf", "io", "bf")
"""The labels of the input, the kernel and the output for dimensions that are not spatial: batch and
feature, input and output feature. Spatial dimensions have their numbers as labels."""

ConvolutionDimensionNumbersLike = ConvolutionDimensionNumbers | str
"""ConvolutionDimensionNumbers, or a string like "b01f_01io->b01f"."""


def of_labels(labels: Sequence[Sequence[str]]) -> ConvolutionDimensionNumbers:
    """Return the dimension numbers with these labels of the input, the kernel and the output.

    Raises:
        ValueError: a label is missing.
    """
    fields: list[int | tuple[int, ...]] = []
    for part, letters in zip(labels, _LETTERS, strict=True):
        spatial = tuple(part.index(str(number)) for number in range(len(part) - 2))
        fields += [*map(part.index, letters), spatial]
    return ConvolutionDimensionNumbers(*fields)  # type: ignore[arg-type]  # in their order


@lru_cache
def _of_text(text: str) -> ConvolutionDimensionNumbers | None:
    match = re.fullmatch(_TEXT, text)
    if match is None or len(match[1]) > 12:
        return None
    digits = [str(i) for i in range(len(match[1]) - 2)]
    for part, letters in zip(match.groups(), _LETTERS, strict=True):
        if sorted(part) != sorted([*digits, *letters]):
            return None
    return of_labels(match.groups())


class _DimensionNumbers(Bundle):
    """The base of the dimension numbers of gathers and scatters."""

    __slots__ = ()
    _op: ClassVar[str]

    @classmethod
    def of(cls, value: Self | Mapping[str, Any]) -> Self:
        """Return `value` as dimension numbers; a mapping of field names to values is converted.

        Raises:
            ShapeInferenceError: `value` is neither dimension numbers nor such a mapping.
        """
        if isinstance(value, cls):
            return value
        fields = cls.__match_args__
        fix = f"write xb.{cls.__name__}({', '.join(fields)})"
        if not isinstance(value, Mapping):
            raise refusal(cls._op, f"dimension_numbers must be {cls.__name__}", value, fix)
        unknown = [name for name in value if name not in fields]
        missing = [name for name in fields[:4] if name not in value]
        if unknown or missing:
            got = f"unknown {brief(unknown)}" if unknown else f"no {', '.join(missing)}"
            rule = f"dimension_numbers must have the fields of {cls.__name__}"
            raise error_of(ShapeInferenceError, cls._op, rule, fix, got=got)
        return construct(cls, cls._op, **value)


@bundle
class GatherDimensionNumbers(_DimensionNumbers):
    """The meaning of the dimensions of a gather's operands and result.

    Attributes:
        offset_dims: the dimensions of the result that index within a slice, ascending.
        collapsed_slice_dims: the dimensions of the operand that the result omits, ascending. A
            slice has size 1 along them.
        start_index_map: for each component of an index vector, the dimension of the operand along
            which the component is the start of the slice. Along other dimensions slices begin at 0.
        index_vector_dim: the dimension of start_indices that contains the index vectors. The rank
            of start_indices if each element is an index vector.
        operand_batching_dims: the batch dimensions of the operand, ascending. An index vector at
            position i along a batch dimension of start_indices reads a slice at position i along
            the corresponding batch dimension of the operand.
        start_indices_batching_dims: the batch dimensions of start_indices, in the order of
            operand_batching_dims.

    Example:
        >>> import builder as xb
        >>> rows = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> rows.offset_dims
        (1,)
    """

    _op = "gather"

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    operand_batching_dims: tuple[int, ...]
    start_indices_batching_dims: tuple[int, ...]

    def __init__(
        self,
        offset_dims: Sequence[int],
        collapsed_slice_dims: Sequence[int],
        start_index_map: Sequence[int],
        index_vector_dim: int,
        operand_batching_dims: Sequence[int] = (),
        start_indices_batching_dims: Sequence[int] = (),
    ) -> None:
        set_integers(
            self,
            offset_dims,
            collapsed_slice_dims,
            start_index_map,
            index_vector_dim,
            operand_batching_dims,
            start_indices_batching_dims,
        )


@bundle
class ScatterDimensionNumbers(_DimensionNumbers):
    """The meaning of the dimensions of a scatter's operands and updates.

    Attributes:
        update_window_dims: the dimensions of updates that index within a window, ascending.
        inserted_window_dims: the dimensions of the operand that updates omit, ascending. A window
            has size 1 along them.
        scatter_dims_to_operand_dims: for each component of an index vector, the dimension of the
            operand along which the component is the start of the window. Along other dimensions
            windows begin at 0.
        index_vector_dim: the dimension of scatter_indices that contains the index vectors. The rank
            of scatter_indices if each element is an index vector.
        input_batching_dims: the batch dimensions of the operand, ascending. An index vector at
            position i along a batch dimension of scatter_indices writes a window at position i
            along the corresponding batch dimension of the operand.
        scatter_indices_batching_dims: the batch dimensions of scatter_indices, in the order of
            input_batching_dims.

    Example:
        >>> import builder as xb
        >>> rows = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> rows.inserted_window_dims
        (0,)
    """

    _op = "scatter"

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    input_batching_dims: tuple[int, ...]
    scatter_indices_batching_dims: tuple[int, ...]

    def __init__(
        self,
        update_window_dims: Sequence[int],
        inserted_window_dims: Sequence[int],
        scatter_dims_to_operand_dims: Sequence[int],
        index_vector_dim: int,
        input_batching_dims: Sequence[int] = (),
        scatter_indices_batching_dims: Sequence[int] = (),
    ) -> None:
        set_integers(
            self,
            update_window_dims,
            inserted_window_dims,
            scatter_dims_to_operand_dims,
            index_vector_dim,
            input_batching_dims,
            scatter_indices_batching_dims,
        )


GatherDimensionNumbersLike = GatherDimensionNumbers | Mapping[str, Any]
"""GatherDimensionNumbers, or a mapping of field names to values."""

ScatterDimensionNumbersLike = ScatterDimensionNumbers | Mapping[str, Any]
"""ScatterDimensionNumbers, or a mapping of field names to values."""
