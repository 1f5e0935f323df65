"""What a layout says: the order of the dimensions, their padding, tiles, element size, memory.

Shapes and Layout: Layout; Tiled layout.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from builder.errors import ShapeInferenceError, brief

__all__ = [
    "COMBINE",
    "MOST_DIMENSIONS",
    "Layout",
    "PaddingValue",
    "Tile",
    "in_order",
    "int_or_none",
    "tiled_rank",
]

MOST_DIMENSIONS: Final = 65536
"""More than any array has: of a range or an iterator that goes on no more is read than this."""

COMBINE: Final = -1
"""What stands for "*" in the dimensions of a tile: combined with the next more minor dimension."""

_GREATEST: Final = 2**63 - 1


class PaddingValue(enum.Enum):
    """What the elements hold that padding adds, by the names of ``xla_data.proto``.

    INVALID_PAD means that nothing was said, UNKNOWN_PAD that it may be anything; `pack` fills with
    zeros then.
    """

    INVALID_PAD = 0
    ZERO_PAD = 1
    ONE_PAD = 2
    LOWEST_PAD = 3
    HIGHEST_PAD = 4
    UNKNOWN_PAD = 5

    @property
    def text(self) -> str:
        """The name in layouts' text: "zero" for ZERO_PAD."""
        return self.name.removesuffix("_PAD").lower()


class Tile:
    """One level of tiling: the sizes of a tile, over the most minor dimensions.

    Args:
        dimensions: sizes, the most major first; `COMBINE` (or "*") for a dimension that is
            combined with the next more minor one before the array is tiled.

    Raises:
        ShapeInferenceError: a size that is zero, negative or no whole number; "*" for the last
            dimension, which has no more minor one.

    Example:
        >>> import builder as xb
        >>> xb.Tile([8, 128])
        (8,128)
        >>> xb.Tile(["*", "*", 2, "*", 3]).dimensions
        (-1, -1, 2, -1, 3)

    Tiled layout: Tiling formats; Combining dimensions using tiles.
    """

    __slots__ = ("dimensions",)

    dimensions: tuple[int, ...]

    def __init__(self, dimensions: Iterable[int | str]) -> None:
        sizes = []
        for size in _each("a tile", "a sequence of sizes, such as (8, 128)", dimensions):
            number = COMBINE if isinstance(size, str) and size == "*" else int_or_none(size)
            if number is None or (number < 1 and number != COMBINE) or number > _GREATEST:
                raise ShapeInferenceError(
                    f"layout: the size of a tile is a positive number, or '*' to combine a "
                    f"dimension with the next, got {brief(size)}",
                    op="layout",
                )
            sizes.append(number)
        if sizes and sizes[-1] == COMBINE:
            raise ShapeInferenceError(
                "layout: '*' combines a dimension with the next more minor one, which the last "
                f"of a tile has not, got ({','.join(_size_text(s) for s in sizes)})",
                op="layout",
            )
        self.dimensions = tuple(sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tile) and self.dimensions == other.dimensions

    def __hash__(self) -> int:
        return hash(self.dimensions)

    def __repr__(self) -> str:
        return f"({','.join(map(_size_text, self.dimensions))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Tile, (self.dimensions,))


