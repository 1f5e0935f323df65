"""Programs that XLA's compiler dies of are refused before it sees them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

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
            "compile: counted: there is a while inside the computation of stablehlo.reduce, of "
            "which XLA's compiler dies\n"
            "fix: write the computation without a loop, or the reduction as a loop of its own"
        ),
    ),
    "loop called from a reducer": (
        lambda: lowering.lower(loop_in_reducer(True)),
        "compile: counted: there is a while inside the computation of stablehlo.reduce",
    ),
    "a sum across devices in a reducer": (
        lambda: lowering.lower(across_devices_in_reducer()),
        "there is an all_reduce inside the computation of reduce, of which XLA's compiler dies",
    ),
    "huge broadcast": (
        lambda: lowering.lower(huge(lambda x: xb.broadcast(x, [2**62]))),
        (
            "compile: huge: stablehlo.broadcast_in_dim is of f32[4611686018427387904], which takes "
            "16,777,216 TiB\nfix: make the array smaller"
        ),
    ),
    "huge parameter": (
        lambda: lowering.lower(huge_parameter()),
        "compile: huge: an argument is of f32[1152921504606846976]",
    ),
    "many empty rows": (
        lambda: lowering.lower(huge(lambda x: xb.broadcast(x, [2**20, 2**20, 0]))),
        (
            "compile: huge: stablehlo.broadcast_in_dim is of f32[1048576,1048576,0], which holds "
            "nothing, and XLA's compiler goes through 1,099,511,627,776 rows of it\n"
            "fix: make the array smaller, or a dimension of size 0 the first"
        ),
    ),
    "deep calls": (
        lambda: lowering.lower(nested_calls(400)),
        (
            "compile: step: calls are nested 400 deep, of which XLA's compiler may die\n"
            "fix: nest at most 150; a loop is xb.while_"
        ),
    ),
    "a token twice": (
        lambda: lowering.load_bytes(TOKENS.format("%t, %t").encode()),
        (
            "its result holds one token twice, of which XLA's compiler dies\n"
            "fix: give the token back once"
        ),
    ),
    "a token and its barrier": (
        lambda: lowering.load_bytes(TOKENS.format("%t, %b").encode()),
        "its result holds one token twice",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    module = make()
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(module)
    assert message in str(caught.value)
    assert caught.value.op == "compile"


def test_what_is_just_allowed() -> None:
    got = lowering.compile(nested_calls(140))(np.float32(1))
    assert float(got) == 2.0
    # A call, a branch and a map in a reducer are no loops.
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[3])
    total = xb.reduce(x, 0.0, lambda a, v: xb.call(lambda p, q: p + q, a, v), [0])
    assert float(lowering.compile(b.build(total))(np.array([1, 2, 3], np.float32))) == 6.0
