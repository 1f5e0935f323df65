"""Reductions executed on CPU, compared with NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import assert_same_bits, parameter_like, run, small_numbers
from tables import each_row

import builder as xb
from builder.types.primitive_type import ALL, PrimitiveType

FLOATS = [t for t in ALL if t.is_floating]
INTEGERS = [t for t in ALL if t.is_integral]
COMPLEXES = [t for t in ALL if t.is_complex]


def as_double(x: np.ndarray) -> np.ndarray:
    return (x.real if np.iscomplexobj(x) else x).astype(np.float64)


def folded(
    x: np.ndarray, init: Any, function: Callable[[Any, Any], Any], dimensions: tuple[int, ...]
) -> np.ndarray:
    """Fold the elements in row-major order, rounding each step to the array's type."""
    kept = [d for d in range(x.ndim) if d not in dimensions]
    rows = x.transpose([*kept, *dimensions]).reshape([x.shape[d] for d in kept] + [-1])
    total = np.full(rows.shape[:-1], init, x.dtype)
    for index in range(rows.shape[-1]):
        total = np.asarray(function(total, rows[..., index])).astype(x.dtype)
    return total


REDUCERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, list[PrimitiveType]]] = {
    "add": (xb.add, np.add, 0, [*INTEGERS, *FLOATS, *COMPLEXES]),
    "mul": (xb.mul, np.multiply, 1, [*INTEGERS, *FLOATS, *COMPLEXES]),
    "max": (xb.max, np.maximum, None, [*INTEGERS, *FLOATS]),
    "min": (xb.min, np.minimum, None, [*INTEGERS, *FLOATS]),
    "and": (xb.and_, np.bitwise_and, -1, INTEGERS),
    "or": (xb.or_, np.bitwise_or, 0, INTEGERS),
    "xor": (xb.xor, np.bitwise_xor, 0, INTEGERS),
    "lambda": (lambda a, b: a + b * b, lambda a, b: a + b * b, 0, [xb.s32, xb.f64, xb.c64]),
}


def reducers_of(t: PrimitiveType) -> list[str]:
    """All reducers for the wide types of floating point, which LLVM has; two others with the sum
    for the other types."""
    names = [name for name, (*_, types) in REDUCERS.items() if t in types]
    if t is xb.f8e8m0fnu:
        return [name for name in names if name != "add"]  # it has no zero
    if t.is_floating and t.bits >= 16:
        return names
    others = names[1:]
    first = ALL.index(t) % len(others)
    return [names[0], *(others[first:] + others[:first])[:2]]


@pytest.mark.slow
def test_reduce_of_every_type() -> None:
    b = xb.XlaBuilder("reduce")
    results, expected, arguments = [], [], []
    cases = [(t, name) for t in ALL if t is not xb.pred for name in reducers_of(t)]
    assert {name for _, name in cases} == {*REDUCERS}
    for t, name in cases:
        function, reference, init, _ = REDUCERS[name]
        x = small_numbers(t, (5, 3))
        if name == "mul" and t is not xb.f8e8m0fnu:
            # Products of 2, 2, -2, and otherwise 1 and -1, are exact in every type.
            x = np.where(as_double(x) < 0, -1, 1)
            x[[0, 2, 4], [0, 2, 1]] *= 2
            x = (x if t.min < 0 else abs(x)).astype(t.dtype)
        start: Any = init
        if start is None:
            start = t.min if name == "max" else t.max
        elif start == -1 and t.min == 0:
            start = t.max
        operand = parameter_like(b, x)
        arguments.append(x)
        # Each type has both, for one reducer or another.
        dimensions = ((1,), (0, 1))[(ALL.index(t) + [*REDUCERS].index(name)) % 2]
        results.append(xb.reduce(operand, start, function, dimensions))
        if t.is_integral:
            # In Python integers: reducing modulo the width at the end is the same as at each step.
            x = x.astype(np.int64).astype(object)
        total = folded(x, start, reference, dimensions)
        if t.is_integral:
            total = (total - t.min) % (1 << t.bits) + t.min
        expected.append(np.asarray(total).astype(t.dtype))
    actual = run(b.build(xb.tuple(*results)), *arguments)
    for (_, name), got, want in zip(cases, actual, expected, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if name == "add" and got.ndim == 0 and got.dtype.kind == "V" and got.dtype.itemsize == 1:
            continue  # the rounding of a sum of 15 numbers of 4 or 8 bits depends on the order
        assert_same_bits(got, want)


def test_reduce_of_preds() -> None:
    x = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1]], bool)
    b = xb.XlaBuilder("preds")
    p = b.parameter(xb.pred[3, 3])
    root = xb.tuple(
        xb.reduce(p, False, xb.or_, [1]),
        xb.reduce(p, True, xb.and_, [1]),
        xb.reduce(p, False, xb.add, [1]),
        xb.reduce(p, True, xb.mul, [1]),
        xb.reduce(p, False, xb.max, [1]),
        xb.reduce(p, True, xb.min, [1]),
        xb.reduce(p, False, xb.xor, [1]),
    )
    some, every, total, product, largest, least, odd = run(b.build(root), x)
    for got in (some, total, largest):
        assert got.tolist() == [False, True, True]
    for got in (every, product, least):
        assert got.tolist() == [False, False, True]
    assert odd.tolist() == [False, True, True]


