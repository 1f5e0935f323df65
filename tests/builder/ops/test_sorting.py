"""Shapes, comparators and refusals of sort and top_k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tables import each_row

import builder as xb
from builder.types.primitive_type import ALL

INFER = xb.shape_inference


@pytest.fixture
def x() -> xb.XlaOp:
    return xb.XlaBuilder().parameter(xb.f32[4, 6])


@each_row("dimension", [-2, -1, 0, 1])
@each_row("is_stable", [True, False])
def test_one_operand(x: xb.XlaOp, dimension: int, is_stable: bool) -> None:
    op = xb.sort(x, dimension=dimension, is_stable=is_stable)
    assert op.shape is x.shape
    assert op.opcode == "sort"
    assert op.attributes["dimension"] == dimension % 2
    assert op.attributes["is_stable"] is is_stable


def test_the_last_dimension_is_the_default(x: xb.XlaOp) -> None:
    op = xb.sort(x)
    assert op.attributes["dimension"] == 1
    assert op.attributes["is_stable"] is False
    third = xb.sort(x.builder.parameter(xb.s8[2, 3, 4]), None, -3, True)
    assert third.attributes["dimension"] == 0


def test_several_operands() -> None:
    b = xb.XlaBuilder()
    ops = [b.parameter(s) for s in ("f32[4,<=6]", "s32[4,6]", "pred[<=4,6]", "c64[?,6]")]
    op = xb.sort(ops, lambda *v: v[4] < v[5], dimension=0)
    assert str(op.shape) == "(f32[4,<=6], s32[4,6], pred[<=4,6], c64[?,6])"
    assert xb.sort(ops[:1]).shape is ops[0].shape
    assert str(xb.sort([b.parameter("f32[0]")] * 2).shape) == "(f32[0], f32[0])"


def test_layouts_are_dropped() -> None:
    x = xb.XlaBuilder().parameter("f32[4,6]{0,1}")
    assert xb.sort(x).shape is xb.f32[4, 6]
    assert str(xb.top_k(x, 2).shape) == "(f32[4,2], s32[4,2])"


@each_row("t", ALL)
def test_the_default_comparator(t: xb.PrimitiveType) -> None:
    """The order of XLA's CreateScalarLtComputation, and complex numbers."""
    b = xb.XlaBuilder()
    op = xb.sort([b.parameter(t[3]), b.parameter(xb.s32[3])])
    assert str(op.shape) == f"({t}[3], s32[3])"
    (comparator,) = op.called_computations
    assert [p.name for p in comparator.parameters] == ["p.0.lhs", "p.0.rhs", "p.1.lhs", "p.1.rhs"]
    assert comparator.program_shape.result is xb.pred[()]
    assert {op.source for op in comparator.ops} == {None}
    compared = [op for op in comparator.ops if op.opcode == "compare"]
    kinds = {op.attributes["compare_type"] for op in compared}
    if t.is_complex:
        assert [op.attributes["comparison_direction"] for op in compared] == ["EQ", "LT", "LT"]
        assert kinds == {"TOTALORDER"}
        return
    assert compared == [comparator.root]
    assert comparator.root.operands == comparator.parameters[:2]
    assert comparator.root.attributes["comparison_direction"] == "LT"
    expected = "TOTALORDER" if t.is_floating else "SIGNED" if t.is_signed else "UNSIGNED"
    assert kinds == {expected}


def test_default_comparators_are_recorded_once(x: xb.XlaOp) -> None:
    first, second = xb.sort(x), xb.sort(x, dimension=0)
    assert first.attributes["to_apply"] is second.attributes["to_apply"]


