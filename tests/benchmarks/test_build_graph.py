"""The benchmarks run, at a size at which they say nothing about time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_build_graph(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    printed = run("build_graph.py", "--ops", "40", "--rounds", "1", "--json", str(file))
    figures = json.loads(file.read_text())
    assert list(figures) == ["elementwise", "reshaping", "dot"]
    for name, row in figures.items():
        assert re.search(rf"^{name} .*x$", printed, re.MULTILINE)
        assert 40 <= row["ops"] < 50
        assert min(row["record_us"], row["lower_us"], row["jax_us"], row["jax_to_ours"]) > 0


def test_import_time() -> None:
    printed = run("import_time.py", "--rounds", "1", "--modules")
    assert re.match(r"import builder: [\d.]+ ms, of which the processor worked [\d.]+ ms", printed)
    # Those that take longest, which are not always the same.
    assert re.search(r"^ +[\d.]+ ms  ml_dtypes\b", printed, re.MULTILINE)
    assert re.search(r"^ +[\d.]+ ms  builder\.", printed, re.MULTILINE)
