"""Infer the result shapes of dynamic slices, dynamic updates, gathers and scatters.

Operation Semantics: DynamicSlice, DynamicUpdateSlice, Gather, Scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from builder.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from builder.check import Check, sizes_differ
from builder.ops.rules.public import public
from builder.schema import SCHEMAS
from builder.types.shape import UNBOUNDED, ArrayShape, ProgramShape, Shape, TupleShape, intern_array


def _start_indices(check: Check, start_indices: Sequence[Shape], rank: int) -> None:
    """Check that `start_indices` has one index for each dimension of the operand.

    The start indices are scalars of one integer type, or one vector of that type.
    """
    shown = start_indices[: rank + 1]
    check.shapes.update({f"start index {i}": s for i, s in enumerate(shown)})
    rule = f"start_indices must have one index for each dimension of operand: {rank}"
    allowed = SCHEMAS[check.op].element_types["start_indices"]
    first = start_indices[0] if start_indices else None
    # Operation Semantics: DynamicSlice, whose start_indices are a vector
    if isinstance(first, ArrayShape) and first.rank == 1:
        if len(start_indices) != 1:
            check.fail(
                f"start_indices must be scalars or a single vector, got {len(start_indices)} arrays"
            )
        check.element_type("start index 0", allowed)
        if first.dimensions[0] != rank:
            check.fail(f"{rule}, got {first}")
        return
    # StableHLO dynamic_slice (C2), (I2), (C3), dynamic_update_slice (C4), (I3), (C5)
    if len(start_indices) != rank:
        check.fail(f"{rule}, got {len(start_indices)}")
    for number, shape in enumerate(start_indices):
        check.scalar(f"start index {number}")
        check.element_type(f"start index {number}", allowed)
        if shape is not first:
            rule = f"start_indices must be of one type, got {first} and {shape}"
            fix = "convert with xb.convert_element_type; nothing is promoted silently"
            check.fail(rule, dimension=number, fix=fix)


def _slice_sizes(check: Check, sizes: Sequence[int], name: str) -> None:
    """Check that argument `name` contains the sizes of a slice of the operand."""
    array = check.array("operand")
    # StableHLO dynamic_slice (C2), (C4), gather (C20), (C21)
    check.one_for_each_dimension(sizes, of="operand", name=name)
    check.sizes(sizes, name=name)
    for index, (size, old) in enumerate(zip(sizes, array.dimensions, strict=True)):
        if size > old != UNBOUNDED:
            rule = f"a slice size must be at most the operand's size, {array.dimension_text(index)}"
            check.fail_along(index, rule, size, fix=f"write a size of at most {old}")


@public
def dynamic_slice(
    operand: Shape, start_indices: Sequence[Shape], size_indices: Sequence[int]
) -> ArrayShape:
    """Return the shape of a slice of the operand that starts at dynamic indices.

    Example:
        >>> import builder as xb
        >>> s32 = xb.s32[()]
        >>> xb.shape_inference.indexing.dynamic_slice(xb.f32[4, 3], [s32, s32], [2, 2])
        f32[2,2]
    """
    check = Check("dynamic_slice", operand=operand)
    array = check.array("operand")
    _start_indices(check, start_indices, array.rank)
    _slice_sizes(check, size_indices, "size_indices")
    # A slice with all elements of a bounded dimension is bounded. As in XLA, a size of 1 is static.
    dynamic = [
        is_dynamic and size == old and size > 1
        for is_dynamic, size, old in zip(
            array.dynamic_dimensions, size_indices, array.dimensions, strict=True
        )
    ]
    return check.result(array.element_type, size_indices, dynamic)


@public
def dynamic_update_slice(
    operand: Shape, update: Shape, start_indices: Sequence[Shape]
) -> ArrayShape:
    """Return the shape of the operand with a slice overwritten.

    The sizes are those of the operand. A dimension is bounded if it is bounded in the operand, or
    bounded in an update that covers the full dimension.

    Example:
        >>> import builder as xb
        >>> s32 = xb.s32[()]
        >>> operand, update = xb.f32[4, 3], xb.f32[2, 2]
        >>> xb.shape_inference.indexing.dynamic_update_slice(operand, update, [s32, s32])
        f32[4,3]
    """
    check = Check("dynamic_update_slice", operand=operand, update=update)
    array, part = check.arrays()
    _start_indices(check, start_indices, array.rank)
    # StableHLO dynamic_update_slice (C3), (C2)
    if part.rank != array.rank:
        check.fail(f"update must have as many dimensions as operand: {array.rank}, got {part.rank}")
    check.same_element_type("operand", "update")
    dynamic = []
    for index, (size, old) in enumerate(zip(part.dimensions, array.dimensions, strict=True)):
        # StableHLO dynamic_update_slice (C6)
        if UNBOUNDED not in (size, old) and size > old:
            got = f"{part.dimension_text(index)} and {array.dimension_text(index)}"
            check.fail_along(index, "update must not be larger than operand", got)
        # An update of all elements of a dimension makes the result bounded if it is.
        dynamic.append(
            array.dynamic_dimensions[index] or (part.dynamic_dimensions[index] and size == old)
        )
    return intern_array(array.element_type, array.dimensions, tuple(dynamic))


def _index_sizes(check: Check, name: str, index_vector_dim: int) -> tuple[list[int], list[bool]]:
    """Return the sizes of an array of index vectors, and for each size whether it is dynamic.

    If `index_vector_dim` equals the rank, the array has an implicit last dimension of size 1.
    """
    indices = check.array(name)
    # StableHLO gather (I2), (C2), scatter (I2), (C22)
    check.element_type(name, SCHEMAS[check.op].element_types[name])
    if not 0 <= index_vector_dim <= indices.rank:
        check.fail(
            f"index_vector_dim must be a dimension of {name}, or its rank: "
            f"0 to {indices.rank}, got {index_vector_dim}",
            dimension=index_vector_dim,
            fix=f"write {max(indices.rank - 1, 0)} if the last dimension contains the index "
            f"vectors, or {indices.rank} if each element is an index",
        )
    sizes, dynamic = list(indices.dimensions), list(indices.dynamic_dimensions)
    if index_vector_dim == indices.rank:
        sizes.append(1)
        dynamic.append(False)
    return sizes, dynamic


def _ascending(check: Check, numbers: Sequence[int], rank: int, *, of: str, name: str) -> None:
    """Check that argument `name` lists dimensions of `of` in ascending order, without repeats."""
    # StableHLO gather (C4), (C5), (C7), (C8), (C10), (C11), scatter (C7), (C8), (C10-C13)
    for number in numbers:
        check.in_rank(number, rank, of=of, name=name)
    check.unique(numbers, name=name)
    for before, after in pairwise(numbers):
        if after < before:
            rule = f"{name} must be ascending, got {after} after {before} in {list(numbers)}"
            check.fail(rule, dimension=after, fix=f"write {sorted(numbers)}")


def _apart(check: Check, name: str, numbers: Sequence[int], other: str, of: Sequence[int]) -> None:
    """Check that arguments `name` and `other` have no dimension in common."""
    # StableHLO gather (C6), (C18), scatter (C9), (C20)
    for number in numbers:
        if number in of:
            rule = f"{name} and {other} must not name the same dimension, got {number}"
            check.fail(rule, dimension=number)


_GATHER: Final = (
    *("offset_dims", "collapsed_slice_dims", "operand_batching_dims"),
    *("start_indices_batching_dims", "start_index_map"),
)
_SCATTER: Final = (
    *("update_window_dims", "inserted_window_dims", "input_batching_dims"),
    *("scatter_indices_batching_dims", "scatter_dims_to_operand_dims"),
)
"""The ScatterDimensionNumbers fields that correspond to those of `_GATHER`, in the same order."""


def _windowed(
    check: Check,
    numbers: GatherDimensionNumbers | ScatterDimensionNumbers,
    names: tuple[str, ...],
    operand: str,
    indices: str,
    vector_size: int,
) -> list[int]:
    """Check the dimension numbers of a gather or scatter; return the operand's window dimensions.

    Window dimensions are neither collapsed (gather) or inserted (scatter) nor batching dimensions.
    """
    window_name, removed_name, batching_name, indices_name, map_name = names
    window, removed, batching, indices_batching, index_map = (getattr(numbers, n) for n in names)
    rank = check.array(operand).rank
    _ascending(check, removed, rank, of=operand, name=removed_name)
    _ascending(check, batching, rank, of=operand, name=batching_name)
    # StableHLO gather (C13-C17), scatter (C14-C18)
    check.dimensions_in_range(indices_batching, of=indices, name=indices_name)
    check.unique(indices_batching, name=indices_name)
    if numbers.index_vector_dim in indices_batching:
        rule = f"{indices_name} must not contain index_vector_dim, got {numbers.index_vector_dim}"
        check.fail(rule, dimension=numbers.index_vector_dim)
    if len(batching) != len(indices_batching):
        check.fail(
            f"{batching_name} and {indices_name} must have the same length, "
            f"got {len(batching)} and {len(indices_batching)}"
        )
    for dimension, number in zip(batching, indices_batching, strict=True):
        rule = "batching dimensions must have equal sizes"
        check.equal_sizes(rule, operand, dimension, indices, number)
    _apart(check, batching_name, batching, removed_name, removed)
    # StableHLO gather (C3), (C19), (C18), scatter (C19), (C21), (C20)
    if vector_size != UNBOUNDED:
        check.one_for_each(
            index_map,
            vector_size,
            of="component of an index vector",
            name=map_name,
            fix=_vector_fix(check, indices, numbers.index_vector_dim, len(index_map), map_name),
        )
    check.dimensions_in_range(index_map, of=operand, name=map_name)
    check.unique(index_map, name=map_name)
    _apart(check, batching_name, batching, map_name, index_map)
    # StableHLO gather (C1), scatter (C2)
    windowed = [d for d in range(rank) if d not in removed and d not in batching]
    if len(windowed) != len(window):
        check.fail(
            f"{window_name}, {removed_name} and {batching_name} must together have one entry for "
            f"each dimension of {operand}: {rank}, got {len(window)}, {len(removed)} and "
            f"{len(batching)}",
            fix=f"write {len(windowed)} entries in {window_name}, one for each dimension of "
            f"{operand} in neither {removed_name} nor {batching_name}: {windowed}",
        )
    return windowed


def _vector_fix(check: Check, indices: str, vector_dim: int, count: int, name: str) -> str:
    """Return the fix for argument `name`, which has `count` entries, for other index vectors."""
    sizes = check.array(indices).dimensions
    fix = f"name in {name} the dimension that each component of an index vector indexes"
    if count in sizes:
        fix += f", or set index_vector_dim to {sizes.index(count)}, which has size {count}"
    elif count == 1 and vector_dim < len(sizes):
        fix += f", or set index_vector_dim to {len(sizes)} if each element is an index"
    return fix


@public
def gather(
    operand: Shape,
    start_indices: Shape,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
) -> ArrayShape:
    """Return the shape of gathered slices, with sizes from `start_indices` and `slice_sizes`.

    Example:
        >>> import builder as xb
        >>> numbers = xb.GatherDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
        >>> xb.shape_inference.indexing.gather(xb.f32[16, 11], xb.s64[5, 2], numbers, [8, 6])
        f32[5,8,6]
    """
    check = Check("gather", operand=operand, start_indices=start_indices)
    array = check.array("operand")
    numbers = dimension_numbers
    sizes, dynamic = _index_sizes(check, "start_indices", numbers.index_vector_dim)
    result_rank = len(numbers.offset_dims) + len(sizes) - 1
    _ascending(check, numbers.offset_dims, result_rank, of="the result", name="offset_dims")
    vector_size = sizes[numbers.index_vector_dim]
    offsets = _windowed(check, numbers, _GATHER, "operand", "start_indices", vector_size)
    _slice_sizes(check, slice_sizes, "slice_sizes")
    for index, size in enumerate(slice_sizes):
        # StableHLO gather (C9), (C12)
        if size != 1 and index in numbers.collapsed_slice_dims:
            fix = f"set slice_sizes[{index}] to 1, or remove {index} from collapsed_slice_dims"
            rule = "the slice size of a collapsed dimension must be 1"
            check.fail_along(index, rule, size, fix=fix)
        if size != 1 and index in numbers.operand_batching_dims and array.dimensions[index] != 0:
            fix = f"set slice_sizes[{index}] to 1"
            check.fail_along(
                index, "the slice size of a batching dimension must be 1", size, fix=fix
            )
    del sizes[numbers.index_vector_dim], dynamic[numbers.index_vector_dim]
    for place, dimension in zip(numbers.offset_dims, offsets, strict=True):
        size = slice_sizes[dimension]
        sizes.insert(place, size)
        # A slice with all elements of a bounded dimension is bounded.
        dynamic.insert(
            place, array.dynamic_dimensions[dimension] and size == array.dimensions[dimension]
        )
    return check.result(array.element_type, sizes, dynamic)


@public
def scatter(
    operands: Sequence[Shape],
    scatter_indices: Shape,
    updates: Sequence[Shape],
    update_computation: ProgramShape,
    dimension_numbers: ScatterDimensionNumbers,
) -> Shape:
    """Return the shape of the updated operand, or the shape of a tuple for several operands.

    Example:
        >>> import builder as xb
        >>> numbers = xb.ScatterDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
        >>> operand, indices, updates = xb.f32[16, 11], xb.s64[5, 2], xb.f32[5, 8, 6]
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.indexing.scatter([operand], indices, [updates], add, numbers)
        f32[16,11]
    """
    operand_names, update_names = _names(len(operands), "operand"), _names(len(updates), "updates")
    check = Check("scatter")
    check.shapes = dict(zip(operand_names, operands, strict=True))
    check.shapes["scatter_indices"] = scatter_indices
    check.shapes.update(zip(update_names, updates, strict=True))
    # StableHLO scatter (C5)
    check.that(bool(operands), "at least one operand is needed, got none")
    check.one_for_each(updates, len(operands), of="operand", name="updates")
    sizes, _ = _index_sizes(check, "scatter_indices", dimension_numbers.index_vector_dim)
    arrays = [check.array(name) for name in operand_names]
    values = [check.array(name) for name in update_names]
    # StableHLO scatter (C1), (C3), (C6)
    for group, label in ((arrays, "operands"), (values, "updates")):
        first = group[0]
        for shape in group:
            if shape.rank != first.rank or any(
                map(sizes_differ, shape.dimensions, first.dimensions)
            ):
                check.fail(f"{label} must have the same sizes, got {first} and {shape}")
    for array, value in zip(arrays, values, strict=True):
        if value.element_type is not array.element_type:
            check.fail(
                f"updates must be of their operand's type, {array.element_type}, "
                f"got {value.element_type}",
                fix="convert with xb.convert_element_type; nothing is promoted silently",
            )
    for operand, update in zip(operand_names, update_names, strict=True):
        _scattered(check, operand, update, dimension_numbers, sizes)
    scalars = [intern_array(array.element_type, ()) for array in arrays]
    # StableHLO scatter (C23)
    name, parameters = "update_computation", [*scalars, *scalars]
    meaning = "current, update" if len(scalars) == 1 else "current..., updates..."
    returns = "the new element"
    check.applied(name, update_computation, parameters, scalars, meaning, returns, or_tuple=True)
    results = [array.with_layout(None) for array in arrays]
    return results[0] if len(results) == 1 else TupleShape(results)


def _names(count: int, name: str) -> list[str]:
    return [name] if count == 1 else [f"{name} {i}" for i in range(count)]


def _scattered(
    check: Check,
    operand: str,
    updates: str,
    numbers: ScatterDimensionNumbers,
    index_sizes: Sequence[int],
) -> None:
    """Check the dimension numbers and sizes of one operand and its updates."""
    array, update = check.array(operand), check.array(updates)
    window, vector_dim = numbers.update_window_dims, numbers.index_vector_dim
    rank = len(window) + len(index_sizes) - 1
    # StableHLO scatter (C4)
    if update.rank != rank:
        check.fail(
            f"{updates} must have {rank} dimensions: {len(window)} in update_window_dims "
            f"and {len(index_sizes) - 1} from scatter_indices, got {update.rank}"
        )
    _ascending(check, window, rank, of=updates, name="update_window_dims")
    windowed = _windowed(
        check, numbers, _SCATTER, operand, "scatter_indices", index_sizes[vector_dim]
    )
    # StableHLO scatter (C4): update_window_dim_sizes
    for place, dimension in zip(window, windowed, strict=True):
        size, old = update.dimensions[place], array.dimensions[dimension]
        if UNBOUNDED not in (size, old) and size > old:
            rule = (
                f"a window of {updates} must not be larger than dimension {dimension} of "
                f"{operand}, {array.dimension_text(dimension)}"
            )
            fix = f"cut {updates} with xb.slice"
            check.fail_along(place, rule, update.dimension_text(place), fix=fix)
    # StableHLO scatter (C4): update_scatter_dim_sizes
    scattered = [size for d, size in enumerate(index_sizes) if d != vector_dim]
    places = [d for d in range(rank) if d not in window]
    for place, size in zip(places, scattered, strict=True):
        if sizes_differ(size, update.dimensions[place]):
            rule = f"{updates} must have the sizes of scatter_indices outside the window: {size}"
            check.fail_along(place, rule, update.dimension_text(place))
