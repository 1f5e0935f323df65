"""Slices and updates at places known only when it runs, gathers, scatters.

Operation Semantics: DynamicSlice, DynamicUpdateSlice, Gather, Scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from builder.attributes import (
    GatherDimensionNumbers,
    GatherDimensionNumbersLike,
    ScatterDimensionNumbers,
    ScatterDimensionNumbersLike,
)
from builder.check import Check, flag, integer, integers
from builder.errors import OperandError, brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder
from builder.graph.registry import op
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.ops.operands import is_number, need_op, need_ops, number_constant
from builder.ops.reshaping import reshape, slice
from builder.schema import SCHEMAS
from builder.shape_inference import indexing as infer
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array

__all__ = ["dynamic_slice", "dynamic_update_slice", "gather", "scatter"]

StartIndices = XlaOp | Sequence[XlaOp | int]
"""For each dimension a scalar op or a number, or a vector of all."""

Starts = tuple[Any, ...]
"""Start indices as they were given: ops and numbers."""


def _are_scalars(start_indices: tuple[Shape, ...]) -> bool:
    """Whether start indices that inference has passed are scalars, and not one vector."""
    return not start_indices or start_indices[0] is intern_array(start_indices[0].element_type, ())


@per_signature
def _dynamic_slice_plan(
    operand: Shape, start_indices: tuple[Shape, ...], sizes: tuple[int, ...]
) -> tuple[ArrayShape, Mapping[str, Any], bool]:
    shape = infer.dynamic_slice.strict(operand, start_indices, sizes)
    return shape, MappingProxyType({"slice_sizes": sizes}), _are_scalars(start_indices)


@op(SCHEMAS["dynamic_slice"])
def dynamic_slice(
    operand: XlaOp, start_indices: StartIndices, size_indices: Sequence[int]
) -> XlaOp:
    """A part of an array that begins at indices known only when it runs.

    The part is always inside the operand: each start index is clamped to 0 and to the operand's
    size less the slice's.

    Args:
        operand: an array of N dimensions.
        start_indices: for each dimension the index at which the slice begins: N scalars of one
            integer type, or one vector of N, which is taken apart. A Python number stands for a
            constant, and must be inside as it is.
        size_indices: for each dimension the size of the slice, at most the operand's.

    Returns:
        An array of sizes `size_indices`, of the operand's element type. All of a bounded
        dimension is bounded.

    Raises:
        ShapeInferenceError: there is not one start index and one size for each dimension; an
            index is no integer, or they are of several types; a slice is larger than the operand,
            or a number outside.

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
    starts = _given("dynamic_slice", start_indices)
    sizes = integers("dynamic_slice", "size_indices", size_indices)
    shapes, are_ops = _start_shapes("dynamic_slice", starts)
    shape, attributes, are_scalars = _dynamic_slice_plan(operand.shape, shapes, sizes)
    if are_ops and are_scalars:
        return record("dynamic_slice", shape, (operand, *starts), attributes)
    resolve_builder("dynamic_slice", operand, *_ops_of(starts))
    scalars = _as_scalars("dynamic_slice", (operand,), starts, shapes, sizes)
    return record("dynamic_slice", shape, (operand, *scalars), attributes)


@per_signature
def _dynamic_update_slice_plan(
    operand: Shape, update: Shape, start_indices: tuple[Shape, ...]
) -> tuple[ArrayShape, bool]:
    shape = infer.dynamic_update_slice.strict(operand, update, start_indices)
    return shape, _are_scalars(start_indices)


