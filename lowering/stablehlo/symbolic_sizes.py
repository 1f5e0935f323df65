"""Modules that jax has lowered for symbolic dimensions.

A `jax.stages.Lowered` takes the values of symbolic dimensions as arguments, before the arrays. (A
`jax.export.Exported` reads them from the arrays.) Here its module is changed to read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import jax
from jaxlib.mlir import ir

from builder.errors import error_of
from lowering.errors import LoweringError
from lowering.jaxlib_api import jaxprs, mlir
from lowering.mlir.operations import main_function
from lowering.stablehlo.platforms import PLATFORM_INDEX

_SIZE: Final = "jax.global_constant"
"""jax's attribute of an argument that is a symbolic dimension: its name."""


def reading_sizes(lowered: jax.stages.Lowered) -> ir.Module:
    """Return the module of a Lowered; a copy without arguments for sizes, if there are some.

    Raises:
        LoweringError: a symbolic dimension is not the size of an array that the module takes.
    """
    module = cast("ir.Module", lowered.compiler_ir("stablehlo"))
    names = _size_arguments(main_function(module.operation))
    if not names:
        return module
    copy = ir.Module.parse(mlir.bytecode(module), mlir.new_context())
    _read_sizes(main_function(copy.operation), names, _places(lowered))
    return copy


def _size_arguments(main: ir.Operation) -> dict[int, str]:
    """Return the arguments of @main that are symbolic dimensions: the number and name of each."""
    attributes: Any = main.attributes.get("arg_attrs") or ()
    names = {n: each[_SIZE].value for n, each in enumerate(attributes) if _SIZE in each}
    return {number: name for number, name in names.items() if name != PLATFORM_INDEX}


def _places(lowered: jax.stages.Lowered) -> dict[str, tuple[int, int]]:
    """Return for each symbolic dimension an array, by number, and the dimension of its size."""
    arrays: list[Any] = jax.tree.leaves(lowered.in_avals)
    used = jaxprs.used_leaves(lowered)
    if used is not None:
        arrays = [arrays[number] for number in used]
    places: dict[str, tuple[int, int]] = {}
    for number, array in enumerate(arrays):
        for dimension, size in enumerate(array.shape):
            places.setdefault(str(size), (number, dimension))
    return places


def _read_sizes(
    main: ir.Operation, names: Mapping[int, str], places: Mapping[str, tuple[int, int]]
) -> None:
    """Replace arguments of @main by operations that read the sizes of the arrays after them."""
    block = main.regions[0].blocks[0]
    arrays = list(block.arguments)[max(names) + 1 :]
    with main.context, ir.Location.unknown(main.context):
        start = ir.InsertionPoint.at_block_begin(block)
        scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        for number, name in names.items():
            argument, place = block.arguments[number], places.get(name)
            if place is None:
                rule = f"no array has a dimension of the symbolic size {name}"
                fix = f"add an argument of this size, such as f32[{name}]"
                raise error_of(LoweringError, "load", rule, fix)
            dimension: ir.Attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), place[1])
            operation = ir.Operation.create(
                "stablehlo.get_dimension_size",
                [scalar],
                [arrays[place[0]]],
                {"dimension": dimension},
                ip=start,
            )
            if argument.type != scalar:  # in jax's x64 mode
                operation = ir.Operation.create(
                    "stablehlo.convert", [argument.type], operation.results, ip=start
                )
            argument.replace_all_uses_with(operation.results[0])
        for number in sorted(names, reverse=True):
            block.erase_argument(number)
        function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        inputs = [one for number, one in enumerate(function_type.inputs) if number not in names]
        taken = ir.FunctionType.get(inputs, function_type.results)
        main.attributes["function_type"] = ir.TypeAttr.get(taken)
        attributes: Any = main.attributes["arg_attrs"]
        kept = [each for number, each in enumerate(attributes) if number not in names]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
