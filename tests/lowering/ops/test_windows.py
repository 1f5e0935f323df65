"""reduce_window and select_and_scatter executed on CPU, compared with their definitions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from support import (
    assert_identical,
    assert_same_bits,
    branch,
    operation_names,
    parameter_like,
    small_numbers,
)
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType
from lowering.jaxlib_api import hlo_conversion
from tests.lowering.common import evaluate

SAME, VALID = xb.Padding.SAME, xb.Padding.VALID
Pairs = Sequence[tuple[int, int]]


def places_of(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    base_dilations: Sequence[int],
    window_dilations: Sequence[int],
) -> list[list[list[int | None]]]:
    """Return the element indices in each window position, for each dimension.

    None is padding or a gap between elements.
    """
    results = []
    for size, width, stride, (low, high), base, spread in zip(
        sizes, window, strides, padding, base_dilations, window_dilations, strict=True
    ):
        elements: list[int | None] = []
        for index in range(size):
            elements += [None] * (base - 1) if index else []
            elements.append(index)
        elements = [None] * max(low, 0) + elements + [None] * max(high, 0)
        elements = elements[max(-low, 0) : len(elements) - max(-high, 0)]
        reach = (width - 1) * spread
        starts = range(0, max(len(elements) - reach, 0), stride)
        results.append([[elements[start + i * spread] for i in range(width)] for start in starts])
    return results


def elements_in(places: list[list[list[int | None]]], place: Sequence[int]) -> list[Any]:
    """Return the indices of the elements in a window position, in row-major order."""
    along = [places[d][p] for d, p in enumerate(place)]
    every: list[tuple[int | None, ...]] = [()]
    for indices in along:
        every = [(*index, i) for index in every for i in indices]
    return [index for index in every if None not in index]


Fold = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]


def folded_windows(
    arrays: Sequence[np.ndarray],
    inits: Sequence[Any],
    fold: Fold,
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Pairs | None = None,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> list[np.ndarray]:
    """Reduce windows by definition, element by element."""
    ones = (1,) * len(window)
    places = places_of(
        arrays[0].shape,
        window,
        strides or ones,
        padding or ((0, 0),) * len(window),
        base_dilations or ones,
        window_dilations or ones,
    )
    results = [np.empty([len(p) for p in places], a.dtype) for a in arrays]
    for place in np.ndindex(*results[0].shape):
        total = tuple(inits)
        for index in elements_in(places, place):
            total = fold(total, tuple(a[index] for a in arrays))
        for result, value in zip(results, total, strict=True):
            result[place] = value
    return results


def scattered(
    x: np.ndarray,
    select: Callable[[Any, Any], bool],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    source: np.ndarray,
    init: Any,
    scatter: Callable[[Any, Any], Any],
) -> np.ndarray:
    """Scatter by definition: each window position selects an element sequentially."""
    ones = (1,) * len(window)
    places = places_of(x.shape, window, strides, padding, ones, ones)
    assert [len(p) for p in places] == list(source.shape)
    result = np.full(x.shape, init, x.dtype)
    for place in np.ndindex(*source.shape):
        chosen = None
        for index in elements_in(places, place):
            if chosen is None or not select(x[chosen], x[index]):
                chosen = index
        if chosen is not None:
            result[chosen] = scatter(result[chosen], source[place])
    return result


def in_type(t: PrimitiveType, value: Any) -> Any:
    """Convert a number to a type; integers wrap around."""
    if t.is_integral:
        value = (int(value) - t.min) % (1 << t.bits) + t.min
    return np.asarray(value).astype(t.dtype)[()]


def ints(x: np.ndarray) -> Any:
    """Convert elements of integer types to Python integers, which do not wrap around."""
    return int(x) if xb.as_primitive_type(x.dtype).is_integral else x


REDUCERS: dict[str, tuple[Any, Any, Any, Callable[[PrimitiveType], bool]]] = {
    "add": (xb.add, operator.add, 0, lambda t: t is not xb.pred and t is not xb.f8e8m0fnu),
    "mul": (xb.mul, operator.mul, 1, lambda t: t is not xb.pred),
    "max": (xb.max, max, "min", lambda t: not t.is_complex),
    "min": (xb.min, min, "max", lambda t: not t.is_complex),
    "or": (xb.or_, operator.or_, 0, lambda t: t.is_integral or t is xb.pred),
    "select": (
        lambda a, b: xb.select(a >= b, a, b),
        lambda a, b: a if a >= b else b,
        "min",
        lambda t: t in (xb.pred, xb.s4, xb.u64, xb.bf16, xb.f64),
    ),
}
WINDOWS: list[tuple[Any, ...]] = [
    ((2, 3), (1, 2), ((0, 0), (0, 0))),
    ((2, 2), (2, 1), ((1, 2), (-1, 1)), (2, 1), (1, 2)),
]


@pytest.mark.slow
def test_reduce_window_of_every_type() -> None:
    """All reducers of the wide floating-point types, which have rewrites; of the other types the
    sum, and two of the other reducers."""
    cases = []
    for place, t in enumerate(ALL):
        names = [name for name, (*_, takes) in REDUCERS.items() if takes(t)]
        others = [name for name in names if name != "add"]
        count = len(others) if t.is_floating and t.bits >= 16 else 2
        chosen = [*names[:1], *(others[(place + n) % len(others)] for n in range(count))]
        for name in dict.fromkeys(chosen):
            init = REDUCERS[name][2]
            start = in_type(t, getattr(t, init) if isinstance(init, str) else init)
            # Each type has both windows, for one reducer or another.
            window = WINDOWS[(place + [*REDUCERS].index(name)) % len(WINDOWS)]
            cases.append((t, name, start, window))
    arrays = {t: small_numbers(t, (4, 5)) for t in ALL}

    def program(*ops: xb.XlaOp) -> xb.XlaOp:
        operands = dict(zip(arrays, ops, strict=True))
        results = []
        for t, name, start, (window, strides, padding, *dilations) in cases:
            base, spread = dilations or (None, None)
            x = operands[t]
            results.append(
                xb.reduce_window(
                    *(x, x.builder.constant(start), REDUCERS[name][0], window, strides, padding),
                    base_dilations=base,
                    window_dilations=spread,
                )
            )
        return xb.tuple(*results)

    results = evaluate(program, *arrays.values())
    for (t, name, start, window), got in zip(cases, results, strict=True):

        def fold(a: Any, b: Any, t: PrimitiveType = t, name: str = name) -> tuple[Any]:
            return (in_type(t, REDUCERS[name][1](ints(a[0]), ints(b[0]))),)

        with np.errstate(all="ignore"):  # products out of the range of narrow types
            (want,) = folded_windows([arrays[t]], [start], fold, *window)
        assert_same_bits(got, want)


def test_documented_minimum_of_10000_to_1() -> None:
    x = np.array([10000, 1000, 100, 10, 1], np.float32)
    largest = float(np.finfo(np.float32).max)

    def program(p: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            *(xb.reduce_window(p, largest, xb.min, [3], [2], padding) for padding in (VALID, SAME))
        )

    valid, same = evaluate(program, x)
    assert valid.tolist() == [100, 1]
    assert same.tolist() == [1000, 10, 1]


def test_documented_maximum_of_2_by_3() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)

    def program(p: xb.XlaOp) -> xb.XlaOp:
        smallest = float(np.finfo(np.float32).min)
        apart = xb.reduce_window(p, smallest, xb.max, [2, 3], [2, 3], VALID)
        close = xb.reduce_window(p, smallest, xb.max, [2, 3], [1, 1], VALID)
        return xb.tuple(apart, close)

    apart, close = evaluate(program, x)
    assert apart.tolist() == [[8, 11], [20, 23]]
    assert close.tolist() == [[8, 9, 10, 11], [14, 15, 16, 17], [20, 21, 22, 23]]


def test_general_padding_is_the_same_op() -> None:
    x = np.arange(15, dtype=np.int32).reshape(3, 5)
    window = ((2, 2), (1, 2), ((1, 0), (0, 2)), (1, 2), (2, 1))

    def program(p: xb.XlaOp) -> xb.XlaOp:
        sizes, strides, padding, base, spread = window
        return xb.reduce_window_with_general_padding(
            p, 0, xb.add, sizes, strides, base, spread, padding
        )

    (want,) = folded_windows([x], [np.int32(0)], lambda a, b: (a[0] + b[0],), *window)
    assert_same_bits(evaluate(program, x), want)


def argmax(best: Any, best_at: Any, value: Any, at: Any) -> tuple[Any, Any]:
    newer = value > best
    return xb.select(newer, value, best), xb.select(newer, at, best_at)


@pytest.mark.parametrize("t", [xb.f32, xb.s8, xb.bf16, xb.u4], ids=str)
def test_several_operands(t: PrimitiveType) -> None:
    """Argmax of windows of distinct numbers."""
    count = min(int(t.max), 12)
    x = np.random.default_rng(3).permutation(count).reshape(3, -1).astype(t.dtype)
    at = np.arange(x.size).reshape(x.shape).astype(np.int32)
    window = ((2, 2), (1, 1), ((1, 0), (0, 1)), (1, 2), (1, 1))

    def program(p: xb.XlaOp, i: xb.XlaOp) -> xb.XlaOp:
        sizes, strides, padding, base, spread = window
        inits = [p.builder.constant(in_type(t, t.min)), -1]
        return xb.reduce_window_with_general_padding(
            [p, i], inits, argmax, sizes, strides, base, spread, padding
        )

    def fold(a: Any, b: Any) -> Any:
        return b if b[0] > a[0] else a

    got = evaluate(program, x, at)
    want = folded_windows([x, at], [in_type(t, t.min), np.int32(-1)], fold, *window)
    values = want[0]
    assert_same_bits(got[0], values)
    if t.min < 0:  # an unsigned 0 is not greater than the init value
        assert_same_bits(got[1], want[1])


def test_a_reducer_that_returns_a_tuple_of_one() -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)

    def program(p: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce_window([p], [0], lambda a, v: (a + v,), [2, 2], None, VALID)

    (got,) = evaluate(program, x)
    assert got.tolist() == [[12, 16]]


def test_scalars_and_empty_arrays() -> None:
    def both(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
        return a + c, xb.max(b, d)

    def program(s: xb.XlaOp, e: xb.XlaOp, f: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            xb.reduce_window(s, 0.0, xb.add, [], [], VALID),
            xb.reduce_window(e, -7, xb.max, [2], [1], [(2, 1)]),
            xb.reduce_window(e, -7, xb.max, [2], [1], VALID),
            xb.reduce_window(f, 1, xb.mul, [1, 2, 1], None, SAME),
            xb.reduce_window(
                [s, s], [0.0, 0.0], lambda a, b, c, d: (a + c, xb.max(b, d)), [], [], []
            ),
        )

    scalar, padded, none, empty, pair = evaluate(
        program, np.array(2.5, np.float32), np.zeros(0, np.int16), np.zeros((2, 0, 3), np.int8)
    )
    assert scalar == 2.5
    assert_same_bits(padded, np.full(2, -7, np.int16))
    assert none.shape == (0,)
    assert empty.shape == (2, 0, 3)
    assert [float(v) for v in pair] == [2.5, 2.5]


def test_large() -> None:
    x = np.random.default_rng(2).integers(-1000, 1000, (1000, 1000)).astype(np.int32)
    y = x.astype(np.float32)

    def program(p: xb.XlaOp, q: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            xb.reduce_window(p, 0, xb.add, [5, 7], [1, 1], VALID),
            xb.reduce_window(q, float("-inf"), xb.max, [3, 3], [2, 2], VALID),
            xb.reduce_window(p, 0, xb.add, [1, 1000], [1, 1], [(0, 0), (999, 0)]),
        )

    sums, maxima, running = evaluate(program, x, y)
    assert_same_bits(sums, sliding_window_view(x, (5, 7)).sum((2, 3), dtype=np.int32))
    assert_same_bits(maxima, sliding_window_view(y, (3, 3))[::2, ::2].max((2, 3)))
    assert_same_bits(running, np.cumsum(x, axis=1, dtype=np.int32))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_agrees_with_jax(padding: str) -> None:
    x = np.random.default_rng(4).normal(size=(2, 9, 8, 3)).astype(np.float32)
    window, strides = (1, 3, 2, 1), (1, 2, 3, 1)

    def program(p: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce_window(p, float("-inf"), xb.max, window, strides, padding)

    reference = jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, strides, padding)
    assert_same_bits(evaluate(program, x), np.asarray(reference))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_bounded_sizes(size: int) -> None:
    x = np.arange(1, 16, dtype=np.int32).reshape(5, 3) ** 2

    def program(p: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        some = xb.set_dimension_size(p, n, 0)
        return xb.tuple(
            xb.reduce_window(some, 0, xb.add, [2, 2], None, VALID),
            xb.reduce_window(some, 0, xb.add, [3, 1], [2, 1], SAME),
        )

    valid, same = evaluate(program, x, np.int32(size))
    some = x[:size]
    sums = [some[i : i + 2, j : j + 2].sum() for i in range(size - 1) for j in range(2)]
    assert valid.tolist() == np.reshape(sums, (size - 1, 2)).tolist()
    starts = range(-1, size - 1, 2)
    assert same.tolist() == [some[max(i, 0) : i + 3].sum(0).tolist() for i in starts]


# select_and_scatter


def gradient(x: xb.XlaOp, source: xb.XlaOp, *window: Any) -> xb.XlaOp:
    return xb.select_and_scatter(x, xb.ge, *window, source, 0, xb.add)


def test_documented_select_and_scatter() -> None:
    apart = np.array(
        [[7, 2, 5, 3, 10, 2], [3, 8, 9, 3, 4, 2], [1, 5, 7, 5, 6, 1], [0, 6, 2, 7, 2, 8]],
        np.float32,
    )
    overlapping = np.array(
        [[7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2]], np.float32
    )
    source = np.array([[2, 6], [3, 1]], np.float32)

    def program(a: xb.XlaOp, o: xb.XlaOp, s: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            gradient(a, s, [2, 3], [2, 3], VALID), gradient(o, s, [2, 3], [2, 2], VALID)
        )

    first, second = evaluate(program, apart, overlapping, source)
    assert first.tolist() == [
        [0, 0, 0, 0, 6, 0],
        [0, 0, 2, 0, 0, 0],
        [0, 0, 3, 0, 0, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    # The 9 is selected in two windows: 2 + 6.
    assert second.tolist() == [[0, 0, 0, 0, 0], [0, 0, 8, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0]]


SELECTIONS: list[tuple[Any, Any, Any]] = [
    ((2, 3), (1, 2), ((0, 0), (0, 0))),
    ((2, 2), (2, 2), ((1, 0), (0, 1))),
    ((2, 2), (1, 1), ((-1, 1), (2, -1))),
]


def test_select_and_scatter_of_every_type() -> None:
    """Of equal elements, the first in row-major order is selected."""
    cases = []
    for number, t in enumerate(ALL):
        x = small_numbers(t, (4, 5))
        window = SELECTIONS[number % len(SELECTIONS)]
        sizes = [
            (n + low + high - w) // s + 1
            for n, w, s, (low, high) in zip((4, 5), *window, strict=True)
        ]
        cases.append((t, x, window, small_numbers(t, sizes, 3)))

    def program(*ops: xb.XlaOp) -> xb.XlaOp:
        results = []
        for (t, _, window, _), x, source in zip(cases, ops[::2], ops[1::2], strict=True):
            one = x.builder.constant(in_type(t, 1))
            select = on_real(xb.ge, xb.real) if t.is_complex else xb.ge
            scatter = xb.or_ if t is xb.pred else xb.add
            results.append(xb.select_and_scatter(x, select, *window, source, one, scatter))
        return xb.tuple(*results)

    arguments = [a for _, x, _, source in cases for a in (x, source)]
    for (t, x, window, source), got in zip(cases, evaluate(program, *arguments), strict=True):

        def add(a: Any, b: Any, t: PrimitiveType = t) -> Any:
            return in_type(t, ints(a) + ints(b) if t is not xb.pred else a | b)

        select = on_real(np.greater_equal, np.real) if t.is_complex else np.greater_equal
        assert_same_bits(got, scattered(x, select, *window, source, in_type(t, 1), add))


def on_real(compared: Any, real: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: compared(real(a), real(b))


def test_computations_with_nested_regions() -> None:
    """Both computations contain regions that use their values."""
    x = np.random.default_rng(3).integers(0, 2, (4, 4)).astype(np.float32)
    source = np.arange(1, 26, dtype=np.float32).reshape(5, 5)

    def at_least(a: xb.XlaOp, c: xb.XlaOp) -> xb.XlaOp:
        return branch(a > c, lambda: a >= a, lambda: branch(c > a, lambda: a > a, lambda: a >= c))

    def added(a: xb.XlaOp, c: xb.XlaOp) -> xb.XlaOp:
        return branch(a > c, lambda: a + c, lambda: c + a)

    def program(p: xb.XlaOp, s: xb.XlaOp) -> xb.XlaOp:
        window = [2, 2], [1, 1], [(1, 1), (1, 1)]
        results = [
            xb.select_and_scatter(p, at_least, *window, s, 0.0, added),
            xb.select_and_scatter(p, xb.ge, *window, s, 0.0, xb.add),
        ]
        return xb.tuple(*results)

    nested, plain = evaluate(program, x, source)
    assert_identical(nested, plain)
    assert_identical(
        plain,
        scattered(x, np.greater_equal, [2, 2], [1, 1], [(1, 1)] * 2, source, np.float32(0), np.add),
    )


@each_row("shape", ["f32[4,4]", "f32[]", "f32[<=4,4]"])
def test_select_and_scatter_is_one_operation(shape: str) -> None:
    b = xb.XlaBuilder("gradient")
    x = b.parameter(shape, "x")
    rank = x.shape.rank
    window = [2] * rank, [1] * rank, [(1, 1)] * rank
    source = b.parameter(shape.replace("4", "5"), "s")
    computation = b.build(gradient(x, source, *window))
    expected = ["stablehlo.constant", "stablehlo.select_and_scatter"]
    assert operation_names(computation) == expected
    entry = computation.to_hlo_text().partition("ENTRY")[2]
    assert entry.count(" = ") == 4
    assert " select-and-scatter(" in entry


def test_windows_in_the_padding_scatter_nothing() -> None:
    """A window that contains only padding has no element to select."""
    x, source = np.array([5, 1, 4], np.int32), np.arange(1, 9, dtype=np.int32)
    got = evaluate(lambda p, s: gradient(p, s, [2], [1], [(3, 3)]), x, source)
    assert got.tolist() == [3 + 4, 0, 5 + 6]


def test_select_and_scatter_of_scalars_and_empty_arrays() -> None:
    def program(x: xb.XlaOp, s: xb.XlaOp, e: xb.XlaOp, t: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            xb.select_and_scatter(x, xb.ge, [], [], VALID, s, 10, xb.sub),
            gradient(e, t, [2], [1], [(2, 1)]),
            gradient(t, e, [3], [1], VALID),
            gradient(n, n, [1, 1], [1, 1], VALID),
        )

    scalar, empty, untouched, none = evaluate(
        program,
        np.array(7, np.int32),
        np.array(3, np.int32),
        np.zeros(0, np.float32),
        np.ones(2, np.float32),
        np.zeros((3, 0), np.int8),
    )
    assert scalar == 7
    assert empty.shape == (0,)
    assert untouched.tolist() == [0, 0]
    assert none.shape == (3, 0)


def test_select_by_lt_and_scatter_by_mul() -> None:
    x = np.array([[3, 1, 2, 1], [1, 3, 0, 5]], np.int64)
    source = np.array([[2, 3, 4]], np.int64)

    def program(p: xb.XlaOp, s: xb.XlaOp) -> xb.XlaOp:
        return xb.select_and_scatter_with_general_padding(
            p, xb.le, [2, 2], [1, 1], [(0, 0), (0, 0)], s, 5, xb.mul
        )

    # The first 1, then the 0 twice.
    assert evaluate(program, x, source).tolist() == [[5, 10, 5, 5], [5, 5, 60, 5]]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_the_gradient_of_a_large_pooling(padding: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.permutation(300 * 400).reshape(300, 400).astype(np.float32)  # distinct
    window, strides = (3, 3), (2, 2)

    def pooled(v: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(v, -np.inf, jax.lax.max, window, strides, padding)

    out, backward = jax.vjp(pooled, x)
    source = rng.integers(-9, 10, out.shape).astype(np.float32)
    got = evaluate(lambda p, s: gradient(p, s, window, strides, padding), x, source)
    assert_same_bits(got, np.asarray(backward(source)[0]))


def test_select_and_scatter_of_bounded_sizes() -> None:
    x, source = np.array([5, 1, 4, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32)

    def program(p: xb.XlaOp, s: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        some, fewer = xb.set_dimension_size(p, n, 0), xb.set_dimension_size(s, n - 1, 0)
        return gradient(some, fewer, [2], [1], VALID)

    assert evaluate(program, x, source, np.int32(5)).tolist() == [1, 0, 5, 0, 4]
    assert evaluate(program, x, source, np.int32(3)).tolist() == [1, 0, 2]


# Random windows


@st.composite
def any_window(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw sizes of an array, and a window with its attributes."""
    rank = draw(st.integers(0, 3))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    padding = tuple(zip(numbers(-2, 3), numbers(-2, 3), strict=True))
    return numbers(0, 5), (numbers(1, 3), numbers(1, 3), padding, numbers(1, 3), numbers(1, 3))


