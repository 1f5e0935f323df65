"""`xlabuilder compare`, `minimize` and `test`: find wrong results, and the smallest program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowering.cli.command import (
    FailedError,
    ended_by_interrupt,
    json_option,
    print_json,
    show,
    subcommand,
    table,
)
from lowering.cli.inputs import execution_options, opened

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
@click.option(
    "--ulps",
    metavar="ULPS",
    type=click.FloatRange(min=0),
    help="The tolerance of all operations; by default each has its own.",
)
@json_option
def compare(
    computation: XlaComputation,
    arguments: list[Any],
    device: str | None,
    reference: str,
    ulps: float | None,
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
            functions_inlined(computation), *arguments, device=device, reference=other, ulps=ulps
        )
    if as_json:
        print_json(comparison.as_dict())
    else:
        click.echo(str(comparison))
    if not comparison.agrees:
        click.get_current_context().exit(1)


def functions_inlined(computation: XlaComputation) -> XlaComputation:
    """Return the computation with functions inlined, because a call would be compared as one op."""
    from builder.rewriting.copying import inline

    def body(op: XlaOp, operands: Sequence[XlaOp]) -> XlaOp | None:
        return inline(op.called_computations[0], *operands) if _is_inlined(op) else None

    while any(map(_is_inlined, computation.ops)):
        computation = computation.replace(body)
    return computation


def _is_inlined(op: XlaOp) -> bool:
    operands = op.operands if op.opcode == "call" else ()
    return bool(operands) and all(operand.shape.is_static for operand in operands)


@subcommand("minimize")
@execution_options
@click.option(
    "-o",
    "--output",
    metavar="OUT.mlir",
    type=click.Path(dir_okay=False),
    required=True,
    help="The file to write. The arguments are written next to it, in OUT.npz.",
)
@click.option("--crashes", is_flag=True, help="The program ends the process, or hangs.")
@click.option("--differs", is_flag=True, help="A device and a reference have other values.")
@click.option(
    "--reference",
    metavar="WHAT",
    default="interpreter",
    show_default=True,
    help="The reference of --differs. f64: the CPU, in double precision. Or a device.",
)
@click.option(
    "--ulps",
    metavar="ULPS",
    type=click.FloatRange(min=0),
    help="The tolerance of --differs. Pass one near the difference, or the smallest difference "
    "that remains may be another one.",
)
@click.option(
    "--nan",
    is_flag=True,
    help="A result has a NaN or an infinity, and no argument has. If the program has an infinite "
    "constant: a NaN.",
)
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
    metavar="SECONDS",
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
    reference: str,
    ulps: float | None,
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
        is_bad = faults.differs(device, reference=reference, ulps=ulps)
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
    show(*str(found).splitlines(), f"written: {', '.join(written)}")


@subcommand("test")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--device", metavar="DEVICE", help="cpu, gpu:1 and so on; jax's default device if omitted."
)
@click.option(
    "--seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=120,
    show_default=True,
    help="The time limit for a file.",
)
@json_option
def test(files: Sequence[str], device: str | None, seconds: float, as_json: bool) -> None:
    """Run the tests in files on a device.

    Each FILE has programs in StableHLO with the expected results, as lowering.write_test writes
    them, or as the tests of StableHLO's interpreter and of IREE; a folder stands for its .mlir
    files. A program that ends the process is a test that failed. The exit status is 1 if a test
    failed.
    """
    from lowering.pjrt.devices import device_argument
    from lowering.test_files.running import outcomes

    paths = [path for file in files for path in _paths(file)]
    device_argument("test", device)
    with ended_by_interrupt():
        found = list(outcomes(paths, device, seconds))
    failed = sum(not outcome.passed for outcome in found)
    if as_json:
        print_json([asdict(outcome) for outcome in found])
    else:
        columns = [("test", "left"), ("outcome", "left"), ("checks", "right"), ("ms", "right")]
        rows = [
            (
                o.name,
                "passed" if o.passed else "FAILED",
                o.checks,
                f"{1000 * o.seconds:.0f}",
                o.message,
            )
            for o in found
        ]
        show(
            table([*columns, ("first difference", "left")], rows),
            f"{len(found) - failed} of {len(found)} tests passed",
        )
    if failed:
        click.get_current_context().exit(1)


def _paths(file: str) -> list[str]:
    """Return the files in a folder, or the file."""
    path = Path(file)
    if not path.exists():
        raise FailedError(f"{file}: no such file or folder")
    if not path.is_dir():
        return [file]
    found = [str(each) for each in sorted(path.rglob("*.mlir"))]
    if not found:
        raise FailedError(f"{file}: the folder has no .mlir files")
    return found
