"""Layouts of arrays in memory: tiles, linear indices, buffers and pictures.

The functions compute with a shape and its `Layout`::

    import builder as xb
    from builder import layout

    shape = xb.parse_shape("f32[3,5]{1,0:T(2,2)}")
    layout.linear_index(shape, (2, 3))     # 17: the index of element (2, 3) in the buffer
    layout.pack(values, shape)             # the buffer, with padding
    layout.draw(shape)                     # a picture

Shapes and Layout; Tiled layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.types.layout import COMBINE, Layout, PaddingValue, Tile
from builder.types.layout_text import parse_layout

__all__ = [
    "COMBINE",
    "Layout",
    "PaddingValue",
    "Tile",
    "buffer_size",
    "draw",
    "is_padding",
    "layout_of",
    "linear_index",
    "multi_index",
    "pack",
    "parse_layout",
    "physical_dimensions",
    "unpack",
]

if TYPE_CHECKING:
    from builder.layout.drawing import draw as draw
    from builder.layout.indexing import (
        buffer_size as buffer_size,
        is_padding as is_padding,
        layout_of as layout_of,
        linear_index as linear_index,
        multi_index as multi_index,
        physical_dimensions as physical_dimensions,
    )
    from builder.layout.packing import pack as pack, unpack as unpack
else:
    from builder.support.lazy import lazy_name as _lazy_name

    # Few programs use these functions; without them `import builder` takes less time.
    _LAZY = {
        "buffer_size": "builder.layout.indexing",
        "draw": "builder.layout.drawing",
        "is_padding": "builder.layout.indexing",
        "layout_of": "builder.layout.indexing",
        "linear_index": "builder.layout.indexing",
        "multi_index": "builder.layout.indexing",
        "pack": "builder.layout.packing",
        "physical_dimensions": "builder.layout.indexing",
        "unpack": "builder.layout.packing",
    }

    def __getattr__(name):
        return _lazy_name(globals(), _LAZY, name)

    def __dir__():
        return sorted({*globals(), *_LAZY})
