"""The meaning of a convolution's dimensions: ConvolutionDimensionNumbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from builder.attributes.fields import set_integers
from builder.check import integer, refusal
from builder.errors import ShapeInferenceError, error_of

_OP: Final = "conv_general_dilated"
_TEXT: Final = r"([bf0-9]+)_([io0-9]+)->([bf0-9]+)"

_MOST_SPATIAL: Final = 1000
"""A limit on the number of spatial dimensions, larger than the rank of any array."""


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
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

    def __post_init__(self) -> None:
        set_integers(self)

    @classmethod
    def default(cls, spatial: int) -> ConvolutionDimensionNumbers:
        """Return the dimension numbers that `conv` uses for `spatial` spatial dimensions.

        The order is batch, features, spatial dimensions. In the kernel, output features come first.

        Raises:
            ShapeInferenceError: `spatial` is not an integer, is negative, or is too large.
        """
        count = integer(cls.__name__, "spatial", spatial)
        if not 0 <= count <= _MOST_SPATIAL:
            rule = f"spatial must be from 0 to {_MOST_SPATIAL}, got {count}"
            raise error_of(ShapeInferenceError, cls.__name__, rule)
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

ConvolutionDimensionNumbersLike = ConvolutionDimensionNumbers | str
"""ConvolutionDimensionNumbers, or a string like "b01f_01io->b01f"."""


def of_labels(labels: Sequence[Sequence[str]]) -> ConvolutionDimensionNumbers:
    """Return the dimension numbers with these labels of the input, the kernel and the output.

    Raises:
        ValueError: a label is missing.
    """
    fields: list[int | tuple[int, ...]] = []
    for part, letters in zip(labels, _LETTERS, strict=True):
        digits = [str(number) for number in range(len(part) - 2)]
        fields += [*map(part.index, letters), tuple(map(part.index, digits))]
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
