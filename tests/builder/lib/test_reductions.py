"""builder.lib.reductions, compared with NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
import lowering
from builder import lib

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
AXES = (None, 0, -1, (0, 2), (-1, 1), ())

REFERENCES: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "var": np.var,
    "std": np.std,
    "logsumexp": lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
}


def assert_close(got: Any, expected: Any, ulps: int, scale: Any = None) -> None:
    """Compare with a double precision result, within `ulps` of `scale` or of the result."""
    dtype = got.dtype
    size = np.abs(expected) if scale is None else np.maximum(np.abs(expected), scale)
    tolerance = ulps * float(ml_dtypes.finfo(dtype).eps) * size
    assert got.shape == np.shape(expected)
    np.testing.assert_array_less(np.abs(got.astype(np.float64) - expected), tolerance + 1e-300)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype: Any) -> None:
    x = np.random.default_rng(1).uniform(0.5, 1.5, (4, 3, 5)).astype(dtype)
    cases = list(product(REFERENCES, AXES, (False, True)))
    results = run(lambda x: [getattr(lib, name)(x, axis=a, keepdims=k) for name, a, k in cases], x)
    # In f32 and f64 each of the 60 elements may add a rounding.
    narrow = np.dtype(dtype).itemsize == 2
    for (name, axis, keepdims), got in zip(cases, results, strict=True):
        value = REFERENCES[name](x.astype(np.float64), axis=axis, keepdims=keepdims)
        assert got.dtype == dtype
        assert_close(got, value, 1 if narrow else 16, 1e-2 if narrow else 1.0)


def test_accumulation_is_wide() -> None:
    """4096 ones have a sum that bf16 represents, and that additions in bf16 never reach."""
    x = np.ones(4096, ml_dtypes.bfloat16)
    total, average = run(lambda x: (lib.sum(x), lib.mean(x)), x)
    assert float(total) == 4096
    assert float(average) == 1


def test_integers_and_complex_numbers() -> None:
    i = np.arange(-6, 6, dtype=np.int8).reshape(3, 4) * 21
    z = (np.arange(12) * (1 + 2j) + 1j).reshape(3, 4).astype(np.complex64)
    total, product, highest, lowest, z_sum, z_mean, z_var, z_std = run(
        lambda i, z: (
            *(lib.sum(i, 0), lib.prod(i, 1), lib.max(i, 1), lib.min(i, 0)),
            *(lib.sum(z, 1), lib.mean(z, 0), lib.var(z, 0, True, 1), lib.std(z)),
        ),
        i,
        z,
    )
    np.testing.assert_array_equal(total, i.sum(0, dtype=np.int8))
    np.testing.assert_array_equal(product, i.prod(1, dtype=np.int8))
    np.testing.assert_array_equal(highest, i.max(1))
    np.testing.assert_array_equal(lowest, i.min(0))
    np.testing.assert_allclose(z_sum, z.sum(1), rtol=1e-6)
    np.testing.assert_allclose(z_mean, z.mean(0), rtol=1e-6)
    np.testing.assert_allclose(z_var, z.var(0, ddof=1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(z_std, z.std(), rtol=1e-6)


@pytest.mark.parametrize("correction", [0, 1, 1.5, 3, 4])
@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
def test_correction(correction: float) -> None:
    x = np.array([[1.0, 2.0, 4.0], [5.0, 5.0, 5.0]])
    with np.errstate(all="ignore"):
        expected = np.var(x, axis=1, ddof=correction), np.std(x, axis=1, ddof=correction)
    both = (lib.var, lib.std)
    got = run(lambda x: [function(x, 1, correction=correction) for function in both], x)
    np.testing.assert_allclose(got, expected, rtol=1e-15)


def test_variance_does_not_cancel() -> None:
    x = (np.arange(5) + 2.0**20).astype(np.float32)
    assert run(lib.var, x) == 2.0


def test_no_elements() -> None:
    x = np.zeros((2, 0), np.float32)
    names = ("sum", "prod", "mean", "var", "max", "min", "logsumexp")
    results = run(lambda x: [getattr(lib, name)(x, axis=1) for name in names], x)
    expected = (0, 1, np.nan, np.nan, -np.inf, np.inf, -np.inf)
    for got, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, [value] * 2)
    any_, all_, at = run(
        lambda x: (lib.any(x > 0.0, 1), lib.all(x > 0.0, 1), lib.arg_max(x, xb.s32, 1)), x
    )
    assert (any_.tolist(), all_.tolist(), at.tolist()) == ([False] * 2, [True] * 2, [0, 0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_numbers(dtype: Any) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf], [inf, 1], [inf, -inf], [nan, 1], [-inf, 2]], dtype)
    names = ("max", "min", "logsumexp")
    results = run(lambda x: [getattr(lib, name)(x, axis=1) for name in names], x)
    expected = [
        [-inf, inf, inf, nan, 2],
        [-inf, 1, -inf, nan, -inf],
        [-inf, inf, inf, nan, 2],
    ]
    for got, values in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got.astype(np.float64), values)
    large = np.array([600.0, 600.0, 590.0], dtype)
    small = run(lib.logsumexp, -large)
    assert_close(run(lib.logsumexp, large), 600 + np.log(2 + np.exp(-10.0)), 1)
    assert_close(small, -590 + np.log(1 + 2 * np.exp(-10.0)), 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_max_and_min_of_many_elements(dtype: Any) -> None:
    """NaNs of both signs, infinities and zeros of both signs, along any dimensions."""
    axes = [axes for count in range(4) for axes in combinations(range(3), count)]
    random = np.random.default_rng(4)
    x = random.standard_normal((40, 3, 50)).astype(dtype)
    x.reshape(-1)[random.integers(0, x.size, 40)] = [np.nan, -np.nan, np.inf, -np.inf] * 10
    x[0], x[1] = np.inf, -np.inf
    zeros = np.where(random.integers(0, 3, x.shape) == 0, -0.0, 0.0).astype(dtype)
    got = run(
        lambda x, zeros: [f(v, a) for a in axes for v in (x, zeros) for f in (lib.max, lib.min)],
        *(x, zeros),
    )
    expected: list[Any] = []
    for a in axes:
        expected += [f(x.astype(np.float64), axis=a) for f in (np.max, np.min)]
        signs = np.signbit(zeros)
        expected += [np.where(f(signs, axis=a), -0.0, 0.0) for f in (np.all, np.any)]
    for result, values in zip(got, expected, strict=True):
        result = result.astype(np.float64)
        np.testing.assert_array_equal(result, values)
        is_number = ~np.isnan(values)
        np.testing.assert_array_equal(np.signbit(result[is_number]), np.signbit(values[is_number]))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_max_and_min_of_all_numbers_of_16_bits(dtype: Any) -> None:
    bits = np.random.default_rng(7).permutation(2**16).astype(np.uint16)
    x = bits.view(dtype).reshape(8, 1024, 8)
    calls = [(name, axis) for name in ("max", "min") for axis in (0, 1, 2, (0, 2))]
    results = run(lambda x: [getattr(lib, name)(x, axis) for name, axis in calls], x)
    with np.errstate(invalid="ignore"):  # the conversion of signaling NaNs
        wide = x.astype(np.float64)
    for (name, axis), got in zip(calls, results, strict=True):
        assert got.dtype == dtype
        expected = getattr(np, name)(wide, axis=axis)
        np.testing.assert_array_equal(got.astype(np.float64), expected)


@pytest.mark.parametrize("count", [256, 1024, 1025, 4096])
def test_max_is_nan_at_sizes_with_other_implementations(count: int) -> None:
    """XLA computes small reductions itself, and calls a library without NaNs for large ones."""
    x = np.ones((2, count // 2 + count % 2))
    cases = list(product(DTYPES, (np.nan, -np.nan)))
    arrays = []
    for dtype, nan in cases:
        x[1, 7] = nan
        arrays.append(x.astype(dtype))
    results = run(
        lambda *ops: [
            xb.tuple(lib.max(x, 1), lib.min(x, 1), lib.max(x, 0), lib.min(x)) for x in ops
        ],
        *arrays,
    )
    for case, each in zip(cases, results, strict=True):
        rows, least, columns, whole = [np.isnan(r.astype(np.float64)) for r in each]
        assert rows.tolist() == least.tolist() == [False, True], case
        assert np.flatnonzero(columns).tolist() == [7], case
        assert whole, case


def test_any_and_all() -> None:
    p = np.array([[False, False, True], [True, True, True], [False, False, False]])
    results = run(
        lambda p: [
            f(p, axis, k)
            for f in (lib.any, lib.all)
            for axis in (None, 0, -1)
            for k in (False, True)
        ],
        p,
    )
    expected = [
        f(p, axis=axis, keepdims=k)
        for f in (np.any, np.all)
        for axis in (None, 0, -1)
        for k in (False, True)
    ]
    for got, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, value)


NARROW = (ml_dtypes.int2, ml_dtypes.uint2)


@pytest.mark.parametrize("dtype", [*DTYPES, np.int8, np.uint32, np.bool_, *NARROW])
def test_arg_max_and_arg_min(dtype: Any) -> None:
    numbers = np.random.default_rng(2).integers(0, 2 if dtype in NARROW else 4, (6, 40))
    x = numbers.astype(dtype)  # with many ties
    at_max, at_min, kept = run(
        lambda x: (
            lib.arg_max(x, xb.s32, -1),
            lib.arg_min(x, xb.u8, 0),
            lib.arg_max(x, xb.s64, 0, keepdims=True),
        ),
        x,
    )
    assert (at_max.dtype, at_min.dtype, kept.dtype) == (np.int32, np.uint8, np.int64)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(at_max, wide.argmax(-1))
    np.testing.assert_array_equal(at_min, wide.argmin(0))
    np.testing.assert_array_equal(kept, wide.argmax(0, keepdims=True))


@pytest.mark.parametrize("function", [lib.arg_max, lib.arg_min])
def test_arg_max_and_arg_min_in_any_order(function: Any) -> None:
    """XLA may combine elements in any order: the first of equal ones, and a number before NaN."""
    b = xb.XlaBuilder("indices")
    function(b.parameter(xb.f32[4]), xb.s32, 0)
    (reducer,) = (op.attributes["to_apply"] for op in b.ops if op.opcode == "reduce")
    combine = lowering.compile(reducer)
    for one, other in [((1.0, 2), (1.0, 5)), ((1.0, 5), (np.nan, 2)), ((1.0, 2), (np.nan, 5))]:
        for lhs, rhs in ((one, other), (other, one)):
            assert tuple(map(float, combine(*lhs, *rhs))) == one


def test_nans_lose_in_arg_max_and_arg_min() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[nan, 1, 3, nan], [nan] * 4, [2, 2, nan, 1], [nan, -inf, inf, -inf]], np.float32)
    at_max, at_min = run(lambda x: (lib.arg_max(x, xb.s32, 1), lib.arg_min(x, xb.s32, 1)), x)
    assert at_max.tolist() == [2, 0, 0, 2]
    assert at_min.tolist() == [1, 0, 3, 1]


def test_bounded_sizes() -> None:
    """Only the elements below the size at run time count; sizes of kept dimensions remain."""
    x = np.random.default_rng(3).uniform(1, 2, (5, 4))
    names = ("sum", "prod", "mean", "var", "std", "max", "min", "logsumexp")

    def function(x: xb.XlaOp) -> list[xb.XlaOp]:
        bounded = xb.set_dimension_size(x, 3, 0)
        results = [getattr(lib, name)(bounded, axis=(0, 1)) for name in names]
        across = [lib.mean(bounded, axis=1, keepdims=True), lib.arg_max(bounded, xb.s32, 0)]
        assert [op.shape for op in across] == [xb.parse_shape("f64[<=5,1]"), xb.s32[4]]
        return [*results, lib.sum(across[0]), across[1]]

    *got, total, at = run(function, x)
    expected = [REFERENCES[name](x[:3], axis=None, keepdims=False) for name in names]
    np.testing.assert_allclose(got, expected, rtol=1e-14)
    np.testing.assert_allclose(total, x[:3].mean(1).sum(), rtol=1e-14)
    np.testing.assert_array_equal(at, x[:3].argmax(0))


def test_unbounded_sizes() -> None:
    x = xb.XlaBuilder().parameter("f32[?,3]")
    assert lib.mean(x, axis=0, keepdims=True).shape == xb.f32[1, 3]
    assert str(lib.var(x, axis=1, keepdims=True).shape) == "f32[?,1]"
    assert str(lib.logsumexp(x, axis=1).shape) == "f32[?]"


@each_row(
    "call, message",
    [
        (
            lambda b: lib.mean(b.parameter(xb.s32[2])),
            "mean: x must be of floating-point or complex type, got s32[2]\nfix: convert it with",
        ),
        (lambda b: lib.sum(b.parameter(xb.pred[2])), "sum: x must be of numbers, got pred[2]\nfix"),
        (lambda b: lib.any(b.parameter(xb.f32[2])), "any: x must be of type pred, got"),
        (lambda b: lib.max(b.parameter(xb.c64[2])), "max: x must be real, got c64[2]"),
        (
            lambda b: lib.sum(b.parameter(xb.f32[2, 3]), axis=-3),
            "sum: axis must be a dimension (from -2 to 1), got -3\n  x f32[2,3]",
        ),
        (
            lambda b: lib.sum(b.parameter(xb.f32[2, 3]), axis=(1, -1)),
            "sum: axis must not name a dimension twice, got dimension 1 twice in [1, -1]",
        ),
        (
            lambda b: lib.sum(b.parameter(xb.f32[2, 3]), keepdims=1),
            "sum: keepdims must be True or False, got 1",
        ),
        (
            lambda b: lib.var(b.parameter(xb.f32[2, 3]), correction="1"),
            "var: correction must be a finite number, got '1'",
        ),
        (lambda b: lib.logsumexp(b.create_token()), "logsumexp: x must be an array, got token[]"),
        (lambda b: lib.sum([1.0]), "sum: x must be an XlaOp, got list"),
        (
            lambda b: lib.arg_max(b.parameter(xb.f32[2]), xb.f32, 0),
            "arg_max: element_type must be an integer type, got f32\nfix: write xb.s32",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        call(b)
    assert str(caught.value).startswith(message)
