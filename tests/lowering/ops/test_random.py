"""Random numbers executed on CPU: bits are compared with the published algorithms, and numbers are
tested for their distributions."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy
from support import compiled_once, run, same_program, stablehlo_of_text
from tables import each_row, mostly_slow

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType

INTEGERS = [t for t in ALL if t.is_integral]
FLOATS = [t for t in ALL if t.is_floating]
LOW, WORD, LONG = np.uint64(2**32 - 1), np.uint64(32), 2**64

Words = list[np.ndarray]
"""Arrays of 32-bit words stored as 64-bit integers, one array for each word of a block."""


def philox(counter: Words, key: Words) -> Words:
    """Return the Philox 4x32-10 blocks for counters of four words and keys of two."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (second >> WORD) ^ c[1] ^ k[0],
            second & LOW,
            (first >> WORD) ^ c[3] ^ k[1],
            first & LOW,
        ]
        k = [(k[0] + np.uint64(0x9E3779B9)) & LOW, (k[1] + np.uint64(0xBB67AE85)) & LOW]
    return c


def threefry(counter: Words, key: Words) -> Words:
    """Return the Threefry 2x32-20 blocks for counters and keys of two words."""
    keys = [*key, np.uint64(0x1BD11BDA) ^ key[0] ^ key[1]]
    x, y = ((c + k) & LOW for c, k in zip(counter, key, strict=True))
    for number in range(20):
        turn = np.uint64((13, 15, 26, 6, 17, 29, 16, 24)[number % 8])
        x = (x + y) & LOW
        y = (((y << turn) | (y >> (WORD - turn))) & LOW) ^ x
        if number % 4 == 3:
            group = number // 4 + 1
            x = (x + keys[group % 3]) & LOW
            y = (y + keys[(group + 1) % 3] + np.uint64(group)) & LOW
    return [x, y]


def words(*numbers: int) -> Words:
    return [np.array([n], np.uint64) for n in numbers]


# The known answers published with the authors' code.
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
ONES = (2**32 - 1,) * 6


