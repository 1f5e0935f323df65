"""Rearranging, joining, choosing and generating arrays.

`axis` may be negative, and then counts from the last dimension. Element types are never promoted:
arrays that a function combines have one type; a Python number takes the type of the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from builder.attributes import ScatterDimensionNumbers
from builder.checking import flag, integer, integers
from builder.errors import OperandError, ShapeInferenceError, error_of
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    MOST_RESULTS,
    Axes,
    array_argument,
    as_type,
    axes_argument,
    axis_argument,
    bounded_argument,
    finite_number,
    fixed_size,
    indexed_size,
    indices_argument,
    natural,
    one_or_several,
    ordered_argument,
    shape_of,
    static_argument,
    typed_argument,
)
from builder.lib.dynamic import (
    broadcast_along,
    closed_argument,
    indices_of,
    reshaped_to_multiples,
)
from builder.lib.registry import library_function, noting_calls
from builder.lib.slicing import gather_along, gather_parts
from builder.ops import elementwise as ew
from builder.ops.broadcasting import broadcast_scalar
from builder.ops.indexing import dynamic_slice, scatter
from builder.ops.operands import Operand, is_number, need_op, need_ops, number_as
from builder.ops.reshaping import (
    broadcast_in_dim,
    concatenate,
    reshape,
    rev,
    slice_in_dim,
)
from builder.types.primitive_type import (
    PrimitiveType,
    PrimitiveTypeLike,
    element_type_argument,
    f32,
    pred,
    s32,
    s64,
    u64,
)
from builder.types.shape import UNBOUNDED, ArrayShape


@library_function()
def where(condition: XlaOp, on_true: Operand, on_false: Operand) -> XlaOp:
    """Return the elements of one array where a condition is true, and of another array elsewhere.

    The arrays and the condition are broadcast as in NumPy: shapes are aligned at the last
    dimension, and sizes of 1 are repeated.

    Args:
        condition: an array of preds.
        on_true: an array, or a number.
        on_false: an array of the same element type, or a number; at least one of the two is an
            array.

    Raises:
        OperandError: both are numbers.
        ShapeInferenceError: the condition is not of type pred; the element types differ; the
            shapes can't be broadcast; a size is dynamic where shapes differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, row = b.parameter(xb.f32[4, 3]), b.parameter(xb.f32[3])
        >>> lib.where(x > 0.0, x, row).shape
        f32[4,3]
    """
    shape = array_argument("where", "condition", condition)
    if shape.element_type is not pred:
        rule = "condition must be of type pred"
        raise error_of(
            ShapeInferenceError, "where", rule, "compare first, for instance x != 0", got=shape
        )
    values: list[Any] = [on_true, on_false]
    arrays = [value for value in values if not is_number(value)]
    if not arrays:
        fix = "record one with condition.builder.constant(value, type)"
        rule = "on_true or on_false must be an array"
        raise error_of(OperandError, "where", rule, fix, got=f"{on_true} and {on_false}")
    named = [("on_true", on_true), ("on_false", on_false)]
    for name, value in named:
        if not is_number(value):
            array_argument("where", name, value)
    first = shape_of(arrays[0]).element_type
    if len(arrays) == 2 and shape_of(arrays[1]).element_type is not first:
        rule = "the arrays must have one element type"
        fix = "convert with xb.convert_element_type; nothing is promoted silently"
        raise error_of(
            ShapeInferenceError, "where", rule, fix, got=f"{first} and {arrays[1].shape}"
        )
    sizes = _broadcast_sizes("where", [condition, *arrays])
    pieces = iter([_broadcast_to(array, sizes) for array in (condition, *arrays)])
    mask = next(pieces)
    return ew.select(mask, *[value if is_number(value) else next(pieces) for value in values])


@library_function()
def clip(x: XlaOp, min: Operand | None = None, max: Operand | None = None) -> XlaOp:
    """Return an array with smaller elements replaced by a minimum, and larger ones by a maximum.

    Args:
        x: an array of real numbers. NaNs remain.
        min: a scalar, an array of x's shape, a number, or None for no minimum.
        max: the maximum, in the same forms. Where it is less than the minimum, the result is the
            maximum.

    Raises:
        OperandError: a bound is neither an array nor a number.
        ShapeInferenceError: the type is complex; shapes or element types differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.clip(xb.XlaBuilder().parameter(xb.f32[4]), max=1.0).shape
        f32[4]
    """
    shape = ordered_argument("clip", "x", x)
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and not is_number(bound):
            typed_argument("clip", name, bound, shape.element_type)
    if min is not None and max is not None:
        return ew.clamp(min, x, max)
    if min is not None:
        return ew.max(x, min)
    return x if max is None else ew.min(x, max)


@library_function()
def stack(arrays: Sequence[XlaOp], axis: int = 0) -> XlaOp:
    """Join arrays of one shape along a new dimension.

    Args:
        arrays: one or more arrays.
        axis: the number of the new dimension in the result.

    Raises:
        OperandError: there is no array.
        ShapeInferenceError: the shapes differ; the axis is out of range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 3])
        >>> lib.stack([x, x], axis=-1).shape
        f32[4,3,2]
    """
    parts = need_ops("stack", "array", arrays)
    if not parts:
        raise error_of(OperandError, "stack", "at least one array is needed", got="none")
    shapes = [array_argument("stack", f"array {n}", part) for n, part in enumerate(parts)]
    for number, shape in enumerate(shapes):
        if shape != shapes[0]:
            rule = "all arrays must have one shape"
            raise error_of(
                ShapeInferenceError, "stack", rule, got=f"{shapes[0]} and {shape} (array {number})"
            )
    new = axis_argument("stack", "axis", axis, shapes[0].rank + 1)
    return concatenate([_with_one(part, (new,)) for part in parts], new)


@library_function()
def split(x: XlaOp, indices_or_sections: int | Sequence[int], axis: int = 0) -> tuple[XlaOp, ...]:
    """Divide an array along a dimension.

    Args:
        x: an array.
        indices_or_sections: the number of parts of equal size, at most 2**16, or the increasing
            indices at which the second part and the following ones start.
        axis: a dimension of fixed size.

    Returns:
        The parts, in their order.

    Raises:
        ShapeInferenceError: the size is not a multiple of the number of parts, or is dynamic; the
            parts are too many; the indices decrease or are out of range; the axis is out of range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 6])
        >>> [part.shape for part in lib.split(x, 3, axis=1)]
        [f32[4,2], f32[4,2], f32[4,2]]
        >>> [part.shape for part in lib.split(x, [1, 4], axis=1)]
        [f32[4,1], f32[4,3], f32[4,2]]
    """
    shape = array_argument("split", "x", x)
    number = axis_argument("split", "axis", axis, shape.rank)
    size = fixed_size("split", "x", shape, number)
    if isinstance(indices_or_sections, Iterable):
        inner = integers("split", "indices_or_sections", indices_or_sections)
        edges = [0, *inner, size]
        if edges != sorted(edges):
            rule = f"the indices must increase from 0 to the size {size}"
            raise error_of(ShapeInferenceError, "split", rule, got=list(inner), dimension=number)
    else:
        parts = integer("split", "indices_or_sections", indices_or_sections)
        if parts < 1 or size % parts:
            rule = f"dimension {number} of {shape} can't be divided into {parts} equal parts"
            fix = "pass the list of indices at which the parts start"
            raise error_of(ShapeInferenceError, "split", rule, fix, dimension=number)
        if parts > MOST_RESULTS:
            rule = f"an array must be divided into at most {MOST_RESULTS} parts"
            fix = "reshape the dimension into two, and index the first one"
            raise error_of(ShapeInferenceError, "split", rule, fix, got=parts, dimension=number)
        edges = [size // parts * n for n in range(parts + 1)]
    return parts_between(x, edges, number)


@partial(noting_calls, "parts_between")
def parts_between(x: XlaOp, edges: Sequence[int], dimension: int) -> tuple[XlaOp, ...]:
    """Return the parts of an array between indices of a dimension.

    The derivative of all parts together is a concatenation. The derivatives of the slices alone
    would pad each cotangent to the size of the array, and add the padded arrays.
    """
    return tuple([slice_in_dim(x, start, end, 1, dimension) for start, end in pairwise(edges)])


@library_function()
def squeeze(x: XlaOp, axis: Axes = None) -> XlaOp:
    """Remove dimensions of size 1.

    Args:
        x: an array.
        axis: the dimensions to remove; None for all of fixed size 1.

    Raises:
        ShapeInferenceError: the size of a dimension is not 1; a dimension is out of range or
            named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.squeeze(xb.XlaBuilder().parameter(xb.f32[4, 1, 3]), axis=1).shape
        f32[4,3]
    """
    shape = array_argument("squeeze", "x", x)
    is_one = [
        size == 1 and not is_dynamic
        for size, is_dynamic in zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    ]
    if axis is None:
        removed = tuple(n for n in range(shape.rank) if is_one[n])
    else:
        removed = axes_argument("squeeze", axis, shape.rank)
    for number in removed:
        if not is_one[number]:
            size = shape.dimension_text(number)
            rule = "a removed dimension must have size 1"
            raise error_of(
                ShapeInferenceError,
                "squeeze",
                rule,
                got=f"{size} for dimension {number}",
                dimension=number,
            )
    return reshape(x, [size for n, size in enumerate(shape.dimensions) if n not in removed])


@library_function()
def expand_dims(x: XlaOp, axis: int | Sequence[int]) -> XlaOp:
    """Insert dimensions of size 1.

    Args:
        x: an array.
        axis: the numbers that the new dimensions have in the result.

    Raises:
        ShapeInferenceError: a number is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.expand_dims(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=(0, -1)).shape
        f32[1,4,3,1]
    """
    shape = array_argument("expand_dims", "x", x)
    given = one_or_several("expand_dims", "axis", axis)
    return _with_one(x, axes_argument("expand_dims", given, shape.rank + len(given)))


@library_function()
def flip(x: XlaOp, axis: Axes = None) -> XlaOp:
    """Reverse the order of the elements along dimensions.

    Args:
        x: an array.
        axis: a dimension, several, or None for all.

    Raises:
        ShapeInferenceError: a dimension is out of range or named twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.flip(xb.XlaBuilder().parameter(xb.f32[4, 3]), axis=-1).shape
        f32[4,3]
    """
    return rev(x, axes_argument("flip", axis, array_argument("flip", "x", x).rank))


@library_function()
def roll(x: XlaOp, shift: int | Sequence[int] | XlaOp, axis: Axes = None) -> XlaOp:
    """Shift elements along dimensions; elements that leave at one end enter at the other.

    Args:
        x: an array; the sizes of shifted dimensions are fixed.
        shift: the distance, toward higher indices if positive; one number for all axes, or one for
            each. A scalar op of an integer type is a distance at run time, for a single axis.
        axis: a dimension, several, or None to shift the elements in their row-major order.

    Raises:
        ShapeInferenceError: the numbers of shifts and axes differ; a dimension is out of range or
            named twice; a size of a shifted dimension is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.roll(xb.XlaBuilder().parameter(xb.f32[4, 3]), shift=1, axis=0).shape
        f32[4,3]
    """
    shape = array_argument("roll", "x", x)
    if axis is None:
        static_argument("roll", "x", shape)
        flat = reshape(x, [math.prod(shape.dimensions)])
        return reshape(roll(flat, shift, 0), shape.dimensions)
    axes = axes_argument("roll", axis, shape.rank)
    if isinstance(shift, XlaOp):
        return _rolled_at_run_time(x, shape, shift, axes)
    given = one_or_several("roll", "shift", shift)
    shifts = given * len(axes) if len(given) == 1 else given
    if len(shifts) != len(axes):
        rule = f"shift must have one entry for each axis: {len(axes)}"
        raise error_of(ShapeInferenceError, "roll", rule, got=len(shifts))
    for number, distance in zip(axes, shifts, strict=True):
        size = fixed_size("roll", "x", shape, number)
        start = -distance % size if size else 0
        if start:
            parts = [slice_in_dim(x, start, size, 1, number), slice_in_dim(x, 0, start, 1, number)]
            x = concatenate(parts, number)
    return x


def _rolled_at_run_time(x: XlaOp, shape: ArrayShape, shift: XlaOp, axes: tuple[int, ...]) -> XlaOp:
    kind = array_argument("roll", "shift", shift)
    if kind.rank or not kind.element_type.is_integral or len(axes) != 1:
        rule = "an op as shift must be an integer scalar for one axis"
        raise error_of(ShapeInferenceError, "roll", rule, got=f"{kind}, {len(axes)} axes")
    static_argument("roll", "x", shape)
    (number,) = axes
    size = shape.dimensions[number]
    if size == 0:
        return x
    # The type must hold the size, and u64's distances.
    wide = as_type(shift, s64 if kind.element_type.is_signed else u64)
    # Reduced twice: `rem` has the sign of the distance.
    start = ew.rem(size - ew.rem(wide, size), size)
    starts: list[Any] = [start if n == number else start * 0 for n in range(shape.rank)]
    return dynamic_slice(concatenate([x, x], number), starts, shape.dimensions)


@library_function()
def indices_along(x: XlaOp, axis: int, element_type: PrimitiveTypeLike = s32) -> XlaOp:
    """Return the index of each element along an axis, such as its position in a sequence.

    For an array whose size is known use `XlaBuilder.iota`; this function also counts along
    unbounded sizes.

    Args:
        x: an array of fixed or unbounded sizes; only the sizes are used.
        axis: the axis.
        element_type: the type of the result: integers or floating-point numbers.

    Returns:
        An array of the sizes of `x`.

    Raises:
        ShapeInferenceError: the axis is out of range; a size is bounded; the type is not an integer
            or floating-point type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> tokens = b.parameter(xb.s32["?", "?"])
        >>> lib.indices_along(tokens, 1).shape
        s32[?,?]
    """
    shape = array_argument("indices_along", "x", x)
    closed_argument("indices_along", "x", shape)
    kind = element_type_argument("indices_along", "element_type", element_type)
    if not (kind.is_integral or kind.is_floating or kind.is_complex):
        rule = "element_type must be a type of numbers"
        fix = "use an integer type, and compare the result"
        raise error_of(ShapeInferenceError, "indices_along", rule, fix, got=kind)
    return indices_of(x, kind, axis_argument("indices_along", "axis", axis, shape.rank))


@library_function()
def tile(x: XlaOp, reps: int | Sequence[int]) -> XlaOp:
    """Repeat an array along dimensions.

    Args:
        x: an array without bounded sizes.
        reps: the number of repetitions for each dimension, aligned at the last dimension; missing
            numbers are 1. If there are more numbers than dimensions, dimensions are added in front.
            If several sizes are unbounded, their dimensions must not be repeated.

    Raises:
        ShapeInferenceError: a number is negative; a size is bounded; one of several unbounded sizes
            would be repeated.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.tile(xb.XlaBuilder().parameter(xb.f32[4, 3]), (2, 1, 2)).shape
        f32[2,4,6]
    """
    shape = array_argument("tile", "x", x)
    closed_argument("tile", "x", shape)
    given = one_or_several("tile", "reps", reps)
    for number in given:
        natural("tile", "each entry of reps", number)
    rank = max(shape.rank, len(given))
    counts = (1,) * (rank - len(given)) + given
    sizes = (1,) * (rank - shape.rank) + shape.dimensions
    paired = [part for pair in zip(counts, sizes, strict=True) for part in pair]
    target = range(2 * (rank - shape.rank) + 1, 2 * rank, 2)
    wide = broadcast_along(x, paired, target, x)
    new = [_times(size, count) for count, size in zip(counts, sizes, strict=True)]
    return reshaped_to_multiples(wide, new, x, counts)


def _times(size: int, count: int) -> int:
    """Return a multiple of a size, which may be unbounded."""
    return size if size == UNBOUNDED else size * count


@library_function("BroadcastTo")
def broadcast_to(x: XlaOp, sizes: Sequence[int]) -> XlaOp:
    """Repeat an array to sizes that are multiples of its own.

    Args:
        x: an array. Its dimensions are aligned at the last one.
        sizes: the sizes of the result. Each is a multiple of the array's size: the array is
            repeated as by `tile`.

    Raises:
        ShapeInferenceError: the array has more dimensions, or a size is not a multiple; a dynamic
            size is not equal to its bound; a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[2, 1])
        >>> lib.broadcast_to(x, [5, 4, 3]).shape
        f32[5,4,3]
    """
    op = "broadcast_to"
    shape = array_argument(op, "x", x)
    bounded_argument(op, "x", shape)
    new_sizes = integers(op, "sizes", sizes)
    first = len(new_sizes) - shape.rank
    pairs = list(zip(shape.dimensions, new_sizes[max(first, 0) :], strict=False))
    if first < 0 or any(new != old and (not old or new % old) for old, new in pairs):
        rule = "each size must be a multiple of the array's"
        fix = "sizes are aligned at the last dimension"
        raise error_of(ShapeInferenceError, op, rule, fix, got=f"{list(new_sizes)} for {shape}")
    if all(old in (1, new) for old, new in pairs):
        is_same = shape.dimensions == new_sizes
        return x if is_same else broadcast_in_dim(x, new_sizes, range(first, len(new_sizes)))
    reps = [*new_sizes[:first], *(new // old if old else 1 for old, new in pairs)]
    return tile(x, reps)


@library_function()
def repeat(x: XlaOp, repeats: int, axis: int) -> XlaOp:
    """Repeat each element along a dimension.

    Args:
        x: an array without bounded sizes.
        repeats: the number of repetitions.
        axis: a dimension. If several sizes are unbounded, the size of this dimension must be fixed.

    Raises:
        ShapeInferenceError: the number is negative; the dimension is out of range; a size is
            bounded; the dimension has one of several unbounded sizes.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.repeat(xb.XlaBuilder().parameter(xb.f32[4, 3]), 2, axis=0).shape
        f32[8,3]
    """
    shape = array_argument("repeat", "x", x)
    closed_argument("repeat", "x", shape)
    number = axis_argument("repeat", "axis", axis, shape.rank)
    count = natural("repeat", "repeats", repeats)
    sizes = list(shape.dimensions)
    paired = [*sizes[: number + 1], count, *sizes[number + 1 :]]
    wide = broadcast_along(x, paired, [n + (n > number) for n in range(shape.rank)], x)
    sizes[number] = _times(sizes[number], count)
    counts = [count if n == number else 1 for n in range(len(sizes))]
    return reshaped_to_multiples(wide, sizes, x, counts)


@library_function()
def linspace(
    builder: XlaBuilder,
    start: float,
    stop: float,
    num: int,
    element_type: PrimitiveTypeLike = f32,
    endpoint: bool = True,
) -> XlaOp:
    """Return evenly spaced numbers of an interval, as a constant.

    The numbers are computed in double precision and rounded once.

    Args:
        builder: records the constant.
        start: the first number.
        stop: the last number.
        num: how many numbers.
        element_type: a floating-point type.
        endpoint: whether `stop` is the last number; otherwise it would be the next one.

    Raises:
        OperandError: `start` or `stop` is not a finite number.
        ShapeInferenceError: `num` is negative or above 2**24; the type is not a floating-point
            type; `endpoint` is not a bool.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.linspace(xb.XlaBuilder(), 0, 1, 5).attributes["value"]
        array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    kind = element_type_argument("linspace", "element_type", element_type)
    if not kind.is_floating:
        rule = "element_type must be a floating-point type"
        raise error_of(ShapeInferenceError, "linspace", rule, got=kind)
    ends = finite_number("linspace", "start", start), finite_number("linspace", "stop", stop)
    count = natural("linspace", "num", num)
    if count > _LONGEST_CONSTANT:
        rule = f"num must be at most {_LONGEST_CONSTANT}, the length of a constant"
        fix = "compute longer arrays with ops of builder.iota"
        raise error_of(ShapeInferenceError, "linspace", rule, fix, got=count)
    flag("linspace", "endpoint", endpoint)
    with np.errstate(all="ignore"):
        values = np.linspace(*ends, count, endpoint=bool(endpoint))
        return builder.constant(values.astype(kind.dtype))


