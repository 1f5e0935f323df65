"""Scatters that XLA gets wrong, and those of bounded sizes that it does not support."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of
from lowering.legalize.registry import ALL_PLATFORMS, Value, refuse, rewrite


class _Scatter:
    """The operands of a scatter by their parts, and its dimension numbers.

    Attributes:
        operation: the operation.
        arrays: the arrays that are updated.
        indices: the index vectors.
        updates: as many as arrays.
        numbers: the dimension numbers.
        shape: the shape of the first array.
        dynamic: for each dimension of the arrays whether one of them has a bounded size there.
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
        """The results of the scatter of other arrays, or at other indices."""
        operands = [*arrays, indices, *self.updates]
        types = [value.type for value in arrays]
        return list(b.like(self.operation, operands, types, attributes).results)

    def with_last_dimension(
        self, b: OpBuilder, *, is_indexed: bool
    ) -> tuple[list[Value], Attributes]:
        """The arrays with a last dimension of size 1, and the dimension numbers of the scatter.

        Args:
            b: creates the operations.
            is_indexed: whether index vectors have one number, the index in that dimension.
        """
        arrays = []
        for value in self.arrays:
            shape = array_of(value)
            marks = (*shape.dynamic_dimensions, False)
            deeper = intern_array(shape.element_type, (*shape.dimensions, 1), marks)
            arrays.append(b("reshape", deeper, [value]))
        numbers, last = self.numbers, self.shape.rank
        found = stablehlo.ScatterDimensionNumbers.get(
            list(numbers.update_window_dims),
            [*numbers.inserted_window_dims, last],
            list(numbers.input_batching_dims),
            list(numbers.scatter_indices_batching_dims),
            [last] if is_indexed else list(numbers.scattered_dims_to_operand_dims),
            numbers.index_vector_dim,
            b.context,
        )
        return arrays, {"scatter_dimension_numbers": found}

    def restored(
        self, b: OpBuilder, results: Sequence[Value], starts: Sequence[int]
    ) -> list[Value]:
        """The parts of padded results that begin here, in the shapes of the arrays."""
        found = []
        limits = [low + size for low, size in zip(starts, self.shape.dimensions, strict=True)]
        for result, array in zip(results, self.arrays, strict=True):
            if array_of(result).rank == self.shape.rank:
                found.append(b.sliced(result, starts, limits))
            else:  # with the last dimension
                part = b.sliced(result, [*starts, 0], [*limits, 1])
                found.append(b("reshape", array.type, [part]))
        return found


def _numbers(operation: ir.Operation) -> stablehlo.ScatterDimensionNumbers:
    return stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])


# Index vectors of no numbers.


