"""What modules, executables, profiles and comparisons show in notebooks."""

from __future__ import annotations

import io

import numpy as np
import pytest
from html_pages import page_of
from rich.console import Console

import builder as xb
import lowering


@pytest.fixture(scope="module")
def total() -> xb.XlaComputation:
    b = xb.XlaBuilder("total")
    x, y = b.parameter(xb.f32[256], "x"), b.parameter(xb.f32[256], "<y>")
    return b.build(xb.exp(x) + y)


def test_modules_show_highlighted_text(total: xb.XlaComputation) -> None:
    module = lowering.lower(total)
    page = page_of(module)
    assert {"<y>", "f32[256]", "1 KiB", "stablehlo.exponential", "tensor<256xf32>"} <= {*page.texts}
    assert "pre" in page.tags


def test_modules_show_only_the_first_elements_of_constants() -> None:
    b = xb.XlaBuilder("constants")
    b.constant(np.arange(10**5, dtype=np.int32))
    module = lowering.lower(b.build())
    assert len(module._repr_html_()) < 10_000
    assert "__elided__" not in module.text


def test_executables_show_memory_and_cost(total: xb.XlaComputation) -> None:
    executable = lowering.compile(total, "cpu")
    page = page_of(executable)
    assert "on cpu: cpu:0" in page.texts
    assert any(text.startswith("memory of each device: ") for text in page.texts)
    assert {"arguments: 2 KiB", "results: 1 KiB"} <= {*page.titles}
    assert {"operations", "256 FLOP", "bytes accessed"} <= {*page.texts}


def test_profiles_show_the_parts_of_a_call(total: xb.XlaComputation) -> None:
    ones = np.ones(256, np.float32)
    profile = lowering.compile(total, "cpu").profile(ones, ones)
    page = page_of(profile)
    assert any(text.startswith("one call: ") for text in page.texts)
    assert "run" in {title.partition(":")[0] for title in page.titles}
    assert "result" not in repr(profile)
    assert profile.result.shape == (256,)


def test_comparisons_show_a_verdict(total: xb.XlaComputation) -> None:
    ones = np.ones(256, np.float32)
    comparison = lowering.compare(total, ones, ones)
    page = page_of(comparison)
    assert "all 2 arrays are within their tolerance" in page.text
    assert any(text.startswith("%3 add") for text in page.texts)
    out = Console(width=200, file=io.StringIO(), color_system=None)
    out.print(comparison)
    assert isinstance(out.file, io.StringIO)
    assert "within their tolerance" in out.file.getvalue()
