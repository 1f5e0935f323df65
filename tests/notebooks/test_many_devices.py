"""The notebook's outputs are those that NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
from scripts import ROOT, load_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return the printed text of each cell that prints."""
    writer = load_script("tools/write_notebooks.py")
    cells = writer.read(ROOT / "notebooks" / "08_many_devices.ipynb").cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return [output.text for output in outputs if output.output_type == "stream"]


def only(texts: list[str], word: str) -> str:
    (text,) = [text for text in texts if word in text]
    return text


def test_each_collective(texts: list[str]) -> None:
    x = 10 * np.arange(4)[:, None] + np.arange(4)
    total = x.sum(axis=0)
    expected = {
        "the argument": x,
        "all_reduce": [total] * 4,
        "reduce_scatter": [[number] for number in total],
        "all_gather": [x[:, 0]] * 4,
        "all_to_all": x.T,
        "collective_permute": np.roll(x, 1, axis=0),
        "collective_broadcast": [x[2]] * 4,
    }
    lines = only(texts, "all_to_all").splitlines()
    # A column of 22 characters, and one of 14 for each device.
    shown = {
        line[:22].strip(): [line[23 + 15 * device :][:14].split() for device in range(4)]
        for line in lines[1:]
    }
    as_text = {name: [list(map(str, row)) for row in rows] for name, rows in expected.items()}
    assert shown == as_text


def test_who_has_what(texts: list[str]) -> None:
    devices = np.arange(8).reshape(2, 4)
    owners = devices.repeat(2, axis=0).repeat(2, axis=1)
    assert f"{owners}\n" in texts


def test_sums_over_replicas_and_over_all(texts: list[str]) -> None:
    _, *lines = only(texts, "over replicas").splitlines()
    x = 2 ** np.arange(8)
    pairs = np.tile(x.reshape(2, 4).sum(axis=0), 2)
    columns = [np.arange(8), np.repeat([0, 1], 4), np.tile(range(4), 2), x, pairs]
    rows = np.array([line.split() for line in lines], int)
    np.testing.assert_array_equal(rows, np.stack([*columns, np.full(8, x.sum())], axis=1))


def test_products_with_a_contracted_axis_are_added(texts: list[str]) -> None:
    lines = only(texts, "columns of x, rows of w").splitlines()
    assert [line.split()[-2:] for line in lines] == [
        ["w", "none"],
        ["all_reduce", "f32[64,64]"],
        ["all_gather", "f32[64,64]"],
        ["all_gather", "f32[64,64]"],
    ]
