"""Layouts of parameters, results, and the operands of transfers and custom calls.

XLA's parser reads the text of each computation that is built here, see `conftest`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tables import each_row

import builder as xb

COLUMNS = "f32[2,3]{0,1}"
TILED = "f32[2,3]{1,0:T(8,128)(2,1)L(4)E(64)S(1)}"
PADDED = "f32[2,3]{1,0:pad(4,4)=zero}"


@pytest.fixture
def b() -> xb.XlaBuilder:
    return xb.XlaBuilder("layouts")


@pytest.fixture
def x(b: xb.XlaBuilder) -> xb.XlaOp:
    return b.parameter(COLUMNS, "x")


def in_columns() -> xb.XlaComputation:
    """Return a computation whose parameters and results are column-major as an entry."""
    inner = xb.XlaBuilder("in_columns")
    value = inner.parameter(COLUMNS, "value")
    return inner.build(value + value, result=COLUMNS)


# Layouts of a program


def test_ops_see_shapes_without_layouts(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    assert x.shape is xb.f32[2, 3]
    assert (x + b.parameter(xb.f32[2, 3])).shape is xb.f32[2, 3]
    pair = b.parameter(f"({COLUMNS}, s32[])", "pair")
    assert xb.get_tuple_element(pair, 0).shape is xb.f32[2, 3]


def test_the_program_shape_has_the_layouts(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    built = b.build(x + x, result="f32[2,3]{0,1}")
    assert str(built.program_shape) == "(x: f32[2,3]{0,1}) -> f32[2,3]{0,1}"
    assert str(built.signature) == "(x: f32[2,3]) -> f32[2,3]"
    assert built.root.shape is xb.f32[2, 3]


def test_a_signature_without_layouts_is_the_program_shape(b: xb.XlaBuilder) -> None:
    built = b.build(b.parameter(xb.f32[2]) + 1.0, result=xb.f32[2])
    assert built.signature is built.program_shape


def test_results_in_tuples(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    root = xb.tuple(x, xb.tuple(x + x, b.constant(1, xb.s32)))
    result = "(f32[2,3], (f32[2,3]{0,1}, s32[]))"
    assert str(b.build(root, result=result).program_shape.result) == result


def test_the_result_may_be_any_form_of_a_shape(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    built = b.build(xb.tuple(x, x), result=[xb.f32[2, 3].with_layout([0, 1]), "f32[2,3]"])
    assert str(built.program_shape.result) == "(f32[2,3]{0,1}, f32[2,3])"


def test_decorated_functions() -> None:
    @xb.computation(COLUMNS, result=f"({COLUMNS}, f32[2,3])")
    def both(x: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        return x + x, x

    assert str(both.program_shape) == "(x: f32[2,3]{0,1}) -> (f32[2,3]{0,1}, f32[2,3])"


@pytest.mark.parametrize(
    "text",
    [COLUMNS, TILED, "f32[2,3]{1,0:T(*,4)}", "f32[]{:T(128)}", "f32[7]{0:T(1024)}", "f32[]{}"],
)
def test_the_text_has_the_layouts_of_the_entry(b: xb.XlaBuilder, text: str) -> None:
    x = b.parameter(text, "x")
    printed = "f32[]" if text == "f32[]{}" else text
    built = b.build(xb.neg(x), result=text)
    head, *rest = str(built).splitlines()
    assert head == f"HloModule layouts, entry_computation_layout={{({printed})->{printed}}}"
    plain = xb.parse_shape(text).with_layout(None)
    assert f"ENTRY %layouts (x: {plain}) -> {plain} {{" in rest


# Computations that ops apply


def test_layouts_of_applied_computations_are_ignored(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    double = in_columns()
    condition = xb.XlaBuilder("condition")
    condition.parameter("f32[2,3]{1,0}")
    yes = condition.build(condition.constant(True))
    scalars = xb.XlaBuilder("scalars")
    scalar = "f32[]{}"
    add = scalars.build(
        scalars.parameter(scalar) + scalars.parameter(scalar), result="f32[]{:T(128)}"
    )
    one = xb.XlaBuilder("one")
    nothing = one.build(one.constant(1.0, xb.f32), result="f32[]{:T(128)}")
    results = [
        xb.call(double, x),
        xb.composite_call(double, x, name="mine.double"),
        xb.while_(yes, double, x),
        xb.conditional(b.constant(True), x, double, x, double),
        xb.conditional(b.constant(True), x, double, x, lambda v: v),
        xb.reduce(x, 0.0, add, dimensions=[0]),
        xb.map([x, x], add, dimensions=[0, 1]),
        xb.all_reduce(x, add),
        b.call(nothing),
    ]
    shapes = ["f32[2,3]"] * 5 + ["f32[3]", "f32[2,3]", "f32[2,3]", "f32[]"]
    assert [str(result.shape) for result in results] == shapes
    b.build(xb.tuple(*results))


def test_inferred_shapes_have_no_layouts() -> None:
    infer = xb.shape_inference
    double = in_columns().program_shape
    laid_out = xb.parse_shape(COLUMNS)
    assert infer.call(double, [laid_out]) is xb.f32[2, 3]
    assert infer.conditional(xb.s32[()], [double] * 2, [laid_out] * 2) is xb.f32[2, 3]


# Invalid layouts, reported at the user's line


def test_a_shape_other_than_the_root(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    for result in ("f32[3,2]{0,1}", "f64[2,3]", "f32[<=2,3]", "(f32[2,3])", "token[]"):
        with pytest.raises(xb.ShapeInferenceError) as caught:
            b.build(x, result=result)
        assert str(caught.value) == (
            f"build: result must have the root's shape f32[2,3], apart from layouts, got {result}"
        )
        assert caught.value.op == "build"
    b.build(x)  # the failed calls built nothing


def test_not_a_shape(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    with pytest.raises(xb.OperandError, match=r"build: result: expected a shape such as .*, got 3"):
        b.build(x, result=3)  # type: ignore[arg-type]
    with pytest.raises(xb.ShapeTextError, match="build: result: "):
        b.build(x, result="f32[2,3]{0,1")
    with pytest.raises(xb.ShapeTextError, match=r"build: result: .*permutation"):
        b.build(x, result="f32[2,3]{0,0}")


def test_a_layout_alone(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    fix = "\nfix: pass root.shape.with_layout(layout)"
    value: Any
    for value in ("{0,1}", " {0,1}", [0, 1], (0, 1), xb.Layout([0, 1])):
        with pytest.raises((xb.OperandError, xb.ShapeTextError)) as caught:
            b.build(x, result=value)
        assert str(caught.value).startswith("build: result: ")
        assert str(caught.value).endswith(fix)
        fixed = x.shape.with_layout(value)
        assert str(fixed) == "f32[2,3]{0,1}"
    for value in (3, "f32[2,3]{0,1", []):
        with pytest.raises(xb.XlaError) as caught:
            b.build(x, result=value)
        assert fix not in str(caught.value)
    assert b.build(x, result=fixed).program_shape.result is fixed


def test_a_decorated_function_with_another_result() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="computation: result must have the root's"):
        xb.computation(COLUMNS, result="f32[2]")(lambda x: x)
    with pytest.raises(xb.OperandError, match="computation: result: expected a shape"):
        xb.computation(COLUMNS, result=3)  # type: ignore[arg-type]


HOST = xb.ChannelType
PADDING: dict[str, Callable[[xb.XlaBuilder, xb.XlaOp], Any]] = {
    "parameter: shape": lambda b, x: b.parameter(PADDED),
    "parameter: shape ": lambda b, x: b.parameter(f"(s32[], ({PADDED}))"),
    "build: result": lambda b, x: b.build(x, result=PADDED),
    "computation: result": lambda b, x: xb.computation(COLUMNS, result=PADDED)(lambda v: v),
    "infeed: shape": lambda b, x: b.infeed(PADDED),
    "infeed_with_token: shape": lambda b, x: xb.infeed_with_token(b.create_token(), PADDED),
    "outfeed: shape_with_layout": lambda b, x: xb.outfeed(x, PADDED),
    "outfeed_with_token: shape_with_layout": lambda b, x: xb.outfeed_with_token(
        x, b.create_token(), PADDED
    ),
    "send_to_host: shape_with_layout": lambda b, x: xb.send_to_host(
        x, b.create_token(), PADDED, xb.ChannelHandle(1, HOST.DEVICE_TO_HOST)
    ),
    "recv: shape": lambda b, x: b.recv(PADDED, 1),
    "recv_with_token: shape": lambda b, x: xb.recv_with_token(b.create_token(), PADDED, 1),
    "recv_from_host: shape": lambda b, x: xb.recv_from_host(
        b.create_token(), PADDED, xb.ChannelHandle(1, HOST.HOST_TO_DEVICE)
    ),
    "custom_call: shape": lambda b, x: xb.custom_call("f", x, PADDED),
    "custom_call: operand_shapes_with_layout": lambda b, x: xb.custom_call(
        "f", x, COLUMNS, operand_shapes_with_layout=[PADDED]
    ),
    "all_reduce: shape_with_layout": lambda b, x: xb.all_reduce(
        x, xb.add, shape_with_layout=PADDED
    ),
    "all_gather: layout": lambda b, x: xb.all_gather(x, 1, 2, layout="{1,0:pad(4,8)}"),
    "reduce_scatter: layout": lambda b, x: xb.reduce_scatter(
        x, xb.add, 0, 2, layout="{1,0:pad=one}"
    ),
    "all_to_all: layout": lambda b, x: xb.all_to_all(x, 0, 0, 2, layout="{1,0:pad(4,4)}"),
    "all_to_all_tuple: layout": lambda b, x: xb.all_to_all_tuple([x, x], layout="{1,0:pad(4,4)}"),
}


@each_row("place", PADDING)
def test_programs_cannot_have_padded_dimensions(b: xb.XlaBuilder, x: xb.XlaOp, place: str) -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        PADDING[place](b, x)
    if not place.startswith("build"):  # which the tests have wrapped
        assert (caught.value.location or "").rpartition(":")[0] == __file__
    message = str(caught.value)
    assert message.startswith(
        f"{place.strip()}: a layout in a program can't have padded dimensions or a padding value"
    )
    assert "\nfix: use the layout {1,0}, or pass the array with its padded sizes" in message


def test_layouts_of_collectives_as_text(x: xb.XlaOp) -> None:
    gathered = xb.all_gather(x, 0, 2, layout="{0,1:T(2,2)}")
    assert str(gathered.attributes["shape_with_layout"]) == "f32[4,3]{0,1:T(2,2)}"
    with pytest.raises(xb.ShapeTextError, match="all_gather: layout: "):
        xb.all_gather(x, 0, 2, layout="{0,1:T}")
    with pytest.raises(xb.ShapeInferenceError, match=r"^all_gather: layout: .*8"):
        xb.all_gather(x, 0, 2, layout="{0,1:E(8)}")
