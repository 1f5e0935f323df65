"""Layouts: dimension order, tiles, element size and memory space; their text.

Each part of a layout's text, ``{1,0:T(8,128)(2,1)S(1)}``, is checked as it is read, so that an
error has its position.

Shapes and Layout: Layout.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from builder.errors import OperandError, ShapeInferenceError, ShapeTextError, brief
from builder.support.frames import without_internal_frames
from builder.types.text_reader import TextReader

MAX_DIMENSIONS: Final = 65536
"""An exclusive limit on the number of dimensions, so that infinite iterators are refused."""

COMBINE: Final = -1
"""The value of "*" in the dimensions of a tile: combine with the next more minor dimension."""

_MAX_NUMBER: Final = 2**63 - 1


class PaddingValue(enum.Enum):
    """The value of padding elements, with the names of ``xla_data.proto``.

    INVALID_PAD means unspecified, UNKNOWN_PAD any value; `pack` writes zeros for both.
    """

    INVALID_PAD = 0
    ZERO_PAD = 1
    ONE_PAD = 2
    LOWEST_PAD = 3
    HIGHEST_PAD = 4
    UNKNOWN_PAD = 5

    @property
    def text(self) -> str:
        """The name in layout text: "zero" for ZERO_PAD."""
        return self.name.removesuffix("_PAD").lower()


class Tile:
    """One level of tiling: the sizes of a tile over the most minor dimensions.

    Args:
        dimensions: sizes, the most major first; `COMBINE` (or "*") combines a dimension with the
            next more minor one before the array is tiled.

    Raises:
        ShapeInferenceError: a size is not a positive integer, or the last dimension is "*".

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

    @without_internal_frames
    def __init__(self, dimensions: Iterable[int | str]) -> None:
        sizes = []
        for size in _values("a tile", "a sequence of sizes, such as (8, 128)", dimensions):
            number = COMBINE if isinstance(size, str) and size == "*" else int_or_none(size)
            if number is None or (number < 1 and number != COMBINE) or number > _MAX_NUMBER:
                raise _error(
                    "the size of a tile must be a positive integer, or '*' to combine a "
                    "dimension with the next",
                    got=brief(size),
                )
            sizes.append(number)
        self.dimensions = tuple(sizes)
        if sizes and sizes[-1] == COMBINE:
            raise _error(
                "'*' combines a dimension with the next more minor one, so the last dimension of "
                "a tile can't be '*'",
                got=self,
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tile) and self.dimensions == other.dimensions

    def __hash__(self) -> int:
        return hash(self.dimensions)

    def __repr__(self) -> str:
        return f"({','.join(map(_size_text, self.dimensions))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Tile, (self.dimensions,))


