"""sort and top_k executed on CPU, compared with NumPy."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from support import assert_identical, branch, operation_names, parameter_like
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType
from tests.lowering.common import evaluate


def any_values(t: PrimitiveType, count: int) -> np.ndarray:
    """Return random bits with repetitions, including infinities, signed zeros and NaN payloads."""
    rng = np.random.default_rng(count)
    if t is xb.pred:
        return rng.integers(0, 2, count).astype(bool)
    if t.is_complex:
        parts = [any_values(t.real_type, count) for _ in range(2)]
        parts[0][::2] = parts[0][0]  # equal real parts: the imaginary parts are compared
        x = np.empty(count, t.dtype)
        x.real, x.imag = parts
        return x
    if t.is_integral:
        low, high = max(t.min, -50), min(t.max, 50)
        x = rng.integers(low, high, count, endpoint=True).astype(t.dtype)
        x[: count // 8], x[count // 8 : count // 4] = t.min, t.max
        return x
    word = f"u{t.byte_width}"
    bits = rng.integers(0, 1 << min(t.bits, 63), count, dtype=np.uint64).astype(word)
    if t.bits > 8:
        special = np.array([np.inf, -np.inf, 0.0, -0.0, 1.0], t.dtype).view(word)
        bits[::3] = special[rng.integers(0, 5, bits[::3].size)]
        # All exponent bits set: NaNs of any payload and both signs.
        sign = rng.integers(0, 2, bits[1::5].size).astype(word) << (8 * t.byte_width - 1)
        bits[1::5] = bits[1::5] >> np.uint8(2) | special[0] | sign
    return bits.view(t.dtype)


def keys(x: np.ndarray) -> np.ndarray:
    """Return numbers in the order of the elements; floating-point types are in total order."""
    t = xb.as_primitive_type(x.dtype)
    if t.is_complex:
        parts = [keys(np.ascontiguousarray(part)) for part in (x.real, x.imag)]
        return parts[0] * (1 << 70) + parts[1]
    if not t.is_floating:
        return x.astype(np.int64).astype(object) if t is not xb.u64 else x.astype(object)
    bits = np.ascontiguousarray(x).view(f"u{t.byte_width}").astype(object)
    if t is xb.f8e8m0fnu:  # no sign
        return bits
    top = 1 << (t.bits - 1)
    places = np.where(bits >= top, top - 1 - bits, bits)
    if t.name.endswith("fnuz"):  # the only NaN has the bits of -0 in other types
        places = np.where(bits == top, -top - 1, places)
    return places


def order(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the stable sorting permutation of each row."""
    return np.argsort(keys(x), axis=axis, kind="stable")


@pytest.mark.slow
def test_every_type() -> None:
    """Sort with and without indices, along both dimensions, and by both comparators."""
    arrays = [any_values(t, 7 * 30).reshape(7, 30) for t in ALL]
    at = np.arange(7 * 30, dtype=np.int32).reshape(7, 30)

    def descending(a: xb.XlaOp, b: xb.XlaOp, i: xb.XlaOp, j: xb.XlaOp) -> xb.XlaOp:
        if a.shape.element_type.is_complex:
            return i > j
        return xb.gt_total_order(a, b)

    def program(i: xb.XlaOp, *ops: xb.XlaOp) -> xb.XlaOp:
        sorts = (
            xb.tuple(
                xb.sort(p, is_stable=True),
                xb.sort([p, i], dimension=0, is_stable=True),
                xb.sort([p, i], descending, is_stable=True),
            )
            for p in ops
        )
        return xb.tuple(*sorts)

    results = evaluate(program, at, *arrays)
    for t, x, (alone, columns, rows) in zip(ALL, arrays, results, strict=True):
        assert_identical(alone, np.take_along_axis(x, order(x), 1))
        down = order(x, 0)
        assert_identical(columns[0], np.take_along_axis(x, down, 0))
        assert_identical(columns[1], np.take_along_axis(at, down, 0))
        across = np.argsort(-(at if t.is_complex else keys(x)), axis=1, kind="stable")
        assert_identical(rows[0], np.take_along_axis(x, across, 1))
        assert_identical(rows[1], np.take_along_axis(at, across, 1))


def test_types_that_xla_sorts_as_others() -> None:
    """XLA sorts 2-bit integers in a wrong order, and changes the NaNs of these floats."""
    types = [xb.s2, xb.u2, xb.bf16, xb.f8e3m4, xb.f8e4m3, xb.f8e5m2, xb.f8e5m2fnuz, xb.f8e8m0fnu]
    arrays = [any_values(t, 60) for t in types]
    results = evaluate(lambda *ops: xb.tuple(*map(xb.sort, ops)), *arrays)
    for got, x in zip(results, arrays, strict=True):
        assert_identical(got, x[order(x)])


