"""Tables as text, as rich renderables, and as HTML.

The package `rich` is imported only to print a table as text. HTML output does not require rich.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


_WIDTH_WITHOUT_TERMINAL: Final = 120


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


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text cells.

    Attributes:
        title: the line above the table, or "".
        columns: the columns.
        rows: the cells, row by row.
        caption: the lines below the table, or "".
    """

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]
    caption: str = ""


class Printable:
    """Base class of objects that print their `_text_tables` as text, with rich, and as HTML."""

    __slots__ = ()

    def _text_tables(self) -> Iterable[TextTable]:
        """Return the tables to print; each subclass defines them."""
        raise NotImplementedError

    def __str__(self) -> str:
        return _as_text(self._text_tables())

    def __rich__(self) -> Group:
        return _as_rich(self._text_tables())

    def _repr_html_(self) -> str:
        return "\n".join(_html(table) for table in self._text_tables())


def printable(text: str) -> str:
    """Escape the characters that would move a terminal's cursor or change its colours."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def _as_rich(tables: Iterable[TextTable]) -> Group:
    """Return the tables as a rich renderable.

    Raises:
        ImportError: rich is not installed.
    """
    try:
        from rich.console import Group
        from rich.text import Text
    except ImportError as error:
        raise ImportError(
            f"printing a table requires rich, which can't be imported: {error}\n"
            f"fix: run `pip install rich`, or use rows, fields and as_dict() instead of printing"
        ) from error
    parts: list[Any] = []
    for table in tables:
        if table.title:
            parts.append(Text(printable(table.title), style="bold"))
        if table.rows:
            parts.append(rich_table(table.columns, table.rows))
        if table.caption:
            lines = "\n".join(map(printable, table.caption.split("\n")))
            parts.append(Text(lines, style="italic"))
        parts.append(Text(""))
    return Group(*parts[:-1])


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


def _as_text(tables: Iterable[TextTable]) -> str:
    """Return the tables as text without colours, as wide as the terminal."""
    renderable = _as_rich(tables)
    from rich.console import Console

    width = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    # In a notebook rich would display the table and return no text.
    console = Console(width=width, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as capture:
        console.print(renderable, highlight=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _html(table: TextTable) -> str:
    from html import escape  # its import is slow

    def cell(column: Column, text: str) -> str:
        align = "right" if column.is_number else "left"
        return f'<td style="text-align: {align}">{escape(printable(text))}</td>'

    parts = [f"<p><b>{escape(printable(table.title))}</b></p>"] if table.title else []
    if table.rows:
        head = "".join(f"<th>{escape(column.name)}</th>" for column in table.columns)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        parts += [f"<tr>{''.join(map(cell, table.columns, row))}</tr>" for row in table.rows]
        parts.append("</tbody></table>")
    if table.caption:
        lines = "<br>".join(escape(printable(line)) for line in table.caption.split("\n"))
        parts.append(f"<p><i>{lines}</i></p>")
    return "\n".join(parts)


_LINE_STYLES: Final = {"-": "red", "+": "green", "~": "yellow", "": "bold"}


def colored_lines(lines: Iterable[tuple[str, str]]) -> Text:
    """Return lines in the colours of a diff, as a rich renderable.

    Args:
        lines: pairs of a sign ("-", "+", "~", or "" for a heading) and a line.
    """
    from rich.text import Text

    return Text("\n").join(Text(text, style=_LINE_STYLES[sign]) for sign, text in lines)


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


def _with_unit(count: int, base: int, units: Sequence[str]) -> str:
    if not count:
        return "0"
    power = 0
    # A number that rounds to the base is printed in the next unit.
    while power + 1 < len(units) and round(count / base**power, 2) >= base:
        power += 1
    amount = f"{count / base**power:,.2f}".rstrip("0").rstrip(".") if power else f"{count}"
    return f"{amount} {units[power]}"
