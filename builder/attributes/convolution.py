"""Which dimensions of a convolution are what: ConvolutionDimensionNumbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from builder.attributes.fields import set_integers
from builder.errors import ShapeInferenceError, brief

__all__ = ["ConvolutionDimensionNumbers", "ConvolutionDimensionNumbersLike"]

_OP: Final = "conv_general_dilated"
_TEXT: Final = r"([bf0-9]+)_([io0-9]+)->([bf0-9]+)"

_MOST_SPATIAL: Final = 1000
"""More than any array has."""


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """Which dimensions of the input, the kernel and the output of a convolution are what.

    ``ConvolutionDimensionNumbers.of("b01f_01io->b01f")`` says the same in HLO's short form: the
    dimensions of the input, the kernel and the output in their order, b for batch, f for feature,
    i and o for input and output feature, and the spatial ones by number.

    Attributes:
        input_batch_dimension: the dimension of lhs that numbers independent inputs.
        input_feature_dimension: the dimension of lhs that is summed over.
        input_spatial_dimensions: the dimensions of lhs that the window moves along.
        kernel_input_feature_dimension: the dimension of rhs that goes with lhs's features.
        kernel_output_feature_dimension: the dimension of rhs that numbers the output's features.
        kernel_spatial_dimensions: the dimensions of rhs that are the window, in the same order.
        output_batch_dimension: where the result has the batch.
        output_feature_dimension: where the result has the output features.
        output_spatial_dimensions: where the result has the positions of the window.

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
        from builder.check import integer  # inference builds on this module

        for name in self.__match_args__:
            if name.endswith("_dimensions"):
                set_integers(self, _OP, name)
            else:
                object.__setattr__(self, name, integer(_OP, name, getattr(self, name)))

    @classmethod
    def default(cls, spatial: int) -> ConvolutionDimensionNumbers:
        """Those of `conv`, for `spatial` spatial dimensions.

        Batch, features and then the spatial dimensions; output features first in the kernel.

        Raises:
            ShapeInferenceError: no number of dimensions.
        """
        from builder.check import integer  # inference builds on this module

        count = integer(_OP, "spatial", spatial)
        if not 0 <= count <= _MOST_SPATIAL:
            raise ShapeInferenceError(
                f"{_OP}: spatial must be from 0 to {_MOST_SPATIAL}, got {count}", op=_OP
            )
        places = tuple(range(2, 2 + count))
        return cls(0, 1, places, 1, 0, places, 0, 1, places)

    @classmethod
    def of(
        cls, value: ConvolutionDimensionNumbersLike, op: str = _OP
    ) -> ConvolutionDimensionNumbers:
        """`value` itself, or those that a text like ``"b01f_01io->b01f"`` stands for.

        Args:
            value: one or the other.
            op: for messages.

        Raises:
            ShapeInferenceError: it is neither.
        """
        if isinstance(value, ConvolutionDimensionNumbers):
            return value
        found = _of_text(value) if isinstance(value, str) else None
        if found is None:
            raise ShapeInferenceError(
                f"{op}: dimension_numbers must be ConvolutionDimensionNumbers or a text that "
                f"names each dimension of the input, the kernel and the output once, "
                f"got {brief(value)}\n"
                f'fix: write for instance "b01f_01io->b01f"',
                op=op,
            )
        return found

    def labels(self, rank: int) -> tuple[list[str], list[str], list[str]]:
        """What each dimension of the input, the kernel and the output is.

        Args:
            rank: how many dimensions each has; they must be numbered validly.
        """
        n = self
        source = {"b": n.input_batch_dimension, "f": n.input_feature_dimension}
        kernel = {"i": n.kernel_input_feature_dimension, "o": n.kernel_output_feature_dimension}
        result = {"b": n.output_batch_dimension, "f": n.output_feature_dimension}
        return (
            _labels(rank, n.input_spatial_dimensions, source),
            _labels(rank, n.kernel_spatial_dimensions, kernel),
            _labels(rank, n.output_spatial_dimensions, result),
        )

    def __str__(self) -> str:
        """HLO's short form, of numbers that are valid; else all fields."""
        rank = len(self.input_spatial_dimensions) + 2
        labels = self.labels(rank)
        texts = ["".join(part) for part in labels]
        if any("" in part for part in labels) or rank > 12:
            return repr(self)
        return f"{texts[0]}_{texts[1]}->{texts[2]}"


ConvolutionDimensionNumbersLike = ConvolutionDimensionNumbers | str
"""ConvolutionDimensionNumbers, or a text like "b01f_01io->b01f"."""


def _labels(rank: int, spatial: Sequence[int], letters: dict[str, int]) -> list[str]:
    found = [""] * rank
    for label, number in (letters | {str(i): n for i, n in enumerate(spatial)}).items():
        if 0 <= number < rank:
            found[number] = label
    return found


@lru_cache
def _of_text(text: str) -> ConvolutionDimensionNumbers | None:
    match = re.fullmatch(_TEXT, text)
    if match is None:
        return None
    spatial = [str(i) for i in range(len(match[1]) - 2)]
    wanted = [sorted([*spatial, *letters]) for letters in ("bf", "io", "bf")]
    if len(spatial) > 10 or [sorted(part) for part in match.groups()] != wanted:
        return None
    source, kernel, result = match.groups()
    return ConvolutionDimensionNumbers(
        source.index("b"),
        source.index("f"),
        tuple(map(source.index, spatial)),
        kernel.index("i"),
        kernel.index("o"),
        tuple(map(kernel.index, spatial)),
        result.index("b"),
        result.index("f"),
        tuple(map(result.index, spatial)),
    )
