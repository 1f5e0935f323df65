"""The pages of the operations, one for each public op, as Markdown.

Everything on a page has one source elsewhere: the docstring of the op, its schema, its example,
docs/platforms.json, and the rewrites in `lowering/legalize`.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any, Final

import write_defects
import write_operations
import write_platforms
from size_formulas import formula_of

import builder as xb
import lowering

_SHARED_ARGUMENTS: Final = re.compile(r".*elementwise\.(unary|binary|comparison)")
"""The modules whose ops have the arguments, results and errors of `xb.ops.elementwise`."""


def path_of(info: Any) -> str:
    """Return the path of an op's page in the documentation."""
    return f"operations/{info.name}.md"


def page(info: Any) -> str:
    """Return the text of an op's page."""
    owner = "builder.XlaBuilder" if info.is_method else "builder"
    parts = [
        f"::: {owner}.{info.name}\n    options:\n      heading_level: 1",
        _shared(info),
        _sizes(info),
        _picture(info),
        _programs(info),
        _names_and_rules(info),
        _platforms(info),
        _defects(info),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _shared(info: Any) -> str:
    """The arguments, results and errors that the op shares with others."""
    if not _SHARED_ARGUMENTS.fullmatch(info.function.__module__):
        return ""
    text = (xb.ops.elementwise.__doc__ or "").partition("\nArgs:\n")[2]
    arguments, _, others = text.partition("\nReturns:\n")
    parameters = inspect.signature(info.function).parameters.keys()
    described = [
        entry
        for entry in re.split(r"^(?= {4}\w)", arguments, flags=re.M)
        if parameters & set(re.findall(r"\w+", entry.partition(":")[0]))
    ]
    sections = f"Args:\n{''.join(described)}\nReturns:\n{others}"
    return write_operations.sections_text(sections).replace("**Args:**", "**Parameters:**").strip()


def _sizes(info: Any) -> str:
    """The sizes of the result as a formula."""
    formula = formula_of(info.schema)
    if formula is None:
        return ""
    code = fenced("python", formula)
    return f"## Shape\n\nThe sizes of the result, from those of the operands:\n\n{code}"


def _picture(info: Any) -> str:
    """The picture of the op that the example records, if `xb.explain` can draw it."""
    if info.opcode == "convolution":
        op = small_convolution()
        drawn = "a small convolution, because that of the example has too many elements"
    else:
        op = example_op(info)
        drawn = "the op of the example"
    if op is None:
        return ""
    try:
        picture = xb.explain(op)
    except xb.ShapeInferenceError:  # the op does not move elements, or has too many
        return ""
    text = f"`xb.explain` draws {drawn}: from which elements the result is computed."
    return f'## Picture\n\n{text}\n\n<div class="picture">{picture.svg()}</div>'


def _programs(info: Any) -> str:
    """The HLO text and the StableHLO of the example."""
    computations = _example(info)
    if not computations:
        return ""
    parts = ["## HLO and StableHLO", "The example as HLO text:"]
    parts += [fenced("hlo", str(one)) for one in computations]
    parts.append("As StableHLO:")
    parts += [fenced("mlir", str(lowering.lower(one))) for one in computations]
    return "\n\n".join(parts)


def _names_and_rules(info: Any) -> str:
    schema = info.schema
    rows = [
        ("Aliases", ", ".join(f"`xb.{alias}`" for alias in info.aliases)),
        ("C++", f"`{info.cpp_name}`"),
        ("Described under", write_operations.section_text(info.section)),
        ("Family", f"[{info.family}](../operations.md#{info.family})"),
        ("Operands", write_operations.operands_text(schema)),
        ("Attributes", write_operations.attributes_text(schema)),
        ("StableHLO", write_operations.stablehlo_text(schema)),
        ("Cost", f"{write_operations.cost_text(schema.cost)}: {schema.cost.value}"),
        ("Tolerance", write_operations.tolerance_text(schema)),
    ]
    lines = write_operations.table(
        ("Opcode", f"`{info.opcode}`"), ((name, text) for name, text in rows if text)
    )
    explained = "[The operations](../operations.md) explains the rows."
    return "\n".join(["## Names and rules", "", *lines, explained])


@cache
def _record() -> dict[str, dict[str, dict[str, str]]]:
    return write_platforms.record()


def _platforms(info: Any) -> str:
    """Where the example ran, or was compiled for."""
    rows = []
    for platform, versions in _record().items():
        by_outcome: dict[str, list[str]] = {}
        for version, outcomes in versions.items():
            if info.name in outcomes:
                by_outcome.setdefault(outcomes[info.name], []).append(version)
        name = platform.removeprefix(write_platforms.COMPILED).strip()
        for outcome, where in by_outcome.items():
            rows.append((name, outcome.replace("|", "\\|"), ", ".join(where)))
    lines = write_operations.table(("Platform", "The example", "jaxlib"), sorted(rows))
    note = "*Compiled*: for absent devices, without executing anything."
    return "\n".join(["## Platforms", "", *lines, note])


def _defects(info: Any) -> str:
    """The rewrites of the op before XLA compiles it, with links to the programs that show why."""
    found = [one for one in write_defects.ALL_REWRITES if info.schema.stablehlo in one.names]
    if not found:
        return ""
    lines = ["## Defects of XLA, and rewrites", ""]
    for rewrite in found:
        name = rewrite.apply.__name__
        title = name[0].upper() + name[1:].replace("_", " ")
        anchor = name.replace("_", "-")
        platforms = ", ".join(rewrite.platforms)
        summary = write_defects.described(rewrite).title
        lines.append(f"- [{title}](../xla_defects.md#{anchor}) ({platforms}): {summary}")
    return "\n".join(lines)


@cache
def _example(info: Any) -> tuple[Any, ...]:
    return tuple(write_platforms.computations_of_example(info))


def example_op(info: Any) -> Any:
    """Return the first op of the example that has the operation's opcode, or None."""
    ops = (op for one in _example(info) for op in write_platforms.ops_of(one))
    return next((op for op in ops if op.opcode == info.opcode), None)


def small_convolution() -> Any:
    """Return a convolution for a picture; those of the examples are too large for one."""
    b = xb.XlaBuilder()
    image = b.parameter(xb.f32[1, 1, 4, 5], "image")
    return xb.conv(image, b.parameter(xb.f32[1, 1, 2, 3], "kernel"), [1, 1], "VALID")


def fenced(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"
