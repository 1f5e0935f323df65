"""Times of a program's ops, from a trace of jax's profiler."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
import lowering
from lowering.running import op_times

ONES = np.ones((64, 64), np.float32)


def looped(name: str = "looped") -> xb.XlaComputation:
    """A loop of three products, each followed by ops that XLA fuses, and a sort."""
    b = xb.XlaBuilder(name)
    x = b.parameter(xb.f32[64, 64], "x")

    def body(state: xb.XlaOp) -> xb.XlaOp:
        number, value = state
        return xb.tuple(number + 1, xb.tanh(xb.dot(value, value)) * 0.5 + 1.0)

    zero = b.constant(0, xb.s32)
    last = xb.while_(lambda state: state[0] < 3, body, xb.tuple(zero, x))
    return b.build(xb.sort(last[1], dimension=0))


BODY_LINE = looped.__code__.co_firstlineno + 7


@pytest.fixture(scope="module")
def times() -> Any:
    return lowering.compile(looped(), "cpu").profile(ONES).by_op()


def test_instructions_of_a_loop(times: Any) -> None:
    found = {opcode: each for each in times.instructions for opcode in each.opcodes}
    assert (found["dot"].times, found["tanh"].times, found["sort"].times) == (3, 3, 1)
    assert found["tanh"].opcodes == ("tanh", "multiply", "add")
    assert found["tanh"].sources == (f"{shown(__file__)}:{BODY_LINE}",) * 3
    # The loop is left out, because its time is that of its instructions.
    assert "while" not in found
    assert times.seconds == pytest.approx(sum(each.seconds for each in times.instructions))
    seconds = [each.seconds for each in times.instructions]
    assert seconds == sorted(seconds, reverse=True)
    assert min(seconds) > 0


def shown(file: str) -> str:
    """Return a file as messages have it."""
    from builder.support.frames import shown_file

    return shown_file(file)


def test_display(times: Any) -> None:
    lines = str(times).splitlines()
    assert lines[0].startswith("looped: ")
    (line,) = [line for line in lines if "tanh" in line]
    assert f"3x  {fusion(times)}: tanh, multiply, add  " in line
    assert line.endswith(f"test_op_times.py:{BODY_LINE}")
    html = times._repr_html_()
    assert "the slowest instructions" in html
    assert html.count("<tr") == 1 + len(times.instructions)


def fusion(times: Any) -> str:
    (name,) = [each.name for each in times.instructions if "tanh" in each.opcodes]
    return str(name)


@pytest.mark.parametrize("where", [{"num_replicas": 2}, {"num_partitions": 2}], ids=str)
def test_several_devices(where: dict[str, int]) -> None:
    times = lowering.compile(looped("many"), "cpu", **where).profile([ONES, ONES]).by_op()
    assert {each.times for each in times.instructions if "tanh" in each.opcodes} == {6}


def test_a_file_for_perfetto(tmp_path: Path) -> None:
    profile = lowering.compile(looped("perfetto"), "cpu").profile(ONES)
    file = tmp_path / "trace.json.gz"
    times = profile.by_op(perfetto=file)
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    assert sum(event.get("name") == fusion(times) for event in events) == 3
    with pytest.raises(lowering.ModuleFileError, match="missing"):
        profile.by_op(perfetto=tmp_path / "missing" / "trace.json.gz")


def test_refused(tmp_path: Path) -> None:
    profile = lowering.compile(looped("refused"), "cpu").profile(ONES)
    with (
        jax.profiler.trace(str(tmp_path)),
        pytest.raises(lowering.ExecutionError, match=r"by_op: .*\nfix: stop the trace of jax"),
    ):
        profile.by_op()
    with pytest.raises(xb.OperandError, match="by_op"):
        profile.by_op(perfetto=5)  # type: ignore[arg-type]  # refused
    donating = lowering.compile(looped("donating"), "cpu", donate=["x"])
    donated = donating.profile(lowering.device_put(ONES, "cpu"))
    with pytest.raises(lowering.ArgumentError, match="donated"):
        donated.by_op()
    # An array of NumPy can be passed again.
    assert donating.profile(ONES).by_op().instructions


def test_text_of_programs() -> None:
    """Tuples as types, layouts, comments in types, branches, escapes and calls by name."""
    text = r"""HloModule m, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b), metadata={source_file="C:\\one \"two\".py" source_line=12}
}

%branch.1 (c: (f32[2], s32[])) -> (f32[2], /*index=1*/(f32[], s32[])) {
  %c = (f32[2]{0:T(8)}, /*index=1*/s32[]) parameter(0)
  ROOT %get = (f32[2]{0}, (f32[], s32[])) custom-call(%c), custom_call_target="mine"
}

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %fused = f32[2]{0:T(2,128)} fusion(%x), kind=kLoop, calls=%add
  ROOT %choice = (f32[2]{0}, s32[]) conditional(%x), branch_computations={%branch.1, %add}
}
"""
    found = op_times._instructions(text)
    assert {name: each.opcode for name, each in found.items()} == {
        "a": "parameter",
        "b": "parameter",
        "sum": "add",
        "c": "parameter",
        "get": "mine",
        "x": "parameter",
        "fused": "fusion",
        "choice": "conditional",
    }
    assert found["sum"].source == 'C:\\one "two".py:12'
    assert found["choice"].called == ("branch.1", "add")
    fused = op_times._op_time("fused", [0.25, 0.5], found)
    assert (fused.opcodes, fused.seconds, fused.times) == (("add",), 0.75, 2)
    assert op_times._contains_others("choice", {"choice": [1.0], "get": [1.0]}, found)
    assert not op_times._contains_others("choice", {"choice": [1.0], "fused": [1.0]}, found)
