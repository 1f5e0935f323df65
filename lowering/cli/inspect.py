"""`xlabuilder inspect`, `diff` and `draw`: show files, their differences and their graphs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lowering.cli.command import (
    FailedError,
    json_option,
    print_json,
    show,
    signature_text,
    subcommand,
    table,
)
from lowering.cli.inputs import Program, file_argument, opened, shape_fix, shape_option

if TYPE_CHECKING:
    from builder.errors import XlaError
    from builder.types.shape import Shape
    from lowering.cli.external import External


@subcommand("inspect")
@file_argument
@shape_option
@click.option("--ops", "with_ops", is_flag=True, help="Also list the operations.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    metavar="N",
    help="With --ops: print the first and the last N operations of each computation; 0 for all.",
)
@json_option
def inspect(file: str, shapes: tuple[str, ...], with_ops: bool, limit: int, as_json: bool) -> None:
    """Show the content of FILE.

    The output has the kind of file and its producer, the parameters and results, the calls of code
    outside XLA and the transfers, and the number of operations with their cost: floating-point
    operations, transcendental functions, and bytes accessed by each operation. Nothing is compiled
    or run.
    """
    from builder.errors import XlaError
    from lowering.cli.external import in_computation

    program = opened(file, shapes)
    try:
        computation = program.computation()
        stats = computation.stats()
    except XlaError as error:
        summary = _unimported_summary(program, error)
        if summary is None:
            raise
        if as_json:
            print_json(summary)
        else:
            _print_unimported(program, summary)
        return
    signature = computation.program_shape
    parameters = list(zip(signature.parameter_names, signature.parameters, strict=True))
    if as_json:
        summary = {
            **_file_summary(program),
            "name": computation.name,
            "parameters": [{"name": name, "shape": str(shape)} for name, shape in parameters],
            "result": str(signature.result),
            "external": [asdict(row) for row in in_computation(computation)],
            "stats": stats.as_dict(),
        }
        if with_ops:
            summary["ops"] = computation.table(nested=True, limit=None).as_dict()["ops"]
        print_json(summary)
        return
    show(_heading(program), signature_text(computation), "")
    if parameters:
        rows = [(name, shape, _size_text(shape)) for name, shape in parameters]
        show(table([("parameter", "left"), ("shape", "left"), ("size", "right")], rows), "")
    _show_external(in_computation(computation))
    show(stats)
    if with_ops:
        show("", computation.table(nested=True, limit=limit or None))


def _file_summary(program: Program) -> dict[str, Any]:
    return {
        "file": program.name,
        "kind": program.kind,
        "bytes": len(program.data),
        "producer": program.producer,
        "stablehlo_version": program.version,
    }


def _heading(program: Program) -> str:
    from builder.inspection.rendering import bytes_text

    notes = [program.kind]
    if program.version is not None:
        notes.append(f"version {program.version}")
    elif program.producer is not None:
        notes.append(f"written by {program.producer}")
    notes.append(bytes_text(len(program.data)))
    return f"{program.name}: {', '.join(notes)}"


def _show_external(found: list[External]) -> None:
    """Print the calls and transfers of a program, if it has any."""
    if found:
        columns = [("call or transfer", "left"), ("target", "left"), ("count", "right")]
        runs = {True: "code outside XLA", False: ""}
        rows = [(row.operation, row.target, row.count, runs[row.outside_xla]) for row in found]
        show(table([*columns, ("runs", "left")], rows), "")


def _size_text(shape: Shape) -> str:
    from builder.inspection.rendering import bytes_text
    from builder.types.shape import leaves

    if not shape.is_static:
        return ""
    return bytes_text(sum(getattr(leaf, "byte_size", 0) for leaf in leaves(shape)))


# StableHLO that can't be imported: quantized types, other dialects, dynamic sizes


def _unimported_summary(program: Program, error: XlaError) -> dict[str, Any] | None:
    """Return a summary of StableHLO that can't be imported; None for HLO or a damaged file."""
    from builder.errors import statement_of

    reason = statement_of(error, ("stats", "to_computation")).splitlines()[0]
    if program.is_hlo:
        return None
    from lowering.cli.external import in_module, in_text
    from lowering.mlir.operations import operations_where

    try:
        module = program.module()
    except Exception:
        # MLIR can't parse types of unregistered dialects, so operations are counted in the text.
        text = program.data.decode(errors="replace")
        main = re.search(r"func\.func (?:public )?@main(.*?)\{\s*$", text, re.MULTILINE)
        if main is None or not _FOREIGN.search(reason):
            return None
        counts = Counter(_OPERATION.findall(text))
        name, signature = "main", main[1].strip()
        external = in_text(text)
    else:
        operations = operations_where(
            module.module,
            lambda operation: operation.name.partition(".")[0] not in ("builtin", "func"),
        )
        names = [operation.name for operation in operations]
        counts = Counter(name for name in names if not name.endswith(".return"))
        name, signature = module.name, str(module.program_shape)
        external = in_module(module.module)
    return {
        **_file_summary(program),
        "name": name,
        "signature": signature,
        "external": [asdict(row) for row in external],
        "operations": dict(counts.most_common()),
        "not_imported": reason,
    }


