"""Select the class of a compiled program: for one device, replicas, partitions or a topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from lowering.jaxlib_api import topologies
from lowering.running.executable import Executable
from lowering.running.partitioned import PartitionedExecutable
from lowering.running.program import ProgramInfo
from lowering.running.replicated import ReplicatedExecutable
from lowering.running.topology import UnloadedExecutable


def executable_of(loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> Any:
    """Return the executable of a compiled program.

    Args:
        loaded: jaxlib's LoadedExecutable, or jaxlib's Executable if `devices` are those of a
            topology without hardware.
        info: the program's metadata.
        devices: the devices that it was compiled for.
    """
    if topologies.is_absent(devices[0]):
        return UnloadedExecutable(loaded, info, devices)
    if info.partitioning is not None:
        return PartitionedExecutable(loaded, info, devices)
    if len(devices) == 1 and not info.in_rows:
        return Executable(loaded, info, devices)
    return ReplicatedExecutable(loaded, info, devices)
