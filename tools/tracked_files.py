"""The files of the project, as git lists them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def tracked_files() -> list[str]:
    """Return the paths of all files, relative to the root; exit unless this is a clone."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode or not listed.stdout:
        sys.exit(f"git lists no files in {ROOT}; run this in a clone of the repository")
    return listed.stdout.splitlines()
