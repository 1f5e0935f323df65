"""Shapes, recorded ops and errors of convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from tables import each_row

import builder as xb
from builder import shape_inference as infer
from builder.attributes.padding import dilated, explicit_padding
from builder.ops.contraction.convolution import convolution_window

Numbers = xb.ConvolutionDimensionNumbers
SAME, VALID = xb.Padding.SAME, xb.Padding.VALID


def shape(text: str) -> xb.Shape:
    return xb.parse_shape(text)


def operands(*texts: str) -> list[xb.XlaOp]:
    b = xb.XlaBuilder()
    return [b.parameter(t) for t in texts]


# --- Shapes -------------------------------------------------------------------------------------


@each_row(
    "lhs, rhs, strides, padding, result",
    [
        ("f32[8,3,32,32]", "f32[16,3,5,5]", [1, 1], SAME, "f32[8,16,32,32]"),
        ("f32[8,3,32,32]", "f32[16,3,5,5]", [1, 1], VALID, "f32[8,16,28,28]"),
        # SAME: the number of positions is the size divided by the stride, rounded up.
        ("f32[1,1,7]", "f32[1,1,4]", [2], SAME, "f32[1,1,4]"),
        ("f32[1,1,7]", "f32[1,1,9]", [1], SAME, "f32[1,1,7]"),
        ("f32[1,1,7]", "f32[1,1,1]", [3], SAME, "f32[1,1,3]"),
        ("f32[1,1,0]", "f32[1,1,3]", [1], SAME, "f32[1,1,0]"),
        # VALID: windows that exceed the input are omitted.
        ("f32[1,1,7]", "f32[1,1,2]", [3], VALID, "f32[1,1,2]"),
        ("f32[1,1,7]", "f32[1,1,8]", [1], VALID, "f32[1,1,0]"),
        # Pairs: padding[1] = (2, 3) adds two zeros before and three after.
        ("f32[1,1,4,4]", "f32[1,1,1,1]", [1, 1], [(0, 0), (2, 3)], "f32[1,1,4,9]"),
        ("f32[1,1,4]", "f32[1,1,2]", [1], [(-1, 0)], "f32[1,1,2]"),
        ("f32[1,1,4]", "f32[1,1,2]", [1], [(-6, 4)], "f32[1,1,1]"),
        ("f32[1,1,4]", "f32[1,1,2]", [1], [(-2, -2)], "f32[1,1,0]"),
        # Empty sequences mean 1 everywhere and no padding, as in XLA.
        ("f32[1,1,4]", "f32[1,1,2]", [], [], "f32[1,1,3]"),
        # From zero to ten spatial dimensions.
        ("s32[5,3]", "s32[2,3]", [], SAME, "s32[5,2]"),
        ("c64[1,2,3,3,3]", "c64[4,2,1,2,3]", [1, 1, 1], VALID, "c64[1,4,3,2,1]"),
        ("u4[1,2,3,3,3,3]", "u4[4,2,1,2,3,1]", [1, 2, 1, 2], VALID, "u4[1,4,3,1,1,2]"),
        (
            "bf16[1,1,1,1,1,1,1,1,1,1,1,2]",
            "bf16[1,1,1,1,1,1,1,1,1,1,1,2]",
            [1] * 10,
            VALID,
            "bf16[1,1,1,1,1,1,1,1,1,1,1,1]",
        ),
        # Sizes of 0 everywhere but in the window.
        ("f32[0,3,4]", "f32[2,3,3]", [1], VALID, "f32[0,2,2]"),
        ("f32[2,0,4]", "f32[2,0,3]", [1], VALID, "f32[2,2,2]"),
        ("f32[2,3,4]", "f32[0,3,3]", [1], VALID, "f32[2,0,2]"),
        # Large sizes.
        ("f32[1,1,2]", "f32[1,1,2]", [2**40], [(2**41, 2**40)], "f32[1,1,4]"),
        # Bounded sizes of the batch, and of spatial dimensions of both operands.
        ("f32[<=4,3,8]", "f32[2,3,3]", [1], VALID, "f32[<=4,2,6]"),
        ("f32[4,3,<=8]", "f32[2,3,3]", [2], [(1, 1)], "f32[4,2,<=4]"),
        ("f32[4,3,<=8]", "f32[2,3,3]", [1], SAME, "f32[4,2,<=8]"),
        ("f32[4,3,8]", "f32[2,3,<=3]", [1], VALID, "f32[4,2,<=6]"),
        ("f32[4,<=3,8]", "f32[2,<=3,3]", [1], VALID, "f32[4,2,6]"),
        # Unbounded sizes.
        ("f32[?,?,?]", "f32[2,3,3]", [1], VALID, "f32[?,2,?]"),
        ("f32[4,3,8]", "f32[2,?,3]", [1], VALID, "f32[4,2,6]"),
    ],
)
def test_conv_shape(lhs: str, rhs: str, strides: list[int], padding: Any, result: str) -> None:
    assert infer.conv(shape(lhs), shape(rhs), strides, padding) is shape(result)
    x, kernel = operands(lhs, rhs)
    for function in (xb.conv, xb.conv_with_general_padding):
        assert function(x, kernel, strides, padding).shape is shape(result)


@each_row(
    "lhs, rhs, arguments, result",
    [
        ("f32[2,6,9]", "f32[4,6,3]", {"lhs_dilation": [3]}, "f32[2,4,23]"),
        ("f32[2,6,9]", "f32[4,6,3]", {"rhs_dilation": [4]}, "f32[2,4,1]"),
        ("f32[2,6,1]", "f32[4,6,1]", {"lhs_dilation": [9], "rhs_dilation": [9]}, "f32[2,4,1]"),
        ("f32[2,6,0]", "f32[4,6,1]", {"lhs_dilation": [9]}, "f32[2,4,0]"),
        ("f32[2,6,9]", "f32[4,6,3]", {"lhs_dilation": [], "rhs_dilation": []}, "f32[2,4,7]"),
        # Groups of features and of the batch.
        ("f32[2,6,9]", "f32[4,3,3]", {"feature_group_count": 2}, "f32[2,4,7]"),
        ("f32[2,6,9]", "f32[12,1,3]", {"feature_group_count": 6}, "f32[2,12,7]"),
        ("f32[6,2,9]", "f32[3,2,3]", {"batch_group_count": 3}, "f32[2,3,7]"),
        ("f32[<=6,2,9]", "f32[3,2,3]", {"batch_group_count": 3}, "f32[<=2,3,7]"),
        ("f32[?,2,9]", "f32[3,2,3]", {"batch_group_count": 3}, "f32[?,3,7]"),
        ("f32[2,0,9]", "f32[4,0,3]", {"feature_group_count": 2}, "f32[2,4,7]"),
        ("s8[2,6,9]", "s8[4,6,3]", {"preferred_element_type": xb.s32}, "s32[2,4,7]"),
        ("bf16[2,6,9]", "bf16[4,6,3]", {"preferred_element_type": "f32"}, "f32[2,4,7]"),
        ("f16[2,6,9]", "f16[4,6,3]", {"preferred_element_type": "bf16"}, "bf16[2,4,7]"),
    ],
)
def test_other_arguments_that_change_the_shape(
    lhs: str, rhs: str, arguments: dict[str, Any], result: str
) -> None:
    x, kernel = operands(lhs, rhs)
    assert xb.conv(x, kernel, [1], VALID, **arguments).shape is shape(result)
    assert xb.conv_with_general_padding(x, kernel, [1], [(0, 0)], **arguments).shape is shape(
        result
    )
    dilations = {"lhs_dilation": None, "rhs_dilation": None} | arguments
    numbers = Numbers.default(1)
    for reversal in (None, [], [False], [True]):
        y = xb.conv_general_dilated(
            x, kernel, [1], VALID, dimension_numbers=numbers, window_reversal=reversal, **dilations
        )
        assert y.shape is shape(result)
    if not any(name.endswith("dilation") for name in arguments):
        y = xb.conv_general(x, kernel, [1], [(0, 0)], numbers, **arguments)
        assert y.shape is shape(result)
        y = xb.conv_with_general_dimensions(x, kernel, [1], VALID, numbers, **arguments)
        assert y.shape is shape(result)


@each_row(
    "lhs, rhs, numbers, result",
    [
        ("f32[8,32,30,3]", "f32[5,4,3,16]", "b01f_01io->b01f", "f32[8,28,27,16]"),
        ("f32[8,32,30,3]", "f32[5,4,3,16]", "b10f_01io->bf01", "f32[8,16,26,29]"),
        ("f32[3,32,8]", "f32[16,5,3]", "f0b_o0i->0fb", "f32[28,16,8]"),
        ("f32[3,8]", "f32[16,3]", "fb_oi->fb", "f32[16,8]"),
        ("f32[3,<=9,8]", "f32[3,3,16]", "f0b_0io->0bf", "f32[<=7,8,16]"),
    ],
)
def test_dimensions_in_any_order(lhs: str, rhs: str, numbers: str, result: str) -> None:
    x, kernel = operands(lhs, rhs)
    strides = [1] * (x.shape.rank - 2)
    for form in (numbers, Numbers.of(numbers)):
        y = xb.conv_with_general_dimensions(x, kernel, strides, VALID, form)
        assert y.shape is shape(result)
        pairs = [(0, 0)] * len(strides)
        assert xb.conv_general(x, kernel, strides, pairs, form).attributes is y.attributes
        again = xb.conv_general_dilated(x, kernel, strides, pairs, None, None, form)
        assert again.attributes is y.attributes


# --- Padding ------------------------------------------------------------------------------------


@each_row(
    "size, window, stride, dilation, pair",
    [
        (5, 3, 1, 1, (1, 1)),
        (5, 4, 1, 1, (1, 2)),
        (5, 3, 2, 1, (1, 1)),
        (6, 3, 2, 1, (0, 1)),
        (6, 1, 4, 1, (0, 0)),
        (5, 3, 1, 3, (3, 3)),
        (0, 3, 1, 1, (1, 1)),
        (1, 9, 1, 1, (4, 4)),
    ],
)
def test_same_padding(
    size: int, window: int, stride: int, dilation: int, pair: tuple[int, int]
) -> None:
    padding = explicit_padding(SAME, [size], [window], [stride], None, [dilation])
    assert padding == (pair,)
    assert explicit_padding(VALID, [size], [window], [stride]) == ((0, 0),)
    if size:
        x, kernel = operands(f"f32[1,1,{size}]", f"f32[1,1,{window}]")
        y = xb.conv(x, kernel, [stride], "same", rhs_dilation=[dilation])
        assert y.attributes["padding"] == (pair,)
        assert y.shape.dimensions[2] == -(-size // stride)


def test_holes() -> None:
    assert [dilated(size, 3) for size in (0, 1, 2, 5)] == [0, 1, 4, 13]


def test_same_padding_of_a_dilated_input() -> None:
    assert explicit_padding(SAME, [4], [3], [2], [2], [1]) == ((1, 1),)


@each_row("padding", [SAME, "SAME", "same", "Valid", [(1, 2)], ((1, 2),), [[1, 2]]])
def test_forms_of_padding(padding: Any) -> None:
    x, kernel = operands("f32[1,1,5]", "f32[1,1,4]")
    (pair,) = xb.conv(x, kernel, [1], padding).attributes["padding"]
    assert pair == ((0, 0) if padding == "Valid" else (1, 2))


# --- Recorded ops -------------------------------------------------------------------------------


def test_conv_is_recorded_as_convolution() -> None:
    x, kernel = operands("f32[2,3,9,9]", "f32[4,3,3,3]")
    default = (xb.Precision.DEFAULT, xb.Precision.DEFAULT)
    y = xb.conv(x, kernel, [2, 1], SAME)
    assert y.opcode == "convolution"
    assert y.operands == (x, kernel)
    assert y.attributes == {
        "window_strides": (2, 1),
        "padding": ((1, 1), (1, 1)),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "window_reversal": (False, False),
        "dimension_numbers": Numbers(0, 1, [2, 3], 1, 0, [2, 3], 0, 1, [2, 3]),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "precision": default,
    }
    again = xb.conv_general(x, kernel, (2, 1), [(1, 1), (1, 1)], "bf01_oi01->bf01")
    assert again.attributes is y.attributes


def test_all_attributes() -> None:
    x, kernel = operands("f32[2,6,9]", "f32[4,3,3]")
    highest = xb.Precision.HIGHEST
    y = xb.conv_general_dilated(
        x, kernel, [2], [(-1, 3)], [2], [3], "bf0_oi0->bf0", 2, 1, highest, xb.f64, [True]
    )
    assert str(y.shape) == "f64[2,4,7]"
    assert y.attributes["window_reversal"] == (True,)
    assert y.attributes["lhs_dilation"] == (2,)
    assert y.attributes["rhs_dilation"] == (3,)
    assert y.attributes["feature_group_count"] == 2
    assert y.attributes["precision"] == (highest, highest)


def test_the_window_is_computed() -> None:
    x, kernel = shape("f32[1,1,6]"), shape("f32[1,1,4]")
    window = convolution_window(x, kernel, [], SAME, [], [2], None, [True], "conv")
    assert window == ((1,), ((3, 3),), (1,), (2,), (True,))


# --- Dimension numbers --------------------------------------------------------------------------


def test_dimension_numbers_and_their_text() -> None:
    numbers = Numbers(0, 3, [1, 2], 2, 3, [0, 1], 0, 3, [1, 2])
    assert str(numbers) == "b01f_01io->b01f"
    assert Numbers.of("b01f_01io->b01f") == numbers
    assert str(Numbers.default(0)) == "bf_oi->bf"
    assert str(Numbers.default(3)) == "bf012_oi012->bf012"
    assert Numbers.of(numbers) is numbers
    # Only permutations have a short form.
    assert str(Numbers(0, 0, [1, 2], 2, 3, [0, 1], 0, 3, [1, 2])).startswith("Convolution")
    assert str(Numbers.default(11)).startswith("Convolution")


@each_row(
    "text",
    [
        *("", "b01f", "b01f_01io", "b01f_01io->", "b01f_01io->b0f", "b01f_0io->b01f"),
        *("b02f_01io->b01f", "b00f_01io->b01f", "bb1f_01io->b01f", "b01f_01ii->b01f"),
        *("B01F_01IO->B01F", "b?f_01io->b01f", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"),
        *("b01f_01io->b01f ", "NHWC", "b1f_1io->b1f"),
    ],
)
def test_invalid_texts_of_dimension_numbers(text: str) -> None:
    with pytest.raises(xb.ShapeInferenceError) as error:
        Numbers.of(text)
    assert "names each dimension of the input, the kernel and the output once" in str(error.value)
    assert str(error.value).endswith('fix: write for instance "b01f_01io->b01f"')


@each_row("value", [None, 3, (0, 1), object(), {}])
def test_invalid_dimension_numbers(value: Any) -> None:
    x, kernel = operands("f32[2,3,9]", "f32[4,3,3]")
    with pytest.raises(xb.ShapeInferenceError, match="must be ConvolutionDimensionNumbers or a s"):
        Numbers.of(value)
    if value is not None:
        with pytest.raises(xb.ShapeInferenceError, match="must be ConvolutionDimensionNumbers or"):
            xb.conv_general(x, kernel, [1], VALID, value)


def test_fields_of_dimension_numbers_are_integers() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="input_batch_dimension must be an integer"):
        Numbers("0", 1, [2], 1, 0, [2], 0, 1, [2])  # type: ignore[arg-type]
    with pytest.raises(xb.ShapeInferenceError, match="kernel_spatial_dimensions must be a sequen"):
        Numbers(0, 1, [2], 1, 0, 2, 0, 1, [2])  # type: ignore[arg-type]


# --- Refusals -----------------------------------------------------------------------------------


def dilated_with(**changes: Any) -> Callable[[xb.XlaOp, xb.XlaOp], xb.XlaOp]:
    """Return a call of conv_general_dilated with some arguments replaced."""

    def call(x: xb.XlaOp, kernel: xb.XlaOp) -> xb.XlaOp:
        usual: dict[str, Any] = {
            "window_strides": [1, 1],
            "padding": [(0, 0), (0, 0)],
            "lhs_dilation": None,
            "rhs_dilation": None,
            "dimension_numbers": Numbers.default(2),
        }
        return xb.conv_general_dilated(x, kernel, **(usual | changes))

    return call


def numbers_with(**changes: Any) -> Callable[[xb.XlaOp, xb.XlaOp], xb.XlaOp]:
    fields = {name: getattr(Numbers.default(2), name) for name in Numbers.__slots__}
    return dilated_with(dimension_numbers=Numbers(**(fields | changes)))


X, KERNEL = "f32[4,6,8,9]", "f32[10,6,3,3]"
REFUSED: dict[str, tuple[str, str, Callable[[xb.XlaOp, xb.XlaOp], xb.XlaOp], str]] = {
    "tuple": (
        "(f32[4,6,8,9])",
        KERNEL,
        dilated_with(),
        "lhs must be an array, got a tuple",
    ),
    "types": (
        X,
        "f16[10,6,3,3]",
        dilated_with(),
        "operands must have one element type, got f32, f16",
    ),
    "ranks": (
        X,
        "f32[10,6,3]",
        dilated_with(),
        "lhs and rhs must have the same rank, got 4 and 3\n",
    ),
    "rank": (
        "f32[4]",
        "f32[6]",
        dilated_with(),
        (
            "lhs needs a batch and a feature dimension, and rhs an input and an output feature "
            "dimension, got rank 1\n"
        ),
    ),
    "many dimensions": (
        f"f32[{','.join('1' * 13)}]",
        f"f32[{','.join('1' * 13)}]",
        dilated_with(),
        "there must be at most 10 spatial dimensions, got 11\n",
    ),
    "input spatial dimensions": (
        X,
        KERNEL,
        numbers_with(input_spatial_dimensions=[2]),
        "input_spatial_dimensions must have one entry for each spatial dimension: 2, got 1: [2]\n",
    ),
    "kernel spatial dimensions": (
        X,
        KERNEL,
        numbers_with(kernel_spatial_dimensions=[]),
        "kernel_spatial_dimensions must have one entry for each spatial dimension: 2, got 0: []",
    ),
    "output spatial dimensions": (
        X,
        KERNEL,
        numbers_with(output_spatial_dimensions=[1, 2, 3]),
        "output_spatial_dimensions must have one entry for each spatial dimension: 2, got 3",
    ),
    "input out of range": (
        X,
        KERNEL,
        numbers_with(input_spatial_dimensions=[2, 4]),
        "input_spatial_dimensions must be a dimension of the input (0 to 3), got 4\n",
    ),
    "kernel out of range": (
        X,
        KERNEL,
        numbers_with(kernel_input_feature_dimension=-1),
        "kernel_input_feature_dimension must be a dimension of the kernel (0 to 3), got -1\n",
    ),
    "output out of range": (
        X,
        KERNEL,
        numbers_with(output_batch_dimension=7),
        "output_batch_dimension must be a dimension of the output (0 to 3), got 7\n",
    ),
    "input twice": (
        X,
        KERNEL,
        numbers_with(input_feature_dimension=0),
        (
            "input_batch_dimension, input_feature_dimension and input_spatial_dimensions must name "
            "each dimension of the input once, got 0, 0 and [2, 3]\n"
        ),
    ),
    "kernel twice": (
        X,
        KERNEL,
        numbers_with(kernel_spatial_dimensions=[2, 2]),
        "must name each dimension of the kernel once, got 1, 0 and [2, 2]\n",
    ),
    "output twice": (
        X,
        KERNEL,
        numbers_with(output_spatial_dimensions=[0, 1]),
        "must name each dimension of the output once, got 0, 1 and [0, 1]\n",
    ),
    "strides": (
        X,
        KERNEL,
        dilated_with(window_strides=[1]),
        "window_strides must have one entry for each dimension of the window: 2, got 1: [1]\n",
    ),
    "stride": (
        X,
        KERNEL,
        dilated_with(window_strides=[1, 0]),
        "window_strides must be positive, got 0 in [1, 0]\n",
    ),
    "pairs": (
        X,
        KERNEL,
        dilated_with(padding=[(0, 0)] * 3),
        "padding must have one entry for each dimension of the window: 2, got 3: ",
    ),
    "lhs dilations": (
        X,
        KERNEL,
        dilated_with(lhs_dilation=[2]),
        "lhs_dilation must have one entry for each dimension of the window: 2, got 1: [2]\n",
    ),
    "lhs dilation": (
        X,
        KERNEL,
        dilated_with(lhs_dilation=[2, -1]),
        "lhs_dilation must be positive, got -1 in [2, -1]\n",
    ),
    "rhs dilations": (
        X,
        KERNEL,
        dilated_with(rhs_dilation=[1, 1, 1]),
        "rhs_dilation must have one entry for each dimension of the window: 2, got 3: [1, 1, 1]",
    ),
    "rhs dilation": (
        X,
        KERNEL,
        dilated_with(rhs_dilation=[0, 1]),
        "rhs_dilation must be positive, got 0 in [0, 1]\n",
    ),
    "reversals": (
        X,
        KERNEL,
        dilated_with(window_reversal=[True]),
        "window_reversal must have one entry for each dimension of the window: 2, got 1: [True]",
    ),
    "same and dilated": (
        X,
        KERNEL,
        dilated_with(padding=SAME, lhs_dilation=[1, 2]),
        (
            "Padding.SAME is ambiguous where the input is dilated, got lhs_dilation [1, 2]\n"
            "  lhs f32[4,6,8,9]\n  rhs f32[10,6,3,3]\nfix: pass pairs (low, high)"
        ),
    ),
    "same and unbounded": (
        "f32[4,6,8,?]",
        KERNEL,
        dilated_with(padding=SAME, window_strides=[2, 2]),
        "Padding.SAME can't be computed for an unbounded size and a stride above 1",
    ),
    "an empty window": (
        X,
        "f32[10,6,3,0]",
        dilated_with(),
        "the window must have at least one element along each dimension, got 0 along dimension 1",
    ),
    "an unbounded window": (
        X,
        "f32[10,6,?,3]",
        dilated_with(),
        (
            "the window must have at least one element along each dimension, got an unbounded size "
            "along dimension 0"
        ),
    ),
    "too large negative padding": (
        X,
        KERNEL,
        dilated_with(padding=[(-20, 0), (0, 0)]),
        (
            "padding must not remove more elements than the dimension has, got (-20, 0) for 8 "
            "elements along dimension 0 of the window\n"
        ),
    ),
    "too large padding": (
        X,
        KERNEL,
        dilated_with(padding=[(0, 0), (2**62, 2**62)]),
        (
            "array and window must have fewer than 2**63 elements along each dimension once "
            "dilated and padded, got 9223372036854775817 along dimension 1 of the window\n"
        ),
    ),
    "too large window": (
        X,
        KERNEL,
        dilated_with(rhs_dilation=[2**62, 1]),
        "array and window must have fewer than 2**63 elements along each dimension once dilated",
    ),
    "too large result": (
        X,
        KERNEL,
        dilated_with(padding=[(0, 2**62), (0, 2**62)]),
        "would have more than 2**63 - 1 elements",
    ),
    "no feature groups": (
        X,
        KERNEL,
        dilated_with(feature_group_count=0),
        "feature_group_count must be 1 or more, got 0\n",
    ),
    "no batch groups": (
        X,
        KERNEL,
        dilated_with(batch_group_count=-1),
        "batch_group_count must be 1 or more, got -1\n",
    ),
    "both groups": (
        X,
        "f32[12,3,3,3]",
        dilated_with(feature_group_count=2, batch_group_count=4),
        "feature_group_count and batch_group_count must not both be more than 1, got 2 and 4\n",
    ),
    "features": (
        X,
        "f32[10,5,3,3]",
        dilated_with(),
        (
            "the kernel's input features times feature_group_count must be the input's features, "
            "got 5 (dimension 1 of rhs) times 1 for 6 (dimension 1 of lhs)\n"
        ),
    ),
    "features of groups": (
        X,
        "f32[10,3,3,3]",
        dilated_with(feature_group_count=3),
        "got 3 (dimension 1 of rhs) times 3 for 6 (dimension 1 of lhs)\n",
    ),
    "output features of groups": (
        X,
        "f32[10,2,3,3]",
        dilated_with(feature_group_count=3),
        "feature_group_count must divide the number of output features, got 3 for 10\n",
    ),
    "output features of batch groups": (
        X,
        KERNEL,
        dilated_with(batch_group_count=4),
        "batch_group_count must divide the number of output features, got 4 for 10\n",
    ),
    "batch of groups": (
        X,
        KERNEL,
        dilated_with(batch_group_count=5),
        "batch_group_count must divide the size of the input's batch, got 5 for 4\n",
    ),
    "dynamic output features": (
        X,
        "f32[<=10,6,3,3]",
        dilated_with(),
        (
            "the kernel must have a static number of output features, got the dynamic "
            "dimension 0 of rhs\n"
        ),
    ),
    "preferred element type": (
        X,
        KERNEL,
        dilated_with(preferred_element_type=xb.f16),
        (
            "preferred_element_type must be the operands' element type, f32, a wider type of its "
            "kind, or another float with as many bits, got f16\n"
        ),
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    lhs, rhs, call, text = REFUSED[name]
    x, kernel = operands(lhs, rhs)
    before = len(x.builder.ops)
    with pytest.raises(xb.ShapeInferenceError) as error:
        call(x, kernel)
    assert str(error.value).startswith("conv_general_dilated: ")
    assert text in str(error.value)
    assert f"\n  lhs {lhs}\n  rhs {rhs}" in str(error.value)
    assert len(x.builder.ops) == before


@each_row(
    "arguments, text",
    [
        ({"window_strides": 1}, "window_strides must be a sequence of integers, got 1"),
        ({"window_strides": [1.5]}, "each entry of window_strides must be an integer, got 1.5"),
        ({"window_strides": [2**70]}, "each entry of window_strides must fit 64 bits"),
        ({"window_strides": None}, "window_strides must be a sequence of integers, got None"),
        ({"padding": None}, "padding must be Padding.SAME, Padding.VALID, or a pair"),
        ({"padding": "EQUAL"}, "or a pair (low, high) for each dimension of the window, got 'EQ"),
        ({"padding": 1}, "fix: write for instance padding='SAME', or padding=[(1, 1), (0, 2)]"),
        ({"padding": [1]}, "got [1]"),
        ({"padding": [(1, 2, 3)]}, "got [(1, 2, 3)]"),
        ({"padding": [(1, 2.5)]}, "each number of padding must be an integer, got 2.5"),
        ({"padding": [(0, float("nan"))]}, "each number of padding must be an integer"),
        ({"padding": [(0, -(2**64))]}, "each number of padding must fit 64 bits"),
        ({"padding": [("a", "b")]}, "each number of padding must be an integer, got 'a'"),
        ({"lhs_dilation": "2"}, "lhs_dilation must be a sequence of integers, got '2'"),
        ({"rhs_dilation": [None]}, "each entry of rhs_dilation must be an integer, got None"),
        ({"feature_group_count": "2"}, "feature_group_count must be an integer, got '2'"),
        ({"batch_group_count": 1.0}, "batch_group_count must be an integer, got 1.0"),
        ({"precision": "highest"}, "precision must be a Precision, or a pair of them"),
        ({"window_reversal": True}, "window_reversal must be a sequence of bools"),
        ({"window_reversal": ["x"]}, "window_reversal must be a sequence of bools"),
        ({"window_reversal": "1"}, "window_reversal must be a sequence of bools"),
        ({"window_reversal": [2]}, "one for each spatial dimension, got [2]"),
        ({"window_reversal": [float("nan")]}, "window_reversal must be a sequence of bools"),
    ],
)
def test_arguments_of_wrong_types(arguments: dict[str, Any], text: str) -> None:
    x, kernel = operands("f32[2,3,9]", "f32[4,3,3]")
    usual = {"window_strides": [1], "padding": VALID, "lhs_dilation": None, "rhs_dilation": None}
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.conv_general_dilated(x, kernel, dimension_numbers="bf0_oi0->bf0", **(usual | arguments))
    assert text in str(error.value)
    with pytest.raises(xb.PrimitiveTypeError):
        xb.conv(x, kernel, [1], VALID, preferred_element_type="f12")


def test_operands_that_are_not_ops() -> None:
    (x,) = operands("f32[2,3,9]")
    with pytest.raises(xb.OperandError, match="conv: rhs must be an XlaOp, got int"):
        xb.conv(x, 2, [1], VALID)  # type: ignore[arg-type]
    with pytest.raises(xb.OperandError, match="conv_general: lhs must be an XlaOp"):
        xb.conv_general([1.0], x, [1], VALID, "bf0_oi0->bf0")  # type: ignore[arg-type]
    (y,) = operands("f32[2,3,9]")
    with pytest.raises(xb.BuilderError):
        xb.conv(x, y, [1], VALID)


def test_messages_name_the_function_that_was_called() -> None:
    x, kernel = operands("f32[2,3,9]", "f32[4,5,3]")
    calls: dict[str, Callable[[], xb.XlaOp]] = {
        "conv": lambda: xb.conv(x, kernel, [1], SAME),
        "conv_with_general_padding": lambda: xb.conv_with_general_padding(x, kernel, [1], [(1, 1)]),
        "conv_with_general_dimensions": lambda: xb.conv_with_general_dimensions(
            x, kernel, [1], SAME, "bf0_oi0->bf0"
        ),
        "conv_general": lambda: xb.conv_general(x, kernel, [1], SAME, "bf0_oi0->bf0"),
    }
    for name, call in calls.items():
        with pytest.raises(xb.ShapeInferenceError) as error:
            call()
        assert str(error.value).startswith(f"{name}: the kernel's input features times feature_gr")
        assert error.value.op == name
        assert error.value.dimension == 1


def test_a_tuple_is_not_iterated() -> None:
    """Iterating over the op would record its elements, which are not numbers."""
    x, kernel, pair = operands("f32[2,3,9]", "f32[4,3,3]", "(f32[], f32[])")
    before = len(x.builder.ops)
    for arguments in (
        {"padding": pair},
        {"padding": [pair]},
        {"window_strides": pair},
        {"window_reversal": pair},
        {"window_reversal": [pair]},
        {"dimension_numbers": pair},
        {"precision": pair},
    ):
        with pytest.raises(xb.XlaError):
            dilated_with(**({"window_strides": [1], "padding": VALID} | arguments))(x, kernel)
    with pytest.raises(xb.ShapeInferenceError, match="must be DotDimensionNumbers"):
        xb.dot_general(x, kernel, pair)  # type: ignore[arg-type]
    with pytest.raises(xb.ShapeInferenceError, match="must be DotDimensionNumbers"):
        xb.dot_general(x, kernel, [pair, pair])  # type: ignore[arg-type]
    assert len(x.builder.ops) == before


def test_endless_iterables_are_refused() -> None:
    x, kernel = operands("f32[2,3,9]", "f32[4,3,3]")
    with pytest.raises(xb.ShapeInferenceError, match="padding must have one entry"):
        xb.conv(x, kernel, [1], itertools.repeat((0, 0)))  # type: ignore[arg-type]
    with pytest.raises(xb.ShapeInferenceError, match="window_reversal must"):
        xb.conv_general_dilated(
            *(x, kernel, [1], VALID, None, None, "bf0_oi0->bf0"),
            window_reversal=range(10**12),  # type: ignore[arg-type]
        )
