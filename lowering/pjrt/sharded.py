"""Copy arrays to several devices: what arrays with a sharding have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from builder.types.shape import ArrayShape
from lowering.jaxlib_api import jax_arrays
from lowering.jaxlib_api.lazy_jax import jax
from lowering.pjrt.devices import Target, in_order, is_local, sharding_of

_SPEC: Final[Any] = PartitionSpec

_SMALL_BYTES: Final = 1 << 14
"""The largest shard for which a copy takes less time than a call of jaxlib."""


class ShardedTarget(Target):
    """The shape and the sharding of arrays on several devices.

    Nothing here is computed for each device before an array is copied. A program has many arrays
    with few different shardings, so what depends on the devices is computed once for a sharding.

    Attributes:
        shard: the aval of a shard.
    """

    def __init__(self, shape: ArrayShape, sharding: Sharding) -> None:
        super().__init__(shape, sharding)
        shard = sharding.shard_shape(shape.dimensions)
        self.shard: Final = jax.core.ShapedArray(shard, self.dtype)

    @property
    def devices(self) -> tuple[jax.Device, ...]:
        """The devices, in the order of the sharding."""
        return _devices_of(self.sharding)

    @property
    def local_devices(self) -> tuple[jax.Device, ...]:
        """The devices of this process, in the order of the sharding."""
        return _local_devices_of(self.sharding)

    def _first_device(self) -> jax.Device:
        return _local_devices_of(self.sharding)[0]

    def _aval(self) -> Any:
        if not isinstance(self.sharding, NamedSharding):
            return super()._aval()
        # Equal to the avals of jax's own arrays.
        spec = _SPEC(*[None] * len(self.dimensions))
        where = NamedSharding(self.sharding.mesh.abstract_mesh, spec)
        return jax.core.ShapedArray(self.dimensions, self.dtype, sharding=where)

    def _put(self, array: np.ndarray[Any, Any]) -> jax.Array:
        indices, numbers = _shards_of(self.sharding, self.dimensions)
        # A shard that several devices have is made contiguous once.
        shards = [in_order(array[index]) for index in indices]
        copies = [shards[number] for number in numbers]
        devices = self.local_devices
        # jaxlib's function for several devices fails if two shards are the same memory.
        is_repeated = len({shard.ctypes.data for shard in shards}) < len(devices)
        if is_repeated and 0 < copies[0].nbytes <= _SMALL_BYTES:
            copies, is_repeated = [copy.copy() for copy in copies], False
        if not is_repeated:
            put: jax.Array = jax_arrays.put_shards(copies, self.aval, self.sharding, devices)
            return put
        placed = [
            jax_arrays.put(copy, self.shard, sharding_of(device), device)
            for copy, device in zip(copies, devices, strict=True)
        ]
        assembled: jax.Array = jax_arrays.assemble(self.aval, self.sharding, placed)
        return assembled


@lru_cache(maxsize=1024)
def _devices_of(sharding: Any) -> tuple[jax.Device, ...]:
    """Return the devices of a sharding, in its order."""
    if isinstance(sharding, NamedSharding):
        return tuple(sharding.mesh.devices.flat)
    return tuple(jax_arrays.device_assignment(sharding))


@lru_cache(maxsize=1024)
def _local_devices_of(sharding: Any) -> tuple[jax.Device, ...]:
    return tuple(filter(is_local, _devices_of(sharding)))


@lru_cache(maxsize=1024)
def _shards_of(sharding: Any, sizes: tuple[int, ...]) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the different shards of an array, and which of them each local device has.

    Returns:
        The index of each shard, and the number of its shard for each device of this process.
    """
    by_device = sharding.addressable_devices_indices_map(sizes)
    known: dict[Any, int] = {}
    indices: list[Any] = []
    numbers: list[int] = []
    for device in _local_devices_of(sharding):
        index = by_device[device] or ()
        key = tuple((part.start, part.stop) for part in index)
        if key not in known:
            known[key] = len(indices)
            # The ellipsis makes the shard of an array of rank 0 an array.
            indices.append((*index, ...))
        numbers.append(known[key])
    return indices, numbers
