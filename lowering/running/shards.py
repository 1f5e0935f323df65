"""Convert XLA's tilings to jax shardings.

An XLA tiling assigns a part of an array to each partition. A jax NamedSharding names the axes of a
mesh of devices, and splits each dimension along some axes. Most tilings can be expressed over a
mesh of the devices in the order of the partitions. For a tiling with another order of the parts,
the mesh has the devices in the order of the parts, and arrays are passed shard by shard.
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
from lowering.sharding.partitioning import Partitioning, partition_counts

_SPEC: Final[Any] = PartitionSpec


@lru_cache(maxsize=1024)
def is_equivalent(sharding: Sharding, expected: Sharding, rank: int) -> bool:
    """Return whether two shardings put the same parts of an array of this rank on each device."""
    return sharding.memory_kind == expected.memory_kind and sharding.is_equivalent_to(
        expected, rank
    )


_Axes = tuple[tuple[str, int], ...]


def named_shardings(
    tilings: Sequence[Tiling],
    ranks: Sequence[int],
    devices: Sequence[jax.Device],
    partitioning: Partitioning,
) -> list[NamedSharding]:
    """Convert the tilings of arrays to jax NamedShardings.

    If the module has a mesh, the shardings use this mesh. Otherwise a mesh with axes "d0", "d1" and
    so on is derived from the tilings; all tilings share one mesh if possible.

    Args:
        tilings: the tiling of each array, replicated or split into tiles over all partitions.
        ranks: the rank of each array.
        devices: the devices of the partitions, in order.
        partitioning: the module's mesh and device order.
    """
    count = len(devices)
    # Many arrays have few different tilings. Each is converted once.
    keys = [(tiling.text, rank) for tiling, rank in zip(tilings, ranks, strict=True)]
    different = dict(zip(keys, tilings, strict=True))
    all_parts = {key: _parts(tiling, key[1], count) for key, tiling in different.items()}
    order = list(partitioning.device_order) or list(range(count))
    axes = partitioning.axes or _common_axes(list(all_parts.values()), count)
    mesh = _mesh(devices, order, axes)
    shardings = {}
    for key, parts in all_parts.items():
        spec = spec_of_parts(parts[order], axes)
        if spec is not None:
            shardings[key] = NamedSharding(mesh, spec)
            continue
        own_axes = _common_axes([parts], count)
        spec = spec_of_parts(parts, own_axes)
        if spec is not None:
            shardings[key] = NamedSharding(_mesh(devices, range(count), own_axes), spec)
        else:
            shardings[key] = _in_order_of_parts(different[key], devices)
    return [shardings[key] for key in keys]


def _mesh(devices: Sequence[jax.Device], order: Iterable[int], axes: _Axes) -> Mesh:
    ordered = np.array([devices[number] for number in order], dtype=object)
    return Mesh(ordered.reshape([size for _, size in axes]), tuple(name for name, _ in axes))


def _numbered_axes(sizes: Iterable[int]) -> _Axes:
    return tuple((f"d{number}", size) for number, size in enumerate(sizes))


def _parts(tiling: Tiling, rank: int, count: int) -> np.ndarray[Any, Any]:
    """Return an array with a row for each partition: which part of an array the partition has.

    The row contains the part's index along each dimension, and the number of the copy.
    """
    parts = np.zeros((count, rank + 1), np.int64)
    counts = partition_counts(tiling)
    if tiling.kind != "tiled" or counts is None:
        parts[:, rank] = range(count)
        return parts
    sizes = (*counts, count // math.prod(counts))
    parts[list(tiling.devices)] = np.indices(sizes).reshape(rank + 1, count).T
    return parts


def _common_axes(all_parts: Sequence[np.ndarray[Any, Any]], count: int) -> _Axes:
    """Return axes of one mesh that can express the tilings of all arrays.

    If no such axes exist, return axes for the first array that is split.
    """
    all_strides = [_strides(parts) for parts in all_parts]
    strides = sorted({1, count}.union(*all_strides))
    if any(high % low for low, high in pairwise(strides)):
        strides = sorted(
            {1, count}.union(*[array_strides for array_strides in all_strides if array_strides][:1])
        )
    return _numbered_axes(high // low for low, high in reversed(list(pairwise(strides))))


def _strides(parts: np.ndarray[Any, Any]) -> set[int]:
    """Return the strides at which mesh axes must start and end to express an array's parts.

    A stride is a distance between partition numbers. Example: {4, 8} if the first four of eight
    partitions have one half of an array, and the last four have the other half. The set is empty if
    the parts are not at regular distances.
    """
    count, rank = len(parts), parts.shape[1] - 1
    strides: set[int] = set()
    stride = 1
    while stride < count:
        step = parts[stride] - parts[0]
        size = 1
        while size * stride < count and np.array_equal(
            parts[size * stride], parts[0] + size * step
        ):
            size += 1
        if np.count_nonzero(step) != 1 or count % (size * stride):
            return set()
        if not step[rank]:
            strides |= {stride, size * stride}
        stride *= size
    return strides


def spec_of_parts(parts: np.ndarray[Any, Any], axes: _Axes) -> Any:
    """Return the PartitionSpec of an array; None if no spec over these axes matches its parts.

    Args:
        parts: the result of `_parts`, in the order of the mesh. The last column is not used.
        axes: the axes of the mesh.
    """
    count, rank = len(parts), parts.shape[1] - 1
    split: list[list[tuple[int, str]]] = [[] for _ in range(rank)]
    rebuilt = np.zeros((count, rank), np.int64)
    stride = count
    for name, size in axes:
        stride //= size
        if size == 1:
            continue
        step = parts[stride, :rank] - parts[0, :rank]
        moved = np.flatnonzero(step)
        if len(moved) > 1:
            return None
        rebuilt += np.outer(np.arange(count) // stride % size, step)
        for dimension in moved:
            split[dimension].append((int(step[dimension]), name))
    if not np.array_equal(rebuilt, parts[:, :rank]):
        return None
    sizes = dict(axes)
    entries: list[str | tuple[str, ...] | None] = []
    for steps in split:
        # The major axis comes first: the one whose parts are farthest apart.
        steps.sort(reverse=True)
        names = [name for _, name in steps]
        expected = [math.prod(sizes[n] for n in names[i + 1 :]) for i in range(len(names))]
        if [width for width, _ in steps] != expected:
            return None
        entries.append(names[0] if len(names) == 1 else tuple(names) or None)
    while entries and entries[-1] is None:
        entries.pop()
    return _SPEC(*entries)


def _in_order_of_parts(tiling: Tiling, devices: Sequence[jax.Device]) -> NamedSharding:
    """Return a sharding over a mesh that has the devices in the order of the array's parts."""
    counts = partition_counts(tiling) or ()
    axes = _numbered_axes((*counts, len(devices) // math.prod(counts)))
    entries = [name if size > 1 else None for name, size in axes[: len(counts)]]
    return NamedSharding(_mesh(devices, tiling.devices, axes), _SPEC(*entries))
