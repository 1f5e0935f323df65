"""Contractions that platforms lack.

Dot products with groups of unequal sizes, which a CPU has not, become plain ones; convolutions of
bounded spatial sizes, which XLA has not, become those of the largest sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.attributes import DotDimensionNumbers, RaggedDotDimensionNumbers
from builder.attributes.window import dilated
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, intern_array
from builder.shape_inference.contraction import RaggedMode, ragged_mode, ragged_prefix
from lowering.legalize.registry import Rewriter, Value, refuse, rewrite
from lowering.legalize.words import Words, array_of, attributes_of
from lowering.types import mlir_type, shape_of_type

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


class _Writer(Words):
    """Writes what contractions are said in."""

    def text(
        self, name: str, shape: ArrayShape, operands: Sequence[Value], **attributes: str
    ) -> Value:
        """The result of a new operation, whose attributes are given as MLIR text."""
        return self(name, shape, operands, self._all_parsed(attributes))

    def _all_parsed(self, attributes: dict[str, str]) -> dict[str, ir.Attribute]:
        return {key: self.parsed(text) for key, text in attributes.items()}

    def filled(self, shape: ArrayShape, number: int) -> Value:
        """An array of one number throughout."""
        return self.spread(self.number(number, shape.element_type), shape)

    def where(self, chosen: Value, value: Value) -> Value:
        """The value where `chosen` says so, else 0."""
        shape = array_of(value)
        return self("select", shape, [chosen, value, self.filled(shape, 0)])

    def folded(
        self, name: str, shape: ArrayShape, value: Value, opcode: str, **attributes: str
    ) -> Value:
        """A reduction, of dimensions or over windows, from 0, by a binary opcode."""
        kind = mlir_type(intern_array(shape.element_type, ()), self.before.context)
        operation = self.rewriter.create(
            f"stablehlo.{name}",
            [mlir_type(shape, self.before.context)],
            [value, self.number(0, shape.element_type)],
            self._all_parsed(attributes),
            before=self.before,
            regions=1,
        )
        location = self.before.location
        block = ir.Block.create_at_start(operation.regions[0], [kind, kind], [location] * 2)
        inside: dict[str, Any] = {"loc": location, "ip": ir.InsertionPoint(block)}
        both = ir.Operation.create(f"stablehlo.{opcode}", [kind], list(block.arguments), **inside)
        ir.Operation.create("stablehlo.return", [], [both.result], **inside)
        return operation.result

    def dot(
        self,
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
        return self.text(
            "dot_general",
            intern_array(to, tuple(sizes)),
            [lhs, rhs],
            dot_dimension_numbers=f"#stablehlo.dot<{text}>",
            precision_config=precision,
        )


def _i64s(numbers: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"


def ragged_numbers(attribute: ir.Attribute) -> RaggedDotDimensionNumbers:
    """What the attribute ``#chlo.ragged_dot<...>`` says, or that of MHLO."""
    text = str(attribute)
    found = {
        name: tuple(int(n) for n in values.split(",") if n.strip())
        for name, values in re.findall(r"(\w+) = \[([^\]]*)\]", text)
    }
    return RaggedDotDimensionNumbers(
        DotDimensionNumbers(
            found.get("lhs_contracting_dimensions", ()),
            found.get("rhs_contracting_dimensions", ()),
            found.get("lhs_batching_dimensions", ()),
            found.get("rhs_batching_dimensions", ()),
        ),
        found.get("lhs_ragged_dimensions", ()),
        found.get("rhs_group_dimensions", ()),
    )


def _precision(operation: ir.Operation) -> str:
    if "precision_config" not in operation.attributes:
        return "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"
    text = str(operation.attributes["precision_config"])
    return re.sub(r"#\w+<", "#stablehlo<", text)