_LONGEST_CONSTANT: Final = 2**24


@library_function("IdentityMatrix")
def eye(
    builder: XlaBuilder, n: int, m: int | None = None, element_type: PrimitiveTypeLike = f32
) -> XlaOp:
    """Return a matrix with ones on the diagonal and zeros elsewhere.

    Args:
        builder: records the matrix.
        n: the number of rows.
        m: the number of columns; by default `n`.
        element_type: the element type.

    Raises:
        ShapeInferenceError: a size is negative.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.eye(xb.XlaBuilder(), 3, element_type=xb.bf16).shape
        bf16[3,3]
    """
    kind = element_type_argument("eye", "element_type", element_type)
    return as_type(ew.eq(*_rows_and_columns("eye", builder, n, m)), kind)


@library_function()
def tri(
    builder: XlaBuilder,
    n: int,
    m: int | None = None,
    k: int = 0,
    element_type: PrimitiveTypeLike = f32,
) -> XlaOp:
    """Return a matrix with ones at and below a diagonal, and zeros above it.

    Args:
        builder: records the matrix.
        n: the number of rows.
        m: the number of columns; by default `n`.
        k: the diagonal: 0 for the main one, 1 for the one above it, -1 for the one below it.
        element_type: the element type; `xb.pred` for a mask.

    Raises:
        ShapeInferenceError: a size is negative.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.tri(xb.XlaBuilder(), 3, 4, element_type=xb.pred).shape
        pred[3,4]
    """
    kind = element_type_argument("tri", "element_type", element_type)
    rows, columns = _rows_and_columns("tri", builder, n, m)
    # Any diagonal outside the matrix is all ones or all zeros, so the sum can't overflow.
    limit = shape_of(rows).dimensions
    diagonal = min(max(integer("tri", "k", k), -limit[0]), limit[1])
    return as_type(ew.ge(rows + diagonal, columns), kind)


