"""How elementwise ops are recorded: operands paired, shapes looked up, broadcasts written out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from builder import shape_inference
from builder.errors import OperandError, brief
from builder.graph.recording import append, record, resolve_builder
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp
from builder.ops.operands import (
    check_broadcast,
    dimensions_argument,
    dimensions_attribute,
    is_number,
    need_op,
    number_as,
    number_constant,
)
from builder.support.signatures import SignatureTable, per_signature
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, intern_array

# A table for each opcode: most ops of a graph are elementwise, and a `per_signature` function would
# slow down recording. The key of a plan is the pair of operand shapes; of equal shapes it is the
# shape itself, which is found faster than a tuple.
_UNARY_SHAPES: Final[dict[str, SignatureTable[ArrayShape]]] = defaultdict(SignatureTable)
_BINARY_PLANS: Final[dict[str, SignatureTable[Plan]]] = defaultdict(SignatureTable)


def record_unary(name: str, opcode: str, operand: XlaOp) -> XlaOp:
    """Records an op of one operand. The caller is the public function, or called by one."""
    if type(operand) is not XlaOp:
        need_op(name, "operand", operand)
    shapes = _UNARY_SHAPES[opcode]
    shape = shapes.get(operand.shape)
    if shape is None:
        inferred = shape_inference.elementwise.unary.strict(opcode, operand.shape, name)
        shape = shapes.add(operand.shape, inferred)
    return record(opcode, shape, (operand,), NO_ATTRIBUTES, 3)


Broadcast = tuple[ArrayShape, Mapping[str, tuple[int, ...]]]
"""The shape that an operand is broadcast to, and the attributes: where its dimensions go."""

Plan = tuple[ArrayShape, Broadcast | None, Broadcast | None]
"""The result's shape, and for each operand the broadcast that it needs first, if any."""


def _broadcasts(
    name: str, lhs: Shape, rhs: Shape, result: ArrayShape, dimensions: Any
) -> tuple[Broadcast | None, Broadcast | None]:
    """For each operand its broadcast to the result's sizes, or None when it has them."""
    assert isinstance(lhs, ArrayShape)  # inference has said so
    assert isinstance(rhs, ArrayShape)
    found: list[Broadcast | None] = []
    for operand in (lhs, rhs):
        if operand.dimensions == result.dimensions:
            found.append(None)
            continue
        if operand.rank == result.rank:
            places = tuple(range(result.rank))
        else:
            places = dimensions if operand.rank else ()
        # A size that the operand has already is as dynamic there as it was.
        dynamic = list(result.dynamic_dimensions)
        for index, place in enumerate(places):
            if operand.dimensions[index] == result.dimensions[place]:
                dynamic[place] = operand.dynamic_dimensions[index]
        target = intern_array(operand.element_type, result.dimensions, tuple(dynamic))
        # Here, before the broadcast of the other operand is recorded.
        check_broadcast(name, operand, target)
        found.append((target, dimensions_attribute("broadcast_dimensions", places)))
    return found[0], found[1]


def _plan(name: str, opcode: str, lhs: Shape, rhs: Shape, broadcast_dimensions: Any) -> Plan:
    """How an op of operands of these shapes is recorded, or the error."""
    dimensions = None
    key: Any = lhs if lhs is rhs else (lhs, rhs)
    if broadcast_dimensions is not None:
        dimensions = dimensions_argument(name, broadcast_dimensions)
        key = lhs, rhs, dimensions
    plans = _BINARY_PLANS[opcode]
    plan = plans.get(key)
    if plan is None:
        result = shape_inference.elementwise.binary.strict(opcode, lhs, rhs, dimensions, name)
        plan = plans.add(key, (result, *_broadcasts(name, lhs, rhs, result, dimensions)))
    return plan


def _comparison_type(element_type: PrimitiveType, total_order: bool) -> str:
    """HLO's word for how elements are compared. Only floating point has two orders."""
    if element_type.is_floating:
        return "TOTALORDER" if total_order else "FLOAT"
    if element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


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
    kind = _comparison_type(lhs.element_type, total_order)
    plan = (result, *_broadcasts(name, lhs, rhs, result, dimensions))
    return plan, _COMPARISONS[direction, kind]


def operand_pair(name: str, lhs: Any, rhs: Any) -> tuple[XlaOp, XlaOp]:
    """Both operands as XlaOps: a number becomes a constant of the other's element type."""
    if type(lhs) is XlaOp:
        if type(rhs) is not XlaOp:
            if not is_number(rhs):
                need_op(name, "rhs", rhs)
            rhs = number_as(name, rhs, element_type_of(name, lhs), lhs)
    elif type(rhs) is XlaOp:
        if not is_number(lhs):
            need_op(name, "lhs", lhs)
        lhs = number_as(name, lhs, element_type_of(name, rhs), rhs)
    elif is_number(lhs) and is_number(rhs):
        raise OperandError(
            f"{name}: at least one operand must be an XlaOp, got {brief(lhs)} and {brief(rhs)}\n"
            f"fix: record one with builder.constant(...)",
            op=name,
        )
    else:
        need_op(name, "lhs" if not is_number(lhs) else "rhs", rhs if is_number(lhs) else lhs)
    return lhs, rhs


