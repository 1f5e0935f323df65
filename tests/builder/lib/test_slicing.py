"""builder.lib.slicing, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

X = np.arange(2 * 4 * 9, dtype=np.float32).reshape(2, 4, 9)
PART = -np.ones((2, 2, 3), np.float32)


def placed(*starts: int) -> np.ndarray[Any, Any]:
    expected = X.copy()
    expected[tuple(slice(s, s + n) for s, n in zip(starts, PART.shape, strict=True))] = PART
    return expected


def test_minor_dimensions() -> None:
    i, j = np.int32(2), np.int32(6)

    def record(x: xb.XlaOp, part: xb.XlaOp, i: xb.XlaOp, j: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.slice_in_minor_dims(x, [1, 3], [3, 9]),
            lib.slice_in_minor_dims(x, [], []),
            lib.update_slice(x, part, [0, 2, 6]),
            lib.update_slice_in_minor_dims(x, part, [1, 5]),
            lib.dynamic_slice_in_minor_dims(x, [i, j], [2, 3]),
            lib.dynamic_slice_in_minor_dims(x, [1, j], [2, 3]),
            lib.dynamic_slice_in_minor_dims(x, [j], [5]),  # clamped to 4
            lib.dynamic_update_slice_in_minor_dims(x, part, [i, 1]),
            lib.dynamic_update_slice_in_minor_dims(x, part, [j]),
            lib.slice_in_minor_dims(i, [], []),
        ]

    expected = [
        X[..., 1:3, 3:],
        X,
        placed(0, 2, 6),
        placed(0, 1, 5),
        X[:, 2:, 6:],
        X[:, 1:3, 6:],
        X[..., 4:],
        placed(0, 2, 1),
        placed(0, 0, 6),
        i,
    ]
    for result, value in zip(run(record, X, PART, i, j), expected, strict=True):
        np.testing.assert_array_equal(result, value, strict=True)


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32", "u64", "s64"])
def test_torch_gather(dtype: str) -> None:
    """The indices of fewer rows select from the first rows."""
    draw = np.random.default_rng(0)
    kind = xb.as_primitive_type(dtype).dtype
    cases = [
        (dim, draw.integers(0, X.shape[dim], sizes).astype(kind))
        for dim, sizes in ((0, (5, 4, 9)), (1, (2, 3, 7)), (2, (1, 4, 12)), (2, (2, 0, 3)))
    ]

    def record(x: xb.XlaOp, *indices: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.torch_gather(x, index, dim, sparse)
            for (dim, _), index in zip(cases, indices, strict=True)
            for sparse in (True, False)
        ]

    results = iter(run(record, X, *[index for _, index in cases]))
    for dim, index in cases:
        rows = X[tuple(slice(None if n == dim else s) for n, s in enumerate(index.shape))]
        expected = np.take_along_axis(rows, index.astype(np.int64), dim)
        for _ in range(2):
            np.testing.assert_array_equal(next(results), expected, strict=True)


def test_torch_gather_out_of_range() -> None:
    index = np.asarray([[-1, 0, 4, 100]], np.int64)
    x = np.asarray([[1, np.nan, 3, 4]], np.float32)
    sparse, dense = run(
        lambda x, i: (lib.torch_gather(x, i, 1), lib.torch_gather(x, i, -1, False)), x, index
    )
    np.testing.assert_array_equal(sparse, [[1, 1, 4, 4]])
    np.testing.assert_array_equal(dense, [[0, 1, 0, 0]])


def test_narrow_indices_do_not_wrap() -> None:
    x = np.arange(300, dtype=np.float32)
    index = np.asarray([5, -5], np.int8)
    gathered, scattered = run(
        lambda x, i: (
            lib.torch_gather(x, i, 0, False),
            lib.torch_scatter_dense(x, i, x[:2], 0, xb.add),
        ),
        x,
        index,
    )
    np.testing.assert_array_equal(gathered, [5, 0])
    np.testing.assert_array_equal(scattered, x)  # x[5] + x[0]


def test_torch_scatter_dense() -> None:
    draw = np.random.default_rng(1)
    for dim in range(3):
        sizes = [6 if n == dim else size for n, size in enumerate(X.shape)]
        index = draw.integers(-2, X.shape[dim] + 2, sizes)
        source = draw.integers(1, 9, sizes).astype(np.float32)

        def record(
            x: xb.XlaOp, index: xb.XlaOp, src: xb.XlaOp, dim: int = dim
        ) -> tuple[xb.XlaOp, ...]:
            return (
                lib.torch_scatter_dense(x, index, src, dim, xb.add),
                lib.torch_scatter_dense(x, index, src, dim - 3, xb.max),
            )

        added, greatest = X.copy(), X.copy()
        for place in np.ndindex(*sizes):
            if 0 <= index[place] < X.shape[dim]:
                target = (*place[:dim], int(index[place]), *place[dim + 1 :])
                added[target] += source[place]
                greatest[target] = max(greatest[target], source[place])
        results = run(record, X, index, source)
        np.testing.assert_array_equal(results[0], added, strict=True)
        np.testing.assert_array_equal(results[1], greatest, strict=True)


def test_torch_index_select() -> None:
    one, two = np.asarray([3, 0, 9, -1], np.int32), np.asarray([[3, 0, 1], [2, 2, 9]], np.int32)
    scalar = np.int32(1)

    def record(x: xb.XlaOp, one: xb.XlaOp, two: xb.XlaOp, scalar: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.torch_index_select(x, one, 1),
            lib.torch_index_select(x, two, 0),
            lib.torch_index_select(x, scalar, -1),
            lib.torch_index_select(x, two, 1, 1),
            lib.torch_index_select(x, two, 2, batch_dims=1),
            lib.torch_index_select(
                x, x[:, :, 0].builder.constant(np.zeros((2, 4), np.uint8)), 2, 2
            ),
        ]

    first, second = np.clip(two, 0, 3), np.clip(two, 0, 8)
    expected = [
        X[:, np.clip(one, 0, 3)],
        X[np.clip(two, 0, 1)],
        X[..., 1],
        np.stack([X[n, first[n]] for n in range(2)]),
        np.stack([X[n][:, second[n]] for n in range(2)]),
        X[:, :, 0],
    ]
    for result, value in zip(run(record, X, one, two, scalar), expected, strict=True):
        np.testing.assert_array_equal(result, value, strict=True)


def test_bounded_sizes() -> None:
    b = xb.XlaBuilder()
    x, index = b.parameter("f32[<=4,9]"), b.parameter("s32[<=4,2]")
    assert str(lib.slice_in_minor_dims(x, [3], [5]).shape) == "f32[<=4,2]"
    assert str(lib.torch_gather(x, index, 1).shape) == "f32[<=4,2]"
    assert str(lib.torch_gather(x, index, 1, False).shape) == "f32[<=4,2]"
    assert str(lib.torch_index_select(x, index, 1).shape) == "f32[<=4,<=4,2]"
    assert str(lib.slice_in_minor_dims(b.parameter("f32[?,9]"), [3], [5]).shape) == "f32[?,2]"


@each_row(
    "call, message",
    [
        (
            lambda x, i: lib.slice_in_minor_dims(x, [1], [2, 3]),
            "same number of entries, got 1 and 2",
        ),
        (lambda x, i: lib.slice_in_minor_dims(x, [0] * 4, [1] * 4), "start must have at most one"),
        (lambda x, i: lib.slice_in_minor_dims(x, [1], [10]), "slice_in_minor_dims: slice: a limit"),
        (
            lambda x, i: lib.update_slice(x, x, [0, 0]),
            r"one index .* 3, got 2\nfix: use lib\.update",
        ),
        (
            lambda x, i: lib.update_slice(x, x, [0, 0, i]),
            "update_slice: each entry of start must be",
        ),
        (
            lambda x, i: lib.update_slice(x, x, [0, 0, 1]),
            "update_slice: dynamic_update_slice: start",
        ),
        (
            lambda x, i: lib.update_slice_in_minor_dims(x, x, [0] * 4),
            "at most one entry .*3, got 4",
        ),
        (lambda x, i: lib.dynamic_slice_in_minor_dims(x, [i], [1, 1]), "same number of entries"),
        (lambda x, i: lib.dynamic_slice_in_minor_dims(x, "a", [1]), "must be a sequence of XlaOps"),
        (lambda x, i: lib.dynamic_slice_in_minor_dims(x, [x], [1]), "must be of integer type"),
        (lambda x, i: lib.dynamic_update_slice_in_minor_dims(x, x, [i] * 4), "at most one entry"),
        (lambda x, i: lib.torch_gather(x, i, 0), r"one rank, got f32\[2,4,9\] and s32\[\]"),
        (lambda x, i: lib.torch_gather(x, x, 0), "index must be of integer type, got f32"),
        (
            lambda x, i: lib.torch_gather(x, xb.convert_element_type(x, "s8"), 3),
            "axis must be a dim",
        ),
        (
            lambda x, i: lib.torch_gather(x, i.builder.parameter("s8[3,4,9]"), 1),
            "not be larger .* 0",
        ),
        (lambda x, i: lib.torch_gather(x[:, :0], x, 1), "index must be of integer type"),
        (
            lambda x, i: lib.torch_gather(x[:, :0], i.builder.parameter("s8[1,1,1]"), 1),
            "dimension 1 of x must not be empty",
        ),
        (
            lambda x, i: lib.torch_gather(i.builder.parameter("f32[?]"), i, 0),
            "x must not have an unbounded size",
        ),
        (lambda x, i: lib.torch_scatter_dense(x, i, x, 0, xb.add), "index must have the sizes"),
        (
            lambda x, i: lib.torch_scatter_dense(x, i.builder.parameter("s8[2,1,9]"), x, 1, xb.add),
            "src and index must have the same sizes",
        ),
        (lambda x, i: lib.torch_index_select(x, i, 1, 1), "batch_dims must be from 0 to 0, got 1"),
        (
            lambda x, i: lib.torch_index_select(x, i.builder.parameter("s8[3]"), 1, 1),
            "torch_index_select: gather: ",
        ),
        (
            lambda x, i: lib.torch_scatter_dense(
                x, xb.convert_element_type(x, xb.s32), x, 0, "add"
            ),
            "torch_scatter_dense: combiner must be a function of two XlaOps, got 'add'",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError, match=message):
        call(b.parameter(xb.f32[2, 4, 9]), b.parameter(xb.s32[()]))


def test_sparse_must_be_a_bool() -> None:
    b = xb.XlaBuilder()
    x, index = b.parameter(xb.f32[4, 3]), b.parameter(xb.s32[4, 2])
    with pytest.raises(xb.XlaError, match="torch_gather: sparse must be True or False, got 1"):
        lib.torch_gather(x, index, 1, 1)
