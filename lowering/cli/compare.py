"""`xlabuilder compare`: a device against the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lowering.cli.command import ended_by_interrupt, json_option, subcommand
from lowering.cli.inputs import arguments_of, input_options
from lowering.cli.output import print_json
from lowering.cli.programs import file_argument, opened, shape_option
from lowering.cli.run import device_option

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation
    from builder.graph.xla_op import XlaOp


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
    place. The exit status is 1 if there is one. Functions are put where they are called, so that
    their operations are compared one by one too: numbers are those of the program so written.
    """
    computation = functions_inlined(opened(file, shapes).computation())
    arguments = arguments_of(computation, inputs, seed)
    from lowering.interpreter import compare as compared

    with ended_by_interrupt():
        found = compared(computation, *arguments, device=device)
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo(str(found))
    if not found.agrees:
        click.get_current_context().exit(1)


def functions_inlined(computation: XlaComputation) -> XlaComputation:
    """The computation without calls, in which whole functions would be compared as one."""
    from builder.rewriting.inlining import inline

    def body(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp | None:
        return inline(op.called_computations[0], *operands) if _is_inlined(op) else None

    while any(map(_is_inlined, computation.ops)):
        computation = computation.replace(body)
    return computation


def _is_inlined(op: XlaOp) -> bool:
    operands = op.operands if op.opcode == "call" else ()
    return bool(operands) and all(operand.shape.is_static for operand in operands)
