"""Dot products with groups of unequal sizes.

xla_builder.h: RaggedDot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.attributes import (
    Precision,
    PrecisionLike,
    RaggedDotDimensionNumbers,
    RaggedDotDimensionNumbersLike,
)
from builder.graph.recording import record, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.contraction.dot_product import preferred_type
from builder.ops.operands import need_op
from builder.ops.rules import contraction as infer
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import ArrayShape, Shape


@per_signature
def _plan(
    lhs: Shape,
    rhs: Shape,
    group_sizes: Shape,
    numbers: RaggedDotDimensionNumbers,
    precision: tuple[Precision, Precision],
    preferred_element_type: PrimitiveType | None,
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = infer.ragged_dot.strict(lhs, rhs, group_sizes, numbers, preferred_element_type)
    return shape, shared_attributes(dimension_numbers=numbers, precision=precision)


@op_by_hand(SCHEMAS["ragged_dot"])
def ragged_dot(
    lhs: XlaOp,
    rhs: XlaOp,
    group_sizes: XlaOp,
    dimension_numbers: RaggedDotDimensionNumbersLike,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Return a dot product in which one dimension is divided into consecutive groups of any sizes.

    The group sizes are runtime values. The meaning of the groups depends on the ragged dimension.
    For matrices [m, k] and [k, n] and g groups:

    - m, neither contracting nor batch: rhs is [g, k, n], a matrix for each group. Each row of lhs
      is multiplied by the matrix of its group. Rows after the last group give zeros.
    - k, contracting: the result is [g, m, n], a product for each group, summed over that group
      only.
    - a batch dimension: the result is that of `dot_general`; the groups have no effect.

    On CPU, XLA computes the products of all rows with the matrices of all groups, and selects the
    results.

    Args:
        lhs, rhs: arrays of one element type.
        group_sizes: integers [g]; or [..., g], with separate sizes in each batch. The dimensions
            before g are then the batch dimensions of lhs, followed by the free dimensions of lhs
            before a free ragged dimension, or the contracting dimensions of lhs before a
            contracting ragged dimension.
        dimension_numbers: RaggedDotDimensionNumbers, or a triple: the dimension numbers of
            `dot_general`, the ragged dimension of lhs, and the group dimension of rhs.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT if omitted.
        preferred_element_type: the element type of the result and of the sums: a wider type of the
            same kind; by default the operands' element type.

    Returns:
        The result of `dot_general` without the group dimension. If the ragged dimension is
        contracting, a dimension for the groups comes first.

    Raises:
        ShapeInferenceError: see `dot_general`; there is not exactly one ragged dimension, or the
            required group dimension is missing; `group_sizes` does not have the dimensions above,
            or is not of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, sizes = b.parameter(xb.f32[11, 5]), b.parameter(xb.s32[3])
        >>> w = b.parameter(xb.f32[3, 5, 7])
        >>> numbers = xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        >>> xb.ragged_dot(x, w, sizes, numbers).shape
        f32[11,7]

    Not in Operation Semantics; XlaBuilder's RaggedDot.
    """
    need_op("ragged_dot", "lhs", lhs)
    need_op("ragged_dot", "rhs", rhs)
    need_op("ragged_dot", "group_sizes", group_sizes)
    shape, attributes = _plan(
        lhs.shape,
        rhs.shape,
        group_sizes.shape,
        RaggedDotDimensionNumbers.of(dimension_numbers),
        Precision.pair(precision, op="ragged_dot"),
        preferred_type("ragged_dot", preferred_element_type),
    )
    return record("ragged_dot", shape, (lhs, rhs, group_sizes), attributes)
