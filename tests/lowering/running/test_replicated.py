"""Programs on several CPU devices: arguments, results, devices, and programs that would hang."""

from __future__ import annotations

import threading
from typing import Any

import jax
import numpy as np
import pytest
from processes import run_python
from support import assert_identical, run_replicated
from tables import each_row

import builder as xb
import lowering
from lowering import ArgumentError, CompileError, DeviceError, ExecutionError

N = 8


def devices() -> tuple[jax.Device, ...]:
    return lowering.devices("cpu")


@pytest.fixture(scope="module")
def doubled() -> lowering.ReplicatedExecutable:
    """Return x + x and the replica id, on 4 replicas."""
    b = xb.XlaBuilder("doubled")
    x = b.parameter(xb.f64[2], "x")
    result = lowering.compile(b.build(xb.tuple(x + x, b.replica_id())), "cpu", num_replicas=4)
    assert isinstance(result, lowering.ReplicatedExecutable)
    return result


def as_lists(results: list[Any]) -> list[Any]:
    return jax.tree_util.tree_map(lambda a: np.asarray(a).tolist(), results)


ROWS = np.array([[0, 1], [2, 3], [4, 5], [6, 7]], np.float64)
DOUBLED = [([0.0, 2.0], 0), ([4.0, 6.0], 1), ([8.0, 10.0], 2), ([12.0, 14.0], 3)]


def test_attributes_of_the_executable(doubled: Any) -> None:
    assert doubled.name == "doubled"
    assert str(doubled.program_shape) == "(x: f64[2]) -> (f64[2], u32[])"
    assert doubled.devices == devices()[:4]
    assert (doubled.num_replicas, doubled.num_partitions) == (4, 1)
    assert "replica-id" in doubled.hlo_text()
    assert repr(doubled) == (
        "<ReplicatedExecutable 'doubled' (x: f64[2]) -> (f64[2], u32[]) on 4 devices: "
        "4 replicas of 1 partitions>"
    )


def test_arguments_for_each_device(doubled: Any) -> None:
    there = [
        lowering.device_put(row, device) for row, device in zip(ROWS, devices()[:4], strict=True)
    ]
    for given in (
        ROWS,
        list(ROWS),
        tuple(ROWS),
        there,
        [there[0], ROWS[1], there[2], np.asfortranarray(ROWS[3])],
        lowering.device_put(ROWS, "cpu:5"),
        ROWS[::-1][::-1],
        ROWS.astype(">f8"),
    ):
        results = doubled(given)
        assert as_lists(results) == DOUBLED
        assert as_lists(doubled(x=given)) == DOUBLED
        for (one, number), device in zip(results, devices(), strict=False):
            assert one.devices() == number.devices() == {device}
            assert (one.dtype, number.dtype) == (np.float64, np.uint32)


def test_one_argument_for_all(doubled: Any) -> None:
    row = np.array([0.5, 2.0**60 + 2.0**8])
    for given in (row, lowering.device_put(row, "cpu:6"), [row] * 4):
        for one, _ in doubled(given):
            assert_identical(np.asarray(one), row + row)


def test_results_can_be_arguments_again(doubled: Any) -> None:
    first = doubled(ROWS)
    again = doubled([one for one, _ in first])
    assert as_lists(again) == [([4 * a for a in row], n) for n, row in enumerate(ROWS.tolist())]


def test_64_bit_types_with_and_without_jax_enable_x64() -> None:
    b = xb.XlaBuilder("exact")
    x, n, z = b.parameter(xb.f64[1]), b.parameter(xb.s64[()]), b.parameter(xb.c128[()])
    run = lowering.compile(b.build(xb.tuple(x, n + 1, z)), "cpu", num_replicas=2)
    for flag in (False, True):
        with jax.enable_x64(flag):
            for x_there, n_there, z_there in run(np.array([0.1]), 2**62, 0.1 + 0.3j):
                assert np.asarray(x_there).tolist() == [0.1]
                assert int(n_there) == 2**62 + 1
                assert n_there.dtype == np.int64
                assert complex(z_there) == 0.1 + 0.3j


