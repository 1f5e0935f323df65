"""Shapes: construction, text, parser, interning, errors."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tables import each_row

import builder as xb
from builder.types.primitive_type import ALL
from builder.types.shape import MAX_ELEMENTS, leaf_count, leaves, shape_of

SIZES = st.integers(0, 9)
DIMENSIONS = st.one_of(SIZES.map(str), SIZES.map(lambda n: f"<={n}"), st.just("?"))


@st.composite
def array_texts(draw: st.DrawFn) -> str:
    dimensions = draw(st.lists(DIMENSIONS, max_size=5))
    order = draw(st.none() | st.permutations(range(len(dimensions))))
    # XLA omits the order of a scalar.
    layout = "" if not order else "{" + ",".join(map(str, order)) + "}"
    return f"{draw(st.sampled_from([t.name for t in ALL]))}[{','.join(dimensions)}]{layout}"


def tuple_of_texts(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(children, max_size=4).map(lambda parts: f"({', '.join(parts)})")


SHAPE_TEXTS = st.recursive(array_texts() | st.just("token[]"), tuple_of_texts, max_leaves=12)


class TestText:
    @given(SHAPE_TEXTS)
    def test_printing_the_parsed_shape_returns_the_text(self, text: str) -> None:
        assert str(xb.parse_shape(text)) == text

    @given(SHAPE_TEXTS)
    def test_the_same_text_gives_the_same_object(self, text: str) -> None:
        assert xb.parse_shape(text) is xb.parse_shape(text)

    @given(SHAPE_TEXTS)
    def test_spaces_do_not_matter(self, text: str) -> None:
        spaced = text.replace(",", " , ").replace("(", " ( ").replace("[", " [ ")
        assert xb.parse_shape(spaced) is xb.parse_shape(text)

    def test_xlas_comments_are_ignored(self) -> None:
        text = "(s32[], f32[2]{0}, /*index=2*/f32[/* rows */2,3]/**/)" + "/**/" * 1000
        assert xb.parse_shape(text) is xb.parse_shape("(s32[], f32[2]{0}, f32[2,3])")
        with pytest.raises(xb.ShapeTextError, match=r"expected .* got '/' at position 6"):
            xb.parse_shape("(s32[]/* f32[2])")

    @given(SHAPE_TEXTS)
    def test_copies_are_the_same_object(self, text: str) -> None:
        shape = xb.parse_shape(text)
        assert pickle.loads(pickle.dumps(shape)) is shape
        assert copy.deepcopy(shape) is shape
        assert copy.copy(shape) is shape

    @given(SHAPE_TEXTS)
    def test_leaves(self, text: str) -> None:
        shape = xb.parse_shape(text)
        # Every array or token has exactly one opening bracket in the text.
        assert leaf_count(shape) == text.count("[")
        assert [str(s).split("[")[0] for s in leaves(shape)] == [
            part.split("(")[-1].split(", ")[-1] for part in text.split("[")[:-1]
        ]

    @each_row(
        "text, shape",
        [
            ("f32[2,3]", xb.f32[2, 3]),
            ("F32[2]", xb.f32[2]),
            ("pred[]", xb.pred[()]),
            ("bf16[<=5,?]", xb.bf16[xb.bounded(5), "?"]),
            ("s8[0]", xb.s8[0]),
            ("f32[2,3]{0,1}", xb.array_shape("f32", (2, 3), layout=(0, 1))),
            (" f32[2] ", xb.f32[2]),
            ("()", xb.tuple_shape([])),
            ("(f32[2],())", xb.tuple_shape(["f32[2]", xb.tuple_shape([])])),
            ("token[]", xb.TOKEN_SHAPE),
        ],
    )
    def test_written_out(self, text: str, shape: xb.Shape) -> None:
        assert xb.parse_shape(text) is shape

    def test_nesting_deeper_than_the_stack(self) -> None:
        depth = 20_000
        text = "(" * depth + "f32[2]" + ")" * depth
        shape = xb.parse_shape(text)
        assert str(shape) == text
        assert leaf_count(shape) == 1

    @each_row(
        "text, position, expected",
        [
            ("", 0, "an element type or '(', got the end"),
            ("f32", 3, "expected '[', got the end"),
            ("f32[", 4, "a size, '<=n' or '?', got the end"),
            ("f32[2,]", 6, "a size, '<=n' or '?', got ']'"),
            ("f32[,2]", 4, "a size, '<=n' or '?', got ','"),
            ("f32[-1]", 4, "a size, '<=n' or '?', got '-'"),
            ("f32[2 3]", 6, "expected ',', got '3'"),
            ("f32[<=]", 6, "a bound, got ']'"),
            ("f32[<=?]", 6, "a bound, got '?'"),
            ("f32[2]{0", 8, "got the end"),
            ("f32[2]{?}", 7, "a dimension number, got '?'"),
            ("f32[2]{1}", 7, "a permutation of the dimensions"),
            ("f32[2,3]{0}", 8, "{0} orders 1 dimension, f32[2,3] has 2"),
            ("f99[2]", 0, "unknown primitive type 'f99'"),
            ("(f32[2], g[])", 9, "unknown primitive type 'g'"),
            ("(f32[2]", 7, "',' or ')', got the end"),
            ("(f32[2],)", 8, "an element type or '(', got ')'"),
            ("(f32[2] f32[2])", 8, "',' or ')', got 'f32'"),
            ("f32[2])", 6, "the end of the shape, got ')'"),
            ("f32[2] f32[2]", 7, "the end of the shape, got 'f32'"),
            ("token[1]", 6, "expected ']', got '1'"),
            ("f32[99999999999999999999]", 4, "must fit 63 bits, got 20 digits"),
            ("f32[" + "9" * 5000 + "]", 4, "must fit 63 bits, got 5000 digits"),
            ("f32[4294967296,4294967296]", 0, "more than 2\\*\\*63 - 1 elements"),
            ("f32[²]", 4, "got '²'"),
            ("f32[٣]", 4, "got '٣'"),
        ],
    )
    def test_malformed_text(self, text: str, position: int, expected: str) -> None:
        plain = expected.replace("\\*", "*")
        with pytest.raises(xb.ShapeTextError) as caught:
            xb.parse_shape(text)
        assert plain in str(caught.value)
        assert (caught.value.position, caught.value.text) == (position, text)
        # The last two lines of the message point at the position.
        *_, line, arrow = str(caught.value).partition("\nfix: ")[0].split("\n")
        assert line == f"  {text}" if len(text) <= 200 else f"  {text[:200]}..."
        assert arrow.index("^") == position + 2

    @each_row("depth", [0, 50, 150, 100_000])
    def test_malformed_text_of_any_length(self, depth: int) -> None:
        text = "(" * depth + "x" * 100_000
        with pytest.raises(xb.ShapeTextError, match="unknown primitive type 'xxx") as caught:
            xb.parse_shape(text)
        *_, part, arrow = str(caught.value).split("\n")
        assert len(str(caught.value)) < 1000
        assert part[arrow.index("^") - bool(depth) :].startswith("(xx" if depth else "xx")

    def test_not_a_string(self) -> None:
        with pytest.raises(xb.OperandError, match="expected a shape's text, got 3"):
            xb.parse_shape(3)  # type: ignore[arg-type]


class TestArrayShape:
    def test_fields(self) -> None:
        shape = xb.f32[2, xb.bounded(5), "?"]
        assert shape.element_type is xb.f32
        assert shape.dimensions == (2, 5, xb.UNBOUNDED)
        assert shape.dynamic_dimensions == (False, True, True)
        assert (shape.rank, shape.is_static, shape.is_bounded) == (3, False, False)
        assert [shape.dimension_text(i) for i in range(3)] == ["2", "<=5", "?"]
        assert xb.f32[2, xb.bounded(5), xb.UNBOUNDED] is shape
        assert xb.array_shape(xb.f32, shape.dimensions, dynamic_dimensions=(0, 1, 1)) is shape
        with pytest.raises(xb.ShapeInferenceError, match=r"negative, got -1\nfix: write '\?'"):
            xb.f32[2, -1]

    @each_row(
        "shape, is_static, is_bounded",
        [
            (xb.f32[()], True, True),
            (xb.f32[2, 3], True, True),
            (xb.f32["<=2", 3], False, True),
            (xb.f32["?", 3], False, False),
        ],
    )
    def test_static_and_bounded(
        self, shape: xb.ArrayShape, is_static: bool, is_bounded: bool
    ) -> None:
        assert (shape.is_static, shape.is_bounded) == (is_static, is_bounded)

    @given(st.lists(st.integers(0, 20), max_size=5))
    def test_element_count_is_that_of_numpy(self, sizes: list[int]) -> None:
        shape = xb.array_shape(xb.f32, sizes)
        assert shape.element_count == math.prod(sizes)
        assert shape.is_scalar == (np.empty([0] * len(sizes)).ndim == 0)

    def test_element_count_takes_bounds(self) -> None:
        assert xb.f32["<=5", 3].element_count == 15

    def test_element_count_of_unbounded(self) -> None:
        with pytest.raises(xb.ShapeInferenceError, match=r"f32\[\?,3\] has an unbounded dimension"):
            _ = xb.f32["?", 3].element_count

    @each_row(
        "dimensions, true_rank",
        [
            ((), 0),
            ((1, 1), 0),
            ((0, 1), 0),
            ((2, 1, 3), 2),
            ((7, 3, 5), 3),
            (("<=5", "<=1"), 1),
            (("?", 1), 1),
        ],
    )
    def test_true_rank(self, dimensions: Any, true_rank: int) -> None:
        """Shapes and Layout: the number of dimensions that have a size greater than 1."""
        assert xb.array_shape("f32", dimensions).true_rank == true_rank

    @given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    def test_dimensions_counted_from_the_end(self, sizes: list[int]) -> None:
        shape = xb.array_shape("f32", sizes)
        array = np.empty(sizes)
        for dimension in range(-len(sizes), len(sizes)):
            number = shape.dimension_number(dimension)
            assert number == range(array.ndim)[dimension]
            assert shape.dimensions[number] == array.shape[dimension]
        assert shape.dimension_number(int(np.int64(-1))) == array.ndim - 1

    @pytest.mark.parametrize(
        "dimension", [2, -3, None, "x", True, 1.0, pytest.param(10**5000, id="huge")]
    )
    def test_missing_dimensions(self, dimension: Any) -> None:
        with pytest.raises(
            xb.ShapeInferenceError,
            match=r"^dimension_number: f32\[2,3\] has no dimension .*\nfix: pass one from -2 to 1",
        ):
            xb.f32[2, 3].dimension_number(dimension)

    def test_a_scalar_has_no_dimensions(self) -> None:
        with pytest.raises(xb.ShapeInferenceError) as caught:
            xb.f32[()].dimension_number(0)
        assert str(caught.value) == "dimension_number: f32[] has no dimension 0"

    def test_interning(self) -> None:
        assert xb.f32[2, 3] is xb.array_shape(np.float32, [2, 3])
        assert xb.f32[2, 3] is not xb.f32[3, 2]
        assert xb.f32[2] is not xb.f32["<=2"]
        assert xb.f32[2] is not xb.s32[2]

    def test_numpy_sizes_are_sizes(self) -> None:
        assert xb.f32[np.int64(2), np.uint8(3)] is xb.f32[2, 3]

    def test_dynamic_dimensions(self) -> None:
        shape = xb.array_shape("f32", [2, 3], dynamic_dimensions=[False, True])
        assert shape is xb.f32[2, "<=3"]

    def test_with_element_type(self) -> None:
        assert xb.f32[2, "<=3"].with_element_type(xb.pred) is xb.pred[2, "<=3"]

    def test_the_largest_shape(self) -> None:
        assert xb.u8[MAX_ELEMENTS].element_count == MAX_ELEMENTS

    @each_row(
        "dimensions, message",
        [
            ([-5], "can't be negative, got -5"),
            (["<=-5"], "'<=-5' is not a dimension"),
            ([xb.bounded(-3)], "can't be negative, got -3"),
            ([1.5], "must be an integer, .* got 1.5"),
            ([True], "must be an integer, .* got True"),
            ([None], "must be an integer, .* got None\nfix: write '\\?' for a size"),
            ([xb.bounded("a")], "must be an integer, .* got 'a'"),  # type: ignore[arg-type]
            (["x"], "'x' is not a dimension"),
            (["²"], "'²' is not a dimension"),
            ([2**63], "must fit 63 bits"),
            ([xb.bounded(2**63)], "must fit 63 bits"),
            ([2**62, 2], "more than 2\\*\\*63 - 1 elements"),
            ([0, 2**62, 2], "more than 2\\*\\*63 - 1 elements"),
            ([3, -1, 2], "can't be negative, got -1\nfix: write '\\?'"),
            ([1] * 65_536, "a sequence of sizes"),
            (3, r"a sequence of sizes, got 3\nfix: write \[3\]"),
            ("23", "a sequence of sizes, got '23'"),
            (np.array(3), r"a sequence of sizes, got array\(3\)"),
            (itertools.repeat(1), r"a sequence of sizes, got repeat\(1\)"),
            ([[10**5000]], "a dimension of f32.* must be an integer"),
        ],
    )
    def test_wrong_dimensions(self, dimensions: Any, message: str) -> None:
        # Tuples of ints are converted by another path.
        kinds = (list, tuple) if isinstance(dimensions, list) else (lambda sizes: sizes,)
        for kind in kinds:
            with pytest.raises(xb.ShapeInferenceError, match=message):
                xb.array_shape(xb.f32, kind(dimensions))

    def test_the_number_of_dynamic_dimensions(self) -> None:
        with pytest.raises(xb.ShapeInferenceError, match="one entry for each dimension: 1, got 2"):
            xb.array_shape(xb.f32, [1], dynamic_dimensions=[True, False])

    @each_row("dynamic", [1, np.array(True), [np.zeros(2)]])
    def test_invalid_dynamic_dimensions(self, dynamic: Any) -> None:
        with pytest.raises(
            xb.ShapeInferenceError, match="dynamic_dimensions must be a sequence of b"
        ):
            xb.array_shape(xb.f32, [1], dynamic_dimensions=dynamic)

    @each_row("value", [4, None, [xb.f32], "f33", float("nan")])
    def test_invalid_element_type(self, value: Any) -> None:
        with pytest.raises(xb.PrimitiveTypeError, match=r"^shape: element_type: "):
            xb.f32[2].with_element_type(value)

    @pytest.mark.parametrize("dimension", [2, -3, None, "x", pytest.param(10**5000, id="huge")])
    def test_text_of_a_missing_dimension(self, dimension: Any) -> None:
        with pytest.raises(
            xb.ShapeInferenceError, match=r"must be a dimension of f32\[2,3\], got "
        ):
            xb.f32[2, 3].dimension_text(dimension)

    def test_the_constructor_is_private(self) -> None:
        with pytest.raises(TypeError, match=r"make array shapes with f32\[2, 3\]"):
            xb.ArrayShape(xb.f32, (2,))


class TestTupleShape:
    def test_elements(self) -> None:
        shape = xb.tuple_shape(["f32[2]", xb.tuple_shape([xb.s32[()], xb.TOKEN_SHAPE])])
        assert len(shape) == 2
        assert shape.elements == (xb.f32[2], xb.parse_shape("(s32[], token[])"))
        assert shape.leaf_count == 3
        assert shape.is_static

    def test_dynamic_inside(self) -> None:
        assert not xb.parse_shape("(f32[2], (s32[<=2]))").is_static

    @each_row(
        "text, has_layout",
        [
            ("()", False),
            ("(f32[2,3], token[], (s32[]))", False),
            ("(f32[2,3]{0,1}, s32[])", True),
            ("(f32[2,3]{1,0}, s32[])", True),
            ("(s32[], (token[], (f32[2,3]{0,1})))", True),
        ],
    )
    def test_layout_inside(self, text: str, has_layout: bool) -> None:
        shape = xb.parse_shape(text)
        assert isinstance(shape, xb.TupleShape)
        assert shape.has_layout is has_layout
        parameter = xb.XlaBuilder().parameter(shape)
        assert ("shape_with_layout" in parameter.attributes) is has_layout
        assert "{" not in str(parameter.shape)

    @each_row("elements", [3, "f32[2]", np.array(3)])
    def test_not_a_sequence(self, elements: Any) -> None:
        with pytest.raises(xb.OperandError, match="elements must be a sequence of shapes"):
            xb.tuple_shape(elements)

    def test_not_a_sequence_of_shapes(self) -> None:
        x = xb.XlaBuilder().parameter(xb.f32[2])
        pair: Any = xb.tuple(x, x)
        with pytest.raises(xb.OperandError, match="elements must be a sequence of shapes"):
            xb.tuple_shape(pair)
        assert len(x.builder.ops) == 2

    @each_row("elements", [3, None, [3], ["f32[2]"]])
    def test_invalid_element(self, elements: Any) -> None:
        with pytest.raises(xb.OperandError, match="tuple shape: elements must be shapes, got "):
            xb.TupleShape(elements)


class TestShapeArguments:
    @each_row("value", [xb.f32[2, 3], "f32[2,3]"])
    def test_shape_and_text(self, value: Any) -> None:
        assert shape_of(value) is xb.f32[2, 3]

    def test_sequence_is_a_tuple(self) -> None:
        assert str(shape_of([xb.f32[2], ["s32[]"], ()])) == "(f32[2], (s32[]), ())"

    @each_row("value", [3, None, object()])
    def test_not_a_shape(self, value: Any) -> None:
        with pytest.raises(xb.OperandError, match="expected a shape such as"):
            shape_of(value)


class TestProgramShape:
    def test_tuple_elements(self) -> None:
        elements: Any
        for elements, message in (
            (3, "tuple_shape: elements must be a sequence of shapes, got 3"),
            ([xb.f32[2], 3], "tuple_shape: element 1: expected a shape such as .*, got 3"),
        ):
            with pytest.raises(xb.OperandError, match=message) as caught:
                xb.tuple_shape(elements)
            assert caught.value.op == "tuple_shape"

    def test_names_do_not_count(self) -> None:
        one = xb.ProgramShape([xb.f32[2]], xb.f32[()], ["x"])
        other = xb.ProgramShape([xb.f32[2]], xb.f32[()], ["y"])
        assert one == other
        assert hash(one) == hash(other)
        assert one != xb.ProgramShape([xb.f32[2]], xb.f32[2], ["x"])
        assert one != xb.ProgramShape([xb.f32[3]], xb.f32[()], ["x"])

    def test_text(self) -> None:
        assert str(xb.ProgramShape([xb.f32[2], xb.TOKEN_SHAPE], xb.s32[()])) == (
            "(p0: f32[2], p1: token[]) -> s32[]"
        )

    def test_shapes_as_text(self) -> None:
        parameters: Any = ["f32[2]"]
        result: Any = "s32[]"
        assert xb.ProgramShape(parameters, result) == xb.ProgramShape([xb.f32[2]], xb.s32[()])

    @each_row(
        "arguments, message",
        [
            ((3, xb.f32[2]), "^ProgramShape: parameters must be a sequence of shapes, got 3"),
            (([3], xb.f32[2]), "^ProgramShape: parameter 0: expected a shape such as .* got 3"),
            (([], [[10**5000]]), "^ProgramShape: result: expected a shape such as"),
            (([xb.f32[2]], xb.f32[2], 3), "parameter_names must be a sequence of strings, got 3"),
            (
                ([xb.f32[2]], xb.f32[2], "x"),
                "parameter_names must be a sequence of strings, got 'x'",
            ),
            (
                ([xb.f32[2]], xb.f32[2], [3]),
                r"parameter_names must be a sequence of strings, got \[3",
            ),
            (
                ([xb.f32[2]], xb.f32[2], ["x", "y"]),
                "number of names must equal the number of param",
            ),
        ],
    )
    def test_wrong_arguments(self, arguments: Any, message: str) -> None:
        with pytest.raises(xb.XlaError, match=message):
            xb.ProgramShape(*arguments)


def test_minus_one_is_not_a_size() -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        _ = xb.f32[-1, 2]
    assert str(caught.value) == (
        "shape: a dimension of f32[...] can't be negative, got -1\n"
        "fix: write '?' for an unbounded dimension"
    )
    unbounded = xb.array_shape(xb.f32, [xb.UNBOUNDED, 2], dynamic_dimensions=[True, False])
    assert unbounded is xb.f32["?", 2]


@each_row("bits, is_valid", [(2, True), (3, False), (4, True), (8, True), (12, False), (16, True)])
def test_bits_of_an_element_in_memory(bits: int, is_valid: bool) -> None:
    text = f"s2[3]{{0:E({bits})}}"
    if is_valid:
        assert str(xb.parse_shape(text)) == text
    else:
        with pytest.raises(xb.XlaError, match=r"must be 1, 2, 4 or a multiple of 8, got \d+"):
            xb.parse_shape(text)
