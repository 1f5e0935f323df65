"""Print modules as MLIR text that MLIR's parser reads."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from jaxlib.mlir import ir

from lowering.mlir.operations import operations_in

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
