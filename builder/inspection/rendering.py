"""Render what objects show as text and as rich renderables.

The package `rich` is imported only to print a table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from builder.support.display import (
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
from builder.support.displayed import Displayed

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


_WIDTH_WITHOUT_TERMINAL: Final = 120


TRUNCATED: Final = 1000
"""The number of lines of a text that are shown."""

_MAX_LINE: Final = 2000


class Printable(Displayed):
    """Base class of objects that also print their parts as text."""

    __slots__ = ()

    def __str__(self) -> str:
        return _as_text(self._parts())


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
            f"printing a table requires rich, which can't be imported: {error}\n"
            f"fix: run `pip install rich`, or use rows, fields and as_dict() instead of printing"
        ) from error
    shown: list[Any] = []
    for part in parts:
        shown += [*_rich(part), Text("")]
    return Group(*shown[:-1])


def _rich(part: Part) -> Iterator[Any]:
    from rich.text import Text

    match part:
        case str():
            yield Text("\n".join(map(printable, part.split("\n"))), style="italic")
        case Heading(kind, name, description):
            yield Text.assemble((kind, "bold"), " ", printable(name))
            if description:
                yield Text(printable(description))
        case TextTable(title, columns, rows, caption):
            if title:
                yield Text(printable(title), style="bold")
            if rows:
                yield rich_table(columns, rows)
            if caption:
                yield from _rich(caption)
        case ProgramText():
            lines, note = truncated(part)
            yield Text("\n".join(map(printable, lines)))
            if note:
                yield from _rich(note)
        case Bar(title, segments):
            total = sum(segment.amount for segment in segments) or 1
            rows = [
                [segment.name, segment.text, "█" * round(40 * segment.amount / total)]
                for segment in segments
            ]
            yield Text(printable(title))
            yield rich_table(
                (Column(""), Column("", is_number=True), Column("", style="blue")), rows
            )
        case CellGrid(title, headings, lines):
            if title:
                yield Text(printable(title))
            cells = [[name, *[cell.text for cell in row]] for name, row in lines]
            yield rich_table([Column(""), *map(Column, headings)], cells)
        case SideBySide():
            yield colored_lines(part.lines)
        case SvgPicture(_, text) if text:
            yield Text(text)
        case SvgPicture():
            yield Text("a notebook shows the picture; save(path) writes it")
        case Fold(summary):
            yield Text(f"▸ {printable(summary)}")


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


def _as_text(parts: Iterable[Part]) -> str:
    """Return the parts as text without colours, as wide as the terminal."""
    renderable = rich_of(parts)
    from rich.console import Console

    width = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    # In a notebook rich would display the table and return no text.
    console = Console(width=width, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as capture:
        console.print(renderable, highlight=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


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