@rewrite("chlo.ragged_dot", "cpu")
@rewrite("mhlo.ragged_dot", "cpu")
def ragged_dot(rewriter: Rewriter, operation: ir.Operation) -> None:
    """The dot product of all rows with all groups, of which those are kept that go together.

    Nothing of one group comes into another, not even multiplied by zero: an infinity would make a
    NaN of it. Floats of at most 8 bits are computed in f32, which rounds once; one of them has no
    zero to begin with.
    """
    if not _is_static(operation):
        return  # it is refused
    write = _Writer(rewriter, operation)
    numbers = ragged_numbers(operation.attributes["ragged_dot_dimension_numbers"])
    precision = _precision(operation)
    lhs, rhs, sizes = operation.operands
    result = array_of(operation.results[0])
    to = result.element_type
    if array_of(lhs).element_type.is_floating and array_of(lhs).element_type.bits <= 8:
        lhs, rhs = (write.converted(value, pt.f32) for value in (lhs, rhs))
        to = to if to.bits > 32 else pt.f32
    mode = ragged_mode(numbers)
    groups = array_of(sizes).dimensions[-1]
    dot = numbers.dot_dimension_numbers
    if mode is RaggedMode.BATCH:
        value = write.dot(lhs, rhs, dot, to, precision)
    elif not groups:
        value = write.filled(result.with_element_type(to), 0)
    elif mode is RaggedMode.FREE:
        value = _free(write, lhs, rhs, sizes, numbers, to, precision)
    else:
        value = _contracting(write, lhs, rhs, sizes, numbers, to, precision)
    rewriter.replace(operation, [write.converted(value, result.element_type)])


def _membership(
    write: _Writer, sizes: Value, numbers: RaggedDotDimensionNumbers, lhs: ArrayShape
) -> Value:
    """Whether an index of the ragged dimension is in a group: pred [prefix..., groups, indices]."""
    length = lhs.dimensions[numbers.lhs_ragged_dimensions[0]]
    given = array_of(sizes)
    # No group needs more than there is: so the sums of sizes fit 64 bits, whatever they are.
    if given.element_type.max > length:
        sizes = write("minimum", given, [sizes, write.filled(given, length)])
    sizes = write.converted(sizes, pt.s64)
    prefix = tuple(lhs.dimensions[d] for d in ragged_prefix(numbers))
    shape = intern_array(pt.s64, (*prefix, given.dimensions[-1]))
    if given.rank != shape.rank:
        sizes = write.spread(sizes, shape, [shape.rank - 1])
    groups = shape.dimensions[-1]
    ends = sizes
    if 0 not in shape.dimensions:
        before = [[0, 0]] * len(prefix) + [[groups - 1, 0]]
        ends = write.folded(
            "reduce_window",
            shape,
            sizes,
            "add",
            window_dimensions=_i64s([1] * len(prefix) + [groups]),
            padding=f"dense<{before}> : tensor<{shape.rank}x2xi64>",
        )
    starts = write("subtract", shape, [ends, sizes])
    grid = intern_array(pt.s64, (*shape.dimensions, length))
    places = range(shape.rank)
    index = write.counted(grid, shape.rank)
    return write(
        "and",
        grid.with_element_type(pt.pred),
        [
            write.compared("LE", write.spread(starts, grid, places), index),
            write.compared("LT", index, write.spread(ends, grid, places)),
        ],
    )


def _free(
    write: _Writer,
    lhs: Value,
    rhs: Value,
    sizes: Value,
    numbers: RaggedDotDimensionNumbers,
    to: PrimitiveType,
    precision: str,
) -> Value:
    """Each row times the matrices of all groups; summed over the groups that it is in: one."""
    dot = numbers.dot_dimension_numbers
    product = write.dot(lhs, rhs, dot, to, precision)
    shape = array_of(product)
    # Where the dimensions of lhs, and the group dimension, are in the product.
    batch = dot.lhs_batch_dimensions
    taken = (*batch, *dot.lhs_contracting_dimensions)
    free = [d for d in range(array_of(lhs).rank) if d not in taken]
    places = {d: i for i, d in enumerate((*batch, *free))}
    taken = (*dot.rhs_batch_dimensions, *dot.rhs_contracting_dimensions)
    (group,) = numbers.rhs_group_dimensions
    at = len(places) + [d for d in range(array_of(rhs).rank) if d not in taken].index(group)
    inside = write.spread(
        _membership(write, sizes, numbers, array_of(lhs)),
        shape,
        [
            *(places[d] for d in ragged_prefix(numbers)),
            at,
            places[numbers.lhs_ragged_dimensions[0]],
        ],
    )
    sizes_left = tuple(size for d, size in enumerate(shape.dimensions) if d != at)
    return write.folded(
        "reduce",
        intern_array(to, sizes_left),
        write.where(inside, product),
        "or" if to is pt.pred else "add",
        dimensions=_i64s([at]),
    )


