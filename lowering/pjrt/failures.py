"""Errors of devices: no memory, a failed program, a platform that is not available."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import re
from typing import Any, Final

from builder.errors import brief, error_of
from builder.inspection.rendering import bytes_text
from builder.types import primitive_type as pt
from lowering.errors import DeviceError, ExecutionError
from lowering.jaxlib_api.lazy_jax import jax

_REQUEST: Final = re.compile(r"(?:allocating|allocate) (\d+) ?bytes?", re.IGNORECASE)
_CODES: Final = re.compile(r"^(?:[A-Z_]+: )+")


@functools.cache
def host_memory() -> float:
    """Return the size of the host's memory in bytes; infinity if it is not reported."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error reports that memory ran out, on a device or on the host."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def requested_bytes_text(error: BaseException) -> str:
    """Return the size of the failed allocation as ": 3.0 GiB at once"; "" if not reported."""
    match = _REQUEST.search(str(error))
    return "" if match is None else f": {bytes_text(int(match[1]))} at once"


def without_status_code(report: str) -> str:
    """Return XLA's report without the status codes at its start, such as INVALID_ARGUMENT."""
    return _CODES.sub("", report.strip())


def transfer_error(
    dtype: Any, sizes: tuple[int, ...], sharding: Any, error: BaseException
) -> ExecutionError:
    """Return the error for an array that does not fit a device's memory.

    Args:
        dtype, sizes: the dtype and the sizes of the array.
        sharding: the jax sharding of the array on the devices.
        error: the error that jax raised.
    """
    size = bytes_text(dtype.itemsize * math.prod(sizes))
    devices = sorted(sharding.device_set, key=lambda device: int(device.id))
    shape = f"{pt.from_dtype(dtype)}[{','.join(map(str, sizes))}]"
    on = str(devices[0]) if len(devices) == 1 else f"{len(devices)} devices"
    rule = f"there is no memory for {shape} ({size}) on {on}"
    fix = "delete arrays that are no longer needed (array.delete()), or copy a smaller array"
    return error_of(ExecutionError, "device_put", rule, fix, detail=str(error))


_CUDA: Final = ("cuda13", "GPUs of NVIDIA", ("jax_cuda13_plugin", "jax_cuda12_plugin"))
_PLUGINS: Final = {
    "gpu": _CUDA,
    "cuda": _CUDA,
    "rocm": ("rocm7-local", "GPUs of AMD", ("jax_rocm7_plugin",)),
    "tpu": ("tpu", "TPUs", ("libtpu",)),
}
"""For each platform: the extra to install (`xlabuilder[cuda13]`), the kind of devices, and the
packages with jax's plugin. One of these packages is sufficient."""


_PLUGIN_FAILED: Final = re.compile(r"Unable to initialize backend '[^']*': (.*?)(?: \(you may|$)")


def missing_platform(op: str, platform: str | None, known: str, report: str) -> DeviceError:
    """Return the error for a platform without devices.

    Args:
        op: the function that the user called.
        platform: the platform that the user passed; None for jax's default platform.
        known: the names of the available devices, for the message; empty if there are none.
        report: the text of jax's error.
    """
    error = functools.partial(error_of, DeviceError, op, detail=report)
    configured: Any = jax.config
    enabled = configured.jax_platforms
    if platform is None or not known:
        # jax can't start at all.
        first = report.strip().partition("\n")[0].partition(" (set JAX_PLATFORMS=")[0]
        first = first or "it finds no device"
        if not enabled:
            return error(f"jax can't start: {first}", "read the error's `detail`")
        reason = f"jax can't start on the enabled platforms ({enabled}): {first}"
        return error(reason, f"{_install(enabled)}{_enable(None)}")
    problem = f"there is no platform {brief(platform)} here"
    if platform not in _PLUGINS:
        failed = _PLUGIN_FAILED.search(report)
        if failed is not None:
            return error(f"the plugin of {platform!r} can't start: {failed[1]}", f"use {known}")
        return error(problem, f"use one of {known}")
    _, devices, packages = _PLUGINS[platform]
    family = {"gpu", "cuda", "rocm"} if platform == "gpu" else {platform, "gpu"}
    if enabled and not family & set(enabled.split(",")):
        name = "cuda" if platform == "gpu" else platform
        problem += f": only {enabled} is enabled in jax"
        return error(problem, f"{_enable(f'{name},{enabled}')}, or use one of {known}")
    if any(map(importlib.util.find_spec, packages)):
        driver = ", check the driver with nvidia-smi" if "NVIDIA" in devices else ""
        problem += f": the plugin for {devices} is installed, but finds no device"
        return error(problem, f"read the error's `detail`{driver}, or use one of {known}")
    problem += f": the plugin for {devices} is not installed"
    return error(problem, f"{_install(platform)}use one of {known}")


def _enable(platforms: str | None) -> str:
    """Return a fix: how to enable `platforms` in jax; None for all platforms."""
    if "JAX_PLATFORMS" not in os.environ:
        return f'call jax.config.update("jax_platforms", {platforms!r}) before other calls'
    if platforms is None:
        return "unset JAX_PLATFORMS in the environment"
    return f"set JAX_PLATFORMS={platforms}"


def _install(platforms: str) -> str:
    """Return the start of a fix: the command that installs the plugin of a platform.

    Args:
        platforms: names of platforms, separated by commas; the first one in `_PLUGINS` is used.

    Returns:
        Text that ends in ", or "; empty if no platform is in `_PLUGINS`.
    """
    for platform in platforms.split(","):
        if platform in _PLUGINS:
            older = " (cuda12 for drivers before 580)" if _PLUGINS[platform] is _CUDA else ""
            return f"{install_command(platform)}{older}, or "
    return ""


def install_command(platform: str) -> str:
    """Return the command that installs the plugin of a platform: "gpu", "cuda", "rocm" or "tpu"."""
    return f'pip install "xlabuilder[{_PLUGINS[platform][0]}]"'
