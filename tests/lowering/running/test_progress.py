"""Reports of long compilations, and of Ctrl-C, in terminals and notebooks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import nbformat
import pytest
from processes import run_python
from scripts import ROOT, load_script

import builder as xb
import lowering
from lowering.running import progress

CTRL_C = b"\x03"
CTRL_BACKSLASH = b"\x1c"

PREPARED = """
import os, signal, sys, threading, time
import builder as xb, lowering
from lowering.jaxlib_api import compilation
from lowering.running import progress

# Who runs the tests, such as a background job of a shell, may ignore these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
progress._DELAY = 0.05
b = xb.XlaBuilder("waves")
wave = b.parameter(xb.f32[64], "x")
for _ in range({ops}):
    wave = xb.sin(wave) * xb.rev(wave, [0])
module = lowering.lower(b.build(wave))
original = compilation.compile_and_load
has_ended = []

def compile_and_load(*given, **more):
    sys.stdout.write("XLA starts\\n")  # at once: an interrupt may follow
    sys.stdout.flush()
    loaded = original(*given, **more)
    has_ended.append(True)
    return loaded

compilation.compile_and_load = compile_and_load
"""

PROGRAM = f"""{PREPARED}
try:
    lowering.compile(module, "cpu")
    print("compiled")
except KeyboardInterrupt:
    print("interrupted")
if has_ended:
    print("XLA ended")
print(threading.active_count(), "thread", flush=True)
os._exit(0)  # jaxlib 0.10 may crash if XLA still compiles
"""


def screen(output: str) -> list[str]:
    """Return the lines that a terminal shows after it received `output`."""
    lines = [""]
    column = 0
    for character in output:
        if character == "\r":
            column = 0
        elif character == "\n":
            lines.append("")  # pty writes "\r\n"
        else:
            lines[-1] = lines[-1][:column].ljust(column) + character + lines[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def in_terminal(
    program: str,
    respond: Callable[[str], bytes] = lambda output: b"",
    env: dict[str, str] | None = None,
    columns: int = 80,
    status: Collection[int] = (0,),
) -> str:
    """Run a program in a terminal, and return what the program wrote.

    Args:
        program: the source text.
        respond: returns the bytes to type after the output so far.
        env: additions to the environment.
        columns: the width of the terminal.
        status: the permitted exit statuses; the negative number of a signal.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    # Ctrl-C reaches the process. A `preexec_fn` would fork a process in which jax has threads.
    control = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", control + program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    output = ""
    end = time.monotonic() + 300
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    part = os.read(ours, 4096)
                except OSError:  # the process has ended
                    break
                if not part:
                    break
                output += part.decode()
            typed = respond(output)
            if typed:
                os.write(ours, typed)
        assert process.wait(timeout=60) in status, output
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return output


