"""`xlabuilder minimize`: make a program that shows a fault as small as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lowering.cli.command import ended_by_interrupt, show, subcommand
from lowering.cli.inputs import execution_options

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation


@subcommand("minimize")
@execution_options
@click.option(
    "--output",
    "-o",
    metavar="OUT.mlir",
    type=click.Path(dir_okay=False),
    required=True,
    help="The file to write. The arguments are written next to it, in OUT.npz.",
)
@click.option("--crashes", is_flag=True, help="The program ends the process, or hangs.")
@click.option("--differs", is_flag=True, help="A device and the interpreter have other values.")
@click.option("--nan", is_flag=True, help="A result has a NaN or an infinity, and no argument has.")
@click.option(
    "--error", metavar="TEXT", help="The error of the compiler or the device contains TEXT."
)
@click.option(
    "--command",
    metavar="'PROG {}'",
    help="A command fails; {} stands for the path of the program, as StableHLO text.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120,
    show_default=True,
    help="The time limit.",
)
def minimize(
    computation: XlaComputation,
    arguments: list[Any],
    device: str | None,
    output: str,
    crashes: bool,
    differs: bool,
    nan: bool,
    error: str | None,
    command: str | None,
    seconds: float,
) -> None:
    """Write the smallest program that shows a fault of FILE.

    One option selects the fault. Operations are removed and replaced while the fault occurs;
    values that removed operations computed become arguments.
    """
    from lowering import faults
    from lowering.faults.minimizing import minimize

    if [crashes, differs, nan, error is not None, command is not None].count(True) != 1:
        raise click.UsageError(
            "pass one of --crashes, --differs, --nan, --error TEXT, --command 'PROG {}'."
        )
    if not output.endswith(".mlir"):
        raise click.UsageError(f"--output: expected an .mlir file, got {output!r}")
    is_bad: faults.Predicate
    if command is not None:
        is_bad = faults.command(command)
    elif differs:
        is_bad = faults.differs(device)
    elif nan:
        is_bad = faults.is_not_finite(device)
    else:
        is_bad = faults.crashes(device, message=error or "")
    try:
        with ended_by_interrupt():
            found = minimize(computation, is_bad, *arguments, seconds=seconds, progress=True)
    finally:
        close = getattr(is_bad, "close", None)
        if close is not None:
            close()
    written = found.save(output)
    show(str(found), f"written: {', '.join(written)}")
