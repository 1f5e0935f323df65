"""How elementwise ops are recorded: operands paired, shapes looked up, broadcasts written out.

Inference runs once for each combination of shapes; after that an op costs a look in a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from builder import shape_inference
from builder.errors import OperandError, shown
from builder.ops.operands import (
    broadcast_to,
    check_broadcast,
    dimensions_argument,
    is_number,
    need_op,
    number_as,
)
from builder.primitive_type import PrimitiveType
from builder.recording import record, resolve_builder, undone_on_error
from builder.shape import ArrayShape, Shape, intern_array
from builder.xla_builder import XlaBuilder
from builder.xla_op import XlaOp

# The places that describe these ops, as the table of ops names them.
UNARY_SECTION = "Element-wise unary functions"
BINARY_SECTION = "Element-wise binary arithmetic operations"
COMPARISON_SECTION = "Element-wise comparison operations"
BUILDER_H = "xla_builder.h (not in the document)"
MATH_H = "XLA's client library, math.h"

_unary_shape = lru_cache(maxsize=65536)(shape_inference.elementwise.unary)


def record_unary(name: str, opcode: str, operand: XlaOp) -> XlaOp:
    if type(operand) is not XlaOp:
        need_op(name, "operand", operand)
    return record(opcode, _unary_shape(opcode, operand.shape, name), (operand,))


Broadcast = tuple[ArrayShape, tuple[int, ...]]
"""The shape that an operand is broadcast to, and where its dimensions go."""

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
        found.append((target, places))
    return found[0], found[1]


@lru_cache(maxsize=65536)
def _binary_plan(
    opcode: str, lhs: Shape, rhs: Shape, dimensions: tuple[int, ...] | None, name: str
) -> Plan:
    result = shape_inference.elementwise.binary(opcode, lhs, rhs, dimensions, name)
    return result, *_broadcasts(name, lhs, rhs, result, dimensions)


@lru_cache(maxsize=65536)
def _compare_plan(
    lhs: Shape,
    rhs: Shape,
    direction: str,
    dimensions: tuple[int, ...] | None,
    total_order: bool,
    name: str,
) -> Plan:
    result = shape_inference.elementwise.compare(
        lhs, rhs, direction, dimensions, total_order=total_order, op=name
    )
    return result, *_broadcasts(name, lhs, rhs, result, dimensions)


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
            f"{name}: at least one operand must be an XlaOp, got {shown(lhs)} and {shown(rhs)}\n"
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


def record_binary(name: str, opcode: str, lhs: Any, rhs: Any, broadcast_dimensions: Any) -> XlaOp:
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        with undone_on_error(builder_of(name, lhs, rhs)):
            return record_binary(name, opcode, *operand_pair(name, lhs, rhs), broadcast_dimensions)
    if lhs.builder is not rhs.builder:
        resolve_builder(name, lhs, rhs)  # before a broadcast of one of them is recorded
    if broadcast_dimensions is not None:
        broadcast_dimensions = dimensions_argument(name, broadcast_dimensions)
    shape, left, right = _binary_plan(opcode, lhs.shape, rhs.shape, broadcast_dimensions, name)
    if left is not None:
        lhs = broadcast_to(lhs, *left, name)
    if right is not None:
        rhs = broadcast_to(rhs, *right, name)
    return record(opcode, shape, (lhs, rhs))


_COMPARISONS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    (direction, kind): MappingProxyType({"comparison_direction": direction, "compare_type": kind})
    for direction in shape_inference.elementwise.COMPARISON_DIRECTIONS
    for kind in ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
}


def _comparison_type(element_type: PrimitiveType, total_order: bool) -> str:
    """HLO's word for how elements are compared. Only floating point has two orders."""
    if element_type.is_floating:
        return "TOTALORDER" if total_order else "FLOAT"
    if element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


def record_compare(
    name: str, direction: str, lhs: Any, rhs: Any, broadcast_dimensions: Any, total_order: bool
) -> XlaOp:
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        with undone_on_error(builder_of(name, lhs, rhs)):
            pair = operand_pair(name, lhs, rhs)
            return record_compare(name, direction, *pair, broadcast_dimensions, total_order)
    if lhs.builder is not rhs.builder:
        resolve_builder(name, lhs, rhs)  # before a broadcast of one of them is recorded
    dimensions = dimensions_argument(name, broadcast_dimensions)
    shape, left, right = _compare_plan(
        lhs.shape, rhs.shape, direction, dimensions, total_order, name
    )
    if left is not None:
        lhs = broadcast_to(lhs, *left, name)
    if right is not None:
        rhs = broadcast_to(rhs, *right, name)
    kind = _comparison_type(lhs.shape.element_type, total_order)
    return record("compare", shape, (lhs, rhs), _COMPARISONS[direction, kind])
