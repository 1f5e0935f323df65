"""Arithmetic and conversions of f8e8m0fnu, compared with ml_dtypes, NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_array_equal
from support import parameter_like

import builder as xb
import lowering

SCALE = ml_dtypes.float8_e8m0fnu
EVERY = np.arange(256, dtype=np.uint8).view(SCALE)

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rem": np.fmod,
    "max": np.maximum,
    "min": np.minimum,
    "atan2": np.arctan2,
    "pow": np.power,
}

UNARY = {
    "neg": np.negative,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "sqrt": np.sqrt,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "round_nearest_even": np.rint,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "erf": scipy.special.erf,
}


def codes(function: Callable[..., Any], *arrays: Any) -> tuple[Any, Any]:
    """The bits of the results of a function of parameters, and of one of constants."""
    b = xb.XlaBuilder("parameters")
    ops = [parameter_like(b, array) for array in arrays]
    of_parameters = lowering.compile(b.build(function(*ops)))(*arrays)
    b = xb.XlaBuilder("constants")
    of_constants = lowering.compile(b.build(function(*map(b.constant, arrays))))()
    return np.asarray(of_parameters).view(np.uint8), np.asarray(of_constants).view(np.uint8)


def rounded(values: Any) -> Any:
    """The bits of numbers that ml_dtypes rounds."""
    with np.errstate(all="ignore"):
        return values.astype(SCALE).view(np.uint8)


def test_binary_functions_of_all_scales() -> None:
    def program(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return xb.concat_in_dim([getattr(xb, name)(x, y) for name in BINARY], 0)

    x, y = np.repeat(EVERY, 256), np.tile(EVERY, 256)
    for got in codes(program, x, y):
        for name, each in zip(BINARY, np.split(got, len(BINARY)), strict=True):
            with np.errstate(all="ignore"):
                want = BINARY[name](x.astype(np.float64), y.astype(np.float64))
            assert_array_equal(each, rounded(want), name)


def test_unary_functions_of_all_scales() -> None:
    def program(x: xb.XlaOp) -> xb.XlaOp:
        return xb.concat_in_dim([getattr(xb, name)(x) for name in UNARY], 0)

    for got in codes(program, EVERY):
        for name, each in zip(UNARY, np.split(got, len(UNARY)), strict=True):
            with np.errstate(all="ignore"):
                want = UNARY[name](EVERY.astype(np.float64))
            assert_array_equal(each, rounded(want), name)


def test_clamp_of_all_scales() -> None:
    low, high = EVERY[0], EVERY[100]
    with np.errstate(all="ignore"):
        want = np.minimum(np.maximum(EVERY.astype(np.float64), float(low)), float(high))
    for got in codes(xb.clamp, low, EVERY, high):
        assert_array_equal(got, rounded(want))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8], ids=str
)
def test_conversions_to_scales(dtype: Any) -> None:
    if np.issubdtype(dtype, np.integer):
        x = np.array([0, 1, 2, 3, 5, 6, 7, 127]).astype(dtype)
    else:
        powers = np.array([1, 1.25, 1.5, 1.75])[:, None] * 2.0 ** np.arange(-149, 128)
        special = [0.0, -0.0, -1, -1.5, np.inf, -np.inf, np.nan, -np.nan]
        with np.errstate(all="ignore"):
            x = np.concatenate([powers.reshape(-1), special]).astype(dtype)
    for got in codes(lambda op: xb.convert(op, xb.f8e8m0fnu), x):
        assert_array_equal(got, rounded(x))


@pytest.mark.parametrize("to", [xb.f32, xb.f64, xb.f16, xb.bf16, xb.c64], ids=str)
def test_conversions_of_scales(to: xb.PrimitiveType) -> None:
    with np.errstate(all="ignore"):
        want = EVERY.astype(np.float64).astype(to.dtype)
    for got in codes(lambda op: xb.convert(op, to), EVERY):
        wide = got.view(to.dtype).astype(np.complex128)
        assert_array_equal(wide, want.astype(np.complex128))


def test_a_reduction_of_scales() -> None:
    x = np.array([2.0**-127, 2.0**-127, 2.0**-126]).astype(SCALE)
    least = np.array(2.0**127).astype(SCALE)
    for got in codes(lambda x, i: xb.reduce(x, i, xb.min, [0]), x, least):
        assert got == 0