class Layout:
    """How an array lies in memory.

    Args:
        minor_to_major: the dimension numbers, the fastest varying first; a permutation.
        tiles: the tiles, each applied to what the one before gave: `Tile` objects or their sizes.
        padded_dimensions: sizes that the dimensions are padded to, by dimension number; None
            where they are not padded. (XLA itself has no such layouts any more: they can be
            computed with, not compiled.)
        padding_value: what padding holds, that of tiles too.
        element_size_in_bits: bits that an element takes; 0 for a whole number of bytes that holds
            it.
        memory_space: the number of the memory that the array is in; 0 is the device's main one.
        tail_padding_alignment_in_elements: the buffer is padded to a multiple of so many elements.

    Raises:
        ShapeInferenceError: not a permutation of 0 .. rank-1; another number of padded dimensions;
            a tile longer than what it is applied to has dimensions; a size out of range.

    Attributes:
        is_default: major to minor, and nothing else said.
        is_order_only: nothing said but minor_to_major.

    Example:
        >>> import builder as xb
        >>> xb.Layout([0, 1])
        {0,1}
        >>> xb.Layout([1, 0]).is_default
        True
        >>> xb.Layout([1, 0], tiles=[(8, 128), (2, 1)], memory_space=1)
        {1,0:T(8,128)(2,1)S(1)}

    Shapes and Layout: Layout; Tiled layout.
    """

    __slots__ = (
        "_hash",
        "_parts",
        "element_size_in_bits",
        "is_default",
        "is_order_only",
        "memory_space",
        "minor_to_major",
        "padded_dimensions",
        "padding_value",
        "tail_padding_alignment_in_elements",
        "tiles",
    )

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...]
    padded_dimensions: tuple[int, ...] | None
    padding_value: PaddingValue
    element_size_in_bits: int
    memory_space: int
    tail_padding_alignment_in_elements: int
    is_default: bool
    is_order_only: bool
    _parts: tuple[Any, ...]
    _hash: int

    def __init__(
        self,
        minor_to_major: Iterable[int],
        *,
        tiles: Iterable[Tile | Iterable[int | str]] = (),
        padded_dimensions: Iterable[int] | None = None,
        padding_value: PaddingValue = PaddingValue.INVALID_PAD,
        element_size_in_bits: int = 0,
        memory_space: int = 0,
        tail_padding_alignment_in_elements: int = 1,
    ) -> None:
        what = "a sequence of dimension numbers"
        if isinstance(minor_to_major, str) and minor_to_major.strip().startswith("{"):
            fix = f"parse_layout({brief(minor_to_major)})"
            raise _is_not("minor_to_major", what, minor_to_major, fix)
        given = _first("minor_to_major", what, minor_to_major)
        rank = len(given)
        order = tuple(d for d in map(int_or_none, given) if d is not None)
        if sorted(order) != list(range(rank)) or rank == MOST_DIMENSIONS:
            raise ShapeInferenceError(
                f"layout: minor_to_major must be a permutation of the dimensions "
                f"0 to {rank - 1}, got {{{','.join(map(brief, given[:100]))}}}",
                op="layout",
            )
        self.minor_to_major = order
        self.tiles = _tiles(rank, tiles)
        self.padded_dimensions = _padded(rank, padded_dimensions)
        if not isinstance(padding_value, PaddingValue):
            raise ShapeInferenceError(
                f"layout: padding_value must be a PaddingValue, got {brief(padding_value)}\n"
                f"fix: one of {', '.join(map(str, PaddingValue))}",
                op="layout",
            )
        self.padding_value = padding_value
        self.element_size_in_bits = _number("element_size_in_bits", element_size_in_bits, 0)
        self.memory_space = _number("memory_space", memory_space, 0)
        self.tail_padding_alignment_in_elements = _number(
            "tail_padding_alignment_in_elements", tail_padding_alignment_in_elements, 1
        )
        parts = (
            order,
            self.tiles,
            self.padded_dimensions,
            padding_value,
            self.element_size_in_bits,
            self.memory_space,
            self.tail_padding_alignment_in_elements,
        )
        self.is_order_only = parts[1:] == _NOTHING_ELSE
        self.is_default = self.is_order_only and order == tuple(range(rank - 1, -1, -1))
        # Shapes look their layouts up by these.
        self._parts = parts
        self._hash = hash(parts)

    def replace(self, **changes: Any) -> Layout:
        """The same layout with other values for some of the arguments it is made with.

        Example:
            >>> import builder as xb
            >>> xb.Layout([1, 0], tiles=[(8, 128)]).replace(memory_space=1)
            {1,0:T(8,128)S(1)}
        """
        return Layout(**{**dict(zip(_ARGUMENTS, self._parts, strict=True)), **changes})

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Layout) and self._parts == other._parts)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        order = ",".join(map(str, self.minor_to_major))
        if self.is_order_only:
            return f"{{{order}}}"
        # In the order in which XLA writes them.
        rest = "T" + "".join(map(repr, self.tiles)) if self.tiles else ""
        if self.tail_padding_alignment_in_elements != 1:
            rest += f"L({self.tail_padding_alignment_in_elements})"
        if self.element_size_in_bits:
            rest += f"E({self.element_size_in_bits})"
        if self.memory_space:
            rest += f"S({self.memory_space})"
        padded, value = self.padded_dimensions, self.padding_value
        if padded is not None or value is not PaddingValue.INVALID_PAD:
            # No text of XLA's: it had no words for padding when its layouts had any.
            rest += "pad" if padded is None else f"pad({','.join(map(str, padded))})"
            rest += "" if value is PaddingValue.INVALID_PAD else f"={value.text}"
        return f"{{{order}:{rest}}}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, self._parts)


