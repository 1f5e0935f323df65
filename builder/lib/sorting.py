"""The k largest elements, exact and approximate, the order of the elements, and comparators.

A comparator takes two scalars of each operand, (lhs 0, rhs 0, lhs 1, rhs 1, ...), and returns
whether the lhs elements come before the rhs elements.
Floating point is compared in its total order, -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN.

XLA: comparators.h, sorting.h and approx_top_k.h of the client library. Their TopK is `xb.top_k`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from builder.checking import Check, flag, integer, same_sizes
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import as_computation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    axis_argument,
    bounded_argument,
    fixed_size,
    real_number,
    shape_of,
)
from builder.lib.dynamic import closed_argument, indices_of
from builder.lib.registry import library_function
from builder.lib.slicing import gather_along
from builder.ops import elementwise as ew
from builder.ops.control_flow import call, get_tuple_element, tuple as tuple_
from builder.ops.operands import need_ops, scalars_of
from builder.ops.reduction import reduce, sort, top_k as top_k_
from builder.ops.reshaping import broadcast, concatenate, pad_in_dim, reshape, slice_in_dim
from builder.types.primitive_type import (
    PrimitiveType,
    PrimitiveTypeLike,
    element_type_argument,
    pred,
    s32,
    s64,
)
from builder.types.shape import UNBOUNDED, ArrayShape

Comparison = Callable[[XlaOp, XlaOp], XlaOp]
"""A function of two scalars that returns a pred, such as ``xb.lt_total_order``."""


@library_function("CreateScalarComparisonComputation")
def create_scalar_comparison_computation(
    name: str,
    operand_types: Sequence[PrimitiveTypeLike],
    comparators: Sequence[Comparison | None],
) -> XlaComputation:
    """Return a comparator that compares the elements of several operands in their order.

    Each operand with a comparator decides only where the operands before it are equal.

    Args:
        name: the name of the computation.
        operand_types: the element types of the operands.
        comparators: a function such as ``xb.lt_total_order`` for each operand, or None for an
            operand that is not compared. At least one is not None.

    Raises:
        OperandError: there is not one comparator or None for each operand; all are None.
        ShapeInferenceError: a comparator does not support the type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> by_score_then_key = lib.create_scalar_comparison_computation(
        ...     "by_score", [xb.f32, xb.s32], [xb.gt_total_order, xb.lt]
        ... )
        >>> b = xb.XlaBuilder()
        >>> xb.sort([b.parameter(xb.f32[9]), b.parameter(xb.s32[9])], by_score_then_key).shape
        (f32[9], s32[9])
    """
    op = "create_scalar_comparison_computation"
    types = _types(op, operand_types)
    functions = list(comparators) if isinstance(comparators, Iterable) else []
    if len(functions) != len(types) or not any(map(callable, functions)):
        rule = f"comparators must have a function or None for each operand: {len(types)}"
        fix = "write xb.lt_total_order or xb.gt_total_order for one operand at least"
        raise error_of(OperandError, op, rule, fix, got=brief(comparators))
    b = XlaBuilder(name)
    pairs = [
        tuple(b.parameter(kind[()], f"p.{number}.{side}") for side in ("lhs", "rhs"))
        for number, kind in enumerate(types)
    ]
    compared = [
        (pair, function) for pair, function in zip(pairs, functions, strict=True) if function
    ]
    # The last comparison decides if all operands before are equal, and so on to the first.
    (lhs, rhs), function = compared.pop()
    root = function(lhs, rhs)
    for (lhs, rhs), function in reversed(compared):
        root = ew.select(ew.eq_total_order(lhs, rhs), root, function(lhs, rhs))
    return b.build(root)


@library_function("CreateScalarLtComputation")
def create_scalar_lt_computation(operand_types: Sequence[PrimitiveTypeLike]) -> XlaComputation:
    """Return the computation that sorts the first operand in ascending order.

    Args:
        operand_types: the element types of the operands. The elements of the other operands are
            parameters without an effect.

    Raises:
        OperandError: there are no types.
        ShapeInferenceError: the first type is complex.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> ascending = lib.create_scalar_lt_computation([xb.f32, xb.s32])
        >>> b = xb.XlaBuilder()
        >>> xb.sort([b.parameter(xb.f32[9]), b.parameter(xb.s32[9])], ascending).shape
        (f32[9], s32[9])
    """
    return _of_first("create_scalar_lt_computation", operand_types, ew.lt_total_order)


@library_function("CreateScalarGtComputation")
def create_scalar_gt_computation(operand_types: Sequence[PrimitiveTypeLike]) -> XlaComputation:
    """Return the computation that sorts the first operand in descending order.

    See `create_scalar_lt_computation` for the arguments.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> descending = lib.create_scalar_gt_computation([xb.f32])
        >>> xb.sort(xb.XlaBuilder().parameter(xb.f32[9]), descending).shape
        f32[9]
    """
    return _of_first("create_scalar_gt_computation", operand_types, ew.gt_total_order)


def _of_first(
    op: str, operand_types: Sequence[PrimitiveTypeLike], function: Comparison
) -> XlaComputation:
    types = _types(op, operand_types)
    name = "compare_less_than" if function is ew.lt_total_order else "compare_greater_than"
    return create_scalar_comparison_computation(name, types, [function, *[None] * (len(types) - 1)])


def _types(op: str, operand_types: Sequence[PrimitiveTypeLike]) -> list[PrimitiveType]:
    if not isinstance(operand_types, Iterable) or isinstance(operand_types, (str, PrimitiveType)):
        rule = "operand_types must be a list of types"
        raise error_of(
            OperandError,
            op,
            rule,
            "write [xb.f32] for one operand of type f32",
            got=brief(operand_types, 80),
        )
    types = [element_type_argument(op, "operand_types", kind) for kind in operand_types]
    if not types:
        raise error_of(
            OperandError, op, "operand_types must have a type for each operand", got="none"
        )
    return types


Comparator = XlaComputation | Callable[..., Any]
"""The type of a comparator, a computation or a callable: ``(lhs 0, rhs 0, ...) -> pred``."""


@library_function()
def argsort(x: XlaOp, axis: int = -1, descending: bool = False) -> XlaOp:
    """Return the indices that sort an array along a dimension; equal elements keep their order.

    Args:
        x: an array without bounded sizes. Complex numbers are ordered by the real part, then by the
            imaginary part; only the ascending order is supported for them.
        axis: a dimension of fixed size.
        descending: whether the largest element is the first.

    Returns:
        An array of the sizes of x, of type s32, or s64 if s32 can't represent the indices.

    Raises:
        ShapeInferenceError: the dimension is out of range or its size not fixed; a size is bounded;
            x is complex and the order is descending.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.argsort(xb.XlaBuilder().parameter(xb.f32[4, 9])).shape
        s32[4,9]
    """
    shape = array_argument("argsort", "x", x)
    closed_argument("argsort", "x", shape)
    number = axis_argument("argsort", "axis", axis, shape.rank)
    kind = s32 if shape.dimensions[number] <= s32.max else s64
    comparator = None
    if flag("argsort", "descending", descending):
        if shape.element_type.is_complex:
            rule = "complex numbers are sorted in ascending order only"
            raise error_of(ShapeInferenceError, "argsort", rule, got=shape)
        comparator = create_scalar_gt_computation([shape.element_type, kind])
    indices = indices_of(x, kind, number)
    return get_tuple_element(sort([x, indices], comparator, number, is_stable=True), 1)


@library_function("TopKWithPartitions")
def top_k_with_partitions(
    x: XlaOp, k: int, num_partitions: int = 1, element_type: PrimitiveTypeLike = s32
) -> XlaOp:
    """Return the k largest elements along the last dimension, which is divided into partitions.

    The result is that of `xb.top_k`: equal elements keep their order. With more than one partition,
    the k largest elements of each partition are selected first, and the result from these.

    Args:
        x: an array; if there are partitions, the last dimension has a fixed size.
        k: the number of elements.
        num_partitions: the number of parts of the last dimension. If these would have at most k
            elements, the dimension is not divided.
        element_type: the integer type of the indices.

    Returns:
        A tuple of two arrays whose last dimension has size k: the elements, and their indices.

    Raises:
        ShapeInferenceError: the input is a scalar; k is negative or larger than the last dimension;
            there is no partition; `element_type` is not an integer type, or can't represent the
            indices; the last dimension has a dynamic size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 1000])
        >>> lib.top_k_with_partitions(x, 5, num_partitions=8).shape
        (f32[4,5], s32[4,5])
    """
    op = "top_k_with_partitions"
    shape = array_argument(op, "x", x)
    count = integer(op, "k", k)
    partitions = integer(op, "num_partitions", num_partitions)
    kind = element_type_argument(op, "element_type", element_type)
    check = Check(op, x=shape)
    check.that(partitions >= 1, "num_partitions must be at least 1", got=partitions)
    size = shape.dimensions[-1] if shape.rank else 0
    check.that(kind.is_integral, "element_type must be an integer type", got=kind)
    check.that(
        size <= int(kind.max) + 1, f"element_type must represent the index {size - 1}", got=kind
    )
    length = _ratio(size, partitions)
    if partitions == 1 or not 0 < count < length:
        values, indices = top_k_(x, count)
        return tuple_(values, as_type(indices, kind))
    last = shape.rank - 1
    fixed_size(op, "x", shape, last)
    bounded_argument(op, "x", shape)
    full = size // length
    rows = x if full * length == size else slice_in_dim(x, 0, full * length, 1, last)
    major = shape.dimensions[:-1]
    values, indices = top_k_(reshape(rows, [*major, full, length]), count)
    starts = x.builder.iota(s64[full], 0) * length
    positions = ew.add(as_type(indices, s64), starts, [last])
    parts = [reshape(part, [*major, full * count]) for part in (values, positions)]
    if full * length < size:
        rest = slice_in_dim(x, full * length, size, 1, last)
        numbers = x.builder.iota(s64[size - full * length], 0) + full * length
        added = rest, broadcast(numbers, major)
        parts = [concatenate(pair, last) for pair in zip(parts, added, strict=True)]
    values, indices = top_k_(parts[0], count)
    return tuple_(values, as_type(gather_along(parts[1], indices, last), kind))


_LANES = 128
_CHUNK = 1024
"""The numbers of elements that a TPU reduces at once, of arrays and of vectors."""


def _tile(rank: int) -> int:
    return _CHUNK if rank == 1 else _LANES


@library_function("ApproxTopKReductionOutputSize")
def approx_top_k_reduction_output_size(
    input_size: int,
    rank: int,
    top_k: int,
    recall_target: float,
    aggregate_to_topk: bool,
    input_size_override: int = -1,
) -> tuple[int, int]:
    """Return the size of the result of `approx_top_k`, and how far the dimension is reduced.

    The elements are divided into windows whose size is a power of two, and the largest element of
    each window remains. The expected share of the k largest elements that remain is at least the
    recall.

    Args:
        input_size: the size of the dimension.
        rank: the number of dimensions of the array.
        top_k: the number of elements.
        recall_target: the recall, above 0 and at most 1.
        aggregate_to_topk: whether the k largest of the remaining elements are selected.
        input_size_override: if not negative, the size from which the recall is computed, for an
            operand that is a part of an array: the size of the dimension in that array.

    Returns:
        The size of the result, and the logarithm of the window's size to base 2; k and -1 if the
        result is aggregated.

    Raises:
        ShapeInferenceError: the override is less than the size; the recall is out of range. Both
            matter only if there are more elements than a TPU reduces at once.

    Example:
        >>> from builder import lib
        >>> lib.approx_top_k_reduction_output_size(1_000_000, 2, 10, 0.95, False)
        (256, 12)
    """
    op = "approx_top_k_reduction_output_size"
    size, count = integer(op, "input_size", input_size), integer(op, "top_k", top_k)
    tile = _tile(integer(op, "rank", rank))
    recall = _recall(op, recall_target)
    override = integer(op, "input_size_override", input_size_override)
    if flag(op, "aggregate_to_topk", aggregate_to_topk):
        return count, -1
    check = Check(op)
    check.that(size >= 0, "input_size must not be negative", got=size)
    if size <= tile:
        return size, 0
    if 0 <= override < size:
        rule = f"input_size_override must be negative or at least the size, {size}"
        check.fail(rule, got=override)
    logical = override if override >= 0 else size
    if count == 1:
        return tile, _log2_ceil(_ratio(logical, tile))
    if recall == 1:
        return size, 0
    check.that(0 < recall < 1, "recall_target must be above 0 and at most 1", got=recall_target)
    # With M windows, an element of k is the largest of its window with probability
    # (1 - 1 / M)**(k - 1), about exp((1 - k) / M).
    windows = (1 - count) / math.log(recall)
    least = size if windows < 0 else min(max(int(windows), tile), size)
    log2_window = min((logical // least).bit_length() - 1, _log2_ceil(size // tile))
    if log2_window == 0:
        return size, 0
    return _ratio(_ratio(size, tile), 2**log2_window) * tile, log2_window


def _recall(op: str, value: Any) -> float:
    """Return the recall as XLA rounds it, to f32."""
    number = real_number(op, "recall_target", value)
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _ratio(size: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-size // divisor)


def _log2_ceil(value: int) -> int:
    return max(value - 1, 0).bit_length()


@library_function("ApproxTopK")
def approx_top_k(
    operands: Sequence[XlaOp],
    init_values: Sequence[XlaOp],
    top_k: int,
    axis: int,
    comparator: Comparator,
    recall_target: float = 0.9,
    aggregate_to_topk: bool = True,
    reduction_input_size_override: int = -1,
) -> XlaOp:
    """Return approximately the first k elements along a dimension, ordered by `comparator`.

    The elements are divided into windows, and only the first element of each window remains. The
    windows are so small that the expected share of the first k elements that remain is at least the
    recall. A small dimension is not reduced.

    Args:
        operands: arrays of the same sizes; the elements at one index move together, for instance
            scores and their indices.
        init_values: a scalar for each operand, of its element type, that comes last in the order.
            It fills the last windows.
        top_k: the number of elements.
        axis: the dimension; negative numbers count from the end.
        comparator: ``(lhs 0, rhs 0, lhs 1, rhs 1, ...) -> pred``, whether the lhs elements come
            before the rhs elements, such as `create_scalar_gt_computation` returns.
        recall_target: the recall, above 0 and at most 1.
        aggregate_to_topk: whether the k first of the remaining elements are selected, in order. It
            requires at least two operands.
        reduction_input_size_override: see `approx_top_k_reduction_output_size`.

    Returns:
        A tuple of one array for each operand. The size of the dimension is k if the elements are
        aggregated, otherwise the one that `approx_top_k_reduction_output_size` returns.

    Raises:
        OperandError: there are no operands, or not one init value for each.
        ShapeInferenceError: sizes or element types differ; the dimension is out of range; k is
            negative or too large; the dimension is reduced and has a dynamic size.
        SignatureError: the comparator does not have the signature above.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> scores = b.parameter(xb.f32[8, 100_000])
        >>> indices = b.iota(xb.s32[8, 100_000], 1)
        >>> last = [lib.min_value(b, xb.f32), b.constant(-1, xb.s32)]
        >>> descending = lib.create_scalar_gt_computation([xb.f32, xb.s32])
        >>> lib.approx_top_k([scores, indices], last, 10, 1, descending).shape
        (f32[8,10], s32[8,10])
    """
    op = "approx_top_k"
    arrays, inits, order, number = _arguments(
        op, operands, init_values, axis, comparator, recall_target
    )
    shape = shape_of(arrays[0])
    size = shape.dimensions[number]
    count = integer(op, "top_k", top_k)
    is_aggregated = flag(op, "aggregate_to_topk", aggregate_to_topk)
    if size == UNBOUNDED:
        rule = "axis must be a dimension of fixed or bounded size"
        Check(op, operand=shape).fail(rule, got=number, dimension=number)
    if size > _tile(shape.rank):
        override = integer(op, "reduction_input_size_override", reduction_input_size_override)
        arguments = size, shape.rank, count, recall_target, False, override
        output_size, log2_window = approx_top_k_reduction_output_size(*arguments)
        if log2_window:
            arrays = _first_of_windows(op, arrays, inits, order, number, output_size, log2_window)
    if is_aggregated:
        return _first_k(op, arrays, inits, order, number, count)
    return tuple_(*arrays)


@library_function("ApproxTopKFallback")
def approx_top_k_fallback(
    operands: Sequence[XlaOp],
    init_values: Sequence[XlaOp],
    top_k: int,
    axis: int,
    comparator: Comparator,
    recall_target: float = 0.9,
    aggregate_to_topk: bool = True,
    reduction_input_size_override: int = -1,
) -> XlaOp:
    """Return the exact first elements along a dimension, as many as `approx_top_k` returns.

    The elements are sorted, so the recall is 1.

    Args:
        operands, init_values, top_k, axis, comparator, recall_target, aggregate_to_topk:
            see `approx_top_k`. There are at least two operands.
        reduction_input_size_override: see `approx_top_k_reduction_output_size`.

    Returns:
        A tuple of one array for each operand, of the shapes that `approx_top_k` returns.

    Raises:
        OperandError: there are less than two operands, or not one init value for each.
        ShapeInferenceError: see `approx_top_k`.
        SignatureError: the comparator does not have the signature above.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> scores, indices = b.parameter(xb.f32[8, 1000]), b.iota(xb.s32[8, 1000], 1)
        >>> last = [lib.min_value(b, xb.f32), b.constant(-1, xb.s32)]
        >>> descending = lib.create_scalar_gt_computation([xb.f32, xb.s32])
        >>> lib.approx_top_k_fallback([scores, indices], last, 10, 1, descending).shape
        (f32[8,10], s32[8,10])
    """
    op = "approx_top_k_fallback"
    arrays, inits, order, number = _arguments(
        op, operands, init_values, axis, comparator, recall_target
    )
    shape = shape_of(arrays[0])
    count = integer(op, "top_k", top_k)
    override = integer(op, "reduction_input_size_override", reduction_input_size_override)
    arguments = shape.dimensions[number], shape.rank, count, recall_target
    size, _ = approx_top_k_reduction_output_size(*arguments, aggregate_to_topk, override)
    return _first_k(op, arrays, inits, order, number, size)


_Arguments = tuple[tuple[XlaOp, ...], tuple[XlaOp, ...], XlaComputation, int]


def _arguments(
    op: str,
    operands: Sequence[XlaOp],
    init_values: Sequence[XlaOp],
    axis: int,
    comparator: Comparator,
    recall_target: float,
) -> _Arguments:
    """Return the checked operands, init values, comparator and dimension."""
    arrays, inits = need_ops(op, "operand", operands), need_ops(op, "init value", init_values)
    if len(arrays) != len(inits) or not arrays:
        rule = "there must be one init value for each operand"
        raise error_of(OperandError, op, rule, got=f"{len(arrays)} and {len(inits)}")
    shapes = [array_argument(op, f"operand {n}", array) for n, array in enumerate(arrays)]
    starts = [array_argument(op, f"init value {n}", init) for n, init in enumerate(inits)]
    first = shapes[0]
    for n, (shape, start) in enumerate(zip(shapes, starts, strict=True)):
        check = Check(op, **{"operand 0": first, f"operand {n}": shape, f"init value {n}": start})
        check.that(shape.rank > 0, f"operand {n} must have a dimension")
        check.that(same_sizes(shape, first), "the operands must have the same sizes")
        if start.element_type is not shape.element_type:
            rule = f"init value {n} must be of operand {n}'s element type, {shape.element_type}"
            check.fail(rule, got=start)
    number = axis_argument(op, "axis", axis, first.rank)
    _recall(op, recall_target)
    scalars = tuple([one for scalar in scalars_of(op, tuple(shapes)) for one in (scalar, scalar)])
    order = as_computation(op, "comparator", comparator, scalars)
    Check(op).applied(
        "comparator",
        order.signature,
        scalars,
        [pred[()]],
        "lhs 0, rhs 0, lhs 1, rhs 1, ...",
        "whether the lhs elements come before the rhs elements",
    )
    return arrays, inits, order, number


def _first_reducer(order: XlaComputation) -> Callable[..., Any]:
    """Return a reducer of several operands: the elements that come first in the order."""

    def first(*scalars: XlaOp) -> Any:
        half = len(scalars) // 2
        pairs = list(zip(scalars[:half], scalars[half:], strict=True))
        is_before = call(order, *[scalar for pair in pairs for scalar in pair])
        chosen = [ew.select(is_before, lhs, rhs) for lhs, rhs in pairs]
        return chosen[0] if half == 1 else tuple_(*chosen)

    return first


def _reduced(
    arrays: Sequence[XlaOp], inits: Sequence[XlaOp], order: XlaComputation, dimension: int
) -> list[XlaOp]:
    """Return the first elements along a dimension, without that dimension."""
    result = reduce(list(arrays), list(inits), _first_reducer(order), [dimension])
    return [result] if len(arrays) == 1 else list(result)


def _first_of_windows(
    op: str,
    arrays: tuple[XlaOp, ...],
    inits: tuple[XlaOp, ...],
    order: XlaComputation,
    dimension: int,
    output_size: int,
    log2_window: int,
) -> tuple[XlaOp, ...]:
    """Return the first element of each window; the elements of a window are one tile apart."""
    shape = shape_of(arrays[0])
    fixed_size(op, "operand 0", shape, dimension)
    tile = _tile(shape.rank)
    missing = output_size * 2**log2_window - shape.dimensions[dimension]
    divided = []
    for array, init in zip(arrays, inits, strict=True):
        sizes = list(shape_of(array).dimensions)
        sizes[dimension : dimension + 1] = [output_size // tile, 2**log2_window, tile]
        divided.append(reshape(pad_in_dim(array, init, dimension, 0, missing), sizes))
    sizes = [*shape.dimensions[:dimension], output_size, *shape.dimensions[dimension + 1 :]]
    return tuple([reshape(part, sizes) for part in _reduced(divided, inits, order, dimension + 1)])


def _first_k(
    op: str,
    arrays: tuple[XlaOp, ...],
    inits: tuple[XlaOp, ...],
    order: XlaComputation,
    dimension: int,
    count: int,
) -> XlaOp:
    """Return the `count` first elements along a dimension, in order."""
    if len(arrays) < 2:
        rule = "aggregate_to_topk requires at least two operands, as in XLA"
        fix = "add the indices, an iota, as an operand"
        raise error_of(OperandError, op, rule, fix, got="one")
    shape: ArrayShape = shape_of(arrays[0])
    if count == 1:
        sizes = [1 if n == dimension else size for n, size in enumerate(shape.dimensions)]
        return tuple_(*[reshape(part, sizes) for part in _reduced(arrays, inits, order, dimension)])
    ordered = sort(list(arrays), order, dimension)
    return tuple_(*[slice_in_dim(part, 0, count, 1, dimension) for part in ordered])
