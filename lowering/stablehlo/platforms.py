"""The argument of a module for several platforms that selects one of them, and their names.

`jax.export.export(f, platforms=["cpu", "cuda"])` exports one module for both platforms. The first
argument of its @main is the number of the platform that the module runs on. The module does not
have the names of the platforms. Here the attribute `xlabuilder.platforms` of @main lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.errors import error_of
from builder.types.shape import ProgramShape
from lowering.errors import CompileError
from lowering.jaxlib_api import compilation, mlir, versions
from lowering.mlir.attributes import array, quoted
from lowering.mlir.operations import attribute_text, entry_text, functions_in, main_function

if TYPE_CHECKING:
    import jax

    from lowering.stablehlo.module import StablehloModule


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


def for_platform(source: StablehloModule, device: jax.Device) -> StablehloModule:
    """Return the module for a device's platform; `source` if it has no platform argument.

    Raises:
        CompileError: the module does not support the device's platform.
    """
    if not source.platforms or not has_platform_index(source.module):
        return source
    platform = name_in_jax(device)
    if platform not in source.platforms:
        raise error_of(
            CompileError,
            "compile",
            f"{source.name} was exported for {', '.join(source.platforms)}",
            f"export for this platform too: "
            f"jax.export.export(function, platforms=[..., {platform!r}])",
            got=device,
        )
    # A copy: other devices may have another number.
    copy = ir.Module.parse(mlir.bytecode(source.module), mlir.new_context())
    _set_index(main_function(copy.operation), source.platforms.index(platform), copy.context)
    old = source.program_shape
    shape = ProgramShape(old.parameters[1:], old.result, old.parameter_names[1:])
    return source.with_module(copy, shape)


def _set_index(main: ir.Operation, index: int, context: ir.Context) -> None:
    """Replace the first argument of @main by a constant."""
    block: Any = main.regions[0].blocks[0]
    argument = block.arguments[0]
    with context, ir.Location.unknown(context):
        number: Any = np.array(index, f"int{argument.type.element_type.width}")
        value = ir.DenseElementsAttr.get(number, type=argument.type)
        constant = ir.Operation.create(
            "stablehlo.constant",
            [argument.type],
            attributes={"value": value},
            ip=ir.InsertionPoint(block.operations[0]),
        )
        argument.replace_all_uses_with(constant.results[0])
        block.erase_argument(0)
        function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        inputs, results = list(function_type.inputs), list(function_type.results)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs[1:], results))
        others = list(ir.ArrayAttr(main.attributes["arg_attrs"]))[1:]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(others)
        if PLATFORMS in main.attributes:
            del main.attributes[PLATFORMS]


def name_in_jax(device: jax.Device) -> str:
    """Return jax.export's name of a device's platform: "cuda" or "rocm" instead of "gpu"."""
    if device.platform != "gpu":
        return str(device.platform)
    version = "" if compilation.is_absent(device) else versions.platform_version(device)
    return "rocm" if "rocm" in version.lower() else "cuda"
