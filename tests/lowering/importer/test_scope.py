"""Import of any operation: metadata, source lines, and errors with the name and location."""

from __future__ import annotations

import numpy as np
import pytest
from imported import of_text

import builder as xb
import lowering
from lowering.jaxlib_api import mlir


def module(body: str, more: str = "", result: str = "tensor<2xf32>") -> str:
    return f"""
    func.func @main(%x: tensor<2xf32>) -> {result} {{
    {body}
    }}
    {more}"""


class TestErrors:
    def test_an_operation_without_an_op(self) -> None:
        text = module(
            '  %0 = "mhlo.xla.rng_get_and_update_state"() {delta = 1 : i64} '
            ": () -> tensor<2xui64>\n"
            "  return %x : tensor<2xf32>"
        )
        with pytest.raises(
            lowering.LoweringError,
            match=r"to_computation: mhlo\.xla\.rng_get_and_update_state.*: there is no op for this "
            r"operation",
        ):
            of_text(text)

    def test_shape_inference_errors(self) -> None:
        text = module(
            "  %0 = stablehlo.sqrt %x : tensor<2xf32>\n  return %0 : tensor<2xf32>"
        ).replace("2xf32", "2x!quant.uniform<i8:f32, 0.5>")
        with pytest.raises(xb.XlaError, match="quant"):
            of_text(text)

    def test_another_dialect(self) -> None:
        with pytest.raises(lowering.ModuleFileError, match="line 3, column"):
            of_text(module("  %0 = tosa.abs %x : tensor<2xf32>\n  return %0 : tensor<2xf32>"))

    def test_a_wrong_terminator(self) -> None:
        with pytest.raises(lowering.ModuleFileError, match="not StableHLO"):
            of_text(module("  %0 = stablehlo.negate %x : tensor<2xf32>"))

    def test_recursive_functions(self) -> None:
        more = """func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }"""
        body = "  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>"
        with pytest.raises(lowering.ModuleFileError, match=r"recursive.*: @f -> @f"):
            of_text(module(body, more))
        # The reader checks only modules from files.
        read = mlir.read_module(mlir.new_context(), module(body, more))
        shape = xb.ProgramShape((xb.f32[2],), xb.f32[2], ("x",))
        with pytest.raises(
            lowering.LoweringError, match=r"func.func.*: @f calls itself, through @f"
        ):
            lowering.to_computation(lowering.StablehloModule(read, shape))

    def test_a_function_without_a_body(self) -> None:
        body = "  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>"
        more = "func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32>"
        with pytest.raises(lowering.LoweringError, match=r"@f is declared without a body"):
            of_text(module(body, more))

    def test_a_missing_function(self) -> None:
        body = "  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>"
        with pytest.raises(lowering.ModuleFileError, match="f"):
            of_text(module(body))


def test_an_unused_function() -> None:
    more = "func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    computation = of_text(module("  return %x : tensor<2xf32>", more))
    assert not computation.called_computations()
    assert [op.opcode for op in computation.ops] == ["parameter"]


def test_a_function_that_is_called_10_000_times() -> None:
    call = "call @f({}) : (tensor<2xf32>) -> tensor<2xf32>"
    lines = [f"%{i} = {call.format(f'%{i - 1}' if i else '%x')}" for i in range(10_000)]
    more = """func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.negate %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    body = "\n".join([*lines, "return %9999 : tensor<2xf32>"])
    computation = of_text(module(body, more))
    (called,) = computation.called_computations()
    assert len(computation.ops) == 10_001
    assert len(called.ops) == 2


def test_regions_1_000_deep() -> None:
    b = xb.XlaBuilder("deep")
    x = b.parameter(xb.f32[2], "x")
    whole = inner_most = xb.XlaBuilder("inner")
    whole = inner_most.build(xb.neg(inner_most.parameter(xb.f32[2])))
    for _ in range(1_000):
        one = xb.XlaBuilder("one")
        y = one.parameter(xb.f32[2])
        pred = xb.lt(one.constant(np.float32(0)), one.constant(np.float32(1)))
        whole = one.build(xb.conditional(pred, y, whole, y, add_one()))
    computation = b.build(xb.conditional(b.constant(np.bool_(True)), x, whole, x, add_one()))
    text = lowering.lower(computation).text
    again = lowering.to_computation(lowering.lower(computation))
    assert lowering.lower(again).text == text


def add_one() -> xb.XlaComputation:
    b = xb.XlaBuilder("same")
    return b.build(b.parameter(xb.f32[2]) + 1)


def test_metadata_and_source_lines() -> None:
    computation = of_text("""
    module @annotated {
      func.func @main(%x: tensor<2xf32> {mhlo.sharding = "{replicated}"} loc("input"("a.py":3:4)))
          -> tensor<2xf32> {
        %0 = stablehlo.negate %x {mhlo.sharding = "{maximal device=0}",
          mhlo.frontend_attributes = {stage = "1"}} : tensor<2xf32> loc("turned"("b c.py":30:7))
        %1 = stablehlo.abs %0 : tensor<2xf32> loc("d.py":1:2)
        return %1 : tensor<2xf32>
      }
    }""")
    x, turned, result = computation.ops
    assert (x.name, x.sharding, str(x.source)) == ("input", "{replicated}", "a.py:3")
    assert (turned.name, turned.sharding) == ("turned", "{maximal device=0}")
    assert turned.frontend_attributes == {"stage": "1"}
    assert turned.source is not None
    assert (turned.source.file, turned.source.line, turned.source.column) == ("b c.py", 30, 7)
    assert (result.name, result.metadata, str(result.source)) == (None, None, "d.py:1")