# In the order of `Layout._parts`.
_ARGUMENTS: Final = (
    "minor_to_major",
    "tiles",
    "padded_dimensions",
    "padding_value",
    "element_size_in_bits",
    "memory_space",
    "tail_padding_alignment_in_elements",
)

_NOTHING_ELSE: Final = ((), None, PaddingValue.INVALID_PAD, 0, 0, 1)
"""The values of all arguments but the order, where nothing was said."""


def _restored(*values: Any) -> Layout:
    return Layout(**dict(zip(_ARGUMENTS, values, strict=True)))


def _size_text(size: int) -> str:
    return "*" if size == COMBINE else str(size)


def in_order(values: Any) -> Iterator[Any] | None:
    """The values one after the other; None of what has no order, or is no collection of any."""
    # Of an op each element would be recorded.
    if hasattr(values, "opcode") or isinstance(values, (str, bytes, set, frozenset, Mapping)):
        return None
    try:
        each: Iterator[Any] = iter(values)
    except TypeError:
        return None
    return each


def _first(name: str, what: str, values: Any) -> Sequence[Any]:
    """The first `MOST_DIMENSIONS` of some values."""
    each = in_order(values)
    if each is None:
        raise _is_not(name, what, values)
    return tuple(islice(each, MOST_DIMENSIONS))


def _each(name: str, what: str, values: Any) -> Sequence[Any]:
    """The values, which must be fewer than `MOST_DIMENSIONS`."""
    found = _first(name, what, values)
    if len(found) == MOST_DIMENSIONS:
        raise _is_not(name, what, values)
    return found


def _is_not(name: str, what: str, value: Any, fix: str = "") -> ShapeInferenceError:
    text = f"layout: {name} is {what}, got {brief(value)}" + (f"\nfix: {fix}" if fix else "")
    return ShapeInferenceError(text, op="layout")


def int_or_none(value: Any) -> int | None:
    """`value` as an int, if it is a whole number of Python's or NumPy's; True is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _number(name: str, value: Any, least: int) -> int:
    number = int_or_none(value)
    if number is None or not least <= number <= _GREATEST:
        raise _is_not(name, f"a whole number from {least} to 2**63 - 1", value)
    return number


def _padded(rank: int, padded_dimensions: Any) -> tuple[int, ...] | None:
    if padded_dimensions is None:
        return None
    sizes = _each("padded_dimensions", "a sequence of sizes", padded_dimensions)
    if len(sizes) != rank:
        raise ShapeInferenceError(
            f"layout: padded_dimensions must be as many as there are dimensions, "
            f"got {len(sizes)} for {_dimensions(rank)}",
            op="layout",
        )
    return tuple(_number("each of padded_dimensions", size, 0) for size in sizes)


def _tiles(rank: int, tiles: Any) -> tuple[Tile, ...]:
    given: list[Tile] = []
    what = "a sequence of tiles, such as [(8, 128)]"
    if isinstance(tiles, Tile):
        raise _is_not("tiles", what, tiles, f"tiles=[{tiles}]")
    for each in _each("tiles", what, tiles):
        if int_or_none(each) is not None or isinstance(each, str):
            is_one = isinstance(tiles, (tuple, list))  # one tile, most often
            raise _is_not("tiles", what, tiles, f"tiles=[{brief(tiles)}]" if is_one else "")
        tile = each if isinstance(each, Tile) else Tile(each)
        rank = tiled_rank(rank, tile, given)
        given.append(tile)
    return tuple(given)


def tiled_rank(rank: int, tile: Tile, before: Sequence[Tile]) -> int:
    """How many dimensions an array of `rank` has when it is tiled, after the tiles `before`.

    Raises:
        ShapeInferenceError: the tile has more dimensions than the array.
    """
    rank = max(rank, 1)  # XLA tiles scalars too: as arrays of one dimension
    length = len(tile.dimensions)
    if length > rank:
        raise ShapeInferenceError(
            "layout: a tile has at most as many dimensions as what it is applied to, "
            f"got {brief(tile)} for {_dimensions(rank)}"
            + (f" (after {''.join(map(repr, before[-10:]))})" if before else ""),
            op="layout",
        )
    # Of each dimension that is tiled come two: which tile, and where in it; those that are
    # combined with another are gone.
    return rank + length - 2 * tile.dimensions.count(COMBINE)


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"
