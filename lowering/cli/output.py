"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["bytes_text", "count_text", "print_json", "rate_text", "seconds_text", "show", "table"]

_WITHOUT_TERMINAL: Final = 160
"""The width of tables in a file or a pipe; COLUMNS in the environment goes first."""


def show(*parts: Any) -> None:
    """Prints tables and lines of text: on a terminal in colours, unless NO_COLOR is set."""
    from rich.console import Console

    out = Console(highlight=False)
    if out.is_terminal:
        _print(out, parts)
        return
    width = os.environ.get("COLUMNS", "")
    number = int(width) if width.isdecimal() and int(width) else _WITHOUT_TERMINAL
    out = Console(highlight=False, color_system=None, width=number)
    with out.capture() as captured:
        _print(out, parts)
    # Tables fill their lines with blanks.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _print(out: Console, parts: Sequence[Any]) -> None:
    for part in parts:
        if isinstance(part, str):
            out.print(_printable(part), markup=False, soft_wrap=True)
        else:
            out.print(part)


def table(
    columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]], title: str = ""
) -> Any:
    """A table for `show`.

    Args:
        columns: their headings, and "left" or "right".
        rows: the cells.
        title: what stands above it.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    has_head = any(name for name, _ in columns)
    drawn = Table(
        box=box.SIMPLE if has_head else None,
        pad_edge=False,
        show_edge=False,
        show_header=has_head,
        padding=(0, 1) if has_head else (0, 3, 0, 0),
    )
    for name, side in columns:
        drawn.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        # As Text: rich reads "[2,3]" in a string as the name of a style.
        drawn.add_row(*[Text(_printable(str(cell))) for cell in row])
    return Group(Text(title, style="bold"), drawn) if title else drawn


def _printable(text: str) -> str:
    """`text` without what would move a terminal's cursor or change its colours."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(value: Any) -> None:
    """Prints a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def count_text(count: int, what: str) -> str:
    """A number of things: "1 op", "1,234 ops"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def bytes_text(count: float) -> str:
    """A number of bytes: "96 bytes", "1.2 MB"."""
    if count < 1000:
        return count_text(int(count), "byte")
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.5 or unit == "TB":
            break
    return f"{count:.3g} {unit}"


def seconds_text(seconds: float) -> str:
    """A time: "12.3 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def rate_text(rate: float) -> str:
    """Operations a second: "15.6 G"."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.3g}"
