"""The argument of a module for several platforms that selects one of them.

`jax.export.export(f, platforms=["cpu", "cuda"])` exports one module for both platforms. The
first argument of its @main is the number of the platform that the module runs on.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir

from builder.errors import error_of
from builder.types.shape import ProgramShape
from lowering.errors import CompileError
from lowering.jaxlib_api import compilation, mlir, versions
from lowering.mlir.operations import main_function
from lowering.stablehlo.module import StablehloModule
from lowering.stablehlo.platforms import PLATFORMS, has_platform_index


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
