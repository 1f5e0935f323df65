"""Two processes compute together over the loopback interface. Then one of them is killed."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import ROOT

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "one_of_two.py"


def start(process: int, port: int) -> subprocess.Popen[str]:
    coordinator = f"127.0.0.1:{port}"
    return subprocess.Popen(
        [
            *(sys.executable, str(SCRIPT), "--coordinator", coordinator),
            *("--processes", "2", "--process", str(process), "--patience", "10"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def two_processes() -> Iterator[list[subprocess.Popen[str]]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    processes = [start(number, port) for number in range(2)]
    # Ends the processes if they deadlock.
    timer = threading.Timer(240, lambda: [process.kill() for process in processes])
    timer.start()
    yield processes
    timer.cancel()
    for process in processes:
        process.kill()
        process.communicate()


def read_up_to(line: str, process: subprocess.Popen[str]) -> str:
    """Return the output of a process up to a line, or to its end."""
    assert process.stdout is not None
    output = []
    for current in process.stdout:
        output.append(current)
        if current.strip() == line:
            break
    return "".join(output)


def test_two_processes_of_which_one_is_killed(
    two_processes: list[subprocess.Popen[str]],
) -> None:
    first, second = two_processes
    outputs = [read_up_to("in the middle", process) for process in (second, first)]
    for number, text in zip((1, 0), outputs, strict=True):
        assert f"process {number} of 2 has 2 of 4 devices, cpu" in text, text
        assert "checks passed\n" in text, text
        assert text.endswith("in the middle\n"), text

    second.kill()
    start_time = time.monotonic()
    rest, _ = first.communicate(timeout=120)
    assert time.monotonic() - start_time < 60
    assert first.returncode != 0
    # Usually reading the loss raises. If one device of a process detects the failure before the
    # other one, gloo aborts the process with a message.
    assert re.search(r"Gloo all-reduce failed|gloo::EnforceNotMet|heartbeat timeout", rest), rest
    assert second.wait() == -9
