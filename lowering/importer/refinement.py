"""Sizes that a module leaves open, worked out from those of its arguments.

Programs for arguments of any size (`tensor<?xf32>`) say sizes as values: asked of an argument,
calculated with, given to operations that make arrays of them. When the arguments' sizes are known,
so are all these, and jaxlib says the program again without them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.errors import OperandError, brief
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    ShapeLike,
    TokenShape,
    leaves,
    nested_text,
    parse_shape,
    shape_argument,
)
from lowering.errors import ArgumentError, LoweringError
from lowering.importer.failures import failure
from lowering.jaxlib_api import artifacts, mlir
from lowering.mlir.types import attribute_text, mlir_type, shape_of_type
from lowering.stablehlo.module import StablehloModule

__all__ = ["has_open_sizes", "main_function", "refined", "with_argument_shapes"]

_WRAPPER: Final = "stablehlo.shape_refinement_operand_wrapper"
"""A custom call that gives its first operand, in a type with sizes left open."""


def has_open_sizes(shape: Shape) -> bool:
    """Whether a size is left open in an array or in an element of a tuple."""
    return any(isinstance(leaf, ArrayShape) and not leaf.is_bounded for leaf in leaves(shape))


def with_argument_shapes(
    source: StablehloModule, argument_shapes: Sequence[ShapeLike]
) -> StablehloModule:
    """A module for arguments of these shapes; `source` itself, if it is for these alone.

    Raises:
        ArgumentError: they are not as many as @main has parameters, or not of their types.
        LoweringError: the module can't be refined for these sizes.
        OperandError: they are no shapes.
    """
    parameters = _checked(source, argument_shapes)
    if not any(map(has_open_sizes, source.program_shape.parameters)):
        return source
    copy = ir.Module.parse(mlir.bytecode(source.module), mlir.new_context())
    arguments = [leaf for shape in parameters for leaf in leaves(shape)]
    _fix(main_function(copy), arguments, copy.context)
    return _refined(source, copy, parameters)


def refined(source: StablehloModule) -> StablehloModule:
    """A module with the sizes worked out that follow from its arguments', which are known.

    Raises:
        LoweringError: sizes contradict each other.
    """
    return _refined(source, source.module, list(source.program_shape.parameters))


def _checked(source: StablehloModule, argument_shapes: Sequence[ShapeLike]) -> list[Shape]:
    """The shapes of the parameters, sizes left open filled in."""
    said = source.program_shape
    if isinstance(argument_shapes, (str, bytes)) or not isinstance(argument_shapes, Sequence):
        raise OperandError(
            f"to_computation: argument_shapes must be a list of shapes, got "
            f"{brief(argument_shapes)}\nfix: one shape for each parameter, such as ['f32[8,3]']",
            op="to_computation",
        )
    if len(argument_shapes) != len(said.parameters):
        raise ArgumentError(
            f"to_computation: {source.name} has {len(said.parameters)} parameters, got "
            f"{len(argument_shapes)} argument_shapes\n  {said}",
            computation=source.name,
            op="to_computation",
        )
    found = []
    for number, (value, parameter) in enumerate(zip(argument_shapes, said.parameters, strict=True)):
        given = shape_argument("to_computation", f"argument_shapes[{number}]", value)
        filled = _filled(parameter, given)
        if filled is None:
            name = said.parameter_names[number]
            raise ArgumentError(
                f"to_computation: argument_shapes[{number}] must be {parameter}, as parameter "
                f"{name} of {source.name} is, with a size for each that is open (?), got {given}",
                computation=source.name,
                argument=number,
                name=name,
                op="to_computation",
            )
        found.append(filled)
    return found


def _filled(parameter: Shape, given: Shape) -> Shape | None:
    """The shape of a parameter with the sizes given where they are open; None if they differ."""
    if nested_text(parameter, lambda _: "_") != nested_text(given, lambda _: "_"):
        return None
    pairs = list(zip(leaves(parameter), leaves(given), strict=True))
    if not all(_fits(one, other) for one, other in pairs):
        return None
    return _with_leaves(parameter, [_in_layout_of(other, one) for one, other in pairs])


def _fits(parameter: ArrayShape | TokenShape, given: ArrayShape | TokenShape) -> bool:
    if not isinstance(parameter, ArrayShape) or not isinstance(given, ArrayShape):
        return parameter is given
    if parameter.element_type is not given.element_type or parameter.rank != given.rank:
        return False
    wanted = zip(parameter.dimensions, parameter.dynamic_dimensions, strict=True)
    got = zip(given.dimensions, given.dynamic_dimensions, strict=True)
    return all(
        not other[1] if one[0] == UNBOUNDED else one == other
        for one, other in zip(wanted, got, strict=True)
    )


def _with_leaves(shape: Shape, wanted: Sequence[ArrayShape | TokenShape]) -> Shape:
    """A shape that is nested as this one, with these leaves."""
    remaining = iter(wanted)
    return parse_shape(nested_text(shape, lambda _: str(next(remaining))))


def _in_layout_of(
    shape: ArrayShape | TokenShape, other: ArrayShape | TokenShape
) -> ArrayShape | TokenShape:
    if isinstance(shape, ArrayShape) and isinstance(other, ArrayShape):
        return shape.with_layout(other.layout)
    return shape


def main_function(module: ir.Module) -> ir.Operation:
    """The function @main of a module."""
    (found,) = (
        view.operation
        for view in module.body.operations
        if view.operation.name == "func.func"
        and attribute_text(view.operation.attributes["sym_name"]) == "main"
    )
    return found


def _fix(
    main: ir.Operation, arguments: Sequence[ArrayShape | TokenShape], context: ir.Context
) -> None:
    """Gives @main arguments of these shapes.

    The operations in it go on taking values with open sizes, until jaxlib refines these.
    """
    block = main.regions[0].blocks[0]
    begin = ir.InsertionPoint(block.operations[0])
    types = [mlir_type(shape, context) for shape in arguments]
    with context, ir.Location.unknown(context):
        second = ir.DenseElementsAttr.get(_buffer([1]))
        for argument, kind in zip(block.arguments, types, strict=True):
            open_kind = argument.type
            if kind == open_kind:
                continue
            argument.set_type(kind)
            value = ir.DenseElementsAttr.get(_buffer(ir.RankedTensorType(kind).shape))
            constant = ir.Operation.create(
                "stablehlo.constant", [value.type], attributes={"value": value}, ip=begin
            )
            wrapper = ir.Operation.create(
                "stablehlo.custom_call",
                [open_kind],
                [argument, constant.results[0]],
                {
                    "call_target_name": ir.StringAttr.get(_WRAPPER),
                    "indices_of_shape_operands": second,
                },
                ip=begin,
            )
            argument.replace_all_uses_except(wrapper.results[0], wrapper)
        results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        whole = ir.FunctionType.get(types, list(results))
        main.attributes["function_type"] = ir.TypeAttr.get(whole)


def _buffer(numbers: Sequence[int]) -> Any:
    """Numbers as MLIR's Python takes them."""
    return np.array(numbers, np.int64)


