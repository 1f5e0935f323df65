"""Lists, strings and shapes in HLO text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from builder.types.shape import ArrayShape, Shape, TokenShape, nested_text


def braces(values: Iterable[Any]) -> str:
    """Return `values` as a list in HLO text.

    Example:
        >>> braces([2, 3])
        '{2,3}'
    """
    return "{" + ",".join(map(str, values)) + "}"


@lru_cache(maxsize=1024)  # a program has few shapes, and prints one for each instruction
def with_layout(shape: Shape) -> str:
    """Return the text of a shape with the layout of each array, as in HLO instructions."""
    return nested_text(shape, _leaf_with_layout)


def _leaf_with_layout(shape: ArrayShape | TokenShape) -> str:
    if isinstance(shape, TokenShape):
        return str(shape)
    if shape.layout is not None or not shape.rank:
        return str(shape)  # XLA does not accept empty braces after a scalar
    return f"{shape}{braces(range(shape.rank - 1, -1, -1))}"


def quoted(text: str) -> str:
    """Return `text` as an HLO string literal, with ``?`` for characters that UTF-8 can't encode."""
    return quoted_bytes(text.encode("utf-8", "replace").decode())


def quoted_bytes(text: str) -> str:
    """Return `text` as an HLO string literal; escape the bytes that surrogates represent.

    Example:
        >>> quoted_bytes(b"a\\xff".decode("utf-8", "surrogateescape"))
        '"a\\\\377"'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    # The code of a surrogate that represents a byte ends in this byte.
    special = "[\x00-\x1f\x7f\udc80-\udcff]"
    return '"' + re.sub(special, lambda c: f"\\{ord(c[0]) & 0xFF:03o}", escaped) + '"'
