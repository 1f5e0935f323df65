"""Dot products with groups of unequal sizes.

xla_builder.h: RaggedDot.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from builder.attributes import (
    Precision,
    PrecisionLike,
    RaggedDotDimensionNumbers,
    RaggedDotDimensionNumbersLike,
)
from builder.check import Check, sizes_differ
from builder.graph.xla_op import XlaOp
from builder.ops.contraction.dot_product import (
    DEFAULT_PRECISION,
    DOT_TOLERANCE,
    PRECISION_ATTRIBUTE,
    dot_fields,
    dot_general_shape,
    equal_sizes_of_operands,
)
from builder.ops.definition import op
from builder.schema.definition import ANY, BUILDER_H, INTEGER, Attribute, CostClass, define
from builder.schema.equal_sizes import Pairs, SizedOp
from builder.schema.kinds import ELEMENT_TYPE, DimensionNumbers, Field, Precisions
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import ArrayShape, Shape


class RaggedMode(enum.Enum):
    """The kind of the ragged dimension of a dot product."""

    FREE = "neither contracting nor batch"
    CONTRACTING = "contracting"
    BATCH = "batch"


def ragged_mode(numbers: RaggedDotDimensionNumbers) -> RaggedMode:
    """Return the kind of the ragged dimension; `numbers` must be valid for the operands."""
    dot = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    if ragged in dot.lhs_batch_dimensions:
        return RaggedMode.BATCH
    return RaggedMode.CONTRACTING if ragged in dot.lhs_contracting_dimensions else RaggedMode.FREE


def ragged_prefix(numbers: RaggedDotDimensionNumbers) -> tuple[int, ...]:
    """Return the dimensions of lhs along which the sizes of the groups may vary."""
    dot = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    batch, contracting = dot.lhs_batch_dimensions, dot.lhs_contracting_dimensions
    match ragged_mode(numbers):
        case RaggedMode.BATCH:
            return batch[: batch.index(ragged)]
        case RaggedMode.CONTRACTING:
            return (*batch, *contracting[: contracting.index(ragged)])
        case RaggedMode.FREE:
            return (*batch, *(d for d in range(ragged) if d not in (*batch, *contracting)))


def _ragged_dot_shape(
    lhs: Shape,
    rhs: Shape,
    group_sizes: Shape,
    dimension_numbers: RaggedDotDimensionNumbers,
    preferred_element_type: PrimitiveType | None = None,
) -> ArrayShape:
    check = Check("ragged_dot", lhs=lhs, rhs=rhs, group_sizes=group_sizes)
    left, right, sizes = check.arrays()
    n = dimension_numbers
    dot = n.dot_dimension_numbers
    product = dot_general_shape(left, right, dot, preferred_element_type, op="ragged_dot")
    # xla_builder.h: RaggedDot, and CHLO ragged_dot
    if len(n.lhs_ragged_dimensions) != 1:
        check.fail(
            "lhs_ragged_dimensions must be one dimension",
            got=f"{len(n.lhs_ragged_dimensions)}: {list(n.lhs_ragged_dimensions)}",
        )
    check.dimensions_in_range(n.lhs_ragged_dimensions, of="lhs", name="lhs_ragged_dimensions")
    check.dimensions_in_range(n.rhs_group_dimensions, of="rhs", name="rhs_group_dimensions")
    bound_dimensions = (*dot.rhs_batch_dimensions, *dot.rhs_contracting_dimensions)
    check.unique(
        (*n.rhs_group_dimensions, *bound_dimensions),
        name="rhs_group_dimensions, rhs_batch_dimensions and rhs_contracting_dimensions together",
    )
    mode = ragged_mode(n)
    is_free = mode is RaggedMode.FREE
    if len(n.rhs_group_dimensions) != is_free:
        check.fail(
            f"rhs_group_dimensions must be {'one dimension' if is_free else 'empty'} where the "
            f"ragged dimension is {mode.value}",
            got=list(n.rhs_group_dimensions),
        )
    _group_sizes(check, left, sizes, n)
    dimensions, dynamic = list(product.dimensions), list(product.dynamic_dimensions)
    if mode is RaggedMode.CONTRACTING:
        dimensions.insert(0, sizes.dimensions[-1])
        dynamic.insert(0, sizes.dynamic_dimensions[-1])
    if is_free:
        (group,) = n.rhs_group_dimensions
        # xla_builder.h: RaggedDot, and CHLO ragged_dot
        rule = "the group dimension of rhs must have the size of the last dimension of group_sizes"
        check.equal_sizes(rule, "rhs", group, "group_sizes", sizes.rank - 1)
        # The group dimension is one of the free dimensions of rhs, which come last.
        free = [d for d in range(right.rank) if d not in bound_dimensions]
        at = len(dimensions) - len(free) + free.index(group)
        del dimensions[at], dynamic[at]
    return check.result(product.element_type, dimensions, dynamic)


def _group_sizes(
    check: Check, lhs: ArrayShape, sizes: ArrayShape, numbers: RaggedDotDimensionNumbers
) -> None:
    """Check the shape of `group_sizes`: one vector, or one for each index of `ragged_prefix`."""
    # xla_builder.h: RaggedDot, and CHLO ragged_dot
    check.element_types(RAGGED_DOT.element_types)
    prefix = [lhs.dimensions[d] for d in ragged_prefix(numbers)]
    forms = "[groups]" + (f" or [{', '.join(map(str, prefix))}, groups]" if prefix else "")
    if sizes.rank not in (1, len(prefix) + 1):
        check.fail(f"group_sizes must have sizes {forms}", got=f"rank {sizes.rank}")
    if sizes.rank > 1:
        for index, (size, got) in enumerate(zip(prefix, sizes.dimensions, strict=False)):
            if sizes_differ(size, got):
                rule = f"group_sizes must have sizes {forms}"
                check.fail(rule, got=f"{got} in place of {size}", dimension=index)


_RAGGED_DOT: Final = DimensionNumbers(
    RaggedDotDimensionNumbers,
    "chlo.ragged_dot",
    [
        *dot_fields("dot_dimension_numbers."),
        Field("lhs_ragged_dimensions", "lhs_ragged_dims", "lhs_ragged_dimensions"),
        Field("rhs_group_dimensions", "rhs_group_dims", "rhs_group_dimensions", True),
    ],
)


def _equal_sizes(op: SizedOp) -> Pairs:
    lhs, rhs, _ = op.operands
    numbers = op.attributes["dimension_numbers"].dot_dimension_numbers
    return equal_sizes_of_operands(numbers, lhs, rhs)


RAGGED_DOT: Final = define(
    "ragged_dot",
    "lhs rhs group_sizes",
    (
        Attribute("dimension_numbers", _RAGGED_DOT, stablehlo="ragged_dot_dimension_numbers"),
        PRECISION_ATTRIBUTE._replace(kind=Precisions("chlo")),
    ),
    section=BUILDER_H,
    element_types={"lhs": ANY, "rhs": ANY, "group_sizes": INTEGER},
    stablehlo="chlo.ragged_dot",
    synonyms=("mhlo.ragged_dot",),
    cost=CostClass.RULE,
    tolerance=DOT_TOLERANCE,
    equal_sizes=_equal_sizes,
)


def _ragged_dot_attributes(
    dimension_numbers: RaggedDotDimensionNumbers, precision: tuple[Precision, Precision] | None
) -> Mapping[str, Any]:
    return {"dimension_numbers": dimension_numbers, "precision": precision or DEFAULT_PRECISION}


@op(
    RAGGED_DOT,
    _ragged_dot_shape,
    _ragged_dot_attributes,
    preferred_element_type=ELEMENT_TYPE,
)
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
