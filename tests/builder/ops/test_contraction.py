"""Shapes, recorded ops and errors of dot products."""

from __future__ import annotations

from typing import Any

import pytest
from tables import each_row

import builder as xb
from builder import shape_inference as infer

MATMUL = xb.DotDimensionNumbers([1], [0])


def shape(text: str) -> xb.Shape:
    return xb.parse_shape(text)


def operands(*texts: str) -> list[xb.XlaOp]:
    b = xb.XlaBuilder()
    return [b.parameter(t) for t in texts]


# --- Shapes -------------------------------------------------------------------------------------


@each_row(
    "lhs, rhs, result",
    [
        # The document's table.
        ("f32[5]", "f32[5]", "f32[]"),
        ("f32[3,4]", "f32[4]", "f32[3]"),
        ("f32[3,4]", "f32[4,5]", "f32[3,5]"),
        # Dimension 1 of lhs is contracted with dimension 0 of rhs for any ranks.
        ("f32[4]", "f32[4,5]", "f32[5]"),
        ("f32[2,2,3]", "f32[2,2,3]", "f32[2,3,2,3]"),
        ("s32[2,0]", "s32[0,3]", "s32[2,3]"),
        ("f32[3,3]", "f32[3,<=4]", "f32[3,<=4]"),
        ("u4[5,6]", "u4[<=6,1]", "u4[5,1]"),
        ("f32[3,?]", "f32[0,?]", "f32[3,?]"),
    ],
)
def test_dot_shape(lhs: str, rhs: str, result: str) -> None:
    assert infer.dot(shape(lhs), shape(rhs)) is shape(result)
    x, y = operands(lhs, rhs)
    assert xb.dot(x, y).shape is shape(result)


@each_row(
    "lhs, rhs, numbers, result",
    [
        # The document's examples and table.
        ("f32[2,3]", "f32[2,3]", ([1], [1], [], []), "f32[2,2]"),
        ("f32[2,2,2]", "f32[2,2,2]", ([2], [1], [0], [0]), "f32[2,2,2]"),
        ("f32[9,3,4]", "f32[9,4,5]", ([2], [1], [0], [0]), "f32[9,3,5]"),
        ("f32[9,8,3,4]", "f32[9,8,4,5]", ([3], [2], [0, 1], [0, 1]), "f32[9,8,3,5]"),
        # Dimensions in any order; batch dimensions come first, in the order of lhs.
        ("f32[3,7,6,6]", "f32[6,3,7,3]", ([0], [1], [3, 1], [0, 2]), "f32[6,7,6,3]"),
        ("s32[]", "s32[1,2]", ([], [], [], []), "s32[1,2]"),
        ("s32[6,4]", "s32[4,6]", ([1, 0], [0, 1], [], []), "s32[]"),
        # Batch dimensions have the sizes of lhs.
        ("f32[4]", "f32[<=4]", ([], [], [0], [0]), "f32[4]"),
        ("f32[<=1]", "f32[1]", ([], [], [0], [0]), "f32[<=1]"),
        ("f32[?,3,4]", "f32[2,4,?]", ([2], [1], [0], [0]), "f32[?,3,?]"),
    ],
)
def test_dot_general_shape(lhs: str, rhs: str, numbers: Any, result: str) -> None:
    inferred = infer.dot_general(shape(lhs), shape(rhs), xb.DotDimensionNumbers(*numbers))
    assert inferred is shape(result)


@each_row(
    "element_type, to, fits",
    [
        (xb.f32, xb.f32, True),
        (xb.bf16, xb.f32, True),
        (xb.f8e4m3fn, xb.f16, True),
        (xb.s8, xb.s32, True),
        (xb.u8, xb.s32, True),
        (xb.c64, xb.c128, True),
        (xb.pred, xb.pred, True),
        (xb.f32, xb.f16, False),
        (xb.bf16, xb.f16, False),
        (xb.f16, xb.bf16, False),
        (xb.f4e2m1fn, xb.f8e8m0fnu, False),
        (xb.s8, xb.u32, False),
        (xb.s32, xb.f32, False),
        (xb.f32, xb.c64, False),
        (xb.pred, xb.s32, False),
    ],
)
def test_preferred_element_type(
    element_type: xb.PrimitiveType, to: xb.PrimitiveType, fits: bool
) -> None:
    x, y = operands(str(element_type[2, 3]), str(element_type[3, 4]))
    if fits:
        assert xb.dot(x, y, preferred_element_type=to).shape is to[2, 4]
        assert xb.dot_general(x, y, MATMUL, preferred_element_type=to.name).shape is to[2, 4]
    else:
        with pytest.raises(xb.ShapeInferenceError, match="preferred_element_type must be"):
            xb.dot(x, y, preferred_element_type=to)


