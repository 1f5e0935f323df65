"""Shapes of ops that repeat, rearrange, join, pad and cut arrays, and of iota.

Operation Semantics: Broadcast, BroadcastInDim, Collapse, Concatenate, Iota, Pad, Reshape, Rev,
Slice, Transpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from builder.attributes import PaddingConfig
from builder.check import Check, integer
from builder.shape_inference.public import public
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "collapse",
    "concatenate",
    "iota",
    "pad",
    "reshape",
    "rev",
    "slice",
    "slice_in_dim",
    "transpose",
]


@public
def broadcast(operand: Shape, broadcast_sizes: Sequence[int]) -> ArrayShape:
    """Shape of the operand repeated: new dimensions of these sizes before its own.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.broadcast(xb.f32[3], [2, 4])
        f32[2,4,3]
    """
    check = Check("broadcast", operand=operand)
    array = check.array("operand")
    check.sizes(broadcast_sizes, name="broadcast_sizes")
    if not array.is_bounded:
        check.fail("an operand with an unbounded dimension can't be broadcast")
    dynamic = (*(False for _ in broadcast_sizes), *array.dynamic_dimensions)
    return check.result(array.element_type, (*broadcast_sizes, *array.dimensions), dynamic)


@public
def broadcast_in_dim(
    operand: Shape, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]
) -> ArrayShape:
    """Shape of the operand repeated into an array of sizes `out_dim_size`.

    Dimension i of the operand becomes dimension ``broadcast_dimensions[i]`` of the result, which
    has the same size, or any size if the operand's is 1.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.broadcast_in_dim(xb.f32[3, 1], [2, 3, 4], [1, 2])
        f32[2,3,4]
    """
    check = Check("broadcast_in_dim", operand=operand)
    array = check.array("operand")
    check.sizes(out_dim_size, name="out_dim_size")
    rank = len(out_dim_size)
    if array.rank > rank:
        check.fail(
            f"the result must have at least as many dimensions as operand: {array.rank}, "
            f"got out_dim_size {list(out_dim_size)}"
        )
    check.one_for_each_dimension(broadcast_dimensions, of="operand", name="broadcast_dimensions")
    dynamic = [False] * rank
    previous = -1
    for index, place in enumerate(broadcast_dimensions):
        if not 0 <= place < rank:
            check.fail(
                f"broadcast_dimensions must be dimensions of the result, 0 to {rank - 1}, "
                f"got {place} in {list(broadcast_dimensions)}",
                dimension=place,
            )
        if place <= previous:
            check.fail(
                f"broadcast_dimensions must be strictly increasing, "
                f"got {list(broadcast_dimensions)}",
                dimension=place,
                fix="transpose the operand first with xb.transpose",
            )
        previous = place
        size, wanted = array.dimensions[index], out_dim_size[place]
        if size == wanted:
            dynamic[place] = array.dynamic_dimensions[index]
        elif size == 1 and array.dynamic_dimensions[index]:
            check.fail(
                f"a dynamic size <=1 can't be broadcast, got size {wanted} for dimension {index} "
                f"of operand",
                dimension=index,
            )
        elif size not in (1, UNBOUNDED):
            check.fail(
                f"dimension {index} of operand has size {array.dimension_text(index)}, dimension "
                f"{place} of the result has size {wanted}; they must be equal, or the operand's 1",
                dimension=index,
            )
    return check.result(array.element_type, out_dim_size, dynamic)


@public
def reshape(
    operand: Shape,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    op: str = "reshape",
    inferred_dimension: int = -1,
) -> ArrayShape:
    """Shape of the same elements in an array of other sizes.

    Where a bounded dimension is split, and no more than one of its parts may be bounded,
    `inferred_dimension` says which; -1 says nothing.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.reshape(xb.f32[4, 6], [8, 3])
        f32[8,3]
        >>> bounded = xb.parse_shape("f32[<=6]")
        >>> xb.shape_inference.reshaping.reshape(bounded, [2, 3], inferred_dimension=0)
        f32[<=2,3]
    """
    check = Check(op, operand=operand)
    array = check.array("operand")
    if not -1 <= inferred_dimension < max(len(new_sizes), 1):
        check.fail(
            f"inferred_dimension must be a dimension of the result, 0 to {len(new_sizes) - 1}, or "
            f"-1 for none, got {inferred_dimension}",
            dimension=inferred_dimension,
        )
    if dimensions is not None:
        check.permutation(dimensions, of="operand", name="dimensions")
        array = _permuted(array, dimensions)
    check.sizes(new_sizes, name="new_sizes")
    if not array.is_bounded:
        if any(d and s != UNBOUNDED for s, d in _dimensions(array)):
            check.fail("an operand with both bounded and unbounded dimensions can't be reshaped")
        return check.result(array.element_type, new_sizes)
    old_count, new_count = math.prod(array.dimensions), math.prod(new_sizes)
    if old_count != new_count:
        check.fail(
            f"the number of elements must stay the same, {old_count}, "
            f"got {new_count} for new_sizes {list(new_sizes)}"
        )
    dynamic = [False] * len(new_sizes)
    if not array.is_static:
        for place in _dynamic_after_reshape(check, array, new_sizes, inferred_dimension):
            dynamic[place] = True
    return check.result(array.element_type, new_sizes, dynamic)


def _dimensions(array: ArrayShape) -> zip[tuple[int, bool]]:
    return zip(array.dimensions, array.dynamic_dimensions, strict=True)


def _permuted(array: ArrayShape, permutation: Sequence[int]) -> ArrayShape:
    return intern_array(
        array.element_type,
        tuple(array.dimensions[i] for i in permutation),
        tuple(array.dynamic_dimensions[i] for i in permutation),
    )


Cut = tuple[int, int]


def equal_products(old: Sequence[int], new: Sequence[int]) -> list[Cut]:
    """Where both size lists can be cut so that the parts between two cuts have equal products.

    Cuts (i, j) stand before old[i] and new[j], as many as there can be; a size of 1 that has no
    partner gets a part of its own, which is empty on the other side.
    """
    i = 0
    while i < min(len(old), len(new)) and old[i] == new[i]:
        i += 1
    j = i
    cuts = [(k, k) for k in range(i)]
    end = (len(old), len(new))
    rest = math.prod(old[i:])
    if rest != math.prod(new[j:]):
        # Zeros among the equal sizes hide that the rest differs: nothing can be told apart.
        return [(0, 0), end]
    cuts.append((i, j))
    if rest == 0:
        return [*cuts, end]
    old_product = new_product = 1
    while (i, j) != end:
        # The side whose product is behind takes its next size; at a cut, the one with the
        # smaller next size, or both when they are equal.
        behind = old_product - new_product
        if behind == 0 and i < len(old) and j < len(new):
            behind = old[i] - new[j]
        elif behind == 0:
            behind = -1 if i < len(old) else 1
        if behind <= 0:
            old_product *= old[i]
            i += 1
        if behind >= 0:
            new_product *= new[j]
            j += 1
        if old_product == new_product:
            cuts.append((i, j))
    return cuts


def _dynamic_after_reshape(
    check: Check, array: ArrayShape, new_sizes: Sequence[int], inferred_dimension: int
) -> list[int]:
    """The dimensions of a reshape's result that are bounded because the operand's are.

    A bounded dimension may be combined with others (``[2,<=3] -> [<=6]``), or split, when all new
    sizes but one are 1 (``[<=6] -> [<=6,1]``). Split otherwise (``[<=6] -> [2,3]``) the inferred
    dimension is bounded, or where there is none the result static, as XLA has it. Both at once is
    rejected.
    """
    cuts = equal_products(array.dimensions, new_sizes)
    last = array.rank - 1
    found = []
    for dimension, (size, dynamic) in enumerate(_dimensions(array)):
        if not dynamic:
            continue
        part = next(p for p in range(len(cuts) - 1) if cuts[p][0] <= dimension < cuts[p + 1][0])
        (old_start, new_start), (old_end, new_end) = cuts[part], cuts[part + 1]
        if old_end - old_start > 1 and new_end - new_start > 1:
            check.fail(
                f"a bounded dimension can be split or combined, not both at once, "
                f"got dimension {dimension} ({array.dimension_text(dimension)}) for new_sizes "
                f"{list(new_sizes)}",
                dimension=dimension,
                fix="reshape in two steps",
            )
        # Sizes of 1 beside the part could take the dimension as well.
        new_start = min(j for i, j in cuts if i == old_start)
        new_end = max(j for i, j in cuts if i == old_end)
        if size == 1 and new_sizes:
            if dimension not in (0, last):
                check.fail(
                    f"a dimension <=1 can be reshaped only where it is the first or the last, "
                    f"got it as dimension {dimension}",
                    dimension=dimension,
                )
            found.append(len(new_sizes) - 1 if dimension == last else 0)
        elif new_end - new_start == 1:
            found.append(new_start)
        elif inferred_dimension != -1 and new_end > new_start:
            found.append(inferred_dimension)
        else:
            larger = [j for j in range(new_start, new_end) if new_sizes[j] != 1]
            if len(larger) == 1:
                found.append(larger[0])
    return found


@public
def collapse(operand: Shape, dimensions: Sequence[int]) -> ArrayShape:
    """Shape of the operand with consecutive dimensions made one.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.collapse(xb.f32[4, 2, 3], [0, 1])
        f32[8,3]
    """
    check = Check("collapse", operand=operand)
    array = check.array("operand")
    check.dimensions_in_range(dimensions, of="operand", name="dimensions")
    for before, after in pairwise(dimensions):
        if after != before + 1:
            check.fail(
                f"dimensions must be consecutive and in order, got {list(dimensions)}",
                dimension=after,
                fix="transpose first with xb.transpose, or use xb.reshape(..., dimensions=...)",
            )
    if len(dimensions) < 2:
        return intern_array(array.element_type, array.dimensions, array.dynamic_dimensions)
    if not array.is_bounded:
        check.fail("an operand with an unbounded dimension can't be collapsed")
    first, last = dimensions[0], dimensions[-1]
    size = math.prod(array.dimensions[first : last + 1])
    sizes = (*array.dimensions[:first], size, *array.dimensions[last + 1 :])
    return reshape.strict(array, sizes, op="collapse")


@public
def transpose(operand: Shape, permutation: Sequence[int]) -> ArrayShape:
    """Shape of the operand with its dimensions in another order.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.transpose(xb.f32[2, 3, 4], [2, 0, 1])
        f32[4,2,3]
    """
    check = Check("transpose", operand=operand)
    array = check.array("operand")
    check.permutation(permutation, of="operand", name="permutation")
    return _permuted(array, permutation)


@public
def rev(operand: Shape, dimensions: Sequence[int]) -> ArrayShape:
    """Shape of the operand reversed along some dimensions: its own.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.rev("f32[2,3]", [1])
        f32[2,3]
    """
    check = Check("rev", operand=operand)
    array = check.array("operand")
    check.dimensions_in_range(dimensions, of="operand", name="dimensions")
    check.unique(dimensions, name="dimensions")
    return intern_array(array.element_type, array.dimensions, array.dynamic_dimensions)


@public
def concatenate(operands: Sequence[Shape], dimension: int) -> ArrayShape:
    """Shape of arrays joined along a dimension: all other sizes are equal.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.concatenate([xb.f32[3, 2], xb.f32[1, 2]], 0)
        f32[4,2]
    """
    check = Check.numbered("concatenate", "operand", operands)
    check.that(bool(operands), "at least one operand is needed, got none")
    arrays = check.arrays()
    element_type = check.same_element_type()
    first = arrays[0]
    for index, array in enumerate(arrays):
        if array.rank != first.rank:
            check.fail(
                f"operands must have the same number of dimensions, got {first.rank} of operand 0 "
                f"and {array.rank} of operand {index}"
            )
    if not first.rank:
        check.fail("scalars can't be concatenated", fix="reshape each to [1] with xb.reshape")
    check.dimension(dimension, of="operand 0", name="dimension")
    sizes, dynamic = list(first.dimensions), list(first.dynamic_dimensions)
    for index, array in enumerate(arrays[1:], 1):
        for place, (size, size_dynamic) in enumerate(_dimensions(array)):
            unbounded = UNBOUNDED in (size, sizes[place])
            if place == dimension:
                # Of a sum nothing is known as soon as nothing is known of one part.
                sizes[place] = UNBOUNDED if unbounded else sizes[place] + size
                dynamic[place] = dynamic[place] or size_dynamic
            elif unbounded:
                # What is known of either holds for both.
                if sizes[place] == UNBOUNDED:
                    sizes[place], dynamic[place] = size, size_dynamic
            elif size != sizes[place]:
                other = next(k for k, a in enumerate(arrays) if a.dimensions[place] != UNBOUNDED)
                check.fail(
                    f"operands must have equal sizes in all dimensions but {dimension}; "
                    f"dimension {place} has {arrays[other].dimension_text(place)} in operand "
                    f"{other} and {array.dimension_text(place)} in operand {index}",
                    dimension=place,
                )
            else:
                dynamic[place] = dynamic[place] or size_dynamic
    return check.result(element_type, sizes, dynamic)


@public
def pad(
    operand: Shape, padding_value: Shape, padding_config: PaddingConfig, op: str = "pad"
) -> ArrayShape:
    """Shape of the operand with elements added around and between its own, or taken away.

    Example:
        >>> import builder as xb
        >>> config = xb.PaddingConfig([(1, 0, 2)])
        >>> xb.shape_inference.reshaping.pad(xb.f32[3], xb.f32[()], config)
        f32[8]
    """
    check = Check(op, operand=operand, padding_value=padding_value)
    array = check.array("operand")
    check.scalar("padding_value")
    check.same_element_type()
    check.one_for_each_dimension(padding_config.dimensions, of="operand", name="padding_config")
    sizes = []
    for index, padding in enumerate(padding_config.dimensions):
        if padding.interior_padding < 0:
            check.fail(
                f"interior padding must not be negative, got {padding.interior_padding} for "
                f"dimension {index}",
                dimension=index,
                fix="leave elements out with the strides of xb.slice",
            )
        old = array.dimensions[index]
        if old == UNBOUNDED:
            sizes.append(UNBOUNDED)
            continue
        size = old + max(old - 1, 0) * padding.interior_padding
        size += padding.edge_padding_low + padding.edge_padding_high
        if size < 0:
            check.fail(
                f"negative padding must not take away more than there is, got {padding} for "
                f"dimension {index}, which leaves {size}",
                dimension=index,
            )
        sizes.append(size)
    return check.result(array.element_type, sizes, array.dynamic_dimensions)


@public
def slice(
    operand: Shape,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
    op: str = "slice",
) -> ArrayShape:
    """Shape of the part of the operand from start to limit, every stride-th element of it.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.slice(xb.f32[4, 9], [2, 1], [4, 8], [1, 2])
        f32[2,4]
    """
    check = Check(op, operand=operand)
    array = check.array("operand")
    strides = (1,) * array.rank if strides is None else strides
    check.one_for_each_dimension(start_indices, of="operand", name="start_indices")
    check.one_for_each_dimension(limit_indices, of="operand", name="limit_indices")
    check.one_for_each_dimension(strides, of="operand", name="strides")
    sizes, dynamic = [], []
    for index, (start, limit, stride) in enumerate(
        zip(start_indices, limit_indices, strides, strict=True)
    ):
        old = array.dimensions[index]
        if start < 0:
            check.fail(
                f"a start index must not be negative, got {start} for dimension {index}",
                dimension=index,
            )
        if limit > old != UNBOUNDED:
            check.fail(
                f"a limit index must be at most the dimension's size, got {limit} for dimension "
                f"{index} of size {array.dimension_text(index)}",
                dimension=index,
            )
        if limit < start:
            check.fail(
                f"a limit index must be at least the start index, got {start} to {limit} for "
                f"dimension {index}",
                dimension=index,
                fix="reverse with xb.rev" if limit >= 0 else "count limits from the beginning",
            )
        if stride < 1:
            check.fail(
                f"a stride must be at least 1, got {stride} for dimension {index}",
                dimension=index,
                fix="reverse with xb.rev" if stride else None,
            )
        size = (limit - start + stride - 1) // stride
        sizes.append(size)
        # Of a bounded dimension, as in XLA, a part of one element is static.
        dynamic.append(array.dynamic_dimensions[index] and old != UNBOUNDED and size != 1)
    return check.result(array.element_type, sizes, dynamic)


@public
def slice_in_dim(
    operand: Shape, start_index: int, limit_index: int, stride: int, dimno: int
) -> ArrayShape:
    """Shape of the part of the operand from start to limit in one dimension, all of the others.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.slice_in_dim(xb.f32[4, 9], 1, 8, 2, 1)
        f32[4,4]
    """
    starts, limits, strides = slice_in_dim_indices(operand, start_index, limit_index, stride, dimno)
    return slice.strict(operand, starts, limits, strides, op="slice_in_dim")


Indices = tuple[int, ...]


def slice_in_dim_indices(
    operand: Shape, start_index: int, limit_index: int, stride: int, dimno: int
) -> tuple[Indices, Indices, Indices]:
    """The start indices, limit indices and strides of the `slice` that a `slice_in_dim` is."""
    check = Check("slice_in_dim", operand=operand)
    array = check.array("operand")
    check.dimension(dimno, of="operand", name="dimno")
    for index, size in enumerate(array.dimensions):
        if size == UNBOUNDED and index != dimno:
            check.fail(
                f"all of an unbounded dimension can't be taken, got dimension {index}",
                dimension=index,
            )
    starts, limits, strides = [0] * array.rank, list(array.dimensions), [1] * array.rank
    starts[dimno], limits[dimno], strides[dimno] = start_index, limit_index, stride
    return tuple(starts), tuple(limits), tuple(strides)


@public
def iota(shape: Shape, iota_dimension: int | None = None) -> tuple[ArrayShape, int]:
    """The shape without its layout, and the dimension along which iota counts.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.iota(xb.s32[8])
        (s32[8], 0)
    """
    check = Check("iota", shape=shape)
    array = check.array("shape")
    if not array.is_static:
        check.fail(
            f"shape must be static, got {array}",
            fix="make it of the largest size, static",
        )
    if array.element_type is pt.pred:
        check.fail(
            "shape must be of integer, floating-point or complex type, got pred",
            fix="make it of integers and compare",
        )
    if array.element_type.is_floating and array.element_type.min > 0:
        check.fail(f"shape must be of a type with a zero to count from, got {array.element_type}")
    if not array.rank:
        check.fail("shape must have a dimension to count along, got a scalar")
    if iota_dimension is None:
        if array.rank != 1:
            check.fail(
                f"iota_dimension may be left out for one dimension alone, got {array.rank}",
                fix=f"say which of 0 to {array.rank - 1} counts",
            )
        iota_dimension = 0
    number = integer("iota", "iota_dimension", iota_dimension)
    check.dimension(number, of="shape", name="iota_dimension")
    return intern_array(array.element_type, array.dimensions), number
