"""Infeed and outfeed on CPU: transfers from Python, order, loops, threads and failures."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from support import assert_identical, stablehlo_of_text, trusted_module
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL
from lowering.host import callbacks as host_calls

f32, s32 = xb.f32[()], xb.s32[()]


@pytest.fixture(autouse=True)
def check_queues_are_empty() -> Iterator[None]:
    """Each test reads all values that it sends; programs wait only briefly."""
    yield
    for device in lowering.devices("cpu"):
        assert lowering.clear_transfers(device) == (0, 0)


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering.host.infeed, "timeout", 0.02)


def every_form(computation: xb.XlaComputation) -> list[lowering.StablehloModule]:
    """Return the lowered module, the module loaded from its text, and that of the HLO text."""
    module = lowering.lower(computation)
    hlo = trusted_module(stablehlo_of_text(computation))
    return [module, lowering.load_bytes(module.artifact()), hlo]


def fed(computation: xb.XlaComputation, *values: Any, arguments: Any = ()) -> Any:
    """Assert that a program reads these values, in each form of the module."""
    results = []
    for module in every_form(computation):
        for value in values:
            lowering.transfer_to_infeed(value)
        result = lowering.compile(module)(*arguments)
        results.append([np.asarray(r) for r in jax.tree_util.tree_leaves(result)])
        assert lowering.clear_transfers() == (0, 0)
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            assert_identical(mine, theirs)
    return results[0]


def some(t: xb.PrimitiveType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 2, shape)
    return np.exp2(values).astype(t.dtype) if t is xb.f8e8m0fnu else values.astype(t.dtype)


# Values


def test_every_type_and_size_in_and_out() -> None:
    b = xb.XlaBuilder("types")
    values = []
    for t in ALL:
        for shape in ((), (0, 3), (2, 3)):
            values.append(some(t, shape, len(values)))
            xb.outfeed(b.infeed(xb.array_shape(t, shape)))
    program = lowering.compile(b.build())
    for value in values:
        lowering.transfer_to_infeed(value)
    assert program() is None
    for value in values:
        shape = xb.array_shape(value.dtype, value.shape)
        assert_identical(lowering.transfer_from_outfeed(shape), value)


def test_a_large_value() -> None:
    value = np.random.default_rng(5).normal(size=(1000, 500))
    b = xb.XlaBuilder("large")
    (got,) = fed(b.build(xb.transpose(b.infeed(xb.f64[1000, 500]), [1, 0])), value)
    assert_identical(got, value.T.copy())


def test_nested_tuples() -> None:
    b = xb.XlaBuilder("nested")
    flat, token = xb.infeed_with_token(b.create_token(), "(s32[], f32[2])")
    nested, token = xb.infeed_with_token(token, "((s32[2], (f32[])), (), s8[])")
    token = xb.outfeed_with_token(xb.tuple(nested, flat[1]), token)
    program = b.build(xb.tuple(flat, nested, token))
    two, three = np.array([2, 3], np.int32), np.array([0.5, 1], np.float32)
    for module in every_form(program):
        lowering.transfer_to_infeed((np.int32(1), three))
        lowering.transfer_to_infeed(((two, (np.float32(4),)), (), np.int8(5)))
        leaves = jax.tree_util.tree_leaves(lowering.compile(module)())
        for got, expected in zip(leaves, [1, three, two, 4, 5], strict=False):
            assert np.array_equal(got, expected)
        shape = "(((s32[2], (f32[])), (), s8[]), f32[2])"
        ((pair, (number,)), nothing, small), last = lowering.transfer_from_outfeed(shape)
        assert_identical(pair, two)
        assert_identical(last, three)
        assert (number.item(), nothing, small.item()) == (4.0, (), 5)


def test_an_empty_tuple_is_not_read() -> None:
    b = xb.XlaBuilder("empty")
    nothing = b.infeed("()")
    token = xb.outfeed(nothing)
    program = b.build(xb.tuple(nothing, token))
    lowering.transfer_to_infeed(())
    for module in every_form(program):
        lowering.compile(module)()
    assert lowering.transfer_from_outfeed("()") == ()
    assert lowering.transfer_from_outfeed("((), ())") == ((), ())


def test_tokens_among_the_data() -> None:
    b = xb.XlaBuilder("tokens")
    (value, token), after = xb.infeed_with_token(b.create_token(), "(s32[2], token[])")
    last = xb.outfeed_with_token(xb.tuple(token, value), after)
    program = lowering.compile(b.build(last))
    lowering.transfer_to_infeed(np.array([3, 4], np.int32))
    program()
    assert lowering.transfer_from_outfeed("(s32[2])")[0].tolist() == [3, 4]


def test_sent_values_are_copies() -> None:
    value = np.array([1, 2], np.int32)
    lowering.transfer_to_infeed(value)
    value[:] = 9
    b = xb.XlaBuilder("copy")
    assert np.asarray(lowering.compile(b.build(b.infeed(xb.s32[2])))()).tolist() == [1, 2]


def test_kinds_of_values() -> None:
    class Exporter:
        """An object with dlpack."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array
            self.__dlpack_device__ = array.__dlpack_device__

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

    given = np.arange(6, dtype=np.int32).reshape(2, 3)
    values = [given, given.T.copy().T, jax.device_put(given), Exporter(given)]
    b = xb.XlaBuilder("given")
    program = lowering.compile(b.build(b.infeed(xb.s32[2, 3])))
    for value in values:
        lowering.transfer_to_infeed(value)
        assert_identical(np.asarray(program()), given)


