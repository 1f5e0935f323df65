"""The argument of a module for several platforms that selects one of them, and their names.

`jax.export.export(f, platforms=["cpu", "cuda"])` exports one module for both platforms. The first
argument of its @main is the number of the platform that the module runs on. The module does not
have the names of the platforms. Here the attribute `xlabuilder.platforms` of @main lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jaxlib.mlir import ir

from lowering.mlir.attributes import array, quoted
from lowering.mlir.operations import attribute_text, entry_text, functions_in, main_function

PLATFORMS: Final = "xlabuilder.platforms"

PLATFORM_INDEX: Final = "_platform_index"
"""The value of the attribute `GLOBAL_CONSTANT` of the argument, and the name of its parameter."""

GLOBAL_CONSTANT: Final = "jax.global_constant"


def has_platform_index(module: ir.Module) -> bool:
    """Return whether the first argument of @main is the number of a platform."""
    attributes = main_function(module.operation).attributes
    if "arg_attrs" not in attributes:
        return False
    arguments = ir.ArrayAttr(attributes["arg_attrs"])
    name = entry_text(ir.DictAttr(arguments[0]), GLOBAL_CONSTANT) if len(arguments) else None
    return name == PLATFORM_INDEX


def platforms_text(platforms: Sequence[str]) -> str:
    """Return the attribute `xlabuilder.platforms` as MLIR text."""
    return array(map(quoted, platforms))


def declare_platforms(module: ir.Module, platforms: Sequence[str]) -> None:
    """Set the attribute `xlabuilder.platforms` if @main takes the number of a platform."""
    if platforms and has_platform_index(module):
        attribute = ir.Attribute.parse(platforms_text(platforms), module.context)
        main_function(module.operation).attributes[PLATFORMS] = attribute


def declared_platforms(module: ir.Module) -> tuple[str, ...]:
    """Return the platforms in the attribute `xlabuilder.platforms`; empty if there are none."""
    main = next(functions_in(module.operation, "main"), None)
    attribute = None if main is None else main.attributes.get(PLATFORMS)
    if not isinstance(attribute, ir.ArrayAttr) or not has_platform_index(module):
        return ()
    return tuple(filter(None, map(attribute_text, attribute)))
