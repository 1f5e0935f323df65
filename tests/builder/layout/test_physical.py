"""Physical sizes, compared with NumPy's arrays after pad, reshape and transpose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from layouts import SIZES, in_memory, random_layouts
from tables import each_row

import builder as xb
from builder.types.physical import physical


@given(st.data())
def test_the_dimensions_are_those_of_the_array_in_memory(data: st.DataObject) -> None:
    sizes = data.draw(SIZES)
    layout = data.draw(random_layouts(sizes))
    form = physical(sizes, layout)
    memory = in_memory(np.ones(sizes), layout)
    assert form.dimensions == memory.shape
    assert form.sizes == (layout.padded_dimensions or sizes)
    assert [form.ordered[-1 - i] for i in range(len(sizes))] == [
        form.sizes[d] for d in layout.minor_to_major
    ]
    alignment = layout.tail_padding_alignment_in_elements
    assert form.size % alignment == 0
    assert 0 <= form.size - memory.size < alignment
    assert form.tail == form.size - memory.size


@each_row(
    "text, dimensions, size",
    [
        ("f32[2,3]{1,0}", (2, 3), 6),
        ("f32[2,3]{0,1}", (3, 2), 6),
        ("f32[2,3]{0,1:pad(3,5)}", (5, 3), 15),
        ("f32[3,5]{1,0:T(2,2)}", (2, 3, 2, 2), 24),
        ("f32[4,8]{1,0:T(2,4)}", (2, 2, 2, 4), 32),
        ("f32[4,8]{1,0:T(2,4)(2,1)}", (2, 2, 1, 4, 2, 1), 32),
        ("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", (56, 37, 2, 3), 12432),
        ("f32[112,110]{1,0:T(2,3)}", (56, 37, 2, 3), 12432),
        ("f32[]{:T(128)}", (1, 128), 128),
        ("f32[]", (), 1),
        ("bf16[7,300]{1,0:T(8,128)(2,1)}", (1, 3, 4, 128, 2, 1), 3072),
        ("f32[3,5]{1,0:T()}", (3, 5), 15),
        ("f32[3,5]{1,0:L(8)}", (3, 5), 16),
        ("f32[0,5]{1,0:T(2,2)L(8)}", (0, 3, 2, 2), 0),
    ],
)
def test_written_out(text: str, dimensions: tuple[int, ...], size: int) -> None:
    """Numbers of the documents, and a few that are easy to count."""
    shape = xb.parse_shape(text)
    assert isinstance(shape, xb.ArrayShape)
    form = physical(shape.dimensions, shape.layout or xb.Layout(range(shape.rank)[::-1]))
    assert (form.dimensions, form.size) == (dimensions, size)


def test_a_tiling() -> None:
    (tiling,) = physical((2, 7, 8, 11, 10), xb.Layout(range(5), tiles=[("*", 2, "*", 3)])).tilings
    assert tiling.before == (10, 11, 8, 7, 2)
    assert tiling.groups == ((10,), (11, 8), (7, 2))
    assert tiling.combined == (10, 88, 14)
    assert (tiling.tile, tiling.untiled, tiling.counts) == ((2, 3), 1, (44, 5))
    assert tiling.after == (10, 44, 5, 2, 3)


class TestSizesInBytes:
    @given(st.data())
    def test_are_those_of_the_array_in_memory(self, data: st.DataObject) -> None:
        sizes = data.draw(SIZES)
        layout = data.draw(random_layouts(sizes))
        shape = xb.array_shape("f32", sizes, layout=layout)
        bits = layout.element_size_in_bits or 32
        memory = in_memory(np.ones(sizes, f"f{bits // 8}"), layout)
        alignment = layout.tail_padding_alignment_in_elements
        assert shape.element_size_in_bits == bits
        assert shape.byte_size == np.ones(sizes, memory.dtype).nbytes
        assert 0 <= shape.padded_byte_size - memory.nbytes < alignment * memory.itemsize
        assert shape.padded_byte_size % (alignment * memory.itemsize) == 0

    @each_row(
        "text, bits, alone, padded",
        [
            ("f32[3,5]", 32, 60, 60),
            ("f32[3,5]{0,1}", 32, 60, 60),
            ("f32[3,5]{1,0:T(2,2)}", 32, 60, 96),
            ("c128[3]{0:T(2)}", 128, 48, 64),
            ("pred[5]", 8, 5, 5),
            ("pred[9]{0:E(1)}", 1, 2, 2),
            ("s4[5]", 8, 5, 5),
            ("s4[5]{0:E(4)}", 4, 3, 3),
            ("s4[5]{0:T(8)E(4)}", 4, 3, 4),
            ("s2[5]{0:E(2)}", 2, 2, 2),
            ("f32[<=5,3]{1,0:T(2)}", 32, 60, 80),
            ("f32[]{:T(128)}", 32, 4, 512),
            ("bf16[0]{0:T(128)}", 16, 0, 0),
        ],
    )
    def test_written_out(self, text: str, bits: int, alone: int, padded: int) -> None:
        shape = xb.parse_shape(text)
        assert isinstance(shape, xb.ArrayShape)
        assert shape.element_size_in_bits == bits
        assert (shape.byte_size, shape.padded_byte_size) == (alone, padded)

    @each_row("name", ["byte_size", "padded_byte_size"])
    @each_row("layout", [None, [1, 0]])
    def test_of_unbounded_sizes(self, name: str, layout: list[int] | None) -> None:
        shape = xb.array_shape("f32", ["?", 2], layout=layout)
        with pytest.raises(xb.ShapeInferenceError, match=rf"^{name}: f32\[\?,2\].* has an unbound"):
            getattr(shape, name)
