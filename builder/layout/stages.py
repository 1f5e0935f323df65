"""Decompose a layout into strided copies, with few cache misses each.

A tile splits the index of a dimension into two digits: the number of the tile, and the index in the
tile. The next level of tiles splits digits again. Each digit is the index of one physical dimension
of the buffer, and the index in the array is the sum of digit * weight. So each digit has a stride
in the array and a stride in the buffer, and packing is a copy between arrays with different
strides. If tiles do not divide a size, complete tiles and edges are copied as separate blocks.

Digits cannot express the combination of dimensions that have been tiled or padded. A stage ends
before such a combination, and the next stage treats the result of the stage as an array.

Tiled layout: Tiling as pad-reshape-transpose; Repeated tiling; Combining dimensions using tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from builder.types.physical import Physical

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

_MAX_ROW_BYTES: Final = 4096
"""The size of the longest row that is copied as one element."""

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
    if len(axes) > 1 and axes[-1][1:] == (to.itemsize, to.itemsize):
        # Rows of complete cache lines: their order does not matter, and NumPy copies a row that is
        # one element without an inner loop.
        *others, (size, _, _) = axes
        row_bytes = size * to.itemsize
        if _CACHE_LINE <= row_bytes <= _MAX_ROW_BYTES:
            counts, row_strides, source_row_strides = zip(*others, strict=True)
            row, source_row = (
                as_strided(array, (size,), (to.itemsize,)).view(f"V{row_bytes}")
                for array in (to, source)
            )
            rows = as_strided(row, counts, row_strides)
            np.copyto(rows, as_strided(source_row, counts, source_row_strides))
            return
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
            if inner == len(shape) - 1:  # the usual case; `ndindex` takes as long as a small block
                np.copyto(target, origin)
                continue
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


Range = tuple[int, int]
"""A range of values of a digit: the first value, and the number of values."""


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of the index of an array dimension.

    Attributes:
        axis: the physical dimension that the digit indexes.
        weight: the factor of the digit: the index is the sum of digit * weight.
        size: the size of the physical dimension.
    """

    axis: int
    weight: int
    size: int