_FOREIGN: Final = re.compile(r"quantized types|unregistered dialect|Dialect .* not found")
"""Matches MLIR's errors for types and dialects that jaxlib does not support."""

_OPERATION: Final = re.compile(r'^\s*(?:%\S+ = )?"?((?:stablehlo|chlo)\.\w+)', re.MULTILINE)


def _print_unimported(program: Program, summary: dict[str, Any]) -> None:
    from lowering.cli.external import External

    counts = summary["operations"]
    parameters = summary["signature"].partition(" -> ")[0]
    dynamic = re.search(r"([^\s(]+): (\w+\[[^\]]*\?[^\]]*\])", parameters)
    show(_heading(program), f"{summary['name']}{summary['signature']}", "")
    _show_external([External(**row) for row in summary["external"]])
    show(
        table([("operation", "left"), ("count", "right")], counts.items()),
        "",
        f"{sum(counts.values()):,} operations, without costs:",
        summary["not_imported"],
        *(
            []
            if dynamic is None or program.shapes
            else [f"fix: {shape_fix(dynamic[1], dynamic[2])}"]
        ),
    )


@subcommand("diff")
@click.argument("before", metavar="A", type=click.Path(allow_dash=True))
@click.argument("after", metavar="B", type=click.Path(allow_dash=True))
@click.option("--metadata", is_flag=True, help="Compare names and source lines too.")
@json_option
def diff(before: str, after: str, metadata: bool, as_json: bool) -> None:
    """Show the differences between the programs of A and B.

    Operations are matched by their inputs or their uses; the order of operations and the names of
    computations are ignored. The exit status is 0 if the programs are equal, else 1.
    """
    if before == after == "-":
        raise click.UsageError("only one of the files can be the standard input")
    first, second = (opened(file).computation() for file in (before, after))
    differences = first.diff(second, metadata=metadata)
    if as_json:
        print_json(differences.as_dict())
    elif differences:
        show(differences)
    else:
        click.echo("no differences")
    if differences:
        click.get_current_context().exit(1)


_SUFFIXES: Final = (".svg", ".dot", ".gv", ".json")


@subcommand("draw")
@file_argument
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    required=True,
    type=click.Path(dir_okay=False),
    help="The file to write: .svg; .dot or .gv for Graphviz; .json for Model Explorer.",
)
@click.option("--scope", metavar="SCOPE", help="Draw only the operations of this scope.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=120,
    show_default=True,
    metavar="N",
    help="Draw groups open up to this number of nodes.",
)
@shape_option
def draw(file: str, output: str, scope: str | None, limit: int, shapes: tuple[str, ...]) -> None:
    """Draw the program of FILE as a graph.

    Operations are in frames by the scopes in their names, such as those of jax.named_scope. DOT and
    JSON files have all operations of the program. OUT replaces an existing file.
    """
    if Path(output).suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"OUT must end in one of {', '.join(_SUFFIXES)}; got {output!r}.")
    picture = opened(file, shapes).computation().draw(scope=scope, limit=limit)
    try:
        picture.save(output)
    except ModuleNotFoundError as error:
        from builder.support.imports import REQUIREMENTS

        if error.name != "pygraphviz":
            raise
        reason = f"{output}: an .svg file requires pygraphviz"
        fix = f'run `pip install "{REQUIREMENTS[error.name]}"`, or write a .dot or .json file'
        raise FailedError(reason, fix) from None
    click.echo(f"{output}: written")
