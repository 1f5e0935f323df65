"""Costs, compared with XLA's HloCostAnalysis; trip counts; printing."""

from __future__ import annotations

import json
from collections.abc import Callable

import jax
import numpy as np
import pytest
from cost_cases import CASES, OTHERWISE, all_opcodes, opcodes
from jax._src.lib import xla_client
from jaxlib import _jax
from tables import each_row

import builder as xb
from builder.inspection.rendering import bytes_text, flops_text
from builder.inspection.trip_count import trip_count

Costs = tuple[float, float, float]


def costs_of_text(text: str) -> Costs:
    """Return FLOPs, transcendentals and bytes of a module from XLA's HloCostAnalysis."""
    module = xla_client.hlo.hlo_module_from_text(text)
    costs = _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)
    flops, transcendentals = costs.get("flops", 0), costs.get("transcendentals", 0)
    return float(flops), float(transcendentals), float(costs.get("bytes accessed", 0))


def ours(computation: xb.XlaComputation) -> Costs:
    stats = computation.stats()
    return float(stats.flops), float(stats.transcendentals), float(stats.bytes_accessed)


def built(record: Callable[[xb.XlaBuilder], xb.XlaOp]) -> xb.XlaComputation:
    b = xb.XlaBuilder("case")
    return b.build(record(b))


@pytest.fixture(scope="module")
def pointer() -> float:
    """Return the bytes that XLA counts for a tuple element: 8, or 4 in newer versions."""
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[3])
    return costs_of_text(str(b.build(xb.tuple(x, x))))[2] / 2


def pointers(computation: xb.XlaComputation) -> int:
    """Return the number of tuple elements that XLA counts as traffic."""
    # XLA does not count the bytes of computations that are applied to elements.
    entered = [op.attributes["body"] for op in computation.ops if op.opcode == "while"]
    ops = [op for each in (computation, *entered) for op in each.ops]
    passed = [op.operands[0].shape for op in ops if op.opcode == "optimization_barrier"]
    made = sum(len(op.operands) for op in ops if op.opcode == "tuple")
    return made + sum(len(shape.elements) for shape in passed if isinstance(shape, xb.TupleShape))


@each_row("name", sorted(CASES.keys() - OTHERWISE.keys()))
def test_costs_are_those_of_xla(name: str, pointer: float) -> None:
    computation = built(CASES[name])
    flops, transcendentals, moved = costs_of_text(str(computation))
    moved -= pointer * pointers(computation)
    assert ours(computation) == (flops, transcendentals, moved)


def test_every_opcode_has_a_case() -> None:
    elsewhere = {
        *("scan", "custom_call", "python_call", "mulhi"),  # below
        *("get_dimension_size", "set_dimension_size", "dynamic_reshape"),
        # Their sizes are unbounded.
        *(
            "dynamic_broadcast_in_dim",
            "dynamic_gather",
            "dynamic_iota",
            "dynamic_pad",
            "real_dynamic_slice",
        ),
    }
    assert opcodes() | elsewhere == all_opcodes()


# Differences from XLA.


def test_a_ragged_dot_counts_its_contraction() -> None:
    computation = built(CASES["ragged_dot"])
    # f32[11,5] and f32[3,5,7]: each of 11 rows and 7 columns sums 5 products.
    assert computation.stats().flops == 2 * 11 * 7 * 5
    assert costs_of_text(str(computation))[0] == 2 * 7 * 5


@pytest.mark.parametrize("name", ["send", "recv"])
def test_send_and_recv_move_their_data_once(name: str) -> None:
    computation = built(CASES[name])
    assert ours(computation) == (0, 0, 5 * 4)
    assert costs_of_text(str(computation))[2] > 2 * 5 * 4


def test_bounded_sizes_are_counted_with_the_data() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[<=9,3]")
    computation = b.build(xb.neg(x))
    assert ours(computation) == costs_of_text(str(computation)) == (27, 0, 2 * (27 * 4 + 2 * 4))
    b = xb.XlaBuilder()
    size = xb.get_dimension_size(b.parameter("s8[<=9]"), 0)
    assert b.build(size).stats().bytes_accessed == 9 + 4 + 4
    b = xb.XlaBuilder()
    sized = xb.set_dimension_size(b.parameter("s8[9]"), b.parameter("s32[]"), 0)
    computation = b.build(sized)
    assert ours(computation) == costs_of_text(str(computation)) == (0, 0, 9 + 4 + 9 + 4)


