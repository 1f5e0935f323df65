"""Ctrl-C and SIGTERM during compilation are handled when XLA returns."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from processes import run_python

import builder as xb
import lowering
from lowering.jaxlib_api import compilation


class EndedError(Exception):
    """The exception of the handlers here."""


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "sigterm"])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal whose handler raises EndedError."""

    def end(*_: Any) -> None:
        raise EndedError

    asked: signal.Signals = request.param
    before = signal.signal(asked, end)
    yield asked
    assert signal.signal(asked, before) is end


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """Run steps before XLA compiles; the last one runs afterwards."""
    original = compilation.compile_and_load
    steps: list[Callable[[], Any]] = []

    def compile_and_load(*given: Any, **more: Any) -> Any:
        before, after = steps
        before()
        loaded = original(*given, **more)
        after()
        return loaded

    monkeypatch.setattr(compilation, "compile_and_load", compile_and_load)
    return steps


def doubled() -> xb.XlaComputation:
    b = xb.XlaBuilder("doubled")
    x = b.parameter(xb.f32[2], "x")
    return b.build(x + x)


def fail() -> None:
    raise ValueError("INTERNAL: no")


def test_a_signal_is_handled_afterwards(
    number: signal.Signals, meanwhile: list[Callable[[], Any]]
) -> None:
    done: list[str] = []
    meanwhile += [lambda: signal.raise_signal(number), lambda: done.append("compiled")]
    with pytest.raises(EndedError):
        lowering.compile(doubled(), "cpu")
    assert done == ["compiled"]
    # The next program is compiled as usual.
    meanwhile[:] = [lambda: None] * 2
    two = np.array([1, 2], np.float32)
    assert np.array_equal(lowering.compile(doubled(), "cpu")(two), two + two)


def test_a_second_signal_is_handled_at_once(
    number: signal.Signals, meanwhile: list[Callable[[], Any]]
) -> None:
    done: list[str] = []

    def twice() -> None:
        signal.raise_signal(number)
        done.append("once")
        signal.raise_signal(number)
        done.append("twice")

    meanwhile += [twice, lambda: None]
    with pytest.raises(EndedError) as caught:
        lowering.compile(doubled(), "cpu")
    assert done == ["once"]
    assert caught.value.__context__ is None  # the first signal is not handled twice


def test_handlers_that_raise_nothing_are_called_for_all(meanwhile: list[Callable[[], Any]]) -> None:
    called: list[int] = []

    def note(number: int, frame: Any) -> None:
        assert frame.f_code.co_filename == __file__
        called.append(number)

    def three() -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        assert called == [signal.SIGINT] * 2

    before = signal.signal(signal.SIGINT, note)
    try:
        meanwhile += [three, lambda: None]
        lowering.compile(doubled(), "cpu")
    finally:
        signal.signal(signal.SIGINT, before)
    assert called == [signal.SIGINT] * 3


def test_a_signal_during_a_failing_compilation(
    number: signal.Signals, meanwhile: list[Callable[[], Any]]
) -> None:
    meanwhile += [lambda: signal.raise_signal(number), fail]
    with pytest.raises(EndedError) as caught:
        lowering.compile(doubled(), "cpu")
    assert isinstance(caught.value.__context__, ValueError)


def test_handlers_outside_python_are_preserved(meanwhile: list[Callable[[], Any]]) -> None:
    handlers: list[Any] = []
    meanwhile += [lambda: handlers.append(signal.getsignal(signal.SIGINT)), lambda: None]
    for nothing in (signal.SIG_IGN, signal.SIG_DFL):
        before = signal.signal(signal.SIGINT, nothing)
        try:
            lowering.compile(doubled(), "cpu")
            assert handlers.pop() is signal.getsignal(signal.SIGINT) is nothing
        finally:
            signal.signal(signal.SIGINT, before)


def test_other_threads_do_not_change_handlers(
    number: signal.Signals, meanwhile: list[Callable[[], Any]]
) -> None:
    handler = signal.getsignal(number)
    handlers: list[Any] = []
    meanwhile += [lambda: handlers.append(signal.getsignal(number)), lambda: None]
    thread = threading.Thread(target=lowering.compile, args=(doubled(), "cpu"))
    thread.start()
    thread.join()
    assert handlers == [handler]


INTERRUPTED = """
import os, signal, sys, threading, time
import builder as xb, lowering
from lowering.jaxlib_api import compilation

signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
b = xb.XlaBuilder("waves")
wave = b.parameter(xb.f32[64], "x")
for _ in range(100):
    wave = xb.sin(wave) * xb.rev(wave, [0])
module = lowering.lower(b.build(wave))
original = compilation.compile_and_load

def compile_and_load(*given, **more):
    threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    loaded = original(*given, **more)
    print("compiled", flush=True)
    return loaded

compilation.compile_and_load = compile_and_load
try:
    lowering.compile(module, "cpu")
    time.sleep(10)  # where XLA was quicker than the signal
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_the_exit_status_of_an_interrupted_process() -> None:
    """The process must not crash (-11) while XLA continues to compile in its thread."""
    done = run_python("-c", INTERRUPTED, status=130)
    assert (done.stdout, done.stderr) == ("compiled\n", "")
