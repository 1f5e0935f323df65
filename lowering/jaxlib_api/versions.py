"""Versions of jaxlib, of StableHLO and of a platform's compiler."""

from __future__ import annotations

import importlib
from typing import Any

from jaxlib.mlir.dialects import stablehlo


def current_version() -> str:
    """Return the newest StableHLO version that this jaxlib writes ("1.17.0" in 0.10.2)."""
    version: str = stablehlo.get_current_version()
    return version


def minimum_version() -> str:
    """Return the oldest StableHLO version that this jaxlib reads and writes ("0.9.0")."""
    version: str = stablehlo.get_minimum_version()
    return version


def compatible_version(weeks: int) -> str:
    """Return the newest StableHLO version that a jaxlib `weeks` (4 or 12) weeks old reads."""
    requirements = stablehlo.StablehloCompatibilityRequirement
    requirement = {4: requirements.WEEK_4, 12: requirements.WEEK_12}[weeks]
    version: str = stablehlo.get_version_from_compatibility_requirement(requirement)
    return version


def jaxlib_version() -> str:
    """Return the version of jaxlib: "0.10.2"."""
    version: str = importlib.import_module("jaxlib.version").__version__
    return version


def platform_version(device: Any) -> str:
    """Return the version of a device's platform software (CUDA, libtpu), as text."""
    version: str = device.client.platform_version
    return version
