"""builder.lib.prng, compared with XLA's RngBitGenerator, published vectors, and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib
from builder.lib.prng import threefry2x32

# XLA's CPU compiler expands rng_bit_generator to the client library's functions.
GENERATORS = {
    "RNG_THREE_FRY": (lib.three_fry_bit_generator, 2),
    "RNG_PHILOX": (lib.philox_bit_generator, 3),
}
SHAPES = (
    "u32[4]", "f32[3,5]", "u64[7]", "u16[6]", "s8[3,4]", "u32[]", "s64[]", "u4[5]", "f64[3,3]",
    "u32[0]", "f64[3,0]", "bf16[1,1]", "f16[3,2,5]", "f8e5m2[2]",
)  # fmt: skip

# Test vectors of the Random123 distribution: key, counter, result.
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
ONES = 2**32 - 1
THREEFRY_VECTORS = (
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    (PI[2:4], PI[:2], (0xC4923A9C, 0x483DF7A0)),
)
PHILOX_VECTORS = (
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES), (ONES,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI[4:], PI[:4], (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)


def u64_of(low: int, high: int) -> int:
    return low | high << 32


def inputs(algorithm: str = "RNG_THREE_FRY", key: int = 7) -> list[Any]:
    """A key, and the initial state of a generator."""
    size = GENERATORS[algorithm][1] - 1
    return [np.uint64(key), np.zeros(size, np.uint64)]


@pytest.mark.parametrize("algorithm", GENERATORS)
def test_bits_and_states_match_rng_bit_generator(algorithm: str) -> None:
    """For all widths and sizes; the counter overflows its low half."""
    generator, size = GENERATORS[algorithm]
    start = np.array([0x123456789ABCDEF0, 2**64 - 2, 2**64 - 1][:size], np.uint64)

    def both(state: xb.XlaOp) -> list[xb.XlaOp]:
        key = xb.reshape(xb.slice_in_dim(state, 0, 1, 1, 0), [])
        rest = xb.slice_in_dim(state, 1, size, 1, 0)
        results: list[xb.XlaOp] = []
        for shape in SHAPES:
            results.extend(generator(key, rest, shape))
            results.extend(xb.rng_bit_generator(algorithm, state, shape))
        return results

    results = iter(run(both, start))
    for shape in SHAPES:
        bits, state, xla_state, xla_bits = (next(results) for _ in range(4))
        assert bits.dtype == xla_bits.dtype, shape
        np.testing.assert_array_equal(bits, xla_bits, shape)
        np.testing.assert_array_equal(state, xla_state[1:], shape)


def test_published_vectors() -> None:
    def philox(key: xb.XlaOp, state: xb.XlaOp) -> xb.XlaOp:
        return lib.philox_bit_generator(key, state, xb.u32[4]).value

    for key, counter, expected in PHILOX_VECTORS:
        halves = [u64_of(*counter[:2]), u64_of(*counter[2:])]
        bits = run(philox, np.uint64(u64_of(*key)), np.array(halves, np.uint64))
        assert tuple(bits) == expected
    for key, counter, expected in THREEFRY_VECTORS:
        hashed = run(lambda a, b, c, d: threefry2x32((a, b), c, d), *map(np.uint32, key + counter))
        assert tuple(hashed) == expected


def test_counters() -> None:
    def advanced(counter: xb.XlaOp, delta: xb.XlaOp) -> xb.XlaOp:
        return lib.philox_increase_counter(counter, delta)

    rng = np.random.default_rng(1)
    for _ in range(3):
        low, high, delta = (int(n) for n in rng.integers(2**62, 2**64, 3, np.uint64))
        got = run(advanced, np.array([low, high], np.uint64), np.uint64(delta))
        total = (low + (high << 64) + delta) % 2**128
        assert [int(n) for n in got] == [total % 2**64, total >> 64]


def test_scrambled_keys() -> None:
    """The published algorithm: Philox of the key's words, with a fixed key."""
    key = 0x0123456789ABCDEF
    state, scrambled = run(lambda k: lib.scramble_philox_key(k), np.uint64(key))
    fixed = np.uint64(u64_of(0x3EC8F720, 0x02461E29))
    counter = np.array([key % 2**32, key >> 32], np.uint64)
    bits = run(lambda k, s: lib.philox_bit_generator(k, s, xb.u32[4]).value, fixed, counter)
    assert int(scrambled) == u64_of(int(bits[0]), int(bits[1]))
    assert [int(n) for n in state] == [0, u64_of(int(bits[2]), int(bits[3]))]


