"""How a scatter is written for XLA, where XLA makes something else of its plain words.

Found on jaxlib 0.10 and 0.12, on CPU:

- Of a window that lies partly outside, XLA leaves out all updates, where only those outside are to
  be left out. So the operands are padded, by as much as a window can reach over, and the indices
  are moved; what is then outside altogether is left out, and the padding is cut off again.
- Of several operands that are one value, XLA gives the first one's result for all. So operands
  are padded by some elements in which they differ. (XLA finds out that values are one; it can't
  be known here that they are not.)
- Where the vectors of indices have no numbers, so that all updates go to one place, XLA 0.10
  forgets updates, and scalars are not compiled. So vectors of one number, 0, are put there.

HLO text and StableHLO take the same steps. Dynamic sizes are not padded.
"""

from __future__ import annotations

from functools import lru_cache

from builder.attributes import ScatterDimensionNumbers
from builder.frozen import frozen
from builder.shape import ArrayShape, Shape, intern_array
from builder.workarounds import is_written_out
from builder.xla_op import XlaOp

__all__ = ["ScatterForm", "scatter_form"]


@frozen
class ScatterForm:
    """The steps of a scatter in other words; each is done to all operands alike.

    Attributes:
        dimensions: the sizes that operands are reshaped to first: their own, perhaps with a last
            dimension of size 1.
        low, high: for each dimension the number of elements to pad with.
        marked: the dimension that ends in elements in which the operands differ.
        marks: how many; operand i has the binary digits of i there, the lowest first.
        zeros: the sizes of indices of zeros, to be used instead of the given ones; None for those.
        shifts: for each number of an index vector the least and the greatest that are told apart,
            and what is added then; None where nothing is added.
        numbers: the dimension numbers.
    """

    dimensions: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    marked: int
    marks: int
    zeros: tuple[int, ...] | None
    shifts: tuple[tuple[int, int, int], ...] | None
    numbers: ScatterDimensionNumbers

    def reshaped(self, operand: Shape) -> ArrayShape:
        """The shape of an operand with the sizes `dimensions`."""
        assert isinstance(operand, ArrayShape)  # inference has said so
        dynamic = (*operand.dynamic_dimensions, False)[: len(self.dimensions)]
        return intern_array(operand.element_type, self.dimensions, dynamic)

    def padded(self, operand: Shape, marks: int) -> ArrayShape:
        """The shape of an operand after the padding, so many of the marks with it."""
        array = self.reshaped(operand)
        sizes = [
            size + low + high + (marks if index == self.marked else 0)
            for index, (size, low, high) in enumerate(
                zip(self.dimensions, self.low, self.high, strict=True)
            )
        ]
        return intern_array(array.element_type, tuple(sizes), array.dynamic_dimensions)


def scatter_form(op: XlaOp) -> ScatterForm | None:
    """How a recorded scatter is written; None for in its plain words."""
    if is_written_out(op):
        return None
    count = len(op.operands) // 2
    return _form(
        tuple([o.shape for o in op.operands[:count]]),
        op.operands[count].shape,
        op.operands[count + 1].shape,
        op.attributes["dimension_numbers"],
    )


@lru_cache(maxsize=4096)
def _form(
    operands: tuple[Shape, ...],
    indices: Shape,
    updates: Shape,
    numbers: ScatterDimensionNumbers,
) -> ScatterForm | None:
    arrays = [shape for shape in operands if isinstance(shape, ArrayShape)]
    assert isinstance(indices, ArrayShape)  # inference has said so
    assert isinstance(updates, ArrayShape)
    first = arrays[0]
    dimensions = first.dimensions
    dynamic = tuple(map(any, zip(*(a.dynamic_dimensions for a in arrays), strict=True)))
    low = _reach(first, dynamic, updates, numbers)
    marks = 0
    if len({a.element_type for a in arrays}) < len(arrays):
        marks = (len(arrays) - 1).bit_length()
    is_without_index = not numbers.scatter_dims_to_operand_dims and indices.is_static
    if not (marks or is_without_index or any(low)):
        return None
    from dataclasses import replace  # few scatters need it

    places = [
        d for d in range(len(dimensions)) if d not in numbers.input_batching_dims and not dynamic[d]
    ]
    if not places and (marks or is_without_index):
        # Not one dimension can be padded, or begun at an index: a new one.
        places = [len(dimensions)]
        numbers = replace(
            numbers, inserted_window_dims=(*numbers.inserted_window_dims, len(dimensions))
        )
        dimensions, low = (*dimensions, 1), (*low, 0)
    zeros = None
    if is_without_index:
        numbers = replace(numbers, scatter_dims_to_operand_dims=(places[0],))
        sizes = list(indices.dimensions)
        sizes[numbers.index_vector_dim] = 1
        zeros = tuple(sizes)
    shifts = None
    if any(low):
        shifts = tuple(
            (-low[d] - 1, dimensions[d], low[d]) for d in numbers.scatter_dims_to_operand_dims
        )
    return ScatterForm(
        dimensions=dimensions,
        low=low,
        high=low,
        marked=places[0] if places else 0,
        marks=marks,
        zeros=zeros,
        shifts=shifts,
        numbers=numbers,
    )


def _reach(
    operand: ArrayShape,
    dynamic: tuple[bool, ...],
    updates: ArrayShape,
    numbers: ScatterDimensionNumbers,
) -> tuple[int, ...]:
    """How far a window can lie outside with a part of it still inside, for each dimension."""
    windowed = [
        d
        for d in range(operand.rank)
        if d not in numbers.inserted_window_dims and d not in numbers.input_batching_dims
    ]
    window = dict(zip(windowed, numbers.update_window_dims, strict=True))
    return tuple(
        max(updates.dimensions[window[d]] - 1, 0)
        if d in window
        and d in numbers.scatter_dims_to_operand_dims
        and not dynamic[d]
        and not updates.dynamic_dimensions[window[d]]
        else 0
        for d in range(operand.rank)
    )
