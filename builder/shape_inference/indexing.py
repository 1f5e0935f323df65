"""Shapes of slices and updates at places known only when it runs, of gathers and scatters.

Operation Semantics: DynamicSlice, DynamicUpdateSlice, Gather, Scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from builder.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from builder.check import Check
from builder.errors import SignatureError
from builder.shape_inference.public import public
from builder.types.shape import UNBOUNDED, ArrayShape, ProgramShape, Shape, TupleShape, intern_array

__all__ = ["dynamic_slice", "dynamic_update_slice", "gather", "scatter"]


def _start_indices(check: Check, start_indices: Sequence[Shape], rank: int) -> None:
    """Raises unless there is one start index for each dimension.

    Start indices are scalars of one integer type, or one vector of them.
    """
    shown = start_indices[: rank + 1]
    check.shapes.update({f"start index {i}": s for i, s in enumerate(shown)})
    first = start_indices[0] if start_indices else None
    if isinstance(first, ArrayShape) and first.rank == 1:
        if len(start_indices) != 1:
            check.fail(
                f"start_indices must be scalars, or one vector of them, got {len(start_indices)} "
                f"arrays"
            )
        _integer_type(check, "start index 0")
        if first.dimensions[0] != rank:
            check.fail(
                f"start_indices must have one index for each dimension of operand: {rank}, "
                f"got {first}"
            )
        return
    if len(start_indices) != rank:
        check.fail(
            f"start_indices must have one index for each dimension of operand: {rank}, "
            f"got {len(start_indices)}"
        )
    for number, shape in enumerate(start_indices):
        check.scalar(f"start index {number}")
        _integer_type(check, f"start index {number}")
        if shape is not first:
            check.fail(
                f"start_indices must be of one type, got {first} and {shape}",
                dimension=number,
                fix="convert with xb.convert_element_type; nothing is promoted silently",
            )


def _integer_type(check: Check, name: str) -> None:
    found = check.array(name).element_type
    if not found.is_integral:
        check.fail(f"{name} must be of integer type, got {found}")


@public
def dynamic_slice(
    operand: Shape, start_indices: Sequence[Shape], size_indices: Sequence[int]
) -> ArrayShape:
    """Shape of the part of the operand that begins at indices known only when it runs.

    Example:
        >>> import builder as xb
        >>> s32 = xb.s32[()]
        >>> xb.shape_inference.indexing.dynamic_slice(xb.f32[4, 3], [s32, s32], [2, 2])
        f32[2,2]
    """
    check = Check("dynamic_slice", operand=operand)
    array = check.array("operand")
    _start_indices(check, start_indices, array.rank)
    check.one_for_each_dimension(size_indices, of="operand", name="size_indices")
    check.sizes(size_indices, name="size_indices")
    dynamic = []
    for index, (size, old) in enumerate(zip(size_indices, array.dimensions, strict=True)):
        if size > old != UNBOUNDED:
            check.fail(
                f"a slice must not be larger than the operand, got {size} for dimension {index} "
                f"of size {array.dimension_text(index)}",
                dimension=index,
            )
        # The whole of a bounded dimension is bounded; as in XLA, a part of one element is not.
        dynamic.append(array.dynamic_dimensions[index] and size == old and size > 1)
    return check.result(array.element_type, size_indices, dynamic)


@public
def dynamic_update_slice(
    operand: Shape, update: Shape, start_indices: Sequence[Shape]
) -> ArrayShape:
    """Shape of the operand with a part of it overwritten: its own.

    Example:
        >>> import builder as xb
        >>> s32 = xb.s32[()]
        >>> operand, update = xb.f32[4, 3], xb.f32[2, 2]
        >>> xb.shape_inference.indexing.dynamic_update_slice(operand, update, [s32, s32])
        f32[4,3]
    """
    check = Check("dynamic_update_slice", operand=operand, update=update)
    array, part = check.array("operand"), check.array("update")
    _start_indices(check, start_indices, array.rank)
    if part.rank != array.rank:
        check.fail(f"update must have as many dimensions as operand: {array.rank}, got {part.rank}")
    check.same_element_type("operand", "update")
    dynamic = []
    for index, (size, old) in enumerate(zip(part.dimensions, array.dimensions, strict=True)):
        if UNBOUNDED not in (size, old) and size > old:
            check.fail(
                f"update must not be larger than operand, got {part.dimension_text(index)} and "
                f"{array.dimension_text(index)} for dimension {index}",
                dimension=index,
            )
        # An update of the whole dimension brings its bound along.
        dynamic.append(
            array.dynamic_dimensions[index] or (part.dynamic_dimensions[index] and size == old)
        )
    return intern_array(array.element_type, array.dimensions, tuple(dynamic))


def _index_sizes(check: Check, name: str, index_vector_dim: int) -> tuple[list[int], list[bool]]:
    """The sizes of an array of index vectors, and which of them are dynamic.

    Where `index_vector_dim` is their number, a last dimension of size 1 is thought of.
    """
    indices = check.array(name)
    _integer_type(check, name)
    if not 0 <= index_vector_dim <= indices.rank:
        check.fail(
            f"index_vector_dim must be a dimension of {name} or their number, "
            f"0 to {indices.rank}, got {index_vector_dim}",
            dimension=index_vector_dim,
        )
    sizes, dynamic = list(indices.dimensions), list(indices.dynamic_dimensions)
    if index_vector_dim == indices.rank:
        sizes.append(1)
        dynamic.append(False)
    return sizes, dynamic


def _ascending(check: Check, numbers: Sequence[int], *, name: str) -> None:
    """Argument `name` must be in ascending order, and name no dimension twice."""
    check.unique(numbers, name=name)
    for before, after in pairwise(numbers):
        if after < before:
            check.fail(
                f"{name} must ascend, got {after} after {before} in {list(numbers)}",
                dimension=after,
            )


def _within(check: Check, numbers: Sequence[int], rank: int, *, of: str, name: str) -> None:
    """Argument `name` must hold dimensions of an array of this rank, which is `of`."""
    for number in numbers:
        if not 0 <= number < rank:
            check.fail(
                f"{name} must be a dimension of {of}, "
                + (f"0 to {rank - 1}" if rank else "which has none")
                + f", got {number}",
                dimension=number,
            )


def _apart(check: Check, numbers: Sequence[int], others: Sequence[int], names: str) -> None:
    """No dimension may stand in two arguments."""
    for number in numbers:
        if number in others:
            check.fail(f"{names} must not name one dimension both, got {number}", dimension=number)


def _batching(
    check: Check,
    operand_dims: Sequence[int],
    indices_dims: Sequence[int],
    index_vector_dim: int,
    *,
    operand: str,
    indices: str,
    names: tuple[str, str],
) -> None:
    """The batching dimensions of an operand and of the index vectors, which go together."""
    name, indices_name = names
    check.dimensions_in_range(operand_dims, of=operand, name=name)
    _ascending(check, operand_dims, name=name)
    check.dimensions_in_range(indices_dims, of=indices, name=indices_name)
    check.unique(indices_dims, name=indices_name)
    if index_vector_dim in indices_dims:
        check.fail(
            f"{indices_name} must not hold index_vector_dim, got {index_vector_dim}",
            dimension=index_vector_dim,
        )
    if len(operand_dims) != len(indices_dims):
        check.fail(
            f"{name} and {indices_name} must be as many, got {len(operand_dims)} and "
            f"{len(indices_dims)}"
        )
    left, right = check.array(operand), check.array(indices)
    for one, other in zip(operand_dims, indices_dims, strict=True):
        sizes = left.dimensions[one], right.dimensions[other]
        if UNBOUNDED not in sizes and sizes[0] != sizes[1]:
            check.fail(
                f"batching dimensions must have equal sizes, got dimension {one} of {operand} "
                f"({left.dimension_text(one)}) and {other} of {indices} "
                f"({right.dimension_text(other)})",
                dimension=one,
            )


def _index_map(
    check: Check, numbers: Sequence[int], vector_size: int, *, operand: str, name: str
) -> None:
    """Argument `name` says of each number of an index vector which dimension it is for."""
    if vector_size not in (UNBOUNDED, len(numbers)):
        check.fail(
            f"{name} must have one entry for each number of an index vector: {vector_size}, "
            f"got {len(numbers)}: {list(numbers)}"
        )
    check.dimensions_in_range(numbers, of=operand, name=name)
    check.unique(numbers, name=name)


@public
def gather(
    operand: Shape,
    start_indices: Shape,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
) -> ArrayShape:
    """Shape of many slices of the operand: the sizes of start_indices, then those of a slice.

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
    _within(check, numbers.offset_dims, result_rank, of="the result", name="offset_dims")
    _ascending(check, numbers.offset_dims, name="offset_dims")
    _index_map(
        check,
        numbers.start_index_map,
        sizes[numbers.index_vector_dim],
        operand="operand",
        name="start_index_map",
    )
    collapsed = numbers.collapsed_slice_dims
    check.dimensions_in_range(collapsed, of="operand", name="collapsed_slice_dims")
    _ascending(check, collapsed, name="collapsed_slice_dims")
    batching = numbers.operand_batching_dims
    _batching(
        check,
        batching,
        numbers.start_indices_batching_dims,
        numbers.index_vector_dim,
        operand="operand",
        indices="start_indices",
        names=("operand_batching_dims", "start_indices_batching_dims"),
    )
    _apart(check, batching, collapsed, "operand_batching_dims and collapsed_slice_dims")
    _apart(check, batching, numbers.start_index_map, "operand_batching_dims and start_index_map")
    check.one_for_each_dimension(slice_sizes, of="operand", name="slice_sizes")
    offsets = [d for d in range(array.rank) if d not in collapsed and d not in batching]
    if len(offsets) != len(numbers.offset_dims):
        check.fail(
            f"each dimension of operand must be an offset dimension, a collapsed or a batching "
            f"one: {array.rank}, got {len(numbers.offset_dims)} offset_dims, {len(collapsed)} "
            f"collapsed_slice_dims and {len(batching)} operand_batching_dims"
        )
    check.sizes(slice_sizes, name="slice_sizes")
    for index, (size, old) in enumerate(zip(slice_sizes, array.dimensions, strict=True)):
        if size > old != UNBOUNDED:
            check.fail(
                f"a slice must not be larger than the operand, got {size} for dimension {index} "
                f"of size {array.dimension_text(index)}",
                dimension=index,
            )
        if size != 1 and index in collapsed:
            check.fail(
                f"the slice size of a collapsed dimension must be 1, got {size} for dimension "
                f"{index}",
                dimension=index,
            )
        if index in batching and size != 1 and old != 0:
            check.fail(
                f"the slice size of a batching dimension must be 1, got {size} for dimension "
                f"{index}",
                dimension=index,
            )
    del sizes[numbers.index_vector_dim], dynamic[numbers.index_vector_dim]
    for place, dimension in zip(numbers.offset_dims, offsets, strict=True):
        size = slice_sizes[dimension]
        sizes.insert(place, size)
        # The whole of a bounded dimension is bounded.
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
    """Shape of the operands with windows of them updated: their own, a tuple for several.

    Example:
        >>> import builder as xb
        >>> numbers = xb.ScatterDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
        >>> operand, indices, updates = xb.f32[16, 11], xb.s64[5, 2], xb.f32[5, 8, 6]
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.indexing.scatter([operand], indices, [updates], add, numbers)
        f32[16,11]
    """
    names = _names(len(operands), "operand"), _names(len(updates), "updates")
    check = Check("scatter")
    check.shapes = dict(zip(names[0], operands, strict=True))
    check.shapes["scatter_indices"] = scatter_indices
    check.shapes.update(zip(names[1], updates, strict=True))
    if not operands:
        check.fail("at least one operand is needed, got none")
    if len(operands) != len(updates):
        check.fail(
            f"there must be one array of updates for each operand, got {len(operands)} operands "
            f"and {len(updates)} updates"
        )
    sizes, _ = _index_sizes(check, "scatter_indices", dimension_numbers.index_vector_dim)
    arrays = [check.array(name) for name in names[0]]
    values = [check.array(name) for name in names[1]]
    for group, label in ((arrays, "operands"), (values, "updates")):
        for index, one in enumerate(group):
            for place, (size, first) in enumerate(
                zip(one.dimensions, group[0].dimensions, strict=False)
            ):
                if UNBOUNDED not in (size, first) and size != first:
                    check.fail(
                        f"{label} must have the same sizes, got {one} after {group[0]}",
                        dimension=place,
                    )
            if one.rank != group[0].rank:
                check.fail(f"{label} must have the same sizes, got {one} after {group[0]}")
            if one.element_type is not arrays[index].element_type:
                check.fail(
                    f"updates must be of their operand's type, {arrays[index].element_type}, "
                    f"got {one.element_type}",
                    fix="convert with xb.convert_element_type; nothing is promoted silently",
                )
    for operand, update in zip(*names, strict=True):
        _scatter_numbers(check, operand, update, dimension_numbers, sizes)
    _update_computation(check, update_computation, arrays)
    results = [intern_array(a.element_type, a.dimensions, a.dynamic_dimensions) for a in arrays]
    return results[0] if len(results) == 1 else TupleShape(results)


