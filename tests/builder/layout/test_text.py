"""The text of layouts: printing, parsing, positions of errors, and XLA's text."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jaxlib import xla_client
from layouts import SIZES, random_layouts, tilings
from tables import each_row

import builder as xb
from lowering.jaxlib_api import hlo_conversion

PADDING = xb.PaddingValue

WRITTEN = {
    "{}": xb.Layout([]),
    "{0}": xb.Layout([0]),
    "{1,0}": xb.Layout([1, 0]),
    "{1,0:T(2,2)}": xb.Layout([1, 0], tiles=[(2, 2)]),
    "{1,0:T(8,128)(2,1)}": xb.Layout([1, 0], tiles=[(8, 128), (2, 1)]),
    "{4,3,2,1,0:T(*,*,2,*,3)}": xb.Layout([4, 3, 2, 1, 0], tiles=[xb.Tile([-1, -1, 2, -1, 3])]),
    "{1,0:T(8,128)E(4)S(1)}": xb.Layout(
        [1, 0], tiles=[(8, 128)], element_size_in_bits=4, memory_space=1
    ),
    "{:T(128)}": xb.Layout([], tiles=[(128,)]),
    "{0:T()}": xb.Layout([0], tiles=[()]),
    "{0:T()(2)}": xb.Layout([0], tiles=[(), (2,)]),
    "{0:T(8)L(1024)E(32)S(3)}": xb.Layout(
        [0],
        tiles=[(8,)],
        tail_padding_alignment_in_elements=1024,
        element_size_in_bits=32,
        memory_space=3,
    ),
    "{0,1:pad(3,5)}": xb.Layout([0, 1], padded_dimensions=[3, 5]),
    "{0,1:pad(3,5)=zero}": xb.Layout(
        [0, 1], padded_dimensions=[3, 5], padding_value=PADDING.ZERO_PAD
    ),
    "{:pad()=one}": xb.Layout([], padded_dimensions=[], padding_value=PADDING.ONE_PAD),
    "{0:T(2)pad=lowest}": xb.Layout([0], tiles=[(2,)], padding_value=PADDING.LOWEST_PAD),
    "{0:S(1)pad(4)=unknown}": xb.Layout(
        [0], memory_space=1, padded_dimensions=[4], padding_value=PADDING.UNKNOWN_PAD
    ),
}


@each_row("text", WRITTEN)
def test_written_out(text: str) -> None:
    assert str(WRITTEN[text]) == repr(WRITTEN[text]) == text
    assert xb.parse_layout(text) == WRITTEN[text]


@each_row(
    "text, printed",
    [
        ("{1,0:}", "{1,0}"),
        ("{:}", "{}"),
        ("{1,0:E(0)S(0)L(1)}", "{1,0}"),
        ("{1,0:T(8,128)S(1)E(4)}", "{1,0:T(8,128)E(4)S(1)}"),
        ("{0,1:pad(3,5)=invalid}", "{0,1:pad(3,5)}"),
        ("{0:pad(3)T(2)}", "{0:T(2)pad(3)}"),
        ("\n{ 1 , 0 : T ( 2 , * , 2 ) ( 2 , 1 ) S ( 1 )\t}  ", None),
        (" { 0 : T ( 2 ) ( 2 , 1 ) S ( 1 ) pad ( 3 ) = zero } ", "{0:T(2)(2,1)S(1)pad(3)=zero}"),
    ],
)
def test_other_spellings(text: str, printed: str | None) -> None:
    if printed is None:
        with pytest.raises(xb.ShapeTextError, match=r"got \(2,\*,2\) for 2 dimensions"):
            xb.parse_layout(text)
    else:
        assert str(xb.parse_layout(text)) == printed


@given(st.data())
def test_parsing_the_printed_text_returns_the_layout(data: st.DataObject) -> None:
    layout = data.draw(SIZES.flatmap(random_layouts))
    assert xb.parse_layout(str(layout)) == layout


@given(st.data())
def test_the_order_of_the_parts_and_spaces_do_not_matter(data: st.DataObject) -> None:
    sizes = data.draw(SIZES)
    layout = data.draw(random_layouts(sizes))
    order, _, rest = str(layout).strip("{}").partition(":")
    parts = re.findall(r"[A-Za-z]+(?:\([^)]*\))*(?:=[a-z]+)?", rest)
    assert "".join(parts) == rest
    # A space separates a padding value from the next property.
    shuffled = "".join(
        f"{part} " if "=" in part else part for part in data.draw(st.permutations(parts))
    )
    assert xb.parse_layout(f"{{{order}:{shuffled}}}") == layout
    spaced = re.sub(r"([A-Za-z]+|\d+|\W)", r" \1 ", f"{{{order}:{shuffled}}}")
    assert xb.parse_layout(spaced) == layout
    shape = xb.parse_shape(f"f32[{','.join(map(str, sizes))}]{spaced}")
    assert shape is xb.array_shape("f32", sizes, layout=layout)


@given(st.data())
def test_shapes_with_layouts_inside_tuples(data: st.DataObject) -> None:
    shape = xb.tuple_shape(
        [
            xb.array_shape("f32", sizes, layout=data.draw(random_layouts(sizes)))
            for sizes in data.draw(st.lists(SIZES, max_size=3))
        ]
    )
    assert xb.parse_shape(str(shape)) is shape
    assert xb.parse_shape(f"({shape}, token[])") is xb.tuple_shape([shape, xb.TOKEN_SHAPE])


MALFORMED = [
    # Malformed text, the position of the error, and the message.
    ("", 0, "layout text: expected '{', got the end"),
    ("1,0", 0, "expected '{', got '1'"),
    ("{", 1, "expected a dimension number, got the end"),
    ("{1", 2, "expected ',', got the end"),
    ("{1,", 3, "expected a dimension number, got the end"),
    ("{1,0", 4, "expected ',', got the end"),
    ("{1,0,}", 5, "expected a dimension number, got '}'"),
    ("{,0}", 1, "expected a dimension number, got ','"),
    ("{1 0}", 3, "expected ',', got '0'"),
    ("{-1}", 1, "expected a dimension number, got '-'"),
    ("{x}", 1, "expected a dimension number, got 'x'"),
    ("{²}", 1, "expected a dimension number, got '²'"),
    ("{0}}", 3, "expected the end of the layout, got '}'"),
    ("{0} x", 4, "expected the end of the layout, got 'x'"),
    ("{99999999999999999999}", 1, "a dimension number must fit 63 bits, got 20 digits"),
    # Not a permutation.
    ("{1}", 1, "must be a permutation of the dimensions 0 to 0, got {1}"),
    ("{0,0}", 3, "must be a permutation of the dimensions 0 to 1, got {0,0}"),
    ("{0,2,5}", 5, "must be a permutation of the dimensions 0 to 2, got {0,2,5}"),
    ("{2,1,2:T(3,3,3,3)}", 5, "must be a permutation of the dimensions 0 to 2, got {2,1,2}"),
    # Properties.
    ("{0:", 3, "expected T, L, E, S, pad or '}', got the end"),
    ("{0:Q(1)}", 3, "expected T, L, E, S, pad or '}', got 'Q'"),
    ("{0:t(1)}", 3, "expected T, L, E, S, pad or '}', got 't'"),
    ("{0:,S(1)}", 3, "expected T, L, E, S, pad or '}', got ','"),
    ("{0:(2)}", 3, "expected T, L, E, S, pad or '}', got '('"),
    ("{0:S(1),E(8)}", 7, "expected T, L, E, S, pad or '}', got ','"),
    ("{0:S(1)T(2)S(1)}", 11, "a layout can't have S twice"),
    ("{0:T(2)S(1)T(2)}", 11, "a layout can't have T twice"),
    ("{0:pad(2)pad=zero}", 9, "a layout can't have pad twice"),
    ("{0:S(1)D(C)}", 7, "D (level types of dimensions) is not supported in layouts"),
    ("{0:#(u32)}", 3, "# (an index type) is not supported in layouts"),
    ("{0:*(u32)}", 3, "* (a pointer type) is not supported in layouts"),
    ("{0:SC(0:3)}", 3, "SC (split configurations) is not supported in layouts"),
    ("{0:P(f32[3])}", 3, "P (a physical shape) is not supported in layouts"),
    ("{0:M(5)}", 3, "M (a prefix of dynamic sizes) is not supported in layouts"),
    # Numbers.
    ("{0:S}", 4, "expected '(', got '}'"),
    ("{0:S 1}", 5, "expected '(', got '1'"),
    ("{0:S()}", 5, "expected a number for memory_space, got ')'"),
    ("{0:S(-1)}", 5, "expected a number for memory_space, got '-'"),
    ("{0:S(1}", 6, "expected ')', got '}'"),
    ("{0:S(1,2)}", 6, "expected ')', got ','"),
    ("{0:E(x)}", 5, "expected a number for element_size_in_bits, got 'x'"),
    (
        "{0:T(2)L(0)}",
        9,
        "tail_padding_alignment_in_elements must be an integer from 1 to 2**63 - 1",
    ),
    ("{0:S(9223372036854775808)}", 5, "must fit 63 bits, got 19 digits"),
    # Tiles.
    ("{0:T}", 4, "expected '(', got '}'"),
    ("{0:T(}", 5, "expected the size of a tile or '*', got '}'"),
    ("{0:T(2}", 6, "expected ',', got '}'"),
    ("{0:T(2 2)}", 7, "expected ',', got '2'"),
    ("{0:T(2,)}", 7, "expected the size of a tile or '*', got ')'"),
    ("{0:T(,2)}", 5, "expected the size of a tile or '*', got ','"),
    ("{0:T(0)}", 5, "the size of a tile can't be zero"),
    ("{1,0:T(2,00)}", 9, "the size of a tile can't be zero"),
    ("{1,0:T(-1,2)}", 7, "can't be negative; '*' combines a dimension with the next"),
    ("{1,0:T(2,2)(2,-2)}", 14, "the size of a tile can't be negative"),
    ("{1,0:T(2,*)}", 9, "'*' combines a dimension with the next more minor one"),
    ("{1,0:T(2,2)(*)}", 12, "so the last dimension of a tile can't be '*', got (*)"),
    ("{1,0:T(**)}", 8, "expected ',', got '*'"),
    ("{1,0:T(2,2,2)}", 6, "got (2,2,2) for 2 dimensions"),
    ("{0:T(2,2)}", 4, "got (2,2) for 1 dimension"),
    ("{:T(2,2)}", 3, "got (2,2) for 1 dimension"),
    ("{1,0:T(*,2)(1,2,3)}", 11, "got (1,2,3) for 2 dimensions, which result from (*,2)"),
    ("{0:T(2)(2,2)(1,1,1,1,1)}", 12, "(1,1,1,1,1) for 4 dimensions, which result from (2)(2,2)"),
    # Padding.
    ("{0:pad}", 6, "expected '(' or '=', got '}'"),
    ("{0:pad(}", 7, "expected a padded size, got '}'"),
    ("{0:pad(2,)}", 9, "expected a padded size, got ')'"),
    ("{0:pad(2 2)}", 9, "expected ',', got '2'"),
    ("{0:pad(-2)}", 7, "expected a padded size, got '-'"),
    ("{0:S(1)pad()}", 7, "one size for each dimension, got 0 for 1 dimension"),
    ("{1,0:pad(3)}", 5, "one size for each dimension, got 1 for 2 dimensions"),
    ("{0:pad(2)=}", 10, "expected one of invalid, zero, one, lowest, highest, unknown, got '}'"),
    ("{0:pad=two}", 7, "expected one of invalid, zero, one, lowest, highest, unknown, got 'two'"),
    ("{0:pad=ZERO}", 7, "expected one of invalid, zero, one, lowest, highest, unknown"),
]


@each_row("text, position, message", MALFORMED)
def test_malformed_text(text: str, position: int, message: str) -> None:
    check_fault(xb.parse_layout, text, position, message)


@each_row("text, position, message", [row for row in MALFORMED if row[0].startswith("{")])
def test_malformed_text_in_a_shape(text: str, position: int, message: str) -> None:
    before = "(s32[], f32["
    rank = text.partition(":")[0].count(",") + 1 if text[1:2] not in (":", "") else 0
    before += ",".join("5" * rank) + "]"
    after = ")" if text.endswith("}") and not text.endswith("}}") else ""
    expected = message.replace("layout text:", "shape text:")
    if "the end of the layout" in message:
        expected, position = "expected ',' or ')'", position
    check_fault(xb.parse_shape, before + text + after, len(before) + position, expected)


NOT_FITTING = [
    # Layouts that do not fit the shape.
    ("f32[2,3]{0}", 8, "layout: {0} orders 1 dimension, f32[2,3] has 2"),
    ("f32[2]{1,0:T(2)}", 6, "layout: {1,0:T(2)} orders 2 dimensions, f32[2] has 1"),
    ("f32[]{0}", 5, "layout: {0} orders 1 dimension, f32[] has 0"),
    ("f32[2]{0:S(1)E(16)}", 15, "smaller than the 32 bits of an element of f32, got 16"),
    ("pred[2]{0:E(3)}", 12, "element_size_in_bits must be 1, 2, 4 or a multiple of 8, got 3"),
    ("s4[2]{0:E(12)}", 10, "element_size_in_bits must be 1, 2, 4 or a multiple of 8, got 12"),
    (
        "f32[2,3]{1,0:T(2)pad(2,2)}",
        23,
        "padded_dimensions can't be smaller than the dimensions, got 2 for dimension 1 of f32[2,3]",
    ),
    ("f32[<=5]{0:pad(4)}", 15, "got 4 for dimension 0 of f32[<=5]"),
    ("f32[2,2]{1,0:pad(4294967296,2147483648)}", 17, "has 9223372036854775808 elements, padding"),
    ("f32[2,2]{1,0:T(1,1)(4294967296,4294967296)}", 19, "has 73786976294838206464 elements"),
    ("f32[9]{0:pad(9)T(9223372036854775807)}", None, ""),
    ("f32[9]{0:T(9)L(9223372036854775807)S(1)}", None, ""),
    ("u8[9]{0:T(9223372036854775807)(2)}", 30, "has 9223372036854775808 elements, padding incl"),
    ("f32[9]{0:L(5)T(9223372036854775807)}", 11, "has 9223372036854775810 elements"),
    ("(f32[9]{0}, f32[9]{0:L(5)T(9223372036854775807)(2)S(1)})", 47, "more than 2**63 - 1"),
]


@each_row("text, position, message", NOT_FITTING)
def test_a_layout_that_does_not_fit_the_shape(
    text: str, position: int | None, message: str
) -> None:
    if position is None:
        assert str(xb.parse_shape(text))
        return
    check_fault(xb.parse_shape, text, position, message)


def check_fault(parse: Any, text: str, position: int, message: str) -> None:
    with pytest.raises(xb.ShapeTextError) as caught:
        parse(text)
    error = caught.value
    assert message in str(error)
    assert (error.text, error.position) == (text, position)
    *_, line, arrow = str(error).split("\n")
    assert line == f"  {text}"
    assert arrow == " " * (position + 2) + "^"


@given(st.text(alphabet="{}()0123:,*TLES#D=pad zero-", max_size=20))
def test_any_text_is_parsed_or_refused_at_a_position(text: str) -> None:
    for start in ("", "{", "{1,0:", "{0:T(2)"):
        fault = None
        try:
            layout = xb.parse_layout(start + text)
        except xb.ShapeTextError as error:
            fault = error.position
        else:
            assert xb.parse_layout(str(layout)) == layout
        assert fault is None or 0 <= fault <= len(start + text)


def test_a_long_text_is_refused_in_a_message_of_a_few_lines() -> None:
    for text in (
        "{" + ",".join(map(str, range(70_000))) + "}",
        "{" + ",".join(map(str, range(65_536))) + "}",
        "{0:T" + "(2)" * 70_000 + "}",
        "{0:T(" + ",".join("2" * 70_000) + ")}",
        "{0:" + "S(1)" * 50_000 + "}",
        "{0:S(" + "9" * 5000 + ")}",
        "{0:pad(" + ",".join("2" * 70_000) + ")}",
    ):
        with pytest.raises(xb.ShapeTextError) as caught:
            xb.parse_layout(text)
        assert len(str(caught.value)) < 1000


def test_not_a_string() -> None:
    text: Any
    for text in (3, None, xb.Layout([0]), b"{0}"):
        with pytest.raises(xb.OperandError, match="parse_layout: expected a layout's text, got "):
            xb.parse_layout(text)


# XLA's text. It has no padded dimensions, and only one order of properties.


@given(st.data())
def test_shapes_of_jaxlib_have_the_same_text(data: st.DataObject) -> None:
    sizes = data.draw(SIZES)
    layout = data.draw(random_layouts(sizes, padded=False))
    element_type = data.draw(st.sampled_from(["f32", "s32", "u16", "pred", "s4", "bf16"]))
    if sizes and data.draw(st.booleans()):
        dimensions = ",".join([f"<={sizes[0]}", *map(str, sizes[1:])])
    else:
        dimensions = ",".join(map(str, sizes))
    ours = xb.parse_shape(f"{element_type}[{dimensions}]{layout}")
    xla_shape = xla_client.Shape(str(ours))
    assert isinstance(ours, xb.ArrayShape)
    assert str(xla_shape) == str(ours)
    assert xb.parse_shape(str(xla_shape)) is ours
    # Each part separately.
    described = xla_shape.layout()
    assert str(described) == described.to_string() == str(layout)
    assert xb.parse_layout(str(described)) == layout
    assert tuple(described.minor_to_major()) == layout.minor_to_major
    assert described.element_size_in_bits() == layout.element_size_in_bits
    # In memory XLA represents "*" by the smallest int64 instead of -1.
    combine = {-(2**63): -1}
    tiles = [tuple(combine.get(n, n) for n in tile) for tile in described.tiling()]
    assert tiles == [tile.dimensions for tile in layout.tiles]


def _of_xla(shape: xb.Shape) -> str:
    """Return XLA's text, which omits the default layout of a scalar."""
    return str(shape).removesuffix("{}")


