"""Runtime sizes: shapes, recorded ops, refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb

SCALAR = xb.s32[()]


@pytest.fixture
def b() -> xb.XlaBuilder:
    return xb.XlaBuilder("dynamic")


SHAPES = ["f32[5]", "f32[<=5]", "s4[2,<=3]", "pred[<=2,0,<=7]", "c128[2147483647]", "f32[3,?]"]


@each_row("shape", SHAPES)
def test_the_size_of_a_dimension_is_a_scalar_s32(b: xb.XlaBuilder, shape: str) -> None:
    x = b.parameter(shape)
    for dimension in range(x.shape.rank):
        op = xb.get_dimension_size(x, dimension)
        assert op.shape is SCALAR
        assert op.opcode == "get_dimension_size"
        assert op.attributes == {"dimension": dimension}


@each_row(
    "shape, dimension, result",
    [
        ("f32[5]", 0, "f32[<=5]"),
        ("f32[<=5]", 0, "f32[<=5]"),
        ("s4[2,<=3]", 0, "s4[<=2,<=3]"),
        ("pred[2,0,7]", 1, "pred[2,<=0,7]"),
        ("c128[2147483647]", 0, "c128[<=2147483647]"),
        ("f32[2147483648,2]", 1, "f32[2147483648,<=2]"),
        ("f32[?,3]", 0, "f32[?,3]"),
        ("f32[?,3]", 1, "f32[?,<=3]"),
    ],
)
def test_set_dimension_size_results_in_a_bound(
    b: xb.XlaBuilder, shape: str, dimension: int, result: str
) -> None:
    x, size = b.parameter(shape), b.parameter(SCALAR)
    op = xb.set_dimension_size(x, size, dimension)
    assert str(op.shape) == result
    assert op.opcode == "set_dimension_size"
    assert op.operands == (x, size)
    assert op.attributes is xb.set_dimension_size(x, size, dimension).attributes


@each_row("size", [0, 4, 5, np.int32(5), np.array(3, np.int32)])
def test_a_number_as_a_size(b: xb.XlaBuilder, size: Any) -> None:
    x = b.parameter("f32[5]")
    op = xb.set_dimension_size(x, size, 0)
    # Also if it equals the bound, as in XlaBuilder since 2024.
    assert str(op.shape) == "f32[<=5]"
    assert op.operands[1].opcode == "constant"
    assert op.operands[1].attributes["value"] == size


@each_row(
    "shape, dimension, result",
    [
        ("f32[<=5]", 0, "f32[5]"),
        ("f32[5]", 0, "f32[5]"),
        ("s4[<=2,<=3]", 1, "s4[<=2,3]"),
        ("u8[<=0,4]", 0, "u8[0,4]"),
    ],
)
def test_a_bound_becomes_the_size(
    b: xb.XlaBuilder, shape: str, dimension: int, result: str
) -> None:
    x = b.parameter(shape)
    op = xb.remove_dynamic_dimension(x, dimension)
    assert str(op.shape) == result
    assert op.opcode == "set_dimension_size"
    assert op.operands[1].attributes["value"] == x.shape.dimensions[dimension]


@each_row(
    "shape, bounds, dynamic, result",
    [
        ("f32[<=4,3]", [12], [True], "f32[<=12]"),
        ("f32[<=12]", [4, 3], [True, False], "f32[<=4,3]"),
        ("s4[2,3]", [3, 2], [True, True], "s4[<=3,<=2]"),
        ("f32[<=2,<=3]", [6], [False], "f32[6]"),
        ("f32[<=1]", [], [], "f32[]"),
        ("f32[0,5]", [7, 0], [True, False], "f32[<=7,0]"),
        ("f32[]", [1, 1], [False, True], "f32[1,<=1]"),
        ("f32[?,3]", [xb.UNBOUNDED], [True], "f32[?]"),
        ("f32[<=4,3]", [3, xb.UNBOUNDED, 2], [True, True, False], "f32[<=3,?,2]"),
    ],
)
def test_dynamic_reshape(
    b: xb.XlaBuilder, shape: str, bounds: list[int], dynamic: list[bool], result: str
) -> None:
    x = b.parameter(shape)
    sizes = [b.parameter(SCALAR) for _ in bounds]
    op = xb.dynamic_reshape(x, sizes, bounds, dynamic)
    assert str(op.shape) == result
    assert op.opcode == "dynamic_reshape"
    assert op.operands == (x, *sizes)


@each_row(
    "source, places, result",
    [
        ("f32[3]", [1], "f32[?,3]"),
        ("f32[?,1]", [2, 0], "f32[5,4,?]"),
        ("f32[]", [], "f32[<=4,?]"),
        ("f32[1,1]", [1, 0], "f32[2,3]"),
    ],
)
def test_dynamic_broadcast(b: xb.XlaBuilder, source: str, places: list[int], result: str) -> None:
    x, shape = b.parameter(source), xb.parse_shape(result)
    assert isinstance(shape, xb.ArrayShape)
    sizes = b.parameter(xb.s32[shape.rank])
    op = xb.dynamic_broadcast_in_dim(x, sizes, places, result)
    assert op.shape is shape
    assert op.operands == (x, sizes)
    assert op.attributes == {"broadcast_dimensions": tuple(places)}


def test_numbers_as_sizes_of_a_reshape(b: xb.XlaBuilder) -> None:
    x, n = b.parameter("f32[<=4,3]"), b.parameter(SCALAR)
    op = xb.dynamic_reshape(x, [n, 3, 1], (4, 3, 1), (True, False, False))
    assert str(op.shape) == "f32[<=4,3,1]"
    assert [o.opcode for o in op.operands] == ["parameter", "parameter", "constant", "constant"]


def test_hlo_text(b: xb.XlaBuilder) -> None:
    x, n = b.parameter("f32[<=4,3]", "x"), b.parameter(SCALAR, "n")
    y = xb.set_dimension_size(x, n, 1)
    z = xb.dynamic_reshape(y, [n * n], [12], [True])
    text = str(b.build(xb.tuple(z, xb.get_dimension_size(y, 1))))
    for line in (
        "f32[<=4,<=3]{1,0} set-dimension-size(%x, %n), dimensions={1}",
        "f32[<=12]{0} dynamic-reshape(%set-dimension-size.2, %multiply.3)",
        "s32[] get-dimension-size(%set-dimension-size.2), dimensions={1}",
    ):
        assert line in text


def of(b: xb.XlaBuilder, shape: str) -> xb.XlaOp:
    return b.parameter(shape, number=len(b.parameters))


REFUSED = {
    "get: tuple": (
        lambda b: xb.get_dimension_size(xb.tuple(of(b, "f32[2]")), 0),
        "get_dimension_size: operand must be an array, got a tuple",
    ),
    "get: dimension": (
        lambda b: xb.get_dimension_size(of(b, "f32[2,3]"), 2),
        (
            "get_dimension_size: dimension must be a dimension of operand (0 to 1), got 2\n"
            "  operand f32[2,3]"
        ),
    ),
    "get: negative": (
        lambda b: xb.get_dimension_size(of(b, "f32[2]"), -1),
        "get_dimension_size: dimension must be a dimension of operand (0 to 0), got -1",
    ),
    "get: scalar": (
        lambda b: xb.get_dimension_size(of(b, "f32[]"), 0),
        "get_dimension_size: dimension must be a dimension of operand (it has none), got 0",
    ),
    "get: large": (
        lambda b: xb.get_dimension_size(of(b, "s8[2147483648]"), 0),
        (
            "get_dimension_size: dimension 0 of operand must have a size that fits s32, at most "
            "2147483647, got 2147483648\n"
        ),
    ),
    "get: not an integer": (
        lambda b: xb.get_dimension_size(of(b, "f32[2]"), 0.5),
        "get_dimension_size: dimension must be an integer, got 0.5",
    ),
    "get: not an op": (
        lambda b: xb.get_dimension_size([1, 2], 0),
        "get_dimension_size: operand must be an XlaOp, got list",
    ),
    "set: token": (
        lambda b: xb.set_dimension_size(of(b, "token[]"), of(b, "s32[]"), 0),
        "set_dimension_size: operand must be an array, got a token",
    ),
    "set: dimension": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), of(b, "s32[]"), 1),
        "set_dimension_size: dimension must be a dimension of operand (0 to 0), got 1",
    ),
    "set: large": (
        lambda b: xb.set_dimension_size(of(b, "f32[2147483648]"), of(b, "s32[]"), 0),
        "set_dimension_size: dimension 0 of operand must have a size that fits s32",
    ),
    "set: type of the size": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), of(b, "s64[]"), 0),
        (
            "set_dimension_size: size must be of s32 type, got s64\n"
            "  operand f32[2]\n  size    s64[]\n"
            "fix: convert size to s32 with xb.convert_element_type"
        ),
    ),
    "set: rank of the size": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), of(b, "s32[1]"), 0),
        "set_dimension_size: size must be a scalar, got s32[1]",
    ),
    "set: size is a tuple": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), xb.tuple(of(b, "s32[]")), 0),
        "set_dimension_size: size must be an array, got a tuple",
    ),
    "set: number above the bound": (
        lambda b: xb.set_dimension_size(of(b, "f32[<=2,3]"), 3, 0),
        (
            "set_dimension_size: size must be from 0 to the size or bound of "
            "dimension 0, <=2, got 3\n"
        ),
    ),
    "set: constant above the bound": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), b.constant(3, xb.s32), 0),
        ("set_dimension_size: size must be from 0 to the size or bound of dimension 0, 2, got 3\n"),
    ),
    "set: negative number": (
        lambda b: xb.set_dimension_size(of(b, "f32[?]"), -1, 0),
        (
            "set_dimension_size: size must be from 0 to the size or bound of "
            "dimension 0, ?, got -1\n"
        ),
    ),
    "set: number of another type": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), np.int64(1), 0),
        "set_dimension_size: size must be of s32 type, got s64",
    ),
    "set: number that no s32 holds": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), 2**40, 0),
        "set_dimension_size: s32 can't represent the Python number 1099511627776",
    ),
    "set: fraction": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), 1.5, 0),
        "set_dimension_size: s32 can't represent the Python number 1.5",
    ),
    "set: not a size": (
        lambda b: xb.set_dimension_size(of(b, "f32[2]"), None, 0),
        "set_dimension_size: size must be an XlaOp, got NoneType",
    ),
    "remove: dimension": (
        lambda b: xb.remove_dynamic_dimension(of(b, "f32[<=2]"), 17),
        "remove_dynamic_dimension: dimension must be a dimension of operand (0 to 0), got 17",
    ),
    "remove: tuple": (
        lambda b: xb.remove_dynamic_dimension(xb.tuple(of(b, "f32[<=2]")), 0),
        "remove_dynamic_dimension: operand must be an array, got a tuple",
    ),
    "remove: unbounded": (
        lambda b: xb.remove_dynamic_dimension(of(b, "f32[?]"), 0),
        "remove_dynamic_dimension: dimension 0 must have a bound, which becomes its static size",
    ),
    "remove: large": (
        lambda b: xb.remove_dynamic_dimension(of(b, "f32[<=2147483648]"), 0),
        "remove_dynamic_dimension: dimension 0 of operand must have a size that fits s32",
    ),
    "reshape: tuple": (
        lambda b: xb.dynamic_reshape(xb.tuple(of(b, "f32[2]")), [2], [2], [True]),
        "dynamic_reshape: operand must be an array, got a tuple",
    ),
    "reshape: negative": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), [2], [-2], [True]),
        ("dynamic_reshape: the sizes in new_size_bounds must not be negative, got -2 in [-2]"),
    ),
    "reshape: count of marks": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), [2], [2], [True, False]),
        (
            "dynamic_reshape: dims_are_dynamic must have one entry for each entry of "
            "new_size_bounds: 1, got 2: [True, False]\n"
        ),
    ),
    "reshape: count of sizes": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), [], [2], [True]),
        "dynamic_reshape: dim_sizes must have one entry for each entry of new_size_bounds: 1",
    ),
    "reshape: type of a size": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), [of(b, "s32[2]")], [2], [True]),
        (
            "dynamic_reshape: dim size 0 must be a scalar, got s32[2]\n"
            "  operand    f32[2]\n  dim size 0 s32[2]"
        ),
    ),
    "reshape: elements": (
        lambda b: xb.dynamic_reshape(of(b, "f32[<=2,3]"), [5], [5], [True]),
        (
            "dynamic_reshape: the number of elements must stay the same, dynamic sizes counted at "
            "their bounds: operand has 6, the result f32[<=5] has 5"
        ),
    ),
    "reshape: unbounded": (
        lambda b: xb.dynamic_reshape(of(b, "f32[?]"), [5], [5], [True]),
        "dynamic_reshape: operand must not have unbounded dimensions",
    ),
    "reshape: unbounded and static": (
        lambda b: xb.dynamic_reshape(of(b, "f32[?]"), [5], [xb.UNBOUNDED], [False]),
        (
            "dynamic_reshape: dims_are_dynamic must be True for an unbounded size, got False in "
            "dims_are_dynamic[0]"
        ),
    ),
    "reshape: large": (
        lambda b: xb.dynamic_reshape(of(b, "s8[2,2147483648]"), [1], [2**32], [True]),
        "dynamic_reshape: dimension 0 of the result must have a size that fits s32",
    ),
    "reshape: not a size": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), [None], [2], [True]),
        "dynamic_reshape: dim size 0 must be an XlaOp, got NoneType",
    ),
    "reshape: a size alone": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), "2", [2], [True]),
        "dynamic_reshape: dim size 0 must be an XlaOp, got str",
    ),
    "reshape: marks": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), [2], [2], [1]),
        (
            "dynamic_reshape: dims_are_dynamic must be a sequence of bools, one for each dimension "
            "of the result, got [1]"
        ),
    ),
    "reshape: bounds": (
        lambda b: xb.dynamic_reshape(of(b, "f32[2]"), [2], 2, [True]),
        "dynamic_reshape: new_size_bounds must be a sequence of integers, got 2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(b: xb.XlaBuilder, name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(xb.XlaError) as caught:
        call(b)
    assert str(caught.value).startswith(message)
    assert caught.value.op == message.partition(":")[0]
    # The constants of sizes are removed.
    assert {op.opcode for op in b.ops} <= {"parameter", "tuple"} | (
        {"constant"} if name == "set: constant above the bound" else set()
    )


def test_a_scalar_operand_of_clamp_is_broadcast_to_fixed_sizes(b: xb.XlaBuilder) -> None:
    """As in XLA. An operand of bounded sizes keeps them."""
    low, x = b.parameter("f32[<=3,2]"), b.parameter("f32[]")
    assert str(xb.clamp(low, x, 1.0).shape) == "f32[3,2]"
    assert str(xb.clamp(0.0, low, x).shape) == "f32[<=3,2]"


def test_at_bounds() -> None:
    assert xb.parse_shape("f32[<=3,2]{0,1}").at_bounds() is xb.parse_shape("f32[3,2]{0,1}")
    assert xb.f32[3].at_bounds() is xb.f32[3]
    with pytest.raises(xb.ShapeInferenceError, match=r"f32\[\?\] has an unbounded dimension"):
        xb.parse_shape("f32[?]").at_bounds()


@pytest.mark.parametrize(
    ("source", "sizes", "places", "shape", "message"),
    [
        (
            "f32[3]",
            "s32[]",
            [0],
            "f32[3]",
            "a vector with one size for each dimension of f32[3], got s32[]",
        ),
        (
            "f32[3]",
            "s32[1]",
            [0],
            "f32[3,2]",
            "a vector with one size for each dimension of f32[3,2], got s32[1]",
        ),
        ("f32[3]", "f32[1]", [0], "f32[3]", "output_dimensions must be of s32 or s64 type, got"),
        ("f32[3]", "s32[1]", [0], "f16[3]", "an array of the operand's element type, got f16[3]"),
        ("f32[3]", "s32[1]", [0], "f32[4]", "dimension 0 of operand has size 3, dimension 0 of"),
        ("f32[3,3]", "s32[2]", [0, 0], "f32[3,3]", "must not name a dimension twice, got 0"),
        ("f32[3]", "s32[1]", [1], "f32[3]", "must be a dimension of shape (0 to 0), got 1"),
        ("f32[3]", "s32[1]", [], "f32[3]", "must have one entry for each dimension of operand: 1"),
        ("f32[3]", "s32[1]", [0], "(f32[3])", "operand's element type, got (f32[3])"),
        ("(f32[3])", "s32[1]", [0], "f32[3]", "operand must be an array, got a tuple"),
    ],
)
def test_dynamic_broadcast_refuses(
    b: xb.XlaBuilder, source: str, sizes: str, places: list[int], shape: str, message: str
) -> None:
    operands = of(b, source), of(b, sizes)
    with pytest.raises(xb.ShapeInferenceError, match=f"^dynamic_broadcast.*{re.escape(message)}"):
        xb.dynamic_broadcast_in_dim(*operands, places, shape)
    assert len(b.ops) == 2


def test_vectors_of_numbers_are_checked() -> None:
    b = xb.XlaBuilder("program")
    x, zero = b.parameter(xb.f32[4, 4], "x"), b.constant(0.0, xb.f32)
    result = xb.f32["?", "?"]
    two, three = b.parameter(xb.s32[2], "two"), b.parameter(xb.s32[3], "three")
    wide, matrix = b.parameter(xb.s64[2], "wide"), b.parameter(xb.s32[2, 2], "matrix")
    for wrong in (three, matrix):
        with pytest.raises(xb.ShapeInferenceError, match="a vector with one number for each dim"):
            xb.dynamic_pad(x, zero, two, wrong, two, result)
        with pytest.raises(xb.ShapeInferenceError, match="a vector with one number for each dim"):
            xb.real_dynamic_slice(x, two, two, wrong, result)
    with pytest.raises(xb.ShapeInferenceError, match="must have one element type"):
        xb.dynamic_pad(x, zero, two, two, wide, result)
    with pytest.raises(xb.ShapeInferenceError, match="must have one element type"):
        xb.real_dynamic_slice(x, two, wide, two, result)
