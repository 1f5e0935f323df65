"""Rewrites of reductions over arrays and windows that XLA gets wrong or does not support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from builder.attributes.padding import dilated
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.data_movement import TWO_BITS
from lowering.legalize.op_builder import (
    Attributes,
    OpBuilder,
    array_of,
    attributes_of,
    integers_of,
    is_static,
)
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite
from lowering.mlir.operations import entry_text


def padding_of(operation: ir.Operation) -> list[int]:
    """Return the padding of an operation: [low 0, high 0, low 1, ...]; empty without padding."""
    if "padding" not in operation.attributes:
        return []
    pairs = ir.DenseIntElementsAttr(operation.attributes["padding"])
    return [pairs[number] for number in range(len(pairs))]


class WindowDimension(NamedTuple):
    """The size, stride, dilations and padding of a window along one dimension."""

    size: int
    stride: int
    base_dilation: int
    window_dilation: int
    low: int
    high: int


def window_dimension(operation: ir.Operation, dimension: int, size: int) -> WindowDimension:
    """Return the window along a dimension of a reduce_window or convolution.

    Args:
        operation: the reduce_window or convolution.
        dimension: the index of the dimension in the attributes of the window.
        size: the size of the window along the dimension.
    """

    def entry(*names: str) -> int:
        lists = (integers_of(operation, name) for name in names)
        return next((numbers[dimension] for numbers in lists if numbers), 1)

    padding = padding_of(operation)
    low, high = padding[2 * dimension : 2 * dimension + 2] or (0, 0)
    return WindowDimension(
        size,
        entry("window_strides"),
        entry("base_dilations", "lhs_dilation"),
        entry("window_dilations", "rhs_dilation"),
        low,
        high,
    )


def window_count(b: OpBuilder, size: Value, window: WindowDimension) -> Value:
    """Return the number of windows along a dimension of bounded size, a scalar of s32.

    Args:
        b: creates the operations.
        size: the size of the dimension at run time, a scalar of s32.
        window: the window along the dimension.
    """

    def number(value: int) -> Value:
        return b.number(value, pt.s64)

    # The sizes are computed in 64 bits, because dilated and padded sizes may not fit in 32 bits.
    length = b.elementwise("subtract", b.converted(size, pt.s64), number(1))
    length = b.elementwise("multiply", length, number(window.base_dilation))
    length = b.elementwise("maximum", b.elementwise("add", length, number(1)), number(0))
    added = window.low + window.high - dilated(window.size, window.window_dilation)
    # The division rounds down, since the dividend is not negative.
    space = b.elementwise("add", length, number(added + window.stride))
    space = b.elementwise("maximum", space, number(0))
    count = b.elementwise("divide", space, number(window.stride))
    return b.converted(count, pt.s32)


@rewrite("stablehlo.reduce_window", platforms=ALL_PLATFORMS)
def window_of_one_with_negative_padding(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Replace the negative padding of windows of one element by a pad before the operation.

    XLA simplifies a reduce_window with windows of one element to the reducer applied to the operand
    and the initial value. It ignores the negative padding, and aborts because the result has other
    sizes than declared.

    Shown by: reduce_window_cut.
    """
    names = ("window_dimensions", "window_strides", "base_dilations")
    padding = padding_of(operation)
    if (
        not any(padding)
        or max(padding) > 0
        or not all(number == 1 for name in names for number in integers_of(operation, name))
    ):
        return None
    operands = list(operation.operands)
    if not all(is_static(operand.type) for operand in operands):
        return None
    arrays, initial = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    low, high = padding[::2], padding[1::2]
    cut = [b.padded(*pair, low, high) for pair in zip(arrays, initial, strict=True)]
    made = b.like(operation, [*cut, *initial])
    del made.attributes["padding"]
    return list(made.results)


