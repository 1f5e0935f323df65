"""Render what objects show as text and as rich renderables.

The package `rich` is imported only for colours.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from builder.inspection.parts import (
    Bar,
    CellGrid,
    Column,
    Fold,
    Heading,
    Part,
    ProgramText,
    SideBySide,
    SvgPicture,
    TextTable,
)
from builder.support.display import Displayed

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


_WORD: Final = re.compile(r"\s*\S+\s*")


def cell_width(text: str) -> int:
    """Return the number of columns of a terminal that a text takes.

    Example:
        >>> cell_width("shape"), cell_width("形状")
        (5, 4)
    """
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, at most `width` columns wide; words that are longer are folded.

    Example:
        >>> wrapped("the longest line", 8)
        ['the', 'longest', 'line']
    """
    if cell_width(text) <= width:
        return [text.rstrip()]
    lines = [""]
    for match in _WORD.finditer(text):
        word = match[0]
        size = cell_width(word.rstrip())
        if cell_width(lines[-1]) + size <= width:
            lines[-1] += word
        elif size <= width:
            lines.append(word)
        else:
            lines += _folded(word, width)
    return [line.rstrip() for line in lines if line] or [""]


def _folded(word: str, width: int) -> list[str]:
    """Cut a word in parts of at most `width` columns."""
    parts, used = [""], 0
    for character in word:
        size = _character_width(character)
        if used + size > width and parts[-1]:
            parts.append("")
            used = 0
        parts[-1] += character
        used += size
    return parts


def _cropped(line: str, width: int) -> str:
    if cell_width(line) <= width:
        return line
    return _folded(line, width)[0] if width else ""


