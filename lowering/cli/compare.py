"""`xlabuilder compare`: compare a device with the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowering.cli.command import ended_by_interrupt, json_option, print_json, subcommand
from lowering.cli.inputs import execution_options
from lowering.cli.programs import opened

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation
    from builder.graph.xla_op import XlaOp


@subcommand("compare")
@execution_options
@click.option(
    "--reference",
    metavar="WHAT",
    default="interpreter",
    show_default=True,
    help="f64: the CPU, in double precision; for programs that the interpreter is too slow for. Or "
    "a device, such as cpu:0. Or a file with another program of the same function, such as the "
    "original of a port: values are matched by their elements.",
)
@json_option
def compare(
    computation: XlaComputation,
    arguments: list[Any],
    device: str | None,
    reference: str,
    as_json: bool,
) -> None:
    """Compare a device with StableHLO's reference interpreter.

    FILE runs on both, and every value is compared. With --reference the device is compared with
    something else.

    The output names the first operation whose values differ by more than its tolerance, which is in
    units in the last place. The exit status is then 1. Functions are inlined, so that their
    operations are compared too; op numbers refer to the inlined program.
    """
    from lowering.interpreter import compare

    other: Any = reference
    if Path(reference).is_file():
        other = functions_inlined(opened(reference).computation())
    with ended_by_interrupt():
        comparison = compare(
            functions_inlined(computation), *arguments, device=device, reference=other
        )
    if as_json:
        print_json(comparison.as_dict())
    else:
        click.echo(str(comparison))
    if not comparison.agrees:
        click.get_current_context().exit(1)


def functions_inlined(computation: XlaComputation) -> XlaComputation:
    """Return the computation with functions inlined, because a call would be compared as one op."""
    from builder.rewriting.inlining import inline

    def body(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp | None:
        return inline(op.called_computations[0], *operands) if _is_inlined(op) else None

    while any(map(_is_inlined, computation.ops)):
        computation = computation.replace(body)
    return computation


def _is_inlined(op: XlaOp) -> bool:
    operands = op.operands if op.opcode == "call" else ()
    return bool(operands) and all(operand.shape.is_static for operand in operands)
