"""Results with a leading dimension of size 1: each device's row of an array over all of them.

A jax.Array that is cut up along its first dimension holds on each device an array with that
dimension. What a replica gives has none, so the program itself adds it, which moves no byte.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.shape import ArrayShape, intern_array
from lowering.entry_layouts import LAYOUT_MODE
from lowering.errors import CompileError
from lowering.legalize.registry import Value
from lowering.types import attribute_text, mlir_type, shape_of_type

__all__ = ["give_rows"]


def give_rows(module: ir.Operation, name: str) -> None:
    """Gives the results of @main a leading dimension of size 1; tokens stay as they are.

    Args:
        module: is changed; its results have fixed sizes.
        name: the computation's name, for messages.

    Raises:
        CompileError: a result asks for a layout.
    """
    (main,) = [
        one.operation
        for one in module.regions[0].blocks[0].operations
        if one.operation.name == "func.func"
        and attribute_text(one.operation.attributes["sym_name"]) == "main"
    ]
    _check_layouts(main, name)
    last = list(main.regions[0].blocks[0].operations)[-1].operation
    with module.context:
        ip = ir.InsertionPoint(last)
        values = [_row(value, ip, last.location) for value in last.operands]
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(list(kind.inputs), [value.type for value in values])
        )
        ir.Operation.create("func.return", operands=values, loc=last.location, ip=ip)
    last.erase()


def _row(value: Value, ip: ir.InsertionPoint, location: ir.Location) -> Value:
    shape = shape_of_type(value.type)
    if not isinstance(shape, ArrayShape):
        return value
    row = intern_array(shape.element_type, (1, *shape.dimensions))
    reshape = ir.Operation.create(
        "stablehlo.reshape",
        [mlir_type(row, value.type.context)],
        [value],
        loc=location,
        ip=ip,
    )
    result: Value = reshape.results[0]
    return result


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
