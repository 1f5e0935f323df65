"""Recording of elementwise ops: constants for numbers, inferred shapes, and broadcasts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Never

from builder.attributes import ResultAccuracy, ResultAccuracyLike
from builder.check import integers
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import unknown_arguments
from builder.graph.recording import append, record, resolve_builder
from builder.graph.registry import OPERATIONS
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp
from builder.ops import rules as shape_inference
from builder.ops.operands import dimensions_attribute, is_number, need_op, number_constant
from builder.ops.runtime_sizes import Sizes, needs_runtime_sizes, record_broadcast, sizes_from
from builder.schema.comparison import comparison_type
from builder.support.signatures import SignatureTable, per_signature
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, intern_array

# One table for each opcode: most ops of a graph are elementwise, and calling a `per_signature`
# function would slow down recording. The key of a plan is the pair of operand shapes; for equal
# shapes it is the shape itself, which saves creating and hashing a tuple.
_UNARY_SHAPES: Final[dict[str, SignatureTable[ArrayShape]]] = defaultdict(SignatureTable)
_BINARY_PLANS: Final[dict[str, SignatureTable[Plan]]] = defaultdict(SignatureTable)


@per_signature
def _accuracy_attributes(accuracy: ResultAccuracy) -> Mapping[str, ResultAccuracy]:
    return MappingProxyType({"result_accuracy": accuracy})


def record_unary(
    name: str,
    opcode: str,
    operand: XlaOp,
    result_accuracy: ResultAccuracyLike = None,
    unknown: Mapping[str, Never] = NO_ATTRIBUTES,
) -> XlaOp:
    """Record an op with one operand. The caller is a public function or its helper."""
    if unknown:
        raise unknown_arguments(OPERATIONS[name].function, unknown)
    if type(operand) is not XlaOp:
        need_op(name, "operand", operand)
    shapes = _UNARY_SHAPES[opcode]
    shape = shapes.get(operand.shape)
    if shape is None:
        inferred = shape_inference.elementwise.unary.strict(opcode, operand.shape, name)
        shape = shapes.add(operand.shape, inferred)
    attributes: Mapping[str, Any] = NO_ATTRIBUTES
    if result_accuracy is not None:
        accuracy = ResultAccuracy.of(result_accuracy, name)
        if accuracy is not None:
            attributes = _accuracy_attributes(accuracy)
    builder = operand.builder
    return record(opcode, shape, (operand,), attributes, 3, builder if builder.is_open else None)


Broadcast = tuple[ArrayShape, Mapping[str, tuple[int, ...]], Sizes | None]
"""The shape that an operand is broadcast to, the attributes of the op, and the runtime sizes.

The runtime sizes are None for `broadcast_in_dim`, which has no operand for sizes."""

Plan = tuple[ArrayShape, Broadcast | None, Broadcast | None]
"""The result's shape, and the broadcast of each operand; None for an unchanged operand."""


def _broadcasts(
    lhs: Shape, rhs: Shape, result: ArrayShape, dimensions: Any
) -> tuple[Broadcast | None, Broadcast | None]:
    """Return the broadcast of each operand; None for an operand that has the result's sizes."""
    assert isinstance(lhs, ArrayShape)  # checked by inference
    assert isinstance(rhs, ArrayShape)
    pairs: list[tuple[ArrayShape, tuple[int, ...]]] = []
    for operand in (lhs, rhs):
        if operand.rank == result.rank:
            pairs.append((operand, tuple(range(result.rank))))
        else:
            pairs.append((operand, dimensions if operand.rank else ()))
    broadcasts: list[Broadcast | None] = []
    for (operand, places), other in zip(pairs, reversed(pairs), strict=True):
        if operand.dimensions == result.dimensions:
            broadcasts.append(None)
            continue
        # A dimension that is not expanded is dynamic if it is dynamic in the operand.
        dynamic = list(result.dynamic_dimensions)
        for index, place in enumerate(places):
            if operand.dimensions[index] == result.dimensions[place]:
                dynamic[place] = operand.dynamic_dimensions[index]
        target = intern_array(operand.element_type, result.dimensions, tuple(dynamic))
        attributes = dimensions_attribute("broadcast_dimensions", places)
        sizes = None
        if needs_runtime_sizes(operand, target, places):
            sizes = sizes_from(target, [(operand, places), other])
        broadcasts.append((target, attributes, sizes))
    return broadcasts[0], broadcasts[1]


def _plan(name: str, opcode: str, lhs: Shape, rhs: Shape, broadcast_dimensions: Any) -> Plan:
    """Return the `Plan` of an op on operands of these shapes; raise if the shapes do not match."""
    dimensions = None
    key: Any = lhs if lhs is rhs else (lhs, rhs)
    if broadcast_dimensions is not None:
        dimensions = integers(name, "broadcast_dimensions", broadcast_dimensions)
        key = lhs, rhs, dimensions
    plans = _BINARY_PLANS[opcode]
    plan = plans.get(key)
    if plan is None:
        result = shape_inference.elementwise.binary.strict(opcode, lhs, rhs, dimensions, name)
        plan = plans.add(key, (result, *_broadcasts(lhs, rhs, result, dimensions)))
    return plan


_COMPARISONS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    (direction, kind): MappingProxyType({"comparison_direction": direction, "compare_type": kind})
    for direction in shape_inference.elementwise.COMPARISON_DIRECTIONS
    for kind in ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
}


