"""Slices and updates at run-time indices, gathers and scatters executed on CPU, against NumPy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from processes import run_python
from support import assert_same_bits, branch, operation_names, run
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType
from lowering.jaxlib_api import hlo_conversion
from lowering.legalize import legalize

INTEGERS = [t for t in ALL if t.is_integral]
ROWS = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
SCATTER_ROWS = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)


# The operations as defined by Operation Semantics, element by element


def clamped(starts: Sequence[Any], sizes: Sequence[int], part: Sequence[int]) -> list[int]:
    return [min(max(int(s), 0), d - n) for s, d, n in zip(starts, sizes, part, strict=True)]


def sliced(x: np.ndarray, starts: Sequence[Any], sizes: Sequence[int]) -> np.ndarray:
    result = np.empty(sizes, x.dtype)
    begin = clamped(starts, x.shape, sizes)
    for at in np.ndindex(*sizes):
        result[at] = x[tuple(b + a for b, a in zip(begin, at, strict=True))]
    return result


def overwritten(x: np.ndarray, update: np.ndarray, starts: Sequence[Any]) -> np.ndarray:
    result = x.copy()
    begin = clamped(starts, x.shape, update.shape)
    for at in np.ndindex(*update.shape):
        result[tuple(b + a for b, a in zip(begin, at, strict=True))] = update[at]
    return result


class Vectors:
    """An array of index vectors."""

    def __init__(self, indices: np.ndarray, vector_dim: int) -> None:
        self.vector_dim = vector_dim
        self.indices = indices[..., None] if vector_dim == indices.ndim else indices
        self.outer = [s for d, s in enumerate(self.indices.shape) if d != vector_dim]

    def at(self, outer: list[int]) -> list[int]:
        place = self.vector_dim
        vector = self.indices[(*outer[:place], slice(None), *outer[place:])]
        return [int(number) for number in vector]

    def along(self, outer: list[int], dimension: int) -> int:
        return outer[dimension - (dimension > self.vector_dim)]


def gathered(
    x: np.ndarray, indices: np.ndarray, n: xb.GatherDimensionNumbers, sizes: Sequence[int]
) -> np.ndarray:
    vectors = Vectors(indices, n.index_vector_dim)
    kept = [
        d
        for d in range(x.ndim)
        if d not in n.collapsed_slice_dims and d not in n.operand_batching_dims
    ]
    shape = list(vectors.outer)
    for place, d in zip(n.offset_dims, kept, strict=True):
        shape.insert(place, sizes[d])
    result = np.empty(shape, x.dtype)
    for out in np.ndindex(*shape):
        outer = [i for place, i in enumerate(out) if place not in n.offset_dims]
        at = [0] * x.ndim
        for d, start in zip(n.start_index_map, vectors.at(outer), strict=True):
            at[d] = min(max(start, 0), x.shape[d] - sizes[d])
        for d, other in zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True):
            at[d] = vectors.along(outer, other)
        for d, place in zip(kept, n.offset_dims, strict=True):
            at[d] += out[place]
        result[out] = x[tuple(at)]
    return result


def scattered(
    operands: Sequence[np.ndarray],
    indices: np.ndarray,
    updates: Sequence[np.ndarray],
    function: Callable[..., tuple[Any, ...]],
    n: xb.ScatterDimensionNumbers,
) -> list[np.ndarray]:
    vectors = Vectors(indices, n.index_vector_dim)
    results = [x.copy() for x in operands]
    first = operands[0]
    kept = [
        d
        for d in range(first.ndim)
        if d not in n.inserted_window_dims and d not in n.input_batching_dims
    ]
    for of in np.ndindex(*updates[0].shape):
        outer = [i for place, i in enumerate(of) if place not in n.update_window_dims]
        at = [0] * first.ndim
        for d, start in zip(n.scatter_dims_to_operand_dims, vectors.at(outer), strict=True):
            at[d] = start
        for d, other in zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True):
            at[d] = vectors.along(outer, other)
        for d, place in zip(kept, n.update_window_dims, strict=True):
            at[d] += of[place]
        if all(0 <= a < size for a, size in zip(at, first.shape, strict=True)):
            place = tuple(at)
            news = function(*(r[place] for r in results), *(u[of] for u in updates))
            for result, new in zip(results, news, strict=True):
                result[place] = new
    return results


# Programs with many results


class Program:
    """A program with many results and their expected values, which runs once."""

    def __init__(self, name: str) -> None:
        self.builder = xb.XlaBuilder(name)
        self.arguments: list[np.ndarray] = []
        self.results: list[xb.XlaOp] = []
        self.wanted: list[np.ndarray] = []

    def value(self, array: Any) -> xb.XlaOp:
        array = np.asarray(array)
        self.arguments.append(array)
        shape = xb.array_shape(xb.as_primitive_type(array.dtype), array.shape)
        return self.builder.parameter(shape)

    def expect(self, op: xb.XlaOp, *expected: np.ndarray) -> None:
        parts = [op] if op.shape.is_array else list(op)
        assert len(parts) == len(expected)
        self.results += parts
        self.wanted += expected

    def check(self) -> None:
        got = run(self.builder.build(xb.tuple(*self.results)), *self.arguments)
        for number, (mine, want) in enumerate(zip(got, self.wanted, strict=True)):
            try:
                assert_same_bits(mine, want)
            except AssertionError as error:
                raise AssertionError(
                    f"result {number}, {self.results[number]!r}: {error}"
                ) from None


def any_bits(t: PrimitiveType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return random values; random bits for most types, including NaNs and infinities."""
    rng = np.random.default_rng(seed)
    if t is xb.pred:
        return rng.integers(0, 2, shape).astype(bool)
    if t.is_integral and t.bits < 8:
        return rng.integers(t.min, t.max, shape, endpoint=True).astype(t.dtype)
    raw = rng.integers(0, 256, (*shape, t.dtype.itemsize), dtype=np.uint8)
    if t.bits < 8:
        raw &= (1 << t.bits) - 1
    return raw.reshape(-1).view(t.dtype).reshape(shape)


