"""Devices of a topology, for which XLA compiles although they are not present."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from lowering.jaxlib_api.native import jax_extension

__all__ = [
    "devices_of_topology",
    "is_absent",
    "topology_devices",
]


def is_absent(device: Any) -> bool:
    """Whether a device is one of a topology: compiled for, and not there."""
    return isinstance(device.client, jax_extension.CompileOnlyPyClient)


def devices_of_topology(device: Any) -> list[Any]:
    """All devices of the topology of one that is not there, in their order."""
    found: list[Any] = device.client.devices()
    return found


def topology_devices(platform: str, name: str, settings: Mapping[str, str]) -> list[Any]:
    """The devices of a topology that need not be there, made by the plugin of a platform.

    Args:
        platform: "tpu", "cuda", "rocm".
        name: as the plugin calls it: "v5e:2x2", "1x1x8".
        settings: what the plugin is told besides.

    Raises:
        NotImplementedError: there is no plugin of that platform here, or it can't do that.
        ValueError: the plugin refuses it; the text holds its report.
    """
    topologies: Any = importlib.import_module("jax.experimental.topologies")
    try:
        made: list[Any] = topologies.get_topology_desc(name, platform, **settings).devices
    except NotImplementedError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None
    return made
