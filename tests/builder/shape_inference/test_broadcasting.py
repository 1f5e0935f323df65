"""Broadcasting: the document's examples, comparison with NumPy, and refused operands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tables import each_row

import builder as xb


def added(lhs: str, rhs: str, dimensions: tuple[int, ...] | None = None) -> str:
    return str(xb.shape_inference.add(lhs, rhs, dimensions))


class TestTheDocumentsExamples:
    """The worked examples of "Broadcasting", as shapes."""

    def test_scalar_to_matrix(self) -> None:
        assert added("f32[2,3]", "f32[]") == "f32[2,3]"
        assert added("f32[]", "f32[2,3]") == "f32[2,3]"

    def test_vector_to_matrix_needs_dimensions(self) -> None:
        with pytest.raises(xb.ShapeInferenceError, match="need broadcast_dimensions"):
            added("f32[2,3]", "f32[3]")
        assert added("f32[2,3]", "f32[3]", (1,)) == "f32[2,3]"

    @each_row("dimension", [0, 1])
    def test_vector_along_either_dimension(self, dimension: int) -> None:
        assert added("f32[3,3]", "f32[3]", (dimension,)) == "f32[3,3]"

    def test_matrix_to_cuboid(self) -> None:
        assert added("f32[2,3,4]", "f32[3,4]", (1, 2)) == "f32[2,3,4]"

    @each_row("dimension", range(4))
    def test_vector_to_rank_4(self, dimension: int) -> None:
        sizes = (5, 6, 7, 8)
        vector = f"f32[{sizes[dimension]}]"
        assert added("f32[5,6,7,8]", vector, (dimension,)) == "f32[5,6,7,8]"
        for other in set(range(4)) - {dimension}:
            with pytest.raises(
                xb.ShapeInferenceError, match="the sizes must be equal, or one size must be 1"
            ):
                added("f32[5,6,7,8]", vector, (other,))

    @each_row("dimensions", [(2, 3), (1, 2), (0, 3), (0, 1), (0, 2), (1, 3)])
    def test_matrix_to_rank_4(self, dimensions: tuple[int, int]) -> None:
        sizes = (5, 6, 7, 8)
        matrix = f"f32[{sizes[dimensions[0]]},{sizes[dimensions[1]]}]"
        assert added("f32[5,6,7,8]", matrix, dimensions) == "f32[5,6,7,8]"

    def test_dimensions_must_increase(self) -> None:
        with pytest.raises(xb.ShapeInferenceError, match="strictly increasing"):
            added("f32[5,6,7,8]", "f32[7,6]", (2, 1))

    @each_row(
        "lhs, rhs, result",
        [
            ("f32[2,1]", "f32[2,3]", "f32[2,3]"),
            ("f32[1,2,5]", "f32[7,2,5]", "f32[7,2,5]"),
            ("f32[7,2,5]", "f32[7,1,5]", "f32[7,2,5]"),
            ("f32[2,1]", "f32[1,3]", "f32[2,3]"),
        ],
    )
    def test_degenerate_dimensions(self, lhs: str, rhs: str, result: str) -> None:
        assert added(lhs, rhs) == result
        assert added(rhs, lhs) == result

    def test_incompatible(self) -> None:
        with pytest.raises(xb.ShapeInferenceError, match="dimension 2 has sizes 5 and 6"):
            added("f32[7,2,5]", "f32[7,2,6]")

    def test_both_kinds_at_once(self) -> None:
        assert added("f32[4]", "f32[1,2]", (0,)) == "f32[4,2]"

    def test_both_kinds_at_once_in_rank_3(self) -> None:
        assert added("f32[1,2]", "f32[4,3,1]", (1, 2)) == "f32[4,3,2]"


@st.composite
def placed_operands(
    draw: st.DrawFn,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Draw sizes of lower rank, of higher rank, and the broadcast dimensions."""
    higher = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    places = sorted(draw(st.sets(st.integers(0, len(higher) - 1), min_size=1)))
    lower = [draw(st.sampled_from([higher[p], 1, 2])) for p in places]
    return tuple(lower), tuple(higher), tuple(places)


def sizes_text(sizes: tuple[int, ...]) -> str:
    return f"f32[{','.join(map(str, sizes))}]"


@given(placed_operands(), st.booleans())
def test_agrees_with_numpy_with_inserted_dimensions(
    operands: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], swap: bool
) -> None:
    lower, higher, places = operands
    placed = [1] * len(higher)
    for size, place in zip(lower, places, strict=True):
        placed[place] = size
    try:
        expected: tuple[int, ...] | None = np.broadcast_shapes(tuple(placed), higher)
    except ValueError:
        expected = None
    pair = (sizes_text(lower), sizes_text(higher))
    lhs, rhs = reversed(pair) if swap else pair
    if expected is None:
        with pytest.raises(
            xb.ShapeInferenceError, match="the sizes must be equal, or one size must be 1"
        ):
            added(lhs, rhs, places)
    else:
        assert added(lhs, rhs, places) == sizes_text(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5))
