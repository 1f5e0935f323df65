"""The attributes of donated arguments, and the donated arguments of a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jaxlib.mlir import ir

from lowering.mlir.operations import entry, main_function

ALIASING: Final = "tf.aliasing_output"
"""The argument attribute whose value is the number of the result that aliases the argument."""

DONOR: Final = "jax.buffer_donor"
"""The argument attribute, true if XLA may reuse the argument's memory for any value."""


def donated_arguments(module: ir.Module) -> frozenset[int]:
    """Return the numbers of the arguments of @main that a call donates."""
    attributes = main_function(module.operation).attributes
    arguments = ir.ArrayAttr(attributes["arg_attrs"]) if "arg_attrs" in attributes else ()
    return frozenset(n for n, values in enumerate(arguments) if is_donated(ir.DictAttr(values)))


def is_donated(attributes: Mapping[str, Any] | ir.DictAttr) -> bool:
    """Return whether an argument with these attributes is donated."""
    if ALIASING in attributes:
        return True
    return str(entry(attributes, DONOR)) == "true"
