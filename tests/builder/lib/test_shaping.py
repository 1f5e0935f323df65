"""builder.lib.shaping, compared with NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

# They move elements.

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.complex64)


def test_broadcast_to() -> None:
    """Sizes may be multiples of the array's own; NumPy repeats such arrays with tile."""
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    cases = [
        (2, 1, 3),
        (5, 2, 4, 3),
        (4, 1, 9),
        (1, 2, 2, 2, 6),
        (0, 2, 1, 3),
        (2, 0, 3),
        (2, 1, 0),
    ]
    got = run(lambda x: [lib.broadcast_to(x, sizes) for sizes in cases], x)
    for sizes, result in zip(cases, got, strict=True):
        first = len(sizes) - 3
        reps = [*sizes[:first], *(n // o for n, o in zip(sizes[first:], x.shape, strict=True))]
        np.testing.assert_array_equal(result, np.tile(x, reps), strict=True)
    b = xb.XlaBuilder()
    bounded = b.parameter("f32[<=4,1]")
    assert lib.broadcast_to(bounded, [4, 1]) is bounded
    assert lib.broadcast_to(bounded, [7, 4, 5]).shape == xb.parse_shape("f32[7,<=4,5]")
    assert lib.broadcast_to(b.parameter("f32[0,3]"), [2, 0, 6]).shape == xb.f32[2, 0, 6]
    for sizes in ([8, 1], [1], [3, 1], [-4, 1], [-1, 4, 1]):
        with pytest.raises(xb.ShapeInferenceError, match=r"^broadcast_to: "):
            lib.broadcast_to(bounded, sizes)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rearranging(dtype: Any) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    calls = [
        ("stack", lambda m, x: m.stack([x, x + x], axis=-2)),
        ("stack", lambda m, x: m.stack([x])),
        ("expand_dims", lambda m, x: m.expand_dims(x, (0, -1))),
        ("expand_dims", lambda m, x: m.expand_dims(x, 1)),
        ("squeeze", lambda m, x: m.squeeze(m.expand_dims(x, (0, -1)))),
        ("squeeze", lambda m, x: m.squeeze(m.expand_dims(x, (0, -1)), axis=-1)),
        ("flip", lambda m, x: m.flip(x)),
        ("flip", lambda m, x: m.flip(x, (0, -1))),
        ("roll", lambda m, x: m.roll(x, 5)),
        ("roll", lambda m, x: m.roll(x, (1, -6), (0, -1))),
        ("roll", lambda m, x: m.roll(x, -1, (1, 2))),
        ("tile", lambda m, x: m.tile(x, 2)),
        ("tile", lambda m, x: m.tile(x, (2, 1, 3, 2))),
        ("tile", lambda m, x: m.tile(x, (0, 2))),
        ("repeat", lambda m, x: m.repeat(x, 3, -1)),
        ("repeat", lambda m, x: m.repeat(x, 0, 1)),
        ("split", lambda m, x: m.split(x, 2, -1)[1]),
        ("split", lambda m, x: m.split(x, [1, 1, 3], 2)[2]),
    ]
    results = run(lambda x: [call(lib, x) for _, call in calls], x)
    for (name, call), got in zip(calls, results, strict=True):
        expected = call(np, x)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
        np.testing.assert_array_equal(got, expected)


def test_indices_along() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    found = run(lambda x: [lib.indices_along(x, -2), lib.indices_along(x, 2, xb.f32)], x)
    np.testing.assert_array_equal(found[0], np.indices(x.shape, np.int32)[1], strict=True)
    np.testing.assert_array_equal(found[1], np.indices(x.shape, np.float32)[2], strict=True)
    with pytest.raises(xb.XlaError, match="indices_along: element_type must be a type of num"):
        lib.indices_along(xb.XlaBuilder().parameter(xb.f32[2]), 0, xb.pred)


@pytest.mark.parametrize("shift", [0, 2, -7, 127, -128])
@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_roll_at_run_time(shift: int, dtype: Any) -> None:
    x = np.arange(15).reshape(3, 5)
    got = run(lambda x, n: lib.roll(x, n, -1), x, dtype(shift))
    np.testing.assert_array_equal(got, np.roll(x, shift, -1))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64])
