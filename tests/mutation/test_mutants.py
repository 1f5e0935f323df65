"""The mutants of a source text, and the tests that are chosen for a module."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutation import __main__ as command
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


def test_tests_with_the_name_of_a_module_run_first(tmp_path: Path) -> None:
    folders = ("builder", "lowering/importer", "lowering/ops", "lowering/ops/more")
    names = {folder: f"tests/{folder}/test_dot.py" for folder in folders}
    other, example = "tests/lowering/test_names.py", "tests/test_docstrings.py"
    for name in (*names.values(), "tests/lowering/ops/test_sum.py", other, example):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from lowering.ops.dot import x" if name == other else "")
    assert command.tests_of(Path("lowering/ops/dot.py"), tmp_path) == [
        [names[f] for f in ("lowering/ops/more", "lowering/ops", "builder", "lowering/importer")],
        ["tests/lowering/ops"],
        [example, other],
    ]
