"""The notebook's outputs for a CPU agree with its sizes."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from scripts import ROOT, load_script

pytestmark = pytest.mark.slow

LAYERS, SIZE = 8, 256


@pytest.fixture(scope="module")
def outputs() -> list[Any]:
    writer = load_script("tools/write_notebooks.py")
    cells = writer.read(ROOT / "notebooks" / "09_on_an_accelerator.ipynb").cells
    return [output for cell in cells for output in cell.get("outputs", ())]


def test_the_numbers_are_right(outputs: list[Any]) -> None:
    text = "".join(output.get("text", "") for output in outputs)
    assert re.findall(r"(\w+): equal to NumPy's up to 1e-5: (\w+)", text) == [
        ("DEFAULT", "True"),
        ("HIGHEST", "True"),
    ]
    assert "cpu:0 and the interpreter agree: True\n" in text
    operations = 2 * LAYERS * SIZE**3
    assert f"{operations:,} recorded, {operations // LAYERS:,} estimated by XLA\n" in text


def test_the_memory_of_arguments_and_results(outputs: list[Any]) -> None:
    array = 4 * SIZE**2
    texts = [
        output.data["text/plain"] for output in outputs if "text/html" in output.get("data", ())
    ]
    expected = f"arguments={(LAYERS + 1) * array}, results={array}"
    assert len(texts) == 2
    for text, aliased in zip(texts, [0, array], strict=True):
        assert f"({expected}, aliased={aliased}, " in text


def test_it_has_a_plot_of_the_times(outputs: list[Any]) -> None:
    (picture,) = [
        output.data["image/png"] for output in outputs if "image/png" in output.get("data", ())
    ]
    assert base64.b64decode(picture).startswith(b"\x89PNG")