def accepted(computation: xb.XlaComputation, result: xb.XlaOp) -> lowering.StablehloModule:
    """Return the module; MLIR's verifier and XLA's parser must accept it."""
    module = lowering.lower(computation)
    assert module.program_shape.result is result.shape
    text = str(computation)
    called, _, entry = text.rpartition("ENTRY")
    if re.search(r"ROOT %\S+ = \S+ (reduce-window|select-and-scatter)\(", entry):
        # XLA infers the result's shape if the text omits it.
        silent = re.sub(r"(ROOT %\S+ = )\S+ ", r"\1", entry)
        root = hlo_conversion.parsed_hlo_text(f"{called}ENTRY{silent}").rpartition("ROOT")[2]
        assert root.partition(" = ")[2].startswith(str(result.shape))
    assert hlo_conversion.hlo_text_to_stablehlo(text)
    return module


@settings(max_examples=40)
@given(any_window())
def test_any_reduce_window(drawn: tuple[Any, ...]) -> None:
    sizes, window = drawn
    dimensions, strides, padding, base, spread = window
    x = np.random.default_rng(9).integers(-9, 10, sizes).astype(np.int32)
    b = xb.XlaBuilder("any")
    p = parameter_like(b, x)
    lengths = [
        low + high + ((n - 1) * d + 1 if n else 0)
        for n, d, (low, high) in zip(sizes, base, padding, strict=True)
    ]
    arguments = (p, 0, xb.add, dimensions, strides, base, spread, padding)
    if any(length < 0 for length in lengths):
        with pytest.raises(xb.ShapeInferenceError, match="must not remove more elements"):
            xb.reduce_window_with_general_padding(*arguments)
        return
    result = xb.reduce_window_with_general_padding(*arguments)
    module = accepted(b.build(result), result)
    (want,) = folded_windows([x], [np.int32(0)], lambda a, c: (a[0] + c[0],), *window)
    assert result.shape.dimensions == want.shape
    assert_same_bits(np.asarray(lowering.compile(module)(x)), want)