class _Layout(NamedTuple):
    """The place of a column in a line.

    Attributes:
        column: the column.
        left, right: the number of spaces on both sides of a cell.
        total: the width of the cells with these spaces; less if there is no place for them.
    """

    column: Column
    left: int
    right: int
    total: int

    @property
    def width(self) -> int:
        return max(self.total - self.left - self.right, 0)

    def lines(self, cell: str) -> list[str]:
        if self.column.no_wrap or cell_width(cell) <= self.width:
            return [cell]
        return wrapped(cell, self.width) if self.width else [""]

    def padded(self, line: str) -> str:
        """Return a line of a cell with the spaces around it."""
        if self.column.is_number:
            line = line.rstrip()
        line = _cropped(line, self.width)
        space = " " * (self.width - cell_width(line))
        text = space + line if self.column.is_number else line + space
        return _cropped(f"{' ' * self.left}{text}{' ' * self.right}", self.total)


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the lines of a table at most `width` columns wide, with headings if a column has one.

    If the table is too wide, the cells of the widest columns are wrapped.
    """
    has_header = any(column.name for column in columns)
    divider = " " if has_header else ""
    before, after = (1, 1) if has_header else (0, 3)
    last = len(columns) - 1
    left = [before if number else 0 for number in range(len(columns))]
    right = [after if number < last else 0 for number in range(len(columns))]
    available = width - len(divider) * last
    sizes = [
        max(map(cell_width, [column.name, *(row[number] for row in rows)]))
        for number, column in enumerate(columns)
    ]
    natural = [max(sum(parts), 1) for parts in zip(left, sizes, right, strict=True)]
    natural = [min(size, available) for size in natural]
    widths = _fitting(natural, [not column.no_wrap for column in columns], available)
    layouts = [_Layout(*parts) for parts in zip(columns, left, right, widths, strict=True)]
    lines: list[str] = []
    if has_header:
        lines += _row_lines(layouts, [column.name for column in columns], divider, at_top=False)
        lines.append("─" * (sum(widths) + len(divider) * last))
    for row in rows:
        lines += _row_lines(layouts, row, divider)
    return [_cropped(line, width).rstrip() for line in lines]


def _row_lines(
    layouts: Sequence[_Layout], row: Sequence[str], divider: str, *, at_top: bool = True
) -> Iterator[str]:
    cells = [layout.lines(cell) for layout, cell in zip(layouts, row, strict=True)]
    height = max(map(len, cells))
    for number in range(height):
        parts = []
        for layout, lines in zip(layouts, cells, strict=True):
            place = number if at_top else number - height + len(lines)
            parts.append(layout.padded(lines[place] if 0 <= place < len(lines) else ""))
        yield divider.join(parts)


def _fitting(widths: list[int], wraps: Sequence[bool], available: int) -> list[int]:
    """Return the widths of columns, reduced to at most `available` together.

    The widest of the columns that wrap are reduced to one width, and all columns if that is not
    enough.
    """
    excess = sum(widths) - available
    while excess > 0:
        sizes = [width for width, wrap in zip(widths, wraps, strict=True) if wrap]
        widest = max(sizes, default=0)
        step = widest - max((size for size in sizes if size < widest), default=0)
        if not step:
            break
        is_widest = [wrap and size == widest for size, wrap in zip(widths, wraps, strict=True)]
        widths = _reduced(widths, is_widest, excess, [min(excess, step)] * len(widths))
        excess = sum(widths) - available
    if excess > 0:
        widths = _reduced(widths, [True] * len(widths), excess, widths)
    return widths


def _reduced(
    widths: Sequence[int], chosen: Sequence[bool], excess: int, most: Sequence[int]
) -> list[int]:
    """Subtract `excess` from the chosen widths in equal parts, from each at most `most`."""
    reduced = []
    count = sum(is_chosen and limit > 0 for is_chosen, limit in zip(chosen, most, strict=True))
    for width, is_chosen, limit in zip(widths, chosen, most, strict=True):
        part = 0
        if is_chosen and limit > 0:
            part = min(limit, round(excess / count))
            excess -= part
            count -= 1
        reduced.append(width - part)
    return reduced


_WIDTH_WITHOUT_TERMINAL: Final = 120


TRUNCATED: Final = 1000
"""The number of lines of a text that are shown."""

_MAX_LINE: Final = 2000


class Printable(Displayed):
    """Base class of objects that also print their parts as text."""

    __slots__ = ()

    def __str__(self) -> str:
        return text_of(
            self._parts(), shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
        )


def printable(text: str) -> str:
    """Escape the characters that would move a terminal's cursor or change its colours."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def truncated(part: ProgramText) -> tuple[list[str], str]:
    """Return the first lines of a program text, long lines truncated, and a note or ""."""
    lines = part.text.rstrip("\n").split("\n")
    omitted = len(lines) - TRUNCATED
    note = f"{omitted:,} more lines; {part.everything} prints all" if omitted > 0 else ""
    shown = [
        line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}..." for line in lines[:TRUNCATED]
    ]
    return shown, note


Span = tuple[str, str]
"""A text, and its rich style or ""."""

Block = list[Span] | TextTable
"""A paragraph, or a table without title and caption."""


def rich_of(parts: Iterable[Part]) -> Group:
    """Return the parts as a rich renderable.

    Raises:
        ImportError: rich is not installed.
    """
    try:
        from rich.console import Group
        from rich.text import Text
    except ImportError as error:
        raise ImportError(
            f"colours require rich, which can't be imported: {error}\n"
            f"fix: run `pip install rich`, or use print instead of rich.print"
        ) from error
    shown: list[Any] = []
    for part in parts:
        for block in _blocks(part):
            if isinstance(block, TextTable):
                shown.append(rich_table(block.columns, block.rows))
            else:
                shown.append(Text.assemble(*block))
        shown.append(Text(""))
    return Group(*shown[:-1])


