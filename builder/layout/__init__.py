"""Layouts of arrays in memory: tiles, linear indices, buffers and pictures.

Each function takes an array shape with its `Layout`::

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

from builder.types.layout import (
    COMBINE as COMBINE,
    Layout as Layout,
    PaddingValue as PaddingValue,
    Tile as Tile,
    parse_layout as parse_layout,
)

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
    from builder.support.imports import lazy_name as _lazy_name

    # Few programs use these functions; without them `import builder` takes less time.
    _MODULES = {
        "builder.layout.drawing": "draw",
        "builder.layout.indexing": "buffer_size is_padding layout_of linear_index multi_index "
        "physical_dimensions",
        "builder.layout.packing": "pack unpack",
    }
    _LAZY = dict(
        sorted((name, module) for module, names in _MODULES.items() for name in names.split())
    )
    __all__ = sorted(["COMBINE", "Layout", "PaddingValue", "Tile", "parse_layout", *_LAZY])

    def __getattr__(name):
        return _lazy_name(globals(), _LAZY, name)

    def __dir__():
        return __all__
