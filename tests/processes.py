"""Run Python programs in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from scripts import ROOT


def run_python(
    *arguments: str,
    status: int = 0,
    cwd: Path = ROOT,
    env: Mapping[str, str | None] | None = None,
    stdin: str | None = None,
    timeout: float = 300.0,
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the project on its path and warnings as errors.

    Args:
        arguments: "-c" and a program, or the path of a file, followed by the program's arguments.
        status: the required exit status, or the negative number of a signal.
        cwd: the working directory.
        env: changes to the environment; None removes a variable.
        stdin: the text of standard input.
        timeout: the time limit in seconds; exceeding it is an error.

    Returns:
        The finished process, with its output.
    """
    changes = {"PYTHONPATH": str(ROOT), **(env or {})}
    environment = {**os.environ, **changes}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=cwd,
        env={name: value for name, value in environment.items() if value is not None},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


def interpreter(folder: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """In the place of `benchmarks.imports.fresh_interpreter`; equal commands run once.

    Compiling all modules of jax into a new folder would take seconds.
    """
    return cache(run_python)
