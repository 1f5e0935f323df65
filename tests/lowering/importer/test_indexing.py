"""Import of slices and updates at run-time indices, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from imported import imported_from_jax, of_text, returned
from jax import lax
from support import assert_identical
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType

RANDOM = np.random.default_rng(20250609)
X = RANDOM.normal(size=(5, 6)).astype(np.float32)
ROWS = np.array([4, 0, 7, -1, 0], np.int32)
UPDATES = RANDOM.normal(size=(5, 6)).astype(np.float32)
BATCH = RANDOM.normal(size=(3, 5, 6)).astype(np.float32)
PLACES = RANDOM.integers(0, 5, (3, 2)).astype(np.int32)


FROM_JAX: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i[0], i[3]), (2, 3)), (X, ROWS)),
    "dynamic_slice of a row": (lambda x, i: x[i[1]], (X, ROWS)),
    "dynamic_update_slice": (
        lambda x, u, i: lax.dynamic_update_slice(x, u[:2, :2], (i[1], i[0])),
        (X, UPDATES, ROWS),
    ),
    "take rows": (lambda x, i: jnp.take(x, i, axis=0, mode="clip"), (X, ROWS)),
    "take columns": (lambda x, i: jnp.take(x, i, axis=1, mode="fill"), (X, ROWS)),
    "take along an axis": (
        lambda x, i: jnp.take_along_axis(x, jnp.argsort(i, axis=1), axis=1),
        (X, UPDATES),
    ),
    "gather of batches": (jax.vmap(lambda x, i: x[i]), (BATCH, PLACES)),
    "gather of single elements": (lambda x, i: x[i, i], (X, PLACES)),
    "gather of windows": (
        lambda x, i: jax.vmap(lambda at: lax.dynamic_slice(x, (at, at), (2, 3)))(i),
        (X, ROWS),
    ),
    "set rows": (lambda x, i, u: x.at[i[:2]].set(u[:2]), (X, ROWS, UPDATES)),
    "add to rows": (lambda x, i, u: x.at[i].add(u), (X, ROWS, UPDATES)),
    "multiply single elements": (
        lambda x, i, u: x.at[i, i].multiply(u[0, :5]),
        (X, ROWS, UPDATES),
    ),
    "largest of each segment": (
        lambda u, i: jax.ops.segment_max(u, i, num_segments=4),
        (UPDATES, ROWS),
    ),
    "add to batches": (
        jax.vmap(lambda x, i, u: x.at[i].add(u)),
        (BATCH, PLACES, UPDATES[:3, :2, None]),
    ),
    "gradient of a gather": (
        jax.grad(lambda x, i: jnp.sum(jnp.sin(x[i]) ** 2)),
        (X, ROWS),
    ),
}


@pytest.mark.parametrize("name", FROM_JAX)
def test_results_agree_with_jax(name: str) -> None:
    function, arguments = FROM_JAX[name]
    imported_from_jax(function, *arguments)


INDEX_TYPES = [t for t in ALL if t.is_integral]


@each_row("index_type", INDEX_TYPES)
@each_row("element_type", [xb.pred, xb.s4, xb.bf16, xb.c128])
def test_round_trip_of_every_type(element_type: PrimitiveType, index_type: PrimitiveType) -> None:
    b = xb.XlaBuilder("indexing")
    x = b.parameter(xb.array_shape(element_type, [5, 6]), "x")
    u = b.parameter(xb.array_shape(element_type, [2, 1]), "u")
    i = b.parameter(xb.array_shape(index_type, []), "i")
    many = b.parameter(xb.array_shape(index_type, [3, 2]), "many")
    rows = xb.GatherDimensionNumbers([2], [0], [0], index_vector_dim=2)
    elements = xb.GatherDimensionNumbers([], [0, 1], [1, 0], index_vector_dim=1)
    results = [
        xb.dynamic_slice(x, [i, i], [2, 6]),
        xb.dynamic_update_slice(x, u, [i, i]),
        xb.gather(x, many, rows, [1, 6], indices_are_sorted=True),
        xb.gather(x, many, elements, [1, 1]),
        xb.gather(x, many, xb.GatherDimensionNumbers([1, 2], [], [0, 1], 1), [3, 2]),
    ]
    returned(b.build(xb.tuple(*results)))


def test_round_trip_of_batching_dimensions() -> None:
    b = xb.XlaBuilder("batches")
    x = b.parameter(xb.f32[3, 5, 6], "x")
    i = b.parameter(xb.s32[2, 3], "i")
    u = b.parameter(xb.f32[2, 3, 6], "u")
    taken = xb.GatherDimensionNumbers([2], [1], [1], 2, [0], [1])
    put = xb.ScatterDimensionNumbers([2], [1], [1], 2, [0], [1])
    results = [
        xb.gather(x, i, taken, [1, 1, 6]),
        xb.scatter(x, i, u, xb.add, put, indices_are_sorted=True),
        xb.scatter(x, i, u, lambda old, new: new, put, unique_indices=True),
    ]
    returned(b.build(xb.tuple(*results)))


def test_round_trip_of_scatters_with_several_operands() -> None:
    def combine(a: xb.XlaOp, b: xb.XlaOp, c: xb.XlaOp, d: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(xb.add(a, c), xb.min(b, d))

    b = xb.XlaBuilder("several")
    x, y = b.parameter(xb.f32[5, 6], "x"), b.parameter(xb.s16[5, 6], "y")
    i = b.parameter(xb.s32[4, 1], "i")
    u, v = b.parameter(xb.f32[4, 6], "u"), b.parameter(xb.s16[4, 6], "v")
    rows = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
    returned(b.build(xb.scatter([x, y], i, [u, v], combine, rows)))


def windows(b: xb.XlaBuilder) -> xb.XlaOp:
    """A window of several elements, which may be partly out of bounds."""
    x, i, u = b.parameter(xb.f32[8], "x"), b.parameter(xb.s32[2], "i"), b.parameter(xb.f32[2, 3])
    return xb.scatter(x, i, u, xb.add, xb.ScatterDimensionNumbers([1], [], [0], 1))


def twice_the_same(b: xb.XlaBuilder) -> xb.XlaOp:
    """Two operands of one type, which may be one value."""
    x, i, u = b.parameter(xb.f32[8], "x"), b.parameter(xb.s32[2], "i"), b.parameter(xb.f32[2])

    def combine(*parts: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(parts[0] + parts[2], parts[1] * parts[3])

    numbers = xb.ScatterDimensionNumbers([], [0], [0], 1)
    return xb.scatter([x, x], i, [u, u], combine, numbers)


def without_index(b: xb.XlaBuilder) -> xb.XlaOp:
    """All updates are applied to the only element."""
    x, i, u = b.parameter(xb.f32[8], "x"), b.parameter(xb.s32[2, 0], "i"), b.parameter(xb.f32[2, 8])
    return xb.scatter(x, i, u, xb.add, xb.ScatterDimensionNumbers([1], [], [], 1))


@each_row("record", [windows, twice_the_same, without_index])
def test_round_trip_of_scatters_with_workarounds(record: Callable[..., xb.XlaOp]) -> None:
    b = xb.XlaBuilder("program")
    returned(b.build(record(b)))


def test_unused_results_of_a_scatter() -> None:
    computation = of_text("""
      func.func @main(%x: tensor<4xf32>, %y: tensor<4xi32>, %i: tensor<2x1xi64>,
          %u: tensor<2xf32>, %v: tensor<2xi32>) -> tensor<4xi32> {
        %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) ({
        ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
          %s = stablehlo.add %a, %c : tensor<f32>
          %m = stablehlo.maximum %b, %d : tensor<i32>
          stablehlo.return %s, %m : tensor<f32>, tensor<i32>
        }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
            scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
          : (tensor<4xf32>, tensor<4xi32>, tensor<2x1xi64>, tensor<2xf32>, tensor<2xi32>)
          -> (tensor<4xf32>, tensor<4xi32>)
        return %0#1 : tensor<4xi32>
      }""")
    assert [op.opcode for op in computation.ops][-2:] == ["scatter", "get_tuple_element"]
    x, y = np.zeros(4, np.float32), np.array([5, 5, 5, 5], np.int32)
    i, u, v = np.array([[3], [1]]), np.ones(2, np.float32), np.array([9, 2], np.int32)
    actual = np.asarray(lowering.compile(computation)(x, y, i, u, v))
    assert_identical(actual, np.array([5, 5, 5, 9], np.int32))


def test_torch_index_select() -> None:
    computation = of_text("""
      func.func @main(%x: tensor<3x5x4x2xf32>, %i: tensor<3x2x6xi32>) -> tensor<3x5x2x6x2xf32> {
        %0 = "stablehlo.torch_index_select"(%x, %i) {dim = 2 : i64, batch_dims = 1 : i64}
          : (tensor<3x5x4x2xf32>, tensor<3x2x6xi32>) -> tensor<3x5x2x6x2xf32>
        return %0 : tensor<3x5x2x6x2xf32>
      }""")
    x = RANDOM.normal(size=(3, 5, 4, 2)).astype(np.float32)
    i = RANDOM.integers(0, 4, (3, 2, 6)).astype(np.int32)
    actual = np.asarray(lowering.compile(computation)(x, i))
    expected = np.stack([np.take(one, index, axis=1) for one, index in zip(x, i, strict=True)])
    assert_identical(actual, np.ascontiguousarray(expected))
