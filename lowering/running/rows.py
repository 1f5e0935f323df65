"""Rows: an array that is cut up along its first dimension, a row for each device.

On its device a row is an array with a leading dimension of size 1, f32[1,4], where a program takes
f32[4]. Both are the same bytes in the same order, and the runtime looks at no more; except where
arrays lie in tiles, as on a TPU, or a program asks for a layout: there the dimension is taken off
on the device.
"""

from __future__ import annotations

from typing import Any, Final

import jax

from builder.types.shape import intern_array
from lowering.jaxlib_api import array_layouts
from lowering.pjrt.devices import Target
from lowering.pjrt.entry_layouts import layout_from
from lowering.running.arguments import Leaf

__all__ = ["Rows", "row_of", "rows_on"]


class Rows:
    """The rows that may be given for one array argument.

    Attributes:
        dimensions: the sizes of a jax.Array that may be used as it is; None where none can be.
        dtype: of its elements.
        layout: the memory layout that its rows have to have; None where there is but one.
    """

    __slots__ = ("dimensions", "dtype", "layout")

    def __init__(self, leaf: Leaf, count: int) -> None:
        target = leaf.target
        row = intern_array(target.shape.element_type, (1, *target.dimensions))
        there = Target(row, target.sharding)
        texts = map(array_layouts.layout_text, (target.default, there.default))
        in_tiles = any(layout_from(text).tiles for text in texts)
        is_same = leaf.is_plain and leaf.wanted is None and not in_tiles
        self.dimensions: Final = (count, *target.dimensions) if is_same else None
        self.dtype: Final = target.dtype
        self.layout: Final = there.default if target.dimensions else None


def rows_on(target: Target, count: int) -> Any:
    """jax's description of an array with so many rows of the kind that go to `target`."""
    return jax.core.ShapedArray((count, *target.dimensions), target.dtype)


def row_of(shard: jax.Array) -> jax.Array:
    """A row without its leading dimension, on the same device: a copy there."""
    with jax.enable_x64(True):
        return jax.lax.squeeze(shard, [0])
