"""Infer the result shapes of ops that broadcast, rearrange, concatenate, pad or slice, and of iota.

Operation Semantics: Broadcast, BroadcastInDim, Collapse, Concatenate, Iota, Pad, Reshape, Rev,
Slice, Transpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from builder.attributes import PaddingConfig
from builder.check import Check, integer, sizes_differ
from builder.schema.element_types import NUMBER
from builder.shape_inference.broadcasting import matching_places
from builder.shape_inference.public import public
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array

_BROADCAST_FIX: Final = (
    "broadcast operand with xb.dynamic_broadcast_in_dim, to sizes from xb.get_dimension_size"
)
_RESHAPE_FIX: Final = (
    "reshape operand with xb.dynamic_reshape, with xb.UNBOUNDED in new_size_bounds and sizes "
    "from xb.get_dimension_size"
)


@public
def broadcast(operand: Shape, broadcast_sizes: Sequence[int]) -> ArrayShape:
    """Return the shape of the operand broadcast along new leading dimensions `broadcast_sizes`.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.broadcast(xb.f32[3], [2, 4])
        f32[2,4,3]
    """
    check = Check("broadcast", operand=operand)
    array = check.array("operand")
    # XLA shape_inference.cc: InferBroadcastShape
    check.sizes(broadcast_sizes, name="broadcast_sizes")
    if not array.is_bounded:
        check.fail("an operand with an unbounded dimension can't be broadcast", fix=_BROADCAST_FIX)
    dynamic = (*(False for _ in broadcast_sizes), *array.dynamic_dimensions)
    return check.result(array.element_type, (*broadcast_sizes, *array.dimensions), dynamic)


@public
def broadcast_in_dim(
    operand: Shape, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]
) -> ArrayShape:
    """Return the shape of the operand broadcast to an array of sizes `out_dim_size`.

    Dimension i of the operand becomes dimension ``broadcast_dimensions[i]`` of the result. Both
    must have the same size, unless the size in the operand is 1.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.broadcast_in_dim(xb.f32[3, 1], [2, 3, 4], [1, 2])
        f32[2,3,4]
    """
    check = Check("broadcast_in_dim", operand=operand)
    array = check.array("operand")
    rank = len(out_dim_size)
    # XLA shape_inference.cc: InferBroadcastShape
    check.sizes(out_dim_size, name="out_dim_size", at_run_time="dynamic_broadcast_in_dim")
    if array.rank > rank:
        check.fail(
            f"the result must have at least as many dimensions as operand: {array.rank}, "
            f"got out_dim_size {list(out_dim_size)}",
            fix="remove dimensions of size 1 first with xb.reshape"
            if 1 in array.dimensions
            else None,
        )
    # StableHLO broadcast_in_dim (C2)
    check.one_for_each_dimension(broadcast_dimensions, of="operand", name="broadcast_dimensions")
    dynamic = [False] * rank
    previous = -1
    for index, place in enumerate(broadcast_dimensions):
        # StableHLO broadcast_in_dim (C3), (C4)
        check.in_rank(place, rank, of="the result", name="broadcast_dimensions")
        if place <= previous:
            order = sorted(range(array.rank), key=broadcast_dimensions.__getitem__)
            fix = (
                "map each dimension of operand to a dimension of its own"
                if place in broadcast_dimensions[:index]
                else f"transpose the operand first with xb.transpose(operand, {order})"
            )
            check.fail(
                f"broadcast_dimensions must be strictly increasing, "
                f"got {list(broadcast_dimensions)}",
                dimension=place,
                fix=fix,
            )
        previous = place
        size, new_size = array.dimensions[index], out_dim_size[place]
        # StableHLO broadcast_in_dim (C5)
        if size == new_size:
            dynamic[place] = array.dynamic_dimensions[index]
        elif size == 1 and array.dynamic_dimensions[index]:
            check.fail_along(index, "a dynamic size <=1 can't be broadcast", f"size {new_size}")
        elif size not in (1, UNBOUNDED):
            check.fail(
                f"dimension {index} of operand has size {array.dimension_text(index)}, dimension "
                f"{place} of the result has size {new_size}; these sizes must be equal, or the "
                f"operand's size must be 1",
                dimension=index,
                fix=_placement(array, out_dim_size),
            )
    return check.result(array.element_type, out_dim_size, dynamic)


def _placement(array: ArrayShape, sizes: Sequence[int]) -> str | None:
    """Return the fix that names `broadcast_dimensions` for these sizes, or None if none fit."""
    places = matching_places(array.dimensions, sizes)
    return None if places is None else f"map to equal sizes: broadcast_dimensions={places}"


@public
def reshape(
    operand: Shape,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    op: str = "reshape",
    inferred_dimension: int = -1,
) -> ArrayShape:
    """Return the shape of the operand reshaped to other sizes.

    If a bounded dimension is split, dimension `inferred_dimension` of the result is bounded. The
    default, -1, selects no dimension.

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
    # XLA shape_inference.cc: InferReshapeShape
    if not -1 <= inferred_dimension < max(len(new_sizes), 1):
        dimensions_text = f"0 to {len(new_sizes) - 1}" if new_sizes else "it has none"
        check.fail(
            f"inferred_dimension must be a dimension of the result ({dimensions_text}), or "
            f"-1 for none, got {inferred_dimension}",
            dimension=inferred_dimension,
        )
    if dimensions is not None:
        # Operation Semantics: Reshape
        check.permutation(dimensions, of="operand", name="dimensions")
        array = _permuted(array, dimensions)
    count = math.prod(array.dimensions) if array.is_bounded else None
    check.sizes(new_sizes, name="new_sizes", at_run_time="dynamic_reshape", count=count)
    if not array.is_bounded:
        # XLA shape_inference.cc: InferReshapeShape
        if any(d and s != UNBOUNDED for s, d in _dimensions(array)):
            check.fail(
                "an operand with both bounded and unbounded dimensions can't be reshaped",
                fix=_RESHAPE_FIX,
            )
        return check.result(array.element_type, new_sizes)
    old_count, new_count = math.prod(array.dimensions), math.prod(new_sizes)
    # StableHLO reshape (C2)
    if old_count != new_count:
        check.fail(
            f"the number of elements must stay the same, {old_count}, "
            f"got {new_count} for new_sizes {list(new_sizes)}",
            fix=_reshape_fix(old_count, new_sizes),
        )
    dynamic = [False] * len(new_sizes)
    if not array.is_static:
        for place in _dynamic_after_reshape(check, array, new_sizes, inferred_dimension):
            dynamic[place] = True
    return check.result(array.element_type, new_sizes, dynamic)