def _at_zero(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """The scatter with an index of 0, in a new dimension of size 1 of the arrays."""
    if _numbers(operation).scattered_dims_to_operand_dims:
        return None
    scatter = _Scatter(operation)
    shape = array_of(scatter.indices)
    if not shape.is_static:
        return None
    sizes = list(shape.dimensions)
    sizes[scatter.numbers.index_vector_dim] = 1  # it is 0
    arrays, attributes = scatter.with_last_dimension(b, is_indexed=True)
    zeros = b.filled(intern_array(pt.s32, tuple(sizes)), 0)
    results = scatter.like(b, arrays, zeros, attributes)
    return scatter.restored(b, results, [0] * scatter.shape.rank)


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS)
def scatter_into_scalars(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Scatter into arrays of one element where the operands are scalars.

    XLA's compiler expands the scatter to operations that do not verify.

    Shown by: scatter_into_scalar.
    """
    is_scalar = ir.RankedTensorType(operation.operands[0].type).rank == 0
    return _at_zero(b, operation) if is_scalar else None


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS, fixed_in=(0, 12))
def scatter_without_index(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Give index vectors of no numbers one number, 0, in a new dimension of size 1.

    All updates go to one place then, and XLA applies only the last of them.

    Shown by: scatter_without_index.
    """
    return _at_zero(b, operation)


# Windows partly outside.


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS)
def scatter_of_windows(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Pad the operands by as much as a window can reach over their ends, and cut the results.

    StableHLO drops the updates outside of the operand one by one. XLA drops all updates of a
    window that lies partly outside.

    Shown by: scatter_window_outside.
    """
    if not _numbers(operation).update_window_dims:
        return None
    scatter = _Scatter(operation)
    reach = _reach(scatter)
    if not any(reach) or _is_inside(scatter, reach):
        return None
    arrays = [
        b.padded(value, b.number(0, array_of(value).element_type), reach, reach)
        for value in scatter.arrays
    ]
    indices = b.on_fixed_sizes([scatter.indices], lambda value: _moved(b, scatter, value, reach))
    return scatter.restored(b, scatter.like(b, arrays, indices), reach)


def _reach(scatter: _Scatter) -> list[int]:
    """How far a window can lie outside with a part of it inside, for each dimension."""
    numbers, rank = scatter.numbers, scatter.shape.rank
    updates = array_of(scatter.updates[0])
    apart = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windowed = [d for d in range(rank) if d not in apart]
    indexed = numbers.scattered_dims_to_operand_dims
    reach = [0] * rank
    for d, place in zip(windowed, numbers.update_window_dims, strict=True):
        if d in indexed and not (scatter.dynamic[d] or updates.dynamic_dimensions[place]):
            reach[d] = max(updates.dimensions[place] - 1, 0)
    return reach


def _is_inside(scatter: _Scatter, reach: Sequence[int]) -> bool:
    """Whether the indices show that no window lies partly outside of the operand.

    jax writes updates of slices so: at constant indices, or at clamped ones. Only dimensions that
    windows reach along count: beside them a window is inside or outside as one.
    """
    if array_of(scatter.indices).element_type.bits < 8:
        return False  # MLIR's Python does not read such constants
    place = scatter.numbers.index_vector_dim
    for position, d in enumerate(scatter.numbers.scattered_dims_to_operand_dims):
        if not reach[d]:
            continue
        known = _range(_part(scatter.indices, place, position), 8)
        if known is None or known[0] < 0 or known[1] + reach[d] >= scatter.shape.dimensions[d]:
            return False
    return True


def _part(value: Value, dimension: int, position: int) -> Value:
    """The operand that a concatenation along the dimension has at a position, else the value."""
    while not isinstance(value.owner, ir.Block):
        operation = value.owner.operation
        if operation.name != "stablehlo.concatenate":
            break
        if ir.IntegerAttr(operation.attributes["dimension"]).value != dimension:
            break
        for operand in operation.operands:
            size = array_of(operand).dimensions[dimension]
            if position < size:
                value = operand
                break
            position -= size
    return value


def _range(value: Value, depth: int) -> tuple[int, int] | None:
    """The least and the greatest that integers may be; None if unknown.

    Args:
        value: the integers.
        depth: the number of operations to look back.
    """
    if not depth or isinstance(value.owner, ir.Block):
        return None
    operation = value.owner.operation
    name = operation.name.removeprefix("stablehlo.")
    if name == "constant":
        elements = operation.attributes["value"]
        if not isinstance(elements, ir.DenseIntElementsAttr) or not len(elements):
            return None
        count = 1 if elements.is_splat else len(elements)
        if count > 1000:
            return None
        numbers = [elements[position] for position in range(count)]
        return min(numbers), max(numbers)
    if name not in ("broadcast_in_dim", "clamp", "concatenate", "minimum", "reshape"):
        return None
    operands = list(operation.operands)
    if name == "clamp":
        del operands[1]
    found = []
    for operand in operands:
        one = _range(operand, depth - 1)
        if one is None:
            return None
        found.append(one)
    least = min(low for low, _ in found)
    if name == "clamp":
        return least, found[1][1]
    return least, (min if name == "minimum" else max)(high for _, high in found)


def _moved(b: OpBuilder, scatter: _Scatter, value: Value, reach: Sequence[int]) -> Value:
    """Indices of fixed sizes as indices into the padded operands.

    Those further outside are limited first, so that the sums are in range.
    """
    source = array_of(value)
    if source.element_type is pt.u64:
        value = b("minimum", source, [value, b.filled(source, pt.s64.max)])
    value = b.converted(value, pt.s64)
    shape = array_of(value)
    sizes, place = scatter.shape.dimensions, scatter.numbers.index_vector_dim
    indexed = scatter.numbers.scattered_dims_to_operand_dims

    def along(numbers: list[int]) -> Value:
        """Numbers along the dimension of index vectors, or one number throughout."""
        if place == shape.rank:
            return b.filled(shape, numbers[0])
        return b.spread(b.array(numbers, pt.s64), shape, [place])

    least = along([-reach[d] - 1 for d in indexed])
    greatest = along([sizes[d] for d in indexed])
    value = b("clamp", shape, [least, value, greatest])
    return b("add", shape, [value, along([reach[d] for d in indexed])])


# One value as several operands.


@rewrite("stablehlo.scatter", platforms=ALL_PLATFORMS)
def scatter_into_equal_values(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Pad operands of one element type by elements in which they differ, and cut the results.

    Where several operands are one value, XLA makes one of their results too, though the updates
    differ. It finds equal values in later passes; the operation does not show them.

    Shown by: scatter_into_one_value_twice.
    """
    count = len(operation.operands) // 2
    if count == 1 or len({b.element_type(v) for v in list(operation.operands)[:count]}) == count:
        return None
    scatter = _Scatter(operation)
    arrays, attributes = scatter.arrays, None
    rank, batching = scatter.shape.rank, scatter.numbers.input_batching_dims
    places = [d for d in range(rank) if d not in batching and not scatter.dynamic[d]]
    if not places:
        arrays, attributes = scatter.with_last_dimension(b, is_indexed=False)
        places, rank = [rank], rank + 1
    one = [int(d == places[0]) for d in range(rank)]
    marked = []
    for index, value in enumerate(arrays):
        # The binary digits of the operand's number.
        for digit in range((count - 1).bit_length()):
            mark = b.number(index >> digit & 1, array_of(value).element_type)
            value = b.padded(value, mark, [0] * rank, one)
        marked.append(value)
    results = scatter.like(b, marked, scatter.indices, attributes)
    return scatter.restored(b, results, [0] * scatter.shape.rank)


# Bounded sizes.


def _dynamic(value: Value) -> list[bool]:
    """For each dimension whether its size is known only at run time."""
    tensor = ir.RankedTensorType(value.type)
    return [tensor.is_dynamic_dim(d) for d in range(tensor.rank)]


def _is_run_right(operation: ir.Operation) -> bool:
    dynamic = [_dynamic(value) for value in operation.operands]
    if not any(map(any, dynamic)):
        return True
    if len(dynamic) > 3:
        return False
    operand, indices, updates = dynamic
    numbers = _numbers(operation)
    if any(indices) and not numbers.scattered_dims_to_operand_dims:
        return False
    apart = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windowed = [d for d in range(len(operand)) if d not in apart]
    return all(
        operand[d] or not updates[place]
        for d, place in zip(windowed, numbers.update_window_dims, strict=True)
    )


refuse(
    "stablehlo.scatter",
    "cpu",
    "gpu",
    reason="a size of it is bounded where XLA takes the bound for the size, or dies of it: one of "
    "several operands, their indices or updates; one of windows, in an operand of a fixed size; "
    "one of indices that are vectors of no number",
    fix="give updates that are not to count an index outside, and make the sizes fixed with "
    "xb.remove_dynamic_dimension",
    unless=_is_run_right,
)
