"""The notebook's outputs are those that NumPy and SciPy compute."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from scripts import ROOT, load_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def text() -> str:
    writer = load_script("tools/write_notebooks.py")
    cells = writer.read(ROOT / "notebooks" / "11_with_jax.ipynb").cells
    return "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", ()))


def test_values_and_derivatives(text: str) -> None:
    # (tanh(w x) - 1)^2 at w = 0, for x = 1, 2, 3.
    slopes = -2.0 * np.array([1, 2, 3])
    assert f"(Array(3., dtype=float32), Array({slopes.tolist()}".replace(".0", ".") in text
    # The derivative of 2 round(x), and of 2 x.
    assert "[0. 0. 0.] [2. 2. 2.]\n" in text


def test_the_likelihood(text: str) -> None:
    likelihood = scipy.stats.norm.logpdf(np.linspace(-1, 1, 5), scale=2).sum()
    assert f"\n{likelihood:.4f}\n{likelihood:.4f}\n" in text


def test_the_program_of_the_derivatives(text: str) -> None:
    # Two products forward, and two for each of them backward.
    assert "\n6 products\n[(4, 8), (4, 8), (4, 8)]\n" in text
