"""Programs on which XLA's compiler aborts are refused before it compiles them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering


def across_devices_in_reducer() -> xb.XlaComputation:
    def reducer(total: xb.XlaOp, value: xb.XlaOp) -> xb.XlaOp:
        return total + xb.cross_replica_sum(value)

    b = xb.XlaBuilder("summed")
    return b.build(xb.reduce(b.parameter(xb.f32[3]), 0.0, reducer, [0]))


def nested_calls(depth: int) -> xb.XlaComputation:
    called: xb.XlaComputation | None = None
    for _ in range(depth + 1):
        b = xb.XlaBuilder("step")
        x = b.parameter(xb.f32[()])
        called = b.build(x + 1.0 if called is None else xb.call(called, x))
    assert called is not None
    return called


def loop_in_reducer(through_a_call: bool) -> xb.XlaComputation:
    def count_to(low: xb.XlaOp, high: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda s: s < high, lambda s: s + 1.0, low)

    def reducer(total: xb.XlaOp, value: xb.XlaOp) -> xb.XlaOp:
        return xb.call(count_to, total, value) if through_a_call else count_to(total, value)

    b = xb.XlaBuilder("counted")
    return b.build(xb.reduce(b.parameter(xb.f32[3]), 0.0, reducer, [0]))


def loop_in_region(op: str) -> xb.XlaComputation:
    def counted(start: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda i: i < 10.0, lambda i: i + 1.0, start)

    b = xb.XlaBuilder("looping")
    x = b.parameter(xb.f32[3])
    if op == "map":
        return b.build(xb.map(x, counted))
    return b.build(xb.sort(x, lambda p, q: counted(p) < counted(q)))


def huge(function: Callable[[xb.XlaOp], xb.XlaOp]) -> xb.XlaComputation:
    b = xb.XlaBuilder("huge")
    return b.build(function(b.parameter(xb.f32[()])))


def huge_parameter() -> xb.XlaComputation:
    b = xb.XlaBuilder("huge")
    return b.build(xb.slice(b.parameter(xb.f32[2**60]), [0], [1]))


TOKENS = """
func.func @main(%t: !stablehlo.token) -> (!stablehlo.token, !stablehlo.token) {{
  %b = stablehlo.optimization_barrier %t : !stablehlo.token
  return {} : !stablehlo.token, !stablehlo.token
}}"""

REFUSED = {
    "loop in a reducer": (
        lambda: lowering.lower(loop_in_reducer(False)),
        (
            "compile: counted: the computation of reduce can't contain while, because XLA's "
            "compiler aborts on it\n"
            "fix: write the computation without a loop, or replace reduce by a loop with xb.while_"
        ),
    ),
    "loop in a map": (
        lambda: lowering.lower(loop_in_region("map")),
        (
            "compile: looping: the computation of map can't contain while, because XLA's compiler "
            "aborts on it\n"
            "fix: write the computation without a loop, or record the ops on arrays, without map"
        ),
    ),
    "loop in a comparator": (
        lambda: lowering.lower(loop_in_region("sort")),
        (
            "compile: looping: the computation of sort can't contain while, because XLA's compiler "
            "aborts on it\n"
            "fix: write the computation without a loop, or compute the keys as an array first, "
            "and sort by them"
        ),
    ),
    "loop called from a reducer": (
        lambda: lowering.lower(loop_in_reducer(True)),
        "compile: counted: the computation of reduce can't contain while",
    ),
    "a sum across devices in a reducer": (
        lambda: lowering.lower(across_devices_in_reducer()),
        "the computation of reduce can't contain all_reduce, because XLA's compiler aborts on it",
    ),
    "huge broadcast": (
        lambda: lowering.lower(huge(lambda x: xb.broadcast(x, [2**62]))),
        (
            "compile: huge: an array takes at most 256 TiB, got f32[4611686018427387904] of "
            "16,777,216 TiB in stablehlo.broadcast_in_dim\nfix: make the array smaller"
        ),
    ),
    "huge parameter": (
        lambda: lowering.lower(huge_parameter()),
        "got f32[1152921504606846976] of 4,194,304 TiB in an argument",
    ),
    "many empty rows": (
        lambda: lowering.lower(huge(lambda x: xb.broadcast(x, [2**20, 2**20, 0]))),
        (
            "compile: huge: an array without elements has at most 16,777,216 rows, because XLA's "
            "compiler iterates over them, got f32[1048576,1048576,0] with 1,099,511,627,776 rows "
            "in stablehlo.broadcast_in_dim\n"
            "fix: make the array smaller, or move the dimension of size 0 to the front"
        ),
    ),
    "deep calls": (
        lambda: lowering.lower(nested_calls(400)),
        (
            "compile: step: calls can be nested at most 150 deep, because XLA's compiler may abort "
            "on more, got 400\n"
            "fix: nest fewer calls, or write a loop with xb.while_"
        ),
    ),
    "a token twice": (
        lambda: lowering.load_bytes(TOKENS.format("%t, %t").encode()),
        (
            "the result must contain each token at most once, because XLA's compiler aborts on a "
            "repeated token, got a token twice\n"
            "fix: return the token once"
        ),
    ),
    "a token and its barrier": (
        lambda: lowering.load_bytes(TOKENS.format("%t, %b").encode()),
        "the result must contain each token at most once",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    module = make()
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(module)
    assert message in str(caught.value)
    assert caught.value.op == "compile"


def test_programs_within_the_limits() -> None:
    got = lowering.compile(nested_calls(140))(np.float32(1))
    assert float(got) == 2.0
    # A reducer may contain calls.
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[3])
    total = xb.reduce(x, 0.0, lambda a, v: xb.call(lambda p, q: p + q, a, v), [0])
    assert float(lowering.compile(b.build(total))(np.array([1, 2, 3], np.float32))) == 6.0