def _names(count: int, name: str) -> list[str]:
    return [name] if count == 1 else [f"{name} {i}" for i in range(count)]


def _scatter_numbers(
    check: Check,
    operand: str,
    updates: str,
    numbers: ScatterDimensionNumbers,
    index_sizes: Sequence[int],
) -> None:
    """What the dimensions of one operand and its updates must be."""
    array, update = check.array(operand), check.array(updates)
    window, inserted = numbers.update_window_dims, numbers.inserted_window_dims
    batching = numbers.input_batching_dims
    rank = len(window) + len(index_sizes) - 1
    if update.rank != rank:
        check.fail(
            f"{updates} must have {rank} dimensions: {len(window)} update_window_dims and "
            f"{len(index_sizes) - 1} of scatter_indices, got {update.rank}"
        )
    check.dimensions_in_range(window, of=updates, name="update_window_dims")
    _ascending(check, window, name="update_window_dims")
    check.dimensions_in_range(inserted, of=operand, name="inserted_window_dims")
    _ascending(check, inserted, name="inserted_window_dims")
    _batching(
        check,
        batching,
        numbers.scatter_indices_batching_dims,
        numbers.index_vector_dim,
        operand=operand,
        indices="scatter_indices",
        names=("input_batching_dims", "scatter_indices_batching_dims"),
    )
    _apart(check, batching, inserted, "input_batching_dims and inserted_window_dims")
    targets = numbers.scatter_dims_to_operand_dims
    _apart(check, batching, targets, "input_batching_dims and scatter_dims_to_operand_dims")
    windowed = [d for d in range(array.rank) if d not in inserted and d not in batching]
    if len(windowed) != len(window):
        check.fail(
            f"each dimension of {operand} must be one of the window, an inserted or a batching "
            f"one: {array.rank}, got {len(window)} update_window_dims, {len(inserted)} "
            f"inserted_window_dims and {len(batching)} input_batching_dims"
        )
    _index_map(
        check,
        targets,
        index_sizes[numbers.index_vector_dim],
        operand=operand,
        name="scatter_dims_to_operand_dims",
    )
    for place, dimension in zip(window, windowed, strict=True):
        sizes = update.dimensions[place], array.dimensions[dimension]
        if UNBOUNDED not in sizes and sizes[0] > sizes[1]:
            check.fail(
                f"a window must not be larger than {operand}, got "
                f"{update.dimension_text(place)} as dimension {place} of {updates} and "
                f"{array.dimension_text(dimension)} as dimension {dimension} of {operand}",
                dimension=place,
            )
    scattered = [s for d, s in enumerate(index_sizes) if d != numbers.index_vector_dim]
    places = [d for d in range(update.rank) if d not in window]
    for place, size in zip(places, scattered, strict=True):
        if UNBOUNDED not in (size, update.dimensions[place]) and size != update.dimensions[place]:
            check.fail(
                f"dimensions of {updates} that are not of the window must have the sizes of "
                f"scatter_indices, got {update.dimension_text(place)} as dimension {place}, which "
                f"must be {size}",
                dimension=place,
            )


def _update_computation(
    check: Check, computation: ProgramShape, operands: Sequence[ArrayShape]
) -> None:
    """Raises unless `computation` makes new elements of the current ones and those of updates."""
    scalars = [intern_array(o.element_type, ()) for o in operands]
    result: Shape = scalars[0] if len(scalars) == 1 else TupleShape(scalars)
    wanted = ProgramShape([*scalars, *scalars], result)
    # One result may come as a tuple of one.
    as_tuple = ProgramShape(wanted.parameters, TupleShape(scalars))
    if computation not in (wanted, as_tuple):
        inputs = ", ".join(map(str, wanted.parameters))
        names = "current, update" if len(scalars) == 1 else "current..., updates..."
        check.fail(
            f"update_computation must be of signature ({inputs}) -> {result} ({names}), "
            f"got {computation}",
            error=SignatureError,
            fix=f"give {result} back, the new element",
        )
