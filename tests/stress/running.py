"""Stress tests of running programs, of any duration: threads, many calls, interrupts."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
import lowering


def affine(number: int) -> xb.XlaComputation:
    """Return the program x * number + y; each number results in another program."""
    builder = xb.XlaBuilder(f"affine_{number}")
    x, y = (builder.parameter(xb.f32[8, 4], name) for name in "xy")
    return builder.build(x * builder.constant(np.float32(number)) + y)


def call_and_compile(threads: int, seconds: float) -> Counter[str]:
    """Compile and call in several threads, and compare with NumPy; return counts of both.

    Each thread compiles programs of its own. It calls them, and one that all threads share, with
    NumPy arrays, arrays of the device, and wrong arguments.
    """
    shared = lowering.compile(affine(3))
    counted: Counter[str] = Counter()
    failures: list[BaseException] = []
    lock = threading.Lock()
    end = time.monotonic() + seconds

    def work(thread: int) -> None:
        done: Counter[str] = Counter()
        generator = np.random.default_rng(thread)
        try:
            while time.monotonic() < end and not failures:
                number = thread + threads * (1 + done["compiled"] % 100)
                run = lowering.compile(affine(number))
                done["compiled"] += 1
                for _ in range(10):
                    x, y = generator.integers(0, 100, (2, 8, 4)).astype(np.float32)
                    on_device = lowering.device_put(x)
                    for called, factor in ((run, number), (shared, 3)):
                        for argument in (x, on_device):
                            result = called(argument, y)
                            # The caller may write to an argument after the call.
                            before, y = y, y.copy()
                            before[:] = -1
                            assert np.array_equal(result, x * factor + y)
                            done["called"] += 1
                    with pytest.raises(lowering.ArgumentError, match=r"f32\[8,4\], got f32\[3\]"):
                        shared(on_device, np.zeros(3, np.float32))
                    done["refused"] += 1
        except BaseException as error:
            failures.append(error)
        with lock:
            counted.update(done)

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return counted


def growth_of_calls(count: int) -> int:
    """Return by how many bytes the process grows in this number of calls of all kinds."""
    run = lowering.compile(affine(3))
    both = lowering.compile(affine(5))
    x, y = (np.full((8, 4), number, np.float32) for number in (2, 7))
    state = lowering.device_put(x)
    uncommitted = jax.device_put(y)

    def calls(how_many: int) -> None:
        result = state
        for number in range(how_many // 5):
            result = run(state, state)
            result = run(x, result)
            result = both(result, y=uncommitted)
            result = both(x, y)
            if number % 100 == 0:
                with contextlib.suppress(lowering.ArgumentError):
                    run(x, None)
            result = run(result, uncommitted)
        jax.block_until_ready(result)

    calls(count // 10)
    before = _resident()
    calls(count)
    return _resident() - before


def growth_of_executables(count: int) -> int:
    """Return by how many bytes the process grows when programs are compiled, called and dropped."""
    x = np.ones((8, 4), np.float32)
    on_device = lowering.device_put(x)

    def compile_some(how_many: int) -> None:
        for _ in range(how_many):
            run = lowering.compile(affine(3))
            run(x, on_device)
            run(on_device, on_device)

    compile_some(max(count // 10, 8))
    before = _resident()
    compile_some(count)
    return _resident() - before


def _resident() -> int:
    """Return the resident memory of the process in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def interrupted(work: Callable[[], Any], after: float) -> float:
    """Repeat `work` until Ctrl-C interrupts it; return the duration in seconds.

    Args:
        work: may be interrupted anywhere.
        after: the time of the interrupt, in seconds.
    """
    raised: list[float] = []

    def interrupt(*_: Any) -> None:
        raised.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    try:
        # Inside, because a loaded machine may pause the process here until the alarm.
        signal.setitimer(signal.ITIMER_REAL, after)
        while not raised:
            work()
    except KeyboardInterrupt:
        return time.monotonic() - began
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, handler)
    raise AssertionError("the interrupt was swallowed")


def products(count: int) -> xb.XlaComputation:
    """Return a slow program of this number of products of 300x300 matrices."""
    builder = xb.XlaBuilder("products")
    x = builder.parameter(xb.f32[300, 300], "x")
    power = x
    for _ in range(count):
        power = xb.dot(power, x)
    return builder.build(power)


def waves(count: int) -> xb.XlaComputation:
    """Return a program that XLA compiles slowly."""
    builder = xb.XlaBuilder("waves")
    wave = builder.parameter(xb.f32[64], "x")
    for _ in range(count):
        wave = xb.sin(wave) * xb.rev(wave, [0])
    return builder.build(wave)
