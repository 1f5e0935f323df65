"""Functions that some of XLA's backends approximate less accurately than other backends.

No rewrite avoids these errors, so `lowering.compare` permits them.
"""

from __future__ import annotations

from typing import Final

from jaxlib.version import __version_info__ as jaxlib_version

from builder.types import primitive_type as pt

# Before jaxlib 0.12, the CPU backend computes log_plus_one of f64 inaccurately, and these functions
# by it. `legalize` rewrites only the real functions.
_FROM_LOG_PLUS_ONE: Final = tuple((name, pt.c128) for name in ("log_plus_one", "atanh", "log"))
_ON_CPU: Final = dict.fromkeys(_FROM_LOG_PLUS_ONE, 256.0) if jaxlib_version < (0, 12) else {}

INACCURATE: Final = {"cpu": _ON_CPU}
"""The permitted errors in units in the last place, by platform, then by (opcode, element type)."""