def builder_of(name: str, lhs: Any, rhs: Any) -> XlaBuilder:
    """The builder of whichever operand is an XlaOp; raises as `operand_pair` when none is."""
    if type(lhs) is not XlaOp and type(rhs) is not XlaOp:
        operand_pair(name, lhs, rhs)
    return resolve_builder(name, lhs if type(lhs) is XlaOp else rhs)


def element_type_of(name: str, beside: XlaOp) -> PrimitiveType:
    """The element type that a number beside this op takes."""
    shape = beside.shape
    if not isinstance(shape, ArrayShape):
        shape_inference.Check(name, operand=shape).arrays()
    return shape.element_type


def constant_of(name: str, lhs: Any, rhs: Any) -> tuple[XlaBuilder, ArrayShape, Any, bool]:
    """Where one operand is a number: the builder, its constant, and whether it is on the left.

    Nothing is recorded yet: the rules are checked first, and nothing has to be taken back.
    """
    builder = builder_of(name, lhs, rhs)
    is_left = type(lhs) is not XlaOp
    number, beside = (lhs, rhs) if is_left else (rhs, lhs)
    if not is_number(number):
        need_op(name, "lhs" if is_left else "rhs", number)
    element_type = element_type_of(name, beside)
    return builder, *number_constant(name, number, element_type, beside.shape), is_left


def record_binary(name: str, opcode: str, lhs: Any, rhs: Any, broadcast_dimensions: Any) -> XlaOp:
    """Records an op of two operands. The caller is the public function, or called by one."""
    plan: Plan | None
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        builder, scalar, value, is_left = constant_of(name, lhs, rhs)
        if is_left:
            plan = _plan(name, opcode, scalar, rhs.shape, broadcast_dimensions)
            lhs = append(builder, "constant", scalar, (), value)
        else:
            plan = _plan(name, opcode, lhs.shape, scalar, broadcast_dimensions)
            rhs = append(builder, "constant", scalar, (), value)
        return _record_planned(opcode, lhs, rhs, plan, NO_ATTRIBUTES)
    if lhs.builder is not rhs.builder:
        resolve_builder(name, lhs, rhs)  # before a broadcast of one of them is recorded
    if broadcast_dimensions is None:
        # The most frequent case, as in `_plan` but without a call.
        left, right = lhs.shape, rhs.shape
        plan = _BINARY_PLANS[opcode].get(left if left is right else (left, right))
        if plan is None:
            plan = _plan(name, opcode, left, right, None)
    else:
        plan = _plan(name, opcode, lhs.shape, rhs.shape, broadcast_dimensions)
    shape, lhs_broadcast, rhs_broadcast = plan
    if lhs_broadcast is None and rhs_broadcast is None:
        return record(opcode, shape, (lhs, rhs), NO_ATTRIBUTES, 3)
    return _record_planned(opcode, lhs, rhs, plan, NO_ATTRIBUTES)


def _record_planned(
    opcode: str, lhs: XlaOp, rhs: XlaOp, plan: Plan, attributes: Mapping[str, Any]
) -> XlaOp:
    """Records the op, and before it the broadcasts of its plan."""
    shape, left, right = plan
    if left is not None:
        lhs = record("broadcast_in_dim", left[0], (lhs,), left[1], 4)
    if right is not None:
        rhs = record("broadcast_in_dim", right[0], (rhs,), right[1], 4)
    return record(opcode, shape, (lhs, rhs), attributes, 4)


def record_compare(
    name: str, direction: str, lhs: Any, rhs: Any, broadcast_dimensions: Any, total_order: bool
) -> XlaOp:
    """Records a comparison. The caller is the public function, or called by one."""
    dimensions = None
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        builder, scalar, value, is_left = constant_of(name, lhs, rhs)
        if broadcast_dimensions is not None:
            dimensions = dimensions_argument(name, broadcast_dimensions)
        left, right = (scalar, rhs.shape) if is_left else (lhs.shape, scalar)
        plan, attributes = _compare_plan(left, right, direction, dimensions, total_order, name)
        constant = append(builder, "constant", scalar, (), value)
        if is_left:
            return _record_planned("compare", constant, rhs, plan, attributes)
        return _record_planned("compare", lhs, constant, plan, attributes)
    if lhs.builder is not rhs.builder:
        resolve_builder(name, lhs, rhs)  # before a broadcast of one of them is recorded
    if broadcast_dimensions is not None:
        dimensions = dimensions_argument(name, broadcast_dimensions)
    plan, attributes = _compare_plan(lhs.shape, rhs.shape, direction, dimensions, total_order, name)
    return _record_planned("compare", lhs, rhs, plan, attributes)
