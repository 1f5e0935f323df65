"""Devices of a topology: XLA compiles for them although they are not present."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from lowering.jaxlib_api.native import jax_extension


def is_absent(device: Any) -> bool:
    """Return whether a device belongs to a topology and is not present."""
    return isinstance(device.client, jax_extension.CompileOnlyPyClient)


def devices_of_topology(device: Any) -> list[Any]:
    """Return all devices of the topology of an absent device, in order."""
    devices: list[Any] = device.client.devices()
    return devices


def topology_devices(platform: str, name: str, settings: Mapping[str, str]) -> list[Any]:
    """Return the devices of a topology, which need not be present, from a platform's plugin.

    Args:
        platform: "tpu", "cuda", "rocm".
        name: the plugin's name of the topology: "v5e:2x2", "1x1x8".
        settings: further options of the plugin.

    Raises:
        NotImplementedError: the plugin is not installed, or does not support topologies.
        ValueError: the plugin refuses the topology; the text is the plugin's report.
    """
    topologies: Any = importlib.import_module("jax.experimental.topologies")
    try:
        devices: list[Any] = topologies.get_topology_desc(name, platform, **settings).devices
    except NotImplementedError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None
    return devices
