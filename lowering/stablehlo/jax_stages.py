"""The modules of objects of jax: of `jax.stages.Lowered`, and of what jax has traced.

A `jax.stages.Lowered` takes the values of symbolic dimensions as arguments, before the arrays. (A
`jax.export.Exported` reads them from the arrays.) Here its module is changed to read them, and to
check what the symbolic dimensions declare: equal sizes, and the constraints of their scope.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from builder.errors import error_of
from lowering.errors import LoweringError
from lowering.jaxlib_api import jaxprs, mlir
from lowering.mlir.operations import main_function, operations_in
from lowering.stablehlo.call_tree import with_call_tree
from lowering.stablehlo.module import StablehloModule, program_shape_of
from lowering.stablehlo.platforms import PLATFORM_INDEX


def shared_module(lowered: jax.stages.Lowered, *, checks_sizes: bool) -> StablehloModule:
    """Return the module of a Lowered without a copy, which would take longer than its import.

    It is read only: jax may return the same module to others.

    Args:
        lowered: the program.
        checks_sizes: whether the module checks what symbolic dimensions declare.
    """
    module = reading_sizes(lowered, checks_sizes=checks_sizes)
    return of_stage(StablehloModule(module, program_shape_of(module, None)), lowered)


def of_stage(module: StablehloModule, lowered: jax.stages.Lowered) -> StablehloModule:
    platforms = jaxprs.lowered_platforms(lowered)
    return with_tree(module, lowered, platforms, jaxprs.used_leaves(lowered))


def lowered_stage(traced: jax.stages.Traced) -> jax.stages.Lowered:
    """Lower what jax has traced; `stop_gradient` becomes an operation.

    jax locates the constants of a program where `lower` is called: at the line of the user's call.
    """
    exclude_own_frames()
    return jaxprs.lowered_with_rules(traced, {})


@cache
def exclude_own_frames() -> None:
    """Make jax ignore the frames in these packages."""
    from jax.extend import source_info_util  # lazy import: it imports Pallas

    for package in ("builder", "lowering"):
        source_info_util.register_exclusion(str(Path(__file__).parents[2] / package) + os.sep)


def with_tree(
    module: StablehloModule, source: Any, platforms: Sequence[str], used: Sequence[int] | None
) -> StablehloModule:
    """Return a module with the platforms and the tree of its source, an object of jax."""
    shape, tree = with_call_tree(
        module.module, module.program_shape, platforms, source.in_tree, source.out_tree, used
    )
    return StablehloModule(module.module, shape, platforms=platforms, tree=tree)


_SIZE: Final = "jax.global_constant"
"""jax's attribute of an argument that is a symbolic dimension: its name."""


def reading_sizes(lowered: jax.stages.Lowered, *, checks_sizes: bool = True) -> ir.Module:
    """Return the module of a Lowered; a copy without arguments for sizes, if there are some.

    Args:
        lowered: the program.
        checks_sizes: whether the module checks the sizes, by the operations of `jax.export`. Then a
            symbol may also be only a part of the arrays' sizes, such as ``2*n``.

    Raises:
        LoweringError: a symbolic dimension is not the size of an array that the module takes.
    """
    module = cast("ir.Module", lowered.compiler_ir("stablehlo"))
    names = _size_arguments(main_function(module.operation))
    if not names:
        return module
    copy = ir.Module.parse(mlir.bytecode(module), mlir.new_context())
    main = main_function(copy.operation)
    block = main.regions[0].blocks[0]
    arrays = list(block.arguments)[max(names) + 1 :]
    shapes = _shapes(lowered)
    read = _checked_sizes if checks_sizes else _sizes
    with main.context, ir.Location.unknown(main.context):
        start = ir.InsertionPoint.at_block_begin(block)
        sizes = read(copy, start, arrays, shapes, list(names.values()))
        for number, size in zip(names, sizes, strict=True):
            argument = block.arguments[number]
            if argument.type != size.type:  # in jax's x64 mode
                operation = ir.Operation.create(
                    "stablehlo.convert", [argument.type], [size], ip=start
                )
                size = operation.results[0]
            argument.replace_all_uses_with(size)
        _remove_arguments(main, names)
    return copy


def _size_arguments(main: ir.Operation) -> dict[int, str]:
    """Return the arguments of @main that are symbolic dimensions: the number and name of each."""
    attributes: Any = main.attributes.get("arg_attrs") or ()
    names = {n: each[_SIZE].value for n, each in enumerate(attributes) if _SIZE in each}
    return {number: name for number, name in names.items() if name != PLATFORM_INDEX}


