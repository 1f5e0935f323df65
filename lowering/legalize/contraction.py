"""Rewrites and refusals of contractions and convolutions that a platform does not support.

These are contractions of elements of few bits, contractions of ragged groups, dot products of
64-bit integers, and convolutions of bounded sizes.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.attributes import DotDimensionNumbers, RaggedDotDimensionNumbers
from builder.ops.contraction.dot_product import (
    RaggedMode,
    dot_general_shape,
    ragged_mode,
    ragged_prefix,
)
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array
from lowering.legalize.op_builder import OpBuilder, array_of, integer_of, is_static
from lowering.legalize.reduction import window_count, window_dimension
from lowering.legalize.registry import ALL_PLATFORMS, INTERPRETER, Value, refuse, rewrite
from lowering.stablehlo.schema_attributes import reader_of

_DOTS: Final = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")

_RAGGED_DOTS: Final = ("chlo.ragged_dot", "mhlo.ragged_dot")
"""The ragged_dot of CHLO, and that of MHLO, which jaxlib creates from HLO text."""


def _is_static(operation: ir.Operation) -> bool:
    return all(is_static(value.type) for value in (*operation.operands, *operation.results))


for _name in _RAGGED_DOTS:
    refuse(
        _name,
        "cpu",
        reason="ragged_dot is expanded to a dot product of all groups, which requires fixed sizes",
        fix="pad the operands to fixed sizes; the result is zero in rows after the last group",
        unless=_is_static,
    )


@rewrite(*_DOTS, *_RAGGED_DOTS, platforms=("cpu", "gpu"))
def contraction_of_few_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Contract 2-bit elements, and 4-bit elements with a result of another type, in a wider type.

    XLA does not support 2-bit elements. It converts 4-bit operands to the result's type, and then
    refuses the layout that it assigned to them. The rewrite computes in the result's type, or in 8
    bits if the result's type is narrower. The low bits of an integer sum in 8 bits equal the sum in
    2 bits.

    Shown by: dot_general_s2, dot_general_s4_s32, dot_general_f4_f32, convolution_s2_window,
    convolution_s4_s32.
    """
    result = b.element_type(operation.results[0])
    types = [t for operand in operation.operands[:2] if (t := b.element_type(operand))]
    if result is None or not any(t.bits == 2 or (t.bits == 4 and t is not result) for t in types):
        return None
    wide = result
    if result.bits < 8:
        wide = pt.s8 if result.is_signed else pt.u8
    return b.in_types(operation, dict.fromkeys((*types, result), wide), operand_count=2)


