"""Ranks, dimension numbers, counts and sizes of shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from layouts import SIZES, in_memory, random_layouts
from tables import each_row

import builder as xb


def array_shape(text: str) -> xb.ArrayShape:
    shape = xb.parse_shape(text)
    assert isinstance(shape, xb.ArrayShape)
    return shape


@each_row(
    "text, rank, true_rank, count",
    [
        ("f32[]", 0, 0, 1),
        ("f32[1]", 1, 0, 1),
        ("f32[5,1,7]", 3, 2, 35),
        ("f32[1,0,2]", 3, 1, 0),
        ("f32[<=1,<=4]", 2, 1, 4),
        ("f32[2,3]{0,1:T(4,4)}", 2, 2, 6),
    ],
)
def test_ranks_and_element_counts(text: str, rank: int, true_rank: int, count: int) -> None:
    shape = array_shape(text)
    assert (shape.rank, shape.true_rank, shape.element_count) == (rank, true_rank, count)


def test_an_unbounded_dimension_counts_in_the_true_rank() -> None:
    assert array_shape("f32[?,1,2]").true_rank == 2


@given(SIZES)
def test_ranks_and_counts_agree_with_numpy(sizes: tuple[int, ...]) -> None:
    shape = xb.array_shape("f32", sizes)
    array = np.empty(sizes, np.float32)
    assert (shape.rank, shape.element_count) == (array.ndim, array.size)
    assert (shape.byte_size, shape.padded_byte_size) == (array.nbytes, array.nbytes)
    if array.size:
        assert shape.true_rank == array.squeeze().ndim


@each_row("number, expected", [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_dimension_numbers(number: int, expected: int) -> None:
    """Document: dimension -1 of [A x B x C] is C, -2 is B, and so on."""
    shape = xb.f32[5, 6, 7]
    for given_number in (number, np.int8(number), np.array(number)):
        result = shape.dimension_number(given_number)
        assert (result, type(result)) == (expected, int)
        assert shape.dimensions[result] == shape.dimensions[number]


@each_row(
    "text, number, message",
    [
        ("f32[5,6]", 2, "f32[5,6] has no dimension 2\nfix: pass one from -2 to 1"),
        ("f32[5,6]", -3, "f32[5,6] has no dimension -3\nfix: pass one from -2 to 1"),
        ("f32[5,6]", 1.0, "f32[5,6] has no dimension 1.0\nfix: pass one from -2 to 1"),
        ("f32[5,6]", True, "f32[5,6] has no dimension True\nfix: pass one from -2 to 1"),
        ("f32[5,6]", "0", "f32[5,6] has no dimension '0'\nfix: pass one from -2 to 1"),
        ("f32[]", 0, "f32[] has no dimension 0"),
        ("f32[]", -1, "f32[] has no dimension -1"),
    ],
)
def test_no_such_dimension(text: str, number: Any, message: str) -> None:
    with pytest.raises(xb.ShapeInferenceError) as caught:
        array_shape(text).dimension_number(number)
    assert str(caught.value) == f"dimension_number: {message}"


def test_ops_refuse_negative_dimensions() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2, 3])
    with pytest.raises(xb.ShapeInferenceError, match="-1"):
        xb.rev(x, [-1])


@each_row(
    "text, size, padded",
    [
        ("f32[2,3]", 24, 24),
        ("f32[2,3]{0,1}", 24, 24),
        ("f32[2,3]{0,1:pad(3,5)}", 24, 60),  # document: 15 places
        ("f32[3,5]{1,0:T(2,2)}", 60, 96),  # figure 1: 24 places
        ("f32[4,8]{1,0:T(2,4)(2,1)}", 128, 128),  # figure 2: 32 places, none white
        ("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", 49280, 56 * 37 * 6 * 4),
        ("bf16[7,300]{1,0:T(8,128)(2,1)}", 4200, 8 * 384 * 2),
        ("f32[3,5]{1,0:L(8)}", 60, 64),
        ("f32[3,5]{1,0:T(2,2)S(1)}", 60, 96),
        ("s32[]{:T(128)}", 4, 512),
        ("f32[0,5]{1,0:T(2,2)}", 0, 0),
        ("f32[0,5]{1,0:pad(2,5)}", 0, 40),
        ("f32[<=3,5]{1,0:T(2,2)}", 60, 96),
        ("pred[9]", 9, 9),
        ("pred[9]{0:E(1)}", 2, 2),
        ("s4[3]", 3, 3),
        ("s4[3]{0:E(4)}", 2, 2),
        ("s4[3,5]{1,0:T(2,2)E(4)}", 8, 12),
        ("s8[3]{0:E(32)}", 12, 12),
        ("c128[2]", 32, 32),
    ],
)
def test_byte_sizes(text: str, size: int, padded: int) -> None:
    shape = array_shape(text)
    assert (shape.byte_size, shape.padded_byte_size) == (size, padded)


@each_row(
    "text, bits",
    [("f32[1]", 32), ("pred[1]", 8), ("s4[1]", 8), ("s4[1]{0:E(4)}", 4), ("u8[1]{0:E(16)}", 16)],
)
def test_bits_of_an_element(text: str, bits: int) -> None:
    assert array_shape(text).element_size_in_bits == bits


@given(st.data())
def test_padded_bytes_are_those_of_the_array_in_memory(data: st.DataObject) -> None:
    sizes = data.draw(SIZES)
    shape_layout = data.draw(random_layouts(sizes))
    shape = xb.array_shape("s32", sizes, layout=shape_layout)
    alignment = shape_layout.tail_padding_alignment_in_elements
    count = math.ceil(in_memory(np.ones(sizes), shape_layout).size / alignment) * alignment
    each = (shape_layout.element_size_in_bits or 32) // 8
    assert shape.padded_byte_size == count * each
    assert shape.byte_size == math.prod(sizes) * each


@each_row("name", ["element_count", "byte_size", "padded_byte_size"])
def test_an_unbounded_array_has_no_size(name: str) -> None:
    for shape in (array_shape("f32[?,2]"), array_shape("f32[?,2]{0,1:T(2,2)}")):
        with pytest.raises(xb.ShapeInferenceError) as caught:
            getattr(shape, name)
        assert f"{shape} has an unbounded dimension" in str(caught.value)
