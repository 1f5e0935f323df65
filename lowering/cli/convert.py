"""`xlabuilder convert`: from one kind of file to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from lowering.cli.command import subcommand
from lowering.cli.output import bytes_text
from lowering.cli.programs import Program, opened, shape_option

FORMATS: Final = {
    "text": "StableHLO text",
    "bytecode": "StableHLO bytecode",
    "artifact": "a portable artifact",
    "hlo": "HLO text",
}

_SUFFIXES: Final = {
    ".mlir": "text",
    ".mlirbc": "bytecode",
    ".stablehlo": "artifact",
    ".hlo": "hlo",
    ".txt": "hlo",
}


@subcommand("convert")
@click.argument("source", metavar="IN", type=click.Path(allow_dash=True))
@click.argument("target_file", metavar="OUT", type=click.Path(allow_dash=True))
@click.option(
    "--target",
    metavar="VERSION|4w|12w",
    help="The StableHLO version that a portable artifact is written for, such as 1.9.0: what that "
    "one and later ones read. 4w and 12w: what the versions of the last 4 or 12 weeks read.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(FORMATS)),
    help="What to write, whatever OUT is called.",
)
@shape_option
def convert(
    source: str, target_file: str, target: str | None, kind: str | None, shapes: tuple[str, ...]
) -> None:
    """Writes the program of IN to OUT in another form.

    The suffix of OUT says in which: .mlir for StableHLO text, .mlirbc for bytecode, .stablehlo for
    a portable artifact, .hlo or .txt for HLO text. OUT is written whole or not at all, and replaces
    a file that is there. "-" is the standard input or output.
    """
    wanted = kind or _SUFFIXES.get(Path(target_file).suffix.lower())
    if wanted is None:
        where = "the standard output" if target_file == "-" else f"{target_file!r}"
        raise click.UsageError(
            f"OUT's suffix says what to write: {', '.join(_SUFFIXES)}; got {where}. "
            f"--format says it too."
        )
    if target is not None and wanted != "artifact":
        raise click.UsageError(f"--target is for portable artifacts, not for {FORMATS[wanted]}")
    content = _content(opened(source, shapes), wanted, target)
    if target_file == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    from lowering.stablehlo.module import write_whole

    write_whole(target_file, [content])
    version = f" for StableHLO {_version(target)}" if wanted == "artifact" else ""
    click.echo(f"{target_file}: {FORMATS[wanted]}{version}, {bytes_text(len(content))}")


def _content(program: Program, wanted: str, target: str | None) -> bytes:
    """What is written."""
    if wanted == "hlo":
        return program.computation().to_hlo_text(metadata=True).encode()
    if program.shapes:
        from lowering.stablehlo.lower import lower

        module = lower(program.computation())
    else:
        module = program.module()
    if wanted == "text":
        return module.text.encode()
    if wanted == "bytecode":
        return module.bytecode
    return module.artifact(_version(target))


def _version(target: str | None) -> str:
    """The StableHLO version that `--target` names."""
    from lowering.jaxlib_api import versions

    if target is None:
        return versions.current_version()
    return versions.compatible_version(int(target[:-1])) if target in ("4w", "12w") else target
