"""Reductions, windows, sorts, dot products and convolutions.

StableHLO specification: reduce, reduce_window, select_and_scatter, sort, dot_general, convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Final

import numpy as np

from builder.errors import ShapeInferenceError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_constant, is_parameter
from builder.inspection.explaining.elements import (
    Context,
    Outcome,
    drawn,
    join_of,
    joined,
    moved,
    one_operand,
    sizes_of,
)

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "convert": lambda operand: operand,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.logical_not,
    "or": np.bitwise_or,
    "select": np.where,
    "subtract": np.subtract,
}


def is_true(computation: XlaComputation, *arguments: Any) -> bool:
    """Return whether a computation of numbers, such as a comparator, returns true.

    Raises:
        ShapeInferenceError: the computation has ops other than comparisons and basic arithmetic.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[()], xb.f32[()])
        ... def less(a, b):
        ...     return a < b
        >>> is_true(less, 1, 2)
        True
    """
    values: dict[XlaOp, Any] = {}
    for op in computation.ops:
        operands = [values[operand] for operand in op.operands]
        if is_parameter(op):
            values[op] = arguments[op.attributes["number"]]
        elif is_constant(op):
            values[op] = op.attributes["value"]
        elif op.opcode == "compare":
            values[op] = _COMPARISONS[op.attributes["comparison_direction"]](*operands)
        elif op.opcode in _FUNCTIONS:
            values[op] = _FUNCTIONS[op.opcode](*operands)
        else:
            rule = f"{computation.name!r} has the op {op.opcode}, which pictures do not evaluate"
            fix = "write the comparator with comparisons of its parameters"
            raise error_of(ShapeInferenceError, "explain", rule, fix)
    return bool(values[computation.root])


_Index = tuple[int, ...]


@drawn("reduce")
def _reduce(context: Context) -> Outcome:
    one_operand(context.op, len(context.operands) // 2)
    source, init = context.operands
    dimensions = context.attributes["dimensions"]
    ranges = [source.shape[d] for d in dimensions]

    def terms(index: _Index) -> Iterator[tuple[int, ...]]:
        yield (int(init),)
        for inner in np.ndindex(*ranges):
            kept, reduced = iter(index), dict(zip(dimensions, inner, strict=True))
            place = tuple(reduced[d] if d in reduced else next(kept) for d in range(source.ndim))
            yield (int(source[place]),)

    values = joined(sizes_of(context.op), terms)
    return Outcome([values], join_of(context.attributes["to_apply"]))


def windows(
    sizes: Sequence[int],
    index: _Index,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilations: Sequence[int] = (),
    window_dilations: Sequence[int] = (),
) -> Iterator[tuple[_Index, _Index]]:
    """Iterate over positions in a window and the elements there, without holes and padding.

    Args:
        sizes: the sizes of the array that the window moves over.
        index: the index of the window.
        window, strides, padding, base_dilations, window_dilations: as for `reduce_window`.
    """
    ones = (1,) * len(sizes)
    bases, spreads = base_dilations or ones, window_dilations or ones
    for inner in np.ndindex(*window):
        place = []
        for d, size in enumerate(sizes):
            dilated = index[d] * strides[d] + inner[d] * spreads[d] - padding[d][0]
            if dilated % bases[d] or not 0 <= dilated // bases[d] < size:
                break
            place.append(dilated // bases[d])
        else:
            yield inner, tuple(place)


@drawn("reduce_window")
def _reduce_window(context: Context) -> Outcome:
    one_operand(context.op, len(context.operands) // 2)
    source, init = context.operands
    attributes = context.attributes
    size = int(np.prod(attributes["window_dimensions"]))

    def terms(index: _Index) -> Iterator[tuple[int, ...]]:
        yield (int(init),)
        count = 0
        for _, place in windows(
            source.shape,
            index,
            attributes["window_dimensions"],
            attributes["window_strides"],
            attributes["padding"],
            attributes.get("base_dilations", ()),
            attributes.get("window_dilations", ()),
        ):
            count += 1
            yield (int(source[place]),)
        if count < size:
            context.note("padding and holes in a window have the init value; they are not listed")

    values = joined(sizes_of(context.op), terms)
    return Outcome([values], join_of(attributes["to_apply"]))


@drawn("select_and_scatter")
def _select_and_scatter(context: Context) -> Outcome:
    operand, source, init = context.operands
    attributes = context.attributes
    data = context.data(0, np.random.default_rng(0).integers(0, 10, operand.shape))
    values = joined(operand.shape, lambda _: [(int(init),)])
    for index in np.ndindex(*source.shape):
        selected: _Index | None = None
        for _, place in windows(
            operand.shape,
            index,
            attributes["window_dimensions"],
            attributes["window_strides"],
            attributes["padding"],
        ):
            if selected is None or not is_true(attributes["select"], data[selected], data[place]):
                selected = place
        if selected is not None:
            values[selected] = (*values[selected], (int(source[index]),))
    context.note("each element of source goes to the element that select keeps in its window")
    return Outcome([values], join_of(attributes["scatter"]))


@drawn("sort")
def _sort(context: Context) -> Outcome:
    axis, comparator = context.attributes["dimension"], context.attributes["to_apply"]
    shape = context.operands[0].shape
    data = []
    for number in range(len(context.operands)):
        rng = np.random.default_rng(number)
        example = rng.permutation(int(np.prod(shape))).reshape(shape)
        data.append(context.data(number, example))
    results = [source.copy() for source in context.operands]
    lines = [np.moveaxis(array, axis, -1) for array in data]
    targets = [np.moveaxis(array, axis, -1) for array in results]
    for line in np.ndindex(*lines[0].shape[:-1]):

        def compare(first: int, second: int, line: _Index = line) -> int:
            pairs = [(each[line][first], each[line][second]) for each in lines]
            if is_true(comparator, *[value for pair in pairs for value in pair]):
                return -1
            swapped = [value for pair in pairs for value in reversed(pair)]
            return int(is_true(comparator, *swapped))

        order = sorted(range(shape[axis]), key=cmp_to_key(compare))
        for target in targets:
            target[line] = target[line][order]
    return Outcome([moved(result) for result in results])


@drawn("dot_general")
def _dot_general(context: Context) -> Outcome:
    lhs, rhs = context.operands
    numbers = context.attributes["dimension_numbers"]
    left, right = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    lhs_batch, rhs_batch = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
    lhs_free = [d for d in range(lhs.ndim) if d not in (*left, *lhs_batch)]
    rhs_free = [d for d in range(rhs.ndim) if d not in (*right, *rhs_batch)]
    ranges = [lhs.shape[d] for d in left]
    first_free = len(lhs_batch)
    last_free = first_free + len(lhs_free)

    def terms(index: _Index) -> Iterator[tuple[int, ...]]:
        batch, free = index[:first_free], index[first_free:last_free]
        for inner in np.ndindex(*ranges):
            of_lhs = dict(zip((*lhs_batch, *lhs_free, *left), (*batch, *free, *inner), strict=True))
            others = (*batch, *index[last_free:], *inner)
            of_rhs = dict(zip((*rhs_batch, *rhs_free, *right), others, strict=True))
            yield int(lhs[_place(of_lhs)]), int(rhs[_place(of_rhs)])

    return Outcome([joined(sizes_of(context.op), terms)])


def _place(index: Mapping[int, int]) -> _Index:
    return tuple(index[d] for d in range(len(index)))


@drawn("convolution")
def _convolution(context: Context) -> Outcome:
    lhs, rhs = context.operands
    attributes = context.attributes
    numbers = attributes["dimension_numbers"]
    feature_groups, batch_groups = (
        attributes["feature_group_count"],
        attributes["batch_group_count"],
    )
    sizes = sizes_of(context.op)
    features = sizes[numbers.output_feature_dimension]
    batches = sizes[numbers.output_batch_dimension]
    inputs = rhs.shape[numbers.kernel_input_feature_dimension]
    spatial = [lhs.shape[d] for d in numbers.input_spatial_dimensions]
    window = [rhs.shape[d] for d in numbers.kernel_spatial_dimensions]

    def terms(index: _Index) -> Iterator[tuple[int, ...]]:
        feature = index[numbers.output_feature_dimension]
        batch = index[numbers.output_batch_dimension]
        batch += feature // (features // batch_groups) * batches
        first_input = feature // (features // feature_groups) * inputs
        position = tuple(index[d] for d in numbers.output_spatial_dimensions)
        for inner, place in windows(
            spatial,
            position,
            window,
            attributes["window_strides"],
            attributes["padding"],
            attributes["lhs_dilation"],
            attributes["rhs_dilation"],
        ):
            reversal = attributes["window_reversal"]
            tap = [
                size - 1 - i if is_reversed else i
                for i, size, is_reversed in zip(inner, window, reversal, strict=True)
            ]
            for channel in range(inputs):
                at_lhs = {
                    numbers.input_batch_dimension: batch,
                    numbers.input_feature_dimension: first_input + channel,
                    **dict(zip(numbers.input_spatial_dimensions, place, strict=True)),
                }
                at_rhs = {
                    numbers.kernel_output_feature_dimension: feature,
                    numbers.kernel_input_feature_dimension: channel,
                    **dict(zip(numbers.kernel_spatial_dimensions, tap, strict=True)),
                }
                yield int(lhs[_place(at_lhs)]), int(rhs[_place(at_rhs)])

    return Outcome([joined(sizes, terms)])
