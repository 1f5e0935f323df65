"""Elementwise comparison of two arrays.

The functions `eq_total_order` to `lt_total_order` use the total order of floating-point numbers:
-NaN < -inf < -finite < -0 < +0 < +finite < +inf < +NaN. The other functions compare as IEEE 754
does: a comparison with NaN is false, except that `ne` is true.

Operation Semantics: Element-wise comparison operations.
"""

from __future__ import annotations

from typing import Literal, Never

from builder.check import flag
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import unknown_arguments
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise.common import record_compare
from builder.ops.operands import Dimensions, Operand
from builder.schema import SCHEMAS


@op_by_hand(SCHEMAS["compare"], cpp_name="Eq")
def eq(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is equal to rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.eq(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("eq", "EQ", lhs, rhs, broadcast_dimensions, False, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="Ne")
def ne(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is not equal to rhs; true if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ne(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ne", "NE", lhs, rhs, broadcast_dimensions, False, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="Ge")
def ge(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is greater than or equal to rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ge(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ge", "GE", lhs, rhs, broadcast_dimensions, False, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="Gt")
def gt(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is greater than rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.gt(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("gt", "GT", lhs, rhs, broadcast_dimensions, False, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="Le")
def le(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is less than or equal to rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.le(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("le", "LE", lhs, rhs, broadcast_dimensions, False, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="Lt")
def lt(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is less than rhs; false if either is NaN.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.lt(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("lt", "LT", lhs, rhs, broadcast_dimensions, False, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="EqTotalOrder")
def eq_total_order(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.eq_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("eq_total_order", "EQ", lhs, rhs, broadcast_dimensions, True, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="NeTotalOrder")
def ne_total_order(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is not equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ne_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ne_total_order", "NE", lhs, rhs, broadcast_dimensions, True, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="GeTotalOrder")
def ge_total_order(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is greater than or equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ge_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ge_total_order", "GE", lhs, rhs, broadcast_dimensions, True, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="GtTotalOrder")
def gt_total_order(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is greater than rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.gt_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("gt_total_order", "GT", lhs, rhs, broadcast_dimensions, True, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="LeTotalOrder")
def le_total_order(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is less than or equal to rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.le_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("le_total_order", "LE", lhs, rhs, broadcast_dimensions, True, unknown)


@op_by_hand(SCHEMAS["compare"], cpp_name="LtTotalOrder")
def lt_total_order(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Dimensions = None, **unknown: Never
) -> XlaOp:
    """Whether lhs is less than rhs in the total order of floating point.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.lt_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("lt_total_order", "LT", lhs, rhs, broadcast_dimensions, True, unknown)


@op_by_hand(SCHEMAS["compare"])
def compare(
    lhs: Operand,
    rhs: Operand,
    direction: Literal["EQ", "NE", "GE", "GT", "LE", "LT"],
    broadcast_dimensions: Dimensions = None,
    *,
    total_order: bool = False,
    **unknown: Never,
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
    if unknown:
        raise unknown_arguments(compare, unknown)
    if not isinstance(direction, str):
        rule = f"direction must be a string such as 'LT', got {brief(direction)}"
        raise error_of(OperandError, "compare", rule)
    is_total = flag("compare", "total_order", total_order)
    return record_compare("compare", direction, lhs, rhs, broadcast_dimensions, is_total)
