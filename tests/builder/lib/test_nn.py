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
from tables import each_row

import builder as xb
import lowering
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_of_very_negative_numbers(dtype: Any) -> None:
    """Within 16 ulps of the result; of normal numbers, because devices may flush subnormal ones."""
    limits = ml_dtypes.finfo(dtype)
    x = np.linspace(-38, 2, 4001).astype(dtype)
    wide = x.astype(np.longdouble)
    # SciPy's ndtr rounds the argument of its exponential.
    tail = scipy.special.erfcx(-wide.astype(np.float64) / np.sqrt(2)) / 2
    expected = (wide * np.exp(-wide * wide / 2) * tail).astype(np.float64)
    got = run(lambda x: lib.gelu(x, approximate=False), x).astype(np.float64)
    is_normal = np.abs(expected) >= 2 * float(limits.smallest_normal)
    assert is_normal.sum() > 500
    np.testing.assert_allclose(got[is_normal], expected[is_normal], rtol=16 * float(limits.eps))
    assert np.abs(got[~is_normal]).max() <= 2 * float(limits.smallest_normal)


def test_special_numbers_match_jax() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, inf, nan, 0], [-inf] * 4, [-inf, 1, 2, -inf], [1e30, 1, 2, 3]], np.float32)
    for name in ("relu", "sigmoid", "silu", "gelu", "softmax", "log_softmax"):
        expected = getattr(jax.nn, name)(x)
        np.testing.assert_allclose(run(getattr(lib, name), x), expected, rtol=1e-6)


def _log_softmax(x: Any, axis: int = -1) -> Any:
    return scipy.special.log_softmax(x.astype(np.float64), axis)


def test_nans_of_large_arrays() -> None:
    """CPUs reduce arrays of this size by a maximum that ignores NaNs; the sums do not."""
    x = np.zeros((64, 256), np.float32)
    x[::2, 100] = np.nan
    functions = (
        lib.softmax,
        lib.log_softmax,
        lambda v: lib.logsumexp(v, -1),
        lambda v: lib.max(v, -1),
    )
    results = run(lambda v: [f(v) for f in functions], x)
    for result in results:
        assert np.isnan(result[::2]).all()
        assert not np.isnan(result[1::2]).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy(dtype: Any) -> None:
    """Within 4 ulps of the result or of 1, the larger one."""
    generator = np.random.default_rng(2)
    logits = generator.normal(0, 5, (6, 4, 10)).astype(dtype)
    labels = generator.integers(0, 10, (6, 4)).astype(np.uint8)
    middle = generator.integers(0, 4, (6, 10)).astype(np.int32)
    targets = scipy.special.softmax(generator.normal(0, 2, logits.shape), -1).astype(dtype)
    by_number, along_1, by_probability = run(
        lambda x, labels, middle, targets: (
            lib.cross_entropy(x, labels),
            lib.cross_entropy(x, middle, axis=1),
            lib.cross_entropy(x, targets),
        ),
        *(logits, labels, middle, targets),
    )
    picked = np.take_along_axis(_log_softmax(logits), labels[..., None].astype(int), -1)[..., 0]
    across = np.take_along_axis(_log_softmax(logits, 1), middle[:, None], 1)[:, 0]
    weighted = (targets.astype(np.float64) * _log_softmax(logits)).sum(-1)
    error = 4 * float(ml_dtypes.finfo(dtype).eps)
    for got, expected in ((by_number, picked), (along_1, across), (by_probability, weighted)):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.astype(np.float64), -expected, rtol=error, atol=error)


def test_cross_entropy_of_impossible_classes() -> None:
    """A class that is impossible or does not exist has infinite loss, unless it is not wanted."""
    inf = np.inf
    logits = np.array([[-inf, 0, 0], [0, 1, 2], [1e4, 0, 0]], np.float32)
    labels = np.array([0, 3, 1], np.int32)
    targets = np.array([[0, 0.5, 0.5], [0, 0, 0], [1, 0, 0]], np.float32)
    numbers, probabilities = run(
        lambda x, labels, targets: (lib.cross_entropy(x, labels), lib.cross_entropy(x, targets)),
        *(logits, labels, targets),
    )
    np.testing.assert_array_equal(numbers, np.float32([inf, inf, 1e4]))
    np.testing.assert_allclose(probabilities, [np.log(2), 0, 0], rtol=1e-6)


