"""Import of random numbers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from imported import imported_from_jax, of_text, returned
from support import compiled_once

import builder as xb
import lowering


@pytest.mark.parametrize("algorithm", ["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"])
@pytest.mark.parametrize("shape", ["u8[5]", "u32[3,4]", "u64[7]"])
def test_bits(algorithm: str, shape: str) -> None:
    b = xb.XlaBuilder("bits")
    state = b.parameter(xb.u64[2])
    computation = b.build(xb.rng_bit_generator(algorithm, state, shape))
    again = returned(computation)
    key = np.uint64([7, 2**63])
    with compiled_once():
        actual, expected = (lowering.compile(c)(key) for c in (again, computation))
    for one, other in zip(actual, expected, strict=True):
        assert np.array_equal(one, other)


def test_random_functions_of_jax() -> None:
    def drawn(key: Any) -> Any:
        one, other = jax.random.split(key)
        return jax.random.normal(one, (4, 3)), jax.random.permutation(other, 10)

    imported_from_jax(drawn, np.uint32([0, 42]))


@pytest.mark.parametrize("draw", [xb.rng_uniform, xb.rng_normal])
@pytest.mark.parametrize("shape", ["f32[]", "f32[200]", "f32[20,30]"])
def test_distributions(draw: Any, shape: str) -> None:
    """The sizes are an operand in StableHLO, which is not imported as an op."""
    b = xb.XlaBuilder("drawn")
    low, high = b.parameter(xb.f32[()]), b.parameter(xb.f32[()])
    computation = returned(b.build(draw(low, high, shape)))
    assert [op.opcode for op in computation.ops] == ["parameter", "parameter", "rng"]
    actual = np.asarray(lowering.compile(computation)(np.float32(10), np.float32(11)))
    assert np.isfinite(actual).all()
    if draw is xb.rng_uniform:
        assert ((actual >= 10) & (actual < 11)).all()


def test_sizes_with_other_users() -> None:
    computation = of_text("""
        func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<2x3xf32>, tensor<2xi64>) {
          %sizes = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
          %0 = stablehlo.rng %a, %b, %sizes, distribution = UNIFORM
            : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x3xf32>
          return %0, %sizes : tensor<2x3xf32>, tensor<2xi64>
        }
    """)
    numbers, sizes = lowering.compile(computation)(np.float32(0), np.float32(1))
    assert numbers.shape == (2, 3)
    assert np.asarray(sizes).tolist() == [2, 3]


def test_captured_sizes_in_a_loop() -> None:
    computation = of_text("""
        func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<2xf32> {
          %sizes = stablehlo.constant dense<[2]> : tensor<1xi64>
          %start = stablehlo.constant dense<9.0> : tensor<2xf32>
          %0 = stablehlo.while(%x = %start) : tensor<2xf32>
            cond {
              %1 = stablehlo.slice %x [0:1] : (tensor<2xf32>) -> tensor<1xf32>
              %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
              %3 = stablehlo.compare GT, %2, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
              stablehlo.return %3 : tensor<i1>
            } do {
              %1 = stablehlo.rng %a, %b, %sizes, distribution = UNIFORM
                : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<2xf32>
              stablehlo.return %1 : tensor<2xf32>
            }
          return %0 : tensor<2xf32>
        }
    """)
    actual = np.asarray(lowering.compile(computation)(np.float32(0), np.float32(1)))
    assert ((actual >= 0) & (actual < 1)).all()
