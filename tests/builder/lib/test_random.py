"""builder.lib.random, compared with jax.random, and with distributions of SciPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy
from library_calls import run
from tables import each_row

import builder as xb
import lowering
from builder import lib
from builder.lib.prng import threefry2x32

# Integers, and functions that jax compiles with the same option.

KEY = np.array([7, 42], np.uint32)
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
SIZES = (701, 3)


def in_jax(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return the result of `function` of a key, and of arrays, with 64-bit types."""
    with jax.enable_x64(True):
        return jax.device_get(jax.jit(function)(jax.random.wrap_key_data(KEY), *arrays))


def in_rewritten_jax(function: Callable[..., Any]) -> Any:
    """Return what `in_jax` returns, with this library's rewrites for defects of XLA.

    With jaxlib 0.10, XLA computes log1p of f64 with errors of 127 ulps.
    """
    with jax.enable_x64(True):
        program = lowering.from_jax(lambda key: function(jax.random.wrap_key_data(key)), KEY)
    return jax.tree_util.tree_map(np.asarray, lowering.compile(program)(KEY))


def assert_same(got: Any, expected: Any, ulps: float = 0, least: float = 0) -> None:
    """Check types, sizes and values, these within ulps of the larger one of them and `least`."""
    assert len(got) == len(expected)
    for index, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), index
        if ulps:
            wide = b.astype(np.float64)
            error = np.abs(a.astype(np.float64) - wide)
            unit = float(ml_dtypes.finfo(b.dtype).eps) * np.maximum(np.abs(wide), least)
            assert (error <= ulps * unit).all(), index
        else:
            np.testing.assert_array_equal(a, b, str(index))


def test_keys() -> None:
    def draw(key: xb.XlaOp, step: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            *lib.split_key(key),
            *lib.split_key(key, 3),
            lib.key_array(key, []),
            lib.key_array(key, [2, 3]),
            lib.key_array(key, [0]),
            lib.fold_in(key, 0),
            lib.fold_in(key, 2**32 - 1),
            lib.fold_in(key, step),
        ]

    def draw_in_jax(key: Any, step: Any) -> Any:
        keys = [
            *jax.random.split(key),
            *jax.random.split(key, 3),
            jax.random.split(key, ()),
            jax.random.split(key, (2, 3)),
            jax.random.split(key, 0),
            jax.random.fold_in(key, 0),
            jax.random.fold_in(key, 2**32 - 1),
            jax.random.fold_in(key, step),
        ]
        return [jax.random.key_data(each) for each in keys]

    step = np.int32(12345)
    assert_same(run(draw, KEY, step), in_jax(draw_in_jax, step))


def test_keys_of_seeds() -> None:
    seeds = [0, 42, 2**31, 2**32 - 1, 2**32 + 5, 2**64 - 1]
    ops = [np.uint64(2**40 + 3), np.int64(-1), np.int32(-1), np.uint8(200), np.int32(5)]

    def draw(*values: xb.XlaOp) -> list[xb.XlaOp]:
        builder = values[0].builder
        return [lib.random_key(builder, seed) for seed in (*seeds, *values)]

    with jax.enable_x64(True):
        expected = [np.asarray(jax.random.PRNGKey(np.uint64(seed))) for seed in seeds]
        expected += [np.asarray(jax.random.PRNGKey(jnp.asarray(value))) for value in ops]
    assert_same(run(draw, *ops), expected)


def test_bits() -> None:
    """Of all widths, sizes and ranks."""
    cases = [(bits, sizes) for bits in (8, 16, 32, 64) for sizes in ((), (3, 1, 4))]
    got = run(
        lambda key: [lib.random_bits(key, xb.array_shape(f"u{n}", sizes)) for n, sizes in cases],
        KEY,
    )
    expected = in_jax(lambda key: [jax.random.bits(key, sizes, f"uint{n}") for n, sizes in cases])
    assert_same(got, expected)


