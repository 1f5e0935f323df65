"""Slices and updates at runtime indices; gathers and scatters.

Operation Semantics: DynamicSlice, DynamicUpdateSlice, Gather, Scatter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from builder.attributes import (
    GatherDimensionNumbers,
    GatherDimensionNumbersLike,
    ScatterDimensionNumbers,
    ScatterDimensionNumbersLike,
)
from builder.checking import Check, flag, integer, integers, sizes_differ
from builder.errors import OperandError, brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.ops.operands import is_number, need_op, need_ops, number_constant, scalars_of
from builder.ops.reshaping import reshape, slice
from builder.schema import SCHEMAS, Trait
from builder.schema.definition import (
    ANY,
    INTEGER,
    S32_OR_S64,
    STABLEHLO,
    Attribute,
    CostClass,
    Tolerance,
    define,
)
from builder.schema.equal_sizes import Pairs, SizedOp, Sizes, equal_to_first, pairs
from builder.schema.kinds import COMPUTATION, FLAG, INTEGERS, SHAPE, DimensionNumbers, Field
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    ShapeLike,
    TupleShape,
    intern_array,
)

StartIndices = XlaOp | Sequence[XlaOp | int]
"""The type of `start_indices`: a scalar op or a number per dimension, or one vector op."""


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
                "start_indices must be scalars or a single vector",
                got=f"{len(start_indices)} arrays",
            )
        check.element_type("start index 0", allowed)
        if first.dimensions[0] != rank:
            check.fail(rule, got=first)
        return
    # StableHLO dynamic_slice (C2), (I2), (C3), dynamic_update_slice (C4), (I3), (C5)
    if len(start_indices) != rank:
        missing = range(len(start_indices), rank)
        fix = f"append {'0, ' * (len(missing) - 1)}0 to start_indices" if missing else None
        check.fail(rule, got=len(start_indices), fix=fix)
    for number, shape in enumerate(start_indices):
        check.scalar(f"start index {number}")
        check.element_type(f"start index {number}", allowed)
        if shape is not first:
            rule = "start_indices must be of one type"
            fix = "convert with xb.convert_element_type; nothing is promoted silently"
            check.fail(rule, got=f"{first} and {shape}", dimension=number, fix=fix)


def _slice_sizes(check: Check, sizes: Sequence[int], name: str) -> None:
    """Check that argument `name` contains the sizes of a slice of the operand."""
    array = check.array("operand")
    # StableHLO dynamic_slice (C2), (C4), gather (C20), (C21)
    neutral = array.dimensions if name == "size_indices" else ()
    check.one_for_each_dimension(sizes, of="operand", name=name, neutral=neutral)
    check.sizes(sizes, name=name)
    for index, (size, old) in enumerate(zip(sizes, array.dimensions, strict=True)):
        if size > old != UNBOUNDED:
            rule = f"a slice size must be at most the operand's size, {array.dimension_text(index)}"
            check.fail_along(index, rule, size, fix=f"write a size of at most {old}")


def _dynamic_slice_shape(
    operand: Shape, start_indices: Sequence[Shape], size_indices: Sequence[int]
) -> ArrayShape:
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


def _dynamic_slice_equal_sizes(op: SizedOp) -> Pairs:
    changed = [d for d, size in enumerate(op.attributes["slice_sizes"]) if size != UNBOUNDED]
    return pairs(op.operands[:1], op.results[0], changed)


DYNAMIC_SLICE: Final = define(
    "dynamic_slice",
    "operand *start_indices",
    (Attribute("slice_sizes", INTEGERS, "dynamic_slice_sizes", parameter="size_indices"),),
    element_types={"operand": ANY, "start_indices": INTEGER},
    cost=CostClass.RULE,
    equal_sizes=_dynamic_slice_equal_sizes,
)


@per_signature
def _dynamic_slice_plan(
    operand: Shape, starts: tuple[Shape, ...], sizes: tuple[int, ...]
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = _dynamic_slice_shape(operand, starts, sizes)
    return shape, MappingProxyType({"slice_sizes": sizes})


# It has a body, because start indices may be numbers, or one vector.
@op_by_hand(DYNAMIC_SLICE, _dynamic_slice_shape)
def dynamic_slice(
    operand: XlaOp, start_indices: StartIndices, size_indices: Sequence[int]
) -> XlaOp:
    """Return a slice of an array that begins at runtime indices.

    The slice is always inside the operand: each start index is clamped between 0 and the operand's
    size minus the slice's.

    Args:
        operand: an array of N dimensions.
        start_indices: the index at which the slice begins in each dimension: N scalars of one
            integer type, or one vector of size N, which is split into scalars. A Python number is a
            constant of the other indices' type, and must be in range. If all are Python numbers,
            the type is s32, or s64 if s32 can't represent one of them.
        size_indices: the size of the slice in each dimension, at most the operand's.

    Returns:
        An array of sizes `size_indices` and of the operand's element type. A dimension is bounded
        if the slice covers all of a bounded dimension.

    Raises:
        ShapeInferenceError: `start_indices` or `size_indices` does not have one entry for each
            dimension; an index is not an integer, or the types of the indices differ; the slice is
            larger than the operand; a start index that is a number is out of range.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, i = b.parameter(xb.f32[4, 3]), b.parameter(xb.s32[()])
        >>> xb.dynamic_slice(x, [i, 1], [2, 2]).shape
        f32[2,2]
        >>> xb.dynamic_slice(x, b.parameter(xb.s32[2]), [4, 1]).shape
        f32[4,1]

    Operation Semantics: DynamicSlice.
    """
    if type(operand) is not XlaOp:
        need_op("dynamic_slice", "operand", operand)
    starts = _starts("dynamic_slice", start_indices)
    sizes = integers("dynamic_slice", "size_indices", size_indices)
    shapes = _start_shapes("dynamic_slice", starts)
    shape, attributes = _dynamic_slice_plan(operand.shape, shapes, sizes)
    scalars = _as_scalars("dynamic_slice", (operand,), starts, shapes, sizes)
    return record("dynamic_slice", shape, (operand, *scalars), attributes)


@per_signature
def _dynamic_update_slice_shape(
    operand: Shape, update: Shape, start_indices: Sequence[Shape]
) -> ArrayShape:
    check = Check("dynamic_update_slice", operand=operand, update=update)
    array, part = check.arrays()
    _start_indices(check, start_indices, array.rank)
    # StableHLO dynamic_update_slice (C3), (C2)
    if part.rank != array.rank:
        check.fail(f"update must have as many dimensions as operand: {array.rank}", got=part.rank)
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


DYNAMIC_UPDATE_SLICE: Final = define(
    "dynamic_update_slice",
    "operand update *start_indices",
    element_types={"operand": ANY, "update": ANY, "start_indices": INTEGER},
    cost=CostClass.RULE,
    equal_sizes=equal_to_first,
)


# It has a body, because start indices may be numbers, or one vector.
@op_by_hand(DYNAMIC_UPDATE_SLICE, _dynamic_update_slice_shape)
def dynamic_update_slice(operand: XlaOp, update: XlaOp, start_indices: StartIndices) -> XlaOp:
    """Return the operand with one slice, at runtime indices, replaced by `update`.

    The update is always inside the operand: each start index is clamped between 0 and the operand's
    size minus the update's.

    Args:
        operand: an array of N dimensions.
        update: the new slice: an array of N dimensions and of the operand's element type, no larger
            than the operand in any dimension.
        start_indices: the index at which the slice begins in each dimension; see `dynamic_slice`.

    Returns:
        An array of the operand's sizes. A dimension is bounded if the operand's dimension is
        bounded, or if the update's dimension is bounded and as large as the operand's.

    Raises:
        ShapeInferenceError: there is not one start index for each dimension; an index is not an
            integer, or the types of the indices differ; the update has another rank or element type
            than the operand, or is larger; a start index that is a number is out of range.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, u = b.parameter(xb.f32[4, 3]), b.parameter(xb.f32[2, 1])
        >>> xb.dynamic_update_slice(x, u, [b.parameter(xb.s32[()]), 0]).shape
        f32[4,3]

    Operation Semantics: DynamicUpdateSlice.
    """
    if type(operand) is not XlaOp or type(update) is not XlaOp:
        need_op("dynamic_update_slice", "operand", operand)
        need_op("dynamic_update_slice", "update", update)
    starts = _starts("dynamic_update_slice", start_indices)
    shapes = _start_shapes("dynamic_update_slice", starts)
    shape = _dynamic_update_slice_shape(operand.shape, update.shape, shapes)
    assert isinstance(update.shape, ArrayShape)  # as inferred
    operands, sizes = (operand, update), update.shape.dimensions
    scalars = _as_scalars("dynamic_update_slice", operands, starts, shapes, sizes)
    return record("dynamic_update_slice", shape, (*operands, *scalars))


_MOST_STARTS: Final = 65536
"""The maximum number of start indices that are read from an iterable, which may be endless.

