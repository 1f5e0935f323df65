"""Infer the result shapes of sorts and of top_k.

Operation Semantics: Sort; xla_builder.h: TopK.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.check import Check
from builder.ops.rules.public import public
from builder.ops.rules.reduction.reductions import equal_sizes
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ProgramShape, Shape, TupleShape, intern_array

_MOST_INDICES = 2**31
"""The number of elements that s32 indices can address."""


@public
def sort(operands: Sequence[Shape], comparator: ProgramShape, dimension: int = -1) -> Shape:
    """Return the shape of a sort: the operand's shape, or a tuple of shapes for several operands.

    Example:
        >>> import builder as xb
        >>> keys, values = xb.f32[4, 6], xb.s32[4, 6]
        >>> f32, s32 = xb.f32[()], xb.s32[()]
        >>> less = xb.ProgramShape([f32, f32, s32, s32], xb.pred[()])
        >>> xb.shape_inference.reduction.sort([keys, values], less, dimension=1)
        (f32[4,6], s32[4,6])
    """
    check = Check.numbered("sort", "operand", operands)
    # StableHLO sort (C1), (C3)
    arrays = check.arrays()
    equal_sizes(check, arrays)
    sorted_dimension(check, dimension)
    # StableHLO sort (C5)
    pred = intern_array(pt.pred, ())
    scalars = [intern_array(a.element_type, ()) for a in arrays for _ in range(2)]
    pairs = ", ".join(f"lhs {i}, rhs {i}" for i in range(len(arrays)))
    returns = "whether the lhs elements come before the rhs elements"
    check.applied("comparator", comparator, scalars, [pred], pairs, returns)
    shapes = [intern_array(a.element_type, a.dimensions, a.dynamic_dimensions) for a in arrays]
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def sorted_dimension(check: Check, dimension: int) -> int:
    """Return `dimension` of operand 0 as a non-negative number; -1 is the last dimension."""
    rank = check.array("operand 0").rank
    # StableHLO sort (C4)
    if not rank:
        check.fail("a scalar has no dimension to sort along")
    if not -rank <= dimension < rank:
        check.fail(
            f"dimension must be a dimension of operand 0: 0 to {rank - 1}, or counted from the "
            f"last, -1 to {-rank}, got {dimension}",
            dimension=dimension,
        )
    return dimension % rank


@public
def top_k(operand: Shape, k: int) -> TupleShape:
    """Return the shape of the tuple (k largest or smallest elements of each row, their indices).

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reduction.top_k(xb.f32[4, 6], 2)
        (f32[4,2], s32[4,2])
    """
    check = Check("top_k", operand=operand)
    # XLA shape_inference.cc: InferTopKShape
    array = check.array("operand")
    if not array.rank:
        check.fail("operand must have at least one dimension, got a scalar")
    *outer, last = array.dimensions
    # XLA shape_inference.cc: InferTopKShape
    if k < 0 or k > last != UNBOUNDED:
        most = array.dimension_text(array.rank - 1)
        rule = f"k must be from 0 to the size of the last dimension, {most}, got {k}"
        check.fail(rule, dimension=array.rank - 1)
    # xla_builder.h: TopK. Indices are s32.
    if last > _MOST_INDICES:
        check.fail(
            f"indices are s32, so the last dimension must not have more than {_MOST_INDICES} "
            f"elements, got {last}",
            dimension=array.rank - 1,
        )
    # XLA expands it to slices, where a bounded size of at most 1 becomes static.
    dynamic = [d and n != 1 for d, n in zip(array.dynamic_dimensions, outer, strict=False)]
    sizes, dynamic_dimensions = (*outer, k), (*dynamic, False)
    return TupleShape(
        [intern_array(t, sizes, dynamic_dimensions) for t in (array.element_type, pt.s32)]
    )
