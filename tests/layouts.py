"""Random layouts for shapes of any rank, and a reference implementation in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import builder as xb

LARGEST_TILE = 4


@st.composite
def tilings(
    draw: st.DrawFn, rank: int, *, least: int = 0, combining: bool = True
) -> list[list[int | str]]:
    """Draw up to three tiles of at least `least` dimensions for an array of rank `rank`."""
    tiles = []
    left = max(rank, 1)
    for _ in range(draw(st.integers(0, 3))):
        length = draw(st.integers(least, min(left, 4)))
        tile: list[int | str] = [
            "*" if combining and i < length - 1 and draw(st.booleans()) else size
            for i, size in enumerate(draw(st.tuples(*[st.integers(1, LARGEST_TILE)] * length)))
        ]
        left += length - 2 * tile.count("*")
        tiles.append(tile)
    return tiles


@st.composite
def random_layouts(
    draw: st.DrawFn, dimensions: tuple[int, ...], *, padded: bool = True, least_tile: int = 0
) -> xb.Layout:
    """Draw a layout for an array of these sizes, with elements of at most 32 bits.

    Args:
        padded: whether it may have padded dimensions and a padding value, unlike layouts of XLA.
        least_tile: the least rank of a tile.
    """
    rank = len(dimensions)
    sizes, value = None, xb.PaddingValue.INVALID_PAD
    if padded:
        value = draw(st.sampled_from(xb.PaddingValue))
        if draw(st.booleans()):
            sizes = [size + draw(st.integers(0, 2)) for size in dimensions]
    return xb.Layout(
        draw(st.permutations(range(rank))),
        tiles=draw(tilings(rank, least=least_tile)),
        padded_dimensions=sizes,
        padding_value=value,
        element_size_in_bits=draw(st.sampled_from([0, 32, 64])),
        memory_space=draw(st.integers(0, 5)),
        tail_padding_alignment_in_elements=draw(st.integers(1, 9)),
    )


SIZES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def in_memory(array: np.ndarray[Any, Any], layout: xb.Layout) -> np.ndarray[Any, Any]:
    """Return the array in memory order, by NumPy's pad, reshape and transpose; padding is -1.

    Its dimensions are the physical ones. The padding at the end of the buffer is omitted.
    """
    array = _padded(array, layout.padded_dimensions or array.shape)
    array = array.transpose(layout.minor_to_major[::-1])
    for tile in layout.tiles:
        array = _tiled(array.reshape(array.shape or (1,)), tile.dimensions)
    return array


def _tiled(array: np.ndarray[Any, Any], tile: tuple[int, ...]) -> np.ndarray[Any, Any]:
    sizes, tile_sizes = list(array.shape), list(tile)
    while -1 in tile_sizes:
        # Document: the dimension is removed, and the next more minor one has its size as a factor.
        place = tile_sizes.index(-1)
        dimension = len(sizes) - len(tile_sizes) + place
        sizes[dimension + 1] *= sizes[dimension]
        del sizes[dimension], tile_sizes[place]
    leading = sizes[: len(sizes) - len(tile_sizes)]
    tiled = sizes[len(leading) :]
    counts = [-(-d // t) for d, t in zip(tiled, tile_sizes, strict=True)]
    padded = [c * t for c, t in zip(counts, tile_sizes, strict=True)]
    array = _padded(array.reshape(sizes), (*leading, *padded))
    split = [n for pair in zip(counts, tile_sizes, strict=True) for n in pair]
    first, count = len(leading), len(tile_sizes)
    return array.reshape(*leading, *split).transpose(
        *range(first),
        *(first + 2 * i for i in range(count)),
        *(first + 2 * i + 1 for i in range(count)),
    )


def _padded(array: np.ndarray[Any, Any], sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    widths = [(0, padded - size) for padded, size in zip(sizes, array.shape, strict=True)]
    return np.pad(array, widths, constant_values=-1) if widths else array
