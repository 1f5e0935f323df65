"""Operations on constants, compared with NumPy and with plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support import parameter_like, run
from tables import each_row

import builder as xb
import lowering
from builder.types import primitive_type as pt

UNSIGNED = [xb.u8, xb.u16, xb.u32, xb.u64]
SIGNED = [xb.s2, xb.s4, xb.s8, xb.s16, xb.s32, xb.s64]


def of_constants(function: Callable[..., Any], *arrays: Any) -> Any:
    b = xb.XlaBuilder("constants")
    return run(b.build(function(*map(b.constant, arrays))))


def of_parameters(function: Callable[..., Any], *arrays: Any) -> Any:
    b = xb.XlaBuilder("parameters")
    return run(b.build(function(*(parameter_like(b, array) for array in arrays))), *arrays)


def of_interpreter(function: Callable[..., Any], *arrays: Any) -> Any:
    b = xb.XlaBuilder("interpreted")
    return lowering.interpret(b.build(function(*map(b.constant, arrays))))


WAYS = [of_constants, of_parameters, of_interpreter]


# Indices


def computed(index: xb.XlaOp) -> xb.XlaOp:
    """An index that becomes a constant while XLA compiles."""
    return xb.xor(index, index.builder.constant(0, index.shape.element_type))


def called(index: xb.XlaOp) -> xb.XlaOp:
    """An index that is a parameter of a computation."""
    return xb.call(lambda x: x, index)


SIZE = 300
INDICES = [(t, v) for t in UNSIGNED for v in (7, t.max // 2 + 1, t.max - 1, t.max)]


@pytest.mark.parametrize("change", [lambda op: op, computed, called], ids=["as is", "xor", "call"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_slices_at_unsigned_indices(way: Any, change: Callable[..., Any]) -> None:
    def slices(x: xb.XlaOp, *starts: xb.XlaOp) -> xb.XlaOp:
        return xb.concat_in_dim([xb.dynamic_slice(x, [change(i)], [2]) for i in starts], 0)

    x = np.arange(SIZE, dtype=np.int32)
    got = way(slices, x, *(np.asarray(index, t.dtype) for t, index in INDICES))
    first = np.array([min(index, SIZE - 2) for _, index in INDICES])
    assert_array_equal(np.reshape(got, (-1, 2)), np.stack([first, first + 1], 1))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_gather_at_unsigned_indices(way: Any) -> None:
    numbers = xb.GatherDimensionNumbers([], [0], [0], 1)

    def gathers(x: xb.XlaOp, *indices: xb.XlaOp) -> xb.XlaOp:
        return xb.concat_in_dim([xb.gather(x, computed(i), numbers, [1]) for i in indices], 0)

    x = np.arange(SIZE, dtype=np.int32)
    got = way(gathers, x, *(np.array([[index], [3]], t.dtype) for t, index in INDICES))
    assert_array_equal(np.reshape(got, (-1, 2)), [[min(i, SIZE - 1), 3] for _, i in INDICES])


@each_row("t, index", INDICES)
def test_the_interpreter_scatters_at_unsigned_indices(t: xb.PrimitiveType, index: int) -> None:
    x = np.arange(SIZE, dtype=np.int32)
    want = x.copy()
    want[[n for n in (index, 3) if n < SIZE]] += 1000
    numbers = xb.ScatterDimensionNumbers([], [0], [0], 1)
    operands = x, np.array([[index], [3]], t.dtype), np.full(2, 1000, np.int32)
    got = of_interpreter(lambda x, i, u: xb.scatter(x, i, u, xb.add, numbers), *operands)
    assert_array_equal(got, want)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_updates_at_indices_of_u64(way: Any) -> None:
    def updated(x: xb.XlaOp, update: xb.XlaOp, *starts: xb.XlaOp) -> xb.XlaOp:
        each = [xb.dynamic_update_slice(x, update, [i, computed(i)]) for i in starts]
        return xb.concat_in_dim(each, 0)

    x = np.arange(6 * SIZE, dtype=np.int32).reshape(6, SIZE)
    update = np.full((2, 3), -1, np.int32)
    indices = [7, 2**63 - 1, 2**63, 2**64 - 1]
    got = way(updated, x, update, *map(np.uint64, indices))
    for index, one in zip(indices, np.split(got, 4), strict=True):
        row, column = min(index, 4), min(index, SIZE - 3)
        want = x.copy()
        want[row : row + 2, column : column + 3] = -1
        assert_array_equal(one, want)


# Comparisons

FLOATS = [t for t in pt.ALL if t.is_floating]
WITHOUT_NEGATIVE_ZERO = [xb.f8e5m2fnuz, xb.f8e4m3fnuz, xb.f8e4m3b11fnuz]


def some_floats(t: xb.PrimitiveType) -> np.ndarray[Any, Any]:
    """All numbers of few bits; some numbers and NaNs of more bits."""
    if t.bits <= 8:
        return np.arange(2**t.bits, dtype=np.uint8)[:: max(1, 2**t.bits // 64)].view(t.dtype)
    bits = np.dtype(f"u{t.bits // 8}")
    largest = np.iinfo(bits).max
    values = np.array([0.0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan, -np.nan]).astype(t.dtype)
    special = np.array([1, largest, largest // 2, largest // 2 + 2], bits).view(t.dtype)
    return np.concatenate([values, special])


def order_key(t: xb.PrimitiveType, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The position of each float in the total order of IEEE 754, from sign and magnitude."""
    bits = np.ascontiguousarray(values).view(f"u{max(t.bits, 8) // 8}").astype(object)
    if t is xb.f8e8m0fnu:
        return bits
    half = 2 ** (t.bits - 1)
    keys = [n if n < half else half - 1 - n for n in bits]
    if t in WITHOUT_NEGATIVE_ZERO:
        keys = [-half - 1 if n == half else key for n, key in zip(bits, keys, strict=True)]
    return np.array(keys, object)


