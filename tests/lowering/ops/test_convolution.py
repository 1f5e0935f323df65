"""Convolutions executed on CPU, compared with NumPy, SciPy and jax."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
import scipy
from hypothesis import given, settings, strategies as st
from support import assert_same_bits, run, summable
from tables import each_row

import builder as xb
import lowering
from builder.ops.contraction.dot_product import is_promotable
from lowering import CompileError
from lowering.jaxlib_api import hlo_conversion
from tests.lowering.common import parameters

Array = np.ndarray
Numbers = xb.ConvolutionDimensionNumbers
ALL_TYPES = [t for t in vars(xb).values() if isinstance(t, xb.PrimitiveType)]
RANDOM = np.random.default_rng(20240704)
SAME, VALID = xb.Padding.SAME, xb.Padding.VALID


def sample(t: xb.PrimitiveType, sizes: Sequence[int]) -> Array:
    """Return values with exact sums; mostly zeros for narrow floating-point types."""
    if t.is_floating and t.bits < 16 and t is not xb.f8e8m0fnu:
        return (RANDOM.random(sizes) < 0.2).astype(np.float64).astype(t.dtype)
    return summable(RANDOM, t, sizes)


def as_wide(x: Array) -> Array:
    """Convert to a type with exact sums; 64-bit integers wrap around, as on the device."""
    if np.iscomplexobj(x):
        return x.astype(np.complex128)
    if x.dtype.kind in "biu" or xb.as_primitive_type(x.dtype).is_integral:
        return x.view(np.int64) if x.dtype == np.uint64 else x.astype(np.int64)
    return x.astype(np.float64)


def as_type(total: Array, t: xb.PrimitiveType) -> Array:
    """Convert sums to `t`: rounded, the low bits of integers, or `!= 0` for pred."""
    if t is xb.pred:
        return total != 0
    if t is xb.u64:
        return total.view(np.uint64)
    if t.is_integral and t.bits < 64:
        total = total & ((1 << t.bits) - 1)
        total = np.where(total > t.max, total - (1 << t.bits), total)
    return total.astype(t.dtype)


def with_holes(x: Array, steps: Sequence[int]) -> Array:
    """Insert zeros between the elements, except in the first two dimensions."""
    sizes = [(s - 1) * d + 1 if s else 0 for s, d in zip(x.shape[2:], steps, strict=True)]
    result = np.zeros((*x.shape[:2], *sizes), x.dtype)
    result[(..., *(slice(None, None, d) for d in steps))] = x
    return result


def convolved(
    lhs: Array,
    rhs: Array,
    numbers: Numbers,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    window_reversal: Sequence[bool] | None = None,
) -> Array:
    """Convolve by definition: by window and by output feature."""
    n, spatial = numbers, len(strides)
    x = lhs.transpose(
        n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions
    )
    kernel = rhs.transpose(
        n.kernel_output_feature_dimension,
        n.kernel_input_feature_dimension,
        *n.kernel_spatial_dimensions,
    )
    for d, turned in enumerate(window_reversal or ()):
        kernel = np.flip(kernel, d + 2) if turned else kernel
    x = with_holes(x, lhs_dilation or [1] * spatial)
    kernel = with_holes(kernel, rhs_dilation or [1] * spatial)
    none = [(0, 0), (0, 0)]
    x = np.pad(x, none + [(max(low, 0), max(high, 0)) for low, high in padding])
    ends = [s + min(high, 0) for s, (_, high) in zip(x.shape[2:], padding, strict=True)]
    starts = [max(-low, 0) for low, _ in padding]
    x = x[(..., *map(slice, starts, ends))]
    counts = [
        (size - width) // stride + 1 if size >= width else 0
        for size, width, stride in zip(x.shape[2:], kernel.shape[2:], strides, strict=True)
    ]
    batch, outputs, inputs = x.shape[0] // batch_group_count, *kernel.shape[:2]
    result = np.zeros((batch, outputs, *counts), x.dtype)
    for o in range(outputs):
        of_features = o * feature_group_count // outputs * inputs
        of_batch = o * batch_group_count // outputs * batch
        part = x[of_batch : of_batch + batch, of_features : of_features + inputs]
        for position in itertools.product(*map(range, counts)):
            first = [p * s for p, s in zip(position, strides, strict=True)]
            last = [f + w for f, w in zip(first, kernel.shape[2:], strict=True)]
            window = part[(..., *map(slice, first, last))]
            result[(slice(None), o, *position)] = (window * kernel[o]).sum(tuple(range(1, x.ndim)))
    order = [n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions]
    return result.transpose(np.argsort(order))


# Types

# Sizes of both operands, dimension numbers, and further arguments.
CONFIGURATIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, dict[str, Any]]] = {
    "everything": (
        (3, 5, 2, 6),
        (4, 3, 3, 2),
        "f0b1_oi01->b10f",
        {
            "strides": [1, 2],
            "padding": [(1, 1), (0, -1)],
            "lhs_dilation": [1, 2],
            "rhs_dilation": [2, 1],
            "window_reversal": [False, True],
        },
    ),
    "feature groups": (
        (2, 6, 7),
        (4, 3, 3),
        "bf0_oi0->bf0",
        {"strides": [2], "padding": [(1, 1)], "feature_group_count": 2},
    ),
    "batch groups": (
        (4, 3, 7),
        (4, 3, 3),
        "bf0_oi0->bf0",
        {"strides": [1], "padding": [(0, 2)], "batch_group_count": 2},
    ),
    "no spatial dimensions": ((3, 4), (5, 4), "bf_oi->bf", {"strides": [], "padding": []}),
    "empty sums": (
        (2, 0, 4),
        (3, 0, 2),
        "bf0_oi0->bf0",
        {"strides": [1], "padding": [(1, 0)]},
    ),
    "no batch": ((0, 2, 4), (3, 2, 2), "bf0_oi0->bf0", {"strides": [1], "padding": [(0, 0)]}),
}


# One type of each kind: the sizes make no difference for a type. Every type has feature groups in
# `test_preferred_element_type`.
SOME_TYPES = [xb.pred, xb.u4, xb.s32, xb.f8e5m2, xb.bf16, xb.f32, xb.c64]


def recorded(
    x: xb.XlaOp, kernel: xb.XlaOp, numbers: str, arguments: dict[str, Any], **more: Any
) -> xb.XlaOp:
    given = {"lhs_dilation": None, "rhs_dilation": None} | arguments
    return xb.conv_general_dilated(
        x, kernel, given.pop("strides"), dimension_numbers=numbers, **given, **more
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_type(name: str) -> None:
    lhs, rhs, numbers, arguments = CONFIGURATIONS[name]
    types = ALL_TYPES if name == "everything" else SOME_TYPES
    pairs = [(sample(t, lhs), sample(t, rhs)) for t in types]
    b = xb.XlaBuilder("conv")
    results = [recorded(*parameters(b, *pair), numbers, arguments) for pair in pairs]
    actual = run(b.build(xb.tuple(*results)), *itertools.chain(*pairs))
    for t, result, (x, kernel) in zip(types, actual, pairs, strict=True):
        want = convolved(as_wide(x), as_wide(kernel), Numbers.of(numbers), **arguments)
        assert_same_bits(result, as_type(want, t))


def preferred(t: xb.PrimitiveType) -> list[xb.PrimitiveType]:
    """Return the narrowest and the widest preferred element type for operands of `t`."""
    wider = sorted(
        (to for to in ALL_TYPES if to is not t and is_promotable(t, to)), key=lambda to: to.bits
    )
    return list(dict.fromkeys([*wider[:1], *wider[-1:]]))


PROMOTABLE = [t for t in ALL_TYPES if preferred(t)]


def test_preferred_element_type() -> None:
    _, _, numbers, arguments = CONFIGURATIONS["feature groups"]
    b = xb.XlaBuilder("preferred")
    operands, results, expected = [], [], []
    # Each type has one of its preferred types.
    pairs = [(t, preferred(t)[n % len(preferred(t))]) for n, t in enumerate(PROMOTABLE)]
    # Also other floating-point types of the same width.
    pairs += [(xb.f16, xb.bf16), (xb.bf16, xb.f16), (xb.f8e4m3fn, xb.f8e4m3b11fnuz)]
    for t, to in pairs:
        x, kernel = sample(t, (2, 4, 5)), sample(t, (2, 2, 3))
        operands += [x, kernel]
        y = recorded(*parameters(b, x, kernel), numbers, arguments, preferred_element_type=to)
        assert y.shape.element_type is to
        results.append(y)
        want = convolved(as_wide(x), as_wide(kernel), Numbers.of(numbers), **arguments)
        expected.append(as_type(want, to))
    for got, want in zip(run(b.build(xb.tuple(*results)), *operands), expected, strict=True):
        assert_same_bits(got, want)


# Attributes


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Draw consistent sizes and arguments of a convolution."""
    spatial = draw(st.integers(0, 4))
    groups, of_batch = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (1, 2), (1, 3)]))
    few = st.integers(0, 3)

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=spatial, max_size=spatial))

    inputs, sizes, window = draw(few), each(st.integers(0, 6)), each(st.integers(1, 3))
    numbers: dict[str, Any] = {}
    operands: dict[str, tuple[int, ...]] = {}
    for of, names, first in (
        ("input", ("batch", "feature"), (draw(few) * of_batch, inputs * groups)),
        ("kernel", ("input_feature", "output_feature"), (inputs, draw(few) * groups * of_batch)),
        ("output", ("batch", "feature"), (0, 0)),
    ):
        places = draw(st.permutations(range(spatial + 2)))
        for name, place in zip(names, places, strict=False):
            numbers[f"{of}_{name}_dimension"] = place
        numbers[f"{of}_spatial_dimensions"] = places[2:]
        rest = window if of == "kernel" else sizes
        by_place = dict(zip(places, (*first, *rest), strict=True))
        operands[of] = tuple(by_place[d] for d in range(spatial + 2))
    lhs_dilation, rhs_dilation = each(st.integers(1, 3)), each(st.integers(1, 3))
    padding = []
    for size, dilation in zip(sizes, lhs_dilation, strict=True):
        length = (size - 1) * dilation + 1 if size else 0
        low = draw(st.integers(-length, 4))
        padding.append((low, draw(st.integers(-length - low, 4))))
    return {
        "lhs": operands["input"],
        "rhs": operands["kernel"],
        "numbers": Numbers(**numbers),
        "arguments": {
            "strides": each(st.integers(1, 3)),
            "padding": padding,
            "lhs_dilation": lhs_dilation,
            "rhs_dilation": rhs_dilation,
            "feature_group_count": groups,
            "batch_group_count": of_batch,
            "window_reversal": each(st.booleans()),
        },
    }