@each_row(
    "numbers, answer",
    [
        ((0,) * 6, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (ONES, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)
def test_known_answers_of_philox(numbers: tuple[int, ...], answer: tuple[int, ...]) -> None:
    actual = philox(words(*numbers[:4]), words(*numbers[4:]))
    assert tuple(int(w[0]) for w in actual) == answer


@each_row(
    "numbers, answer",
    [
        ((0,) * 4, (0x6B200159, 0x99BA4EFE)),
        (ONES[:4], (0x1CB996FC, 0xBB002BE7)),
        (PI[:4], (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers_of_threefry(numbers: tuple[int, ...], answer: tuple[int, ...]) -> None:
    actual = threefry(words(*numbers[:2]), words(*numbers[2:]))
    assert tuple(int(w[0]) for w in actual) == answer


def split(numbers: list[int]) -> Words:
    """Return the low and the high words of 64-bit numbers."""
    array = np.array([n % LONG for n in numbers], np.uint64)
    return [array & LOW, array >> WORD]


def halved(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return the shape of the Threefry blocks, and the dimension along which their words alternate.

    It is the first dimension of even size, or else the largest dimension, padded by one.
    """
    sizes = list(shape) or [1]
    place = next((d for d, n in enumerate(sizes) if n % 2 == 0), sizes.index(max(sizes)))
    sizes[place] = (sizes[place] + 1) // 2
    return tuple(sizes), place


def generated(
    algorithm: str, state: list[int], shape: tuple[int, ...], bits: int
) -> tuple[list[int], np.ndarray]:
    """Return the new state and the bits, as computed by XLA's CPU backend.

    The state is a key and a counter, which is incremented for each block of 32-bit words. A 64-bit
    element is two words, the low one first; narrower elements are the low bits of one word.
    """
    key, counter = state[0], state[1]
    count = int(np.prod(shape))
    if algorithm == "RNG_THREE_FRY":
        blocks, place = halved(shape) if bits < 64 else (shape, 0)
        used = int(np.prod(blocks))
        x, y = threefry(split([counter + i for i in range(used)]), split([key]))
        if bits == 64:
            made = (x | y << WORD).reshape(shape)
        else:
            both = np.stack([x.reshape(blocks), y.reshape(blocks)], place + 1)
            sizes = [2 * n if d == place else n for d, n in enumerate(blocks)]
            made = both.reshape(sizes)[tuple(slice(n) for n in shape or (1,))].reshape(shape)
        after = [key, (counter + used) % LONG]
    else:
        # A state without the high half of the counter uses the key in its place.
        counter += (state[2] if len(state) == 3 else key) * LONG
        used = -(-count * (2 if bits == 64 else 1) // 4)
        values = [counter + i for i in range(used)]
        counters = [*split(values), *split([v // LONG for v in values])]
        flat = np.stack(philox(counters, split([key])), -1).reshape(-1)
        if bits == 64:
            flat = flat[::2] | flat[1::2] << WORD
        made = flat[:count].reshape(shape)
        after = [key, (counter + used) % LONG, (counter + used) // LONG % LONG][: len(state)]
    mask = np.uint64(2**bits - 1)
    return after, made & mask


STATES = {
    2: [[1, 2], [2**64 - 1, 2**64 - 2], [0, 2**32 - 1], [0, 0]],
    3: [[1, 2, 3], [5, 2**64 - 1, 7], [5, 2**64 - 1, 2**64 - 1]],
}
SHAPES: list[tuple[int, ...]] = [(), (7,), (2, 4), (3, 5), (5, 3), (3, 4, 5), (0, 3), (5000,)]
# Element types; all types of a width have the same bits as unsigned integers.
WIDTHS = [xb.u2, xb.s4, xb.f8e4m3fn, xb.bf16, xb.f64]


@pytest.mark.parametrize(
    ("algorithm", "length"),
    [
        ("RNG_THREE_FRY", 2),
        ("RNG_PHILOX", 2),
        ("RNG_PHILOX", 3),
        ("RNG_DEFAULT", 2),
        ("RNG_DEFAULT", 3),
    ],
)
def test_bits_agree_with_the_algorithm(algorithm: str, length: int) -> None:
    b = xb.XlaBuilder("bits")
    state = b.parameter(xb.u64[length])
    # The default algorithm is one of the others, and the high half of the counter makes no
    # difference for a shape, so a few shapes suffice.
    is_other = algorithm != "RNG_DEFAULT" and length == 2
    shapes, types = (SHAPES, WIDTHS) if is_other else (SHAPES[1:3], [xb.f64])
    asked = [*((s, xb.u32) for s in shapes), *(((4, 3), t) for t in types)]
    results = [xb.rng_bit_generator(algorithm, state, xb.array_shape(t, s)) for s, t in asked]
    computation = b.build(xb.tuple(*results))
    with compiled_once():
        executable = lowering.compile(computation)
        # Only the first is also run from HLO text, as the program is the same.
        by_both = run(computation, np.array(STATES[length][0], np.uint64))
    for number, before in enumerate(STATES[length]):
        got = executable(np.array(before, np.uint64)) if number else by_both
        for (shape, t), (after, made) in zip(asked, got, strict=True):
            want_after, want = generated(algorithm, before, shape, t.bits)
            assert np.asarray(after).tolist() == want_after
            assert made.dtype == f"uint{t.bits}"
            assert made.shape == shape
            assert np.array_equal(np.asarray(made).astype(np.uint64), want)


def test_the_new_state_continues_the_sequence() -> None:
    b = xb.XlaBuilder("on")
    state = b.parameter(xb.u64[3])
    after, first = xb.rng_bit_generator("RNG_PHILOX", state, xb.u32[8])
    _, second = xb.rng_bit_generator("RNG_PHILOX", after, xb.u32[8])
    _, both = xb.rng_bit_generator("RNG_PHILOX", state, xb.u32[16])
    got = run(b.build(xb.tuple(first, second, both)), np.array([7, 8, 9], np.uint64))
    assert np.array_equal(np.concatenate(got[:2]), got[2])


@each_row(
    "algorithm, shape",
    [
        ("RNG_PHILOX", xb.u32[4]),
        ("RNG_DEFAULT", xb.u64[1]),
        ("RNG_PHILOX", xb.u64[2, 1]),
        ("RNG_THREE_FRY", xb.u64[()]),
        ("RNG_THREE_FRY", xb.u64[3]),
        ("RNG_THREE_FRY", xb.u8[2]),
    ],
)
def test_other_state_shapes_are_lowered_and_not_run(algorithm: str, shape: xb.ArrayShape) -> None:
    b = xb.XlaBuilder("states")
    computation = b.build(xb.rng_bit_generator(algorithm, b.parameter(shape), xb.u32[2]))
    assert "stablehlo.rng_bit_generator" in lowering.lower(computation).text
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(computation)
    assert "can't run on cpu: XLA requires a state of u64[2] for RNG_THREE_FRY," in str(
        caught.value
    )
    assert "fix: pass a state of one of these shapes; xb.bitcast_convert_type converts" in str(
        caught.value
    )


def test_a_state_converted_from_32_bit_words() -> None:
    """The fix that the error message suggests."""
    b = xb.XlaBuilder("words")
    state = xb.bitcast_convert_type(b.parameter(xb.u32[2, 2]), xb.u64)
    root = xb.rng_bit_generator("RNG_THREE_FRY", state, xb.u32[3])
    after, made = run(b.build(root), np.array([[1, 0], [2, 0]], np.uint32))
    want_after, want = generated("RNG_THREE_FRY", [1, 2], (3,), 32)
    assert after.tolist() == want_after
    assert made.tolist() == want.tolist()


COUNT = 20_000
LEAST = 1e-9
"""The least accepted p-value: a correct distribution fails once in 10**9 runs."""


@cache
def sampler(kind: str, types: tuple[PrimitiveType, ...]) -> Any:
    """Return a program that draws COUNT numbers of each type.

    The arguments are two bounds, or a mean and a deviation, of each type.
    """
    b = xb.XlaBuilder(kind)
    results = []
    for t in types:
        scalars = [b.parameter(xb.array_shape(t, ())) for _ in range(2)]
        results.append(getattr(xb, kind)(*scalars, xb.array_shape(t, (COUNT // 100, 100))))
    computation = b.build(xb.tuple(*results))
    module = lowering.lower(computation)
    assert same_program(module.bytecode, stablehlo_of_text(computation))
    return lowering.compile(module, "cpu")


def draw(kind: str, cases: list[tuple[PrimitiveType, Any, Any]]) -> list[np.ndarray]:
    """Draw COUNT numbers for each case of two bounds, or of a mean and a deviation.

    The cases are of different types. All types of their kind are drawn, the others from 1 to 1.
    """
    types = tuple(FLOATS if cases[0][0].is_floating else [xb.pred, *INTEGERS])
    given = {t: numbers for t, *numbers in cases}
    arguments = [np.array(v).astype(t.dtype) for t in types for v in given.get(t, (1, 1))]
    got = dict(zip(types, map(np.asarray, sampler(kind, types)(*arguments)), strict=True))
    assert all(array.dtype == t.dtype for t, array in got.items())
    return [got[t].reshape(-1) for t, *_ in cases]


@each_row(
    "cases",
    [
        [(t, t.min, t.max) for t in INTEGERS],
        [(t, max(t.min, -3), min(t.max, 5)) for t in INTEGERS],
        [(xb.s8, 0, 1), (xb.u64, 0, 1)],
    ],
)
def test_uniform_integers(cases: list[tuple[PrimitiveType, Any, Any]]) -> None:
    for got, (t, low, high) in zip(draw("rng_uniform", cases), cases, strict=True):
        numbers = got.astype(object) if t.bits == 64 else got.astype(np.int64)
        assert min(numbers) >= low
        assert max(numbers) < high
        # At most 16 classes of nearly equal size.
        size = high - low
        classes = min(size, 16)
        edges = [low + size * i // classes for i in range(classes + 1)]
        at = np.searchsorted(np.array(edges[1:], object), numbers, side="right")
        expected = [COUNT * (b - a) / size for a, b in itertools.pairwise(edges)]
        actual = np.bincount(at, minlength=classes)
        if classes > 1:
            assert scipy.stats.chisquare(actual, expected).pvalue > LEAST, t
        else:
            assert (numbers == low).all()


def test_uniform_preds() -> None:
    """The range from false to true excludes true. An empty range is unspecified."""
    (got,) = draw("rng_uniform", [(xb.pred, False, True)])
    assert not got.any()


ENDS = [(0, 1), (-3, 5), (-1, 0), (1000, 1001), (-3e38, 3e38)]


@each_row("low, high", ENDS)
def test_uniform_floats(low: float, high: float) -> None:
    cases = []
    for t in FLOATS:
        if t is xb.f8e8m0fnu or low < t.min or high > t.max:
            continue
        ends = np.array([low, high]).astype(t.dtype).astype(np.float64)
        if ends[0] < ends[1]:
            cases.append((t, *ends))
    assert len(cases) >= 2
    for got, (t, first, last) in zip(draw("rng_uniform", cases), cases, strict=True):
        numbers = got.astype(np.float64)
        assert (numbers >= first).all()
        # About 40 numbers of bf16 would be 1 if f32 numbers from 0 to 1 were only rounded.
        assert (numbers < last).all()
        if t in (xb.f32, xb.f64):
            uniform = scipy.stats.uniform(first, last - first)
            if np.isfinite(last - first):
                assert scipy.stats.kstest(numbers, uniform.cdf).pvalue > LEAST
        if (last - first) / max(abs(first), abs(last)) >= 1 and t.bits >= 8:
            # Rounding moves the mean by less than a step.
            middle, step = (first + last) / 2, (last - first) * 2.0 ** -{8: 4}.get(t.bits, 8)
            assert abs(numbers.mean() - middle) < (last - first) * 0.02 + step


def test_uniform_powers_of_two() -> None:
    (got,) = draw("rng_uniform", [(xb.f8e8m0fnu, 1, 8)])
    actual, counts = np.unique(got.astype(np.float64), return_counts=True)
    assert actual.tolist() == [1, 2, 4]
    assert (counts > COUNT / 20).all()


def test_equal_ends() -> None:
    cases = [(t, 1, 1) for t in FLOATS]
    for got in draw("rng_uniform", cases):
        assert (got.astype(np.float64) == 1).all()


@each_row("mean, deviation", [(0, 1), (2, 0.5)])
def test_normal(mean: float, deviation: float) -> None:
    cases = [(t, mean, deviation) for t in FLOATS if t is not xb.f8e8m0fnu]
    for got, (t, *_) in zip(draw("rng_normal", cases), cases, strict=True):
        numbers = got.astype(np.float64)
        # Six standard deviations of the mean, and the rounding error.
        assert abs(numbers.mean() - mean) < 6 * deviation / np.sqrt(COUNT) + 0.02
        assert abs(numbers.std() - deviation) < 0.03 + (t.bits < 8) * 0.1
        if t.bits >= 32:
            distribution = scipy.stats.norm(mean, deviation)
            assert scipy.stats.kstest(numbers, distribution.cdf).pvalue > LEAST


@pytest.mark.parametrize("shape", mostly_slow([(), (0,), (3, 0), (2, 3, 4), (300, 1000)], 2))
def test_shapes(shape: tuple[int, ...]) -> None:
    b = xb.XlaBuilder("shapes")
    one = b.parameter(xb.f32[()])
    results = [
        xb.rng_uniform(0.0, one, xb.array_shape(xb.f32, shape)),
        xb.rng_normal(0.0, one, xb.array_shape(xb.f32, shape)),
        xb.rng_uniform(0, b.constant(10, xb.s8), xb.array_shape(xb.s8, shape)),
    ]
    got = run(b.build(xb.tuple(*results)), np.float32(1))
    assert [r.shape for r in got] == [shape] * 3
    if np.prod(shape) > 1:
        # Rows are not repeated.
        assert len(np.unique(got[0])) > got[0].size * 0.9


def test_numbers_differ_between_calls() -> None:
    b = xb.XlaBuilder("again")
    one = b.parameter(xb.f32[()])
    both = [xb.rng_normal(0.0, one, xb.f32[100]) for _ in range(2)]
    executable = lowering.compile(b.build(xb.tuple(*both)))
    first, second = executable(np.float32(1)), executable(np.float32(1))
    drawn = [np.asarray(r).tobytes() for r in (*first, *second)]
    assert len(set(drawn)) == 4


@pytest.mark.parametrize("element_type", ["i1", "i4", "ui8", "i16", "f8E5M2"])
def test_types_that_crash_xla_in_loaded_modules(element_type: str) -> None:
    """Modules that other programs wrote are rewritten too."""
    tensor = f"tensor<5x{element_type}>"
    module = lowering.load_bytes(
        f"""
        func.func @main(%a: tensor<{element_type}>, %b: tensor<{element_type}>) -> {tensor} {{
          %shape = stablehlo.constant dense<5> : tensor<1xi64>
          %0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM
            : (tensor<{element_type}>, tensor<{element_type}>, tensor<1xi64>) -> {tensor}
          return %0 : {tensor}
        }}""".encode()
    )
    dtype = module.program_shape.result.element_type.dtype
    got = np.asarray(lowering.compile(module)(np.array(0).astype(dtype), np.array(1).astype(dtype)))
    assert (got.astype(np.float64) < 1).all()
    assert (got.astype(np.float64) >= 0).all()