@given(st.data())
def test_layouts_made_by_jaxlib_have_the_same_text(data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 4))
    order = data.draw(st.permutations(range(rank)))
    # Negative sizes, such as the one of "*", abort the process.
    tiles = data.draw(tilings(rank, combining=False))
    bits = data.draw(st.sampled_from([0, 1, 2, 4, 8, 32]))
    xla_layout = xla_client.Layout(order, [tuple(tile) for tile in tiles], bits)
    assert str(xla_layout) == str(xb.Layout(order, tiles=tiles, element_size_in_bits=bits))


@given(st.data())
def test_the_hlo_parser_reads_and_writes_the_same(data: st.DataObject) -> None:
    # Its parser refuses empty tiles, T(), which jaxlib's shapes accept.
    shapes = []
    for sizes in data.draw(st.lists(SIZES, min_size=1, max_size=4)):
        layout = data.draw(random_layouts(sizes, padded=False, least_tile=1))
        shapes.append(xb.array_shape("f32", sizes, layout=layout))
    lines = [f"  p{i} = {_of_xla(s)} parameter({i})" for i, s in enumerate(shapes)]
    tuple_shape = f"({', '.join(map(_of_xla, shapes))})"
    names = ", ".join(f"p{i}" for i in range(len(shapes)))
    text = "\n".join(
        ["HloModule m", "", "ENTRY main {", *lines, f"  ROOT t = {tuple_shape} tuple({names})", "}"]
    )
    parsed = hlo_conversion.parsed_hlo_text(text)
    written = re.findall(r"= (\S+) parameter\(\d+\)", parsed)
    assert written == [_of_xla(shape) for shape in shapes]
    entry = re.search(r"entry_computation_layout=\{\((.*)\)->\((.*)\)\}", parsed)
    assert entry is not None
    assert xb.parse_shape(f"({_COMMENT.sub('', entry[2])})") is xb.tuple_shape(
        [xb.parse_shape(_of_xla(shape)) for shape in shapes]
    )


_COMMENT = re.compile(r"/\*.*?\*/")


@each_row("text", ["f32[3,5]{1,0:}", "f32[3]{0:L(1)E(0)S(0)}", "f32[]{:T(128)}"])
def test_xla_parses_other_spellings(text: str) -> None:
    assert str(xla_client.Shape(text)) == str(xb.parse_shape(text))


@each_row(
    "text",
    [*(text for text, *_ in MALFORMED if text.startswith(("{1,0:Q", "{0:Q", "{0:t", "{0:S(1),")))],
)
def test_xla_refuses_it_as_well(text: str) -> None:
    with pytest.raises(Exception, match="Syntax error"):
        xla_client.Shape(f"f32[5]{text}")


def test_the_default_layout_of_xla_is_that_of_a_new_shape() -> None:
    for rank in range(5):
        shape = xb.array_shape("f32", [2] * rank)
        assert shape.layout is None
        default = xla_client.Shape(str(shape)).layout()
        assert xb.parse_layout(str(default)).is_default
        assert math.prod(shape.dimensions) == shape.element_count