def test_scalars() -> None:
    b = xb.XlaBuilder("scalars")
    x = b.parameter(xb.s32[()])
    run = lowering.compile(b.build(x * 2), "cpu", num_replicas=3)
    for given, expected in (
        (5, [10, 10, 10]),
        ([1, 2, 3], [2, 4, 6]),
        (np.array([1, 2, 3], np.int32), [2, 4, 6]),
        (np.int32(7), [14, 14, 14]),
        ([np.int32(1), 2, lowering.device_put(np.int32(3), "cpu:2")], [2, 4, 6]),
    ):
        assert as_lists(run(given)) == expected


def test_an_array_of_the_parameter_shape_is_replicated() -> None:
    """Even if its rows could be distributed too, as the sizes are equal."""
    b = xb.XlaBuilder("own")
    run = lowering.compile(b.build(b.parameter(xb.s32[2, 2]) + 0), "cpu", num_replicas=2)
    both = np.arange(4, dtype=np.int32).reshape(2, 2)
    assert as_lists(run(both)) == [both.tolist()] * 2
    rows = np.arange(8, dtype=np.int32).reshape(2, 2, 2)
    assert as_lists(run(rows)) == rows.tolist()


def test_tuples_nested() -> None:
    b = xb.XlaBuilder("nested")
    p = b.parameter("(f32[2], (s32[], f32[1]))", "p")
    q = b.parameter(xb.s32[()], "q")
    root = xb.tuple(p[1], xb.tuple(p[0], xb.tuple(q + p[1][0])))
    run = lowering.compile(b.build(root), "cpu", num_replicas=2)
    x = np.array([[1, 2], [3, 4]], np.float32)
    y = np.array([[5], [6]], np.float32)
    expected = [
        ((10, [5.0]), ([1.0, 2.0], (10,))),
        ((20, [6.0]), ([3.0, 4.0], (21,))),
    ]
    each = [(x[0], (10, y[0])), (x[1], (20, y[1]))]
    assert as_lists(run(each, [0, 1])) == expected
    assert as_lists(run((x, ([10, 20], y)), [0, 1])) == expected
    assert as_lists(run((list(x), (np.array([10, 20], np.int32), list(y))), [0, 1])) == expected
    same = run((x[0], (10, y[0])), 0)
    assert as_lists(same) == [expected[0]] * 2


def test_no_parameters_and_no_results() -> None:
    b = xb.XlaBuilder("nothing")
    b.constant(1, xb.s32)
    run = lowering.compile(b.build(b.empty_tuple()), "cpu", num_replicas=4)
    assert run() == [()] * 4


def test_a_token() -> None:
    b = xb.XlaBuilder("token")
    t, x = b.parameter(xb.TOKEN_SHAPE), b.parameter(xb.f32[1])
    run = lowering.compile(b.build(xb.tuple(t, x)), "cpu", num_replicas=2)
    got = run(None, np.array([[1], [2]], np.float32))
    assert [(r[0], np.asarray(r[1]).tolist()) for r in got] == [(None, [1.0]), (None, [2.0])]


def test_empty_and_large_arrays() -> None:
    rng = np.random.default_rng(0)
    for shape in ((0,), (3, 0, 2), (1024, 513)):
        b = xb.XlaBuilder("sizes")
        x = b.parameter(xb.array_shape(xb.f32, shape))
        rows = rng.normal(size=(N, *shape)).astype(np.float32)
        got = lowering.compile(b.build(xb.neg(x)), "cpu", num_replicas=N)(rows)
        for one, row in zip(got, rows, strict=True):
            assert_identical(np.asarray(one), -row)


def test_a_parameter_with_a_layout() -> None:
    b = xb.XlaBuilder("layout")
    x = b.parameter("f32[2,3]{0,1}")
    run = lowering.compile(b.build(x + 1.0), "cpu", num_replicas=2)
    rows = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    assert as_lists(run(rows)) == (rows + 1).tolist()
    assert as_lists(run(list(rows))) == (rows + 1).tolist()


# Refused arguments. jaxlib would crash on most of them.


