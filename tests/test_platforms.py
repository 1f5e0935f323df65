"""Check docs/platforms.json, which records where each operation ran. The CPU is measured again."""

from __future__ import annotations

import json

import jaxlib
import pytest
from processes import run_python
from scripts import load_script

import builder as xb

pytestmark = pytest.mark.slow

tool = load_script("tools/write_platforms.py")


def test_every_operation_is_measured() -> None:
    """New operations may wait for a machine that has the compilers of the absent devices."""
    for platform, versions in tool.record().items():
        for version, answers in versions.items():
            if platform.startswith(tool.COMPILED):
                assert set(answers) <= set(xb.OPERATIONS), f"{platform}, {version}: make platforms"
                assert len(answers) > 0.95 * len(xb.OPERATIONS), f"{platform}, {version}"
            else:
                assert set(answers) == set(xb.OPERATIONS), f"{platform}, {version}: make platforms"


def test_operations_that_were_not_compiled_have_an_error_of_the_library() -> None:
    """For absent devices, no error of XLA and no crash is recorded."""
    platforms = [platform for platform in tool.record() if platform.startswith(tool.COMPILED)]
    assert platforms == ["compiled gpu", "compiled tpu"]
    for platform in platforms:
        device = platform.removeprefix(tool.COMPILED).strip()
        messages = (f"can't run on {device}: ", f"is registered for {device}")
        for answers in tool.record()[platform].values():
            refused = [answer for answer in answers.values() if answer != tool.COMPILED]
            assert 0 < len(refused) <= 15
            assert all(any(message in answer for message in messages) for answer in refused)


def test_the_results_of_the_cpu() -> None:
    """Compile and execute every example in a process with eight devices."""
    done = run_python("tools/write_platforms.py", "--measure", "cpu")
    (answers,) = json.loads(done.stdout)["cpu"].values()
    recorded = tool.record()["cpu"]
    # Versions that were not measured must agree with the newest one.
    assert answers == recorded.get(jaxlib.__version__, recorded[max(recorded)])


def test_most_operations_ran_on_the_cpu() -> None:
    """The record would be almost empty if the measuring process had crashed."""
    assert sum(answer == tool.RAN for answer in tool.record()["cpu"]["0.10.2"].values()) > 140


def test_arguments_are_ones_nested_like_the_parameters() -> None:
    shape = xb.parse_shape("(f32[2], (s4[], token[]))")
    array, (number, token) = tool.argument_of(shape)
    assert array.tolist() == [1, 1]
    assert (number.dtype, number.shape, token) == (xb.s4.dtype, (), None)
