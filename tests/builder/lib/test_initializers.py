"""builder.lib.initializers, compared with jax.nn.initializers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder import lib

SHAPES = ((6, 4), (3, 3, 5, 7), (4, 9))


def drawn(function: Callable[..., xb.XlaOp], seed: int, *arguments: Any, **named: Any) -> Any:
    b = xb.XlaBuilder("weights")
    root = function(lib.random_key(b, seed), *arguments, **named)
    return np.asarray(lowering.compile(b.build(root), "cpu")())


@pytest.mark.parametrize("name", ["glorot_uniform", "glorot_normal", "he_uniform", "he_normal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_of_jax(name: str, shape: tuple[int, ...]) -> None:
    """For the same key, up to rounding."""
    found = drawn(getattr(lib, name), 5, xb.f32[shape])
    expected = getattr(jax.nn.initializers, name)()(jax.random.key(5), shape, np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    turned = drawn(getattr(lib, name), 5, xb.f32[shape], in_axis=0, out_axis=1)
    of_jax = getattr(jax.nn.initializers, name)(in_axis=0, out_axis=1)
    np.testing.assert_allclose(turned, of_jax(jax.random.key(5), shape, np.float32), rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orthogonal(shape: tuple[int, ...]) -> None:
    found = drawn(lib.orthogonal, 7, xb.f32[shape], 2.0)
    matrix = found.reshape(-1, shape[-1])
    product = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)
    expected = jax.nn.initializers.orthogonal(2.0)(jax.random.key(7), shape, np.float32)
    np.testing.assert_allclose(found, expected, atol=1e-5)


REFUSED: dict[str, tuple[Callable[[xb.XlaOp], Any], str]] = {
    "a vector": (
        lambda key: lib.he_normal(key, xb.f32[4]),
        r"he_normal: shape must have two dimensions or more.*, got f32\[4\]\nfix: use lib\.normal",
    ),
    "one dimension twice": (
        lambda key: lib.glorot_normal(key, xb.f32[4, 3], in_axis=1),
        "glorot_normal: in_axis and out_axis must differ, got 1 and -1",
    ),
    "a dimension out of range": (
        lambda key: lib.he_uniform(key, xb.f32[4, 3], out_axis=2),
        "he_uniform: out_axis must be a dimension",
    ),
    "no key": (lambda key: lib.glorot_uniform(3, xb.f32[4, 3]), "glorot_uniform: .*key"),
    "integers": (lambda key: lib.orthogonal(key, xb.s32[4, 3]), "orthogonal: .*the type of shape"),
    "a dynamic size": (lambda key: lib.he_normal(key, "f32[<=4,3]"), "he_normal: shape must"),
    "no number": (lambda key: lib.orthogonal(key, xb.f32[4, 3], "x"), "scale must be a finite"),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    use, message = REFUSED[name]
    with pytest.raises(xb.XlaError, match=message):
        use(lib.random_key(xb.XlaBuilder(), 0))
