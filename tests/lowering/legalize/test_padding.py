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


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "padding"), CASES, ids=str)
def test_padding_of_partitions(sizes: Any, padding: Any) -> None:
    """Pad on 8 devices, with the first dimension sharded along axes of the mesh."""
    x = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    want = np.asarray(jax.lax.pad(x, np.int32(7), padding))
    counts = {None: 1, "a": 4, ("a", "b"): 8}
    rest = [None] * (x.ndim - 1)
    b = xb.XlaBuilder("padded")
    operand = b.parameter(xb.array_shape(xb.s32, x.shape))
    results = []
    for before, after in itertools.product(counts, counts):
        # Arguments and results are divided into equal shards.
        if sizes[0] % counts[before] == 0 and want.shape[0] % counts[after] == 0:
            sharded = xb.with_sharding(operand, MESH.sharding(before, *rest))
            result = xb.pad(sharded, 7, padding)
            results.append(xb.with_sharding(result, MESH.sharding(after, *rest)))
    program = lowering.compile(b.build(xb.tuple(*results)), num_partitions=8)
    for got in program(x):
        assert_array_equal(np.asarray(got), want)


SHARDED = '"{devices=[1,4,2]<=[8] last_tile_dim_replicate}"'


@pytest.mark.parametrize("row_padding", [(0, 0, 0), (1, 2, 1)], ids=str)
@pytest.mark.parametrize("padding", [(1, 0, 1), (-1, 0, 1), (-1, 1, 0), (2, -3, 2)], ids=str)
def test_padding_beside_a_bounded_size(padding: Any, row_padding: Any) -> None:
    """A pad of s32[<=4, 8] whose second dimension has 4 tiles on 8 devices."""
    edges = zip(row_padding, padding, strict=True)
    low, high, interior = (", ".join(map(str, pair)) for pair in edges)
    x = np.arange(32, dtype=np.int32).reshape(4, 8)
    size, width = 3, 8 + padding[0] + padding[1] + 7 * padding[2]
    rows = 4 + row_padding[0] + row_padding[1] + 3 * row_padding[2]
    operand, result = (
        f"tensor<?x{n}xi32, #stablehlo.bounds<{m}, ?>>" for m, n in ((4, 8), (rows, width))
    )
    fixed = f"tensor<{rows}x{width}xi32>"
    text = f"""func.func @main(%x: tensor<4x8xi32>, %n: tensor<i32>) -> {fixed} {{
      %b = stablehlo.set_dimension_size %x, %n, dim = 0
        : (tensor<4x8xi32>, tensor<i32>) -> {operand}
      %c = stablehlo.constant dense<7> : tensor<i32>
      %p = stablehlo.pad %b, %c, low = [{low}], high = [{high}], interior = [{interior}]
        {{mhlo.sharding = {SHARDED}}} : ({operand}, tensor<i32>) -> {result}
      %f = stablehlo.constant dense<{rows}> : tensor<i32>
      %r = stablehlo.set_dimension_size %p, %f, dim = 0 : ({result}, tensor<i32>) -> {fixed}
      return %r : {fixed}
    }}"""
    want = np.asarray(jax.lax.pad(x[:size], np.int32(7), [row_padding, padding]))
    program = lowering.compile(lowering.load(text), "cpu", num_partitions=8)
    assert_array_equal(np.asarray(program(x, np.int32(size)))[: len(want)], want)


def test_other_paddings_are_not_rewritten() -> None:
    b = xb.XlaBuilder("one device")
    compiled = lowering.compile(b.build(xb.pad(b.parameter(xb.s32[4]), 7, [(-1, 2, 1)])))
    assert_array_equal(np.asarray(compiled(np.arange(4, dtype=np.int32))), [7, 1, 7, 2, 7, 3, 7, 7])