def index_of(t: PrimitiveType, *numbers: int) -> np.ndarray:
    """Return indices, clamped to the range of a type."""
    wide = np.int64 if t.is_signed else np.uint64
    return np.array([min(max(n, t.min), t.max) for n in numbers], wide).astype(t.dtype)


HUGE = 2**70
"""Larger than every integer type: `index_of` clamps it."""


# DynamicSlice, DynamicUpdateSlice


def test_documented_slices() -> None:
    p = Program("slices")
    a, b = np.arange(5, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    one, two = p.value(a), p.value(b)
    start, starts = p.value(np.array([2], np.int32)), p.value(np.array([2, 1], np.int32))
    p.expect(xb.dynamic_slice(one, start, [2]), np.array([2, 3], np.float32))
    p.expect(xb.dynamic_slice(one, [2], [2]), np.array([2, 3], np.float32))
    p.expect(xb.dynamic_slice(two, starts, [2, 2]), np.array([[7, 8], [10, 11]], np.float32))
    p.expect(xb.dynamic_slice(two, [2, 1], [2, 2]), np.array([[7, 8], [10, 11]], np.float32))
    update = p.value(np.array([5, 6], np.float32))
    p.expect(
        xb.dynamic_update_slice(one, update, [p.value(np.int64(2))]),
        np.array([0, 1, 5, 6, 4], np.float32),
    )
    update = p.value(np.array([[12, 13], [14, 15], [16, 17]], np.float32))
    p.expect(
        xb.dynamic_update_slice(two, update, [1, p.value(np.int32(1))]),
        np.array([[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]], np.float32),
    )
    p.check()


def test_slices_of_every_type() -> None:
    p = Program("types")
    starts = [np.array(s, np.int32) for s in ([2, 1], [-7, 9], [2**31 - 1, -(2**31)])]
    ops = [p.value(s) for s in starts]
    for number, t in enumerate(ALL):
        x, u = any_bits(t, (6, 5)), any_bits(t, (3, 2), 1)
        operand, update = p.value(x), p.value(u)
        # The start makes no difference for the type of the elements.
        start, op = starts[number % len(starts)], ops[number % len(starts)]
        p.expect(xb.dynamic_slice(operand, op, [3, 2]), sliced(x, start, [3, 2]))
        p.expect(xb.dynamic_update_slice(operand, update, op), overwritten(x, u, start))
    p.check()


def test_start_indices_of_every_type() -> None:
    """Including types whose largest value is less than the size of the operand."""
    p = Program("indices")
    x, u = any_bits(xb.s32, (300, 2)), any_bits(xb.s32, (3, 2), 1)
    operand, update = p.value(x), p.value(u)
    for t in INTEGERS:
        for start in (index_of(t, 1, 0), index_of(t, HUGE, 0), index_of(t, -HUGE, HUGE)):
            op = p.value(start)
            p.expect(xb.dynamic_slice(operand, op, [3, 2]), sliced(x, start, [3, 2]))
            p.expect(xb.dynamic_update_slice(operand, update, op), overwritten(x, u, start))
    p.check()


def test_slices_of_many_shapes() -> None:
    p = Program("shapes")
    cases = [
        ((), ()),
        ((0,), (0,)),
        ((5,), (0,)),
        ((3, 0, 2), (2, 0, 1)),
        ((7,), (7,)),
        ((2, 3, 4, 5), (1, 3, 2, 5)),
        ((1000, 1000), (700, 10)),
        ((100000,), (99999,)),
    ]
    for number, (sizes, part) in enumerate(cases):
        x, u = any_bits(xb.f32, sizes, number), any_bits(xb.f32, part, number + 50)
        start = np.random.default_rng(number).integers(-1, 4, len(sizes)).astype(np.int64)
        operand, update, op = p.value(x), p.value(u), p.value(start)
        begin = tuple(clamped(start, sizes, part))
        window = tuple(slice(b, b + n) for b, n in zip(begin, part, strict=True))
        want = x.copy()
        want[window] = u
        p.expect(xb.dynamic_slice(operand, op, part), np.asarray(x[window]))
        p.expect(xb.dynamic_update_slice(operand, update, op), want)
    p.check()


def test_slices_of_constants() -> None:
    """XLA folds operations on constants."""
    p = Program("constants")
    x = any_bits(xb.f32, (4, 3))
    operand = p.builder.constant(x)
    for start in ([3, -2], [0, 1], [9, 9]):
        ops = [p.builder.constant(s, xb.s8) for s in start]
        part = xb.dynamic_slice(operand, ops, [2, 2])
        p.expect(part, sliced(x, start, [2, 2]))
        want = overwritten(x, sliced(x, start, [2, 2]), [0, 0])
        p.expect(xb.dynamic_update_slice(operand, part, [0, 0]), want)
    p.check()


def test_updates_in_a_loop() -> None:
    """Store sums of squares one element at a time."""
    b = xb.XlaBuilder("loop")

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        i, total = state
        before = xb.dynamic_slice(total, [i - 1], [1])
        return i + 1, xb.dynamic_update_slice(total, before + xb.reshape(i * i, [1]), [i])

    start = [b.constant(1, xb.s32), b.parameter(xb.s32[6])]
    _, got = run(b.build(xb.while_(lambda s: s[0] < 6, body, start)), np.zeros(6, np.int32))
    assert got.tolist() == [0, 1, 5, 14, 30, 55]


# Gather


def test_documented_gathers() -> None:
    """From [16,11]: five slices [8,6], four times five slices, and rows as in tf.gather_nd."""
    p = Program("gathers")
    x = np.arange(16 * 11, dtype=np.int32).reshape(16, 11)
    operand = p.value(x)
    starts = np.array([[0, 0], [8, 5], [3, 1], [2, 4], [7, 2]], np.int64)
    want = np.stack([x[a : a + 8, b : b + 6] for a, b in starts])
    parts = xb.GatherDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
    p.expect(xb.gather(operand, p.value(starts), parts, [8, 6]), want)
    four = np.stack([np.roll(starts, k, 0) for k in range(4)])
    want = np.stack([np.roll(want, k, 0) for k in range(4)])
    parts = xb.GatherDimensionNumbers([2, 3], [], [0, 1], index_vector_dim=2)
    p.expect(xb.gather(operand, p.value(four), parts, [8, 6]), want)
    rows = np.array([[3, 15, 0, 7, 7], [1, 2, 3, 4, 5]], np.int32)
    numbers = xb.GatherDimensionNumbers([2], [0], [0], index_vector_dim=2)
    p.expect(xb.gather(operand, p.value(rows), numbers, [1, 11]), x[rows])
    # index_vector_dim equal to the number of dimensions is a last dimension of size 1.
    p.expect(xb.gather(operand, p.value(rows[..., None]), numbers, [1, 11]), x[rows])
    p.check()


def test_gathers_of_every_type() -> None:
    p = Program("types")
    rows = np.array([0, 5, 2**31 - 1, -(2**31), 2, 2], np.int32)
    op = p.value(rows)
    pairs = xb.GatherDimensionNumbers([0, 2], [], [0], index_vector_dim=1)
    for number, t in enumerate(ALL):
        x = any_bits(t, (6, 5))
        # The dimension numbers make no difference for the type of the elements.
        n, sizes = ((ROWS, [1, 5]), (pairs, [2, 4]))[number % 2]
        p.expect(xb.gather(p.value(x), op, n, sizes), gathered(x, rows, n, sizes))
    p.check()


def test_gather_indices_of_every_type() -> None:
    p = Program("indices")
    x = any_bits(xb.f32, (300, 2))
    operand = p.value(x)
    for t in INTEGERS:
        rows = index_of(t, 0, 1, 100, 299, 300, HUGE, -1, -HUGE)
        op = p.value(rows)
        p.expect(xb.gather(operand, op, ROWS, [1, 2]), gathered(x, rows, ROWS, [1, 2]))
    p.check()


def test_gathers_with_sorted_and_unique_indices() -> None:
    p = Program("promises")
    x = any_bits(xb.s16, (9, 4))
    rows = np.array([0, 2, 3, 7], np.int32)
    promised = xb.gather(
        p.value(x), p.value(rows), ROWS, [1, 4], indices_are_sorted=True, unique_indices=True
    )
    p.expect(promised, x[rows])
    p.check()


# Scatter


def test_scatters_of_every_type() -> None:
    """Each update replaces an element; the indices are unique."""
    p = Program("types")
    rows = np.array([4, 0, 2**31 - 1, -(2**31), 2, -1, 6], np.int32)
    op = p.value(rows)
    numbers = xb.ScatterDimensionNumbers([0, 2], [], [0], index_vector_dim=1)
    for number, t in enumerate(ALL):
        # The dimension numbers make no difference for the type of the elements.
        n, sizes = ((SCATTER_ROWS, (7, 5)), (numbers, (1, 7, 3)))[number % 2]
        x, update = any_bits(t, (6, 5)), any_bits(t, sizes, 1)
        got = xb.scatter(p.value(x), op, p.value(update), lambda a, b: b, n, unique_indices=True)
        p.expect(got, *scattered([x], rows, [update], lambda a, b: (b,), n))
    p.check()


ARITHMETIC: dict[str, Any] = {
    "add": np.add,
    "max": np.maximum,
    "mul": np.multiply,
    "xor": np.bitwise_xor,
}


def test_scatters_with_arithmetic() -> None:
    """The results are exact in every order."""
    p = Program("arithmetic")
    rows = np.array([1, 0, 1, 3, 9, 1], np.int32)
    op = p.value(rows)
    for t, name in itertools.product(ALL, ARITHMETIC):
        function = ARITHMETIC[name]
        if t.bits < 8 or (t.is_floating and t.bits < 16):
            continue  # these types round; see test_reduction.py
        if (name == "xor") > (t.is_integral or t is xb.pred) or (t.is_complex and name == "max"):
            continue
        rng = np.random.default_rng(t.bits)
        x, u = (
            rng.integers(0, 2 if t is xb.pred else 3, s).astype(t.dtype) for s in [(4, 3), (6, 3)]
        )
        want = scattered([x], rows, [u], lambda a, b, f=function: (f(a, b),), SCATTER_ROWS)
        got = xb.scatter(p.value(x), op, p.value(u), getattr(xb, name), SCATTER_ROWS)
        p.expect(got, *want)
    p.check()


def test_scatter_indices_of_every_type() -> None:
    """Including small index types, and windows that are partly out of bounds."""
    p = Program("indices")
    x = np.arange(600, dtype=np.int32).reshape(300, 2)
    operand = p.value(x)
    pairs = xb.ScatterDimensionNumbers([1, 2], [], [0], index_vector_dim=1)
    for t in INTEGERS:
        rows = np.unique(index_of(t, 0, 1, 100, 298, 299, 300, HUGE, HUGE - 1, -1, -2, -HUGE))
        op = p.value(rows)
        for n, size in ((SCATTER_ROWS, (rows.size, 2)), (pairs, (rows.size, 2, 2))):
            u = np.arange(1, 1 + rows.size * 4, dtype=np.int32)[: np.prod(size)].reshape(size)
            want = scattered([x], rows, [u], lambda a, b: (a + b,), n)
            p.expect(xb.scatter(operand, op, p.value(u), xb.add, n), *want)
    p.check()


def test_updates_out_of_bounds_are_skipped_per_element() -> None:
    p = Program("outside")
    x = np.zeros((4, 4), np.int32)
    corner = xb.ScatterDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
    u = np.arange(1, 10, dtype=np.int32).reshape(1, 3, 3)
    for start, want in {
        (2, 2): [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 2], [0, 0, 4, 5]],
        (-1, -2): [[6, 0, 0, 0], [9, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        (3, -2): [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [3, 0, 0, 0]],
        (1, 4): [[0] * 4] * 4,
        (-3, 1): [[0] * 4] * 4,
    }.items():
        got = xb.scatter(p.value(x), p.value(np.array([start])), p.value(u), xb.add, corner)
        p.expect(got, np.array(want, np.int32))
    p.check()


def test_several_operands() -> None:
    """Of different types, and one operand repeated, which XLA deduplicates."""
    p = Program("several")
    rows = np.array([2, 0, 5, 2], np.int32)
    x, y, z = any_bits(xb.s32, (4, 3)), any_bits(xb.s8, (4, 3), 1), any_bits(xb.pred, (4, 3), 2)
    u, v, w = any_bits(xb.s32, (4, 3), 3), any_bits(xb.s8, (4, 3), 4), any_bits(xb.pred, (4, 3), 5)
    op = p.value(rows)

    def mixed(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> tuple[Any, Any, Any]:
        return a + d, b ^ e, c | f

    operands, updates = [p.value(a) for a in (x, y, z)], [p.value(a) for a in (u, v, w)]
    with np.errstate(over="ignore"):
        want = scattered([x, y, z], rows, [u, v, w], mixed, SCATTER_ROWS)
        p.expect(xb.scatter(operands, op, updates, mixed, SCATTER_ROWS), *want)

        def counted(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> tuple[Any, Any, Any]:
            return a + d, b - e, c ^ f

        want = scattered([x, x, x], rows, [u, u, u], counted, SCATTER_ROWS)
        same = xb.scatter([operands[0]] * 3, op, [updates[0]] * 3, counted, SCATTER_ROWS)
        p.expect(same, *want)
    # Also equal constants, of pred.
    zeros = [p.builder.constant(np.zeros((4, 3), bool)) for _ in range(3)]
    want = scattered(
        [np.zeros((4, 3), bool)] * 3,
        rows,
        [w, w, w],
        lambda a, b, c, d, e, f: (d, ~e, c ^ f),
        SCATTER_ROWS,
    )
    got = xb.scatter(
        zeros, op, [updates[2]] * 3, lambda a, b, c, d, e, f: (d, ~e, c ^ f), SCATTER_ROWS
    )
    p.expect(got, *want)
    # A tuple of one.
    one = xb.scatter([operands[0]], op, updates[:1], lambda a, b: (xb.max(a, b),), SCATTER_ROWS)
    want = scattered([x], rows, [u], lambda a, b: (np.maximum(a, b),), SCATTER_ROWS)
    p.expect(one, *want)
    p.check()


def test_empty_index_vectors() -> None:
    """All updates apply to the start of the operand."""
    p = Program("no indices")
    u = np.arange(1, 7, dtype=np.int32)
    scalar = xb.ScatterDimensionNumbers([], [], [], index_vector_dim=1)
    none = p.value(np.zeros((6, 0), np.int32))
    p.expect(xb.scatter(p.value(np.int32(100)), none, p.value(u), xb.add, scalar), np.int32(121))
    whole = xb.ScatterDimensionNumbers([1], [], [], index_vector_dim=1)
    x, v = np.zeros(3, np.int32), u.reshape(3, 2)
    none = p.value(np.zeros((3, 0), np.int8))
    want = np.array([9, 12, 0], np.int32)
    p.expect(xb.scatter(p.value(x), none, p.value(v), xb.add, whole), want)
    both = xb.scatter(
        [p.value(x)] * 2, none, [p.value(v)] * 2, lambda a, b, c, d: (a + c, b - d), whole
    )
    p.expect(both, want, -want)
    # With batching dimensions only.
    each = xb.ScatterDimensionNumbers([], [], [], 1, [0], [0])
    p.expect(xb.scatter(p.value(x), none, p.value(u[:3]), xb.add, each), u[:3])
    same = p.value(x)
    both = xb.scatter([same] * 2, none, [p.value(u[:3])] * 2, lambda a, b, c, d: (a + c, d), each)
    p.expect(both, u[:3], u[:3])
    table = xb.GatherDimensionNumbers([0], [], [], index_vector_dim=1)
    p.expect(xb.gather(p.value(v[0]), none, table, [2]), np.tile(v[0][:, None], 3))
    p.check()


def test_update_computations() -> None:
    p = Program("computations")
    x, rows, u = np.arange(5, dtype=np.float32), np.array([3, 1]), np.array([10, 20], np.float32)
    numbers = xb.ScatterDimensionNumbers([], [0], [0], index_vector_dim=1)
    operand, op, update = p.value(x), p.value(rows), p.value(u)

    def scatter(function: Callable[..., Any]) -> xb.XlaOp:
        return xb.scatter(operand, op, update, function, numbers)

    p.expect(scatter(lambda a, b: a - b * 2), np.array([0, -39, 2, -17, 4], np.float32))
    p.expect(scatter(lambda a, b: b - a), np.array([0, 19, 2, 7, 4], np.float32))
    p.expect(scatter(lambda a, b: a), x)
    p.expect(
        scatter(lambda a, b: a.builder.constant(7.0, xb.f32)), np.array([0, 7, 2, 7, 4], np.float32)
    )
    p.expect(
        scatter(lambda a, b: xb.call(lambda p, q: p * q + 1, a, b)),
        np.array([0, 21, 2, 31, 4], np.float32),
    )
    p.check()


def test_a_loop_in_an_update_is_refused() -> None:
    b = xb.XlaBuilder("looping")
    x, i, u = b.parameter(xb.f32[5, 2]), b.parameter(xb.s32[3]), b.parameter(xb.f32[3, 2])

    def count(a: xb.XlaOp, v: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda s: s < 3.0, lambda s: s + 1.0, a)

    with pytest.raises(
        lowering.CompileError, match="the computation of scatter can't contain while"
    ):
        lowering.compile(b.build(xb.scatter(x, i, u, count, SCATTER_ROWS)))


def test_an_update_with_a_branch_inside_a_branch() -> None:
    """Windows are partly out of bounds and an operand is repeated: nested regions are copied."""
    p = Program("nested")
    x, u = np.arange(6, dtype=np.int32), np.array([[5, 1, 7], [2, 9, 4]], np.int32)
    starts = np.array([[4], [-1]], np.int32)
    numbers = xb.ScatterDimensionNumbers([1], [], [0], index_vector_dim=1)

    def larger(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return branch(a > b, lambda: a, lambda: branch(a == b, lambda: a, lambda: b))

    def both(a: xb.XlaOp, b: xb.XlaOp, c: xb.XlaOp, d: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        return larger(a, c), b + d

    operand, indices, updates = p.value(x), p.value(starts), p.value(u)
    got = xb.scatter([operand] * 2, indices, [updates] * 2, both, numbers)
    want = scattered([x, x], starts, [u, u], lambda a, b, c, d: (np.maximum(a, c), b + d), numbers)
    p.expect(got, *want)
    p.check()


@each_row(
    "operand, indices, updates, numbers, count",
    [
        ("f32[8]", "s32[2]", "f32[2,3]", ([1], [], [0], 1), 1),
        ("f32[8]", "s32[2]", "f32[2]", ([], [0], [0], 1), 3),
        ("f32[8]", "s32[2,0]", "f32[2,8]", ([1], [], [], 1), 1),
        ("f32[]", "s32[2,0]", "f32[2]", ([], [], [], 1), 2),
    ],
)
def test_scatters_with_workarounds_are_one_operation(
    operand: str, indices: str, updates: str, numbers: tuple[Any, ...], count: int
) -> None:
    b = xb.XlaBuilder("scattered")
    x, i, u = b.parameter(operand, "x"), b.parameter(indices, "i"), b.parameter(updates, "u")

    def added(*parts: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(*(a + c for a, c in zip(parts[:count], parts[count:], strict=True)))

    n = xb.ScatterDimensionNumbers(*numbers)
    computation = b.build(xb.scatter([x] * count, i, [u] * count, added, n))
    assert operation_names(computation) == ["stablehlo.scatter"]
    entry = computation.to_hlo_text().partition("ENTRY")[2]
    assert " scatter(" in entry
    assert entry.count(" = ") == 4


def batched_slices(x: jax.Array, u: jax.Array, i: jax.Array) -> jax.Array:
    return jax.vmap(lambda a, v, at: jax.lax.dynamic_update_slice(a, v, (at,)))(x, u, i)


@pytest.mark.parametrize(
    ("function", "is_padded"),
    [
        (lambda x, u, i: x.at[:, 1:3].set(u[:4]), False),
        (lambda x, u, i: x.at[2:4, 0:2].add(u[:2]), False),
        (lambda x, u, i: x.at[:, 0::5].add(u[:4]), False),
        (lambda x, u, i: batched_slices(x, u[:4], i), False),
        (lambda x, u, i: jax.vmap(lambda a, v, at: put(a, v, at))(x, u[:4], i), True),
        (lambda x, u, i: x.at[i, 1:3].add(u[:4]), False),
        (lambda x, u, i: put_in_rows(x, u[:4], i, 4), False),
        (lambda x, u, i: put_in_rows(x, u[:4], i, 0).at[:, i].add(1.0), False),
    ],
    ids=["columns", "corner", "apart", "batched", "unknown", "rows", "end of rows", "two"],
)
def test_operands_are_padded_if_windows_may_be_out_of_bounds(
    function: Callable[..., jax.Array], is_padded: bool
) -> None:
    x, u = np.arange(24, dtype=np.float32).reshape(4, 6), np.ones((6, 2), np.float32)
    i = np.array([0, 4, 2, 3], np.int32)
    arguments = jnp.asarray(x), jnp.asarray(u), jnp.asarray(i)
    of_jax = jax.jit(function, keep_unused=True)
    module = lowering.load_bytes(of_jax.lower(*arguments).as_text())
    assert pads(module) == is_padded
    actual = np.asarray(lowering.compile(module)(x, u, i))
    assert_same_bits(actual, np.asarray(of_jax(*arguments)))


def pads(module: lowering.StablehloModule) -> bool:
    return "stablehlo.pad" in str(legalize(module.module, "windows", "cpu").operation)


@pytest.mark.parametrize("element_type", [xb.s8, xb.u64, xb.s4], ids=str)
@pytest.mark.parametrize("start", [-1, 0, 2, 3])
def test_a_window_at_a_constant_index(start: int, element_type: PrimitiveType) -> None:
    if start < element_type.min:
        start = 5
    x, u = np.zeros(4, np.float32), np.float32([1, 2])
    b = xb.XlaBuilder("window")
    operand, updates = b.parameter("f32[4]", "x"), b.parameter("f32[2]", "u")
    index = b.constant(np.array([start], element_type.dtype))
    numbers = xb.ScatterDimensionNumbers([0], [], [0], index_vector_dim=0)
    computation = b.build(xb.scatter(operand, index, updates, xb.add, numbers))
    is_inside = 0 <= start <= 2
    assert pads(lowering.lower(computation)) == (not is_inside or element_type is xb.s4)
    want = scattered([x], np.array([start]), [u], lambda a, c: (a + c,), numbers)
    assert_same_bits(run(computation, x, u), *want)


def put(x: jax.Array, u: jax.Array, at: jax.Array) -> jax.Array:
    numbers = jax.lax.ScatterDimensionNumbers((0,), (), (0,))
    return jax.lax.scatter(x, at[None], u, numbers, mode="promise_in_bounds")


def put_in_rows(x: jax.Array, u: jax.Array, i: jax.Array, column: int) -> jax.Array:
    """Add updates to the rows `i`, which may be out of bounds, starting at a column."""
    numbers = jax.lax.ScatterDimensionNumbers((1,), (0,), (0, 1))
    indices = jnp.stack([i, jnp.full_like(i, column)], 1)
    return jax.lax.scatter_add(x, indices, u, numbers, mode="promise_in_bounds")


@pytest.mark.parametrize("column", [-1, 0, 4, 5])
def test_windows_in_rows_that_may_be_out_of_bounds(column: int) -> None:
    """Pad only if the constant column makes windows partly out of bounds."""
    x, u = np.zeros((4, 6), np.float32), np.arange(8, dtype=np.float32).reshape(4, 2) + 1
    rows = np.array([0, 4, 2, -1], np.int32)
    lowered = jax.jit(lambda x, u, i: put_in_rows(x, u, i, column)).lower(x, u, rows)
    module = lowering.load_bytes(lowered.as_text())
    assert pads(module) == (column in (-1, 5))
    want = np.zeros((4, 8), np.float32)  # one more column on both sides
    for row in (0, 2):
        want[row, column + 1 : column + 3] = u[list(rows).index(row)]
    assert_same_bits(lowering.compile(module)(x, u, rows), want[:, 1:7])


# Random dimension numbers


class Case:
    """Random sizes and dimension numbers of a gather, and of the scatter that is its inverse."""

    def __init__(self, rng: np.random.Generator) -> None:
        rank = int(rng.integers(0, 5))
        self.sizes = [int(n) for n in rng.integers(1, 6, rank)]
        kinds = rng.choice(["window", "one", "batch"], rank, p=[0.5, 0.3, 0.2]).tolist()
        self.batching = [d for d in range(rank) if kinds[d] == "batch"]
        self.collapsed = [d for d in range(rank) if kinds[d] == "one"]
        window = [d for d in range(rank) if kinds[d] == "window"]
        mapped = rng.permutation([d for d in range(rank) if kinds[d] != "batch"])
        self.mapped = [int(d) for d in mapped[: rng.integers(0, mapped.size + 1)]]
        outer = [(self.sizes[d], d) for d in self.batching]
        outer += [
            (int(n), -1) for n in rng.integers(0 if rng.random() < 0.1 else 1, 5, rng.integers(3))
        ]
        outer = [outer[i] for i in rng.permutation(len(outer))]
        sizes = [n for n, _ in outer]
        self.vector_dim = len(sizes)
        if len(self.mapped) != 1 or rng.random() < 0.7:
            self.vector_dim = int(rng.integers(0, len(sizes) + 1))
            sizes.insert(self.vector_dim, len(self.mapped))
        self.index_sizes = sizes
        places = {d: i + (i >= self.vector_dim) for i, (_, d) in enumerate(outer)}
        self.index_batching = [places[d] for d in self.batching]
        self.slice_sizes = [
            int(rng.integers(0 if rng.random() < 0.1 else 1, n + 1)) if kinds[d] == "window" else 1
            for d, n in enumerate(self.sizes)
        ]
        result = len(outer) + len(window)
        self.offsets = sorted(int(d) for d in rng.permutation(result)[: len(window)])
        self.result = [n for n, _ in outer]
        for place, d in zip(self.offsets, window, strict=True):
            self.result.insert(place, self.slice_sizes[d])

    @property
    def numbers(self) -> tuple[Any, ...]:
        mapping = (self.mapped, self.vector_dim, self.batching, self.index_batching)
        return self.offsets, self.collapsed, *mapping


@pytest.mark.parametrize("seed", range(3))
def test_any_dimension_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = Program("any")
    for _ in range(6):
        case = Case(rng)
        kind = rng.choice([np.int32, np.int64, np.uint8, np.int8, np.uint32])
        i = rng.integers(0 if np.iinfo(kind).min == 0 else -2, 7, case.index_sizes).astype(kind)
        x = rng.integers(-99, 99, case.sizes).astype(np.int32)
        u = rng.integers(-99, 99, case.result).astype(np.int32)
        operand, indices, updates = p.value(x), p.value(i), p.value(u)
        g, s = xb.GatherDimensionNumbers(*case.numbers), xb.ScatterDimensionNumbers(*case.numbers)
        got = xb.gather(operand, indices, g, case.slice_sizes)
        p.expect(got, gathered(x, i, g, case.slice_sizes))
        p.expect(
            xb.scatter(operand, indices, updates, xb.add, s),
            *scattered([x], i, [u], lambda a, b: (a + b,), s),
        )

        def both(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
            return a - c, b + d * 2

        want = scattered([x, x], i, [u, u], both, s)
        p.expect(xb.scatter([operand] * 2, indices, [updates] * 2, both, s), *want)
    p.check()


def test_large_against_jax() -> None:
    """Gather rows of a table of 50,000 rows and add updates to them, also in batches."""
    rng = np.random.default_rng(5)
    x = rng.integers(-1000, 1000, (50000, 16)).astype(np.int32)
    rows = rng.integers(-100, 50100, (20000, 1)).astype(np.int32)
    u = rng.integers(-1000, 1000, (20000, 16)).astype(np.int32)
    batched = rng.integers(0, 60, (50, 30, 1)).astype(np.int32)
    y, v = x.reshape(50, 1000, 16), rng.integers(0, 9, (50, 30, 2, 16)).astype(np.int32)
    p = Program("large")
    table, index, updates = p.value(x), p.value(rows), p.value(u)
    g = jax.lax.GatherDimensionNumbers((1,), (0,), (0,))
    want = jax.lax.gather(x, rows, g, (1, 16), mode="clip")
    p.expect(xb.gather(table, index, ROWS, [1, 16]), np.asarray(want))
    s = jax.lax.ScatterDimensionNumbers((1,), (0,), (0,))
    want = jax.lax.scatter_add(x, rows, u, s, mode="drop")
    p.expect(xb.scatter(table, index, updates, xb.add, SCATTER_ROWS), np.asarray(want))
    g = jax.lax.GatherDimensionNumbers((2, 3), (), (1,), (0,), (0,))
    want = jax.lax.gather(y, batched, g, (1, 2, 16), mode="clip")
    numbers = xb.GatherDimensionNumbers([2, 3], [], [1], 2, [0], [0])
    batch, places = p.value(y), p.value(batched)
    p.expect(xb.gather(batch, places, numbers, [1, 2, 16]), np.asarray(want))
    s = jax.lax.ScatterDimensionNumbers((2, 3), (), (1,), (0,), (0,))
    want = jax.lax.scatter_max(y, batched, v, s, mode="drop")
    scatter = xb.ScatterDimensionNumbers([2, 3], [], [1], 2, [0], [0])
    p.expect(xb.scatter(batch, places, p.value(v), xb.max, scatter), np.asarray(want))
    p.check()


def test_constants() -> None:
    """XLA folds operations on constants."""
    p = Program("constants")
    rng = np.random.default_rng(3)
    for _ in range(6):
        case = Case(rng)
        i = rng.integers(-2, 7, case.index_sizes).astype(np.int32)
        x, u = rng.integers(-99, 99, case.sizes), rng.integers(-99, 99, case.result)
        operand, indices, updates = (p.builder.constant(a) for a in (x, i, u))
        g, s = xb.GatherDimensionNumbers(*case.numbers), xb.ScatterDimensionNumbers(*case.numbers)
        got = xb.gather(operand, indices, g, case.slice_sizes)
        p.expect(got, gathered(np.asarray(x), i, g, case.slice_sizes))
        want = scattered([np.asarray(x)], i, [u], lambda a, b: (a + b,), s)
        p.expect(xb.scatter(operand, indices, updates, xb.add, s), *want)
    p.check()


# Bounded sizes


def summed(x: xb.XlaOp, dimension: int = 0) -> xb.XlaOp:
    return xb.reduce(x, 0, xb.add, [dimension])


def test_bounded_sizes() -> None:
    """Elements beyond the size are neither read nor used."""
    p = Program("bounded")
    x = np.arange(1, 13, dtype=np.int32).reshape(4, 3)
    rows, u = np.array([0, 3, 1, 2, 9], np.int32), np.full((5, 3), 100, np.int32)
    operand, index, updates, two = p.value(x), p.value(rows), p.value(u), p.value(np.int32(2))
    some = xb.set_dimension_size(index, two, 0)
    taken = xb.gather(operand, some, ROWS, [1, 3])
    assert str(taken.shape) == "s32[<=5,3]"
    p.expect(summed(taken), x[0] + x[3])
    short = xb.set_dimension_size(operand, two, 0)
    # Slices are clamped to the actual size.
    p.expect(xb.gather(short, index, ROWS, [1, 3]), x[[0, 1, 1, 1, 1]])
    narrow = xb.gather(xb.set_dimension_size(operand, two, 1), index, ROWS, [1, 3])
    assert str(narrow.shape) == "s32[5,<=3]"
    p.expect(summed(narrow, 1), x[[0, 3, 1, 2, 3], :2].sum(1, dtype=np.int32))
    whole = xb.dynamic_slice(short, [p.value(np.int32(1)), 0], [4, 2])
    assert str(whole.shape) == "s32[<=4,2]"
    p.expect(summed(whole), x[:2, :2].sum(0, dtype=np.int32))
    late = p.value(np.int32(3))
    updated = xb.dynamic_update_slice(short, p.value(u[:1]), [late, 0])
    p.expect(summed(updated), x[0] + 100)
    want = x.copy()
    want[[0, 3]] += 100
    part = xb.set_dimension_size(updates, two, 0)
    p.expect(xb.scatter(operand, some, part, xb.add, SCATTER_ROWS), want)
    put = xb.scatter(short, index, updates, xb.add, SCATTER_ROWS)
    assert str(put.shape) == "s32[<=4,3]"
    p.expect(summed(put), x[0] + x[1] + 200)
    p.check()


def on_bounded(kind: str) -> xb.XlaComputation:
    b = xb.XlaBuilder(kind.replace(" ", "_"))
    x, i, u = b.parameter(xb.s32[4, 3]), b.parameter(xb.s32[5]), b.parameter(xb.s32[5, 3])
    n = b.parameter(xb.s32[()])
    if kind == "windows":
        part = xb.set_dimension_size(u, n, 1)
        return b.build(xb.scatter(x, i, part, xb.add, SCATTER_ROWS))
    if kind == "no number":
        none = xb.set_dimension_size(xb.broadcast(i, [0]), n, 1)
        part = xb.set_dimension_size(u, n, 0)
        numbers = xb.ScatterDimensionNumbers([1], [0], [], index_vector_dim=0)
        return b.build(xb.scatter(x, none, part, xb.add, numbers))
    first = xb.set_dimension_size(x, n, 0) if kind == "several operands" else x
    some = xb.set_dimension_size(i, n, 0) if kind == "several and indices" else i
    got = xb.scatter([first, x], some, [u, u], lambda a, b, c, d: (a + c, d), SCATTER_ROWS)
    return b.build(got[1])


@each_row("kind", ["windows", "no number", "several operands", "several and indices"])
def test_bounded_sizes_that_are_refused(kind: str) -> None:
    """XLA uses the bound as the size, or aborts on several bounded operands."""
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(on_bounded(kind))
    message = str(caught.value)
    assert "can't run on cpu: XLA replaces a bounded size by its bound, or aborts" in message
    assert "fix: make the sizes fixed with xb.remove_dynamic_dimension" in message
    assert caught.value.op == "scatter"


# Comparison with XLA's shape inference


def hlo_of(case: Case, opcode: str, numbers: tuple[Any, ...], operands: list[xb.ArrayShape]) -> str:
    """Return a gather or scatter as HLO text without the result's shape, which XLA infers."""
    names = {
        "gather": ("offset_dims", "collapsed_slice_dims", "start_index_map"),
        "scatter": ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"),
    }[opcode]
    batching = {
        "gather": ("operand_batching_dims", "start_indices_batching_dims"),
        "scatter": ("input_batching_dims", "scatter_indices_batching_dims"),
    }[opcode]
    fields = dict(zip((*names, "index_vector_dim", *batching), numbers, strict=True))
    rest = ", ".join(
        f"{name}={value}" if isinstance(value, int) else f"{name}={{{','.join(map(str, value))}}}"
        for name, value in fields.items()
    )
    if opcode == "gather":
        rest += f", slice_sizes={{{','.join(map(str, case.slice_sizes))}}}"
    else:
        rest += ", to_apply=%add"
    lines = [f"  %p{i} = {shape} parameter({i})" for i, shape in enumerate(operands)]
    inputs = ", ".join(f"%p{i}" for i in range(len(operands)))
    return "\n".join(
        [
            "HloModule inferred",
            "",
            "%add {",
            "  %a = s32[] parameter(0)",
            "  %b = s32[] parameter(1)",
            "  ROOT %c = s32[] add(%a, %b)",
            "}",
            "",
            "ENTRY %main {",
            *lines,
            f"  ROOT %r = {opcode}({inputs}), {rest}",
            "}",
        ]
    )


PARSED = """
import json, sys
from lowering.jaxlib_api import hlo_conversion
for text in json.load(sys.stdin):
    try:
        hlo_conversion.parsed_hlo_text(text)
        print("accepted")
    except Exception:
        print("refused")
"""


def are_accepted(texts: list[str]) -> list[bool]:
    """Whether XLA's parser accepts each text. It runs in another process, as it may crash."""
    done = run_python("-c", PARSED, stdin=json.dumps(texts))
    answers = done.stdout.split()
    assert len(answers) == len(texts)
    return [a == "accepted" for a in answers]


# XLA does not check these rules: slice sizes that must be 1, and batching dimensions, which
# StableHLO's verifier checks.
STRICTER = ("dimension must be 1, got 0", "batching")


def test_shape_inference_agrees_with_xla_and_stablehlo() -> None:
    """Accepted ops have the shapes that XLA and StableHLO infer; XLA refuses the refused ones.

    The dimension numbers are valid, or differ from valid ones in one number.
    """
    refused: list[str] = []
    accepted = 0

    @settings(max_examples=150, derandomize=True, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal accepted
        case = Case(np.random.default_rng(data.draw(st.integers(0, 10**6))))
        if data.draw(st.booleans()):
            lists = [case.offsets, case.collapsed, case.mapped, case.batching, case.index_batching]
            lists += [case.index_sizes, case.slice_sizes, case.result]
            chosen = data.draw(st.sampled_from(lists))
            if chosen:
                place = data.draw(st.integers(0, len(chosen) - 1))
                chosen[place] = max(chosen[place] + data.draw(st.sampled_from([-1, 1, 2])), -1)
            else:
                case.vector_dim += data.draw(st.sampled_from([-1, 1]))
        if min([*case.index_sizes, *case.result, 0]) < 0:
            return
        x, i = xb.s32[tuple(case.sizes)], xb.s32[tuple(case.index_sizes)]
        for opcode in ("gather", "scatter"):
            operands = [x, i] if opcode == "gather" else [x, i, xb.s32[tuple(case.result)]]
            text = hlo_of(case, opcode, case.numbers, operands)
            b = xb.XlaBuilder("inferred")
            ops = [b.parameter(shape) for shape in operands]
            try:
                if opcode == "gather":
                    numbers = xb.GatherDimensionNumbers(*case.numbers)
                    op = xb.gather(*ops, numbers, case.slice_sizes)
                else:
                    op = xb.scatter(*ops, xb.add, xb.ScatterDimensionNumbers(*case.numbers))
            except xb.ShapeInferenceError as error:
                if not any(stricter in str(error) for stricter in STRICTER):
                    refused.append(text)
                continue
            accepted += 1
            root = hlo_conversion.parsed_hlo_text(text).rpartition("ROOT ")[2]
            assert f" = {op.shape}{{" in root or f" = {op.shape} " in root
            lowering.lower(b.build(op))

    check()
    assert accepted > 60
    assert len(refused) > 30
    for text, is_accepted in zip(refused, are_accepted(refused), strict=True):
        assert not is_accepted, f"XLA accepts\n{text}"
