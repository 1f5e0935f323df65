"""Why a platform that was asked for is not there, and what brings it."""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Final

import jax

from builder.errors import brief
from lowering.errors import DeviceError

__all__ = ["missing_platform"]

_BRINGS: Final = {
    "gpu": ("cuda13", "GPUs of NVIDIA", ("jax_cuda13_plugin", "jax_cuda12_plugin")),
    "cuda": ("cuda13", "GPUs of NVIDIA", ("jax_cuda13_plugin", "jax_cuda12_plugin")),
    "rocm": ("rocm7-local", "GPUs of AMD", ("jax_rocm7_plugin",)),
    "tpu": ("tpu", "TPUs", ("libtpu",)),
}
"""By platform the extra of this project that brings it, what it is for, and the packages that come
with it, of which one is enough."""

_ALSO: Final = {"cuda13": " (cuda12 for drivers before 580)"}


def missing_platform(platform: str | None, known: str, report: str) -> DeviceError:
    """The error for a platform that jax has no devices of.

    Args:
        platform: what was asked for; None for those that jax prefers.
        known: the devices that there are, as text; empty if there are none at all.
        report: what jax said.
    """
    configured: Any = jax.config
    chosen = configured.jax_platforms
    if platform is None or not known:
        # jax does not start at all, on whatever platform.
        first = report.strip().partition("\n")[0].partition(" (set JAX_PLATFORMS=")[0]
        first = first or "it finds no device on them"
        reason = f"jax can't start: {first}"
        if chosen:
            reason = f"jax can't start on the platforms that it is told to use, {chosen}: {first}"
        fix = "see the error's `detail`"
        if chosen:
            fix = f"{_install(chosen)}take JAX_PLATFORMS out of the environment"
        return _error(reason, fix, report)
    asked = f"there is no platform {brief(platform)} here"
    found = _BRINGS.get(platform)
    if found is None:
        return _error(asked, f"use one of {known}", report)
    _, what, packages = found
    family = {"gpu", "cuda", "rocm"} if platform == "gpu" else {platform, "gpu"}
    if chosen and not family & set(chosen.split(",")):
        reason = f"jax is told to use {chosen} alone"
        named = "JAX_PLATFORMS" if "JAX_PLATFORMS" in os.environ else "jax_platforms"
        name = "cuda" if platform == "gpu" else platform
        return _error(
            f"{asked}: {reason}", f"{named}={name},{chosen}, or use one of {known}", report
        )
    if any(importlib.util.find_spec(one) for one in packages):
        reason = f"the plugin for {what} is installed, and finds none"
        fix = f"see the error's `detail`, and the driver (nvidia-smi), or use one of {known}"
        if "NVIDIA" not in what:
            fix = f"see the error's `detail`, or use one of {known}"
        return _error(f"{asked}: {reason}", fix, report)
    return _error(
        f"{asked}: the plugin for {what} is not installed",
        f"{_install(platform)}use one of {known}",
        report,
    )


def _install(platforms: str) -> str:
    """How to install what the first of some platforms needs; nothing where that isn't known."""
    for one in platforms.split(","):
        if one in _BRINGS:
            extra = _BRINGS[one][0]
            return f'pip install "xlabuilder[{extra}]"{_ALSO.get(extra, "")}, or '
    return ""


def _error(reason: str, fix: str, report: str) -> DeviceError:
    return DeviceError(f"device: {reason}\nfix: {fix}", detail=report)
