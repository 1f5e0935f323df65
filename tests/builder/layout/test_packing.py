"""Buffers, against the documents' examples, NumPy's pad-reshape-transpose, and the formula."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from layouts import SIZES, in_memory, random_layouts
from tables import each_row

import builder as xb
import lowering
from builder import layout
from builder.types.primitive_type import ALL
from tests.foreign_arrays import PROTOCOLS

Array = np.ndarray[Any, Any]


def numbered(shape: xb.ArrayShape) -> Array:
    """An array with distinct elements, none of them the padding value."""
    count = math.prod(shape.dimensions)
    return np.arange(100, 100 + count, dtype=shape.element_type.dtype).reshape(shape.dimensions)


def array_shape(text: str) -> xb.ArrayShape:
    shape = xb.parse_shape(text)
    assert isinstance(shape, xb.ArrayShape)
    return shape


FILLS = {
    xb.PaddingValue.INVALID_PAD: 0,
    xb.PaddingValue.ZERO_PAD: 0,
    xb.PaddingValue.ONE_PAD: 1,
    xb.PaddingValue.LOWEST_PAD: -(2**31),
    xb.PaddingValue.HIGHEST_PAD: 2**31 - 1,
    xb.PaddingValue.UNKNOWN_PAD: 0,
}


# ---- The examples of the documents. ---------------------------------------------------------


@each_row(
    "text, memory",
    [
        ("u8[2,3]{0,1}", "a d b e c f"),
        ("u8[2,3]{1,0}", "a b c d e f"),
        ("u8[2,3]", "a b c d e f"),
        ("u8[2,3]{0,1:pad(3,5)=zero}", "a d 0 b e 0 c f 0 0 0 0 0 0 0"),
        ("u8[2,3]{1,0:pad(3,5)=zero}", "a b c 0 0 d e f 0 0 0 0 0 0 0"),
        ("u8[2,3]{1,0:T(2,2)}", "a b d e c 0 f 0"),
        ("u8[2,3]{0,1:L(4)}", "a d b e c f 0 0"),
    ],
)
def test_letters_in_memory(text: str, memory: str) -> None:
    letters = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    buffer = layout.pack(letters, text)
    assert "".join(chr(c) if c else "0" for c in buffer.tolist()) == memory.replace(" ", "")
    assert np.array_equal(layout.unpack(buffer, text), letters)


def test_figure_1() -> None:
    rows = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    tiles = [
        *([1, 2, 6, 7], [3, 4, 8, 9], [5, 0, 10, 0]),
        *([11, 12, 0, 0], [13, 14, 0, 0], [15, 0, 0, 0]),
    ]
    buffer = layout.pack(rows, "f32[3,5]{1,0:T(2,2)}")
    assert buffer.tolist() == [n for tile in tiles for n in tile]
    assert buffer[17] == rows[2, 3]


def test_figure_2() -> None:
    """The numbers of the figure: the linear index of each element."""
    places = np.array(
        [
            [0, 2, 4, 6, 8, 10, 12, 14],
            [1, 3, 5, 7, 9, 11, 13, 15],
            [16, 18, 20, 22, 24, 26, 28, 30],
            [17, 19, 21, 23, 25, 27, 29, 31],
        ],
        np.int32,
    )
    shape = "s32[4,8]{1,0:T(2,4)(2,1)}"
    assert layout.pack(places, shape).tolist() == list(range(32))
    assert np.array_equal(layout.unpack(np.arange(32, dtype=np.int32), shape), places)


def test_combined_dimensions() -> None:
    values = np.random.default_rng(1).standard_normal((2, 7, 8, 11, 10)).astype(np.float32)
    assert np.array_equal(
        layout.pack(values, "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}"),
        layout.pack(values.reshape(112, 110), "f32[112,110]{1,0:T(2,3)}"),
    )


# ---- Random shapes. -------------------------------------------------------------------------


@st.composite
def shapes(draw: st.DrawFn) -> xb.ArrayShape:
    sizes = draw(SIZES)
    return xb.array_shape("s32", sizes, layout=draw(random_layouts(sizes)))


def elements(buffer: Array, shape: xb.ArrayShape) -> Array:
    """The elements of a buffer of s32 with any element size."""
    if buffer.dtype == np.uint8:
        assert shape.element_size_in_bits == 64
        wide = buffer.view("<u8")
        assert not (wide >> 32).any()
        return wide.astype(np.uint32).view(np.int32)
    assert buffer.dtype == np.int32
    return buffer


@given(shapes())
def test_a_buffer_is_pad_reshape_transpose(shape: xb.ArrayShape) -> None:
    shape_layout = layout.layout_of(shape)
    array = numbered(shape)
    expected = in_memory(array, shape_layout).ravel()
    expected[expected == -1] = FILLS[shape_layout.padding_value]
    buffer = layout.pack(array, shape)
    assert buffer.ndim == 1
    assert buffer.nbytes == shape.padded_byte_size
    values = elements(buffer, shape)
    assert np.array_equal(values[: len(expected)], expected)
    assert (values[len(expected) :] == FILLS[shape_layout.padding_value]).all()


@given(shapes())
def test_a_buffer_agrees_with_the_index_formula(shape: xb.ArrayShape) -> None:
    shape_layout = layout.layout_of(shape)
    array = numbered(shape)
    expected = np.full(layout.buffer_size(shape), FILLS[shape_layout.padding_value], np.int32)
    for index in itertools.product(*map(range, shape.dimensions)):
        expected[layout.linear_index(shape, index)] = array[index]
    assert np.array_equal(elements(layout.pack(array, shape), shape), expected)


@given(shapes(), st.integers(0, 2**32))
def test_unpack_returns_the_array(shape: xb.ArrayShape, seed: int) -> None:
    array = numbered(shape)
    buffer = layout.pack(array, shape)
    back = layout.unpack(buffer, shape)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.flags.c_contiguous
    assert not np.shares_memory(back, buffer)
    assert np.array_equal(back, array)
    # Padding and unused bits are ignored.
    garbage = np.random.default_rng(seed).integers(0, 255, buffer.nbytes, np.uint8, endpoint=True)
    filled = garbage.view(buffer.dtype)
    per = buffer.nbytes // max(layout.buffer_size(shape), 1)
    for place in np.flatnonzero(~layout.is_padding(shape, np.arange(layout.buffer_size(shape)))):
        begin = place * per
        filled.view(np.uint8)[begin : begin + 4] = buffer.view(np.uint8)[begin : begin + 4]
    assert np.array_equal(layout.unpack(filled, shape), array)


@given(st.lists(st.integers(0, 5), max_size=4), st.randoms(use_true_random=False))
def test_without_tiles_it_is_numpys_ravel(sizes: list[int], random: Any) -> None:
    order = random.sample(range(len(sizes)), len(sizes))
    array = np.random.default_rng(2).standard_normal(sizes)
    shape = xb.array_shape("f64", sizes)
    assert np.array_equal(layout.pack(array, shape), array.ravel())
    columns = shape.with_layout(range(len(sizes)))
    assert np.array_equal(layout.pack(array, columns), array.ravel(order="F"))
    assert np.array_equal(
        layout.pack(array, shape.with_layout(order)), array.transpose(order[::-1]).ravel()
    )


LARGE = [
    "[1000,1030]{0,1}",
    "[1000,1030]{1,0:T(8,128)}",
    "[1001,1030]{0,1:T(8,128)}",
    "[1001,1030]{1,0:T(8,128)(2,1)}",
    "[1001,1030]{0,1:T(8,128)(4,1)}",
    "[100,90,111]{0,2,1:T(4,8)}",
    "[100,90,111]{1,2,0:T(*,3,7)}",
    "[1024,1024]{0,1}",
    "[1024,1025]{1,0:T(*,5)}",
    "[1030,1024]{0,1:T(8,128)}",
    "[1030,1024]{0,1:T(8,128)(2,1)}",
    "[32,64,512]{1,0,2:T(8,16)}",
    "[40,30,20,60]{2,0,3,1:T(2,3)(*,8)pad(41,30,21,60)=one}",
]
"""Large enough to be copied in blocks; some have rows in the same cache sets."""


@pytest.mark.slow
@each_row("element", ["s8", "bf16", "f32", "f64", "c128"])
@each_row("text", LARGE)
def test_large_arrays(element: str, text: str) -> None:
    shape = array_shape(element + text)
    count = shape.element_count
    array = (np.arange(count) % 251 - 120).astype(shape.element_type.dtype)
    array = array.reshape(shape.dimensions)
    buffer = layout.pack(array, shape)
    shape_layout = layout.layout_of(shape)
    expected = in_memory(np.arange(count).reshape(shape.dimensions), shape_layout).ravel()
    padding = 1 if shape_layout.padding_value is xb.PaddingValue.ONE_PAD else 0
    flat = np.append(array.ravel(), np.array([padding]).astype(array.dtype))
    assert np.array_equal(buffer, flat[expected])
    assert np.array_equal(layout.unpack(buffer, shape), array)


@each_row("text", ["s32[6,7]{0,1}", "s32[6,7]{1,0:T(4,4)}", "s32[6,7]{1,0:T(*,5)}"])
def test_views_are_packed_as_their_copies(text: str) -> None:
    base = np.arange(4 * 6 * 7, dtype=np.int32)
    views = [
        base.reshape(12, 14)[::2, ::-2],
        base[:42].reshape(7, 6).T,
        np.broadcast_to(base[:7], (6, 7)),
        base[:42].reshape(6, 7),
    ]
    for view in views:
        before = base.copy()
        view.flags.writeable = False
        assert np.array_equal(layout.pack(view, text), layout.pack(view.copy(), text))
        assert np.array_equal(base, before)
    buffer = layout.pack(views[0], text)
    apart = np.repeat(buffer, 2)[::2]
    assert np.array_equal(layout.unpack(apart, text), views[0])


def test_a_buffer_is_new() -> None:
    array = np.arange(6, dtype=np.int32)
    for text in ("s32[6]", "s32[6]{0:T(3)}"):
        buffer = layout.pack(array, text)
        assert not np.shares_memory(buffer, array)
        assert not np.shares_memory(layout.unpack(buffer, text), buffer)


def test_scalars() -> None:
    array = np.array(7, np.int32)
    assert layout.pack(array, "s32[]").tolist() == [7]
    assert layout.pack(array, "s32[]{:T(4)}").tolist() == [7, 0, 0, 0]
    back = layout.unpack(np.array([7, 1, 2, 3], np.int32), "s32[]{:T(4)}")
    assert (back.shape, back.item()) == ((), 7)


@each_row(
    "shape",
    [
        xb.f32[(1,) * 33].with_layout(xb.Layout(range(33), tiles=[[1] * 33])),
        xb.f32[7].with_layout(xb.Layout([0], tiles=[[2], *[[1]] * 70])),
        xb.f32[(3, *(1,) * 62, 5)].with_layout(
            xb.Layout(range(64), tiles=[[1] * 64, ["*"] * 127 + [4]])
        ),
    ],
)
def test_more_physical_dimensions_than_numpy_supports(shape: xb.ArrayShape) -> None:
    assert len(layout.physical_dimensions(shape)) > 64 or shape.rank == 64
    array = numbered(shape)
    buffer = layout.pack(array, shape)
    expected = np.zeros(layout.buffer_size(shape), np.float32)
    for index in itertools.product(*map(range, shape.dimensions)):
        expected[layout.linear_index(shape, index)] = array[index]
    assert np.array_equal(buffer, expected)
    assert np.array_equal(layout.unpack(buffer, shape), array)


def test_no_elements() -> None:
    assert layout.pack(np.empty((0, 2), np.float32), "f32[0,2]{1,0:pad(1,3)=one}").tolist() == [
        *(1, 1, 1)
    ]
    none = np.empty((0, 3), np.float32)
    assert layout.pack(none, "f32[0,3]{1,0:T(2,2)}").shape == (0,)
    assert layout.pack(none, "f32[0,3]{1,0:pad(2,3)=one}").tolist() == [1] * 6
    assert layout.unpack(np.empty(0, np.float32), "f32[0,3]{0,1:T(*,2)}").shape == (0, 3)
    assert layout.unpack(np.zeros(6, np.float32), "f32[0,3]{1,0:pad(2,3)}").shape == (0, 3)


def test_bounded_dimensions_have_their_bounds() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert layout.pack(array, "s32[<=2,3]{0,1}").tolist() == [0, 3, 1, 4, 2, 5]
    assert np.array_equal(layout.unpack(array.ravel("F"), "s32[<=2,3]{0,1}"), array)


# ---- Element types, padding values and element sizes. ---------------------------------------


@each_row("element", ALL)
@each_row("text", ["{0,1}", "{1,0:T(2,2)}", "{1,0:T(4,2)(2,1)}", "{0,1:T(*,4)}"])
def test_every_element_type(element: xb.PrimitiveType, text: str) -> None:
    shape = xb.array_shape(element, [5, 3], layout=text)
    bits = np.random.default_rng(3).integers(0, 2 ** min(element.bits, 8), (5, 3, 16), np.uint8)
    array = bits[..., : element.byte_width].copy().view(element.dtype)[..., 0]
    buffer = layout.pack(array, shape)
    assert buffer.dtype == element.dtype
    for index in itertools.product(range(5), range(3)):
        assert buffer[layout.linear_index(shape, index)].tobytes() == array[index].tobytes()
    back = layout.unpack(buffer, shape)
    assert back.dtype == element.dtype
    assert back.tobytes() == array.tobytes()


def extremes() -> list[tuple[str, str, float]]:
    infinite = ["f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e3m4"]
    cases = [(name, value, math.inf) for name in infinite for value in ("highest",)]
    cases += [(name, "lowest", -math.inf) for name in infinite]
    for name, low, high in [
        ("f8e4m3fn", -448, 448),
        ("f8e5m2fnuz", -57344, 57344),
        ("f8e4m3fnuz", -240, 240),
        ("f8e4m3b11fnuz", -30, 30),
        ("f4e2m1fn", -6, 6),
        ("f8e8m0fnu", 2.0**-127, 2.0**127),
        ("pred", 0, 1),
        ("s2", -2, 1),
        ("u2", 0, 3),
        ("s4", -8, 7),
        ("u4", 0, 15),
        ("s8", -128, 127),
        ("u64", 0, 2**64 - 1),
        ("s64", -(2**63), 2**63 - 1),
    ]:
        cases += [(name, "lowest", low), (name, "highest", high)]
    return cases


@each_row("element, value, number", extremes())
def test_lowest_and_highest(element: str, value: str, number: float) -> None:
    shape = array_shape(f"{element}[1]{{0:pad(2)={value}}}")
    buffer = layout.pack(np.ones(1, shape.element_type.dtype), shape)
    assert buffer[1].item() == number


@each_row("element", ALL)
def test_zero_and_one(element: xb.PrimitiveType) -> None:
    array = np.ones(1, element.dtype)
    assert complex(layout.pack(array, f"{element}[1]{{0:pad(2)=one}}")[1]) == 1
    for value in ("", "=unknown"):
        padding = layout.pack(array, f"{element}[1]{{0:pad(2){value}}}")[1]
        assert not any(padding.tobytes())
    if element is not xb.f8e8m0fnu:
        assert complex(layout.pack(array, f"{element}[1]{{0:pad(2)=zero}}")[1]) == 0


def test_padding_of_tiles_and_of_the_tail() -> None:
    array = np.array([1, 2, 3], np.float32)
    assert layout.pack(array, "f32[3]{0:T(2)L(3)pad=lowest}").tolist() == [1, 2, 3, *[-np.inf] * 3]


@each_row(
    "element, values, bits, memory",
    [
        ("pred", [1, 0, 1, 1, 0, 0, 0, 1, 1], 1, [0b10001101, 0b1]),
        ("pred", [1, 0, 1], 2, [0b010001]),
        ("pred", [1, 0, 1], 4, [0x01, 0x01]),
        ("pred", [1, 0], 8, None),
        ("pred", [1, 0], 32, [1, 0, 0, 0, 0, 0, 0, 0]),
        ("s2", [-1, 1, -2, 0, 1], 2, [0b00100111, 0b01]),
        ("s2", [-1, 1], 4, [0x13]),
        ("s4", [1, -1, 7], 4, [0xF1, 0x07]),
        ("u4", [1, 15, 7, 8], 4, [0xF1, 0x87]),
        ("s4", [-1], 16, [0x0F, 0x00]),
        ("f4e2m1fn", [0.5, -6, 1], 4, [0xF1, 0x02]),
        ("s8", [-1, 2], 32, [0xFF, 0, 0, 0, 2, 0, 0, 0]),
        ("bf16", [1.0], 32, [0x80, 0x3F, 0, 0]),
        ("f32", [1.0], 40, [0, 0, 0x80, 0x3F, 0]),
    ],
)
def test_sizes_of_elements(
    element: str, values: list[float], bits: int, memory: list[int] | None
) -> None:
    """Hand-written bytes: low bits first, little-endian, zeros in unused bits."""
    shape = array_shape(f"{element}[{len(values)}]{{0:E({bits})}}")
    array = np.array(values).astype(shape.element_type.dtype)
    buffer = layout.pack(array, shape)
    if memory is None:
        assert buffer.dtype == array.dtype
    else:
        assert buffer.dtype == np.uint8
        assert buffer.tolist() == memory
        assert buffer.nbytes == shape.byte_size
    back = layout.unpack(buffer, shape)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


@each_row("element, bits", [("s4", 4), ("u4", 4), ("s2", 2), ("u2", 2)])
def test_packed_elements_are_as_in_xla(element: str, bits: int) -> None:
    """XLA's bitcast from bytes orders the elements of a byte from the low bits up."""
    each = 8 // bits
    builder = xb.XlaBuilder("split")
    xb.bitcast_convert_type(builder.parameter(xb.u8[256], "bytes"), xb.as_primitive_type(element))
    every_byte = np.arange(256, dtype=np.uint8)
    split = np.asarray(lowering.compile(builder.build())(every_byte))
    assert split.shape == (256, each)
    shape = f"{element}[256,{each}]{{1,0:E({bits})}}"
    assert np.array_equal(layout.pack(split, shape), every_byte)
    assert np.array_equal(layout.unpack(every_byte, shape), split)


