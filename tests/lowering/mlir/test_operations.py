"""Attributes that MLIR's Python bindings can't read, such as locations."""

from __future__ import annotations

from pathlib import Path

import pytest

import builder as xb
import lowering
from lowering.mlir.operations import CALLS, REFERRING

MODULE = """
module @m {{
  func.func @main(%arg0: tensor<2xf32> {argument}) -> (tensor<2xf32> {result}) {{
    %0 = {operation}
    return %0 : tensor<2xf32>
  }}
  func.func private @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {{
    return %arg0 : tensor<2xf32>
  }}
}}
"""
ADD = "stablehlo.add %arg0, %arg0 : tensor<2xf32>"
COMPOSITE = (
    'stablehlo.composite "{}.erf" %arg0 {{decomposition = @f, composite_attributes = '
    '{{a = loc("a")}}}} : (tensor<2xf32>) -> tensor<2xf32>'
)
UNREADABLE = "{}: MLIR's Python bindings can't read the attributes "


def module(
    path: Path, argument: str = "", result: str = "", operation: str = ADD
) -> lowering.StablehloModule:
    file = path / "m.mlir"
    file.write_text(MODULE.format(argument=argument, result=result, operation=operation))
    return lowering.load(file)


def test_an_unreadable_attribute_of_an_argument(tmp_path: Path) -> None:
    loaded = module(tmp_path, '{foo.bar = loc("a")}')
    lowering.compile(loaded)
    with pytest.raises(xb.XlaError, match=UNREADABLE.format("compile") + r"\{foo.bar = "):
        lowering.compile(loaded, donate=["arg0"])
    with pytest.raises(xb.XlaError, match=UNREADABLE.format("to_computation") + r"\{foo.bar = "):
        lowering.to_computation(loaded)


def test_an_unreadable_attribute_of_a_result(tmp_path: Path) -> None:
    loaded = module(tmp_path, result='{foo.bar = loc("a")}')
    lowering.compile(loaded, donate=["arg0"])
    with pytest.raises(xb.XlaError, match=UNREADABLE.format("to_computation")):
        lowering.to_computation(loaded)


def test_unreadable_attributes_of_composites(tmp_path: Path) -> None:
    chlo, other = (
        module(tmp_path, operation=COMPOSITE.format(dialect)) for dialect in ("chlo", "mine")
    )
    lowering.compile(other)
    with pytest.raises(xb.XlaError, match=UNREADABLE.format("compile")):
        lowering.compile(chlo)
    for loaded in (chlo, other):
        imported = lowering.to_computation(loaded)
        assert imported.root.attributes["composite_attributes"] == '{a = loc("a")}'


def test_an_unreadable_frontend_attribute_is_preserved(tmp_path: Path) -> None:
    operation = ADD.replace(" :", ' {mhlo.frontend_attributes = {a = loc("a")}} :')
    imported = lowering.to_computation(module(tmp_path, operation=operation))
    assert "mhlo.frontend_attributes = {a = #loc}" in lowering.lower(imported).text


def test_unreadable_attributes_that_compile_reads(tmp_path: Path) -> None:
    with pytest.raises(lowering.CompileError, match=r"arg0 of m can't be f32\[2\] in layout"):
        lowering.compile(module(tmp_path, '{mhlo.layout_mode = loc("a")}'))
    lowering.compile(module(tmp_path, '{jax.buffer_donor = loc("a")}'))


def test_operations_that_refer_to_functions() -> None:
    calls = {"func.call": "callee", "stablehlo.composite": "decomposition"}
    assert calls == CALLS
    assert {**calls, "stablehlo.custom_call": "called_computations"} == REFERRING
