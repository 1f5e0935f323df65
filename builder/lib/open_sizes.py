"""Arrays with unbounded sizes: indices along a dimension, and broadcasts to sizes at run time.

XLA's iota and broadcast_in_dim have results of fixed sizes. For unbounded ones, the sizes are read
from an operand that has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import shape_of
from builder.ops.dynamic import dynamic_iota, dynamic_reshape, get_dimension_size
from builder.ops.operands import dimensions_attribute
from builder.ops.reshaping import broadcast_in_dim, reshape
from builder.ops.runtime_sizes import record_broadcast, sizes_from, sizes_vector
from builder.types.primitive_type import PrimitiveType, s32
from builder.types.shape import UNBOUNDED, ArrayShape, intern_array


def closed_argument(op: str, name: str, shape: ArrayShape) -> None:
    """Check that the sizes of argument `name` are fixed or unbounded, not bounded.

    Raises:
        ShapeInferenceError: a size is bounded.
    """
    for number, (size, is_dynamic) in enumerate(
        zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    ):
        if is_dynamic and size != UNBOUNDED:
            rule = f"{name} must not have bounded sizes"
            raise error_of(ShapeInferenceError, op, rule, got=shape, dimension=number)


def broadcast_along(x: XlaOp, sizes: Sequence[int], places: Sequence[int], beside: XlaOp) -> XlaOp:
    """Broadcast an array to sizes that may be unbounded.

    Args:
        x: the array.
        sizes: the sizes of the result; UNBOUNDED for a size that is read from x, or from `beside`
            if x does not have it.
        places: for each dimension of x the dimension of the result.
        beside: an op of the rank of the result.
    """
    if UNBOUNDED not in sizes:
        return broadcast_in_dim(x, sizes, places)
    shape, other = shape_of(x), shape_of(beside)
    is_open = tuple([size == UNBOUNDED for size in sizes])
    target = intern_array(shape.element_type, tuple(sizes), is_open)
    origins = [(shape, places), (other, range(other.rank))]
    attributes = dimensions_attribute("broadcast_dimensions", tuple(places))
    return record_broadcast([x, beside], target, attributes, sizes_from(target, origins))


def reshaped_to_multiples(
    wide: XlaOp, sizes: Sequence[int], x: XlaOp, counts: Sequence[int]
) -> XlaOp:
    """Reshape an array to multiples of the sizes of another, some of them unbounded.

    Args:
        wide: the array.
        sizes: the sizes of the result, UNBOUNDED for a multiple of an unbounded one.
        x: the other array; its dimensions are aligned at the last one.
        counts: the factor for each dimension of the result.
    """
    if sizes.count(UNBOUNDED) < 2:
        return reshape(wide, sizes)
    first = len(sizes) - shape_of(x).rank
    numbers = [
        get_dimension_size(x, place - first) * count if size == UNBOUNDED else size
        for place, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]
    b = x.builder
    operands = [b.constant(n, s32) if isinstance(n, int) else n for n in numbers]
    return dynamic_reshape(wide, operands, sizes, [size == UNBOUNDED for size in sizes])


def indices_of(x: XlaOp, element_type: PrimitiveType, dimension: int) -> XlaOp:
    """Return an array of the sizes of x with the index of each element along a dimension.

    Args:
        x: an array.
        element_type: the type of the indices.
        dimension: the dimension.
    """
    shape = shape_of(x)
    if shape.is_bounded:
        return x.builder.iota(element_type[shape.dimensions], dimension)
    target = intern_array(element_type, shape.dimensions, shape.dynamic_dimensions)
    sizes = sizes_vector([x], sizes_from(target, [(shape, range(shape.rank))]))
    return dynamic_iota(sizes, dimension, target)
