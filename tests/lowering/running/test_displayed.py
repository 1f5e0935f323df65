"""What modules, executables, profiles and comparisons show in notebooks."""

from __future__ import annotations

import io

import jax
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
    assert "all 2 arrays are equal" in page.text
    assert any(text.startswith("%3 add") for text in page.texts)
    out = Console(width=200, file=io.StringIO(), color_system=None)
    out.print(comparison)
    assert isinstance(out.file, io.StringIO)
    assert "all 2 arrays are equal" in out.file.getvalue()


def test_jitted_functions_show_their_recordings() -> None:
    add = lowering.jit(lambda x, y: x + y, name="add", device="cpu")
    assert "0 recordings, 0 compilations" in page_of(add).texts
    add(np.ones(3, np.float32), np.ones(3, np.float32))
    page = page_of(add)
    assert {"1 recording, 1 compilation", "3", "cpu:0"} <= {*map(str.strip, page.texts)}
    assert "(x: f32[3], y: f32[3]) -> f32[3]" in page.text


def test_topologies_show_their_devices() -> None:
    devices = tuple(jax.devices("cpu"))
    page = page_of(lowering.Topology("tpu", "v5e:2x2", "TPU v5 lite", devices))
    assert f"{len(devices)} devices: TPU v5 lite (tpu)" in page.texts
    assert page.tags.count("tr") == len(devices) + 1


def test_interpretations_show_values() -> None:
    b = xb.XlaBuilder("values")
    x = b.parameter(xb.f32[10], "x")
    total = xb.while_(lambda i: i < 3, lambda i: i + 1, b.constant(0, xb.s32))
    computation = b.build(xb.tuple(xb.exp(x), total))
    probes = ["exponential", "add", "tuple"]
    page = page_of(lowering.interpret(computation, np.zeros(10, np.float32), probe=probes))
    ones = f"[{', '.join(['1'] * 8)}, ...]"
    assert {"3 probed ops", ones, "executed 3 times, the last time [3]"} <= {*page.texts}
    assert f"({ones}, [3])" in page.texts