@given(convolutions(), st.sampled_from(ALL_TYPES), st.booleans(), st.data())
def test_inferred_shapes_agree_with_mlir_and_xla(
    drawn: dict[str, Any], t: xb.PrimitiveType, is_bounded: bool, data: st.DataObject
) -> None:
    """MLIR's verifier and XLA's parser infer the types again and compare them."""
    n = drawn["numbers"]
    shapes = []
    for of, sizes in (("lhs", drawn["lhs"]), ("rhs", drawn["rhs"])):
        marks = [is_bounded and data.draw(st.booleans()) for _ in sizes]
        if of == "rhs":
            marks[n.kernel_output_feature_dimension] = False
        shapes.append(xb.array_shape(t, sizes, dynamic_dimensions=marks))
    highest = xb.Precision.HIGHEST if data.draw(st.booleans()) else None
    to = data.draw(st.sampled_from([None, *preferred(t)]))
    b = xb.XlaBuilder("drawn")
    y = recorded(
        *(b.parameter(shape) for shape in shapes),
        n,
        drawn["arguments"],
        precision=highest,
        preferred_element_type=to,
    )
    computation = b.build(y)
    lowering.lower(computation).verify()
    text = str(computation)
    if to is None:
        # XLA infers the shape of an instruction if the text omits it.
        text, count = re.subn(r" = \S+ convolution\(", " = convolution(", text)
        assert count == 1
    root = re.search(r"ROOT \S+ = ([^{ ]+)", hlo_conversion.parsed_hlo_text(text))
    assert root is not None
    assert root[1] == str(y.shape)


