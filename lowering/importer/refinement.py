"""Infer a module's unbounded sizes from the sizes of its arguments.

A module for arguments of any size (`tensor<?xf32>`) computes with sizes as values. When the sizes
of the arguments are known, jaxlib refines the module to a module with static sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import starmap
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.errors import OperandError, brief, error_of
from builder.ops.host import SIZE_CHECK
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    ShapeLike,
    TokenShape,
    has_unbounded_sizes,
    leaves,
    nested_text,
    parse_shape,
    shape_argument,
)
from lowering.errors import ArgumentError, LoweringError
from lowering.jaxlib_api import artifacts, mlir
from lowering.mlir.operations import main_function, operations_in
from lowering.mlir.types import mlir_type, shape_of_type
from lowering.ops.host import size_check_reason
from lowering.ops.importing import failure
from lowering.reading.helper_process import in_helper
from lowering.stablehlo.module import StablehloModule
from lowering.stablehlo.platforms import has_platform_index

_WRAPPER: Final = "stablehlo.shape_refinement_operand_wrapper"
"""The target of a custom call that returns its first operand, with a type of unbounded sizes."""


def with_argument_shapes(
    source: StablehloModule, argument_shapes: Sequence[ShapeLike], caller: str
) -> StablehloModule:
    """Refine a module for arguments of these shapes; return `source` if all its sizes are bounded.

    Args:
        source: the module, which is not changed.
        argument_shapes: the shape of each parameter, other than the number of the platform.
        caller: the public function, for messages.

    Raises:
        ArgumentError: the shapes do not match the parameters of @main.
        LoweringError: the module can't be refined for these sizes.
        OperandError: `argument_shapes` are not shapes.
    """
    parameters = checked_shapes(source, argument_shapes, caller)
    if all(map(_is_bounded, source.program_shape.parameters)) and not has_unbounded_values(source):
        return source
    copy = ir.Module.parse(mlir.bytecode(source.module), mlir.new_context())
    arguments = [leaf for shape in parameters for leaf in leaves(shape)]
    _set_argument_shapes(main_function(copy.operation), arguments, copy.context)
    return _refined(source, copy, parameters, caller)


def refined(source: StablehloModule) -> StablehloModule:
    """Return a copy of a module with all sizes inferred from the sizes of its arguments.

    Raises:
        LoweringError: jaxlib can't infer a size, or sizes contradict each other.
    """
    return _refined(source, source.module, list(source.program_shape.parameters), "to_computation")


def checked_shapes(
    source: StablehloModule, argument_shapes: Sequence[ShapeLike], caller: str
) -> list[Shape]:
    """Return the shapes of the parameters with the unbounded sizes replaced by the arguments'.

    The arguments and errors are those of `with_argument_shapes`.
    """
    shape = source.program_shape
    # `compile` passes the number of the platform.
    first = 1 if source.platforms and has_platform_index(source.module) else 0
    program_shape = ProgramShape(
        shape.parameters[first:], shape.result, shape.parameter_names[first:]
    )
    if isinstance(argument_shapes, (str, bytes)) or not isinstance(argument_shapes, Sequence):
        raise error_of(
            OperandError,
            caller,
            "argument_shapes must be a list of shapes",
            "pass one shape for each parameter, such as ['f32[8,3]']",
            got=brief(argument_shapes),
        )
    if len(argument_shapes) != len(program_shape.parameters):
        raise error_of(
            ArgumentError,
            caller,
            f"{source.name} has {len(program_shape.parameters)} parameters",
            got=f"{len(argument_shapes)} argument_shapes\n  {program_shape}",
            computation=source.name,
        )
    shapes = []
    pairs = zip(argument_shapes, program_shape.parameters, strict=True)
    for number, (value, parameter) in enumerate(pairs):
        argument = shape_argument(caller, f"argument_shapes[{number}]", value)
        replaced = _replaced(parameter, argument)
        if replaced is None:
            name = program_shape.parameter_names[number]
            raise error_of(
                ArgumentError,
                caller,
                f"argument_shapes[{number}] must be the shape of parameter {name} of "
                f"{source.name}, {parameter}, with a size for each unbounded size (?)",
                got=argument,
                computation=source.name,
                argument=number,
                name=name,
            )
        shapes.append(replaced)
    return [*shape.parameters[:first], *shapes]


def _replaced(parameter: Shape, argument: Shape) -> Shape | None:
    """Replace the unbounded sizes of a parameter by the argument's; None if the shapes differ."""
    if nested_text(parameter, lambda _: "_") != nested_text(argument, lambda _: "_"):
        return None
    pairs = list(zip(leaves(parameter), leaves(argument), strict=True))
    if not all(starmap(_fits, pairs)):
        return None
    return _with_leaves(parameter, [_in_layout_of(new, old) for old, new in pairs])