# Order


def test_first_in_first_out() -> None:
    b = xb.XlaBuilder("order")
    root = xb.tuple(*(b.infeed(s32) for _ in range(20)))
    assert [int(v) for v in fed(b.build(root), *np.arange(20, dtype=np.int32))] == [*range(20)]


def test_tokens_order_independent_ops() -> None:
    """The tokens reverse the recorded order."""
    b = xb.XlaBuilder("tokens")
    token, results = b.create_token(), []
    for _ in range(50):
        value, token = xb.infeed_with_token(token, f32)
        token = xb.outfeed_with_token(value * 2.0, xb.after_all(token, token))
        results.append(value)
    program = lowering.compile(b.build(xb.tuple(*reversed(results))))
    for number in range(50):
        lowering.transfer_to_infeed(np.float32(number))
    assert [float(v) for v in program()] == [*range(49, -1, -1)]
    assert [float(lowering.transfer_from_outfeed(f32)) for _ in range(50)] == [*range(0, 100, 2)]


def test_a_loop_of_1000_iterations() -> None:
    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, ...]:
        i, total, token = state
        value, token = xb.infeed_with_token(token, s32)
        return i + 1, total * 3 + value, xb.outfeed_with_token(total, token)

    b = xb.XlaBuilder("loop")
    init = xb.tuple(b.constant(0, xb.s32), b.constant(0, xb.s32), b.create_token())
    root = xb.while_(lambda state: state[0] < 1000, body, init)
    values = np.random.default_rng(2).integers(-9, 9, 1000).astype(np.int32)
    totals = [0]
    for value in values.tolist():
        totals.append((totals[-1] * 3 + value + 2**31) % 2**32 - 2**31)
    computation = b.build(root)
    for module in every_form(computation):
        for value in values:
            lowering.transfer_to_infeed(value)
        result = lowering.compile(module)()
        assert int(jax.tree_util.tree_leaves(result)[1]) == totals[-1]
        assert [int(lowering.transfer_from_outfeed(s32)) for _ in values] == totals[:-1]


def test_documented_infeed() -> None:
    """Two loops read values; the second starts with the result of the first."""

    def body(state: xb.XlaOp) -> xb.XlaOp:
        return state * 10 + state.builder.infeed(s32)

    b = xb.XlaBuilder("example")
    result1 = xb.while_(lambda state: state < 100, body, b.constant(1, xb.s32))
    result2 = xb.while_(lambda state: state < 100000, body, result1)
    values = np.array([2, 3, 4, 5, 6], np.int32)
    assert int(fed(b.build(result2), *values)[0]) == 123456