def test_cross_entropy_of_a_batch_of_bounded_size() -> None:
    """Only the examples that exist count."""
    b = xb.XlaBuilder("bounded")
    logits, labels, size = b.parameter("f32[4,3]"), b.parameter("s32[4]"), b.parameter("s32[]")
    part = xb.set_dimension_size(logits, size, 0)
    losses = lib.cross_entropy(part, xb.set_dimension_size(labels, size, 0))
    assert str(losses.shape) == "f32[<=4]"
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    total = lowering.compile(b.build(lib.sum(losses)), "cpu")(values, np.int32([2, 1, 0, 0]), 2)
    np.testing.assert_allclose(total, -_log_softmax(values)[[0, 1], [2, 1]].sum(), rtol=1e-6)
    x = xb.XlaBuilder().parameter("f32[?,3]")
    assert str(lib.cross_entropy(x, x).shape) == "f32[?]"


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear(dtype: Any) -> None:
    """Within 1 ulp of the result or of 1 for narrow types, which are rounded once; or 16 ulps."""
    generator = np.random.default_rng(3)
    x, weights, bias = (
        generator.normal(0, 1, sizes).astype(dtype) for sizes in ((3, 5, 7), (7, 4, 2), (4, 2))
    )
    plain, with_bias = run(
        lambda x, w, b: (lib.linear(x, w), lib.linear(x, w, b)), *(x, weights, bias)
    )
    product = np.tensordot(x.astype(np.float64), weights.astype(np.float64), 1)
    error = float(ml_dtypes.finfo(dtype).eps) * (16 if dtype in (np.float32, np.float64) else 1)
    for got, expected in ((plain, product), (with_bias, product + bias.astype(np.float64))):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=error, atol=error)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout(dtype: Any) -> None:
    """Equal to a NumPy selection by the preds of jax, with one rounding of the quotient."""
    key = np.array([0, 42], np.uint32)
    x = np.random.default_rng(4).normal(0, 3, (50, 40)).astype(dtype)
    rates = (0.3, 0, 1)
    got = run(lambda key, x: [lib.dropout(key, x, rate) for rate in rates], key, x)
    words = jax.random.wrap_key_data(key)
    for rate, result in zip(rates, got, strict=True):
        is_kept = np.asarray(jax.random.bernoulli(words, np.float32(1 - rate), x.shape))
        quotient = x.astype(np.float64) / (1 - rate or 1)
        assert result.dtype == dtype
        assert ((result != 0) == is_kept).all()
        # f32 divides by 0.7 rounded to f32.
        error = float(ml_dtypes.finfo(dtype).eps)
        expected = np.where(is_kept, quotient, 0)
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=error)


@each_row(
    "call, message",
    [
        (
            lambda b: lib.cross_entropy(b.parameter(xb.f32[2, 3]), b.parameter(xb.s32[3])),
            (
                "cross_entropy: labels must be integers of the sizes of logits without the "
                "dimension of the classes, or probabilities of the shape of logits f32[2,3], "
                "got s32[3]\nfix: pass labels of shape s32[2]"
            ),
        ),
        (
            lambda b: lib.cross_entropy(b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[2])),
            (
                "cross_entropy: labels must be integers of the sizes of logits without the "
                "dimension of the classes, or probabilities of the shape of logits f32[2,3], "
                "got f32[2]\nfix: convert the labels with xb.convert_element_type(labels, xb.s32)"
            ),
        ),
        (
            lambda b: lib.linear(b.parameter(xb.f32[2, 3]), b.parameter(xb.f64[3, 2])),
            "linear: weights must be of type f32, got f64[3,2]",
        ),
        (
            lambda b: lib.linear(*(b.parameter(xb.f32[3, 3]) for _ in range(3))),
            "linear: bias must have the sizes [3], got f32[3,3]",
        ),
        (
            lambda b: lib.linear(
                *(b.parameter(xb.f32[3, 3]) for _ in range(2)),
                np.zeros(3),  # type: ignore[arg-type]
            ),
            "linear: bias must be an XlaOp, got",
        ),
        (
            lambda b: lib.linear(b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[2, 3])),
            (
                "linear: dimension 0 of weights must have the size of the last dimension of x, "
                "got 2 and 3\nfix: transpose weights first with xb.transpose(weights, [1, 0])"
            ),
        ),
        (
            lambda b: lib.dropout(b.parameter(xb.u32[2]), b.parameter(xb.f32[2]), 1.5),
            "dropout: rate must be a number from 0 to 1, got 1.5\nfix: use lib.bernoulli",
        ),
        (
            lambda b: lib.dropout(b.parameter(xb.u32[2]), b.parameter(xb.f32[2]), True),
            "dropout: rate must be a number from 0 to 1, got True\nfix: use lib.bernoulli",
        ),
        (
            lambda b: lib.dropout(42, b.parameter(xb.f32[2]), 0.5),
            "dropout: key must be an op of shape u32[2], got int: 42\nfix: make a key with",
        ),
        (
            lambda b: lib.dropout(
                b.parameter(xb.f32[2]),
                0.5,  # type: ignore[arg-type]
                b.parameter(xb.u32[2]),  # type: ignore[arg-type]
            ),
            "dropout: key must be an op of shape u32[2], got f32[2]\nfix: make a key with",
        ),
        (
            lambda b: lib.dropout(b.parameter(xb.u32[2]), b.parameter("f32[<=2]"), 0.5),
            "dropout: x must not have bounded sizes, got f32[<=2]",
        ),
        (lambda b: lib.relu(b.parameter(xb.c64[2])), "relu: x must be real, got c64[2]\nfix: "),
        (
            lambda b: lib.relu(b.parameter(xb.pred[2])),
            "relu: x must be of numbers, got pred[2]\nfix: convert it with",
        ),
        (
            lambda b: lib.cross_entropy(b.parameter(xb.s32[2, 3]), b.parameter(xb.s32[2])),
            "cross_entropy: logits must be of floating-point type, got s32[2,3]",
        ),
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
