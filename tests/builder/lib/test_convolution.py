"""builder.lib.convolution, compared with jax.lax in double precision."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

# (format of images, of kernels, sizes of images, of the kernel, arguments of lib.conv), in 1, 2 and
# 3 spatial dimensions.
CASES: list[tuple[str, str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("NHWC", "HWIO", (2, 7, 6, 3), (3, 2, 3, 4), {}),
    ("NCHW", "OIHW", (2, 4, 7, 6), (6, 2, 3, 2), {"strides": (2, 1), "groups": 2}),
    ("NWC", "WIO", (2, 9, 3), (4, 1, 6), {"padding": "VALID", "dilation": 2, "groups": 3}),
    ("NCW", "OIW", (2, 3, 9), (5, 3, 3), {"padding": [(2, 1)], "strides": 2}),
    ("NDHWC", "DHWIO", (1, 4, 5, 3, 2), (2, 3, 1, 2, 3), {"strides": 2, "padding": "VALID"}),
    ("NCDHW", "OIDHW", (1, 2, 4, 5, 3), (3, 2, 2, 1, 3), {"dilation": (1, 2, 1)}),
]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_values(dtype: Any) -> None:
    """Within 1 ulp of the result or of 1 for narrow types, which are rounded once; or 16 ulps."""
    generator = np.random.default_rng(1)
    arrays = [generator.normal(0, 1, sizes).astype(dtype) for case in CASES for sizes in case[2:4]]

    def function(*ops: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.conv(x, kernel, data_format=images, **arguments)
            for x, kernel, (images, *_, arguments) in zip(ops[::2], ops[1::2], CASES, strict=True)
        ]

    eps = float(ml_dtypes.finfo(dtype).eps)
    error = eps if eps > 1e-6 else 16 * eps
    results = run(function, *arrays)
    with jax.enable_x64(True):
        for got, x, kernel, (images, kernels, _, _, arguments) in zip(
            results, arrays[::2], arrays[1::2], CASES, strict=True
        ):
            count = len(images) - 2
            strides, dilation = (
                [value] * count if isinstance(value, int) else value
                for value in (arguments.get("strides", 1), arguments.get("dilation", 1))
            )
            expected = lax.conv_general_dilated(
                x.astype(np.float64),
                kernel.astype(np.float64),
                strides,
                arguments.get("padding", "SAME"),
                rhs_dilation=dilation,
                dimension_numbers=(images, kernels, images),
                feature_group_count=arguments.get("groups", 1),
            )
            assert got.dtype == dtype
            np.testing.assert_allclose(got.astype(np.float64), expected, rtol=error, atol=error)


def test_dynamic_sizes() -> None:
    b = xb.XlaBuilder()
    x, kernel = b.parameter("f32[?,<=8,8,3]"), b.parameter("f32[3,3,3,4]")
    assert str(lib.conv(x, kernel, np.int64(2)).shape) == "f32[?,<=4,4,4]"


@each_row(
    "call, message",
    [
        (
            lambda x, k: lib.conv(x, k, data_format="NWC"),
            (
                "conv: x must have the 3 dimensions of data_format, got f32[2,8,8,3]\nfix: "
                "write for instance data_format='NHWC'"
            ),
        ),
        (
            lambda x, k: lib.conv(xb.reshape(x, [16, 8, 3]), k),
            (
                "conv: x must have the 4 dimensions of data_format, got f32[16,8,3]\nfix: "
                "write for instance data_format='NWC'"
            ),
        ),
        (
            lambda x, k: lib.conv(x, k, strides=[1]),
            "conv: strides must have an entry for each of the 2 spatial dimensions, got [1]",
        ),
        (lambda x, k: lib.conv(x, k, strides=0), "conv: strides must be positive, got [0]"),
        (
            lambda x, k: lib.conv(x, x[0]),
            (
                "conv: kernel must have the 4 dimensions of x, got f32[8,8,3]\n"
                "fix: give the kernel dimensions in the order spatial, input, output"
            ),
        ),
        (
            lambda x, k: lib.conv(x, xb.convert_element_type(k, xb.f64)),
            "conv: kernel must be of type f32, got f64[3,3,3,4]\nfix: convert it",
        ),
        (lambda x, k: lib.conv(x, k, groups=2), "conv: conv_general_dilated: "),
        (lambda x, k: lib.conv(x, k, padding="FULL"), "conv: conv_general_dilated: padding must"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        call(b.parameter("f32[2,8,8,3]"), b.parameter("f32[3,3,3,4]"))
    assert str(caught.value).startswith(message)