def _blocks(part: Part) -> Iterator[Block]:
    """Yield what a terminal shows of a part."""
    match part:
        case str():
            yield [("\n".join(map(printable, part.split("\n"))), "italic")]
        case Heading(kind, name, description):
            yield [(kind, "bold"), (f" {printable(name)}", "")]
            if description:
                yield [(printable(description), "")]
        case TextTable(title, columns, rows, caption):
            if title:
                yield [(printable(title), "bold")]
            if rows:
                yield TextTable("", columns, rows)
            if caption:
                yield from _blocks(caption)
        case ProgramText():
            lines, note = truncated(part)
            yield [("\n".join(map(printable, lines)), "")]
            if note:
                yield from _blocks(note)
        case Bar(title, segments):
            total = sum(segment.amount for segment in segments) or 1
            rows = [
                [segment.name, segment.text, "█" * round(40 * segment.amount / total)]
                for segment in segments
            ]
            columns = (Column(""), Column("", is_number=True), Column("", style="blue"))
            yield [(printable(title), "")]
            yield TextTable("", columns, rows)
        case CellGrid(title, headings, cells):
            if title:
                yield [(printable(title), "")]
            rows = [[name, *[cell.text for cell in row]] for name, row in cells]
            yield TextTable("", (Column(""), *map(Column, headings)), rows)
        case SideBySide():
            yield _colored_lines(part.lines)
        case SvgPicture(_, text):
            yield [(text or "a notebook shows the picture; save(path) writes it", "")]
        case Fold(summary):
            yield [(f"▸ {printable(summary)}", "")]


def rich_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> Table:
    """Return a rich table, with headings if any column has a name."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    has_header = any(column.name for column in columns)
    table = Table(
        box=box.SIMPLE if has_header else None,
        pad_edge=False,
        show_edge=False,
        show_header=has_header,
        padding=(0, 1) if has_header else (0, 3, 0, 0),
    )
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            no_wrap=column.no_wrap,
            overflow="fold",
            style=column.style or None,
        )
    for row in rows:
        # As Text, because rich reads "[2,3]" in a str as a style.
        table.add_row(*[Text(printable(str(cell))) for cell in row])
    return table


def text_of(parts: Iterable[Part], width: int) -> str:
    """Return the parts as text without colours, at most `width` columns wide.

    The text is that of rich, which takes long for large tables.
    """
    lines: list[str] = []
    for part in parts:
        for block in _blocks(part):
            if isinstance(block, TextTable):
                rows = [[printable(str(cell)) for cell in row] for row in block.rows]
                lines += table_lines(block.columns, rows, width)
            else:
                text = "".join([text for text, _ in block])
                lines += chain.from_iterable(wrapped(line, width) for line in text.split("\n"))
        lines.append("")
    return "\n".join(lines[:-1])


_LINE_STYLES: Final = {"-": "red", "+": "green", "~": "yellow", "": "bold"}


def _colored_lines(lines: Iterable[tuple[str, str]]) -> list[Span]:
    """Return lines in the colours of a diff.

    Args:
        lines: pairs of a sign ("-", "+", "~", or "" for a heading) and a line.
    """
    spans = [span for sign, text in lines for span in ((text, _LINE_STYLES[sign]), ("\n", ""))]
    return spans[:-1]


def flops_text(count: int) -> str:
    """Return a number of operations with a unit and at most two decimals: "1.5 GFLOP".

    Example:
        >>> flops_text(0), flops_text(999), flops_text(1_500_000_000)
        ('0', '999 FLOP', '1.5 GFLOP')
    """
    return _with_unit(count, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"))


def bytes_text(count: int) -> str:
    """Return a number of bytes with a binary unit: "1.5 MiB".

    Example:
        >>> bytes_text(0), bytes_text(1023), bytes_text(3 * 2**19)
        ('0', '1023 B', '1.5 MiB')
    """
    return _with_unit(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def seconds_text(seconds: float) -> str:
    """Return a duration with a unit: "12.3 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _with_unit(count: int, base: int, units: Sequence[str]) -> str:
    if not count:
        return "0"
    power = 0
    # A number that rounds to the base is printed in the next unit.
    while power + 1 < len(units) and round(count / base**power, 2) >= base:
        power += 1
    amount = f"{count / base**power:,.2f}".rstrip("0").rstrip(".") if power else f"{count}"
    return f"{amount} {units[power]}"
