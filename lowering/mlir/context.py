"""The MLIR context that modules live in.

A context costs 1 ms to make and never frees what it has uniqued, constants included. So one
context is shared by all modules, until the constants given to it are large together: then the next
one is begun, and the old one goes with the last module in it. A module with large constants gets a
context of its own at once.
"""

from __future__ import annotations

import threading
from typing import Final

from jaxlib.mlir import ir

from lowering.jaxlib_api import mlir

__all__ = ["context_for", "shared_context"]


OWN_CONTEXT_BYTES: Final = 1 << 20
"""From how many bytes of constants on a module gets a context of its own."""

MAX_SHARED_BYTES: Final = 64 << 20
"""How many bytes of constants the shared context is given before the next one is begun."""


class _Shared:
    """A context, and how many bytes of constants it was asked for."""

    __slots__ = ("constant_bytes", "context")

    def __init__(self) -> None:
        self.context: Final = mlir.new_context()
        self.constant_bytes = 0


_LOCK: Final = threading.Lock()
_SHARED: list[_Shared] = []


def shared_context(constant_bytes: int = 0) -> ir.Context:
    """The context that modules share now.

    Args:
        constant_bytes: how large the constants are that will be made in it.
    """
    with _LOCK:
        if not _SHARED or _SHARED[0].constant_bytes + constant_bytes > MAX_SHARED_BYTES:
            _SHARED[:] = [_Shared()]
        shared = _SHARED[0]
        shared.constant_bytes += constant_bytes
        return shared.context


def context_for(constant_bytes: int) -> ir.Context:
    """The context for a module with so many bytes of constants: the shared one, or its own."""
    if constant_bytes >= OWN_CONTEXT_BYTES:
        return mlir.new_context()
    return shared_context(constant_bytes)
