"""Rewrites of operations on bounded sizes that XLA does not support, or gets wrong.

XLA computes on arrays of bounded sizes at their bounds. Where elements beyond the sizes affect the
result, XLA masks them. The rewrites do the same for operations that XLA gets wrong: they compute at
the bounds, and then set the sizes of the results.

A rewrite applies to operations with an operand or a result of bounded size, in program order, and
not to the operations that rewrites create.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array
from lowering.legalize.indexing import Scatter
from lowering.legalize.op_builder import OpBuilder, array_of, integer_of, integers_of, is_static
from lowering.legalize.reduction import window_count, window_dimension
from lowering.legalize.registry import ALL_PLATFORMS, Apply, Rewrite, Value
from lowering.mlir.operations import CALLS, CONTROL_FLOW, enclosing, operations_in
from lowering.ops.dynamic import ReshapedSize, reshaped_sizes

BOUNDED: Final[list[Rewrite]] = []
"""The rewrites of operations on bounded sizes."""


_MAKE_SIZES: Final = ("stablehlo.set_dimension_size", "stablehlo.dynamic_broadcast_in_dim")


def _bounded(name: str, *, fixed_in: tuple[int, int] | None = None) -> Callable[[Apply], Apply]:
    """Register a rewrite of the operations `name` that have an operand of bounded size.

    Operations in `_MAKE_SIZES` are rewritten even if all operands have fixed sizes.
    """

    def register(function: Apply) -> Apply:
        @functools.wraps(function)
        def apply(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
            if operation.name not in _MAKE_SIZES and all(
                is_static(operand.type) for operand in operation.operands
            ):
                return None
            return function(b, operation)

        BOUNDED.append(Rewrite((f"stablehlo.{name}",), ALL_PLATFORMS, apply, fixed_in))
        return function

    return register


_Sizes = dict[int, Value]
"""Sizes by dimension, as scalars of s32."""


def _sizes(b: OpBuilder, value: Value) -> _Sizes:
    """The sizes of the bounded dimensions of a value."""
    return {d: size for d, size in enumerate(b.sizes(value)) if size is not None}


def _resized(b: OpBuilder, value: Value, sizes: _Sizes) -> Value:
    """Set the sizes of the dimensions in `sizes`; these dimensions become bounded."""
    return b.sized(value, [sizes.get(d) for d in range(array_of(value).rank)])


def _integer(b: OpBuilder, value: int) -> Value:
    return b.number(value, pt.s32)


def _like(
    b: OpBuilder, operation: ir.Operation, operands: list[Value], sizes: Sequence[_Sizes]
) -> list[Value]:
    """Apply an operation to other operands, and set the sizes of the results.

    Args:
        b: creates the operations.
        operation: the operation.
        operands: all operands of the new operation.
        sizes: for each result, the sizes to set. The new operation computes these dimensions at
            their bounds, as fixed sizes.
    """
    shapes = []
    for shape, own in zip(map(array_of, operation.results), sizes, strict=True):
        marks = tuple(m and d not in own for d, m in enumerate(shape.dynamic_dimensions))
        shapes.append(intern_array(shape.element_type, shape.dimensions, marks))
    results = b.like(operation, operands, shapes).results
    return [_resized(b, *pair) for pair in zip(results, sizes, strict=True)]


def _last_start(b: OpBuilder, size: Value, length: Value) -> Value:
    """Return the last start index in bounds of a slice of `length`: size - length, at least 0."""
    return b.elementwise("maximum", b.elementwise("subtract", size, length), _integer(b, 0))


def _saturated(b: OpBuilder, value: Value, element_type: PrimitiveType) -> Value:
    """Convert a size to another integer type, limited to the largest number of the type."""
    if element_type.bits < 32:
        value = b.elementwise("minimum", value, _integer(b, int(element_type.max)))
    return b.converted(value, element_type)


def _clamped(b: OpBuilder, index: Value, limit: Value) -> Value:
    """Clamp a scalar index to the range from 0 to a limit."""
    shape = array_of(index)
    zero = b.number(0, shape.element_type)
    return b("clamp", shape, [zero, index, _saturated(b, limit, shape.element_type)])


@_bounded("set_dimension_size")
def set_dimension_size_beyond_the_bound(
    b: OpBuilder, operation: ir.Operation
) -> Sequence[Value] | None:
    """Clamp the size of a set_dimension_size to the range from 0 to the bound.

    XLA does not check the size at run time. With a size beyond the bound, it accesses memory out of
    bounds, and may crash.

    Shown by: set_dimension_size_beyond_the_bound.
    """
    operand, size = operation.operands
    if isinstance(size, ir.OpResult) and size.owner.name == "stablehlo.constant":
        return None
    bound = array_of(operand).dimensions[integer_of(operation, "dimension")]
    if bound < 0:
        return None
    operation.operands[1] = _clamped(b, size, _integer(b, bound))
    return operation.results


_RETURN: Final = "stablehlo.return"


def size_equal_to_the_bound(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Set sizes again of values that enter or leave a loop, a branch or a function.

    XLA removes a set_dimension_size whose size is a constant equal to the bound. It then rejects or
    crashes on loops, branches and calls with the value, because their types have the bounded size.
    An optimization barrier hides the constant.

    Shown by: set_dimension_size_to_the_bound_in_a_loop,
    set_dimension_size_to_the_bound_in_a_branch, set_dimension_size_to_the_bound_in_a_call,
    set_dimension_size_to_the_bound_as_a_result.
    """
    if operation.name == _RETURN and next(enclosing(operation)).name not in CONTROL_FLOW:
        return None
    users = operations_in(operation)
    inside = {value for user in users for value in user.results if user != operation}
    again: dict[Value, Value] = {}
    for user in users:
        for number, value in enumerate(user.operands):
            if is_static(value.type) or value in inside or isinstance(value.owner, ir.Block):
                continue
            if value not in again:
                hidden = {
                    dimension: b.elementwise("optimization_barrier", size)
                    for dimension, size in _sizes(b, value).items()
                }
                again[value] = _resized(b, value, hidden)
            user.operands[number] = again[value]
    return operation.results if again else None