def test_equal_ranks_agree_with_numpy(pairs: list[tuple[int, int]]) -> None:
    lhs, rhs = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    try:
        expected = np.broadcast_shapes(lhs, rhs)
    except ValueError:
        with pytest.raises(
            xb.ShapeInferenceError, match="the sizes must be equal, or one size must be 1"
        ):
            added(sizes_text(lhs), sizes_text(rhs))
    else:
        assert added(sizes_text(lhs), sizes_text(rhs)) == sizes_text(expected)


class TestRefused:
    """The complete message for each rule."""

    @each_row(
        "lhs, rhs, dimensions, rule",
        [
            (
                "f32[2,3]",
                "f32[3]",
                None,
                (
                    "operands of different rank need broadcast_dimensions, got\n"
                    "  lhs f32[2,3]\n  rhs f32[3]\n"
                    "fix: map each dimension of rhs to a dimension of lhs, "
                    "for instance xb.add(lhs, rhs, broadcast_dimensions=[1])"
                ),
            ),
            (
                "f32[3]",
                "f32[2,4]",
                (),
                (
                    "operands of different rank need broadcast_dimensions, got\n"
                    "  lhs f32[3]\n  rhs f32[2,4]\n"
                    "fix: map each dimension of lhs to a dimension of rhs "
                    "with an equal size (size 1 matches any size)"
                ),
            ),
            (
                "f32[2,3]",
                "f32[3]",
                (0, 1),
                (
                    "broadcast_dimensions must have one entry for each dimension of rhs, "
                    "the operand of lower rank: 1, got 2: [0, 1]\n  lhs f32[2,3]\n  rhs f32[3]\n"
                    "fix: map each dimension of rhs to a dimension of lhs, "
                    "for instance xb.add(lhs, rhs, broadcast_dimensions=[1])"
                ),
            ),
            (
                "f32[3]",
                "f32[2,3]",
                (2,),
                (
                    "broadcast_dimensions must be dimensions of rhs, 0 to 1, got 2 in [2]\n"
                    "  lhs f32[3]\n  rhs f32[2,3]\n"
                    "fix: map each dimension of lhs to a dimension of rhs, "
                    "for instance xb.add(lhs, rhs, broadcast_dimensions=[1])"
                ),
            ),
            (
                "f32[2,3]",
                "f32[3]",
                (-1,),
                (
                    "broadcast_dimensions must be dimensions of lhs, 0 to 1, got -1 in [-1]\n"
                    "  lhs f32[2,3]\n  rhs f32[3]\n"
                    "fix: map each dimension of rhs to a dimension of lhs, "
                    "for instance xb.add(lhs, rhs, broadcast_dimensions=[1])"
                ),
            ),
            (
                "f32[2,3,4]",
                "f32[4,3]",
                (2, 1),
                (
                    "broadcast_dimensions must be strictly increasing, got [2, 1]\n"
                    "  lhs f32[2,3,4]\n  rhs f32[4,3]\n"
                    "fix: transpose the operand of lower rank first"
                ),
            ),
            (
                "f32[2,3,4]",
                "f32[3,3]",
                (1, 1),
                (
                    "broadcast_dimensions must be strictly increasing, got [1, 1]\n"
                    "  lhs f32[2,3,4]\n  rhs f32[3,3]\n"
                    "fix: transpose the operand of lower rank first"
                ),
            ),
            (
                "f32[2,3]",
                "f32[3]",
                (0,),
                (
                    "broadcast_dimensions: dimension 0 of rhs has size 3, dimension 0 of lhs has "
                    "size 2; the sizes must be equal, or one size must be 1, got\n"
                    "  lhs f32[2,3]\n  rhs f32[3]\n"
                    "fix: map each dimension of rhs to a dimension of lhs, "
                    "for instance xb.add(lhs, rhs, broadcast_dimensions=[1])"
                ),
            ),
            (
                "f32[2,3]",
                "f32[]",
                (0,),
                (
                    "a scalar is broadcast without broadcast_dimensions, got [0]\n"
                    "  lhs f32[2,3]\n  rhs f32[]\nfix: omit broadcast_dimensions"
                ),
            ),
            (
                "f32[2,3]",
                "f32[2,3]",
                (1, 0),
                (
                    "broadcast_dimensions of operands of equal rank must be absent or [0, 1], "
                    "got [1, 0]\n  lhs f32[2,3]\n  rhs f32[2,3]\n"
                    "fix: omit broadcast_dimensions; to permute dimensions use xb.transpose"
                ),
            ),
            (
                "f32[2,3]",
                "f32[2,4]",
                None,
                (
                    "dimension 1 has sizes 3 and 4; the sizes must be equal, or one size must "
                    "be 1, got\n"
                    "  lhs f32[2,3]\n  rhs f32[2,4]\n"
                    "fix: take a part of the operand of size 4 with "
                    "xb.slice_in_dim(operand, 0, 3, dimno=1)"
                ),
            ),
            (
                "f32[<=1]",
                "f32[5]",
                None,
                (
                    "dimension 0: a dynamic size <=1 can't be broadcast, got sizes <=1 and 5\n"
                    "  lhs f32[<=1]\n  rhs f32[5]"
                ),
            ),
            (
                "f32[<=4]",
                "f32[<=5]",
                None,
                (
                    "dimension 0 has sizes <=4 and <=5; the sizes must be equal, or one size "
                    "must be 1, got\n"
                    "  lhs f32[<=4]\n  rhs f32[<=5]"
                ),
            ),
        ],
    )
    def test_message(
        self, lhs: str, rhs: str, dimensions: tuple[int, ...] | None, rule: str
    ) -> None:
        with pytest.raises(xb.ShapeInferenceError) as caught:
            added(lhs, rhs, dimensions)
        assert str(caught.value) == f"add: {rule}"
        assert caught.value.op == "add"
        assert caught.value.shapes == {"lhs": xb.parse_shape(lhs), "rhs": xb.parse_shape(rhs)}

    def test_the_dimension_at_fault_is_an_attribute(self) -> None:
        with pytest.raises(xb.ShapeInferenceError) as caught:
            added("f32[2,3,4]", "f32[2,3,5]")
        assert caught.value.dimension == 2

    def test_identity_dimensions_of_equal_ranks_are_fine(self) -> None:
        assert added("f32[2,3]", "f32[2,1]", (0, 1)) == "f32[2,3]"

    def test_empty_dimensions_for_a_scalar_are_fine(self) -> None:
        assert added("f32[2,3]", "f32[]", ()) == "f32[2,3]"


