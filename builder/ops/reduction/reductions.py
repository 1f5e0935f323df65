"""Reductions along whole dimensions.

Operation Semantics: Reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from builder import shape_inference
from builder.check import Check, integers
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.subcomputations import as_computation, available_computation, is_library_function
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.operands import Number, is_number, need_op, need_ops, number_constant
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, intern_array

__all__ = [
    "folded_operands",
    "inits_of",
    "ready_reducer",
    "recorded_init",
    "recorded_inits",
    "reduce",
    "reduce_all",
    "reducer",
    "resolved",
    "scalars_of",
    "single_init",
]


@op(SCHEMAS["reduce"])
def reduce(
    operands: XlaOp | Sequence[XlaOp],
    init_values: XlaOp | Number | Sequence[XlaOp | Number],
    computation: XlaComputation | Callable[..., Any],
    dimensions: Sequence[int],
) -> XlaOp:
    """The elements of one or more arrays folded together along some dimensions.

    The order in which elements are folded is not defined: the computation should be associative,
    up to rounding, and the init value should change nothing.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        init_values: for each operand the scalar to begin with; a Python number stands for a
            constant of the operand's type.
        computation: a reducer: for one operand ``(accumulated, value) -> new``, all scalars of its
            type; for N operands it takes N accumulated values and then N new ones, and gives a
            tuple of N. A computation, or a callable such as ``xb.add`` or a lambda. For every op
            that takes callables: functions of this library and of ``@xb.computation`` are recorded
            once per signature, every other callable each time it is passed.
        dimensions: the dimensions that are folded, in any order; none leaves the sizes.

    Returns:
        An array of the operand's remaining dimensions; for several operands a tuple of those.

    Raises:
        ShapeInferenceError: sizes differ; a dimension is out of range or named twice; an init
            value is no scalar of its operand's type; counts differ.
        SignatureError: the computation is no reducer for these operands.
        ConstantError: the type can't hold a number.

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
    places = integers("reduce", "dimensions", dimensions)
    return _reduce("reduce", operands, init_values, computation, places)


# By signatures, which computations of equal shapes have in common, for callables recorded anew.
_reduce_shape = per_signature(shape_inference.reduction.reduce.strict)


def _plan(
    name: str,
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    applied: XlaComputation,
    places: tuple[int, ...],
) -> tuple[Shape, Mapping[str, Any]]:
    shape = _reduce_shape(operands, init_values, applied.signature, places, name)
    return shape, MappingProxyType({"to_apply": applied, "dimensions": places})


@per_signature
def _own_plan(
    name: str,
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    computation: Callable[..., Any],
    places: tuple[int, ...],
) -> tuple[Shape, Mapping[str, Any]]:
    """Shape and attributes where one of the library's own functions is the reducer."""
    return _plan(name, operands, init_values, reducer(name, operands, computation), places)


def _reduce(
    name: str, operands: Any, init_values: Any, computation: Any, places: tuple[int, ...]
) -> XlaOp:
    if type(operands) is XlaOp and is_library_function(computation):
        # One array, and xb.add or the like: what is written nearly always, in two thirds of the
        # time.
        init = single_init(name, operands, init_values)
        if init is not None:
            shape, attributes = _own_plan(name, (operands.shape,), init[:1], computation, places)
            begun = recorded_init(name, operands, init_values, init)
            return record("reduce", shape, (operands, begun), attributes)
    arrays, given = folded_operands(name, operands, init_values)
    shapes = tuple([a.shape for a in arrays])
    if is_library_function(computation):
        inits = inits_of(name, arrays, shapes, given)
        shape, attributes = _own_plan(name, shapes, inits[0], computation, places)
        return record(
            "reduce", shape, (*arrays, *recorded_inits(name, arrays, given, inits)), attributes
        )
    known = ready_reducer(name, shapes, computation)
    if known is not None:
        return _record_reduce(name, arrays, shapes, given, known, places)
    with rollback_on_error(resolved(name, arrays, given)):
        return _record_reduce(name, arrays, shapes, given, computation, places)


def _record_reduce(
    name: str,
    arrays: tuple[XlaOp, ...],
    shapes: tuple[Shape, ...],
    given: Sequence[Any],
    computation: Any,
    places: tuple[int, ...],
) -> XlaOp:
    applied = reducer(name, shapes, computation)
    inits = inits_of(name, arrays, shapes, given)
    init_shapes = inits[0]
    key = (name, shapes, init_shapes, places)
    plan = applied.plans.get(key)
    if plan is None:
        plan = applied.planned(key, _plan, name, shapes, init_shapes, applied, places)
    shape, attributes = plan
    return record(
        "reduce", shape, (*arrays, *recorded_inits(name, arrays, given, inits)), attributes
    )


SingleInit = tuple[Shape, Mapping[str, Any] | None]
"""The shape of an init value, and the attributes of the constant if it is a number."""