def test_a_computation_as_comparator(x: xb.XlaOp) -> None:
    @xb.computation(xb.f32[()], xb.f32[()])
    def descending(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a > b

    assert xb.sort(x, descending).called_computations == (descending,)


def test_inference_without_a_builder() -> None:
    f32, pred = xb.f32[()], xb.pred[()]
    assert INFER.sort([xb.f32[7]], xb.ProgramShape([f32, f32], pred)) is xb.f32[7]
    with pytest.raises(xb.ShapeInferenceError, match="sort: at least one operand is needed"):
        INFER.sort([], xb.ProgramShape([], pred))


Case = tuple[Callable[[xb.XlaOp], Any], type[xb.XlaError], str]

REFUSED: dict[str, Case] = {
    "no operand": (
        lambda x: xb.sort([]),
        xb.ShapeInferenceError,
        "sort: at least one operand is needed, got none",
    ),
    "sizes": (
        lambda x: xb.sort([x, x.builder.parameter("s32[4,5]")]),
        xb.ShapeInferenceError,
        (
            "sort: operands must have the same sizes; operand 1 differs from operand 0, got\n"
            "  operand 0 f32[4,6]\n  operand 1 s32[4,5]"
        ),
    ),
    "ranks": (
        lambda x: xb.sort([x, x.builder.parameter("s32[4]")]),
        xb.ShapeInferenceError,
        "sort: operands must have the same sizes; operand 1 differs from operand 0",
    ),
    "a scalar": (
        lambda x: xb.sort(x.builder.parameter("f32[]")),
        xb.ShapeInferenceError,
        "sort: a scalar has no dimension to sort along, got\n  operand 0 f32[]",
    ),
    "dimension": (
        lambda x: xb.sort(x, dimension=2),
        xb.ShapeInferenceError,
        (
            "sort: dimension must be a dimension of operand 0: 0 to 1, or counted from the "
            "last, -1 to -2, got 2"
        ),
    ),
    "dimension below": (
        lambda x: xb.sort(x, dimension=-3),
        xb.ShapeInferenceError,
        "sort: dimension must be a dimension of operand 0: 0 to 1, or counted from the last",
    ),
    "dimension that is not a number": (
        lambda x: xb.sort(x, dimension="0"),
        xb.ShapeInferenceError,
        "sort: dimension must be an integer, got '0'",
    ),
    "tuple": (
        lambda x: xb.sort(xb.tuple(x)),
        xb.ShapeInferenceError,
        "sort: operand 0 must be an array, got a tuple",
    ),
    "number": (
        lambda x: xb.sort([x, 1.0]),
        xb.OperandError,
        "sort: operand 1 must be an XlaOp, got float: 1.0",
    ),
    "comparator of one": (
        lambda x: xb.sort([x, x], comparator_of(xb.f32)),
        xb.SignatureError,
        (
            "sort: comparator must be of signature (f32[], f32[], f32[], f32[]) -> pred[] "
            "(lhs 0, rhs 0, lhs 1, rhs 1), got "
        ),
    ),
    "function of one": (
        lambda x: xb.sort([x, x], xb.lt),
        xb.SignatureError,
        "sort: comparator is called with 4 arguments (f32[], f32[], f32[], f32[]), got lt(",
    ),
    "comparator of several": (
        lambda x: xb.sort(x, lambda a, b, c, d: a < b),
        xb.SignatureError,
        "sort: comparator is called with 2 arguments (f32[], f32[]), got a callable that does not",
    ),
    "comparator of another type": (
        lambda x: xb.sort(x, comparator_of(xb.f64)),
        xb.SignatureError,
        (
            "sort: comparator must be of signature (f32[], f32[]) -> pred[] (lhs 0, rhs 0), got "
            "(a: f64[], b: f64[]) -> pred[]\n  operand 0 f32[4,6]\nfix: return pred[], whether"
        ),
    ),
    "result of the comparator is not a pred": (
        lambda x: xb.sort(x, xb.sub),
        xb.SignatureError,
        "sort: comparator must be of signature (f32[], f32[]) -> pred[] (lhs 0, rhs 0), got ",
    ),
    "no comparator": (
        lambda x: xb.sort(x, "lt"),
        xb.OperandError,
        "sort: comparator must be an XlaComputation or a callable, got 'lt'",
    ),
    "is_stable": (
        lambda x: xb.sort(x, None, 0, 1),
        xb.ShapeInferenceError,
        "sort: is_stable must be True or False, got 1",
    ),
}


def comparator_of(t: xb.PrimitiveType) -> xb.XlaComputation:
    b = xb.XlaBuilder("less")
    return b.build(b.parameter(t[()], "a") < b.parameter(t[()], "b"))


@each_row("name", REFUSED)
def test_sort_refuses(x: xb.XlaOp, name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error) as caught:
        call(x)
    assert str(caught.value).startswith(message)
    assert caught.value.op == "sort"
    assert "sort" not in [op.opcode for op in x.builder.ops]


def test_ops_recorded_by_a_failing_comparator_are_removed(x: xb.XlaOp) -> None:
    def careless(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a < x.builder.constant(1.0, xb.f32)

    with pytest.raises(xb.BuilderError, match="the comparator of sort can't use values"):
        xb.sort(x, careless)
    assert len(x.builder.ops) == 1


# top_k.


@each_row(
    "operand, k, shape",
    [
        ("f32[4,6]", 2, "(f32[4,2], s32[4,2])"),
        ("f32[4,6]", 6, "(f32[4,6], s32[4,6])"),
        ("u4[6]", 0, "(u4[0], s32[0])"),
        ("c128[0,3]", 1, "(c128[0,1], s32[0,1])"),
        ("pred[2,0]", 0, "(pred[2,0], s32[2,0])"),
        ("u8[7,<=8,3]", 2, "(u8[7,<=8,2], s32[7,<=8,2])"),
        ("u8[<=5]", 4, "(u8[4], s32[4])"),
    ],
)
def test_top_k(operand: str, k: int, shape: str) -> None:
    x = xb.XlaBuilder().parameter(operand)
    for largest in (True, False):
        op = xb.top_k(x, k, largest=largest)
        assert str(op.shape) == shape
        assert dict(op.attributes) == {"k": k, "largest": largest}
    values, indices = xb.top_k(x, k)
    assert (values.shape, indices.shape) == op.shape.elements


@each_row(
    "operand, arguments, message",
    [
        ("f32[]", (0,), "operand must have at least one dimension, got a scalar"),
        (
            "f32[4,6]",
            (7,),
            "k must be from 0 to the size of the last dimension, 6, got 7",
        ),
        ("f32[4,6]", (-1,), "k must be from 0 to the size of the last dimension, 6, got -1"),
        ("f32[4,6]", (2.0,), "k must be an integer, got 2.0"),
        ("f32[4,6]", (2**70,), "k must fit 64 bits, got an int of 71 bits"),
        ("f32[?,4]", (5,), "k must be from 0 to the size of the last dimension, 4, got 5"),
        ("f32[4,?]", (-1,), "k must be from 0 to the size of the last dimension, ?, got -1"),
        ("(f32[4])", (1,), "operand must be an array, got a tuple"),
        (
            f"u2[{2**31 + 1}]",
            (1,),
            "indices are s32, so the last dimension must not have more",
        ),
    ],
)
def test_top_k_refuses(operand: str, arguments: Any, message: str) -> None:
    x = xb.XlaBuilder().parameter(operand)
    with pytest.raises(xb.ShapeInferenceError) as caught:
        xb.top_k(x, *arguments)
    assert str(caught.value).startswith(f"top_k: {message}")
    with pytest.raises(xb.ShapeInferenceError, match="largest must be True or False, got None"):
        xb.top_k(x, 0, largest=None)


def test_the_dimension_of_an_error_of_top_k() -> None:
    b = xb.XlaBuilder("program")
    for shape, k in ((xb.f32[3, 2**31 + 1], 1), (xb.f32[3, 4], 5)):
        with pytest.raises(xb.ShapeInferenceError) as caught:
            xb.top_k(b.parameter(shape), k)
        assert caught.value.dimension == 1