@library_function()
def one_hot(
    indices: XlaOp, num_classes: int, element_type: PrimitiveTypeLike = f32, axis: int = -1
) -> XlaOp:
    """Return ones at indices along a new dimension, and zeros elsewhere.

    Args:
        indices: an array of integers. An index outside of the classes gives only zeros.
        num_classes: the size of the new dimension.
        element_type: the element type of the result.
        axis: the number of the new dimension in the result.

    Raises:
        ShapeInferenceError: the indices are not integers; `num_classes` is negative; the axis is
            out of range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.one_hot(xb.XlaBuilder().parameter(xb.s32[4]), 10).shape
        f32[4,10]
    """
    shape = indices_argument("one_hot", "indices", indices)
    kind = element_type_argument("one_hot", "element_type", element_type)
    count = natural("one_hot", "num_classes", num_classes)
    new = axis_argument("one_hot", "axis", axis, shape.rank + 1)
    # In 64 bits, a narrow type of indices can't count the classes twice.
    wide = as_type(indices, s64 if shape.element_type.is_signed else u64)
    sizes = (*shape.dimensions[:new], count, *shape.dimensions[new:])
    if not shape.is_bounded:
        classes = indices.builder.iota(shape_of(wide).element_type[count], 0)
        alone = [count if n == new else 1 for n in range(len(sizes))]
        return as_type(ew.eq(_with_one(wide, (new,)), reshape(classes, alone)), kind)
    classes = indices.builder.iota(shape_of(wide).element_type[sizes], new)
    return as_type(ew.eq(classes, wide, [n + (n >= new) for n in range(shape.rank)]), kind)


