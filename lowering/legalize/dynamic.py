"""Bounded sizes where a program is entered and left.

No client of PJRT has arrays whose size is known only when a program runs. So a bounded parameter is
entered as an array of its largest sizes, and its sizes beside it, and becomes bounded inside; a
bounded result leaves as an array of its largest sizes, and its sizes beside it. `Executable` fills
the one up and cuts the other off.

Inside, XLA follows the sizes through most operations; `bounded_ops` has the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.bounded_sizes import loses_a_size
from builder.shape import ArrayShape, Shape, intern_array, leaves
from lowering.legalize.bounded_ops import BOUNDED
from lowering.legalize.registry import Rewriter, refuse
from lowering.legalize.words import array_of
from lowering.types import dense_attribute, mlir_type, shape_of_type

__all__ = ["bounded_dimensions", "has_bounded_sizes", "legalize_bounded"]

_SIZE: Final = intern_array(pt.s32, ())


def bounded_dimensions(shapes: Iterable[Shape]) -> list[tuple[int, int]]:
    """The bounded dimensions of all leaves, as pairs of the leaf's number and the dimension.

    In this order stand the sizes, behind all other arguments and behind all other results.
    """
    found = []
    number = 0
    for shape in shapes:
        for leaf in leaves(shape):
            if not leaf.is_static:
                assert isinstance(leaf, ArrayShape)  # tokens have no sizes
                found += [(number, d) for d in range(leaf.rank) if leaf.dynamic_dimensions[d]]
            number += 1
    return found


def has_bounded_sizes(module: ir.Operation, words: bytes) -> bool:
    """Whether some size of a module is bounded; `words` are those in its bytecode.

    They come from the parameters and from `set_dimension_size`.
    """
    if b"set_dimension_size\0" in words:
        return True
    kind = _function_type(_main(module))
    return any(not _is_static(one) for one in (*kind.inputs, *kind.results))


def legalize_bounded(rewriter: Rewriter, module: ir.Operation) -> None:
    """Writes what XLA can't do with bounded sizes in other words, in place."""
    found: list[ir.Operation] = []

    def note(operation: ir.Operation) -> ir.WalkResult:
        name = operation.name
        if name in BOUNDED and (
            name == "stablehlo.set_dimension_size"
            or any(not _is_static(operand.type) for operand in operation.operands)
        ):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(note)
    main = _main(module)
    kind = _function_type(main)
    with module.context:
        for operation in found:
            BOUNDED[operation.name](rewriter, operation)
        if any(not _is_static(one) for one in (*kind.inputs, *kind.results)):
            inputs = _enter(main.regions[0].blocks[0], list(kind.inputs))
            results = _leave(main.regions[0].blocks[0], list(kind.results))
            _retype(main, inputs, results)


def _enter(block: ir.Block, inputs: list[ir.Type]) -> list[ir.Type]:
    """Makes the arguments bounded inside; gives the types of those that come in."""
    ip = ir.InsertionPoint.at_block_begin(block)
    for number, shape in _bounded(inputs):
        argument = block.arguments[number]
        inputs[number] = _type(shape.at_bounds())
        argument.set_type(inputs[number])
        sizes = []
        for _ in range(sum(shape.dynamic_dimensions)):
            sizes.append(block.add_argument(_type(_SIZE), argument.location))
            inputs.append(_type(_SIZE))
        steps = _steps(argument, sizes, shape.at_bounds(), shape, ip, argument.location)
        argument.replace_all_uses_except(steps[-1], steps[0].owner.operation)
    return inputs


def _leave(block: ir.Block, results: list[ir.Type]) -> list[ir.Type]:
    """Makes the results fixed, and returns their sizes too; gives the types of what goes out."""
    last = list(block.operations)[-1]
    ip, location = ir.InsertionPoint(last), last.location
    values = list(last.operands)
    for number, shape in _bounded(results):
        values[number], sizes = _fixed(values[number], shape, ip, location)
        results[number] = values[number].type
        values += sizes
        results += [size.type for size in sizes]
    ir.Operation.create("func.return", operands=values, loc=location, ip=ip)
    last.erase()
    return results


