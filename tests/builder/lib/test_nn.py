"""builder.lib.nn, compared with jax.nn and with SciPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from library_calls import run

import builder as xb
from builder import lib

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (lib.relu, lambda x: np.maximum(x, 0)),
    "sigmoid": (lib.sigmoid, scipy.special.expit),
    "silu": (lib.silu, lambda x: x * scipy.special.expit(x)),
    "gelu": (lib.gelu, _gelu_tanh),
    "gelu_erf": (lambda x: lib.gelu(x, False), lambda x: x * scipy.special.ndtr(x)),
    "softmax": (lib.softmax, lambda x: scipy.special.softmax(x, -1)),
    "log_softmax": (lib.log_softmax, lambda x: scipy.special.log_softmax(x, -1)),
    "softmax_0": (lambda x: lib.softmax(x, 0), lambda x: scipy.special.softmax(x, 0)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values(name: str, dtype: Any) -> None:
    """Within 8 ulps of the result or of 1, the larger one."""
    function, reference = ACTIVATIONS[name]
    x = np.random.default_rng(1).normal(0, 6, (5, 40)).astype(dtype)
    got = run(function, x)
    expected = reference(x.astype(np.float64))
    assert got.dtype == dtype
    assert got.shape == x.shape
    tolerance = 8 * float(ml_dtypes.finfo(dtype).eps) * np.maximum(np.abs(expected), 1)
    assert (np.abs(got.astype(np.float64) - expected) <= tolerance).all()


def test_special_numbers_match_jax() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, inf, nan, 0], [-inf] * 4, [-inf, 1, 2, -inf], [1e30, 1, 2, 3]], np.float32)
    for name in ("relu", "sigmoid", "silu", "gelu", "softmax", "log_softmax"):
        expected = getattr(jax.nn, name)(x)
        np.testing.assert_allclose(run(getattr(lib, name), x), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: lib.relu(b.parameter(xb.c64[2])), "relu: x must be of real numbers, got c64[2]"),
        (lambda b: lib.gelu(b.parameter(xb.s32[2])), "gelu: x must be of floating-point type, got"),
        (lambda b: lib.gelu(b.parameter(xb.f32[2]), "tanh"), "gelu: approximate must be True or"),
        (lambda b: lib.softmax(b.parameter(xb.f32[2]), 1), "softmax: axis must be a dimension"),
        (lambda b: lib.softmax(b.parameter(xb.f32[()])), "softmax: axis must be a dimension"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder())
    assert str(caught.value).startswith(message)
