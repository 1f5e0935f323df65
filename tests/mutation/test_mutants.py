"""The mutants of a source text, and the tests that are chosen for a module."""

from __future__ import annotations

import ast
from pathlib import Path

from coverage import CoverageData

from tests.mutation import __main__ as command
from tests.mutation.mutants import Mutant, mutants_of

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
    z = zip(x, y, strict=True)
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
    names = [f"tests/{folder}/test_dot.py" for folder in folders]
    for name in (*names, "tests/lowering/ops/test_sum.py", "tests/test_names.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    module = Path("lowering/ops/dot.py")
    own = [names[3], names[2], names[0], names[1]]
    assert command.rounds_of(module, [], tmp_path) == [
        own,
        ["tests/lowering/ops"],
        list(command.EVERY_OP),
    ]
    executing = [
        "tests/test_names.py::test_a",
        "tests/test_names.py::test_b",
        "tests/lowering/ops/test_sum.py::test_c",
        f"{names[0]}::test_d[1]",
    ]
    (tests,) = command.rounds_of(module, executing, tmp_path)
    assert tests == [executing[3], executing[2], executing[0], executing[1]]
    executing = [f"tests/test_names.py::test_{number}" for number in range(900)]
    rounds = command.rounds_of(module, executing, tmp_path)
    assert [len(tests) for tests in rounds] == [command.FIRST, command.MOST - command.FIRST]


def test_the_tests_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "coverage"
    data = CoverageData(str(file))
    data.set_context("tests/test_a.py::test_b[c|d]|run")
    data.add_lines({str(command.ROOT / "builder/dot.py"): [3, 7]})
    data.set_context("")
    data.add_lines({str(command.ROOT / "builder/dot.py"): [1]})
    data.write()
    coverage = command.Coverage(file)
    module = Path("builder/dot.py")

    def tests(line: int) -> list[str]:
        return coverage.tests(module, Mutant(line, 0, 1, "2"))

    assert tests(3) == tests(4) == ["tests/test_a.py::test_b[c|d]"]
    assert tests(1) == []
    assert coverage.tests(Path("builder/other.py"), Mutant(3, 0, 1, "2")) == []
