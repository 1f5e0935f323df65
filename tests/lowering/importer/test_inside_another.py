"""Imported computations are called by others, and lowered with them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from imported import of_text

import builder as xb
import lowering

X = np.float32([[0.5, 2.0], [-1.0, 3.0]])


def test_several_results_and_functions_with_the_same_name() -> None:
    """Two programs whose functions have the same name, each called twice, once in a loop."""

    @jax.jit
    def part(x: jax.Array) -> jax.Array:
        return jnp.sin(x) + 1

    def first(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return part(x) * 2, x.sum(axis=0)

    def second(x: jax.Array) -> jax.Array:
        return part(x) - part(x * 2)

    one, two = (of_text(jax.jit(function).lower(X).as_text()) for function in (first, second))
    for computation in (one, two):
        assert "part" in [called.name for called in computation.called_computations()]
    b = xb.XlaBuilder("outer")
    x = b.parameter(xb.f32[2, 2], "x")
    pair = xb.call(one, x)
    again = xb.call(one, xb.call(two, pair[0]))
    state = (b.constant(np.int32(0)), again[0])
    total = xb.while_(lambda s: s[0] < 3, lambda s: (s[0] + 1, xb.call(two, s[1])), state)
    outer = b.build(xb.tuple(total[1], pair[1], again[1]))
    doubled, sums = first(X)
    grown, other_sums = first(second(doubled))
    for _ in range(3):
        grown = second(grown)
    actual = lowering.compile(outer, "cpu")(X)
    for mine, theirs in zip(actual, (grown, sums, other_sums), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-6)
    module = lowering.lower(outer)
    assert lowering.lower(lowering.to_computation(module)).text == module.text


def test_regions_with_captured_values() -> None:
    inner = of_text("""
        func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %scale = stablehlo.add %x, %x : tensor<4xf32>
          %0:2 = stablehlo.while(%i = %n, %s = %x) : tensor<i32>, tensor<4xf32>
            cond {
              %zero = stablehlo.constant dense<0> : tensor<i32>
              %c = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %j = stablehlo.subtract %i, %one : tensor<i32>
              %even = stablehlo.and %i, %one : tensor<i32>
              %t = "stablehlo.case"(%even) ({
                %a = stablehlo.add %s, %scale : tensor<4xf32>
                stablehlo.return %a : tensor<4xf32>
              }, {
                stablehlo.return %scale : tensor<4xf32>
              }) : (tensor<i32>) -> tensor<4xf32>
              stablehlo.return %j, %t : tensor<i32>, tensor<4xf32>
            }
          return %0#1, %0#0 : tensor<4xf32>, tensor<i32>
        }""")
    b = xb.XlaBuilder("outer")
    x, n = b.parameter(xb.f32[4], "x"), b.parameter(xb.s32[()], "n")
    chosen = xb.conditional(
        n > 2, xb.tuple(x, n), lambda p: xb.call(inner, p[0], p[1])[0], x, lambda p: p - p
    )
    run = lowering.compile(b.build(chosen), "cpu")
    x = np.float32([1, 2, 3, 4])
    # 4: + 2x, 3: 2x, 2: + 2x, 1: 2x
    np.testing.assert_array_equal(run(x, np.int32(4)), 2 * x)
    np.testing.assert_array_equal(run(x, np.int32(1)), 0 * x)


def test_without_parameters_and_with_one_result_of_a_tuple() -> None:
    inner = of_text("""
        func.func @main() -> (tensor<2xf32>, tensor<i32>) {
          %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
          %1 = stablehlo.constant dense<7> : tensor<i32>
          return %0, %1 : tensor<2xf32>, tensor<i32>
        }""")
    b = xb.XlaBuilder("outer")
    pair = b.call(inner)
    actual = lowering.compile(b.build(xb.tuple(pair[1], pair)), "cpu")()
    assert (int(actual[0]), np.asarray(actual[1][0]).tolist()) == (7, [1, 2])
