"""Copy between arrays with arbitrary strides, with few cache misses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

Array = npt.NDArray[Any]
Axis = tuple[int, int, int]
"""The size of an axis, its stride in the target, and its stride in the source, in bytes."""

_BLOCK_BYTES: Final = 1 << 19
"""The size of a block that is copied at once, so that source and target stay in a core's cache."""

_SMALL: Final = 256
"""The maximum number of elements for which planning the copy takes longer than it saves."""

_CONFLICT_STRIDE: Final = 1024
"""Addresses that are a multiple of this number of bytes apart share a few cache sets."""

_CACHE_LINE: Final = 64

_CALL_COST: Final = 1500
_LOOP_COST: Final = 15
"""The time of a NumPy call (`_CALL_COST`), and of starting an inner loop (`_LOOP_COST`).

The unit is the time in which one element is copied.
"""


def words(array: Array) -> Array:
    """View an array as unsigned integers of the same width.

    Return the array itself if NumPy has no such integers. NumPy copies integers faster than the
    types of ml_dtypes.
    """
    width = array.dtype.itemsize
    return array.view(f"u{width}") if width in (1, 2, 4, 8) else array


def strided_copy(
    to: Array,
    to_strides: Sequence[int],
    source: Array,
    source_strides: Sequence[int],
    sizes: Sequence[int],
) -> None:
    """Copy a block of elements.

    For each index i below `sizes`, the element at ``sum(i * source_strides)`` of `source` is copied
    to ``sum(i * to_strides)`` of `to`.

    Args:
        to, source: arrays with the same dtype, starting at the first element of the block.
        to_strides, source_strides: strides in bytes, one for each of `sizes`.
        sizes: the sizes of the block; none is zero.
    """
    if prod(sizes) <= _SMALL:
        np.copyto(as_strided(to, sizes, to_strides), as_strided(source, sizes, source_strides))
        return
    axes = _merged(list(zip(sizes, to_strides, source_strides, strict=True)))
    shape = [size for size, _, _ in axes]
    target = as_strided(to, shape, [stride for _, stride, _ in axes])
    origin = as_strided(source, shape, [stride for _, _, stride in axes])
    inner = _inner_axis(shape, target.itemsize)
    reach = [max(abs(stride), abs(other)) for _, stride, other in axes]
    has_conflicts = bool(axes) and _has_conflicts([stride for _, _, stride in axes], inner)
    pending = [(target, origin)]
    while pending:
        target, origin = pending.pop()
        if target.nbytes > _BLOCK_BYTES:
            # Halve the axis with the largest extent, so that blocks are compact on both sides.
            extents = [r * (size - 1) for r, size in zip(reach, target.shape, strict=True)]
            before = (slice(None),) * extents.index(max(extents))
            middle = target.shape[len(before)] // 2
            low, high = (*before, slice(middle)), (*before, slice(middle, None))
            pending += [(target[high], origin[high]), (target[low], origin[low])]
        else:
            origin = _without_conflicts(origin) if has_conflicts else origin
            for index in np.ndindex(target.shape[inner + 1 :]):
                np.copyto(target[(..., *index)], origin[(..., *index)])


def _merged(axes: list[Axis]) -> list[Axis]:
    """Sort axes by descending target stride, and merge axes contiguous in target and source."""
    merged: list[Axis] = []
    for size, to, source in sorted(axes, key=lambda axis: -abs(axis[1])):
        if size == 1:
            continue
        if merged and merged[-1][1:] == (to * size, source * size):
            merged[-1] = (merged[-1][0] * size, to, source)
        else:
            merged.append((size, to, source))
    return merged


def _inner_axis(shape: list[int], itemsize: int) -> int:
    """Return the number of the fastest axis for NumPy's inner loop.

    A Python loop iterates over the axes after the returned axis. By default NumPy's inner loop uses
    the axis with the smallest stride. If that axis is short, as in tiles of (8,128)(2,1), the
    overhead of inner loops dominates.
    """
    count = prod(shape)
    blocks = max(count * itemsize // _BLOCK_BYTES, 1)

    def cost(axis: int) -> int:
        return prod(shape[axis + 1 :]) * blocks * _CALL_COST + count // shape[axis] * _LOOP_COST

    return min(reversed(range(len(shape))), key=cost, default=-1)


def _has_conflicts(strides: list[int], inner: int) -> bool:
    """Return whether the reads of the inner loop evict cache lines that are needed again.

    An example is the transposition of an array whose sizes are powers of two.
    """
    stride = abs(strides[inner])
    return stride % _CONFLICT_STRIDE == 0 and min(map(abs, strides)) < stride


def _without_conflicts(block: Array) -> Array:
    """Return a copy of a block with strides that avoid cache conflicts."""
    order = sorted(range(block.ndim), key=lambda axis: -abs(block.strides[axis]))
    strides = [0] * block.ndim
    step, following, is_row = block.itemsize, block.itemsize, True
    for axis in reversed(order):
        if is_row and block.strides[axis] != following:
            # At the first gap of the source, the rows of the copy are a cache line further apart.
            step, is_row = step + _CACHE_LINE, False
        strides[axis] = step
        step *= block.shape[axis]
        following = block.strides[axis] * block.shape[axis]
    memory = np.empty(step // block.itemsize, block.dtype)
    copy = as_strided(memory, block.shape, strides)
    np.copyto(copy.transpose(order), block.transpose(order))
    return copy