@library_function()
def take(x: XlaOp, indices: XlaOp, axis: int) -> XlaOp:
    """Return the parts of an array at indices along a dimension.

    Args:
        x: an array; the dimension has a fixed size of at least 1.
        indices: an array of integers. Negative ones count from the end; indices out of
            range are clamped to the range, as in XLA.
        axis: a dimension.

    Returns:
        An array of x's sizes with the sizes of `indices` in place of the dimension.

    Raises:
        ShapeInferenceError: the indices are not integers; the dimension is out of range, empty or
            of dynamic size; x has an unbounded size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> table, tokens = b.parameter(xb.f32[100, 8]), b.parameter(xb.s32[2, 5])
        >>> lib.take(table, tokens, axis=0).shape
        f32[2,5,8]
    """
    shape = array_argument("take", "x", x)
    positions, number = _positions("take", shape, indices, axis)
    bounded_argument("take", "x", shape)
    return gather_parts(x, positions, number)


@library_function()
def take_along_axis(x: XlaOp, indices: XlaOp, axis: int) -> XlaOp:
    """Return elements at indices along a dimension; each row has its own indices.

    Args:
        x: an array; the dimension has a fixed size of at least 1.
        indices: an array of integers, with x's sizes except along the dimension. Negative ones
            count from the end; indices out of range are clamped to the range, as in XLA.
        axis: a dimension.

    Returns:
        An array of the sizes of `indices`.

    Raises:
        ShapeInferenceError: the indices are not integers; the ranks or sizes differ; the dimension
            is out of range, empty or of dynamic size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> scores, labels = b.parameter(xb.f32[4, 10]), b.parameter(xb.s32[4, 1])
        >>> lib.take_along_axis(scores, labels, axis=1).shape
        f32[4,1]
    """
    positions, number = _positions_along("take_along_axis", x, indices, axis)
    return gather_along(x, positions, number)


