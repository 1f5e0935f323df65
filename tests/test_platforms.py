"""docs/platforms.json says where each operation ran; the CPU is asked again here."""

from __future__ import annotations

import json
import os

import jaxlib
from processes import run_python
from scripts import load_script

import builder as xb

tool = load_script("tools/write_platforms.py")


def test_every_operation_is_measured() -> None:
    for platform, versions in tool.record().items():
        for version, answers in versions.items():
            assert set(answers) == set(xb.OPERATIONS), f"{platform}, {version}: make platforms"


def test_what_was_not_compiled_was_refused_in_words() -> None:
    """For devices that were not there; XLA's own reports, and dead processes, are not noted."""
    found = [platform for platform in tool.record() if platform.startswith(tool.COMPILED)]
    assert found == ["compiled gpu", "compiled tpu"]
    for platform in found:
        where = platform.removeprefix(tool.COMPILED).strip()
        words = (f"can't run on {where}: ", f"is registered for {where}")
        for answers in tool.record()[platform].values():
            refused = [answer for answer in answers.values() if answer != tool.COMPILED]
            assert 0 < len(refused) < 15
            assert all(any(one in answer for one in words) for answer in refused)


def test_what_is_noted_of_the_cpu_is_so() -> None:
    """Every example is compiled and executed, in a process that has eight devices."""
    # How fast the machine code is makes no difference to whether there is any: see the fixture
    # little_optimized.
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"
    done = run_python("tools/write_platforms.py", "--measure", "cpu", env={"XLA_FLAGS": flags})
    (answers,) = json.loads(done.stdout)["cpu"].values()
    noted = tool.record()["cpu"]
    # Of a version that was not measured, what the newest one does.
    assert answers == noted.get(jaxlib.__version__, noted[max(noted)])


def test_a_process_that_dies_or_answers_nothing_is_noticed() -> None:
    assert sum(answer == tool.RAN for answer in tool.record()["cpu"]["0.10.2"].values()) > 140


def test_arguments_are_ones_as_nested_as_the_parameters() -> None:
    shape = xb.parse_shape("(f32[2], (s4[], token[]))")
    array, (number, token) = tool.argument_of(shape)
    assert array.tolist() == [1, 1]
    assert (number.dtype, number.shape, token) == (xb.s4.dtype, (), None)