@settings(max_examples=30)
@given(convolutions())
def test_every_attribute(drawn: dict[str, Any]) -> None:
    x, kernel = sample(xb.s32, drawn["lhs"]), sample(xb.s32, drawn["rhs"])
    b = xb.XlaBuilder("attributes")
    y = recorded(*parameters(b, x, kernel), drawn["numbers"], drawn["arguments"])
    want = convolved(as_wide(x), as_wide(kernel), drawn["numbers"], **drawn["arguments"])
    assert_same_bits(run(b.build(y), x, kernel), as_type(want, xb.s32))


@pytest.mark.parametrize("spatial", [5, 10])
def test_many_spatial_dimensions(spatial: int) -> None:
    x = sample(xb.f32, [1, 2, *[2] * spatial])
    kernel = sample(xb.f32, [2, 2, *[1, 2] * (spatial // 2), *[1] * (spatial % 2)])
    padding = [(1, 0), *[(0, 0)] * (spatial - 1)]
    b = xb.XlaBuilder("many")
    y = xb.conv(*parameters(b, x, kernel), [1] * spatial, padding)
    want = convolved(as_wide(x), as_wide(kernel), Numbers.default(spatial), [1] * spatial, padding)
    assert_same_bits(run(b.build(y), x, kernel), want.astype(np.float32))


def test_huge_strides_and_dilations() -> None:
    """The elements between the windows are never read."""
    far = 2**40
    x, kernel = np.array([[[1, 2, 3]]], np.float32), np.array([[[10, 100]]], np.float32)
    b = xb.XlaBuilder("huge")
    p, q = parameters(b, x, kernel)
    one = xb.slice(q, [0, 0, 0], [1, 1, 1], [1, 1, 1])
    results = [
        xb.conv(p, q, [2**63 - 1], VALID),
        xb.conv(p, q, [1], VALID, rhs_dilation=[far]),
        xb.conv(p, q, [1], [(0, far)], rhs_dilation=[far]),
        xb.conv(p, q, [far], [(far, far)]),
        xb.conv(p, one, [far], VALID, lhs_dilation=[far]),
        xb.conv(p, q, [1], [(-far, 2 - far)], lhs_dilation=[far]),
    ]
    actual = [result.tolist()[0][0] for result in run(b.build(xb.tuple(*results)), x, kernel)]
    assert actual == [[210], [], [10, 20, 30], [0, 210, 0], [10, 20, 30], [20, 0]]


# Operation Semantics


def test_documented_pseudo_code() -> None:
    """Two spatial dimensions with padding and strides, in the notation of the document."""
    batch, inputs, outputs = 2, 3, 4
    height, width, kernel_height, kernel_width = 6, 7, 3, 2
    (pad_low_y, pad_high_y), (pad_low_x, pad_high_x) = (1, 2), (2, 0)
    stride_y, stride_x = 2, 3
    x = RANDOM.integers(-9, 10, (batch, inputs, height, width)).astype(np.float32)
    kernel = RANDOM.integers(-9, 10, (outputs, inputs, kernel_height, kernel_width))
    kernel = kernel.astype(np.float32)
    rows = (pad_low_y + height + pad_high_y - kernel_height) // stride_y + 1
    columns = (pad_low_x + width + pad_high_x - kernel_width) // stride_x + 1
    want = np.zeros((batch, outputs, rows, columns), np.float32)
    for b, oz, oy, ox in np.ndindex(*want.shape):
        value = np.float32(0)
        for iz, ky, kx in np.ndindex(*kernel.shape[1:]):
            iy = oy * stride_y + ky - pad_low_y
            ix = ox * stride_x + kx - pad_low_x
            if 0 <= iy < height and 0 <= ix < width:
                value += x[b, iz, iy, ix] * kernel[oz, iz, ky, kx]
        want[b, oz, oy, ox] = value
    builder = xb.XlaBuilder("pseudo")
    padding = [(pad_low_y, pad_high_y), (pad_low_x, pad_high_x)]
    y = xb.conv_with_general_padding(*parameters(builder, x, kernel), [stride_y, stride_x], padding)
    assert_same_bits(run(builder.build(y), x, kernel), want)


def test_same_and_valid_agree_with_scipy() -> None:
    """For kernels of odd sizes, which have a center element."""
    x, kernel = RANDOM.normal(size=(9, 11)), RANDOM.normal(size=(3, 5))
    b = xb.XlaBuilder("scipy")
    p, q = parameters(b, x[None, None], kernel[None, None])
    results = [xb.conv(p, q, [1, 1], padding) for padding in (SAME, VALID)]
    turned = [
        xb.conv_general_dilated(
            p, q, [1, 1], padding, None, None, "bf01_oi01->bf01", window_reversal=[True, True]
        )
        for padding in (SAME, VALID, [(2, 2), (4, 4)])
    ]
    actual = run(b.build(xb.tuple(*results, *turned)), x[None, None], kernel[None, None])
    expected = [scipy.signal.correlate(x, kernel, mode) for mode in ("same", "valid")]
    expected += [scipy.signal.convolve(x, kernel, mode) for mode in ("same", "valid", "full")]
    for got, want in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got[0, 0], want, rtol=1e-12, atol=1e-12)


def test_depthwise_convolution() -> None:
    """A kernel of [h, w, inputs, multiplier] becomes one of [h, w, 1, inputs * multiplier]."""
    x, kernel = sample(xb.f32, (2, 6, 6, 3)), sample(xb.f32, (2, 3, 3, 2))
    b = xb.XlaBuilder("depthwise")
    p, q = parameters(b, x, kernel)
    y = xb.conv_with_general_dimensions(
        p,
        xb.reshape(q, [2, 3, 1, 6]),
        [1, 1],
        VALID,
        "b01f_01io->b01f",
        feature_group_count=3,
    )
    want = np.zeros((2, 5, 4, 6), np.float32)
    for row, column in np.ndindex(5, 4):
        window = x[:, row : row + 2, column : column + 3]
        want[:, row, column] = np.einsum("bhwc,hwcm->bcm", window, kernel).reshape(2, 6)
    assert_same_bits(run(b.build(y), x, kernel), want)


# Large operands


@pytest.mark.parametrize("t", [xb.f32, xb.bf16, xb.f64, xb.s32, xb.c64], ids=str)
def test_large(t: xb.PrimitiveType) -> None:
    lhs, rhs = (1, 48, 50, 24), (3, 5, 24, 40)
    if t.is_integral:
        x, kernel = sample(t, lhs), sample(t, rhs)
    else:
        x, kernel = (RANDOM.normal(size=s).astype(t.dtype) for s in (lhs, rhs))
        if t.is_complex:
            x = (x * (1 + 2j)).astype(t.dtype)
    b = xb.XlaBuilder("large")
    numbers, strides, padding = "b01f_01io->b01f", [2, 1], [(2, 1), (0, 3)]
    y = xb.conv_general(*parameters(b, x, kernel), strides, padding, numbers)
    got = run(b.build(y), x, kernel)
    wide = {"i": np.int64, "c": np.complex128}.get(x.dtype.kind, np.float64)
    with jax.enable_x64(True):
        want = np.asarray(
            jax.lax.conv_general_dilated(
                x.astype(wide),
                kernel.astype(wide),
                strides,
                padding,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
        )
    if t.is_integral:
        assert_same_bits(got, as_type(want, t))
        return
    # In the worst case, 360 products of magnitude 1 are added sequentially.
    step = {xb.bf16: 2.0**-8, xb.f64: 2.0**-53}.get(t, 2.0**-24)
    scale = np.abs(want).max()
    np.testing.assert_allclose(got.astype(want.dtype), want, rtol=0, atol=40 * step * scale)


def test_precision() -> None:
    x, kernel = (RANDOM.normal(size=s).astype(np.float32) for s in ((2, 5, 9), (4, 5, 3)))
    b = xb.XlaBuilder("precision")
    p, q = parameters(b, x, kernel)
    high, highest = xb.Precision.HIGH, xb.Precision.HIGHEST
    results = [xb.conv(p, q, [1], SAME, precision=c) for c in (None, high, (high, highest))]
    computation = b.build(xb.tuple(*results))
    assert "operand_precision={high,highest}" in str(computation)
    want = convolved(as_wide(x), as_wide(kernel), Numbers.default(1), [1], [(1, 1)])
    for got in run(computation, x, kernel):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# Bounded and unbounded sizes

# Sizes of both operands; the bounded (operand, dimension) and its size; further arguments.
BOUNDED: dict[str, tuple[Sequence[int], Sequence[int], list[tuple[int, int, int]], Any]] = {
    "batch": ((4, 3, 8), (2, 3, 3), [(0, 0, 2)], {}),
    "no batch": ((4, 3, 8), (2, 3, 3), [(0, 0, 0)], {}),
    "spatial": ((2, 3, 8), (2, 3, 3), [(0, 2, 5)], {}),
    "padded": ((2, 3, 8), (2, 3, 3), [(0, 2, 5)], {"padding": [(1, 2)], "strides": [2]}),
    "negative padding": ((2, 3, 8), (2, 3, 2), [(0, 2, 5)], {"padding": [(-1, -1)]}),
    "too short": ((2, 3, 8), (2, 3, 3), [(0, 2, 1)], {}),
    "empty": ((2, 3, 8), (2, 3, 3), [(0, 2, 0)], {"padding": [(2, 1)]}),
    "dilated": ((2, 3, 8), (2, 3, 3), [(0, 2, 5)], {"lhs_dilation": [2], "rhs_dilation": [3]}),
    "reversed": ((2, 3, 8), (2, 3, 3), [(0, 2, 5)], {"window_reversal": [True]}),
    "both": ((2, 3, 8, 6), (2, 3, 3, 2), [(0, 3, 4), (0, 0, 1), (0, 2, 5)], {}),
    "features": ((2, 3, 8), (2, 3, 3), [(0, 1, 2), (1, 1, 2), (0, 2, 7)], {}),
    "no spatial dimensions": ((4, 3), (2, 3), [(0, 0, 2), (0, 1, 2), (1, 1, 2)], {}),
}


def test_bounded_sizes() -> None:
    b = xb.XlaBuilder("bounded")
    arguments, results, expected = [], [], []
    for lhs, rhs, sizes, more in BOUNDED.values():
        spatial = len(lhs) - 2
        given = {"strides": [1] * spatial, "padding": [(0, 0)] * spatial} | more
        arrays = [sample(xb.f32, lhs), sample(xb.f32, rhs)]
        ops = parameters(b, *arrays)
        arguments += arrays
        for operand, dimension, size in sizes:
            arguments.append(np.int32(size))
            ops[operand] = xb.set_dimension_size(ops[operand], b.parameter(xb.s32[()]), dimension)
            arrays[operand] = np.take(arrays[operand], range(size), dimension)
        numbers = Numbers.default(spatial)
        results.append(recorded(*ops, str(numbers), given))
        want = convolved(*map(as_wide, arrays), numbers, **given)
        expected.append(want.astype(np.float32))
    for got, want in zip(run(b.build(xb.tuple(*results)), *arguments), expected, strict=True):
        assert_same_bits(got, want)


@each_row(
    "lhs, rhs, groups",
    [
        ("f32[2,3,8]", "f32[2,3,<=3]", 1),
        ("f32[2,3,<=8]", "f32[2,3,<=3]", 1),
        ("f32[<=4,3,8]", "f32[2,3,3]", 2),
        ("f32[<=4,3,<=8]", "f32[2,3,3]", 2),
    ],
)
def test_unsupported_bounded_sizes_are_refused(lhs: str, rhs: str, groups: int) -> None:
    b = xb.XlaBuilder("refused")
    y = xb.conv(b.parameter(lhs), b.parameter(rhs), [1], VALID, batch_group_count=groups)
    module = lowering.lower(b.build(y))
    module.verify()
    with pytest.raises(CompileError) as error:
        lowering.compile(module)
    assert "can't run on cpu: XLA requires fixed sizes of the kernel, and of a batch" in str(
        error.value
    )
    assert error.value.op == "convolution"


def test_unbounded_sizes_are_lowered() -> None:
    b = xb.XlaBuilder("unbounded")
    y = xb.conv(b.parameter("f32[?,?,?]"), b.parameter("f32[2,3,3]"), [2], [(1, 1)])
    assert str(y.shape) == "f32[?,2,?]"
    lowering.lower(b.build(y)).verify()


def test_four_bit_types_with_several_bounded_sizes() -> None:
    b = xb.XlaBuilder("bounded")
    values = sample(xb.s4, (2, 3, 5, 4))
    x = b.parameter("s4[2,3,5,4]", "x")
    for dimension, size in ((2, 3), (3, 2)):
        x = xb.set_dimension_size(x, b.constant(size, xb.s32), dimension)
    ones = b.constant(np.ones((1, 3, 1, 1), xb.s4.dtype))
    numbers = recorded(
        x,
        ones,
        "bf01_oi01->bf01",
        {"strides": [1, 1], "padding": [(0, 0)] * 2},
        preferred_element_type=xb.s8,
    )
    total = xb.reduce(xb.convert_element_type(numbers, xb.s32), 0, xb.add, [0, 1, 2, 3])
    computation = b.build(total)
    assert lowering.lower(computation).text.count("stablehlo.convolution") == 1
    expected = values[:, :, :3, :2].astype(np.int64).sum()
    assert lowering.compile(computation, "cpu")(values).item() == expected
