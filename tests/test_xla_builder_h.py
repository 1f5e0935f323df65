"""The table of the declarations in xla_builder.h names functions that `builder` has."""

from __future__ import annotations

import inspect
from typing import Any

from scripts import load_script
from tables import each_row

import builder as xb

GROUPS = load_script("tools/xla_builder_h.py").GROUPS
ROWS = [row for _, rows in GROUPS for row in rows]
NAMES = {row.cpp for row in ROWS}


def resolved(name: str) -> object:
    """Return the object that a name in the table refers to; for an alias, the function itself."""
    owner: object = xb
    for prefix, type_ in (("b.", xb.XlaBuilder), ("op.", xb.XlaOp)):
        if name.startswith(prefix):
            owner, name = type_, name.removeprefix(prefix)
    if owner is xb.XlaBuilder and name == "name":
        return xb.XlaBuilder().name
    for part in name.split("."):
        owner = getattr(owner, part)
    return inspect.unwrap(owner) if callable(owner) else owner


@each_row("row", ROWS)
def test_names_in_builder_exist(row: Any) -> None:
    assert all(resolved(name) is not None for name in row.ours)


@each_row("row", [r for r in ROWS if not r.ours])
def test_declarations_without_equivalent_have_a_reason(row: object) -> None:
    assert len(row.note) > 10  # type: ignore[attr-defined]
    assert row.note.endswith(".")  # type: ignore[attr-defined]


def test_names_are_unique() -> None:
    assert len(NAMES) == len(ROWS)


@each_row("name", xb.OPERATIONS)
def test_every_operation_is_in_the_row_of_its_cpp_name(name: str) -> None:
    """Except operations of XLA's client library, and those that XLA does not have."""
    info = xb.OPERATIONS[name]
    if info.section in ELSEWHERE or info.cpp_name in ELSEWHERE:
        return
    rows = [row for row in ROWS if row.cpp == info.cpp_name]
    if not rows:
        # Internal to XLA, and public here.
        rows = [row for row in ROWS if row.cpp.endswith(f"::Build{info.cpp_name}")]
    ours = {resolved(our_name) for row in rows for our_name in row.ours}
    function = inspect.unwrap(info.function)
    assert function in ours, f"{info.cpp_name} of tools/xla_builder_h.py does not name {name}"


ELSEWHERE = {"XLA's client library, math.h", "(none)", ""}
"""Sections or C++ names of operations that the header does not declare."""


def test_functions_of_the_first_group_are_operations() -> None:
    functions = {inspect.unwrap(info.function) for info in xb.OPERATIONS.values()}
    for row in GROUPS[0][1]:
        for name in row.ours:
            assert resolved(name) in functions or name in ("b.call", "b.empty_tuple"), name
