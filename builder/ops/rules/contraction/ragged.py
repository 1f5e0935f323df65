"""Shapes of dot products with groups of different sizes.

xla_builder.h: RaggedDot.
"""

from __future__ import annotations

import enum

from builder.attributes import RaggedDotDimensionNumbers
from builder.check import Check, sizes_differ
from builder.ops.rules.contraction.dot_product import dot_general
from builder.ops.rules.public import public
from builder.schema import SCHEMAS
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape


class RaggedMode(enum.Enum):
    """The kind of the ragged dimension of a dot product."""

    FREE = "neither contracting nor batch"
    CONTRACTING = "contracting"
    BATCH = "batch"


@public
def ragged_mode(numbers: RaggedDotDimensionNumbers) -> RaggedMode:
    """Return the kind of the ragged dimension; `numbers` must be valid for the operands.

    Example:
        >>> import builder as xb
        >>> numbers = xb.RaggedDotDimensionNumbers((([1], [0]), ([], [])), [1])
        >>> xb.shape_inference.contraction.ragged_mode(numbers).name
        'CONTRACTING'
    """
    dot = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    if ragged in dot.lhs_batch_dimensions:
        return RaggedMode.BATCH
    return RaggedMode.CONTRACTING if ragged in dot.lhs_contracting_dimensions else RaggedMode.FREE


@public
def ragged_prefix(numbers: RaggedDotDimensionNumbers) -> tuple[int, ...]:
    """Return the dimensions of lhs along which the sizes of the groups may vary.

    Example:
        >>> import builder as xb
        >>> numbers = xb.RaggedDotDimensionNumbers((([3], [2]), ([0], [1])), [2], [0])
        >>> xb.shape_inference.contraction.ragged_prefix(numbers)
        (0, 1)
    """
    dot = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    batch, contracting = dot.lhs_batch_dimensions, dot.lhs_contracting_dimensions
    match ragged_mode.strict(numbers):
        case RaggedMode.BATCH:
            return batch[: batch.index(ragged)]
        case RaggedMode.CONTRACTING:
            return (*batch, *contracting[: contracting.index(ragged)])
        case RaggedMode.FREE:
            return (*batch, *(d for d in range(ragged) if d not in (*batch, *contracting)))


@public
def ragged_dot(
    lhs: Shape,
    rhs: Shape,
    group_sizes: Shape,
    dimension_numbers: RaggedDotDimensionNumbers,
    preferred_element_type: PrimitiveType | None = None,
) -> ArrayShape:
    """Return the shape of a dot product with one dimension divided into groups.

    Example:
        >>> import builder as xb
        >>> numbers = xb.RaggedDotDimensionNumbers((([1], [0]), ([], [])), [1])
        >>> infer = xb.shape_inference.contraction.ragged_dot
        >>> infer(xb.f32[11, 5], xb.f32[5, 7], xb.s32[3], numbers)
        f32[3,11,7]
    """
    check = Check("ragged_dot", lhs=lhs, rhs=rhs, group_sizes=group_sizes)
    left, right, sizes = check.arrays()
    n = dimension_numbers
    dot = n.dot_dimension_numbers
    product = dot_general.strict(left, right, dot, preferred_element_type, op="ragged_dot")
    # xla_builder.h: RaggedDot, and CHLO ragged_dot
    if len(n.lhs_ragged_dimensions) != 1:
        check.fail(
            f"lhs_ragged_dimensions must be one dimension, got {len(n.lhs_ragged_dimensions)}: "
            f"{list(n.lhs_ragged_dimensions)}"
        )
    check.dimensions_in_range(n.lhs_ragged_dimensions, of="lhs", name="lhs_ragged_dimensions")
    check.dimensions_in_range(n.rhs_group_dimensions, of="rhs", name="rhs_group_dimensions")
    bound_dimensions = (*dot.rhs_batch_dimensions, *dot.rhs_contracting_dimensions)
    check.unique(
        (*n.rhs_group_dimensions, *bound_dimensions),
        name="rhs_group_dimensions, rhs_batch_dimensions and rhs_contracting_dimensions together",
    )
    mode = ragged_mode.strict(n)
    is_free = mode is RaggedMode.FREE
    if len(n.rhs_group_dimensions) != is_free:
        check.fail(
            f"rhs_group_dimensions must be {'one dimension' if is_free else 'empty'} where the "
            f"ragged dimension is {mode.value}, got {list(n.rhs_group_dimensions)}"
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
    check.element_types(SCHEMAS["ragged_dot"].element_types)
    prefix = [lhs.dimensions[d] for d in ragged_prefix.strict(numbers)]
    forms = "[groups]" + (f" or [{', '.join(map(str, prefix))}, groups]" if prefix else "")
    if sizes.rank not in (1, len(prefix) + 1):
        check.fail(f"group_sizes must have sizes {forms}, got rank {sizes.rank}")
    if sizes.rank > 1:
        for index, (size, got) in enumerate(zip(prefix, sizes.dimensions, strict=False)):
            if sizes_differ(size, got):
                rule = f"group_sizes must have sizes {forms}, got {got} in place of {size}"
                check.fail(rule, dimension=index)
