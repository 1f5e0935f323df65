"""Selection between arrays, and computations mapped over their elements.

Operation Semantics: Clamp, Select, Map.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from builder.checking import Check, any_dynamic, same_sizes
from builder.errors import SignatureError
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.subcomputations import as_computation, available_computation
from builder.graph.xla_op import XlaOp
from builder.ops.broadcasting import broadcast_scalar
from builder.ops.definition import op
from builder.ops.elementwise.common import constant_of, element_type_of, within
from builder.ops.operands import Operand, is_number, need_op, number_constant
from builder.schema import Attribute, CostClass, Trait, define
from builder.schema.definition import ANY, APPLIED_ONCE, ORDERED, PRED
from builder.schema.equal_sizes import all_equal_sizes
from builder.schema.kinds import COMPUTATION, INTEGERS
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    intern_array,
    of_same_sizes,
)


def _rank(operand: XlaOp) -> int:
    return operand.shape.rank if isinstance(operand.shape, ArrayShape) else 0


@per_signature
def _clamp_shape(min: Shape, operand: Shape, max: Shape) -> ArrayShape:
    check = Check("clamp", min=min, operand=operand, max=max)
    low, array, high = check.arrays()
    # StableHLO clamp (C3)
    element_type = check.same_element_type()
    # Operation Semantics: Clamp
    fix = "clamp the xb.real and xb.imag of complex numbers, which have no order"
    check.element_types(CLAMP.element_types, fix=fix)
    result = next((shape for shape in (array, low, high) if shape.rank), array)
    for name, bound in (("min", low), ("max", high)):
        # StableHLO clamp (C1), (C2)
        if bound.rank and not same_sizes(bound, result):
            check.fail(
                f"{name} must be a scalar or have the operand's sizes"
                if array.rank
                else "min and max must have the same sizes, or be scalars",
                fix=f"broadcast {name} first with xb.broadcast_in_dim",
            )
    dynamic = result.dynamic_dimensions
    if not array.rank:
        # A scalar operand is broadcast to static sizes.
        dynamic = builtins.tuple(n == UNBOUNDED for n in result.dimensions)
    return intern_array(element_type, result.dimensions, dynamic)


CLAMP: Final = define(
    "clamp",
    "min operand max",
    element_types={"min": ORDERED, "operand": ORDERED, "max": ORDERED},
    cost=CostClass.ELEMENTWISE,
    tolerance=within(0),
    equal_sizes=all_equal_sizes,
)


# A form of its own: numbers are of the operand's type, and a scalar operand is broadcast.
def _record_clamp(name: str, min: Any, operand: Any, max: Any) -> XlaOp:
    value = need_op(name, "operand", operand)
    builder = resolve_builder(name, *(v for v in (min, value, max) if type(v) is XlaOp))
    # Each bound with its shape, and the attributes of its constant if it is a number.
    bounds: list[builtins.tuple[Any, Shape, Mapping[str, Any] | None]] = []
    for argument, bound in (("min", min), ("max", max)):
        if is_number(bound):
            element_type = element_type_of(name, value)
            constant = number_constant(name, bound, element_type, value.shape)
            bounds.append((bound, *constant))
        else:
            bounds.append((bound, need_op(name, argument, bound).shape, None))
    # The rules are checked before the constants are recorded.
    result = _clamp_shape(bounds[0][1], value.shape, bounds[1][1])
    lower, upper = (
        bound if attributes is None else append(builder, "constant", shape, (), attributes, 3)
        for bound, shape, attributes in bounds
    )
    if result.rank and not _rank(value):
        value = broadcast_scalar(value, result, (lower, upper))
    return record("clamp", result, (lower, value, upper), depth=3)


@op(CLAMP, _clamp_shape, by=_record_clamp, min=None, operand=None, max=None)
def clamp(min: Operand, operand: XlaOp, max: Operand) -> XlaOp:
    """Limit each element to a range: ``min(max(operand, lower), upper)``.

    Args:
        min: the lower bounds: an array of the operand's shape, a scalar, or a Python number.
        operand: an array of pred, integer or floating-point type; a scalar is broadcast to the
            bounds' shape.
        max: the upper bounds, like `min`.

    Returns:
        An array of the operand's shape, or of the bounds' shape if the operand is a scalar.

    Raises:
        ShapeInferenceError: element types differ or are complex; a bound is neither a scalar nor of
            the operand's sizes.
        ConstantError: the element type can't represent a number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.s32[3])
        >>> xb.clamp(0, x, 6).shape
        s32[3]

    Operation Semantics: Clamp.
    """


@per_signature
def _select_shape(pred: Shape, on_true: Shape, on_false: Shape) -> Shape:
    check = Check("select", pred=pred, on_true=on_true, on_false=on_false)
    if on_true.is_tuple or on_false.is_tuple:
        # xla_builder.h: Select
        if on_true is not on_false:
            check.fail("on_true and on_false must have the same shape")
        which = check.array("pred")
        # xla_builder.h: Select
        if which.element_type is not pt.pred or which.rank:
            check.fail("pred must be a scalar of type pred if the values are tuples", got=which)
        return on_true
    which, first, second = check.arrays()
    fix = "convert pred to a pred array, for instance with xb.ne(pred, 0)"
    if which.element_type is not pt.pred and pt.pred in (first.element_type, second.element_type):
        fix = "pass pred first: xb.select(pred, on_true, on_false)"
    # StableHLO select (I1)
    check.element_types(SELECT.element_types, fix=fix)
    # StableHLO select (C2)
    check.same_element_type("on_true", "on_false")
    # Like XLA, take the sizes from pred, if it is not a scalar, as far as sizes are unbounded.
    arrays = [a for a in (which, first, second) if a.rank]
    result = arrays[0] if arrays else first
    # For each operand that differs: how many have its sizes, its rank and its name.
    different = [
        (count, array.rank, name)
        for name, array in (("pred", which), ("on_true", first), ("on_false", second))
        if array.rank and (count := sum(same_sizes(array, other) for other in arrays)) < len(arrays)
    ]
    # StableHLO select (C1), (C2)
    if different:
        name = builtins.min(different, key=lambda row: row[:2])[-1]
        check.fail(
            f"{name} must be a scalar or have the sizes of the other operands",
            fix=f"broadcast {name} first with xb.broadcast_in_dim",
        )
    dynamic = any_dynamic(arrays, result.dimensions)
    return intern_array(first.element_type, result.dimensions, dynamic)


SELECT: Final = define(
    "select",
    "pred on_true on_false",
    element_types={"pred": PRED, "on_true": ANY, "on_false": ANY},
    cost=CostClass.ELEMENTWISE,
    equal_sizes=all_equal_sizes,
)


# A form of its own: a number is of the other value's type, scalar values are broadcast, and a
# scalar `pred` selects tuples.
def _record_select(name: str, pred: XlaOp, first: Any, second: Any) -> XlaOp:
    resolve_builder(name, pred, *[v for v in (first, second) if type(v) is XlaOp])
    if type(first) is not XlaOp or type(second) is not XlaOp:
        for argument, given, other in (("on_true", first, second), ("on_false", second, first)):
            if not is_number(given):
                need_op(name, argument, given, other)
        builder, scalar, attributes, is_left = constant_of(name, first, second)
        value: Any = second if is_left else first
        # The rules are checked before the constant is recorded.
        shapes = (scalar, value.shape) if is_left else (value.shape, scalar)
        _select_shape(pred.shape, *shapes)
        constant = append(builder, "constant", scalar, (), attributes, 3)
        first, second = (constant, value) if is_left else (value, constant)
    result = _select_shape(pred.shape, first.shape, second.shape)
    if not isinstance(result, ArrayShape):
        return _select_tuple(pred, first, second)
    # A scalar pred stays a scalar, as in HLO and StableHLO; scalar values are broadcast.
    if result.rank:
        values = pred, first, second
        if not _rank(first):
            first = broadcast_scalar(first, result, values)
        if not _rank(second):
            second = broadcast_scalar(second, result, values)
    return record("select", result, (pred, first, second), depth=3)


def _select_tuple(pred: XlaOp, first: XlaOp, second: XlaOp) -> XlaOp:
    """Select a tuple as XlaBuilder does: a conditional whose branches return their operand."""
    from builder.ops.control_flow import conditional

    return conditional(pred, first, _identity, second, _identity)


def _identity(value: XlaOp) -> XlaOp:
    return value


@op(SELECT, _select_shape, by=_record_select, on_true=None, on_false=None)
def select(pred: XlaOp, on_true: Operand, on_false: Operand) -> XlaOp:
    """Select each element from `on_true` where `pred` is true, from `on_false` elsewhere.

    Args:
        pred: an array of pred type and of the values' sizes, or a scalar.
        on_true, on_false: arrays of one element type and of the same sizes, scalars, or one of them
            a Python number. With a scalar `pred` also two tuples of the same shape.

    Returns:
        An array of the values' shape, or a tuple of the tuples' shape.

    Raises:
        ShapeInferenceError: `pred` is not of pred type; shapes or element types differ.
        ConstantError: the element type can't represent the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.select(x > 0, x, 0).shape
        f32[2,3]

    Operation Semantics: Select.
    """


# Cached by the computation's signature, because a callable may be recorded again for each call.
@per_signature
def _map_shape(
    operands: Sequence[Shape], computation: ProgramShape, dimensions: Sequence[int]
) -> ArrayShape:
    check = Check.numbered("map", "operand", operands)
    # StableHLO map (C2)
    arrays = check.arrays()
    position = next((i for i, a in enumerate(arrays) if a.rank), 0)
    first = arrays[position]
    for index, array in enumerate(arrays):
        scalar = not array.rank and array.element_type is first.element_type
        # StableHLO map (C1)
        if not same_sizes(array, first) and not scalar:
            check.fail(
                "operands must have the same sizes, or be scalars of the arrays' type; "
                f"operand {index} differs from operand {position}",
                fix="broadcast the smaller operand first with xb.broadcast_in_dim",
            )
    all_dimensions = builtins.tuple(range(first.rank))
    # StableHLO map (C3)
    if builtins.tuple(dimensions) != all_dimensions:
        check.fail(
            f"dimensions must be all dimensions of the operands in order, {list(all_dimensions)}",
            got=list(dimensions),
            fix="pass all dimensions in order; XLA does not map over only some dimensions",
        )
    signature = ", ".join(f"{a.element_type}[]" for a in arrays)
    # StableHLO map (C4)
    if len(computation.parameters) != len(arrays):
        check.signature(
            "computation",
            computation,
            f"a function of {len(arrays)} scalars, one for each operand, ({signature}) -> a scalar",
        )
    for array, parameter in zip(arrays, computation.parameters, strict=True):
        # StableHLO map (C4)
        if parameter is not intern_array(array.element_type, ()):
            check.signature("computation", computation, f"of signature ({signature}) -> a scalar")
    result = computation.result
    # StableHLO map (C4)
    if not isinstance(result, ArrayShape) or result.rank:
        check.fail(
            "computation must return a scalar",
            got=f"{result} from {computation}",
            error=SignatureError,
        )
    # As in XLA, the sizes that are dynamic are those of the first array.
    return of_same_sizes(first, result.element_type)


MAP: Final = define(
    "map",
    "*operands",
    (
        Attribute("dimensions", INTEGERS),
        Attribute("to_apply", COMPUTATION, parameter="computation"),
    ),
    element_types={"operands": ANY},
    cost=CostClass.RULE,
    tolerance=APPLIED_ONCE,
    traits=Trait.ON_ELEMENTS,
    equal_sizes=all_equal_sizes,
)


@per_signature
def _map_arguments(
    shapes: builtins.tuple[Shape, ...],
) -> builtins.tuple[builtins.tuple[ArrayShape, ...], ArrayShape]:
    """Return the shapes of the computation's parameters, and the shape to broadcast scalars to."""
    check = Check.numbered("map", "operand", shapes)
    arrays = check.arrays()
    first = next((s for s in arrays if s.rank), arrays[0])
    return builtins.tuple(intern_array(s.element_type, ()) for s in shapes), first