@library_function()
def put_along_axis(x: XlaOp, indices: XlaOp, values: Operand, axis: int) -> XlaOp:
    """Replace elements of an array at indices along a dimension; each row has its own indices.

    Args:
        x: an array; the dimension has a fixed size of at least 1.
        indices: an array of integers, with x's sizes except along the dimension. Negative ones
            count from the end; indices out of range are skipped. If an index occurs twice in a row,
            the element is one of the two values.
        values: an array of the sizes of `indices` and of x's element type, a scalar, or a number.
        axis: a dimension.

    Returns:
        An array of the shape of x.

    Raises:
        ShapeInferenceError: the indices are not integers; the ranks, sizes or element types differ;
            the dimension is out of range, empty or of dynamic size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, best = b.parameter(xb.f32[4, 10]), b.parameter(xb.s32[4, 1])
        >>> lib.put_along_axis(x, best, 0.0, axis=1).shape
        f32[4,10]
    """
    positions, number = _positions_along("put_along_axis", x, indices, axis)
    shape, sizes = shape_of(x), shape_of(indices).dimensions
    if not isinstance(values, XlaOp) and is_number(values):
        values = number_as("put_along_axis", values, shape.element_type, x)
    updates = need_op("put_along_axis", "values", values)
    given = array_argument("put_along_axis", "values", updates)
    if not given.rank:
        updates = broadcast_scalar(
            updates, shape_of(indices).with_element_type(shape.element_type), [indices]
        )
    elif given.dimensions != sizes:
        rule = f"values must be a scalar or have the sizes of indices, {list(sizes)}"
        raise error_of(ShapeInferenceError, "put_along_axis", rule, got=given)
    rest = tuple(n for n in range(shape.rank) if n != number)
    numbers = ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=(number,),
        scatter_dims_to_operand_dims=(number,),
        input_batching_dims=rest,
        scatter_indices_batching_dims=rest,
        index_vector_dim=shape.rank,
    )
    return scatter(x, positions, updates, _last, numbers)