REFUSED: dict[str, tuple[Any, str]] = {
    "none": ((), "takes 1 argument (x f64[2]), got 0\nfix: pass x f64[2]"),
    "too many": (
        (ROWS, ROWS),
        "takes 1 argument (x f64[2]), got 2\nfix: pass only the first argument",
    ),
    "too few values": (
        (list(ROWS[:3]),),
        (
            "argument 0 (x) must be a list with a value for each of 4 devices, got a list of 3\n"
            "fix: pass 4 values, or one array for all devices"
        ),
    ),
    "too few rows": (
        (ROWS[:3],),
        (
            "argument 0 (x) must be f64[2] for all 4 devices, f64[4,2] with a row for each, or "
            "a list of 4, got f64[3,2]"
        ),
    ),
    "another shape of one": (
        ([ROWS[0], ROWS[1], ROWS[2], ROWS],),
        "argument 0 (x) for replica 3 must be f64[2], got f64[4,2]",
    ),
    "another type of one": (
        ([ROWS[0], ROWS[1].astype(np.float32), ROWS[2], ROWS[3]],),
        (
            "argument 0 (x) for replica 1 must be f64[2], got f32[2]\n"
            "fix: convert it: array.astype(numpy.float64)"
        ),
    ),
    "another type": (
        (ROWS.astype(np.float32),),
        (
            "argument 0 (x) for replica 0 must be f64[2], got f32[2]\n"
            "fix: convert it: array.astype(numpy.float64)"
        ),
    ),
    "numbers": (
        ([1, 2, 3, 4],),
        "argument 0 (x) for replica 0 must be f64[2], got the Python number 1\nfix: pass a NumPy",
    ),
    "None": ((None,), "argument 0 (x) for replica 0 must be f64[2], got None\nfix: pass a NumPy"),
    "text": (("abcd",), "argument 0 (x) for replica 0 must be f64[2], got a str\n"),
    "masked": (
        (np.ma.masked_array(ROWS),),
        "argument 0 (x) for replica 0 must be f64[2], got a masked array\n",
    ),
    "a key": (
        (jax.random.key(0),),
        "argument 0 (x) for replica 0 must be f64[2], got a PRNGKeyArray of key",
    ),
}


@each_row("name", REFUSED)
def test_refused_arguments(doubled: Any, name: str) -> None:
    arguments, message = REFUSED[name]
    with pytest.raises(ArgumentError) as caught:
        doubled(*arguments)
    assert str(caught.value).startswith(f"doubled: {message}")
    assert caught.value.computation == "doubled"


def test_an_array_on_another_device(doubled: Any) -> None:
    wrong = [lowering.device_put(row, "cpu:0") for row in ROWS]
    with pytest.raises(ArgumentError) as caught:
        doubled(wrong)
    text = str(caught.value)
    first, second, *_ = devices()
    assert text.startswith(
        f"doubled: argument 0 (x) for replica 1 must be on {second}, got an array on {first}"
    )