@per_signature
def _compare_plan(
    lhs: Shape,
    rhs: Shape,
    direction: str,
    dimensions: tuple[int, ...] | None,
    total_order: bool,
    name: str,
) -> tuple[Plan, Mapping[str, Any]]:
    result = shape_inference.elementwise.compare.strict(
        lhs, rhs, direction, dimensions, total_order=total_order, op=name
    )
    kind = comparison_type(lhs.element_type, total_order=total_order)
    plan = (result, *_broadcasts(lhs, rhs, result, dimensions))
    return plan, _COMPARISONS[direction, kind]


def element_type_of(name: str, operand: XlaOp) -> PrimitiveType:
    """Return the element type of `operand`; raise if `operand` is not an array."""
    shape = operand.shape
    if not isinstance(shape, ArrayShape):
        shape_inference.Check(name, operand=shape).array("operand")
    return shape.element_type


def constant_of(name: str, lhs: Any, rhs: Any) -> tuple[XlaBuilder, ArrayShape, Any, bool]:
    """Return the constant for the operand that is a number, without recording the constant.

    The caller infers the result's shape first, so that an op that raises records no constant.

    Returns:
        The builder, the shape and the attributes of the constant, and whether the number is
        `lhs`.

    Raises:
        OperandError: the operands are not one XlaOp and one number.
        ConstantError: the element type of the other operand can't represent the number.
    """
    is_left = type(lhs) is not XlaOp
    number, operand = (lhs, rhs) if is_left else (rhs, lhs)
    if type(operand) is not XlaOp:
        for argument, value in (("lhs", lhs), ("rhs", rhs)):
            if not is_number(value):
                need_op(name, argument, value)
        rule = f"at least one operand must be an XlaOp, got {brief(lhs)} and {brief(rhs)}"
        raise error_of(OperandError, name, rule, "record one operand with builder.constant(...)")
    builder = resolve_builder(name, operand)
    if not is_number(number):
        need_op(name, "lhs" if is_left else "rhs", number, operand)
    element_type = element_type_of(name, operand)
    return builder, *number_constant(name, number, element_type, operand.shape), is_left


def record_binary(
    name: str,
    opcode: str,
    lhs: Any,
    rhs: Any,
    broadcast_dimensions: Any,
    unknown: Mapping[str, Never] = NO_ATTRIBUTES,
) -> XlaOp:
    """Record an op with two operands. The caller is a public function or its helper."""
    if unknown:
        raise unknown_arguments(OPERATIONS[name].function, unknown)
    plan: Plan | None
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        builder, scalar, value, is_left = constant_of(name, lhs, rhs)
        left, right = (scalar, rhs.shape) if is_left else (lhs.shape, scalar)
        plan = _plan(name, opcode, left, right, broadcast_dimensions)
        constant = append(builder, "constant", scalar, (), value)
        lhs, rhs = (constant, rhs) if is_left else (lhs, constant)
        return _record_planned(opcode, lhs, rhs, plan, NO_ATTRIBUTES)
    known: XlaBuilder | None = lhs.builder
    if rhs.builder is not known or not known.is_open:
        known = None
        resolve_builder(name, lhs, rhs)  # raises before a broadcast is recorded
    left, right = lhs.shape, rhs.shape
    if broadcast_dimensions is None:
        # The most frequent case, as in `_plan` but without a call.
        plan = _BINARY_PLANS[opcode].get(left if left is right else (left, right))
        if plan is None:
            plan = _plan(name, opcode, left, right, None)
    else:
        plan = _plan(name, opcode, left, right, broadcast_dimensions)
    shape, lhs_broadcast, rhs_broadcast = plan
    if lhs_broadcast is None and rhs_broadcast is None:
        return record(opcode, shape, (lhs, rhs), NO_ATTRIBUTES, 3, known)
    return _record_planned(opcode, lhs, rhs, plan, NO_ATTRIBUTES)


def _record_planned(
    opcode: str, lhs: XlaOp, rhs: XlaOp, plan: Plan, attributes: Mapping[str, Any]
) -> XlaOp:
    """Record the broadcasts of a plan, then the op."""
    shape, left, right = plan
    operands = lhs, rhs
    if left is not None:
        target, places, sizes = left
        if sizes is None:
            lhs = record("broadcast_in_dim", target, (lhs,), places, 4)
        else:
            lhs = record_broadcast(operands, target, places, sizes)
    if right is not None:
        target, places, sizes = right
        if sizes is None:
            rhs = record("broadcast_in_dim", target, (rhs,), places, 4)
        else:
            rhs = record_broadcast(operands[::-1], target, places, sizes)
    return record(opcode, shape, (lhs, rhs), attributes, 4)


def record_compare(
    name: str,
    direction: str,
    lhs: Any,
    rhs: Any,
    broadcast_dimensions: Any,
    total_order: bool,
    unknown: Mapping[str, Never] = NO_ATTRIBUTES,
) -> XlaOp:
    """Record a comparison. The caller is a public function or its helper."""
    if unknown:
        raise unknown_arguments(OPERATIONS[name].function, unknown)
    is_pair = type(lhs) is XlaOp and type(rhs) is XlaOp
    if is_pair:
        if lhs.builder is not rhs.builder:
            resolve_builder(name, lhs, rhs)  # raises before a broadcast is recorded
        left, right = lhs.shape, rhs.shape
    else:
        builder, scalar, value, is_left = constant_of(name, lhs, rhs)
        left, right = (scalar, rhs.shape) if is_left else (lhs.shape, scalar)
    dimensions = None
    if broadcast_dimensions is not None:
        dimensions = integers(name, "broadcast_dimensions", broadcast_dimensions)
    plan, attributes = _compare_plan(left, right, direction, dimensions, total_order, name)
    if not is_pair:
        constant = append(builder, "constant", scalar, (), value)
        lhs, rhs = (constant, rhs) if is_left else (lhs, constant)
    return _record_planned("compare", lhs, rhs, plan, attributes)
