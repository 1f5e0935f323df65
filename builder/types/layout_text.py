"""Reading the text form of layouts: ``{1,0:T(8,128)(2,1)S(1)}``.

What a part says is checked where it is read, so that an error knows its position.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from builder.errors import OperandError, ShapeInferenceError, ShapeTextError, brief
from builder.types.layout import COMBINE, Layout, PaddingValue, Tile, tiled_rank
from builder.types.text_reader import TextReader

__all__ = ["Places", "parse_layout", "read_layout"]

Places = dict[str, list[int]]
"""Where the parts of a layout stand in its text, by the names of `Layout`'s arguments: each tile,
each padded dimension, the numbers of the others; and under "minor_to_major" the "{"."""


def parse_layout(text: str) -> Layout:
    """Reads a layout from XLA's text form.

    Args:
        text: for instance ``"{1,0}"``, ``"{1,0:T(8,128)(2,1)}"`` or ``"{4,3,2,1,0:T(*,*,2,*,3)}"``.
            After the colon may stand T (tiles), L (tail padding alignment), E (element size in
            bits), S (memory space), and, in no text of XLA's, ``pad(3,5)=zero`` (padded
            dimensions and padding value; behind the value a space, if more follows), in any
            order.

    Raises:
        ShapeTextError: malformed text, or no layout; says at which position.
        OperandError: no string.

    Example:
        >>> import builder as xb
        >>> xb.parse_layout("{1,0:T(8,128)S(1)E(4)}")
        {1,0:T(8,128)E(4)S(1)}
        >>> xb.parse_layout("{0,1:pad(3,5)=zero}").padded_dimensions
        (3, 5)

    Tiled layout.
    """
    if not isinstance(text, str):
        raise OperandError(f"parse_layout: expected a layout's text, got {brief(text)}")
    reader = TextReader(text, "layout text")
    if reader.token != "{":
        raise reader.fail("'{'")
    layout, _ = read_layout(reader)
    reader.end()
    return layout


def read_layout(reader: TextReader) -> tuple[Layout, Places]:
    """The layout whose "{" the reader stands at, and its places; it then stands behind the "}"."""
    places: Places = {"minor_to_major": [reader.start]}
    reader.advance()
    layout = _read_order(reader)
    if reader.token == ":":
        reader.advance()
        seen: set[str] = set()
        while reader.token != "}":
            if reader.token in seen:
                raise reader.fault(f"{reader.token} stands twice in a layout")
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
        # Of what is no permutation one number is too large, or stands there again.
        seen: set[int] = set()
        at = reader.start
        for number, position in zip(order, positions, strict=True):
            if number in seen or number >= len(order):
                at = position
                break
            seen.add(number)
        raise ShapeTextError(str(error), text=reader.text, position=at) from None


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
"""What XLA writes in layouts of sparse, split or dynamic arrays."""


def _read_property(reader: TextReader, layout: Layout, places: Places) -> Layout:
    """The layout with what the next property says."""
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
    with _refused_at(reader, places[name][0]):
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
        with _refused_at(reader, at):
            rank = tiled_rank(rank, tile, tiles)
        places["tiles"].append(at)
        tiles.append(tile)
    with _refused_at(reader, places["tiles"][0]):
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
    with _refused_at(reader, last):
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
        with _refused_at(reader, start):
            layout = layout.replace(padded_dimensions=sizes)
    if reader.token == "=":
        reader.advance()
        values = {value.text: value for value in PaddingValue}
        if reader.token not in values:
            raise reader.fail(f"one of {', '.join(values)}")
        layout = layout.replace(padding_value=values[reader.advance()])
    return layout


@contextmanager
def _refused_at(reader: TextReader, position: int) -> Iterator[None]:
    """Says of a refusal inside that what stands at `position` is refused."""
    try:
        yield
    except ShapeInferenceError as error:
        raise ShapeTextError(str(error), text=reader.text, position=position) from None
