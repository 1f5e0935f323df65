"""Custom calls that XLA implements are refused if XLA's compiler would abort on them."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering.running import compiling


@pytest.fixture
def without_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's compiler may end the process on these modules, so it must not be reached."""

    def compile_or_read(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("XLA compiles the module")

    monkeypatch.setattr(compiling, "compile_or_read", compile_or_read)


X = "tensor<4xf32>"
HALF = "tensor<2xf32>"
INDICES = "tensor<2xi32>"


def call(target: str, operands: list[str], results: list[str], attributes: str = "") -> str:
    parameters = ", ".join(f"%a{number}: {each}" for number, each in enumerate(operands))
    passed = ", ".join(f"%a{number}" for number in range(len(operands)))
    returned = ", ".join(f"%0#{number}" for number in range(len(results)))
    return (
        f"func.func @main({parameters}) -> ({', '.join(results)}) {{\n"
        f'%0:{len(results)} = "stablehlo.custom_call"({passed}) {{call_target_name = "{target}"'
        f"{attributes}}} : ({', '.join(operands)}) -> ({', '.join(results)})\n"
        f"return {returned} : {', '.join(results)} }}"
    )


@pytest.mark.usefixtures("without_xla")
@each_row(
    "target, operands, results, rule",
    [
        ("TopK", [X], [X], "an operand f32[n] or f32[m,n]"),
        ("TopK", [], [HALF], "an operand f32[n] or f32[m,n]"),
        ("TopK", [HALF], [X, "tensor<4xi32>"], "at most n columns"),
        ("TopK", ["tensor<4xf64>"], ["tensor<2xf64>", INDICES], "an operand f32[n]"),
        ("TopK", ["tensor<f32>"], ["tensor<f32>", "tensor<i32>"], "an operand f32[n]"),
        ("SliceToDynamic", [X], [X], "been made by XLA's compiler"),
        ("SetBound", [], [X], "one result of the first operand's type"),
        ("SetBound", [X], [HALF], "one result of the first operand's type"),
        ("Sharding", [], [X], "one operand, and one result of its type"),
        ("Sharding", [X, X], [X, X], "one operand, and one result of its type"),
        ("Sharding", [X], ["tensor<4xi32>"], "one operand, and one result of its type"),
        ("LayoutConstraint", [], [X], "one operand, and one result of its type"),
        ("annotate_device_placement", [X], [HALF], "one operand, and one result of its type"),
        ("MoveToHost", [X, X], [X], "one operand, and one result of its type"),
        ("xla.sdy.FuncResultSharding", [X], [X], "the frontend attribute xla.sdy.sharding"),
        ("SPMDFullToShardShape", [], [X], "of its element type and number of dimensions"),
        ("SPMDFullToShardShape", [X, X], [X, X], "of its element type and number of dimensions"),
        ("SPMDShardToFullShape", [X], ["tensor<f32>"], "of its element type and number"),
    ],
)
def test_malformed_calls_are_refused(
    target: str, operands: list[str], results: list[str], rule: str
) -> None:
    module = lowering.load_bytes(call(target, operands, results).encode())
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(module)
    message = str(caught.value)
    assert f"custom_call of '{target}', recorded at -:2, must have" in message
    assert rule in message
    assert f"got operands {', '.join(operands) or 'none'}, results {', '.join(results)}" in message


@pytest.mark.usefixtures("without_xla")
def test_recorded_calls_are_checked() -> None:
    @xb.computation(xb.f32[4])
    def recorded(x: xb.XlaOp) -> xb.XlaOp:
        return xb.custom_call("TopK", [x], xb.f32[4])

    with pytest.raises(lowering.CompileError, match=r"custom_call of 'TopK', recorded at .*py:"):
        lowering.compile(recorded)


@pytest.mark.usefixtures("without_xla")
@each_row("operands, results", [([X], [X]), ([], [HALF, INDICES]), ([X], [HALF, INDICES])])
def test_malformed_operations_of_mhlo_are_refused(operands: list[str], results: list[str]) -> None:
    module = lowering.load_bytes(call("mhlo.topk", operands, results).encode())
    with pytest.raises(lowering.CompileError, match=r"custom_call of 'mhlo.topk', recorded at -:2"):
        lowering.compile(module)


@each_row("target", ["Sharding", "LayoutConstraint", "MoveToHost", "SetBound"])
def test_calls_of_the_form_that_xla_expects_run(target: str) -> None:
    sharded = ', mhlo.sharding = "{replicated}"' if target == "Sharding" else ""
    run = lowering.compile(lowering.load_bytes(call(target, [X], [X], sharded).encode()))
    np.testing.assert_array_equal(run(np.arange(4, dtype=np.float32)), [0, 1, 2, 3])


def test_top_k_of_xla_runs() -> None:
    run = lowering.compile(lowering.load_bytes(call("TopK", [X], [HALF, INDICES]).encode()))
    values, indices = run(np.array([3, 1, 4, 2], np.float32))
    np.testing.assert_array_equal(values, [4, 3])
    np.testing.assert_array_equal(indices, [2, 0])
