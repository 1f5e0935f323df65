"""Run samples in child processes, because a sample may crash the process.

The child prints one line per sample. It is replaced if it crashes or exceeds the time limit.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["FAILED", "PASSED", "Answer", "command_line", "is_close", "refusal"]

Answer = tuple[str, str]
"""The outcome of a sample: PASSED, FAILED or a member of REFUSED; and the reason."""

PASSED: Final = "passed"
FAILED: Final = "failed"

REFUSED: Final = ("quantized", "dynamic")
"""Features that XLA computations can't represent, as named in our errors."""

SECONDS: Final = 300.0
"""The time limit of one sample, including the start of the child."""

_REPOSITORY: Final = Path(__file__).resolve().parents[2]


_HAS: Final = {
    "quantized": re.compile(r"!quant\.\w+<"),
    "dynamic": re.compile(r"tensor<(?:\d+x)*\?|stablehlo\.(?:real_)?dynamic_|get_dimension_size"),
}
"""What a file with such a feature contains."""


def refusal(error: Exception, path: Path, text: str) -> str | None:
    """Return the feature that can't be represented, or None.

    The error, the name of the file or its folder, and the text of the module must agree.
    """
    places = (path.parent.name, path.name.partition("_")[0])
    for feature in REFUSED:
        if feature in str(error) and feature in places and _HAS[feature].search(text):
            return feature
    return None


def command_line(
    script: str, description: str, check: Callable[[Path], Answer], arguments: Sequence[str] | None
) -> int:
    """Run every file of a folder; print a line for each failure, and the totals."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("directory", type=Path, help="the folder of samples")
    parser.add_argument("--only", metavar="TEXT", default="", help="files with this in their name")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        for line in sys.stdin:
            print(json.dumps(_answer(check, Path(line.rstrip("\n")))), flush=True)
        return 0
    if not options.directory.is_dir():
        parser.error(f"{options.directory}: not a folder")
    files = [f for f in sorted(options.directory.rglob("*.mlir")) if options.only in f.name]
    if not files:
        parser.error(f"{options.directory}: no such .mlir file in the folder")
    counts: Counter[str] = Counter()
    for path, (outcome, reason) in _answers(script, options.directory, files):
        counts[outcome] += 1
        if outcome == FAILED:
            print(f"{path.relative_to(options.directory)}: {reason}", flush=True)
    refused = ", ".join(f"{reason}: {counts[reason]}" for reason in REFUSED)
    print(
        f"passed {counts[PASSED]} of {len(files)}, {sum(counts[r] for r in REFUSED)} not "
        f"representable ({refused}), {counts[FAILED]} failed"
    )
    return 1 if counts[FAILED] else 0


def _answer(check: Callable[[Path], Answer], path: Path) -> Answer:
    try:
        return check(path)
    except Exception as error:  # the samples must find errors of any type
        text = " / ".join(str(error).splitlines())
        return FAILED, f"{type(error).__name__}: {text}"


def _answers(script: str, directory: Path, files: Sequence[Path]) -> Iterator[tuple[Path, Answer]]:
    child: _Child | None = None
    for path in files:
        if child is None:
            child = _Child(script, directory)
        answer = child.ask(path)
        if answer is None:
            answer = FAILED, child.end()
            child = None
        yield path, answer
    if child is not None:
        child.end()


class _Child:
    """A process that reads file names and prints one line for each."""

    def __init__(self, script: str, directory: Path) -> None:
        path = os.pathsep.join([str(_REPOSITORY), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": path,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self._process = subprocess.Popen(
            [sys.executable, script, str(directory), "--child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._is_silent = False
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # opened as a pipe
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def ask(self, path: Path) -> Answer | None:
        """Return the outcome of a sample; None if the process crashed or timed out."""
        assert self._process.stdin is not None  # opened as a pipe
        try:
            print(path, file=self._process.stdin, flush=True)
            outcome, reason = json.loads(self._lines.get(timeout=SECONDS))
        except queue.Empty:
            self._is_silent = True
            return None
        except (OSError, ValueError):
            return None
        return outcome, reason

    def end(self) -> str:
        """End the process and return the reason for the message."""
        assert self._process.stdin is not None  # opened as a pipe
        try:
            self._process.stdin.close()
            # A process that timed out does not react to the closed pipe.
            status = self._process.wait(timeout=0 if self._is_silent else 5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
            return f"no answer within {SECONDS:.0f} seconds"
        return f"the process died with status {status}"


def is_close(got: Any, expected: Any, *, ulps: int = 0, tolerance: float = 0.0) -> bool:
    """Return whether two NumPy arrays agree in type, shape, and each element.

    Args:
        ulps: the allowed difference in steps of the floating-point type, for each part of a complex
            number.
        tolerance: the allowed difference, relative for numbers above 1.
    """
    from lowering.test_files import running

    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    return bool(running.is_close(got, expected, ulps=ulps, tolerance=tolerance).all())
