"""How an array lies in memory: layouts, tiles, positions, buffers, pictures.

`Layout` describes it; the functions compute with a shape that carries one::

    import builder as xb
    from builder import layout

    shape = xb.parse_shape("f32[3,5]{1,0:T(2,2)}")
    layout.linear_index(shape, (2, 3))     # 17: where the element (2, 3) lies in the buffer
    layout.pack(values, shape)             # the buffer, padding and all
    layout.draw(shape)                     # a picture of it

Shapes and Layout; Tiled layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builder.layout.description import COMBINE, Layout, PaddingValue, Tile
from builder.layout.text import parse_layout

if TYPE_CHECKING:
    from builder.layout.drawing import draw
    from builder.layout.indexing import (
        buffer_size,
        is_padding,
        layout_of,
        linear_index,
        multi_index,
        physical_dimensions,
    )
    from builder.layout.packing import pack, unpack

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

_WHERE = {
    "buffer_size": "indexing",
    "draw": "drawing",
    "is_padding": "indexing",
    "layout_of": "indexing",
    "linear_index": "indexing",
    "multi_index": "indexing",
    "pack": "packing",
    "physical_dimensions": "indexing",
    "unpack": "packing",
}
"""The module of each function that computes with shapes. Shapes build on `description`, so these
modules can't be imported before shapes are there; and most programs need none of them."""


if not TYPE_CHECKING:  # they would take any name for one of these

    def __getattr__(name: str) -> Any:
        module = _WHERE.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