def _last(_: XlaOp, new: XlaOp) -> XlaOp:
    return new


def _positions_along(op: str, x: XlaOp, indices: XlaOp, axis: int) -> tuple[XlaOp, int]:
    """Return the indices, counted from 0, and the number of the dimension."""
    shape = array_argument(op, "x", x)
    if indices_argument(op, "indices", indices).rank != shape.rank:
        rule = "x and indices must have one rank"
        fix = "insert dimensions with lib.expand_dims"
        raise error_of(ShapeInferenceError, op, rule, fix, got=f"{shape} and {indices.shape}")
    return _positions(op, shape, indices, axis)


def _positions(op: str, shape: ArrayShape, indices: XlaOp, axis: int) -> tuple[XlaOp, int]:
    """Return the indices, counted from 0, and the number of the dimension."""
    kind = indices_argument(op, "indices", indices).element_type
    number = axis_argument(op, "axis", axis, shape.rank)
    size = indexed_size(op, "x", shape, number)
    if not kind.is_signed:
        return indices, number
    # The type must hold the size, which is added to negative indices.
    wide = as_type(indices, s64 if kind.bits > s32.bits or size > s32.max else s32)
    return ew.select(wide < 0, wide + size, wide), number


def _with_one(x: XlaOp, axes: tuple[int, ...]) -> XlaOp:
    """Return `x` with dimensions of size 1 at the numbers `axes` of the result."""
    shape = shape_of(x)
    sizes = iter(shape.dimensions)
    return reshape(x, [1 if n in axes else next(sizes) for n in range(shape.rank + len(axes))])