NO_DILATION = [1, 1]


@pytest.mark.parametrize("padding", [(0, -1), (-2, 0), (-1, -1), (-1, 1)])
@pytest.mark.parametrize("beside", [(0, 0), (-1, 0), (2, 0)])
def test_windows_of_one_element_with_negative_padding(
    padding: tuple[int, int], beside: tuple[int, int]
) -> None:
    """XLA's compiler crashes on some of them."""
    x = np.arange(20, dtype=np.int32).reshape(4, 5)
    y = x.astype(np.float32) / 2
    b = xb.XlaBuilder("cut")
    window = ([1, 1], [1, 1], [padding, beside], NO_DILATION, NO_DILATION)
    p, q = parameter_like(b, x), parameter_like(b, y)
    both = xb.reduce_window(
        [p, q], [7, 0.5], lambda a, c, d, e: (a + d, c * e), window[0], window[1], window[2]
    )
    alone = xb.reduce_window(p, 7, xb.add, window[0], window[1], window[2])
    actual = lowering.compile(b.build(xb.tuple(alone, both)))(x, y)
    (want,) = folded_windows([x], [np.int32(7)], lambda a, c: (a[0] + c[0],), *window)
    assert_same_bits(np.asarray(actual[0]), want)
    (product,) = folded_windows([y], [np.float32(0.5)], lambda a, c: (a[0] * c[0],), *window)
    assert_same_bits(np.asarray(actual[1][0]), want)
    assert_same_bits(np.asarray(actual[1][1]), product)


@settings(max_examples=25)
@given(any_window())
def test_any_select_and_scatter(drawn: tuple[Any, ...]) -> None:
    sizes, (dimensions, strides, padding, *_) = drawn
    lengths = [n + low + high for n, (low, high) in zip(sizes, padding, strict=True)]
    windows = [
        (n - w) // s + 1 if n >= w else 0
        for n, w, s in zip(lengths, dimensions, strides, strict=True)
    ]
    x = np.random.default_rng(9).integers(0, 3, sizes).astype(np.int32)
    source = np.arange(np.prod(windows, dtype=int), dtype=np.int32).reshape(windows) ** 2
    b = xb.XlaBuilder("any")
    p, s = parameter_like(b, x), parameter_like(b, source)
    if any(length < 0 for length in lengths):
        with pytest.raises(xb.ShapeInferenceError, match="must not remove more elements"):
            gradient(p, s, dimensions, strides, padding)
        return
    result = gradient(p, s, dimensions, strides, padding)
    module = accepted(b.build(result), result)
    want = scattered(
        *(x, np.greater_equal, dimensions, strides, padding, source, np.int32(0)),
        lambda a, c: a + c,
    )
    assert_same_bits(np.asarray(lowering.compile(module)(x, source)), want)
