"""Tables as text, for rich, and as HTML.

rich is imported when a table is drawn as text, and not before: programs and notebooks need none.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text as RichText

__all__ = [
    "Column",
    "Sheet",
    "as_html",
    "as_rich",
    "as_rich_lines",
    "as_text",
    "bytes_text",
    "flops_text",
    "printable",
]

_WITHOUT_TERMINAL: Final = 120
"""Columns of a text that goes into a file or a pipe, where COLUMNS says nothing else."""


class Column(NamedTuple):
    """A column of a sheet.

    Attributes:
        name: its heading.
        is_number: whether it is set to the right.
        is_whole: whether its cells are never broken into lines.
        style: rich's name of a colour, or "".
    """

    name: str
    is_number: bool = False
    is_whole: bool = False
    style: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table that is made to be looked at.

    Attributes:
        title: what stands above it, or "".
        columns: its columns.
        rows: its cells, row by row.
        caption: lines that stand below it, or "".
    """

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]
    caption: str = ""


def printable(text: str) -> str:
    """`text` without what would move a terminal's cursor or change its colours."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def _no_rich(error: ImportError) -> ImportError:
    return ImportError(
        f"tables are drawn by rich, which can't be imported: {error}\n"
        f"fix: pip install rich; rows, fields and as_dict() need none"
    )


def as_rich(sheets: Iterable[Sheet]) -> Group:
    """The sheets as rich draws them.

    Raises:
        ImportError: rich is not installed.
    """
    try:
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text
    except ImportError as error:
        raise _no_rich(error) from error
    parts: list[Any] = []
    for sheet in sheets:
        if sheet.title:
            parts.append(Text(printable(sheet.title), style="bold"))
        if sheet.rows:
            drawn = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
            for column in sheet.columns:
                drawn.add_column(
                    column.name,
                    justify="right" if column.is_number else "left",
                    no_wrap=column.is_whole,
                    overflow="fold",
                    style=column.style or None,
                )
            for row in sheet.rows:
                # As Text: rich reads "[2,3]" in a string as the name of a style.
                drawn.add_row(*[Text(printable(cell)) for cell in row])
            parts.append(drawn)
        if sheet.caption:
            lines = "\n".join(map(printable, sheet.caption.split("\n")))
            parts.append(Text(lines, style="italic"))
        parts.append(Text(""))
    return Group(*parts[:-1])


_STYLES: Final = {"-": "red", "+": "green", "~": "yellow", "": "bold"}


def as_rich_lines(lines: Iterable[tuple[str, str]]) -> RichText:
    """Lines, each with its sign, in the colours of differences.

    Raises:
        ImportError: rich is not installed.
    """
    try:
        from rich.text import Text
    except ImportError as error:
        raise _no_rich(error) from error
    return Text("\n").join(Text(text, style=_STYLES[sign]) for sign, text in lines)


class _Written(io.StringIO):
    """Takes text that goes to the program's output: in the characters that the output has."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # StringIO says None
        return getattr(sys.stdout, "encoding", None) or "utf-8"


def as_text(sheets: Iterable[Sheet]) -> str:
    """The sheets as text of the terminal's width, without colours.

    Raises:
        ImportError: rich is not installed.
    """
    drawn = as_rich(sheets)
    from rich.console import Console

    file = _Written()
    # In a notebook rich would show it there and then, and write nothing.
    console = Console(
        file=file, width=_width(), color_system=None, force_terminal=False, force_jupyter=False
    )
    console.print(drawn, highlight=False)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _width() -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _WITHOUT_TERMINAL
    except (AttributeError, OSError, ValueError):  # no terminal, or an output that is no file
        return _WITHOUT_TERMINAL


def as_html(sheets: Iterable[Sheet]) -> str:
    """The sheets as HTML, for notebooks. rich is not needed."""
    from html import escape  # its table of names takes 1 ms

    parts: list[str] = []
    for sheet in sheets:
        if sheet.title:
            parts.append(f"<p><b>{escape(printable(sheet.title))}</b></p>")
        if sheet.rows:
            head = "".join(f"<th>{escape(column.name)}</th>" for column in sheet.columns)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
            parts += [_html_row(sheet.columns, row) for row in sheet.rows]
            parts.append("</tbody></table>")
        if sheet.caption:
            lines = "<br>".join(escape(printable(line)) for line in sheet.caption.split("\n"))
            parts.append(f"<p><i>{lines}</i></p>")
    return "\n".join(parts)


def _html_row(columns: Sequence[Column], row: Sequence[str]) -> str:
    from html import escape

    cells = [
        f'<td style="text-align: {"right" if column.is_number else "left"}">'
        f"{escape(printable(cell))}</td>"
        for column, cell in zip(columns, row, strict=True)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def flops_text(count: int) -> str:
    """A number of operations with a unit of three digits: "1.5 GFLOP".

    Example:
        >>> flops_text(0), flops_text(999), flops_text(1_500_000_000)
        ('0', '999 FLOP', '1.5 GFLOP')
    """
    return _with_unit(count, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"))


def bytes_text(count: int) -> str:
    """A number of bytes with a binary unit: "1.5 MiB".

    Example:
        >>> bytes_text(0), bytes_text(1023), bytes_text(3 * 2**19)
        ('0', '1023 B', '1.5 MiB')
    """
    return _with_unit(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def _with_unit(count: int, base: int, units: Sequence[str]) -> str:
    if not count:
        return "0"
    place = 0
    # What would be written as the base itself is one of the next unit.
    while place + 1 < len(units) and round(count / base**place, 2) >= base:
        place += 1
    amount = f"{count / base**place:,.2f}".rstrip("0").rstrip(".") if place else f"{count}"
    return f"{amount} {units[place]}"
