"""Bounded sizes of the parameters and results of a program.

PJRT has no arrays of bounded size. So a bounded parameter is passed at its bound, and its sizes as
further parameters; the program sets the sizes. A bounded result is returned in the same way.
`Executable` pads the arguments and slices the results.

XLA propagates the sizes through most operations. `bounded_ops` rewrites the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jaxlib.mlir import ir

from builder.errors import error_of
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.errors import CompileError, recorded_at
from lowering.legalize.bounded_ops import BOUNDED
from lowering.legalize.entry_attributes import SIGNATURE_ATTRIBUTES
from lowering.legalize.op_builder import OpBuilder, array_of, integers_of, is_static
from lowering.legalize.registry import ALL_PLATFORMS, Target, Value, refuse, rewrites_for
from lowering.legalize.worklist import apply_rewrites
from lowering.mlir.operations import (
    argument_attributes,
    main_function,
    operations_in,
    set_argument_attributes,
)
from lowering.mlir.types import shape_of_type
from lowering.ops.dynamic import loses_a_size


def _bounded_of(shape: ArrayShape) -> list[int]:
    return [d for d, dynamic in enumerate(shape.dynamic_dimensions) if dynamic]


def has_bounded_sizes(module: ir.Operation, strings: bytes) -> bool:
    """Whether a module has bounded sizes; `strings` are the strings in its bytecode.

    Bounded sizes originate from parameters, from `set_dimension_size`, and from
    `dynamic_broadcast_in_dim` with a result of bounded size.
    """
    return (
        b"set_dimension_size\0" in strings
        or b"dynamic_broadcast_in_dim\0" in strings
        or _has_bounded_signature(main_function(module))
    )


def _has_bounded_signature(function: ir.Operation) -> bool:
    function_type = _function_type(function)
    return not all(map(is_static, (*function_type.inputs, *function_type.results)))


_DYNAMIC: Final = (
    b"dynamic_broadcast_in_dim\0",
    b"dynamic_conv\0",
    b"dynamic_gather\0",
    b"dynamic_iota\0",
    b"dynamic_pad\0",
    b"dynamic_reshape\0",
    b"real_dynamic_slice\0",
)
"""The operations whose results may have unbounded sizes, as strings in bytecode."""


def refuse_unbounded_sizes(module: ir.Operation, strings: bytes, name: str) -> None:
    """Refuse results of unbounded size in a module whose parameters have no unbounded sizes.

    Raises:
        CompileError: the result of an operation has an unbounded size.
    """
    if not any(operation in strings for operation in _DYNAMIC):
        return
    for operation in operations_in(module):
        for result in operation.results:
            if not is_static(result.type) and not array_of(result).is_bounded:
                raise error_of(
                    CompileError,
                    "compile",
                    f"{name}: the result of {operation.name}{recorded_at(operation)} must have "
                    "fixed or bounded sizes",
                    "pass the shapes of the parameters, so that the sizes can be inferred: "
                    "lowering.compile(..., argument_shapes=[...])",
                    got=array_of(result),
                )


def legalize_bounded(target: Target, module: ir.Operation) -> None:
    """Rewrite, in place, operations on bounded sizes that XLA gets wrong.

    Change @main to receive the sizes of bounded arguments, and to return those of bounded results.
    """
    # The operations that these rewrites create work at the bounds, and need no other rewrite.
    apply_rewrites(target, module, rewrites_for(target.platform, BOUNDED), revisit=False)
    main = main_function(module)
    if not _has_bounded_signature(main):
        return
    block, function_type = main.regions[0].blocks[0], _function_type(main)
    for name in SIGNATURE_ATTRIBUTES:  # they do not fit the new signature
        if name in module.attributes:
            del module.attributes[name]
    with module.context:
        inputs = _pass_arguments_at_bounds(target, block, list(function_type.inputs))
        results = _return_at_bounds(target, block, list(function_type.results))
        # The added arguments and results have no attributes.
        for key, types in (("arg_attrs", inputs), ("res_attrs", results)):
            if key in main.attributes:
                attributes = argument_attributes(main, key)
                added = len(types) - len(attributes)
                set_argument_attributes(main, key, [*attributes, *[{}] * added])
        function_type = ir.FunctionType.get(inputs, results)
        main.attributes["function_type"] = ir.TypeAttr.get(function_type)


def _pass_arguments_at_bounds(
    target: Target, block: ir.Block, inputs: list[ir.Type]
) -> list[ir.Type]:
    """Add arguments for the sizes of bounded arguments; return the types of all arguments."""
    b = OpBuilder(target, block.operations[0].operation)
    size = b.type(intern_array(pt.s32, ()))
    for number, shape in _bounded(inputs):
        argument = block.arguments[number]
        inputs[number] = b.type(shape.at_bounds())
        argument.set_type(inputs[number])
        sizes: list[Value | None] = [None] * shape.rank
        for dimension in _bounded_of(shape):
            sizes[dimension] = block.add_argument(size, argument.location)
            inputs.append(size)
        target.created = []
        value = b.sized(argument, sizes)
        argument.replace_all_uses_except(value, target.created[0])
    return inputs


def _return_at_bounds(target: Target, block: ir.Block, results: list[ir.Type]) -> list[ir.Type]:
    """Add results for the sizes of bounded results; return the types of all results."""
    terminator = block.operations[-1].operation
    b = OpBuilder(target, terminator)
    values = list(terminator.operands)
    for number, shape in _bounded(results):
        # A rewrite may have replaced a bounded value by one of fixed sizes.
        sizes = [b.size(values[number], d) for d in _bounded_of(shape)]
        values[number] = b.at_bounds(values[number])
        results[number] = values[number].type
        values += sizes
        results += [size.type for size in sizes]
    b.create("func.return", [], values)
    terminator.erase()
    return results


def _function_type(function: ir.Operation) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _bounded(types: list[ir.Type]) -> Iterator[tuple[int, ArrayShape]]:
    """Yield the position and the shape of each type with bounded sizes."""
    for number, mlir_type in enumerate(list(types)):
        if not is_static(mlir_type):
            shape = shape_of_type(mlir_type)
            assert isinstance(shape, ArrayShape)  # a token is static
            yield number, shape


def _fits_its_bounds(operation: ir.Operation) -> bool:
    if is_static(operation.results[0].type):
        return True
    sizes, bounds = array_of(operation.operands[0]), array_of(operation.results[0])
    places = integers_of(operation, "broadcast_dimensions")
    return all(
        size <= max(1, bounds.dimensions[place])
        for size, place in zip(sizes.dimensions, places, strict=True)
    )


refuse(
    "stablehlo.dynamic_broadcast_in_dim",
    *ALL_PLATFORMS,
    reason="a size of the operand is larger than the bound of the result's dimension",
    fix="pass an operand whose size is within the bound",
    unless=_fits_its_bounds,
)


def _retains_sizes(operation: ir.Operation) -> bool:
    if is_static(operation.operands[0].type):
        return True
    return not loses_a_size(array_of(operation.operands[0]), array_of(operation.results[0]))


refuse(
    "stablehlo.reshape",
    *ALL_PLATFORMS,
    reason="the result has the bound as a fixed size, so the number of valid elements is lost",
    fix="mark the bounded dimension of the result with xb.reshape_with_inferred_dimension, or "
    "remove the bounded size first with xb.remove_dynamic_dimension",
    unless=_retains_sizes,
)


# Those whose operands follow from sizes are slices and pads when the sizes are known.
refuse(
    "stablehlo.real_dynamic_slice",
    *ALL_PLATFORMS,
    reason="its indices depend on values, and XLA's slices have fixed sizes",
    fix="use xb.dynamic_slice with a fixed size, or xb.slice if the indices are constant",
)
refuse(
    "stablehlo.dynamic_gather",
    *ALL_PLATFORMS,
    reason="its slice sizes depend on values, and XLA's slices have fixed sizes",
    fix="use xb.gather with fixed slice sizes",
)
refuse(
    "stablehlo.dynamic_pad",
    *ALL_PLATFORMS,
    reason="its amounts depend on values, and XLA's pads have fixed amounts",
    fix="use xb.dynamic_update_slice into a larger array, or xb.pad if the amounts are constant",
)
