"""Arrays that are cut up over devices: what XLA says of them as jax says it, and how they are made.

XLA says which part of an array each partition has: a tiling. jax names the axes of a mesh of
devices, and cuts each dimension along some of them. A tiling can be said so over a mesh that has
the devices in the order of the partitions, unless it deals the parts out in another order; then
the mesh has them in the order of the parts, and arrays are passed part by part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from builder.sharding.tiling import Tiling
from builder.types.shape import ArrayShape
from lowering.jaxlib_api import jax_arrays
from lowering.pjrt.devices import Target, in_order, is_local, sharding_of
from lowering.sharding.partitioning import Partitioning, partition_counts

__all__ = ["ShardedTarget", "is_equivalent", "named_shardings"]

_SPEC: Final[Any] = PartitionSpec


class ShardedTarget(Target):
    """Where the arrays of one shape go that are cut up over devices.

    Attributes:
        shard: jax's description of a shard.
        in_order: whether the devices of the sharding are in the order of the partitions.
        local_devices: those of the sharding that are of this process, in its order.
    """

    __slots__ = ("_places", "in_order", "local_devices", "shard")

    def __init__(
        self, shape: ArrayShape, sharding: NamedSharding, devices: Sequence[jax.Device]
    ) -> None:
        super().__init__(shape, sharding)
        dimensions = shape.dimensions
        self.shard: Final = jax.core.ShapedArray(sharding.shard_shape(dimensions), self.dtype)
        self.in_order: Final = devices_of(sharding) == tuple(devices)
        places = sharding.addressable_devices_indices_map(dimensions)
        self.local_devices: Final = tuple(filter(is_local, devices_of(sharding)))
        # The dots keep an array of no dimensions an array.
        self._places: list[tuple[jax.Device, Any]] = [
            (one, (*(places[one] or ()), ...)) for one in self.local_devices
        ]

    def _first_device(self) -> jax.Device:
        return next(filter(is_local, devices_of(self.sharding)))

    def _described(self) -> Any:
        # As jax describes its own arrays, so that both are equal.
        spec = _SPEC(*[None] * len(self.dimensions))
        mesh: Any = self.sharding
        where = NamedSharding(mesh.mesh.abstract_mesh, spec)
        return jax.core.ShapedArray(self.dimensions, self.dtype, sharding=where)

    def _put(self, array: np.ndarray[Any, Any]) -> jax.Array:
        # One by one: given one part for several devices, jaxlib's function for all of them fails.
        shards = [
            jax_arrays.put(in_order(array[place]), self.shard, sharding_of(device), device)
            for device, place in self._places
        ]
        made: jax.Array = jax_arrays.assemble(self.aval, self.sharding, shards)
        return made


def devices_of(sharding: Any) -> tuple[jax.Device, ...]:
    """The devices of a NamedSharding, in the order of its mesh."""
    return tuple(sharding.mesh.devices.flat)


@lru_cache(maxsize=1024)
def is_equivalent(given: Sharding, wanted: Sharding, rank: int) -> bool:
    """Whether arrays of so many dimensions lie in the same way, devices in the same order."""
    return given.is_equivalent_to(wanted, rank)


def named_shardings(
    tilings: Sequence[Tiling],
    ranks: Sequence[int],
    devices: Sequence[jax.Device],
    partitioning: Partitioning,
) -> list[NamedSharding]:
    """Tilings as jax says them.

    A program whose module has a mesh gets this mesh. Of others it is made of the tilings: one
    for all of them where that can be, with axes "d0", "d1", and so on.

    Args:
        tilings: each whole, or cut into tiles of all partitions.
        ranks: the number of dimensions of each array.
        devices: those of the partitions, in order.
        partitioning: as the module has it.
    """
    count = len(devices)
    places = [_places(tiling, rank, count) for tiling, rank in zip(tilings, ranks, strict=True)]
    order = list(partitioning.device_order) or list(range(count))
    axes = partitioning.axes or _common_axes(places, count)
    named = _mesh(devices, order, axes)
    made = []
    for tiling, place in zip(tilings, places, strict=True):
        spec = _spec(place[order], axes)
        if spec is not None:
            made.append(NamedSharding(named, spec))
            continue
        own = _common_axes([place], count)
        spec = _spec(place, own)
        if spec is not None:
            made.append(NamedSharding(_mesh(devices, range(count), own), spec))
        else:
            made.append(_part_by_part(tiling, devices))
    return made


_Axes = tuple[tuple[str, int], ...]


def _mesh(devices: Sequence[jax.Device], order: Iterable[int], axes: _Axes) -> Mesh:
    there = np.array([devices[number] for number in order], dtype=object)
    sizes = [size for _, size in axes]
    return Mesh(there.reshape(sizes), tuple(name for name, _ in axes))


def _places(tiling: Tiling, rank: int, count: int) -> np.ndarray[Any, Any]:
    """For each partition which part it has along each dimension, and which copy of it."""
    places = np.zeros((count, rank + 1), np.int64)
    counts = partition_counts(tiling)
    if tiling.kind != "tiled" or counts is None:
        places[:, rank] = range(count)
        return places
    sizes = (*counts, count // math.prod(counts))
    places[list(tiling.devices)] = np.indices(sizes).reshape(rank + 1, count).T
    return places


def _common_axes(places: Sequence[np.ndarray[Any, Any]], count: int) -> _Axes:
    """Axes along which all arrays can be cut; of the first that is cut, where there are none."""
    borders = [_borders(place) for place in places]
    strides = sorted({1, count}.union(*borders))
    if any(high % low for low, high in pairwise(strides)):
        strides = sorted({1, count}.union(*[one for one in borders if one][:1]))
    pairs = list(pairwise(strides))
    sizes = [high // low for low, high in reversed(pairs)]
    return tuple((f"d{number}", size) for number, size in enumerate(sizes))


def _borders(place: np.ndarray[Any, Any]) -> set[int]:
    """The distances between partitions at which they have another part; none if there is no rule.

    Of eight partitions of which the first four have one half of an array: 4 and 8.
    """
    count, rank = len(place), place.shape[1] - 1
    found: set[int] = set()
    stride = 1
    while stride < count:
        step = place[stride] - place[0]
        size = 1
        while size * stride < count and np.array_equal(
            place[size * stride], place[0] + size * step
        ):
            size += 1
        if np.count_nonzero(step) != 1 or count % (size * stride):
            return set()
        if not step[rank]:
            found |= {stride, size * stride}
        stride *= size
    return found


def _spec(place: np.ndarray[Any, Any], axes: _Axes) -> Any:
    """Along which axes each dimension is cut; None if it can't be said.

    Args:
        place: the parts of the partitions, in the order of the mesh.
        axes: of the mesh.
    """
    count, rank = len(place), place.shape[1] - 1
    cut: list[list[tuple[int, str]]] = [[] for _ in range(rank)]
    rebuilt = np.zeros((count, rank), np.int64)
    stride = count
    for name, size in axes:
        stride //= size
        if size == 1:
            continue
        step = place[stride, :rank] - place[0, :rank]
        moved = np.flatnonzero(step)
        if len(moved) > 1:
            return None
        rebuilt += np.outer(np.arange(count) // stride % size, step)
        for dimension in moved:
            cut[dimension].append((int(step[dimension]), name))
    if not np.array_equal(rebuilt, place[:, :rank]):
        return None
    sizes = dict(axes)
    entries: list[str | tuple[str, ...] | None] = []
    for one in cut:
        # The axis that is said first is the one along which the parts are farthest apart.
        names = [name for _, name in sorted(one, reverse=True)]
        widths = [width for width, _ in sorted(one, reverse=True)]
        if widths != [math.prod(sizes[n] for n in names[i + 1 :]) for i in range(len(names))]:
            return None
        entries.append(names[0] if len(names) == 1 else tuple(names) or None)
    while entries and entries[-1] is None:
        entries.pop()
    return _SPEC(*entries)


def _part_by_part(tiling: Tiling, devices: Sequence[jax.Device]) -> NamedSharding:
    """Over a mesh of the array's own, with the devices in the order of its parts."""
    counts = partition_counts(tiling) or ()
    sizes = (*counts, len(devices) // math.prod(counts))
    axes = tuple((f"d{number}", size) for number, size in enumerate(sizes))
    entries = [f"d{number}" if size > 1 else None for number, size in enumerate(counts)]
    return NamedSharding(_mesh(devices, tiling.devices, axes), _SPEC(*entries))
