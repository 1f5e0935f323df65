"""`xlabuilder draw`: draw the graph of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from lowering.cli.command import subcommand
from lowering.cli.programs import file_argument, opened, shape_option

_SUFFIXES: Final = (".svg", ".dot", ".gv", ".json")


@subcommand("draw")
@file_argument
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    required=True,
    type=click.Path(dir_okay=False),
    help="The file to write: .svg; .dot or .gv for Graphviz; .json for Model Explorer.",
)
@click.option("--scope", metavar="SCOPE", help="Draw only the operations of this scope.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=120,
    show_default=True,
    metavar="N",
    help="Draw groups open up to this number of nodes.",
)
@shape_option
def draw(file: str, output: str, scope: str | None, limit: int, shapes: tuple[str, ...]) -> None:
    """Draw the program of FILE as a graph.

    Operations are in frames by the scopes in their names, such as those of jax.named_scope. DOT and
    JSON files have all operations of the program. OUT replaces an existing file.
    """
    if Path(output).suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"OUT must end in one of {', '.join(_SUFFIXES)}; got {output!r}.")
    opened(file, shapes).computation().draw(scope=scope, limit=limit).save(output)
    click.echo(f"{output}: written")
