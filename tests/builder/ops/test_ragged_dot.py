"""Shapes, recorded ops and errors of dot products with groups of unequal sizes."""

from __future__ import annotations

from typing import Any

import pytest
from tables import each_row

import builder as xb
from builder import shape_inference as infer
from builder.ops.contraction.dot_product import RaggedMode, ragged_mode, ragged_prefix

Ragged = xb.RaggedDotDimensionNumbers
ROWS = Ragged((([1], [1]), ([], [])), [0], [0])
INNER = Ragged((([1], [0]), ([], [])), [1])
BATCHED_ROWS = Ragged((([3], [2]), ([0], [1])), [2], [0])
BATCHED_INNER = Ragged((([2, 3], [1, 2]), ([0], [0])), [3])
BATCHES = Ragged((([3], [2]), ([0, 1], [0, 1])), [1])


def operands(*texts: str) -> list[xb.XlaOp]:
    b = xb.XlaBuilder()
    return [b.parameter(t) for t in texts]


@each_row(
    "numbers, lhs, rhs, sizes, result",
    [
        # The ragged dimension is neither contracting nor batch, contracting, batch.
        (ROWS, "f32[11,5]", "f32[3,5,7]", "u32[3]", "f32[11,7]"),
        (INNER, "f32[11,5]", "f32[5,7]", "s64[3]", "f32[3,11,7]"),
        (Ragged((([2], [1]), ([0], [0])), [0]), "s8[3,11,5]", "s8[3,5,7]", "s8[2]", "s8[3,11,7]"),
        # Separate groups for each index of the dimensions before the ragged one.
        (BATCHED_ROWS, "f32[19,17,11,5]", "f32[3,19,5,7]", "s32[3]", "f32[19,17,11,7]"),
        (BATCHED_ROWS, "f32[19,17,11,5]", "f32[3,19,5,7]", "s32[19,17,3]", "f32[19,17,11,7]"),
        (BATCHED_INNER, "f32[2,11,4,5]", "f32[2,4,5,7]", "s32[2,4,3]", "f32[3,2,11,7]"),
        (BATCHES, "f32[2,6,11,5]", "f32[2,6,5,7]", "s32[2,3]", "f32[2,6,11,7]"),
        (BATCHES, "f32[2,6,11,5]", "f32[2,6,5,7]", "s32[3]", "f32[2,6,11,7]"),
        # The group dimension anywhere in rhs; no groups; empty groups.
        (Ragged((([1], [2]), ([], [])), [0], [1]), "f32[4,5]", "f32[7,3,5]", "s4[3]", "f32[4,7]"),
        (ROWS, "f32[11,5]", "f32[0,5,7]", "s32[0]", "f32[11,7]"),
        (INNER, "f32[11,0]", "f32[0,7]", "s32[0]", "f32[0,11,7]"),
        # Bounded and unbounded sizes.
        (ROWS, "f32[<=11,5]", "f32[3,5,<=7]", "s32[3]", "f32[<=11,<=7]"),
        (ROWS, "f32[11,5]", "f32[<=3,5,7]", "s32[3]", "f32[11,7]"),
        (INNER, "f32[11,<=5]", "f32[5,7]", "s32[<=3]", "f32[<=3,11,7]"),
        (ROWS, "f32[?,5]", "f32[?,5,7]", "s32[3]", "f32[?,7]"),
        (INNER, "f32[11,5]", "f32[5,7]", "s32[?]", "f32[?,11,7]"),
    ],
)
def test_shape(numbers: Ragged, lhs: str, rhs: str, sizes: str, result: str) -> None:
    shapes = [xb.parse_shape(text) for text in (lhs, rhs, sizes)]
    assert infer.ragged_dot(*shapes, numbers) is xb.parse_shape(result)
    assert xb.ragged_dot(*operands(lhs, rhs, sizes), numbers).shape is xb.parse_shape(result)


def test_modes_and_outer_dimensions() -> None:
    modes = [
        (ragged_mode(n), ragged_prefix(n))
        for n in (ROWS, INNER, BATCHED_ROWS, BATCHED_INNER, BATCHES)
    ]
    assert modes == [
        (RaggedMode.FREE, ()),
        (RaggedMode.CONTRACTING, ()),
        (RaggedMode.FREE, (0, 1)),
        (RaggedMode.CONTRACTING, (0, 2)),
        (RaggedMode.BATCH, (0,)),
    ]


def test_recorded_op() -> None:
    x, w, sizes = operands("bf16[11,5]", "bf16[3,5,7]", "s32[3]")
    high, highest = xb.Precision.HIGH, xb.Precision.HIGHEST
    y = xb.ragged_dot(x, w, sizes, ROWS, [high, highest], "f32")
    assert y.opcode == "ragged_dot"
    assert y.operands == (x, w, sizes)
    assert y.attributes == {"dimension_numbers": ROWS, "precision": (high, highest)}
    assert str(y.shape) == "f32[11,7]"
    again = xb.ragged_dot(x, w, sizes, (ROWS.dot_dimension_numbers, [0], [0]), [high, highest])
    assert again.attributes == y.attributes
    assert (
        xb.ragged_dot(x, w, sizes, ROWS).attributes is xb.ragged_dot(x, w, sizes, ROWS).attributes
    )


