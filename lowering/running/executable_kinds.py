"""Select the class of executable for a compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from lowering.jaxlib_api import compilation
from lowering.running.executable import Executable
from lowering.running.partitioned import PartitionedExecutable
from lowering.running.program import ProgramInfo
from lowering.running.replicated import ReplicatedExecutable
from lowering.running.topology import UnloadedExecutable

LoadedExecutable = Executable | ReplicatedExecutable | PartitionedExecutable


def executable_of(loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> Any:
    """Return the executable of a compiled program.

    Its class depends on the number of devices, on the sharding, and on whether the devices belong
    to a topology.

    Args:
        loaded: jaxlib's LoadedExecutable; for devices of a topology, jaxlib's Executable.
        info: the program's metadata.
        devices: the devices that the program was compiled for.
    """
    if compilation.is_absent(devices[0]):
        return UnloadedExecutable(loaded, info, devices)
    if info.partitioning is not None:
        return PartitionedExecutable(loaded, info, devices)
    if len(devices) == 1 and not info.in_rows:
        return Executable(loaded, info, devices)
    return ReplicatedExecutable(loaded, info, devices)
