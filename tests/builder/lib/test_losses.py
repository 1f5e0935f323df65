"""builder.lib.losses, compared with NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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

DELTA = 1.5


class Loss(NamedTuple):
    """A loss; the loss of each element and its derivative, in double precision."""

    function: Callable[..., Any]
    loss: Callable[..., Any]
    derivative: Callable[..., Any]


def _huber(x: Any, y: Any) -> Any:
    d = np.abs(x - y)
    return np.where(d <= DELTA, d * d / 2, DELTA * (d - DELTA / 2))


LOSSES = {
    "mse": Loss(lib.mse, lambda x, y: (x - y) ** 2, lambda x, y: 2 * (x - y)),
    "huber": Loss(
        lambda x, y, **axis: lib.huber(x, y, DELTA, **axis),
        _huber,
        lambda x, y: np.clip(x - y, -DELTA, DELTA),
    ),
    "binary_cross_entropy": Loss(
        lib.binary_cross_entropy,
        lambda x, y: np.logaddexp(0, x) - x * y,
        lambda x, y: scipy.special.expit(x) - y,
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOSSES)
def test_values(name: str, dtype: Any) -> None:
    function, reference, _ = LOSSES[name]
    draw = np.random.default_rng(2)
    x, y = draw.normal(0, 4, (5, 12)).astype(dtype), draw.random((5, 12)).astype(dtype)
    each = reference(x.astype(np.float64), y.astype(np.float64))
    got, rows, single = run(
        lambda x, y: xb.tuple(function(x, y), function(x, y, axis=1), function(x, y, axis=())),
        *(x, y),
    )
    assert got.dtype == dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    for found, expected in ((got, each.mean()), (rows, each.mean(1)), (single, each)):
        tolerance = {"rtol": 8 * eps, "atol": 2 * eps}
        np.testing.assert_allclose(found.astype(np.float64), expected, **tolerance)


X = np.float32([-300, -1.5, -1, 0, 0.25, 1, 1.5, 300])
Y = np.float32([0, 0, 0, 0, 1, 1, 0, 1])


@pytest.mark.parametrize("name", LOSSES)
def test_far_away_and_at_limits(name: str) -> None:
    """Values and gradients at 0, where the Huber loss changes, and where exp overflows."""
    function, reference, derivative = LOSSES[name]
    wide = X.astype(np.float64), Y.astype(np.float64)
    found = run(lambda x, y: function(x, y, axis=()), X, Y)
    np.testing.assert_allclose(found, reference(*wide), rtol=1e-6, atol=1e-30)
    b = xb.XlaBuilder("loss")
    ops = [b.parameter(xb.f32[8], n) for n in "xy"]
    (gradient,) = lowering.gradients(function(*ops), [ops[0]])
    slopes = lowering.compile(b.build(gradient), "cpu")(X, Y)
    np.testing.assert_allclose(slopes, derivative(*wide) / 8, rtol=1e-6, atol=1e-8)


def test_labels_of_preds() -> None:
    found = run(lambda x, y: lib.binary_cross_entropy(x, xb.gt(y, 0.5)), X, Y)
    np.testing.assert_array_equal(found, run(lib.binary_cross_entropy, X, Y))


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "integers": (lambda x, i: lib.mse(i, i), "mse: predictions must be of floating-point type"),
    "another type": (
        lambda x, i: lib.mse(x, i),
        r"mse: targets must have the shape of predictions, got s32\[4\]",
    ),
    "other sizes": (lambda x, i: lib.huber(x, x[:2]), r"got f32\[2\]\nfix: reshape"),
    "no limit": (lambda x, i: lib.huber(x, x, 0.0), "huber: delta must be greater than 0, got 0"),
    "integer labels": (
        lambda x, i: lib.binary_cross_entropy(x, i),
        r"binary_cross_entropy: labels must have the shape of logits, got s32\[4\]\nfix: convert",
    ),
    "an axis": (lambda x, i: lib.mse(x, x, axis=1), "axis must be a dimension"),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    use, message = REFUSED[name]
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError, match=message):
        use(b.parameter(xb.f32[4]), b.parameter(xb.s32[4]))