def _reshape_fix(count: int, new_sizes: Sequence[int]) -> str:
    """Return the fix for a reshape of `count` elements to another number of elements."""
    for place in reversed(range(len(new_sizes))):
        rest = math.prod(size for index, size in enumerate(new_sizes) if index != place)
        if rest and count % rest == 0:
            sizes = [count // rest if index == place else s for index, s in enumerate(new_sizes)]
            return f"write sizes whose product is {count}, for instance {sizes}"
    return f"write sizes whose product is {count}"


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
    """Cut `old` and `new` into as many parts with equal products as possible; return the cuts.

    A cut (i, j) is before old[i] and new[j]. A size of 1 without a counterpart is a separate part;
    the matching part of the other list is empty.
    """
    i = 0
    while i < min(len(old), len(new)) and old[i] == new[i]:
        i += 1
    j = i
    cuts = [(k, k) for k in range(i)]
    end = (len(old), len(new))
    rest = math.prod(old[i:])
    if rest != math.prod(new[j:]):
        # A zero among the equal sizes makes the products equal although the rest differs.
        return [(0, 0), end]
    cuts.append((i, j))
    if rest == 0:
        return [*cuts, end]
    old_product = new_product = 1
    while (i, j) != end:
        # The side with the smaller product advances; at a cut, the side with the smaller next
        # size, or both if they are equal.
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
    """Return the dimensions of a reshape's result that are bounded.

    A bounded dimension may be combined with others (``[2,<=3] -> [<=6]``), or split if all new
    sizes but one are 1 (``[<=6] -> [<=6,1]``). If it is split otherwise (``[<=6] -> [2,3]``), the
    inferred dimension is bounded. Without an inferred dimension, the result is static, as in XLA.
    A reshape that both combines and splits a bounded dimension is refused.
    """
    cuts = equal_products(array.dimensions, new_sizes)
    last = array.rank - 1
    bounded = []
    for dimension, (size, dynamic) in enumerate(_dimensions(array)):
        if not dynamic:
            continue
        part = next(p for p in range(len(cuts) - 1) if cuts[p][0] <= dimension < cuts[p + 1][0])
        (old_start, new_start), (old_end, new_end) = cuts[part], cuts[part + 1]
        # XLA shape_inference.cc: InferReshapeShape
        if old_end - old_start > 1 and new_end - new_start > 1:
            check.fail_along(
                dimension,
                f"a bounded dimension can be split, or combined with others, but not both in one "
                f"reshape to {list(new_sizes)}",
                array.dimension_text(dimension),
                fix="reshape in two steps",
            )
        # Sizes of 1 next to the part could be the bounded dimension as well.
        new_start = min(j for i, j in cuts if i == old_start)
        new_end = max(j for i, j in cuts if i == old_end)
        if size == 1 and new_sizes:
            if dimension not in (0, last):
                rule = "a dimension <=1 can be reshaped only if it is the first or the last"
                check.fail_along(dimension, rule, "<=1")
            bounded.append(len(new_sizes) - 1 if dimension == last else 0)
        elif new_end - new_start == 1:
            bounded.append(new_start)
        elif inferred_dimension != -1 and new_end > new_start:
            bounded.append(inferred_dimension)
        else:
            larger = [j for j in range(new_start, new_end) if new_sizes[j] != 1]
            if len(larger) == 1:
                bounded.append(larger[0])
    return bounded


@public
def collapse(operand: Shape, dimensions: Sequence[int]) -> ArrayShape:
    """Return the shape of the operand with consecutive dimensions combined into one.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.collapse(xb.f32[4, 2, 3], [0, 1])
        f32[8,3]
    """
    check = Check("collapse", operand=operand)
    array = check.array("operand")
    # Operation Semantics: Collapse
    check.dimensions_in_range(dimensions, of="operand", name="dimensions")
    for before, after in pairwise(dimensions):
        if after != before + 1:
            rule = f"dimensions must be consecutive and in order, got {list(dimensions)}"
            fix = "transpose first with xb.transpose, or use xb.reshape(..., dimensions=...)"
            check.fail(rule, dimension=after, fix=fix)
    if len(dimensions) < 2:
        return array.with_layout(None)
    # XLA shape_inference.cc: InferReshapeShape
    if not array.is_bounded:
        check.fail("an operand with an unbounded dimension can't be collapsed", fix=_RESHAPE_FIX)
    first, last = dimensions[0], dimensions[-1]
    size = math.prod(array.dimensions[first : last + 1])
    sizes = (*array.dimensions[:first], size, *array.dimensions[last + 1 :])
    return reshape.strict(array, sizes, op="collapse")


@public
def transpose(operand: Shape, permutation: Sequence[int]) -> ArrayShape:
    """Return the shape of the operand with its dimensions permuted.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.transpose(xb.f32[2, 3, 4], [2, 0, 1])
        f32[4,2,3]
    """
    check = Check("transpose", operand=operand)
    array = check.array("operand")
    # StableHLO transpose (C2)
    check.permutation(permutation, of="operand", name="permutation")
    return _permuted(array, permutation)


@public
def rev(operand: Shape, dimensions: Sequence[int]) -> ArrayShape:
    """Return the shape of the operand reversed along some dimensions: the shape of the operand.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.rev("f32[2,3]", [1])
        f32[2,3]
    """
    check = Check("rev", operand=operand)
    array = check.array("operand")
    # StableHLO reverse (C3), (C2)
    check.dimensions_in_range(dimensions, of="operand", name="dimensions")
    check.unique(dimensions, name="dimensions")
    return array.with_layout(None)


@public
def concatenate(operands: Sequence[Shape], dimension: int) -> ArrayShape:
    """Return the shape of arrays concatenated along a dimension; all other sizes must be equal.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.concatenate([xb.f32[3, 2], xb.f32[1, 2]], 0)
        f32[4,2]
    """
    check = Check.numbered("concatenate", "operand", operands)
    # StableHLO concatenate (C3), (C1)
    arrays = check.arrays()
    element_type = check.same_element_type()
    first = arrays[0]
    # StableHLO concatenate (C2)
    for index, array in enumerate(arrays):
        if array.rank != first.rank:
            check.fail(
                f"operands must have the same number of dimensions, got {first.rank} for operand 0 "
                f"and {array.rank} for operand {index}",
                fix="add dimensions of size 1 to operand "
                f"{index if array.rank < first.rank else 0} with xb.reshape",
            )
    # StableHLO concatenate (C4)
    if not first.rank:
        fix = "reshape each scalar to [1] with xb.reshape"
        check.fail("scalars can't be concatenated", fix=fix)
    check.dimension(dimension, of="operand 0", name="dimension")
    sizes, dynamic = list(first.dimensions), list(first.dynamic_dimensions)
    for index, array in enumerate(arrays[1:], 1):
        for place, (size, size_dynamic) in enumerate(_dimensions(array)):
            unbounded = UNBOUNDED in (size, sizes[place])
            if place == dimension:
                # A sum is unbounded if a term is.
                sizes[place] = UNBOUNDED if unbounded else sizes[place] + size
                dynamic[place] = dynamic[place] or size_dynamic
            elif unbounded:
                # The size of either operand is the size of both.
                if sizes[place] == UNBOUNDED:
                    sizes[place], dynamic[place] = size, size_dynamic
            elif size != sizes[place]:
                other = next(k for k, a in enumerate(arrays) if a.dimensions[place] != UNBOUNDED)
                # StableHLO concatenate (C2)
                check.fail(
                    f"operands must have equal sizes in all dimensions but {dimension}; "
                    f"dimension {place} has {arrays[other].dimension_text(place)} in operand "
                    f"{other} and {array.dimension_text(place)} in operand {index}",
                    dimension=place,
                    fix=_concatenate_fix(arrays, index),
                )
            else:
                dynamic[place] = dynamic[place] or size_dynamic
    return check.result(element_type, sizes, dynamic)


def _concatenate_fix(arrays: Sequence[ArrayShape], index: int) -> str:
    """Return the fix for arrays whose sizes differ outside the dimension of concatenation."""
    rank = arrays[0].rank
    for dimension in range(rank):
        others = [d for d in range(rank) if d != dimension]
        if not any(
            sizes_differ(array.dimensions[d], arrays[0].dimensions[d])
            for array in arrays
            for d in others
        ):
            return f"concatenate along dimension {dimension}, where all other sizes are equal"
    return f"make the sizes equal with xb.pad or xb.slice of operand {index}, or of the others"


@public
def pad(
    operand: Shape, padding_value: Shape, padding_config: PaddingConfig, op: str = "pad"
) -> ArrayShape:
    """Return the shape of the padded operand; negative padding removes elements.

    Example:
        >>> import builder as xb
        >>> config = xb.PaddingConfig([(1, 0, 2)])
        >>> xb.shape_inference.reshaping.pad(xb.f32[3], xb.f32[()], config)
        f32[8]
    """
    check = Check(op, operand=operand, padding_value=padding_value)
    array = check.array("operand")
    # StableHLO pad (I2), (C1), (C2)
    check.scalar("padding_value")
    check.same_element_type()
    check.one_for_each_dimension(padding_config.dimensions, of="operand", name="padding_config")
    sizes = []
    for index, padding in enumerate(padding_config.dimensions):
        # StableHLO pad (C3)
        if padding.interior_padding < 0:
            rule = "interior padding must not be negative"
            fix = "remove elements with xb.slice and strides"
            check.fail_along(index, rule, padding.interior_padding, fix=fix)
        old = array.dimensions[index]
        if old == UNBOUNDED:
            sizes.append(UNBOUNDED)
            continue
        # StableHLO pad (C4)
        size = old + max(old - 1, 0) * padding.interior_padding
        size += padding.edge_padding_low + padding.edge_padding_high
        if size < 0:
            rule = f"negative padding must leave a size of 0 or more, not {size}"
            check.fail_along(index, rule, padding)
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
    """Return the shape of the operand's elements from start to limit, in steps of stride.

    For an unbounded dimension, the limit `UNBOUNDED` means its size at run time.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.slice(xb.f32[4, 9], [2, 1], [4, 8], [1, 2])
        f32[2,4]
    """
    check = Check(op, operand=operand)
    array = check.array("operand")
    strides = (1,) * array.rank if strides is None else strides
    # StableHLO slice (C2)
    check.one_for_each_dimension(start_indices, of="operand", name="start_indices")
    check.one_for_each_dimension(limit_indices, of="operand", name="limit_indices")
    check.one_for_each_dimension(strides, of="operand", name="strides")
    sizes, dynamic = [], []
    slices = zip(array.dimensions, start_indices, limit_indices, strides, strict=True)
    for index, (old, start, limit, stride) in enumerate(slices):
        # StableHLO slice (C3)
        if start < 0:
            fix = f"write {start + old}; indices are counted from 0" if start + old >= 0 else None
            check.fail_along(index, "a start index must not be negative", start, fix=fix)
        if limit > old != UNBOUNDED:
            rule = f"a limit index must be at most the size, {array.dimension_text(index)}"
            check.fail_along(index, rule, limit, fix=f"write a limit of at most {old}")
        is_whole = limit == old == UNBOUNDED
        if limit < start and not is_whole:
            rule = "a limit index must be at least the start index"
            hint = "reverse with xb.rev" if limit >= 0 else "count limits from index 0"
            check.fail_along(index, rule, f"{start} to {limit}", fix=hint)
        # StableHLO slice (C4)
        if stride < 1:
            fix = "reverse with xb.rev" if stride else None
            check.fail_along(index, "a stride must be at least 1", stride, fix=fix)
        size = UNBOUNDED if is_whole else (limit - start + stride - 1) // stride
        sizes.append(size)
        # Like XLA, treat a slice of size 1 of a bounded dimension as static.
        is_dynamic = array.dynamic_dimensions[index] and old != UNBOUNDED and size != 1
        dynamic.append(is_whole or is_dynamic)
    return check.result(array.element_type, sizes, dynamic)


@public
def slice_in_dim(
    operand: Shape, start_index: int, limit_index: int, stride: int, dimno: int
) -> ArrayShape:
    """Return the shape of the operand's elements from start to limit in one dimension.

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
    """Return the start indices, limit indices and strides that `slice` needs for `slice_in_dim`."""
    check = Check("slice_in_dim", operand=operand)
    array = check.array("operand")
    # xla_builder.h: SliceInDim
    check.dimension(dimno, of="operand", name="dimno")
    starts, limits, strides = [0] * array.rank, list(array.dimensions), [1] * array.rank
    starts[dimno], limits[dimno], strides[dimno] = start_index, limit_index, stride
    return tuple(starts), tuple(limits), tuple(strides)


@public
def iota(shape: Shape, iota_dimension: int | None = None) -> tuple[ArrayShape, int]:
    """Return the shape of an iota, without a layout, and the dimension along which the iota counts.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.reshaping.iota(xb.s32[8])
        (s32[8], 0)
    """
    check = Check("iota", shape=shape)
    array = check.array("shape")
    element_type = array.element_type
    # Not in XLA: an iota of a dynamic size is not supported.
    if not array.is_static:
        fix = "use static sizes; xb.set_dimension_size makes a dimension of the result dynamic"
        check.fail(f"shape must be static, got {array}", fix=fix)
    # StableHLO iota: the type of output; a type without zero has no first element
    check.element_type("shape", NUMBER, fix="use an integer type, and compare the result")
    if element_type.is_floating and element_type.min > 0:
        check.fail(f"shape must be of a type that can represent 0, got {element_type}")
    # StableHLO iota (C1)
    if not array.rank:
        check.fail("shape must have a dimension to count along, got a scalar")
    if iota_dimension is None:
        if array.rank != 1:
            rule = f"iota_dimension is required unless the rank is 1, got rank {array.rank}"
            check.fail(rule, fix=f"set iota_dimension to a dimension from 0 to {array.rank - 1}")
        iota_dimension = 0
    number = integer("iota", "iota_dimension", iota_dimension)
    check.dimension(number, of="shape", name="iota_dimension")
    return array.with_layout(None), number
