"""Layouts: order, tiles, padding, element size, memory space; and their fit to shapes."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from layouts import SIZES, random_layouts
from tables import each_row

import builder as xb
from builder.layout import COMBINE

FULL = xb.Layout(
    [1, 0],
    tiles=[xb.Tile([8, 128]), (2, 1)],
    padded_dimensions=[3, 5],
    padding_value=xb.PaddingValue.ONE_PAD,
    element_size_in_bits=32,
    memory_space=1,
    tail_padding_alignment_in_elements=4,
)
"""A layout with no default argument."""

OTHERS: dict[str, Any] = {
    "minor_to_major": (0, 1),
    "tiles": (xb.Tile([8, 128]),),
    "padded_dimensions": (3, 6),
    "padding_value": xb.PaddingValue.ZERO_PAD,
    "element_size_in_bits": 64,
    "memory_space": 2,
    "tail_padding_alignment_in_elements": 8,
}
"""Another value for each argument."""


@each_row("rank", range(5))
def test_every_permutation_is_a_layout(rank: int) -> None:
    for order in itertools.permutations(range(rank)):
        layout = xb.Layout(order)
        assert layout.minor_to_major == order
        assert str(layout) == "{" + ",".join(map(str, order)) + "}"
        assert layout.is_default == (list(order) == sorted(order, reverse=True))


def test_equal_layouts() -> None:
    assert xb.Layout([1, 0]) == xb.Layout((1, 0))
    assert hash(xb.Layout([1, 0])) == hash(xb.Layout((1, 0)))
    assert xb.Layout([1, 0]) != xb.Layout([0, 1])
    assert xb.Layout([0]) != (0,)


def test_all_properties() -> None:
    assert FULL.minor_to_major == (1, 0)
    assert FULL.tiles == (xb.Tile((8, 128)), xb.Tile((2, 1)))
    assert FULL.padded_dimensions == (3, 5)
    assert FULL.padding_value is xb.PaddingValue.ONE_PAD
    assert FULL.element_size_in_bits == 32
    assert FULL.memory_space == 1
    assert FULL.tail_padding_alignment_in_elements == 4
    assert not FULL.is_default
    assert not FULL.is_order_only


def test_defaults() -> None:
    plain = xb.Layout([0, 1])
    assert plain.tiles == ()
    assert plain.padded_dimensions is None
    assert plain.padding_value is xb.PaddingValue.INVALID_PAD
    assert (plain.element_size_in_bits, plain.memory_space) == (0, 0)
    assert plain.tail_padding_alignment_in_elements == 1
    assert plain.is_order_only
    assert not plain.is_default


def test_the_padding_values_are_those_of_the_proto() -> None:
    """The enum PaddingValue of old versions of xla_data.proto, in which layouts had padding."""
    assert {value.name: value.value for value in xb.PaddingValue} == {
        "INVALID_PAD": 0,
        "ZERO_PAD": 1,
        "ONE_PAD": 2,
        "LOWEST_PAD": 3,
        "HIGHEST_PAD": 4,
        "UNKNOWN_PAD": 5,
    }


@each_row("name", OTHERS)
def test_each_part_counts(name: str) -> None:
    other = FULL.replace(**{name: OTHERS[name]})
    assert getattr(other, name) == OTHERS[name] != getattr(FULL, name)
    assert other != FULL
    assert str(other) != str(FULL)
    for kept in OTHERS.keys() - {name}:
        assert getattr(other, kept) == getattr(FULL, kept)
    back = other.replace(**{name: getattr(FULL, name)})
    assert back == FULL
    assert hash(back) == hash(FULL)
    assert {FULL: 1}[back] == 1
    # A padding value is not a default.
    if name != "minor_to_major":
        alone = xb.Layout([1, 0]).replace(**{name: OTHERS[name]})
        assert not alone.is_default
        assert not alone.is_order_only
        assert alone != xb.Layout([1, 0])


def test_replaced_parts_are_checked() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="got 2 for 1 dimension"):
        FULL.replace(minor_to_major=[0], tiles=[])
    with pytest.raises(TypeError, match="unexpected keyword argument 'tile'"):
        FULL.replace(tile=[2])


@given(st.data())
def test_copies_are_equal(data: st.DataObject) -> None:
    layout = data.draw(SIZES.flatmap(random_layouts))
    for copied in (
        pickle.loads(pickle.dumps(layout)),
        copy.copy(layout),
        copy.deepcopy(layout),
        layout.replace(),
    ):
        assert copied == layout
        assert hash(copied) == hash(layout)
        assert copied.is_default == layout.is_default
        assert copied.is_order_only == layout.is_order_only
    assert [pickle.loads(pickle.dumps(tile)) for tile in layout.tiles] == list(layout.tiles)


class TestTile:
    def test_sizes(self) -> None:
        assert xb.Tile([np.int64(8), 128]).dimensions == (8, 128)
        assert xb.Tile(()).dimensions == ()
        assert xb.Tile(["*", COMBINE, 3]).dimensions == (-1, -1, 3)
        assert str(xb.Tile([-1, 2, -1, 3])) == "(*,2,*,3)"

    def test_equal_tiles(self) -> None:
        assert xb.Tile([2, 3]) == xb.Tile((2, 3))
        assert hash(xb.Tile([2, 3])) == hash(xb.Tile((2, 3)))
        assert xb.Tile(["*", 3]) == xb.Tile([-1, 3])
        assert xb.Tile([2, 3]) != xb.Tile([3, 2])
        assert xb.Tile([2]) != (2,)

    @each_row("size", [0, -2, 1.0, True, None, "2", "**", 2**63, [2]])
    def test_invalid_sizes(self, size: Any) -> None:
        with pytest.raises(xb.ShapeInferenceError) as caught:
            xb.Tile([2, size, 2])
        assert str(caught.value) == (
            "layout: the size of a tile must be a positive integer, or '*' to combine a dimension "
            f"with the next, got {size!r}"
        )

    @each_row("sizes", [["*"], [2, -1], ["*", 2, "*"]])
    def test_combining_the_last_dimension(self, sizes: Any) -> None:
        with pytest.raises(
            xb.ShapeInferenceError, match=r"so the last dimension of a tile can't be '\*', got "
        ):
            xb.Tile(sizes)

    @each_row("sizes", [8, "8,128", None, np.array(8), itertools.repeat(1)])
    def test_not_a_sequence(self, sizes: Any) -> None:
        with pytest.raises(
            xb.ShapeInferenceError, match=r"a tile must be a sequence of sizes, such as"
        ):
            xb.Tile(sizes)

    def test_a_tuple_is_not_a_sequence_of_sizes(self) -> None:
        x = xb.XlaBuilder().parameter(xb.f32[2])
        pair: Any = xb.tuple(x, x)
        with pytest.raises(xb.ShapeInferenceError, match="a tile must be a sequence of sizes"):
            xb.Tile(pair)
        assert len(x.builder.ops) == 2


WRONG = [
    # The arguments of `Layout`, and the message.
    (
        {"minor_to_major": [1, 1]},
        "layout: minor_to_major must be a permutation of the dimensions 0 to 1, got {1,1}",
    ),
    (
        {"minor_to_major": "1,0"},
        "layout: minor_to_major must be a sequence of dimension numbers, got '1,0'",
    ),
    (
        {"padded_dimensions": [4]},
        "layout: padded_dimensions must have one size for each dimension, got 1 for 2 dimensions",
    ),
    (
        {"padded_dimensions": [4, -1]},
        "layout: each of padded_dimensions must be an integer from 0 to 2**63 - 1, got -1",
    ),
    (
        {"padded_dimensions": [4, 2**63]},
        (
            "layout: each of padded_dimensions must be an integer from 0 to 2**63 - 1, "
            "got 9223372036854775808"
        ),
    ),
    ({"padded_dimensions": 4}, "layout: padded_dimensions must be a sequence of sizes, got 4"),
    (
        {"padding_value": "zero"},
        (
            "layout: padding_value must be a PaddingValue, got 'zero'\nfix: pass one of "
            "PaddingValue.INVALID_PAD, PaddingValue.ZERO_PAD, PaddingValue.ONE_PAD, "
            "PaddingValue.LOWEST_PAD, PaddingValue.HIGHEST_PAD, PaddingValue.UNKNOWN_PAD"
        ),
    ),
    (
        {"tiles": [(2, 2, 2)]},
        (
            "layout: a tile can't have more dimensions than the array that it is applied to, "
            "got (2,2,2) for 2 dimensions"
        ),
    ),
    (
        {"tiles": [(2, 2), (2, 2, 2, 2, 2)]},
        (
            "layout: a tile can't have more dimensions than the array that it is applied to, "
            "got (2,2,2,2,2) for 4 dimensions, which result from (2,2)"
        ),
    ),
    (
        {"tiles": [(0, 2)]},
        (
            "layout: the size of a tile must be a positive integer, or '*' to combine a dimension "
            "with the next, got 0"
        ),
    ),
    (
        {"tiles": [(2, "*")]},
        (
            "layout: '*' combines a dimension with the next more minor one, so the last dimension "
            "of a tile can't be '*', got (2,*)"
        ),
    ),
    (
        {"tiles": (8, 128)},
        (
            "layout: tiles must be a sequence of tiles, such as [(8, 128)], got (8, 128)\n"
            "fix: write tiles=[(8, 128)]"
        ),
    ),
    (
        {"tiles": xb.Tile([8, 128])},
        (
            "layout: tiles must be a sequence of tiles, such as [(8, 128)], got (8,128)\n"
            "fix: write tiles=[(8,128)]"
        ),
    ),
    (
        {"tiles": {8: 2}},
        "layout: tiles must be a sequence of tiles, such as [(8, 128)], got {8: 2}",
    ),
    (
        {"tiles": [{8}]},
        "layout: a tile must be a sequence of sizes, such as (8, 128), got {8}",
    ),
    ({"padded_dimensions": {4}}, "layout: padded_dimensions must be a sequence of sizes, got {4}"),
    (
        {"minor_to_major": "{1,0}"},
        (
            "layout: minor_to_major must be a sequence of dimension numbers, got '{1,0}'\n"
            "fix: write layout.parse_layout('{1,0}')"
        ),
    ),
    ({"tiles": 8}, "layout: tiles must be a sequence of tiles, such as [(8, 128)], got 8"),
    (
        {"tiles": itertools.repeat((1,))},
        "layout: tiles must be a sequence of tiles, such as [(8, 128)], got repeat((1,))",
    ),
    (
        {"memory_space": -1},
        "layout: memory_space must be an integer from 0 to 2**63 - 1, got -1",
    ),
    (
        {"element_size_in_bits": 4.0},
        "layout: element_size_in_bits must be an integer from 0 to 2**63 - 1, got 4.0",
    ),
    (
        {"element_size_in_bits": True},
        "layout: element_size_in_bits must be an integer from 0 to 2**63 - 1, got True",
    ),
    (
        {"tail_padding_alignment_in_elements": 0},
        "layout: tail_padding_alignment_in_elements must be an integer from 1 to 2**63 - 1, got 0",
    ),
]


@each_row("arguments, message", WRONG)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        xb.Layout(**{"minor_to_major": [1, 0], **arguments})
    assert str(caught.value) == message
    assert caught.value.op == "layout"


def test_tiles_of_tiles() -> None:
    """A tiled dimension becomes two, and a combined dimension is removed."""
    tiles: Any
    for rank, tiles in [
        (0, [(128,)]),
        (0, [(4,), (2, 2), (1, 1, 1, 1)]),
        (2, [(2, 2), (1, 1, 1, 1), (1,) * 8]),
        (3, [("*", "*", 6), (2, 2)]),
        (5, [("*", "*", 2, "*", 3), (1, 1, 1, 1)]),
    ]:
        layout = xb.Layout(range(rank), tiles=tiles)
        longer = [1] * (len(tiles[-1]) + 1)
        assert len(layout.tiles) == len(tiles)
        with pytest.raises(xb.ShapeInferenceError, match="a tile can't have more dimensions"):
            xb.Layout(range(rank), tiles=[*tiles[:-1], longer])


@each_row("order", [[0, 0], [1], [-1], [0, 2], ["a"], [1.0, 0], [True, False], [None]])
def test_not_a_permutation(order: Any) -> None:
    with pytest.raises(
        xb.ShapeInferenceError, match="must be a permutation of the dimensions 0 to"
    ):
        xb.Layout(order)


def test_not_a_sequence() -> None:
    order: Any
    for order in (
        3,
        {0, 1},
        frozenset([0, 1]),
        {0: 1, 1: 0},
        b"\0",
        np.array(3),
        xb.tuple(xb.XlaBuilder().parameter(xb.f32[2])),
    ):
        with pytest.raises(xb.ShapeInferenceError, match="a sequence of dimension numbers, got "):
            xb.Layout(order)


def test_an_endless_order() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="must be a permutation of the dimensions"):
        xb.Layout(itertools.count(1))


def test_layout_of_a_shape() -> None:
    shape = xb.f32[2, 3].with_layout([0, 1])
    assert str(shape) == "f32[2,3]{0,1}"
    assert shape is xb.f32[2, 3].with_layout(xb.Layout([0, 1]))
    assert shape is not xb.f32[2, 3]
    assert shape.with_layout(None) is xb.f32[2, 3]
    assert str(shape.with_element_type(xb.s8)) == "s8[2,3]{0,1}"


def test_layout_of_another_rank() -> None:
    with pytest.raises(
        xb.ShapeInferenceError, match=r"layout: \{1,0\} orders 2 dimensions, f32\[2\] has 1"
    ):
        xb.f32[2].with_layout([1, 0])


def test_a_layout_as_text() -> None:
    assert xb.f32[2, 3].with_layout("{0,1:T(2)}") is xb.parse_shape("f32[2,3]{0,1:T(2)}")
    assert xb.array_shape("f32", [2], layout="{0:S(1)}") is xb.parse_shape("f32[2]{0:S(1)}")
    with pytest.raises(xb.ShapeTextError) as caught:
        xb.f32[2].with_layout("{0:T(2)")
    assert (caught.value.text, caught.value.position) == ("{0:T(2)", 7)


@each_row(
    "shape, layout, message, dimension",
    [
        (xb.f32[2, 3], [0], "layout: {0} orders 1 dimension, f32[2,3] has 2", None),
        (xb.f32[()], [0], "layout: {0} orders 1 dimension, f32[] has 0", None),
        (
            xb.f32[2, 3],
            xb.Layout([1, 0], padded_dimensions=[5, 2]),
            (
                "layout: padded_dimensions can't be smaller than the dimensions, got 2 for "
                "dimension 1 of f32[2,3]"
            ),
            1,
        ),
        (
            xb.f32[2],
            "{0:E(16)}",
            (
                "layout: element_size_in_bits can't be smaller than the 32 bits of an element of "
                "f32, got 16"
            ),
            None,
        ),
        (
            xb.s4[2],
            "{0:E(6)}",
            "layout: element_size_in_bits must be 1, 2, 4 or a multiple of 8, got 6",
            None,
        ),
        (
            xb.f32[2, 3],
            xb.Layout([1, 0], tiles=[(2**32, 2**31)]),
            (
                "layout: the buffer of f32[2,3] with {1,0:T(4294967296,2147483648)} has "
                "9223372036854775808 elements, padding included, more than 2**63 - 1"
            ),
            None,
        ),
    ],
)
def test_a_layout_that_does_not_fit(
    shape: xb.ArrayShape, layout: Any, message: str, dimension: int | None
) -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        shape.with_layout(layout)
    assert str(caught.value) == message
    assert caught.value.shapes == {"shape": shape}
    assert (caught.value.op, caught.value.dimension) == ("layout", dimension)


def test_a_buffer_of_a_size_with_too_many_digits_to_write() -> None:
    layout = xb.Layout(range(300), tiles=[[2**62] * 300])
    with pytest.raises(
        xb.ShapeInferenceError, match=r"has \(an int of 18601 bits\) elements"
    ) as caught:
        xb.array_shape("f32", [1] * 300, layout=layout)
    assert len(str(caught.value)) < 1500


def test_the_largest_buffer() -> None:
    shape = xb.u8[1].with_layout(xb.Layout([0], tiles=[(2**63 - 1,)]))
    assert shape.padded_byte_size == 2**63 - 1
    empty = xb.f32[0, 5].with_layout(xb.Layout([1, 0], tiles=[(2**62, 2**62), (2**62,)]))
    assert empty.padded_byte_size == 0


def test_a_type_wider_than_the_element_size() -> None:
    shape = xb.s4[2].with_layout("{0:E(4)}")
    assert shape.with_element_type(xb.u4) is xb.u4[2].with_layout("{0:E(4)}")
    with pytest.raises(xb.ShapeInferenceError, match="smaller than the 8 bits of an element of s8"):
        shape.with_element_type(xb.s8)