def test_mulhi_is_one_operation_per_element() -> None:
    b = xb.XlaBuilder()
    computation = b.build(xb.mulhi(b.parameter(xb.s32[9]), b.parameter(xb.s32[9])))
    assert ours(computation) == costs_of_text(str(computation)) == (9, 0, 3 * 36)


def test_custom_calls_count_only_bytes() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[9])
    computation = b.build(xb.custom_call("something", [x, x], xb.s8[2]) + 1)
    stats = computation.stats()
    assert stats.by_opcode["custom_call"].bytes_accessed == 2 * 36 + 2
    assert stats.uncounted == {"custom_call": 1}
    # XLA counts -1 for the call, and the broadcast of the constant and the sum.
    assert costs_of_text(str(computation))[:2] == (2 - 1, 0)
    assert "1 custom_call: only bytes are counted" in str(stats)


def test_python_calls_too() -> None:
    b = xb.XlaBuilder()
    stats = b.build(xb.python_call(np.sort, b.parameter(xb.f32[9]), xb.f32[9])).stats()
    assert (stats.flops, stats.bytes_accessed) == (0, 72)
    assert stats.uncounted == {"python_call": 1}


def test_a_broadcast_that_stretches_is_one_op() -> None:
    b = xb.XlaBuilder()
    computation = b.build(xb.broadcast_in_dim(b.parameter(xb.f32[1, 3]), [2, 3], [0, 1]))
    assert ours(computation) == (0, 0, 12 + 24)
    assert costs_of_text(str(computation))[2] == 12 + 12 + 12 + 24  # with the reshape before it


def test_a_constant_of_one_value_costs_nothing() -> None:
    b = xb.XlaBuilder()
    computation = b.build(b.constant(np.ones((4, 4), np.float32)))
    assert ours(computation) == (0, 0, 0)
    assert costs_of_text(str(computation))[2] == 4 + 64  # a scalar, spread


def test_unbounded_sizes_are_refused() -> None:
    b = xb.XlaBuilder()
    computation = b.build(xb.neg(b.parameter("f32[?,3]")))
    with pytest.raises(xb.ShapeInferenceError, match=r"stats: .*unbounded.*, got f32\[\?,3\]"):
        computation.stats()


# Applied computations.


def add_one(i: xb.XlaOp) -> xb.XlaOp:
    return i + 1


def loop(begin: int, condition: Callable[[xb.XlaOp], xb.XlaOp], body: object) -> xb.XlaOp:
    b = xb.XlaBuilder()
    return xb.while_(condition, body, b.constant(begin, xb.s32))  # type: ignore[arg-type]


@each_row(
    "begin, condition, body, count",
    [
        (0, lambda i: i < 10, add_one, 10),
        (0, lambda i: i <= 10, add_one, 11),
        (0, lambda i: i < 10, lambda i: i + 3, 4),
        (1, lambda i: i <= 10, lambda i: 3 + i, 4),
        (9, lambda i: i > 0, lambda i: i - 2, 5),
        (9, lambda i: i >= 1, lambda i: i + -2, 5),
        (0, lambda i: i != 12, lambda i: i + 3, 4),
        (0, lambda i: xb.gt(i.builder.constant(5, xb.s32), i), add_one, 5),
        (20, lambda i: i < 10, add_one, 0),
        (3, lambda i: xb.eq(i, 3), add_one, 1),
        # Infinite, beyond the range of the type, or not analyzable.
        (0, lambda i: i != 11, lambda i: i + 3, None),
        (0, lambda i: i < 10, lambda i: i - 1, None),
        (0, lambda i: i < 10, lambda i: i + 0, None),
        (0, lambda i: i <= 2**31 - 1, add_one, None),
        (0, lambda i: i < 10, lambda i: i * 2, None),
        (0, lambda i: i + 1 < 10, add_one, None),
        (0, lambda i: xb.and_(i < 10, i < 5), add_one, None),
    ],
)
def test_trip_count(
    begin: int, condition: Callable[[xb.XlaOp], xb.XlaOp], body: object, count: int | None
) -> None:
    assert trip_count(loop(begin, condition, body)) == count


def test_trip_count_of_a_captured_limit_and_of_a_part_of_the_state() -> None:
    b = xb.XlaBuilder()
    limit, x = b.constant(7, xb.s32), b.parameter(xb.f32[3])
    state = xb.tuple(x, b.constant(2, xb.s32))
    result = xb.while_(lambda s: s[1] < limit, lambda s: xb.tuple(xb.exp(s[0]), s[1] + 1), state)
    stats = b.build(result).stats()
    assert [entry.trip_count for entry in stats.loops] == [5]
    assert stats.transcendentals == 5 * 3
    # The condition runs one time more than the body.
    assert stats.by_opcode["compare"].executions == 6
    assert stats.flops == 5 + 6
    assert "runs 5 times" in str(stats)