class Layout:
    """The memory layout of an array.

    Args:
        minor_to_major: the dimension numbers, the fastest varying first; a permutation.
        tiles: `Tile` objects or their sizes, each applied to the result of the previous one.
        padded_dimensions: the padded sizes by dimension number, or None without padding. XLA no
            longer has this field: XLA can't compile such a shape, but its byte size is known.
        padding_value: the value of padding elements, including those of tiles.
        element_size_in_bits: the size of an element; 0 for the type's size rounded up to bytes.
        memory_space: the number of the memory space; 0 is the device's main memory.
        tail_padding_alignment_in_elements: pad the buffer to a multiple of this many elements.

    Raises:
        ShapeInferenceError: minor_to_major is not a permutation of 0 .. rank-1, the number of
            padded dimensions is not the rank, a tile has more dimensions than the array that it
            is applied to, or a number is out of range.

    Attributes:
        is_default: whether the order is major to minor and all other arguments are default.
        is_order_only: whether all arguments except minor_to_major are default.

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

    @without_internal_frames
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
            fix = f"write layout.parse_layout({brief(minor_to_major)})"
            raise _must_be("minor_to_major", what, minor_to_major, fix)
        numbers = _first_values("minor_to_major", what, minor_to_major)
        rank = len(numbers)
        order = tuple(d for d in map(int_or_none, numbers) if d is not None)
        if sorted(order) != list(range(rank)) or rank == MAX_DIMENSIONS:
            raise _error(
                f"minor_to_major must be a permutation of the dimensions 0 to {rank - 1}",
                got=f"{{{','.join(map(brief, numbers[:100]))}}}",
            )
        self.minor_to_major = order
        self.tiles = _tiles(rank, tiles)
        self.padded_dimensions = _padded(rank, padded_dimensions)
        if not isinstance(padding_value, PaddingValue):
            raise _error(
                "padding_value must be a PaddingValue",
                f"pass one of {', '.join(map(str, PaddingValue))}",
                brief(padding_value),
            )
        self.padding_value = padding_value
        self.element_size_in_bits = _number("element_size_in_bits", element_size_in_bits, 0)
        self.memory_space = _number("memory_space", memory_space, 0)
        self.tail_padding_alignment_in_elements = _number(
            "tail_padding_alignment_in_elements", tail_padding_alignment_in_elements, 1
        )
        parts = tuple(getattr(self, name) for name in _ARGUMENTS)
        self.is_order_only = parts[1:] == _DEFAULTS
        self.is_default = self.is_order_only and order == tuple(range(rank - 1, -1, -1))
        self._parts = parts
        self._hash = hash(parts)

    @without_internal_frames
    def replace(self, **changes: Any) -> Layout:
        """Return the layout with some of its arguments replaced.

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
        # In XLA's order.
        text = "T" + "".join(map(repr, self.tiles)) if self.tiles else ""
        if self.tail_padding_alignment_in_elements != 1:
            text += f"L({self.tail_padding_alignment_in_elements})"
        if self.element_size_in_bits:
            text += f"E({self.element_size_in_bits})"
        if self.memory_space:
            text += f"S({self.memory_space})"
        padded, value = self.padded_dimensions, self.padding_value
        if padded is not None or value is not PaddingValue.INVALID_PAD:
            # XLA has no text for padding.
            text += "pad" if padded is None else f"pad({','.join(map(str, padded))})"
            text += "" if value is PaddingValue.INVALID_PAD else f"={value.text}"
        return f"{{{order}:{text}}}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, self._parts)


_ARGUMENTS: Final = (
    "minor_to_major",
    "tiles",
    "padded_dimensions",
    "padding_value",
    "element_size_in_bits",
    "memory_space",
    "tail_padding_alignment_in_elements",
)

_DEFAULTS: Final = ((), None, PaddingValue.INVALID_PAD, 0, 0, 1)
"""The default values of all `Layout` arguments except minor_to_major."""


def _restored(*values: Any) -> Layout:
    return Layout(**dict(zip(_ARGUMENTS, values, strict=True)))


def _size_text(size: int) -> str:
    return "*" if size == COMBINE else str(size)


def in_order(values: Any) -> Iterator[Any] | None:
    """Return an iterator over an ordered iterable; None for strings, sets, mappings and ops."""
    # Iterating over an op records its elements.
    if hasattr(values, "opcode") or isinstance(values, (str, bytes, set, frozenset, Mapping)):
        return None
    try:
        iterator: Iterator[Any] = iter(values)
    except TypeError:
        return None
    return iterator


def _first_values(name: str, what: str, values: Any) -> Sequence[Any]:
    """Return at most `MAX_DIMENSIONS` of the values."""
    iterator = in_order(values)
    if iterator is None:
        raise _must_be(name, what, values)
    return tuple(islice(iterator, MAX_DIMENSIONS))


def _values(name: str, what: str, values: Any) -> Sequence[Any]:
    """Return the values, which must be fewer than `MAX_DIMENSIONS`."""
    result = _first_values(name, what, values)
    if len(result) == MAX_DIMENSIONS:
        raise _must_be(name, what, values)
    return result


def _error(rule: str, fix: str = "", got: object = None) -> ShapeInferenceError:
    return ShapeInferenceError(rule, op="layout", got=got, fix=fix)


def _must_be(name: str, what: str, value: Any, fix: str = "") -> ShapeInferenceError:
    return _error(f"{name} must be {what}", fix, brief(value))


