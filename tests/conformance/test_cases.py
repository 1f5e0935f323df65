"""`builder` against the table of what the real XlaBuilder answers; README.md describes it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from scripts import load_script

HERE = Path(__file__).parent
FILES = (
    "xlabuilder_cases.jsonl.gz",
    "xlabuilder_killers.jsonl.gz",
    "xlabuilder_bounded.jsonl.gz",
)


runner = load_script("tests/conformance/run_cases.py")


def cases_by_op() -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for file in FILES:
        for case in runner.read(HERE / file):
            found[file, case["op"]].append(case)
    return found


BY_OP = cases_by_op()
OFFERED = [
    (file, op) for file, op in BY_OP if op in runner.ADAPTERS and runner.ADAPTERS[op].is_offered
]


def test_every_op_of_the_families_that_stand_is_asked() -> None:
    """An op that `builder` stops offering must not drop out of the comparison unseen."""
    assert len({op for _, op in OFFERED}) >= 117


@pytest.mark.parametrize(
    ("file", "op"),
    OFFERED,
    ids=[f"{op}-{file.split('_')[1].split('.')[0]}" for file, op in OFFERED],
)
def test_op_agrees(file: str, op: str) -> None:
    report = runner.run(BY_OP[file, op])
    shown = [runner.describe(case, got) for case, got in report.disagreements[:20]]
    assert not report.disagreements, "\n".join(
        [*shown, f"{len(report.disagreements)} disagreements: {report}"]
    )


def test_every_op_of_the_document_is_offered() -> None:
    core = {
        case["op"]
        for (file, _), cases in BY_OP.items()
        for case in cases
        if file == FILES[0] and case["scope"] == "core"
    }
    assert len(core) == 99
    assert core <= {op for _, op in OFFERED}


def test_the_whole_table_is_there() -> None:
    totals = [sum(len(c) for (f, _), c in BY_OP.items() if f == file) for file in FILES]
    assert totals == [7556, 939, 2685]
    assert len({op for file, op in BY_OP if file == FILES[0]}) == 139


def test_every_op_has_an_adapter() -> None:
    assert {op for _, op in BY_OP} <= set(runner.ADAPTERS)


def test_every_decision_stands_in_the_readme_with_its_reason() -> None:
    rows = [line for line in (HERE / "README.md").read_text().splitlines() if "| `" in line]
    told = set()
    for row in rows:
        op = ""
        for name in re.findall(r"`([A-Za-z]*\.[0-9a-f]{10})`", row.split("|")[1]):
            op = name.partition(".")[0] or op
            told.add(f"{op}.{name.partition('.')[2]}")
    assert told == set(runner.DECIDED)
    known = {case["id"] for cases in BY_OP.values() for case in cases if "id" in case}
    assert told <= known


GOOD = {
    "id": "Add.0",
    "op": "Add",
    "operands": ["f32[2,3]", "f32[3]"],
    "attrs": {"broadcast_dimensions": [1]},
    "result": "f32[2,3]",
}


def status(tmp_path: Path, case: dict[str, Any]) -> int:
    file = tmp_path / "doctored.jsonl"
    file.write_text(json.dumps(case) + "\n")
    return runner.main([str(file)])


def test_a_right_answer_is_no_disagreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(tmp_path, GOOD) == 0
    expected = "agree 1 of 1 counted, 0 not counted, 0 for ops not offered yet\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"result": "f32[2,4]"},
        {"result": "bf16[2,3]"},
        {"operands": ["f32[2,3]", "f32[4]"]},
        {"attrs": {}},
    ],
)
def test_a_wrong_answer_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any]
) -> None:
    assert status(tmp_path, GOOD | wrong) == 1
    out = capsys.readouterr().out
    assert out.startswith("Add.0: Add(f32[2,3]; ")
    assert "agree 0 of 1 counted" in out


def test_an_error_that_is_not_raised_is_noticed(tmp_path: Path) -> None:
    case = {k: v for k, v in GOOD.items() if k != "result"} | {"error": "INVALID_ARGUMENT: no"}
    assert status(tmp_path, case) == 1


@pytest.mark.parametrize("tags", [["unbounded"], ["opaque"], ["changed"], ["lenient"], ["loose"]])
def test_what_does_not_count_is_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tags: list[str]
) -> None:
    assert status(tmp_path, GOOD | {"result": "f32[9]", "tags": tags}) == 0
    assert "agree 0 of 0 counted, 1 not counted" in capsys.readouterr().out


def test_a_crash_is_a_disagreement_whatever_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setitem(runner.ADAPTERS, "Add", runner.Adapter(crash, ()))
    for outcome in ({"error": "no"}, {"abort": "signal 11"}, {"result": "f32[2,3]"}):
        case = {k: v for k, v in GOOD.items() if k != "result"} | outcome
        assert status(tmp_path, case) == 1
    assert status(tmp_path, GOOD | {"tags": ["unbounded"]}) == 1


def test_ops_that_are_not_offered_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(tmp_path, GOOD | {"op": "NoSuchOp"}) == 0
    assert "1 for ops not offered yet" in capsys.readouterr().out
