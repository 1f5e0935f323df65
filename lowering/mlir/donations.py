"""The attributes of donated arguments, and the donated arguments of a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jaxlib.mlir import ir

from lowering.mlir.types import attribute_text

__all__ = ["ALIASING", "DONOR", "donated_arguments", "is_donated"]

ALIASING: Final = "tf.aliasing_output"
"""The attribute of an argument with the number of the result that aliases it."""

DONOR: Final = "jax.buffer_donor"
"""The attribute of an argument whose memory may be reused for any value."""


def donated_arguments(module: ir.Module) -> frozenset[int]:
    """Return the numbers of the arguments of @main that a call donates."""
    for view in module.body.operations:
        operation = view.operation
        if operation.name != "func.func" or "arg_attrs" not in operation.attributes:
            continue
        if attribute_text(operation.attributes["sym_name"]) == "main":
            arguments = map(ir.DictAttr, ir.ArrayAttr(operation.attributes["arg_attrs"]))
            return frozenset(n for n, values in enumerate(arguments) if is_donated(values))
    return frozenset()


def is_donated(attributes: Mapping[str, Any] | ir.DictAttr) -> bool:
    """Return whether an argument with these attributes is donated."""
    if ALIASING in attributes:
        return True
    return DONOR in attributes and str(attributes[DONOR]) == "true"
