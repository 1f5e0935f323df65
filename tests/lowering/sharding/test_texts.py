"""The texts of shardings in files are checked before XLA, which may abort on them, parses them."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest
from tables import each_row

import lowering
from lowering.running import compiling

MODULE = """module @m attributes {{{module}}} {{
  func.func public @main(%a: tensor<4xf32> {{{argument}}}) -> (tensor<4xf32> {{{result}}}) {{
    %0 = stablehlo.negate %a {{{operation}}} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
}}"""

REFUSED = {
    "meshes": (
        {"module": 'mhlo.frontend_attributes = {xla.sdy.meshes = ""}'},
        "the frontend attribute xla.sdy.meshes of the module must be a dictionary of meshes",
    ),
    "parameters": (
        {"module": 'mhlo.spmd_parameters_shardings = ["x"]'},
        "the module's mhlo.spmd_parameters_shardings must be a sharding of XLA, got 'x': neither",
    ),
    "result": (
        {"module": 'mhlo.spmd_output_sharding = "garbage"'},
        "the module's mhlo.spmd_output_sharding must be a sharding of XLA, got 'garbage'",
    ),
    "an argument": (
        {"argument": 'mhlo.sharding = "{devices=[0]<=[0]}"'},
        "mhlo.sharding of argument 0 must be a sharding of XLA, got '{devices=[0]<=[0]}': tiling ",
    ),
    "a result of another rank": (
        {"result": 'mhlo.sharding = "{devices=[2,1]0,1}"'},
        (
            "mhlo.sharding of result 0 must be a sharding of XLA, got '{devices=[2,1]0,1}': "
            "{devices=[2,1]0,1} is for arrays of rank 2, not for tensor<4xf32>"
        ),
    ),
    "an operation of another rank": (
        {"operation": 'mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"'},
        "mhlo.sharding of negate, recorded at -:3, must be a sharding of XLA",
    ),
    "a tuple's for an argument": (
        {"argument": 'mhlo.sharding = "{{replicated}}"'},
        (
            "mhlo.sharding of argument 0 must be a sharding of XLA, got '{{replicated}}': it is "
            "for a tuple, not for tensor<4xf32>"
        ),
    ),
    "an operation": (
        {"operation": 'mhlo.sharding = "{devices=[2"'},
        "mhlo.sharding of negate, recorded at -:3, must be a sharding of XLA",
    ),
}


def module(**attributes: str) -> lowering.StablehloModule:
    given = dict.fromkeys(("module", "argument", "result", "operation"), "") | attributes
    return lowering.load_bytes(MODULE.format(**given))


@each_row("name", REFUSED)
def test_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_or_read(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("XLA compiles the module")

    monkeypatch.setattr(compiling, "compile_or_read", compile_or_read)
    attributes, message = REFUSED[name]
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(module(**attributes))
    assert f"compile: m: {message}" in str(caught.value)


@each_row("text", ["{replicated}", "\\08\\03\\1A\\01\\02\\22\\02\\00\\01", ""])
def test_texts_and_protocol_buffers_are_accepted(text: str) -> None:
    program = lowering.compile(module(argument=f'mhlo.sharding = "{text}"'))
    np.testing.assert_array_equal(program(np.ones(4, np.float32)), -np.ones(4))


def test_errors_about_arguments_do_not_name_an_operation() -> None:
    with pytest.raises(
        lowering.CompileError, match="memory_kind of parameter arg0 must be one of"
    ) as caught:
        lowering.compile(module(argument='mhlo.memory_kind = "nope"'))
    assert "negate" not in str(caught.value)
