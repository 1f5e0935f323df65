"""The cost of an op by opcode, following XLA's HloCostAnalysis.

By default an op reads its operands and writes its result. An elementwise op performs one operation
for each element of the result. The rules below are for other ops. The costs differ from XLA's:

- A tuple costs nothing. XLA counts its table of pointers, 8 bytes for each element, 4 in jaxlib
  0.12. Reading an element of a tuple costs nothing.
- A broadcast that also expands dimensions of size 1 is one op, and a splat constant costs nothing,
  like any constant. HLO has two instructions for such a broadcast, and for a splat constant.
- A `ragged_dot` sums along the contracting dimensions: a row of lhs is multiplied by the part of
  rhs for its group. XLA counts the group dimension as contracted.
- A `scan` runs its computation for each step. XLA counts one step.
- A `while` with a known trip count n runs its body n times and its condition n + 1 times. XLA
  counts one run of each. This project does so only if the trip count is unknown.
- Custom calls and Python calls count the bytes of operands and results. XLA counts -1.
- `send` and `recv` move their data once. HLO has two instructions for each, with the buffer in the
  result of the first.

Batch normalization counts only bytes, as in XLA. An operation on complex numbers is one operation.

XLA, xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import Final, NamedTuple

from builder.errors import ShapeInferenceError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.registry import registrar
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS, CostClass
from builder.support.caches import per_signature
from builder.types.shape import ArrayShape, Shape, TupleShape, leaves


class Cost(NamedTuple):
    """The cost of an op or a computation.

    Attributes:
        flops: the number of operations on elements, except transcendental operations.
        transcendentals: the number of transcendental operations on elements.
        bytes_accessed: the number of bytes read and written.
    """

    flops: int = 0
    transcendentals: int = 0
    bytes_accessed: int = 0

    def times(self, count: int, bytes_accessed: int) -> Cost:
        """Return the cost of `count` runs, with `bytes_accessed` as the bytes of all runs."""
        return Cost(self.flops * count, self.transcendentals * count, bytes_accessed)


Applied = Callable[[XlaComputation], Cost]
"""A function that returns the cost of a computation that an op applies to elements."""

Rule = Callable[[XlaOp, Applied], Cost]

RULES: Final[dict[str, Rule]] = {}


def cost_of(op: XlaOp, applied: Applied) -> Cost:
    """Return the cost of an op, without the computations that control flow calls.

    Args:
        op: any op.
        applied: a function that returns the cost of a computation that the op applies to elements.

    Raises:
        ShapeInferenceError: a shape has an unbounded dimension.
    """
    match SCHEMAS[op.opcode].cost:
        case CostClass.ELEMENTWISE:
            return Cost(flops=_count(op.shape), bytes_accessed=_bytes(op))
        case CostClass.TRANSCENDENTAL:
            return Cost(transcendentals=_count(op.shape), bytes_accessed=_bytes(op))
        case CostClass.FREE:
            return Cost()
        case CostClass.RULE:
            return RULES[op.opcode](op, applied)
        case CostClass.DATA_MOVEMENT | CostClass.CUSTOM:
            return Cost(bytes_accessed=_bytes(op))


rule = registrar(RULES)
"""Decorator: ``@rule("map")`` registers a function as the cost function of opcodes."""


@per_signature
def size_in_bytes(shape: Shape) -> int:
    """Return the size in bytes of the arrays in a shape.

    As in XLA, a dynamic array has 4 additional bytes for each dimension.
    """
    return sum(_leaf_size(leaf) for leaf in leaves(shape) if isinstance(leaf, ArrayShape))


def _leaf_size(shape: ArrayShape) -> int:
    if not shape.is_bounded:
        rule = "costs depend on sizes, and shapes can't have unbounded ones"
        fix = "declare the parameters of the computation with sizes or bounds"
        raise error_of(ShapeInferenceError, "stats", rule, fix, got=shape, shapes={"shape": shape})
    return shape.byte_size + (0 if shape.is_static else 4 * shape.rank)


def _count(shape: Shape) -> int:
    """Return the total number of elements of the arrays in a shape."""
    size_in_bytes(shape)  # raises for an unbounded dimension
    return sum(leaf.element_count for leaf in leaves(shape) if isinstance(leaf, ArrayShape))


def _bytes(op: XlaOp) -> int:
    """Return the number of bytes of operands and result; operands that are tuples cost nothing."""
    operands = [o.shape for o in op.operands if not isinstance(o.shape, TupleShape)]
    return sum(map(size_in_bytes, operands)) + size_in_bytes(op.shape)


def _first(shape: Shape) -> ArrayShape:
    """Return an array, or the first array of a tuple."""
    while isinstance(shape, TupleShape):
        shape = shape.elements[0]
    assert isinstance(shape, ArrayShape)  # checked by shape inference
    return shape


# Ops that read a part of an operand, or write a part of the result.


@rule("slice", "dynamic_slice", "gather")
def _slice(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(bytes_accessed=2 * size_in_bytes(op.shape) + _index_bytes(op, 1))


@rule("dynamic_update_slice")
def _dynamic_update_slice(op: XlaOp, _applied: Applied) -> Cost:
    update = size_in_bytes(op.operands[1].shape)
    return Cost(bytes_accessed=2 * update + _index_bytes(op, 2))


def _index_bytes(op: XlaOp, position: int) -> int:
    """Return the number of bytes of the index operand at `position`, or 0 if there is none.

    If an op has several index operands, XLA counts only the first.
    """
    return size_in_bytes(op.operands[position].shape) if len(op.operands) > position else 0


@rule("scatter")
def _scatter(op: XlaOp, applied: Applied) -> Cost:
    """Count reads of indices, updates and updated elements, and writes of updated elements."""
    arrays = len(op.operands) // 2
    indices, *updates = (size_in_bytes(o.shape) for o in op.operands[arrays:])
    count = _count(op.operands[-1].shape)
    return applied(op.attributes["to_apply"]).times(count, 3 * sum(updates) + indices)


@rule("outfeed")
def _outfeed(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(bytes_accessed=sum(size_in_bytes(o.shape) for o in op.operands))


# Contractions: a multiplication and an addition are two operations.


@rule("dot_general")
def _dot_general(op: XlaOp, _applied: Applied) -> Cost:
    lhs = _first(op.operands[0].shape)
    numbers = op.attributes["dimension_numbers"]
    width = prod(lhs.dimensions[d] for d in numbers.lhs_contracting_dimensions)
    return Cost(2 * _count(op.shape) * width, 0, _bytes(op))


@rule("ragged_dot")
def _ragged_dot(op: XlaOp, _applied: Applied) -> Cost:
    lhs, rhs = (_first(o.shape) for o in op.operands[:2])
    numbers = op.attributes["dimension_numbers"]
    dot = numbers.dot_dimension_numbers
    shared = {
        *dot.rhs_batch_dimensions,
        *dot.rhs_contracting_dimensions,
        *numbers.rhs_group_dimensions,
    }
    free = prod(size for d, size in enumerate(rhs.dimensions) if d not in shared)
    return Cost(2 * lhs.element_count * free, 0, _bytes(op))


@rule("convolution")
def _convolution(op: XlaOp, _applied: Applied) -> Cost:
    lhs, rhs = (_first(o.shape) for o in op.operands[:2])
    result = _first(op.shape)
    attributes = op.attributes
    numbers = attributes["dimension_numbers"]
    features = lhs.dimensions[numbers.input_feature_dimension] // attributes["feature_group_count"]
    batch = lhs.dimensions[numbers.input_batch_dimension] // attributes["batch_group_count"]
    products = features * batch * result.dimensions[numbers.output_feature_dimension]
    for i, (source, kernel, target) in enumerate(
        zip(
            numbers.input_spatial_dimensions,
            numbers.kernel_spatial_dimensions,
            numbers.output_spatial_dimensions,
            strict=True,
        )
    ):
        products *= _valid_positions(
            lhs.dimensions[source],
            rhs.dimensions[kernel],
            result.dimensions[target],
            stride=attributes["window_strides"][i],
            low=attributes["padding"][i][0],
            base=attributes["lhs_dilation"][i],
            window=attributes["rhs_dilation"][i],
        )
    return Cost(2 * products, 0, _bytes(op))


def _valid_positions(
    size: int, kernel: int, outputs: int, *, stride: int, low: int, base: int, window: int
) -> int:
    """Return the number of multiplications along one dimension.

    A multiplication is a pair of an output o and a kernel index k that reads an element of the
    array, rather than padding or a hole of base dilation: ``stride * o + window * k - low`` is a
    multiple of `base` and inside the array. The outputs of each k are counted in constant time.
    """
    if not size:
        return 0
    shared = gcd(stride, base)
    period = base // shared
    inverse = pow(stride // shared, -1, period)
    count = 0
    for k in range(kernel):
        offset = low - window * k
        if offset % shared:
            continue
        first = max(-(-offset // stride), 0)
        last = min((offset + (size - 1) * base) // stride, outputs - 1)
        # The first output at or after `first` that reads an element.
        first += (offset // shared * inverse - first) % period
        if first <= last:
            count += (last - first) // period + 1
    return count


# Reductions and sorts.


@rule("map")
def _map(op: XlaOp, applied: Applied) -> Cost:
    return applied(op.attributes["to_apply"]).times(_count(op.shape), _bytes(op))


@rule("reduce")
def _reduce(op: XlaOp, applied: Applied) -> Cost:
    count = _count(op.operands[0].shape) - _first(op.shape).element_count
    return applied(op.attributes["to_apply"]).times(max(count, 0), _bytes(op))


@rule("reduce_window")
def _reduce_window(op: XlaOp, applied: Applied) -> Cost:
    result = _first(op.shape)
    sizes = op.attributes["window_dimensions"]
    outputs = result.element_count
    count = (prod(sizes) - 1) * outputs
    width = _reduced_width(op, result)
    if width is not None:
        count = outputs // width + width - 1
    return applied(op.attributes["to_apply"]).times(max(count, 0), _bytes(op))


def _reduced_width(op: XlaOp, result: ArrayShape) -> int | None:
    """Return the size of the only reduced dimension if each window covers it, otherwise None.

    XLA counts such a `reduce_window` as a `reduce` and a broadcast.
    """
    if not op.shape.is_array:
        return None
    sizes, padding = op.attributes["window_dimensions"], op.attributes["padding"]
    reduced = [i for i, size in enumerate(sizes) if size != 1]
    padded = [i for i, (low, high) in enumerate(padding) if low or high]
    if len(reduced) != 1 or reduced != padded:
        return None
    (dimension,) = reduced
    low, high = padding[dimension]
    width = result.dimensions[dimension]
    is_covered = low == high == width - 1 and sizes[dimension] == 2 * low + 1
    return width if is_covered else None


@rule("select_and_scatter")
def _select_and_scatter(op: XlaOp, applied: Applied) -> Cost:
    windows = _count(op.operands[1].shape)
    # The selected element of a window of n is found by n - 1 comparisons.
    compared = windows * max(prod(op.attributes["window_dimensions"]) - 1, 0)
    select, scatter = (applied(op.attributes[name]) for name in ("select", "scatter"))
    return Cost(
        select.flops * compared + scatter.flops * windows,
        select.transcendentals * compared + scatter.transcendentals * windows,
        _bytes(op),
    )


@rule("sort")
def _sort(op: XlaOp, _applied: Applied) -> Cost:
    """Count n log n comparisons of n elements, regardless of the comparator."""
    elements = _count(op.operands[0].shape)
    return Cost(elements * max(elements - 1, 0).bit_length(), 0, _bytes(op))


# Linear algebra.


@rule("fft")
def _fft(op: XlaOp, _applied: Applied) -> Cost:
    """Count 4 multiplications and 4 additions for each element in each round.

    As in XLA, the number of rounds is the product of log2, rounded down, of each FFT length.
    """
    rounds = prod(max(length.bit_length() - 1, 0) for length in op.attributes["fft_length"])
    return Cost(8 * rounds * _count(op.operands[0].shape), 0, _bytes(op))


@rule("triangular_solve")
def _triangular_solve(op: XlaOp, _applied: Applied) -> Cost:
    """Count only half of the bytes of the matrix, because the other half is not read."""
    a, b = (_first(o.shape) for o in op.operands)
    moved = size_in_bytes(op.shape) + size_in_bytes(a) // 2 + size_in_bytes(b)
    return Cost(2 * a.dimensions[-1] * b.element_count, 0, moved)


@rule("cholesky")
def _cholesky(op: XlaOp, _applied: Applied) -> Cost:
    """Count half of the matrix's bytes as read and half as written."""
    a = _first(op.operands[0].shape)
    return Cost(a.dimensions[-1] * a.element_count // 3, 0, size_in_bytes(a))
