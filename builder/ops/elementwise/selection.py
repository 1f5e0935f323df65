"""Elementwise choice between arrays, and a function mapped over their elements.

Operation Semantics: Clamp, Select, Map.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from builder import shape_inference
from builder.check import integers
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.subcomputations import as_computation, available_computation
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise.common import constant_of, element_type_of
from builder.ops.operands import (
    Number,
    broadcast_to,
    check_broadcast,
    is_number,
    need_op,
    need_ops,
    number_constant,
)
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, intern_array

_clamp_shape = per_signature(shape_inference.elementwise.clamp.strict)
_select_shape = per_signature(shape_inference.elementwise.select.strict)


@op(SCHEMAS["clamp"])
def clamp(min: XlaOp | Number, operand: XlaOp, max: XlaOp | Number) -> XlaOp:
    """Each element held within bounds: ``min(max(operand, lower), upper)``.

    Args:
        min: the lower bounds: an array of the operand's shape, a scalar, or a Python number.
        operand: an array of preds, integers or floating point; a scalar is broadcast to the
            bounds' shape.
        max: the upper bounds, like `min`.

    Returns:
        An array of the operand's shape (of the bounds' shape, if that is a scalar).

    Raises:
        ShapeInferenceError: element types differ or have no order; a bound is neither a scalar
            nor of the operand's sizes.
        ConstantError: the type can't hold a number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.s32[3])
        >>> xb.clamp(0, x, 6).shape
        s32[3]

    Operation Semantics: Clamp.
    """
    beside = need_op("clamp", "operand", operand)
    if type(min) is XlaOp and type(max) is XlaOp:
        return _clamp(min, beside, max)
    given = [v for v in (min, max) if type(v) is XlaOp]
    builder = resolve_builder("clamp", beside, *given)
    bounds: list[builtins.tuple[Shape, Mapping[str, Any] | None]] = []
    for name, value in (("min", min), ("max", max)):
        if is_number(value):
            element_type = element_type_of("clamp", beside)
            bounds.append(number_constant("clamp", value, element_type, beside.shape))
        else:
            bounds.append((need_op("clamp", name, value).shape, None))
    # The rules are checked before the constants are recorded.
    shape = _clamp_shape(bounds[0][0], beside.shape, bounds[1][0])
    if shape.rank and not _rank(beside):
        check_broadcast("clamp", beside.shape, shape)
    values: list[Any] = [min, max]
    for index, (scalar, constant) in enumerate(bounds):
        if constant is not None:
            values[index] = append(builder, "constant", scalar, (), constant)
    return _clamp(values[0], beside, values[1])


def _clamp(lower: XlaOp, operand: XlaOp, upper: XlaOp) -> XlaOp:
    resolve_builder("clamp", lower, operand, upper)
    shape = _clamp_shape(lower.shape, operand.shape, upper.shape)
    if shape.rank and not _rank(operand):
        operand = _scalar_to(operand, shape, "clamp")
    return record("clamp", shape, (lower, operand, upper))


@op(SCHEMAS["select"])
def select(pred: XlaOp, on_true: XlaOp | Number, on_false: XlaOp | Number) -> XlaOp:
    """Each element from `on_true` where `pred` holds, from `on_false` elsewhere.

    Args:
        pred: preds of the values' sizes, or a scalar pred.
        on_true, on_false: arrays of one element type and of the same sizes, or scalars, or one
            of them a Python number; or two tuples of the same shape, with a scalar `pred`.

    Returns:
        An array of the values' shape, or the tuple.

    Raises:
        ShapeInferenceError: `pred` is not of pred type; shapes or element types differ.
        ConstantError: the type can't hold a number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.select(x > 0, x, 0).shape
        f32[2,3]

    Operation Semantics: Select.
    """
    which = need_op("select", "pred", pred)
    if type(on_true) is XlaOp and type(on_false) is XlaOp:
        return _select(which, on_true, on_false)
    given = [v for v in (on_true, on_false) if type(v) is XlaOp]
    resolve_builder("select", which, *given)
    builder, scalar, constant, is_left = constant_of("select", on_true, on_false)
    other: Any = on_false if is_left else on_true
    # The rules are checked before the constant is recorded.
    first, second = (scalar, other.shape) if is_left else (other.shape, scalar)
    shape = _select_shape(which.shape, first, second)
    if isinstance(shape, ArrayShape) and shape.rank:
        check_broadcast("select", scalar, shape)
        if not _rank(other):
            check_broadcast("select", other.shape, shape)
    number = append(builder, "constant", scalar, (), constant)
    return _select(which, number, other) if is_left else _select(which, other, number)


def _select(which: XlaOp, first: XlaOp, second: XlaOp) -> XlaOp:
    resolve_builder("select", which, first, second)
    shape = _select_shape(which.shape, first.shape, second.shape)
    if isinstance(shape, ArrayShape):
        # A scalar pred stays a scalar (HLO and StableHLO take it so), a scalar value does not.
        if shape.rank and not _rank(first):
            first = _scalar_to(first, shape, "select")
        if shape.rank and not _rank(second):
            second = _scalar_to(second, shape, "select")
    else:
        return _select_tuple(which, first, second)
    return record("select", shape, (which, first, second))


def _rank(operand: XlaOp) -> int:
    return operand.shape.rank if isinstance(operand.shape, ArrayShape) else 0


def _scalar_to(operand: XlaOp, shape: ArrayShape, op: str) -> XlaOp:
    return broadcast_to(operand, shape, (), op)


def _select_tuple(pred: XlaOp, first: XlaOp, second: XlaOp) -> XlaOp:
    """XlaBuilder's tuple select: a conditional whose branches give their operand back."""
    from builder.ops.control_flow import conditional

    return conditional(pred, first, _identity, second, _identity)


