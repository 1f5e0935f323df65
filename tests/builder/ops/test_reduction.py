"""Shapes, reducers and refusals of reductions."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from tables import each_row

import builder as xb
from builder import lib
from builder.graph.foreign_values import Purpose


@pytest.fixture
def x() -> xb.XlaOp:
    return xb.XlaBuilder().parameter(xb.f32[4, 2, 3], "x")


@each_row(
    "dimensions, shape",
    [
        ([], xb.f32[4, 2, 3]),
        ([0], xb.f32[2, 3]),
        ([2, 0], xb.f32[2]),
        ([0, 1, 2], xb.f32[()]),
    ],
)
def test_shape(x: xb.XlaOp, dimensions: list[int], shape: xb.ArrayShape) -> None:
    assert xb.reduce(x, 0.0, xb.add, dimensions).shape is shape


def test_dynamic_sizes_are_those_of_operand_0() -> None:
    b = xb.XlaBuilder()
    x, y = b.parameter("f32[<=4,<=2]"), b.parameter("s32[4,2]")
    both = xb.reduce([x, y], [0.0, 0], lambda a, m, v, n: (a + v, m + n), [0])
    assert str(both.shape) == "(f32[<=2], s32[<=2])"


def test_a_computation_as_reducer(x: xb.XlaOp) -> None:
    @xb.computation(xb.f32[()], xb.f32[()])
    def largest(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.max(a, b)

    op = xb.reduce(x, float("-inf"), largest, [1])
    assert op.called_computations == (largest,)


def test_the_librarys_own_functions_are_recorded_once(x: xb.XlaOp) -> None:
    first, second = (xb.reduce(x, 0.0, xb.add, [d]) for d in (0, 1))
    assert first.attributes["to_apply"] is second.attributes["to_apply"]
    again = xb.reduce(x, x.builder.constant(0.0, xb.f32), xb.add, [0])
    assert again.attributes is first.attributes


def test_numbers_that_are_equal_but_not_the_same(x: xb.XlaOp) -> None:
    """Each number gives the constant that it gives when it is the first one."""
    i = x.builder.parameter(xb.s32[4], "i")
    assert xb.reduce(i, 1, xb.mul, [0]).operands[1].shape is xb.s32[()]
    with pytest.raises(xb.ConstantError, match="s32"):
        xb.reduce(i, 1.0, xb.mul, [0])
    with pytest.raises(xb.ConstantError, match="an int of 16610 bits"):
        xb.reduce(x, 10**5000, xb.add, [0])
    zeros = [xb.reduce(x, zero, xb.add, [0]).operands[1] for zero in (0.0, -0.0)]
    assert [str(zero.attributes["value"]) for zero in zeros] == ["0.0", "-0.0"]
    nans = [xb.reduce(x, float("nan"), xb.add, [0]).operands[1] for _ in range(2)]
    assert [str(nan.attributes["value"]) for nan in nans] == ["nan", "nan"]


def test_a_computation_is_not_cached(x: xb.XlaOp) -> None:
    b = xb.XlaBuilder()
    b._purpose = Purpose(
        "reduce", "a reducer"
    )  # the tests keep all computations built without a purpose
    reducer = b.build(b.parameter(xb.f32[()]) + b.parameter(xb.f32[()]))
    zero = x.builder.constant(0.0, xb.f32)
    shapes = {xb.reduce(x, init, reducer, [0]).shape for init in (zero, 0.0)}
    assert len(shapes) == 1
    kept = weakref.ref(reducer)
    x.builder.ops.clear()
    del b, reducer, zero
    gc.collect()
    assert kept() is None


def test_a_tuple_of_one_operand_results_in_a_tuple(x: xb.XlaOp) -> None:
    assert str(xb.reduce(x, 0.0, lambda a, b: (a + b,), [0, 2]).shape) == "(f32[2])"


def pairs(a: xb.XlaOp, b: xb.XlaOp, c: xb.XlaOp, d: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
    """A reducer of two operands."""
    return a + c, b + d


REFUSED = {
    "signature": (
        lambda x: xb.reduce(x, 0.0, lambda total, value: total > value, [1]),
        xb.SignatureError,
        (
            "reduce: computation must be of signature (f32[], f32[]) -> f32[] "
            "(accumulated, value), got (total: f32[], value: f32[]) -> pred[]\n"
            "  operand 0    f32[4,2,3]\n"
            "  init value 0 f32[]\n"
            "fix: return f32[], the new accumulated value"
        ),
    ),
    "signature of several": (
        lambda x: xb.reduce([x, x], [0.0, 0.0], lambda a, b, c, d: a, [1]),
        xb.SignatureError,
        (
            "reduce: computation must be of signature (f32[], f32[], f32[], f32[]) -> "
            "(f32[], f32[]) (accumulated..., values...), "
            "got (a: f32[], b: f32[], c: f32[], d: f32[]) -> f32[]\n"
            "  operand 0    f32[4,2,3]\n"
            "  operand 1    f32[4,2,3]\n"
            "  init value 0 f32[]\n"
            "  init value 1 f32[]\n"
            "fix: return (f32[], f32[]), the new accumulated value"
        ),
    ),
    "arguments": (
        lambda x: xb.reduce(x, 0.0, lambda a: a, [1]),
        xb.SignatureError,
        (
            "reduce: computation is called with 2 arguments (f32[], f32[]), got a callable that "
            "does not take them: "
        ),
    ),
    "a unary op": (
        lambda x: xb.reduce(x, 0.0, xb.exp, [1]),
        xb.SignatureError,
        (
            "reduce: computation is called with 2 arguments (f32[], f32[]), got exp(operand)\n"
            "fix: write a function of 2 arguments, such as xb.add"
        ),
    ),
    "an op of three operands": (
        lambda x: xb.reduce(x, 0.0, xb.clamp, [1]),
        xb.SignatureError,
        (
            "reduce: computation is called with 2 arguments (f32[], f32[]), got clamp(min, "
            "operand, max)"
        ),
    ),
    "an op of other types": (
        lambda x: xb.reduce(x, 0.0, xb.population_count, [1]),
        xb.SignatureError,
        "reduce: computation is called with 2 arguments (f32[], f32[]), ",
    ),
    "a function that is not an op": (
        lambda x: xb.reduce(x, 0.0, lib.softmax, [1]),
        xb.ShapeInferenceError,
        "reduce: computation: softmax: axis must be an integer, got <XlaOp ",
    ),
    "init value": (
        lambda x: xb.reduce(x, x.builder.constant(0, xb.s32), xb.add, [1]),
        xb.ShapeInferenceError,
        "reduce: init value 0 must be a scalar of the type of operand 0, f32[], got s32[]\n",
    ),
    "count": (
        lambda x: xb.reduce([x, x], 0.0, pairs, [1]),
        xb.ShapeInferenceError,
        "reduce: init_values must have one entry for each operand: 2, got 1: [f32[]]",
    ),
    "sizes": (
        lambda x: xb.reduce([x, x.builder.parameter(xb.f32[4])], [0.0, 0.0], pairs, [0]),
        xb.ShapeInferenceError,
        "reduce: operands must have the same sizes; operand 1 differs from operand 0",
    ),
    "no operand": (
        lambda x: xb.reduce([], [], xb.add, [0]),
        xb.ShapeInferenceError,
        "reduce: at least one operand is needed, got none",
    ),
    "dimension out of range": (
        lambda x: xb.reduce(x, 0.0, xb.add, [3]),
        xb.ShapeInferenceError,
        "reduce: dimensions must be a dimension of operand 0 (0 to 2), got 3",
    ),
    "dimension twice": (
        lambda x: xb.reduce(x, 0.0, xb.add, [1, 1]),
        xb.ShapeInferenceError,
        "reduce: dimensions must not name a dimension twice, got 1 twice in [1, 1]",
    ),
    "dimension alone": (
        lambda x: xb.reduce(x, 0.0, xb.add, 1),
        xb.ShapeInferenceError,
        "reduce: dimensions must be a sequence of integers, got 1\nfix: write dimensions=[1]",
    ),
    "number": (
        lambda x: xb.reduce(x, 1e60, xb.add, [0]),
        xb.ConstantError,
        "reduce: f32 can't represent the Python number 1e+60: the range is",
    ),
    "not a callable": (
        lambda x: xb.reduce(x, 0.0, "add", [0]),
        xb.OperandError,
        "reduce: computation must be an XlaComputation or a callable, got 'add'",
    ),
    "a method of something": (
        lambda x: xb.reduce(x, 0.0, [].append, [0]),
        xb.SignatureError,
        "reduce: computation is called with 2 arguments (f32[], f32[]), got a callable",
    ),
    "tuple operand": (
        lambda x: xb.reduce(xb.tuple(x, x), 0.0, xb.add, [0]),
        xb.ShapeInferenceError,
        "reduce: operand 0 must be an array, got a tuple",
    ),
}


@each_row("name", REFUSED)
def test_refused(x: xb.XlaOp, name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error) as caught:
        call(x)
    assert str(caught.value).startswith(message)
    assert caught.value.op == "reduce"


def test_reducers_do_not_capture(x: xb.XlaOp) -> None:
    scale = x.builder.constant(2.0, xb.f32)
    with pytest.raises(xb.BuilderError, match="the computation of reduce can't use values of"):
        xb.reduce(x, 0.0, lambda a, b: a + b * scale, [0])


def test_reduce_all(x: xb.XlaOp) -> None:
    total = xb.reduce_all(x, 0.0, xb.add)
    assert total.shape is xb.f32[()]
    assert total.attributes["dimensions"] == (0, 1, 2)
    with pytest.raises(xb.ShapeInferenceError, match="reduce_all: operand must be an array"):
        xb.reduce_all(xb.tuple(x), 0.0, xb.add)


def test_a_shared_reducer_has_no_source_line(x: xb.XlaOp) -> None:
    reducer = xb.reduce(x, 0.0, xb.add, [0]).attributes["to_apply"]
    assert {op.source for op in reducer.ops} == {None}
    unshared = xb.reduce(x, 0.0, lambda a, b: a + b, [0]).attributes["to_apply"]
    assert unshared.root.source is not None


def test_the_source_line_is_that_of_the_call(x: xb.XlaOp) -> None:
    zero = x.builder.constant(0.0, xb.f32)

    def reduced(init: Any) -> xb.XlaOp:
        return xb.reduce(x, init, xb.add, [0])

    line = reduced.__code__.co_firstlineno + 1
    for init in (zero, 0.0, 0, float("nan")):
        source = reduced(init).source
        assert source is not None
        assert source.line == line


def test_a_missing_argument_is_refused_before_the_callable_is_called(x: xb.XlaOp) -> None:
    def called(accumulated: xb.XlaOp, value: xb.XlaOp) -> xb.XlaOp:
        raise AssertionError

    calls: list[tuple[Any, dict[str, Any]]] = [
        (xb.reduce, {"dimensions": [0]}),
        (xb.reduce_all, {}),
    ]
    for function, named in calls:
        with pytest.raises(xb.OperandError, match="missing 1 required positional argument: 'init"):
            function(x, computation=called, **named)
    assert [op.opcode for op in x.builder.ops] == ["parameter"]
