"""Rewrites of gathers and scatters that XLA compiles incorrectly, and refusals of bounded sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.schema import Trait, opcodes_with
from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of, integer_of, is_static
from lowering.legalize.registry import ALL_PLATFORMS, Value, refuse, rewrite


@rewrite("stablehlo.dynamic_update_slice", "stablehlo.scatter", platforms=ALL_PLATFORMS)
def updates_at_narrow_indices(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Convert indices to s32, or to s64, if a dimension is larger than their type's maximum.

    XLA computes the last valid index in the type of the indices, and the number wraps: for u8 and
    257 rows it is 0, for s8 and 130 rows -127. jaxlib 0.10 updates other elements, or writes
    outside of the buffer, and drops updates of a scatter. 0.12 does so in a loop whose counter is
    the index.

    Shown by: dynamic_update_slice_at_u8, dynamic_update_slice_in_a_loop_at_u8, scatter_at_u8.
    """
    count = len(operation.operands)
    is_scatter = operation.name == "stablehlo.scatter"
    places = [count // 2] if is_scatter else range(2, count)
    array = b.shape(operation.operands[0])
    if array is None or not places:
        return None
    longest = max(array.dimensions, default=0)
    index_type = b.array_of(operation.operands[places[0]]).element_type
    if longest <= index_type.max:
        return None
    to = pt.s32 if longest <= pt.s32.max else pt.s64
    for place in places:
        operation.operands[place] = b.converted(operation.operands[place], to)
    return operation.results


class Scatter:
    """The operands and the dimension numbers of a scatter.

    Attributes:
        operation: the operation.
        arrays: the arrays to update.
        indices: the index vectors.
        updates: the updates of each array.
        numbers: the dimension numbers.
        shape: the shape of the first array.
        dynamic: for each dimension, whether any of the arrays has a bounded size there.
    """

    def __init__(self, operation: ir.Operation) -> None:
        operands = list(operation.operands)
        count = len(operands) // 2
        self.operation = operation
        self.arrays = operands[:count]
        self.indices = operands[count]
        self.updates = operands[count + 1 :]
        self.numbers = _numbers(operation)
        shapes = [array_of(value) for value in self.arrays]
        self.shape = shapes[0]
        self.dynamic = list(map(any, zip(*(s.dynamic_dimensions for s in shapes), strict=True)))

    def like(
        self,
        b: OpBuilder,
        arrays: Sequence[Value],
        indices: Value,
        attributes: Attributes | None = None,
    ) -> list[Value]:
        """Apply the scatter to other arrays, or at other indices."""
        operands = [*arrays, indices, *self.updates]
        types = [value.type for value in arrays]
        return list(b.like(self.operation, operands, types, attributes).results)

    def with_last_dimension(
        self, b: OpBuilder, *, is_indexed: bool
    ) -> tuple[list[Value], Attributes]:
        """Add a last dimension of size 1 to the arrays.

        Args:
            b: creates the operations.
            is_indexed: whether index vectors consist of one index, along the new dimension.

        Returns:
            The arrays, and the attribute with the new dimension numbers.
        """
        arrays = []
        for value in self.arrays:
            shape = array_of(value)
            marks = (*shape.dynamic_dimensions, False)
            deeper = intern_array(shape.element_type, (*shape.dimensions, 1), marks)
            arrays.append(b("reshape", deeper, [value]))
        numbers, last = self.numbers, self.shape.rank
        attribute = stablehlo.ScatterDimensionNumbers.get(
            list(numbers.update_window_dims),
            [*numbers.inserted_window_dims, last],
            list(numbers.input_batching_dims),
            list(numbers.scatter_indices_batching_dims),
            [last] if is_indexed else list(numbers.scattered_dims_to_operand_dims),
            numbers.index_vector_dim,
            b.context,
        )
        return arrays, {"scatter_dimension_numbers": attribute}

    def restored(
        self, b: OpBuilder, results: Sequence[Value], starts: Sequence[int]
    ) -> list[Value]:
        """Slice padded results to the shapes of the arrays, from the indices `starts` on.

        The last dimension that `with_last_dimension` adds is removed.
        """
        restored = []
        limits = [low + size for low, size in zip(starts, self.shape.dimensions, strict=True)]
        for result, array in zip(results, self.arrays, strict=True):
            if array_of(result).rank == self.shape.rank:
                restored.append(b.sliced(result, starts, limits))
            else:  # with the last dimension
                part = b.sliced(result, [*starts, 0], [*limits, 1])
                restored.append(b("reshape", array.type, [part]))
        return restored

    def windowed_dimensions(self) -> list[tuple[int, int]]:
        """Pairs of a dimension of the arrays, and the window dimension of the updates along it."""
        removed = {*self.numbers.inserted_window_dims, *self.numbers.input_batching_dims}
        windowed = [d for d in range(self.shape.rank) if d not in removed]
        return list(zip(windowed, self.numbers.update_window_dims, strict=True))


def _numbers(operation: ir.Operation) -> stablehlo.ScatterDimensionNumbers:
    return stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])


