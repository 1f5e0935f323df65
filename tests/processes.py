"""Tests of whole processes: another Python that runs a program to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from scripts import ROOT


def run_python(
    *words: str,
    status: int = 0,
    cwd: Path = ROOT,
    env: Mapping[str, str | None] | None = None,
    given: str | None = None,
    timeout: float = 300.0,
) -> subprocess.CompletedProcess[str]:
    """Runs this Python once more, which finds the project, and takes warnings for errors.

    Args:
        words: its arguments: "-c" and a program, or the path of a file, and what these are given.
        status: as it has to end; the negative number of a signal that has to end it.
        cwd: the folder that it runs in.
        env: what is other in its environment than here; None for what is not there.
        given: what it reads.
        timeout: after how many seconds it is ended, which is an error.

    Returns:
        what it has written.
    """
    changed = {"PYTHONPATH": str(ROOT), **(env or {})}
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=cwd,
        env=kept | {name: value for name, value in changed.items() if value is not None},
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done