def _contracting(
    write: _Writer,
    lhs: Value,
    rhs: Value,
    sizes: Value,
    numbers: RaggedDotDimensionNumbers,
    to: PrimitiveType,
    precision: str,
) -> Value:
    """A product for each group, of operands that are zero outside of it."""
    dot = numbers.dot_dimension_numbers
    inside = _membership(write, sizes, numbers, array_of(lhs))
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
        mask = write.spread(inside, shape, [*prefix, 0, last])
        masked.append(write.where(mask, write.spread(value, shape, range(1, shape.rank))))
    inner = DotDimensionNumbers(
        tuple(d + 1 for d in dot.lhs_contracting_dimensions),
        tuple(d + 1 for d in dot.rhs_contracting_dimensions),
        (0, *(d + 1 for d in dot.lhs_batch_dimensions)),
        (0, *(d + 1 for d in dot.rhs_batch_dimensions)),
    )
    return write.dot(masked[0], masked[1], inner, to, precision)


def _labels(operation: ir.Operation) -> list[list[str]]:
    """What the dimensions of the input, the kernel and the output are, as MLIR writes it."""
    text = str(operation.attributes["dimension_numbers"])
    return [part.split(", ") for part in re.findall(r"\[([^\]]*)\]", text)]


def _bounded_labels(operation: ir.Operation) -> tuple[set[str], set[str]]:
    """Which dimensions of the input and of the kernel have bounded sizes."""
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


@rewrite("stablehlo.convolution", "cpu", "tpu")
def bounded_convolution(rewriter: Rewriter, operation: ir.Operation) -> None:
    """Of the largest sizes, with zeros for what is not there, as for padding."""
    bounded = sorted(_bounded_labels(operation)[0])
    if not set(bounded) - {"b", "f"} or not _is_computable(operation):
        return  # XLA follows the sizes of these; and what is not computable is refused
    write = _Writer(rewriter, operation)
    value, rhs = operation.operands
    sources, _, targets = _labels(operation)
    sizes = {name: write.size(value, sources.index(name)) for name in bounded}
    value = write.at_bounds(value)
    shape = array_of(value)
    counts = shape.with_element_type(pt.s32)
    for name in bounded:
        if name != "b":  # of other batches nothing comes into one
            there = [write.counted(counts, sources.index(name)), write.spread(sizes[name], counts)]
            value = write.where(write.compared("LT", *there), value)
    result = array_of(operation.results[0])
    whole = intern_array(result.element_type, result.dimensions)
    value = write("convolution", whole, [value, rhs], attributes_of(operation))
    found: list[Value | None] = [None] * len(targets)
    for name in bounded:
        if name != "f":
            size = sizes[name]
            if name != "b":
                size = _window_count(write, operation, int(name), size)
            found[targets.index(name)] = size
    value = write.sized(value, found)
    rewriter.replace(operation, [value])


def _window_count(write: _Writer, operation: ir.Operation, dimension: int, size: Value) -> Value:
    """How many positions of the window there are along a spatial dimension of this size."""
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
        return write.number(value, pt.s64)

    length = write.converted(size, pt.s64)
    length = write("subtract", scalar, [length, number(1)])
    length = write("multiply", scalar, [length, number(entry("lhs_dilation"))])
    length = write("maximum", scalar, [write("add", scalar, [length, number(1)]), number(0)])
    beyond = added - dilated(width, entry("rhs_dilation"))
    beyond_first = write("add", scalar, [length, number(beyond)])
    steps = write("maximum", scalar, [beyond_first, number(-stride)])
    whole = write("add", scalar, [steps, number(stride)])
    return write.converted(write("divide", scalar, [whole, number(stride)]), pt.s32)