@pytest.mark.slow
@pytest.mark.parametrize("way", [of_constants, of_parameters], ids=lambda way: way.__name__)
def test_the_total_order_of_constants(way: Any) -> None:
    names = ("eq", "lt", "ge")
    pairs, want = [], []
    for t in FLOATS:
        values = some_floats(t)
        if t in WITHOUT_NEGATIVE_ZERO:
            values = np.concatenate([values, np.array([0x81, 0xFF], np.uint8).view(t.dtype)])
        x, y = np.repeat(values, len(values)), np.tile(values, len(values))
        left, right = order_key(t, x), order_key(t, y)
        pairs += [x, y]
        want += [[getattr(left, f"__{name}__")(right).astype(bool) for name in names]]

    def compared(*ops: xb.XlaOp) -> xb.XlaOp:
        ordered = [getattr(xb, f"{name}_total_order") for name in names]
        each = zip(ops[::2], ops[1::2], strict=True)
        return xb.tuple(*(xb.concat_in_dim([f(x, y) for f in ordered], 0) for x, y in each))

    for t, got, expected in zip(FLOATS, way(compared, *pairs), want, strict=True):
        assert_array_equal(np.split(got, len(names)), expected, str(t))


def test_the_nan_with_the_bits_of_negative_zero_is_the_least() -> None:
    for way in (of_constants, of_parameters):
        for t in WITHOUT_NEGATIVE_ZERO:
            x = np.array([0x80, 0xFF, 0x81, 0, 1], np.uint8).view(t.dtype)
            nan = np.full(5, 0x80, np.uint8).view(t.dtype)
            got = way(
                lambda x, nan: xb.tuple(xb.lt_total_order(nan, x), xb.eq_total_order(x, nan)),
                x,
                nan,
            )
            assert_array_equal(got, [[False, True, True, True, True], [True] + [False] * 4], str(t))


def test_the_total_order_in_a_reducer_of_constants() -> None:
    x = np.float32([np.nan, 1, -0.0, 0.0])

    def least(p: xb.XlaOp, q: xb.XlaOp) -> xb.XlaOp:
        return xb.select(xb.lt_total_order(p, q), p, q)

    got = of_constants(lambda x, i: xb.reduce(x, i, least, [0]), x, np.float32(np.nan))
    assert got == 0
    assert np.signbit(got)


def test_comparators_of_sorts_are_not_rewritten() -> None:
    b = xb.XlaBuilder("sorted")
    x = b.constant(np.float32([np.nan, 0.0, -0.0, -np.nan, -1]))
    compiled = lowering.compile(b.build(xb.sort([x])))
    got = np.asarray(compiled())
    assert_array_equal(np.signbit(got), [True, True, True, False, False])
    assert_array_equal(np.isnan(got), [True, False, False, False, True])


