"""Doing in another process what may end the process: reading what may be anything.

MLIR and XLA trust what they read: of some damaged files they die, with others they are busy for
ever. A helper process takes that in their place, and starting one takes some tenths of a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["HelperError", "in_helper"]

HELPER_SECONDS = 20.0
"""How long a helper may take, besides a second for each megabyte."""

HELPER_BYTES = 4 << 30
"""How much memory a helper may take, besides 40 times the size of what it reads (on Linux)."""

# Importing lowering.jaxlib_api does not import jax.
HELPER = """
import importlib, json, sys
arguments = json.loads(sys.argv[1])
sys.path[:] = arguments["sys_path"]
from lowering.jaxlib_api.mlir import UnreadableModuleError
task = getattr(importlib.import_module(arguments["module"]), arguments["task"])
try:
    # Some damaged files ask for memory without end.
    import pathlib, resource
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + arguments["memory"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
except (ImportError, OSError, ValueError):
    pass
try:
    answer, result = None, task(sys.stdin.buffer.read())
except UnreadableModuleError as error:
    answer, result = [error.reason, error.line, error.column, error.detail], b""
sys.stdout.buffer.write(json.dumps({"refused": answer}).encode() + b"\\n" + result)
"""


class HelperError(Exception):
    """The helper process refused what it was given, died of it, or took too long.

    Attributes:
        reason: why, on one line.
        line, column: where in a text, counted from 1; None where that isn't known.
        detail: all that was reported.
    """

    def __init__(
        self, reason: str, line: int | None = None, column: int | None = None, detail: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column
        self.detail = detail


def in_helper(task: Callable[[bytes], bytes], source: bytes, *, died: str) -> bytes:
    """Return the result of a function of `lowering.jaxlib_api`, called in another process.

    Args:
        task: a top-level function, which may raise UnreadableModuleError.
        source: the bytes.
        died: what to say of bytes that end the process.

    Raises:
        HelperError: it refuses them, the process died, or it took too long.
    """
    arguments = {
        # The last entry is for a package that was found in another way than by sys.path.
        "sys_path": [*sys.path, str(Path(__file__).resolve().parents[2])],
        "module": task.__module__,
        "task": task.__name__,
        "memory": HELPER_BYTES + 40 * len(source),
    }
    seconds = HELPER_SECONDS + len(source) / 1e6
    try:
        finished = subprocess.run(
            [sys.executable, "-I", "-c", HELPER, json.dumps(arguments)],
            input=source,
            capture_output=True,
            timeout=seconds,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HelperError(f"reading it takes more than {seconds:.0f} seconds") from None
    head, _, result = finished.stdout.partition(b"\n")
    try:
        refused = json.loads(head)["refused"]
    except ValueError:
        raise HelperError(died, detail=finished.stderr.decode(errors="replace")) from None
    if refused is not None:
        raise HelperError(*refused)
    return result