def test_a_sharded_array_is_read_by_rows(doubled: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(devices()[:4]), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    with jax.enable_x64(True):
        spread = jax.device_put(ROWS, jax.sharding.NamedSharding(mesh, spec))
    assert as_lists(doubled(spread)) == DOUBLED
    with pytest.raises(ArgumentError, match=r"for replica 0 must be f64\[2\], got f64\[4,2\]"):
        doubled([spread] * 4)


def test_deleted_arrays(doubled: Any) -> None:
    there = [
        lowering.device_put(row, device) for row, device in zip(ROWS, devices()[:4], strict=True)
    ]
    there[2].delete()
    with pytest.raises(ArgumentError, match=r"for replica 2 must be .* that has been deleted"):
        doubled(there)
    whole = lowering.device_put(ROWS)
    whole.delete()
    with pytest.raises(ArgumentError, match=r"got a jax\.Array that has been deleted"):
        doubled(whole)


def test_a_tracer(doubled: Any) -> None:
    with pytest.raises(ArgumentError, match="got a tracer of jax"):
        jax.jit(lambda x: doubled(x)[0][0])(ROWS)


def test_names(doubled: Any) -> None:
    with pytest.raises(ArgumentError, match="there is no parameter 'y'"):
        doubled(y=ROWS)
    with pytest.raises(ArgumentError, match="parameter 'x' is passed by position"):
        doubled(ROWS, x=ROWS)


def test_refused_tuples() -> None:
    b = xb.XlaBuilder("pair")
    p = b.parameter("(f32[2], f32[2])", "p")
    run = lowering.compile(b.build(p), "cpu", num_replicas=2)
    x = np.zeros(2, np.float32)
    for given, message in (
        ([(x, x)], "argument 0 (p) must be a list with a value for each of 2 devices, got a list"),
        ([(x, x), (x,)], "argument 0 (p) for replica 1 must be a tuple (f32[2], f32[2]), got a"),
        # A tuple for each device, or a tuple of values for each device? Lists are the former.
        (((x, x), (x, x)), "argument 0 (p)[0] must be f32[2], got a tuple\nfix: pass"),
        (x, "argument 0 (p) must be a tuple (f32[2], f32[2]), got f32[2]"),
        ((x, [x]), "argument 0 (p)[1] must be a list with a value for each of 2 devices"),
    ):
        with pytest.raises(ArgumentError) as caught:
            run(given)
        assert str(caught.value).startswith(f"pair: {message}")


# Devices


def identity() -> xb.XlaComputation:
    b = xb.XlaBuilder("identity")
    return b.build(b.parameter(xb.f32[1]) + b.constant(0.0, xb.f32))


def test_the_following_devices() -> None:
    run = lowering.compile(identity(), "cpu:3", num_replicas=2, num_partitions=2)
    assert run.devices == devices()[3:7]
    assert [r.devices() for r in run(np.float32([1]))] == [{d} for d in devices()[3:7]]


def test_devices_in_another_order() -> None:
    chosen = [devices()[5], "cpu:1", devices()[7], "cpu:0"]
    b = xb.XlaBuilder("order")
    x = b.parameter(xb.s32[1])
    root = xb.tuple(x, b.replica_id(), xb.all_gather(x, 0, 4))
    run = lowering.compile(b.build(root), devices=chosen, num_replicas=4)
    rows = np.arange(4, dtype=np.int32)[:, None]
    got = run(rows)
    assert as_lists(got) == [([n], n, [0, 1, 2, 3]) for n in range(4)]
    order = [devices()[n] for n in (5, 1, 7, 0)]
    assert [r[0].devices() for r in got] == [{d} for d in order]
    there = [lowering.device_put(row, device) for row, device in zip(rows, order, strict=True)]
    assert as_lists(run(there)) == as_lists(got)


def test_one_device_in_the_list() -> None:
    run = lowering.compile(identity(), devices=["cpu:2"])
    assert isinstance(run, lowering.Executable)
    assert run.device == devices()[2]


@each_row(
    "arguments, error, message",
    [
        (
            {"num_replicas": 9},
            DeviceError,
            (
                "compile: num_replicas=9 and num_partitions=1 need 9 devices, cpu has 8\n"
                "fix: split the host into 9 devices before jax is first used: set "
                "XLA_FLAGS=--xla_force_host_platform_device_count=9 in the environment, or "
                'call jax.config.update("jax_num_cpu_devices", 9)'
            ),
        ),
        (
            {"device": "cpu:6", "num_replicas": 3},
            DeviceError,
            "need 3 devices, cpu has 2 from cpu:6 on\nfix: ",
        ),
        (
            {"num_replicas": 2**70},
            DeviceError,
            f"num_replicas={2**70} and num_partitions=1 need {2**70} devices, cpu has 8",
        ),
        (
            {"num_replicas": 2, "devices": ["cpu:0"]},
            DeviceError,
            "num_partitions=1 need 2 devices, got 1 in devices\nfix: list 2 devices",
        ),
        (
            {"devices": ["cpu:0", "cpu:1"]},
            DeviceError,
            "need 1 device, got 2 in devices\nfix: pass num_replicas=2 or num_partitions=2",
        ),
        (
            {"device": ["cpu:0", "cpu:1"]},
            DeviceError,
            "device must be one device, got ['cpu:0', 'cpu:1']\nfix: pass devices=[...], and num_",
        ),
        (
            {"num_replicas": 2, "devices": ["cpu:0", "cpu:0"]},
            DeviceError,
            "devices must be unique, got cpu:0 twice",
        ),
        ({"devices": ["cpu:0"], "device": "cpu"}, DeviceError, "device and devices must not both"),
        (
            {"devices": "cpu", "num_replicas": 4},
            DeviceError,
            "got 'cpu'\nfix: pass a list, such as devices=lowering.devices()[:4]",
        ),
        ({"devices": ["cpu:99"]}, DeviceError, "there is no device 'cpu:99'"),
        ({"num_replicas": 0}, xb.OperandError, "num_replicas must be an integer, 1 or more"),
        ({"num_partitions": 1.5}, xb.OperandError, "num_partitions must be an integer"),
        ({"num_partitions": True}, xb.OperandError, "num_partitions must be an integer"),
        ({"num_replicas": None}, xb.OperandError, "num_replicas must be an integer"),
    ],
)
def test_refused_devices(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        lowering.compile(identity(), **arguments)
    assert message in str(caught.value)


def test_dynamic_entry_sizes_are_refused() -> None:
    b = xb.XlaBuilder("bounded")
    computation = b.build(xb.neg(b.parameter("f32[<=4]", "x")))
    with pytest.raises(CompileError, match="must have fixed sizes on several devices, got f32"):
        lowering.compile(computation, "cpu", num_replicas=2)


# Partitions: every op in a program is annotated as belonging to one partition


def test_ops_of_all_kinds_in_partitions() -> None:
    b = xb.XlaBuilder("kinds")
    x = b.parameter(xb.f32[6], "x")
    number = b.partition_id()
    i = b.iota(xb.s32[6])

    @xb.computation(xb.f32[6], xb.u32[()])
    def called(v, n):
        return xb.tuple(v * 2.0, xb.convert(n, xb.f32))

    def argmax(best, best_at, value, at):
        better = value > best
        return xb.select(better, value, best), xb.select(better, at, best_at)

    called_parts = xb.call(called, x, number)
    looped = xb.while_(
        lambda s: s[0] < 3,
        lambda s: (s[0] + 1, s[1] + xb.all_reduce(s[1], xb.add, channel_id=1)),
        [b.constant(0, xb.s32), x],
    )
    chosen = xb.conditional(
        xb.eq(number, b.constant(1, xb.u32)), x, lambda v: (v, v + 1.0), x, lambda v: (-v, v)
    )
    root = xb.tuple(
        xb.reduce([x, i], [float("-inf"), -1], argmax, [0]),
        called_parts,
        looped,
        chosen,
        xb.optimization_barrier(xb.tuple(x, number)),
        xb.map([x, x], lambda a, c: a * c, [0]),
        xb.dot(x, x),
        xb.concatenate([x, x], 0),
        xb.sort([x, i], lambda a, c, m, n: a < c, 0),
    )
    rows = np.array([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]], np.float32)
    got = run_replicated(b.build(root), rows, num_partitions=2)
    total = rows.astype(np.float64)
    for _ in range(3):
        total = total + total.sum(0)
    for n, row in enumerate(rows):
        (
            most,
            (twice, own),
            (count, added),
            (left, right),
            (same, ident),
            squares,
            dot,
            both,
            pair,
        ) = got[n]
        assert float(most[0]) == row.max()
        assert row[int(most[1])] == row.max()
        assert twice.tolist() == (row * 2).tolist()
        assert (float(own), int(ident), int(count)) == (n, n, 3)
        assert added.tolist() == total[n].tolist()
        assert left.tolist() == (row if n == 1 else -row).tolist()
        assert right.tolist() == (row + 1 if n == 1 else row).tolist()
        assert same.tolist() == row.tolist()
        assert squares.tolist() == (row * row).tolist()
        assert float(dot) == float((row * row).sum())
        assert both.tolist() == [*row.tolist(), *row.tolist()]
        assert pair[0].tolist() == sorted(row.tolist())
        assert row[pair[1]].tolist() == sorted(row.tolist())


def test_messages_name_the_partition() -> None:
    b = xb.XlaBuilder("parts")
    computation = b.build(b.parameter(xb.f32[2], "x") + 1.0)
    x = np.zeros(2, np.float32)
    both = lowering.compile(computation, "cpu", num_replicas=2, num_partitions=2)
    with pytest.raises(ArgumentError, match=r"\(x\) for replica 1, partition 0 must be f32\[2\]"):
        both([x, x, x[:1], x])
    parts = lowering.compile(computation, "cpu", num_partitions=2)
    with pytest.raises(ArgumentError, match=r"\(x\) for partition 1 must be f32\[2\]"):
        parts([x, x[:1]])


def test_a_sharding_of_an_op_partitions_the_program() -> None:
    """XLA partitions the program then: see test_partitioned."""
    b = xb.XlaBuilder("cut")
    x = b.parameter(xb.f32[4], "x")
    with b.sharding("{devices=[2]<=[2]}"):
        y = x + x
    # The results are arrays over all devices in both cases.
    run = lowering.compile(b.build(y), "cpu", num_partitions=2, results="sharded")
    assert isinstance(run, lowering.PartitionedExecutable)
    assert np.asarray(run(np.arange(4, dtype=np.float32))).tolist() == [0.0, 2.0, 4.0, 6.0]


# Branches and loops that contain collectives


def branch(x: xb.XlaOp, condition: xb.XlaOp) -> xb.XlaOp:
    return xb.conditional(condition, x, lambda v: xb.all_reduce(v, xb.add), x, lambda v: v)


@pytest.mark.parametrize("partitions", [False, True])
def test_a_branch_taken_by_all_devices(partitions: bool) -> None:
    where = {"num_partitions" if partitions else "num_replicas": 4}
    channel = 1 if partitions else None
    b = xb.XlaBuilder("branch")
    x, p = b.parameter(xb.f32[1], "x"), b.parameter(xb.pred[()], "p")
    root = xb.conditional(
        p, x, lambda v: xb.all_reduce(v, xb.add, channel_id=channel), x, lambda v: v
    )
    run = lowering.compile(b.build(root), "cpu", **where)
    rows = np.array([[1], [2], [4], [8]], np.float32)
    for _ in range(2):
        assert as_lists(run(rows, True)) == [[15.0]] * 4
        assert as_lists(run(rows, False)) == rows.tolist()
        with pytest.raises(ExecutionError) as caught:
            run(rows, [True, True, False, True])
        text = str(caught.value)
        assert text.startswith(f"branch: if, recorded at {__file__}:")
        assert (
            "must have the same condition on all devices, because it contains all_reduce, which "
            "waits for all devices; got different conditions\n"
            "fix: compute the condition from values that are equal on all devices"
        ) in text
        assert caught.value.op == "if"


def test_a_choice_of_several() -> None:
    b = xb.XlaBuilder("choice")
    x, n = b.parameter(xb.s32[2], "x"), b.parameter(xb.s32[()], "n")
    root = xb.conditional(
        n, [lambda v: v, lambda v: xb.collective_permute(v, [(0, 1), (1, 0)]), xb.neg], [x, x, x]
    )
    run = lowering.compile(b.build(root), "cpu", num_replicas=2)
    rows = np.array([[1, 2], [3, 4]], np.int32)
    assert as_lists(run(rows, 0)) == rows.tolist()
    assert as_lists(run(rows, 1)) == rows[::-1].tolist()
    # An index out of range selects the last branch, on both.
    assert as_lists(run(rows, [2, -7])) == (-rows).tolist()
    with pytest.raises(ExecutionError, match=r"choice: case.* it contains collective_permute"):
        run(rows, [0, 1])


def test_a_loop_with_an_iteration_count_argument() -> None:
    b = xb.XlaBuilder("loop")
    x, limit = b.parameter(xb.s64[1], "x"), b.parameter(xb.s32[()], "limit")
    _, result = xb.while_(
        lambda s: s[0] < limit,
        lambda s: (s[0] + 1, xb.all_reduce(s[1], xb.add)),
        [b.constant(0, xb.s32), x],
    )
    run = lowering.compile(b.build(result), "cpu", num_replicas=2)
    assert as_lists(run(np.array([[1], [2]]), 5)) == [[48], [48]]
    assert as_lists(run(np.array([[1], [2]]), 0)) == [[1], [2]]
    with pytest.raises(ExecutionError, match=r"loop: while.* it contains all_reduce"):
        run(np.array([[1], [2]]), [3, 5])
    assert as_lists(run(np.array([[1], [2]]), 1)) == [[3], [3]]


def test_a_call_inside_of_a_branch() -> None:
    @xb.computation(xb.f32[1])
    def summed(v):
        return xb.cross_replica_sum(v)

    @xb.computation(xb.f32[1])
    def around(v):
        return xb.call(summed, v) * 2.0

    b = xb.XlaBuilder("calls")
    x = b.parameter(xb.f32[1])
    few = xb.lt(b.replica_id(), b.constant(1, xb.u32))
    root = xb.conditional(few, x, lambda v: xb.call(around, v), x, lambda v: v)
    run = lowering.compile(b.build(root), "cpu", num_replicas=2)
    with pytest.raises(ExecutionError, match=r"calls: if.* it contains all_reduce"):
        run(np.zeros((2, 1), np.float32))


def test_nested_branches() -> None:
    b = xb.XlaBuilder("inner")
    x = b.parameter(xb.f32[1])
    p, q = b.parameter(xb.pred[()]), b.parameter(xb.pred[()])
    root = xb.conditional(p, x, lambda v: branch(v, q), x, lambda v: v)
    run = lowering.compile(b.build(root), "cpu", num_replicas=2)
    rows = np.array([[1], [2]], np.float32)
    assert as_lists(run(rows, True, True)) == [[3.0], [3.0]]
    assert as_lists(run(rows, False, [True, False])) == [[1.0], [2.0]]
    for p_given, q_given in ((True, [True, False]), ([False, True], True)):
        with pytest.raises(ExecutionError, match="must have the same condition on all devices"):
            run(rows, p_given, q_given)


def test_loops_with_constant_conditions_are_not_checked() -> None:
    """All devices execute the same number of iterations."""

    def program(steps: Any) -> str:
        b = xb.XlaBuilder("counts")
        x = b.parameter(xb.f32[1])
        _, _, result = xb.while_(
            lambda s: s[0] + s[1] < 12,
            lambda s: (s[0] + s[1], xb.max(s[1], steps(s)), xb.all_reduce(s[2], xb.max)),
            [b.constant(0, xb.s32), b.constant(2, xb.s32), x],
        )
        return lowering.compile(b.build(result), "cpu", num_replicas=2).hlo_text()

    assert "xla_ffi_python_cpu_callback" not in program(lambda s: s[0])
    varying = program(lambda s: xb.convert(s[0].builder.replica_id(), xb.s32))
    assert "xla_ffi_python_cpu_callback" in varying


HANGING = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import numpy as np
import builder as xb, lowering

b = xb.XlaBuilder("hang")
x, p = b.parameter(xb.f32[1]), b.parameter(xb.pred[()])
root = xb.conditional(p, x, lambda v: xb.all_reduce(v, xb.add), x, lambda v: v)
run = lowering.compile(b.build(root), "cpu", num_replicas=2)
for _ in range(3):
    try:
        run(np.zeros((2, 1), np.float32), [True, False])
    except lowering.ExecutionError as error:
        print(error.op)
print(np.asarray(run(np.ones((2, 1), np.float32), True)[1]))
"""


def test_a_process_ends_after_a_disagreement() -> None:
    """No waiting thread is left."""
    done = run_python("-c", HANGING, timeout=50)
    assert done.stdout.split() == ["if", "if", "if", "[2.]"]


FEW = """
import numpy as np
import builder as xb, lowering

b = xb.XlaBuilder("few")
computation = b.build(xb.all_reduce(b.parameter(xb.f32[1]), xb.add))
try:
    lowering.compile(computation, "cpu", num_replicas=2)
except lowering.DeviceError as error:
    print(error)
print(lowering.compile(computation, "cpu")(np.ones(1, np.float32)))
"""


def test_a_process_with_one_device() -> None:
    done = run_python("-c", FEW, env={"XLA_FLAGS": None})
    first, *_, last = done.stdout.splitlines()
    assert first == ("compile: num_replicas=2 and num_partitions=1 need 2 devices, cpu has 1")
    assert last == "[1.]"


def test_many_threads() -> None:
    """Programs that wait for other devices, launched by several threads at once."""
    b = xb.XlaBuilder("threads")
    x = b.parameter(xb.f32[1])
    run = lowering.compile(b.build(xb.all_reduce(x, xb.add)), "cpu", num_replicas=4)
    wrong: list[Any] = []

    def work(value: float) -> None:
        for _ in range(20):
            got = as_lists(run(np.full((4, 1), value, np.float32)))
            if got != [[4 * value]] * 4:
                wrong.append(got)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