def single_init(op: str, operand: XlaOp, init_value: Any) -> SingleInit | None:
    """What one init value stands for, if it is an op or a Python number; nothing is recorded."""
    if type(init_value) is XlaOp:
        return init_value.shape, None
    if type(init_value) is float or type(init_value) is int:
        scalar = scalars_of(op, (operand.shape,))[0]
        return number_constant(op, init_value, scalar.element_type, operand.shape)
    return None


def recorded_init(op: str, operand: XlaOp, init_value: Any, init: SingleInit) -> XlaOp:
    """The init value that `single_init` has told of, as an op."""
    shape, constant = init
    if constant is None:
        assert isinstance(init_value, XlaOp)  # or it would have been a number
        return init_value
    return append(resolve_builder(op, operand), "constant", shape, (), constant)


def folded_operands(
    op: str, operands: Any, init_values: Any
) -> tuple[tuple[XlaOp, ...], Sequence[Any]]:
    """The operands of a reduction, of which there must be one, and its init values in a list."""
    arrays = need_ops(op, "operand", operands)
    if not arrays:
        Check(op).fail("at least one operand is needed, got none")
    return arrays, init_values if isinstance(init_values, (list, tuple)) else (init_values,)


def resolved(op: str, arrays: tuple[XlaOp, ...], given: Sequence[Any]) -> XlaBuilder:
    """The builder that records the reduction."""
    return resolve_builder(op, *arrays, *[v for v in given if type(v) is XlaOp])


def ready_reducer(op: str, shapes: tuple[Shape, ...], computation: Any) -> Any:
    """What folds arrays of these shapes, if no callable of the user has to be called; or None."""
    if type(computation) is XlaComputation:
        return computation
    scalars = scalars_of(op, shapes)
    return available_computation(op, "computation", computation, scalars + scalars)


def reducer(op: str, shapes: tuple[Shape, ...], computation: Any) -> XlaComputation:
    """The computation that folds arrays of these shapes."""
    if type(computation) is XlaComputation:
        return computation
    scalars = scalars_of(op, shapes)
    return as_computation(op, "computation", computation, scalars + scalars)


Inits = tuple[tuple[Shape, ...], Sequence[Mapping[str, Any] | None]]
"""The shapes of init values, and the attributes of the constants for those that are numbers."""


_NO_CONSTANTS: Sequence[None] = (None,)


def inits_of(
    op: str, arrays: tuple[XlaOp, ...], shapes: tuple[Shape, ...], given: Sequence[Any]
) -> Inits:
    """What init values stand for. Nothing is recorded: the rules are checked first."""
    if len(given) == 1 and type(given[0]) is XlaOp:
        return (given[0].shape,), _NO_CONSTANTS
    init_shapes: list[Shape] = []
    constants: list[Mapping[str, Any] | None] = []
    for index, value in enumerate(given):
        if type(value) is XlaOp:
            init_shapes.append(value.shape)
            constants.append(None)
            continue
        if not is_number(value) or index >= len(arrays):
            need_op(op, f"init value {index}", value)
        scalar = scalars_of(op, shapes)[index]
        shape, attributes = number_constant(op, value, scalar.element_type, shapes[0])
        init_shapes.append(shape)
        constants.append(attributes)
    return tuple(init_shapes), constants if any(constants) else _NO_CONSTANTS


def recorded_inits(
    op: str, arrays: tuple[XlaOp, ...], given: Sequence[Any], inits: Inits
) -> Sequence[XlaOp]:
    """The init values as ops."""
    shapes, constants = inits
    if constants is _NO_CONSTANTS:
        return given
    builder = resolved(op, arrays, given)
    return [
        value if constant is None else append(builder, "constant", shape, (), constant)
        for value, shape, constant in zip(given, shapes, constants, strict=True)
    ]


@per_signature
def scalars_of(op: str, shapes: tuple[Shape, ...]) -> tuple[ArrayShape, ...]:
    """A scalar shape of each operand's element type; raises when one is no array."""
    arrays = Check.numbered(op, "operand", shapes).arrays()
    return tuple(intern_array(a.element_type, ()) for a in arrays)


@op(SCHEMAS["reduce"], cpp_name="ReduceAll", section="Reduce (XlaBuilder's ReduceAll)")
def reduce_all(
    operand: XlaOp,
    init_value: XlaOp | Number,
    computation: XlaComputation | Callable[..., Any],
) -> XlaOp:
    """All elements of an array folded together: `reduce` along every dimension.

    Args:
        operand: an array.
        init_value: the scalar to begin with, or a Python number.
        computation: a reducer ``(accumulated, value) -> new``; see `reduce`.

    Returns:
        A scalar of the operand's element type.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: as in `reduce`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reduce_all(x, 0.0, xb.add).shape
        f32[]

    Operation Semantics: Reduce.
    """
    source = need_op("reduce_all", "operand", operand)
    rank = Check("reduce_all", operand=source.shape).array("operand").rank
    return _reduce("reduce_all", source, init_value, computation, tuple(range(rank)))