def _rows_and_columns(op: str, builder: XlaBuilder, n: int, m: int | None) -> tuple[XlaOp, XlaOp]:
    if isinstance(n, PrimitiveType):
        rule = "n must be an integer"
        raise error_of(
            ShapeInferenceError,
            op,
            rule,
            f"write lib.{op}(builder, n, element_type=xb.{n})",
            got=f"the element type {n}",
        )
    rows = natural(op, "n", n)
    columns = rows if m is None else natural(op, "m", m)
    index = s32 if max(rows, columns) < s32.max // 2 else s64
    shape = index[rows, columns]
    return builder.iota(shape, 0), builder.iota(shape, 1)


def _broadcast_sizes(op: str, arrays: Sequence[XlaOp]) -> ArrayShape:
    """Return a shape of the sizes to which NumPy broadcasts `arrays`."""
    shapes = [shape_of(array) for array in arrays]
    largest = max(shapes, key=lambda shape: shape.rank)
    dimensions = [shape.dimensions for shape in shapes]
    if all(
        shape.dimensions == largest.dimensions
        and shape.dynamic_dimensions == largest.dynamic_dimensions
        for shape in shapes
    ):
        return largest
    for shape in shapes:
        static_argument(op, "an array to broadcast", shape)
    try:
        sizes = np.broadcast_shapes(*dimensions)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        rule = "the shapes can't be broadcast to one"
        fix = "sizes aligned at the last dimension must be equal or 1"
        raise error_of(ShapeInferenceError, op, rule, fix, got=listed) from None
    return largest.element_type[sizes]


def _broadcast_to(x: XlaOp, target: ArrayShape) -> XlaOp:
    """Return `x` repeated to the sizes of `target`, aligned at the last dimension."""
    shape = shape_of(x)
    if shape.dimensions == target.dimensions:
        return x
    first = target.rank - shape.rank
    return broadcast_in_dim(x, target.dimensions, range(first, target.rank))
