"""builder.lib.math, compared with NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

FLOATS = ("f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn", "f8e4m3fnuz", "f4e2m1fn")


def edge_values(name: str) -> Any:
    """Return the zeros, the extremes, some numbers, infinities and NaN of a type."""
    dtype = xb.as_primitive_type(name).dtype
    limits = ml_dtypes.finfo(dtype)
    numbers = [0.0, -0.0, 1.0, -1.5, 2.5, -2.5, 3.5, np.inf, -np.inf, np.nan]
    extremes = [limits.max, limits.min, limits.smallest_normal, limits.smallest_subnormal]
    values = np.array([*numbers, *map(float, extremes)]).astype(dtype)
    return np.concatenate([values, -values])


@pytest.mark.parametrize("name", FLOATS)
def test_classes(name: str) -> None:
    x = edge_values(name)
    wide = x.astype(np.float64)
    functions = (lib.is_pos_inf, lib.is_neg_inf, lib.is_inf, lib.is_nan, lib.is_neg_zero)
    got = run(lambda x: [function(x) for function in functions], x)
    expected = (
        np.isposinf(wide),
        np.isneginf(wide),
        np.isinf(wide),
        np.isnan(wide),
        (wide == 0) & np.signbit(wide),
    )
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", FLOATS)
def test_next_after(name: str) -> None:
    """All pairs of edge values: the bits of NumPy's or ml_dtypes' nextafter.

    Of two zeros the result is the second, as in C; NumPy returns the first for f16.
    """
    x = edge_values(name)
    first, last = (a.reshape(-1) for a in np.meshgrid(x, x))
    got = run(lib.next_after, first, last)
    with np.errstate(all="ignore"):
        expected = np.where((first == 0) & (last == 0), last, np.nextafter(first, last))
    wide = expected.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), np.isnan(wide))
    numbers = ~np.isnan(wide)
    bits = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(got[numbers].view(bits), expected[numbers].view(bits))


def test_next_after_takes_a_scalar() -> None:
    x = np.array([1, -2, 0], np.float32)
    got = run(lambda x: lib.next_after(x, lib.scalar_like(x, 5)), x)
    np.testing.assert_array_equal(got, np.nextafter(x, np.float32(5)))
    got = run(lambda x: lib.next_after(lib.scalar_like(x, 0), x), x)
    np.testing.assert_array_equal(got, np.nextafter(np.float32(0), x))


@each_row("name", ["f16", "bf16", "f32", "f64"])
def test_round_to_even(name: str) -> None:
    x = np.concatenate([edge_values(name), np.arange(-9, 9).astype(edge_values(name).dtype) / 2])
    got = run(lib.round_to_even, x)
    np.testing.assert_array_equal(got.astype(float), np.rint(x.astype(float)))


def test_maybe_conjugate() -> None:
    x = np.array([1 + 2j, -3 - 0j], np.complex64)
    np.testing.assert_array_equal(run(lambda x: lib.maybe_conjugate(x, True), x), x.conj())
    b = xb.XlaBuilder()
    for operand, conjugate in (("c64[2]", False), ("s8[2]", True), ("f32[?]", True)):
        op = b.parameter(operand)
        assert lib.maybe_conjugate(op, conjugate) is op


def test_sizes_of_any_kind() -> None:
    x = xb.XlaBuilder().parameter("f32[<=5,?,0]")
    for function in (lib.is_pos_inf, lib.is_neg_inf, lib.is_inf, lib.is_nan, lib.is_neg_zero):
        assert function(x).shape == xb.parse_shape("pred[<=5,?,0]")
    assert lib.round_to_even(x).shape == x.shape
    bounded = x.builder.parameter("f32[<=5,2]")
    assert lib.next_after(bounded, bounded).shape == bounded.shape


@each_row(
    "call, message",
    [
        (lambda b: lib.is_nan(b.parameter("s32[2]")), "is_nan: x must be a floating-point"),
        (lambda b: lib.is_inf(b.parameter("c64[2]")), "is_inf: x must be a floating-point"),
        (lambda b: lib.is_neg_zero(1.0), "is_neg_zero: x must be an XlaOp, got float"),
        (lambda b: lib.is_pos_inf(b.create_token()), "is_pos_inf: x must be an array, got"),
        (lambda b: lib.round_to_even(b.parameter("s8[]")), "round_to_even: x must be a floating-"),
        (lambda b: lib.maybe_conjugate(b.parameter("(c64[])"), True), "maybe_conjugate: x must be"),
        (
            lambda b: lib.next_after(b.parameter("f32[2]"), b.parameter("f16[2]")),
            "next_after: from_, to must have one element type, got f32[2] and f16[2]\nfix: ",
        ),
        (
            lambda b: lib.next_after(b.parameter("f32[2]"), b.parameter("f32[3]")),
            "next_after: ",
        ),
        (
            lambda b: lib.next_after(b.parameter("f32[?]"), b.parameter("f32[2]")),
            "next_after: the sizes of from_ must be constant or bounded, got f32[?]\nfix: give the",
        ),
        (
            lambda b: lib.next_after(b.parameter("f8e8m0fnu[2]"), b.parameter("f8e8m0fnu[2]")),
            "next_after: the type must have a sign, got f8e8m0fnu",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder())
    assert str(caught.value).startswith(message)