class Typist:
    """Types a key after each of the texts appears, in order: Ctrl-C or another one."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.keys = [CTRL_C] * len(texts)

    def __call__(self, output: str) -> bytes:
        if self.texts and self.texts[0] in output:
            del self.texts[0]
            return self.keys.pop(0)
        return b""


@pytest.mark.slow
def test_the_elapsed_time_is_shown_and_removed() -> None:
    output = in_terminal(PROGRAM.format(ops=600))
    assert re.search(r"\rcompiling waves: \d+ s", output)
    assert screen(output) == ["XLA starts", "compiled", "XLA ended", "1 thread", ""]


@pytest.mark.slow
def test_a_narrow_terminal_shows_one_line() -> None:
    """The function that turns reports on overrides the environment."""
    program = PROGRAM.format(ops=600).replace("\ntry:", "\nlowering.show_progress()\ntry:")
    output = in_terminal(program, env={"XLABUILDER_PROGRESS": "0"}, columns=12)
    assert "\rcompiling w" in output
    assert "\rcompiling wa" not in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "line"),
    [({"XLABUILDER_PROGRESS": "0"}, ""), ({}, "lowering.show_progress(False)")],
    ids=["environment", "function"],
)
def test_reports_can_be_turned_off(env: dict[str, str], line: str) -> None:
    program = PROGRAM.format(ops=600).replace("\ntry:", f"\n{line}\ntry:")
    output = in_terminal(program, Typist("XLA starts"), env)
    assert screen(output.replace("^C", "")) == [
        *("XLA starts", "interrupted", "XLA ended", "1 thread", ""),
    ]


@pytest.mark.slow
def test_nothing_is_written_without_a_terminal() -> None:
    program = PROGRAM.format(ops=300).replace(
        "    loaded =", "    print(threading.active_count())\n    loaded ="
    )
    done = run_python("-c", program)
    assert done.stdout.split("\n") == [
        *("XLA starts", "1", "compiled", "XLA ended", "1 thread", ""),
    ]
    assert done.stderr == ""


@pytest.mark.slow
def test_ctrl_c_reports_that_it_waits() -> None:
    output = in_terminal(PROGRAM.format(ops=1600), Typist("compiling waves"))
    lines = screen(output)
    # Below the line with ^C, which the terminal writes.
    (line,) = [line for line in lines if line.startswith("Ctrl-C waits")]
    assert re.fullmatch(
        r"Ctrl-C waits until XLA has compiled waves; "
        r"(a second Ctrl-C stops waiting and may crash the process|"
        r"Ctrl-\\ ends the process at once)",
        line,
    )
    assert lines == ["XLA starts", line, "interrupted", "XLA ended", "1 thread", ""]


@pytest.mark.slow
def test_what_the_line_promises_is_true() -> None:
    program = PROGRAM.format(ops=3000)
    typist = Typist("compiling waves", "Ctrl-C waits until")
    # jaxlib 0.10 may crash if XLA still compiles.
    output = in_terminal(program, typist, status=[0, -signal.SIGSEGV, -signal.SIGABRT])
    assert not typist.texts
    assert output.count("Ctrl-C waits until") == 1
    if "a second Ctrl-C stops waiting" in output:
        assert "XLA ended" not in screen(output)
    else:
        assert "XLA ended" in screen(output)
        typist = Typist("compiling waves", "Ctrl-\\ ends the process at once")
        typist.keys = [CTRL_C, CTRL_BACKSLASH]
        output = in_terminal(program, typist, status=[-signal.SIGQUIT])
        assert not typist.texts
        assert "interrupted" not in output


class _Recorder:
    """A display that records what it receives."""

    way_out = "leave"

    def __init__(self) -> None:
        self.received: list[str] = []

    def update(self, text: str) -> None:
        self.received.append(text)

    def line(self, text: str) -> None:
        self.received.append(f"{text}\n")

    def clear(self) -> None:
        self.received.append("")


@pytest.fixture
def displays(monkeypatch: pytest.MonkeyPatch) -> list[_Recorder]:
    """Replace terminals and notebooks by recorders, which the list contains in order."""
    found: list[_Recorder] = []

    def find_display() -> _Recorder:
        found.append(_Recorder())
        return found[-1]

    monkeypatch.setattr(progress, "_SHOWN", [True])
    monkeypatch.setattr(progress, "_DELAY", 0.02)
    monkeypatch.setattr(progress, "find_display", find_display)
    return found


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_signals_reach_the_previous_wakeup_socket(displays: list[_Recorder]) -> None:
    """asyncio calls its handlers when it receives the number of a signal."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno())
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with progress.reported("waves", [1]):
            signal.raise_signal(signal.SIGINT)
            # On a busy machine the elapsed time may be reported first.
            wait_for(lambda: any("Ctrl-C" in text for text in displays[0].received))
        assert signal.set_wakeup_fd(before) == theirs.fileno()
        assert ours.recv(10) == bytes([signal.SIGINT])
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, handler)
        ours.close()
        theirs.close()
    (line,) = [text for text in displays[0].received if "Ctrl-C" in text]
    assert line.startswith("Ctrl-C waits until XLA has compiled waves; a second Ctrl-C stops")
    assert (line[-1], displays[0].received[-1]) == ("\n", "")


def test_one_of_several_threads_is_reported(displays: list[_Recorder]) -> None:
    is_open = threading.Event()

    def compile_slowly() -> None:
        with progress.reported("waves", []):
            is_open.wait()

    threads = [threading.Thread(target=compile_slowly) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: any(display.received for display in displays))
    time.sleep(0.1)
    is_open.set()
    for thread in threads:
        thread.join()
    assert sorted(len(display.received) for display in displays) == [1, 1, 2]
    with progress.reported("waves", []):  # the next one is reported again
        wait_for(lambda: displays[3].received)


def test_a_closed_terminal_does_not_stop_the_compilation(
    displays: list[_Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = threading.Event()

    def fail(self: _Recorder, text: str) -> None:
        called.set()
        raise OSError("closed")

    with monkeypatch.context() as patch:
        patch.setattr(_Recorder, "update", fail)
        with progress.reported("waves", []):
            assert called.wait(60)
    with progress.reported("waves", []):
        wait_for(lambda: displays[1].received)


def test_long_names_and_times_are_shortened(
    displays: list[_Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = time.monotonic()
    times = iter([start, *[start + 125.5] * 100])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with progress.reported("w" * 100_000, []):
        while not displays[0].received:
            time.sleep(0.005)
    assert displays[0].received[0] == f"compiling {'w' * 57}...: 2 min 5 s"


def test_errors_leave_no_report(displays: list[_Recorder]) -> None:
    threads = threading.active_count()

    def compile_badly() -> None:
        with progress.reported("waves", []):
            wait_for(lambda: displays[0].received)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        compile_badly()
    assert displays[0].received[-1] == ""
    assert threading.active_count() == threads


def test_the_switch_takes_a_bool() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="show must be True or False, got 'no'"):
        lowering.show_progress("no")  # type: ignore[arg-type]


NOTEBOOK = f"""{PREPARED.format(ops=2500)}
lowering.show_progress()
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    lowering.compile(module, "cpu")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
def test_a_notebook_shows_the_elapsed_time(tmp_path: Path) -> None:
    writer = load_script("tools/write_notebooks.py")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    outputs = writer.executed(notebook, tmp_path).cells[0].outputs
    texts = {(out.get("name") or out.output_type): out.get("text") or out.data for out in outputs}
    assert texts.pop("stdout") == "XLA starts\ninterrupted\n"
    assert texts.pop("stderr").startswith("Ctrl-C waits until XLA has compiled waves; ")
    assert texts == {"display_data": {"text/plain": ""}}  # what remains of the elapsed time
