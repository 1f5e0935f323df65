"""builder.lib.nn, compared with NumPy in double precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib


def reference(x: Any, axes: Any, epsilon: float, centered: bool) -> Any:
    wide = x.astype(np.float64)
    if centered:
        wide = wide - wide.mean(axes, keepdims=True)
    return wide / np.sqrt((wide**2).mean(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_values(dtype: Any) -> None:
    """Within 1 ulp of the result or of 1 for narrow types, else 256 ulps; also far from zero."""
    generator = np.random.default_rng(1)
    x = generator.normal(30, 1, (4, 6, 50)).astype(dtype)
    scale, offset = (generator.normal(1, 1, 50).astype(dtype) for _ in range(2))
    plane = generator.normal(1, 1, (4, 50)).astype(dtype)
    got = run(
        lambda x, scale, offset, plane: (
            lib.layer_norm(x),
            lib.layer_norm(x, scale, offset, epsilon=1e-3),
            lib.layer_norm(x, plane, axis=(-1, 0)),
            lib.rms_norm(x, scale),
            lib.rms_norm(x, axis=1, epsilon=0),
        ),
        *(x, scale, offset, plane),
    )
    s, o, p = (each.astype(np.float64) for each in (scale, offset, plane[:, None]))
    expected = (
        reference(x, -1, 1e-5, True),
        reference(x, -1, 1e-3, True) * s + o,
        reference(x, (0, 2), 1e-5, True) * p,
        reference(x, -1, 1e-6, False) * s,
        reference(x, 1, 0, False),
    )
    eps = float(ml_dtypes.finfo(dtype).eps)
    # The mean is 30 times the deviation, and so are the roundings of its sum.
    error = eps if eps > 1e-6 else 256 * eps
    for result, wanted in zip(got, expected, strict=True):
        assert result.dtype == dtype
        np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=error, atol=error)


def test_empty_constant_and_dynamic_arrays() -> None:
    empty, zeros = run(
        lambda x: (lib.layer_norm(x), lib.layer_norm(lib.zeros(x.builder, xb.f32[2, 3]))),
        np.zeros((0, 3), np.float32),
    )
    assert empty.shape == (0, 3)
    np.testing.assert_array_equal(zeros, np.zeros((2, 3)))
    x = xb.XlaBuilder().parameter("f32[?,<=8,4]")
    assert str(lib.layer_norm(x, axis=(1, 2)).shape) == "f32[?,<=8,4]"
    assert str(lib.rms_norm(x).shape) == "f32[?,<=8,4]"


@each_row(
    "call, message",
    [
        (
            lambda x: lib.layer_norm(x, x),
            "layer_norm: scale must have the sizes [3] of the dimensions [1] of x, got f32[2,3]",
        ),
        (
            lambda x: lib.layer_norm(x, None, x.builder.parameter(xb.bf16[3])),
            "layer_norm: offset must be of type f32, got bf16[3]",
        ),
        (lambda x: lib.rms_norm(x, axis=2), "rms_norm: axis must be a dimension (from -2 to 1)"),
        (
            lambda x: lib.rms_norm(x, epsilon=float("nan")),
            "rms_norm: epsilon must be a finite number of at least 0, got nan",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder().parameter(xb.f32[2, 3]))
    assert str(caught.value).startswith(message)