def test_clamp_of_preds() -> None:
    low, x, high = (v.reshape(-1) for v in np.meshgrid(*[[False, True]] * 3))
    for way in (of_constants, of_parameters):
        assert_array_equal(way(xb.clamp, low, x, high), np.minimum(np.maximum(x, low), high))
    assert_array_equal(of_constants(xb.clamp, np.True_, x, np.False_), np.zeros(8, bool))


# Numbers


def each_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Apply a function to each operand, as one program."""
    return lambda *operands: xb.tuple(*map(function, operands))


def test_leading_zeros_of_constants() -> None:
    numbers = [[t.min, -2, -1, 0, 1, t.max] for t in SIGNED]
    arrays = [np.array(n).astype(t.dtype) for t, n in zip(SIGNED, numbers, strict=True)]
    for way in (of_constants, of_parameters):
        counted = way(each_of(xb.clz), *arrays)
        for t, each, got in zip(SIGNED, numbers, counted, strict=True):
            counts = np.array([t.bits - (n % 2**t.bits).bit_length() for n in each])
            assert_array_equal(got, counts.astype(t.dtype), str(t))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_rounding_of_f8e3m4(way: Any) -> None:
    x = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e3m4)
    wide = x.astype(np.float64)
    want = {
        "ceil": np.ceil(wide),
        "floor": np.floor(wide),
        "round": np.copysign(np.floor(np.abs(wide) + 0.5), wide),
        "round_nearest_even": np.rint(wide),
    }
    got = way(lambda op: xb.concat_in_dim([getattr(xb, name)(op) for name in want], 0), x)
    for name, one in zip(want, np.split(np.asarray(got).astype(np.float64), 4), strict=True):
        assert_array_equal(one, want[name].astype(x.dtype).astype(np.float64), name)


def test_negative_powers_of_constants() -> None:
    want = [-1, 1, 1, 0, 1, 1, -1]
    arrays = []
    for t in SIGNED:
        arrays.append(np.array([-1, -1, 1, -2, 1, -1, -1]).astype(t.dtype))
        arrays.append(np.array([-1, -2, -1, -1, t.min, t.min, 1]).astype(t.dtype))

    def powers(*ops: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(*(xb.pow(x, y) for x, y in zip(ops[::2], ops[1::2], strict=True)))

    of_variables = of_parameters(powers, *arrays)
    # Not compared with the HLO text: jaxlib 0.10 reads constants of s2 there with other unused
    # bits, and XLA's constant folding compares these too.
    b = xb.XlaBuilder("constants")
    folded = lowering.compile(b.build(powers(*map(b.constant, arrays))))()
    for t, *both in zip(SIGNED, of_variables, folded, strict=True):
        for got in both:
            assert_array_equal(np.asarray(got).astype(np.int64), want, str(t))


# Conversions

F4 = ml_dtypes.float4_e2m1fn


def test_conversions_of_constants_to_f4() -> None:
    numbers = np.array([0.1, 0.25, 0.26, 0.75, 1.25, 2.5, 3.5, 5, 5.1, 6, 7, 100, 1e4, np.inf])
    arrays = []
    for t in FLOATS:
        if t not in (xb.f8e8m0fnu, xb.f4e2m1fn):
            with np.errstate(all="ignore"):
                x = np.concatenate([numbers, -numbers]).astype(t.dtype)
            arrays.append(x[~np.isnan(x.astype(np.float64))])
    for way in (of_constants, of_parameters):
        converted = way(each_of(lambda op: xb.convert(op, xb.f4e2m1fn)), *arrays)
        for x, got in zip(arrays, converted, strict=True):
            assert_array_equal(got.view(np.uint8), x.astype(F4).view(np.uint8), str(x.dtype))


def test_complex_constants_to_f4() -> None:
    x = np.complex64([complex(np.inf, 1), complex(-np.inf, np.nan), 1.5])
    got = of_constants(lambda op: xb.convert(op, xb.f4e2m1fn), x)
    assert_array_equal(np.asarray(got).astype(np.float32), [6, -6, 1.5])


def test_quotients_of_f4() -> None:
    every = np.arange(16, dtype=np.uint8).view(F4)
    x, y = np.repeat(every, 16), np.tile(every, 16)
    with np.errstate(all="ignore"):
        want = x.astype(np.float32) / y.astype(np.float32)
    x, y, want = (values[~np.isnan(want)] for values in (x, y, want))
    for way in (of_constants, of_parameters):
        got = np.asarray(way(xb.div, x, y))
        assert_array_equal(got.view(np.uint8), want.astype(F4).view(np.uint8))
