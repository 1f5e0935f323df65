"""Slices and updates at runtime indices; gathers and scatters.

Operation Semantics: DynamicSlice, DynamicUpdateSlice, Gather, Scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Never

import numpy as np

from builder.attributes import (
    GatherDimensionNumbers,
    GatherDimensionNumbersLike,
    ScatterDimensionNumbers,
    ScatterDimensionNumbersLike,
)
from builder.check import Check, flag, integer, integers
from builder.errors import OperandError, brief
from builder.graph.calls import unknown_arguments
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.ops.operands import is_number, need_op, need_ops, number_constant, scalars_of
from builder.ops.reshaping import reshape, slice
from builder.ops.rules import indexing as infer
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array

StartIndices = XlaOp | Sequence[XlaOp | int]
"""The type of `start_indices`: a scalar op or a number per dimension, or one vector op."""

_dynamic_update_slice_shape = per_signature(infer.dynamic_update_slice.strict)


@per_signature
def _dynamic_slice_plan(
    operand: Shape, starts: tuple[Shape, ...], sizes: tuple[int, ...]
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = infer.dynamic_slice.strict(operand, starts, sizes)
    return shape, MappingProxyType({"slice_sizes": sizes})


@op_by_hand(SCHEMAS["dynamic_slice"])
def dynamic_slice(
    operand: XlaOp,
    start_indices: StartIndices,
    size_indices: Sequence[int],
    **unknown: Never,
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
    if unknown:
        raise unknown_arguments(dynamic_slice, unknown)
    if type(operand) is not XlaOp:
        need_op("dynamic_slice", "operand", operand)
    starts = _starts("dynamic_slice", start_indices)
    sizes = integers("dynamic_slice", "size_indices", size_indices)
    shapes = _start_shapes("dynamic_slice", starts)
    shape, attributes = _dynamic_slice_plan(operand.shape, shapes, sizes)
    scalars = _as_scalars("dynamic_slice", (operand,), starts, shapes, sizes)
    return record("dynamic_slice", shape, (operand, *scalars), attributes)


@op_by_hand(SCHEMAS["dynamic_update_slice"])
def dynamic_update_slice(
    operand: XlaOp, update: XlaOp, start_indices: StartIndices, **unknown: Never
) -> XlaOp:
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
    if unknown:
        raise unknown_arguments(dynamic_update_slice, unknown)
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


_MOST_STARTS = 65536
"""The maximum number of start indices that are read from an iterable, which may be endless.

No array has as many dimensions.
"""


def _starts(op: str, start_indices: Any) -> tuple[Any, ...]:
    """Return the start indices as a tuple of ops and numbers; wrap a single op in a tuple."""
    if type(start_indices) is XlaOp:
        return (start_indices,)
    try:
        if isinstance(start_indices, (str, bytes)):
            raise TypeError
        return tuple(islice(start_indices, _MOST_STARTS))
    except TypeError:
        raise OperandError(
            "start_indices must be a sequence of XlaOps, or a vector, "
            f"got {type(start_indices).__name__}: {brief(start_indices, 80)}",
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
            f"start index {index} must be "
            + ("at least 0" if last is None else f"0 to {last}")
            + f", got {start}",
            dimension=index,
            fix="count from 0, and choose an index at which the slice is inside the operand",
        )


_gather_shape = per_signature(infer.gather.strict)


@op_by_hand(SCHEMAS["gather"])
def gather(
    operand: XlaOp,
    start_indices: XlaOp,
    dimension_numbers: GatherDimensionNumbersLike,
    slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:
    """Gather slices of an array, each from the position that a vector of indices selects.

    An element of the result is computed as follows. The element's indices in the dimensions that
    are not `offset_dims` select a vector of `start_indices`. `start_index_map` maps the entries of
    the vector to dimensions of the operand; the other dimensions start at 0. The slice of
    `slice_sizes` that starts there is clamped to lie inside the operand. The element's indices in
    `offset_dims` select within the slice.

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
    if type(operand) is not XlaOp or type(start_indices) is not XlaOp:
        need_op("gather", "operand", operand)
        need_op("gather", "start_indices", start_indices)
    if type(dimension_numbers) is not GatherDimensionNumbers:
        dimension_numbers = GatherDimensionNumbers.of(dimension_numbers)
    sizes = integers("gather", "slice_sizes", slice_sizes)
    indices_are_sorted = flag("gather", "indices_are_sorted", indices_are_sorted)
    flag("gather", "unique_indices", unique_indices)
    shape = _gather_shape(operand.shape, start_indices.shape, dimension_numbers, sizes)
    attributes = shared_attributes(
        dimension_numbers=dimension_numbers,
        slice_sizes=sizes,
        indices_are_sorted=indices_are_sorted,
    )
    return record("gather", shape, (operand, start_indices), attributes)


# The key is the computation's signature, so that callables that are recorded again share an entry.
_scatter_shape = per_signature(infer.scatter.strict)


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


@op_by_hand(SCHEMAS["scatter"])
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
    update's indices in the dimensions that are not `update_window_dims` select a vector of
    `scatter_indices`. `scatter_dims_to_operand_dims` maps the entries of the vector to dimensions
    of the operand; the other dimensions start at 0. The update's indices in `update_window_dims`
    are added to that start. The new element is ``update_computation(current, update)``. Each
    update out of bounds is skipped. The order of updates to one position is not defined.

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
        Check("scatter").fail("at least one operand is needed, got none")
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
    shape, attributes = applied.planned(_scatter_plan, *arguments)
    return record("scatter", shape, (*arrays, indices, *values), attributes)
