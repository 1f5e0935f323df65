"""Compare `builder` with the recorded results of XlaBuilder, which README.md describes."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scripts import ROOT, load_script
from tables import each_row

HERE = Path(__file__).parent
FILES = (
    "xlabuilder_cases.jsonl.gz",
    "xlabuilder_killers.jsonl.gz",
    "xlabuilder_bounded.jsonl.gz",
)


runner = load_script("tests/conformance/run_cases.py")


@cache
def cases_of(file: str) -> list[dict[str, Any]]:
    return list(runner.read(HERE / file))


@cache
def report_of(file: str) -> Any:
    """Return the comparison of all cases of a file."""
    return runner.run(cases_of(file))


def ops_in(*files: str) -> set[str]:
    return {case["op"] for file in files for case in cases_of(file)}


# The outcomes of the first file that are not compared: a change of one of these numbers is a change
# of behaviour. docs/architecture.md has the same table, and README.md shows the totals.
COUNTED = 7024
NOT_COUNTED = {
    "algorithm": {"accepted here": 10},
    "changed": {"agree": 18, "refused here": 8},
    "document": {"refused here": 33},
    "lenient": {"agree": 9, "refused here": 176},
    "loose": {"agree": 11, "refused here": 132},
    "opaque": {"agree": 91, "refused here": 4},
    "unbounded": {"accepted here": 39, "of another shape here": 1},
}


def test_cases_that_do_not_count_disagree_as_often_as_before() -> None:
    report = report_of(FILES[0])
    assert report.by_outcome(None) == {"agree": COUNTED}
    reasons = {reason for reason, _ in report.outcomes} - {None}
    assert {reason: dict(report.by_outcome(reason)) for reason in reasons} == NOT_COUNTED


def test_cases_of_the_other_files() -> None:
    """All bounded cases count, and `builder` has a result for each case without one."""
    killers, bounded = map(report_of, FILES[1:])
    assert bounded.outcomes == {(None, "agree"): 2685}
    assert killers.outcomes == {(runner.NO_ANSWER, "agree"): 939}


def test_the_documents_have_these_numbers() -> None:
    rows = [f"| compared | {COUNTED:,} | {COUNTED:,} | 0 |"]
    for reason, counts in NOT_COUNTED.items():
        total, agree = sum(counts.values()), counts.get("agree", 0)
        rows.append(f"| {reason} | {total} | {agree} | {total - agree} |")
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert [row for row in rows if row not in text] == []
    uncounted = sum(sum(counts.values()) for counts in NOT_COUNTED.values())
    assert COUNTED + uncounted == 7556
    for document in (ROOT / "README.md", HERE / "README.md"):
        text = document.read_text()
        assert all(f"{n:,}" in text for n in (7556, COUNTED, uncounted)), document


@each_row("file", FILES)
def test_ops_agree(file: str) -> None:
    """`builder` offers each op, and agrees with XlaBuilder."""
    report = report_of(file)
    shown = [runner.describe(case, got) for case, got in report.failures[:20]]
    assert not report.failures, "\n".join([*shown, f"{len(report.failures)} failures: {report}"])
    assert not report.not_offered


def test_every_op_of_the_document_is_offered() -> None:
    core = {case["op"] for case in cases_of(FILES[0]) if case["scope"] == "core"}
    assert len(core) == 99
    assert all(runner.ADAPTERS[op].is_offered for op in core)


def test_the_numbers_of_cases() -> None:
    assert [len(cases_of(file)) for file in FILES] == [7556, 939, 2685]
    assert len(ops_in(FILES[0])) == 139


def test_every_op_has_an_adapter() -> None:
    assert ops_in(*FILES) <= set(runner.ADAPTERS)


def test_the_readme_lists_every_decision() -> None:
    rows = [line for line in (HERE / "README.md").read_text().splitlines() if "| `" in line]
    ids = set()
    for row in rows:
        op = ""
        for name in re.findall(r"`([A-Za-z0-9]*\.[0-9a-f]{10})`", row.split("|")[1]):
            op = name.partition(".")[0] or op
            ids.add(f"{op}.{name.partition('.')[2]}")
    assert ids == {*runner.DECIDED, *runner.MARKED, *runner.COMPUTED}
    known = {case["id"] for file in FILES for case in cases_of(file) if "id" in case}
    assert ids <= known


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


def test_a_correct_answer_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_a_wrong_answer_disagrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any]
) -> None:
    assert status(tmp_path, GOOD | wrong) == 1
    out = capsys.readouterr().out
    assert out.startswith("Add.0: Add(f32[2,3]; ")
    assert "agree 0 of 1 counted" in out


def test_a_missing_error_disagrees(tmp_path: Path) -> None:
    case = {k: v for k, v in GOOD.items() if k != "result"} | {"error": "INVALID_ARGUMENT: no"}
    assert status(tmp_path, case) == 1


@pytest.mark.parametrize("tag", ["opaque", "changed", "lenient", "loose"])
def test_cases_that_do_not_count_are_reported_by_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tag: str
) -> None:
    assert status(tmp_path, GOOD | {"result": "f32[9]", "tags": ["bounded", tag]}) == 0
    assert capsys.readouterr().out == (
        "agree 0 of 0 counted, 1 not counted, 0 for ops not offered yet\n"
        f"  not counted, {tag}: 0 agree, 1 disagree (1 of another shape here)\n"
    )


@pytest.mark.parametrize("tag", ["lenient", "loose"])
def test_errors_count_in_cases_whose_results_do_not_count(tmp_path: Path, tag: str) -> None:
    case = {k: v for k, v in GOOD.items() if k != "result"} | {"error": "no", "tags": [tag]}
    assert status(tmp_path, case) == 1


BODY = {"params": ["f32[]", "f32[]"], "body": "add", "result": "f32[]"}
MAPPED = {
    "id": "Map.0",
    "op": "Map",
    "operands": ["f32[2]", "f32[2]"],
    "attrs": {"computation": BODY, "dimensions": [0]},
    "result": "f32[2]",
}


@pytest.mark.parametrize(
    "body",
    [
        {"body": "no_such_body"},
        {"result": "f32[3]"},
        {"params": ["f32[]", "s32[]"]},
        {"params": ["f32[]"]},
    ],
)
def test_a_body_that_cannot_be_recorded_is_not_an_answer(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    attrs = {"computation": BODY | body, "dimensions": [0]}
    assert status(tmp_path, MAPPED) == 0
    for outcome in ({"result": "f32[2]"}, {"error": "no"}, {"abort": "signal 11"}):
        case = {k: v for k, v in MAPPED.items() if k != "result"} | {"attrs": attrs} | outcome
        assert status(tmp_path, case) == 1


def test_a_crash_always_disagrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setitem(runner.ADAPTERS, "Add", runner.Adapter(crash, ()))
    for outcome in ({"error": "no"}, {"abort": "signal 11"}, {"result": "f32[2,3]"}):
        case = {k: v for k, v in GOOD.items() if k != "result"} | outcome
        assert status(tmp_path, case) == 1
    assert status(tmp_path, GOOD | {"tags": ["opaque"]}) == 1


def test_ops_that_are_not_offered_are_counted_separately(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(tmp_path, GOOD | {"op": "NoSuchOp"}) == 0
    assert "1 for ops not offered yet" in capsys.readouterr().out
