"""Linear indices, against the documents' numbers, their formula in Python, and NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from layouts import SIZES, in_memory, random_layouts
from tables import each_row

import builder as xb
from builder import layout

FIGURE_1 = "f32[3,5]{1,0:T(2,2)}"
FIGURE_2 = "f32[4,8]{1,0:T(2,4)(2,1)}"


@st.composite
def shapes(draw: st.DrawFn) -> xb.ArrayShape:
    sizes = draw(SIZES)
    return xb.array_shape("s32", sizes, layout=draw(random_layouts(sizes)))


def every_index(shape: xb.ArrayShape) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, shape.dimensions)))


def formula(index: Sequence[int], sizes: Sequence[int], tiles: Sequence[Sequence[int]]) -> int:
    """The document's linear_index_with_tile, the most major dimension first, tile after tile."""
    if not tiles:
        return sum(e * math.prod(sizes[i + 1 :]) for i, e in enumerate(index))
    # A tile of lower rank does not tile the most major dimensions. Tiles of 1 would be equivalent,
    # except for the dimensions of size 1 that they add.
    tile = list(tiles[0])
    e, d = list(index), list(sizes)
    alone = len(d) - len(tile)
    for i in [i for i, t in enumerate(tile) if t == -1][::-1]:
        at = alone + i
        e[at : at + 2] = [e[at] * d[at + 1] + e[at + 1]]
        d[at : at + 2] = [d[at] * d[at + 1]]
        del tile[i]
    pairs = list(zip(e[alone:], d[alone:], tile, strict=True))
    return formula(
        [*e[:alone], *(n // t for n, _, t in pairs), *(n % t for n, _, t in pairs)],
        [*d[:alone], *(-(-n // t) for _, n, t in pairs), *tile],
        tiles[1:],
    )


def place_of(index: Sequence[int], shape: xb.ArrayShape) -> int:
    shape_layout = layout.layout_of(shape)
    order = shape_layout.minor_to_major[::-1]
    padded = shape_layout.padded_dimensions or shape.dimensions
    tiles = [tile.dimensions for tile in shape_layout.tiles]
    e, d = [index[i] for i in order], [padded[i] for i in order]
    return formula(e or [0], d or [1], tiles)


# ---- The numbers of the documents. ----------------------------------------------------------


def test_the_formula_by_hand() -> None:
    """Document: linear_index_with_tile((2,3), (3,5), (2,2)) = 17."""
    assert formula((2, 3), (3, 5), [(2, 2)]) == 17
    assert layout.linear_index(FIGURE_1, (2, 3)) == 17
    assert layout.multi_index(FIGURE_1, 17) == (2, 3)
    # Tile (1,1) of (2,3), and index (0,1) in the tile of (2,2).
    assert layout.physical_dimensions(FIGURE_1) == (2, 3, 2, 2)
    assert np.ravel_multi_index((1, 1, 0, 1), (2, 3, 2, 2)) == 17


def test_figure_1() -> None:
    """Tile by tile; padding is white."""
    places = layout.linear_index(FIGURE_1, np.indices((3, 5)))
    assert places.tolist() == [[0, 1, 4, 5, 8], [2, 3, 6, 7, 10], [12, 13, 16, 17, 20]]
    padding = [9, 11, 14, 15, 18, 19, 21, 22, 23]
    assert np.flatnonzero(layout.is_padding(FIGURE_1, np.arange(24))).tolist() == padding


def test_figure_2() -> None:
    """All 32 places: element (1,0) is at 1, (0,1) at 2, (2,0) at 16."""
    places = layout.linear_index(FIGURE_2, np.indices((4, 8)))
    assert places.tolist() == [
        [0, 2, 4, 6, 8, 10, 12, 14],
        [1, 3, 5, 7, 9, 11, 13, 15],
        [16, 18, 20, 22, 24, 26, 28, 30],
        [17, 19, 21, 23, 25, 27, 29, 31],
    ]
    assert (places[1, 0], places[0, 1], places[2, 0]) == (1, 2, 16)
    assert not layout.is_padding(FIGURE_2, np.arange(32)).any()


@each_row(
    "text, memory",
    [
        ("u8[2,3]{0,1}", "a d b e c f"),
        ("u8[2,3]{1,0}", "a b c d e f"),
        ("u8[2,3]", "a b c d e f"),
        ("u8[2,3]{0,1:pad(3,5)=zero}", "a d 0 b e 0 c f 0 0 0 0 0 0 0"),
        ("u8[2,3]{1,0:pad(3,5)=zero}", "a b c 0 0 d e f 0 0 0 0 0 0 0"),
    ],
)
def test_letters_in_memory(text: str, memory: str) -> None:
    letters = {(y, x): "abcdef"[3 * y + x] for y in range(2) for x in range(3)}
    places = memory.split()
    assert layout.buffer_size(text) == len(places)
    for index, letter in letters.items():
        assert places[layout.linear_index(text, index)] == letter
    assert [layout.is_padding(text, place) for place in range(len(places))] == [
        letter == "0" for letter in places
    ]


def test_combined_dimensions() -> None:
    """Document: f32[2,7,8,11,10] with (*,*,2,*,3) is f32[112,110] with (2,3)."""
    indices = np.indices((2, 7, 8, 11, 10))
    combined = np.indices((112, 110)).reshape(2, 2, 7, 8, 11, 10)
    assert np.array_equal(
        layout.linear_index("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", indices),
        layout.linear_index("f32[112,110]{1,0:T(2,3)}", combined),
    )


def test_the_format_of_bf16_on_tpu() -> None:
    """Document: with (8,128)(2,1), two 16-bit values of one column make up a 32-bit value."""
    text = "bf16[16,256]{1,0:T(8,128)(2,1)}"
    rows, columns = np.indices((8, 256))
    upper = layout.linear_index(text, (2 * rows, columns))
    assert np.array_equal(layout.linear_index(text, (2 * rows + 1, columns)), upper + 1)
    assert not (upper % 2).any()


# ---- Random shapes. -------------------------------------------------------------------------


@given(shapes())
def test_linear_indices_agree_with_the_formula(shape: xb.ArrayShape) -> None:
    indices = every_index(shape)
    expected = [place_of(index, shape) for index in indices]
    assert [layout.linear_index(shape, index) for index in indices] == expected
    if shape.rank:
        arrays = layout.linear_index(shape, np.indices(shape.dimensions))
        assert arrays.dtype == np.int64
        assert arrays.shape == shape.dimensions
        assert arrays.ravel().tolist() == expected


@given(shapes())
def test_each_linear_index_is_an_element_or_padding(shape: xb.ArrayShape) -> None:
    size = layout.buffer_size(shape)
    elements: list[tuple[int, ...] | None] = [None] * size
    for index in every_index(shape):
        place = place_of(index, shape)
        assert elements[place] is None
        elements[place] = index
    places = np.arange(size)
    padding = layout.is_padding(shape, places)
    assert padding.dtype == np.bool_
    assert padding.tolist() == [index is None for index in elements]
    placeholder = (-7,) * shape.rank
    arrays = layout.multi_index(shape, places, padding=-7)
    assert all(each.dtype == np.int64 and each.shape == (size,) for each in arrays)
    assert [tuple(int(n[i]) for n in arrays) for i in range(size)] == [
        placeholder if index is None else index for index in elements
    ]
    assert all(
        np.array_equal(all_of_it[~padding], alone)
        for all_of_it, alone in zip(
            arrays, layout.multi_index(shape, places[~padding]), strict=True
        )
    )
    for place, index in enumerate(elements[:50]):
        assert layout.is_padding(shape, place) is (index is None)
        if index is None:
            assert layout.multi_index(shape, place, padding=-7) == placeholder
            with pytest.raises(
                xb.ShapeInferenceError, match=f"linear index {place} of .* is padding"
            ):
                layout.multi_index(shape, place)
        else:
            result = layout.multi_index(shape, place)
            assert result == index
            assert all(type(number) is int for number in result)


@given(shapes())
def test_the_sizes_are_those_of_the_array_in_memory(shape: xb.ArrayShape) -> None:
    shape_layout = layout.layout_of(shape)
    memory = in_memory(np.zeros(shape.dimensions), shape_layout)
    assert layout.physical_dimensions(shape) == memory.shape
    alignment = shape_layout.tail_padding_alignment_in_elements
    assert layout.buffer_size(shape) == math.ceil(memory.size / alignment) * alignment


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_without_tiles_the_index_is_numpys(sizes: list[int], random: Any) -> None:
    order = random.sample(range(len(sizes)), len(sizes))
    indices = np.indices(sizes)
    shape = xb.array_shape("f32", sizes, layout=order)
    expected = np.ravel_multi_index(
        tuple(indices[d] for d in order[::-1]), [sizes[d] for d in order[::-1]]
    )
    assert np.array_equal(layout.linear_index(shape, indices), expected)
    default = xb.array_shape("f32", sizes)
    ways: list[tuple[Any, Any]] = [(default, "C"), (default.with_layout(range(len(sizes))), "F")]
    for flat, places in ways:
        want: Any = np.ravel_multi_index(tuple(indices), sizes, order=places)
        assert np.array_equal(layout.linear_index(flat, tuple(indices)), want)
        back = layout.multi_index(flat, np.arange(math.prod(sizes)))
        wanted_back = np.unravel_index(np.arange(math.prod(sizes)), sizes, order=places)
        assert np.array_equal(back, wanted_back)


# ---- Layouts and sizes. ---------------------------------------------------------------------


def test_the_layout_of_a_shape() -> None:
    assert layout.layout_of("f32[2,3,4]") == xb.Layout([2, 1, 0])
    assert layout.layout_of("f32[2,3,4]{0,1,2}") == xb.Layout([0, 1, 2])
    assert layout.layout_of(xb.f32[()]) == xb.Layout([])
    assert layout.layout_of("f32[?,3]") == xb.Layout([1, 0])


def test_scalars() -> None:
    assert layout.linear_index("f32[]", ()) == 0
    assert layout.multi_index("f32[]", 0) == ()
    assert layout.physical_dimensions("f32[]") == ()
    assert layout.buffer_size("f32[]") == 1
    tiled = "s32[]{:T(128)}"
    assert layout.linear_index(tiled, []) == 0
    assert layout.multi_index(tiled, 0) == ()
    assert layout.buffer_size(tiled) == 128
    assert np.flatnonzero(~layout.is_padding(tiled, np.arange(128))).tolist() == [0]
    with pytest.raises(xb.ShapeInferenceError, match=r"index 5 of s32\[\]\{:T\(128\)\} is pad"):
        layout.multi_index(tiled, 5)


def test_bounded_dimensions_count_at_their_bounds() -> None:
    assert layout.linear_index("f32[<=3,5]{0,1}", (2, 4)) == 14
    assert layout.buffer_size("f32[<=3,5]{1,0:T(2,2)}") == 24


def test_the_largest_buffers_do_not_overflow() -> None:
    shape = xb.u8[2**31, 2**31 - 1].with_layout([0, 1])
    last = (2**31 - 1, 2**31 - 2)
    place = 2**31 * (2**31 - 1) - 1
    assert layout.linear_index(shape, last) == place
    arrays = tuple(np.array([n]) for n in last)
    assert layout.linear_index(shape, arrays).tolist() == [place]
    assert [n.tolist() for n in layout.multi_index(shape, np.array([place], np.uint64))] == [
        [n] for n in last
    ]
    tiled = xb.u8[1].with_layout(xb.Layout([0], tiles=[(2**63 - 1,)]))
    assert layout.is_padding(tiled, np.array([0, 2**63 - 2])).tolist() == [False, True]


@each_row("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.uint64, ">i4"])
def test_narrow_indices_are_widened(dtype: Any) -> None:
    rows = np.array([100, 99], dtype)
    result = layout.linear_index("f32[101,1000]", (rows, np.array([3], dtype)))
    assert result.tolist() == [100003, 99003]
    assert result.dtype == np.int64
    back = layout.multi_index("f32[101,1000]", np.array([100, 127], dtype))
    assert [n.tolist() for n in back] == [[0, 0], [100, 127]]
    assert [n.dtype for n in back] == [np.int64, np.int64]


def test_indices_broadcast_together() -> None:
    result = layout.linear_index(FIGURE_1, (np.arange(3)[:, None], np.arange(5)))
    assert np.array_equal(result, layout.linear_index(FIGURE_1, np.indices((3, 5))))
    assert layout.linear_index("f32[2,3]", (1, np.arange(3))).tolist() == [3, 4, 5]
    assert layout.linear_index("f32[1,3]", (np.zeros((4, 1), int), 2)).shape == (4, 1)


def test_numbers_of_numpy_give_ints() -> None:
    for index in ((np.int8(2), np.array(3)), np.array([2, 3])):
        result = layout.linear_index(FIGURE_1, index)
        assert (result, type(result)) == (17, int)
    assert layout.multi_index(FIGURE_1, np.uint64(17)) == (2, 3)
    assert layout.is_padding(FIGURE_1, np.array(9)) is True


def test_empty_arrays_of_indices() -> None:
    none = np.empty((0, 2), np.int32)
    for text in ("f32[2,3]", "f32[0,3]", "f32[2,3]{0,1:T(2,2)}"):
        assert layout.linear_index(text, (none, none)).shape == (0, 2)
        assert [n.shape for n in layout.multi_index(text, none)] == [(0, 2), (0, 2)]
        assert layout.is_padding(text, none).shape == (0, 2)
    # Sizes that overflow 64 bits, for an array without elements.
    wide = xb.f32[0, 0, 0].with_layout(
        xb.Layout([2, 1, 0], padded_dimensions=[2**40, 2**40, 0], tiles=[["*", 2, 2]])
    )
    assert layout.linear_index(wide, (none, none, none)).shape == (0, 2)


def test_dimensions_of_one() -> None:
    shape = "f32[1,4,1]{0,1,2:T(1,2,1)}"
    places = np.arange(4)
    zeros = np.zeros(4, np.int64)
    assert layout.linear_index(shape, (zeros, places, zeros)).tolist() == [0, 1, 2, 3]
    results = layout.multi_index(shape, places)
    assert [(n.dtype, n.tolist()) for n in results] == [
        (np.int64, [0] * 4),
        (np.int64, [0, 1, 2, 3]),
        (np.int64, [0] * 4),
    ]
    results[1][0] = 9
    assert places[0] == 0
    assert not layout.is_padding(shape, places).any()
    standing = layout.multi_index("f32[1]{0:T(4)}", places, padding=-1)
    assert [n.tolist() for n in standing] == [[0, -1, -1, -1]]


def test_results_do_not_alias_arguments() -> None:
    indices = np.arange(3)
    result = layout.linear_index("f32[3]", (indices,))
    (back,) = layout.multi_index("f32[3]", indices)
    result += 1
    back += 1
    assert indices.tolist() == [0, 1, 2]


# ---- Wrong input. ---------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "out of bounds": (
        lambda: layout.linear_index(FIGURE_1, (2, 5)),
        xb.ShapeInferenceError,
        (
            "linear_index: index 5 is out of bounds for dimension 1 of f32[3,5]{1,0:T(2,2)}, "
            "whose size is 5"
        ),
    ),
    "in the padding": (
        lambda: layout.linear_index("f32[2,3]{1,0:pad(3,5)}", (2, 0)),
        xb.ShapeInferenceError,
        "linear_index: index 2 is out of bounds for dimension 0 of f32[2,3]{1,0:pad(3,5)}",
    ),
    "negative": (
        lambda: layout.linear_index(FIGURE_1, (-1, 0)),
        xb.ShapeInferenceError,
        (
            "linear_index: index -1 is out of bounds for dimension 0 of f32[3,5]{1,0:T(2,2)}, "
            "whose size is 3\nfix: add 3 to the index"
        ),
    ),
    "the first of an array": (
        lambda: layout.linear_index(FIGURE_1, (0, np.array([[4, 9], [-3, 0]]))),
        xb.ShapeInferenceError,
        "linear_index: index 9 is out of bounds for dimension 1 of",
    ),
    "beyond 63 bits": (
        lambda: layout.linear_index(FIGURE_1, (0, np.array([2**64 - 1], np.uint64))),
        xb.ShapeInferenceError,
        "linear_index: index 18446744073709551615 is out of bounds for dimension 1 of",
    ),
    "of an empty array": (
        lambda: layout.linear_index("f32[0]", (0,)),
        xb.ShapeInferenceError,
        "linear_index: index 0 is out of bounds for dimension 0 of f32[0], whose size is 0",
    ),
    "too few": (
        lambda: layout.linear_index(FIGURE_1, (1,)),
        xb.ShapeInferenceError,
        "linear_index: multi_index must have 2 indices, one for each dimension of f32[3,5]{1,0:T(2",
    ),
    "too many": (
        lambda: layout.linear_index("f32[3]", (1, 2)),
        xb.ShapeInferenceError,
        "linear_index: multi_index must have 1 index, one for each dimension of f32[3], got 2",
    ),
    "not a sequence": (
        lambda: layout.linear_index("f32[3]", 1),  # type: ignore[arg-type]
        xb.OperandError,
        (
            "linear_index: multi_index must be a sequence with an index for each dimension of "
            "f32[3], "
            "got 1"
        ),
    ),
    "text": (
        lambda: layout.linear_index("f32[3]", "0"),
        xb.OperandError,
        "linear_index: multi_index must be a sequence with an index for each dimension of f32[3]",
    ),
    "an op": (
        lambda: layout.linear_index("f32[1]", xb.XlaBuilder().parameter(xb.s32[1])),
        xb.OperandError,
        "linear_index: multi_index must be a sequence with an index for each dimension of f32[1]",
    ),
    "a float": (
        lambda: layout.linear_index(FIGURE_1, (0, 1.0)),
        xb.OperandError,
        (
            "linear_index: the index of dimension 1 of f32[3,5]{1,0:T(2,2)} must be an int or a "
            "NumPy array of integers, got 1.0"
        ),
    ),
    "a bool": (
        lambda: layout.linear_index(FIGURE_1, (True, 0)),
        xb.OperandError,
        "must be an int or a NumPy array of integers, got True",
    ),
    "a bool of NumPy": (
        lambda: layout.linear_index(FIGURE_1, (np.array(True), 0)),
        xb.OperandError,
        "must be an int or a NumPy array of integers, got array(True)",
    ),
    "a list": (
        lambda: layout.linear_index(FIGURE_1, ([0, 1], 0)),  # type: ignore[arg-type]
        xb.OperandError,
        "must be an int or a NumPy array of integers, got [0, 1]\nfix: write numpy.asarray([0, 1])",
    ),
    "a set": (
        lambda: layout.linear_index(FIGURE_1, {2, 1}),
        xb.OperandError,
        "linear_index: multi_index must be a sequence with an index for each dimension of f32[3,5]",
    ),
    "a frozen set": (
        lambda: layout.linear_index(FIGURE_1, frozenset([2, 1])),
        xb.OperandError,
        "linear_index: multi_index must be a sequence with an index for each dimension of f32[3,5]",
    ),
    "a mapping": (
        lambda: layout.linear_index(FIGURE_1, {0: 2, 1: 3}),
        xb.OperandError,
        "linear_index: multi_index must be a sequence with an index for each dimension of f32[3,5]",
    ),
    "an array of floats": (
        lambda: layout.linear_index(FIGURE_1, (np.zeros(2), 0)),
        xb.OperandError,
        (
            "linear_index: the index of dimension 0 of f32[3,5]{1,0:T(2,2)} must be an int or a "
            "NumPy array of integers, "
            "got an array of float64"
        ),
    ),
    "an array of bools": (
        lambda: layout.is_padding(FIGURE_1, np.zeros(2, bool)),  # type: ignore[call-overload]
        xb.OperandError,
        "is_padding: linear_index must be an int or a NumPy array of integers, got an array of",
    ),
    "that do not broadcast": (
        lambda: layout.linear_index(FIGURE_1, (np.zeros(2, int), np.zeros(3, int))),
        xb.ShapeInferenceError,
        "linear_index: the index arrays must broadcast together, got the shapes (2,), (3,)",
    ),
    "outside the buffer": (
        lambda: layout.multi_index(FIGURE_1, 24),
        xb.ShapeInferenceError,
        (
            "multi_index: linear index 24 is outside the buffer of f32[3,5]{1,0:T(2,2)}, which "
            "has 24 elements, padding included"
        ),
    ),
    "outside, in an array": (
        lambda: layout.is_padding("f32[1]", np.array([0, -2, 7])),
        xb.ShapeInferenceError,
        "is_padding: linear index -2 is outside the buffer of f32[1], which has 1 element",
    ),
    "index of an empty array": (
        lambda: layout.multi_index("f32[0,3]{1,0:T(2,2)}", 0),
        xb.ShapeInferenceError,
        "multi_index: linear index 0 is outside the buffer of f32[0,3]{1,0:T(2,2)}, which has 0",
    ),
    "not an integer": (
        lambda: layout.multi_index(FIGURE_1, "3"),  # type: ignore[call-overload]
        xb.OperandError,
        "multi_index: linear_index must be an int or a NumPy array of integers, got '3'",
    ),
    "padding": (
        lambda: layout.multi_index(FIGURE_1, np.array([8, 11, 9])),
        xb.ShapeInferenceError,
        (
            "multi_index: linear index 11 of f32[3,5]{1,0:T(2,2)} is padding\n"
            "fix: test with is_padding first, or pass padding=-1 to get -1 for padding"
        ),
    ),
    "no number for padding": (
        lambda: layout.multi_index(FIGURE_1, 9, padding=0.5),  # type: ignore[call-overload]
        xb.OperandError,
        "multi_index: padding must be an int of 64 bits, or None, got 0.5",
    ),
    "too large a number for padding": (
        lambda: layout.multi_index(FIGURE_1, 9, padding=2**63),
        xb.OperandError,
        "multi_index: padding must be an int of 64 bits, or None, got 9223372036854775808",
    ),
}


@each_row("name", WRONG)
def test_wrong_indices(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message) or message in str(caught.value)


def test_attributes_of_errors() -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        layout.linear_index(FIGURE_1, (0, 7))
    shape = xb.parse_shape(FIGURE_1)
    assert (caught.value.op, caught.value.dimension) == ("linear_index", 1)
    assert caught.value.shapes == {"shape": shape}


FUNCTIONS = {
    "layout_of": layout.layout_of,
    "physical_dimensions": layout.physical_dimensions,
    "buffer_size": layout.buffer_size,
    "linear_index": lambda shape: layout.linear_index(shape, (0,)),
    "multi_index": lambda shape: layout.multi_index(shape, 0),
    "is_padding": lambda shape: layout.is_padding(shape, 0),
    "pack": lambda shape: layout.pack(np.zeros(1, np.float32), shape),
    "unpack": lambda shape: layout.unpack(np.zeros(1, np.float32), shape),
}


@each_row("name", FUNCTIONS)
class TestEveryFunction:
    @each_row(
        "shape, message",
        [
            (
                "(f32[1], s32[])",
                "shape must be the shape of an array, got (f32[1], s32[])\nfix: pass the elem",
            ),
            ("token[]", "shape must be the shape of an array, got token[]"),
            (
                "{1,0:T(2,2)}",
                (
                    "shape must be the shape of an array, got the layout '{1,0:T(2,2)}'\n"
                    "fix: write shape.with_layout(layout)"
                ),
            ),
            (
                xb.Layout([0]),
                (
                    "shape must be the shape of an array, got the layout {0}\n"
                    "fix: write shape.with_layout(layout)"
                ),
            ),
            (xb.f32, "shape: expected a shape, got the element type f32"),
            (3, "shape: expected a shape such as f32[2, 3]"),
        ],
    )
    def test_not_an_array_shape(self, name: str, shape: Any, message: str) -> None:
        with pytest.raises(xb.OperandError) as caught:
            FUNCTIONS[name](shape)
        assert str(caught.value).startswith(f"{name}: {message}")

    def test_malformed_text(self, name: str) -> None:
        with pytest.raises(xb.ShapeTextError, match=f"^{name}: shape: "):
            FUNCTIONS[name]("f32[3")


@each_row(
    "name, fix",
    [
        ("layout_of", "write xb.array_shape(array.dtype, array.shape)"),
        ("buffer_size", "write xb.array_shape(array.dtype, array.shape)"),
        ("pack", "swap the arguments: pack(array, shape)"),
        ("unpack", "swap the arguments: unpack(buffer, shape)"),
        ("linear_index", "swap the arguments: linear_index(shape, multi_index)"),
        ("multi_index", "swap the arguments: multi_index(shape, linear_index)"),
        ("is_padding", "swap the arguments: is_padding(shape, linear_index)"),
    ],
)
def test_an_array_instead_of_a_shape(name: str, fix: str) -> None:
    with pytest.raises(xb.OperandError) as caught:
        FUNCTIONS[name](np.zeros((2, 3), np.float32))
    assert str(caught.value) == (
        f"{name}: shape must be the shape of an array, got an array of float32 with sizes [2, 3]\n"
        f"fix: {fix}"
    )


@each_row("name", [name for name in FUNCTIONS if name != "layout_of"])
def test_unbounded_dimensions(name: str) -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        FUNCTIONS[name]("f32[?]")
    assert str(caught.value).startswith(
        f"{name}: shape can't have unbounded dimensions, got f32[?]\nfix: "
    )
    assert caught.value.dimension == 0


@each_row("value", [[1.5], [True], [[1]]])
def test_lists_that_numpy_does_not_make_integers_of(value: Any) -> None:
    with pytest.raises(xb.OperandError) as caught:
        layout.linear_index(FIGURE_1, (value, 0))
    assert str(caught.value).endswith(f"an int or a NumPy array of integers, got {value}")