def _refined(
    source: StablehloModule, module: ir.Module, parameters: Sequence[Shape]
) -> StablehloModule:
    """What jaxlib makes of a module; its signature is nested as that of `source`."""
    try:
        code = artifacts.refined(module)
        found = mlir.read_module(mlir.new_context(), code)
    except (ValueError, mlir.UnreadableModuleError) as error:
        raise LoweringError(
            f"to_computation: {source.name} is dynamic, and its sizes can't be worked out for "
            f"arguments of {', '.join(map(str, parameters))}: {_reason(str(error))}",
            op="to_computation",
            detail=str(error),
        ) from None
    _refuse_open_sizes(found)
    kind = ir.FunctionType(ir.TypeAttr(main_function(found).attributes["function_type"]).value)
    said = source.program_shape
    results = [
        _in_layout_of(shape_of_type(one), other)
        for one, other in zip(kind.results, leaves(said.result), strict=True)
    ]
    shape = ProgramShape(parameters, _with_leaves(said.result, results), said.parameter_names)
    return StablehloModule(found, shape, source.functions)


def _refuse_open_sizes(module: ir.Module) -> None:
    """Raises LoweringError for the first operation that gives an array with open sizes."""
    static: set[ir.Type] = set()

    def look(view: ir.Operation) -> ir.WalkResult:
        for result in view.results:
            kind = result.type
            if kind not in static:
                if has_open_sizes(shape_of_type(kind)):
                    given.append((view, kind))
                    return ir.WalkResult.INTERRUPT
                static.add(kind)
        return ir.WalkResult.ADVANCE

    given: list[tuple[ir.Operation, ir.Type]] = []
    module.operation.walk(look)
    for operation, kind in given:
        raise failure(
            operation,
            f"it is dynamic, and XLA's shapes are not: the sizes of its result, "
            f"{shape_of_type(kind)}, are not fixed, and don't follow from the arguments' sizes",
        )


def _reason(report: str) -> str:
    """The first line of jaxlib's report, without the status and the places in MLIR's text."""
    line = (report.strip().splitlines() or ["no reason"])[0]
    return re.sub(r"^loc\([^)]*\): ", "", line.rpartition(" error: ")[2])
