"""Operations that XLA has no rule for if a size is bounded, or a wrong one.

XLA computes on arrays of bounded sizes in their largest size, and masks the elements beyond the
sizes where they would matter. The rewrites here do the same for the operations that XLA gets wrong:
on arrays of the largest sizes, whose results then get their sizes.

They apply to operations with an operand of a bounded size, or that make one, in program order, and
not to the operations that they create.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.op_builder import OpBuilder, array_of
from lowering.legalize.registry import ALL_PLATFORMS, Apply, Rewrite, Value
from lowering.stablehlo.bounded_sizes import ReshapedSize, reshaped_sizes

__all__ = ["BOUNDED", "is_static"]

BOUNDED: Final[list[Rewrite]] = []
"""The rewrites of operations on bounded sizes."""

_SIZE: Final = intern_array(pt.s32, ())


def _bounded(name: str, *, fixed_in: tuple[int, int] | None = None) -> Callable[[Apply], Apply]:
    """Register a rewrite of the operations `name` that have an operand of a bounded size."""

    def enter(function: Apply) -> Apply:
        @functools.wraps(function)
        def apply(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
            if operation.name != "stablehlo.set_dimension_size" and all(
                is_static(operand.type) for operand in operation.operands
            ):
                return None
            return function(b, operation)

        BOUNDED.append(Rewrite((f"stablehlo.{name}",), ALL_PLATFORMS, apply, fixed_in))
        return function

    return enter


def is_static(one: ir.Type) -> bool:
    """Whether a value of a type has fixed sizes."""
    return not isinstance(one, ir.RankedTensorType) or one.has_static_shape


def _with_marks(shape: ArrayShape, marks: Iterable[bool]) -> ArrayShape:
    return intern_array(shape.element_type, shape.dimensions, tuple(marks))


def _dimensions(shape: ArrayShape) -> list[int]:
    """The bounded dimensions."""
    return [d for d, dynamic in enumerate(shape.dynamic_dimensions) if dynamic]


_Sizes = dict[int, Value]
"""Sizes by dimension, as scalars of s32."""


def _sizes(b: OpBuilder, value: Value) -> _Sizes:
    """The sizes of the bounded dimensions."""
    return {d: size for d, size in enumerate(b.sizes(value)) if size is not None}


def _resized(b: OpBuilder, value: Value, sizes: _Sizes) -> Value:
    """The value with these dimensions bounded, of these sizes."""
    return b.sized(value, [sizes.get(d) for d in range(array_of(value).rank)])


def _integer(b: OpBuilder, value: int) -> Value:
    return b.number(value, pt.s32)


def _arithmetic(b: OpBuilder, name: str, left: Value, right: Value) -> Value:
    return b(name, _SIZE, [left, right])


def _between(b: OpBuilder, shape: ArrayShape, ranges: Mapping[int, tuple[Value, Value]]) -> Value:
    """Whether the indices of each element of a fixed shape are in these ranges."""
    counts = shape.with_element_type(pt.s32)
    found: Value = None
    for dimension, (start, end) in ranges.items():
        places = b.counted(counts, dimension)
        for inside in (
            b.compared("LE", b.spread(start, counts), places),
            b.compared("LT", places, b.spread(end, counts)),
        ):
            found = inside if found is None else b("and", array_of(found), [found, inside])
    return found


def _filled_up(b: OpBuilder, value: Value, sizes: _Sizes, filling: Value) -> Value:
    """A value of fixed sizes with a scalar in the places that are not below these sizes."""
    if not sizes:
        return value
    shape = array_of(value)
    inside = _between(b, shape, {d: (_integer(b, 0), size) for d, size in sizes.items()})
    return b.selected(inside, value, b.spread(filling, shape))


def _like(
    b: OpBuilder, operation: ir.Operation, operands: list[Value], sizes: Sequence[_Sizes]
) -> list[Value]:
    """The results of the same operation with other operands.

    Args:
        b: creates the operations.
        operation: the operation.
        operands: all of its operands.
        sizes: for each result the sizes to set; those dimensions are fixed in the operation.
    """
    shapes = [
        _with_marks(shape, [m and d not in own for d, m in enumerate(shape.dynamic_dimensions)])
        for shape, own in zip(map(array_of, operation.results), sizes, strict=True)
    ]
    made = b.like(operation, operands, shapes)
    return [_resized(b, *pair) for pair in zip(made.results, sizes, strict=True)]


def _last_start(b: OpBuilder, size: Value, length: Value) -> Value:
    """The last index at which a part of a length begins, or 0."""
    return _arithmetic(b, "maximum", _arithmetic(b, "subtract", size, length), _integer(b, 0))


def _in_type(b: OpBuilder, value: Value, element_type: PrimitiveType) -> Value:
    """A size in another integer type, or the largest number of the type."""
    if element_type.bits < 32:
        value = _arithmetic(b, "minimum", value, _integer(b, int(element_type.max)))
    return b.converted(value, element_type)


def _clamped(b: OpBuilder, index: Value, limit: Value) -> Value:
    """A scalar index, clamped to the range from 0 to a limit."""
    shape = array_of(index)
    zero = b.number(0, shape.element_type)
    return b("clamp", shape, [zero, index, _in_type(b, limit, shape.element_type)])


def _window_count(b: OpBuilder, size: Value, window: _Window) -> Value:
    """The number of windows along a dimension of a size known only at run time."""
    whole = _arithmetic(b, "subtract", size, _integer(b, 1))
    whole = _arithmetic(b, "multiply", whole, _integer(b, window.base_dilation))
    whole = _arithmetic(b, "add", whole, _integer(b, 1))
    whole = _arithmetic(b, "maximum", whole, _integer(b, 0))
    reach = (window.size - 1) * window.dilation + 1
    # The division rounds down, since the dividend is not negative.
    more = _integer(b, window.low + window.high - reach + window.stride)
    places = _arithmetic(b, "maximum", _arithmetic(b, "add", whole, more), _integer(b, 0))
    return _arithmetic(b, "divide", places, _integer(b, window.stride))


class _Window:
    """The window of a reduce_window along one dimension."""

    def __init__(self, operation: ir.Operation, index: int, size: int) -> None:
        attributes = operation.attributes

        def entry(name: str, default: int = 1) -> int:
            if name not in attributes:
                return default
            return int(ir.DenseI64ArrayAttr(attributes[name])[index])

        self.size = size
        self.stride = entry("window_strides")
        self.base_dilation = entry("base_dilations")
        self.dilation = entry("window_dilations")
        self.low = self.high = 0
        if "padding" in attributes:
            padding = np.asarray(ir.DenseIntElementsAttr(attributes["padding"]))
            self.low, self.high = (int(n) for n in padding.reshape(-1, 2)[index])

    @property
    def is_plain(self) -> bool:
        return (self.base_dilation, self.dilation, self.low, self.high) == (1, 1, 0, 0)


@_bounded("set_dimension_size")
def clamped_size(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Clamp the size to the range from 0 to the bound.

    XLA accesses elements out of bounds, and may crash.

    Shown by: set_dimension_size_beyond_the_bound.
    """
    operand, size = operation.operands
    if isinstance(size, ir.OpResult) and size.owner.name == "stablehlo.constant":
        return None
    bound = array_of(operand).dimensions[
        int(ir.IntegerAttr(operation.attributes["dimension"]).value)
    ]
    if bound < 0:
        return None
    operation.operands[1] = _clamped(b, size, _integer(b, bound))
    return list(operation.results)


