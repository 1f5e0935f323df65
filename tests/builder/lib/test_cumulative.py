"""builder.lib.cumulative, compared with NumPy's accumulations in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

RANDOM = np.random.default_rng(11)
FUNCTIONS: dict[str, tuple[np.ufunc, float]] = {
    "cumsum": (np.add, 0),
    "cumprod": (np.multiply, 1),
    "cummax": (np.maximum, -np.inf),
    "cummin": (np.minimum, np.inf),
    "cumlogsumexp": (np.logaddexp, -np.inf),
}
MODES = [(reverse, exclusive) for reverse in (False, True) for exclusive in (False, True)]


def accumulated(name: str, x: Any, axis: int, reverse: bool, exclusive: bool) -> Any:
    ufunc, init = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        x = np.flip(x, axis) if reverse else x
        result = ufunc.accumulate(x, axis, dtype=x.dtype)
        if exclusive:
            if name == "cummax" and x.dtype.kind in "iu":
                init = np.iinfo(x.dtype).min
            if name == "cummin" and x.dtype.kind in "iu":
                init = np.iinfo(x.dtype).max
            first = np.full_like(np.take(result, [0], axis), init)
            kept = np.take(result, np.arange(x.shape[axis] - 1), axis)
            result = np.concatenate([first, kept], axis)
    return np.flip(result, axis) if reverse else result


def all_of(names: Any, axes: Any) -> Callable[[xb.XlaOp], list[xb.XlaOp]]:
    def results(x: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            getattr(lib, name)(x, axis, reverse=reverse, exclusive=exclusive)
            for name in names
            for axis in axes
            for reverse, exclusive in MODES
        ]

    return results


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_integers(dtype: Any) -> None:
    """Sums and products wrap, and all results are exact; 37 is more than a block of XLA's scan."""
    limits = np.iinfo(dtype)
    x = RANDOM.integers(limits.min, limits.max, (3, 37), dtype, endpoint=True)
    names = ("cumsum", "cumprod", "cummax", "cummin")
    got = iter(run(all_of(names, (0, -1)), x))
    for name in names:
        for axis in (0, -1):
            for mode in MODES:
                result = next(got)
                assert result.dtype == dtype
                np.testing.assert_array_equal(result, accumulated(name, x, axis, *mode))


@pytest.mark.parametrize(
    ("dtype", "ulps"),
    [(np.float16, 0.6), (ml_dtypes.bfloat16, 0.6), (np.float32, 8), (np.float64, 8)],
)
def test_floats(dtype: Any, ulps: float) -> None:
    """All terms are positive, so that the error of a sum is a multiple of its ulp."""
    x = RANDOM.uniform(0.5, 1.5, (2, 40)).astype(dtype)
    got = iter(run(all_of(FUNCTIONS, (1,)), x))
    eps = float(ml_dtypes.finfo(dtype).eps)
    for name in FUNCTIONS:
        for mode in MODES:
            expected = accumulated(name, x.astype(float), 1, *mode)
            result = next(got)
            assert result.dtype == dtype
            scale = np.maximum(abs(expected), 1.0) * eps
            with np.errstate(invalid="ignore"):
                errors = abs(result.astype(float) - expected) / scale
            errors[result.astype(float) == expected] = 0
            assert errors.max() <= ulps, (name, mode)


def test_complex_numbers() -> None:
    x = (RANDOM.normal(size=(40,)) + 1j * RANDOM.normal(size=(40,))).astype(np.complex64)
    got = iter(run(all_of(("cumsum", "cumprod"), (0,)), x))
    for name in ("cumsum", "cumprod"):
        for mode in MODES:
            expected = accumulated(name, x.astype(complex), 0, *mode)
            np.testing.assert_allclose(next(got), expected, rtol=2e-5)


def test_special_values() -> None:
    x = np.array([1, -np.inf, np.inf, 2, np.nan, 3, np.inf])
    names = ("cumsum", "cummax", "cummin", "cumlogsumexp")
    for name, result in zip(
        names, run(lambda x: [getattr(lib, n)(x, 0) for n in names], x), strict=True
    ):
        np.testing.assert_allclose(result, accumulated(name, x, 0, False, False), rtol=1e-14)
    large = np.array([-np.inf, -np.inf, 1000, -1000, 1000])
    expected = accumulated("cumlogsumexp", large, 0, False, False)
    np.testing.assert_allclose(run(lambda x: lib.cumlogsumexp(x, 0), large), expected, rtol=1e-15)


def test_preds_and_sizes_of_zero_and_one() -> None:
    x = np.array([[False, True, False]])
    got = run(lambda x: (lib.cummax(x, 1), lib.cummin(x, 1), lib.cummin(x, 0, False, True)), x)
    np.testing.assert_array_equal(got[0], [[False, True, True]])
    np.testing.assert_array_equal(got[1], [[False] * 3])
    np.testing.assert_array_equal(got[2], [[True] * 3])
    b = xb.XlaBuilder()
    empty = b.parameter("f32[0,3]")
    assert lib.cumsum(empty, 0) is empty
    assert run(lambda x: lib.cumsum(x, 1), np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_bounded_sizes() -> None:
    """Elements beyond the size at run time do not count."""
    x = RANDOM.integers(-9, 9, (6, 40)).astype(np.int32)

    def results(x: xb.XlaOp) -> list[xb.XlaOp]:
        cut = xb.set_dimension_size(x, 23, 1)
        assert all(each.shape == cut.shape for each in all_of(("cumsum", "cummax"), (0, 1))(cut))
        return all_of(("cumsum", "cummax"), (0, 1))(cut)

    got = iter(run(results, x))
    for name in ("cumsum", "cummax"):
        for axis in (0, 1):
            for mode in MODES:
                expected = accumulated(name, x[:, :23], axis, *mode)
                np.testing.assert_array_equal(next(got), expected)
    unbounded = xb.XlaBuilder().parameter("f32[?,4]")
    assert lib.cumsum(unbounded, 1).shape == unbounded.shape


def test_large_sums_are_fast_and_accurate() -> None:
    """A window for each element would take minutes; a sum from left to right has larger errors."""
    x = RANDOM.normal(size=10**6).astype(np.float32)
    got = run(lambda x: [lib.cumsum(x, 0), lib.cumsum(x, 0, True, True)], x)
    expected = np.cumsum(x.astype(float))
    np.testing.assert_allclose(got[0], expected, rtol=0, atol=2e-3)
    np.testing.assert_allclose(got[1], expected[-1] - expected, rtol=0, atol=2e-3)


@each_row(
    "call, message",
    [
        (lambda x: lib.cumsum(x > 0, 0), "cumsum: x must be of numbers, got pred[4,?]\nfix: "),
        (lambda x: lib.cumprod(x, 2), "cumprod: axis must be a dimension (from -2 to 1), got 2"),
        (lambda x: lib.cummax(xb.complex(x, x), 0), "cummax: x must be real, got c64[4,?]"),
        (lambda x: lib.cummin(x, 0, 1), "cummin: reverse must be True or False, got 1"),
        (lambda x: lib.cumsum(x, 0, exclusive=2), "cumsum: exclusive must be True or False, got 2"),
        (
            lambda x: lib.cumsum(x, 1),
            "cumsum: dimension 1 of x must not be unbounded, got f32[4,?]",
        ),
        (
            lambda x: lib.cumlogsumexp(xb.convert_element_type(x, xb.s8), 0),
            "cumlogsumexp: x must be of floating-point type, got s8[4,?]",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder().parameter("f32[4,?]"))
    assert str(caught.value).startswith(message)
