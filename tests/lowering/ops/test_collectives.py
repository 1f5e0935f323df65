"""Collective operations executed on 8 CPU devices, compared with NumPy and jax."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from support import assert_identical, assert_same_bits, parameter_like, run_replicated
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType
from lowering import CompileError

N = 8
GROUPS = [[0, 2, 5, 4], [1, 3, 6, 7]]
Rows = Sequence[np.ndarray]


# The operations in NumPy. Each takes and returns a list of arrays, one for each replica.


def group_of(replica: int, groups: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """Return the group of a replica, and its position in the group."""
    for group in groups or [list(range(N))]:
        if replica in group:
            return list(group), list(group).index(replica)
    raise AssertionError


def reduced(rows: Rows, function: Any, groups: Sequence[Sequence[int]] = ()) -> list[np.ndarray]:
    results = []
    for replica in range(len(rows)):
        group, _ = group_of(replica, groups or [list(range(len(rows)))])
        total = rows[group[0]]
        for other in group[1:]:
            total = np.asarray(function(total, rows[other])).astype(rows[0].dtype)
        results.append(total)
    return results


def gathered(rows: Rows, axis: int, groups: Sequence[Sequence[int]]) -> list[np.ndarray]:
    return [
        np.concatenate([rows[r] for r in group_of(replica, groups)[0]], axis)
        for replica in range(len(rows))
    ]


def scattered(rows: Rows, function: Any, axis: int, groups: Any) -> list[np.ndarray]:
    results = []
    for replica, whole in enumerate(reduced(rows, function, groups)):
        group, place = group_of(replica, groups)
        results.append(np.split(whole, len(group), axis)[place])
    return results


def exchanged(rows: Rows, split: int, concat: int, groups: Any) -> list[np.ndarray]:
    results = []
    for replica in range(len(rows)):
        group, place = group_of(replica, groups)
        blocks = [np.split(rows[r], len(group), split)[place] for r in group]
        results.append(np.concatenate(blocks, concat))
    return results


def permuted(rows: Rows, pairs: Sequence[Sequence[int]]) -> list[np.ndarray]:
    results = [np.zeros_like(row) for row in rows]
    for source, target in pairs:
        results[target] = rows[source]
    return results


def numbers(t: PrimitiveType, shape: tuple[int, ...], seed: int = 3) -> list[np.ndarray]:
    """Return an array for each replica, of small values whose sums are rarely rounded."""
    rng = np.random.default_rng(seed)
    sizes = (N, *shape)
    if t is xb.pred:
        return list(rng.integers(0, 2, sizes).astype(bool))
    if t is xb.f8e8m0fnu:
        return list(np.exp2(rng.integers(-1, 2, sizes)).astype(t.dtype))
    if t.is_complex:
        return list((rng.integers(-3, 4, sizes) + 1j * rng.integers(-3, 4, sizes)).astype(t.dtype))
    low = max(-2, t.min)
    return list(rng.integers(low, min(2, t.max), sizes, endpoint=True).astype(t.dtype))


def bits(t: PrimitiveType, count: int) -> list[np.ndarray]:
    """Return arrays of random bits, including NaNs, signed zeros, infinities and subnormals."""
    rng = np.random.default_rng(5)
    if t.bits < 8:
        return numbers(t, (count,))
    raw = rng.integers(0, 256, (N, count * t.dtype.itemsize), np.uint8)
    return list((raw & 1 if t is xb.pred else raw).view(t.dtype))


# The worked examples of Operation Semantics


def test_documented_all_gather() -> None:
    b = xb.XlaBuilder("gather")
    x = b.parameter(xb.f32[2])
    rows = [np.array([1.0, 2.5], np.float32), np.array([3.0, 5.25], np.float32)]
    got = run_replicated(b.build(xb.all_gather(x, 0, 2)), rows, num_replicas=2)
    assert [g.tolist() for g in got] == [[1.0, 2.5, 3.0, 5.25]] * 2


def test_documented_all_reduce() -> None:
    b = xb.XlaBuilder("reduce")
    x = b.parameter(xb.f32[2])
    root = xb.tuple(
        xb.all_reduce(x, xb.add), xb.all_reduce(xb.tuple(x, x), xb.add), xb.cross_replica_sum(x)
    )
    rows = [np.array([1.0, 2.5], np.float32), np.array([3.0, 5.25], np.float32)]
    for one, several, total in run_replicated(b.build(root), rows, num_replicas=2):
        assert one.tolist() == [4.0, 7.75]
        assert [s.tolist() for s in several] == [[4.0, 7.75]] * 2
        assert total.tolist() == [4.0, 7.75]


def test_documented_reduce_scatter() -> None:
    b = xb.XlaBuilder("scatter")
    x = b.parameter(xb.f32[2])
    rows = [np.array([1.0, 2.25], np.float32), np.array([3.0, 5.25], np.float32)]
    got = run_replicated(b.build(xb.reduce_scatter(x, xb.add, 0, 2)), rows, num_replicas=2)
    assert [g.tolist() for g in got] == [[4.0], [7.5]]


def test_documented_all_to_all() -> None:
    """f32[4,16], split along dimension 1 and joined along 0, on 4 cores: f32[16,4]."""
    b = xb.XlaBuilder("alltoall")
    x = b.parameter(xb.f32[4, 16], "x")
    root = xb.all_to_all(x, split_dimension=1, concat_dimension=0, split_count=4)
    rows = list(np.arange(256, dtype=np.float32).reshape(4, 4, 16))
    got = run_replicated(b.build(root), rows, num_replicas=4)
    for core, result in enumerate(got):
        assert result.shape == (16, 4)
        for sender in range(4):
            block = rows[sender][:, 4 * core : 4 * core + 4]
            assert_same_bits(result[4 * sender : 4 * sender + 4], block)


def test_documented_replica_groups() -> None:
    """{0, 2}, {1, 3} gathers 0 with 2 and 1 with 3; {1,2,3}, {4,5,0} exchanges in that order."""
    b = xb.XlaBuilder("groups")
    x = b.parameter(xb.s32[1])
    root = xb.tuple(
        xb.all_gather(x, 0, 2, [[0, 2], [1, 3]]), xb.all_reduce(x, xb.add, [[0, 2], [1, 3]])
    )
    got = run_replicated(b.build(root), np.arange(4, dtype=np.int32)[:, None], num_replicas=4)
    assert [g[0].tolist() for g in got] == [[0, 2], [1, 3], [0, 2], [1, 3]]
    assert [g[1].tolist() for g in got] == [[2], [4], [2], [4]]
    b = xb.XlaBuilder("order")
    y = b.parameter(xb.s32[3])
    root = xb.all_to_all(y, 0, 0, 3, [[1, 2, 3], [4, 5, 0]])
    rows = 10 * np.arange(6, dtype=np.int32)[:, None] + np.arange(3, dtype=np.int32)
    got = run_replicated(b.build(root), rows, num_replicas=6)
    assert [g.tolist() for g in got] == [
        *([42, 52, 2], [10, 20, 30], [11, 21, 31], [12, 22, 32]),
        *([40, 50, 0], [41, 51, 1]),
    ]


def test_documented_collective_permute() -> None:
    """A replica that is not a target receives zeros."""
    b = xb.XlaBuilder("permute")
    x = b.parameter(xb.f32[2])
    rows = np.arange(8, dtype=np.float32).reshape(4, 2) + 1
    root = xb.collective_permute(x, [(0, 1), (1, 3), (3, 3 - 3)])
    got = run_replicated(b.build(root), rows, num_replicas=4)
    assert [g.tolist() for g in got] == [[7, 8], [1, 2], [0, 0], [3, 4]]


def test_replica_id_and_partition_id() -> None:
    b = xb.XlaBuilder("ids")
    root = xb.tuple(b.replica_id(), b.partition_id())
    computation = b.build(root)
    for replicas, partitions in ((8, 1), (1, 8), (2, 4), (4, 2)):
        got = run_replicated(computation, num_replicas=replicas, num_partitions=partitions)
        expected = [(r, p) for r in range(replicas) for p in range(partitions)]
        assert [(int(r), int(p)) for r, p in got] == expected
        assert got[0][0].dtype == np.uint32


# Every element type


def test_type_lists_are_complete() -> None:
    assert len(ALL) >= 28


PAIRS = [(0, 3), (3, 7), (7, 0), (5, 5)]
TWOS = [[0, 5], [1, 3], [2, 4], [7, 6]]
SOURCES = [[3, 0, 1, 2], [6, 5, 4, 7]]


@pytest.mark.slow
def test_data_movement_of_every_type() -> None:
    """Compare bit by bit, since these operations only move data."""
    rows = [bits(t, 8) for t in ALL]
    b = xb.XlaBuilder("moved")
    moved = [
        xb.tuple(
            xb.all_gather(x, 0, 4, GROUPS),
            xb.all_to_all(x, 0, 0, 2, TWOS),
            xb.collective_permute(x, PAIRS),
            xb.collective_broadcast(x, SOURCES),
        )
        for x in (parameter_like(b, of_type[0]) for of_type in rows)
    ]
    got = run_replicated(b.build(xb.tuple(*moved)), *rows, num_replicas=N)
    for index, of_type in enumerate(rows):
        expected = zip(
            gathered(of_type, 0, GROUPS),
            exchanged(of_type, 0, 0, TWOS),
            permuted(of_type, PAIRS),
            [of_type[group_of(r, SOURCES)[0][0]] for r in range(N)],
            strict=True,
        )
        for ours, theirs in zip(got, expected, strict=True):
            for one, other in zip(ours[index], theirs, strict=True):
                assert_identical(one, other)


@pytest.mark.slow
def test_all_to_all_tuple_of_every_type() -> None:
    """Apart from the other operations, because XLA has other HLO for its HLO text."""
    rows = [bits(t, 8) for t in ALL]
    b = xb.XlaBuilder("exchanged")
    parameters = [parameter_like(b, of_type[0]) for of_type in rows]
    root = xb.tuple(*(xb.all_to_all_tuple([x] * 2, TWOS) for x in parameters))
    for replica, results in enumerate(run_replicated(b.build(root), *rows, num_replicas=N)):
        for pair, of_type in zip(results, rows, strict=True):
            for one, sender in zip(pair, group_of(replica, TWOS)[0], strict=True):
                assert_identical(one, of_type[sender])


@each_row("t", [xb.s4, xb.f8e5m2])
def test_reductions_of_narrow_types_with_a_channel(t: PrimitiveType) -> None:
    b = xb.XlaBuilder("channel")
    x = b.parameter(xb.array_shape(t, [2]))
    total = xb.all_reduce(x, xb.add, channel_id=1)
    root = xb.tuple(total, xb.reduce_scatter(x, xb.add, 0, 2, channel_id=2))
    rows = np.array([[1, -2], [3, 1]]).astype(t.dtype)
    for place, (both, own) in enumerate(run_replicated(b.build(root), rows, num_replicas=2)):
        assert both.astype(int).tolist() == [4, -1]
        assert own.astype(int).tolist() == [[4, -1][place]]


def test_nans_that_xla_would_change() -> None:
    """XLA converts these types to larger floats and back, unless they are sent as integers."""
    types = [xb.bf16, xb.f8e5m2, xb.f8e4m3, xb.f8e3m4, xb.s2]
    rows = [bits(t, 8) for t in types]
    b = xb.XlaBuilder("sent")
    parameters = [parameter_like(b, of_type[0]) for of_type in rows]
    root = [
        xb.tuple(xb.all_to_all(x, 0, 0, 2, TWOS), xb.collective_permute(x, PAIRS))
        for x in parameters
    ]
    got = run_replicated(b.build(xb.tuple(*root)), *rows, num_replicas=N)
    for index, of_type in enumerate(rows):
        expected = zip(exchanged(of_type, 0, 0, TWOS), permuted(of_type, PAIRS), strict=True)
        for ours, theirs in zip(got, expected, strict=True):
            for one, other in zip(ours[index], theirs, strict=True):
                assert_identical(one, other)


REDUCERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (xb.add, np.add),
    "mul": (xb.mul, np.multiply),
    "max": (xb.max, np.maximum),
    "min": (xb.min, np.minimum),
    # XLA's CPU backend supports these for pred only.
    "sub": (xb.sub, np.subtract),
    "and": (xb.and_, np.bitwise_and),
    "or": (xb.or_, np.bitwise_or),
    "xor": (xb.xor, np.bitwise_xor),
}


def reducers_of(t: PrimitiveType) -> list[str]:
    names = ["add", "mul"]
    if not t.is_complex:
        names += ["max", "min"]
    if t is xb.pred:
        return ["max", "min", "and", "or", "xor"]
    return [*names, "sub", *(["and", "or", "xor"] if t.is_integral else [])]


def scattered_by(t: PrimitiveType) -> list[str]:
    """All reducers of pred, and a third of those of another type."""
    names = reducers_of(t)
    return names if t is xb.pred else names[ALL.index(t) % 3 :: 3]


@pytest.mark.slow
def test_reductions_of_every_type() -> None:
    types = [t for t in ALL if t is not xb.f8e8m0fnu]
    rows = [numbers(t, (4, 3)) for t in types]
    b = xb.XlaBuilder("reduced")
    results = []
    for t, of_type in zip(types, rows, strict=True):
        x = parameter_like(b, of_type[0])
        results += [xb.all_reduce(x, REDUCERS[name][0], TWOS) for name in reducers_of(t)]
        results += [xb.reduce_scatter(x, REDUCERS[name][0], 0, 2, TWOS) for name in scattered_by(t)]
    got = run_replicated(b.build(xb.tuple(*results)), *rows, num_replicas=N)
    each = zip(*got, strict=True)
    for t, of_type in zip(types, rows, strict=True):
        expected = [reduced(of_type, REDUCERS[name][1], TWOS) for name in reducers_of(t)]
        expected += [scattered(of_type, REDUCERS[name][1], 0, TWOS) for name in scattered_by(t)]
        for ours, theirs in zip(itertools.islice(each, len(expected)), expected, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert_same_bits(one, other)


def test_reductions_of_powers_of_two() -> None:
    """f8e8m0fnu has only powers of two: neither zero nor signs."""
    rows = numbers(xb.f8e8m0fnu, (4,))
    b = xb.XlaBuilder("powers")
    x = parameter_like(b, rows[0])
    names = ("mul", "max", "min")
    root = xb.tuple(*(xb.all_reduce(x, REDUCERS[name][0], TWOS) for name in names))
    got = run_replicated(b.build(root), rows, num_replicas=N)
    wide = [row.astype(np.float32) for row in rows]
    for index, name in enumerate(names):
        for one, other in zip(got, reduced(wide, REDUCERS[name][1], TWOS), strict=True):
            assert_same_bits(one[index].astype(np.float32), other)


def test_sums_of_preds() -> None:
    rows = numbers(xb.pred, (16,))
    b = xb.XlaBuilder("preds")
    x = b.parameter(xb.pred[16])
    root = xb.tuple(xb.cross_replica_sum(x, GROUPS), xb.all_reduce(x, xb.add, GROUPS))
    expected = reduced(rows, np.logical_or, GROUPS)
    for (one, other), theirs in zip(
        run_replicated(b.build(root), rows, num_replicas=N), expected, strict=True
    ):
        assert_same_bits(one, theirs)
        assert_same_bits(other, theirs)


# Shapes


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8,), (8, 2, 4), (0, 4), (4, 0), (256, 1024)], ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(11)
    rows = list(rng.integers(-1000, 1000, (N, *shape)).astype(np.float32))
    last = len(shape) - 1
    b = xb.XlaBuilder("shapes")
    x = parameter_like(b, rows[0])
    cut = shape[0] % 4 == 0
    root = xb.tuple(
        xb.all_reduce(x, xb.add),
        xb.all_reduce(x, xb.sub, GROUPS),
        xb.all_gather(x, 0, 4, GROUPS),
        xb.all_gather(x, last, 4, GROUPS),
        xb.reduce_scatter(x, xb.add, 0, 4, GROUPS),
        xb.all_to_all(x, 0, last, 4, GROUPS),
        xb.collective_permute(x, PAIRS),
        xb.collective_broadcast(x, SOURCES),
        xb.all_to_all(x, last, 0, 2, [[0, 1], [3, 2], [4, 5], [6, 7]]),
    )
    assert cut
    expected = zip(
        reduced(rows, np.add),
        reduced(rows, np.subtract, GROUPS),
        gathered(rows, 0, GROUPS),
        gathered(rows, last, GROUPS),
        scattered(rows, np.add, 0, GROUPS),
        exchanged(rows, 0, last, GROUPS),
        permuted(rows, PAIRS),
        [rows[group_of(r, SOURCES)[0][0]] for r in range(N)],
        exchanged(rows, last, 0, [[0, 1], [3, 2], [4, 5], [6, 7]]),
        strict=True,
    )
    for ours, theirs in zip(
        run_replicated(b.build(root), rows, num_replicas=N), expected, strict=True
    ):
        for one, other in zip(ours, theirs, strict=True):
            assert_same_bits(one, other)


def test_all_to_all_between_any_two_dimensions() -> None:
    rows = list(np.arange(N * 4 * 8 * 2 * 4, dtype=np.int32).reshape(N, 4, 8, 2, 4))
    pairs = [(s, c) for s in range(4) for c in range(4)]
    groups = [[0, 4], [1, 5], [7, 6], [2, 3]]
    b = xb.XlaBuilder("any")
    x = parameter_like(b, rows[0])
    root = xb.tuple(*(xb.all_to_all(x, s, c, 2, groups) for s, c in pairs))
    got = run_replicated(b.build(root), rows, num_replicas=N)
    for index, (split, concat) in enumerate(pairs):
        for one, other in zip(got, exchanged(rows, split, concat, groups), strict=True):
            assert_same_bits(one[index], other)


def test_scalars_and_singleton_groups() -> None:
    rows = [np.float32(n) for n in range(N)]
    alone = [[n] for n in range(N)]
    b = xb.XlaBuilder("scalars")
    x = b.parameter(xb.f32[()])
    root = xb.tuple(
        xb.all_reduce(x, xb.add),
        xb.all_reduce(x, xb.add, alone),
        xb.all_reduce(x, xb.sub, alone),
        xb.collective_permute(x, [(n, (n + 1) % N) for n in range(N)]),
        xb.collective_broadcast(x, [[7, *range(7)]]),
        xb.all_to_all_tuple([x], alone),
    )
    got = run_replicated(b.build(root), rows, num_replicas=N)
    for n, (total, own, same, before, last, (mine,)) in enumerate(got):
        assert [float(v) for v in (total, own, same)] == [28, n, n]
        assert [float(v) for v in (before, last, mine)] == [(n - 1) % N, 7, n]


def test_groups_of_several_sizes() -> None:
    rows = numbers(xb.s32, (5,))
    groups = [[0, 6, 3], [1], [2, 4, 5, 7]]
    b = xb.XlaBuilder("uneven")
    x = parameter_like(b, rows[0])
    root = xb.tuple(xb.all_reduce(x, xb.add, groups), xb.all_reduce(x, xb.min, groups))
    got = run_replicated(b.build(root), rows, num_replicas=N)
    for index, function in enumerate((np.add, np.minimum)):
        for one, other in zip(got, reduced(rows, function, groups), strict=True):
            assert_same_bits(one[index], other)


def test_tuples() -> None:
    rows, others = numbers(xb.f32, (4, 2)), numbers(xb.f32, (8,), seed=4)
    whole = numbers(xb.s16, (4,), seed=5)
    b = xb.XlaBuilder("tuples")
    x, y, z = (parameter_like(b, one[0]) for one in (rows, others, whole))
    root = xb.tuple(
        xb.all_reduce(xb.tuple(x, y), xb.add, GROUPS),
        xb.all_reduce_tuple([x, y], xb.sub, GROUPS),
        xb.all_gather_tuple([x, z], 0, 4, GROUPS),
        xb.reduce_scatter(xb.tuple(x, y), xb.max, 0, 4, GROUPS),
        xb.reduce_scatter([x], xb.sub, 0, 4, GROUPS),
        xb.multi_collective_permute([x, z], PAIRS),
    )
    expected: Any = zip(
        zip(reduced(rows, np.add, GROUPS), reduced(others, np.add, GROUPS), strict=True),
        zip(reduced(rows, np.subtract, GROUPS), reduced(others, np.subtract, GROUPS), strict=True),
        zip(gathered(rows, 0, GROUPS), gathered(whole, 0, GROUPS), strict=True),
        zip(
            scattered(rows, np.maximum, 0, GROUPS),
            scattered(others, np.maximum, 0, GROUPS),
            strict=True,
        ),
        ((one,) for one in scattered(rows, np.subtract, 0, GROUPS)),
        zip(permuted(rows, PAIRS), permuted(whole, PAIRS), strict=True),
        strict=True,
    )
    got = run_replicated(b.build(root), rows, others, whole, num_replicas=N)
    for ours, theirs in zip(got, expected, strict=True):
        for pair, other in zip(ours, theirs, strict=True):
            assert len(pair) == len(other)
            for one, expected_result in zip(pair, other, strict=True):
                assert_same_bits(one, expected_result)


def test_variadic_operands_without_elements() -> None:
    rows = numbers(xb.f32, (2, 2))
    b = xb.XlaBuilder("some")
    x = parameter_like(b, rows[0])
    empty = xb.slice_in_dim(x, 0, 0, 1, 0)
    pairs = [[0, 1], [2, 3], [4, 5], [6, 7]]
    root = xb.tuple(
        xb.all_gather([x, empty], 0, 2, pairs), xb.reduce_scatter([empty, x], xb.add, 0, 2, pairs)
    )
    got = run_replicated(b.build(root), rows, num_replicas=N)
    wholes, parts = gathered(rows, 0, pairs), scattered(rows, np.add, 0, pairs)
    for ((whole, none), (nothing, part)), theirs, other in zip(got, wholes, parts, strict=True):
        assert_same_bits(whole, theirs)
        assert_same_bits(part, other)
        assert none.shape == nothing.shape == (0, 2)


def test_all_to_all_tuple_sends_operand_i_to_replica_i() -> None:
    rows = [np.array([10 * n, 10 * n + 1, 10 * n + 2, 10 * n + 3], np.int64) for n in range(N)]
    b = xb.XlaBuilder("each")
    x = b.parameter(xb.s64[4])
    parts = [xb.slice_in_dim(x, n, n + 1, 1, 0) for n in range(4)]
    got = run_replicated(b.build(xb.all_to_all_tuple(parts, GROUPS)), rows, num_replicas=N)
    for replica, results in enumerate(got):
        group, place = group_of(replica, GROUPS)
        assert [r.tolist() for r in results] == [[10 * sender + place] for sender in group]


# Reducers that the CPU backend does not support


def test_reducers_are_applied_in_the_order_of_the_group() -> None:
    """XLA does not specify the order for general reducers; the test records the actual one."""
    rows = [np.array([n + 1.0, 10.0 * n], np.float64) for n in range(N)]

    def mixed(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a * 0.5 + b

    pairs = [[1, 0], [2, 3], [4, 5], [6, 7]]
    b = xb.XlaBuilder("ordered")
    x = b.parameter(xb.f64[2])
    root = xb.tuple(
        xb.all_reduce(x, mixed, GROUPS),
        xb.reduce_scatter(x, mixed, 0, 2, pairs),
    )
    got = run_replicated(b.build(root), rows, num_replicas=N)

    def function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a * 0.5 + b

    for index, expected in enumerate(
        (reduced(rows, function, GROUPS), scattered(rows, function, 0, pairs))
    ):
        for one, other in zip(got, expected, strict=True):
            assert_same_bits(one[index], other)


def test_reducers_with_swapped_or_unused_operands() -> None:
    rows = numbers(xb.s32, (3,))
    b = xb.XlaBuilder("round")
    x = parameter_like(b, rows[0])
    root = xb.tuple(
        xb.all_reduce(x, lambda a, b: b + a),
        xb.all_reduce(x, lambda a, b: b, GROUPS),
        xb.all_reduce(x, lambda a, b: a + a, GROUPS),
        xb.all_reduce(x, lambda a, b: xb.select(a >= b, a, b)),
    )
    for replica, (total, last, doubled, largest) in enumerate(
        run_replicated(b.build(root), rows, num_replicas=N)
    ):
        group, _ = group_of(replica, GROUPS)
        assert_same_bits(total, sum(rows))
        assert_same_bits(last, rows[group[-1]])
        assert_same_bits(doubled, rows[group[0]] * 8)
        assert_same_bits(largest, np.maximum.reduce(rows))


# Channels, partitions, devices


def test_modes_of_replicas_and_partitions() -> None:
    """The interpretation of group members for 2 replicas of 4 partitions."""
    rows = [np.array([2.0**n], np.float32) for n in range(N)]
    b = xb.XlaBuilder("modes")
    x = b.parameter(xb.f32[1])
    devices = [[0, 2, 5, 7], [1, 3, 4, 6]]
    root = xb.tuple(
        xb.all_reduce(x, xb.add, [[0, 1]]),
        xb.all_reduce(x, xb.add, [[1], [0]], channel_id=1),
        xb.all_reduce(x, xb.add, channel_id=2),
        xb.all_reduce(x, xb.add, devices, channel_id=3, use_global_device_ids=True),
        xb.all_reduce(x, xb.sub, devices, use_global_device_ids=True),
        xb.all_gather(x, 0, 4, devices, channel_id=4, use_global_device_ids=True),
        xb.all_gather(x, 0, 2, [[1, 0]]),
        xb.all_gather(x, 0, 8, [[0, 1]], channel_id=5),
        xb.collective_permute(x, [(0, 1), (1, 0)]),
        xb.collective_permute(x, [(0, 3), (3, 0)], channel_id=6),
        xb.collective_broadcast(x, [[2, 0, 1, 3]], channel_id=7),
        xb.collective_broadcast(x, [[1, 0]]),
        xb.all_reduce(x, xb.sub, [[0], [1]], channel_id=8),
    )
    got = run_replicated(b.build(root), rows, num_replicas=2, num_partitions=4)
    for n, results in enumerate(got):
        replica, partition = divmod(n, 4)
        group, _ = group_of(n, devices)
        values = [2.0**m for m in group]
        own = [2.0 ** (4 * replica + p) for p in range(4)]
        other = 2.0 ** ((n + 4) % N)
        expected: list[list[float]] = [
            [2.0**n + other],
            [sum(own)],
            [255.0],
            [sum(values)],
            [values[0] - sum(values[1:])],
            values,
            [2.0 ** (4 + partition), 2.0**partition],
            [2.0**m for m in range(N)],
            [other],
            [{0: own[3], 3: own[0]}.get(partition, 0.0)],
            [own[2]],
            [2.0 ** (4 + partition)],
            [own[0] - sum(own[1:])],
        ]
        assert [r.tolist() for r in results] == expected


def test_exchanges_between_partitions() -> None:
    rows = [np.arange(8, dtype=np.int32) + 10 * n for n in range(N)]
    b = xb.XlaBuilder("partitions")
    x = b.parameter(xb.s32[8])
    root = xb.tuple(
        xb.all_to_all(x, 0, 0, 8, channel_id=1),
        xb.all_to_all(x, 0, 0, 4, GROUPS, channel_id=2),
        xb.reduce_scatter(x, xb.add, 0, 4, GROUPS, channel_id=3, use_global_device_ids=True),
        xb.reduce_scatter(x, xb.sub, 0, 4, GROUPS, channel_id=4, use_global_device_ids=True),
        xb.reduce_scatter(x, xb.add, 0, 8, channel_id=5),
        xb.all_reduce([x, x + 1], xb.add, channel_id=6),
        xb.collective_broadcast(x, SOURCES, channel_id=7),
        xb.all_to_all_tuple([x, x + 1, x + 2, x + 3], GROUPS, channel_id=8),
    )
    got = run_replicated(b.build(root), rows, num_partitions=N)
    expected = zip(
        exchanged(rows, 0, 0, [list(range(N))]),
        exchanged(rows, 0, 0, GROUPS),
        scattered(rows, np.add, 0, GROUPS),
        scattered(rows, np.subtract, 0, GROUPS),
        scattered(rows, np.add, 0, [list(range(N))]),
        strict=True,
    )
    for n, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        for one, other in zip(ours, theirs, strict=False):
            assert_same_bits(one, other)
        assert_same_bits(ours[5][0], sum(rows))
        assert_same_bits(ours[5][1], sum(rows) + 8)
        assert_same_bits(ours[6], rows[group_of(n, SOURCES)[0][0]])
        group, place = group_of(n, GROUPS)
        for one, sender in zip(ours[7], group, strict=True):
            assert_same_bits(one, rows[sender] + place)


def test_global_ids_of_replicas() -> None:
    rows = numbers(xb.f32, (2,))
    b = xb.XlaBuilder("global")
    x = b.parameter(xb.f32[2])
    root = xb.tuple(
        xb.all_reduce(x, xb.add, GROUPS, use_global_device_ids=True),
        xb.all_reduce(x, xb.add, GROUPS, channel_id=4),
    )
    for (one, other), theirs in zip(
        run_replicated(b.build(root), rows, num_replicas=N),
        reduced(rows, np.add, GROUPS),
        strict=True,
    ):
        assert_same_bits(one, theirs)
        assert_same_bits(other, theirs)


def test_layouts() -> None:
    rows = list(np.arange(N * 6, dtype=np.float32).reshape(N, 2, 3))
    b = xb.XlaBuilder("layouts")
    x = b.parameter(xb.f32[2, 3])
    root = xb.tuple(
        xb.all_reduce(x, xb.add, GROUPS, shape_with_layout="f32[2,3]{0,1}") + 1.0,
        xb.all_gather(x, 0, 4, GROUPS, layout=[0, 1]) * 2.0,
        xb.all_to_all(x, 0, 0, 2, [[0, 1], [2, 3], [4, 5], [6, 7]], layout=[0, 1]) + 0.0,
    )
    expected = zip(
        [r + 1 for r in reduced(rows, np.add, GROUPS)],
        [2 * r for r in gathered(rows, 0, GROUPS)],
        exchanged(rows, 0, 0, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        strict=True,
    )
    got = run_replicated(b.build(root), rows, num_replicas=N)
    for ours, theirs in zip(got, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert_same_bits(one, other)


# Against jax


def test_against_jax() -> None:
    rng = np.random.default_rng(17)
    x = rng.normal(size=(N, 16, 4)).astype(np.float32)
    mesh = Mesh(np.array(jax.devices("cpu")[:N]), ("i",))

    def program(row: jax.Array) -> Any:
        v = row[0]
        results = (
            jax.lax.psum(v, "i"),
            jax.lax.pmax(v, "i"),
            jax.lax.all_gather(v, "i", axis=1, tiled=True),
            jax.lax.psum_scatter(v, "i", scatter_dimension=0, tiled=True),
            jax.lax.all_to_all(v, "i", 0, 1, tiled=True),
            jax.lax.ppermute(v, "i", [(n, (n + 3) % N) for n in range(N)]),
        )
        return jax.tree_util.tree_map(lambda a: a[None], results)

    spec = PartitionSpec("i")
    theirs = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    b = xb.XlaBuilder("jax")
    p = b.parameter(xb.f32[16, 4])
    root = xb.tuple(
        xb.all_reduce(p, xb.add),
        xb.all_reduce(p, xb.max),
        xb.all_gather(p, 1, N),
        xb.reduce_scatter(p, xb.add, 0, N),
        xb.all_to_all(p, 0, 1, N),
        xb.collective_permute(p, [(n, (n + 3) % N) for n in range(N)]),
    )
    got = run_replicated(b.build(root), x, num_replicas=N)
    for n, ours in enumerate(got):
        for one, other in zip(ours, theirs, strict=True):
            if one.shape in ((16, 4), (2, 4)):  # sums in another order
                np.testing.assert_allclose(one, np.asarray(other)[n], rtol=1e-6, atol=1e-6)
            else:
                assert_same_bits(one, np.asarray(other)[n])


# Participants


REFUSED: dict[str, tuple[Callable[[xb.XlaOp], xb.XlaOp], dict[str, int], str, str]] = {
    "groups on one device": (
        lambda x: xb.all_reduce(x, xb.add, [[0, 1]]),
        {},
        "all_reduce",
        (
            "requires 2 replicas in its groups, got num_replicas=1\n"
            "fix: call lowering.compile(computation, num_replicas=2)"
        ),
    ),
    "gathering on one device": (
        lambda x: xb.all_gather(x, 0, 8),
        {},
        "all_gather",
        (
            "requires 8 participants in each group, got "
            "num_replicas=1\nfix: call lowering.compile(computation, num_replicas=8)"
        ),
    ),
    "scattering on one device": (
        lambda x: xb.reduce_scatter(x, xb.add, 0, 4),
        {},
        "reduce_scatter",
        (
            "requires 4 participants in each group, got "
            "num_replicas=1\nfix: call lowering.compile(computation, num_replicas=4)"
        ),
    ),
    "too many replicas": (
        lambda x: xb.all_to_all(x, 0, 0, 2, [[0, 1]]),
        {"num_replicas": 8},
        "all_to_all",
        (
            "requires 2 replicas in its groups, got num_replicas=8\n"
            "fix: call lowering.compile(computation, num_replicas=2)"
        ),
    ),
    "a missing source": (
        lambda x: xb.collective_permute(x, [(0, 1), (5, 0)]),
        {"num_replicas": 4},
        "collective_permute",
        (
            "requires replicas numbered up to 5, got "
            "num_replicas=4\nfix: call lowering.compile(computation, num_replicas=6)"
        ),
    ),
    "partitions": (
        lambda x: xb.collective_permute(x, [(0, 1)], channel_id=1),
        {"num_replicas": 8},
        "collective_permute",
        (
            "requires partitions numbered up to 1, got num_replicas=8, num_partitions=1\n"
            "fix: call lowering.compile(computation, num_partitions=2)"
        ),
    ),
    "devices": (
        lambda x: xb.all_reduce(x, xb.add, [[0, 1, 2, 3]], use_global_device_ids=True),
        {"num_replicas": 2},
        "all_reduce",
        (
            "requires 4 devices in its groups, got num_replicas=2, "
            "num_partitions=1\nfix: call lowering.compile(computation, num_replicas=4), or compile "
            "for replicas and partitions on 4 devices"
        ),
    ),
    "replicas with partitions": (
        lambda x: xb.all_gather(x, 0, 4, [[0], [1]], channel_id=1),
        {"num_replicas": 2, "num_partitions": 2},
        "all_gather",
        (
            "requires 4 participants in each group, got num_replicas=2, num_partitions=2\n"
            "fix: call lowering.compile(computation, num_replicas=2)"
        ),
    ),
    "broadcast": (
        lambda x: xb.collective_broadcast(x, [[0, 1], [2, 3]]),
        {"num_replicas": 2},
        "collective_broadcast",
        (
            "requires 4 replicas in its groups, got num_replicas=2\n"
            "fix: call lowering.compile(computation, num_replicas=4)"
        ),
    ),
}


@each_row("name", REFUSED)
def test_missing_participants_are_refused(name: str) -> None:
    call, where, op, reason = REFUSED[name]
    b = xb.XlaBuilder("who")
    computation = b.build(call(b.parameter(xb.f32[8])))
    with pytest.raises(CompileError) as caught:
        lowering.compile(computation, "cpu", **where)
    text = str(caught.value)
    assert text.startswith(f"compile: who: {op}, recorded at {__file__}:")
    assert text.endswith(reason)
    assert caught.value.op == op


def test_uneven_groups_of_an_unsupported_reducer() -> None:
    b = xb.XlaBuilder("uneven")
    computation = b.build(xb.all_reduce(b.parameter(xb.f32[2]), xb.sub, [[0, 1], [2]]))
    with pytest.raises(CompileError, match="in groups of different sizes XLA reduces only"):
        lowering.compile(computation, "cpu", num_replicas=3)


def test_one_device() -> None:
    """Without groups, the single device is the only participant."""
    b = xb.XlaBuilder("alone")
    x = b.parameter(xb.f32[2])
    root = xb.tuple(
        xb.all_reduce(x, xb.add),
        xb.all_reduce(x, xb.sub),
        xb.all_gather(x, 0, 1),
        xb.reduce_scatter(x, xb.max, 0, 1, [[0]]),
        xb.all_to_all(x, 0, 0, 1),
        xb.collective_permute(x, [(0, 0)]),
        xb.collective_permute(x, []),
        xb.collective_broadcast(x, [[0]]),
        xb.convert(xb.broadcast(b.replica_id() + b.partition_id(), [2]), xb.f32),
    )
    row = np.array([1.5, -0.0], np.float32)
    *same, nothing, broadcast, ids = lowering.compile(b.build(root), "cpu")(row)
    for one in (*same, broadcast):
        assert_identical(np.asarray(one), row)
    assert np.asarray(nothing).tolist() == np.asarray(ids).tolist() == [0, 0]


def test_no_pairs_are_a_table_of_two_columns() -> None:
    b = xb.XlaBuilder("unsent")
    module = lowering.lower(b.build(xb.collective_permute(b.parameter(xb.f32[2]), [])))
    assert "source_target_pairs = dense<> : tensor<0x2xi64>" in module.text
    assert lowering.to_computation(module).root.attributes["source_target_pairs"] == ()