def test_roll_by_the_largest_unsigned_distance(dtype: Any) -> None:
    x, shift = np.arange(14).reshape(2, 7), np.iinfo(dtype).max
    got = run(lambda x, n: lib.roll(x, n, 1), x, dtype(shift))
    np.testing.assert_array_equal(got, np.roll(x, int(shift) % 7, 1))


def test_no_elements() -> None:
    x = np.zeros((0, 3), np.float32)
    results = run(
        lambda x: [lib.roll(x, 1, 0), lib.tile(x, 2), lib.flip(x), *lib.split(x, 2, 0)], x
    )
    assert [result.shape for result in results] == [(0, 3), (0, 6), (0, 3), (0, 3), (0, 3)]


def test_where() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    row, column, flags = x[0], x[:, :1], np.array([[True], [False], [True]])
    got = run(
        lambda x, row, column, flags: [
            lib.where(x > 0.0, x, 0.5),
            lib.where(flags, 1.5, row),
            lib.where(flags, row, column),
        ],
        *(x, row, column, flags),
    )
    expected = [
        np.where(x > 0, x, np.float32(0.5)),
        np.where(flags, np.float32(1.5), row),
        np.where(flags, row, column),
    ]
    for result, value in zip(got, expected, strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result, value)
    bounded = xb.XlaBuilder().parameter("f32[<=5,3]")
    assert lib.where(bounded > 0.0, bounded, 0.0).shape is bounded.shape


@each_row("dtype", DTYPES[:5])
def test_clip(dtype: Any) -> None:
    x = np.arange(-4, 5).astype(dtype)
    if dtype is not np.int8:
        x[0] = np.nan
    got = run(
        lambda x: [lib.clip(x, -1, 2), lib.clip(x, min=0), lib.clip(x, max=0), lib.clip(x, 2, -1)],
        x,
    )
    wide = x.astype(np.float64)
    limits = ((-1, 2), (0, None), (None, 0), (2, -1))
    for result, (low, high) in zip(got, limits, strict=True):
        np.testing.assert_array_equal(result.astype(np.float64), np.clip(wide, low, high))


def test_generated_arrays() -> None:
    b = xb.XlaBuilder()
    for dtype in DTYPES[:4]:
        for endpoint in (True, False):
            got = lib.linspace(b, -1, 2, 7, dtype, endpoint).attributes["value"]
            np.testing.assert_array_equal(got, np.linspace(-1, 2, 7, endpoint).astype(dtype))
    assert lib.linspace(b, 0, 1, 0).shape == xb.f32[0]
    sizes = ((3, None, 0), (2, 4, 1), (4, 2, -1), (3, 3, -9), (3, 3, 2**40), (0, 2, 0))

    def matrices(x: xb.XlaOp) -> list[xb.XlaOp]:
        b = x.builder
        triangles = [lib.tri(b, n, m, k, xb.s8) for n, m, k in sizes]
        return [*triangles, *(lib.eye(b, n, m, xb.bf16) for n, m, _ in sizes)]

    results = run(matrices, np.float32(0))
    for (n, m, k), triangle, diagonal in zip(sizes, results[:6], results[6:], strict=True):
        np.testing.assert_array_equal(triangle, np.tri(n, m, k, np.int8))
        np.testing.assert_array_equal(diagonal, np.eye(n, m).astype(ml_dtypes.bfloat16))