def _fits(parameter: ArrayShape | TokenShape, argument: ArrayShape | TokenShape) -> bool:
    if not isinstance(parameter, ArrayShape) or not isinstance(argument, ArrayShape):
        return parameter is argument
    if parameter.element_type is not argument.element_type or parameter.rank != argument.rank:
        return False
    old = zip(parameter.dimensions, parameter.dynamic_dimensions, strict=True)
    new = zip(argument.dimensions, argument.dynamic_dimensions, strict=True)
    return all(
        not is_dynamic if expected[0] == UNBOUNDED else expected == (size, is_dynamic)
        for expected, (size, is_dynamic) in zip(old, new, strict=True)
    )


def _with_leaves(shape: Shape, new: Sequence[ArrayShape | TokenShape]) -> Shape:
    """Return a shape with the tuple nesting of `shape` and the leaves `new`."""
    remaining = iter(new)
    return parse_shape(nested_text(shape, lambda _: str(next(remaining))))


def _in_layout_of(
    shape: ArrayShape | TokenShape, other: ArrayShape | TokenShape
) -> ArrayShape | TokenShape:
    if isinstance(shape, ArrayShape) and isinstance(other, ArrayShape):
        return shape.with_layout(other.layout)
    return shape


def _set_argument_shapes(
    main: ir.Operation, arguments: Sequence[ArrayShape | TokenShape], context: ir.Context
) -> None:
    """Set the types of @main's arguments.

    The operations of @main use the arguments through custom calls (`_WRAPPER`), whose results have
    the unbounded types until jaxlib refines the module.
    """
    block = main.regions[0].blocks[0]
    start = ir.InsertionPoint(block.operations[0])
    types = [mlir_type(shape, context) for shape in arguments]
    with context, ir.Location.unknown(context):
        second = ir.DenseElementsAttr.get(_int64([1]))
        for argument, bounded_type in zip(block.arguments, types, strict=True):
            unbounded_type = argument.type
            if bounded_type == unbounded_type:
                continue
            argument.set_type(bounded_type)
            sizes = ir.DenseElementsAttr.get(_int64(ir.RankedTensorType(bounded_type).shape))
            constant = ir.Operation.create(
                "stablehlo.constant", [sizes.type], attributes={"value": sizes}, ip=start
            )
            wrapper = ir.Operation.create(
                "stablehlo.custom_call",
                [unbounded_type],
                [argument, constant.results[0]],
                {
                    "call_target_name": ir.StringAttr.get(_WRAPPER),
                    "indices_of_shape_operands": second,
                },
                ip=start,
            )
            argument.replace_all_uses_except(wrapper.results[0], wrapper)
        results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        function_type = ir.FunctionType.get(types, list(results))
        main.attributes["function_type"] = ir.TypeAttr.get(function_type)


def _int64(numbers: Sequence[int]) -> Any:
    return np.array(numbers, np.int64)