def test_every_subset_of_dimensions() -> None:
    x = np.random.default_rng(1).integers(-9, 9, (4, 2, 3)).astype(np.int32)
    subsets = [
        d for n in range(4) for s in itertools.combinations(range(3), n) for d in {s, s[::-1]}
    ]
    b = xb.XlaBuilder("subsets")
    p = parameter_like(b, x)
    results = [xb.reduce(p, 5 if d else 0, xb.add, d) for d in subsets]
    for got, dimensions in zip(run(b.build(xb.tuple(*results)), x), subsets, strict=True):
        total = x.sum(axis=dimensions, dtype=np.int32)
        assert_same_bits(got, total + np.int32(5 if dimensions else 0))
    assert len(subsets) == 12


def test_documented_reduction() -> None:
    """4x2x3 of 1 to 6: over dimension 0, over 2, over 0 and 1, over all."""
    x = np.tile(np.array([[1, 2, 3], [4, 5, 6]], np.float32), (4, 1, 1))
    b = xb.XlaBuilder("example")
    p = b.parameter(xb.f32[4, 2, 3])
    over = [[0], [2], [0, 1], [0, 1, 2]]
    got = run(b.build(xb.tuple(*(xb.reduce(p, 0, xb.add, d) for d in over))), x)
    assert got[0].tolist() == [[4, 8, 12], [16, 20, 24]]
    assert got[1].tolist() == [[6, 15]] * 4
    assert got[2].tolist() == [20, 28, 36]
    assert got[3].tolist() == 84


def test_empty_arrays_reduce_to_the_init_value() -> None:
    b = xb.XlaBuilder("empty")
    x, y = b.parameter(xb.f32[0]), b.parameter(xb.s16[3, 0, 2])
    root = xb.tuple(
        xb.reduce(x, 1.5, xb.add, [0]),
        xb.reduce(y, -7, xb.max, [1]),
        xb.reduce(y, 0, xb.add, [0]),
        xb.reduce([x, x], [1, 2], lambda a, b, c, d: (a + c, b + d), [0]),
    )
    one, two, three, pair = run(
        b.build(root), np.zeros(0, np.float32), np.zeros((3, 0, 2), np.int16)
    )
    assert one == 1.5
    assert_same_bits(two, np.full((3, 2), -7, np.int16))
    assert_same_bits(three, np.zeros((0, 2), np.int16))
    assert [float(v) for v in pair] == [1.0, 2.0]


def test_reducing_no_dimensions_returns_the_operand() -> None:
    """XLA ignores the init value then, which Operation Semantics permits."""
    b = xb.XlaBuilder("none")
    x, s = b.parameter(xb.s32[2, 2]), b.parameter(xb.s32[()])
    got, scalar = run(
        b.build(xb.tuple(xb.reduce(x, 0, xb.add, []), xb.reduce(s, 0, xb.add, []))),
        np.array([[1, 2], [3, 4]], np.int32),
        np.int32(6),
    )
    assert got.tolist() == [[1, 2], [3, 4]]
    assert scalar == 6


def test_large() -> None:
    x = np.random.default_rng(2).uniform(-1, 1, (1000, 1000))
    single, whole = x.astype(np.float32), (x * 1e6).astype(np.int64)
    b = xb.XlaBuilder("large")
    p, q = b.parameter(xb.f32[1000, 1000]), b.parameter(xb.s64[1000, 1000])
    results = [xb.reduce(p, 0, xb.add, d) for d in ([0], [1], [0, 1])]
    results += [xb.reduce(p, float("-inf"), xb.max, d) for d in ([0], [1], [0, 1])]
    results += [xb.reduce(q, 0, xb.add, d) for d in ([0], [1], [0, 1])]
    got = run(b.build(xb.tuple(*results)), single, whole)
    exact = single.astype(np.float64)
    for result, axis in zip(got[:3], (0, 1, None), strict=True):
        # In the worst case, 1e6 numbers of up to 1 are added sequentially in f32.
        np.testing.assert_allclose(result, exact.sum(axis), rtol=0, atol=0.05)
    for result, axis in zip(got[3:6], (0, 1, None), strict=True):
        assert_same_bits(result, np.asarray(single.max(axis)))
    for result, axis in zip(got[6:], (0, 1, None), strict=True):
        assert_same_bits(result, np.asarray(whole.sum(axis)))


def argmax(best: Any, best_at: Any, value: Any, at: Any) -> tuple[Any, Any]:
    """Return the documented argmax reducer, which returns the later element in a tie."""
    newer = value >= best
    return xb.select(newer, value, best), xb.select(newer, at, best_at)