@each_row("dtype", [np.int8, np.uint8, np.int64])
def test_one_hot(dtype: Any) -> None:
    indices = np.array([[0, 2, 5], [1, 7, 100]]).astype(dtype)
    if dtype is not np.uint8:
        indices[0, 0] = -1
    last, first = run(lambda i: (lib.one_hot(i, 6), lib.one_hot(i, 300, xb.pred, axis=0)), indices)
    np.testing.assert_array_equal(last, indices[..., None] == np.arange(6))
    np.testing.assert_array_equal(first, indices == np.arange(300)[:, None, None])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_take(dtype: Any) -> None:
    x = np.arange(2 * 200 * 3, dtype=np.float32).reshape(2, 200, 3)
    indices = np.array([[0, 100], [5, 127]]).astype(dtype)
    if dtype is not np.uint8:
        indices[0, 0] = -3
    along = np.broadcast_to(indices.reshape(1, 4, 1), (2, 4, 3))
    got = run(
        lambda x, i, j: (
            *(lib.take(x, i, 1), lib.take(x, i * 0, -1), lib.take_along_axis(x, j, -2)),
        ),
        *(x, indices, along),
    )
    expected = np.take(x, indices, 1), x[..., indices * 0], np.take_along_axis(x, along, 1)
    for result, value in zip(got, expected, strict=True):
        np.testing.assert_array_equal(result, value)


def test_take_clamps() -> None:
    x, indices = np.arange(5.0), np.array([7, -9, 4, -5])
    for function in (lib.take, lib.take_along_axis):
        assert run(lambda x, i, f=function: f(x, i, 0), x, indices).tolist() == [4, 0, 4, 0]


def test_rows_without_elements() -> None:
    x, indices = np.zeros((2, 0, 5), np.float32), np.zeros((2, 0, 3), np.int32)
    taken, put = run(
        lambda x, i: (lib.take_along_axis(x, i, 2), lib.put_along_axis(x, i, 1.0, 2)), x, indices
    )
    assert (taken.shape, put.shape) == ((2, 0, 3), (2, 0, 5))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_put_along_axis(dtype: Any) -> None:
    x = np.arange(2 * 200 * 3, dtype=np.float32).reshape(2, 200, 3)
    draw = np.random.default_rng(0)
    indices = draw.permuted(np.arange(128)[:, None] * np.ones((2, 1, 3)), axis=1)[:, :7]
    indices = indices.astype(dtype)
    if dtype is not np.uint8:
        indices[0, 0] = -1
    values = draw.normal(size=indices.shape).astype(np.float32)
    first = indices[:1, :1, :1].reshape(())

    def record(x: xb.XlaOp, i: xb.XlaOp, v: xb.XlaOp) -> tuple[xb.XlaOp, ...]:
        scalar = x.builder.constant(np.float32(-5))
        return (
            lib.put_along_axis(x, i, v, 1),
            lib.put_along_axis(x, i, 2.5, -2),
            lib.put_along_axis(x, i, scalar, 1),
            lib.put_along_axis(x[0, :, 0], i[0, :1, 0], v[0, 0, 0], 0),
        )

    results = run(record, x, indices, values)
    for result, value in zip(results, (values, np.float32(2.5), np.float32(-5)), strict=False):
        expected = x.copy()
        np.put_along_axis(expected, indices.astype(np.int64), value, 1)
        np.testing.assert_array_equal(result, expected, strict=True)
    vector = x[0, :, 0].copy()
    vector[first] = values[0, 0, 0]
    np.testing.assert_array_equal(results[3], vector)


def test_put_along_axis_skips_indices_out_of_range() -> None:
    x, indices = np.arange(5.0), np.array([7, -9, 4, -5])
    put = run(lambda x, i: lib.put_along_axis(x, i, -1.0, 0), x, indices)
    assert put.tolist() == [-1, 1, 2, 3, -1]


