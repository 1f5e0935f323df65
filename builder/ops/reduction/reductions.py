"""Reductions along dimensions.

Operation Semantics: Reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Never

from builder.check import Check, integers
from builder.graph.calls import unknown_arguments
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation, available_computation, is_library_function
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops import rules as shape_inference
from builder.ops.operands import (
    Operand,
    is_number,
    need_op,
    need_ops,
    number_constant,
    scalars_of,
)
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import Shape

Planned = tuple[Shape, Mapping[str, Any]]


@op_by_hand(SCHEMAS["reduce"])
def reduce(
    operands: XlaOp | Sequence[XlaOp],
    init_values: Operand | Sequence[Operand],
    computation: XlaComputation | Callable[..., Any],
    dimensions: Sequence[int],
    **unknown: Never,
) -> XlaOp:
    """Reduce one or more arrays along dimensions with a computation.

    The order of the reduction is not defined: the computation should be associative, up to
    rounding, and the init value its identity.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        init_values: the initial scalar for each operand; a Python number is a constant of the
            operand's type.
        computation: a reducer. For one operand: ``(accumulated, value) -> new``, scalars of its
            type. For N operands: it takes N accumulated values and then N new ones, and returns a
            tuple of N. Pass a computation, or a callable such as ``xb.add`` or a lambda. Functions
            of this library and functions decorated with ``@xb.computation`` are recorded once per
            signature; any other callable is recorded each time it is passed.
        dimensions: the dimensions to reduce, in any order; an empty sequence keeps the sizes.

    Returns:
        An array of the operand's remaining dimensions; for several operands a tuple of such arrays.

    Raises:
        ShapeInferenceError: sizes differ; a dimension is out of range or duplicated; an init value
            is not a scalar of its operand's type; the numbers of operands and init values differ.
        SignatureError: the computation is not a reducer for these operands.
        ConstantError: a number does not fit the type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reduce(x, 0.0, xb.add, dimensions=[0, 1]).shape
        f32[3]
        >>> i = x.builder.iota(xb.s32[4, 2, 3], 2)
        >>> def argmax(best, best_at, value, at):
        ...     better = value > best
        ...     return xb.select(better, value, best), xb.select(better, at, best_at)
        >>> xb.reduce([x, i], [float("-inf"), 0], argmax, dimensions=[2]).shape
        (f32[4,2], s32[4,2])

    Operation Semantics: Reduce.
    """
    if unknown:
        raise unknown_arguments(reduce, unknown)
    numbers = integers("reduce", "dimensions", dimensions)
    return record_reduction(_REDUCE, operands, init_values, computation, numbers)


# The key is the reducer's signature, so that callables that are recorded again share an entry.
_reduce_shape = per_signature(shape_inference.reduction.reduce.strict)


def _reduce_plan(
    name: str,
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    reducer: XlaComputation,
    dimensions: tuple[int, ...],
) -> Planned:
    shape = _reduce_shape(operands, init_values, reducer.signature, dimensions, name)
    return shape, MappingProxyType({"to_apply": reducer, "dimensions": dimensions})


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A public function that records a reduction.

    Attributes:
        opcode: the opcode that the function records.
        name: the name of the function.
        plan: a function ``(name, operand shapes, init shapes, reducer, argument)`` that returns the
            shape and the attributes of the op; `argument` is the dimensions or the window.
    """

    opcode: str
    name: str
    plan: Callable[..., Planned]


_REDUCE: Final = Reduction("reduce", "reduce", _reduce_plan)
_REDUCE_ALL: Final = Reduction("reduce", "reduce_all", _reduce_plan)


def record_reduction(
    reduction: Reduction, operands: Any, init_values: Any, computation: Any, argument: Any
) -> XlaOp:
    """Check the rules of a reduction and record the op.

    Args:
        reduction: the function that the user called.
        operands, init_values, computation: see `reduce`.
        argument: the dimensions or the window; hashable, because it is in the keys of caches.
    """
    name = reduction.name
    if (
        type(operands) is XlaOp
        and (type(init_values) is float or type(init_values) is XlaOp)
        and is_library_function(computation)
    ):
        # One array and a function such as xb.add: the usual case, without lists.
        return _record_single(reduction, operands, init_values, computation, argument)
    arrays = need_ops(name, "operand", operands)
    if not arrays:
        Check(name).fail("at least one operand is needed, got none")
    inits = init_values if isinstance(init_values, (list, tuple)) else (init_values,)
    shapes = tuple([array.shape for array in arrays])
    if is_library_function(computation):
        init_shapes, constants = _init_shapes(name, shapes, inits)
        planned = _library_plan(reduction, shapes, init_shapes, computation, argument)
        return _record(reduction, arrays, inits, init_shapes, constants, planned)

    def reduced_by(reducer: XlaComputation) -> XlaOp:
        init_shapes, constants = _init_shapes(name, shapes, inits)
        planned = reducer.planned(reduction.plan, name, shapes, init_shapes, reducer, argument)
        return _record(reduction, arrays, inits, init_shapes, constants, planned)

    scalars = scalars_of(name, shapes) * 2
    available = available_computation(name, "computation", computation, scalars)
    if available is not None:
        return reduced_by(available)
    with rollback_on_error(_builder(name, arrays, inits)):
        return reduced_by(as_computation(name, "computation", computation, scalars))


