"""The bug reports to XLA: the scripts show the defects, and no defect is left out by mistake."""

from __future__ import annotations

import ast

import pytest
from scripts import load_script
from tables import each_row

from tests.defects.reproducer import all_reproducers, read
from tests.recorded_versions import VERSION, needs_outcomes

_SCRIPT = load_script("tools/defect_reports.py")
REPORTS, REASONS = _SCRIPT.read_reports()


def test_every_defect_of_the_newest_version_has_a_report_or_a_reason_against_one() -> None:
    listed = [name for report in REPORTS for name in report.reproducers] + list(REASONS)
    observed = {name: read(name).observed for name in all_reproducers()}
    newest = max((version for each in observed.values() for version in each), key=_number)
    failing = [name for name, each in observed.items() if each.get(newest, "") != "right"]
    assert sorted(listed) == sorted(failing)


def _number(version: str) -> list[int]:
    return list(map(int, version.split(".")))


@each_row("name", [name for report in REPORTS for name in report.reproducers])
def test_a_script_imports_neither_the_project_nor_private_modules(name: str) -> None:
    nodes = list(ast.walk(ast.parse(_SCRIPT.script(read(name)))))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    allowed = {"jax", "ml_dtypes", "numpy", "jax.extend.backend", "jaxlib.xla_client"}
    assert modules <= allowed


@needs_outcomes
@pytest.mark.slow
@pytest.mark.jaxlib
@pytest.mark.parametrize(
    ("report_name", "reproducer", "got"),
    [
        ("add_of_pred_constants", "add_of_pred_constants", "got      bool False"),
        ("partitioned_pad_of_few_tiles", "pad_interior_of_few_tiles", "[100, 100, 101, 101]"),
        ("reductions_with_a_channel", "all_reduce_with_a_channel", "is not supported"),
        ("map_of_a_call", "map_of_a_call", "shape does not match parameter's"),
        ("concatenate_of_i2", "concatenate_s2", "SIGABRT ends the process.\nir_array.cc:"),
    ],
)
def test_a_report_shows_what_its_script_does(report_name: str, reproducer: str, got: str) -> None:
    """Wrong values of a device and of partitions, errors of replicas and of a device, an abort."""
    (report,) = [each for each in REPORTS if each.name == report_name]
    assert report.reproducers[0] == reproducer
    script = _SCRIPT.script(read(reproducer))
    outcome = _SCRIPT.run_script(script)
    assert outcome.kind == read(reproducer).observed[VERSION]
    assert got in outcome.text
    if outcome.kind == "aborts":  # XLA's log has the time and the thread
        assert _SCRIPT.run_script(script) == outcome
    right = _SCRIPT.Outcome("right", "")
    outcomes = dict.fromkeys(report.reproducers, right)
    text = _SCRIPT.report_text(report, outcomes | {reproducer: outcome})
    assert script in text
    assert outcome.text in text
    assert report.expected in text
    assert _SCRIPT.report_text(report, outcomes) is None


def test_further_failing_programs_are_shown_with_their_values() -> None:
    (report,) = [each for each in REPORTS if each.name == "constant_negative_zero"]
    wrong = _SCRIPT.Outcome("wrong", "printed")
    text = _SCRIPT.report_text(report, dict.fromkeys(report.reproducers, wrong))
    assert text.count("printed") == len(report.reproducers)
    assert "import ml_dtypes\narguments = ()\nexpected = (np.array([-0.0, 1, 2]" in text
