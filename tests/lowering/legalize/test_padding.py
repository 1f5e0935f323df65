"""Paddings of partitioned programs, compared with jax's on one device."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import builder as xb
import lowering

MESH = xb.Mesh({"a": 4, "b": 2})
VECTORS = [None, "a", ("a", "b")]
PAIRS = list(itertools.product(VECTORS, VECTORS))

CASES: list[tuple[tuple[int, ...], list[tuple[int, int, int]]]] = [
    ((2,), [(1, 0, 1)]),
    ((8,), [(-1, 0, 1)]),
    ((8,), [(0, -3, 2)]),
    ((16,), [(-5, 5, 0)]),
    ((8,), [(-10, 6, 0)]),
    ((2,), [(1, -2, 0)]),
    ((3,), [(-4, 6, 1)]),
    ((0,), [(3, 5, 1)]),
    ((4, 8), [(1, 0, 1), (-2, 0, 0)]),
]


def padded(x: np.ndarray[Any, Any], padding: Any, before: Any, after: Any) -> Any:
    """Pad on 8 devices, with the first dimension sharded along axes of the mesh."""
    b = xb.XlaBuilder("padded")
    operand = b.parameter(xb.array_shape(xb.s32, x.shape))
    axes = [None] * (x.ndim - 1)
    result = xb.pad(xb.with_sharding(operand, MESH.sharding(before, *axes)), 7, padding)
    result = xb.with_sharding(result, MESH.sharding(after, *axes))
    return np.asarray(lowering.compile(b.build(result), num_partitions=8)(x))


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=str)
@pytest.mark.parametrize(("sizes", "padding"), CASES, ids=str)
def test_padding_of_partitions(sizes: Any, padding: Any, before: Any, after: Any) -> None:
    x = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    want = np.asarray(jax.lax.pad(x, np.int32(7), padding))
    counts = {None: 1, "a": 4, ("a", "b"): 8}
    if sizes[0] % counts[before]:
        before = None  # parameters are divided into equal shards
    assert_array_equal(padded(x, padding, before, None), want)
    if want.shape[0] % counts[after] == 0:
        assert_array_equal(padded(x, padding, before, after), want)


def test_other_paddings_are_not_rewritten() -> None:
    b = xb.XlaBuilder("one device")
    compiled = lowering.compile(b.build(xb.pad(b.parameter(xb.s32[4]), 7, [(-1, 2, 1)])))
    assert_array_equal(np.asarray(compiled(np.arange(4, dtype=np.int32))), [7, 1, 7, 2, 7, 3, 7, 7])