def test_more_than_2_32_elements() -> None:
    """The elements' numbers have 64 bits; XLA computes only the elements that are used."""
    row = 2**31 + 4

    def last(key: xb.XlaOp) -> xb.XlaOp:
        bits = lib.random_bits(key, xb.array_shape("u8", [2, row]))
        return xb.slice(bits, [1, row - 4], [2, row], [1, 1])

    def hashed(*words: xb.XlaOp) -> xb.XlaOp:
        return xb.xor(*threefry2x32((words[0], words[1]), words[2], words[3]))

    numbers = np.arange(4, 8, dtype=np.uint32)
    expected = run(hashed, KEY[0], KEY[1], np.ones(4, np.uint32), numbers)
    np.testing.assert_array_equal(run(last, KEY)[0], expected.astype(np.uint8))


def _continuous(name: str) -> dict[str, tuple[Any, Any, Any]]:
    """Draws of this library and of jax, and the distribution."""
    shape, dtype = xb.array_shape(name, SIZES), DTYPES[name]
    r = jax.random
    normal = scipy.stats.norm
    return {
        "uniform": (
            lambda k: lib.uniform(k, shape),
            lambda k: r.uniform(k, SIZES, dtype),
            scipy.stats.uniform,
        ),
        "uniform of limits": (
            lambda k: lib.uniform(k, shape, -3, 7.3),
            lambda k: r.uniform(k, SIZES, dtype, -3, 7.3),
            scipy.stats.uniform(-3, 10.3),
        ),
        "uniform of ops": (
            lambda k: lib.uniform(
                k,
                shape,
                k.builder.constant(1.0, name),
                xb.broadcast(k.builder.constant(2.5, name), SIZES),
            ),
            lambda k: r.uniform(k, SIZES, dtype, 1, 2.5),
            scipy.stats.uniform(1, 1.5),
        ),
        "normal": (lambda k: lib.normal(k, shape), lambda k: r.normal(k, SIZES, dtype), normal),
        "truncated normal": (
            lambda k: lib.truncated_normal(k, -2, 1.5, shape),
            lambda k: r.truncated_normal(k, -2, 1.5, SIZES, dtype),
            scipy.stats.truncnorm(-2, 1.5),
        ),
        "exponential": (
            lambda k: lib.exponential(k, shape),
            lambda k: r.exponential(k, SIZES, dtype),
            scipy.stats.expon,
        ),
        "gumbel": (
            lambda k: lib.gumbel(k, shape),
            lambda k: r.gumbel(k, SIZES, dtype),
            scipy.stats.gumbel_r,
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", DTYPES)
def test_continuous_distributions(name: str) -> None:
    """Uniform numbers equal those of jax; others are near them, since versions of XLA differ.

    The limits of truncated numbers are rounded to the last digit of a number near 1, and the
    density is not less than 1/20 between them. All pass a Kolmogorov-Smirnov test.
    """
    cases = _continuous(name)
    got = run(lambda k: [mine(k) for mine, _, _ in cases.values()], KEY)
    in_reference = in_rewritten_jax if name == "f64" else in_jax
    expected = in_reference(lambda k: [theirs(k) for _, theirs, _ in cases.values()])
    assert_same(got[:3], expected[:3])
    assert_same(got[3:4], expected[3:4], ulps=2)
    assert_same(got[4:5], expected[4:5], ulps=20, least=1)
    assert_same(got[5:], expected[5:], ulps=2)
    for numbers, (_, _, distribution) in zip(got, cases.values(), strict=True):
        sample = numbers.astype(np.float64).ravel()
        assert scipy.stats.kstest(sample, distribution.cdf).pvalue > 0.001
    truncated = got[4].astype(np.float64)
    assert truncated.min() > -2
    assert truncated.max() < 1.5


def test_complex_normal() -> None:
    shapes = [xb.c64[SIZES], xb.c128[SIZES]]
    got = run(lambda k: [lib.normal(k, shape) for shape in shapes], KEY)
    expected = in_rewritten_jax(
        lambda k: [jax.random.normal(k, SIZES, f"complex{n}") for n in (64, 128)]
    )
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=4 * np.finfo(a.dtype).eps)
        assert scipy.stats.kstest(a.real.ravel() * np.sqrt(2), "norm").pvalue > 0.001
        assert abs(np.corrcoef(a.real.ravel(), a.imag.ravel())[0, 1]) < 0.1


def test_truncated_normal_of_ops() -> None:
    """Limits at run time, also those far out, where results are next to the limit."""
    lower = np.array([-1, -np.inf, 0, 5], np.float32)
    upper = np.array([1, 0, np.inf, 6], np.float32)

    def draw(k: xb.XlaOp, low: xb.XlaOp, high: xb.XlaOp) -> xb.XlaOp:
        return lib.truncated_normal(
            k, *[xb.broadcast(end, [100]) for end in (low, high)], xb.f32[100, 4]
        )

    def draw_in_jax(k: Any, low: Any, high: Any) -> Any:
        return [jax.random.truncated_normal(k, low, high, (100, 4), np.float32)]

    expected = in_jax(draw_in_jax, lower, upper)
    assert_same([run(draw, KEY, lower, upper)], expected, ulps=20, least=1)


def test_bernoulli() -> None:
    p = np.linspace(0, 1, 5).astype(np.float32)

    def draw(k: xb.XlaOp, p: xb.XlaOp) -> list[xb.XlaOp]:
        half = k.builder.constant(0.7, xb.f16)
        return [
            lib.bernoulli(k),
            lib.bernoulli(k, 0.3, "pred[2000]"),
            lib.bernoulli(k, 0, "pred[50]"),
            lib.bernoulli(k, 1, "pred[50]"),
            lib.bernoulli(k, half, "pred[100]"),
            lib.bernoulli(k, p),
            lib.bernoulli(k, xb.broadcast(p, [100])),
        ]

    def draw_in_jax(k: Any, p: Any) -> Any:
        return [
            jax.random.bernoulli(k, np.float32(0.5)),
            jax.random.bernoulli(k, np.float32(0.3), (2000,)),
            jnp.zeros(50, bool),
            jnp.ones(50, bool),
            jax.random.bernoulli(k, np.float16(0.7), (100,)),
            jax.random.bernoulli(k, p),
            jax.random.bernoulli(k, jnp.tile(p, (100, 1))),
        ]

    got = run(draw, KEY, p)
    assert_same(got, in_jax(draw_in_jax, p))
    assert scipy.stats.binomtest(int(got[1].sum()), 2000, 0.3).pvalue > 0.001


INTEGERS = (
    ("s32", -5, 20), ("s32", -(2**31), 2**31), ("s32", 0, 2**31 - 1), ("s32", 0, 64),
    ("u32", 3, 2**32), ("s8", -128, 128), ("u8", 0, 256), ("u16", 5, 60000), ("s16", 0, 1),
    ("s64", -(2**62), 2**62 + 5), ("s64", -(2**63), 2**63 - 1), ("u64", 0, 1000003),
    ("s4", -8, 8), ("u4", 0, 11), ("s2", -2, 2),
)  # fmt: skip
OF_OPS = ("u32", "s8", "s64")


@pytest.mark.slow
def test_integers() -> None:
    """Of all types with the limits as numbers; of some with one or both as ops."""

    def draw(k: xb.XlaOp) -> list[xb.XlaOp]:
        results = []
        for name, low, high in INTEGERS:
            shape, kind = xb.array_shape(name, [100]), xb.as_primitive_type(name)
            results.append(lib.randint(k, shape, low, high))
            if name in OF_OPS:
                start, end = (k.builder.constant(min(n, kind.max), name) for n in (low, high))
                results.append(lib.randint(k, shape, start, high))
                results.append(lib.randint(k, shape, low, xb.broadcast(end, [100])))
        return results

    def draw_in_jax(k: Any) -> Any:
        results = []
        for name, low, high in INTEGERS:
            kind = xb.as_primitive_type(name)
            last = min(high, kind.max)
            # In jax, Python numbers are s64.
            beyond = high if high < 2**63 else jnp.asarray(high, "uint64")
            for end in (beyond, beyond, last) if name in OF_OPS else (beyond,):
                results.append(jax.random.randint(k, (100,), low, end, kind.dtype))
        return results

    assert_same(run(draw, KEY), in_jax(draw_in_jax))


def test_integers_are_uniform_and_empty_ranges_give_the_minimum() -> None:
    def draw(k: xb.XlaOp) -> list[xb.XlaOp]:
        five = k.builder.constant(5, xb.s32)
        return [
            lib.randint(k, xb.s32[6000], 1, 7),
            lib.randint(k, xb.u8[6000], 1, 7),
            lib.randint(k, xb.s32[4], five, 3),
            lib.randint(k, xb.s32[4], 5, five),
            lib.randint(k, xb.u64[()], 0, 2**64),
            lib.randint(k, xb.s32[3, 0], 0, 5),
        ]

    dice, small, below, none, scalar, empty = run(draw, KEY)
    for numbers in (dice, small):
        assert scipy.stats.chisquare(np.bincount(numbers, minlength=7)[1:]).pvalue > 0.001
    assert list(below) == list(none) == [5] * 4
    assert (scalar.shape, empty.shape) == ((), (3, 0))


def test_categorical() -> None:
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 2, (4, 6)).astype(np.float32)
    logits[1, 2] = -np.inf
    logits[2, 3] = np.nan

    def draw(k: xb.XlaOp, logits: xb.XlaOp) -> list[xb.XlaOp]:
        half = xb.convert_element_type(logits, xb.f16)
        return [
            lib.categorical(k, logits),
            lib.categorical(k, logits, 0),
            lib.categorical(k, logits, shape=xb.s32[1000, 4]),
            lib.categorical(k, logits, -2, xb.s32[10, 3, 6]),
            lib.categorical(k, half),
            lib.categorical(k, logits, shape=xb.u8[0, 4]),
        ]

    def draw_in_jax(k: Any, logits: Any) -> Any:
        r = jax.random
        results = [
            r.categorical(k, logits),
            r.categorical(k, logits, 0),
            r.categorical(k, logits, shape=(1000, 4)),
            r.categorical(k, logits, -2, (10, 3, 6)),
            r.categorical(k, logits.astype(np.float16)),
        ]
        return [*[each.astype(np.int32) for each in results], jnp.zeros((0, 4), np.uint8)]

    got = run(draw, KEY, logits)
    assert_same(got, in_jax(draw_in_jax, logits))
    for row in (0, 1, 3):
        probabilities = scipy.special.softmax(logits[row].astype(np.float64))
        counts = np.bincount(got[2][:, row], minlength=6)
        possible = probabilities > 0
        assert not counts[~possible].any()
        expected = probabilities[possible] * 1000
        assert scipy.stats.chisquare(counts[possible], expected).pvalue > 0.001


