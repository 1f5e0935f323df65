"""Import of batch normalization."""

from __future__ import annotations

import numpy as np
from imported import of_text, returned
from tables import each_row

import builder as xb
import lowering

RANDOM = np.random.default_rng(20250608)
X = RANDOM.normal(1, 2, (6, 3, 5)).astype(np.float32)
SCALE, OFFSET = (RANDOM.normal(size=3).astype(np.float32) for _ in range(2))
MEAN, VARIANCE = X.mean((0, 2)), X.var((0, 2))
GRADIENT = RANDOM.normal(size=X.shape).astype(np.float32)
EPSILON = 0.001


def along(vector: np.ndarray) -> np.ndarray:
    return vector[:, None]


NORMALIZED = (X - along(MEAN)) / np.sqrt(along(VARIANCE) + EPSILON)

TRAINING = """
func.func @main(%x: tensor<6x3x5xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>)
    -> (tensor<6x3x5xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o)
      {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<6x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<6x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<6x3x5xf32>, tensor<3xf32>, tensor<3xf32>
}"""

INFERENCE = """
func.func @main(%x: tensor<6x3x5xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>, %m: tensor<3xf32>,
    %v: tensor<3xf32>) -> tensor<6x3x5xf32> {
  %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v)
      {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<6x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    -> tensor<6x3x5xf32>
  return %0 : tensor<6x3x5xf32>
}"""

GRAD = """
func.func @main(%x: tensor<6x3x5xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>,
    %g: tensor<6x3x5xf32>) -> tensor<3xf32> {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g)
      {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<6x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<6x3x5xf32>)
    -> (tensor<6x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#1 : tensor<3xf32>
}"""


def test_training_normalizes() -> None:
    actual = lowering.compile(of_text(TRAINING))(X, SCALE, OFFSET)
    expected = (NORMALIZED * along(SCALE) + along(OFFSET), MEAN, VARIANCE)
    for mine, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=1e-5, atol=1e-5)


def test_inference_uses_the_given_statistics() -> None:
    actual = lowering.compile(of_text(INFERENCE))(X, SCALE, OFFSET, MEAN, VARIANCE)
    expected = NORMALIZED * along(SCALE) + along(OFFSET)
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-5, atol=1e-5)


def test_one_of_three_gradients_is_used() -> None:
    computation = of_text(GRAD)
    opcodes = [op.opcode for op in computation.ops if op.opcode != "parameter"]
    assert opcodes == ["batch_norm_grad", "get_tuple_element"]
    actual = lowering.compile(computation)(X, SCALE, MEAN, VARIANCE, GRADIENT)
    expected = (GRADIENT * NORMALIZED).sum((0, 2))  # with respect to the scale
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-4, atol=1e-4)


@each_row("element_type", [xb.f16, xb.bf16, xb.f32, xb.f64])
def test_round_trip_of_every_type(element_type: xb.PrimitiveType) -> None:
    b = xb.XlaBuilder("normal")
    x = b.parameter(xb.array_shape(element_type, [4, 3, 2]), "x")
    s, o = (b.parameter(xb.array_shape(element_type, [3]), name) for name in "so")
    y, mean, variance = xb.batch_norm_training(x, s, o, 1e-5, 1)
    again = xb.batch_norm_inference(y, s, o, mean, variance, 0.1, 1)
    gradients = tuple(xb.batch_norm_grad(x, s, mean, variance, again, 3.5e-7, 1))
    returned(b.build(xb.tuple(y, again, *gradients)))