def _record_single(
    reduction: Reduction, operand: XlaOp, init: XlaOp | float, function: Any, argument: Any
) -> XlaOp:
    shapes, name = (operand.shape,), reduction.name
    if isinstance(init, XlaOp):
        planned = _library_plan(reduction, shapes, (init.shape,), function, argument)
    else:
        element_type = operand.shape.element_type
        if not element_type.is_array_element:
            scalars_of(name, shapes)  # raises
        init_shape, constant = number_constant(name, init, element_type, operand.shape)
        # The rules are checked before the constant is recorded.
        planned = _library_plan(reduction, shapes, (init_shape,), function, argument)
        builder = resolve_builder(name, operand)
        init = append(builder, "constant", init_shape, (), constant, 4)
    shape, attributes = planned
    return record(reduction.opcode, shape, (operand, init), attributes, 4)


@per_signature
def _library_plan(
    reduction: Reduction,
    shapes: tuple[Shape, ...],
    init_shapes: tuple[Shape, ...],
    function: Callable[..., Any],
    argument: Any,
) -> Planned:
    """Return the shape and the attributes of a reduction by a library function such as `xb.add`."""
    name = reduction.name
    reducer = as_computation(name, "computation", function, scalars_of(name, shapes) * 2)
    return reduction.plan(name, shapes, init_shapes, reducer, argument)


def _record(
    reduction: Reduction,
    arrays: tuple[XlaOp, ...],
    inits: Sequence[Any],
    init_shapes: tuple[Shape, ...],
    constants: Mapping[int, Mapping[str, Any]],
    planned: Planned,
) -> XlaOp:
    if constants:
        builder = _builder(reduction.name, arrays, inits)
        inits = [*inits]
        for index, constant in constants.items():
            inits[index] = append(builder, "constant", init_shapes[index], (), constant, 4)
    shape, attributes = planned
    return record(reduction.opcode, shape, (*arrays, *inits), attributes, 4)


def _builder(name: str, arrays: tuple[XlaOp, ...], inits: Sequence[Any]) -> XlaBuilder:
    return resolve_builder(name, *arrays, *[v for v in inits if type(v) is XlaOp])


def _init_shapes(
    name: str, shapes: tuple[Shape, ...], inits: Sequence[Any]
) -> tuple[tuple[Shape, ...], Mapping[int, Mapping[str, Any]]]:
    """Return the shapes of the init values, and the attributes of a constant for each number.

    The attributes are a mapping from the index of the init value. No constant is recorded yet,
    because the caller checks the rules of the reduction first.
    """
    constants: dict[int, Mapping[str, Any]] = {}
    init_shapes: list[Shape] = []
    for index, value in enumerate(inits):
        if type(value) is XlaOp:
            init_shapes.append(value.shape)
            continue
        if not is_number(value) or index >= len(shapes):
            need_op(name, f"init value {index}", value)
        scalar = scalars_of(name, shapes)[index]
        shape, constants[index] = number_constant(name, value, scalar.element_type, shapes[0])
        init_shapes.append(shape)
    return tuple(init_shapes), constants


@op_by_hand(SCHEMAS["reduce"], cpp_name="ReduceAll", section="Reduce (XlaBuilder's ReduceAll)")
def reduce_all(
    operand: XlaOp, init_value: Operand, computation: XlaComputation | Callable[..., Any]
) -> XlaOp:
    """Reduce all elements of an array: `reduce` along every dimension.

    Args:
        operand: an array.
        init_value: the initial scalar, or a Python number.
        computation: a reducer ``(accumulated, value) -> new``; see `reduce`.

    Returns:
        A scalar of the operand's element type.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: see `reduce`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reduce_all(x, 0.0, xb.add).shape
        f32[]

    Operation Semantics: Reduce.
    """
    source = need_op("reduce_all", "operand", operand)
    rank = Check("reduce_all", operand=source.shape).array("operand").rank
    dimensions = tuple(range(rank))
    return record_reduction(_REDUCE_ALL, source, init_value, computation, dimensions)