@op(SCHEMAS["dynamic_update_slice"])
def dynamic_update_slice(operand: XlaOp, update: XlaOp, start_indices: StartIndices) -> XlaOp:
    """An array with a part of it, at indices known only when it runs, overwritten.

    All of the update is put inside the operand: each start index is clamped to 0 and to the
    operand's size less the update's.

    Args:
        operand: an array of N dimensions.
        update: the new part: an array of N dimensions of the operand's element type, none larger
            than the operand's.
        start_indices: for each dimension the index at which the part begins; see `dynamic_slice`.

    Returns:
        An array of the operand's sizes. A dimension is bounded if the operand's is, or if the
        update's is and it covers all of it.

    Raises:
        ShapeInferenceError: there is not one start index for each dimension; an index is no
            integer, or they are of several types; the update has another number of dimensions, or
            is larger, or of another element type; a number is outside.

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
    starts = _given("dynamic_update_slice", start_indices)
    shapes, are_ops = _start_shapes("dynamic_update_slice", starts)
    shape, are_scalars = _dynamic_update_slice_plan(operand.shape, update.shape, shapes)
    if are_ops and are_scalars:
        return record("dynamic_update_slice", shape, (operand, update, *starts))
    assert isinstance(update.shape, ArrayShape)  # inference has said so
    both, sizes = (operand, update), update.shape.dimensions
    resolve_builder("dynamic_update_slice", *both, *_ops_of(starts))
    scalars = _as_scalars("dynamic_update_slice", both, starts, shapes, sizes)
    return record("dynamic_update_slice", shape, (*both, *scalars))


_MOST_STARTS = 65536
"""More start indices than any array has dimensions: what comes after them is not read."""


def _given(op: str, start_indices: Any) -> Starts:
    """The start indices as they were given: ops and numbers."""
    if type(start_indices) is XlaOp:
        return (start_indices,)
    try:
        if isinstance(start_indices, (str, bytes)):
            raise TypeError
        return tuple(islice(start_indices, _MOST_STARTS))
    except TypeError:
        raise OperandError(
            f"{op}: start_indices must be a sequence of XlaOps, or a vector, "
            f"got {type(start_indices).__name__}: {brief(start_indices, 80)}\n"
            f"fix: write one index for each dimension, for instance [i, 0]",
            op=op,
        ) from None


def _ops_of(starts: Starts) -> list[XlaOp]:
    return [s for s in starts if type(s) is XlaOp]


def _start_shapes(op: str, starts: Starts) -> tuple[tuple[Shape, ...], bool]:
    """The shapes of the start indices, and whether all of them are ops."""
    for start in starts:
        if type(start) is not XlaOp:
            return _shapes_beside_numbers(op, starts), False
    return tuple([start.shape for start in starts]), True


def _shapes_beside_numbers(op: str, starts: Starts) -> tuple[Shape, ...]:
    """The shapes of start indices where some are numbers: of the type of those that are none."""
    found: list[Shape | None] = []
    beside: Shape | None = None
    for index, start in enumerate(starts):
        shape: Shape | None = None
        if type(start) is XlaOp:
            shape = start.shape
        elif type(start) is not int or not -(2**31) <= start < 2**31:
            if not is_number(start):
                need_op(op, f"start index {index}", start)
            integer(op, f"start index {index}", start)
            if isinstance(start, (np.generic, np.ndarray)):
                shape = intern_array(pt.as_primitive_type(start.dtype), ())
        if beside is None:
            beside = shape
        found.append(shape)
    if beside is None or not beside.is_array:
        fits = all(-(2**31) <= s < 2**31 for s in starts if type(s) is int)
        beside = intern_array(pt.s32 if fits else pt.s64, ())
    scalar = intern_array(beside.element_type, ())
    return tuple([scalar if s is None else s for s in found])


def _as_scalars(
    op: str,
    operands: tuple[XlaOp, ...],
    starts: Starts,
    shapes: tuple[Shape, ...],
    sizes: Sequence[int],
) -> list[XlaOp]:
    """Start indices that inference has passed as scalar ops: vectors taken apart, constants."""
    source = operands[0].shape
    assert isinstance(source, ArrayShape)  # inference has said so
    first = shapes[0] if shapes else None
    if isinstance(first, ArrayShape) and first.rank:
        return [reshape(slice(starts[0], [i], [i + 1]), []) for i in range(source.rank)]
    numbers: list[Any] = []
    is_plain = True
    for start in starts:
        if type(start) is XlaOp:
            numbers.append(None)
        else:
            numbers.append(start)
            is_plain = is_plain and type(start) is int
    # All numbers are checked before the first is recorded.
    checked = _shared_constants if is_plain else _constants
    beside = tuple([o.shape for o in operands])
    constants = checked(op, beside, tuple(numbers), shapes, tuple(sizes))
    builder = resolve_builder(op, *operands, *_ops_of(starts))
    return [
        start if constant is None else append(builder, "constant", constant[0], (), constant[1])
        for start, constant in zip(starts, constants, strict=True)
    ]


def _constants(
    op: str,
    operands: tuple[Shape, ...],
    numbers: tuple[Any, ...],
    shapes: tuple[Shape, ...],
    sizes: tuple[int, ...],
) -> list[Any]:
    """Shapes and attributes of the constants for start indices that are numbers, else None."""
    constants: list[Any] = []
    for index, number in enumerate(numbers):
        if number is None:
            constants.append(None)
            continue
        _check_inside(op, operands, index, integer(op, "start index", number), sizes[index])
        element_type = shapes[index].element_type
        constants.append(number_constant(op, number, element_type, operands[0]))
    return constants


_shared_constants = per_signature(_constants)  # NumPy's numbers equal Python's, and are no keys


def _check_inside(
    op: str, operands: tuple[Shape, ...], index: int, start: int, part_size: int
) -> None:
    """Raises unless a start index that is a number is inside as it is: it would be clamped."""
    source = operands[0]
    assert isinstance(source, ArrayShape)  # inference has said so
    size = source.dimensions[index]
    last = None if UNBOUNDED in (size, part_size) else size - part_size
    if start < 0 or (last is not None and start > last):
        shapes = zip(("operand", "update"), operands, strict=False)
        Check(op, **dict(shapes)).fail(
            f"start index {index} must be "
            + ("at least 0" if last is None else f"0 to {last}")
            + f", got {start}",
            dimension=index,
            fix="count from the beginning, and leave room for the slice",
        )


@per_signature
def _gather_plan(
    operand: Shape,
    start_indices: Shape,
    numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    indices_are_sorted: bool,
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = infer.gather.strict(operand, start_indices, numbers, slice_sizes)
    attributes = {
        "dimension_numbers": numbers,
        "slice_sizes": slice_sizes,
        "indices_are_sorted": indices_are_sorted,
    }
    return shape, MappingProxyType(attributes)


@op(SCHEMAS["gather"])
def gather(
    operand: XlaOp,
    start_indices: XlaOp,
    dimension_numbers: GatherDimensionNumbersLike,
    slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:
    """Many slices of an array, each at a place that a vector of indices gives.

    An element of the result is found so: its indices in the dimensions that are not `offset_dims`
    choose a vector of `start_indices`; `start_index_map` says which dimensions of the operand the
    vector's numbers are for, all others begin at 0; from there a slice of `slice_sizes` is taken,
    clamped to lie inside the operand; its indices in `offset_dims` choose within the slice.

    Args:
        operand: the array that slices are taken from.
        start_indices: an array of integers. Along `index_vector_dim` of it lies a vector of
            indices; every other dimension is one of the result.
        dimension_numbers: GatherDimensionNumbers, or a mapping of their fields.
        slice_sizes: for each dimension of the operand the size of a slice, at most the operand's.
            It is 1 in the collapsed and the batching dimensions.
        indices_are_sorted: a promise that the vectors ascend. If it is broken, the result is
            whatever XLA makes of it.
        unique_indices: a promise that no element is taken twice. Nothing depends on it.

    Returns:
        An array of the operand's element type: the sizes of the slices in `offset_dims`, those of
        `start_indices` without `index_vector_dim` in the others. All of a bounded dimension is
        bounded, and so is what start_indices have bounded.

    Raises:
        ShapeInferenceError: start_indices are no integers; a dimension is out of range, out of
            order or named twice; numbers do not match; a slice is larger than the operand.

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
    if indices_are_sorted is not False:
        indices_are_sorted = flag("gather", "indices_are_sorted", indices_are_sorted)
    if unique_indices is not False:
        flag("gather", "unique_indices", unique_indices)
    shape, attributes = _gather_plan(
        operand.shape, start_indices.shape, dimension_numbers, sizes, indices_are_sorted
    )
    return record("gather", shape, (operand, start_indices), attributes)


