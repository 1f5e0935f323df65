"""Contractions that platforms lack: of few bits, of ragged groups, of bounded spatial sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.attributes import DotDimensionNumbers, RaggedDotDimensionNumbers
from builder.attributes.window import dilated
from builder.shape_inference.contraction import RaggedMode, ragged_mode, ragged_prefix
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import ALL_PLATFORMS, INTERPRETER, Value, refuse, rewrite
from lowering.mlir.types import shape_of_type
from lowering.stablehlo.attribute_codecs import reader_of

# MHLO's is what jaxlib makes of HLO text.
_NAMES: Final = ("chlo.ragged_dot", "mhlo.ragged_dot")


def _is_static(operation: ir.Operation) -> bool:
    values = (*operation.operands, *operation.results)
    return all(shape_of_type(value.type).is_static for value in values)


for _name in _NAMES:
    refuse(
        _name,
        "cpu",
        reason="it is written out there as a plain dot product of all groups, which can't be done "
        "with sizes that are known only when it runs",
        fix="pad the operands to fixed sizes; rows behind the last group give zeros",
        unless=_is_static,
    )


def _summed_windows(b: OpBuilder, value: Value, sizes: Sequence[int], padding: str) -> Value:
    """The sums over windows that give an array of the same sizes."""
    shape = array_of(value)
    made = b.create(
        "reduce_window",
        [shape],
        [value, b.number(0, shape.element_type)],
        {"window_dimensions": sizes, "padding": padding},
        regions=1,
    )
    b.reducer(made.regions[0], shape.element_type, "add")
    return made.results[0]


def _dot(
    b: OpBuilder,
    lhs: Value,
    rhs: Value,
    numbers: DotDimensionNumbers,
    to: PrimitiveType,
    precision: str,
) -> Value:
    left, right = array_of(lhs), array_of(rhs)
    n = numbers
    sizes = [left.dimensions[d] for d in n.lhs_batch_dimensions]
    for array, taken in (
        (left, (*n.lhs_batch_dimensions, *n.lhs_contracting_dimensions)),
        (right, (*n.rhs_batch_dimensions, *n.rhs_contracting_dimensions)),
    ):
        sizes += [size for d, size in enumerate(array.dimensions) if d not in taken]
    text = (
        f"lhs_batching_dimensions = {list(n.lhs_batch_dimensions)}, "
        f"rhs_batching_dimensions = {list(n.rhs_batch_dimensions)}, "
        f"lhs_contracting_dimensions = {list(n.lhs_contracting_dimensions)}, "
        f"rhs_contracting_dimensions = {list(n.rhs_contracting_dimensions)}"
    )
    return b(
        "dot_general",
        intern_array(to, tuple(sizes)),
        [lhs, rhs],
        {"dot_dimension_numbers": f"#stablehlo.dot<{text}>", "precision_config": precision},
    )


_ragged_numbers = reader_of("ragged_dot", "dimension_numbers")


def _precision(operation: ir.Operation) -> str:
    if "precision_config" not in operation.attributes:
        return "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"
    text = str(operation.attributes["precision_config"])
    return re.sub(r"#\w+<", "#stablehlo<", text)


@rewrite(
    *("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"),
    *_NAMES,
    platforms=("cpu", "gpu"),
)
def narrow_contraction(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Contract elements of 2 bits, and of 4 bits into another type, in the result's type or 8 bits.

    XLA has no code for 2-bit elements. It converts 4-bit operands to the result's type itself, and
    then refuses the layout that it gave them. Sums of integers that wrap in 8 bits end in the same
    bits as sums that wrap in 2.

    Shown by: dot_general_s2, dot_general_s4_s32, dot_general_f4_f32, convolution_s2_window,
    convolution_s4_s32.
    """
    result = b.element_type(operation.results[0])
    types = [b.element_type(operand) for operand in operation.operands[:2]]
    if result is None or not any(_is_narrow(one, result) for one in types):
        return None
    wide = result
    if result.bits < 8:
        wide = pt.s8 if result.is_signed else pt.u8
    lhs, rhs, *sizes = operation.operands
    values = [b.converted(lhs, wide), b.converted(rhs, wide), *sizes]
    shape = array_of(operation.results[0]).with_element_type(wide)
    made = b.like(operation, values, [shape])
    return [b.converted(made.results[0], result)]