# --- Recorded ops -------------------------------------------------------------------------------


def test_dot_is_recorded_as_dot_general() -> None:
    x, y = operands("f32[3,4]", "f32[4]")
    default = (xb.Precision.DEFAULT, xb.Precision.DEFAULT)
    z = xb.dot(x, y)
    assert z.opcode == "dot_general"
    assert z.operands == (x, y)
    assert z.attributes == {
        "dimension_numbers": xb.DotDimensionNumbers([1], [0]),
        "precision": default,
        "algorithm": None,
    }
    assert (y @ y).attributes["dimension_numbers"] == xb.DotDimensionNumbers([0], [0])
    assert (x @ y).attributes is z.attributes


def test_dimension_numbers_as_pairs() -> None:
    x, y = operands("f32[7,3,4]", "f32[7,4,5]")
    z = xb.dot_general(x, y, (([2], [1]), ([0], [0])))
    assert z.attributes["dimension_numbers"] == xb.DotDimensionNumbers([2], [1], [0], [0])
    assert z.shape is xb.f32[7, 3, 5]


def test_precision() -> None:
    x, y = operands("f32[3,4]", "f32[4]")
    high, highest = xb.Precision.HIGH, xb.Precision.HIGHEST
    assert xb.dot(x, y, highest).attributes["precision"] == (highest, highest)
    z = xb.dot_general(x, y, MATMUL, precision=[high, highest])
    assert z.attributes["precision"] == (high, highest)
    # Names are accepted, as for other enumerations.
    assert xb.dot(x, y, "HIGHEST").attributes["precision"] == (highest, highest)
    z = xb.dot_general(x, y, MATMUL, precision=("HIGH", highest))
    assert z.attributes["precision"] == (high, highest)


@each_row("algorithm", list(xb.DotAlgorithm))
def test_algorithms_take_their_types(algorithm: xb.DotAlgorithm) -> None:
    kinds = algorithm.value.removeprefix("dot_").split("_")
    element_type = {"any": "f8e4m3fn", "tf32": "f32"}.get(kinds[0], kinds[0])
    if algorithm.value.endswith(("x3", "x6", "x9")):
        element_type = "f32"
    result = "f32" if "f32" in kinds else element_type
    x, y = operands(f"{element_type}[3,4]", f"{element_type}[4,5]")
    z = xb.dot_general(x, y, MATMUL, algorithm=algorithm.value, preferred_element_type=result)
    assert z.attributes["algorithm"] is algorithm
    x, y = operands("s32[3,4]", "s32[4,5]")
    with pytest.raises(xb.ShapeInferenceError, match=f"algorithm {algorithm.value} takes operands"):
        xb.dot_general(x, y, MATMUL, algorithm=algorithm)


def test_dimension_numbers_are_values() -> None:
    assert xb.DotDimensionNumbers([1], [0]) == xb.DotDimensionNumbers((1,), (0,))
    assert hash(xb.DotDimensionNumbers([1], [0])) == hash(xb.DotDimensionNumbers((1,), (0,)))


# --- Errors -------------------------------------------------------------------------------------


def test_the_complete_message() -> None:
    x, y = operands("f32[32,784]", "f32[100,10]")
    with pytest.raises(xb.ShapeInferenceError) as error:
        x @ y
    assert str(error.value) == (
        "dot: contracting dimensions must have equal sizes, got dimension 1 of lhs (size 784) and "
        "dimension 0 of rhs (size 100)\n"
        "  lhs f32[32,784]\n"
        "  rhs f32[100,10]"
    )
    assert error.value.op == "dot"
    assert error.value.shapes == {"lhs": x.shape, "rhs": y.shape}
    assert error.value.dimension == 1