def test_loops_in_loops_are_multiplied() -> None:
    b = xb.XlaBuilder()

    def outer(s: xb.XlaOp) -> xb.XlaOp:
        inner = xb.tuple(s[0], s.builder.constant(0, xb.s32))
        done = xb.while_(lambda t: t[1] < 4, lambda t: xb.tuple(xb.tanh(t[0]), t[1] + 1), inner)
        return xb.tuple(done[0], s[1] + 1)

    state = xb.tuple(b.parameter(xb.f32[10]), b.constant(0, xb.s32))
    stats = b.build(xb.while_(lambda s: s[1] < 3, outer, state)).stats()
    assert stats.transcendentals == 3 * 4 * 10
    assert stats.by_opcode["tanh"].ops == 1
    assert stats.by_opcode["tanh"].executions == 12
    assert {entry.trip_count for entry in stats.loops} == {3, 4}
    assert stats.unknown_loops == ()


def test_a_loop_with_an_unknown_trip_count() -> None:
    stats = built(CASES["while"]).stats()
    assert [entry.trip_count for entry in stats.unknown_loops] == [None]
    assert "unknown trip count; counted once" in str(stats)


def test_a_scan_is_counted_for_each_step() -> None:
    b = xb.XlaBuilder()
    x, init = b.parameter(xb.f32[9]), b.parameter(xb.f32[()])

    def step(v: xb.XlaOp, carry: xb.XlaOp) -> xb.XlaOp:
        total = v * carry + v
        return xb.tuple(total, total)

    computation = b.build(xb.scan(x, init, step, 0))
    assert computation.stats().flops == 9 * 2
    assert [entry.trip_count for entry in computation.stats().loops] == [9]
    assert costs_of_text(str(computation))[0] == 2


def test_nested_calls_are_counted_for_each_call() -> None:
    """Calls nested forty times: each computation is visited once, without recursion."""
    double: xb.XlaComputation | Callable[[xb.XlaOp], xb.XlaOp] = xb.neg
    for _ in range(40):
        b = xb.XlaBuilder("double")
        x = b.parameter(xb.f32[2])
        double = b.build(xb.call(double, xb.call(double, x)))
    assert isinstance(double, xb.XlaComputation)
    assert double.stats().flops == 2 * 2**40
    assert double.stats().ops == 2 + 40 * 3
    assert double.stats().computations == 40


# Totals.


def test_fields_and_printing() -> None:
    b = xb.XlaBuilder("model")
    x, w = b.parameter(xb.f32[512, 1024], "x"), b.parameter(xb.f32[1024, 2048], "w")
    bias = b.constant(np.ones(2048, np.float32))
    y = xb.add(x @ w, bias, broadcast_dimensions=[1])
    stats = b.build(xb.tuple(y, xb.exp(y))).stats()
    assert stats.parameters == type(stats.parameters)(2, 512 * 1024 + 1024 * 2048, 10 * 2**20)
    assert (stats.constants.count, stats.constants.elements) == (1, 2048)
    assert stats.results.bytes == 2 * 512 * 2048 * 4
    assert stats.flops == 2 * 512 * 1024 * 2048 + 512 * 2048
    assert next(iter(stats.by_opcode)) == "dot_general"
    assert stats.flops == sum(entry.flops for entry in stats.by_opcode.values())
    text = str(stats)
    assert "2.15 GFLOP" in text
    assert "14 MiB" in text
    assert "parameters: 2 (2,621,440 elements, 10 MiB)" in text
    data = json.loads(json.dumps(stats.as_dict()))
    assert data["flops"] == stats.flops
    assert data["by_opcode"]["dot_general"]["bytes_accessed"] == 14 * 2**20
    assert "<td" in stats._repr_html_()


def test_units() -> None:
    assert [flops_text(n) for n in (0, 1, 999, 1000, 999_999, 10**9, 2 * 10**21)] == [
        *("0", "1 FLOP", "999 FLOP", "1 kFLOP", "1 MFLOP", "1 GFLOP", "2,000 EFLOP")
    ]
    assert [bytes_text(n) for n in (0, 1, 1023, 1024, 1536, 2**40)] == [
        *("0", "1 B", "1023 B", "1 KiB", "1.5 KiB", "1 TiB")
    ]
