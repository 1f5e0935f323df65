"""Shapes and refusals of batch normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.ops import shape_inference as infer
from builder.types.primitive_type import ALL

FLOATS = [t for t in ALL if t.is_floating]


def training(x: str, scale: str, offset: str, feature_index: Any, epsilon: Any = 0.5) -> xb.XlaOp:
    b = xb.XlaBuilder()
    return xb.batch_norm_training(
        *(b.parameter(s) for s in (x, scale, offset)), epsilon, feature_index
    )


def inference(x: str, *vectors: str, feature_index: Any, epsilon: Any = 0.5) -> xb.XlaOp:
    b = xb.XlaBuilder()
    return xb.batch_norm_inference(
        *(b.parameter(s) for s in (x, *vectors)), epsilon=epsilon, feature_index=feature_index
    )


def grad(x: str, *vectors: str, grad_output: str, feature_index: Any) -> xb.XlaOp:
    b = xb.XlaBuilder()
    operands = [b.parameter(s) for s in (x, *vectors, grad_output)]
    return xb.batch_norm_grad(*operands, epsilon=0.5, feature_index=feature_index)


@each_row(
    "operand, vector, feature_index, feature",
    [
        ("f32[32,8,8,3]", "f32[3]", 3, "f32[3]"),
        ("bf16[7]", "bf16[7]", 0, "bf16[7]"),
        ("f64[4,0]", "f64[0]", 1, "f64[0]"),
        ("f64[0,4]", "f64[4]", 1, "f64[4]"),
        ("f32[<=2,3]", "f32[3]", 1, "f32[3]"),
        ("f32[2,<=3]", "f32[3]", 1, "f32[<=3]"),
        ("f32[2,3]", "f32[<=3]", 1, "f32[3]"),
        ("f32[2,?]", "f32[3]", 1, "f32[?]"),
        ("f32[2,3]", "f32[?]", 1, "f32[3]"),
        ("f32[?,3]", "f32[3]", 1, "f32[3]"),
    ],
)
def test_shapes(operand: str, vector: str, feature_index: int, feature: str) -> None:
    several = f"({operand}, {feature}, {feature})"
    assert str(training(operand, vector, vector, feature_index).shape) == several
    op = inference(operand, *[vector] * 4, feature_index=feature_index)
    assert str(op.shape) == operand
    op = grad(operand, *[vector] * 3, grad_output=operand, feature_index=feature_index)
    assert str(op.shape) == several


@each_row("element_type", FLOATS)
def test_every_floating_type(element_type: xb.PrimitiveType) -> None:
    x, v = xb.array_shape(element_type, (2, 3)), xb.array_shape(element_type, (3,))
    assert infer.batch_norm_training(x, v, v, 1).elements == (x, v, v)
    assert infer.batch_norm_inference(x, v, v, v, v, 1) is x
    assert infer.batch_norm_grad(x, v, v, v, x, 1).elements == (x, v, v)


def test_the_gradient_may_be_of_unbounded_size() -> None:
    op = grad("f32[2,3]", *["f32[3]"] * 3, grad_output="f32[?,3]", feature_index=1)
    assert str(op.shape) == "(f32[2,3], f32[3], f32[3])"


def test_recorded_op() -> None:
    op = training("f32[2,3]", "f32[3]", "f32[3]", 1, 0.1)
    assert op.opcode == "batch_norm_training"
    # XLA stores it as an f32.
    assert dict(op.attributes) == {"epsilon": float(np.float32(0.1)), "feature_index": 1}
    assert len(op.operands) == 3
    other = inference("f32[4,3]", *["f32[3]"] * 4, feature_index=1, epsilon=np.float64(0.1))
    assert other.attributes is op.attributes
    assert [o.shape for o in grad("f32[2]", *["f32[2]"] * 3, grad_output="f32[2]", feature_index=0)]


@each_row("epsilon", [0, 1, 1e-5, -0.25, np.float32(0.1), np.int8(3), 1e-60, 3e38])
def test_epsilon_may_be_any_finite_number(epsilon: Any) -> None:
    op = training("f32[2,3]", "f32[3]", "f32[3]", 1, epsilon)
    assert op.attributes["epsilon"] == float(np.float32(epsilon))
    assert f"epsilon={float(np.float32(epsilon))!r}, feature_index=1" in str(op.builder.build(op))


X, V = "f32[2,3,4]", "f32[3]"

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "batch_norm_training: complex": (
        lambda: training("c64[2,3]", "c64[3]", "c64[3]", 1),
        (
            "batch_norm_training: operand must be of floating-point type, got c64\n"
            "  operand c64[2,3]\n"
            "  scale   c64[3]\n"
            "  offset  c64[3]\n"
            "fix: convert it with xb.convert_element_type"
        ),
    ),
    "batch_norm_training: feature_index": (
        lambda: training(X, V, V, 3),
        "batch_norm_training: feature_index must be a dimension of operand (0 to 2), got 3\n",
    ),
    "batch_norm_training: negative feature_index": (
        lambda: training(X, V, V, -1),
        "batch_norm_training: feature_index must be a dimension of operand (0 to 2), got -1\n",
    ),
    "batch_norm_training: scalar": (
        lambda: training("f32[]", "f32[1]", "f32[1]", 0),
        "batch_norm_training: feature_index must be a dimension of operand (it has none), got 0",
    ),
    "batch_norm_training: feature_index of another kind": (
        lambda: training(X, V, V, 1.0),
        "batch_norm_training: feature_index must be an integer, got 1.0",
    ),
    "batch_norm_training: types": (
        lambda: training(X, "f64[3]", V, 1),
        "batch_norm_training: operands must have one element type, got f32, f64\n",
    ),
    "batch_norm_training: rank of scale": (
        lambda: training(X, "f32[1,3]", V, 1),
        (
            "batch_norm_training: scale must be a vector of one number for each feature, f32[3], "
            "got f32[1,3]\n"
        ),
    ),
    "batch_norm_training: size of offset": (
        lambda: training(X, V, "f32[4]", 1),
        (
            "batch_norm_training: offset must be a vector of one number for each feature, f32[3], "
            "got f32[4]\n"
        ),
    ),
    "batch_norm_training: bounded": (
        lambda: training("f32[2,<=3]", "f32[2]", V, 1),
        (
            "batch_norm_training: scale must be a vector of one number for each feature, f32[<=3], "
            "got f32[2]\n"
        ),
    ),
    "batch_norm_training: tuple": (
        lambda: infer.batch_norm_training(
            xb.f32[2], xb.tuple_shape([xb.f32[2]]), xb.TOKEN_SHAPE, 0
        ),
        "batch_norm_training: scale must be an array, got a tuple",
    ),
    "batch_norm_inference: mean": (
        lambda: inference(X, V, V, "f32[]", V, feature_index=1),
        (
            "batch_norm_inference: mean must be a vector of one number for each feature, f32[3], "
            "got f32[]\n"
        ),
    ),
    "batch_norm_inference: variance": (
        lambda: inference(X, V, V, V, "f32[2]", feature_index=1),
        (
            "batch_norm_inference: variance must be a vector of one number for each feature, "
            "f32[3], got f32[2]\n"
        ),
    ),
    "batch_norm_inference: scale": (
        lambda: inference(X, "f32[2]", V, V, V, feature_index=1),
        "batch_norm_inference: scale must be a vector",
    ),
    "batch_norm_inference: offset": (
        lambda: inference(X, V, "f32[2]", V, V, feature_index=1),
        "batch_norm_inference: offset must be a vector",
    ),
    "batch_norm_inference: type": (
        lambda: inference("s32[2]", *["s32[2]"] * 4, feature_index=0),
        "batch_norm_inference: operand must be of floating-point type, got s32\n",
    ),
    "batch_norm_inference: types": (
        lambda: inference(X, V, V, V, "bf16[3]", feature_index=1),
        "batch_norm_inference: operands must have one element type, got f32, bf16\n",
    ),
    "batch_norm_inference: feature_index": (
        lambda: inference(X, V, V, V, V, feature_index=2**70),
        "batch_norm_inference: feature_index must fit 64 bits, got an int of 71 bits",
    ),
    "batch_norm_grad: sizes": (
        lambda: grad(X, V, V, V, grad_output="f32[2,3,5]", feature_index=1),
        (
            "batch_norm_grad: grad_output must have the sizes of operand, f32[2,3,4], "
            "got f32[2,3,5]\n"
            "  operand     f32[2,3,4]\n"
            "  scale       f32[3]\n"
            "  mean        f32[3]\n"
            "  variance    f32[3]\n"
            "  grad_output f32[2,3,5]"
        ),
    ),
    "batch_norm_grad: rank": (
        lambda: grad(X, V, V, V, grad_output="f32[2,3]", feature_index=1),
        "batch_norm_grad: grad_output must have the sizes of operand, f32[2,3,4], got f32[2,3]\n",
    ),
    "batch_norm_grad: type": (
        lambda: grad(X, V, V, V, grad_output="f16[2,3,4]", feature_index=1),
        "batch_norm_grad: operands must have one element type, got f32, f16\n",
    ),
    "batch_norm_grad: operand": (
        lambda: grad("pred[2]", *["pred[2]"] * 3, grad_output="pred[2]", feature_index=0),
        "batch_norm_grad: operand must be of floating-point type, got pred\n",
    ),
    "batch_norm_grad: scale": (
        lambda: grad(X, "f32[1]", V, V, grad_output=X, feature_index=1),
        (
            "batch_norm_grad: scale must be a vector of one number for each feature, f32[3], "
            "got f32[1]\n"
        ),
    ),
    "batch_norm_grad: mean": (
        lambda: grad(X, V, "f32[4]", V, grad_output=X, feature_index=1),
        "batch_norm_grad: mean must be a vector",
    ),
    "batch_norm_grad: variance": (
        lambda: grad(X, V, V, "f32[3,1]", grad_output=X, feature_index=1),
        "batch_norm_grad: variance must be a vector",
    ),
    "batch_norm_grad: feature_index": (
        lambda: grad(X, V, V, V, grad_output=X, feature_index=-1),
        "batch_norm_grad: feature_index must be a dimension of operand (0 to 2), got -1\n",
    ),
    "batch_norm_grad: not an op": (
        lambda: xb.batch_norm_grad(*[1.0] * 5, 0.5, 0),  # type: ignore[arg-type]
        "batch_norm_grad: operand must be an XlaOp, got float: 1.0",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises((xb.ShapeInferenceError, xb.OperandError)) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert caught.value.op == name.partition(":")[0]


@each_row(
    "epsilon", [float("nan"), float("inf"), 1e39, 10**400, True, None, "1e-3", 1j, np.ones(2)]
)
def test_epsilon_must_be_a_finite_number(epsilon: Any) -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        training(X, V, V, 1, epsilon)
    assert str(caught.value).startswith(
        "batch_norm_training: epsilon must be a finite number that an f32 can represent, got "
    )
