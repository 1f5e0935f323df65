"""A process that reads the inputs, since they may crash it."""

from __future__ import annotations

import hashlib
import math
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Outcome", "Worker", "has_large_arrays", "keep"]

_ROOT: Final = Path(__file__).parents[2]
_WALL_SECONDS: Final = 90.0
"""The time limit for a process that is blocked; the limit of CPU time is shorter."""


ENDLESS: Final = "endless"
"""The outcome of a program with a loop or large arrays that takes longer than the time limit."""

_MOST_ELEMENTS: Final = 1 << 16
"""The size of the largest array of a program that is run."""

_SIZES: Final = re.compile(rb"tensor<((?:\d+x)+)")


class Outcome(NamedTuple):
    """The kind of outcome, "ok", "refused", "endless" or a defect, and the message."""

    kind: str
    message: str

    @property
    def is_defect(self) -> bool:
        return self.kind not in ("ok", "refused", ENDLESS)


def has_large_arrays(data: bytes) -> bool:
    """Return whether the text of a module mentions an array that takes XLA long to compute."""
    sizes = (map(int, match[:-1].split(b"x")) for match in set(_SIZES.findall(data)))
    return any(math.prod(each) > _MOST_ELEMENTS for each in sizes)


class Worker:
    """A process that reads one input after the other; restarted after a crash.

    Args:
        runs: whether it also compiles and runs the programs.
    """

    def __init__(self, *, runs: bool = False) -> None:
        self._mode = ["run"] if runs else []
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed at the exit)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._errors.close()

    def stop(self) -> None:
        """End the process if it is running."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            more = {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3"}
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.fuzz.target", *self._mode],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **more},
                cwd=_ROOT,
            )
        return self._process

    def outcome(self, data: bytes) -> Outcome:
        """Return the outcome of a file with this content."""
        process = self._started()
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        self._errors.seek(0)
        self._errors.truncate()
        stage, answer = "start", b""
        try:
            process.stdin.write(len(data).to_bytes(8, "little") + data)
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has crashed, which is detected below
        while True:
            ready, _, _ = select.select([process.stdout], [], [], _WALL_SECONDS)
            piece = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
            answer += piece
            *lines, _ = answer.decode(errors="replace").split("\n")
            for number, line in enumerate(lines):
                if line.startswith(".") and number + 1 < len(lines):
                    message = lines[number + 1].replace("\\n", "\n").replace("\\\\", "\\")
                    return Outcome(line[1:], message)
                stage = line
            if not piece:
                break
        return self._crash_outcome(data, stage, waited=not ready)

    def _crash_outcome(self, data: bytes, stage: str, *, waited: bool) -> Outcome:
        """Return the outcome of a process that did not answer."""
        assert self._process is not None  # it was started
        status = signal.SIGPROF if waited else -self._process.wait()
        self.stop()
        self._errors.seek(0)
        report = self._errors.read().decode(errors="replace")[-4000:]
        # XLA evaluates constants when it compiles.
        takes_long = has_large_arrays(data) or (stage == "run" and b"while" in data)
        if status == signal.SIGPROF and stage in ("compile", "run") and takes_long:
            return Outcome(ENDLESS, "")
        if status == signal.SIGPROF:
            return Outcome(f"hang in {stage}", report)
        name = signal.Signals(status).name if status > 0 else f"exit status {-status}"
        return Outcome(f"crash by {name} in {stage}", report)


def keep(folder: Path, data: bytes, outcome: Outcome) -> Path:
    """Write an input and its outcome to a folder."""
    name = "".join(c if c.isalnum() else "_" for c in outcome.kind)
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.with_name(f"{path.name}.txt").write_text(f"{outcome.kind}\n{outcome.message}\n")
    return path