def _identity(value: XlaOp) -> XlaOp:
    return value


@op(SCHEMAS["map"])
def map(
    operands: XlaOp | Sequence[XlaOp],
    computation: XlaComputation | Callable[..., XlaOp],
    dimensions: Sequence[int] | None = None,
) -> XlaOp:
    """A scalar computation applied to the corresponding elements of some arrays.

    Args:
        operands: arrays of the same sizes, of any element types; a scalar is broadcast to arrays
            of its own type.
        computation: takes one scalar of each operand's type and gives a scalar; a computation,
            or a Python callable on XlaOps; see `reduce` for how often a function is called.
        dimensions: all dimensions of the operands, in order; the same when left out.

    Returns:
        An array of the operands' sizes, of the computation's element type.

    Raises:
        ShapeInferenceError: the sizes differ, or `dimensions` are not all of them.
        SignatureError: the computation's parameters or result do not match.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.map([x, x], lambda a, b: a * b + 1).shape
        f32[2,3]

    Operation Semantics: Map.
    """
    arrays = need_ops("map", "operand", operands)
    shapes = builtins.tuple([a.shape for a in arrays])
    scalars, whole = _map_arguments(shapes)
    if dimensions is None:
        places = builtins.tuple(range(whole.rank))
    else:
        places = integers("map", "dimensions", dimensions)
    known = available_computation("map", "computation", computation, scalars)
    if known is not None:
        return _record_map(arrays, shapes, known, places)
    with rollback_on_error(resolve_builder("map", *arrays)):
        return _record_map(arrays, shapes, computation, places)


def _record_map(
    arrays: builtins.tuple[XlaOp, ...],
    shapes: builtins.tuple[Shape, ...],
    computation: Any,
    places: builtins.tuple[int, ...],
) -> XlaOp:
    scalars, first = _map_arguments(shapes)
    applied = as_computation("map", "computation", computation, scalars)
    shape, attributes = applied.planned(("map", shapes, places), _map_plan, shapes, applied, places)
    if shape.rank and not all(_rank(a) for a in arrays):
        arrays = builtins.tuple(
            a if _rank(a) else _scalar_to(a, first.with_element_type(a.shape.element_type), "map")
            for a in arrays
        )
    return record("map", shape, arrays, attributes)


@per_signature
def _map_arguments(
    shapes: builtins.tuple[Shape, ...],
) -> builtins.tuple[builtins.tuple[ArrayShape, ...], ArrayShape]:
    """What the computation of `map` takes, and the shape that scalars are broadcast to."""
    check = shape_inference.Check.numbered("map", "operand", shapes)
    check.that(bool(shapes), "at least one operand is needed")
    first = next((s for s in check.arrays() if s.rank), check.arrays()[0])
    return builtins.tuple(intern_array(s.element_type, ()) for s in shapes), first


# By signatures, which computations of equal shapes have in common, for callables recorded anew.
_map_shape = per_signature(shape_inference.elementwise.map.strict)


def _map_plan(
    shapes: builtins.tuple[Shape, ...], applied: XlaComputation, places: builtins.tuple[int, ...]
) -> builtins.tuple[ArrayShape, Mapping[str, Any]]:
    shape = _map_shape(shapes, applied.signature, places)
    first = _map_arguments(shapes)[1]
    for scalar in shapes:
        if shape.rank and not (isinstance(scalar, ArrayShape) and scalar.rank):
            # Here, before the broadcast of another operand is recorded.
            check_broadcast("map", scalar, first.with_element_type(scalar.element_type))
    return shape, MappingProxyType({"to_apply": applied, "dimensions": places})
