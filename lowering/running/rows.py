"""Rows: an array sharded along its first dimension, one row for each device.

The program of each device takes an f32[4], but the device has a row, an f32[1,4]. Both arrays have
the same bytes in the same order, so a row is passed without a copy. If arrays have tiled layouts,
as on a TPU, or the program requests a layout, the leading dimension is removed on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from builder.types.shape import intern_array
from lowering.jaxlib_api import array_layouts
from lowering.pjrt.devices import Target
from lowering.pjrt.entry_layouts import layout_from
from lowering.running.arguments import Leaf


class Rows:
    """The rows that are passed for one array argument.

    Attributes:
        dimensions: the sizes that a jax.Array must have to be passed without a copy; None if all
            arrays are copied.
        dtype: the dtype of the array's elements.
        layout: the memory layout that rows must have; None for scalars, which have only one layout.
    """

    def __init__(self, leaf: Leaf, count: int) -> None:
        target = leaf.target
        shape = intern_array(target.shape.element_type, (1, *target.dimensions))
        row = Target(shape, target.sharding)
        layouts = map(array_layouts.layout_text, (target.default, row.default))
        in_tiles = any(layout_from(text).tiles for text in layouts)
        is_same = leaf.is_static_array and leaf.requested_layout is None and not in_tiles
        self.dimensions: Final = (count, *target.dimensions) if is_same else None
        self.dtype: Final = target.dtype
        self.layout: Final = row.default if target.dimensions else None


def rows_aval(target: Target, count: int) -> Any:
    """Return the aval of an array with `count` rows of the shape of `target`."""
    return jax.core.ShapedArray((count, *target.dimensions), target.dtype)


def row_of(shard: jax.Array) -> jax.Array:
    """Return a copy of a row without its leading dimension, on the same device."""
    with jax.enable_x64(True):
        return jax.lax.squeeze(shard, [0])


def sharding_by_row(devices: Sequence[jax.Device]) -> NamedSharding:
    """Return the sharding of arrays that have a row for each device."""
    spec: Any = PartitionSpec
    return NamedSharding(Mesh(np.array(devices), ("device",)), spec("device"))
