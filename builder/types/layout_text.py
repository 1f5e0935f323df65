"""The parser of layout text: ``{1,0:T(8,128)(2,1)S(1)}``.

Each part is checked as it is read, so that an error has its position.
"""

from __future__ import annotations

from typing import Final

from builder.errors import OperandError, ShapeInferenceError, ShapeTextError, brief
from builder.types.layout import COMBINE, Layout, PaddingValue, Tile, tiled_rank
from builder.types.text_reader import TextReader

Places = dict[str, list[int]]
"""Maps the name of each `Layout` argument to positions in the text.

An argument has one position, but tiles and padded dimensions have one position for each entry. The
position of "minor_to_major" is the position of the "{"."""


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
        raise OperandError(f"expected a layout's text, got {brief(text)}", op="parse_layout")
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
        raise error.as_kind(ShapeTextError, text=reader.text, position=at) from None


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
