"""Versions of jaxlib, of StableHLO and of a platform's compiler."""

from __future__ import annotations

import importlib
from typing import Any

from jaxlib.mlir.dialects import stablehlo

__all__ = [
    "compatible_version",
    "current_version",
    "jaxlib_version",
    "minimum_version",
    "platform_version",
]


def current_version() -> str:
    """The newest StableHLO version that this jaxlib writes ("1.17.0" in 0.10.2)."""
    version: str = stablehlo.get_current_version()
    return version


def minimum_version() -> str:
    """The oldest StableHLO version that this jaxlib writes and reads ("0.9.0")."""
    version: str = stablehlo.get_minimum_version()
    return version


def compatible_version(weeks: int) -> str:
    """The StableHLO version that jaxlibs of so many weeks ago read, 4 or 12 of them."""
    asked = stablehlo.StablehloCompatibilityRequirement
    requirement = {4: asked.WEEK_4, 12: asked.WEEK_12}[weeks]
    version: str = stablehlo.get_version_from_compatibility_requirement(requirement)
    return version


def jaxlib_version() -> str:
    """The version of jaxlib: "0.10.2"."""
    version: str = importlib.import_module("jaxlib.version").__version__
    return version


def platform_version(device: Any) -> str:
    """What the software says of its version that compiles for a device: of CUDA, of libtpu."""
    version: str = device.client.platform_version
    return version