def int_or_none(value: Any) -> int | None:
    """Return a Python or NumPy integer as an int; None for other values, including bools."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _number(name: str, value: Any, least: int) -> int:
    number = int_or_none(value)
    if number is None or not least <= number <= _MAX_NUMBER:
        raise _must_be(name, f"an integer from {least} to 2**63 - 1", value)
    return number


def _padded(rank: int, padded_dimensions: Any) -> tuple[int, ...] | None:
    if padded_dimensions is None:
        return None
    sizes = _values("padded_dimensions", "a sequence of sizes", padded_dimensions)
    if len(sizes) != rank:
        raise _error(
            "padded_dimensions must have one size for each dimension",
            got=f"{len(sizes)} for {_dimensions(rank)}",
        )
    return tuple(_number("each of padded_dimensions", size, 0) for size in sizes)


def _tiles(rank: int, tiles: Any) -> tuple[Tile, ...]:
    result: list[Tile] = []
    what = "a sequence of tiles, such as [(8, 128)]"
    if isinstance(tiles, Tile):
        raise _must_be("tiles", what, tiles, f"write tiles=[{tiles}]")
    for value in _values("tiles", what, tiles):
        if int_or_none(value) is not None or isinstance(value, str):
            is_one_tile = isinstance(tiles, (tuple, list))
            fix = f"write tiles=[{brief(tiles)}]" if is_one_tile else ""
            raise _must_be("tiles", what, tiles, fix)
        tile = value if isinstance(value, Tile) else Tile(value)
        rank = tiled_rank(rank, tile, result)
        result.append(tile)
    return tuple(result)


def tiled_rank(rank: int, tile: Tile, before: Sequence[Tile]) -> int:
    """Return the rank of an array after `tile` is applied.

    Args:
        rank: the rank of the array before `tile` is applied.
        tile: the tile.
        before: the tiles that were applied before `tile`, for messages.

    Raises:
        ShapeInferenceError: the tile has more dimensions than the array.
    """
    rank = max(rank, 1)  # XLA tiles a scalar as an array of one dimension
    length = len(tile.dimensions)
    if length > rank:
        tiles = f", which result from {''.join(map(repr, before[-10:]))}" if before else ""
        raise _error(
            "a tile can't have more dimensions than the array that it is applied to",
            got=f"{brief(tile)} for {_dimensions(rank)}{tiles}",
        )
    # A tiled dimension becomes two: tile, index in the tile. Combined ones are removed.
    return rank + length - 2 * tile.dimensions.count(COMBINE)


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"


Places = dict[str, list[int]]
"""Maps the name of each `Layout` argument to positions in the text.

