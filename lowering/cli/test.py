"""`xlabuilder test`: run files with programs and expected results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

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


@subcommand("test")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--device", metavar="DEVICE", help="cpu, gpu:1 and so on; jax's default device if omitted."
)
@click.option(
    "--seconds",
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
