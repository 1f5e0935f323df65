"""Print tables, text and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

    from builder.graph.computation import XlaComputation


_DEFAULT_WIDTH: Final = 160
"""The width of tables, in characters, in files and pipes, if COLUMNS is not set."""


def show(*parts: Any) -> None:
    """Print tables and lines of text; in color on a terminal, unless NO_COLOR is set."""
    from rich.console import Console

    out = Console(highlight=False)
    if out.is_terminal:
        _print(out, parts)
        return
    width = os.environ.get("COLUMNS", "")
    columns = int(width) if width.isdecimal() and int(width) else _DEFAULT_WIDTH
    out = Console(highlight=False, color_system=None, width=columns)
    with out.capture() as captured:
        _print(out, parts)
    # Tables pad their lines with spaces.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _print(out: Console, parts: Sequence[Any]) -> None:
    from builder.inspection.rendering import printable

    for part in parts:
        if isinstance(part, str):
            out.print(printable(part), markup=False, soft_wrap=True)
        else:
            out.print(part)


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]]) -> Any:
    """Return a table for `show`.

    Args:
        columns: the heading of each column, and its alignment: "left" or "right".
        rows: the cells of each row.
    """
    from builder.inspection.rendering import rich_table
    from builder.support.display import Column

    return rich_table([Column(name, side == "right") for name, side in columns], rows)


_LONGEST_SIGNATURE: Final = 100
"""The number of characters of a signature that is printed in full."""


def signature_text(computation: XlaComputation) -> str:
    """Return the name and the signature of a computation, without the parameters of a long one."""
    from builder.types.shape import TupleShape

    signature = computation.program_shape
    result = signature.result
    text = f"{computation.name}{signature}"
    if len(text) > _LONGEST_SIGNATURE:
        parameters = f"{computation.name}: {len(signature.parameters)} parameters"
        text = f"{parameters} -> {result}"
        if len(text) > _LONGEST_SIGNATURE and isinstance(result, TupleShape):
            text = f"{parameters} -> a tuple of {len(result.elements)}"
    return text


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