def _unit(bits: Any, dtype: Any) -> Any:
    """The published algorithm of uniform numbers, in NumPy."""
    if dtype == np.float16:
        return (bits & 0x3FF).astype(np.float64) / 1024
    digits = np.finfo(dtype).nmant
    shift = bits.dtype.itemsize * 8 - digits
    return (bits >> bits.dtype.type(shift)).astype(np.float64) / 2.0**digits


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", GENERATORS)
def test_distributions(algorithm: str) -> None:
    """Values equal those that NumPy computes from the bits, and pass a Kolmogorov-Smirnov test."""
    generator, _ = GENERATORS[algorithm]
    count = 4999
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64}

    def draw(key: xb.XlaOp, state: xb.XlaOp) -> list[xb.XlaOp]:
        results = []
        for name in kinds:
            zero, one = (key.builder.constant(n, name) for n in (0.0, 1.0))
            low, high = (key.builder.constant(n, name) for n in (-3.0, 5.0))
            shape = xb.array_shape(name, [count])
            uniform = lib.uniform_floating_point_distribution
            results += [
                generator(key, state, shape).value,
                uniform(key, state, generator, zero, one, shape).value,
                uniform(key, state, generator, low, high, shape).value,
                generator(key, state, xb.array_shape(name, [(count + 1) // 2, 2])).value,
                *lib.normal_floating_point_distribution(key, state, generator, shape),
            ]
        return results

    results = iter(run(draw, *inputs(algorithm)))
    for dtype in kinds.values():
        bits, unit, wide, pairs, normal, _ = (next(results) for _ in range(6))
        assert unit.dtype == wide.dtype == normal.dtype == dtype
        expected = _unit(bits, dtype)
        np.testing.assert_array_equal(unit, expected)
        np.testing.assert_array_equal(wide, (expected * 8 - 3).astype(dtype))
        assert scipy.stats.kstest(unit.astype(np.float64), "uniform").pvalue > 0.01
        u, v = _unit(pairs, dtype).T
        radius = np.sqrt(-2 * np.log(np.maximum(u, np.float32(1e-7).astype(dtype))))
        both = radius * np.array([np.sin(2 * np.pi * v), np.cos(2 * np.pi * v)])
        # The angle's rounding error is that of a number up to 2 pi; the radius is less than 6.
        tolerance = 40 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(normal.astype(np.float64), both.T.ravel()[:-1], atol=tolerance)
        assert scipy.stats.kstest(normal.astype(np.float64), "norm").pvalue > 0.01


def test_integers() -> None:
    """The published formula on the bits, for limits of both signs and the whole range."""
    limits = [
        ("s32", -5, 20), ("s32", -(2**31), 2**31 - 1), ("u32", 7, 7), ("u64", 3, 2**64 - 1),
        ("s64", -(2**63), 2**62),
    ]  # fmt: skip

    def draw(key: xb.XlaOp, state: xb.XlaOp) -> list[xb.XlaOp]:
        results = []
        for name, low, high in limits:
            shape = xb.array_shape(name, [100])
            ends = [key.builder.constant(n, name) for n in (low, high)]
            results += [
                lib.three_fry_bit_generator(key, state, shape).value,
                lib.uniform_int_distribution(
                    key, state, lib.three_fry_bit_generator, *ends, shape
                ).value,
            ]
        return results

    results = iter(run(draw, *inputs()))
    for _, low, high in limits:
        bits, numbers = next(results), next(results)
        span = high - low
        expected = [low + (int(n) % span if span else int(n)) for n in bits]
        # A number that leaves the type's range wraps.
        assert all(
            (int(n) - e) % 2 ** (8 * bits.itemsize) == 0
            for n, e in zip(numbers, expected, strict=True)
        )


def test_concat_scalars() -> None:
    vector = run(lambda a, b, c: lib.concat_scalars([a, b, c]), *np.float32([1, 2, 3]))
    np.testing.assert_array_equal(vector, [1, 2, 3])


def test_rounds_are_recorded_once() -> None:
    b = xb.XlaBuilder()
    key, state = b.parameter(xb.u64[()]), b.parameter(xb.u64[1])
    for _ in range(3):
        bits, state = lib.three_fry_bit_generator(key, state, xb.u32[10])
    callees = {op.called_computations for op in b.build(bits).ops if op.opcode == "call"}
    assert len(callees) == 1


def _u64(b: xb.XlaBuilder, *sizes: int) -> xb.XlaOp:
    return b.parameter(xb.array_shape("u64", sizes))


@each_row(
    "call, message",
    [
        (
            lambda b: lib.three_fry_bit_generator(_u64(b, 2), _u64(b, 1), xb.u32[2]),
            "three_fry_bit_generator: key must have shape u64[], got u64[2]",
        ),
        (
            lambda b: lib.scramble_philox_key(lib.random_key(b, 1)),
            "scramble_philox_key: key must have shape u64[], got u32[2]\nfix: make the key with",
        ),
        (
            lambda b: lib.three_fry_bit_generator(_u64(b), _u64(b, 2), xb.u32[2]),
            "three_fry_bit_generator: initial_state must have shape u64[1] or u64[], got u64[2]",
        ),
        (
            lambda b: lib.philox_bit_generator(_u64(b), _u64(b, 2), xb.c64[2]),
            "philox_bit_generator: shape must have an integer or a real floating-point type, got",
        ),
        (
            lambda b: lib.philox_bit_generator(_u64(b), _u64(b, 2), "pred[2]"),
            "philox_bit_generator: shape must have an integer or a real floating-point type, got",
        ),
        (
            lambda b: lib.philox_bit_generator(_u64(b), _u64(b, 2), "f32[<=2]"),
            "philox_bit_generator: shape must have fixed sizes, got f32[<=2]",
        ),
        (
            lambda b: lib.philox_bit_generator(_u64(b), _u64(b, 2), "(f32[2])"),
            "philox_bit_generator: shape must be an array shape, got (f32[2])",
        ),
        (lambda b: lib.philox_bit_generator(3, _u64(b, 2), xb.f32[2]), "philox_bit_generator: key"),
        (
            lambda b: lib.normal_floating_point_distribution(
                _u64(b), _u64(b, 1), lib.three_fry_bit_generator, xb.bf16[2]
            ),
            "normal_floating_point_distribution: the type of shape must be one of f16, f32, f64",
        ),
        (
            lambda b: lib.uniform_floating_point_distribution(
                _u64(b), _u64(b, 1), lib.three_fry_bit_generator, _u64(b), _u64(b), xb.f32[2]
            ),
            "uniform_floating_point_distribution: minval must have shape f32[], got u64[]",
        ),
        (
            lambda b: lib.convert_random_bits_to_uniform_floating_point(
                b.parameter(xb.u16[2]), b.constant(0.0, xb.f32), b.constant(1.0, xb.f32)
            ),
            "convert_random_bits_to_uniform_floating_point: bits must have at least 23 bits for",
        ),
        (
            lambda b: lib.uniform_int_distribution(
                _u64(b), _u64(b, 1), lib.three_fry_bit_generator, _u64(b), _u64(b), xb.s8[2]
            ),
            "uniform_int_distribution: the type of shape must be one of s32, u32, s64, u64",
        ),
        (
            lambda b: lib.normal_floating_point_distribution(
                _u64(b),
                _u64(b, 1),
                "philox",
                xb.f32[2],
            ),
            "normal_floating_point_distribution: uniform_floating_point_distribution: bit_gen",
        ),
        (
            lambda b: lib.uniform_int_distribution(
                _u64(b),
                _u64(b, 1),
                lambda key, state, shape: lib.RngOutput(key, state),
                b.constant(1, xb.s32),
                b.constant(2, xb.s32),
                xb.s32[2],
            ),
            "uniform_int_distribution: bit_generator must return bits of shape u32[2] for s32[2],",
        ),
        (
            lambda b: lib.concat_scalars([_u64(b), _u64(b, 1)]),
            "concat_scalars: each array must be a scalar, got u64[1] (scalar 1)",
        ),
        (lambda b: lib.concat_scalars([]), "concat_scalars: concatenate: "),
        (
            lambda b: lib.box_muller_transform(b.parameter("f32[2]"), b.parameter("f64[2]")),
            "box_muller_transform: x0, x1 must have one element type",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder())
    assert str(caught.value).startswith(message)
