"""Profiles, memory and cost of executables, and asynchronous calls."""

import jax
import numpy as np
import pytest

import builder as xb
import lowering
from lowering import ArgumentError

SIZES = (300, 300)


def product(name="product"):
    builder = xb.XlaBuilder(name)
    x, y = (builder.parameter(xb.f32[SIZES], n) for n in "xy")
    return builder.build(xb.tuple(xb.dot(x, y), xb.exp(x)))


@pytest.fixture(scope="module")
def run():
    return lowering.compile(product(), "cpu")


@pytest.fixture(scope="module")
def operands():
    generator = np.random.default_rng(5)
    return [generator.standard_normal(SIZES).astype(np.float32) for _ in range(2)]


def same(results, operands):
    x, y = operands
    assert np.allclose(results[0], x @ y, atol=1e-4)
    assert np.allclose(results[1], np.exp(x), rtol=1e-5)


def seconds_of(profile):
    assert all(s >= 0 for s in (profile.compile, profile.transfer, profile.run, profile.fetch))
    return profile.compile, profile.run


def test_profile_of_a_call(run, operands):
    x, y = operands
    for profile in (run.profile(x, y), run.profile(lowering.device_put(x), y=y)):
        same(profile.result, operands)
        assert all(isinstance(one, jax.Array) for one in profile.result)
        assert min(seconds_of(profile)) > 0
    # The time of the compilation stays the same.
    assert run.profile(x, y).compile == profile.compile
    with pytest.raises(ArgumentError, match=r"argument 1 \(y\) must be f32\[300,300\], got f32\[3"):
        run.profile(x, x[:, 1])
    gone = lowering.device_put(x)
    gone.delete()
    with pytest.raises(
        ArgumentError, match=r"argument 0 \(x\) .* a jax.Array that has been deleted"
    ):
        run.profile(gone, y)
    with pytest.raises(AttributeError):
        profile.run = 0.0


def test_a_profile_prints_units():
    profile = lowering.Profile(
        compile=0.03,
        transfer=2e-6,
        run=0.0015,
        fetch=5e-7,
        result=np.zeros(1000),
        _by_op=lambda _: None,
    )
    assert str(profile) == "compiled in 30 ms; transfer 2 us, run 1.5 ms, fetch 500 ns"


def test_profile_of_tuples_and_several_devices(operands):
    builder = xb.XlaBuilder("tuples")
    pair = builder.parameter(xb.tuple_shape([xb.f32[2], xb.s32[()]]), "pair")
    run = lowering.compile(builder.build(pair[0] + xb.convert(pair[1], xb.f32)), "cpu")
    profile = run.profile((np.ones(2, np.float32), 3))
    assert profile.result.tolist() == [4, 4]
    if len(lowering.devices("cpu")) < 2:
        return
    replicas = lowering.compile(product(), "cpu", num_replicas=2)
    profile = replicas.profile(*operands)
    for results in profile.result:
        same(results, operands)
    assert min(seconds_of(profile)) > 0


def test_memory(run):
    memory = run.memory()
    size = 300 * 300 * 4
    assert (memory.arguments, memory.aliased) == (2 * size, 0)
    assert 2 * size <= memory.results < 2 * size + 100  # a table of the tuple's elements
    assert memory.total == memory.arguments + memory.results + memory.temporary + memory.code
    builder = xb.XlaBuilder("in_place")
    x = builder.parameter(xb.f32[SIZES], "x")
    builder.setup_alias((), 0, ())
    memory = lowering.compile(builder.build(x + x), "cpu").memory()
    assert (memory.arguments, memory.results, memory.aliased) == (size, size, size)
    assert memory.total == size + memory.temporary + memory.code


def test_cost(run):
    cost = run.cost()
    assert cost["flops"] == pytest.approx(2 * 300**3, rel=0.01)
    assert cost["transcendentals"] == 300 * 300
    assert cost["bytes accessed"] >= 4 * 300 * 300 * 4
    assert all(type(one) is float for one in cost.values())


def test_calls_return_before_the_program_ends():
    builder = xb.XlaBuilder("long")
    x = builder.parameter(xb.f32[SIZES], "x")
    power = x
    for _ in range(60):
        power = xb.dot(power, x)
    long = lowering.compile(builder.build(power), "cpu")
    host = np.eye(300, dtype=np.float32)
    there = lowering.device_put(host)

    def came_back_early(given):
        # The second call waits for the first on the device, not in Python.
        result = long(long(given))
        early = not result.is_ready()
        assert jax.block_until_ready(result) is result
        assert result.is_ready()
        assert np.array_equal(result, host)
        return early

    # A busy machine may delay this thread once.
    for given in (there, host):
        assert any(came_back_early(given) for _ in range(20))
    written = host.copy()
    result = long(written)
    written[:] = 7  # while the program reads its copy
    assert np.array_equal(result, host)
