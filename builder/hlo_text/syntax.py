"""Convert names to identifiers of HLO text."""

from __future__ import annotations

import re
from typing import Final

from builder.types import primitive_type as pt

# The keywords of HLO's lexer.
RESERVED: Final = {t.name for t in pt.ALL} | {
    *("token", "opaque", "tuple", "HloModule", "ENTRY", "ROOT", "true", "false", "inf", "nan"),
    *("maximal", "replicated", "manual", "unreduced", "unknown", "last_tile_dim_replicate"),
    *("shard_as", "shard_like"),
}


def identifier(name: str) -> str:
    """Return `name` as a valid identifier of HLO text, with other characters replaced."""
    text = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)
    if not text or not (text[0].isalpha() or text[0] == "_"):
        text = "_" + text
    if text.startswith("__"):  # reserved by XLA
        text = "x" + text
    return text + "_" if text in RESERVED else text
