"""Elementwise comparison of two arrays.

Operation Semantics: Element-wise comparison operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.check import flag
from builder.errors import OperandError, brief
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.elementwise.common import COMPARISON_SECTION, record_compare
from builder.ops.operands import Number


@op("Eq", opcode="compare", section=COMPARISON_SECTION)
def eq(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is equal to rhs; IEEE 754 for floating point.

    Args:
        lhs, rhs: arrays of one element type: any type. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.eq(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("eq", "EQ", lhs, rhs, broadcast_dimensions, False)


@op("Ne", opcode="compare", section=COMPARISON_SECTION)
def ne(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is not equal to rhs; IEEE 754 for floating point.

    Args:
        lhs, rhs: arrays of one element type: any type. One of them may be a Python number that
            the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ne(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ne", "NE", lhs, rhs, broadcast_dimensions, False)


@op("Ge", opcode="compare", section=COMPARISON_SECTION)
def ge(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is greater or equal to rhs; IEEE 754 for floating point.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ge(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ge", "GE", lhs, rhs, broadcast_dimensions, False)


@op("Gt", opcode="compare", section=COMPARISON_SECTION)
def gt(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is greater than rhs; IEEE 754 for floating point.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.gt(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("gt", "GT", lhs, rhs, broadcast_dimensions, False)


@op("Le", opcode="compare", section=COMPARISON_SECTION)
def le(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is less or equal to rhs; IEEE 754 for floating point.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.le(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("le", "LE", lhs, rhs, broadcast_dimensions, False)


@op("Lt", opcode="compare", section=COMPARISON_SECTION)
def lt(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is less than rhs; IEEE 754 for floating point.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.lt(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("lt", "LT", lhs, rhs, broadcast_dimensions, False)


@op("EqTotalOrder", opcode="compare", section=COMPARISON_SECTION)
def eq_total_order(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is equal to rhs, in the total order of floating point:
    -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN. The same as eq for integers and preds.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.eq_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("eq_total_order", "EQ", lhs, rhs, broadcast_dimensions, True)


@op("NeTotalOrder", opcode="compare", section=COMPARISON_SECTION)
def ne_total_order(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is not equal to rhs, in the total order of floating point:
    -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN. The same as ne for integers and preds.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ne_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ne_total_order", "NE", lhs, rhs, broadcast_dimensions, True)


@op("GeTotalOrder", opcode="compare", section=COMPARISON_SECTION)
def ge_total_order(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is greater or equal to rhs, in the total order of floating point:
    -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN. The same as ge for integers and preds.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.ge_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("ge_total_order", "GE", lhs, rhs, broadcast_dimensions, True)


@op("GtTotalOrder", opcode="compare", section=COMPARISON_SECTION)
def gt_total_order(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is greater than rhs, in the total order of floating point:
    -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN. The same as gt for integers and preds.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.gt_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("gt_total_order", "GT", lhs, rhs, broadcast_dimensions, True)


@op("LeTotalOrder", opcode="compare", section=COMPARISON_SECTION)
def le_total_order(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is less or equal to rhs, in the total order of floating point:
    -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN. The same as le for integers and preds.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.le_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("le_total_order", "LE", lhs, rhs, broadcast_dimensions, True)


@op("LtTotalOrder", opcode="compare", section=COMPARISON_SECTION)
def lt_total_order(
    lhs: XlaOp | Number, rhs: XlaOp | Number, broadcast_dimensions: Sequence[int] | None = None
) -> XlaOp:
    """Whether lhs is less than rhs, in the total order of floating point:
    -NaN < -Inf < -finite < -0 < +0 < +finite < +Inf < +NaN. The same as lt for integers and preds.

    Args:
        lhs, rhs: arrays of one element type: pred, integers or floating point. One of them may
            be a Python number that the other's type can hold.
        broadcast_dimensions: where ranks differ and neither is a scalar: for each dimension of
            the operand of lower rank the dimension of the other that it is.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: element types differ or have no order; the shapes do not fit.
        ConstantError: the type can't hold the number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.lt_total_order(x, 0.5).shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    return record_compare("lt_total_order", "LT", lhs, rhs, broadcast_dimensions, True)


@op("Compare", opcode="compare", section=COMPARISON_SECTION)
def compare(
    lhs: XlaOp | Number,
    rhs: XlaOp | Number,
    direction: str,
    broadcast_dimensions: Sequence[int] | None = None,
    *,
    total_order: bool = False,
) -> XlaOp:
    """A comparison whose direction is an argument: what `eq` ... `lt_total_order` record.

    Args:
        lhs, rhs: as in `eq`.
        direction: "EQ", "NE", "GE", "GT", "LE" or "LT".
        broadcast_dimensions: as in `eq`.
        total_order: compare floating point in its total order.

    Returns:
        Preds of the broadcast sizes.

    Raises:
        ShapeInferenceError: an unknown direction, or as in `eq`.
        OperandError: the direction is no string.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 3])
        >>> xb.compare(x, x, "GE").shape
        pred[2,3]

    Operation Semantics: Element-wise comparison operations.
    """
    if not isinstance(direction, str):
        raise OperandError(
            f"compare: direction is a string such as 'LT', got {brief(direction)}",
            op="compare",
        )
    is_total = flag("compare", "total_order", total_order)
    return record_compare("compare", direction, lhs, rhs, broadcast_dimensions, is_total)
