"""Identifiers, strings and shapes in HLO text."""

from __future__ import annotations

import re
from typing import Final

from builder.schema.kinds import braces
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, TokenShape, nested_text

# The keywords of HLO's lexer.
RESERVED: Final = {t.name for t in pt.ALL} | {
    *("token", "opaque", "tuple", "HloModule", "ENTRY", "ROOT", "true", "false", "inf", "nan"),
    *("maximal", "replicated", "manual", "unreduced", "unknown", "last_tile_dim_replicate"),
    *("shard_as", "shard_like"),
}


def identifier(name: str) -> str:
    """Return `name` as an identifier of HLO text."""
    text = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)
    if not text or not (text[0].isalpha() or text[0] == "_"):
        text = "_" + text
    if text.startswith("__"):  # reserved by XLA
        text = "x" + text
    return text + "_" if text in RESERVED else text


def with_layout(shape: Shape) -> str:
    """Return the text of a shape with the layout of each array, as in instructions."""
    return nested_text(shape, _leaf_with_layout)


def _leaf_with_layout(shape: ArrayShape | TokenShape) -> str:
    if isinstance(shape, TokenShape):
        return str(shape)
    if shape.layout is not None or not shape.rank:
        return str(shape)  # XLA does not accept empty braces after a scalar
    return f"{shape}{braces(range(shape.rank - 1, -1, -1))}"


def quoted(text: str) -> str:
    """Return a string literal; characters that UTF-8 can't encode become question marks."""
    text = text.encode("utf-8", "replace").decode()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\{ord(c[0]):03o}", escaped) + '"'
