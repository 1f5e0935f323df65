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
`builder/ops`, `builder/shape_inference` and `lowering/rules`. What an operation takes, gives and
refuses stands in its docstring: `help(xb.{example})`.

- **Operation**: as it is called, with `import builder as xb`; `b` is an XlaBuilder. What may be
  left out is in brackets, arguments after `*` are given by name. Other names for the same function
  stand below it.
- **Opcode**: the instruction that is recorded and whose value is the result, under HLO's name.
- **C++**: the name in XLA's `xla_builder.h`.
- **Described under**: the section of the
  [Operation Semantics](https://openxla.org/xla/operation_semantics) document.
- **StableHLO**: the operation that the opcode becomes. *(rule)* means that it is created by a rule
  in `lowering/rules/FAMILY.py`, with regions or with others beside it; *(with exceptions)* that a
  few element types are written another way; *(none)* that no operation is left in the module.
"""

# What rules create under another name than the opcode's.
RENAMED = {"call": ("func.call",), "conditional": ("stablehlo.if", "stablehlo.case")}
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
    from lowering.mlir_context import shared_context
    from lowering.rules.registry import DIRECT, EXCEPTIONS, RULES

    if opcode in DIRECT:
        return f"`{DIRECT[opcode]}`" + (" *(with exceptions)*" if opcode in EXCEPTIONS else "")
    if opcode in NO_OPERATION:
        return "*(none)*"
    if opcode not in RULES:
        raise LookupError(f"{opcode} has no lowering rule")
    known = shared_context().context.is_registered_operation
    names = [n for n in (f"stablehlo.{opcode}", f"chlo.{opcode}") if known(n)][:1]
    names = list(RENAMED.get(opcode, names))
    if not names:
        raise LookupError(f"{opcode}: which operation its rule creates is to be said in RENAMED")
    return f"{', '.join(f'`{n}`' for n in names)} *(rule)*"


def document() -> str:
    """The whole of docs/operations.md."""
    import builder as xb
    import lowering  # noqa: F401  (enters the lowering rules)

    families: dict[str, list[xb.OpInfo]] = {}
    for info in xb.OPERATIONS.values():
        families.setdefault(info.family, []).append(info)
    lines = [HEAD.format(example="dot_general")]
    for family in sorted(families):
        lines += [
            f"## {family}\n",
            "| Operation | Opcode | C++ | Described under | StableHLO |",
            "| --- | --- | --- | --- | --- |",
        ]
        for info in sorted(families[family], key=lambda one: one.name):
            cells = (
                "<br>".join(f"`{text}`" for text in call_texts(info)),
                f"`{info.opcode}`",
                f"`{info.cpp_name}`",
                info.section,
                stablehlo_text(info.opcode),
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines.append(f"{len(xb.OPERATIONS)} operations in {len(families)} families.")
    return "\n".join(lines) + "\n"


def main() -> None:
    sys.path.insert(0, str(ROOT))
    TARGET.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
