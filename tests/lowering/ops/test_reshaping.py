"""Reshaping ops executed on CPU, compared bit by bit with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support import assert_same_bits, run
from tables import mostly_slow

import builder as xb
import lowering
from tests.lowering.common import evaluate

RANDOM = np.random.default_rng(20240611)
ALL_TYPES = [t for t in vars(xb).values() if isinstance(t, xb.PrimitiveType)]
Array = np.ndarray


def sample(t: xb.PrimitiveType, sizes: tuple[int, ...]) -> Array:
    """Return random values of a type, including small integers."""
    if t is xb.pred:
        return RANDOM.integers(0, 2, sizes).astype(bool)
    if t.is_complex:
        return (RANDOM.normal(size=sizes) + 1j * RANDOM.normal(size=sizes)).astype(t.dtype)
    if t.is_integral:
        kind = np.uint64 if t.min == 0 else np.int64
        return RANDOM.integers(t.min, t.max, sizes, kind, True).astype(t.dtype)
    return (2.0 ** RANDOM.integers(-1, 3, sizes)).astype(t.dtype)


# One type of each kind, for sizes and attributes that make no difference for a type.
SOME_TYPES = [xb.pred, xb.s4, xb.u16, xb.f8e5m2, xb.bf16, xb.f32, xb.c64]


def check(
    function: Callable[..., xb.XlaOp],
    want: Callable[..., Array],
    *shapes: tuple[int, ...],
    types: Sequence[xb.PrimitiveType] = ALL_TYPES,
) -> None:
    """Assert that `function` agrees bit by bit with `want` for parameters of these sizes."""
    b = xb.XlaBuilder("reshaping")
    arguments = {t: [sample(t, s) for s in shapes] for t in types}
    results = [function(*(b.parameter(xb.array_shape(t, s)) for s in shapes)) for t in types]
    computation = b.build(xb.tuple(*results))
    actual = run(computation, *(a for t in types for a in arguments[t]))
    for t, result in zip(types, actual, strict=True):
        assert_same_bits(result, want(*arguments[t]).copy())


SIZES = [(3, 4), (1, 67, 5), (0, 3)]


def types_for(sizes: tuple[int, ...]) -> Sequence[xb.PrimitiveType]:
    return ALL_TYPES if sizes == SIZES[0] else SOME_TYPES


@pytest.mark.parametrize("sizes", mostly_slow([*SIZES, ()], 2))
def test_broadcast(sizes: tuple[int, ...]) -> None:
    check(
        lambda x: xb.broadcast(x, [2, 3]),
        lambda x: np.broadcast_to(x, (2, 3, *sizes)),
        sizes,
        types=types_for(sizes),
    )


def test_broadcast_in_dim() -> None:
    check(
        lambda x: xb.broadcast_in_dim(x, [2, 3, 5, 4], [1, 3]),
        lambda x: np.broadcast_to(x[None, :, None, :], (2, 3, 5, 4)),
        (3, 4),
    )
    # A dimension of size 1 is repeated, also zero times.
    check(
        lambda x: xb.broadcast_in_dim(x, [7, 4, 0], [0, 1]),
        lambda x: np.broadcast_to(x[:, :, None], (7, 4, 0)),
        (1, 4),
        types=SOME_TYPES,
    )
    check(
        lambda x: xb.broadcast_in_dim(x, [7, 4], [0, 1]),
        lambda x: np.broadcast_to(x, (7, 4)),
        (1, 4),
        types=SOME_TYPES,
    )


@pytest.mark.parametrize("sizes", mostly_slow(SIZES, 2))
def test_reshape_and_collapse(sizes: tuple[int, ...]) -> None:
    count = int(np.prod(sizes))
    last = len(sizes) - 1
    types = types_for(sizes)
    check(lambda x: xb.reshape(x, [count, 1]), lambda x: x.reshape(count, 1), sizes, types=types)
    check(
        lambda x: xb.collapse(x, [last - 1, last]),
        lambda x: x.reshape(*sizes[: last - 1], sizes[last - 1] * sizes[last]),
        sizes,
        types=types,
    )


@pytest.mark.parametrize("sizes", mostly_slow(SIZES, 2))
def test_transpose_and_rev(sizes: tuple[int, ...]) -> None:
    order = [len(sizes) - 1, *range(len(sizes) - 1)]
    types = types_for(sizes)
    check(lambda x: xb.transpose(x, order), lambda x: np.transpose(x, order), sizes, types=types)
    check(lambda x: xb.rev(x, [0, 1]), lambda x: np.flip(x, (0, 1)), sizes, types=types)
    check(lambda x: xb.rev(x, []), lambda x: x, sizes, types=SOME_TYPES)


def test_concatenate() -> None:
    for dimension, second in ((0, (2, 4)), (1, (3, 61)), (1, (3, 0))):
        check(
            lambda x, y, d=dimension: xb.concatenate([x, y, x], d),
            lambda x, y, d=dimension: np.concatenate([x, y, x], d),
            (3, 4),
            second,
            types=ALL_TYPES if second == (2, 4) else SOME_TYPES,
        )


def padded(x: Array, value: Array, config: Sequence[tuple[int, int, int]]) -> Array:
    """Pad as documented, one element at a time."""
    sizes = [
        low + high + n + max(n - 1, 0) * interior
        for n, (low, high, interior) in zip(x.shape, config, strict=True)
    ]
    result = np.full(sizes, value, x.dtype)
    for index in np.ndindex(x.shape):
        place = tuple(
            low + i * (interior + 1) for i, (low, _, interior) in zip(index, config, strict=True)
        )
        if all(0 <= p < n for p, n in zip(place, sizes, strict=True)):
            result[place] = x[index]
    return result


@pytest.mark.parametrize(
    "config",
    [
        [(0, 0, 0), (0, 0, 0)],
        [(1, 2, 0), (0, 3, 0)],
        [(0, 0, 1), (0, 0, 2)],
        [(-1, 0, 0), (2, -3, 0)],
        [(1, -1, 2), (-1, 2, 1)],
        [(-1, -2, 0), (-4, 0, 0)],
    ],
)
def test_pad(config: list[tuple[int, int, int]]) -> None:
    types = ALL_TYPES if config == [(1, -1, 2), (-1, 2, 1)] else SOME_TYPES
    sizes = (3, 4), ()
    check(lambda x, v: xb.pad(x, v, config), lambda x, v: padded(x, v, config), *sizes, types=types)


def test_pad_in_dim() -> None:
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    actual = evaluate(lambda a: xb.pad_in_dim(a, -1, 1, 1, 2), x)
    np.testing.assert_array_equal(actual, np.pad(x, [(0, 0), (1, 2)], constant_values=-1))


def test_pad_of_empty_arrays() -> None:
    config = [(2, 1, 3), (0, 1, 0)]
    sizes, types = ((0, 3), ()), SOME_TYPES
    check(lambda x, v: xb.pad(x, v, config), lambda x, v: padded(x, v, config), *sizes, types=types)
    check(lambda x, v: xb.pad(x, v, []), lambda x, v: x, (), (), types=types)


@pytest.mark.parametrize(
    ("start", "limit", "strides"),
    [
        ([0, 0], [61, 7], None),
        ([3, 1], [50, 7], [7, 2]),
        ([60, 0], [61, 7], [5, 6]),
        ([5, 2], [5, 7], [1, 1]),
    ],
)
def test_slice(start: list[int], limit: list[int], strides: list[int] | None) -> None:
    cut = tuple(slice(*part) for part in zip(start, limit, strides or [1, 1], strict=True))
    types = ALL_TYPES if strides == [7, 2] else SOME_TYPES
    check(lambda x: xb.slice(x, start, limit, strides), lambda x: x[cut], (61, 7), types=types)


def test_slice_in_dim() -> None:
    check(
        lambda x: xb.slice_in_dim(x, 1, 6, 2, 1), lambda x: x[:, 1:6:2], (61, 7), types=SOME_TYPES
    )


def test_iota() -> None:
    for sizes, dimension in (((4, 3), 0), ((3, 4), 1), ((2, 0, 3), 2), ((1,), 0)):
        types = ALL_TYPES if sizes == (4, 3) else SOME_TYPES
        types = [t for t in types if t not in (xb.pred, xb.f8e8m0fnu)]
        b = xb.XlaBuilder("iota")
        results = [b.iota(xb.array_shape(t, sizes), dimension) for t in types]
        actual = run(b.build(xb.tuple(*results)))
        whole = np.indices(sizes)[dimension]
        for t, result in zip(types, actual, strict=True):
            if t.bits == 2:
                want = whole.astype(np.int8).astype(t.dtype)
            else:
                want = whole.astype(np.float64).astype(t.dtype)
            assert_same_bits(result, want)


def test_a_larger_iota() -> None:
    b = xb.XlaBuilder("iota")
    actual = run(b.build(xb.tuple(b.iota(xb.s64[300, 1000], 1), b.iota(xb.bf16[1000], 0))))
    np.testing.assert_array_equal(actual[0], np.broadcast_to(np.arange(1000), (300, 1000)))
    assert_same_bits(actual[1], np.arange(1000).astype(xb.bf16.dtype))


# Worked examples of Operation Semantics

V = np.array(
    [
        [[10, 11, 12], [15, 16, 17]],
        [[20, 21, 22], [25, 26, 27]],
        [[30, 31, 32], [35, 36, 37]],
        [[40, 41, 42], [45, 46, 47]],
    ],
    np.float32,
)


def test_documented_collapse() -> None:
    assert evaluate(lambda v: xb.collapse(v, [0, 1, 2]), V).tolist() == [
        *(10, 11, 12, 15, 16, 17, 20, 21, 22, 25, 26, 27),
        *(30, 31, 32, 35, 36, 37, 40, 41, 42, 45, 46, 47),
    ]
    rows = [
        [10, 11, 12, 15, 16, 17],
        [20, 21, 22, 25, 26, 27],
        [30, 31, 32, 35, 36, 37],
        [40, 41, 42, 45, 46, 47],
    ]
    # The document swaps the two results, f32[4x6] and f32[8x3]. {0,1} are the collapsed
    # dimensions.
    assert evaluate(lambda v: xb.collapse(v, [1, 2]), V).tolist() == rows
    assert evaluate(lambda v: xb.collapse(v, [0, 1]), V).tolist() == [
        row[start : start + 3] for row in rows for start in (0, 3)
    ]


def test_documented_concatenate() -> None:
    parts = [np.array(p, np.int32) for p in ([2, 3], [4, 5], [6, 7])]
    assert evaluate(lambda *p: xb.concatenate(p, 0), *parts).tolist() == [2, 3, 4, 5, 6, 7]
    a = np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    b = np.array([[7, 8]], np.int32)
    joined = evaluate(lambda a, b: xb.concatenate([a, b], 0), a, b)
    assert joined.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_documented_iota() -> None:
    b = xb.XlaBuilder("example")
    down, across = run(b.build(xb.tuple(b.iota(xb.s32[4, 8], 0), b.iota(xb.s32[4, 8], 1))))
    assert down.tolist() == [[i] * 8 for i in range(4)]
    assert across.tolist() == [list(range(8))] * 4


def test_documented_reshape() -> None:
    def reshaped(dimensions: list[int], new_sizes: list[int]) -> Any:
        return evaluate(lambda v: xb.reshape(v, dimensions=dimensions, new_sizes=new_sizes), V)

    in_order = V.reshape(-1).tolist()
    assert reshaped([0, 1, 2], [24]).tolist() == in_order
    assert reshaped([0, 1, 2], [8, 3]).tolist()[:2] == [[10, 11, 12], [15, 16, 17]]
    assert reshaped([1, 2, 0], [24]).tolist() == [
        *(10, 20, 30, 40, 11, 21, 31, 41, 12, 22, 32, 42),
        *(15, 25, 35, 45, 16, 26, 36, 46, 17, 27, 37, 47),
    ]
    assert reshaped([1, 2, 0], [8, 3]).tolist() == [
        *([10, 20, 30], [40, 11, 21], [31, 41, 12], [22, 32, 42]),
        *([15, 25, 35], [45, 16, 26], [36, 46, 17], [27, 37, 47]),
    ]
    assert reshaped([1, 2, 0], [2, 6, 2]).tolist() == [
        [[10, 20], [30, 40], [11, 21], [31, 41], [12, 22], [32, 42]],
        [[15, 25], [35, 45], [16, 26], [36, 46], [17, 27], [37, 47]],
    ]
    five = np.array([[5]], np.float32)
    assert evaluate(lambda x: xb.reshape(x, [], dimensions=[0, 1]), five) == 5
    scalar = np.array(5, np.float32)
    assert evaluate(lambda x: xb.reshape(x, [1, 1], dimensions=[]), scalar).tolist() == [[5]]


def test_documented_pad() -> None:
    # The figure: dimension 0 has low 0, high 1, interior 2; dimension 1 has low 2, high 1,
    # interior 1.
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    config = xb.PaddingConfig([(0, 1, 2), (2, 1, 1)])
    assert evaluate(lambda x: xb.pad(x, 0, config), x).tolist() == [
        [0, 0, 1, 0, 2, 0, 3, 0],
        [0] * 8,
        [0] * 8,
        [0, 0, 4, 0, 5, 0, 6, 0],
        [0] * 8,
    ]


def test_documented_slice() -> None:
    a = np.array([0, 1, 2, 3, 4], np.float32)
    assert evaluate(lambda a: xb.slice(a, [2], [4]), a).tolist() == [2, 3]
    b = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert evaluate(lambda b: xb.slice(b, [2, 1], [4, 3]), b).tolist() == [[7, 8], [10, 11]]


def test_documented_broadcast() -> None:
    two = np.array(2.0, np.float32)
    assert evaluate(lambda x: xb.broadcast(x, [2, 3]), two).tolist() == [[2.0] * 3] * 2


def test_transpose_and_reshape() -> None:
    order = [2, 0, 1]
    sizes = [V.shape[i] for i in order]
    one = evaluate(lambda v: xb.transpose(v, order), V)
    other = evaluate(lambda v: xb.reshape(v, sizes, dimensions=order), V)
    assert_same_bits(one, other)


def test_bounded_dimensions_are_lowered() -> None:
    b = xb.XlaBuilder("bounded")
    x = b.parameter("f32[<=6,4]", "x")
    results = [
        xb.reshape(x, [24]),
        xb.reshape(x, [2, 3, 4]),
        xb.transpose(x, [1, 0]),
        xb.broadcast(x, [2]),
        xb.broadcast_in_dim(x, [6, 3, 4], [0, 2]),
        xb.slice(x, [0, 0], [4, 2]),
        xb.slice(x, [0, 0], [1, 2]),
        xb.concatenate([x, x], 0),
        xb.concatenate([x, x], 1),
        xb.pad(x, 0, [(1, 1, 1), (0, 0, 0)]),
        xb.rev(x, [0]),
    ]
    text = str(lowering.lower(b.build(xb.tuple(*results))))
    assert "tensor<?x4xf32, #stablehlo.bounds<12, ?>>" in text
