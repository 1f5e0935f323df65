"""What objects show in notebooks and terminals, as plain data.

An object returns a list of parts, such as tables and program texts. `builder.inspection.html` and
`builder.inspection.rendering` render them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: the heading.
        is_number: whether the column is right-aligned.
        no_wrap: whether cells are never wrapped.
        style: a rich style, or "" for the default style.
    """

    name: str
    is_number: bool = False
    no_wrap: bool = False
    style: str = ""


class TextTable(NamedTuple):
    """A table of text cells.

    Attributes:
        title: the line above the table, or "".
        columns: the columns.
        rows: the cells, row by row.
        caption: the lines below the table, or "".
        hovers: for each row the text that a notebook shows under the mouse; () for none.
    """

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    hovers: Sequence[str] = ()


class Heading(NamedTuple):
    """The kind and the name of an object, and a description of one line or ""."""

    kind: str
    name: str
    description: str = ""


class ProgramText(NamedTuple):
    """The text of a program in HLO or MLIR; a long text is truncated.

    Attributes:
        text: the text.
        everything: the expression that prints all of it, for the note below a truncated text.
    """

    text: str
    everything: str


class Segment(NamedTuple):
    """A part of a bar: its name, its length, and its length with a unit."""

    name: str
    amount: float
    text: str


class Bar(NamedTuple):
    """A bar of several segments, such as the parts of a memory.

    Attributes:
        title: the text before the bar.
        segments: the segments, from left to right.
    """

    title: str
    segments: Sequence[Segment]


class Cell(NamedTuple):
    """A cell of a grid: its text, and the number of its colour."""

    text: str
    colour: int


class CellGrid(NamedTuple):
    """A grid of coloured cells, such as the parts of an array with the devices that have them.

    Attributes:
        title: the line above the grid, or "".
        columns: the heading of each column.
        rows: the heading and the cells of each row.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


class SideBySideRow(NamedTuple):
    """A row of a comparison of two texts.

    Attributes:
        sign: "-" for removed, "+" for added, "~" for changed, "" for a heading.
        before, after: the lines on both sides; "" for none.
    """

    sign: str
    before: str
    after: str


class SideBySide(NamedTuple):
    """Two texts side by side.

    Attributes:
        before, after: the headings.
        rows: the lines of both texts.
        lines: the same in one column, for terminals: pairs of a sign and a line.
    """

    before: str
    after: str
    rows: Sequence[SideBySideRow]
    lines: Sequence[tuple[str, str]]


class SvgPicture(NamedTuple):
    """A picture; its texts are escaped.

    Attributes:
        svg: the picture.
        text: what a terminal shows; "" for a note on how to see the picture.
        pans: whether a notebook moves and zooms the picture with the mouse.
    """

    svg: str
    text: str = ""
    pans: bool = False


class Fold(NamedTuple):
    """Parts that a notebook shows after a click on the summary; a terminal omits them."""

    summary: str
    parts: Sequence[Part]


Part = TextTable | Heading | ProgramText | Bar | CellGrid | SideBySide | SvgPicture | Fold | str
"""A part of what an object shows; a string is a paragraph."""
