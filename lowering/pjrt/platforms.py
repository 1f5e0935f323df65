"""Explain why a platform is not available, and how to install it."""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any, Final

import jax

from builder.errors import brief, error_of
from lowering.errors import DeviceError

_CUDA: Final = ("cuda13", "GPUs of NVIDIA", ("jax_cuda13_plugin", "jax_cuda12_plugin"))
_PLUGINS: Final = {
    "gpu": _CUDA,
    "cuda": _CUDA,
    "rocm": ("rocm7-local", "GPUs of AMD", ("jax_rocm7_plugin",)),
    "tpu": ("tpu", "TPUs", ("libtpu",)),
}
"""For each platform the extra of this project, the kind of devices, and the packages that the extra
installs; one of these packages is sufficient."""


def missing_platform(op: str, platform: str | None, known: str, report: str) -> DeviceError:
    """Return the error for a platform without devices.

    Args:
        op: the function that the user called.
        platform: the platform; None for jax's default.
        known: the available devices, for messages; empty if there are none.
        report: jax's report.
    """
    error = functools.partial(error_of, DeviceError, op, detail=report)
    configured: Any = jax.config
    enabled = configured.jax_platforms
    if platform is None or not known:
        # jax can't start at all.
        first = report.strip().partition("\n")[0].partition(" (set JAX_PLATFORMS=")[0]
        first = first or "it finds no device on them"
        if not enabled:
            return error(f"jax can't start: {first}", "see the error's `detail`")
        reason = f"jax can't start on the platforms that are enabled, {enabled}: {first}"
        return error(reason, f"{_install(enabled)}unset JAX_PLATFORMS in the environment")
    problem = f"there is no platform {brief(platform)} here"
    if platform not in _PLUGINS:
        return error(problem, f"use one of {known}")
    _, devices, packages = _PLUGINS[platform]
    family = {"gpu", "cuda", "rocm"} if platform == "gpu" else {platform, "gpu"}
    if enabled and not family & set(enabled.split(",")):
        variable = "JAX_PLATFORMS" if "JAX_PLATFORMS" in os.environ else "jax_platforms"
        name = "cuda" if platform == "gpu" else platform
        problem += f": only {enabled} is enabled in jax"
        return error(problem, f"set {variable}={name},{enabled}, or use one of {known}")
    if any(map(importlib.util.find_spec, packages)):
        driver = ", and the driver (nvidia-smi)" if "NVIDIA" in devices else ""
        problem += f": the plugin for {devices} is installed, and finds none"
        return error(problem, f"see the error's `detail`{driver}, or use one of {known}")
    problem += f": the plugin for {devices} is not installed"
    return error(problem, f"{_install(platform)}use one of {known}")


def _install(platforms: str) -> str:
    """Return the beginning of a fix, which installs the plugin of the first known platform.

    The result is empty if no platform in the comma-separated list is known.
    """
    for platform in platforms.split(","):
        if platform in _PLUGINS:
            extra = _PLUGINS[platform][0]
            older = " (cuda12 for drivers before 580)" if extra == "cuda13" else ""
            return f'pip install "xlabuilder[{extra}]"{older}, or '
    return ""