No array has as many dimensions.
"""


def _starts(op: str, start_indices: Any) -> tuple[Any, ...]:
    """Return the start indices as a tuple of ops and numbers; wrap a single op in a tuple."""
    kind = type(start_indices)
    if kind is list or kind is tuple:
        return tuple(start_indices)
    if kind is XlaOp:
        return (start_indices,)
    try:
        if isinstance(start_indices, (str, bytes)):
            raise TypeError
        return tuple(islice(start_indices, _MOST_STARTS))
    except TypeError:
        raise OperandError(
            "start_indices must be a sequence of XlaOps, or a vector",
            got=f"{type(start_indices).__name__}: {brief(start_indices, 80)}",
            fix="write one index for each dimension, for instance [i, 0]",
            op=op,
        ) from None


def _start_shapes(op: str, starts: tuple[Any, ...]) -> tuple[Shape, ...]:
    """Return the shapes of the start indices.

    A Python number gets the element type of the first op or NumPy number among the start indices.
    If all are Python numbers, the type is s32, or s64 if a number does not fit s32.
    """
    shapes: list[Any] = [start.shape if type(start) is XlaOp else None for start in starts]
    if None not in shapes:
        return tuple(shapes)
    for index, start in enumerate(starts):
        if type(start) is not XlaOp:
            if not is_number(start):
                need_op(op, f"start index {index}", start)
            integer(op, f"start index {index}", start)
            if isinstance(start, (np.generic, np.ndarray)):
                shapes[index] = intern_array(pt.as_primitive_type(start.dtype), ())
    typed = next((shape for shape in shapes if shape is not None), None)
    if typed is not None and typed.is_array:
        element_type = typed.element_type
    else:
        fits = all(-(2**31) <= start < 2**31 for start in starts if type(start) is int)
        element_type = pt.s32 if fits else pt.s64
    return tuple([shape or intern_array(element_type, ()) for shape in shapes])


def _as_scalars(
    op: str,
    operands: tuple[XlaOp, ...],
    starts: tuple[Any, ...],
    shapes: tuple[Shape, ...],
    sizes: Sequence[int],
) -> Sequence[XlaOp]:
    """Return one scalar op for each start index; the indices have passed shape inference.

    The elements of a vector are recorded as slices, and numbers as constants.
    """
    is_vector = bool(shapes) and isinstance(shapes[0], ArrayShape) and shapes[0].rank == 1
    numbers = [index for index, start in enumerate(starts) if type(start) is not XlaOp]
    if not is_vector and not numbers:
        return starts
    builder = resolve_builder(op, *operands, *[s for s in starts if type(s) is XlaOp])
    source = operands[0].shape
    assert isinstance(source, ArrayShape)  # as inferred
    if is_vector:
        return [reshape(slice(starts[0], [i], [i + 1]), []) for i in range(source.rank)]
    # All numbers are checked before the first is recorded.
    constants = {}
    for index in numbers:
        start = starts[index]
        _check_in_bounds(op, operands, index, integer(op, "start index", start), sizes[index])
        constants[index] = number_constant(op, start, shapes[index].element_type, source)
    scalars = list(starts)
    for index, (shape, attributes) in constants.items():
        scalars[index] = append(builder, "constant", shape, (), attributes)
    return scalars


def _check_in_bounds(
    op: str, operands: tuple[XlaOp, ...], index: int, start: int, slice_size: int
) -> None:
    """Raise a ShapeInferenceError if XLA would clamp `start`, a start index passed as a number."""
    source = operands[0].shape
    assert isinstance(source, ArrayShape)  # as inferred
    size = source.dimensions[index]
    last = None if UNBOUNDED in (size, slice_size) else size - slice_size
    if start < 0 or (last is not None and start > last):
        shapes = zip(("operand", "update"), [o.shape for o in operands], strict=False)
        Check(op, **dict(shapes)).fail(
            f"start index {index} must be " + ("at least 0" if last is None else f"0 to {last}"),
            got=start,
            dimension=index,
            fix="count from 0, and choose an index at which the slice is inside the operand",
        )


def _index_sizes(check: Check, name: str, index_vector_dim: int) -> tuple[list[int], list[bool]]:
    """Return the sizes of an array of index vectors, and for each size whether it is dynamic.

    If `index_vector_dim` equals the rank, the array has an implicit last dimension of size 1.
    """
    indices = check.array(name)
    # StableHLO gather (I2), (C2), scatter (I2), (C22)
    check.element_type(name, SCHEMAS[check.op].element_types[name])
    if not 0 <= index_vector_dim <= indices.rank:
        check.fail(
            f"index_vector_dim must be a dimension of {name}, or its rank: 0 to {indices.rank}",
            got=index_vector_dim,
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
            rule = f"{name} must be ascending"
            check.fail(
                rule,
                got=f"{after} after {before} in {list(numbers)}",
                dimension=after,
                fix=f"write {sorted(numbers)}",
            )


def _apart(check: Check, name: str, numbers: Sequence[int], other: str, of: Sequence[int]) -> None:
    """Check that arguments `name` and `other` have no dimension in common."""
    # StableHLO gather (C6), (C18), scatter (C9), (C20)
    for number in numbers:
        if number in of:
            rule = f"{name} and {other} must not name the same dimension"
            check.fail(rule, got=number, dimension=number)


_GATHER_NAMES: Final = (
    *("offset_dims", "collapsed_slice_dims", "operand_batching_dims"),
    *("start_indices_batching_dims", "start_index_map"),
)
_SCATTER_NAMES: Final = (
    *("update_window_dims", "inserted_window_dims", "input_batching_dims"),
    *("scatter_indices_batching_dims", "scatter_dims_to_operand_dims"),
)
"""The fields of ScatterDimensionNumbers, in the order of the corresponding `_GATHER_NAMES`."""


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
        rule = f"{indices_name} must not contain index_vector_dim"
        check.fail(rule, got=numbers.index_vector_dim, dimension=numbers.index_vector_dim)
    if len(batching) != len(indices_batching):
        check.fail(
            f"{batching_name} and {indices_name} must have the same length",
            got=f"{len(batching)} and {len(indices_batching)}",
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
            f"each dimension of {operand}: {rank}",
            got=f"{len(window)}, {len(removed)} and {len(batching)}",
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


def _numbers(bundle: type[Any], mnemonic: str) -> DimensionNumbers:
    """Return the attribute kind of `bundle`; HLO and StableHLO have the same field names."""
    names = bundle.__match_args__
    fields = [Field(name, name, name, name.endswith("batching_dims")) for name in names]
    return DimensionNumbers(bundle, mnemonic, fields)


def _gather_shape(
    operand: Shape,
    start_indices: Shape,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
) -> ArrayShape:
    check = Check("gather", operand=operand, start_indices=start_indices)
    array = check.array("operand")
    numbers = dimension_numbers
    sizes, dynamic = _index_sizes(check, "start_indices", numbers.index_vector_dim)
    result_rank = len(numbers.offset_dims) + len(sizes) - 1
    _ascending(check, numbers.offset_dims, result_rank, of="the result", name="offset_dims")
    vector_size = sizes[numbers.index_vector_dim]
    offsets = _windowed(check, numbers, _GATHER_NAMES, "operand", "start_indices", vector_size)
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


def _gather_equal_sizes(op: SizedOp) -> Pairs:
    numbers, slices = op.attributes["dimension_numbers"], op.attributes["slice_sizes"]
    array, indices = op.operands
    omitted = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = [d for d in range(len(array)) if d not in omitted]
    for place, d in zip(numbers.offset_dims, window, strict=True):
        if slices[d] == UNBOUNDED:
            yield op.results[0][place], array[d]
    yield from _index_pairs(numbers, numbers.offset_dims, op.results[0], indices)
    batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    for d, place in zip(*batching, strict=True):
        yield array[d], indices[place]


def _index_pairs(numbers: Any, window: Sequence[int], array: Sizes, indices: Sizes) -> Pairs:
    """Yield the dimensions of an array outside of windows, and those of the index vectors."""
    outside = [size for d, size in enumerate(array) if d not in window]
    vectors = [size for d, size in enumerate(indices) if d != numbers.index_vector_dim]
    return zip(outside, vectors, strict=True)


_GATHER_NUMBERS: Final = _numbers(GatherDimensionNumbers, "stablehlo.gather")

GATHER: Final = define(
    "gather",
    "operand start_indices",
    (
        Attribute("dimension_numbers", _GATHER_NUMBERS),
        Attribute("indices_are_sorted", FLAG, omitted=False, absent=False),
        Attribute("slice_sizes", INTEGERS),
    ),
    element_types={"operand": ANY, "start_indices": INTEGER},
    cost=CostClass.RULE,
    equal_sizes=_gather_equal_sizes,
)


def _gather_attributes(
    dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int], indices_are_sorted: bool
) -> Mapping[str, Any]:
    return {
        "dimension_numbers": dimension_numbers,
        "slice_sizes": slice_sizes,
        "indices_are_sorted": indices_are_sorted,
    }


@op(GATHER, _gather_shape, _gather_attributes, unique_indices=FLAG)
def gather(
    operand: XlaOp,
    start_indices: XlaOp,
    dimension_numbers: GatherDimensionNumbersLike,
    slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:
    """Gather slices of an array, each from the position that a vector of indices selects.

    An element of the result is computed as follows. The element's indices outside `offset_dims`
    select one index vector of `start_indices`. `start_index_map` maps the entries of the vector to
    dimensions of the operand; the other dimensions start at 0. The slice of `slice_sizes` that
    starts there is clamped to lie inside the operand. The element's indices in `offset_dims` select
    within the slice.

    Args:
        operand: the array to take slices from.
        start_indices: an array of integers, with vectors of indices along `index_vector_dim`. Every
            other dimension is a dimension of the result.
        dimension_numbers: GatherDimensionNumbers, or a mapping of their fields.
        slice_sizes: the size of a slice in each dimension of the operand, at most the operand's. It
            is 1 in the collapsed and the batching dimensions.
        indices_are_sorted: whether the vectors are in ascending order. If they are not, the result
            is undefined.
        unique_indices: whether each element of the operand is read at most once. The argument has
            no effect.

    Returns:
        An array of the operand's element type: the slice sizes in `offset_dims`, and the sizes of
        `start_indices` without `index_vector_dim` in the other dimensions. A dimension is bounded
        if the slice covers all of a bounded dimension of the operand, or if the corresponding
        dimension of `start_indices` is bounded.

    Raises:
        ShapeInferenceError: start_indices are not integers; a dimension is out of range, out of
            order or duplicated; dimension numbers and sizes do not match; a slice is larger than
            the operand.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, i = b.parameter(xb.f32[16, 11]), b.parameter(xb.s64[5, 2])
        >>> parts = xb.GatherDimensionNumbers([1, 2], [], [0, 1], index_vector_dim=1)
        >>> xb.gather(x, i, parts, slice_sizes=[8, 6]).shape
        f32[5,8,6]
        >>> rows = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> xb.gather(x, b.parameter(xb.s32[7]), rows, slice_sizes=[1, 11]).shape
        f32[7,11]

    Operation Semantics: Gather.
    """


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
            f"and {len(index_sizes) - 1} from scatter_indices",
            got=update.rank,
        )
    _ascending(check, window, rank, of=updates, name="update_window_dims")
    windowed = _windowed(
        check, numbers, _SCATTER_NAMES, operand, "scatter_indices", index_sizes[vector_dim]
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


def _dynamic_gather_shape(
    operand: Shape,
    start_indices: Shape,
    slice_sizes: Shape,
    dimension_numbers: GatherDimensionNumbers,
    shape: Shape,
) -> ArrayShape:
    check = Check(
        "dynamic_gather", operand=operand, start_indices=start_indices, slice_sizes=slice_sizes
    )
    array, numbers = check.array("operand"), dimension_numbers
    sizes, _ = _index_sizes(check, "start_indices", numbers.index_vector_dim)
    rank = len(numbers.offset_dims) + len(sizes) - 1
    _ascending(check, numbers.offset_dims, rank, of="the result", name="offset_dims")
    vector_size = sizes.pop(numbers.index_vector_dim)
    _windowed(check, numbers, _GATHER_NAMES, "operand", "start_indices", vector_size)
    # StableHLO gather: slice_sizes are integers, one for each dimension; so dynamic_gather
    check.element_type("slice_sizes", S32_OR_S64)
    vector = check.array("slice_sizes")
    if vector.rank != 1 or sizes_differ(vector.dimensions[0], array.rank):
        check.fail("slice_sizes must be a vector with one number for each dimension of operand")
    # StableHLO gather (C22), (C23)
    if (
        not isinstance(shape, ArrayShape)
        or shape.element_type is not array.element_type
        or shape.rank != rank
        or not (shape.is_static or not shape.is_bounded)
    ):
        rule = f"shape must be an array of rank {rank} and operand's element type, without bounded"
        check.fail(f"{rule} sizes", got=shape)
    batch = [size for d, size in enumerate(shape.dimensions) if d not in numbers.offset_dims]
    for size, expected in zip(batch, sizes, strict=True):
        if sizes_differ(size, expected):
            rule = "shape must have the sizes of start_indices, without index_vector_dim"
            check.fail(f"{rule}, in the dimensions that are not in offset_dims", got=shape)
    return shape.with_layout(None)


def _dynamic_gather_equal_sizes(op: SizedOp) -> Pairs:
    numbers, (array, indices, _) = op.attributes["dimension_numbers"], op.operands
    yield from _index_pairs(numbers, numbers.offset_dims, op.results[0], indices)
    batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    for d, place in zip(*batching, strict=True):
        yield array[d], indices[place]


DYNAMIC_GATHER: Final = define(
    "dynamic_gather",
    "operand start_indices slice_sizes",
    (
        Attribute("dimension_numbers", _GATHER_NUMBERS),
        Attribute("indices_are_sorted", FLAG, absent=False),
    ),
    cpp_name="(none)",
    section=STABLEHLO,
    element_types={"operand": ANY, "start_indices": INTEGER, "slice_sizes": S32_OR_S64},
    first_size=2,
    equal_sizes=_dynamic_gather_equal_sizes,
)


@op(DYNAMIC_GATHER, _dynamic_gather_shape, shape=SHAPE)
def dynamic_gather(
    operand: XlaOp,
    start_indices: XlaOp,
    slice_sizes: XlaOp,
    dimension_numbers: GatherDimensionNumbersLike,
    shape: ShapeLike,
    indices_are_sorted: bool = False,
) -> XlaOp:
    """Gather slices whose sizes are runtime values; see `gather`.

    Args:
        operand: the array to take slices from.
        start_indices: an array of integers, with vectors of indices along `index_vector_dim`.
        slice_sizes: a size for each dimension of the operand: a vector of s32 or s64.
        dimension_numbers: GatherDimensionNumbers, or a mapping of their fields.
        shape: the shape of the result; its sizes are fixed or unbounded. They are compared with
            `slice_sizes` at run time only.
        indices_are_sorted: whether the vectors are in ascending order. If they are not, the result
            is undefined.

    Returns:
        An array of shape `shape`.

    Raises:
        ShapeInferenceError: the indices are not integers; a dimension is out of range, out of order
            or duplicated; dimension numbers and ranks do not match; `slice_sizes` is not a vector
            with a number for each dimension; `shape` has another rank or element type, other
            sizes than the indices, or bounded sizes.
        OperandError: `shape` is not a shape.

    Example:
        >>> import builder as xb, numpy as np
        >>> b = xb.XlaBuilder()
        >>> x, count = b.parameter(xb.f32[8]), b.parameter(xb.s32[1])
        >>> numbers = xb.GatherDimensionNumbers([0], [], [0], 0)
        >>> xb.dynamic_gather(x, b.constant(np.int32([2])), count, numbers, xb.f32[3]).shape
        f32[3]

    Not in Operation Semantics; StableHLO's dynamic_gather.
    """


# The key is the computation's signature, so that callables that are recorded again share an entry.
@per_signature
def _scatter_shape(
    operands: Sequence[Shape],
    scatter_indices: Shape,
    updates: Sequence[Shape],
    update_computation: ProgramShape,
    dimension_numbers: ScatterDimensionNumbers,
) -> Shape:
    operand_names, update_names = _names(len(operands), "operand"), _names(len(updates), "updates")
    check = Check("scatter")
    check.shapes = dict(zip(operand_names, operands, strict=True))
    check.shapes["scatter_indices"] = scatter_indices
    check.shapes.update(zip(update_names, updates, strict=True))
    # StableHLO scatter (C5)
    check.that(bool(operands), "at least one operand is needed", got="none")
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
                check.fail(f"{label} must have the same sizes", got=f"{first} and {shape}")
    for array, value in zip(arrays, values, strict=True):
        if value.element_type is not array.element_type:
            check.fail(
                f"updates must be of their operand's type, {array.element_type}",
                got=value.element_type,
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


def _windows(op: Any) -> int:
    """Return the number of windows of a scatter; all windows may update the same element."""
    in_window = op.attributes["dimension_numbers"].update_window_dims
    sizes = op.operands[-1].shape.dimensions
    return math.prod(size for d, size in enumerate(sizes) if d not in in_window)


def _scatter_equal_sizes(op: SizedOp) -> Pairs:
    numbers, results = op.attributes["dimension_numbers"], op.results
    arrays, indices = op.operands[: len(results)], op.operands[len(results)]
    yield from pairs([*arrays, *results[1:]], results[0])
    for updates in op.operands[len(results) + 1 :]:
        yield from _index_pairs(numbers, numbers.update_window_dims, updates, indices)
    batching = numbers.input_batching_dims, numbers.scatter_indices_batching_dims
    for d, place in zip(*batching, strict=True):
        yield results[0][d], indices[place]


SCATTER: Final = define(
    "scatter",
    "*operands scatter_indices *updates",
    (
        Attribute(
            "dimension_numbers",
            _numbers(ScatterDimensionNumbers, "stablehlo.scatter"),
            stablehlo="scatter_dimension_numbers",
        ),
        Attribute("indices_are_sorted", FLAG, omitted=False, absent=False),
        Attribute("unique_indices", FLAG, omitted=False, absent=False),
        Attribute("to_apply", COMPUTATION, parameter="update_computation"),
    ),
    element_types={"operands": ANY, "scatter_indices": INTEGER, "updates": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_windows),
    traits=Trait.ON_ELEMENTS,
    equal_sizes=_scatter_equal_sizes,
)


def _scatter_plan(
    operands: tuple[Shape, ...],
    scatter_indices: Shape,
    updates: tuple[Shape, ...],
    update_computation: XlaComputation,
    numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
) -> tuple[Shape, Mapping[str, Any]]:
    signature = update_computation.signature
    shape = _scatter_shape(operands, scatter_indices, updates, signature, numbers)
    attributes = {
        "to_apply": update_computation,
        "dimension_numbers": numbers,
        "indices_are_sorted": indices_are_sorted,
        "unique_indices": unique_indices,
    }
    return shape, MappingProxyType(attributes)


# It has a body, because the computation may be a callable, which is recorded first.
@op_by_hand(SCATTER, _scatter_shape)
def scatter(
    operands: XlaOp | Sequence[XlaOp],
    scatter_indices: XlaOp,
    updates: XlaOp | Sequence[XlaOp],
    update_computation: XlaComputation | Callable[..., Any],
    dimension_numbers: ScatterDimensionNumbersLike,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:
    """Update windows of an array, each at the position that a vector of indices selects.

    Each element of `updates` updates one element of the operand, at the following position. The
    update's indices outside `update_window_dims` select one index vector of `scatter_indices`.
    `scatter_dims_to_operand_dims` maps the entries of the vector to dimensions of the operand; the
    other dimensions start at 0. The update's indices in `update_window_dims` are added to that
    start. The new element is ``update_computation(current, update)``. Each update out of bounds is
    skipped. The order of updates to one position is not defined.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        scatter_indices: an array of integers, with vectors of indices along `index_vector_dim`.
        updates: for each operand an array of its element type; all have the same sizes. These are
            the window sizes, at most the operand's, in `update_window_dims`, and the sizes of
            `scatter_indices` without `index_vector_dim` in the other dimensions.
        update_computation: for one operand ``(current, update) -> new``, scalars of its type. For N
            operands it takes N current elements and then N updates, and returns a tuple of N. A
            computation, or a callable such as ``xb.add`` or a lambda.
        dimension_numbers: ScatterDimensionNumbers, or a mapping of their fields.
        indices_are_sorted: whether the vectors are in ascending order. If they are not, the result
            is undefined.
        unique_indices: whether no two updates have the same position. If some do, the result is
            undefined.

    Returns:
        An array of the operand's shape; for several operands a tuple of such arrays.

    Raises:
        ShapeInferenceError: scatter_indices are not integers; a dimension is out of range, out of
            order or duplicated; dimension numbers, sizes or element types do not match.
        SignatureError: the computation does not match these operands.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, i = b.parameter(xb.f32[16, 11]), b.parameter(xb.s32[7])
        >>> rows = xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
        >>> xb.scatter(x, i, b.parameter(xb.f32[7, 11]), xb.add, rows).shape
        f32[16,11]

    Operation Semantics: Scatter.
    """
    arrays = need_ops("scatter", "operand", operands)
    if not arrays:
        Check("scatter").fail("at least one operand is needed", got="none")
    indices = need_op("scatter", "scatter_indices", scatter_indices)
    values = need_ops("scatter", "updates", updates)
    if type(dimension_numbers) is not ScatterDimensionNumbers:
        dimension_numbers = ScatterDimensionNumbers.of(dimension_numbers)
    indices_are_sorted = flag("scatter", "indices_are_sorted", indices_are_sorted)
    unique_indices = flag("scatter", "unique_indices", unique_indices)
    shapes = tuple([array.shape for array in arrays])
    update_shapes = tuple([value.shape for value in values])
    applied = as_computation(
        "scatter", "update_computation", update_computation, scalars_of("scatter", shapes) * 2
    )
    options = dimension_numbers, indices_are_sorted, unique_indices
    arguments = shapes, indices.shape, update_shapes, applied, *options
    shape, attributes = applied._planned(_scatter_plan, *arguments)
    return record("scatter", shape, (*arrays, indices, *values), attributes)