@given(st.data())
def test_random_layouts_of_packed_elements(data: st.DataObject) -> None:
    sizes = data.draw(SIZES)
    packed_layout = data.draw(random_layouts(sizes)).replace(element_size_in_bits=4)
    shape = xb.array_shape("u4", sizes, layout=packed_layout)
    array = np.random.default_rng(4).integers(0, 16, sizes).astype(ml_dtypes.uint4)
    unpacked = shape.with_layout(packed_layout.replace(element_size_in_bits=0))
    nibbles = layout.pack(array, unpacked).astype(np.uint8)
    nibbles = np.append(nibbles, np.zeros(len(nibbles) % 2, np.uint8)).reshape(-1, 2)
    buffer = layout.pack(array, shape)
    assert np.array_equal(buffer, nibbles[:, 0] + 16 * nibbles[:, 1])
    assert np.array_equal(layout.unpack(buffer, shape), array)


@each_row("make", PROTOCOLS.values())
def test_arrays_of_other_libraries(make: Callable[[np.ndarray], Any]) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = array.T.ravel()
    assert np.array_equal(layout.pack(make(array), "f32[2,3]{0,1}"), expected)
    assert np.array_equal(layout.unpack(make(expected), "f32[2,3]{0,1}"), array)


def test_nested_lists_are_packed() -> None:
    assert layout.pack([[1, 2, 3], [4, 5, 6]], "s8[2,3]{0,1}").tolist() == [1, 4, 2, 5, 3, 6]