@rewrite(*_RAGGED_DOTS, platforms=("cpu", INTERPRETER))
def ragged_dot(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand ragged_dot to a dot_general of all rows with all groups, and a selection.

    XLA's CPU backend does not support the operation. Products of a row with other groups are
    masked, not multiplied by zero, because an infinity times zero is NaN. Floats of at most 8 bits
    are computed in f32, so that results are rounded once, and because f8e8m0fnu has no zero.
    """
    if not _is_static(operation):
        return None  # refused
    lhs, rhs, sizes = operation.operands
    result = array_of(operation.results[0])
    to = result.element_type
    if array_of(lhs).element_type.is_floating and array_of(lhs).element_type.bits <= 8:
        lhs, rhs = (b.converted(value, pt.f32) for value in (lhs, rhs))
        to = to if to.bits > 32 else pt.f32
    numbers = _ragged_numbers(operation.attributes["ragged_dot_dimension_numbers"])
    expansion = _RaggedDot(b, lhs, rhs, sizes, numbers, to, _precision(operation))
    mode = ragged_mode(numbers)
    if mode is RaggedMode.BATCH:
        value = expansion.dot(lhs, rhs, numbers.dot_dimension_numbers)
    elif not array_of(sizes).dimensions[-1]:
        value = b.filled(result.with_element_type(to), 0)
    elif mode is RaggedMode.FREE:
        value = expansion.with_free_groups()
    else:
        value = expansion.with_contracted_groups()
    return [b.converted(value, result.element_type)]


_ragged_numbers = reader_of("ragged_dot", "dimension_numbers")


def _precision(operation: ir.Operation) -> str:
    if "precision_config" not in operation.attributes:
        return "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"
    text = str(operation.attributes["precision_config"])
    return re.sub(r"#\w+<", "#stablehlo<", text)


class _RaggedDot(NamedTuple):
    """Creates the operations that replace a ragged_dot.

    Attributes:
        b: creates the operations.
        lhs, rhs, sizes: the operands.
        numbers: the dimension numbers.
        element_type: the element type of the result.
        precision: the attribute precision_config, as MLIR text.
    """

    b: OpBuilder
    lhs: Value
    rhs: Value
    sizes: Value
    numbers: RaggedDotDimensionNumbers
    element_type: PrimitiveType
    precision: str

    def dot(self, lhs: Value, rhs: Value, numbers: DotDimensionNumbers) -> Value:
        """Create a dot_general."""
        left = array_of(lhs)
        right = array_of(rhs).with_element_type(left.element_type)
        shape = dot_general_shape(left, right, numbers, op="dot_general")
        attribute = stablehlo.DotDimensionNumbers.get(
            lhs_batching_dimensions=numbers.lhs_batch_dimensions,
            rhs_batching_dimensions=numbers.rhs_batch_dimensions,
            lhs_contracting_dimensions=numbers.lhs_contracting_dimensions,
            rhs_contracting_dimensions=numbers.rhs_contracting_dimensions,
            context=self.b.context,
        )
        return self.b(
            "dot_general",
            shape.with_element_type(self.element_type),
            [lhs, rhs],
            {"dot_dimension_numbers": attribute, "precision_config": self.precision},
        )

    def membership(self) -> Value:
        """Whether each index of the ragged dimension is in each group.

        The result is a pred[prefix..., groups, indices].
        """
        b, sizes = self.b, self.sizes
        lhs, given = array_of(self.lhs), array_of(sizes)
        length = lhs.dimensions[self.numbers.lhs_ragged_dimensions[0]]
        # Sizes are limited to the number of rows, so that their sums fit in 64 bits.
        if given.element_type.max > length:
            sizes = b.elementwise("minimum", sizes, b.filled(given, length))
        sizes = b.converted(sizes, pt.s64)
        prefix = [lhs.dimensions[d] for d in ragged_prefix(self.numbers)]
        shape = intern_array(pt.s64, (*prefix, given.dimensions[-1]))
        if given.rank != shape.rank:
            sizes = b.spread(sizes, shape, [shape.rank - 1])
        ends = sizes if 0 in shape.dimensions else self.cumulative_sum(sizes)
        starts = b.elementwise("subtract", ends, sizes)
        grid = intern_array(pt.s64, (*shape.dimensions, length))
        dimensions = range(shape.rank)
        index = b.counted(grid, shape.rank)
        is_after_start = b.compared("LE", b.spread(starts, grid, dimensions), index)
        is_before_end = b.compared("LT", index, b.spread(ends, grid, dimensions))
        return b.elementwise("and", is_after_start, is_before_end)

    def cumulative_sum(self, value: Value) -> Value:
        """The cumulative sums along the last dimension; each includes its own element."""
        shape = array_of(value)
        *outer, last = shape.dimensions
        padding = [*[[0, 0]] * len(outer), [last - 1, 0]]
        made = self.b.create(
            "reduce_window",
            [shape],
            [value, self.b.number(0, shape.element_type)],
            {
                "window_dimensions": [*[1] * len(outer), last],
                "padding": f"dense<{padding}> : tensor<{shape.rank}x2xi64>",
            },
            regions=1,
        )
        self.b.reducer(made.regions[0], shape.element_type, "add")
        return made.results[0]

    def with_free_groups(self) -> Value:
        """Multiply each row by the matrices of all groups, and select the row's own group."""
        b, numbers, dot = self.b, self.numbers, self.numbers.dot_dimension_numbers
        product = self.dot(self.lhs, self.rhs, dot)
        # The dimensions of lhs, and the group dimension, in the product.
        batch = dot.lhs_batch_dimensions
        consumed = (*batch, *dot.lhs_contracting_dimensions)
        free = [d for d in range(array_of(self.lhs).rank) if d not in consumed]
        places = {d: i for i, d in enumerate((*batch, *free))}
        consumed = (*dot.rhs_batch_dimensions, *dot.rhs_contracting_dimensions)
        rhs_free = [d for d in range(array_of(self.rhs).rank) if d not in consumed]
        (group,) = numbers.rhs_group_dimensions
        group_place = len(places) + rhs_free.index(group)
        prefix = [places[d] for d in ragged_prefix(numbers)]
        dimensions = [*prefix, group_place, places[numbers.lhs_ragged_dimensions[0]]]
        mask = b.spread(self.membership(), array_of(product), dimensions)
        name = "or" if self.element_type is pt.pred else "add"
        return b.reduced(b.masked(mask, product), [group_place], 0, name)

    def with_contracted_groups(self) -> Value:
        """Compute a product for each group, with the operands set to 0 outside of the group."""
        b, dot = self.b, self.numbers.dot_dimension_numbers
        membership = self.membership()
        groups = array_of(self.sizes).dimensions[-1]
        lhs_dimensions = [*ragged_prefix(self.numbers), self.numbers.lhs_ragged_dimensions[0]]
        lhs_paired = (*dot.lhs_contracting_dimensions, *dot.lhs_batch_dimensions)
        rhs_paired = (*dot.rhs_contracting_dimensions, *dot.rhs_batch_dimensions)
        rhs_of = dict(zip(lhs_paired, rhs_paired, strict=True))
        masked = []
        for value, dimensions in (
            (self.lhs, lhs_dimensions),
            (self.rhs, [rhs_of[d] for d in lhs_dimensions]),
        ):
            source = array_of(value)
            shape = intern_array(source.element_type, (groups, *source.dimensions))
            *prefix, ragged = (d + 1 for d in dimensions)
            mask = b.spread(membership, shape, [*prefix, 0, ragged])
            masked.append(b.masked(mask, b.spread(value, shape, range(1, shape.rank))))
        inner = DotDimensionNumbers(
            tuple(d + 1 for d in dot.lhs_contracting_dimensions),
            tuple(d + 1 for d in dot.rhs_contracting_dimensions),
            (0, *(d + 1 for d in dot.lhs_batch_dimensions)),
            (0, *(d + 1 for d in dot.rhs_batch_dimensions)),
        )
        return self.dot(masked[0], masked[1], inner)


def _labels(operation: ir.Operation) -> list[list[str]]:
    """The labels of the dimensions of the input, the kernel and the output, as MLIR prints them."""
    text = str(operation.attributes["dimension_numbers"])
    return [part.split(", ") for part in re.findall(r"\[([^\]]*)\]", text)]


def _bounded_labels(operation: ir.Operation) -> list[set[str]]:
    """The labels of the bounded dimensions of the input and of the kernel."""
    return [
        {
            label
            for label, dynamic in zip(labels, array_of(v).dynamic_dimensions, strict=True)
            if dynamic
        }
        for v, labels in zip(operation.operands, _labels(operation), strict=False)
    ]


def _is_computable(operation: ir.Operation) -> bool:
    """Whether the sizes of the kernel, and of a batch that is divided into groups, are fixed.

    The input feature dimension of the kernel may be bounded.
    """
    of_input, of_kernel = _bounded_labels(operation)
    is_grouped = integer_of(operation, "batch_group_count") > 1
    return of_kernel <= {"i"} and not (is_grouped and "b" in of_input)


refuse(
    "stablehlo.convolution",
    *ALL_PLATFORMS,
    reason="XLA requires fixed sizes of the kernel, and of a batch that is divided into groups",
    fix="pad the operands to fixed sizes; a kernel padded with zeros gives the same sums",
    unless=_is_computable,
)


def _has_no_long_integers(operation: ir.Operation) -> bool:
    types = {array_of(value).element_type for value in operation.operands}
    return not types & {pt.s64, pt.u64}


for _name in _DOTS:
    refuse(
        _name,
        "tpu",
        reason="XLA does not support 64-bit integers in dot products and convolutions",
        fix="convert to s32, or to f64, with xb.convert_element_type",
        unless=_has_no_long_integers,
    )


@rewrite("stablehlo.convolution", platforms=ALL_PLATFORMS)
def convolution_of_bounded_sizes(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convolve bounded spatial dimensions at their bounds, with zeros beyond the sizes.

    XLA supports bounded batch and feature dimensions in a convolution, but not bounded spatial
    dimensions. Zeros beyond the sizes have the effect of padding.

    Shown by: convolution_of_a_bounded_size.
    """
    bounded = sorted(_bounded_labels(operation)[0])
    if not set(bounded) - {"b", "f"} or not _is_computable(operation):
        return None  # XLA supports the operation, or it is refused
    value, kernel = operation.operands
    input_labels, kernel_labels, output_labels = _labels(operation)
    sizes = {label: b.size(value, input_labels.index(label)) for label in bounded}
    value = b.at_bounds(value)
    # Batches do not mix, so their undefined elements do not matter.
    masked = {input_labels.index(n): (None, size) for n, size in sizes.items() if n != "b"}
    value = b.masked(b.within(array_of(value), masked), value)
    result = array_of(operation.results[0]).at_bounds()
    value = b.like(operation, [value, kernel], [result]).results[0]
    result_sizes: list[Value | None] = [None] * len(output_labels)
    for label, size in sizes.items():
        if label not in ("b", "f"):
            width = array_of(kernel).dimensions[kernel_labels.index(label)]
            size = window_count(b, size, window_dimension(operation, int(label), width))
        if label != "f":
            result_sizes[output_labels.index(label)] = size
    return [b.sized(value, result_sizes)]


_PIECE_BITS: Final = 16
"""The number of bits of the pieces into which integers are split; f64 convolves the pieces."""

_MAX_TERMS: Final = 2 ** (53 - 2 * _PIECE_BITS)
"""The largest number of products of two pieces that f64 can sum exactly."""

_SUPPORTED_SMALL_FLOATS: Final = frozenset((pt.f8e5m2, pt.f8e4m3fn))
"""The 8-bit floats that the convolution library for GPUs supports."""


@rewrite("stablehlo.convolution", platforms=("gpu",))
def convolution_of_other_types(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convolve complex numbers by their parts, integers by pieces in f64, small floats in f32.

    The convolution library for GPUs supports s8, f8e5m2, f8e4m3fn and wider floats. Sums of
    products of 16-bit pieces of integers are exact in f64. These sums are added as integers, which
    wrap.
    """
    shapes = [array_of(value) for value in (*operation.operands, *operation.results)]
    if not all(shape.is_static for shape in shapes):
        return None
    types = {shape.element_type for shape in shapes}
    if any(t.is_complex for t in types):
        result = _by_parts(b, operation)
    elif any(t.is_floating and t.bits <= 8 and t not in _SUPPORTED_SMALL_FLOATS for t in types):
        result = _convolved(b, operation, *(b.converted(v, pt.f32) for v in operation.operands))
    elif all(t.is_integral for t in types) and types != {pt.s8} and _is_exact(operation):
        result = _by_pieces(b, operation, shapes[-1].element_type)
    else:
        return None
    return [b.converted(result, shapes[-1].element_type)]


def _convolved(b: OpBuilder, operation: ir.Operation, lhs: Value, rhs: Value) -> Value:
    """Apply the convolution to other operands; the result has their element type."""
    shape = array_of(operation.results[0]).with_element_type(array_of(lhs).element_type)
    return b.like(operation, [lhs, rhs], [shape]).results[0]


def _is_exact(operation: ir.Operation) -> bool:
    """Whether f64 can sum the products of pieces exactly."""
    return array_of(operation.operands[1]).element_count <= _MAX_TERMS


def _by_parts(b: OpBuilder, operation: ir.Operation) -> Value:
    (a, ai), (c, ci) = (b.parts(operand) for operand in operation.operands)
    pairs = ((a, c), (ai, ci), (a, ci), (ai, c))
    ac, bd, ad, bc = (_convolved(b, operation, *pair) for pair in pairs)
    real, imag = b.elementwise("subtract", ac, bd), b.elementwise("add", ad, bc)
    element_type = array_of(operation.operands[0]).element_type
    return b("complex", array_of(real).with_element_type(element_type), [real, imag])


def _by_pieces(b: OpBuilder, operation: ir.Operation, to: PrimitiveType) -> Value:
    lhs, rhs = operation.operands
    total: Value = None
    for lhs_number, lhs_piece in enumerate(_pieces(b, lhs)):
        for rhs_number, rhs_piece in enumerate(_pieces(b, rhs)):
            shift = _PIECE_BITS * (lhs_number + rhs_number)
            if shift >= to.bits:
                continue
            product = _convolved(b, operation, lhs_piece, rhs_piece)
            product = b.converted(b.elementwise("round_nearest_even", product), pt.s64)
            if shift:
                places = b.filled(array_of(product), shift)
                product = b.elementwise("shift_left", product, places)
            total = product if total is None else b.elementwise("add", total, product)
    return total


def _pieces(b: OpBuilder, value: Value) -> list[Value]:
    """Split integers into 16-bit pieces as f64, the lowest first; the highest piece is signed."""
    count = -(-array_of(value).element_type.bits // _PIECE_BITS)
    value = b.converted(value, pt.s64)
    shape = array_of(value)
    pieces = []
    for number in range(count):
        piece = value
        if number:
            places = b.filled(shape, _PIECE_BITS * number)
            piece = b.elementwise("shift_right_arithmetic", value, places)
        if number < count - 1:
            piece = b.elementwise("and", piece, b.filled(shape, 2**_PIECE_BITS - 1))
        pieces.append(b.converted(piece, pt.f64))
    return pieces
