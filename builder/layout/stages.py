"""How a layout moves elements: each one to a sum of digits times strides.

A tile writes an index as two digits, which tile and where in it, so that after any number of tiles
each dimension of an array has become a few physical dimensions, with a digit in each: index =
sum of digit times weight. With that, the elements of the array and those of the buffer are the same
block, looked at with two sets of strides, and packing is to copy the one to the other. Where tiles
do not divide a size, a block is cut into a few: what fills whole tiles, and the edges.

What can't be said with digits is a combination of dimensions that were tiled or padded before.
There a stage ends, its result is looked at as an array of its own, and another stage begins.

Tiled layout: Tiling as pad-reshape-transpose; Repeated tiling; Combining dimensions using tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from builder.types.physical_layout import Physical

__all__ = ["Block", "Stage", "stages"]

Range = tuple[int, int]
"""Of a digit: the first value and how many there are."""


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a dimension's index.

    Attributes:
        axis: the physical dimension it is the index of.
        weight: what it counts for in the dimension's index.
        size: the size of the physical dimension.
    """

    axis: int
    weight: int
    size: int


@dataclass(frozen=True, slots=True)
class Block:
    """Elements whose digits run through ranges, independently.

    Attributes:
        ranges: for each physical dimension the range of its digit.
        offsets: for each dimension of the array the index of the block's first element.
    """

    ranges: tuple[Range, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a layout without combinations of tiled or padded dimensions.

    Attributes:
        sizes: the array's sizes, without padding, the most major dimension first; dimensions that
            are combined are one here.
        digits: for each of them the digits of its index, the one that counts most first.
        dimensions: the sizes of the result, the most major first. There are none of 1, nor
            dimensions of the array that would have no digits then: 1 may be the size of more
            dimensions than NumPy's arrays have.
        blocks: those that the array's elements make up.
        paddings: the ranges of digits that no element has. They may overlap one another.
    """

    sizes: tuple[int, ...]
    digits: tuple[tuple[Digit, ...], ...]
    dimensions: tuple[int, ...]
    blocks: tuple[Block, ...]
    paddings: tuple[tuple[Range, ...], ...]

    @property
    def size(self) -> int:
        """The number of elements of the result, padding included."""
        return prod(self.dimensions)


class _Axis:
    """A physical dimension of a stage that is being made: its digit's weight, its size."""

    __slots__ = ("size", "weight")

    def __init__(self, weight: int, size: int) -> None:
        self.weight = weight
        self.size = size


class _Open:
    """A stage that is being made.

    Attributes:
        sizes: the array's sizes.
        axes: the physical dimensions, in their order in memory.
        of: for each dimension of the array those of `axes` that its digits are in, the one that
            counts most first. Not always that of the greatest weight: a tile may be larger than
            the tile that it divides.
    """

    def __init__(self, sizes: tuple[int, ...], padded: tuple[int, ...]) -> None:
        self.sizes = list(sizes)
        self.axes = [_Axis(1, size) for size in padded]
        self.of = [[axis] for axis in self.axes]

    def can_combine(self, first: int, count: int) -> bool:
        """Whether these physical dimensions are still ones of the array, all but the most major
        without padding; then the array can be seen with one dimension in their place."""
        group = self.axes[first : first + count]
        if not all([axis] in self.of for axis in group):
            return False
        sizes = [self.sizes[self.of.index([axis])] for axis in group]
        return all(n == axis.size for n, axis in zip(sizes[1:], group[1:], strict=True))

    def combine(self, first: int, count: int) -> None:
        group = self.axes[first : first + count]
        combined = _Axis(1, prod(axis.size for axis in group))
        dimension = self.of.index([group[0]])
        behind = dimension + count
        self.sizes[dimension:behind] = [prod(self.sizes[dimension:behind])]
        self.of[dimension:behind] = [[combined]]
        self.axes[first : first + count] = [combined]

    def tile(self, untiled: int, tile: tuple[int, ...]) -> None:
        which, where = [], []
        for axis, size in zip(self.axes[untiled:], tile, strict=True):
            which.append(_Axis(axis.weight * size, -(-axis.size // size)))
            where.append(_Axis(axis.weight, size))
            for own in self.of:
                if axis in own:
                    at = own.index(axis)
                    own[at : at + 1] = [which[-1], where[-1]]
        self.axes[untiled:] = [*which, *where]

    def closed(self) -> Stage:
        axes = [axis for axis in self.axes if axis.size != 1]
        place = {axis: number for number, axis in enumerate(axes)}
        all_digits = [
            tuple(Digit(place[axis], axis.weight, axis.size) for axis in own if axis in place)
            for own in self.of
        ]
        kept = [(n, own) for n, own in zip(self.sizes, all_digits, strict=True) if own or n != 1]
        sizes, digits = tuple(n for n, _ in kept), tuple(own for _, own in kept)
        dimensions = tuple(axis.size for axis in axes)
        # Found out once: of small arrays it takes longer than all the rest.
        blocks = tuple(_blocks(sizes, digits, len(dimensions)))
        paddings = tuple(_paddings(sizes, digits, dimensions))
        return Stage(sizes, digits, dimensions, blocks, paddings)


@lru_cache(maxsize=1024)
def stages(sizes: tuple[int, ...], steps: Physical) -> tuple[Stage, ...]:
    """The stages that turn an array of these sizes, none 0, in the layout's order, into the buffer.

    The first takes the array, each of the others the result of the one before.
    """
    done: list[Stage] = []
    # A scalar is tiled as an array of one element.
    is_tiled_scalar = steps.tilings and not sizes
    open_stage = _Open((1,), (1,)) if is_tiled_scalar else _Open(sizes, steps.ordered)
    for tiling in steps.tilings:
        counts = [len(group) for group in tiling.groups]
        firsts = list(itertools.accumulate(counts, initial=0))
        wanted = [(f, n) for f, n in zip(firsts, counts, strict=False) if n > 1]
        if not all(open_stage.can_combine(first, count) for first, count in wanted):
            done.append(open_stage.closed())
            open_stage = _Open(tiling.before, tiling.before)
        for first, count in reversed(wanted):
            open_stage.combine(first, count)
        open_stage.tile(tiling.untiled, tiling.tile)
    return (*done, open_stage.closed())


def _blocks(
    sizes: tuple[int, ...], all_digits: tuple[tuple[Digit, ...], ...], rank: int
) -> Iterator[Block]:
    covers = [list(_covered(size, digits)) for size, digits in zip(sizes, all_digits, strict=True)]
    for choice in itertools.product(*covers):
        ranges: list[Range] = [(0, 1)] * rank
        offsets = []
        for digits, own in zip(all_digits, choice, strict=True):
            for digit, each in zip(digits, own, strict=True):
                ranges[digit.axis] = each
            offsets.append(sum(d.weight * first for d, (first, _) in zip(digits, own, strict=True)))
        yield Block(tuple(ranges), tuple(offsets))


def _paddings(
    sizes: tuple[int, ...],
    all_digits: tuple[tuple[Digit, ...], ...],
    dimensions: tuple[int, ...],
) -> Iterator[tuple[Range, ...]]:
    for size, digits in zip(sizes, all_digits, strict=True):
        for own in _uncovered(size, digits):
            ranges = [(0, n) for n in dimensions]
            for digit, each in zip(digits, own, strict=True):
                ranges[digit.axis] = each
            yield tuple(ranges)


def _covered(size: int, digits: tuple[Digit, ...]) -> Iterator[tuple[Range, ...]]:
    """Ranges of the digits that the indices 0 to size-1 have."""
    if not size:
        return
    if not digits:
        yield ()
        return
    full, rest = divmod(size, digits[0].weight)
    if full:
        for own in _covered(digits[0].weight, digits[1:]):
            yield (0, full), *own
    for own in _covered(rest, digits[1:]):
        yield (full, 1), *own


def _uncovered(size: int, digits: tuple[Digit, ...]) -> Iterator[tuple[Range, ...]]:
    """Ranges of the digits that no index from 0 to size-1 has."""
    if not digits:
        return
    full, rest = divmod(size, digits[0].weight)
    if full:
        for own in _uncovered(digits[0].weight, digits[1:]):
            yield (0, full), *own
    if rest:
        for own in _uncovered(rest, digits[1:]):
            yield (full, 1), *own
    used = full + (rest > 0)
    if used < digits[0].size:
        yield (used, digits[0].size - used), *((0, digit.size) for digit in digits[1:])