@each_row(
    "call, message",
    [
        (lambda b, x: lib.where(x, x, x), "where: condition must be of type pred, got f32[2,3]"),
        (lambda b, x: lib.where(x > 0.0, 1.0, 2.0), "where: on_true or on_false must be an array"),
        (
            lambda b, x: lib.where(x > 0.0, x, b.parameter(xb.f64[3])),
            "where: the arrays must have one element type, got f32 and f64[3]",
        ),
        (
            lambda b, x: lib.where(x > 0.0, x, b.parameter(xb.f32[2])),
            "where: the shapes can't be broadcast to one, got pred[2,3], f32[2,3], f32[2]",
        ),
        (lambda b, x: lib.stack([]), "stack: at least one array is needed, got none"),
        (
            lambda b, x: lib.stack([x, b.parameter(xb.f32[3, 2])]),
            "stack: all arrays must have one shape, got f32[2,3] and f32[3,2] (array 1)",
        ),
        (
            lambda b, x: lib.split(x, 2, 1),
            "split: dimension 1 of f32[2,3] can't be divided into 2 equal parts",
        ),
        (
            lambda b, x: lib.split(x, [2, 1], 1),
            "split: the indices must increase from 0 to the size 3, got [2, 1]",
        ),
        (
            lambda b, x: lib.squeeze(x, 1),
            "squeeze: a removed dimension must have size 1, got 3 for dimension 1",
        ),
        (
            lambda b, x: lib.expand_dims(x, 4),
            "expand_dims: axis must be a dimension (from -3",
        ),
        (
            lambda b, x: lib.roll(x, [1, 2, 3], 0),
            "roll: shift must have one entry for each axis",
        ),
        (lambda b, x: lib.tile(x, -1), "tile: each entry of reps must not be negative, got -1"),
        (lambda b, x: lib.repeat(x, 1.5, 0), "repeat: repeats must be an integer, got 1.5"),
        (
            lambda b, x: lib.linspace(b, 0, 1, 3, xb.s32),
            "linspace: element_type must be a floating-point",
        ),
        (
            lambda b, x: lib.linspace(b, 0, 1e400, 3),
            "linspace: stop must be a finite number, got inf",
        ),
        (
            lambda b, x: lib.linspace(b, 0, 1, 2**40),
            "linspace: num must be at most 16777216, the length of a constant",
        ),
        (
            lambda b, x: lib.linspace(b, 0, 1, 3, endpoint=1),
            "linspace: endpoint must be True or False, got 1",
        ),
        (lambda b, x: lib.clip(x, "a"), "clip: min must be an XlaOp, got str: 'a'"),
        (
            lambda b, x: lib.clip(x, 0.0, x > 0),
            "clip: max must be of type f32, got pred[2,3]\nfix: ",
        ),
        (
            lambda b, x: lib.where(x > 0, 1, 2),
            "where: on_true or on_false must be an array, got 1 and 2\nfix: record one with",
        ),
        (
            lambda b, x: lib.eye(b, xb.s32, 3),
            (
                "eye: n must be an integer, got the element type s32\n"
                "fix: write lib.eye(builder, n, element_type=xb.s32)"
            ),
        ),
        (
            lambda b, x: lib.split(x[:0], 10**12),
            "split: an array must be divided into at most 65536 parts, got 1000000000000\n",
        ),
        (lambda b, x: lib.eye(b, -1), "eye: n must not be negative, got -1"),
        (lambda b, x: lib.one_hot(x, 3), "one_hot: indices must be of integer type, got f32[2,3]"),
        (lambda b, x: lib.take(x, x, 0), "take: indices must be of integer type, got f32[2,3]"),
        (
            lambda b, x: lib.take_along_axis(x, b.parameter(xb.s32[2]), 0),
            "take_along_axis: x and indices must have one rank, got f32[2,3] and s32[2]",
        ),
        (
            lambda b, x: lib.put_along_axis(x, b.parameter(xb.s32[2]), 1.0, 0),
            "put_along_axis: x and indices must have one rank, got f32[2,3] and s32[2]",
        ),
        (
            lambda b, x: lib.put_along_axis(x, b.parameter(xb.s32[2, 1]), x, 1),
            "put_along_axis: values must be a scalar or have the sizes of indices, [2, 1], got",
        ),
        (
            lambda b, x: lib.put_along_axis(x, b.parameter(xb.s32[2, 1]), [1], 1),
            "put_along_axis: values must be an XlaOp, got list: [1]",
        ),
        (
            lambda b, x: lib.put_along_axis(x, b.parameter(xb.s32[1, 1]), 1.0, 1),
            "put_along_axis: scatter: ",
        ),
        (
            lambda b, x: lib.repeat(b.parameter("f32[<=4]"), 2, 0),
            "repeat: x must not have bounded sizes, got f32[<=4]",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        call(b, b.parameter(xb.f32[2, 3]))
    assert str(caught.value).startswith(message)