def test_documented_sort_of_three_operands() -> None:
    operands = (
        np.array([3, 1], np.int32),
        np.array([42, 50], np.int32),
        np.array([-3.0, 1.1], np.float32),
    )

    def program(*ops: xb.XlaOp) -> xb.XlaOp:
        return xb.sort(ops, lambda a, b, c, d, e, f: a < b)

    got = evaluate(program, *operands)
    assert [g.tolist() for g in got[:2]] == [[1, 3], [50, 42]]
    assert_identical(got[2], np.array([1.1, -3.0], np.float32))


def test_operands_of_many_types() -> None:
    """Sort types that `legalize` converts, and types that it does not, by two keys."""
    types = [xb.s2, xb.bf16, xb.f32, xb.pred, xb.f8e4m3, xb.u2, xb.c64, xb.s4, xb.f64, xb.u64]
    count = 200
    arrays = [any_values(t, count) for t in types]

    def program(*ops: xb.XlaOp) -> xb.XlaOp:
        def before(*pairs: xb.XlaOp) -> xb.XlaOp:
            (a, b), (c, d) = pairs[:2], pairs[2:4]
            return (a > b) | ((a == b) & xb.lt_total_order(c, d))

        return xb.sort(ops, before, is_stable=True)

    places = np.lexsort((keys(arrays[1]).astype(np.int64), -arrays[0].astype(np.int64)))
    for got, x in zip(evaluate(program, *arrays), arrays, strict=True):
        assert_identical(got, x[places])


def test_a_comparator_that_calls_another_computation() -> None:
    t = xb.bf16
    x = any_values(t, 50)

    def program(p: xb.XlaOp) -> xb.XlaOp:
        return xb.sort(p, lambda a, b: xb.call(xb.lt_total_order, a, b))

    assert_identical(evaluate(program, x), x[order(x)])


