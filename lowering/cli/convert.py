"""`xlabuilder convert`: convert files between formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from lowering.cli.command import subcommand
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
    metavar="VERSION",
    help="The StableHLO version of a portable artifact, such as 1.9.0: StableHLO of this version "
    "or later reads the file. 12w or 4w: the version that all StableHLO releases of the last 12 or "
    "4 weeks read. current or minimum: the newest or oldest that the installed jaxlib writes. The "
    "default is 12w, or the first later version that can express the program.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    help="The format to write, regardless of the suffix of OUT.",
)
@shape_option
def convert(
    source: str,
    target_file: str,
    target: str | None,
    format_name: str | None,
    shapes: tuple[str, ...],
) -> None:
    """Write the program of IN to OUT in another format.

    The suffix of OUT selects the format: .mlir for StableHLO text, .mlirbc for bytecode, .stablehlo
    for a portable artifact, .hlo or .txt for HLO text. OUT is written atomically and replaces an
    existing file. "-" is the standard input or output.
    """
    format_name = format_name or _SUFFIXES.get(Path(target_file).suffix.lower())
    if format_name is None:
        where = "the standard output" if target_file == "-" else f"{target_file!r}"
        raise click.UsageError(
            f"OUT must end in one of {', '.join(_SUFFIXES)}, or --format must be set; got {where}."
        )
    if target is not None and format_name != "artifact":
        raise click.UsageError(f"--target is for portable artifacts, not {FORMATS[format_name]}")
    content = _content(opened(source, shapes), format_name, target)
    if target_file == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    from builder.inspection.rendering import bytes_text
    from lowering.reading.module_reader import artifact_version
    from lowering.stablehlo.module import write_atomically

    write_atomically(target_file, [content])
    version = f" for StableHLO {artifact_version(content)}" if format_name == "artifact" else ""
    click.echo(f"{target_file}: {FORMATS[format_name]}{version}, {bytes_text(len(content))}")


def _content(program: Program, format_name: str, target: str | None) -> bytes:
    if format_name == "hlo":
        return program.computation().to_hlo_text(metadata=True).encode()
    from lowering.stablehlo.lower import lower

    module = lower(program.computation()) if program.shapes else program.module()
    if format_name == "text":
        return module.text.encode()
    if format_name == "bytecode":
        return module.bytecode
    return module.artifact(target)
