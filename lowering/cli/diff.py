"""`xlabuilder diff`: two files, compared as graphs."""

from __future__ import annotations

import click

from lowering.cli.command import json_option, subcommand
from lowering.cli.output import print_json, show
from lowering.cli.programs import opened


@subcommand("diff")
@click.argument("before", metavar="A", type=click.Path(allow_dash=True))
@click.argument("after", metavar="B", type=click.Path(allow_dash=True))
@click.option("--metadata", is_flag=True, help="Names and source lines count too.")
@json_option
def diff(before: str, after: str, metadata: bool, as_json: bool) -> None:
    """Shows what differs between the programs of A and B.

    Operations are the same where their inputs, or what is made of them, are the same; their order
    does not count, nor do the names of computations. The exit status is 0 if nothing differs, and 1
    if something does.
    """
    if before == after == "-":
        raise click.UsageError("the standard input can be one of the two only")
    one, other = (opened(file).computation() for file in (before, after))
    found = one.diff(other, metadata=metadata)
    if as_json:
        print_json(found.as_dict())
    elif found:
        show(found)
    else:
        click.echo("nothing differs")
    if found:
        click.get_current_context().exit(1)