def test_permutation() -> None:
    x = np.arange(4 * 6 * 2, dtype=np.float32).reshape(4, 6, 2)

    def draw(k: xb.XlaOp, x: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.permutation(k, 1000),
            lib.permutation(k, 1),
            lib.permutation(k, 0),
            lib.permutation(k, x),
            lib.permutation(k, x, -2),
            lib.permutation(k, x, 1, independent=True),
            lib.permutation(k, xb.slice_in_dim(x, 0, 0, 1, 0)),
            lib.permutation(k, xb.collapse(x, [0, 1, 2])),
        ]

    def draw_in_jax(k: Any, x: Any) -> Any:
        p = jax.random.permutation
        counts = [p(k, np.arange(n, dtype=np.int32)) for n in (1000, 1, 0)]
        return [*counts, p(k, x), p(k, x, 1), p(k, x, 1, True), x[:0], p(k, x.ravel())]

    assert_same(run(draw, KEY, x), in_jax(draw_in_jax, x))


def test_permutations_are_uniform() -> None:
    """Each number is equally often in each position."""
    count = 3000
    rows = np.tile(np.arange(5, dtype=np.int32), (count, 1))
    shuffled = run(lambda k, x: lib.permutation(k, x, 1, True), KEY, rows)
    assert (np.sort(shuffled, 1) == rows).all()
    for position in range(5):
        assert scipy.stats.chisquare(np.bincount(shuffled[:, position])).pvalue > 0.001


