"""Functions that XLA's backends approximate less accurately than others do.

`lowering.compare` permits these errors. They are too small to rewrite the operations.
"""

from __future__ import annotations

from typing import Final

from builder.types import primitive_type as pt

# XLA's logarithm of f64 numbers near 1 is inaccurate before jaxlib 0.12; the others use it.
_DOUBLE_LOGARITHM: Final = {
    (opcode, element_type): 256.0
    for opcode in ("atanh", "log", "log_plus_one")
    for element_type in (pt.f64, pt.c128)
}

INACCURATE: Final = {"cpu": _DOUBLE_LOGARITHM}
"""Errors in units in the last place, by platform, opcode and element type."""