# ---- Wrong input. ---------------------------------------------------------------------------

F32 = np.zeros((2, 3), np.float32)

WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a list": (
        lambda: layout.pack([[1.5]], "s32[1,1]"),
        xb.OperandError,
        (
            "pack: array must be an array, got a list with the Python number 1.5: the number is a "
            "float, and the type is an integer type\nfix: write an integer"
        ),
    ),
    "a text": (
        lambda: layout.pack("1.0", "f32[1,1]"),
        xb.OperandError,
        (
            "pack: array must be an array, got a str\n"
            "fix: write numpy.asarray(array, numpy.dtype('float32'))"
        ),
    ),
    "another dtype": (
        lambda: layout.pack(F32, "bf16[2,3]"),
        xb.OperandError,
        (
            "pack: array must be of dtype bfloat16 for bf16[2,3], got float32\n"
            "fix: write array.astype(ml_dtypes.bfloat16)"
        ),
    ),
    "another order of bytes": (
        lambda: layout.pack(F32.astype(">f4"), "f32[2,3]"),
        xb.OperandError,
        (
            "pack: array must be of dtype float32 for f32[2,3], got >f4\n"
            "fix: write array.astype(numpy.float32)"
        ),
    ),
    "other sizes": (
        lambda: layout.pack(F32, "f32[3,2]{0,1}"),
        xb.ShapeInferenceError,
        "pack: array must have the sizes [3, 2] for f32[3,2]{0,1}, got [2, 3]",
    ),
    "the padded sizes": (
        lambda: layout.pack(np.zeros((3, 5), np.float32), "f32[2,3]{0,1:pad(3,5)}"),
        xb.ShapeInferenceError,
        "must have the sizes [2, 3] for f32[2,3]{0,1:pad(3,5)}, got [3, 5]",
    ),
    "complex lowest": (
        lambda: layout.pack(np.zeros(1, np.complex64), "c64[1]{0:pad(2)=lowest}"),
        xb.ShapeInferenceError,
        "pack: c64 has no order for the padding value lowest, got c64[1]{0:pad(2)=lowest}",
    ),
    "no zero": (
        lambda: layout.pack(np.ones(1, ml_dtypes.float8_e8m0fnu), "f8e8m0fnu[1]{0:pad(2)=zero}"),
        xb.ShapeInferenceError,
        "f8e8m0fnu has no zero for the padding value zero",
    ),
    "more bytes than 63 bits": (
        lambda: layout.pack(np.zeros(1, np.float32), "f32[1]{0:T(9223372036854775807)}"),
        xb.ShapeInferenceError,
        (
            "pack: not enough memory for the buffer of f32[1]{0:T(9223372036854775807)}, "
            "36893488147419103228 bytes with padding"
        ),
    ),
    "more than the available memory": (
        lambda: layout.pack(np.zeros(1, np.int8), "s8[1]{0:T(4611686018427387904)}"),
        xb.ShapeInferenceError,
        "4611686018427387904 bytes with padding",
    ),
    "bytes": (
        lambda: layout.unpack(b"1234", "f32[1]"),
        xb.OperandError,
        "got b'1234'\nfix: convert bytes with numpy.frombuffer, a list with numpy.asarray",
    ),
    "a buffer of another dtype": (
        lambda: layout.unpack(np.zeros(4, np.uint8), "f32[1]"),
        xb.OperandError,
        (
            "unpack: buffer must be of dtype float32 for f32[1], got uint8\n"
            "fix: write buffer.view(numpy.float32)"
        ),
    ),
    "a buffer of numbers of another width": (
        lambda: layout.unpack(np.zeros(1), "f32[1]"),
        xb.OperandError,
        "must be of dtype float32 for f32[1], got float64\nfix: write buffer.astype(numpy.float32)",
    ),
    "a buffer of another order of bytes": (
        lambda: layout.unpack(np.zeros(1, ">f4"), "f32[1]"),
        xb.OperandError,
        "must be of dtype float32 for f32[1], got >f4\nfix: write buffer.astype(numpy.float32)",
    ),
    "a buffer of words of the same width": (
        lambda: layout.unpack(np.zeros(1, np.uint16), "bf16[1]"),
        xb.OperandError,
        "bfloat16 for bf16[1], got uint16\nfix: write buffer.view(ml_dtypes.bfloat16)",
    ),
    "a buffer of objects": (
        lambda: layout.unpack(np.zeros(1, object), "f64[1]"),
        xb.OperandError,
        "must be of dtype float64 for f64[1], got object\nfix: write buffer.astype(numpy.float64)",
    ),
    "a masked array": (
        lambda: layout.pack(np.ma.array([1.0, 2.0], np.float32, mask=[0, 1]), "f32[2]"),
        xb.OperandError,
        (
            "pack: array must be an array, got a masked array\n"
            "fix: fill the masked elements: array.filled(value)"
        ),
    ),
    "a masked buffer": (
        lambda: layout.unpack(np.ma.array([1.0, 2.0], np.float32, mask=[0, 1]), "f32[2]"),
        xb.OperandError,
        "unpack: buffer must be an array, got a masked array\nfix: fill the masked elements",
    ),
    "an array of too many dimensions": (
        lambda: layout.unpack(np.zeros(1, np.float32), xb.f32[(1,) * 65]),
        xb.ShapeInferenceError,
        "unpack: shape can't have more than the 64 dimensions of a NumPy array, got f32[1,1,1",
    ),
    "elements instead of bytes": (
        lambda: layout.unpack(np.zeros(4, ml_dtypes.int4), "s4[4]{0:E(4)}"),
        xb.OperandError,
        (
            "unpack: buffer must be of dtype uint8 for s4[4]{0:E(4)}, with elements of 4 bits, "
            "got int4\nfix: write buffer.view(numpy.uint8)"
        ),
    ),
    "a buffer of another size": (
        lambda: layout.unpack(np.zeros(6, np.float32), "f32[2,3]{1,0:T(2,2)}"),
        xb.ShapeInferenceError,
        "unpack: buffer must have the sizes [8] for f32[2,3]{1,0:T(2,2)}, got [6]",
    ),
    "a buffer of two dimensions": (
        lambda: layout.unpack(F32, "f32[2,3]"),
        xb.ShapeInferenceError,
        "unpack: buffer must have the sizes [6] for f32[2,3], got [2, 3]",
    ),
    "a buffer of packed elements of another size": (
        lambda: layout.unpack(np.zeros(3, np.uint8), "s4[3]{0:E(4)}"),
        xb.ShapeInferenceError,
        "must have the sizes [2] for ",
    ),
}


@each_row("name", WRONG)
def test_wrong_arrays(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
