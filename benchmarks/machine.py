"""The machine and the versions of a run."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

__all__ = ["accelerator", "machine", "today", "versions"]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def machine() -> dict[str, Any]:
    """Return the processor, the number of cores available, the memory and the system."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return {
        "processor": _processor(),
        "cores": cores,
        "memory_bytes": _memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def accelerator() -> str | None:
    """Return the kind of jax's default device, such as "NVIDIA H100"; None for a CPU."""
    import lowering

    device = lowering.device()
    return None if device.platform == "cpu" else str(device.device_kind)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages measured."""
    installed = {"Python": platform.python_version()}
    for name in ("jax", "jaxlib", "numpy", "xlabuilder"):
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # imported from its folder, not installed
            continue
    return installed


def today() -> str:
    """Return the date as YYYY-MM-DD."""
    return datetime.date.today().isoformat()