def _is_narrow(element_type: PrimitiveType | None, result: PrimitiveType) -> bool:
    if element_type is None or element_type.bits >= 8 or element_type is pt.pred:
        return False
    return element_type.bits == 2 or element_type is not result


@rewrite(*_NAMES, platforms=("cpu", INTERPRETER))
def ragged_dot(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand ragged_dot into a dot_general of all rows with all groups, and select.

    XLA's CPU backend has no code for it. No product of a row with another group is added, not even
    multiplied by zero, since infinities would make it NaN. Floats of at most 8 bits are computed in
    f32, so that they are rounded once; f8e8m0fnu has no zero to begin with.
    """
    if not _is_static(operation):
        return None  # refused
    attribute = operation.attributes["ragged_dot_dimension_numbers"]
    numbers: RaggedDotDimensionNumbers = _ragged_numbers(attribute)
    precision = _precision(operation)
    lhs, rhs, sizes = operation.operands
    result = array_of(operation.results[0])
    to = result.element_type
    if array_of(lhs).element_type.is_floating and array_of(lhs).element_type.bits <= 8:
        lhs, rhs = (b.converted(value, pt.f32) for value in (lhs, rhs))
        to = to if to.bits > 32 else pt.f32
    mode = ragged_mode(numbers)
    groups = array_of(sizes).dimensions[-1]
    dot = numbers.dot_dimension_numbers
    if mode is RaggedMode.BATCH:
        value = _dot(b, lhs, rhs, dot, to, precision)
    elif not groups:
        value = b.filled(result.with_element_type(to), 0)
    elif mode is RaggedMode.FREE:
        value = _free(b, lhs, rhs, sizes, numbers, to, precision)
    else:
        value = _contracting(b, lhs, rhs, sizes, numbers, to, precision)
    return [b.converted(value, result.element_type)]


def _membership(
    b: OpBuilder, sizes: Value, numbers: RaggedDotDimensionNumbers, lhs: ArrayShape
) -> Value:
    """Whether an index of the ragged dimension is in a group: pred [prefix..., groups, indices]."""
    length = lhs.dimensions[numbers.lhs_ragged_dimensions[0]]
    given = array_of(sizes)
    # A group has no more rows than there are: so the sums of sizes fit 64 bits.
    if given.element_type.max > length:
        sizes = b("minimum", given, [sizes, b.filled(given, length)])
    sizes = b.converted(sizes, pt.s64)
    prefix = tuple(lhs.dimensions[d] for d in ragged_prefix(numbers))
    shape = intern_array(pt.s64, (*prefix, given.dimensions[-1]))
    if given.rank != shape.rank:
        sizes = b.spread(sizes, shape, [shape.rank - 1])
    groups = shape.dimensions[-1]
    ends = sizes
    if 0 not in shape.dimensions:
        before = [[0, 0]] * len(prefix) + [[groups - 1, 0]]
        padding = f"dense<{before}> : tensor<{shape.rank}x2xi64>"
        ends = _summed_windows(b, sizes, [1] * len(prefix) + [groups], padding)
    starts = b("subtract", shape, [ends, sizes])
    grid = intern_array(pt.s64, (*shape.dimensions, length))
    places = range(shape.rank)
    index = b.counted(grid, shape.rank)
    return b(
        "and",
        grid.with_element_type(pt.pred),
        [
            b.compared("LE", b.spread(starts, grid, places), index),
            b.compared("LT", index, b.spread(ends, grid, places)),
        ],
    )


def _free(
    b: OpBuilder,
    lhs: Value,
    rhs: Value,
    sizes: Value,
    numbers: RaggedDotDimensionNumbers,
    to: PrimitiveType,
    precision: str,
) -> Value:
    """Multiply each row by the matrices of all groups, and sum over the one that it is in."""
    dot = numbers.dot_dimension_numbers
    product = _dot(b, lhs, rhs, dot, to, precision)
    shape = array_of(product)
    # Where the dimensions of lhs, and the group dimension, are in the product.
    batch = dot.lhs_batch_dimensions
    taken = (*batch, *dot.lhs_contracting_dimensions)
    free = [d for d in range(array_of(lhs).rank) if d not in taken]
    places = {d: i for i, d in enumerate((*batch, *free))}
    taken = (*dot.rhs_batch_dimensions, *dot.rhs_contracting_dimensions)
    (group,) = numbers.rhs_group_dimensions
    at = len(places) + [d for d in range(array_of(rhs).rank) if d not in taken].index(group)
    inside = b.spread(
        _membership(b, sizes, numbers, array_of(lhs)),
        shape,
        [
            *(places[d] for d in ragged_prefix(numbers)),
            at,
            places[numbers.lhs_ragged_dimensions[0]],
        ],
    )
    return b.reduced(b.masked(inside, product), [at], 0, "or" if to is pt.pred else "add")


def _contracting(
    b: OpBuilder,
    lhs: Value,
    rhs: Value,
    sizes: Value,
    numbers: RaggedDotDimensionNumbers,
    to: PrimitiveType,
    precision: str,
) -> Value:
    """Compute a product for each group, of operands that are zero outside it."""
    dot = numbers.dot_dimension_numbers
    inside = _membership(b, sizes, numbers, array_of(lhs))
    ragged = numbers.lhs_ragged_dimensions[0]
    contracting = dict(
        zip(dot.lhs_contracting_dimensions, dot.rhs_contracting_dimensions, strict=True)
    )
    batch = dict(zip(dot.lhs_batch_dimensions, dot.rhs_batch_dimensions, strict=True))
    of_rhs = contracting | batch
    masked = []
    for value, places in (
        (lhs, [*ragged_prefix(numbers), ragged]),
        (rhs, [of_rhs[d] for d in (*ragged_prefix(numbers), ragged)]),
    ):
        source = array_of(value)
        shape = intern_array(
            source.element_type, (array_of(sizes).dimensions[-1], *source.dimensions)
        )
        *prefix, last = [place + 1 for place in places]
        mask = b.spread(inside, shape, [*prefix, 0, last])
        masked.append(b.masked(mask, b.spread(value, shape, range(1, shape.rank))))
    inner = DotDimensionNumbers(
        tuple(d + 1 for d in dot.lhs_contracting_dimensions),
        tuple(d + 1 for d in dot.rhs_contracting_dimensions),
        (0, *(d + 1 for d in dot.lhs_batch_dimensions)),
        (0, *(d + 1 for d in dot.rhs_batch_dimensions)),
    )
    return _dot(b, masked[0], masked[1], inner, to, precision)


def _labels(operation: ir.Operation) -> list[list[str]]:
    """The labels of the dimensions of the input, the kernel and the output, as MLIR prints them."""
    text = str(operation.attributes["dimension_numbers"])
    return [part.split(", ") for part in re.findall(r"\[([^\]]*)\]", text)]


def _bounded_labels(operation: ir.Operation) -> tuple[set[str], set[str]]:
    """The labels of the bounded dimensions of the input and of the kernel."""
    labels = _labels(operation)
    bounded = []
    for operand, names in zip(operation.operands, labels, strict=False):
        dynamic = array_of(operand).dynamic_dimensions
        bounded.append(
            {name for name, is_bounded in zip(names, dynamic, strict=True) if is_bounded}
        )
    return bounded[0], bounded[1]


def _has_a_fixed_kernel(operation: ir.Operation) -> bool:
    return _bounded_labels(operation)[1] <= {"i"}


def _has_whole_batches(operation: ir.Operation) -> bool:
    groups = ir.IntegerAttr(operation.attributes["batch_group_count"]).value
    return groups == 1 or "b" not in _bounded_labels(operation)[0]


def _is_computable(operation: ir.Operation) -> bool:
    return _has_a_fixed_kernel(operation) and _has_whole_batches(operation)


refuse(
    "stablehlo.convolution",
    "cpu",
    "gpu",
    "tpu",
    reason="the window's sizes, or those of a batch that is cut into groups, are known only when "
    "it runs, and XLA has no convolution of such sizes",
    fix="pad to fixed sizes; a kernel padded with zeros gives the same sums",
    unless=_is_computable,
)


def _is_not_of_long_integers(operation: ir.Operation) -> bool:
    types = {array_of(value).element_type for value in operation.operands}
    return not types & {pt.s64, pt.u64}


for _name in ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"):
    refuse(
        _name,
        "tpu",
        reason="XLA multiplies there no integers of 64 bits in dot products and convolutions",
        fix="convert to s32, or to f64, with xb.convert_element_type",
        unless=_is_not_of_long_integers,
    )


@rewrite("stablehlo.convolution", platforms=ALL_PLATFORMS)
def bounded_convolution(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convolve in the largest sizes, with zeros beyond the bounded spatial sizes, as for padding.

    XLA has no rule for bounded spatial dimensions. It has one for batches and features.

    Shown by: convolution_of_a_bounded_size.
    """
    bounded = sorted(_bounded_labels(operation)[0])
    if not set(bounded) - {"b", "f"} or not _is_computable(operation):
        return None  # XLA has a rule, or the operation is refused
    value, rhs = operation.operands
    sources, _, targets = _labels(operation)
    sizes = {name: b.size(value, sources.index(name)) for name in bounded}
    value = b.at_bounds(value)
    shape = array_of(value)
    counts = shape.with_element_type(pt.s32)
    for name in bounded:
        if name != "b":  # batches do not mix
            there = [b.counted(counts, sources.index(name)), b.spread(sizes[name], counts)]
            value = b.masked(b.compared("LT", *there), value)
    result = array_of(operation.results[0])
    whole = intern_array(result.element_type, result.dimensions)
    value = b("convolution", whole, [value, rhs], attributes_of(operation))
    found: list[Value | None] = [None] * len(targets)
    for name in bounded:
        if name != "f":
            size = sizes[name]
            if name != "b":
                size = _window_count(b, operation, int(name), size)
            found[targets.index(name)] = size
    return [b.sized(value, found)]


def _window_count(b: OpBuilder, operation: ir.Operation, dimension: int, size: Value) -> Value:
    """The number of positions of the window along a spatial dimension of this size."""
    attributes = attributes_of(operation)

    def entry(name: str) -> int:
        if name not in attributes:
            return 1
        return int(ir.DenseI64ArrayAttr(attributes[name])[dimension])

    added = 0
    if "padding" in attributes:
        padding = ir.DenseIntElementsAttr(attributes["padding"])
        added = padding[2 * dimension] + padding[2 * dimension + 1]
    kernel = array_of(operation.operands[1])
    width = kernel.dimensions[_labels(operation)[1].index(str(dimension))]
    stride = entry("window_strides")
    scalar = intern_array(pt.s64, ())

    def number(value: int) -> Value:
        return b.number(value, pt.s64)

    length = b.converted(size, pt.s64)
    length = b("subtract", scalar, [length, number(1)])
    length = b("multiply", scalar, [length, number(entry("lhs_dilation"))])
    length = b("maximum", scalar, [b("add", scalar, [length, number(1)]), number(0)])
    beyond = added - dilated(width, entry("rhs_dilation"))
    beyond_first = b("add", scalar, [length, number(beyond)])
    steps = b("maximum", scalar, [beyond_first, number(-stride)])
    whole = b("add", scalar, [steps, number(stride)])
    return b.converted(b("divide", scalar, [whole, number(stride)]), pt.s32)
