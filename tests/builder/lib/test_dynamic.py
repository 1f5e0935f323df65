"""builder.lib.dynamic: the branches are executed, and their sizes at run time compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib


@xb.computation(xb.f32[6, 2])
def front(x: xb.XlaOp) -> xb.XlaOp:
    return xb.slice(x, [0, 0], [2, 2])


@xb.computation(xb.f32[6, 2])
def back(x: xb.XlaOp) -> xb.XlaOp:
    return xb.slice(x, [1, 0], [6, 2])


@xb.computation(xb.f32[6, 2])
def cut(x: xb.XlaOp) -> xb.XlaOp:
    return xb.set_dimension_size(x, 3, 0)


@xb.computation(xb.f32[6, 2])
def pair(x: xb.XlaOp) -> xb.XlaOp:
    return xb.tuple(x, xb.slice(x, [0, 0], [2, 1]), xb.tuple(x > 0.0))


@xb.computation(xb.f32[6, 2])
def other_pair(x: xb.XlaOp) -> xb.XlaOp:
    return xb.tuple(x, x, xb.tuple(xb.slice(x, [0, 0], [1, 1]) > 0.0))


X = np.arange(12, dtype=np.float32).reshape(6, 2) - 4


@pytest.mark.parametrize("is_first", [True, False])
def test_two_branches(is_first: bool) -> None:
    def results(x: xb.XlaOp, p: xb.XlaOp) -> list[xb.XlaOp]:
        either = lib.dynamic_conditional(p, x, front, x, back)
        assert either.shape == xb.parse_shape("f32[<=5,2]")
        same = lib.dynamic_conditional(p, x, front, x, front)
        assert same.shape == xb.parse_shape("f32[2,2]")
        parts = lib.disassemble_tuple(lib.dynamic_conditional(p, x, pair, x, other_pair))
        assert parts[1].shape == xb.parse_shape("f32[<=6,<=2]")
        return [either, same, *parts[:2], *parts[2]]

    got = run(results, X, np.bool_(is_first))
    wanted = (
        [X[:2], X[:2], X, X[:2, :1], X > 0] if is_first else [X[1:], X[:2], X, X, X[:1, :1] > 0]
    )
    for result, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_several_branches(index: int) -> None:
    def results(x: xb.XlaOp, i: xb.XlaOp) -> xb.XlaOp:
        result = lib.dynamic_conditional(i, [front, cut, back], [x, x, x])
        assert result.shape == xb.parse_shape("f32[<=6,2]")
        return result

    wanted = [X[:2], X[:3], X[1:], X[1:]][index]
    np.testing.assert_array_equal(run(results, X, np.int32(index)), wanted)


@each_row(
    "call, message",
    [
        (
            lambda p, x: lib.dynamic_conditional(p, x),
            "dynamic_conditional: 3 or 5 arguments",
        ),
        (
            lambda p, x: lib.dynamic_conditional(p, x, xb.neg, x, front),
            "dynamic_conditional: branch 0 must be an XlaComputation, got ",
        ),
        (
            lambda p, x: lib.dynamic_conditional(p, 3, [x]),
            "dynamic_conditional: branch_computations must be a sequence, got 3",
        ),
        (
            lambda p, x: lib.dynamic_conditional(p, x, front, x, pair),
            "dynamic_conditional: the results must have one element type and rank, and no",
        ),
        (
            lambda p, x: lib.dynamic_conditional(x, x, front, x, back),
            "dynamic_conditional: conditional: ",
        ),
        (
            lambda p, x: lib.dynamic_conditional(p, p, front, x, back),
            "dynamic_conditional: ",
        ),
        (lambda p, x: lib.dynamic_conditional(p, [], []), "dynamic_conditional: "),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        call(b.parameter("pred[]"), b.parameter("f32[6,2]"))
    assert str(caught.value).startswith(message), caught.value
