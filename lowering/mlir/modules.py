"""MLIR modules: the context of each, and their text.

A context is slow to create and never frees its types, locations and attributes, constants
included. All modules share one context until its estimated size exceeds a limit. Then later
modules share a new context, and the old one is freed with its last module. A module with large
constants gets its own context.
"""

from __future__ import annotations

import re
import threading
from functools import partial
from typing import Final

from jaxlib.mlir import ir

from lowering.jaxlib_api import mlir
from lowering.mlir.operations import operations_in

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


_SCALAR_SLICE: Final = re.compile(
    r"^(\s*%[\w#:]+ = )stablehlo\.dynamic_slice (%[\w#]+), , sizes = \[\]", re.MULTILINE
)
"""Matches a line with a dynamic_slice of a scalar, which StableHLO prints without indices. Strings
contain no line breaks, so a match is never inside a string."""


_SHORT_REDUCE: Final = " applies "
"""StableHLO prints a reduction by one operation in a short form, without its region."""


def _loses_attributes(operation: ir.Operation) -> bool:
    """Return whether the short form of a reduction omits attributes in its region."""
    if operation.name != "stablehlo.reduce":
        return False
    inner = operation.regions[0].blocks[0].operations
    return len(inner) == 2 and any(len(one.operation.attributes) for one in inner)


def module_text(
    module: ir.Module, *, locations: bool = False, max_elements: int | None = None
) -> str:
    """Return the text of a module.

    Args:
        module: the module.
        locations: whether to print the location of each operation.
        max_elements: the most elements of a constant that are printed; with this limit, MLIR does
            not read the text. None for all.
    """
    get_asm = partial(
        module.operation.get_asm, enable_debug_info=locations, large_elements_limit=max_elements
    )
    text = str(get_asm())
    if _SHORT_REDUCE in text and any(map(_loses_attributes, operations_in(module.operation))):
        return str(get_asm(print_generic_op_form=True))
    if ", , sizes = []" not in text:
        return text
    # StableHLO's parser does not read what its printer writes here; the generic form is read.
    generic = r'\1"stablehlo.dynamic_slice"(\2) <{slice_sizes = array<i64>}>'
    return _SCALAR_SLICE.sub(generic, text)
