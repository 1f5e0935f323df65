"""Padding of arrays and of windows: PaddingConfig, Padding."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, Literal

from builder.attributes.fields import construct, sequence_or_none, set_integers, unpackable
from builder.checking import integer, refusal
from builder.errors import brief
from builder.support.bundles import Bundle, bundle, set_fields


@bundle
class PaddingConfigDimension(Bundle):
    """The padding of one dimension.

    Attributes:
        edge_padding_low: the number of elements to add before the first element. A negative number
            removes elements.
        edge_padding_high: the number of elements to add after the last element. A negative number
            removes elements.
        interior_padding: the number of elements to add between adjacent elements; not negative.
    """

    edge_padding_low: int
    edge_padding_high: int
    interior_padding: int

    def __init__(
        self,
        edge_padding_low: int = 0,
        edge_padding_high: int = 0,
        interior_padding: int = 0,
    ) -> None:
        set_integers(self, edge_padding_low, edge_padding_high, interior_padding)

    def __str__(self) -> str:
        return f"({self.edge_padding_low}, {self.edge_padding_high}, {self.interior_padding})"


@bundle
class PaddingConfig(Bundle):
    """The padding of every dimension of an array.

    Attributes:
        dimensions: a PaddingConfigDimension for each dimension; a triple (low, high, interior)
            is converted to one.

    Example:
        >>> import builder as xb
        >>> xb.PaddingConfig([(1, 0, 2)]).dimensions[0].interior_padding
        2
    """

    dimensions: tuple[PaddingConfigDimension, ...]

    def __init__(self, dimensions: Sequence[PaddingConfigDimension | Sequence[int]] = ()) -> None:
        set_fields(self, _as_dimensions("PaddingConfig", dimensions))

    @classmethod
    def of(cls, value: PaddingConfigLike, op: str = "PaddingConfig") -> PaddingConfig:
        """Return `value` as a PaddingConfig; a sequence of triples is converted.

        Raises:
            ShapeInferenceError: `value` is neither a PaddingConfig nor a sequence of triples.
        """
        return value if isinstance(value, PaddingConfig) else cls(_as_dimensions(op, value))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.dimensions))}]"


def _as_dimensions(op: str, value: Any) -> tuple[PaddingConfigDimension, ...]:
    dimensions = sequence_or_none(value)
    if dimensions is None:
        rule = "padding_config must be a PaddingConfig or a sequence of (low, high, interior)"
        raise refusal(op, rule, value)
    return tuple([_padding_dimension(op, dimension) for dimension in dimensions])


def _padding_dimension(op: str, value: Any) -> PaddingConfigDimension:
    if isinstance(value, PaddingConfigDimension):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 3:
        return construct(PaddingConfigDimension, op, *value)
    fix = "write (low, high, interior) for each dimension, for instance [(1, 1, 0), (0, 0, 0)]"
    if isinstance(value, (list, tuple)) and len(value) == 2:
        low, high = map(brief, value)
        fix = f"write (low, high, interior) for each dimension: here ({low}, {high}, 0)"
    raise refusal(op, "the padding of a dimension must be three numbers", value, fix)


PaddingConfigLike = PaddingConfig | Sequence[PaddingConfigDimension | Sequence[int]]
"""A PaddingConfig, or for each dimension a triple (low, high, interior)."""


_MOST: Final = 2**63
_MOST_PAIRS: Final = 1000
"""The limit on the pairs that are read from an argument, which may be an infinite iterator."""


class Padding(enum.Enum):
    """Padding that is computed from the sizes of the array and of the window.

    SAME pads so that strides of 1 keep the sizes: the number of windows along a dimension is its
    size divided by the stride, rounded up. Half of the padding is added on each side, the odd
    element on the high side. VALID adds no padding, and windows that reach beyond the array are
    omitted.

    Example:
        >>> import builder as xb
        >>> xb.Padding.SAME
        Padding.SAME
    """

    SAME = "SAME"
    VALID = "VALID"

    # The keys of cached windows contain it, and the hash of enum.Enum is slow.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Padding.{self.name}"


PaddingLike = Padding | Literal["SAME", "VALID"] | Sequence[Sequence[int]]
"""A Padding or its name, or for each dimension a pair (low, high)."""


def padding_argument(
    op: str, value: Any, name: str = "padding"
) -> Padding | tuple[tuple[int, int], ...]:
    """Check and return the argument `padding` of an op: a Padding, or pairs (low, high).

    Raises:
        ShapeInferenceError: `value` is neither a Padding, nor its name, nor a sequence of pairs.
    """
    if isinstance(value, Padding):
        return value
    if type(value) is list or type(value) is tuple:
        # The usual argument, checked without calls.
        for pair in value:
            if type(pair) is not tuple or len(pair) != 2:
                break
            low, high = pair
            if type(low) is not int or type(high) is not int or abs(low) + abs(high) >= _MOST:
                break
        else:
            return tuple(value)
    if isinstance(value, str):
        if value.upper() in Padding.__members__:
            return Padding[value.upper()]
    elif isinstance(value, Iterable):
        try:
            entries = islice(unpackable(value), _MOST_PAIRS)
            pairs = [(low, high) for low, high in map(unpackable, entries)]
        except (TypeError, ValueError):
            pass  # an entry is not a pair
        else:
            each = f"each number of {name}"
            return tuple((integer(op, each, low), integer(op, each, high)) for low, high in pairs)
    if hasattr(value, "opcode"):
        fix = "write xb.Padding.SAME, xb.Padding.VALID or pairs of numbers"
        raise refusal(op, f"{name} must be compile-time integers", value, fix)
    raise refusal(
        op,
        f"{name} must be Padding.SAME, Padding.VALID, or a pair (low, high) for each dimension of "
        "the window",
        value,
        f"write for instance {name}='SAME', or {name}=[(1, 1), (0, 2)] for two dimensions",
    )


def dilated(size: int, dilation: int) -> int:
    """Return a size after adding ``dilation - 1`` holes between adjacent elements; 0 remains 0."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def explicit_padding(
    padding: Padding,
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> tuple[tuple[int, int], ...]:
    """Return the padding as a pair (low, high) for each dimension.

    Args:
        padding: SAME or VALID.
        sizes: the sizes of the array that the window moves over. With a stride and a base dilation
            of 1, the padding does not depend on the size, which may be unbounded.
        window: the sizes of the window.
        strides: the distances between windows; positive.
        base_dilations, window_dilations: the distances between elements of the array and of the
            window; positive, 1 by default.

    Example:
        >>> import builder as xb
        >>> from builder.attributes.padding import explicit_padding
        >>> explicit_padding(xb.Padding.SAME, [5, 6], [3, 4], [2, 1])
        ((1, 1), (1, 2))
    """
    ones = (1,) * len(sizes)
    if padding is Padding.VALID:
        return ((0, 0),) * len(sizes)
    pairs = []
    for size, width, stride, base, spread in zip(
        sizes, window, strides, base_dilations or ones, window_dilations or ones, strict=True
    ):
        reach = dilated(width, spread)
        if stride == base == 1:
            padded = max(reach - 1, 0)
        else:
            length = dilated(size, base)
            windows = -(-length // stride)
            padded = max((windows - 1) * stride + reach - length, 0)
        pairs.append((padded // 2, padded - padded // 2))
    return tuple(pairs)