# By signatures, which computations of equal shapes have in common, for callables recorded anew.
_scatter_shape = per_signature(infer.scatter.strict)


def _scatter_plan(
    operands: tuple[Shape, ...],
    scatter_indices: Shape,
    updates: tuple[Shape, ...],
    applied: XlaComputation,
    numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
) -> tuple[Shape, Mapping[str, Any]]:
    shape = _scatter_shape(operands, scatter_indices, updates, applied.signature, numbers)
    attributes = {
        "to_apply": applied,
        "dimension_numbers": numbers,
        "indices_are_sorted": indices_are_sorted,
        "unique_indices": unique_indices,
    }
    return shape, MappingProxyType(attributes)


@op(SCHEMAS["scatter"])
def scatter(
    operands: XlaOp | Sequence[XlaOp],
    scatter_indices: XlaOp,
    updates: XlaOp | Sequence[XlaOp],
    update_computation: XlaComputation | Callable[..., Any],
    dimension_numbers: ScatterDimensionNumbersLike,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:
    """An array with many windows of it updated, each at a place that a vector of indices gives.

    Every element of `updates` goes to one place: its indices in the dimensions that are not
    `update_window_dims` choose a vector of `scatter_indices`; `scatter_dims_to_operand_dims` says
    which dimensions of the operand the vector's numbers are for, all others begin at 0; its
    indices in `update_window_dims` are counted from there. The new element is
    ``update_computation(current, update)``. Updates of places outside are left out, each by
    itself. In which order places are updated that several updates go to is not defined.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        scatter_indices: an array of integers. Along `index_vector_dim` of it lies a vector of
            indices.
        updates: for each operand an array of its element type, all of the same sizes: those of
            the windows, at most the operand's, and those of `scatter_indices` without
            `index_vector_dim`.
        update_computation: for one operand ``(current, update) -> new``, all scalars of its type;
            for N operands it takes N current elements and then N updates, and gives a tuple of N.
            A computation, or a callable such as ``xb.add`` or a lambda.
        dimension_numbers: ScatterDimensionNumbers, or a mapping of their fields.
        indices_are_sorted: a promise that the vectors ascend. If it is broken, the result is
            whatever XLA makes of it.
        unique_indices: a promise that no two updates go to one place; as above.

    Returns:
        An array of the operand's shape; for several operands a tuple of those.

    Raises:
        ShapeInferenceError: scatter_indices are no integers; a dimension is out of range, out of
            order or named twice; numbers, sizes or element types do not match.
        SignatureError: the computation does not fit these operands.

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
    if indices_are_sorted is not False:
        indices_are_sorted = flag("scatter", "indices_are_sorted", indices_are_sorted)
    if unique_indices is not False:
        unique_indices = flag("scatter", "unique_indices", unique_indices)
    shapes = tuple([a.shape for a in arrays])
    scalars = _scalars_of(shapes)
    applied = as_computation("scatter", "update_computation", update_computation, scalars * 2)
    value_shapes = tuple([v.shape for v in values])
    key = (
        "scatter",
        shapes,
        indices.shape,
        value_shapes,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
    )
    shape, attributes = applied.planned(
        key,
        _scatter_plan,
        shapes,
        indices.shape,
        value_shapes,
        applied,
        *key[4:],
    )
    return record("scatter", shape, (*arrays, indices, *values), attributes)


@per_signature
def _scalars_of(shapes: tuple[Shape, ...]) -> tuple[ArrayShape, ...]:
    """A scalar shape of each operand's element type; raises when one is no array."""
    arrays = Check.numbered("scatter", "operand", shapes).arrays()
    return tuple(intern_array(a.element_type, ()) for a in arrays)
