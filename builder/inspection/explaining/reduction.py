"""Reductions, windows, sorts.

StableHLO specification: reduce, reduce_window, select_and_scatter, sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cmp_to_key
from typing import Final

import numpy as np

from builder.inspection.explaining.elements import (
    Context,
    Outcome,
    Rule,
    join_of,
    joined,
    moved,
    one_operand,
    sizes_of,
)
from builder.inspection.explaining.scalars import is_true

_Index = tuple[int, ...]


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


RULES: Final[Mapping[str, Rule]] = {
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
}
