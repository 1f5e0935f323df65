"""The meaning of the dimensions of images: `TensorFormat`.

XLA: pooling.h of the client library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.attributes.fields import set_integers
from builder.check import first_duplicate, integers, refusal
from builder.errors import ShapeInferenceError, error_of


@dataclass(frozen=True, slots=True)
class TensorFormat:
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

    def __post_init__(self) -> None:
        set_integers(self)
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
        """Return the entries of an argument for all dimensions.

        Args:
            op, name: the function and the argument, for messages.
            values: an entry for each dimension; or for each spatial one, and then the entries for
                the batch and the features are 1.

        Raises:
            ShapeInferenceError: the number of entries is a different one.
        """
        given = integers(op, name, values)
        if len(given) == self.rank:
            return given
        if len(given) != self.rank - 2:
            rule = (
                f"{name} must have an entry for each of the {self.rank} dimensions, or for each of "
                f"the {self.rank - 2} spatial ones, got {list(given)}"
            )
            raise error_of(ShapeInferenceError, op, rule)
        entries = [1] * self.rank
        for number, entry in zip(self.spatial_dimensions, given, strict=True):
            entries[number] = entry
        return tuple(entries)


TensorFormatLike = TensorFormat | str
"""A TensorFormat, or its text, such as "NHWC"."""
