"""Executables on the device: arguments, results, donation, files, failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from on_device import cpu, device, device_name, of, random_array

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType

pytestmark = pytest.mark.gpu

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
TOO_MANY = 25 * 10**12
"""The f32 elements take 91 TiB, more than any device has."""


@pytest.fixture(scope="module")
def wave() -> Any:
    return lowering.compile(of(lambda x, y: xb.tanh(x) + y, xb.f32[3, 4], xb.f32[3, 4]), device())


def test_the_device_has_its_name() -> None:
    assert device() in lowering.devices(device().platform)
    assert lowering.device(device_name()) is device()
    count = len(lowering.devices(device().platform))
    with pytest.raises(lowering.DeviceError, match=f"there is no device .* has {count}"):
        lowering.device(f"{device().platform}:{count}")


@pytest.mark.parametrize("t", ALL, ids=str)
def test_device_put_of_every_type(t: PrimitiveType) -> None:
    x = random_array(t, (3, 5))
    there = lowering.device_put(x, device())
    assert there.devices() == {device()}
    assert np.asarray(there).tobytes() == x.tobytes()
    back = lowering.device_put(there, cpu())
    assert back.devices() == {cpu()}
    assert np.asarray(back).tobytes() == x.tobytes()


def test_device_put_copies() -> None:
    x = X.copy()
    there = lowering.device_put(x, device())
    x[:] = 0
    assert np.array_equal(np.asarray(there), X)


def test_arguments_and_results_are_on_the_device(wave: Any) -> None:
    assert wave.device is device()
    there = lowering.device_put(X, device())
    for first in (X, there):
        result = wave(first, there)
        assert result.devices() == {device()}
        np.testing.assert_allclose(np.asarray(result), np.tanh(X) + X, rtol=1e-5)
    for _ in range(100):
        result = wave(result, there)
    result.block_until_ready()
    assert np.isfinite(np.asarray(result)).all()


def test_arrays_of_another_device_are_refused(wave: Any) -> None:
    other = lowering.device_put(X, cpu())
    with pytest.raises(
        lowering.ArgumentError, match=r"argument 1 .* must be on .*, got an array on cpu:0"
    ):
        wave(X, other)
    wave(X, lowering.device_put(other, device()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X,), "takes 2 arguments"),
        ((X, X[:2]), r"must be f32\[3,4\], got f32\[2,4\]"),
        ((X, X.astype(np.int32)), r"must be f32\[3,4\], got s32\[3,4\]"),
        ((X, "text"), "argument 1"),
    ],
)
def test_wrong_arguments(wave: Any, arguments: Any, message: str) -> None:
    with pytest.raises(lowering.ArgumentError, match=message):
        wave(*arguments)
    wave(X, X)


def test_donation() -> None:
    step = of(lambda state, x: state + x, xb.f32[3, 4], xb.f32[3, 4], name="step")
    run = lowering.compile(step, device(), donate=[0])
    state = lowering.device_put(X, device())
    after = run(state, X)
    np.testing.assert_array_equal(np.asarray(after), 2 * X)
    assert state.is_deleted()
    with pytest.raises(lowering.ArgumentError, match="deleted"):
        run(state, X)


def test_options() -> None:
    double = of(lambda x: x * 2.0, xb.f32[3, 4])
    run = lowering.compile(double, device(), options={"optimization_level": 1})
    assert np.array_equal(np.asarray(run(X)), 2 * X)


def test_memory_and_cost(wave: Any) -> None:
    memory = wave.memory()
    assert memory.arguments == 2 * X.nbytes
    assert memory.results == X.nbytes
    assert wave.cost()["bytes accessed"] > 0
    assert wave.hlo_text().startswith("HloModule test")


def test_profile(wave: Any) -> None:
    profile = wave.profile(X, X)
    np.testing.assert_allclose(np.asarray(profile.result), np.tanh(X) + X, rtol=1e-5)
    for part in ("compile", "transfer", "run", "fetch"):
        assert getattr(profile, part) >= 0


def test_saved_and_loaded(wave: Any, tmp_path: Path) -> None:
    wave.save(tmp_path / "wave.xlaexe")
    again = lowering.load_executable(tmp_path / "wave.xlaexe", device())
    assert again.device is device()
    assert np.asarray(again(X, X)).tobytes() == np.asarray(wave(X, X)).tobytes()
    if device().platform != "cpu":
        with pytest.raises(lowering.ModuleFileError, match=device().platform):
            lowering.load_executable(tmp_path / "wave.xlaexe", cpu())


def test_jit() -> None:
    cube = lowering.jit(lambda x: x * x * x, device=device())
    result = cube(X)
    assert result.devices() == {device()}
    np.testing.assert_allclose(np.asarray(result), X**3, rtol=1e-6)


def test_results_in_jax(wave: Any) -> None:
    """jax accepts the results without a copy, and its results are valid arguments."""
    result = wave(X, X)
    there = jax.jit(lambda x: x + 1)(result)
    assert there.devices() == {device()}
    assert np.isfinite(np.asarray(wave(there, result))).all()


def test_python_and_infeed_run_on_a_cpu_and_are_refused_elsewhere() -> None:
    platform = device().platform
    b = xb.XlaBuilder("called")
    called = b.build(xb.python_call(np.sort, b.parameter(xb.f32[3]), xb.f32[3]))
    b = xb.XlaBuilder("fed")
    fed = b.build(b.infeed(xb.f32[3]))
    x = np.array([3, 1, 2], np.float32)
    if platform == "cpu":
        lowering.transfer_to_infeed(x, device())
        assert np.asarray(lowering.compile(called, device())(x)).tolist() == [1, 2, 3]
        assert np.asarray(lowering.compile(fed, device())()).tolist() == [3, 1, 2]
        return
    with pytest.raises(lowering.CompileError, match=f"python_call.* can't run on {platform}"):
        lowering.compile(called, device())
    with pytest.raises(lowering.CompileError, match=f"infeed.* can't run on {platform}"):
        lowering.compile(fed, device())
    with pytest.raises(lowering.DeviceError, match="no access to the infeed and outfeed"):
        lowering.transfer_to_infeed(x, device())


def test_a_function_that_is_not_registered() -> None:
    b = xb.XlaBuilder("custom")
    computation = b.build(xb.custom_call("never_registered", b.parameter(xb.f32[3]), xb.f32[3]))
    message = f"no function of that name is registered for {device().platform}"
    with pytest.raises(lowering.CompileError, match=message):
        lowering.compile(computation, device())


def test_out_of_memory_and_the_next_call(wave: Any) -> None:
    def many(x: xb.XlaOp) -> xb.XlaOp:
        return xb.broadcast(x, [TOO_MANY])

    # Some platforms plan their memory when they compile, others allocate it when they run.
    with pytest.raises((lowering.CompileError, lowering.ExecutionError), match=r"(?i)memory|TiB"):
        lowering.compile(of(many, xb.f32[()]), device())(1.5).block_until_ready()
    with pytest.raises(lowering.ExecutionError, match=r"there is no memory for f32"):
        lowering.device_put(np.broadcast_to(np.float32(1), (TOO_MANY,)), device())
    np.testing.assert_allclose(np.asarray(wave(X, X)), np.tanh(X) + X, rtol=1e-5)
