"""`xlabuilder diff`: compare two files as graphs."""

from __future__ import annotations

import click

from lowering.cli.command import json_option, print_json, show, subcommand
from lowering.cli.programs import opened


@subcommand("diff")
@click.argument("before", metavar="A", type=click.Path(allow_dash=True))
@click.argument("after", metavar="B", type=click.Path(allow_dash=True))
@click.option("--metadata", is_flag=True, help="Compare names and source lines too.")
@json_option
def diff(before: str, after: str, metadata: bool, as_json: bool) -> None:
    """Show the differences between the programs of A and B.

    Operations are matched by their inputs or their uses; the order of operations and the names of
    computations are ignored. The exit status is 0 if the programs are equal, else 1.
    """
    if before == after == "-":
        raise click.UsageError("only one of the files can be the standard input")
    first, second = (opened(file).computation() for file in (before, after))
    differences = first.diff(second, metadata=metadata)
    if as_json:
        print_json(differences.as_dict())
    elif differences:
        show(differences)
    else:
        click.echo("no differences")
    if differences:
        click.get_current_context().exit(1)
