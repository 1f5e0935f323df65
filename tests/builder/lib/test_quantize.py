"""builder.lib.quantize, compared with NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

RANDOM = np.random.default_rng(3)


def test_packing() -> None:
    assert lib.pack_to_uint32(np.array([0xAB, 0x0C, 0xFF, 1, 2], np.uint8)).tolist() == [
        0xAB0CFF01,
        0x02000000,
    ]
    assert lib.pack_to_uint32(np.array([0xABCD, 0xFF01, 3], np.uint16)).tolist() == [
        0xABCDFF01,
        0x00030000,
    ]
    assert lib.pack_to_uint32(np.zeros((2, 0), np.uint8)).shape == (2, 0)
    for wrong in ([1, 2], np.int8([1]), np.uint8(1)):
        with pytest.raises(xb.OperandError, match=r"^pack_to_uint32: x must be an array of uint"):
            lib.pack_to_uint32(wrong)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_dequantize(dtype: Any) -> None:
    """The results differ from exact numbers by one rounding to bf16."""
    limits = lib.QuantizedRange(-1.5, 7.25)
    largest = np.iinfo(dtype).max
    integers = RANDOM.integers(0, largest, (2, 3, 8), dtype, endpoint=True)
    integers[0, 0, :2] = 0, largest
    packed = lib.pack_to_uint32(integers)
    got = run(
        lambda x: (
            lib.dequantize(x, limits, dtype),
            lib.dequantize(x, limits, dtype, transpose_output=True),
        ),
        packed,
    )
    expected = (integers * (8.75 / largest) - 1.5).astype(np.float32).astype(ml_dtypes.bfloat16)
    assert got[0].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(got[0], expected)
    np.testing.assert_array_equal(got[1], expected.transpose())


def test_range() -> None:
    assert lib.QuantizedRange() == lib.QuantizedRange(0, 0)
    assert lib.QuantizedRange(1, 2) != lib.QuantizedRange(1, 3)
    assert lib.QuantizedRange(0.1, 1).min == float(ml_dtypes.bfloat16(0.1))
    with pytest.raises(xb.OperandError, match=r"^QuantizedRange: max must be a number, got None"):
        lib.QuantizedRange(0, None)


RANGE = lib.QuantizedRange(0, 1)


@each_row(
    "call, message",
    [
        (
            lambda b, x: lib.dequantize(b.parameter("s32[2]"), RANGE, xb.u8),
            "x must be of type u3",
        ),
        (
            lambda b, x: lib.dequantize(b.parameter("u32[]"), RANGE, xb.u8),
            "x must be of type u32",
        ),
        (
            lambda b, x: lib.dequantize(b.parameter("u32[?]"), RANGE, xb.u8),
            "x must not have an",
        ),
        (
            lambda b, x: lib.dequantize(x, (0, 1), xb.u8),
            "range must be a QuantizedRange, got (0, 1)",
        ),
        (lambda b, x: lib.dequantize(x, RANGE, xb.s8), "element_type must be u8 or u16, got s8"),
        (
            lambda b, x: lib.dequantize(x, RANGE, xb.u8, "SCALED"),
            "mode_string must be \"MIN_COMBINED\", got 'SCALED'",
        ),
        (
            lambda b, x: lib.dequantize(x, RANGE, xb.u8, "MIN_COMBINED", 1),
            "transpose_output must be T",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        call(b, b.parameter("u32[2]"))
    assert str(caught.value).startswith(f"dequantize: {message}"), caught.value
