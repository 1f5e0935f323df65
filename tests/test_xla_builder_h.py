"""The table of what xla_builder.h declares is about what is there, here as in XLA."""

from __future__ import annotations

import pytest
from scripts import load_script

import builder as xb

GROUPS = load_script("tools/xla_builder_h.py").GROUPS
ROWS = [row for _, rows in GROUPS for row in rows]
NAMES = {row.cpp for row in ROWS}


def found(name: str) -> object:
    """What a name of the table stands for."""
    owner: object = xb
    for prefix, known in (("b.", xb.XlaBuilder), ("op.", xb.XlaOp)):
        if name.startswith(prefix):
            owner, name = known, name.removeprefix(prefix)
    if owner is xb.XlaBuilder and name == "name":
        return xb.XlaBuilder().name
    for part in name.split("."):
        owner = getattr(owner, part)
    return owner


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.cpp)
def test_what_is_named_as_ours_exists(row: object) -> None:
    assert all(found(name) is not None for name in row.ours)  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", [r for r in ROWS if not r.ours], ids=lambda row: row.cpp)
def test_what_is_not_here_has_a_reason(row: object) -> None:
    assert len(row.note) > 10  # type: ignore[attr-defined]
    assert row.note.endswith(".")  # type: ignore[attr-defined]


def test_no_name_stands_twice() -> None:
    assert len(NAMES) == len(ROWS)


@pytest.mark.parametrize("name", xb.OPERATIONS)
def test_every_operation_is_found_under_its_name_in_cpp(name: str) -> None:
    """Or it is of the client library beside the header, math.h, or of our own."""
    info = xb.OPERATIONS[name]
    if info.section in ELSEWHERE or info.cpp_name in ELSEWHERE:
        return
    rows = [row for row in ROWS if row.cpp == info.cpp_name]
    ours = {found(one) for row in rows for one in row.ours}
    if not rows:
        # Internal to XLA, and public here.
        rows = [row for row in ROWS if row.cpp.endswith(f"::Build{info.cpp_name}")]
        ours = {found(one) for row in rows for one in row.ours}
    assert info.function in ours, f"{info.cpp_name} of tools/xla_builder_h.py does not name {name}"


ELSEWHERE = {"XLA's client library, math.h", "(none)", ""}
"""Sections, or C++ names, of what the header does not declare."""


def test_every_operation_of_ours_has_a_name_of_its_own_there() -> None:
    """A function that the table names is in the table of operations, but for a few."""
    of_operations = {info.function for info in xb.OPERATIONS.values()}
    for row in GROUPS[0][1]:
        for name in row.ours:
            known = found(name)
            assert known in of_operations or name in ("b.call", "b.empty_tuple"), name