@rewrite("stablehlo.reduce", "stablehlo.reduce_window", platforms=("cpu",))
def extremes_of_nans(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute maxima and minima with reducers that XLA compiles to loops of its own.

    The maximum or minimum of elements is NaN if an element is. For large arrays XLA's CPU backend
    calls YNNPACK, which ignores NaNs of f32 and f64, and NaNs of one sign of f16 and bf16. XLA
    compiles other reducers to loops of its own, and reductions of small arrays too, which the
    rewrite leaves as they are. These loops convert f16 and bf16 in each step, so the rewrite
    reduces these types as integers. In a partitioned program the defect remains: XLA may turn the
    reduction into an all_reduce, which supports only the reducers that XLA recognizes.

    Shown by: reduce_maximum_f32_nan, reduce_minimum_f64_nan, reduce_maximum_bf16_nan,
    reduce_window_maximum_f32_nan.
    """
    if len(operation.operands) != 2 or b.target.is_partitioned or _ignores_nans(operation):
        return None
    block = operation.regions[0].blocks[0]
    element_type = b.element_type(operation.operands[0])
    body = [view.operation for view in block.operations]
    if (
        element_type not in _WIDE
        or len(body) != 2
        or body[0].name not in _EXTREMES
        or set(body[0].operands) != set(block.arguments)
    ):
        return None
    operand, initial = operation.operands
    dimensions = integers_of(operation, "dimensions")
    if is_static(operand.type):
        if dimensions:
            if b.array_of(operand).element_count <= _SMALL:
                return None
            return [_extreme_along(b, body[0].name, operand, initial, dimensions)]
        if element_type in _NARROW and operation.name == "stablehlo.reduce_window":
            result = b.array_of(operation.results[0])
            attributes = attributes_of(operation)
            return [
                _extreme_of_integers(
                    b, "reduce_window", body[0].name, operand, initial, result, attributes
                )
            ]
    wide = _WIDE[element_type]
    operands = [b.converted(value, wide) for value in (operand, initial)]
    result = b.array_of(operation.results[0]).with_element_type(wide)
    made = b.create(operation.name, [result], operands, attributes_of(operation), regions=1)
    _add_reducer(b, made, body[0].name)
    return [b.converted(made.results[0], element_type)]


def _ignores_nans(operation: ir.Operation) -> bool:
    """Return whether the program marks a reduction whose result need not be NaN."""
    name = "mhlo.frontend_attributes"
    if name not in operation.attributes:
        return False
    return entry_text(ir.DictAttr(operation.attributes[name]), "xlabuilder.nans") == "ignored"


def _extreme_along(
    b: OpBuilder, name: str, operand: Value, initial: Value, dimensions: Sequence[int]
) -> Value:
    """Reduce along the last dimensions together, and along each other dimension alone.

    XLA splits a reduction along several dimensions into windows, whose loops it does not vectorize.
    A reduction to a scalar has two steps, because XLA distributes the results of a reduction among
    threads.
    """
    shape = b.array_of(operand)
    first, *rest = sorted(dimensions)
    if shape.rank - 1 in dimensions:
        start = max([-1, *(n for n in range(shape.rank) if n not in dimensions)]) + 1
        if start == 0 and rest:
            start = 1
        value = _extreme_of_rows(b, name, operand, initial, start)
        rest = [n for n in (first, *rest) if n < start]
    else:
        value, rest = _extreme_of_columns(b, name, operand, initial, first), [n - 1 for n in rest]
    return _extreme_along(b, name, value, initial, rest) if rest else value


def _extreme_of_columns(
    b: OpBuilder, name: str, operand: Value, initial: Value, dimension: int
) -> Value:
    """Reduce along a dimension that is not the last one; XLA vectorizes the loop over the last.

    Integers of 16 bits need no conversion, and a vector has twice as many of them as of f32.
    """
    shape = b.array_of(operand)
    result = _without(shape, [dimension])
    attributes: Attributes = {"dimensions": [dimension]}
    if shape.element_type in _NARROW:
        return _extreme_of_integers(b, "reduce", name, operand, initial, result, attributes)
    made = b.create("reduce", [result], [operand, initial], attributes, regions=1)
    _add_reducer(b, made, name, swapped=bool(shape.rank % 2))
    return made.results[0]


def _extreme_of_integers(
    b: OpBuilder,
    reduction: str,
    name: str,
    operand: Value,
    initial: Value,
    result: ArrayShape,
    attributes: Attributes,
) -> Value:
    """Reduce f16 or bf16 as integers of 16 bits in the order of the numbers.

    Args:
        b: creates the operations.
        reduction: the operation, "reduce" or "reduce_window".
        name: the operation of the reducer.
        operand, initial: its operands.
        result: the shape of its result.
        attributes: its attributes.
    """
    # NaNs are at both ends of the order. The integers wrap around, so that all NaNs are at one end.
    infinity = np.array(np.inf, result.element_type.dtype).view(np.int16)
    count = int(pt.s16.max - infinity)
    shifted = count if name == "stablehlo.minimum" else -count

    def moved(integers: Value, by: int) -> Value:
        return b.elementwise("add", integers, b.filled(b.array_of(integers), by))

    operands = [moved(_in_order(b, b.bitcast(v, pt.s16)), shifted) for v in (operand, initial)]
    integers = result.with_element_type(pt.s16)
    made = b.create(reduction, [integers], operands, attributes, regions=1)
    scalar = intern_array(pt.s16, ())
    reducer, arguments = b.block_in(made.regions[0], [scalar, scalar])
    reducer.end([reducer.elementwise(name, *arguments)])
    extreme = b.bitcast(_in_order(b, moved(made.results[0], -shifted)), result.element_type)
    # The NaN of the operand may be a signaling one.
    return b.selected(_is_nan(b, extreme), b.filled(result, np.nan), extreme)


def _extreme_of_rows(b: OpBuilder, name: str, operand: Value, initial: Value, start: int) -> Value:
    """Reduce along the dimensions from `start`, together with an array of the preds of NaNs.

    XLA splits a reduction of one array into windows, but not a reduction of several, and
    vectorizes its loop over the last dimension.
    """
    shape = b.array_of(operand)
    dimensions = range(start, shape.rank)
    flags = [_is_nan(b, value) for value in (operand, initial)]
    is_narrow = shape.element_type in _NARROW
    if is_narrow:
        operand, initial = [_in_order(b, b.bitcast(v, pt.s16)) for v in (operand, initial)]
    result = _without(b.array_of(operand), dimensions)
    made = b.create(
        "reduce",
        [result, result.with_element_type(pt.pred)],
        [operand, flags[0], initial, flags[1]],
        {"dimensions": dimensions},
        regions=1,
    )
    scalars = [intern_array(kind, ()) for kind in (result.element_type, pt.pred)]
    reducer, (lhs, lhs_flag, rhs, rhs_flag) = b.block_in(made.regions[0], scalars * 2)
    flag = reducer.elementwise("or", lhs_flag, rhs_flag)
    reducer.end([reducer.elementwise(name, lhs, rhs), flag])
    extreme, is_nan = made.results
    if is_narrow:
        extreme = b.bitcast(_in_order(b, extreme), shape.element_type)
    return b.selected(is_nan, b.filled(b.array_of(extreme), np.nan), extreme)


def _in_order(b: OpBuilder, bits: Value) -> Value:
    """Return the bits of floating-point numbers, as integers in the numbers' order; or the reverse.

    The bits other than the sign are inverted if the sign is set.
    """
    shape = b.array_of(bits)
    signs = b.elementwise("shift_right_arithmetic", bits, b.filled(shape, 15))
    return b.elementwise("xor", bits, b.elementwise("and", signs, b.filled(shape, pt.s16.max)))


def _is_nan(b: OpBuilder, value: Value) -> Value:
    element_type = b.array_of(value).element_type
    if element_type not in _NARROW:
        return b.compared("NE", value, value)
    bits = b.bitcast(value, pt.s16)
    shape = b.array_of(bits)
    infinity = np.array(np.inf, element_type.dtype).view(np.int16)
    magnitudes = b.elementwise("and", bits, b.filled(shape, pt.s16.max))
    return b.compared("GT", magnitudes, b.filled(shape, infinity))


def _add_reducer(b: OpBuilder, owner: ir.Operation, name: str, *, swapped: bool = False) -> None:
    """Fill the region of a reduction with a maximum or minimum in the form of a clamp.

    The other bound is the infinity that has no effect, and XLA's loops compute NaN from NaN.
    With `swapped` the reducer differs, because XLA merges reductions that have the same one.
    """
    scalar = intern_array(b.array_of(owner.results[0]).element_type, ())
    reducer, (lhs, rhs) = b.block_in(owner.regions[0], [scalar, scalar])
    if swapped:
        lhs, rhs = rhs, lhs
    is_maximum = name == "stablehlo.maximum"
    bound = reducer.number(np.inf if is_maximum else -np.inf, scalar.element_type)
    bounds = (lhs, bound) if is_maximum else (bound, lhs)
    reducer.end([reducer("clamp", scalar, [bounds[0], rhs, bounds[1]])])


def _without(shape: ArrayShape, dimensions: Sequence[int]) -> ArrayShape:
    sizes = [size for n, size in enumerate(shape.dimensions) if n not in dimensions]
    return intern_array(shape.element_type, tuple(sizes))


_SMALL: Final = 1024
"""The number of elements up to which XLA calls no YNNPACK for a reduction; it does from 4096."""

_EXTREMES: Final = ("stablehlo.maximum", "stablehlo.minimum")
_NARROW: Final = (pt.f16, pt.bf16)
_WIDE: Final = {pt.f16: pt.f32, pt.bf16: pt.f32, pt.f32: pt.f32, pt.f64: pt.f64}


@rewrite("stablehlo.reduce", platforms=("cpu",))
def reduce_of_two_bits_and_others(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Reduce s2 and u2 as s8 and u8 if there are operands of other element types.

    In the rewritten reduce, the reducer converts the elements back. XLA's CPU compiler requires
    operands of equal layouts, and 2-bit elements have another layout than wider ones.

    Shown by: reduce_s2_with_numbers.
    """
    if len(set(map(b.element_type, operation.operands))) == 1:
        return None
    return b.around_region(operation, TWO_BITS)


@rewrite("stablehlo.select_and_scatter", platforms=ALL_PLATFORMS)
def select_and_scatter_of_scalars(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace a select_and_scatter of scalars by its scatter computation.

    A scalar operand has one window, of one element, which is selected. The result is the scatter
    computation applied to the initial value and the source. XLA's compiler aborts on the operation.

    Shown by: select_and_scatter_of_scalars.
    """
    operand, source, initial = operation.operands
    if ir.RankedTensorType(operand.type).rank:
        return None
    return b.inline(operation, 1, [initial, source])


@rewrite("stablehlo.select_and_scatter", platforms=("cpu", "gpu"))
def select_and_scatter_of_equal_elements(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Select elements together with their indices, and scatter to these indices.

    StableHLO combines the elements of a window in their order, so a selection that prefers the
    first of two equal elements selects the first of the window. XLA combines the elements of padded
    windows along several dimensions in another order, and selects a later one.

    Shown by: select_and_scatter_of_equal_elements.
    """
    operand, source, initial = operation.operands
    shape, windows = array_of(operand), array_of(source)
    padding = padding_of(operation)
    window_rank = sum(size > 1 for size in integers_of(operation, "window_dimensions"))
    if not (window_rank > 1 and any(padding) and shape.is_static and windows.is_static):
        return None
    count, times = shape.element_count, windows.element_count
    index = pt.s32 if count < 2**31 else pt.s64
    # Indices in row-major order; -1 in the padding.
    indices = b.reshaped(b.counted(intern_array(index, (count,)), 0), shape.dimensions)
    made = b.create(
        "reduce_window",
        [source.type, windows.with_element_type(index)],
        [operand, indices, initial, b.number(-1, index)],
        {name: operation.attributes[name] for name in _WINDOW if name in operation.attributes},
        regions=1,
    )
    scalars = [intern_array(shape.element_type, ()), intern_array(index, ())]
    reducer, arguments = b.block_in(made.regions[0], scalars * 2)
    reducer.end(_first_selected(reducer, operation, *arguments))
    # The scatter ignores updates at indices out of bounds.
    where = b.reshaped(made.results[1], (times, 1))
    flat = intern_array(shape.element_type, (count,))
    scattered = b.create(
        "scatter",
        [flat],
        [b.spread(initial, flat), where, b.reshaped(source, (times,))],
        {
            "scatter_dimension_numbers": "#stablehlo.scatter<inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>",
            "indices_are_sorted": False,
            "unique_indices": False,
        },
        regions=1,
    )
    computation, pair = b.block_in(scattered.regions[0], scalars[:1] * 2)
    computation.end(computation.inline(operation, 1, pair))
    return [b.reshaped(scattered.results[0], shape.dimensions)]


_WINDOW: Final = ("window_dimensions", "window_strides", "padding")


def _first_selected(
    b: OpBuilder, owner: ir.Operation, lhs: Value, lhs_index: Value, rhs: Value, rhs_index: Value
) -> list[Value]:
    """Return the selected element of two, and its index; the order of operands does not matter."""
    (forward,) = b.inline(owner, 0, [lhs, rhs])
    (backward,) = b.inline(owner, 0, [rhs, lhs])
    is_ordered = b.compared("LT", lhs_index, rhs_index)
    selects_lhs = b.selected(is_ordered, forward, b.elementwise("not", backward))
    padding = b.number(-1, array_of(lhs_index).element_type)
    is_element = b.compared("NE", lhs_index, padding)
    is_alone = b.compared("EQ", rhs_index, padding)
    selects_lhs = b.elementwise("or", is_alone, b.elementwise("and", is_element, selects_lhs))
    return [b.selected(selects_lhs, lhs, rhs), b.selected(selects_lhs, lhs_index, rhs_index)]


@rewrite("stablehlo.select_and_scatter", platforms=("tpu",))
def select_and_scatter_of_low_rank(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Add dimensions of size 1 until two dimensions have no window.

    A TPU tiles the last two dimensions of an array, and does not support windows along them.
    """
    operand, source, initial = operation.operands
    rank = array_of(operand).rank
    sizes = integers_of(operation, "window_dimensions", [1] * rank)
    strides = integers_of(operation, "window_strides", [1] * rank)
    windows = zip(sizes, strides, strict=True)
    missing = 2 - sum(size == stride == 1 for size, stride in windows)
    if missing <= 0 or not (is_static(operand.type) and is_static(source.type)):
        return None
    ones = [1] * missing
    padding = [*(padding_of(operation) or [0] * (2 * rank)), *[0] * (2 * missing)]
    pairs = [padding[at : at + 2] for at in range(0, len(padding), 2)]
    attributes: Attributes = {
        "window_dimensions": [*sizes, *ones],
        "window_strides": [*strides, *ones],
        "padding": f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>",
    }
    arrays = [b.reshaped(v, (*array_of(v).dimensions, *ones)) for v in (operand, source)]
    made = b.like(operation, [*arrays, initial], [arrays[0].type], attributes)
    return [b.reshaped(made.results[0], array_of(operand).dimensions)]
