"""The functions of `builder.lib` that are measured beside jax's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
from benchmarks.command import main
from benchmarks.figures import read_figures
from benchmarks.library import functions
from benchmarks.library.explanations import Cause, explanation_lines
from benchmarks.library.functions import LEFT_OUT, PROGRAMS
from benchmarks.library.measuring import measure_library
from benchmarks.library.operands import operand_cases
from benchmarks.library.programs import Argument, cases
from benchmarks.report import report_text
from builder import lib


def test_each_name_of_the_library_is_measured_or_left_out_with_a_reason() -> None:
    names = [name for name in dir(lib) if not name.startswith("_")]
    measured = [program.name for program in PROGRAMS]
    assert sorted([*measured, *LEFT_OUT]) == sorted(names), "benchmarks/library/functions.py"


def test_both_sides_have_results_of_the_same_shapes() -> None:
    for program in PROGRAMS:
        for case in cases(program):
            root = case.recorded().root.shape
            ours = root.elements if isinstance(root, xb.TupleShape) else (root,)
            arrays = [
                jax.ShapeDtypeStruct(shape.dimensions, shape.element_type.dtype)
                for argument, shape in zip(program.arguments, case.shapes, strict=True)
                if argument.values is not None
            ]
            theirs = jax.tree.leaves(jax.eval_shape(case.jax_function(), *arrays))
            assert [(s.dimensions, s.element_type.dtype) for s in ours] == [
                (s.shape, np.dtype(s.dtype)) for s in theirs
            ], case


def small_program(name: str) -> Any:
    (program,) = (p for p in PROGRAMS if p.name == name)
    return program._replace(arguments=(Argument((40, 30), (40, 30)),), types=(xb.f32,))


def test_results_are_compared() -> None:
    program = small_program("sum")._replace(theirs=lambda x: x.sum(axis=1) + 1)
    with pytest.raises(AssertionError, match=r"lib\.sum\(f32\[40,30\]\)"):
        measure_library([program], rounds=1, seconds=1.0, on_progress=lambda _: None)


def test_small_operands_are_passed_and_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {case.program.name for case in operand_cases(PROGRAMS)}
    assert {"broadcast_to", "linear", "uniform", "take"} < names
    assert not {"random_key", "softmax", "iota"} & names  # a small result, no small operand
    measured = [p for p in PROGRAMS if p.name in ("broadcast_to", "random_bits", "softmax")]
    monkeypatch.setattr(functions, "PROGRAMS", measured)
    file = tmp_path / "figures.json"
    assert main(["operands", "--rounds", "5", "--json", str(file)]) == 0
    assert "computed / passed" in capsys.readouterr().out
    entries = read_figures(file)["operands"]
    assert [entry["function"] for entry in entries] == ["broadcast_to", "random_bits"]
    for entry in entries:
        ms = {name: spread["median"] for name, spread in entry["ms"].items()}
        for who in ("ours", "jax"):
            ratio = entry["ratios"][f"{who}, computed/passed"]
            assert ratio == pytest.approx(ms[f"{who}, computed"] / ms[who], rel=1e-2)


def test_the_table_marks_and_explains_what_takes_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "PROGRAMS", [small_program("sum"), small_program("arg_max")])
    file = tmp_path / "figures.json"
    assert main(["library", "--rounds", "3", "--json", str(file)]) == 0
    figures = read_figures(file)
    entries = figures["library"]
    assert [entry["function"] for entry in entries] == ["sum", "arg_max"]
    for entry in entries:
        assert (entry["size"], entry["type"]) == ("small", "f32")
        assert entry["arguments"] == "f32[40,30]"
        assert all(entry["ms"][who]["rounds"] == 3 for who in ("ours", "jax"))
    assert "Functions of builder.lib, ratios to jax.jit" in capsys.readouterr().out

    def set_times(entry: dict[str, Any], least: float) -> None:
        ms = {"median": 2.2, "low": least, "high": 2.5, "least": 0.5, "rounds": 3}
        entry["ms"] = {"ours": ms, "jax": {**ms, "median": 1.0, "low": 0.9, "high": 1.2}}
        entry["ratios"] = {"ours/jax": 2.2}

    set_times(entries[0], 0.9)  # the quartiles overlap
    set_times(entries[1], 2.0)
    page = report_text(figures)
    assert "| sum | f32[40,30] | 2.20 | 2.20× | — | — | — |" in page
    assert "| arg_max | f32[40,30] | 2.20 | 2.20× above | — | — | — |" in page
    assert page.index("| arg_max |") < page.index("| sum |")
    assert "- `arg_max`, f32 small: not explained\n" in page

    causes = [Cause(("f32 small", "f32 large"), ("sum", "arg_max"), "a cause.")]
    assert explanation_lines(entries, causes) == [
        "`arg_max`: a cause.",
        "`sum`: explained, but not above the target in this run",
    ]
    other = [Cause(("bf16 small",), ("arg_max",), "a cause.")]
    assert "`arg_max`, f32 small: not explained" in explanation_lines(entries, other)