@_bounded("bitcast_convert")
def bitcast_in_the_largest_size(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Reinterpret the elements in the largest size.

    XLA has no rule for elements of another width. Only a last dimension is added or removed, and it
    has a fixed size.

    Shown by: bitcast_convert_of_a_bounded_size.
    """
    operand = operation.operands[0]
    kept = _dimensions(array_of(operation.results[0]))
    sizes = _sizes(b, operand)
    if len(kept) == len(sizes):
        return _like(b, operation, [b.at_bounds(operand)], [{d: sizes[d] for d in kept}])
    return None


@_bounded("optimization_barrier", fixed_in=(0, 12))
def barrier_with_the_sizes(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Pass the array in its largest size and its sizes through the barrier.

    XLA has no rule.

    Shown by: optimization_barrier_of_a_bounded_size.
    """
    values: list[Value] = []
    sizes: list[Value] = []
    places: list[tuple[int, int]] = []
    for number, operand in enumerate(operation.operands):
        if isinstance(operand.type, ir.RankedTensorType) and not operand.type.has_static_shape:
            own = _sizes(b, operand)
            places += [(number, dimension) for dimension in own]
            sizes += own.values()
            operand = b.at_bounds(operand)
        values.append(operand)
    everything = [*values, *sizes]
    passed = b.create(operation.name, [value.type for value in everything], everything)
    results = list(passed.results)
    for (number, dimension), size in zip(places, results[len(values) :], strict=True):
        results[number] = _resized(b, results[number], {dimension: size})
    return results[: len(values)]


@_bounded("reduce_window")
def reduce_window_with_padding(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Reduce windows in the largest size, and compute the sizes of the result.

    XLA 0.10 ignores padding in the sizes, and both versions ignore dilation.

    Shown by: reduce_window_of_a_bounded_size_padded, reduce_window_of_a_bounded_size_dilated.
    """
    operands = list(operation.operands)
    count = len(operands) // 2
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["window_dimensions"]))
    windows = [_Window(operation, d, length) for d, length in enumerate(lengths)]
    sizes = [_sizes(b, operand) for operand in operands[:count]]
    bounded = {d: size for own in reversed(sizes) for d, size in own.items()}
    if all(windows[d].is_plain for d in bounded):
        return None
    for number, own in enumerate(sizes):
        operands[number] = _filled_up(
            b, b.at_bounds(operands[number]), own, operands[count + number]
        )
    behind = {d: _window_count(b, size, windows[d]) for d, size in bounded.items()}
    # Of several operands some may have fixed sizes where others have bounded ones.
    shapes = map(array_of, operation.results)
    return _like(b, operation, operands, [{d: behind[d] for d in _dimensions(s)} for s in shapes])


@_bounded("slice")
def fixed_part(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Slice a bounded array at its bound where the result has a fixed size.

    XLA's dynamic dimension inference treats the result as bounded, although its type is static. A
    concatenation with this result then has a wrong size, and drops elements.

    Shown by: slice_of_a_bounded_size.
    """
    (operand,) = operation.operands
    marks = array_of(operation.results[0]).dynamic_dimensions
    fixed = [d for d in _dimensions(array_of(operand)) if not marks[d]]
    if fixed:
        return _like(b, operation, [b.at_bounds(operand, fixed)], [{}])
    return None


@_bounded("dynamic_slice")
def dynamic_slice_within_the_size(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Clamp the start of a dynamic_slice to the size.

    XLA clamps it to the bound.

    Shown by: dynamic_slice_of_a_bounded_size.
    """
    operand, *starts = operation.operands
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    for dimension, size in _sizes(b, operand).items():
        starts[dimension] = _clamped(
            b, starts[dimension], _last_start(b, size, _integer(b, lengths[dimension]))
        )
    return _like(b, operation, [operand, *starts], [{}])


@_bounded("dynamic_update_slice")
def dynamic_update_within_the_size(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Clamp the start of a dynamic_update_slice to the size, and mask an update of bounded size.

    XLA clamps the start to the bound, and has no rule for an update of bounded size.

    Shown by: dynamic_update_slice_of_a_bounded_size, dynamic_update_slice_by_a_bounded_size.
    """
    operand, update, *starts = operation.operands
    sizes, lengths = _sizes(b, operand), _sizes(b, update)
    shape, part = array_of(operand), array_of(update)
    begins, ends = [], {}
    for dimension, start in enumerate(starts):
        size = sizes.get(dimension, _integer(b, shape.dimensions[dimension]))
        length = lengths.get(dimension, _integer(b, part.dimensions[dimension]))
        # Clamped to sizes, it fits s32.
        begin = _clamped(b, start, _last_start(b, size, length))
        begins.append(b.converted(begin, pt.s32))
        ends[dimension] = begins[-1], _arithmetic(b, "add", begins[-1], length)
    if part.is_static:
        return _like(b, operation, [operand, update, *begins], [{}])
    whole = b.at_bounds(operand)
    # The array is extended by the update's size, so that no start is clamped.
    extended = intern_array(
        shape.element_type,
        tuple(m + n for m, n in zip(shape.dimensions, part.dimensions, strict=True)),
    )
    blank = b.spread(b.number(0, shape.element_type), extended)
    moved = b("dynamic_update_slice", extended, [blank, b.at_bounds(update), *begins])
    cut = b.sliced(moved, [0] * shape.rank, shape.dimensions)
    inside = _between(b, array_of(whole), ends)
    return [_resized(b, b.selected(inside, cut, whole), sizes)]


@_bounded("gather")
def gather_within_the_size(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Clamp the indices of a gather to the sizes.

    XLA clamps them to the bounds, and has no rule for bounded batches.

    Shown by: gather_of_a_bounded_size.
    """
    operand, indices = operation.operands
    sizes, counts = _sizes(b, operand), _sizes(b, indices)
    if not sizes:
        return None
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    vector = numbers.index_vector_dim
    indices = b.at_bounds(indices)
    shape = array_of(indices)
    limits = []
    for dimension in numbers.start_index_map:
        length = _integer(b, lengths[dimension])
        size = sizes.get(dimension, _integer(b, array_of(operand).dimensions[dimension]))
        limit = _in_type(b, _last_start(b, size, length), shape.element_type)
        limits.append(b.reshaped(limit, (1,)))
    if limits:
        limit = b.concatenated(limits, 0)
        if vector == shape.rank:
            spread = b.spread(b.reshaped(limit, ()), shape)
        else:
            spread = b.spread(limit, shape, [vector])
        indices = b("minimum", shape, [indices, spread])
    result = array_of(operation.results[0])
    places = iter(d for d in range(shape.rank) if d != vector)
    inside = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    offsets = iter(d for d in range(array_of(operand).rank) if d not in inside)
    behind = {}
    for dimension in range(result.rank):
        if dimension in numbers.offset_dims:
            size = sizes.get(next(offsets))
        else:
            size = counts.get(next(places))
        if size is not None and result.dynamic_dimensions[dimension]:
            behind[dimension] = size
    return _like(b, operation, [b.at_bounds(operand), indices], [behind])


@_bounded("scatter")
def scatter_of_whole_dimensions(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Scatter windows that cover a bounded dimension at the bound.

    XLA refuses a window of bounded size unless its size and the operand's size are the same HLO
    instruction, even if they are equal at run time. At the bound, elements of the window beyond its
    size are written beyond the size of the operand.

    Shown by: scatter_of_a_bounded_window.
    """
    operands = list(operation.operands)
    count = len(operands) // 2
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    fixed = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    shape = array_of(operands[0])
    along = [d for d in range(shape.rank) if d not in fixed]
    pairs = [
        (before, after)
        for before, after in zip(along, numbers.update_window_dims, strict=True)
        if all(
            array_of(operands[i]).dynamic_dimensions[before]
            and array_of(operands[count + 1 + i]).dynamic_dimensions[after]
            and array_of(operands[i]).dimensions[before]
            == array_of(operands[count + 1 + i]).dimensions[after]
            for i in range(count)
        )
    ]
    if not pairs:
        return None
    behind = []
    for number in range(count):
        sizes = _sizes(b, operands[number])
        behind.append({before: sizes[before] for before, _ in pairs})
        operands[number] = b.at_bounds(operands[number], [before for before, _ in pairs])
        update = count + 1 + number
        operands[update] = b.at_bounds(operands[update], [after for _, after in pairs])
    return _like(b, operation, operands, behind)


@_bounded("while")
def loop_of_one_array(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Carry a number beside the only array of a loop.

    XLA's compiler crashes on a bounded state that is no tuple. It would remove a number that is not
    used; so the condition requires it to be 0, and the body passes it through a barrier.

    Shown by: while_of_a_bounded_size.
    """
    operands = list(operation.operands)
    if len(operands) > 1:
        return None
    beside = _integer(b, 0)
    both = [operands[0], beside]
    made = b.create(operation.name, [value.type for value in both], both, regions=2)
    ends: list[tuple[OpBuilder, Value, Value]] = []
    for region, old in zip(made.regions, operation.regions, strict=True):
        old.blocks[0].append_to(region)
        block = region.blocks[0]
        last = block.operations[-1].operation
        number = block.add_argument(beside.type, operation.location)
        ends.append((OpBuilder(b.target, last), last.operands[0], number))
    (condition, goes_on, number), (body, value, same) = ends
    is_zero = condition.compared("EQ", number, _integer(condition, 0))
    condition.end([condition("and", array_of(goes_on), [goes_on, is_zero])])
    body.end([value, body("optimization_barrier", _SIZE, [same])])
    for inside in (condition, body):
        inside.before.erase()
    return [made.results[0]]


@_bounded("reshape")
def reshape_of_a_divided_size(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Compute the sizes of a reshape that divides a bounded size, or of an array without elements.

    XLA takes the bound for a divided size, since 0.12 only if it is not the first. It divides by
    the product of the fixed sizes, and crashes if it is 0.

    Shown by: reshape_bounded_divided, reshape_bounded_last, reshape_bounded_empty.
    """
    (operand,) = operation.operands
    source, shape = array_of(operand), array_of(operation.results[0])
    sizes = reshaped_sizes(source, shape) or ()
    divides = any(isinstance(size, ReshapedSize) and size.divisor > 1 for size in sizes)
    if not divides and (not sizes or 0 not in source.dimensions):
        return None
    known = _sizes(b, operand)
    row = []
    for size in sizes:
        if not isinstance(size, ReshapedSize):
            row.append(_integer(b, size))
            continue
        product = _integer(b, size.factor)
        for dimension in size.dimensions:
            product = _arithmetic(b, "multiply", product, known[dimension])
        row.append(_arithmetic(b, "divide", product, _integer(b, size.divisor)))
    joined = b.concatenated([b.reshaped(size, (1,)) for size in row], 0)
    return [b("dynamic_reshape", shape, [operand, joined])]