REFUSED: dict[str, tuple[Ragged, str, str, str, dict[str, Any], str]] = {
    "types": (
        *(ROWS, "f32[11,5]", "f64[3,5,7]", "s32[3]", {}),
        "operands must have one element type, got f32, f64",
    ),
    "contracting sizes": (
        *(ROWS, "f32[11,5]", "f32[3,6,7]", "s32[3]", {}),
        "contracting dimensions must have equal sizes, got dimension 1 of lhs (size 5)",
    ),
    "no ragged dimension": (
        *(Ragged(ROWS.dot_dimension_numbers), "f32[11,5]", "f32[3,5,7]", "s32[3]", {}),
        "lhs_ragged_dimensions must be one dimension, got 0: []",
    ),
    "two ragged dimensions": (
        *(Ragged(ROWS.dot_dimension_numbers, [0, 1], [0]), "f32[11,5]", "f32[3,5,7]", "s32[3]"),
        {},
        "lhs_ragged_dimensions must be one dimension, got 2: [0, 1]",
    ),
    "ragged out of range": (
        *(Ragged(ROWS.dot_dimension_numbers, [2], [0]), "f32[11,5]", "f32[3,5,7]", "s32[3]", {}),
        "lhs_ragged_dimensions must be a dimension of lhs (0 to 1), got 2",
    ),
    "group out of range": (
        *(Ragged(ROWS.dot_dimension_numbers, [0], [-1]), "f32[11,5]", "f32[3,5,7]", "s32[3]", {}),
        "rhs_group_dimensions must be a dimension of rhs (0 to 2), got -1",
    ),
    "group is contracting": (
        *(Ragged(ROWS.dot_dimension_numbers, [0], [1]), "f32[11,5]", "f32[3,5,7]", "s32[3]", {}),
        (
            "rhs_group_dimensions, rhs_batch_dimensions and rhs_contracting_dimensions together "
            "must not name a dimension twice, got 1 twice"
        ),
    ),
    "no group dimension": (
        *(Ragged(ROWS.dot_dimension_numbers, [0]), "f32[11,5]", "f32[3,5,7]", "s32[3]", {}),
        (
            "rhs_group_dimensions must list one dimension if the ragged dimension of lhs is "
            "neither contracting nor batch, got []"
        ),
    ),
    "two group dimensions": (
        *(Ragged(INNER.dot_dimension_numbers, [1], [1]), "f32[11,5]", "f32[5,7]", "s32[3]", {}),
        (
            "rhs_group_dimensions must be empty if the ragged dimension of lhs is contracting, "
            "got [1]"
        ),
    ),
    "groups": (
        *(ROWS, "f32[11,5]", "f32[4,5,7]", "s32[3]", {}),
        (
            "the group dimension of rhs must have the size of the last dimension of group_sizes, "
            "got dimension 0 of rhs (size 4) and dimension 0 of group_sizes (size 3)"
        ),
    ),
    "sizes of floats": (
        *(ROWS, "f32[11,5]", "f32[3,5,7]", "f32[3]", {}),
        "group_sizes must be of integer type, got f32",
    ),
    "sizes of preds": (
        *(ROWS, "f32[11,5]", "f32[3,5,7]", "pred[3]", {}),
        "group_sizes must be of integer type, got pred",
    ),
    "rank of sizes": (
        *(ROWS, "f32[11,5]", "f32[3,5,7]", "s32[]", {}),
        "group_sizes must have sizes [groups], got rank 0",
    ),
    "rank of more sizes": (
        *(BATCHED_ROWS, "f32[19,17,11,5]", "f32[3,19,5,7]", "s32[19,3]", {}),
        "group_sizes must have sizes [groups] or [19, 17, groups], got rank 2",
    ),
    "form of sizes": (
        *(BATCHED_ROWS, "f32[19,17,11,5]", "f32[3,19,5,7]", "s32[19,11,3]", {}),
        "group_sizes must have sizes [groups] or [19, 17, groups], got 11 in place of 17",
    ),
    "a token": (
        *(ROWS, "f32[11,5]", "f32[3,5,7]", "token[]", {}),
        "group_sizes must be an array, got a token",
    ),
    "preferred element type": (
        *(ROWS, "f32[11,5]", "f32[3,5,7]", "s32[3]", {"preferred_element_type": xb.f16}),
        "preferred_element_type must be the operands' element type, f32, or a wider type",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    numbers, lhs, rhs, sizes, arguments, text = REFUSED[name]
    shapes = [xb.parse_shape(text) for text in (lhs, rhs, sizes)]
    with pytest.raises(xb.ShapeInferenceError) as error:
        infer.ragged_dot(*shapes, numbers, **arguments)
    assert str(error.value).startswith("ragged_dot: ")
    assert text in str(error.value)


@each_row("numbers", [None, 3, "rows", [], [1, 2], object()])
def test_invalid_dimension_numbers(numbers: Any) -> None:
    x, w, sizes = operands("f32[11,5]", "f32[3,5,7]", "s32[3]")
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.ragged_dot(x, w, sizes, numbers)
    assert str(error.value).startswith("ragged_dot: dimension_numbers must be RaggedDotDimensionN")


def test_invalid_fields_of_dimension_numbers() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="must be DotDimensionNumbers or a pair of"):
        Ragged([1], [0], [0])  # type: ignore[arg-type]
    with pytest.raises(xb.ShapeInferenceError, match="lhs_ragged_dimensions must be a sequence"):
        Ragged(ROWS.dot_dimension_numbers, 0, [0])  # type: ignore[arg-type]


def test_operands_that_are_not_ops() -> None:
    x, w = operands("f32[11,5]", "f32[3,5,7]")
    with pytest.raises(xb.OperandError, match="ragged_dot: group_sizes must be an XlaOp, got list"):
        xb.ragged_dot(x, w, [1, 2, 3], ROWS)  # type: ignore[arg-type]