def test_stable_and_unstable_sorts() -> None:
    """A stable sort preserves the order of equal elements; both sorts preserve all elements."""
    x = np.random.default_rng(1).integers(0, 4, 5000).astype(np.int32)
    at = np.arange(x.size, dtype=np.int32)

    def program(p: xb.XlaOp, i: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(*(xb.sort([p, i], is_stable=stable) for stable in (True, False)))

    (first, places), (second, others) = evaluate(program, x, at)
    assert_identical(first, np.sort(x))
    assert_identical(places, np.argsort(x, kind="stable").astype(np.int32))
    assert_identical(second, first)
    assert_identical(np.sort(others), at)
    assert_identical(x[others], second)


@each_row(
    "shape, dimension",
    [((0,), 0), ((1,), 0), ((3, 0), 0), ((3, 0), 1), ((1, 4), 0), ((2, 1), -1)],
)
def test_along_sizes_of_0_and_1(shape: tuple[int, ...], dimension: int) -> None:
    x = np.arange(int(np.prod(shape)))[::-1].reshape(shape)
    arrays = [x.astype(t.dtype) for t in (xb.f32, xb.s2, xb.bf16)]

    def program(*ops: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            xb.sort(ops, dimension=dimension), *(xb.sort(p, dimension=dimension) for p in ops)
        )

    together, *alone = evaluate(program, *arrays)
    for got in (together, alone):
        for g, a in zip(got, arrays, strict=True):
            assert_identical(g, a)


@each_row("dimension", range(3))
def test_three_dimensions(dimension: int) -> None:
    x = np.random.default_rng(2).normal(size=(4, 5, 6))
    got = evaluate(lambda p: xb.sort(p, dimension=dimension - 3), x)
    assert_identical(got, np.sort(x, axis=dimension))


def test_a_million_elements() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=1_000_000).astype(np.float32)
    n = rng.integers(-(2**62), 2**62, (1000, 1000))
    few = rng.integers(0, 100, 1_000_000).astype(np.uint8)
    at = np.arange(few.size, dtype=np.int32)

    def program(p: xb.XlaOp, q: xb.XlaOp, f: xb.XlaOp, i: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(xb.sort(p), xb.sort(q, dimension=0), xb.sort([f, i], is_stable=True))

    floats, columns, (small, places) = evaluate(program, x, n, few, at)
    assert_identical(floats, np.sort(x))
    assert_identical(columns, np.sort(n, axis=0))
    assert_identical(small, np.sort(few))
    assert_identical(places, np.argsort(few, kind="stable").astype(np.int32))


def test_complex_numbers_in_the_order_of_numpy() -> None:
    rng = np.random.default_rng(4)
    x = (rng.integers(-3, 4, 100) + 1j * rng.integers(-3, 4, 100)).astype(np.complex64)
    assert_identical(evaluate(xb.sort, x), np.sort(x))


@pytest.mark.parametrize("size", [0, 1, 3, 5])
def test_bounded_sizes(size: int) -> None:
    """Elements beyond the size are not sorted."""
    x = np.array([[5, 1, 4], [2, 9, 3], [7, 0, 8], [-9, -9, -9], [-8, -8, -8]], np.float32)

    def program(p: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        some = xb.set_dimension_size(p, n, 0)
        return xb.tuple(
            xb.sort(some, dimension=0), xb.top_k(some, 2), xb.top_k(some, 1, largest=False)
        )

    sort, (values, places), (least, at) = evaluate(program, x, np.int32(size))
    some = x[:size]
    assert_identical(sort, np.sort(some, axis=0))
    down = np.argsort(-some, axis=1, kind="stable")[:, :2]
    assert_identical(values, np.take_along_axis(some, down, 1))
    assert_identical(places, down.astype(np.int32))
    assert_identical(least, some.min(1, keepdims=True))
    assert at.tolist() == some.argmin(1)[:, None].tolist()


# top_k.


@pytest.mark.slow
def test_top_k_of_every_type() -> None:
    arrays = [any_values(t, 4 * 60).reshape(4, 60) for t in ALL]

    def program(*ops: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(*(xb.top_k(p, 9, largest=up) for p in ops for up in (True, False)))

    results = iter(evaluate(program, *arrays))
    for x in arrays:
        for sign in (-1, 1):
            values, places = next(results)
            want = np.argsort(sign * keys(x), axis=1, kind="stable")[:, :9]
            assert_identical(values, np.take_along_axis(x, want, 1))
            assert_identical(places, want.astype(np.int32))


@pytest.mark.parametrize("t", [xb.s32, xb.f32, xb.f8e5m2], ids=str)
def test_top_k_of_any_rank(t: PrimitiveType) -> None:
    cases = [((5,), 5), ((5,), 0), ((0,), 0), ((0, 3), 2), ((2, 3, 4), 3), ((2, 1), 1)]
    rng = np.random.default_rng(5)
    arrays = [
        rng.permutation(int(np.prod(shape))).reshape(shape).astype(t.dtype) for shape, _ in cases
    ]

    def program(*ops: xb.XlaOp) -> xb.XlaOp:
        each = [(p, k) for p, (_, k) in zip(ops, cases, strict=True)]
        return xb.tuple(*(xb.top_k(p, k, largest=up) for p, k in each for up in (True, False)))

    results = iter(evaluate(program, *arrays))
    for x, (_, k) in zip(arrays, cases, strict=True):
        for sign in (-1, 1):
            values, places = next(results)
            want = np.argsort(sign * keys(x), axis=-1, kind="stable")[..., :k]
            assert_identical(values, np.take_along_axis(x, want, -1))
            assert_identical(places, want.astype(np.int32))


def test_top_k_of_a_million_elements() -> None:
    x = np.random.default_rng(6).permutation(1_000_000).astype(np.float32)
    (values, places), (least, at) = evaluate(
        lambda p: xb.tuple(xb.top_k(p, 20), xb.top_k(p, 20, largest=False)), x
    )
    down = np.argsort(x)
    assert_identical(values, x[down[: -20 - 1 : -1]])
    assert_identical(places, down[: -20 - 1 : -1].astype(np.int32))
    assert_identical(least, x[down[:20]])
    assert_identical(at, down[:20].astype(np.int32))


def test_top_k_agrees_with_jax() -> None:
    x = np.random.default_rng(7).integers(-5, 6, (6, 50)).astype(np.float32)
    values, places = evaluate(lambda p: xb.top_k(p, 7), x)
    reference = jax.lax.top_k(x, 7)
    assert_identical(values, np.asarray(reference[0]))
    assert_identical(places, np.asarray(reference[1]))


# One operation for each op.


@each_row("t", ALL)
def test_every_type_is_one_operation(t: PrimitiveType) -> None:
    b = xb.XlaBuilder("sorted")
    x = b.parameter(xb.array_shape(t, [3, 8]), "x")
    results = [xb.sort(x), xb.top_k(x, 2), xb.top_k(x, 2, largest=False)]
    computation = b.build(xb.tuple(*results))
    assert operation_names(computation) == ["stablehlo.sort", "chlo.top_k", "mhlo.topk"]
    entry = computation.to_hlo_text().partition("ENTRY")[2]
    assert entry.count(" sort(") == 1
    assert " topk(%x), k=2, largest=true" in entry
    assert " topk(%x), k=2, largest=false" in entry
    assert entry.count(" = ") == 5


def test_bounded_sizes_are_one_operation() -> None:
    b = xb.XlaBuilder("sorted")
    x = b.parameter("f32[<=3,<=8]", "x")
    computation = b.build(xb.tuple(xb.top_k(x, 2), xb.top_k(x, 2, largest=False)))
    assert operation_names(computation) == ["chlo.top_k", "mhlo.topk"]


@pytest.mark.parametrize("t", [xb.s2, xb.bf16, xb.f8e5m2], ids=str)
def test_a_comparator_with_a_branch_inside_a_branch(t: PrimitiveType) -> None:
    """The comparator's values are used in nested regions."""
    x = any_values(t, 60)
    at = np.arange(x.size, dtype=np.int32) % 7

    def before(a: xb.XlaOp, b: xb.XlaOp, i: xb.XlaOp, j: xb.XlaOp) -> xb.XlaOp:
        def less(lhs: xb.XlaOp, rhs: xb.XlaOp) -> xb.XlaOp:
            return lhs < rhs if t.is_integral else xb.lt_total_order(lhs, rhs)

        def by_value() -> xb.XlaOp:
            return branch(less(a, b), lambda: less(a, b), lambda: less(b, a) & (i < i))

        return branch(i == j, by_value, lambda: i < j)

    got, places = evaluate(lambda p, i: xb.sort([p, i], before, is_stable=True), x, at)
    want = np.lexsort((keys(x).astype(np.int64), at))
    assert_identical(got, x[want])
    assert_identical(places, at[want])


def test_top_k_in_files() -> None:
    """Text and bytecode contain the operations, artifacts composites."""
    arrays = [any_values(t, 40) for t in (xb.f32, xb.bf16, xb.s4, xb.c64)]
    b = xb.XlaBuilder("largest")
    ops = [parameter_like(b, x) for x in arrays]
    root = xb.tuple(*(xb.top_k(p, 5, largest=up) for p in ops for up in (True, False)))
    module = lowering.lower(b.build(root))
    artifact = lowering.load_bytes(module.artifact())
    assert operation_names(artifact) == ["stablehlo.composite"] * 8
    for read in (lowering.load_bytes(module.text), lowering.load_bytes(module.bytecode), artifact):
        leaves = iter(jax.tree_util.tree_leaves(lowering.compile(read, "cpu")(*arrays)))
        for x in arrays:
            for sign in (-1, 1):
                want = np.argsort(sign * keys(x), kind="stable")[:5]
                assert_identical(np.asarray(next(leaves)), x[want])
                assert_identical(np.asarray(next(leaves)), want.astype(np.int32))


def test_other_readers_find_a_sort_of_the_smallest_elements() -> None:
    """The interpreter calls the functions of the composites in an artifact."""
    x = np.random.default_rng(0).integers(-9, 9, 40).astype(np.float32)
    b = xb.XlaBuilder("smallest")
    p = b.parameter(xb.f32[40])
    both = xb.tuple(xb.top_k(p, 5, largest=False), xb.top_k(-p, 3, largest=False))
    artifact = lowering.load_bytes(lowering.lower(b.build(both)).artifact())
    results = lowering.interpret(artifact, x)
    for (values, places), row, k in zip(results, (x, -x), (5, 3), strict=True):
        want = np.argsort(row, kind="stable")[:k]
        assert_identical(values, row[want])
        assert_identical(places, want.astype(np.int32))


def test_top_k_of_a_file_without_the_attribute_largest() -> None:
    text = """
        func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
          %0:2 = mhlo.topk(%x, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
          return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
        }"""
    chlo = text.replace("mhlo.topk(%x, k = 2)", "chlo.top_k(%x, k = 2)")
    for code in (text.replace("k = 2", "k=2, largest=true"), chlo):
        computation = lowering.to_computation(lowering.load_bytes(code))
        (op,) = computation.find("top_k")
        assert op.attributes["largest"] is True
        values, places = lowering.compile(computation, "cpu")(np.float32([1, 4, 2, 3]))
        assert (values.tolist(), places.tolist()) == ([4, 3], [1, 3])
