"""What type checkers infer for programs, and what they refuse."""

from __future__ import annotations

import enum
import os
import re
import sys
import textwrap
from pathlib import Path
from subprocess import run
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
from scripts import ROOT
from tables import each_row

import builder as xb
from builder import attributes
from builder.attributes import host

pytestmark = pytest.mark.slow

PROGRAM = """\
from typing import Any, assert_type
import builder as xb
import lowering

b = xb.XlaBuilder()
x = b.parameter(xb.f32[8])
assert_type(x + 1, xb.XlaOp)
assert_type(x == x, xb.XlaOp)
assert_type(xb.fft(x, "RFFT", [8]), xb.XlaOp)
assert_type(xb.dot(x, x, "HIGHEST"), xb.XlaOp)
assert_type(xb.reduce_window(x, 0, xb.add, [2], None, "SAME"), xb.XlaOp)
c = assert_type(b.build(x), xb.XlaComputation)
assert_type(lowering.lower(c), lowering.StablehloModule)
assert_type(lowering.compile(c), lowering.Executable)
assert_type(lowering.jit(lambda v: v), lowering.JittedFunction)
assert_type(lowering.interpret(c, 1, probe=True), lowering.Interpretation)
assert_type(lowering.interpret(c, 1, probe=["add"]).values, dict[xb.XlaOp, Any])
assert_type(lowering.interpret(c, 1), Any)
assert_type(lowering.gradients(x, x), xb.XlaOp)
assert_type(lowering.gradients(x, {"w": x}), dict[str, xb.XlaOp])
loaded = lowering.load_executable("file")
assert_type(loaded.name, str)
assert_type(loaded.hlo_text(), str)
"""

REFUSED = {
    'xb.reduce_window(x, 0, xb.add, [2], None, "same")': "arg-type",
    'xb.fft(x, "fft", [8])': "arg-type",
    'xb.dot(x, x, ("HIGH", "LOW"))': "arg-type",
    'xb.compare(x, x, "<")': "arg-type",
    'xb.triangular_solve(x, x, True, True, False, "T")': "arg-type",
    'lowering.compile(c, results="tuple")': "call-overload",
    "xb.transpose(x, (0,), axes=(0,))": "call-arg",
    "xb.sort(x, axis=0)": "call-arg",
    "x.sum": "attr-defined",
    "b.Add": "attr-defined",
    "xb.where": "attr-defined",
    "lowering.grads": "attr-defined",
    "x.shape.dtype": "union-attr",
    "xb.f32[2][0]": "index",
    "xb.f32(3)": "operator",
    "c(x)": "operator",
    "lowering.lower(c)(1)": "operator",
}
"""Statements that mypy refuses, and the code of its error."""

CONFIGURATION = """\
[mypy]
strict = true
pretty = false
[mypy-jax.*,jaxlib.*,IPython.*,matplotlib.*,PIL.*]
follow_imports = skip
"""
"""Without the packages that mypy would spend most of its time on: no type here is from them."""


def test_types_of_results_and_refused_arguments(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is in the extra `lint`")
    path, configuration = tmp_path / "program.py", tmp_path / "mypy.ini"
    path.write_text(PROGRAM + "\n".join(REFUSED) + "\n")
    configuration.write_text(CONFIGURATION)
    # The cache of `make types` is for other settings.
    options = ["--config-file", configuration, "--cache-dir", os.devnull]
    done = run(
        [sys.executable, "-m", "mypy", *options, path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    first = PROGRAM.count("\n") + 1
    errors = re.findall(r"program\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    found = {(int(line), code) for line, code in errors}
    assert found == set(enumerate(REFUSED.values(), first)), textwrap.indent(done.stdout, "  ")


def names_in(annotation: Any) -> set[str]:
    """Return the strings of the `Literal` types in a union or a sequence."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return {name for part in get_args(annotation) for name in names_in(part)}


@each_row(
    "annotation, kind",
    [
        (attributes.PaddingLike, xb.Padding),
        (attributes.PrecisionLike, xb.Precision),
        (attributes.FftTypeLike, xb.FftType),
        (attributes.TransposeLike, xb.Transpose),
        (attributes.RandomAlgorithmLike, xb.RandomAlgorithm),
        (host.CustomCallApiVersionLike, xb.CustomCallApiVersion),
        (host.CustomCallScheduleLike, xb.CustomCallSchedule),
    ],
)
def test_names_are_those_of_the_members(annotation: Any, kind: type[enum.Enum]) -> None:
    assert names_in(annotation) == set(kind.__members__)
    assert str not in get_args(annotation)
    assert {*get_args(annotation)} >= {kind}
    assert NoneType not in get_args(annotation) or kind is xb.Precision


def test_names_of_dot_algorithms_are_their_values() -> None:
    assert names_in(attributes.DotAlgorithmLike) == {each.value for each in xb.DotAlgorithm}
