"""Errors for unavailable platforms give the reason and how to install them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering.pjrt import devices, failures
from lowering.pjrt.failures import missing_platform

ROOT = Path(__file__).resolve().parents[3]


def message(
    monkeypatch: pytest.MonkeyPatch,
    platform: str | None,
    *,
    chosen: str | None = None,
    installed: tuple[str, ...] = (),
    known: str = "cpu:0",
    report: str = "",
) -> str:
    config = SimpleNamespace(config=SimpleNamespace(jax_platforms=chosen))
    monkeypatch.setattr(failures, "jax", config)
    monkeypatch.setattr(failures.importlib.util, "find_spec", lambda name: name in installed)
    return str(missing_platform("device", platform, known, report))


@each_row(
    "platform, what, extra",
    [
        ("gpu", "GPUs of NVIDIA", '"xlabuilder[cuda13]" (cuda12 for drivers before 580)'),
        ("cuda", "GPUs of NVIDIA", '"xlabuilder[cuda13]" (cuda12 for drivers before 580)'),
        ("rocm", "GPUs of AMD", '"xlabuilder[rocm7-local]"'),
        ("tpu", "TPUs", '"xlabuilder[tpu]"'),
    ],
)
def test_the_extra_that_installs_the_plugin(
    monkeypatch: pytest.MonkeyPatch, platform: str, what: str, extra: str
) -> None:
    assert message(monkeypatch, platform) == (
        f"device: there is no platform {platform!r} here: the plugin for {what} is not installed\n"
        f"fix: pip install {extra}, or use one of cpu:0"
    )


def test_extras_have_the_names_of_jax_extras() -> None:
    project = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (jax_range,) = (one.removeprefix("jax") for one in project["dependencies"] if "jax>" in one)
    for name, _, _ in failures._PLUGINS.values():
        assert extras[name] == [f"jax[{name}]{jax_range}"]
    assert extras["cuda12"] == [f"jax[cuda12]{jax_range}"]


def test_other_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert message(monkeypatch, "gpu", chosen="cpu").splitlines() == [
        "device: there is no platform 'gpu' here: only cpu is enabled in jax",
        "fix: set JAX_PLATFORMS=cuda,cpu, or use one of cpu:0",
    ]
    alone = message(monkeypatch, None, chosen="tpu", known="", report="No libtpu. (set JAX_PL")
    assert alone == (
        "device: jax can't start on the enabled platforms (tpu): No libtpu. (set "
        'JAX_PL\nfix: pip install "xlabuilder[tpu]", or unset JAX_PLATFORMS in the environment'
    )
    monkeypatch.delenv("JAX_PLATFORMS")
    assert (
        "fix: call jax.config.update(\"jax_platforms\", 'tpu,cpu') before other calls, or"
    ) in message(monkeypatch, "tpu", chosen="cpu")
    actual = message(monkeypatch, "cuda", installed=("jax_cuda12_plugin",))
    assert "plugin for GPUs of NVIDIA is installed, but finds no device\nfix: read the" in actual
    # The plugin is requested but not installed.
    assert "is not installed" in message(monkeypatch, "gpu", chosen="cuda,cpu")
    assert message(monkeypatch, "abacus").endswith("'abacus' here\nfix: use one of cpu:0")
    alone = message(monkeypatch, None, chosen="tpu", known="", report="No libtpu.")
    assert alone.endswith(
        'fix: pip install "xlabuilder[tpu]", or call jax.config.update("jax_platforms", None) '
        "before other calls"
    )


@pytest.mark.parametrize("kind", [AssertionError, RuntimeError])
def test_jax_without_any_backend(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """jax fails an assertion if only cuda is enabled and not installed."""

    def none(**more: Any) -> Any:
        raise kind

    monkeypatch.setattr(devices.jax, "local_devices", none)
    with pytest.raises(lowering.DeviceError, match="jax can't start"):
        lowering.device()
    with pytest.raises(lowering.DeviceError, match="jax can't start"):
        lowering.device("gpu:1")
    computation = xb.computation(xb.f32[2])(lambda x: x + x)
    with pytest.raises(lowering.DeviceError, match="jax can't start"):
        lowering.compile(computation)


def test_the_default_device_of_jax() -> None:
    third = lowering.device("cpu:2")
    with jax.default_device(third):
        assert lowering.device() is third
        assert lowering.device_put(jax.numpy.ones(2)).devices() == {third}
