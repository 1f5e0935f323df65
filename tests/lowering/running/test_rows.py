"""Arrays sharded into rows over several devices, as arguments and as results."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from support import assert_identical

import builder as xb
import lowering
from lowering import ArgumentError, CompileError, ExecutionError

ROWS = np.array([[0, 1], [2, 3], [4, 5], [6, 7]], np.float64)


def devices(count: int = 4) -> tuple[jax.Device, ...]:
    return lowering.devices("cpu")[:count]


def doubling(b: xb.XlaBuilder) -> xb.XlaComputation:
    x = b.parameter(xb.f64[2], "x")
    return b.build(xb.tuple(x + x, b.replica_id(), xb.all_reduce(x, xb.add)))


@pytest.fixture(scope="module")
def sharded() -> lowering.ReplicatedExecutable:
    """Return x + x, the replica id and the sum of all x, on 4 replicas."""
    computation = doubling(xb.XlaBuilder("sharded"))
    result = lowering.compile(computation, "cpu", num_replicas=4, results="sharded")
    assert isinstance(result, lowering.ReplicatedExecutable)
    return result


@pytest.fixture(scope="module")
def increment() -> lowering.ReplicatedExecutable:
    """Return x + 1, aliased to x."""
    b = xb.XlaBuilder("increment")
    x = b.parameter(xb.f64[2], "x")
    y = b.parameter(xb.f64[2], "y")
    b.setup_alias([], 0, [])
    result = lowering.compile(b.build(x + y), "cpu", num_replicas=4, results="sharded")
    assert isinstance(result, lowering.ReplicatedExecutable)
    return result


def pointers(array: jax.Array) -> list[int]:
    return [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]


def spread(array: np.ndarray, sharding: Any) -> jax.Array:
    with jax.enable_x64(True):
        return jax.device_put(array, sharding)


def over(mesh: Any, *spec: Any) -> NamedSharding:
    names = "abc"[: np.ndim(mesh)]
    return NamedSharding(Mesh(np.array(mesh), tuple(names)), PartitionSpec(*spec))


def check(results: Any) -> None:
    twice, numbers, total = results
    assert_identical(np.asarray(twice), ROWS + ROWS)
    assert np.asarray(numbers).tolist() == [0, 1, 2, 3]
    assert_identical(np.asarray(total), np.broadcast_to(ROWS.sum(axis=0), (4, 2)))


# Results


def test_results_are_arrays_of_rows(sharded: Any) -> None:
    results = sharded(ROWS)
    check(results)
    for one in results:
        assert one.sharding == sharded.sharding
        assert [s.device for s in one.addressable_shards] == list(sharded.devices)
        assert {s.data.shape for s in one.addressable_shards} == {(1, *one.shape[1:])}
    assert sharded.local_devices == sharded.devices == devices()
    assert results[0].dtype == np.float64
    # The sharding as jax describes it.
    with jax.enable_x64(True):
        assert_identical(np.asarray(jax.jit(lambda a: a[::-1] * 3)(results[0])), ROWS[::-1] * 6)
        assert_identical(np.asarray(results[0][2]), ROWS[2] * 2)
        moved = jax.device_put(results[0], devices()[1])
    assert_identical(np.asarray(moved), ROWS * 2)


def test_any_arguments(sharded: Any) -> None:
    there = [lowering.device_put(r, d) for r, d in zip(ROWS, devices(), strict=True)]
    for given in (list(ROWS), there, lowering.device_put(ROWS, "cpu:5"), [*there[:3], ROWS[3]]):
        check(sharded(given))


def test_results_are_arguments_without_a_copy(increment: Any) -> None:
    x = increment(ROWS, np.array([1.0, 2.0]))
    expected = ROWS + np.array([1.0, 2.0])
    y = spread(np.ones((4, 2)), increment.sharding)
    for _ in range(3):
        before, given = pointers(x), x
        x = increment(x, y)
        expected = expected + 1.0
        # The program donates its argument, which was not copied.
        assert given.is_deleted()
        assert pointers(x) == before
    assert_identical(np.asarray(x), expected)
    assert not y.is_deleted()


def test_trees_scalars_tokens_and_empty_arrays() -> None:
    b = xb.XlaBuilder("tree")
    p = b.parameter("(s32[], (f32[0,3], c64[2]))", "p")
    t = b.parameter(xb.TOKEN_SHAPE, "t")
    root = xb.tuple(xb.tuple(p[0] + 1, t), p[1], b.empty_tuple())
    run = lowering.compile(b.build(root), "cpu", num_replicas=2, results="sharded")
    z = np.array([[1 + 2j, 3], [4, 5j]], np.complex64)
    empty = np.zeros((2, 0, 3), np.float32)
    (numbers, token), (nothing, again), last = run((np.array([4, 7], np.int32), (empty, z)), None)
    assert (token, last) == (None, ())
    assert np.asarray(numbers).tolist() == [5, 8]
    assert nothing.shape == (2, 0, 3)
    assert_identical(np.asarray(again), z)
    (numbers, _), (_, again), _ = run((numbers, (nothing, again)), None)
    assert np.asarray(numbers).tolist() == [6, 9]
    assert_identical(np.asarray(again), z)


def test_partitions_have_rows_too() -> None:
    b = xb.XlaBuilder("parts")
    x = b.parameter(xb.s32[()], "x")
    root = xb.tuple(x * 10 + xb.convert(b.partition_id(), xb.s32), b.replica_id())
    run = lowering.compile(
        b.build(root), "cpu", num_replicas=2, num_partitions=2, results="sharded"
    )
    values, replicas = run(np.arange(4, dtype=np.int32))
    assert np.asarray(values).tolist() == [0, 11, 20, 31]
    assert np.asarray(replicas).tolist() == [0, 0, 1, 1]


def test_one_device_and_a_function_that_fails() -> None:
    b = xb.XlaBuilder("single")
    x = b.parameter(xb.f32[2], "x")
    run = lowering.compile(b.build(x + 1.0), "cpu:3", results="sharded")
    assert isinstance(run, lowering.ReplicatedExecutable)
    result = run(np.array([[1, 2]], np.float32))
    assert result.devices() == {lowering.device("cpu:3")}
    assert np.asarray(run(result)).tolist() == [[3.0, 4.0]]

    def fails(_: Any) -> Any:
        raise KeyError("no such row")

    b = xb.XlaBuilder("failing")
    x = b.parameter(xb.f32[2], "x")
    run = lowering.compile(b.build(xb.python_call(fails, x, xb.f32[2])), "cpu", results="sharded")
    with pytest.raises(ExecutionError, match="no such row"):
        run(np.zeros(2, np.float32))


# Arguments


def test_rows_on_their_devices_with_any_mesh(increment: Any) -> None:
    """They are passed without a copy: the result has their memory."""
    square = np.reshape(devices(), (2, 2))
    for sharding in (over(devices(), "a"), over(square, ("a", "b"))):
        with jax.enable_x64(True):
            # device_put may share the memory of a NumPy array, which must not be donated.
            given = jax.jit(lambda a: a + 0, out_shardings=sharding)(ROWS)
        before = pointers(given)
        result = increment(given, np.zeros(2))
        assert_identical(np.asarray(result), ROWS)
        assert given.is_deleted()
        assert pointers(result) == before


def test_arrays_in_other_placements(sharded: Any) -> None:
    square = np.reshape(devices(), (2, 2))
    for sharding in (
        over(devices()[::-1], "a"),
        over(square, ("b", "a")),
        # Each row is on its device, in a mesh of another order.
        over(square.T, ("b", "a")),
        over(square, "a"),
        over(square, None, "b"),
        over(devices()),
        over(lowering.devices("cpu")[4:8], "a"),
    ):
        check(sharded(spread(ROWS, sharding)))
    same = np.array([0.1, 0.2])
    for sharding in (over(devices()), over(devices(2), "a"), over(devices()[::-1])):
        twice, _, total = sharded(spread(same, sharding))
        assert_identical(np.asarray(twice), np.broadcast_to(same * 2, (4, 2)))
        np.testing.assert_allclose(np.asarray(total)[0], same * 4)


def test_a_list_of_results_of_rows() -> None:
    """Programs whose results are lists accept rows too, also in a layout."""
    b = xb.XlaBuilder("layout")
    x = b.parameter("f32[2,3]{0,1}", "x")
    y = b.parameter(xb.s4[3], "y")
    run = lowering.compile(b.build(xb.tuple(x + 1.0, y)), "cpu", num_replicas=2)
    rows = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    small = np.array([[1, -2, 3], [-4, 5, -6]], xb.s4.dtype)
    sharding = over(devices(2), "a")
    got = run(jax.device_put(rows, sharding), jax.device_put(small, sharding))
    for number, (one, other) in enumerate(got):
        assert_identical(np.asarray(one), rows[number] + 1)
        assert_identical(np.asarray(other), small[number])


# Refused arguments


NO_ROWS = (
    "argument 0 (x) must be f64[2] for all 4 devices, f64[4,2] with a row for each, or a list of 4"
)


def test_refused_rows(sharded: Any) -> None:
    wide = over(lowering.devices("cpu")[:8], "a")
    for given, message in (
        (
            spread(np.zeros((8, 2)), wide),
            f"{NO_ROWS}, got f64[8,2]",
        ),
        (
            spread(np.zeros((4, 3)), sharded.sharding),
            f"{NO_ROWS}, got f64[4,3]",
        ),
        (
            spread(ROWS.astype(np.float32), sharded.sharding),
            (
                "argument 0 (x) for replica 0 must be f64[2], got f32[2]\n"
                "fix: convert it: array.astype(numpy.float64)"
            ),
        ),
        (
            # The same bytes in each row.
            spread(np.zeros((4, 4), np.int32), sharded.sharding),
            f"{NO_ROWS}, got s32[4,4]",
        ),
        (
            [spread(ROWS, sharded.sharding)] * 4,
            "argument 0 (x) for replica 0 must be f64[2], got f64[4,2]",
        ),
    ):
        with pytest.raises(ArgumentError) as caught:
            sharded(given)
        assert str(caught.value).startswith(f"sharded: {message}")


def test_deleted_arrays(increment: Any) -> None:
    x = spread(ROWS, increment.sharding)
    with pytest.raises(
        ArgumentError, match=r"argument 1 \(y\) for replica 0 must be .* takes over"
    ):
        increment(x, x)
    increment(x, np.zeros(2))
    for arguments in ((x, np.zeros(2)), (np.zeros(2), x)):
        with pytest.raises(ArgumentError, match=r"got a jax\.Array that has been deleted"):
            increment(*arguments)


def test_arrays_that_share_memory(increment: Any) -> None:
    """jax creates arrays that share memory; jaxlib 0.10 would crash on them."""
    x = spread(ROWS, increment.sharding)
    same = spread(x, over(np.array(devices()), "a"))
    assert same is not x
    assert pointers(same) == pointers(x)
    each = list(np.zeros((4, 2)))
    there = list(map(lowering.device_put, each, increment.devices))
    whole = jax.make_array_from_single_device_arrays((2,), over(np.array(devices())), there)
    for pair in ((x, same), (same, x), (there, whole), (there, [*there[:3], there[3]])):
        with pytest.raises(
            ArgumentError, match=r"argument 1 \(y\) for replica 0 .* 0 \(x\), whose"
        ):
            increment(*pair)
    # On one device of four.
    other = list(map(lowering.device_put, each, increment.devices))
    with pytest.raises(ArgumentError, match=r"argument 1 \(y\) for replica 3 .* 0 \(x\), whose"):
        increment(there, [*other[:3], there[3]])
    # No array was donated.
    np.testing.assert_array_equal(increment(x, other), ROWS)
    assert x.is_deleted()
    assert same.is_deleted()


def test_programs_that_have_no_rows() -> None:
    b = xb.XlaBuilder("laid_out")
    x = b.parameter(xb.f32[2, 3], "x")
    computation = b.build(x + 1.0, result="f32[2,3]{0,1}")
    with pytest.raises(CompileError) as caught:
        lowering.compile(computation, "cpu", num_replicas=2, results="sharded")
    assert str(caught.value) == (
        'compile: laid_out: results="sharded" requires results in their default layout, got a '
        "result with the layout {0,1}\n"
        'fix: remove the layout of the result, or omit results="sharded"'
    )
    b = xb.XlaBuilder("bounded")
    computation = b.build(b.parameter("f32[<=3]", "x") + 1.0)
    with pytest.raises(CompileError, match="must have fixed sizes on several devices"):
        lowering.compile(computation, "cpu", results="sharded")
    wrong: Any
    for wrong in ("rows", None, ["list"], np.ones(2)):
        with pytest.raises(xb.OperandError, match="results must be 'list' or 'sharded', got"):
            lowering.compile(computation, "cpu", results=wrong)
