"""Results with a leading dimension of size 1: the row of each device in an array over all devices.

A jax.Array that is sharded along its first dimension has that dimension on each device too. The
result of a replica does not, so the program adds it, which copies nothing.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.types.shape import ArrayShape
from lowering.errors import CompileError
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Target, Value
from lowering.mlir.types import attribute_text, shape_of_type
from lowering.pjrt.entry_layouts import LAYOUT_MODE

__all__ = ["give_rows"]


def give_rows(target: Target, module: ir.Operation) -> None:
    """Give the results of @main a leading dimension of size 1; tokens stay as they are.

    Args:
        target: what the module is compiled for.
        module: is changed; its results have fixed sizes.

    Raises:
        CompileError: a result asks for a layout.
    """
    (main,) = [
        one.operation
        for one in module.regions[0].blocks[0].operations
        if one.operation.name == "func.func"
        and attribute_text(one.operation.attributes["sym_name"]) == "main"
    ]
    _check_layouts(main, target.name)
    last = main.regions[0].blocks[0].operations[-1].operation
    b = OpBuilder(target, last)
    with module.context:
        values = [_row(b, value) for value in last.operands]
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(list(kind.inputs), [value.type for value in values])
        )
        b.create("func.return", [], values)
    last.erase()


def _row(b: OpBuilder, value: Value) -> Value:
    shape = shape_of_type(value.type)
    return b.reshaped(value, (1, *shape.dimensions)) if isinstance(shape, ArrayShape) else value


def _check_layouts(main: ir.Operation, name: str) -> None:
    if "res_attrs" not in main.attributes:
        return
    for entry in ir.ArrayAttr(main.attributes["res_attrs"]):
        given = ir.DictAttr(entry)
        if LAYOUT_MODE in given and attribute_text(given[LAYOUT_MODE]) != "default":
            raise CompileError(
                f'compile: {name}: with results="sharded" the arrays are in their default '
                f"layout, and a result asks for {attribute_text(given[LAYOUT_MODE])}\n"
                f'fix: leave out the layout, or results="sharded"'
            )
