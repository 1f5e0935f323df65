"""Shapes and refusals of reduce_window and select_and_scatter."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.graph.foreign_values import Purpose

INFER = xb.shape_inference
SAME, VALID = xb.Padding.SAME, xb.Padding.VALID
PAIR = tuple[int, int]


def windows(x: xb.XlaOp, *arguments: Any, **named: Any) -> xb.XlaOp:
    return xb.reduce_window(x, 0.0, xb.add, *arguments, **named)


def parameter(shape: xb.Shape | str) -> xb.XlaOp:
    return xb.XlaBuilder().parameter(shape)


@pytest.fixture
def x() -> xb.XlaOp:
    return parameter(xb.f32[4, 6])


@each_row(
    "arguments, named, shape",
    [
        (([2, 3], [2, 3], VALID), {}, "f32[2,2]"),  # the document's
        (([2, 3], [1, 1], SAME), {}, "f32[4,6]"),
        (([3, 3], [3, 4], "same"), {}, "f32[2,2]"),
        (([2, 3], None, "VALID"), {}, "f32[3,4]"),
        (([2, 3], [], [(1, 0), (2, 2)]), {}, "f32[4,8]"),
        (([2, 3], [1, 1], [(-1, 0), (0, -3)]), {}, "f32[2,1]"),
        (([2, 3], [1, 1], []), {}, "f32[3,4]"),
        (([5, 3], [1, 1], VALID), {}, "f32[0,4]"),
        (([2, 3], [1, 2], VALID), {"base_dilations": [2, 3]}, "f32[6,7]"),
        (([2, 3], [1, 1], VALID), {"window_dilations": [3, 2]}, "f32[1,2]"),
        (([2, 3], [1, 1], [(2, 2), (0, 0)]), {"window_dilations": [8, 1]}, "f32[0,4]"),
        (
            ([2, 3], [1, 1], SAME),
            {"base_dilations": [2, 1], "window_dilations": [2, 2]},
            "f32[7,6]",
        ),
        (([2, 1], [10, 10], [(2**40, 0), (0, 0)]), {}, f"f32[{(2**40 + 2) // 10 + 1},1]"),
    ],
)
def test_positions_of_the_window(
    x: xb.XlaOp, arguments: Any, named: dict[str, Any], shape: str
) -> None:
    assert str(windows(x, *arguments, **named).shape) == shape


@each_row(
    "operand, window, padding, shape",
    [
        ("f32[]", [], VALID, "f32[]"),
        ("f32[]", [], [], "f32[]"),
        ("f32[0,6]", [1, 2], VALID, "f32[0,5]"),
        ("f32[0]", [2], [(1, 2)], "f32[2]"),
        ("f32[0]", [1], [(0, 0)], "f32[0]"),
        ("f32[<=5,3]", [2, 2], VALID, "f32[<=4,2]"),
        ("f32[<=5,3]", [2, 2], SAME, "f32[<=5,3]"),
        ("f32[5,<=3]", [6, 2], VALID, "f32[0,<=2]"),
        ("f32[?,3]", [2, 2], [(1, 1), (1, 0)], "f32[?,3]"),
    ],
)
def test_unusual_sizes(operand: str, window: list[int], padding: Any, shape: str) -> None:
    assert str(windows(parameter(operand), window, None, padding).shape) == shape


def both(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    return a + c, xb.max(b, d)


def test_several_operands_have_their_own_dynamic_sizes() -> None:
    b = xb.XlaBuilder()
    x, y = b.parameter("f32[<=4,6]"), b.parameter("s32[4,<=6]")
    op = xb.reduce_window([x, y], [0.0, -1], both, [2, 2], [1, 2], VALID)
    assert str(op.shape) == "(f32[<=3,3], s32[3,<=3])"
    z = b.parameter("s32[?,6]")
    assert str(xb.reduce_window([x, z], [0.0, 0], both, [2, 2], None, []).shape) == (
        "(f32[<=3,5], s32[?,5])"
    )


def test_a_tuple_of_one_operand_results_in_a_tuple(x: xb.XlaOp) -> None:
    op = xb.reduce_window([x], [0.0], lambda a, b: (a + b,), [2, 2], None, VALID)
    assert str(op.shape) == "(f32[3,5])"


def without_computations(op: xb.XlaOp) -> dict[str, Any]:
    computations = ("to_apply", "select", "scatter")
    return {k: v for k, v in op.attributes.items() if k not in computations}


def test_recorded_op(x: xb.XlaOp) -> None:
    op = windows(x, (2, 3), None, SAME, window_dilations=np.array([1, 2]))
    assert op.opcode == "reduce_window"
    assert [o.opcode for o in op.operands] == ["parameter", "constant"]
    assert op.attributes["to_apply"].root.opcode == "add"
    attributes = without_computations(op)
    assert attributes == {
        "window_dimensions": (2, 3),
        "window_strides": (1, 1),
        "padding": ((0, 1), (2, 2)),
        "base_dilations": (1, 1),
        "window_dilations": (1, 2),
    }
    general = xb.reduce_window_with_general_padding(
        x, 0.0, xb.add, [2, 3], None, None, [1, 2], [(0, 1), (2, 2)]
    )
    assert without_computations(general) == attributes
    assert general.shape is op.shape
    for padding in (SAME, "SAME"):
        named = xb.reduce_window_with_general_padding(
            x, 0.0, xb.add, [2, 3], None, None, [1, 2], padding
        )
        assert without_computations(named) == attributes
        assert named.shape is op.shape


def test_attributes_are_shared_for_the_librarys_own_reducers(x: xb.XlaOp) -> None:
    zero = x.builder.constant(0.0, xb.f32)
    by_op, by_number = (
        xb.reduce_window(x, init, xb.add, (2, 3), None, SAME) for init in (zero, 0.0)
    )
    assert by_op.attributes is by_number.attributes
    assert [o.opcode for o in by_op.operands] == ["parameter", "constant"]
    with pytest.raises(TypeError):
        by_op.attributes["padding"] = ()  # type: ignore[index]
    one, two = (scattered(x, "f32[4,6]", [1, 1], None, VALID, init_value=zero) for _ in range(2))
    assert one.attributes is two.attributes


def test_a_computation_is_not_cached(x: xb.XlaOp) -> None:
    b = xb.XlaBuilder()
    b._purpose = Purpose(
        "reduce", "a reducer"
    )  # the tests keep all computations built without a purpose
    reducer = b.build(b.parameter(xb.f32[()]) + b.parameter(xb.f32[()]))
    zero = x.builder.constant(0.0, xb.f32)
    for init in (zero, 0.0):
        op = xb.reduce_window(x, init, reducer, [2, 3], None, VALID)
        assert op.attributes["to_apply"] is reducer
    kept = weakref.ref(reducer)
    x.builder.ops.clear()
    del op, b, reducer, zero, init
    gc.collect()
    assert kept() is None


@each_row("size", range(12))
@each_row("window", [1, 2, 3, 6])
@each_row("stride", [1, 2, 5])
def test_same_padding_counts_each_stride_once(size: int, window: int, stride: int) -> None:
    op = windows(parameter(xb.f32[size]), [window], [stride], SAME)
    assert op.shape.dimensions == (math.ceil(size / stride),)
    ((low, high),) = op.attributes["padding"]
    assert low in (high, high - 1)


def inference(shape: xb.Shape, *window: Any, **named: Any) -> xb.Shape:
    f32 = xb.f32[()]
    add = xb.ProgramShape([f32, f32], f32)
    return INFER.reduce_window([shape], [f32], add, *window, **named)


def test_inference_without_a_builder() -> None:
    assert inference(xb.f32[5], [2], None, VALID) is xb.f32[4]
    assert inference(xb.f32[5], [2], [2], SAME) is xb.f32[3]
    f32 = xb.f32[()]
    add = xb.ProgramShape([f32, f32], f32)
    infer = INFER.reduce_window_with_general_padding
    assert infer(["f32[5]"], ["f32[]"], add, [2], None, [2], [3], [(1, 0)]) is xb.f32[7]
    name = "reduce_window_with_general_padding"
    with pytest.raises(xb.ShapeInferenceError, match=f"^{name}: window_dimensions must have one"):
        infer([xb.f32[5]], [f32], add, [], [], [], [], "VALID")


Case = tuple[Callable[[xb.XlaOp], Any], type[xb.XlaError], str]

REFUSED: dict[str, Case] = {
    "window of another rank": (
        lambda x: windows(x, [2], [1, 1], VALID),
        xb.ShapeInferenceError,
        (
            "reduce_window: window_dimensions must have one entry for each dimension of operand "
            "0: 2, got 1: [2]\n  operand 0    f32[4,6]\n  init value 0 f32[]"
        ),
    ),
    "strides of another rank": (
        lambda x: windows(x, [2, 2], [1], VALID),
        xb.ShapeInferenceError,
        "reduce_window: window_strides must have one entry for each dimension of operand 0: 2",
    ),
    "base dilations of another rank": (
        lambda x: windows(x, [2, 2], None, VALID, base_dilations=[1, 1, 1]),
        xb.ShapeInferenceError,
        "reduce_window: base_dilations must have one entry for each dimension of operand 0: 2",
    ),
    "window dilations of another rank": (
        lambda x: windows(x, [2, 2], None, VALID, window_dilations=[2]),
        xb.ShapeInferenceError,
        "reduce_window: window_dilations must have one entry for each dimension of operand 0: 2",
    ),
    "padding of another rank": (
        lambda x: windows(x, [2, 2], None, [(0, 0)]),
        xb.ShapeInferenceError,
        (
            "reduce_window: padding must have one entry for each dimension of operand 0: 2, "
            "got 1: [(0, 0)]"
        ),
    ),
    "window of size 0": (
        lambda x: windows(x, [2, 0], None, VALID),
        xb.ShapeInferenceError,
        "reduce_window: window_dimensions must be positive, got 0 in [2, 0]",
    ),
    "negative stride": (
        lambda x: windows(x, [2, 2], [-1, 1], VALID),
        xb.ShapeInferenceError,
        "reduce_window: window_strides must be positive, got -1 in [-1, 1]",
    ),
    "stride 0 and SAME": (
        lambda x: windows(x, [2, 2], [1, 0], SAME),
        xb.ShapeInferenceError,
        "reduce_window: window_strides must be positive, got 0 in [1, 0]",
    ),
    "base dilation 0": (
        lambda x: windows(x, [2, 2], None, VALID, base_dilations=[0, 1]),
        xb.ShapeInferenceError,
        "reduce_window: base_dilations must be positive, got 0 in [0, 1]",
    ),
    "window dilation 0": (
        lambda x: windows(x, [2, 2], None, VALID, window_dilations=[1, 0]),
        xb.ShapeInferenceError,
        "reduce_window: window_dilations must be positive, got 0 in [1, 0]",
    ),
    "too large negative padding": (
        lambda x: windows(x, [2, 2], None, [(0, 0), (-4, -3)]),
        xb.ShapeInferenceError,
        (
            "reduce_window: padding must not remove more elements than the dimension has, got "
            "(-4, -3) for 6 elements along dimension 1 of operand 0"
        ),
    ),
    "longer than 63 bits": (
        lambda x: windows(x, [2, 2], None, VALID, window_dilations=[2**63 - 1, 1]),
        xb.ShapeInferenceError,
        (
            "reduce_window: array and window must have fewer than 2**63 elements along each "
            f"dimension once dilated and padded, got {2**63} along dimension 0 of operand 0"
        ),
    ),
    "too many elements": (
        lambda x: windows(x, [1, 1], None, [(2**40, 0), (2**40, 0)]),
        xb.ShapeInferenceError,
        "reduce_window: the result f32[1099511627780,1099511627782] would have more than 2**63",
    ),
    "SAME of an unbounded size": (
        lambda x: windows(x.builder.parameter("f32[?,3]"), [2, 2], [2, 1], SAME),
        xb.ShapeInferenceError,
        "reduce_window: Padding.SAME can't be computed for an unbounded size and a stride above 1",
    ),
    "no operand": (
        lambda x: xb.reduce_window([], [], xb.add, [], [], VALID),
        xb.ShapeInferenceError,
        "reduce_window: at least one operand is needed, got none",
    ),
    "sizes": (
        lambda x: xb.reduce_window(
            [x, x.builder.parameter("f32[4,5]")], [0.0, 0.0], both, [2, 2], None, VALID
        ),
        xb.ShapeInferenceError,
        "reduce_window: operands must have the same sizes; operand 1 differs from operand 0",
    ),
    "count": (
        lambda x: xb.reduce_window([x, x], [0.0], both, [2, 2], None, VALID),
        xb.ShapeInferenceError,
        ("reduce_window: init_values must have one entry for each operand: 2, got 1: [f32[]]"),
    ),
    "tuple operand": (
        lambda x: windows(xb.tuple(x), [2, 2], None, VALID),
        xb.ShapeInferenceError,
        "reduce_window: operand 0 must be an array, got a tuple",
    ),
    "init value": (
        lambda x: xb.reduce_window(x, x, xb.add, [2, 2], None, VALID),
        xb.ShapeInferenceError,
        "reduce_window: init value 0 must be a scalar of the type of operand 0, f32[], got f32[4",
    ),
    "init value of another float": (
        lambda x: xb.reduce_window(x, np.float64(0), xb.add, [2, 2], None, VALID),
        xb.ShapeInferenceError,
        "reduce_window: init value 0 must be a scalar of the type of operand 0, f32[], got f64[]",
    ),
    "number": (
        lambda x: xb.reduce_window(x, 1e60, xb.add, [2, 2], None, VALID),
        xb.ConstantError,
        "reduce_window: f32 can't represent the Python number 1e+60",
    ),
    "signature": (
        lambda x: xb.reduce_window(x, 0.0, xb.gt, [2, 2], None, VALID),
        xb.SignatureError,
        "reduce_window: computation must be of signature (f32[], f32[]) -> f32[] (accumulated,",
    ),
    "signature of several": (
        lambda x: xb.reduce_window([x, x], [0, 0], lambda *v: v[0], [2, 2], None, VALID),
        xb.SignatureError,
        "reduce_window: computation must be of signature (f32[], f32[], f32[], f32[]) -> (f32[],",
    ),
    "no computation": (
        lambda x: xb.reduce_window(x, 0.0, None, [2, 2], None, VALID),
        xb.OperandError,
        "reduce_window: computation must be an XlaComputation or a callable, got None",
    ),
    "padding of another name": (
        lambda x: windows(x, [2, 2], None, "FULL"),
        xb.ShapeInferenceError,
        "reduce_window: padding must be Padding.SAME, Padding.VALID, or a pair (low, high) for",
    ),
    "padding of single numbers": (
        lambda x: windows(x, [2, 2], None, [1, 1]),
        xb.ShapeInferenceError,
        "reduce_window: padding must be Padding.SAME, Padding.VALID, or a pair (low, high) for",
    ),
    "padding of fractions": (
        lambda x: windows(x, [2, 2], None, [(0, 0.5), (0, 0)]),
        xb.ShapeInferenceError,
        "reduce_window: each number of padding must be an integer, got 0.5",
    ),
    "padding of ops": (
        lambda x: windows(x, [2, 2], None, xb.tuple(x, x)),
        xb.ShapeInferenceError,
        "reduce_window: padding must be compile-time integers, got <XlaOp",
    ),
    "window of ops": (
        lambda x: windows(x, x, None, VALID),
        xb.ShapeInferenceError,
        "reduce_window: window_dimensions must be a sequence of integers, got <XlaOp",
    ),
    "general form": (
        lambda x: xb.reduce_window_with_general_padding(
            x, 0.0, xb.add, [2, 2], [0, 1], None, None, [(0, 0), (0, 0)]
        ),
        xb.ShapeInferenceError,
        "reduce_window_with_general_padding: window_strides must be positive, got 0 in [0, 1]",
    ),
}


def refused(case: Case, x: xb.XlaOp, names: tuple[str, ...]) -> None:
    call, error, message = case
    before = len(x.builder.ops)
    with pytest.raises(error) as caught:
        call(x)
    assert str(caught.value).startswith(message)
    assert caught.value.op in names
    left = [op.opcode for op in x.builder.ops[before:]]
    assert set(left) <= {"tuple", "parameter"}, "what the case itself recorded, and no more"


@each_row("name", REFUSED)
def test_reduce_window_refuses(x: xb.XlaOp, name: str) -> None:
    refused(REFUSED[name], x, ("reduce_window", "reduce_window_with_general_padding"))


def test_reducers_do_not_capture(x: xb.XlaOp) -> None:
    scale = x.builder.constant(2.0, xb.f32)
    with pytest.raises(xb.BuilderError, match="the computation of reduce_window can't use values"):
        xb.reduce_window(x, 0.0, lambda a, b: a + b * scale, [2, 2], None, VALID)


# Select and scatter.


def scattered(x: xb.XlaOp, source: Any, *window: Any, **named: Any) -> xb.XlaOp:
    """Record the gradient of max pooling."""
    if isinstance(source, str):
        source = x.builder.parameter(source)
    select, scatter = named.pop("select", xb.ge), named.pop("scatter", xb.add)
    init_value = named.pop("init_value", 0.0)
    return xb.select_and_scatter(x, select, *window, source, init_value, scatter)


@each_row(
    "operand, source, window",
    [
        ("f32[4,6]", "f32[2,2]", ([2, 3], [2, 3], VALID)),
        ("f32[4,6]", "f32[4,6]", ([2, 3], [1, 1], SAME)),
        ("f32[4,6]", "f32[3,4]", ([2, 3], None, [])),
        ("f32[4,6]", "f32[2,3]", ([2, 3], [2, 2], [(0, 0), (1, 0)])),
        ("f32[4,6]", "f32[3,1]", ([2, 3], [1, 4], [(0, 0), (-1, 0)])),
        ("f32[4,6]", "f32[0,4]", ([5, 3], [1, 1], VALID)),
        ("f32[]", "f32[]", ([], [], VALID)),
        ("f32[0]", "f32[2]", ([2], [1], [(2, 1)])),
        ("f32[<=4,6]", "f32[<=2,2]", ([2, 3], [2, 3], VALID)),
        ("f32[<=4,6]", "f32[2,2]", ([2, 3], [2, 3], VALID)),
        ("f32[4,6]", "f32[<=2,2]", ([2, 3], [2, 3], VALID)),
        ("f32[?,6]", "f32[5,2]", ([2, 3], [2, 3], VALID)),
        ("f32[4,6]", "f32[?,2]", ([2, 3], [2, 3], VALID)),
    ],
)
def test_select_and_scatter_shape(operand: str, source: str, window: Any) -> None:
    x = parameter(operand)
    assert scattered(x, source, *window).shape is x.shape


def test_recorded_select_and_scatter(x: xb.XlaOp) -> None:
    op = scattered(x, "f32[2,2]", [2, 3], [2, 3], SAME)
    assert [o.opcode for o in op.operands] == ["parameter", "parameter", "constant"]
    assert [c.root.opcode for c in op.called_computations] == ["compare", "add"]
    attributes = without_computations(op)
    assert attributes == {
        "window_dimensions": (2, 3),
        "window_strides": (2, 3),
        "padding": ((0, 0), (0, 0)),
    }
    general = xb.select_and_scatter_with_general_padding(
        x, xb.ge, [2, 3], [2, 3], [(0, 0), (0, 0)], op.operands[1], 0.0, xb.add
    )
    assert without_computations(general) == attributes
    named = xb.select_and_scatter_with_general_padding(
        x, xb.ge, [2, 3], [2, 3], "VALID", op.operands[1], 0.0, xb.add
    )
    assert without_computations(named) == attributes


def test_select_and_scatter_drops_the_layout() -> None:
    x = parameter("f32[4,6]{0,1}")
    assert scattered(x, "f32[2,2]", [2, 3], [2, 3], VALID).shape is xb.f32[4, 6]


WINDOW = ([2, 3], [2, 3], VALID)

REFUSED_SELECTIONS: dict[str, Case] = {
    "tuple operand": (
        lambda x: scattered(xb.tuple(x), "f32[2,2]", *WINDOW),
        xb.ShapeInferenceError,
        "select_and_scatter: operand must be an array, got a tuple",
    ),
    "tuple source": (
        lambda x: scattered(x, xb.tuple(x), *WINDOW),
        xb.ShapeInferenceError,
        "select_and_scatter: source must be an array, got a tuple",
    ),
    "type of the source": (
        lambda x: scattered(x, "f64[2,2]", *WINDOW),
        xb.ShapeInferenceError,
        (
            "select_and_scatter: operands must have one element type, got f32, f64\n"
            "  operand    f32[4,6]\n  source     f64[2,2]\n  init_value f32[]\n"
            "fix: convert with xb.convert_element_type; nothing is promoted silently"
        ),
    ),
    "sizes of the source": (
        lambda x: scattered(x, "f32[2,3]", *WINDOW),
        xb.ShapeInferenceError,
        (
            "select_and_scatter: source must have one element for each position of the window, "
            "f32[2,2], got f32[2,3]"
        ),
    ),
    "rank of the source": (
        lambda x: scattered(x, "f32[2]", *WINDOW),
        xb.ShapeInferenceError,
        (
            "select_and_scatter: source must have one element for each position of the window, "
            "f32[2,2], got f32[2]"
        ),
    ),
    "init value of another type": (
        lambda x: scattered(x, "f32[2,2]", *WINDOW, init_value=np.int32(0)),
        xb.ShapeInferenceError,
        (
            "select_and_scatter: init_value must be a scalar of the operand's element type, "
            "f32[], got s32[]"
        ),
    ),
    "init value that is not a scalar": (
        lambda x: scattered(x, "f32[2,2]", *WINDOW, init_value=x),
        xb.ShapeInferenceError,
        (
            "select_and_scatter: init_value must be a scalar of the operand's element type, "
            "f32[], got f32[4,6]"
        ),
    ),
    "init value that is not a number": (
        lambda x: scattered(x, "f32[2,2]", *WINDOW, init_value=None),
        xb.OperandError,
        "select_and_scatter: init_value must be an XlaOp, got NoneType",
    ),
    "result of select is not a pred": (
        lambda x: scattered(x, "f32[2,2]", *WINDOW, select=xb.max),
        xb.SignatureError,
        (
            "select_and_scatter: select must be of signature (f32[], f32[]) -> pred[] (selected, "
            "candidate), got (p0: f32[], p1: f32[]) -> f32[]"
        ),
    ),
    "select of one": (
        lambda x: scattered(x, "f32[2,2]", *WINDOW, select=lambda a: a > 0.0),
        xb.SignatureError,
        "select_and_scatter: select is called with 2 arguments (f32[], f32[])",
    ),
    "scatter gives a pred": (
        lambda x: scattered(x, "f32[2,2]", *WINDOW, scatter=xb.ge),
        xb.SignatureError,
        (
            "select_and_scatter: scatter must be of signature (f32[], f32[]) -> f32[] "
            "(accumulated, value), got "
        ),
    ),
    "scatter gives a tuple": (
        lambda x: scattered(x, "f32[2,2]", *WINDOW, scatter=lambda a, b: (a + b,)),
        xb.SignatureError,
        "select_and_scatter: scatter must be of signature (f32[], f32[]) -> f32[]",
    ),
    "window of size 0": (
        lambda x: scattered(x, "f32[2,2]", [0, 3], [2, 3], VALID),
        xb.ShapeInferenceError,
        "select_and_scatter: window_dimensions must be positive, got 0 in [0, 3]",
    ),
    "stride 0": (
        lambda x: scattered(x, "f32[2,2]", [2, 3], [2, 0], VALID),
        xb.ShapeInferenceError,
        "select_and_scatter: window_strides must be positive, got 0 in [2, 0]",
    ),
    "window of another rank": (
        lambda x: scattered(x, "f32[2,2]", [2], [2, 3], VALID),
        xb.ShapeInferenceError,
        "select_and_scatter: window_dimensions must have one entry for each dimension of operand",
    ),
    "strides of another rank": (
        lambda x: scattered(x, "f32[2,2]", [2, 3], [2, 3, 1], VALID),
        xb.ShapeInferenceError,
        "select_and_scatter: window_strides must have one entry for each dimension of operand",
    ),
    "padding of another rank": (
        lambda x: scattered(x, "f32[2,2]", [2, 3], [2, 3], [(0, 0)]),
        xb.ShapeInferenceError,
        "select_and_scatter: padding must have one entry for each dimension of operand: 2",
    ),
    "too large negative padding": (
        lambda x: scattered(x, "f32[0,2]", [2, 3], [2, 3], [(-5, 0), (0, 0)]),
        xb.ShapeInferenceError,
        "select_and_scatter: padding must not remove more elements than the dimension has",
    ),
    "general form": (
        lambda x: xb.select_and_scatter_with_general_padding(
            x, xb.ge, [2, 3], [0, 3], [(0, 0), (0, 0)], x, 0.0, xb.add
        ),
        xb.ShapeInferenceError,
        "select_and_scatter_with_general_padding: window_strides must be positive, got 0 in [0, 3]",
    ),
}


@each_row("name", REFUSED_SELECTIONS)
def test_select_and_scatter_refuses(x: xb.XlaOp, name: str) -> None:
    names = ("select_and_scatter", "select_and_scatter_with_general_padding")
    refused(REFUSED_SELECTIONS[name], x, names)
