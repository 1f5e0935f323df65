"""Elementwise comparison of two arrays.

The functions `eq_total_order` to `lt_total_order` use the total order of floating-point numbers:
-NaN < -inf < -finite < -0 < +0 < +finite < +inf < +NaN. The other functions compare as IEEE 754
does: a comparison with NaN is false, except that `ne` is true.

Operation Semantics: Element-wise comparison operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from builder.checking import Check
from builder.graph.recording import shared_attributes
from builder.graph.xla_op import XlaOp
from builder.ops.broadcasting import broadcast_sizes
from builder.ops.definition import op
from builder.ops.elementwise.common import Recorder, op_of_two_arrays, recorder, within
from builder.ops.operands import Dimensions, Operand
from builder.schema import Attribute, CostClass, Group, define
from builder.schema.definition import ANY, ORDERED, ElementTypes, comparison_type
from builder.schema.equal_sizes import all_equal_sizes
from builder.schema.kinds import FLAG, Enumeration
from builder.support.caches import SignatureTable, per_signature
from builder.support.names import did_you_mean
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, intern_array

F = TypeVar("F", bound=Callable[..., Any])

_DIRECTIONS: Final = ("EQ", "NE", "GE", "GT", "LE", "LT")


def comparable(direction: str, *, total_order: bool = False) -> ElementTypes:
    """Return the element types that can be compared: complex numbers only for equality.

    Args:
        direction: "EQ", "NE", "GE", "GT", "LE" or "LT".
        total_order: whether the total order of floating-point numbers is used.
    """
    return ANY if direction in ("EQ", "NE") and not total_order else ORDERED


def _compare_shape(
    lhs: Shape,
    rhs: Shape,
    direction: str,
    broadcast_dimensions: tuple[int, ...] | None = None,
    *,
    total_order: bool = False,
    op: str = "compare",
) -> ArrayShape:
    check = Check(op, lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    # StableHLO compare (C1)
    element_type = check.same_element_type()
    # Operation Semantics: Element-wise comparison operations
    if direction not in _DIRECTIONS:
        fix = did_you_mean(str(direction).upper(), {d: repr(d) for d in _DIRECTIONS}, 0.6)
        rule = f"direction must be one of {', '.join(_DIRECTIONS)}"
        check.fail(rule, got=repr(direction), fix=fix)
    if element_type not in comparable(direction, total_order=total_order).types:
        check.fail(
            "complex numbers have no order",
            got=element_type,
            fix="compare the xb.abs of the operands, or the xb.real and xb.imag",
        )
    sizes, dynamic = broadcast_sizes(check, left, right, broadcast_dimensions)
    return intern_array(pt.pred, sizes, dynamic)


def _type(op: Any) -> str:
    """Return the HLO text of the comparison type.

    The text is empty unless the comparison type is TOTALORDER: HLO infers the other comparison
    types from the element type.
    """
    return ", type=TOTALORDER" if op.attributes["compare_type"] == "TOTALORDER" else ""


COMPARE: Final = define(
    "compare",
    "lhs rhs",
    (
        Attribute(
            "comparison_direction",
            Enumeration("comparison_direction", example="LT"),
            "direction",
            parameter="direction",
        ),
        Attribute(
            "compare_type",
            Enumeration("comparison_type"),
            None,
            parameter="total_order",
            argument=lambda compare_type: compare_type == "TOTALORDER",
        ),
        Group(_type),
    ),
    section="Element-wise comparison operations",
    element_types={"lhs": ANY, "rhs": ANY},
    cost=CostClass.ELEMENTWISE,
    tolerance=within(0),
    equal_sizes=all_equal_sizes,
)


def _attributes(direction: str, total_order: bool) -> Callable[[PrimitiveType], Mapping[str, Any]]:
    """Return the function that returns the attributes of a comparison, from an element type."""

    def attributes(element_type: PrimitiveType) -> Mapping[str, Any]:
        kind = comparison_type(element_type, total_order=total_order)
        return shared_attributes(comparison_direction=direction, compare_type=kind)

    return attributes


def _comparison(direction: str, cpp_name: str, *, total_order: bool = False) -> Callable[[F], F]:
    """Return a decorator that makes the body of a comparison.

    Args:
        direction, total_order: see `compare`.
        cpp_name: the name in the C++ XlaBuilder.
    """

    def enter(declared: F) -> F:
        name = declared.__name__

        def shape(
            lhs: Shape, rhs: Shape, broadcast_dimensions: tuple[int, ...] | None = None
        ) -> ArrayShape:
            return _compare_shape(
                lhs, rhs, direction, broadcast_dimensions, total_order=total_order, op=name
            )

        attributes = _attributes(direction, total_order)
        return op_of_two_arrays(COMPARE, shape, attributes, cpp_name=cpp_name)(declared)

    return enter


@_comparison("EQ", "Eq")
def eq(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is equal to rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.eq(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("NE", "Ne")
def ne(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is not equal to rhs; true if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ne(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("GE", "Ge")
def ge(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is greater than or equal to rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ge(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("GT", "Gt")
def gt(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is greater than rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.gt(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("LE", "Le")
def le(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is less than or equal to rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.le(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("LT", "Lt")
def lt(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is less than rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.lt(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("EQ", "EqTotalOrder", total_order=True)
def eq_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.eq_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("NE", "NeTotalOrder", total_order=True)
def ne_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is not equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ne_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("GE", "GeTotalOrder", total_order=True)
def ge_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is greater than or equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ge_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("GT", "GtTotalOrder", total_order=True)
def gt_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is greater than rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.gt_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("LE", "LeTotalOrder", total_order=True)
def le_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is less than or equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.le_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@_comparison("LT", "LtTotalOrder", total_order=True)
def lt_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None) -> XlaOp:
    """Whether lhs is less than rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.lt_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """


@per_signature
def _recorder(name: str, direction: str, total_order: bool) -> Recorder:
    """Return the function that records comparisons in a direction."""

    def shape(lhs: Shape, rhs: Shape, dimensions: tuple[int, ...] | None) -> ArrayShape:
        return _compare_shape(lhs, rhs, direction, dimensions, total_order=total_order)

    attributes = _attributes(direction, total_order)
    return recorder(name, COMPARE.opcode, shape, attributes, SignatureTable())


# A form of its own: the direction is an argument, not a part of the op.
def _record_compare(
    name: str,
    lhs: Any,
    rhs: Any,
    direction: str,
    broadcast_dimensions: Any,
    total_order: bool,
) -> XlaOp:
    return _recorder(name, direction, total_order)(lhs, rhs, broadcast_dimensions)


@op(
    COMPARE,
    _compare_shape,
    by=_record_compare,
    lhs=None,
    rhs=None,
    broadcast_dimensions=None,
    total_order=FLAG,
)
def compare(
    lhs: Operand,
    rhs: Operand,
    direction: Literal["EQ", "NE", "GE", "GT", "LE", "LT"],
    broadcast_dimensions: Dimensions = None,
    *,
    total_order: bool = False,
) -> XlaOp:
    """Compare in the direction "EQ", "NE", "GE", "GT", "LE" or "LT".

    `compare` records the same op as the function `eq`, `ne`, `ge`, `gt`, `le` or `lt`; with
    `total_order`, the same op as `eq_total_order`, `ne_total_order` and so on.

    Raises:
        OperandError: the direction is not a string.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.compare(x, x, "GE").shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
