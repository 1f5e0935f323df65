"""Tables and paragraphs as lines of text, in the form in which rich prints them without colours."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from builder.support.display import Column

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
        return f"{' ' * self.left}{text}{' ' * self.right}"[: self.total]


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