@dataclass(frozen=True, slots=True)
class Block:
    """The elements whose digit lies in a given range, for each physical dimension.

    Attributes:
        ranges: the range of digits for each physical dimension.
        offsets: the index in the array of the first element, for each dimension.
    """

    ranges: tuple[Range, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of packing, in which no tiled or padded dimensions are combined.

    Attributes:
        sizes: the array's sizes, without padding, the most major dimension first; combined
            dimensions are one dimension here.
        digits: for each dimension of the array, the digits of its index, the most significant
            first.
        dimensions: the sizes of the result, the most major first. Sizes of 1 are omitted, because a
            layout may have more dimensions of size 1 than NumPy supports.
        blocks: the blocks that contain the array's elements.
        paddings: the blocks of padding, each as a range of digits for each dimension of the result;
            these blocks may overlap.
    """

    sizes: tuple[int, ...]
    digits: tuple[tuple[Digit, ...], ...]
    dimensions: tuple[int, ...]
    blocks: tuple[Block, ...]
    paddings: tuple[tuple[Range, ...], ...]

    @property
    def size(self) -> int:
        """The number of elements of the stage's result, including padding."""
        return prod(self.dimensions)


class _Axis:
    """A physical dimension of a stage under construction, compared by identity."""

    __slots__ = ("size", "weight")

    def __init__(self, weight: int, size: int) -> None:
        self.weight = weight
        self.size = size


class _StageBuilder:
    """A stage under construction.

    Attributes:
        sizes: the array's sizes.
        axes: the physical dimensions, the most major first.
        digit_axes: for each dimension of the array the axes of its digits, the most significant
            first. The weights need not be descending: a tile may be larger than the tile that it
            divides.
    """

    def __init__(self, sizes: tuple[int, ...], padded: tuple[int, ...]) -> None:
        self.sizes = list(sizes)
        self.axes = [_Axis(1, size) for size in padded]
        self.digit_axes = [[axis] for axis in self.axes]

    def can_combine(self, first: int, count: int) -> bool:
        """Return whether `count` axes from `first` are untiled, and all but the first unpadded."""
        group = self.axes[first : first + count]
        if not all([axis] in self.digit_axes for axis in group):
            return False
        sizes = [self.sizes[self.digit_axes.index([axis])] for axis in group]
        return all(n == axis.size for n, axis in zip(sizes[1:], group[1:], strict=True))

    def combine(self, first: int, count: int) -> None:
        group = self.axes[first : first + count]
        combined = _Axis(1, prod(axis.size for axis in group))
        dimension = self.digit_axes.index([group[0]])
        end = dimension + count
        self.sizes[dimension:end] = [prod(self.sizes[dimension:end])]
        self.digit_axes[dimension:end] = [[combined]]
        self.axes[first : first + count] = [combined]

    def tile(self, untiled: int, tile: tuple[int, ...]) -> None:
        outer, inner = [], []
        for axis, size in zip(self.axes[untiled:], tile, strict=True):
            outer.append(_Axis(axis.weight * size, -(-axis.size // size)))
            inner.append(_Axis(axis.weight, size))
            for axes in self.digit_axes:
                if axis in axes:
                    at = axes.index(axis)
                    axes[at : at + 1] = [outer[-1], inner[-1]]
        self.axes[untiled:] = [*outer, *inner]

    def build(self) -> Stage:
        axes = [axis for axis in self.axes if axis.size != 1]
        numbers = {axis: number for number, axis in enumerate(axes)}
        all_digits = [
            tuple(Digit(numbers[a], a.weight, a.size) for a in axes_of_one if a in numbers)
            for axes_of_one in self.digit_axes
        ]
        pairs = [(n, d) for n, d in zip(self.sizes, all_digits, strict=True) if d or n != 1]
        sizes, digits = tuple(n for n, _ in pairs), tuple(d for _, d in pairs)
        dimensions = tuple(axis.size for axis in axes)
        # Computed here, where they are cached: for small arrays they take longer than the copy.
        blocks = tuple(_blocks(sizes, digits, len(dimensions)))
        paddings = tuple(_paddings(sizes, digits, dimensions))
        return Stage(sizes, digits, dimensions, blocks, paddings)


@lru_cache(maxsize=1024)
def stages(sizes: tuple[int, ...], form: Physical) -> tuple[Stage, ...]:
    """Return the stages that transform an array into the buffer, in order.

    Args:
        sizes: the sizes of the array, the most major dimension first; none is 0.
        form: the physical form of the array.
    """
    result: list[Stage] = []
    # A scalar is tiled as an array of one element.
    is_tiled_scalar = form.tilings and not sizes
    stage = _StageBuilder((1,), (1,)) if is_tiled_scalar else _StageBuilder(sizes, form.ordered)
    for tiling in form.tilings:
        counts = [len(group) for group in tiling.groups]
        firsts = itertools.accumulate(counts, initial=0)
        groups = [(first, n) for first, n in zip(firsts, counts, strict=False) if n > 1]
        if not all(stage.can_combine(first, count) for first, count in groups):
            result.append(stage.build())
            stage = _StageBuilder(tiling.before, tiling.before)
        for first, count in reversed(groups):
            stage.combine(first, count)
        stage.tile(tiling.untiled, tiling.tile)
    return (*result, stage.build())


def _blocks(
    sizes: tuple[int, ...], all_digits: tuple[tuple[Digit, ...], ...], rank: int
) -> Iterator[Block]:
    insides = [
        [ranges for ranges, is_inside in _split(size, digits) if is_inside]
        for size, digits in zip(sizes, all_digits, strict=True)
    ]
    for choice in itertools.product(*insides):
        ranges: list[Range] = [(0, 1)] * rank
        offsets = []
        for digits, digit_ranges in zip(all_digits, choice, strict=True):
            offset = 0
            for digit, digit_range in zip(digits, digit_ranges, strict=True):
                ranges[digit.axis] = digit_range
                offset += digit.weight * digit_range[0]
            offsets.append(offset)
        yield Block(tuple(ranges), tuple(offsets))


def _paddings(
    sizes: tuple[int, ...], all_digits: tuple[tuple[Digit, ...], ...], dimensions: tuple[int, ...]
) -> Iterator[tuple[Range, ...]]:
    for size, digits in zip(sizes, all_digits, strict=True):
        for digit_ranges, is_inside in _split(size, digits):
            if is_inside:
                continue
            ranges = [(0, n) for n in dimensions]
            for digit, digit_range in zip(digits, digit_ranges, strict=True):
                ranges[digit.axis] = digit_range
            yield tuple(ranges)


def _split(size: int, digits: tuple[Digit, ...]) -> Iterator[tuple[tuple[Range, ...], bool]]:
    """Yield a range for each digit, and whether the indices in these ranges are below `size`.

    All yielded ranges together cover all values of the digits.
    """
    if not digits:
        if size:
            yield (), True
        return
    full, rest = divmod(size, digits[0].weight)
    if full:
        for ranges, is_inside in _split(digits[0].weight, digits[1:]):
            yield ((0, full), *ranges), is_inside
    if rest:
        for ranges, is_inside in _split(rest, digits[1:]):
            yield ((full, 1), *ranges), is_inside
    used = full + (rest > 0)
    if used < digits[0].size:
        others = [(0, digit.size) for digit in digits[1:]]
        yield ((used, digits[0].size - used), *others), False
