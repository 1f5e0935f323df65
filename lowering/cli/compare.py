"""`xlabuilder compare`: a device against the reference interpreter."""

from __future__ import annotations

import click

from lowering.cli.command import json_option, subcommand
from lowering.cli.inputs import arguments_of, input_options
from lowering.cli.output import print_json
from lowering.cli.programs import file_argument, opened, shape_option
from lowering.cli.run import device_option


@subcommand("compare")
@file_argument
@input_options
@shape_option
@device_option
@json_option
def compare(
    file: str,
    inputs: tuple[str, ...],
    seed: int | None,
    shapes: tuple[str, ...],
    device: str | None,
    as_json: bool,
) -> None:
    """Runs FILE on a device and on StableHLO's reference interpreter, and compares every value.

    Names the first operation whose values are farther apart than they may be, in units in the last
    place. The exit status is 1 if there is one.
    """
    computation = opened(file, shapes).computation()
    arguments = arguments_of(computation, inputs, seed)
    from lowering.interpreter import compare as compared

    found = compared(computation, *arguments, device=device)
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo(str(found))
    if not found.agrees:
        click.get_current_context().exit(1)
