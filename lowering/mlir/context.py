"""Select the MLIR context of each module.

A context is slow to create and never frees its types, locations and attributes, constants
included. All modules share one context until its estimated size exceeds a limit. Then later
modules share a new context, and the old one is freed with its last module. A module with large
constants gets its own context.
"""

from __future__ import annotations

import threading
from typing import Final

from jaxlib.mlir import ir

from lowering.jaxlib_api import mlir

OWN_CONTEXT_BYTES: Final = 1 << 20
"""A module with at least this many bytes of constants gets its own context."""

MAX_SHARED_BYTES: Final = 64 << 20
"""The maximum size of a shared context: its constants, and an estimate of types, attributes and
locations."""

_BYTES_FOR_CODE: Final = 4
"""An estimate of the bytes that a context keeps for each byte of bytecode: uniqued types,
attributes and locations."""

_LOCK: Final = threading.Lock()
_SHARED: list[tuple[ir.Context, int]] = []
"""One element: the shared context and its estimated size in bytes. Empty before the first use."""


def shared_context(new_bytes: int = 0) -> ir.Context:
    """Return the context that modules currently share.

    Args:
        new_bytes: the estimated number of bytes that the caller will add to the context.
    """
    with _LOCK:
        context, total = _SHARED[0] if _SHARED else (None, 0)
        if context is None or total + new_bytes > MAX_SHARED_BYTES:
            context, total = mlir.new_context(), 0
        _SHARED[:] = [(context, total + new_bytes)]
        return context


def context_for(constant_bytes: int, code_bytes: int) -> ir.Context:
    """Return the shared context, or a new one for a module with large constants.

    Args:
        constant_bytes: the size of the module's constants.
        code_bytes: the size of the module's bytecode.
    """
    if constant_bytes >= OWN_CONTEXT_BYTES:
        return mlir.new_context()
    return shared_context(constant_bytes + _BYTES_FOR_CODE * code_bytes)