def _map_plan(
    shapes: builtins.tuple[Shape, ...], applied: XlaComputation, places: builtins.tuple[int, ...]
) -> builtins.tuple[ArrayShape, Mapping[str, Any]]:
    shape = _map_shape(shapes, applied.signature, places)
    return shape, MappingProxyType({"to_apply": applied, "dimensions": places})


# A form of its own: a callable is recorded with parameters of the operands' types.
def _record_map(
    name: str,
    arrays: builtins.tuple[XlaOp, ...],
    computation: XlaComputation | Callable[..., XlaOp],
    dimensions: builtins.tuple[int, ...] | None,
) -> XlaOp:
    shapes = builtins.tuple([a.shape for a in arrays])
    scalars, array = _map_arguments(shapes)
    places = builtins.tuple(range(array.rank)) if dimensions is None else dimensions

    def mapped_by(applied: XlaComputation) -> XlaOp:
        shape, attributes = applied._planned(_map_plan, shapes, applied, places)
        sources = arrays
        if shape.rank and not all(_rank(a) for a in arrays):
            sources = builtins.tuple(
                a
                if _rank(a)
                else broadcast_scalar(a, array.with_element_type(a.shape.element_type), arrays)
                for a in arrays
            )
        return record("map", shape, sources, attributes, 4)

    available = available_computation(name, "computation", computation, scalars)
    if available is not None:
        return mapped_by(available)
    with rollback_on_error(resolve_builder(name, *arrays)):
        return mapped_by(as_computation(name, "computation", computation, scalars))


@op(MAP, _map_shape, by=_record_map, computation=None)
def map(
    operands: XlaOp | Sequence[XlaOp],
    computation: XlaComputation | Callable[..., XlaOp],
    dimensions: Sequence[int] | None = None,
) -> XlaOp:
    """Apply a scalar computation to the corresponding elements of arrays.

    Args:
        operands: arrays of the same sizes, of any element types; a scalar is broadcast if it is of
            the type of the arrays.
        computation: a computation, or a Python callable on XlaOps. It takes one scalar of each
            operand's type and returns a scalar. See `reduce` for how often a callable is called.
        dimensions: all dimensions of the operands, in order; this is the default.

    Returns:
        An array of the operands' sizes, of the computation's element type.

    Raises:
        ShapeInferenceError: the sizes differ, or `dimensions` does not list all dimensions in
            order.
        SignatureError: the computation does not take one scalar of each operand's type, or its
            result is not a scalar.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.map([x, x], lambda a, b: a * b + 1).shape
        f32[2,3]

    Operation Semantics: Map.
    """
