"""The page has a section on GPUs, with or without figures of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import FiguresError
from benchmarks.gpus import gpu_section

pytestmark = pytest.mark.slow

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "performance" / "figures.json"


def test_without_figures(tmp_path: Path) -> None:
    section = gpu_section(tmp_path)
    assert section.startswith("## GPUs\n")
    assert section.endswith("The benchmarks have not been run on a GPU yet.\n")


def test_figures_with_date_and_versions(tmp_path: Path) -> None:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    figures["machine"]["device"] = "NVIDIA H100"
    figures["date"] = "2030-01-02"
    figures["versions"]["jax"] = "0.99"
    (tmp_path / "gpu-h100.json").write_text(json.dumps(figures), encoding="utf-8")
    section = gpu_section(tmp_path)
    assert "have not been run" not in section
    assert "\n### NVIDIA H100\n\n2030-01-02; Python " in section
    assert "jax 0.99" in section
    assert "From the first op to the first result, ms:\n\n| graph | ops |" in section
    (tmp_path / "gpu-other.json").write_text('{"format": 0}', encoding="utf-8")
    with pytest.raises(FiguresError, match=r"gpu-other\.json does not contain figures"):
        gpu_section(tmp_path)