def _shapes(lowered: jax.stages.Lowered) -> list[Sequence[Any]]:
    """Return the shapes of the arrays that @main takes, with jax's symbolic dimensions."""
    shapes: list[Any] = [array.shape for array in jax.tree.leaves(lowered.in_avals)]
    used = jaxprs.used_leaves(lowered)
    return shapes if used is None else [shapes[number] for number in used]


def _sizes(
    _: ir.Module,
    start: ir.InsertionPoint,
    arrays: Sequence[Any],
    shapes: Sequence[Sequence[Any]],
    names: Sequence[str],
) -> list[Any]:
    """Return the values of symbolic dimensions, by operations that read them from the arrays."""
    places: dict[str, tuple[int, int]] = {}
    for number, shape in enumerate(shapes):
        for dimension, size in enumerate(shape):
            places.setdefault(str(size), (number, dimension))
    values = []
    for name in names:
        place = places.get(name)
        if place is None:
            rule = f"no array has a dimension of the symbolic size {name}"
            fix = f"add an argument of this size, such as f32[{name}]"
            raise error_of(LoweringError, "load", rule, fix)
        number, dimension = place
        operation = ir.Operation.create(
            "stablehlo.get_dimension_size",
            [ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))],
            [arrays[number]],
            {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension)},
            ip=start,
        )
        values.append(operation.results[0])
    return values


def _checked_sizes(
    module: ir.Module,
    start: ir.InsertionPoint,
    arrays: Sequence[Any],
    shapes: Sequence[Sequence[Any]],
    names: Sequence[str],
) -> list[Any]:
    """Return the values of symbolic dimensions, as `jax.export` computes and checks them.

    jax exports a function of such arrays that returns the sizes. The operations of its @main, which
    end with a call of the function itself, are copied.
    """
    exported = ir.Module.parse(_exported_sizes(shapes, names), module.context)
    symbols = ir.SymbolTable(module.operation)
    renamed: dict[str, ir.Attribute] = {}
    copies: list[ir.Operation] = []
    for function in exported.body.operations:
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if name not in ("main", _WRAPPED):
            copies.append(function.operation.clone(ip=ir.InsertionPoint(module.body)))
            renamed[name] = ir.FlatSymbolRefAttr.get(symbols.insert(copies[-1]).value)
    block = main_function(exported.operation).regions[0].blocks[0]
    values = dict(zip(block.arguments, arrays, strict=True))
    for operation in block.operations:
        operands = [values[operand] for operand in operation.operands]
        if _callee(operation) == _WRAPPED:
            sizes = operands[: len(names)]
            break
        copy = operation.operation.clone(ip=start)
        copies.append(copy)
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        values.update(zip(operation.results, copy.results, strict=True))
    for copy in copies:
        for call in operations_in(copy, ("func.call",)):
            call.attributes["callee"] = renamed[_callee(call)]
    return sizes


def _callee(operation: Any) -> str:
    """Return the name of the function that an operation calls; "" if it calls none."""
    callee = operation.attributes.get("callee")
    return "" if callee is None else ir.FlatSymbolRefAttr(callee).value


_WRAPPED: Final = "_wrapped_jax_export_main"
"""The name that `jax.export` gives to the exported function, which its @main calls."""


def _exported_sizes(shapes: Sequence[Sequence[Any]], names: Sequence[str]) -> str:
    """Return the module, as text, of a function of arrays that returns symbolic dimensions."""
    scope = next(size.scope for shape in shapes for size in shape if hasattr(size, "scope"))
    sizes = jax.export.symbolic_shape(", ".join(names), scope=scope)
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    jitted = jax.jit(lambda *_: list(map(jnp.asarray, sizes)), keep_unused=True)
    try:
        # jax computes sizes from arrays of any type.
        exported = jax.export.export(jitted)(*[described(shape, np.bool_) for shape in shapes])
    except ValueError as error:  # a symbol is not the size of an array
        rule = f"the symbolic sizes {', '.join(names)} do not follow from the sizes of the arrays"
        fix = f"add arguments of these sizes, such as f32[{', '.join(names)}]"
        raise error_of(LoweringError, "load", rule, fix, detail=str(error)) from None
    return str(exported.mlir_module())


def _remove_arguments(main: ir.Operation, numbers: Collection[int]) -> None:
    """Remove arguments of @main, which are not used."""
    block = main.regions[0].blocks[0]
    for number in sorted(numbers, reverse=True):
        block.erase_argument(number)
    function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    inputs = [one for number, one in enumerate(function_type.inputs) if number not in numbers]
    taken = ir.FunctionType.get(inputs, function_type.results)
    main.attributes["function_type"] = ir.TypeAttr.get(taken)
    attributes: Any = main.attributes["arg_attrs"]
    kept = [each for number, each in enumerate(attributes) if number not in numbers]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
