"""Selection between arrays, and computations mapped over their elements.

Operation Semantics: Clamp, Select, Map.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Never

from builder.check import integers
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import unknown_arguments
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation, available_computation
from builder.graph.xla_op import XlaOp
from builder.ops import rules as shape_inference
from builder.ops.elementwise.common import constant_of, element_type_of
from builder.ops.operands import (
    Operand,
    is_number,
    need_op,
    need_ops,
    number_constant,
)
from builder.ops.runtime_sizes import broadcast_scalar
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, intern_array

_clamp_shape = per_signature(shape_inference.elementwise.clamp.strict)
_select_shape = per_signature(shape_inference.elementwise.select.strict)


@op_by_hand(SCHEMAS["clamp"])
def clamp(min: Operand, operand: XlaOp, max: Operand, **unknown: Never) -> XlaOp:
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
    if unknown:
        raise unknown_arguments(clamp, unknown)
    given: object = operand
    if isinstance(min, XlaOp) and is_number(given) and is_number(max):
        rule = f"operand must be an XlaOp, got {type(given).__name__}: {brief(given, 80)}"
        fix = "write the bounds before and after the operand: xb.clamp(min, operand, max)"
        raise error_of(OperandError, "clamp", rule, fix)
    value = need_op("clamp", "operand", operand)
    builder = resolve_builder("clamp", *(v for v in (min, value, max) if type(v) is XlaOp))
    # Each bound with its shape, and the attributes of its constant if it is a number.
    bounds: list[builtins.tuple[Any, Shape, Mapping[str, Any] | None]] = []
    for name, bound in (("min", min), ("max", max)):
        if is_number(bound):
            element_type = element_type_of("clamp", value)
            constant = number_constant("clamp", bound, element_type, value.shape)
            bounds.append((bound, *constant))
        else:
            bounds.append((bound, need_op("clamp", name, bound).shape, None))
    # The rules are checked before the constants are recorded.
    result = _clamp_shape(bounds[0][1], value.shape, bounds[1][1])
    lower, upper = (
        bound if attributes is None else append(builder, "constant", shape, (), attributes)
        for bound, shape, attributes in bounds
    )
    if result.rank and not _rank(value):
        value = broadcast_scalar(value, result, (lower, upper))
    return record("clamp", result, (lower, value, upper))


@op_by_hand(SCHEMAS["select"])
def select(pred: XlaOp, on_true: Operand, on_false: Operand, **unknown: Never) -> XlaOp:
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
    if unknown:
        raise unknown_arguments(select, unknown)
    which = need_op("select", "pred", pred)
    first, second = on_true, on_false
    resolve_builder("select", which, *[v for v in (first, second) if type(v) is XlaOp])
    if type(first) is not XlaOp or type(second) is not XlaOp:
        for name, given, other in (("on_true", first, second), ("on_false", second, first)):
            if not is_number(given):
                need_op("select", name, given, other)
        builder, scalar, attributes, is_left = constant_of("select", first, second)
        value: Any = second if is_left else first
        # The rules are checked before the constant is recorded.
        shapes = (scalar, value.shape) if is_left else (value.shape, scalar)
        _select_shape(which.shape, *shapes)
        constant = append(builder, "constant", scalar, (), attributes)
        first, second = (constant, value) if is_left else (value, constant)
    result = _select_shape(which.shape, first.shape, second.shape)
    if not isinstance(result, ArrayShape):
        return _select_tuple(which, first, second)
    # A scalar pred stays a scalar, as in HLO and StableHLO; scalar values are broadcast.
    if result.rank:
        values = which, first, second
        if not _rank(first):
            first = broadcast_scalar(first, result, values)
        if not _rank(second):
            second = broadcast_scalar(second, result, values)
    return record("select", result, (which, first, second))


def _rank(operand: XlaOp) -> int:
    return operand.shape.rank if isinstance(operand.shape, ArrayShape) else 0


def _select_tuple(pred: XlaOp, first: XlaOp, second: XlaOp) -> XlaOp:
    """Select a tuple as XlaBuilder does: a conditional whose branches return their operand."""
    from builder.ops.control_flow import conditional

    return conditional(pred, first, _identity, second, _identity)


def _identity(value: XlaOp) -> XlaOp:
    return value


@op_by_hand(SCHEMAS["map"])
def map(
    operands: XlaOp | Sequence[XlaOp],
    computation: XlaComputation | Callable[..., XlaOp],
    dimensions: Sequence[int] | None = None,
    **unknown: Never,
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
    if unknown:
        raise unknown_arguments(map, unknown)
    arrays = need_ops("map", "operand", operands)
    shapes = builtins.tuple([a.shape for a in arrays])
    scalars, array = _map_arguments(shapes)
    if dimensions is None:
        places = builtins.tuple(range(array.rank))
    else:
        places = integers("map", "dimensions", dimensions)

    def mapped_by(applied: XlaComputation) -> XlaOp:
        shape, attributes = applied.planned(_map_plan, shapes, applied, places)
        sources = arrays
        if shape.rank and not all(_rank(a) for a in arrays):
            sources = builtins.tuple(
                a
                if _rank(a)
                else broadcast_scalar(a, array.with_element_type(a.shape.element_type), arrays)
                for a in arrays
            )
        return record("map", shape, sources, attributes)

    available = available_computation("map", "computation", computation, scalars)
    if available is not None:
        return mapped_by(available)
    with rollback_on_error(resolve_builder("map", *arrays)):
        return mapped_by(as_computation("map", "computation", computation, scalars))


@per_signature
def _map_arguments(
    shapes: builtins.tuple[Shape, ...],
) -> builtins.tuple[builtins.tuple[ArrayShape, ...], ArrayShape]:
    """Return the shapes of the computation's parameters, and the shape to broadcast scalars to."""
    check = shape_inference.Check.numbered("map", "operand", shapes)
    arrays = check.arrays()
    first = next((s for s in arrays if s.rank), arrays[0])
    return builtins.tuple(intern_array(s.element_type, ()) for s in shapes), first


# Cached by the computation's signature, because a callable may be recorded again for each call.
_map_shape = per_signature(shape_inference.elementwise.map.strict)


def _map_plan(
    shapes: builtins.tuple[Shape, ...], applied: XlaComputation, places: builtins.tuple[int, ...]
) -> builtins.tuple[ArrayShape, Mapping[str, Any]]:
    shape = _map_shape(shapes, applied.signature, places)
    return shape, MappingProxyType({"to_apply": applied, "dimensions": places})