An argument has one position, but tiles and padded dimensions have one position for each entry. The
position of "minor_to_major" is the position of the "{"."""


@without_internal_frames
def parse_layout(text: str) -> Layout:
    """Parse a layout in XLA's text form.

    Args:
        text: for instance ``"{1,0}"``, ``"{1,0:T(8,128)(2,1)}"`` or ``"{4,3,2,1,0:T(*,*,2,*,3)}"``.
            The properties after the colon may be in any order: T (tiles), L (tail padding
            alignment), E (element size in bits), S (memory space), and ``pad(3,5)=zero`` (padded
            dimensions and padding value), which XLA does not have. A space separates a padding
            value from the next property.

    Raises:
        ShapeTextError: the text is malformed or not a layout; the error has the position.
        OperandError: `text` is not a string.

    Example:
        >>> import builder as xb
        >>> xb.parse_layout("{1,0:T(8,128)S(1)E(4)}")
        {1,0:T(8,128)E(4)S(1)}
        >>> xb.parse_layout("{0,1:pad(3,5)=zero}").padded_dimensions
        (3, 5)

    Tiled layout.
    """
    if not isinstance(text, str):
        raise OperandError("expected a layout's text", got=brief(text), op="parse_layout")
    reader = TextReader(text, "layout text")
    if reader.token != "{":
        raise reader.fail("'{'")
    layout, _ = read_layout(reader)
    reader.end()
    return layout


def read_layout(reader: TextReader) -> tuple[Layout, Places]:
    """Read a layout, from its "{" to its "}", and the positions of its parts."""
    places: Places = {"minor_to_major": [reader.start]}
    reader.advance()
    layout = _read_order(reader)
    if reader.token == ":":
        reader.advance()
        seen: set[str] = set()
        while reader.token != "}":
            if reader.token in seen:
                raise reader.fault(f"a layout can't have {reader.token} twice")
            seen.add(reader.token)
            layout = _read_property(reader, layout, places)
    reader.advance()
    return layout, places


def _read_order(reader: TextReader) -> Layout:
    order: list[int] = []
    positions: list[int] = []
    while reader.token not in ("}", ":"):
        if order:
            reader.expect(",")
        positions.append(reader.start)
        order.append(reader.number("a dimension number"))
    try:
        return Layout(order)
    except ShapeInferenceError as error:
        # Not a permutation: report the first number that is out of range or repeated.
        seen: set[int] = set()
        at = reader.start
        for number, position in zip(order, positions, strict=True):
            if number in seen or number >= len(order):
                at = position
                break
            seen.add(number)
        raise error._as_kind(ShapeTextError, text=reader.text, position=at) from None


_NUMBERS: Final = {
    "E": "element_size_in_bits",
    "L": "tail_padding_alignment_in_elements",
    "S": "memory_space",
}

_UNSUPPORTED: Final = {
    "D": "level types of dimensions",
    "#": "an index type",
    "*": "a pointer type",
    "SC": "split configurations",
    "P": "a physical shape",
    "M": "a prefix of dynamic sizes",
}
"""Properties, by letter, that layouts of sparse, split or dynamic arrays have in XLA."""


def _read_property(reader: TextReader, layout: Layout, places: Places) -> Layout:
    letter = reader.token
    if letter in _UNSUPPORTED:
        raise reader.fault(f"{letter} ({_UNSUPPORTED[letter]}) is not supported in layouts")
    if letter == "T":
        return _read_tiles(reader, layout, places)
    if letter == "pad":
        return _read_padding(reader, layout, places)
    if letter not in _NUMBERS:
        raise reader.fail("T, L, E, S, pad or '}'")
    name = _NUMBERS[letter]
    reader.advance()
    reader.expect("(")
    places[name] = [reader.start]
    number = reader.number(f"a number for {name}")
    with reader.errors_at(places[name][0]):
        layout = layout.replace(**{name: number})
    reader.expect(")")
    return layout


def _read_tiles(reader: TextReader, layout: Layout, places: Places) -> Layout:
    reader.advance()
    if reader.token != "(":
        raise reader.fail("'('")
    tiles: list[Tile] = []
    rank = len(layout.minor_to_major)
    places["tiles"] = []
    while reader.token == "(":
        at = reader.start
        tile = _read_tile(reader)
        with reader.errors_at(at):
            rank = tiled_rank(rank, tile, tiles)
        places["tiles"].append(at)
        tiles.append(tile)
    with reader.errors_at(places["tiles"][0]):
        return layout.replace(tiles=tiles)


def _read_tile(reader: TextReader) -> Tile:
    sizes: list[int] = []
    last = reader.start
    reader.advance()
    while reader.token != ")":
        if sizes:
            reader.expect(",")
        last = reader.start
        if reader.token == "*":
            reader.advance()
            sizes.append(COMBINE)
            continue
        if reader.token == "-":
            raise reader.fault(
                "the size of a tile can't be negative; '*' combines a dimension with the next"
            )
        size = reader.number("the size of a tile or '*'")
        if size == 0:
            raise reader.fault("the size of a tile can't be zero", last)
        sizes.append(size)
    reader.advance()
    with reader.errors_at(last):
        return Tile(sizes)


def _read_padding(reader: TextReader, layout: Layout, places: Places) -> Layout:
    start = reader.start
    reader.advance()
    if reader.token not in ("(", "="):
        raise reader.fail("'(' or '='")
    if reader.token == "(":
        reader.advance()
        sizes: list[int] = []
        places["padded_dimensions"] = []
        while reader.token != ")":
            if sizes:
                reader.expect(",")
            places["padded_dimensions"].append(reader.start)
            sizes.append(reader.number("a padded size"))
        reader.advance()
        with reader.errors_at(start):
            layout = layout.replace(padded_dimensions=sizes)
    if reader.token == "=":
        reader.advance()
        values = {value.text: value for value in PaddingValue}
        if reader.token not in values:
            raise reader.fail(f"one of {', '.join(values)}")
        layout = layout.replace(padding_value=values[reader.advance()])
    return layout
