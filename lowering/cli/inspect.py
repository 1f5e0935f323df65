"""`xlabuilder inspect`: what is in a file."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from lowering.cli.command import json_option, subcommand
from lowering.cli.output import bytes_text, count_text, print_json, show, table
from lowering.cli.programs import Program, file_argument, opened, shape_option

if TYPE_CHECKING:
    from builder.errors import XlaError
    from builder.graph.computation import XlaComputation
    from builder.inspection.stats import ComputationStats


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
    help="With --ops: of each computation print the first N operations and the last N; 0 for all.",
)
@json_option
def inspect(file: str, shapes: tuple[str, ...], with_ops: bool, limit: int, as_json: bool) -> None:
    """Shows what is in FILE.

    What kind of file it is and what wrote it, its parameters and results, the operations by count,
    and what they cost: floating-point operations, transcendental functions, bytes read and written,
    each operation by itself.
    """
    from builder.errors import XlaError

    program = opened(file, shapes)
    try:
        computation = program.computation()
        stats = computation.stats()
    except XlaError as error:
        about = _without_computation(program, error)
        if about is None:
            raise
        if as_json:
            print_json(about)
        else:
            _print_without_computation(program, about)
        return
    if as_json:
        print_json(_about(program, computation, stats, with_ops=with_ops))
        return
    show(_head(program), f"{computation.name}{computation.program_shape}", "")
    if computation.program_shape.parameters:
        show(_parameter_table(computation), "")
    show(stats)
    if with_ops:
        show("", computation.table(nested=True, limit=limit or None))


def _about(
    program: Program, computation: XlaComputation, stats: ComputationStats, *, with_ops: bool
) -> dict[str, Any]:
    shape = computation.program_shape
    named = zip(shape.parameter_names, shape.parameters, strict=True)
    found = {
        **_file(program),
        "name": computation.name,
        "parameters": [{"name": name, "shape": str(one)} for name, one in named],
        "result": str(shape.result),
        "stats": stats.as_dict(),
    }
    if with_ops:
        found["ops"] = computation.table(nested=True, limit=None).as_dict()["ops"]
    return found


def _file(program: Program) -> dict[str, Any]:
    return {
        "file": program.name,
        "kind": program.kind,
        "bytes": len(program.data),
        "producer": program.producer,
        "stablehlo_version": program.version,
    }


def _head(program: Program) -> str:
    said = [program.kind]
    if program.version is not None:
        said.append(f"version {program.version}")
    elif program.producer is not None:
        said.append(f"written by {program.producer}")
    said.append(bytes_text(len(program.data)))
    return f"{program.name}: {', '.join(said)}"


def _parameter_table(computation: XlaComputation) -> Any:
    from builder.types.shape import leaves

    shape = computation.program_shape
    rows = []
    for name, one in zip(shape.parameter_names, shape.parameters, strict=True):
        sizes = [getattr(leaf, "byte_size", 0) for leaf in leaves(one)] if one.is_static else None
        rows.append((name, one, "" if sizes is None else bytes_text(sum(sizes))))
    return table([("parameter", "left"), ("shape", "left"), ("size", "right")], rows)


# What can't be a computation here: quantized types, operations of others, sizes that stay open


def _without_computation(program: Program, error: XlaError) -> dict[str, Any] | None:
    """What can be said of a file that is StableHLO, and no computation; None if it is damaged."""
    reason = str(error).splitlines()[0].removeprefix("stats: ").removeprefix("to_computation: ")
    if program.is_hlo:
        return None
    try:
        module = program.module()
    except Exception:
        # MLIR's parser itself needs types that are not known here. It is read as text.
        text = program.data.decode(errors="replace")
        main = re.search(r"func\.func (?:public )?@main(.*?)\{\s*$", text, re.MULTILINE)
        if main is None or not _FOREIGN.search(reason):
            return None
        counts = Counter(_OPERATION.findall(text))
        name, signature = "main", main[1].strip()
    else:
        counts = Counter(_operations(module.module))
        name, signature = module.name, str(module.program_shape)
    return {
        **_file(program),
        "name": name,
        "signature": signature,
        "operations": dict(counts.most_common()),
        "not_imported": reason,
    }


_FOREIGN: Final = re.compile(r"quantized types|unregistered dialect|Dialect .* not found")
"""Why MLIR does not read what may be right otherwise."""

_OPERATION: Final = re.compile(r'^\s*(?:%\S+ = )?"?((?:stablehlo|chlo)\.\w+)', re.MULTILINE)


def _operations(module: Any) -> list[str]:
    from jaxlib.mlir import ir

    found: list[str] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name.partition(".")[0] not in ("builtin", "func"):
            found.append(operation.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return [name for name in found if not name.endswith(".return")]


def _print_without_computation(program: Program, about: dict[str, Any]) -> None:
    counts = about["operations"]
    total = count_text(sum(counts.values()), "operation")
    show(
        _head(program),
        f"{about['name']}{about['signature']}",
        "",
        table([("operation", "left"), ("count", "right")], counts.items()),
        "",
        f"{total}. Costs and the table of ops are missing, as the program can't be imported:",
        about["not_imported"],
        *_hint(program, about["signature"]),
    )


def _hint(program: Program, signature: str) -> list[str]:
    """How to get more, where sizes are open."""
    opened_by = re.search(r"(\S+): (\w+\[[^\]]*\?[^\]]*\])", signature.partition(" -> ")[0])
    if opened_by is None or program.shapes:
        return []
    name, shape = opened_by[1].lstrip("("), opened_by[2].replace("?", "8")
    return [f"fix: --shape {name}={shape}, with the sizes that you want"]