BOUNDED.append(Rewrite((*CONTROL_FLOW, *CALLS, _RETURN), ALL_PLATFORMS, size_equal_to_the_bound))


@_bounded("bitcast_convert")
def bitcast_of_bounded_sizes(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Bitcast an array at its bounds, and set the sizes of the result.

    XLA does not support a bitcast of bounded size to a type of another width. Such a bitcast adds
    or removes a last dimension, which has a fixed size.

    Shown by: bitcast_convert_of_a_bounded_size.
    """
    operand = operation.operands[0]
    sizes = _sizes(b, operand)
    marks = array_of(operation.results[0]).dynamic_dimensions
    if [d for d, dynamic in enumerate(marks) if dynamic] == list(sizes):
        return _like(b, operation, [b.at_bounds(operand)], [sizes])
    return None


@_bounded("optimization_barrier", fixed_in=(0, 12))
def optimization_barrier_of_bounded_sizes(
    b: OpBuilder, operation: ir.Operation
) -> Sequence[Value] | None:
    """Pass an array at its bound, and its sizes, through an optimization barrier.

    XLA does not compile an optimization barrier of bounded sizes.

    Shown by: optimization_barrier_of_a_bounded_size.
    """
    values = list(operation.operands)
    sizes: list[Value] = []
    places: list[tuple[int, int]] = []
    for number, operand in enumerate(values):
        if not is_static(operand.type):
            own = _sizes(b, operand)
            places += [(number, dimension) for dimension in own]
            sizes += own.values()
            values[number] = b.at_bounds(operand)
    operands = [*values, *sizes]
    results = list(b.create(operation.name, [v.type for v in operands], operands).results)
    for (number, dimension), size in zip(places, results[len(values) :], strict=True):
        results[number] = _resized(b, results[number], {dimension: size})
    return results[: len(values)]


@_bounded("reduce_window")
def reduce_window_of_bounded_sizes(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Reduce windows at the bound, and compute the sizes of the result.

    The size of the result depends on the padding and the dilation of the window. XLA ignores the
    dilation, and jaxlib 0.10 also ignores the padding.

    Shown by: reduce_window_of_a_bounded_size_padded, reduce_window_of_a_bounded_size_dilated.
    """
    operands = list(operation.operands)
    count = len(operands) // 2
    lengths = integers_of(operation, "window_dimensions")
    windows = [window_dimension(operation, d, length) for d, length in enumerate(lengths)]
    sizes = [_sizes(b, operand) for operand in operands[:count]]
    bounded = {d: size for own in reversed(sizes) for d, size in own.items()}
    if all(windows[d][2:] == (1, 1, 0, 0) for d in bounded):  # neither dilation nor padding
        return None
    for number, own in enumerate(sizes):
        full = b.at_bounds(operands[number])
        if own:
            shape = array_of(full)
            is_inside = b.within(shape, {d: (None, size) for d, size in own.items()})
            full = b.selected(is_inside, full, b.spread(operands[count + number], shape))
        operands[number] = full
    counts = {d: window_count(b, size, windows[d]) for d, size in bounded.items()}
    # An operand may have a fixed size where another operand has a bounded size.
    marks = [array_of(result).dynamic_dimensions for result in operation.results]
    result_sizes = [{d: size for d, size in counts.items() if m[d]} for m in marks]
    return _like(b, operation, operands, result_sizes)


@_bounded("slice")
def fixed_slice_of_bounded_sizes(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Slice a bounded array at its bound where the result has a fixed size.

    XLA treats the size of the result as bounded, although its type is static. A concatenation with
    this result then has a wrong size, and omits elements.

    Shown by: slice_of_a_bounded_size.
    """
    (operand,) = operation.operands
    before = array_of(operand).dynamic_dimensions
    after = array_of(operation.results[0]).dynamic_dimensions
    fixed = [d for d, marks in enumerate(zip(before, after, strict=True)) if marks == (True, False)]
    if fixed:
        return _like(b, operation, [b.at_bounds(operand, fixed)], [{}])
    return None


@_bounded("dynamic_slice")
def dynamic_slice_of_bounded_sizes(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Clamp the start indices of a dynamic_slice to the sizes.

    XLA clamps the start indices to the bounds, not to the sizes, and returns elements beyond the
    sizes.

    Shown by: dynamic_slice_of_a_bounded_size.
    """
    operand, *starts = operation.operands
    lengths = integers_of(operation, "slice_sizes")
    for dimension, size in _sizes(b, operand).items():
        last = _last_start(b, size, _integer(b, lengths[dimension]))
        starts[dimension] = _clamped(b, starts[dimension], last)
    return _like(b, operation, [operand, *starts], [{}])


@_bounded("dynamic_update_slice")
def dynamic_update_slice_of_bounded_sizes(
    b: OpBuilder, operation: ir.Operation
) -> Sequence[Value] | None:
    """Clamp the start indices of a dynamic_update_slice to the sizes, and mask a bounded update.

    XLA clamps the start indices to the bounds, not to the sizes, and writes beyond the sizes. It
    does not support an update of bounded size.

    Shown by: dynamic_update_slice_of_a_bounded_size, dynamic_update_slice_by_a_bounded_size.
    """
    operand, update, *starts = operation.operands
    sizes, update_sizes = _sizes(b, operand), _sizes(b, update)
    shape, update_shape = array_of(operand), array_of(update)
    clamped_starts: list[Value] = []
    updated: dict[int, tuple[Value | None, Value]] = {}  # the first index, and that after the last
    for dimension, start in enumerate(starts):
        size = sizes.get(dimension, _integer(b, shape.dimensions[dimension]))
        length = update_sizes.get(dimension, _integer(b, update_shape.dimensions[dimension]))
        # A clamped index fits in s32, as the size does.
        clamped = b.converted(_clamped(b, start, _last_start(b, size, length)), pt.s32)
        clamped_starts.append(clamped)
        updated[dimension] = clamped, b.elementwise("add", clamped, length)
    if update_shape.is_static:
        return _like(b, operation, [operand, update, *clamped_starts], [{}])
    # Write the update, at its bounds, into zeros, and select it where it has elements. The zeros
    # are larger than the operand by the update, so that XLA does not clamp the start indices.
    full = b.at_bounds(operand)
    dimensions = tuple(map(sum, zip(shape.dimensions, update_shape.dimensions, strict=True)))
    zeros = b.filled(intern_array(shape.element_type, dimensions), 0)
    written = b.elementwise("dynamic_update_slice", zeros, b.at_bounds(update), *clamped_starts)
    written = b.sliced(written, [0] * shape.rank, shape.dimensions)
    is_updated = b.within(array_of(full), updated)
    return [_resized(b, b.selected(is_updated, written, full), sizes)]


@_bounded("gather")
def gather_of_bounded_sizes(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Clamp the indices of a gather to the sizes.

    XLA clamps the indices to the bounds, not to the sizes, and returns elements beyond the sizes.
    It does not support bounded batch dimensions.

    Shown by: gather_of_a_bounded_size.
    """
    operand, indices = operation.operands
    sizes, counts = _sizes(b, operand), _sizes(b, indices)
    if not sizes:
        return None
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    lengths = integers_of(operation, "slice_sizes")
    vector = numbers.index_vector_dim
    indices = b.at_bounds(indices)
    shape, dimensions = array_of(indices), array_of(operand).dimensions
    limits = []
    for dimension in numbers.start_index_map:
        size = sizes.get(dimension, _integer(b, dimensions[dimension]))
        limit = _last_start(b, size, _integer(b, lengths[dimension]))
        limits.append(b.reshaped(_saturated(b, limit, shape.element_type), (1,)))
    if limits:
        limit = b.concatenated(limits, 0)
        if vector == shape.rank:
            limit = b.spread(b.reshaped(limit, ()), shape)
        else:
            limit = b.spread(limit, shape, [vector])
        indices = b.elementwise("minimum", indices, limit)
    result = array_of(operation.results[0])
    batch = iter(d for d in range(shape.rank) if d != vector)
    removed = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    window = iter(d for d in range(len(dimensions)) if d not in removed)
    result_sizes = {}
    for dimension, dynamic in enumerate(result.dynamic_dimensions):
        is_offset = dimension in numbers.offset_dims
        size = sizes.get(next(window)) if is_offset else counts.get(next(batch))
        if size is not None and dynamic:
            result_sizes[dimension] = size
    return _like(b, operation, [b.at_bounds(operand), indices], [result_sizes])


@_bounded("scatter")
def scatter_of_bounded_windows(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Scatter at the bound of each bounded dimension that the windows cover.

    XLA refuses a window of bounded size unless its size and the operand's size are the same HLO
    instruction, even if the sizes are equal at run time. At the bound, elements beyond the size of
    the window are written beyond the size of the operand.

    Shown by: scatter_of_a_bounded_window.
    """
    scatter = Scatter(operation)
    shapes = [
        (array_of(array), array_of(update))
        for array, update in zip(scatter.arrays, scatter.updates, strict=True)
    ]
    pairs = [
        (before, after)
        for before, after in scatter.windowed_dimensions()
        if all(
            array.dynamic_dimensions[before]
            and update.dynamic_dimensions[after]
            and array.dimensions[before] == update.dimensions[after]
            for array, update in shapes
        )
    ]
    if not pairs:
        return None
    covered, windows = zip(*pairs, strict=True)
    result_sizes = [{d: b.size(array, d) for d in covered} for array in scatter.arrays]
    arrays = [b.at_bounds(array, covered) for array in scatter.arrays]
    updates = [b.at_bounds(update, windows) for update in scatter.updates]
    return _like(b, operation, [*arrays, scatter.indices, *updates], result_sizes)


@_bounded("while")
def while_of_one_bounded_array(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Add a number to the state of a loop, if the state is one bounded array.

    XLA's compiler crashes on a loop whose state is a bounded array, not a tuple. The rewrite adds a
    number to the state. XLA would remove a number that is not used, so the condition requires the
    number to be 0, and the body passes it through an optimization barrier.

    Shown by: while_of_a_bounded_size.
    """
    if len(operation.operands) > 1:
        return None
    number = _integer(b, 0)
    state = [operation.operands[0], number]
    made = b.create(operation.name, [value.type for value in state], state, regions=2)
    ends: list[tuple[OpBuilder, Value, Value]] = []
    for region, original in zip(made.regions, operation.regions, strict=True):
        original.blocks[0].append_to(region)
        block = region.blocks[0]
        terminator = block.operations[-1].operation
        argument = block.add_argument(number.type, operation.location)
        ends.append((OpBuilder(b.target, terminator), terminator.operands[0], argument))
    (condition, continues, argument), (body, value, unchanged) = ends
    is_zero = condition.compared("EQ", argument, _integer(condition, 0))
    condition.end([condition.elementwise("and", continues, is_zero)])
    body.end([value, body.elementwise("optimization_barrier", unchanged)])
    for builder in (condition, body):
        builder.before.erase()
    return [made.results[0]]


@_bounded("reshape")
def reshape_of_a_divided_size(b: OpBuilder, operation: ir.Operation) -> Sequence[Value] | None:
    """Compute the sizes of a reshape that divides a bounded size, or has no elements.

    Where a reshape divides a bounded size, XLA uses the bound instead of the size; since jaxlib
    0.12 only if the bounded dimension is not the first. XLA divides by the product of the fixed
    sizes, and crashes if the product is 0.

    Shown by: reshape_bounded_divided, reshape_bounded_last, reshape_bounded_empty.
    """
    (operand,) = operation.operands
    source, shape = array_of(operand), array_of(operation.results[0])
    sizes = reshaped_sizes(source, shape) or ()
    divides = any(isinstance(size, ReshapedSize) and size.divisor > 1 for size in sizes)
    if not divides and (not sizes or 0 not in source.dimensions):
        return None
    source_sizes = _sizes(b, operand)
    computed = []
    for size in sizes:
        if not isinstance(size, ReshapedSize):
            computed.append(_integer(b, size))
            continue
        product = _integer(b, size.factor)
        for dimension in size.dimensions:
            product = b.elementwise("multiply", product, source_sizes[dimension])
        computed.append(b.elementwise("divide", product, _integer(b, size.divisor)))
    joined = b.concatenated([b.reshaped(size, (1,)) for size in computed], 0)
    return [b("dynamic_reshape", shape, [operand, joined])]


@_bounded("dynamic_broadcast_in_dim")
def dynamic_broadcast_to_bounded_sizes(
    b: OpBuilder, operation: ir.Operation
) -> Sequence[Value] | None:
    """Broadcast an array to the bounds of the result, and set the sizes from the second operand.

    XLA supports a dynamic_broadcast_in_dim to fixed sizes only. It does not check sizes at run
    time, so they are clamped to the range from 0 to the bound.

    Shown by: dynamic_broadcast_in_dim_bounded.
    """
    operand, sizes = operation.operands
    shape = array_of(operation.results[0])
    if shape.is_static:
        return None
    dimensions = integers_of(operation, "broadcast_dimensions")
    value = b.at_bounds(operand)
    source = b.array_of(value)
    # A fixed size may be below the bound of the size that it must equal.
    missing = [
        0 if size == 1 else shape.dimensions[place] - size
        for size, place in zip(source.dimensions, dimensions, strict=True)
    ]
    if min(missing, default=0) < 0:
        return None  # refused by `dynamic`
    if any(missing):
        filling = b.number(0, source.element_type)
        value = b.padded(value, filling, [0] * len(missing), missing)
    value = b.spread(value, shape.at_bounds(), dimensions)
    new_sizes = {
        d: b.converted(
            _clamped(b, b.reshaped(b.sliced(sizes, (d,), (d + 1,)), ()), _integer(b, bound)), pt.s32
        )
        for d, bound in enumerate(shape.dimensions)
        if shape.dynamic_dimensions[d]
    }
    return [_resized(b, value, new_sizes)]
