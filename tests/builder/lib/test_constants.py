"""builder.lib.constants, compared with NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
import lowering
from builder import lib

FLOATS = ("f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "f4e2m1fn", "f8e8m0fnu")
INTEGERS = ("s4", "u4", "s8", "u8", "s32", "u64")


def value(op: xb.XlaOp) -> Any:
    return op.attributes["value"][()]


@each_row("name", FLOATS)
def test_limits_of_floats(name: str) -> None:
    b, t = xb.XlaBuilder(), xb.as_primitive_type(name)
    limits = ml_dtypes.finfo(t.dtype)
    assert value(lib.epsilon(b, t)) == limits.eps
    assert value(lib.min_positive_normal_value(b, t)) == limits.smallest_normal
    assert value(lib.max_finite_value(b, t)) == limits.max
    assert value(lib.min_finite_value(b, t)) == limits.min
    largest, smallest = value(lib.max_value(b, t)), value(lib.min_value(b, t))
    has_infinities = name in ("f16", "bf16", "f32", "f64", "f8e5m2")
    assert (largest == np.inf) == (smallest == -np.inf) == has_infinities
    if not has_infinities:
        assert (smallest, largest) == (limits.min, limits.max)


@each_row("name", FLOATS)
def test_nan(name: str) -> None:
    b = xb.XlaBuilder()
    if name == "f4e2m1fn":
        with pytest.raises(xb.ConstantError, match=r"nan_value: .* the type has no NaN"):
            lib.nan_value(b, name)
    else:
        assert np.isnan(value(lib.nan_value(b, name)).astype(np.float32))


@each_row("name", INTEGERS)
def test_limits_of_integers(name: str) -> None:
    b, t = xb.XlaBuilder(), xb.as_primitive_type(name)
    limits = ml_dtypes.iinfo(t.dtype)
    for function, expected in (
        (lib.max_value, limits.max),
        (lib.max_finite_value, limits.max),
        (lib.min_value, limits.min),
        (lib.min_finite_value, limits.min),
    ):
        assert int(value(function(b, t))) == expected


@each_row("name", ["pred", "s4", "u8", "f32", "c64", "f4e2m1fn"])
def test_zero_and_one(name: str) -> None:
    b = xb.XlaBuilder()
    zero, one = lib.zero(b, name), lib.one(b, name)
    assert zero.shape == one.shape == xb.array_shape(name, ())
    assert not value(zero)
    assert value(one) == 1


def test_arrays() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    full, zeros, scalar = run(
        lambda x: (lib.full_like(x, 2.5), lib.zeros_like(x), lib.scalar_like(x, 7)), x
    )
    np.testing.assert_array_equal(full, np.full_like(x, 2.5))
    np.testing.assert_array_equal(zeros, np.zeros_like(x))
    assert scalar == 7
    assert lib.zeros(xb.XlaBuilder(), xb.s8[2, 0]).shape == xb.s8[2, 0]
    assert lib.full_like(xb.XlaBuilder().parameter("f32[<=5,2]"), 1).shape == xb.f32[5, 2]


@each_row(
    "call, message",
    [
        (lambda b: lib.nan_value(b, xb.s32), "nan_value: type must be a floating-point type, got"),
        (
            lambda b: lib.min_value(b, xb.c64),
            "min_value: type must be real, got c64\nfix: write xb.f32",
        ),
        (lambda b: lib.one(b, "f99"), "one: element_type: unknown primitive type 'f99'"),
        (lambda b: lib.max_value(b, [3]), "max_value: type: expected a primitive type"),
        (lambda b: lib.zeros(b, "(f32[2], s32[])"), "zeros: shape must be an array shape, got"),
        (lambda b: lib.zeros_like(b.create_token()), "zeros_like: full_like: prototype must be an"),
        (
            lambda b: lib.scalar_like("f32[2]", 1),
            "scalar_like: prototype must be an XlaOp",
        ),
        (
            lambda b: lib.zeros(b, "f32[?]"),
            "zeros: shape must have fixed sizes, got f32[?]\nfix: write lib.zeros_like(x)",
        ),
        (lambda b: lib.full_like(b.parameter("s8[2]"), 300), "full_like: constant: s8 can't"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder())
    assert str(caught.value).startswith(message)


def test_full_like_of_unbounded_sizes() -> None:
    program = xb.computation(xb.f32["?", 2])(lambda x: lib.full_like(x, 2.5))
    result = lowering.compile(program)(np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(result, np.full((3, 2), 2.5, np.float32))
