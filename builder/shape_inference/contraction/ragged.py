"""Shapes of dot products with groups of unequal sizes.

xla_builder.h: RaggedDot.
"""

from __future__ import annotations

import enum

from builder.attributes import RaggedDotDimensionNumbers
from builder.check import Check
from builder.shape_inference.contraction.dot_product import dot_general
from builder.shape_inference.public import public
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape

__all__ = ["RaggedMode", "ragged_dot", "ragged_mode", "ragged_prefix"]


class RaggedMode(enum.Enum):
    """What the ragged dimension of a dot product is."""

    FREE = "neither contracting nor batch"
    CONTRACTING = "contracting"
    BATCH = "batch"


@public
def ragged_mode(numbers: RaggedDotDimensionNumbers) -> RaggedMode:
    """What the ragged dimension is; the numbers must be valid.

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
    """The dimensions of lhs for each index of which the groups may be of other sizes.

    Example:
        >>> import builder as xb
        >>> numbers = xb.RaggedDotDimensionNumbers((([3], [2]), ([0], [1])), [2], [0])
        >>> xb.shape_inference.contraction.ragged_prefix(numbers)
        (0, 1)
    """
    dot = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    batch = dot.lhs_batch_dimensions
    match ragged_mode.strict(numbers):
        case RaggedMode.BATCH:
            return batch[: batch.index(ragged)]
        case RaggedMode.CONTRACTING:
            contracting = dot.lhs_contracting_dimensions
            return (*batch, *contracting[: contracting.index(ragged)])
        case RaggedMode.FREE:
            taken = (*batch, *dot.lhs_contracting_dimensions)
            return (*batch, *(d for d in range(ragged) if d not in taken))


@public
def ragged_dot(
    lhs: Shape,
    rhs: Shape,
    group_sizes: Shape,
    dimension_numbers: RaggedDotDimensionNumbers,
    preferred_element_type: PrimitiveType | None = None,
) -> ArrayShape:
    """Shape of a dot product along which one dimension is cut into groups.

    Example:
        >>> import builder as xb
        >>> numbers = xb.RaggedDotDimensionNumbers((([1], [0]), ([], [])), [1])
        >>> infer = xb.shape_inference.contraction.ragged_dot
        >>> infer(xb.f32[11, 5], xb.f32[5, 7], xb.s32[3], numbers)
        f32[3,11,7]
    """
    check = Check("ragged_dot", lhs=lhs, rhs=rhs, group_sizes=group_sizes)
    left, right, sizes = check.array("lhs"), check.array("rhs"), check.array("group_sizes")
    n = dimension_numbers
    dot = n.dot_dimension_numbers
    product = dot_general.strict(left, right, dot, preferred_element_type, op="ragged_dot")
    if len(n.lhs_ragged_dimensions) != 1:
        check.fail(
            f"lhs_ragged_dimensions must be one dimension, got {len(n.lhs_ragged_dimensions)}: "
            f"{list(n.lhs_ragged_dimensions)}"
        )
    check.dimensions_in_range(n.lhs_ragged_dimensions, of="lhs", name="lhs_ragged_dimensions")
    check.dimensions_in_range(n.rhs_group_dimensions, of="rhs", name="rhs_group_dimensions")
    taken = (*dot.rhs_batch_dimensions, *dot.rhs_contracting_dimensions)
    check.unique(
        (*n.rhs_group_dimensions, *taken),
        name="rhs_group_dimensions, rhs_batch_dimensions and rhs_contracting_dimensions together",
    )
    mode = ragged_mode.strict(n)
    wanted = 1 if mode is RaggedMode.FREE else 0
    if len(n.rhs_group_dimensions) != wanted:
        check.fail(
            f"rhs_group_dimensions must be {'one dimension' if wanted else 'empty'} where the "
            f"ragged dimension is {mode.value}, got {list(n.rhs_group_dimensions)}"
        )
    _group_sizes(check, left, sizes, n)
    groups = sizes.dimensions[-1]
    dimensions, dynamic = list(product.dimensions), list(product.dynamic_dimensions)
    if mode is RaggedMode.CONTRACTING:
        return check.result(
            product.element_type,
            (groups, *dimensions),
            (sizes.dynamic_dimensions[-1], *dynamic),
        )
    if mode is RaggedMode.FREE:
        (group,) = n.rhs_group_dimensions
        found = right.dimensions[group]
        if found != groups and UNBOUNDED not in (found, groups):
            check.fail(
                f"the group dimension of rhs must have the size of the last dimension of "
                f"group_sizes, {groups}, got {found}",
                dimension=group,
            )
        # Among the free dimensions of rhs, which come last.
        free = [d for d in range(right.rank) if d not in taken]
        at = len(dimensions) - len(free) + free.index(group)
        del dimensions[at], dynamic[at]
    return check.result(product.element_type, dimensions, dynamic)


def _group_sizes(
    check: Check, lhs: ArrayShape, sizes: ArrayShape, numbers: RaggedDotDimensionNumbers
) -> None:
    """One row of sizes for all, or one for each index of the dimensions further out."""
    if not sizes.element_type.is_integral:
        check.fail(f"group_sizes must be of integral type, got {sizes.element_type}")
    prefix = [lhs.dimensions[d] for d in ragged_prefix.strict(numbers)]
    forms = "[groups]" + (f" or [{', '.join(map(str, prefix))}, groups]" if prefix else "")
    if sizes.rank not in (1, len(prefix) + 1):
        check.fail(f"group_sizes must be of the form {forms}, got rank {sizes.rank}")
    if sizes.rank > 1:
        for index, (size, found) in enumerate(zip(prefix, sizes.dimensions, strict=False)):
            if size != found and UNBOUNDED not in (size, found):
                check.fail(
                    f"group_sizes must be of the form {forms}, got {found} in place of {size}",
                    dimension=index,
                )
