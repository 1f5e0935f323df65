"""Computations that differ in tuples only, such as after a round trip through StableHLO."""

from __future__ import annotations

from collections.abc import Callable

from tables import each_row

import builder as xb
import lowering


@xb.computation(xb.f32[4], xb.s32[()])
def control_flow(x: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        branch = xb.conditional(
            xb.lt(state[0], 3), x, lambda v: v + x, state[1], lambda v: xb.sin(v) * state[1]
        )
        return state[0] + 1, branch + x

    _, y = xb.while_(lambda state: xb.lt(state[0], n), body, (n, x))
    z = xb.call(lambda v: v - x, y)
    nested = xb.tuple(xb.tuple(y, z), x)
    barrier = xb.optimization_barrier(nested)
    return barrier[0][1] + xb.reduce(barrier[0][0], 0.0, lambda p, q: p + q, [0])


def round_trip(computation: xb.XlaComputation) -> xb.XlaComputation:
    return lowering.to_computation(lowering.lower(computation))


def test_a_round_trip() -> None:
    again = round_trip(control_flow)
    assert [op.opcode for op in again.ops] != [op.opcode for op in control_flow.ops]
    assert control_flow.diff(again).equal
    assert again.diff(control_flow).equal
    assert not control_flow.diff(again)


def loop(
    step: float = 1.0,
    swapped: bool = False,
    operand: Callable[[xb.XlaOp, xb.XlaOp], tuple[xb.XlaOp, xb.XlaOp]] = lambda x, y: (x, y),
    frontend: str = "a",
) -> xb.XlaComputation:
    b = xb.XlaBuilder("loop")
    x, y = b.parameter(xb.f32[()], "x"), b.parameter(xb.f32[()], "y")

    def body(s: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        with b._innermost().frontend_attributes({"k": frontend}):
            return (s[1], s[0] + step) if swapped else (s[0] + step, s[1])

    result = xb.while_(lambda s: xb.lt(s[0], 3.0), body, operand(x, y))
    return b.build(xb.tuple(result[0], result[1]))


def test_equal_loops() -> None:
    assert loop().diff(loop()).equal
    assert loop().diff(round_trip(loop())).equal


@each_row(
    "other",
    [
        loop(step=2.0),
        loop(swapped=True),
        loop(operand=lambda x, y: (y, x)),
        loop(frontend="b"),
    ],
)
def test_differences_are_found(other: xb.XlaComputation) -> None:
    assert loop().diff(other)
    assert loop().diff(round_trip(other))


def branches(uses_first: bool, branch: Callable[[xb.XlaOp], xb.XlaOp]) -> xb.XlaComputation:
    b = xb.XlaBuilder("branches")
    x, y = b.parameter(xb.f32[()], "x"), b.parameter(xb.f32[()], "y")
    used = x if uses_first else y
    return b.build(xb.conditional(xb.lt(x, y), x, lambda v: v + used, y, branch))


def test_captured_values_are_compared() -> None:
    before = branches(True, xb.neg)
    assert before.diff(round_trip(before)).equal
    assert before.diff(round_trip(branches(False, xb.neg)))
    assert before.diff(round_trip(branches(True, xb.sin)))


def test_metadata_is_compared_where_it_is_requested() -> None:
    assert control_flow.diff(round_trip(control_flow), metadata=True)


def test_deep_nesting() -> None:
    computation = None
    for _ in range(3000):
        b = xb.XlaBuilder("level")
        x = b.parameter(xb.f32[()])
        inner = xb.neg(x) if computation is None else xb.map([x], computation)
        computation = b.build(xb.tuple(inner)[0] if computation is None else inner)
    assert computation is not None
    assert computation.diff(computation).equal