@each_row(
    "shape, dimensions",
    [
        ((7,), [0]),
        ((3, 50), [1]),
        ((50, 3), [0]),
        ((4, 5, 6), [0, 2]),
        ((1, 9), [0, 1]),
        ((2, 0), [1]),
    ],
)
def test_argmax(shape: tuple[int, ...], dimensions: list[int]) -> None:
    x = np.random.default_rng(3).permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    at = np.arange(x.size).reshape(shape).astype(np.int32)
    b = xb.XlaBuilder("argmax")
    p, i = parameter_like(b, x), parameter_like(b, at)
    root = xb.reduce([p, i], [float("-inf"), -1], argmax, dimensions)
    values, places = run(b.build(root), x, at)
    if x.size == 0:
        assert (values == -np.inf).all()
        assert (places == -1).all()
        return
    assert_same_bits(values, x.max(axis=tuple(dimensions)))
    # The numbers are distinct, so the order of folding has no effect.
    assert (x.reshape(-1)[places] == values).all()


def test_argmax_returns_one_of_equal_values() -> None:
    b = xb.XlaBuilder("ties")
    p, i = b.parameter(xb.f32[6]), b.iota(xb.s32[6])
    root = xb.reduce([p, i], [float("-inf"), -1], argmax, [0])
    value, place = run(b.build(root), np.array([1, 5, 5, 2, 5, 0], np.float32))
    assert value == 5
    assert place in (1, 2, 4)


def test_several_operands_of_several_types() -> None:
    b = xb.XlaBuilder("mixed")
    x, n, p = b.parameter(xb.f64[3, 4]), b.parameter(xb.s8[3, 4]), b.parameter(xb.pred[3, 4])

    def fold(total, product, some, v, m, q):
        return total + v, product * m, some | q

    root = xb.reduce([x, n, p], [0.5, 1, False], fold, [0])
    v = np.arange(12.0).reshape(3, 4)
    m = np.arange(1, 13, dtype=np.int8).reshape(3, 4) % 5
    q = v > 9
    total, product, some = run(b.build(root), v, m, q)
    assert_same_bits(total, v.sum(0) + 0.5)
    assert_same_bits(product, m.prod(0, dtype=np.int8))
    assert_same_bits(some, q.any(0))


def test_a_reducer_that_returns_a_tuple_of_one() -> None:
    b = xb.XlaBuilder("one")
    x = b.parameter(xb.s32[2, 3])
    root = xb.reduce([x], [0], lambda a, v: (a + v,), [1])
    assert str(root.shape) == "(s32[2])"
    (got,) = run(b.build(root), np.array([[1, 2, 3], [4, 5, 6]], np.int32))
    assert got.tolist() == [6, 15]


def test_a_computation_as_the_reducer_used_twice() -> None:
    added = xb.XlaBuilder("add_f32")
    added.build(xb.add(added.parameter(xb.f32[()], "x"), added.parameter(xb.f32[()], "y")))

    @xb.computation(xb.f32[()], xb.f32[()])
    def add_up(x, y):
        return x + y

    b = xb.XlaBuilder("twice")
    p = b.parameter(xb.f32[2, 3])
    rows = xb.reduce(p, 0, add_up, [1])
    everything = xb.reduce(rows, b.constant(np.float32(100)), add_up, [0])
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    got, total = run(b.build(xb.tuple(rows, everything)), x)
    assert got.tolist() == [6, 15]
    assert total == 121


def test_init_values_as_ops() -> None:
    b = xb.XlaBuilder("init")
    p, start = b.parameter(xb.s32[3]), b.parameter(xb.s32[()])
    constant = b.constant(7, xb.s32)
    root = xb.tuple(
        xb.reduce(p, start, xb.add, [0]),
        xb.reduce(p, start * constant, xb.add, [0]),
        xb.reduce([p, p], [start, 0], lambda a, b, c, d: (a + c, b - d), [0]),
        xb.reduce(p, np.int32(1), xb.mul, [0]),
    )
    one, two, (three, four), five = run(b.build(root), np.array([1, 2, 3], np.int32), np.int32(10))
    assert [int(v) for v in (one, two, three, four, five)] == [16, 76, 16, -6, 6]


def test_reducer_with_constants_and_many_ops_inside() -> None:
    b = xb.XlaBuilder("inside")
    x = b.parameter(xb.f64[10])
    root = xb.reduce(x, 0, lambda a, v: xb.max(a, xb.abs(v) * 2 + 1), [0])
    v = np.linspace(-5, 4, 10)
    assert run(b.build(root), v) == np.max(np.abs(v) * 2 + 1)


def test_reduce_inside_a_loop() -> None:
    b = xb.XlaBuilder("loop")
    x = b.parameter(xb.s32[4])

    def body(state):
        i, v = state
        total = xb.reduce(v, 0, xb.add, [0])
        return i + 1, v + total

    root = xb.while_(lambda s: s[0] < 3, body, [b.constant(0, xb.s32), x])
    want = np.arange(4, dtype=np.int32)
    _, got = run(b.build(root), want)
    for _ in range(3):
        want = want + want.sum(dtype=np.int32)
    assert_same_bits(got, want)


def test_reduce_all() -> None:
    x = np.arange(24, dtype=np.int32).reshape(4, 2, 3)
    b = xb.XlaBuilder("total")
    assert int(run(b.build(xb.reduce_all(b.parameter(xb.s32[4, 2, 3]), 0, xb.add)), x)) == 276