def _refined(
    source: StablehloModule, module: ir.Module, parameters: Sequence[Shape], caller: str
) -> StablehloModule:
    """Refine `module`; return it with a signature that has the tuple nesting of `source`."""
    code = mlir.bytecode(module)
    try:
        if artifacts.REFINING_DIVIDES_BY_ZERO and _may_divide_by_zero(module.operation):
            code = in_helper(artifacts.refined_code, code, crash_reason=_CRASHED)
        else:
            code = artifacts.refined_code(code)
        refined_module = mlir.read_module(mlir.new_context(), code)
    except mlir.UnreadableModuleError as error:
        raise error_of(
            LoweringError,
            caller,
            f"{source.name} is dynamic, and its sizes can't be inferred for arguments of "
            f"{', '.join(map(str, parameters))}: {reason_of(str(error))}",
            _FIX if error.reason == _CRASHED else "",
            detail=error.detail or error.reason,
        ) from None
    _refuse_unbounded_sizes(refined_module)
    main = main_function(refined_module.operation)
    function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    old = source.program_shape
    results = [
        _in_layout_of(shape_of_type(result), leaf)
        for result, leaf in zip(function_type.results, leaves(old.result), strict=True)
    ]
    shape = ProgramShape(parameters, _with_leaves(old.result, results), old.parameter_names)
    return source.with_module(refined_module, shape)


def _is_bounded(shape: Shape) -> bool:
    return not has_unbounded_sizes(shape)


def has_unbounded_values(module: StablehloModule) -> bool:
    """Return whether any operation of a module has a result with an unbounded size."""
    types = {
        result.type
        for operation in operations_in(module.module.operation)
        for result in operation.results
    }
    return any(map(_is_unbounded_type, types))


def _is_unbounded_type(mlir_type: ir.Type) -> bool:
    try:
        return has_unbounded_sizes(shape_of_type(mlir_type))
    except LoweringError:
        return False  # not a type of XLA, which other code refuses


_CRASHED: Final = "jaxlib crashed, probably on an integer division by zero"
_FIX: Final = (
    "select 1 where an integer divisor is 0, list the replicas of reduce_scatter, or use "
    "jaxlib 0.12 or later"
)


def _may_divide_by_zero(module: ir.Operation) -> bool:
    """Return whether jaxlib may divide by zero when it refines a module.

    It folds integer divisions, whose divisor may be other than a constant without zeros, and
    divides by the size of a reduce_scatter's groups.
    """
    for operation in operations_in(module, ("stablehlo.reduce_scatter",)):
        groups = operation.attributes["replica_groups"]
        if isinstance(groups, ir.DenseIntElementsAttr) and len(groups) == 0:
            return True
    for operation in operations_in(module, ("stablehlo.divide", "stablehlo.remainder")):
        divisor = operation.operands[1]
        if isinstance(ir.ShapedType(divisor.type).element_type, ir.IntegerType):
            owner = getattr(divisor.owner, "operation", None)
            if owner is None or owner.name != "stablehlo.constant":
                return True
            try:
                elements = np.array(owner.attributes["value"])
            except (BufferError, TypeError):
                return True  # MLIR's Python bindings can't read these elements
            if not elements.all():
                return True
    return False


def _refuse_unbounded_sizes(module: ir.Module) -> None:
    """Raise LoweringError for the first operation whose result has unbounded sizes."""
    bounded: set[ir.Type] = set()
    for operation in operations_in(module.operation):
        for result in operation.results:
            if result.type not in bounded:
                shape = shape_of_type(result.type)
                if has_unbounded_sizes(shape):
                    raise failure(
                        operation,
                        "the operation is dynamic, which XLA supports only if the sizes of the "
                        "result follow from the arguments' sizes",
                        got=shape,
                    )
                bounded.add(result.type)


_FAILED_CHECK: Final = f' error: loc("{SIZE_CHECK}")'


def reason_of(report: str) -> str:
    """Return the first line of jaxlib's report, without the status code and the location.

    A check of the program's own comes before other errors, which may follow from it.
    """
    lines = report.strip().splitlines() or ["no reason"]
    line = next((each for each in lines if _FAILED_CHECK in each), lines[0])
    return size_check_reason(re.sub(r"^loc\([^)]*\): ", "", line.rpartition(" error: ")[2]))
