"""The pages of the API reference, as Markdown.

mkdocstrings writes the documentation of the public names from their docstrings; these pages only
list the names. The page of the command is the help texts of its subcommands.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final

import click
from op_pages import fenced, path_of

import builder as xb
import lowering
from builder import layout, lib
from builder.unknown_names.table import FUNCTIONS

_TITLES: Final = {
    "types": "Types and shapes",
    "layout": "Layouts",
    "attributes": "Attribute values",
    "graph": "Builders, ops and computations",
    "ops": "Prints and checks",
    "rewriting": "Rewriting",
    "inspection": "Tables, costs and differences",
    "sharding": "Shardings",
    "errors": "Errors",
}
"""The pages of `builder`, by the package that defines the names."""

_CONSTANTS: Final = {"OPERATIONS": "graph", "UNBOUNDED": "types"}
"""The packages of names whose values have no module."""


def pages() -> Iterator[tuple[str, str, str]]:
    """Generate the title, the path and the text of each page, in order."""
    listed = list(_pages())
    yield "Overview", "reference/index.md", _overview({title: path for title, path, _ in listed})
    yield from listed


def _pages() -> Iterator[tuple[str, str, str]]:
    for package, title in _TITLES.items():
        names = sorted(_names_of(package), key=str.lower)
        parts = [f"# {title}", *(_entry(f"builder.{name}") for name in names)]
        if package == "types":
            parts.insert(1, _element_types())
        if package == "layout":
            parts.insert(1, "`from builder import layout` offers these functions and classes.")
            parts += [_entry(f"builder.layout.{n}") for n in layout.__all__ if n not in names]
        yield f"builder: {title}", f"reference/builder/{package}.md", "\n\n".join(parts) + "\n"
    for family in sorted({one.family for one in lib.FUNCTIONS.values()}):
        yield f"lib.{family}", f"reference/lib/{family}.md", _library(family)
    names = [name for name in lowering.__all__ if not _is_module(getattr(lowering, name))]
    text = "\n\n".join(["# lowering", *(_entry(f"lowering.{name}") for name in names)])
    yield "lowering", "reference/lowering.md", text + "\n"
    yield "lowering.ffi", "reference/ffi.md", _module("lowering.ffi")
    yield "xlabuilder (command)", "reference/command.md", _command()
    yield "Names of other libraries", "reference/other-names.md", _other_names()


def _is_module(value: object) -> bool:
    return isinstance(value, ModuleType)


def _names_of(package: str) -> Iterable[str]:
    """Return the public names of `builder` that a package defines, other than ops and types."""
    operations = {one for info in xb.OPERATIONS.values() for one in (info.name, *info.aliases)}
    for name in xb.__all__:
        value = getattr(xb, name)
        if name in operations or _is_module(value):
            continue
        if isinstance(value, xb.PrimitiveType):
            continue
        module = getattr(value, "__module__", "").removeprefix("builder.")
        if _CONSTANTS.get(name, module.partition(".")[0]) == package:
            yield name


def _element_types() -> str:
    types = [name for name in xb.__all__ if isinstance(getattr(xb, name), xb.PrimitiveType)]
    return f"The element types: {', '.join(f'`xb.{name}`' for name in types)}."


def _entry(name: str) -> str:
    return f"::: {name}"


def _overview(pages: Mapping[str, str]) -> str:
    lines = [
        "# Reference",
        "",
        "Written from the docstrings. `import builder as xb`, `from builder import lib` and",
        "`import lowering` offer the names.",
        "",
        *(f"- [{title}]({path.removeprefix('reference/')})" for title, path in pages.items()),
        "",
    ]
    families: dict[str, list[Any]] = {}
    for info in xb.OPERATIONS.values():
        families.setdefault(info.family, []).append(info)
    for family, infos in sorted(families.items()):
        links = ", ".join(
            f"[{info.name}](../{path_of(info)})" for info in sorted(infos, key=lambda i: i.name)
        )
        lines += [f"## Operations: {family}", "", links, ""]
    return "\n".join(lines)


def _library(family: str) -> str:
    module = getattr(lib, family)
    names = sorted(one.name for one in lib.FUNCTIONS.values() if one.family == family)
    introduction = inspect.getdoc(module) or ""
    entries = [_entry(f"builder.lib.{name}") for name in names]
    return "\n\n".join([f"# lib.{family}", introduction, *entries]) + "\n"


def _module(name: str) -> str:
    return f"# {name}\n\n::: {name}\n    options:\n      show_root_heading: false\n"


def _other_names() -> str:
    """Return the table of names of other libraries, from which error messages take their fixes."""
    meanings: dict[str, list[str]] = {}
    for name, text in FUNCTIONS.items():
        meanings.setdefault(text, []).append(name)
    lines = [
        "# Names of other libraries",
        "",
        "What to write for names of jax, NumPy, PyTorch, optax, StableHLO and the C++ XlaBuilder",
        "that do not exist here. The error for such a name has the same text.",
        "",
        "| There | Here |",
        "| --- | --- |",
    ]
    for text, names in sorted(meanings.items(), key=lambda entry: entry[1][0].lower()):
        code = text.replace("|", r"\|")
        lines.append(f"| {', '.join(f'`{name}`' for name in sorted(names))} | `{code}` |")
    return "\n".join(lines) + "\n"


def _command() -> str:
    from lowering.cli import main

    settings = {**main.context_settings, "terminal_width": 88}
    root = click.Context(main, info_name="xlabuilder", **settings)
    parts = ["# The command `xlabuilder`", fenced("text", main.get_help(root))]
    for name in main.list_commands(root):
        command = main.get_command(root, name)
        context = click.Context(command, info_name=name, parent=root, **settings)
        parts += [f"## xlabuilder {name}", fenced("text", command.get_help(context))]
    return re.sub(r"[ \t]+$", "", "\n\n".join(parts), flags=re.M) + "\n"