def test_empty_arrays_and_scalars() -> None:
    functions = [lib.uniform, lib.normal, lib.exponential, lib.gumbel]
    shapes = [xb.f32[()], xb.f32[0], xb.bf16[3, 0, 2], xb.f64[1, 1]]
    got = run(lambda k: [f(k, shape) for f in functions for shape in shapes], KEY)
    expected = [shape.dimensions for _ in functions for shape in shapes]
    assert [numbers.shape for numbers in got] == expected


@each_row("derive", [lambda key: lib.fold_in(key, 7), lambda key: lib.split_key(key)[0]])
def test_a_derived_key_is_computed_once(derive: Callable[[xb.XlaOp], xb.XlaOp]) -> None:
    """XLA would fuse it with the numbers, and compute it again for each of them."""
    b = xb.XlaBuilder()
    key = derive(b.parameter(xb.u32[2], "key"))
    module = lowering.compile(b.build(lib.normal(key, xb.f32[1000, 1000]))).hlo_text()
    (drawing,) = re.findall(r"\[1000,1000\]\S* fusion\((.*?)\)", module)
    assert "%key" not in drawing


def test_rounds_are_recorded_once() -> None:
    b = xb.XlaBuilder()
    key = b.parameter(xb.u32[2])
    numbers = [lib.normal(each, xb.f32[100]) for each in lib.split_key(key, 20)]
    calls = [op for op in b.build(xb.tuple(*numbers)).ops if op.opcode == "call"]
    assert len(calls) == 21
    assert len({op.called_computations for op in calls}) == 2  # of 20 and of 100 elements


