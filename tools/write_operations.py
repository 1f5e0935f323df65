"""Writes docs/operations.md from the table of operations and the tables of lowering rules.

    python tools/write_operations.py

tests/test_operations_doc.py fails when the file in the tree is not what this writes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_overloads

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "operations.md"

HEAD = """\
# The operations

<!-- Written by tools/write_operations.py (make docs). Do not edit. -->

Every public operation of `builder`, by family. A family is a module of the same name in
`builder/ops`, `builder/shape_inference` and `lowering/stablehlo/rules`. What an operation takes,
gives and refuses stands in its docstring: `help(xb.{example})`.

- **Operation**: as it is called, with `import builder as xb`; `b` is an XlaBuilder. What may be
  left out is in brackets, arguments after `*` are given by name. Other names for the same function
  stand below it.
- **Opcode**: the instruction that is recorded and whose value is the result, under HLO's name.
- **C++**: the name in XLA's `xla_builder.h`.
- **Described under**: the section of the
  [Operation Semantics](https://openxla.org/xla/operation_semantics) document.
- **StableHLO**: the operation that the opcode becomes. *(rule)* means that it is created by a rule
  in `lowering/stablehlo/rules/FAMILY.py`, with regions or with others beside it; *(with
  exceptions)* that a few element types are written another way; *(none)* that no operation is left
  in the module.
- **Ran on**: the platforms on which the example of its docstring was compiled and executed. This is
  measured: tools/write_platforms.py does it, and adds what the machine it runs on has to
  `docs/platforms.json`. What a platform can't run is recorded, inferred, lowered and verified like
  all others, and refused by name where it is compiled; the notes below the tables say why.

- **Compiles for**: the platforms for which the example was compiled where there was none of them,
  for eight devices of `lowering.topology`: *tpu* is a TPU v5e, for libtpu's compiler; *gpu* an
  NVIDIA H100, for jax's CUDA 12 plugin. None of it was executed, so it says nothing of results.

What of XLA's `xla_builder.h` is here, and what is not and why, stands at the end.
"""

# What rules create under another name than the opcode's.
RENAMED = {
    "all_to_all_tuple": ("stablehlo.all_to_all",),
    "call": ("func.call",),
    "conditional": ("stablehlo.if", "stablehlo.case"),
    "mulhi": ("stablehlo.multiply",),
    "python_call": ("stablehlo.custom_call",),
    "scan": ("stablehlo.while",),
    "stochastic_convert": ("stablehlo.convert", "mhlo.stochastic_convert"),
}
NO_OPERATION = {"parameter", "tuple", "get_tuple_element"}


def call_texts(info: Any) -> list[str]:
    """How an operation is called, and its other names."""
    forms = get_overloads(info.function) or [info.function]
    calls = [signature_text(info.name, form, info.is_method) for form in forms]
    return [*calls, *(f"xb.{alias}" for alias in info.aliases)]


def signature_text(name: str, function: Callable[..., Any], is_method: bool) -> str:
    """``xb.reduce(operands, init_values, computation, dimensions)``."""
    parts: list[str] = []
    star = False
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters[1:] if is_method else parameters:
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        text = parameter.name
        if kind is parameter.VAR_POSITIONAL:
            text, star = f"*{text}", True
        elif kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.default is not parameter.empty:
            text = f"[{text}]"
        parts.append(text)
    return f"{'b' if is_method else 'xb'}.{name}({', '.join(parts)})"


def stablehlo_text(opcode: str) -> str:
    """What an opcode becomes, as Markdown."""
    from lowering.mlir.context import shared_context
    from lowering.stablehlo.rules.registry import EXCEPTIONS, ONE_TO_ONE, RULES

    if opcode in ONE_TO_ONE:
        return f"`{ONE_TO_ONE[opcode]}`" + (" *(with exceptions)*" if opcode in EXCEPTIONS else "")
    if opcode in NO_OPERATION:
        return "*(none)*"
    if opcode not in RULES:
        raise LookupError(f"{opcode} has no lowering rule")
    known = shared_context().is_registered_operation
    names = [n for n in (f"stablehlo.{opcode}", f"chlo.{opcode}") if known(n)][:1]
    names = list(RENAMED.get(opcode, names))
    if not names:
        raise LookupError(f"{opcode}: which operation its rule creates is to be said in RENAMED")
    return f"{', '.join(f'`{n}`' for n in names)} *(rule)*"


Platforms = dict[str, dict[str, dict[str, str]]]


_COMPILED = "compiled"


def platforms_text(name: str, platforms: Platforms) -> str:
    """Where an operation's example ran, or for what it was compiled, as Markdown."""
    found = []
    for key, versions in platforms.items():
        platform = key.removeprefix(_COMPILED).strip()
        answers = {v: ops[name] for v, ops in versions.items() if name in ops}
        ran = [v for v, answer in answers.items() if answer in ("ran", _COMPILED)]
        if ran and len(ran) == len(answers):
            found.append(platform)
        elif ran:
            found.append(f"{platform} (jaxlib {', '.join(ran)})")
        elif answers:
            found.append(f"*refused {'on' if platform == key else 'for'} {platform}*")
    return ", ".join(found) or "*(not measured)*"


def refusals(platforms: Platforms) -> list[str]:
    """Below the tables: what did not run where, and in which words it was refused."""
    lines = ["## What did not run\n"]
    for platform, versions in platforms.items():
        said: dict[str, list[str]] = {}
        for version, ops in versions.items():
            for name, answer in ops.items():
                if answer not in ("ran", _COMPILED):
                    said.setdefault(f"`{name}`: {answer}", []).append(version)
        listed = ", ".join(versions)
        where_to = f"On {platform}"
        if platform.startswith(_COMPILED):
            where_to = f"Compiled for {platform.removeprefix(_COMPILED).strip()}, not executed"
        lines.append(f"{where_to}, measured with jaxlib {listed}:\n")
        lines += [
            f"- {text}" + ("" if len(where) == len(versions) else f" (jaxlib {', '.join(where)})")
            for text, where in sorted(said.items())
        ] or ["- nothing"]
        lines.append("")
    return lines


_HEADER_INTRODUCTION = """\
Every public name of XLA's `xla_builder.h`, and what says the same here: a function of `builder`;
after `b.` a method of XlaBuilder, after `op.` one of XlaOp."""


def header_table() -> list[str]:
    """What xla_builder.h declares, and what of it is here."""
    from xla_builder_h import GROUPS

    lines = [
        "# xla_builder.h\n",
        f"{_HEADER_INTRODUCTION}\n",
    ]
    for title, rows in GROUPS:
        lines += [f"## {title}\n", "| C++ | Here | |", "| --- | --- | --- |"]
        for row in rows:
            ours = ", ".join(
                f"`{o}`" if o.startswith(("b.", "op.")) else f"`xb.{o}`" for o in row.ours
            )
            lines.append(f"| `{row.cpp}` | {ours or 'no'} | {row.note} |")
        lines.append("")
    return lines


def document() -> str:
    """The whole of docs/operations.md."""
    from write_platforms import record

    import builder as xb
    import lowering  # noqa: F401  (enters the lowering rules)

    platforms = record()
    ran, compiled = (
        {p: found for p, found in platforms.items() if p.startswith(_COMPILED) == is_compiled}
        for is_compiled in (False, True)
    )

    families: dict[str, list[xb.OpInfo]] = {}
    for info in xb.OPERATIONS.values():
        families.setdefault(info.family, []).append(info)
    lines = [HEAD.format(example="dot_general")]
    for family in sorted(families):
        lines += [
            f"## {family}\n",
            "| Operation | Opcode | C++ | Described under | StableHLO | Ran on | Compiles for |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for info in sorted(families[family], key=lambda one: one.name):
            cells = (
                "<br>".join(f"`{text}`" for text in call_texts(info)),
                f"`{info.opcode}`",
                f"`{info.cpp_name}`",
                info.section,
                stablehlo_text(info.opcode),
                platforms_text(info.name, ran),
                platforms_text(info.name, compiled),
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines.append(f"{len(xb.OPERATIONS)} operations in {len(families)} families.\n")
    lines += refusals(platforms)
    lines += header_table()[:-1]
    return "\n".join(lines) + "\n"


def main() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    TARGET.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
