"""builder.lib.pooling, compared with jax.lax in double precision and with jax's gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from library_calls import run
from tables import each_row

import builder as xb
import lowering
from builder import lib

# (format, sizes, window, strides, padding), in 1, 2 and 3 spatial dimensions.
WINDOWS: list[tuple[str, list[int], list[int], list[int], Any]] = [
    ("NWC", [2, 9, 3], [3], [2], "SAME"),
    ("NCHW", [2, 3, 7, 5], [3, 2], [2, 1], [(1, 0), (0, 2)]),
    ("NHWC", [2, 7, 6, 3], [2, 3], [3, 2], "VALID"),
    ("NDHWC", [1, 4, 5, 3, 2], [2, 3, 1], [1, 2, 2], "SAME"),
    ("NHWC", [2, 5, 5, 3], [1, 3, 3, 1], [1, 2, 2, 1], [(-1, 1), (2, 0)]),
    ("HWCN", [5, 4, 2, 3], [4, 4], [1, 1], [(2, 1), (3, 3)]),
]
DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def full(form: str, entries: Any, other: Any) -> Any:
    if isinstance(entries, str) or len(entries) == len(form):
        return entries
    spatial = iter(entries)
    return [other if letter in "NC" else next(spatial) for letter in form]


def reference(
    x: Any, form: str, window: Any, strides: Any, padding: Any, includes: bool
) -> tuple[Any, Any]:
    """Return the maxima and the averages."""
    kernel, steps = full(form, window, 1), full(form, strides, 1)
    pads = full(form, padding, (0, 0))
    largest = lax.reduce_window(x, -np.inf, lax.max, kernel, steps, pads)
    sums = lax.reduce_window(x, 0.0, lax.add, kernel, steps, pads)
    counts = lax.reduce_window(jnp.ones(x.shape), 0.0, lax.add, kernel, steps, pads)
    return largest, sums / (np.prod(kernel) if includes else counts)


@pytest.mark.parametrize("dtype", DTYPES)
def test_maxima_and_averages(dtype: Any) -> None:
    """Maxima are exact, averages within 1 ulp of the result or of 1/8 (f32, f64: 4 ulps)."""
    generator = np.random.default_rng(1)
    arrays = [generator.normal(0, 1, sizes).astype(dtype) for _, sizes, *_ in WINDOWS]

    def function(*operands: xb.XlaOp) -> list[xb.XlaOp]:
        results = []
        for x, (form, _, *window, padding) in zip(operands, WINDOWS, strict=True):
            results.append(lib.max_pool(x, *window, padding, form))
            for includes in (True, False):
                results.append(lib.avg_pool(x, *window, padding, form, includes))
        return results

    results = iter(run(function, *arrays))
    eps = float(ml_dtypes.finfo(dtype).eps)
    with jax.enable_x64(True):
        for x, (form, _, *window, padding) in zip(arrays, WINDOWS, strict=True):
            wide = x.astype(np.float64)
            (largest, average), (_, without_padding) = jax.jit(
                lambda x, a=(form, *window, padding): [reference(x, *a, b) for b in (True, False)]
            )(wide)
            np.testing.assert_array_equal(next(results).astype(np.float64), largest)
            for expected in (average, without_padding):
                got = next(results)
                assert got.dtype == dtype
                error = eps * (1 if eps > 1e-6 else 4)
                got = got.astype(np.float64)
                np.testing.assert_allclose(got, expected, rtol=error, atol=error / 8)


@pytest.mark.slow
def test_gradients() -> None:
    """Within 4 ulps of those of jax."""
    generator = np.random.default_rng(2)

    def loss(x: Any, weights: Any, *arguments: Any) -> Any:
        return (reference(x, *arguments)[1] * weights).sum()

    with jax.enable_x64(True):
        cases, weights, slopes = [], [], []
        for form, sizes, *window, padding in WINDOWS:
            for includes in (True, False):
                x = generator.normal(0, 1, sizes)
                arguments = (form, *window, padding, includes)
                shape = jax.eval_shape(lambda x, a=arguments: reference(x, *a)[1], x).shape
                cases.append((sizes, window, padding, form, includes))
                weights.append(generator.normal(0, 1, shape))
                slopes.append(lambda g, x=x, a=arguments: jax.grad(loss)(x, g, *a))
        expected = jax.jit(lambda gs: [f(g) for f, g in zip(slopes, gs, strict=True)])(weights)

        def function(*ops: xb.XlaOp) -> list[xb.XlaOp]:
            return [
                lib.avg_pool_grad(g, sizes, *window, padding, form, includes)
                for g, (sizes, window, padding, form, includes) in zip(ops, cases, strict=True)
            ]

        for got, wanted in zip(run(function, *weights), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=4 * 2.0**-52, atol=4 * 2.0**-52)


def test_integers_empty_arrays_and_windows_of_padding() -> None:
    x = np.arange(12, dtype=np.int32).reshape(1, 6, 2)
    empty = np.zeros((2, 3, 0), np.float32)
    no_windows = np.zeros((1, 0, 1), np.float32)

    def function(x: xb.XlaOp, empty: xb.XlaOp, no_windows: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.avg_pool(x, [2], [2], "VALID", "NWC", True),
            lib.max_pool(x, [1, 2, 2], [1, 2, 2], "VALID", "NWC"),  # over features too
            lib.avg_pool(empty, [2], [1], "SAME", "NWC", False),
            lib.avg_pool(lib.zeros(x.builder, xb.f32[1, 2, 1]), [1], [1], [(1, 0)], "NWC", False),
            lib.avg_pool_grad(no_windows, [1, 2, 1], [3], [2], "VALID", "NWC", True),
        ]

    averages, over_features, of_none, beyond, gradients = run(function, x, empty, no_windows)
    np.testing.assert_array_equal(averages, [[[1, 2], [5, 6], [9, 10]]])
    np.testing.assert_array_equal(over_features, [[[3], [7], [11]]])
    assert of_none.shape == (2, 3, 0)
    np.testing.assert_array_equal(beyond, [[[np.nan], [0], [0]]])
    np.testing.assert_array_equal(gradients, np.zeros((1, 2, 1)))


def test_dynamic_sizes() -> None:
    """Only the elements that exist count."""
    x = xb.XlaBuilder().parameter("f32[?,?,2]")
    assert str(lib.max_pool(x, [2], [2], "VALID", "NWC").shape) == "f32[?,?,2]"
    b = xb.XlaBuilder("dynamic")
    x, size = b.parameter(xb.f32[1, 5, 1]), b.parameter(xb.s32[()])
    part = xb.set_dimension_size(x, size, 1)
    averages = lib.avg_pool(part, [2], [1], [(1, 1)], "NWC", False)
    assert str(averages.shape) == "f32[1,<=6,1]"
    total = lib.sum(averages)
    values = np.float32([1, 2, 4, 8, 16]).reshape(1, 5, 1)
    run = lowering.compile(b.build(total), "cpu")
    assert run(values, np.int32(3)) == 1 + 1.5 + 3 + 4


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_spatial_padding_matches_jax(padding: Any) -> None:
    for sizes, window, strides in (([7, 8], [3, 2], [2, 3]), ([1, 9], [4, 1], [1, 4])):
        expected = lax.padtype_to_pads(sizes, window, strides, padding)
        assert lib.make_spatial_padding(sizes, window, strides, padding, "NCHW") == expected
    assert lib.make_spatial_padding(
        [1, 7, 8, 5], [1, 3, 2, 1], [1, 2, 3, 1], xb.Padding.SAME, lib.TensorFormat(0, 3, (1, 2))
    ) == [(1, 1), (0, 0)]


def test_convolutions_with_the_gradients_padding() -> None:
    """The gradient of a convolution is the convolution with the computed padding."""
    generator = np.random.default_rng(3)
    for size, filter_size, dilation, stride, padding in (
        (7, 3, 1, 2, "SAME"),
        (8, 3, 2, 3, "VALID"),
        (5, 4, 1, 1, "SAME"),
    ):
        x, kernel = generator.normal(size=(1, 1, size)), generator.normal(size=(1, 1, filter_size))
        forward = partial(
            lax.conv_general_dilated,
            rhs=kernel,
            window_strides=[stride],
            padding=padding,
            rhs_dilation=[dilation],
        )
        y, gradient = jax.vjp(forward, x)
        g = generator.normal(size=y.shape).astype(y.dtype)
        expanded, before, after = lib.conv_grad_extract_and_verify_dimension(
            size, filter_size, y.shape[2], dilation, stride, padding
        )
        assert expanded == (y.shape[2] - 1) * stride + 1
        got = lax.conv_general_dilated(
            g, kernel[..., ::-1], [1], [(before, after)], [stride], [dilation]
        )
        np.testing.assert_allclose(got, gradient(g)[0], rtol=1e-5, atol=1e-5)


F = "f32[2,8,8,3]"


@each_row(
    "call, message",
    [
        (
            lambda x: lib.max_pool(x, [2], [2, 2], "SAME", "NHWC"),
            (
                "max_pool: kernel_size must have an entry for each of the 4 dimensions, or for "
                "each of the 2 spatial ones, got [2]"
            ),
        ),
        (
            lambda x: lib.max_pool(x, [2], [2], "SAME", "NWC"),
            "max_pool: x must have the 3 dimensions of data_format, got f32[2,8,8,3]\nfix:",
        ),
        (
            lambda x: lib.max_pool(x, [2, 2], [2, 2], "SAME", "HWC"),
            (
                "max_pool: data_format must be a TensorFormat, or N, C and a letter for each "
                "spatial dimension, got 'HWC'\nfix: write for instance"
            ),
        ),
        (
            lambda x: lib.avg_pool(x, [2, 2], [0, 2], "SAME", "NHWC", True),
            "avg_pool: each entry of strides must be 1 or more, got [0, 2]",
        ),
        (
            lambda x: lib.avg_pool(x, [2, 2], [2, 2], [(0, 0)] * 4, "NHWC", True),
            "avg_pool: padding must have a pair for each of the 2 spatial dimensions, got",
        ),
        (
            lambda x: lib.avg_pool(x, [2, 2], [2, 2], "SAME", "NHWC", 1),
            "avg_pool: counts_include_padding must be True or False, got 1",
        ),
        (
            lambda x: lib.avg_pool_grad(x, [2, 8, 8], [2, 2], [1, 1], "SAME", "NHWC", True),
            "avg_pool_grad: gradients_size must be the 4 sizes of an array, got [2, 8, 8]",
        ),
        (
            lambda x: lib.avg_pool_grad(x, [2, 8, 8, 3], [2, 2], [2, 2], "SAME", "NHWC", True),
            (
                "avg_pool_grad: conv_grad_extract_and_verify_dimension: output_size must be 4, the "
                "number of positions of a filter of 2 with stride 2 and padding VALID in 8, got 8"
            ),
        ),
        (
            lambda _: lib.make_spatial_padding([3], [3], [1], [(0, 0)], "NWC"),  # type: ignore[arg-type]
            "make_spatial_padding: padding must be Padding.SAME or Padding.VALID, got [(0, 0)]",
        ),
        (
            lambda _: lib.conv_grad_extract_and_verify_dimension(3, 0, 3, 1, 1, "SAME"),
            "conv_grad_extract_and_verify_dimension: filter_size must be 1 or more, got 0",
        ),
        (
            lambda _: lib.TensorFormat(0, 2, (2, 1)),
            "TensorFormat: the dimensions must be 0 to 3, each once, got [0, 2, 2, 1]",
        ),
        (
            lambda x: lib.avg_pool(
                x.builder.parameter("f32[2,?,3]"), [2], [1], "VALID", "NWC", False
            ),
            "avg_pool: x must not have an unbounded size, got f32[2,?,3]\nfix: give",
        ),
    ],
)
def test_refusals(call: Callable[[xb.XlaOp], Any], message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder().parameter(F))
    assert str(caught.value).startswith(message)


def test_a_filter_larger_than_the_input_has_no_position() -> None:
    found = lib.conv_grad_extract_and_verify_dimension(2, 5, 0, 1, 1, "VALID")
    assert found.output_size == 0
    with pytest.raises(xb.ShapeInferenceError, match="output_size must be 0"):
        lib.conv_grad_extract_and_verify_dimension(2, 5, 1, 1, 1, "VALID")


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_maxima_of_all_numbers_of_16_bits(dtype: Any) -> None:
    """NaNs of both signs, with overlapping windows and padding, along both dimensions."""
    bits = np.random.default_rng(7).permutation(2**16).astype(np.uint16)
    x = bits.view(dtype).reshape(1, 256, 64, 4)
    got = run(lambda x: lib.max_pool(x, [3, 2], [2, 2], [(2, 1), (0, 0)], "NHWC"), x)
    assert got.dtype == dtype
    with np.errstate(invalid="ignore"):  # the conversion of signaling NaNs
        wide = np.pad(x[0].astype(np.float64), ((2, 1), (0, 0), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 2), (0, 1))[::2, ::2]
    np.testing.assert_array_equal(got[0].astype(np.float64), windows.max((-2, -1)))
