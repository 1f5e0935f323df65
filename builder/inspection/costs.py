"""What one op costs, opcode by opcode, as XLA's HloCostAnalysis has it.

Every op reads its operands and writes its result, and does one operation for each element of the
result if it is elementwise, else none; what is otherwise stands here. Where XLA counts otherwise:

- A tuple costs nothing. XLA counts the table of pointers that it has, of 8 bytes an element or,
  in jaxlib 0.12, of 4; a part of a tuple is no traffic.
- A broadcast that also stretches dimensions of size 1 is one op, and a constant that repeats one
  value costs what every constant does, nothing. HLO has two instructions for either.
- A `ragged_dot` sums along the contracting dimensions: each row of lhs meets the part of rhs that
  its group has. XLA counts the groups as contracted.
- A `scan` runs its computation for each step. XLA counts one step.
- A `while` runs its body n times and its condition n + 1 times where n can be seen. XLA counts one
  of each, as is done here where it can't.
- Of custom calls and Python calls the bytes of operands and results are counted; XLA counts -1.
- `send` and `recv` move their data once. HLO has two instructions for each, with the buffer in the
  result of the first.

Costs of batch normalization are as XLA has them, its bytes alone. An operation on complex numbers
is one operation.

XLA, xla/service/hlo_cost_analysis.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import Final, NamedTuple

from builder.errors import ShapeInferenceError
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS, CostClass
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, TupleShape, leaves

__all__ = ["CUSTOM", "FREE", "Cost", "cost_of", "size_in_bytes"]


class Cost(NamedTuple):
    """What something costs.

    Attributes:
        flops: operations on elements that are not transcendental.
        transcendentals: those that are.
        bytes_accessed: bytes read and written.
    """

    flops: int
    transcendentals: int
    bytes_accessed: int


Applied = Callable[[XlaComputation], Cost]
"""Gives what a computation costs that an op applies."""

Rule = Callable[[XlaOp, Applied], Cost]

RULES: Final[dict[str, Rule]] = {}

FREE: Final = frozenset(o for o, s in SCHEMAS.items() if s.cost is CostClass.FREE)
"""Opcodes that do nothing when the program runs."""

CUSTOM: Final = frozenset(o for o, s in SCHEMAS.items() if s.cost is CostClass.CUSTOM)
"""Opcodes whose computation is unknown."""


def cost_of(op: XlaOp, applied: Applied) -> Cost:
    """What an op costs itself, without the computations that control flow leads to.

    Args:
        op: any op.
        applied: gives what a computation costs that the op applies to elements.

    Raises:
        ShapeInferenceError: a shape has an unbounded dimension.
    """
    match SCHEMAS[op.opcode].cost:
        case CostClass.ELEMENTWISE:
            return Cost(_count(op.shape), 0, _bytes(op))
        case CostClass.TRANSCENDENTAL:
            return Cost(0, _count(op.shape), _bytes(op))
        case CostClass.FREE:
            return Cost(0, 0, 0)
        case CostClass.RULE:
            return RULES[op.opcode](op, applied)
        case CostClass.DATA_MOVEMENT | CostClass.CUSTOM:
            return Cost(0, 0, _bytes(op))


def rule(*opcodes: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = function
        return function

    return enter


@per_signature
def size_in_bytes(shape: Shape) -> int:
    """The bytes of the arrays in a shape; of a bounded one with its sizes, of 4 bytes each."""
    return sum(_leaf_size(leaf) for leaf in leaves(shape) if isinstance(leaf, ArrayShape))


def _leaf_size(shape: ArrayShape) -> int:
    if not shape.is_bounded:
        raise ShapeInferenceError(
            f"stats: {shape} has an unbounded dimension: nobody knows what is done with it\n"
            f"fix: give the computation's parameters sizes, or bounds",
            op="stats",
            shapes={"shape": shape},
        )
    return shape.byte_size + (0 if shape.is_static else 4 * shape.rank)


def _count(shape: Shape) -> int:
    """The elements of all arrays in a shape."""
    size_in_bytes(shape)  # which says what is wrong with an unbounded one
    return sum(leaf.element_count for leaf in leaves(shape) if isinstance(leaf, ArrayShape))


def _read(op: XlaOp) -> int:
    """The bytes of the operands; of tuples, which are pointers, none."""
    return sum(size_in_bytes(o.shape) for o in op.operands if not isinstance(o.shape, TupleShape))


def _bytes(op: XlaOp) -> int:
    return _read(op) + size_in_bytes(op.shape)


def _first(shape: Shape) -> ArrayShape:
    """An array, or the first of a tuple of arrays."""
    while isinstance(shape, TupleShape):
        shape = shape.elements[0]
    assert isinstance(shape, ArrayShape)  # inference has said so
    return shape


def _times(op: XlaOp, computation: XlaComputation, count: int, applied: Applied) -> Cost:
    """An op that applies a computation so many times, to elements at hand."""
    once = applied(computation)
    return Cost(once.flops * count, once.transcendentals * count, _bytes(op))


# Where not all that an operand has is read, or not all of the result written.


@rule("slice")
def _slice(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(0, 0, 2 * size_in_bytes(op.shape))


@rule("dynamic_slice")
def _dynamic_slice(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(0, 0, 2 * size_in_bytes(op.shape) + _index_bytes(op, 1))


@rule("dynamic_update_slice")
def _dynamic_update_slice(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(0, 0, 2 * size_in_bytes(op.operands[1].shape) + _index_bytes(op, 2))


def _index_bytes(op: XlaOp, position: int) -> int:
    """The bytes of the first index: XLA counts no more of them."""
    return size_in_bytes(op.operands[position].shape) if len(op.operands) > position else 0


@rule("gather")
def _gather(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(0, 0, 2 * size_in_bytes(op.shape) + size_in_bytes(op.operands[1].shape))


@rule("scatter")
def _scatter(op: XlaOp, applied: Applied) -> Cost:
    """Reads what is there and the updates, and writes as much, at the places of the indices."""
    arrays = len(op.operands) // 2
    updates = op.operands[arrays + 1 :]
    moved = 3 * sum(size_in_bytes(u.shape) for u in updates)
    once = applied(op.attributes["to_apply"])
    count = _count(updates[0].shape)
    return Cost(
        once.flops * count,
        once.transcendentals * count,
        moved + size_in_bytes(op.operands[arrays].shape),
    )


@rule("outfeed")
def _outfeed(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(0, 0, sum(size_in_bytes(o.shape) for o in op.operands))


# Contractions: a multiplication and an addition are two.


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
    met = {
        *dot.rhs_batch_dimensions,
        *dot.rhs_contracting_dimensions,
        *numbers.rhs_group_dimensions,
    }
    free = prod(size for d, size in enumerate(rhs.dimensions) if d not in met)
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
    """Along one dimension, how many pairs of an output and a kernel's element meet an element.

    Those that meet padding, or a hole between elements that are set apart, are left out. For each
    element of the kernel they are counted at once: the outputs o for which
    ``stride * o + window * k - low`` is a multiple of `base` and inside of the array.
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
        # The first output at or after `first` that falls on an element.
        first += (offset // shared * inverse - first) % period
        if first <= last:
            count += (last - first) // period + 1
    return count


# Reductions and sorts.


@rule("map")
def _map(op: XlaOp, applied: Applied) -> Cost:
    return _times(op, op.attributes["to_apply"], _count(op.shape), applied)


@rule("reduce")
def _reduce(op: XlaOp, applied: Applied) -> Cost:
    gone = _count(op.operands[0].shape) - _first(op.shape).element_count
    return _times(op, op.attributes["to_apply"], max(gone, 0), applied)


@rule("reduce_window")
def _reduce_window(op: XlaOp, applied: Applied) -> Cost:
    result = _first(op.shape)
    sizes = op.attributes["window_dimensions"]
    outputs = result.element_count
    count = (prod(sizes) - 1) * outputs
    width = _whole_width(op, result)
    if width is not None:
        count = outputs // width + width - 1
    return _times(op, op.attributes["to_apply"], max(count, 0), applied)


def _whole_width(op: XlaOp, result: ArrayShape) -> int | None:
    """The size of the one dimension along which every window covers all; else None.

    Such a `reduce_window` is a `reduce` whose result is spread again, and XLA counts it as one.
    """
    if not op.shape.is_array:
        return None
    sizes, padding = op.attributes["window_dimensions"], op.attributes["padding"]
    reduced = [i for i, size in enumerate(sizes) if size != 1]
    padded = [i for i, (low, high) in enumerate(padding) if low or high]
    if len(reduced) != 1 or reduced != padded:
        return None
    (along,) = reduced
    low, high = padding[along]
    width = result.dimensions[along]
    covers = low == high == width - 1 and sizes[along] == 2 * low + 1
    return width if covers else None


@rule("select_and_scatter")
def _select_and_scatter(op: XlaOp, applied: Applied) -> Cost:
    windows = _count(op.operands[1].shape)
    compared = windows * max(prod(op.attributes["window_dimensions"]) - 1, 0)
    select, scatter = (applied(op.attributes[name]) for name in ("select", "scatter"))
    return Cost(
        select.flops * compared + scatter.flops * windows,
        select.transcendentals * compared + scatter.transcendentals * windows,
        _bytes(op),
    )


@rule("sort")
def _sort(op: XlaOp, _applied: Applied) -> Cost:
    """n log n comparisons of all n elements, whatever the comparator does."""
    elements = _count(op.operands[0].shape)
    return Cost(elements * max(elements - 1, 0).bit_length(), 0, _bytes(op))


# Linear algebra and random numbers.


@rule("fft")
def _fft(op: XlaOp, _applied: Applied) -> Cost:
    """For each element 4 multiplications with additions in each of log n rounds."""
    rounds = prod(max(length.bit_length() - 1, 0) for length in op.attributes["fft_length"])
    return Cost(8 * rounds * _count(op.operands[0].shape), 0, _bytes(op))


@rule("triangular_solve")
def _triangular_solve(op: XlaOp, _applied: Applied) -> Cost:
    """Half of the matrix is read."""
    a, b = (_first(o.shape) for o in op.operands)
    moved = size_in_bytes(op.shape) + size_in_bytes(a) // 2 + size_in_bytes(b)
    return Cost(2 * a.dimensions[-1] * b.element_count, 0, moved)


@rule("cholesky")
def _cholesky(op: XlaOp, _applied: Applied) -> Cost:
    """Half of the matrix is read, and half written."""
    a = _first(op.operands[0].shape)
    return Cost(a.dimensions[-1] * a.element_count // 3, 0, size_in_bytes(a))


@rule("rng", "rng_bit_generator")
def _rng(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(0, _count(op.shape), _bytes(op))


# Across devices: as if there were two.


@rule("all_reduce")
def _all_reduce(op: XlaOp, _applied: Applied) -> Cost:
    return Cost(_count(op.shape), 0, _bytes(op))


@rule("scan")
def _scan(op: XlaOp, _applied: Applied) -> Cost:
    """What it reads and writes itself; the computation is counted as that of a loop."""
    return Cost(0, 0, _bytes(op))


@rule("call", "composite", "while", "conditional")
def _control_flow(_op: XlaOp, _applied: Applied) -> Cost:
    """Nothing itself: it is what is called that costs."""
    return Cost(0, 0, 0)