def _keeps_its_sizes(operation: ir.Operation) -> bool:
    if _is_static(operation.operands[0].type):
        return True
    return not loses_a_size(array_of(operation.operands[0]), array_of(operation.results[0]))


refuse(
    "stablehlo.reshape",
    "cpu",
    "gpu",
    "tpu",
    reason="it makes fixed sizes of a bounded one, and of which elements there are nothing is left",
    fix="say which part is bounded with xb.reshape_with_inferred_dimension, or take the bounded "
    "size away first with xb.remove_dynamic_dimension",
    unless=_keeps_its_sizes,
)


def _main(module: ir.Operation) -> ir.Operation:
    for view in module.regions[0].blocks[0].operations:
        operation: ir.Operation = view.operation
        if operation.name == "func.func" and (
            ir.StringAttr(operation.attributes["sym_name"]).value == "main"
        ):
            return operation
    raise AssertionError("a module has a function @main")


def _function_type(function: ir.Operation) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _retype(function: ir.Operation, inputs: list[ir.Type], results: list[ir.Type]) -> None:
    """Gives a function its new type; the added arguments and results have no attributes."""
    old = _function_type(function)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for name, added in (
        ("arg_attrs", len(inputs) - len(old.inputs)),
        ("res_attrs", len(results) - len(old.results)),
    ):
        if added and name in function.attributes:
            kept = list(ir.ArrayAttr(function.attributes[name]))
            function.attributes[name] = ir.ArrayAttr.get([*kept, *[ir.DictAttr.get({})] * added])


def _is_static(one: ir.Type) -> bool:
    return not isinstance(one, ir.RankedTensorType) or one.has_static_shape


def _shape(value: Any) -> ArrayShape:
    shape = shape_of_type(value.type)
    assert isinstance(shape, ArrayShape)  # asked only of tensors
    return shape


def _bounded(types: list[ir.Type]) -> Iterator[tuple[int, ArrayShape]]:
    """Those of the types that have bounded sizes: their numbers and shapes."""
    for number, one in enumerate(list(types)):
        if not _is_static(one):
            shape = shape_of_type(one)
            assert isinstance(shape, ArrayShape)  # a token is static
            yield number, shape


def _fixed(value: Any, shape: ArrayShape, ip: Any, location: ir.Location) -> tuple[Any, list[Any]]:
    """The value with its bounds as its sizes, and the sizes that it had."""
    sizes, bounds = [], []
    for dimension, dynamic in enumerate(shape.dynamic_dimensions):
        if dynamic:
            attributes = {"dimension": _i64(dimension)}
            sizes.append(_created("get_dimension_size", _SIZE, [value], attributes, ip, location))
            bound = np.array(shape.dimensions[dimension], np.int32)
            constant = {"value": dense_attribute(bound, _type(_SIZE))}
            bounds.append(_created("constant", _SIZE, [], constant, ip, location))
    if not bounds:
        return value, sizes
    return _steps(value, bounds, shape, shape.at_bounds(), ip, location)[-1], sizes


def _steps(
    value: Any,
    sizes: list[Any],
    begin: ArrayShape,
    end: ArrayShape,
    ip: Any,
    location: ir.Location,
) -> list[Any]:
    """The value after each of these sizes was set, in the dimensions in which the shapes differ."""
    marks = list(begin.dynamic_dimensions)
    remaining = iter(sizes)
    found = []
    for dimension, mark in enumerate(end.dynamic_dimensions):
        if marks[dimension] != mark:
            marks[dimension] = mark
            step = intern_array(end.element_type, end.dimensions, tuple(marks))
            operands, attributes = [value, next(remaining)], {"dimension": _i64(dimension)}
            value = _created("set_dimension_size", step, operands, attributes, ip, location)
            found.append(value)
    return found


def _created(
    name: str,
    shape: ArrayShape,
    operands: list[Any],
    attributes: dict[str, ir.Attribute],
    ip: Any,
    location: ir.Location,
) -> Any:
    """The value of a new operation."""
    return ir.Operation.create(
        f"stablehlo.{name}",
        results=[_type(shape)],
        operands=operands,
        attributes=attributes,
        loc=location,
        ip=ip,
    ).result


def _type(shape: ArrayShape) -> ir.Type:
    return mlir_type(shape, ir.Context.current)


def _i64(number: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
