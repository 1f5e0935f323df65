"""Add a leading dimension of size 1 to the results of each device, for `results="sharded"`.

`results="sharded"` returns a jax.Array with one row for each device, sharded along its first
dimension. Each shard is a row, so its first dimension has size 1. The result of a device does not
have this dimension, so the program reshapes the result, which copies no data.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.types.shape import ArrayShape
from lowering.errors import CompileError
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Target, Value
from lowering.mlir.operations import argument_attributes, attribute_text, main_function
from lowering.mlir.types import shape_of_type
from lowering.pjrt.entry_layouts import LAYOUT_MODE


def add_device_dimension(target: Target, module: ir.Operation) -> None:
    """Add a leading dimension of size 1 to the results of @main, except for tokens.

    Args:
        target: what the module is compiled for.
        module: the module, changed in place. Its results must have fixed sizes.

    Raises:
        CompileError: a result requests a layout other than the default.
    """
    main = main_function(module)
    _check_layouts(main, target.name)
    terminator = main.regions[0].blocks[0].operations[-1].operation
    b = OpBuilder(target, terminator)
    with module.context:
        values = [_with_device_dimension(b, value) for value in terminator.operands]
        function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(list(function_type.inputs), [value.type for value in values])
        )
        b.create("func.return", [], values)
    terminator.erase()


def _with_device_dimension(b: OpBuilder, value: Value) -> Value:
    shape = shape_of_type(value.type)
    return b.reshaped(value, (1, *shape.dimensions)) if isinstance(shape, ArrayShape) else value


def _check_layouts(main: ir.Operation, name: str) -> None:
    for attributes in argument_attributes(main, "res_attrs"):
        mode = attribute_text(attributes[LAYOUT_MODE]) if LAYOUT_MODE in attributes else "default"
        if mode != "default":
            raise CompileError(
                'results="sharded" requires results in their default layout',
                got=f"a result with the layout {mode}",
                context=("compile", name),
                fix='remove the layout of the result, or omit results="sharded"',
            )
