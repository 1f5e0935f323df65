"""Slices and updates of the last dimensions, and PyTorch's gather, scatter and index_select.

XLA: slicing.h of the client library. A function on the minor dimensions, which are the last ones,
takes one number for each of them, and uses the other dimensions entirely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from builder.attributes import GatherDimensionNumbers
from builder.checking import flag, integer, integers
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    axis_argument,
    bounded_argument,
    fixed_size,
    indexed_size,
    indices_argument,
    shape_of,
)
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.indexing import dynamic_slice, dynamic_update_slice, gather
from builder.ops.operands import need_ops_or_numbers
from builder.ops.reduction import reduce
from builder.ops.reshaping import broadcast_in_dim, slice
from builder.types.primitive_type import s64, u64
from builder.types.shape import ArrayShape


@library_function("SliceInMinorDims")
def slice_in_minor_dims(x: XlaOp, start: Sequence[int], end: Sequence[int]) -> XlaOp:
    """Return a slice of the last dimensions.

    Args:
        x: an array.
        start: the first index in each minor dimension, not negative.
        end: the index after the last one, in each minor dimension.

    Raises:
        ShapeInferenceError: the numbers of indices differ, or exceed x's rank; an index is out of
            range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 4, 9])
        >>> lib.slice_in_minor_dims(x, [1, 3], [3, 9]).shape
        f32[2,2,6]
    """
    shape = array_argument("slice_in_minor_dims", "x", x)
    starts = integers("slice_in_minor_dims", "start", start)
    ends = integers("slice_in_minor_dims", "end", end)
    _same_number("slice_in_minor_dims", "start", len(starts), "end", len(ends))
    major = _major("slice_in_minor_dims", "start", shape, len(starts))
    return slice(x, [*[0] * major, *starts], [*shape.dimensions[:major], *ends])


@library_function("UpdateSlice")
def update_slice(x: XlaOp, update: XlaOp, start: Sequence[int]) -> XlaOp:
    """Return an array with one slice replaced.

    Args:
        x: an array.
        update: the new slice, of x's rank and element type.
        start: the index at which the slice begins in each dimension. The slice must be inside x.

    Raises:
        ShapeInferenceError: there is not one index for each dimension; the slice is not inside x;
            the ranks or the element types differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, part = b.parameter(xb.f32[4, 9]), b.parameter(xb.f32[2, 3])
        >>> lib.update_slice(x, part, [2, 6]).shape
        f32[4,9]
    """
    shape = array_argument("update_slice", "x", x)
    starts = integers("update_slice", "start", start)
    if len(starts) != shape.rank:
        rule = f"start must have one index for each dimension of x: {shape.rank}"
        fix = "" if len(starts) > shape.rank else "use lib.update_slice_in_minor_dims for the last"
        raise error_of(ShapeInferenceError, "update_slice", rule, fix, got=len(starts))
    return dynamic_update_slice(x, update, starts)


@library_function("UpdateSliceInMinorDims")
def update_slice_in_minor_dims(x: XlaOp, update: XlaOp, start: Sequence[int]) -> XlaOp:
    """Return an array with one slice replaced, which begins at 0 in the major dimensions.

    Args:
        x: an array.
        update: the new slice, of x's rank and element type.
        start: the index at which the slice begins in each minor dimension. The slice must be inside
            x.

    Raises:
        ShapeInferenceError: there are more indices than dimensions; the slice is not inside x; the
            ranks or the element types differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, part = b.parameter(xb.f32[2, 4, 9]), b.parameter(xb.f32[2, 4, 3])
        >>> lib.update_slice_in_minor_dims(x, part, [6]).shape
        f32[2,4,9]
    """
    shape = array_argument("update_slice_in_minor_dims", "x", x)
    starts = integers("update_slice_in_minor_dims", "start", start)
    major = _major("update_slice_in_minor_dims", "start", shape, len(starts))
    return dynamic_update_slice(x, update, [*[0] * major, *starts])


@library_function("DynamicSliceInMinorDims")
def dynamic_slice_in_minor_dims(
    x: XlaOp, starts: Sequence[XlaOp | int], sizes: Sequence[int]
) -> XlaOp:
    """Return a slice of the last dimensions that begins at runtime indices.

    Args:
        x: an array; its major dimensions have no unbounded size.
        starts: for each minor dimension a scalar of one integer type, or a number. The indices are
            clamped such that the slice is inside x, as in `dynamic_slice`.
        sizes: the size of the slice in each minor dimension.

    Raises:
        OperandError: `starts` is not a sequence of ops and numbers.
        ShapeInferenceError: the numbers of indices and sizes differ, or exceed x's rank; an index
            is not a scalar of an integer type, or the types differ; the slice is larger than x.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, i = b.parameter(xb.f32[2, 4, 9]), b.parameter(xb.s32[()])
        >>> lib.dynamic_slice_in_minor_dims(x, [i], [3]).shape
        f32[2,4,3]
    """
    shape = array_argument("dynamic_slice_in_minor_dims", "x", x)
    given = _starts("dynamic_slice_in_minor_dims", starts)
    lengths = integers("dynamic_slice_in_minor_dims", "sizes", sizes)
    _same_number("dynamic_slice_in_minor_dims", "starts", len(given), "sizes", len(lengths))
    major = _major("dynamic_slice_in_minor_dims", "starts", shape, len(given))
    return dynamic_slice(x, [*[0] * major, *given], [*shape.dimensions[:major], *lengths])


@library_function("DynamicUpdateSliceInMinorDims")
def dynamic_update_slice_in_minor_dims(
    x: XlaOp, update: XlaOp, starts: Sequence[XlaOp | int]
) -> XlaOp:
    """Return an array with one slice replaced, which begins at runtime indices.

    Args:
        x: an array.
        update: the new slice, of x's rank and element type. It begins at 0 in the major dimensions.
        starts: for each minor dimension a scalar of one integer type, or a number. The indices are
            clamped such that the slice is inside x, as in `dynamic_update_slice`.

    Raises:
        OperandError: `starts` is not a sequence of ops and numbers.
        ShapeInferenceError: there are more indices than dimensions; an index is not a scalar of an
            integer type, or the types differ; the ranks or the element types differ; the update is
            larger than x.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, part, i = [b.parameter(s) for s in (xb.f32[2, 4, 9], xb.f32[2, 4, 1], xb.s32[()])]
        >>> lib.dynamic_update_slice_in_minor_dims(x, part, [i]).shape
        f32[2,4,9]
    """
    shape = array_argument("dynamic_update_slice_in_minor_dims", "x", x)
    given = _starts("dynamic_update_slice_in_minor_dims", starts)
    major = _major("dynamic_update_slice_in_minor_dims", "starts", shape, len(given))
    return dynamic_update_slice(x, update, [*[0] * major, *given])


@library_function("TorchGather")
def torch_gather(x: XlaOp, index: XlaOp, axis: int, sparse: bool = True) -> XlaOp:
    """Return elements at indices along a dimension; each row has its own indices.

    ``result[i, j, k] = x[i, index[i, j, k], k]`` for dimension 1 of 3.

    Args:
        x: an array; the dimension has a fixed size of at least 1.
        index: an array of integers, of the input's rank. In the other dimensions it is at most as
            large as the input, and selects from the first rows.
        axis: a dimension.
        sparse: True to record a gather, which clamps indices to the range. False to compare the
            indices with all positions and add: indices out of range then give 0, and -0 becomes 0.

    Returns:
        An array of the sizes of `index`.

    Raises:
        ShapeInferenceError: the indices are not integers; the ranks differ; `index` is too large;
            the dimension is out of range, empty or of dynamic size; a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> scores, index = b.parameter(xb.f32[4, 10]), b.parameter(xb.s32[4, 2])
        >>> lib.torch_gather(scores, index, 1).shape
        f32[4,2]
    """
    flag("torch_gather", "sparse", sparse)
    shape = array_argument("torch_gather", "x", x)
    selected = indices_argument("torch_gather", "index", index)
    number = axis_argument("torch_gather", "axis", axis, shape.rank)
    bounded_argument("torch_gather", "x", shape)
    bounded_argument("torch_gather", "index", selected)
    indexed_size("torch_gather", "x", shape, number)
    if selected.rank != shape.rank:
        rule = "x and index must have one rank"
        raise error_of(ShapeInferenceError, "torch_gather", rule, got=f"{shape} and {selected}")
    for n, (taken, size) in enumerate(zip(selected.dimensions, shape.dimensions, strict=True)):
        if n != number and taken > size:
            rule = f"index must not be larger than x in dimension {n}"
            shapes = {"x": shape, "index": selected}
            raise error_of(
                ShapeInferenceError, "torch_gather", rule, got=selected, dimension=n, shapes=shapes
            )
    limits = list(selected.dimensions)
    limits[number] = shape.dimensions[number]
    rows = x if limits == list(shape.dimensions) else slice(x, [0] * shape.rank, limits)
    if sparse:
        return gather_along(rows, index, number)
    counts = [*selected.dimensions[:number], limits[number], *selected.dimensions[number:]]
    mask = _is_at(index, number, counts)
    wide = broadcast_in_dim(rows, counts, [n + (n > number) for n in range(shape.rank)])
    zero = x.builder.constant(np.zeros((), shape.element_type.dtype))
    return reduce(ew.select(mask, wide, zero), zero, ew.add, [number])


@library_function("TorchScatterDense")
def torch_scatter_dense(
    x: XlaOp,
    index: XlaOp,
    src: XlaOp,
    axis: int,
    combiner: Callable[[XlaOp, XlaOp], XlaOp],
) -> XlaOp:
    """Combine an array with elements of another one, placed at indices along a dimension.

    For dimension 1 of 3, ``src[i, j, k]`` is placed at ``[i, index[i, j, k], k]``. All elements
    that are placed at one position are combined with 0 and with the input's element. The indices
    are compared with all positions; indices out of range have no effect.

    Args:
        x: an array; the dimension has a fixed size.
        index: an array of integers, with the input's sizes except along the dimension.
        src: the elements: an array of the shape of `index` and of the input's element type.
        axis: a dimension.
        combiner: an associative and commutative function of two ops with 0 as its neutral element,
            such as ``xb.add``. It is applied to scalars and to arrays.

    Returns:
        An array of the input's shape.

    Raises:
        ShapeInferenceError: the indices are not integers; sizes or element types differ; the
            dimension is out of range or of dynamic size; a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, index, src = [b.parameter(s) for s in (xb.f32[4, 9], xb.s32[4, 3], xb.f32[4, 3])]
        >>> lib.torch_scatter_dense(x, index, src, 1, xb.add).shape
        f32[4,9]
    """
    shape = array_argument("torch_scatter_dense", "x", x)
    selected = indices_argument("torch_scatter_dense", "index", index)
    source = array_argument("torch_scatter_dense", "src", src)
    if not callable(combiner):
        rule = "combiner must be a function of two XlaOps"
        raise error_of(
            OperandError,
            "torch_scatter_dense",
            rule,
            "pass for instance xb.add",
            got=brief(combiner, 80),
        )
    number = axis_argument("torch_scatter_dense", "axis", axis, shape.rank)
    bounded_argument("torch_scatter_dense", "x", shape)
    bounded_argument("torch_scatter_dense", "index", selected)
    size = fixed_size("torch_scatter_dense", "x", shape, number)
    along = [s for n, s in enumerate(selected.dimensions) if n != number]
    if along != [s for n, s in enumerate(shape.dimensions) if n != number]:
        rule = f"index must have the sizes of x except in dimension {number}"
        shapes = {"x": shape, "index": selected}
        raise error_of(
            ShapeInferenceError, "torch_scatter_dense", rule, got=selected, shapes=shapes
        )
    if source.dimensions != selected.dimensions:
        rule = "src and index must have the same sizes"
        raise error_of(
            ShapeInferenceError, "torch_scatter_dense", rule, got=f"{source} and {selected}"
        )
    counts = [*selected.dimensions[:number], size, *selected.dimensions[number:]]
    mask = _is_at(index, number, counts)
    wide = broadcast_in_dim(src, counts, [n + (n >= number) for n in range(shape.rank)])
    zero = x.builder.constant(np.zeros((), shape.element_type.dtype))
    placed = reduce(ew.select(mask, wide, zero), zero, combiner, [number + 1])
    return combiner(x, placed)


@library_function("TorchIndexSelect")
def torch_index_select(x: XlaOp, index: XlaOp, axis: int, batch_dims: int = 0) -> XlaOp:
    """Return the parts of an array at indices along a dimension; indices are clamped to the range.

    Without batch dimensions, this is ``lib.take``, except that negative indices do not count from
    the end.

    Args:
        x: an array; the dimension has a fixed size of at least 1.
        index: an array of integers. Its first `batch_dims` dimensions have the sizes of the input.
        axis: a dimension, not one of the first `batch_dims`.
        batch_dims: the number of batch dimensions: the first dimensions of `index` and of the
            input.

    Returns:
        An array of the input's sizes, with the sizes of `index` after the first `batch_dims` in
        place of the dimension.

    Raises:
        ShapeInferenceError: the indices are not integers; a dimension is out of range; the
            dimension is empty or of dynamic size; sizes differ; the input has an unbounded size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, index = b.parameter(xb.f32[4, 9, 5]), b.parameter(xb.s32[4, 2])
        >>> lib.torch_index_select(x, index, 1, batch_dims=1).shape
        f32[4,2,5]
    """
    shape = array_argument("torch_index_select", "x", x)
    selected = indices_argument("torch_index_select", "index", index)
    number = axis_argument("torch_index_select", "axis", axis, shape.rank)
    batch = integer("torch_index_select", "batch_dims", batch_dims)
    bounded_argument("torch_index_select", "x", shape)
    indexed_size("torch_index_select", "x", shape, number)
    if not 0 <= batch <= min(number, selected.rank):
        rule = f"batch_dims must be from 0 to {min(number, selected.rank)}"
        shapes = {"x": shape, "index": selected}
        raise error_of(ShapeInferenceError, "torch_index_select", rule, got=batch, shapes=shapes)
    return gather_parts(x, index, number, batch)


def gather_parts(x: XlaOp, indices: XlaOp, dimension: int, batch: int = 0) -> XlaOp:
    """Return the parts of x at indices along a dimension; indices are clamped.

    The first `batch` dimensions of x and of `indices` are the same.
    """
    rank = shape_of(indices).rank
    shape = shape_of(x)
    sizes = [s and 1 if n < batch or n == dimension else s for n, s in enumerate(shape.dimensions)]
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(
            n if n < dimension else n + rank - batch - 1
            for n in range(batch, len(sizes))
            if n != dimension
        ),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
        index_vector_dim=rank,
    )
    return gather(x, indices, numbers, sizes)


def gather_along(x: XlaOp, indices: XlaOp, dimension: int) -> XlaOp:
    """Return elements of x at indices along a dimension, one set per row; indices are clamped."""
    rank = shape_of(x).rank
    rest = tuple(n for n in range(rank) if n != dimension)
    numbers = GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=rest,
        start_indices_batching_dims=rest,
        index_vector_dim=rank,
    )
    return gather(x, indices, numbers, [size and 1 for size in shape_of(x).dimensions])


def _is_at(index: XlaOp, dimension: int, sizes: Sequence[int]) -> XlaOp:
    """Return whether an index equals its position along `dimension`, a new dimension of `sizes`."""
    shape = shape_of(index)
    # In 64 bits, a narrow type of indices can't count the positions twice.
    wide = as_type(index, s64 if shape.element_type.is_signed else u64)
    positions = index.builder.iota(shape_of(wide).element_type[tuple(sizes)], dimension)
    return ew.eq(positions, wide, [n + (n >= dimension) for n in range(shape.rank)])


def _major(op: str, name: str, shape: ArrayShape, minor: int) -> int:
    """Return the number of major dimensions of an array."""
    if minor > shape.rank:
        rule = f"{name} must have at most one entry for each dimension of x: {shape.rank}"
        raise error_of(ShapeInferenceError, op, rule, got=minor, shapes={"x": shape})
    return shape.rank - minor


def _starts(op: str, starts: Sequence[XlaOp | int]) -> tuple[XlaOp | int, ...]:
    """Return `starts` as ops and numbers; `dynamic_slice` checks that the numbers are integers."""
    return cast("tuple[XlaOp | int, ...]", need_ops_or_numbers(op, "starts", starts))


def _same_number(op: str, name: str, count: int, other: str, number: int) -> None:
    if count != number:
        rule = f"{name} and {other} must have the same number of entries"
        raise error_of(ShapeInferenceError, op, rule, got=f"{count} and {number}")
