"""XlaComputation: users, order and called computations."""

from __future__ import annotations

import random
import sys

import pytest
from tables import each_row

import builder as xb


def diamond() -> xb.XlaComputation:
    b = xb.XlaBuilder("diamond")
    x = b.parameter(xb.f32[2], "x")
    left, right = -x, xb.exp(x)
    _ = xb.abs(x)  # nothing uses it
    return b.build(left + right)


class TestUsers:
    def test_each_once_in_order(self) -> None:
        c = diamond()
        assert [u.opcode for u in c.users(c.parameters[0])] == ["negate", "exponential", "abs"]
        assert c.users(c.root) == ()

    def test_an_op_that_uses_it_twice(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        y = x * x
        assert b.build().users(x) == (y,)

    def test_against_counting(self) -> None:
        c = random_computation(300, seed=0)
        for op in c.ops:
            expected = [u for u in c.ops if any(o is op for o in u.operands)]
            assert list(c.users(op)) == expected


class TestPostOrder:
    def test_only_ops_that_the_root_needs(self) -> None:
        assert [o.opcode for o in diamond().post_order()] == [
            "parameter",
            "negate",
            "exponential",
            "add",
        ]

    def test_root_in_the_middle(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        y = -x
        _ = y + y
        assert list(b.build(y).post_order()) == [x, y]

    @each_row("seed", range(5))
    def test_against_reachability(self, seed: int) -> None:
        c = random_computation(300, seed)
        reached = {id(c.root)}
        stack = [c.root]
        while stack:
            for operand in stack.pop().operands:
                if id(operand) not in reached:
                    reached.add(id(operand))
                    stack.append(operand)
        order = list(c.post_order())
        assert {id(o) for o in order} == reached
        assert len(order) == len(reached) < len(c.ops)
        seen: set[int] = set()
        for op in order:
            assert all(id(o) in seen for o in op.operands)
            seen.add(id(op))


def random_computation(count: int, seed: int) -> xb.XlaComputation:
    """Return a graph in which each op has two earlier ops as operands."""
    choice = random.Random(seed)
    b = xb.XlaBuilder()
    ops = [b.parameter(xb.f32[2])]
    for _ in range(count):
        ops.append(xb.add(choice.choice(ops), choice.choice(ops)))
    return b.build()


class TestCalledComputations:
    def test_callees_before_callers(self) -> None:
        inner = xb.computation(xb.f32[()])(lambda v: -v)
        middle = xb.computation(xb.f32[2])(lambda v: xb.map([v], inner))
        outer = xb.computation(xb.f32[2])(lambda v: xb.call(middle, v) + xb.map([v], inner))
        assert outer.called_computations() == (inner, middle)
        assert inner.called_computations() == ()

    def test_several_of_one_op(self) -> None:
        condition = xb.computation(xb.f32[()])(lambda v: v > 0)
        body = xb.computation(xb.f32[()])(lambda v: -v)
        loop = xb.computation(xb.f32[()])(lambda v: xb.while_(condition, body, v))
        assert loop.called_computations() == (condition, body)
        assert loop.root.called_computations == (condition, body)

    def test_each_once(self) -> None:
        inner = xb.computation(xb.f32[()])(lambda v: -v)
        outer = xb.computation(xb.f32[2])(lambda v: xb.map([xb.map([v], inner)], inner))
        assert outer.called_computations() == (inner,)

    def test_calls_nested_deeper_than_the_stack(self) -> None:
        depth = 3 * sys.getrecursionlimit()
        c = xb.computation(xb.f32[()])(lambda v: -v)
        chain = [c]
        for _ in range(depth):
            b = xb.XlaBuilder()
            c = b.build(xb.call(c, b.parameter(xb.f32[()])))
            chain.append(c)
        assert c.called_computations() == tuple(chain[:-1])


class TestLongChains:
    def test_100_000_ops_without_recursion(self) -> None:
        count = 100_000
        b = xb.XlaBuilder()
        x = first = b.parameter(xb.f32[2])
        for _ in range(count):
            x = -x
        c = b.build(x)
        assert len(c.ops) == count + 1
        limit = sys.getrecursionlimit()
        frame, depth = sys._getframe(), 0
        while frame is not None:
            frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]  # None ends it
        sys.setrecursionlimit(depth + 50)
        try:
            assert sum(1 for _ in c.post_order()) == count + 1
            assert c.users(first) == (c.ops[1],)
            assert c.called_computations() == ()
            assert str(c).count(" negate(") == count
        finally:
            sys.setrecursionlimit(limit)

    def test_a_long_chain_is_freed_without_recursion(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        for _ in range(100_000):
            x = -x
        del b, x


class TestProgramShape:
    def test_repr(self) -> None:
        assert repr(diamond()) == "<XlaComputation 'diamond' (x: f32[2]) -> f32[2], 5 ops>"

    def test_parameters_without_users(self) -> None:
        b = xb.XlaBuilder()
        x, _ = b.parameter(xb.f32[2]), b.parameter(xb.s32[()])
        assert str(b.build(x).program_shape) == "(p0: f32[2], p1: s32[]) -> f32[2]"


def test_a_computation_is_not_a_function() -> None:
    @xb.computation(xb.f32[2])
    def double(x: xb.XlaOp) -> xb.XlaOp:
        return x + x

    with pytest.raises(
        xb.OperandError, match=r"^double: .*\nfix: run it with lowering\.compile"
    ) as caught:
        double(3)
    assert caught.value.op == "double"