# Empty index vectors


def _at_zero(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace empty index vectors by index 0 along a new dimension of size 1 of the arrays.

    Return None if the index vectors are not empty.
    """
    if _numbers(operation).scattered_dims_to_operand_dims:
        return None
    scatter = Scatter(operation)
    shape = array_of(scatter.indices)
    if not shape.is_static:
        return None
    sizes = list(shape.dimensions)
    sizes[scatter.numbers.index_vector_dim] = 1  # instead of 0
    arrays, attributes = scatter.with_last_dimension(b, is_indexed=True)
    zeros = b.filled(intern_array(pt.s32, tuple(sizes)), 0)
    results = scatter.like(b, arrays, zeros, attributes)
    return scatter.restored(b, results, [0] * scatter.shape.rank)


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS)
def scatter_into_scalars(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Scatter into arrays of one element where the operands are scalars.

    XLA's compiler expands the scatter to operations that do not pass its verifier, and fails.

    Shown by: scatter_into_scalar.
    """
    is_scalar = ir.RankedTensorType(operation.operands[0].type).rank == 0
    return _at_zero(b, operation) if is_scalar else None


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def scatter_without_index(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Add the index 0 to empty index vectors, along a new dimension of size 1.

    Empty index vectors apply all updates to the same elements. XLA applies only the last update.

    Shown by: scatter_without_index.
    """
    return _at_zero(b, operation)


# Windows partly out of bounds


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS)
def scatter_of_windows(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Pad the operands by the largest overhang of a window, and slice the results.

    StableHLO ignores each update element out of bounds. XLA ignores all elements of a window that
    is partly out of bounds.

    Shown by: scatter_window_outside.
    """
    if not _numbers(operation).update_window_dims:
        return None
    scatter = Scatter(operation)
    overhang = _overhang(scatter)
    if not any(overhang) or _is_in_bounds(scatter, overhang):
        return None
    arrays = [
        b.padded(value, b.number(0, array_of(value).element_type), overhang, overhang)
        for value in scatter.arrays
    ]
    indices = b.on_fixed_sizes(
        [scatter.indices], lambda value: _into_padded(b, scatter, value, overhang)
    )
    return scatter.restored(b, scatter.like(b, arrays, indices), overhang)


def _overhang(scatter: Scatter) -> list[int]:
    """How far a window can be out of bounds and still overlap the array, for each dimension."""
    updates = array_of(scatter.updates[0])
    overhang = [0] * scatter.shape.rank
    for d, place in scatter.windowed_dimensions():
        is_indexed = d in scatter.numbers.scattered_dims_to_operand_dims
        if is_indexed and not (scatter.dynamic[d] or updates.dynamic_dimensions[place]):
            overhang[d] = max(updates.dimensions[place] - 1, 0)
    return overhang


def _is_in_bounds(scatter: Scatter, overhang: Sequence[int]) -> bool:
    """Whether the indices show that no window is partly out of bounds.

    This is so in programs of jax that update slices at constant or clamped indices. Along a
    dimension without overhang, a window is either in bounds or out of bounds.
    """
    vector, sizes = scatter.numbers.index_vector_dim, scatter.shape.dimensions
    ranges: _Ranges = {}
    for position, d in enumerate(scatter.numbers.scattered_dims_to_operand_dims):
        if overhang[d]:
            known = _range(_part(scatter.indices, vector, position), 8, ranges)
            if known is None or known[0] < 0 or known[1] + overhang[d] >= sizes[d]:
                return False
    return True


def _part(value: Value, dimension: int, position: int) -> Value:
    """The operand at index `position` of a concatenation along `dimension`, or the value itself."""
    while not isinstance(value.owner, ir.Block):
        operation = value.owner.operation
        if operation.name != "stablehlo.concatenate":
            break
        if integer_of(operation, "dimension") != dimension:
            break
        for operand in operation.operands:
            size = array_of(operand).dimensions[dimension]
            if position < size:
                value = operand
                break
            position -= size
    return value


_Ranges = dict[tuple[Value, int], tuple[int, int] | None]
"""The results of `_range`, by value and depth."""

_MAX_CONSTANT_ELEMENTS: Final = 1000


_MOVES: Final = opcodes_with(Trait.MOVES)


def _range(value: Value, depth: int, known: _Ranges) -> tuple[int, int] | None:
    """Return a lower and an upper bound on the elements of a value; None if unknown.

    Args:
        value: the integers.
        depth: the number of operations to look back.
        known: the ranges computed so far; operations may share operands.
    """
    key = value, depth
    if key not in known:
        known[key] = _compute_range(value, depth, known)
    return known[key]


def _compute_range(value: Value, depth: int, known: _Ranges) -> tuple[int, int] | None:
    if not depth or isinstance(value.owner, ir.Block):
        return None
    operation = value.owner.operation
    name = operation.name.removeprefix("stablehlo.")
    element_type = array_of(value).element_type
    if name == "constant":
        if element_type.bits < 8:
            return None  # MLIR's Python bindings can't read such constants
        elements = operation.attributes["value"]
        if not isinstance(elements, ir.DenseIntElementsAttr) or not len(elements):
            return None
        count = 1 if elements.is_splat else len(elements)
        if count > _MAX_CONSTANT_ELEMENTS:
            return None
        numbers = [elements[position] for position in range(count)]
        return min(numbers), max(numbers)
    if name == "convert":
        source = _range(operation.operands[0], depth - 1, known)
        if source is None or source[0] < element_type.min or source[1] > element_type.max:
            return None
        return source
    if name not in _MOVES and name not in ("clamp", "minimum"):
        return None
    operands = list(operation.operands)
    if name == "clamp":
        del operands[1]
    ranges = []
    for operand in operands:
        operand_range = _range(operand, depth - 1, known)
        if operand_range is None:
            return None
        ranges.append(operand_range)
    least = min(low for low, _ in ranges)
    if name == "clamp":
        return least, ranges[1][1]
    return least, (min if name == "minimum" else max)(high for _, high in ranges)


def _into_padded(b: OpBuilder, scatter: Scatter, value: Value, overhang: Sequence[int]) -> Value:
    """Convert indices of fixed sizes to indices into the padded arrays.

    Indices far out of bounds are clamped first, so that the sums do not overflow.
    """
    source = array_of(value)
    if source.element_type is pt.u64:
        value = b.elementwise("minimum", value, b.filled(source, pt.s64.max))
    value = b.converted(value, pt.s64)
    shape = array_of(value)
    sizes, vector = scatter.shape.dimensions, scatter.numbers.index_vector_dim
    indexed = scatter.numbers.scattered_dims_to_operand_dims

    def along(numbers: list[int]) -> Value:
        """Broadcast numbers along the dimension of index vectors."""
        if vector == shape.rank:
            return b.filled(shape, numbers[0])
        return b.spread(b.array(numbers, pt.s64), shape, [vector])

    least = along([-overhang[d] - 1 for d in indexed])
    greatest = along([sizes[d] for d in indexed])
    value = b("clamp", shape, [least, value, greatest])
    return b.elementwise("add", value, along([overhang[d] for d in indexed]))


# Equal operands


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS)
def scatter_into_equal_values(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Pad operands of the same element type with different elements, and slice the results.

    If several operands of a scatter are the same value, XLA merges their results too, although the
    updates differ. Later passes of XLA may also merge different values that prove to be equal.

    Shown by: scatter_into_one_value_twice.
    """
    count = len(operation.operands) // 2
    if count == 1 or len({b.element_type(v) for v in list(operation.operands)[:count]}) == count:
        return None
    scatter = Scatter(operation)
    arrays, attributes = scatter.arrays, None
    rank, batching = scatter.shape.rank, scatter.numbers.input_batching_dims
    candidates = [d for d in range(rank) if d not in batching and not scatter.dynamic[d]]
    if not candidates:
        arrays, attributes = scatter.with_last_dimension(b, is_indexed=False)
        candidates, rank = [rank], rank + 1
    high = [int(d == candidates[0]) for d in range(rank)]
    padded = []
    for index, value in enumerate(arrays):
        # The added elements are the binary digits of the operand's number.
        for digit in range((count - 1).bit_length()):
            bit = b.number(index >> digit & 1, array_of(value).element_type)
            value = b.padded(value, bit, [0] * rank, high)
        padded.append(value)
    results = scatter.like(b, padded, scatter.indices, attributes)
    return scatter.restored(b, results, [0] * scatter.shape.rank)


# Bounded sizes


def _is_supported(operation: ir.Operation) -> bool:
    if all(is_static(operand.type) for operand in operation.operands):
        return True
    scatter = Scatter(operation)
    updates = array_of(scatter.updates[0]).dynamic_dimensions
    has_empty_vectors = not scatter.numbers.scattered_dims_to_operand_dims
    return not (
        len(scatter.arrays) > 1
        or (has_empty_vectors and not is_static(scatter.indices.type))
        or any(
            updates[place] and not scatter.dynamic[d] for d, place in scatter.windowed_dimensions()
        )
    )


refuse(
    "stablehlo.scatter",
    "cpu",
    "gpu",
    reason="XLA replaces a bounded size by its bound, or aborts, if a scatter with bounded sizes "
    "has several operands, a window of bounded size in an operand of fixed size, or a bounded "
    "number of empty index vectors",
    fix="make the sizes fixed with xb.remove_dynamic_dimension, and set the indices of unused "
    "updates out of bounds",
    unless=_is_supported,
)
