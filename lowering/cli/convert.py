"""`xlabuilder convert`: convert files between formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from lowering.cli.command import subcommand
from lowering.cli.inputs import Program, opened, shape_option

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
    "default is the first version from 1.0.0 on that can express the program.",
)
@click.option(
    "--inline-composites",
    is_flag=True,
    help="Replace composites, and operations of CHLO such as erf and top_k, by their "
    "decompositions, for readers of StableHLO's own operations.",
)
@click.option(
    "--without",
    metavar="OPERATION",
    multiple=True,
    help="Replace an operation that the reader lacks by others, such as cholesky, triangular_solve "
    "or fft. The option may be repeated.",
)
@click.option(
    "--strip-debug",
    is_flag=True,
    help="Remove the calls of xb.debug_print and xb.check, which other compilers do not know.",
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
    inline_composites: bool,
    without: tuple[str, ...],
    strip_debug: bool,
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
    program = opened(source, shapes)
    content = _content(
        program,
        format_name,
        target,
        inlines=inline_composites,
        without=without,
        strips=strip_debug,
    )
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


def _content(
    program: Program,
    format_name: str,
    target: str | None,
    *,
    inlines: bool,
    without: tuple[str, ...],
    strips: bool,
) -> bytes:
    if format_name == "hlo" and not (inlines or without):
        computation = program.computation()
        computation = computation.strip_debug() if strips else computation
        return computation.to_hlo_text(metadata=True).encode()
    from lowering.importer import to_computation
    from lowering.stablehlo.lower import lower

    if strips:
        module = lower(program.computation().strip_debug())
    else:
        module = lower(program.computation()) if program.shapes else program.module()
    if inlines or without:
        from lowering.portable import expanded

        module = expanded(module, "convert", "inline" if inlines else "keep", without)
    if format_name == "hlo":
        return to_computation(module).to_hlo_text(metadata=True).encode()
    if format_name == "text":
        return module.text.encode()
    if format_name == "bytecode":
        return module.bytecode
    return module.artifact(target)
