"""builder.lib.loops, compared with loops of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib


def test_while_loop() -> None:
    def collatz(n: xb.XlaOp) -> list[xb.XlaOp]:
        steps = n.builder.constant(0, xb.s32)

        def step(values: Any) -> list[xb.XlaOp]:
            n, steps = values
            is_even = xb.eq(xb.rem(n, 2), 0)
            return [xb.select(is_even, xb.div(n, 2), n * 3 + 1), steps + 1]

        return lib.while_loop_helper(lambda v: xb.ne(v[0], 1), step, [n, steps])

    assert [int(value) for value in run(collatz, np.int32(27))] == [1, 111]


def test_for_each_index() -> None:
    def powers(x: xb.XlaOp, factor: xb.XlaOp) -> list[xb.XlaOp]:
        def step(i: xb.XlaOp, values: Any) -> list[xb.XlaOp]:
            total, power = values
            # The factor is an op of the enclosing builder.
            return [total + power * xb.convert_element_type(i, xb.f32), power * factor]

        sums = lib.for_each_index(5, xb.u8, step, [xb.sub(x, x), x])
        none = lib.for_each_index(0, xb.s32, step, [xb.sub(x, x), x])
        all_of_s8 = lib.for_each_index(127, xb.s8, lambda i, v: [v[0] + 1.0], [x])
        return [*sums, *none, *all_of_s8]

    x = np.array([1, 3], np.float32)
    got = run(powers, x, np.float32(2))
    np.testing.assert_array_equal(got[0], x * (2 + 2 * 4 + 3 * 8 + 4 * 16))
    np.testing.assert_array_equal(got[1], x * 32)
    np.testing.assert_array_equal(got[2], [0, 0])
    np.testing.assert_array_equal(got[3], x)
    np.testing.assert_array_equal(got[4], x + 127)


def test_names_and_loops_without_values() -> None:
    b = xb.XlaBuilder()
    assert lib.for_each_index(3, xb.s32, lambda i, values: [], [], "mine", b) == ()
    text = str(b.build(b.constant(1.0, xb.f32)))
    assert "%mine_condition (" in text
    assert "%mine_body (" in text
    b = xb.XlaBuilder()
    assert (
        lib.while_loop_helper(lambda v: p, lambda v: [], [], builder=(p := _pred(b)).builder) == ()
    )


def _pred(b: xb.XlaBuilder) -> xb.XlaOp:
    return b.parameter("pred[]")


@each_row(
    "call, message",
    [
        (
            lambda x: lib.while_loop_helper(lambda v: v, lambda v: v, []),
            (
                "while_loop_helper: a loop without ops among its initial values needs a builder, "
                "got None\nfix: pass"
            ),
        ),
        (
            lambda x: lib.while_loop_helper(lambda v: v[0] > 0, lambda v: [*v, x], [x]),
            "while_loop_helper: the body must return 1 values in a list, got [",
        ),
        (
            lambda x: lib.while_loop_helper(lambda v: v[0] > 0, lambda v: v[0], [x]),
            "while_loop_helper: the body must return 1 values in a list, got ",
        ),
        (
            lambda x: lib.while_loop_helper(lambda v: v[0] > 0, lambda v: [1], [x]),
            "while_loop_helper: result of the body 0 must be an XlaOp, got int: 1",
        ),
        (
            lambda x: lib.while_loop_helper(lambda v: v[0], lambda v: v, [x]),
            "while_loop_helper: while_: ",
        ),
        (
            lambda x: lib.while_loop_helper(lambda v: v[0] > 0, lambda v: v, [x], name=3),
            "while_loop_helper: name must be a string, got 3",
        ),
        (
            lambda x: lib.for_each_index(3, xb.f32, lambda i, v: v, [x]),
            "for_each_index: num_iterations_type must be an integer type, got f32",
        ),
        (
            lambda x: lib.for_each_index(128, xb.s8, lambda i, v: v, [x]),
            "for_each_index: num_iterations must be from 0 to 127, the largest s8, got 128",
        ),
        (
            lambda x: lib.for_each_index(-1, xb.s8, lambda i, v: v, [x]),
            "for_each_index: num_iterations must be from 0 to 127, the largest s8, got -1",
        ),
        (
            lambda x: lib.for_each_index(2, xb.s8, lambda i, v: v[0], [x]),
            "for_each_index: the body must return 1 values in a list, got ",
        ),
        (
            lambda x: lib.for_each_index(2, xb.s8, lambda i: i, [x]),
            (
                "for_each_index: body_function is called with the index and the list of values, "
                "got a callable that does not take them: "
            ),
        ),
        (
            lambda x: lib.for_each_index(2, xb.s8, [x], [x]),
            "for_each_index: body_function must be a function, got [",
        ),
        (
            lambda x: lib.while_loop_helper(x, lambda v: v, [x]),
            "while_loop_helper: condition_function must be a function, got ",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder().parameter("f32[]"))
    assert str(caught.value).startswith(message), caught.value
