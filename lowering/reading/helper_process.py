"""Parse untrusted input in a helper process.

MLIR and XLA trust their input: some damaged files crash them, and others make them loop. Starting a
helper process takes some tenths of a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lowering.jaxlib_api.mlir import UnreadableModuleError

HELPER_SECONDS = 20.0
"""The default time limit of a helper process in seconds."""

HELPER_BYTES = 4 << 30
"""The memory limit of a helper process on Linux, in bytes; 40 times the input's size is added."""

# Importing lowering.jaxlib_api does not import jax.
HELPER = """
import importlib, json, sys
arguments = json.loads(sys.argv[1])
sys.path[:] = arguments["sys_path"]
from lowering.jaxlib_api.mlir import UnreadableModuleError
task = getattr(importlib.import_module(arguments["module"]), arguments["task"])
try:
    # Some damaged files allocate memory without limit.
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


class HelperError(UnreadableModuleError):
    """The helper process refused its input, crashed or timed out."""


def in_helper(
    task: Callable[[bytes], bytes],
    source: bytes,
    *,
    crash_reason: str,
    seconds: float | None = None,
) -> bytes:
    """Return the result of a function of this library, called in a helper process.

    Args:
        task: a top-level function of a module, which may raise UnreadableModuleError.
        source: the argument of `task`.
        crash_reason: the message of the HelperError if the process crashes.
        seconds: the time limit, HELPER_SECONDS by default; a second for each megabyte of `source`
            is added.

    Raises:
        HelperError: the function refuses the input, or the process crashes or times out.
    """
    arguments = {
        # The last entry is for a package that was not found through sys.path.
        "sys_path": [*sys.path, str(Path(__file__).resolve().parents[2])],
        "module": task.__module__,
        "task": task.__name__,
        "memory": HELPER_BYTES + 40 * len(source),
    }
    limit = (HELPER_SECONDS if seconds is None else seconds) + len(source) / 1e6
    try:
        finished = subprocess.run(
            [sys.executable, "-I", "-c", HELPER, json.dumps(arguments)],
            input=source,
            capture_output=True,
            timeout=limit,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HelperError(f"reading the file takes more than {limit:.0f} seconds") from None
    head, _, result = finished.stdout.partition(b"\n")
    try:
        refused = json.loads(head)["refused"]
    except ValueError:
        raise HelperError(crash_reason, detail=finished.stderr.decode(errors="replace")) from None
    if refused is not None:
        raise HelperError(*refused)
    return result
