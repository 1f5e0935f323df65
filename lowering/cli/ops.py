"""`xlabuilder ops`: the table of operations, and what each of them does."""

from __future__ import annotations

import difflib
import inspect as python_inspect
import re
from typing import TYPE_CHECKING, Any, Final

import click

from lowering.cli.command import FailedError, json_option, subcommand
from lowering.cli.output import print_json, show, table

if TYPE_CHECKING:
    from builder.graph.registry import OpInfo


@subcommand("ops")
@click.argument("name", required=False)
@json_option
def ops(name: str | None, as_json: bool) -> None:
    """Lists the operations, or shows the documentation of the one called NAME.

    NAME is what it is called in Python, an opcode, or what it is called in the C++ XlaBuilder.
    """
    from builder.graph.registry import OPERATIONS

    if name is None:
        if as_json:
            print_json([_row(info) for info in OPERATIONS.values()])
        else:
            _print_all(list(OPERATIONS.values()))
        return
    found = _named(name, OPERATIONS)
    if as_json:
        print_json([{**_row(one), "documentation": _document(one)} for one in found])
        return
    for number, one in enumerate(found):
        if number:
            show("")
        _print_one(one)


def _row(info: OpInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "aliases": list(info.aliases),
        "opcode": info.opcode,
        "cpp_name": info.cpp_name,
        "family": info.family,
        "section": info.section,
        "is_method": info.is_method,
    }


def _print_all(infos: list[OpInfo]) -> None:
    columns = ["name", "opcode", "XlaBuilder", "family", "section"]
    rows = [
        (_called(one), one.opcode, one.cpp_name, one.family, one.section)
        for one in sorted(infos, key=lambda one: (one.family, one.name))
    ]
    show(
        table([(column, "left") for column in columns], rows),
        "",
        f"{len(rows)} operations; `xlabuilder ops NAME` shows one",
    )


def _called(info: OpInfo) -> str:
    names = ", ".join((info.name, *info.aliases))
    return f"XlaBuilder.{names}" if info.is_method else names


def _named(name: str, operations: dict[str, OpInfo]) -> list[OpInfo]:
    """The operations of this name.

    Raises:
        FailedError: there is none; the message says which are near.
    """
    wanted = name.removeprefix("xb.").removeprefix("XlaBuilder.")
    by_name = [one for one in operations.values() if wanted in (one.name, *one.aliases)]
    if by_name:
        return by_name
    lowered = wanted.lower().replace("-", "_")
    found = [
        one
        for one in operations.values()
        if lowered in (one.name.lower(), one.opcode.replace("-", "_"), one.cpp_name.lower())
    ]
    if found:
        return found
    names = {alias.lower(): one for one in operations.values() for alias in _names(one)}
    near = difflib.get_close_matches(lowered, names, n=5, cutoff=0.5)
    listed = ", ".join(dict.fromkeys(names[one].name for one in near))
    raise FailedError(
        f"ops: there is no operation {name!r}"
        + (f"\nfix: the nearest are {listed}" if listed else "\nfix: `xlabuilder ops` lists them")
    )


def _names(info: OpInfo) -> tuple[str, ...]:
    return (info.name, *info.aliases, info.opcode, info.cpp_name)


def _document(info: OpInfo) -> str:
    return python_inspect.cleandoc(info.function.__doc__ or "")


def _print_one(info: OpInfo) -> None:
    from rich.text import Text

    signature = re.sub(r"'", "", str(python_inspect.signature(info.function)))
    place = "XlaBuilder." if info.is_method else "xb."
    said = [f"opcode {info.opcode}", f"{info.cpp_name} in C++", f"family {info.family}"]
    if info.aliases:
        said.append(f"also called {', '.join(info.aliases)}")
    lines = [
        Text(line, style="bold" if _HEADING.fullmatch(line) else "")
        for line in _document(info).splitlines()
    ]
    show(
        Text.assemble((f"{place}{info.name}", "bold cyan"), signature),
        Text(", ".join(said), style="italic"),
        "",
        *lines,
    )


_HEADING: Final = re.compile(r"(Args|Returns|Raises|Example|Attributes):")