def _with_key(call: Callable[[xb.XlaOp], Any]) -> Callable[[xb.XlaBuilder], Any]:
    return lambda b: call(b.parameter(xb.u32[2]))


MAKE = "\nfix: make a key with lib.random_key(builder, seed)"


@each_row(
    "call, message",
    [
        (
            lambda b: lib.uniform(np.array([0, 1], np.uint32), xb.f32[2]),
            "uniform: key must be an op of shape u32[2], got ndarray: array([0, 1], dtype=uint32)"
            + MAKE,
        ),
        (
            lambda b: lib.normal(42, xb.f32[2]),
            "normal: key must be an op of shape u32[2], got int: 42" + MAKE,
        ),
        (
            lambda b: lib.fold_in(b.parameter(xb.u64[()]), 1),
            "fold_in: key must be an op of shape u32[2], got u64[]" + MAKE,
        ),
        (
            lambda b: lib.split_key(lib.key_array(b.parameter(xb.u32[2]), [3])),
            "split_key: key must be an op of shape u32[2], got u32[3,2]\nfix: take one key",
        ),
        (_with_key(lambda k: lib.split_key(k, 0)), "split_key: num must be from 1 to 65536, got 0"),
        (
            _with_key(lambda k: lib.split_key(k, 10**12)),
            (
                "split_key: num must be from 1 to 65536, got 1000000000000\n"
                "fix: use lib.key_array(key, [1000000000000])"
            ),
        ),
        (
            _with_key(lambda k: lib.normal(k, xb.s32[2])),
            (
                "normal: the type of shape must be f16, bf16, f32, f64, c64 or c128, got s32[2]\n"
                "fix: use lib.randint for integers"
            ),
        ),
        (
            _with_key(lambda k: lib.uniform(k, xb.f32[2], 1, 0)),
            (
                "uniform: minval must not be greater than maxval, got minval=1 and maxval=0\n"
                "fix: exchange minval and maxval"
            ),
        ),
        (_with_key(lambda k: lib.split_key(k, 2.0)), "split_key: num must be an integer"),
        (_with_key(lambda k: lib.key_array(k, [-1])), "key_array: "),
        (
            _with_key(lambda k: lib.fold_in(k, -1)),
            "fold_in: data must be an integer from 0 to 4294967295, got -1",
        ),
        (
            _with_key(lambda k: lib.fold_in(k, k)),
            "fold_in: data must be a scalar of an integer type, got u32[2]",
        ),
        (
            _with_key(lambda k: lib.fold_in(k, k.builder.constant(1, xb.s64))),
            "fold_in: data must have at most 32 bits, got s64[]",
        ),
        (
            lambda b: lib.random_key(b, -1),
            "random_key: seed must be an integer from 0 to 18446744073709551615, got -1",
        ),
        (lambda b: lib.random_key(b, True), "random_key: seed must be an integer from 0 to"),
        (
            _with_key(lambda k: lib.random_bits(k, xb.s32[2])),
            "random_bits: the type of shape must be u8, u16, u32 or u64, got s32[2]\nfix: use u64",
        ),
        (
            _with_key(lambda k: lib.random_bits(k, xb.f32[2])),
            "random_bits: the type of shape must be u8, u16, u32 or u64, got f32[2]\nfix: use lib",
        ),
        (
            _with_key(lambda k: lib.uniform(k, (2, 3))),
            "uniform: shape: expected a shape such as f32[2, 3]",
        ),
        (
            _with_key(lambda k: lib.uniform(k, "f8e5m2[2]")),
            "uniform: the type of shape must be f16, bf16, f32 or f64, got f8e5m2[2]\nfix: use f32",
        ),
        (
            _with_key(lambda k: lib.uniform(k, "f32[<=2]")),
            "uniform: shape must have fixed sizes, got f32[<=2]",
        ),
        (
            _with_key(lambda k: lib.uniform(k, xb.f32[2], 2, 1)),
            "uniform: minval must not be greater than maxval, got minval=2 and maxval=1",
        ),
        (
            _with_key(lambda k: lib.uniform(k, xb.f16[2], -6e4, 6e4)),
            "uniform: maxval - minval must be a finite number in f16, got minval=-60000.0 and",
        ),
        (
            _with_key(lambda k: lib.uniform(k, xb.f32[2], float("nan"))),
            "uniform: maxval - minval must be a finite number in f32, got minval=nan and maxval=1",
        ),
        (
            _with_key(lambda k: lib.uniform(k, xb.f32[2], k)),
            "uniform: minval must be of type f32, got u32[2]",
        ),
        (
            _with_key(lambda k: lib.uniform(k, xb.u32[2])),
            "uniform: the type of shape must be f16, bf16, f32 or f64, got u32[2]",
        ),
        (
            _with_key(lambda k: lib.randint(k, xb.u32[3], k, 5)),
            "randint: minval must be a scalar or of sizes [3], got u32[2]\nfix: broadcast it",
        ),
        (
            _with_key(lambda k: lib.randint(k, xb.s8[3], 0, 129)),
            "randint: maxval must be an integer from -127 to 128, got 129",
        ),
        (
            _with_key(lambda k: lib.randint(k, xb.s8[3], 0.5, 3)),
            "randint: minval must be an integer from -128 to 127, got 0.5",
        ),
        (
            _with_key(lambda k: lib.randint(k, xb.s8[3], 3, 3)),
            "randint: minval must be less than maxval, got 3 and 3",
        ),
        (
            _with_key(lambda k: lib.randint(k, xb.f32[3], 0, 3)),
            "randint: shape must be of an integer type, got f32[3]\nfix: use lib.uniform",
        ),
        (_with_key(lambda k: lib.bernoulli(k, 1.5)), "bernoulli: p must be from 0 to 1, got 1.5"),
        (
            _with_key(lambda k: lib.bernoulli(k, 0.5, xb.f32[2])),
            "bernoulli: the type of shape must be pred, got f32[2]\nfix: use pred, and convert",
        ),
        (_with_key(lambda k: lib.bernoulli(k, k)), "bernoulli: p must be of floating-point type"),
        (
            _with_key(lambda k: lib.truncated_normal(k, 1, 1, xb.f32[2])),
            "truncated_normal: lower must be less than upper, got 1 and 1",
        ),
        (
            _with_key(lambda k: lib.truncated_normal(k, 6, 7, xb.f32[2])),
            "truncated_normal: too few numbers of f32 are between 6 and 7 for the algorithm\nfix: ",
        ),
        (
            _with_key(lambda k: lib.categorical(k, k)),
            "categorical: logits must be of floating-point type, got u32[2]",
        ),
        (
            _with_key(
                lambda k: lib.categorical(k, lib.uniform(k, xb.f32[4, 5]), shape=xb.s32[3, 5])
            ),
            "categorical: the last sizes of shape must be [4], got s32[3,5]",
        ),
        (
            _with_key(lambda k: lib.categorical(k, lib.uniform(k, xb.f32[200]), shape=xb.s8[3])),
            "categorical: the type of shape must represent all indices of dimension 0 of f32[200]",
        ),
        (
            _with_key(lambda k: lib.categorical(k, lib.uniform(k, xb.f32[2, 0]))),
            "categorical: dimension 1 of logits must not be empty, got f32[2,0]",
        ),
        (
            _with_key(lambda k: lib.permutation(k, -1)),
            "permutation: x must be an integer from 0 to 2147483647, got -1",
        ),
        (_with_key(lambda k: lib.permutation(k, k, 1)), "permutation: axis must be a dimension"),
        (
            _with_key(lambda k: lib.permutation(k, k, 0, 1)),
            "permutation: independent must be True or False",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        call(xb.XlaBuilder())
    assert str(caught.value).startswith(message)