@each_row(
    "lhs, rhs, text",
    [
        ("f32[]", "f32[2]", "lhs must have a dimension to sum over, got a scalar"),
        ("f32[2]", "f32[]", "rhs must have a dimension to sum over, got a scalar"),
        ("f32[2]", "s32[2]", "operands must have one element type, got f32, s32"),
        ("f32[2]", "token[]", "rhs must be an array, got a token"),
        ("(f32[2])", "f32[2]", "lhs must be an array, got a tuple"),
        ("f32[0,3]", "f32[<=2,3]", "dimension 1 of lhs (size 3) and dimension 0 of rhs (size <=2)"),
    ],
)
def test_dot_errors(lhs: str, rhs: str, text: str) -> None:
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.dot(*operands(lhs, rhs))
    assert str(error.value).startswith("dot: ")
    assert text in str(error.value)


@each_row(
    "numbers, text",
    [
        (([3], [1], [0], [0]), "lhs_contracting_dimensions must be a dimension of lhs (0 to 2)"),
        (([2], [-1], [0], [0]), "rhs_contracting_dimensions must be a dimension of rhs (0 to 2)"),
        (([2], [1], [3], [0]), "lhs_batch_dimensions must be a dimension of lhs (0 to 2), got 3"),
        (([2], [1], [0], [3]), "rhs_batch_dimensions must be a dimension of rhs (0 to 2), got 3"),
        (([2, 2], [1, 1], [], []), "must not name a dimension twice, got 2 twice in [2, 2]"),
        (([2], [0], [0], [0]), "rhs_contracting_dimensions and rhs_batch_dimensions together"),
        (
            ([2], [], [0], [0]),
            "the same number of contracting dimensions, got 1 of lhs, [2], and 0",
        ),
        (
            ([2], [1], [0], []),
            "the same number of batch dimensions, got 1 of lhs, [0], and 0 of rhs",
        ),
        (
            ([1], [1], [], []),
            "contracting dimensions must have equal sizes, got dimension 1 of lhs",
        ),
        (([], [], [1], [2]), "batch dimensions must have equal sizes, got dimension 1 of lhs"),
    ],
)
def test_dot_general_errors(numbers: Any, text: str) -> None:
    x, y = operands("f32[2,3,4]", "f32[2,4,5]")
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.dot_general(x, y, xb.DotDimensionNumbers(*numbers))
    assert str(error.value).startswith("dot_general: ")
    assert text in str(error.value)


def test_a_result_that_is_too_large() -> None:
    x, y = operands("u8[4611686018427387904]", "u8[2]")
    with pytest.raises(xb.ShapeInferenceError, match="more than 2"):
        xb.dot_general(x, y, xb.DotDimensionNumbers())


@each_row(
    "arguments, text",
    [
        ({"dimension_numbers": [1]}, "must be DotDimensionNumbers or a pair of pairs, got [1]"),
        ({"dimension_numbers": ((1, 0), ([], []))}, "must be a sequence of integers, got 1"),
        ({"precision": "highest"}, "precision must be a Precision, or a pair of them"),
        ({"precision": "HIGHER"}, "got 'HIGHER'\nfix: write for instance 'HIGHEST' or ('HIGH', "),
        ({"precision": "AB"}, "precision must be a Precision, or a pair of them"),
        ({"precision": ["HIGH", None]}, "precision must be a Precision, or a pair of them"),
        ({"precision": [xb.Precision.HIGH]}, "fix: write for instance 'HIGHEST'"),
        ({"algorithm": "dot_f12"}, "algorithm must be one of dot_any_f8_any_f8_f32, "),
        (
            {"algorithm": "dot_f64_f64_f64"},
            "takes operands of f64 with a result of f64, got operan",
        ),
        (
            {"algorithm": "dot_f32_f32_f32", "precision": xb.Precision.HIGH},
            "at most one of precision and algorithm is allowed",
        ),
    ],
)
def test_arguments_of_wrong_types(arguments: dict[str, Any], text: str) -> None:
    x, y = operands("f32[2,3]", "f32[3,4]")
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.dot_general(x, y, **({"dimension_numbers": MATMUL} | arguments))
    assert text in str(error.value)


def test_operands_that_are_not_ops() -> None:
    (x,) = operands("f32[2]")
    with pytest.raises(xb.OperandError, match="dot: rhs must be an XlaOp, got int"):
        x @ 2
    with pytest.raises(xb.OperandError, match="dot_general: lhs must be an XlaOp"):
        xb.dot_general([1.0, 2.0], x, MATMUL)  # type: ignore[arg-type]