def test_the_outer_builder_in_a_loop() -> None:
    b = xb.XlaBuilder("outer")
    start = b.infeed(s32)
    looped = xb.while_(lambda s: s < 100, lambda s: s * 10 + b.infeed(s32), start)
    assert int(fed(b.build(looped), *np.array([1, 2, 3], np.int32))[0]) == 123


def test_the_trip_count_comes_from_the_infeed() -> None:
    b = xb.XlaBuilder("until")
    init = xb.tuple(b.constant(1, xb.s32), b.create_token(), b.constant(0, xb.s32))

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, ...]:
        value, token = xb.infeed_with_token(state[1], s32)
        return value, token, state[2] + 1

    program = b.build(xb.while_(lambda s: s[0] > 0, body, init)[2])
    assert int(fed(program, *np.array([5, 4, 3, 0], np.int32))[0]) == 4


def test_tokens_through_tuples_calls_branches_and_parameters() -> None:
    def read(token: xb.XlaOp) -> xb.XlaOp:
        return xb.infeed_with_token(token, s32)

    def read_twice(token: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        first, token = xb.infeed_with_token(token, s32)
        second, token = xb.infeed_with_token(token, s32)
        return first * 10 + second, token

    b = xb.XlaBuilder("through")
    choice, start = b.parameter(xb.pred[()], "choice"), b.parameter("(token[])", "start")
    called = xb.call(read, start[0])
    packed = xb.optimization_barrier(xb.tuple(called, called[0]))[0]
    chosen = xb.conditional(choice, packed[1], read, packed[1], read_twice)
    after = xb.infeed_with_token(chosen[1], s32)
    root = xb.tuple(called[0], chosen[0], after[0], xb.tuple(after[1]))
    program = lowering.compile(b.build(root))
    for picked, expected in ((True, (1, 2, 3)), (False, (1, 23, 4))):
        for value in range(1, 4 + (not picked)):
            lowering.transfer_to_infeed(np.int32(value))
        *values, last = program(picked, (None,))
        assert tuple(int(v) for v in values) == expected
        assert last == (None,)


# Missing order


def unordered(kind: str) -> xb.XlaComputation:
    b = xb.XlaBuilder(kind)
    token = b.create_token()
    if kind == "one token":
        xb.infeed_with_token(token, s32)
        xb.infeed_with_token(token, s32)
    elif kind == "two beginnings":
        b.infeed(s32)
        xb.infeed_with_token(token, s32)
    elif kind == "a loop":
        b.infeed(s32)
        xb.while_(lambda s: s < 9, lambda s: s + b.infeed(s32), b.constant(0, xb.s32))
    elif kind == "after a loop":
        x = b.infeed(s32)
        xb.while_(lambda s: s < 9, lambda s: s + b.infeed(s32), x)
        b.infeed(s32)
    elif kind == "a call":
        first = xb.infeed_with_token(token, s32)
        xb.call(lambda t: xb.infeed_with_token(t, s32), token)
        xb.infeed_with_token(first[1], s32)
    elif kind == "in a body":

        def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
            x, _ = xb.infeed_with_token(state[1], s32)
            y, token = xb.infeed_with_token(state[1], s32)
            return x + y, token

        xb.while_(lambda s: s[0] < 9, body, xb.tuple(b.constant(0, xb.s32), token))
    elif kind == "outfeeds":
        x = b.parameter(s32)
        xb.outfeed_with_token(x, token)
        xb.outfeed(x)
    return b.build()


@each_row(
    "kind, later, before",
    [
        ("one token", "infeed", "infeed"),
        ("two beginnings", "infeed", "infeed"),
        ("a loop", "while", "infeed"),
        ("after a loop", "infeed", "while"),
        ("a call", "call", "infeed"),
        ("in a body", "infeed", "infeed"),
        ("outfeeds", "outfeed", "outfeed"),
    ],
)
def test_unordered_ops_are_refused(kind: str, later: str, before: str) -> None:
    stream = "outfeed" if kind == "outfeeds" else "infeed"
    with pytest.raises(lowering.LoweringError) as caught:
        lowering.lower(unordered(kind))
    message = str(caught.value)
    assert f"{stream}s must be totally ordered, got {later} at {__file__}:" in message
    assert f" that does not depend on {before} at {__file__}:" in message
    assert f"fix: pass the token of each {stream} to the next: xb.{stream}_with_token" in message
    assert caught.value.op == stream


def test_an_infeed_and_an_outfeed_can_be_unordered() -> None:
    b = xb.XlaBuilder("apart")
    xb.outfeed(b.parameter(s32))
    program = lowering.compile(b.build(b.infeed(s32)))
    lowering.transfer_to_infeed(np.int32(1))
    assert int(program(2)) == 1
    assert int(lowering.transfer_from_outfeed(s32)) == 2


# Threads, devices


def in_threads(*functions: Callable[[], None]) -> None:
    """Call each function in a thread, and raise the exception of any of them."""
    failures: list[BaseException] = []

    def call(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def echo(count: int) -> xb.XlaComputation:
    """Read numbers, and write each number plus 1."""

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        value, token = xb.infeed_with_token(state[1], s32)
        return state[0] + 1, xb.outfeed_with_token(value + 1, token)

    b = xb.XlaBuilder("echo")
    init = xb.tuple(b.constant(0, xb.s32), b.create_token())
    return b.build(xb.while_(lambda s: s[0] < count, body, init)[0])


def test_fed_by_another_thread_while_it_runs() -> None:
    """Each number is sent after the previous one was received."""
    program = lowering.compile(echo(100))
    number = [0]

    def send_and_receive() -> None:
        for _ in range(100):
            lowering.transfer_to_infeed(np.int32(number[0] * 2 % 1001))
            number[0] = int(lowering.transfer_from_outfeed(s32))

    expected = 0
    for _ in range(100):
        expected = expected * 2 % 1001 + 1
    in_threads(send_and_receive, lambda: np.asarray(program()))
    assert number == [expected]


def test_several_programs_wait_at_once() -> None:
    """More threads than cores, as other tests run at the same time."""
    program = lowering.compile(echo(1))
    threads = [lambda: np.asarray(program()) for _ in range(8)]

    def feed() -> None:
        b = xb.XlaBuilder("beside")
        x = b.parameter(s32)
        assert int(lowering.compile(b.build(x + x))(4)) == 8
        for value in range(8):
            lowering.transfer_to_infeed(np.int32(value))
        actual = sorted(int(lowering.transfer_from_outfeed(s32)) for _ in range(8))
        assert actual == [*range(1, 9)]

    in_threads(feed, *threads)


def test_each_device_has_separate_queues() -> None:
    first, second = lowering.devices("cpu")[:2]
    programs = [lowering.compile(echo(1), device) for device in (first, second)]
    lowering.transfer_to_infeed(np.int32(10), first)
    lowering.transfer_to_infeed(np.int32(20), "cpu:1")
    for program in reversed(programs):
        program()
    assert int(lowering.transfer_from_outfeed(s32, second)) == 21
    assert int(lowering.transfer_from_outfeed(s32, "cpu:0")) == 11


def test_replicas_read_and_write_on_their_own_devices() -> None:
    devices = lowering.devices("cpu")[:4]
    b = xb.XlaBuilder("replicas")
    value, token = xb.infeed_with_token(b.create_token(), s32)
    xb.outfeed_with_token(value * 2, token)
    program = lowering.compile(b.build(xb.all_reduce(value, xb.add)), "cpu", num_replicas=4)
    for number, device in enumerate(devices):
        lowering.transfer_to_infeed(np.int32(10**number), device)
    assert [int(r) for r in program()] == [1111] * 4
    got = [int(lowering.transfer_from_outfeed(s32, device)) for device in devices]
    assert got == [2, 20, 200, 2000]


def test_partitions_are_refused() -> None:
    with pytest.raises(lowering.CompileError, match="can't run on several partitions"):
        lowering.compile(echo(1), "cpu", num_partitions=2)


# Failures


def reads(shape: Any) -> lowering.Executable:
    b = xb.XlaBuilder("reads")
    return lowering.compile(b.build(b.infeed(shape)))


def test_an_infeed_without_a_value(short_timeout: None) -> None:
    with pytest.raises(lowering.ExecutionError) as caught:
        reads("(s32[2,3], f32[])")()
    message = str(caught.value)
    assert message.startswith(f"reads: infeed, recorded at {__file__}:")
    assert "of (s32[2,3], f32[]) waited on " in message
    assert message.endswith(
        " for 0.02 seconds, and nothing was sent\n"
        "fix: call lowering.transfer_to_infeed(value, device) before the program is called, or in "
        "another thread; to wait longer, set lowering.infeed.timeout"
    )
    assert caught.value.op == "infeed"


def test_a_replica_without_a_value(short_timeout: None) -> None:
    program = lowering.compile(echo(1), "cpu", num_replicas=2)
    lowering.transfer_to_infeed(np.int32(1), "cpu:0")
    with pytest.raises(lowering.ExecutionError, match="nothing was sent"):
        program()
    lowering.clear_transfers("cpu:0")


def test_collectives_do_not_wait_for_a_replica_without_a_value(short_timeout: None) -> None:
    """XLA aborts a process whose devices wait for each other too long."""
    b = xb.XlaBuilder("together")
    total = xb.all_reduce(b.infeed(s32), xb.add)
    program = lowering.compile(b.build(total), "cpu", num_replicas=2)
    lowering.transfer_to_infeed(np.int32(1), "cpu:0")
    with pytest.raises(lowering.ExecutionError, match=r"waited on cpu:1 for 0\.02 seconds"):
        program()
    for number, device in enumerate(lowering.devices("cpu")[:2]):
        lowering.transfer_to_infeed(np.int32(number + 1), device)
    assert [int(r) for r in program()] == [3, 3]


def test_a_program_on_several_devices_waits_for_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wait_for(_self: threading.Condition, _predicate: Any, timeout: float) -> bool:
        assert timeout >= 30
        return False

    monkeypatch.setattr(threading.Condition, "wait_for", wait_for)
    shapes = [s32]
    device = lowering.devices("cpu")[0]
    for most, text in (
        (math.inf, "for 60 seconds, and nothing was sent\n"),
        (
            30.0,
            (
                "for 30 seconds, the limit while other devices may be waiting for this device, "
                "and nothing was sent"
            ),
        ),
    ):
        with pytest.raises(lowering.ExecutionError, match=text) as caught:
            lowering.host.infeed._read(device, shapes, "program", "", most=most)
        assert ("to wait longer, set" in str(caught.value)) == (most == math.inf)


def test_waiting_times_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting times of a device are added up while other devices may wait for it."""
    now = 0.0
    monkeypatch.setattr(host_calls, "time", SimpleNamespace(monotonic=lambda: now))
    waits, devices = host_calls.WaitTimes(), "abc"
    assert waits.left("a") == 30
    now = 28.0
    waits.add("a", 28.0, devices)
    assert waits.left("a") == 2
    assert waits.left("b") == 30
    # The other devices continued, so none has waited for long.
    waits.add("b", 0.0, devices)
    assert waits.left("a") == 2
    waits.add("c", 0.0, devices)
    assert waits.left("a") == 30
    # Only the time since the last call of the other devices counts.
    now = 38.0
    waits.add("b", 10.0, devices)
    now = 48.0
    waits.add("a", 20.0, devices)
    assert waits.left("a") == 10
    waits.add("c", 20.0, devices)
    assert waits.left("a") == 20
    waits.clear()
    assert waits.left("a") == 30


def test_a_device_waits_no_longer_than_others_may_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_calls, "_MAX_WAIT", 0.03125)
    b = xb.XlaBuilder("together")
    total = xb.all_reduce(b.infeed(s32) + b.infeed(s32), xb.add)
    program = lowering.compile(b.build(total), "cpu", num_replicas=2)
    for device in ("cpu:0", "cpu:0", "cpu:1"):
        lowering.transfer_to_infeed(np.int32(1), device)
    with pytest.raises(lowering.ExecutionError, match=r"waited on cpu:1 for 0\.03"):
        program()
    for device in ("cpu:0", "cpu:0", "cpu:1", "cpu:1"):
        lowering.transfer_to_infeed(np.int32(1), device)
    assert [int(r) for r in program()] == [4, 4]


def test_the_default_timeout_is_60_seconds() -> None:
    assert lowering.infeed.timeout == 60


@each_row("seconds", [None, "1", float("nan"), -1, float("inf"), True, 10**30])
def test_invalid_timeouts(seconds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering.host.infeed, "timeout", seconds)
    with pytest.raises(lowering.ArgumentError, match="timeout must be a number of seconds"):
        lowering.transfer_from_outfeed(s32)
    with pytest.raises(lowering.ArgumentError, match="infeed: timeout must be a number of seconds"):
        reads(s32)()


@each_row(
    "value, shape, given",
    [
        (np.int32(1), xb.s32[1], "s32[]"),
        (np.float32(1), s32, "f32[]"),
        (np.zeros((2, 3), np.int32), xb.s32[3, 2], "s32[2,3]"),
        ((np.int32(1),) * 3, "(s32[], s32[])", "(s32[], s32[], s32[])"),
        ((np.int32(1), np.int64(1)), "(s32[], s32[])", "(s32[], s64[])"),
        (np.int32(1), "(s32[], s32[])", "s32[]"),
    ],
)
def test_a_sent_value_of_another_shape(value: Any, shape: Any, given: str) -> None:
    program = reads(shape)
    lowering.transfer_to_infeed(value)
    with pytest.raises(lowering.ExecutionError) as caught:
        program()
    expected = shape if isinstance(shape, str) else str(shape)
    assert f"must read {expected}, got a value of {given} on " in str(caught.value)
    assert "fix: send values of the shapes, and in the order" in str(caught.value)
    # The value is discarded, and the program can be called again.
    ones = [np.ones(s.dimensions, s.element_type.dtype) for s in leaves_of(shape)]
    lowering.transfer_to_infeed(ones)
    program()


def leaves_of(shape: Any) -> list[Any]:
    parsed = xb.parse_shape(shape) if isinstance(shape, str) else shape
    return list(parsed.elements) if isinstance(parsed, xb.TupleShape) else [parsed]


def endless() -> list[Any]:
    whole: list[Any] = []
    whole.append(whole)
    return whole


@each_row(
    "value, message",
    [
        (
            1.5,
            "no element type, got 1.5\nfix: pass numpy.asarray(value, dtype), or the",
        ),
        ((np.int32(1), "x"), "expected an array, got a str\nfix: pass numpy.asarray"),
        (None, "expected an array, got None"),
        (np.array(["a"]), "dtype"),
        (np.ma.masked_array([1], [True]), "expected an array, got a masked array"),
        (endless(), "value is nested too deep, or contains itself"),
    ],
)
def test_refused_values(value: Any, message: str) -> None:
    with pytest.raises(lowering.ArgumentError) as caught:
        lowering.transfer_to_infeed(value)
    assert str(caught.value).startswith("transfer_to_infeed: ")
    assert message in str(caught.value)
    assert lowering.clear_transfers() == (0, 0)


def test_a_tracer_is_not_sent() -> None:
    with pytest.raises(lowering.ArgumentError, match="expected an array, got a tracer"):
        jax.jit(lambda x: lowering.transfer_to_infeed(x) or x)(np.ones(2, np.float32))


def test_an_outfeed_without_a_value(short_timeout: None) -> None:
    for seconds in (None, 0, 0.01):
        with pytest.raises(lowering.ExecutionError) as caught:
            lowering.transfer_from_outfeed("(s32[2], f32[])", timeout=seconds)
        message = str(caught.value)
        assert message.startswith("transfer_from_outfeed: waited for (s32[2], f32[]) on ")
        assert f"for {0.02 if seconds is None else seconds:g} seconds, and no program" in message
        assert "fix: call the program first, or in another thread" in message


def test_a_received_value_of_another_shape() -> None:
    b = xb.XlaBuilder("writes")
    xb.outfeed(b.parameter(xb.s32[2]))
    lowering.compile(b.build())(np.array([1, 2], np.int32))
    for shape in (s32, xb.f32[2], "(s32[2], s32[2])"):
        with pytest.raises(
            lowering.ExecutionError, match=r"is of shape s32\[2\], not .*\nfix: receive"
        ):
            lowering.transfer_from_outfeed(shape)
    assert lowering.transfer_from_outfeed(xb.s32[2]).tolist() == [1, 2]


@each_row(
    "shape, error, message",
    [
        ("token[]", lowering.ArgumentError, "must consist of arrays of static sizes, got token"),
        ("(s32[<=2])", lowering.ArgumentError, "must consist of arrays of static sizes, got"),
        ("s32[?]", lowering.ArgumentError, "must consist of arrays of static sizes, got"),
        ("s32[", xb.ShapeTextError, "shape text"),
        (3, xb.OperandError, "transfer_from_outfeed: shape: expected a shape"),
    ],
)
def test_refused_shapes(shape: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lowering.transfer_from_outfeed(shape)


def test_unknown_devices() -> None:
    for call in (
        lambda: lowering.transfer_to_infeed(np.int32(1), "cpu:99"),
        lambda: lowering.transfer_from_outfeed(s32, "cpu:99"),
        lambda: lowering.clear_transfers("abacus"),
    ):
        with pytest.raises(lowering.DeviceError):
            call()


def test_remaining_values_can_be_cleared() -> None:
    b = xb.XlaBuilder("left")
    xb.outfeed(b.parameter(s32))
    lowering.compile(b.build())(1)
    for value in range(3):
        lowering.transfer_to_infeed(np.int32(value))
    assert lowering.clear_transfers() == (3, 1)


def test_dynamic_sizes_are_refused() -> None:
    b = xb.XlaBuilder("bounded")
    message = r"feed, recorded at .* must have static sizes in StableHLO, got s32\[<=4\]\n"
    with pytest.raises(lowering.LoweringError, match=f"in{message}"):
        lowering.lower(b.build(b.infeed("s32[<=4]")))
    b = xb.XlaBuilder("bounded")
    with pytest.raises(lowering.LoweringError, match=f"out{message}"):
        lowering.lower(b.build(xb.outfeed(b.parameter("s32[<=4]"))))


def test_an_infeed_in_a_reducer_is_refused() -> None:
    b = xb.XlaBuilder("reducer")
    total = xb.reduce(b.parameter(xb.s32[3]), 0, lambda p, q: p + q + q.builder.infeed(s32), [0])
    with pytest.raises(
        lowering.CompileError, match="the computation of reduce can't contain infeed"
    ):
        lowering.compile(b.build(total))


# Files


def test_modules_contain_infeed_and_outfeed(tmp_path: Path) -> None:
    b = xb.XlaBuilder("feeds")
    x = b.infeed("f32[2,3]{0,1}", "source")
    xb.outfeed(x, "f32[2,3]{0,1}", "sink")
    computation = b.build(x)
    module = lowering.lower(computation)
    lines = [line.strip() for line in module.text.splitlines()]
    assert '%1:2 = "stablehlo.infeed"(%0) <{infeed_config = "source", layout = [[0, 1]]}>' in (
        line.partition(" :")[0] for line in lines
    )
    assert any(
        '"stablehlo.outfeed"(%1#0, %2) <{outfeed_config = "sink"}>' in line for line in lines
    )
    module.save(tmp_path / "feeds.stablehlo", version="minimum")
    loaded = lowering.load(tmp_path / "feeds.stablehlo")
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    lowering.transfer_to_infeed(value)
    assert_identical(np.asarray(lowering.compile(loaded)()), value)
    assert_identical(lowering.transfer_from_outfeed(xb.f32[2, 3]), value)
    assert loaded.text == module.text