class TestDynamicSizes:
    """The results of jaxlib 0.6.0's XlaBuilder."""

    @each_row(
        "lhs, rhs, dimensions, result",
        [
            ("f32[<=5]", "f32[5]", None, "f32[<=5]"),
            ("f32[5]", "f32[<=5]", None, "f32[<=5]"),
            ("f32[1]", "f32[<=1]", None, "f32[<=1]"),
            ("f32[<=1]", "f32[1]", None, "f32[<=1]"),
            ("f32[1]", "f32[<=5]", None, "f32[<=5]"),
            ("f32[<=5]", "f32[1]", None, "f32[<=5]"),
            ("f32[2,<=1]", "f32[1]", (1,), "f32[2,<=1]"),
            ("f32[1]", "f32[2,<=1]", (1,), "f32[2,<=1]"),
            ("f32[2,1]", "f32[<=1]", (1,), "f32[2,1]"),
            ("f32[<=1]", "f32[2,1]", (1,), "f32[2,1]"),
            ("f32[2,3]", "f32[<=3]", (1,), "f32[2,<=3]"),
            ("f32[?]", "f32[5]", None, "f32[5]"),
            ("f32[?]", "f32[1]", None, "f32[?]"),
            ("f32[?]", "f32[<=5]", None, "f32[<=5]"),
            ("f32[?]", "f32[?]", None, "f32[?]"),
        ],
    )
    def test_result(
        self, lhs: str, rhs: str, dimensions: tuple[int, ...] | None, result: str
    ) -> None:
        assert added(lhs, rhs, dimensions) == result


class TestRecorded:
    """An op with broadcast operands records explicit broadcasts and then the op."""

    def test_in_dim(self) -> None:
        b = xb.XlaBuilder()
        x, v = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[3])
        y = xb.add(x, v, broadcast_dimensions=[1])
        assert [o.opcode for o in b.ops[2:]] == ["broadcast_in_dim", "add"]
        assert y.operands[0] is x
        placed = y.operands[1]
        assert placed.operands == (v,)
        assert placed.shape is xb.f32[2, 3]
        assert placed.attributes["broadcast_dimensions"] == (1,)

    def test_scalar(self) -> None:
        b = xb.XlaBuilder()
        x, s = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[()])
        assert xb.add(s, x).operands[0].attributes["broadcast_dimensions"] == ()

    def test_outer_product(self) -> None:
        b = xb.XlaBuilder()
        y = xb.add(b.parameter(xb.f32[2, 1]), b.parameter(xb.f32[1, 3]))
        assert [o.shape for o in y.operands] == [xb.f32[2, 3], xb.f32[2, 3]]

    def test_nothing_for_equal_shapes(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2, 3])
        xb.add(x, x)
        assert [o.opcode for o in b.ops] == ["parameter", "add"]
