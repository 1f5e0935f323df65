"""Arguments whose memory a program takes over: how a module says so, and what is read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jaxlib.mlir import ir

from lowering.mlir.types import attribute_text

__all__ = ["ALIASING", "DONOR", "donated_arguments", "is_donated"]

ALIASING: Final = "tf.aliasing_output"
"""The attribute of an argument that names the result which is written to its memory."""

DONOR: Final = "jax.buffer_donor"
"""The attribute of an argument whose memory may be used for anything."""


def donated_arguments(module: ir.Module) -> frozenset[int]:
    """The numbers of the arguments of @main that are used up by a call."""
    for view in module.body.operations:
        operation = view.operation
        if operation.name != "func.func" or "arg_attrs" not in operation.attributes:
            continue
        if attribute_text(operation.attributes["sym_name"]) == "main":
            listed = ir.ArrayAttr(operation.attributes["arg_attrs"])
            return frozenset(n for n, one in enumerate(listed) if is_donated(ir.DictAttr(one)))
    return frozenset()


def is_donated(attributes: Mapping[str, Any] | ir.DictAttr) -> bool:
    """Whether attributes of an argument say that its memory is given away."""
    if ALIASING in attributes:
        return True
    return DONOR in attributes and str(attributes[DONOR]) == "true"
