"""The mutants of a source text."""

from __future__ import annotations

import ast

from tests.mutation.mutants import mutants_of

SOURCE = '''\
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a import b


def f(x: int | None, y: bool = True) -> int:
    """Return -1."""
    assert x != 3
    if x is None or not y:
        check(f"é {x + 1}")
    while y:
        y = x < 2 * y
    return x - 10 if "a" + "b" in y else 7
'''

CHANGES = {
    ("True", "False"),
    ("is", "is not"),
    ("or", "and"),
    ("not ", ""),
    ('check(f"é {x + 1}")', "None"),
    ("y", "(not (y))"),
    ("<", "<="),
    ("*", "//"),
    ("2", "3"),
    ('x - 10 if "a" + "b" in y else 7', "None"),
    ("-", "+"),
    ("10", "11"),
    ("in", "not in"),
    ("7", "8"),
}


def test_each_place_is_changed_once() -> None:
    mutants = mutants_of(SOURCE)
    code = SOURCE.encode()
    changes = [(code[m.start : m.end].decode(), m.replacement) for m in mutants]
    assert len(changes) == len(CHANGES)
    assert set(changes) == CHANGES


def test_mutants_are_programs() -> None:
    for mutant in mutants_of(SOURCE):
        mutated = mutant.applied_to(SOURCE)
        ast.parse(mutated)
        before, after = SOURCE.splitlines(), mutated.splitlines()
        changed = [number for number, line in enumerate(before, 1) if after[number - 1] != line]
        assert changed == [mutant.line]
