"""The cost of a computation: its operations, and the bytes that the ops read and write.

The cost of an op follows XLA's HloCostAnalysis. By default an op reads its operands and writes its
result. An elementwise op performs one operation for each element of the result. The rules below are
for other ops. The costs differ from XLA's:

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

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from math import gcd, prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from builder.errors import ShapeInferenceError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.registry import registrar
from builder.graph.xla_op import XlaOp, is_constant
from builder.inspection.parts import Column, TextTable
from builder.inspection.rendering import Printable, bytes_text, flops_text
from builder.inspection.table import count_text
from builder.inspection.trip_count import trip_count
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


@dataclass(frozen=True, slots=True)
class ArrayTotals:
    """The number and the total size of several arrays, such as all parameters.

    Attributes:
        count: the number of arrays, including arrays in tuples.
        elements: the number of elements; a bounded dimension counts with its bound.
        bytes: the bytes of the elements.
    """

    count: int
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OpcodeStats:
    """The cost of all ops of one opcode.

    Attributes:
        opcode: the opcode.
        ops: the number of recorded ops, in the computation and in each computation that the
            computation applies.
        executions: the number of executed ops: an op in the body of a loop counts once per
            iteration. Ops of functions that are applied to elements, such as a reducer, are not
            counted: their operations are part of the op that applies them.
        flops: the number of arithmetic operations on elements, including integer operations and
            excluding transcendental functions.
        transcendentals: the number of transcendental functions of elements, such as exponentials,
            logarithms, roots and sines.
        bytes_accessed: the bytes that the ops read and write, without fusion.
    """

    opcode: str
    ops: int
    executions: int
    flops: int
    transcendentals: int
    bytes_accessed: int


class LoopStats(NamedTuple):
    """The trip count of a `while` or a `scan`.

    Attributes:
        computation: the name of the computation with the loop.
        number: the number of the loop op in that computation.
        trip_count: the number of iterations. If it is unknown, `trip_count` is None, and the stats
            count one iteration.
    """

    computation: str
    number: int
    trip_count: int | None


@dataclass(frozen=True, slots=True)
class ComputationStats(Printable):
    """The cost of a computation, in total and by opcode; returned by `XlaComputation.stats`.

    Attributes:
        name: the name of the computation.
        ops: the number of recorded ops, in this computation and in each computation that this
            computation applies, directly or indirectly.
        computations: the number of computations that this computation applies, directly or
            indirectly.
        parameters, constants, results: the `ArrayTotals` of parameters, constants and results.
        by_opcode: an `OpcodeStats` for each opcode, most FLOPs first.
        flops, transcendentals, bytes_accessed: the totals of all opcodes.
        loops: the loops with their trip counts.
        uncounted: for each opcode with unknown FLOPs, such as custom_call, the number of ops. Only
            the bytes of their operands and results are counted.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder("affine")
        >>> x, w = b.parameter(xb.f32[8, 32]), b.parameter(xb.f32[32, 16])
        >>> stats = b.build(xb.tanh(x @ w)).stats()
        >>> stats.flops, stats.transcendentals, stats.bytes_accessed
        (8192, 128, 4608)
        >>> stats.by_opcode["dot_general"].flops, stats.parameters.bytes
        (8192, 3072)
    """

    name: str
    ops: int
    computations: int
    parameters: ArrayTotals
    constants: ArrayTotals
    results: ArrayTotals
    by_opcode: Mapping[str, OpcodeStats]
    flops: int
    transcendentals: int
    bytes_accessed: int
    loops: tuple[LoopStats, ...]
    uncounted: Mapping[str, int]

    @property
    def unknown_loops(self) -> tuple[LoopStats, ...]:
        """The loops with an unknown trip count; the totals count one iteration of each loop."""
        return tuple(loop for loop in self.loops if loop.trip_count is None)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as a dict that `json.dumps` accepts."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__match_args__}
        return fields | {
            **{name: asdict(fields[name]) for name in _TOTALS},
            "by_opcode": {opcode: asdict(stats) for opcode, stats in self.by_opcode.items()},
            "loops": [loop._asdict() for loop in self.loops],
            "uncounted": dict(self.uncounted),
        }

    def _parts(self) -> list[TextTable]:
        executions = sum(stats.executions for stats in self.by_opcode.values())
        total = OpcodeStats(
            "all", self.ops, executions, self.flops, self.transcendentals, self.bytes_accessed
        )
        rows = [
            [
                stats.opcode,
                f"{stats.ops:,}",
                f"{stats.executions:,}",
                flops_text(stats.flops),
                f"{stats.transcendentals:,}",
                bytes_text(stats.bytes_accessed),
            ]
            for stats in (*self.by_opcode.values(), total)
        ]
        totals: list[tuple[str, ArrayTotals]] = [(name, getattr(self, name)) for name in _TOTALS]
        notes = [
            ", ".join(
                f"{name}: {arrays.count:,} ({count_text(arrays.elements, 'element')}, "
                f"{bytes_text(arrays.bytes)})"
                for name, arrays in totals
            )
        ]
        for loop in self.loops:
            count = loop.trip_count
            trips = "unknown trip count; counted once" if count is None else f"runs {count:,} times"
            notes.append(f"loop %{loop.number} of {loop.computation}: {trips}")
        for opcode, count in self.uncounted.items():
            plural = "" if count == 1 else "s"
            notes.append(f"{count:,} {opcode}{plural}: only bytes are counted")
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [f"and {len(notes) - _MAX_NOTES:,} more lines"]
        return [TextTable(self.name, _COLUMNS, rows, "\n".join(notes))]


_TOTALS: Final = ("parameters", "constants", "results")

_MAX_NOTES: Final = 20

_COLUMNS: Final = (
    Column("opcode", no_wrap=True, style="cyan"),
    Column("ops", is_number=True, no_wrap=True),
    Column("executions", is_number=True),
    Column("FLOPs", is_number=True, no_wrap=True, style="green"),
    Column("transcendentals", is_number=True),
    Column("bytes", is_number=True, no_wrap=True, style="magenta"),
)


_Row = tuple[int, ...]
"""Four numbers for an opcode: executions, FLOPs, transcendentals and bytes accessed."""

_Rows = Mapping[str, _Row]
"""The row (executions, FLOPs, transcendentals, bytes accessed) of each opcode."""

_LOOPS: Final = ("while", "scan")


class _Counter:
    """Counts the ops of computations.

    Attributes:
        rows: the cost of one run of each computation, by opcode.
        costs: the cost of one run of each computation, in total.
        loops: the loops in the counted computations.
        recorded: the number of recorded ops by opcode.
    """

    def __init__(self) -> None:
        self.rows: dict[XlaComputation, _Rows] = {}
        self.costs: dict[XlaComputation, Cost] = {}
        self.loops: list[LoopStats] = []
        self.recorded: Counter[str] = Counter()

    def count(self, computation: XlaComputation) -> None:
        """Count a computation whose applied computations have been counted."""
        rows: dict[str, _Row] = {}
        # Ops with the same opcode, shapes and attributes have the same cost.
        counts: Counter[tuple[object, ...]] = Counter()
        examples: dict[tuple[object, ...], XlaOp] = {}
        for op in computation.ops:
            key: tuple[object, ...] = (
                op.opcode,
                op.shape,
                # The trip count of a loop depends on its initial values.
                op.id if op.opcode == "while" else id(op.attributes),
                *[o.shape for o in op.operands],
            )
            counts[key] += 1
            examples.setdefault(key, op)
        for key, count in counts.items():
            op = examples[key]
            self.recorded[op.opcode] += count
            _add(rows, {op.opcode: (1, *cost_of(op, self.costs.__getitem__))}, count)
            for called, runs in self._called(op, computation, count):
                _add(rows, called, runs * count)
        self.rows[computation] = rows
        self.costs[computation] = Cost(
            *[sum(row[kind] for row in rows.values()) for kind in (1, 2, 3)]
        )

    def _called(
        self, op: XlaOp, computation: XlaComputation, count: int
    ) -> list[tuple[_Rows, int]]:
        """Return the rows and the number of runs of each computation that a control-flow op runs.

        An empty list for other ops.
        """
        attributes, rows = op.attributes, self.rows
        match op.opcode:
            case "call" | "composite":
                return [(rows[attributes["to_apply"]], 1)]
            case "conditional":
                return [(self._most_expensive(attributes["branch_computations"]), 1)]
            case opcode if opcode not in _LOOPS:
                return []
        trips = trip_count(op)
        numbers = [op.id]
        if count > 1:
            numbers = [o.id for o in computation.ops if o.attributes is attributes]
        self.loops += [LoopStats(computation.name, number, trips) for number in numbers]
        runs = 1 if trips is None else trips
        if op.opcode == "scan":
            return [(rows[attributes["to_apply"]], runs)]
        tests = 1 if trips is None else trips + 1
        return [(rows[attributes["body"]], runs), (rows[attributes["condition"]], tests)]

    def _most_expensive(self, branches: Iterable[XlaComputation]) -> _Rows:
        """Return, as XLA does, each kind of cost from the branch in which it is highest."""
        result: dict[str, list[int]] = {}
        for kind in range(4):
            rows = max(
                (self.rows[branch] for branch in branches),
                key=lambda rows: sum(row[kind] for row in rows.values()),
            )
            for opcode, row in rows.items():
                if row[kind]:
                    result.setdefault(opcode, [0, 0, 0, 0])[kind] = row[kind]
        return {opcode: tuple(row) for opcode, row in result.items()}


def _add(rows: dict[str, _Row], added: _Rows, times: int) -> None:
    for opcode, row in added.items():
        old = rows.get(opcode, (0, 0, 0, 0))
        rows[opcode] = tuple(a + times * b for a, b in zip(old, row, strict=True))


def stats_of(computation: XlaComputation) -> ComputationStats:
    """Return the cost of a computation; see `XlaComputation.stats`."""
    counter = _Counter()
    called = computation.called_computations()
    constants: list[Shape] = []
    for each in (*called, computation):
        counter.count(each)
        constants += [op.shape for op in each.ops if is_constant(op)]
    rows, cost = counter.rows[computation], counter.costs[computation]
    by_opcode = [
        OpcodeStats(opcode, count, *rows.get(opcode, (0, 0, 0, 0)))
        for opcode, count in counter.recorded.items()
    ]
    by_opcode.sort(key=lambda stats: (-stats.flops, -stats.bytes_accessed, stats.opcode))
    shape = computation.program_shape
    return ComputationStats(
        name=computation.name,
        ops=counter.recorded.total(),
        computations=len(called),
        parameters=_totals(shape.parameters),
        constants=_totals(constants),
        results=_totals([shape.result]),
        by_opcode=MappingProxyType({stats.opcode: stats for stats in by_opcode}),
        flops=cost.flops,
        transcendentals=cost.transcendentals,
        bytes_accessed=cost.bytes_accessed,
        loops=tuple(sorted(counter.loops, key=lambda loop: loop.trip_count is not None)),
        uncounted=MappingProxyType(
            {
                opcode: count
                for opcode, count in counter.recorded.items()
                if SCHEMAS[opcode].cost is CostClass.CUSTOM
            }
        ),
    )


def _totals(shapes: Iterable[Shape]) -> ArrayTotals:
    arrays = [leaf for shape in shapes for leaf in leaves(shape) if isinstance(leaf, ArrayShape)]
    size = sum(size_in_bytes(array) for array in arrays)
    return ArrayTotals(len(arrays), sum(array.element_count for array in arrays), size)
