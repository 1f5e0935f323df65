"""The walk over the operations of a module: equal operations, long functions, the collector."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from imported import of_text

import lowering

TEXT = """
module {
  func.func private @twice(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
  func.func @main(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %z: tensor<2x2xf32>)
      -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x2xf32>) -> tensor<4xf32>
    %2 = stablehlo.reshape %1 : (tensor<4xf32>) -> tensor<2x2xf32>
    %3 = stablehlo.add %2, %y : tensor<2x2xf32>
    %4 = stablehlo.add %3, %3 {mhlo.sharding = "{replicated}"} : tensor<2x2xf32>
    %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %6 = stablehlo.transpose %5, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %7 = call @twice(%6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %8 = call @twice(%7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %again = stablehlo.constant dense<0.0> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    %10 = stablehlo.reduce(%8 init: %one) applies stablehlo.multiply across dimensions = [0]
        : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    %11 = stablehlo.reduce(%z init: %again) applies stablehlo.add across dimensions = [0]
        : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    return %8, %9, %10, %11
        : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
"""

DRAWS = """
func.func @main(%a: tensor<f32>, %x: tensor<1xi64>) -> (tensor<3xf32>, tensor<1xi64>) {
  %0 = stablehlo.constant dense<3> : tensor<1xi64>
  %1 = stablehlo.rng %a, %a, %0, distribution = UNIFORM
      : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  %2 = stablehlo.constant dense<3> : tensor<1xi64>
  %3 = stablehlo.add %x, %2 : tensor<1xi64>
  return %1, %3 : tensor<3xf32>, tensor<1xi64>
}
"""


def test_results_of_equal_operations() -> None:
    x, y, z = (np.arange(4, dtype=np.float32) + n for n in range(3))
    y, z = y.reshape(2, 2), z.reshape(2, 2)
    actual = lowering.compile(of_text(TEXT))(x, y, z)
    whole = (8 * (x.reshape(2, 2) + y)).T
    for one, expected in zip(actual, (whole, whole.sum(0), whole.prod(0), z.sum(0)), strict=True):
        np.testing.assert_array_equal(np.asarray(one), expected)


def test_a_constant_and_an_equal_one_used_as_sizes() -> None:
    assert [op.opcode for op in of_text(DRAWS).ops] == [
        *("parameter", "parameter", "rng", "constant", "add", "tuple")
    ]


def long_text(count: int) -> str:
    lines = [f"  %{n + 1} = stablehlo.add %{n}, %{n} : tensor<2xf32>\n" for n in range(count)]
    return (
        "func.func @main(%0: tensor<2xf32>) -> tensor<2xf32> {\n"
        + "".join(lines)
        + f"  return %{count} : tensor<2xf32>\n}}\n"
    )


def test_each_op_of_a_long_text_has_its_line() -> None:
    ops = of_text(long_text(10_000)).ops
    assert [op.source.line for op in ops if op.source] == list(range(1, 10_002))


def test_the_garbage_collector_is_paused_and_restored() -> None:
    module = lowering.load_bytes(long_text(1_500))
    refused = lowering.load_bytes(
        """func.func @main() -> tensor<2xui64> {
          %0 = "mhlo.xla.rng_get_and_update_state"() {delta = 1 : i64} : () -> tensor<2xui64>
          return %0 : tensor<2xui64>
        }"""
    )
    passes: list[str] = []

    def note(phase: str, _: object) -> None:
        passes.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        computation = lowering.to_computation(module)
    finally:
        gc.callbacks.remove(note)
    assert len(computation.ops) == 1_501
    assert passes.count("start") <= 1  # after the import
    assert gc.isenabled()
    with pytest.raises(lowering.LoweringError, match="there is no op for this operation"):
        lowering.to_computation(refused)
    assert gc.isenabled()
    gc.disable()
    try:
        lowering.to_computation(module)
        assert not gc.isenabled()
    finally:
        gc.enable()
