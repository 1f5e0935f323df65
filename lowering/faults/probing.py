"""lowering.probe: statistics of the value of every op, computed on the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

import numpy as np

import builder as xb
from builder.attributes.annotations import Annotations
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, is_parameter
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.inspection.table import count_text
from builder.rewriting.copying import copy_op, inline
from builder.schema import Trait, opcodes_with
from builder.support.display import Displayed
from builder.types.shape import ArrayShape
from lowering.importer import to_computation
from lowering.interpreter.evaluating import program_of
from lowering.pjrt.devices import DeviceLike, device_argument
from lowering.running.arguments import Parameters
from lowering.running.compiling import compile
from lowering.stablehlo.sources import ModuleSource

_NOT_PROBED: Final = opcodes_with(Trait.STRUCTURE) | {"constant"}
_MOVES: Final = opcodes_with(Trait.MOVES)
_OF_ENTRY: Final = ("parameter", "get_tuple_element")
_NEVER: Final = 2**31 - 1
"""The iteration of the first value that is not finite, if all are."""


@dataclass(frozen=True, slots=True, eq=False)
class OpStatistics:
    """Statistics of the value of an op, over all its executions.

    Attributes:
        op: the op; in a loop, a branch or a function, the op of that computation.
        inside: the name of that computation; "" for the program itself.
        minimum, maximum: of the numbers that are not NaN, in f32; of the magnitudes of complex
            numbers. NaN if there are none.
        mean: the mean of the finite numbers, in f32; NaN if there are none.
        nans, infinities: the number of elements.
        executions: how often the op was executed.
        loop: the outermost loop that executes the op; None if no loop does.
        first_iteration: the iteration of this loop in which an element was not finite for the first
            time, counted from 0; None outside of loops, or if all elements were finite.
    """

    op: XlaOp
    inside: str
    loop: XlaOp | None
    minimum: float
    maximum: float
    mean: float
    nans: int
    infinities: int
    executions: int
    first_iteration: int | None

    @property
    def is_finite(self) -> bool:
        """Whether no element was a NaN or an infinity."""
        return not (self.nans or self.infinities)

    def __str__(self) -> str:
        name = f" {self.op.name!r}" if self.op.name else ""
        text = f"%{self.op.id}{name} {self.op.opcode} {self.op.shape}"
        text += f" in {self.inside}" if self.inside else ""
        if math.isnan(self.minimum):
            text += ": no number"  # all are NaN, or there is no element
        else:
            text += f": {self.minimum:g} to {self.maximum:g}, mean {self.mean:g}"
        if not self.is_finite:
            text += f", {self.nans} NaN, {self.infinities} infinite"
        if self.first_iteration is not None:
            text += f", first in iteration {self.first_iteration}"
        return text if self.op.source is None else f"{text}; recorded at {self.op.source}"


@dataclass(frozen=True, slots=True, eq=False)
class Probe(Displayed):
    """The result of `lowering.probe`, displayed as a table.

    Attributes:
        name: the name of the computation.
        device: the device.
        result: the result of the program.
        ops: the statistics of each op, in the order of recording; ops of a loop, a branch or a
            function come before the op that applies it. Parameters are among them.
        values: the values of the ops that the argument `values` of `probe` lists.
    """

    name: str
    device: str
    result: Any
    ops: tuple[OpStatistics, ...]
    values: Mapping[XlaOp, Any]

    @property
    def first_nonfinite(self) -> OpStatistics | None:
        """The op that was the first to have a NaN or an infinity; None if all are finite."""
        first = next((each for each in self.ops if not each.is_finite), None)
        if first is None or first.loop is None:
            return first
        # The last op of an iteration precedes the first op of the next one.
        same = [e for e in self.ops if e.loop is first.loop and e.first_iteration is not None]
        return min(same, key=lambda each: each.first_iteration or 0)

    def __getitem__(self, op: XlaOp) -> OpStatistics:
        """Return the statistics of an op.

        Raises:
            OperandError: the op is not among those of the program.
        """
        for each in self.ops:
            if each.op is op:
                return each
        fix = "index with an op of the computation, such as computation.find('tanh')[0]"
        raise error_of(OperandError, "probe", "the op has no statistics", fix, got=brief(op))

    def between(self, first: XlaOp, last: XlaOp) -> tuple[OpStatistics, ...]:
        """Return the statistics of the ops from one op to another, in the order of `ops`.

        Raises:
            OperandError: an op is not among those of the program.
        """
        numbers = [self.ops.index(self[op]) for op in (first, last)]
        return self.ops[min(numbers) : max(numbers) + 1]

    def _parts(self) -> list[Part]:
        bad = sum(not each.is_finite for each in self.ops)
        state = f"{bad} of {count_text(len(self.ops), 'op')} not finite" if bad else "all finite"
        rows = [_cells(each) for each in self.ops[:_SHOWN]]
        more = len(self.ops) - _SHOWN
        notes = [f"{more:,} more ops; ops has all"] if more > 0 else []
        if self.first_nonfinite is not None:
            notes.insert(0, f"first not finite: {self.first_nonfinite}")
        heading = Heading("Probe", self.name, f"on {self.device}: {state}")
        return [heading, TextTable("", _COLUMNS, rows, "\n".join(notes))]

    def __str__(self) -> str:
        first = self.first_nonfinite
        lines = [f"{self.name} on {self.device}: {count_text(len(self.ops), 'op')}"]
        lines.append("  all finite" if first is None else f"  first not finite: {first}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Probe of {self.name!r} on {self.device}: {count_text(len(self.ops), 'op')}>"


_SHOWN: Final = 100

_COLUMNS: Final = (
    Column("op", no_wrap=True, style="cyan"),
    Column("shape", style="green"),
    Column("minimum", is_number=True),
    Column("maximum", is_number=True),
    Column("mean", is_number=True),
    Column("NaN", is_number=True),
    Column("infinite", is_number=True),
    Column("times", is_number=True),
    Column("source"),
)


def _cells(each: OpStatistics) -> list[str]:
    name = "" if each.op.name is None else f" {each.op.name!r}"
    inside = f" in {each.inside}" if each.inside else ""
    source = "" if each.op.source is None else str(each.op.source)
    return [
        f"%{each.op.id}{name} {each.op.opcode}{inside}",
        str(each.op.shape),
        *(f"{number:.4g}" for number in (each.minimum, each.maximum, each.mean)),
        *(f"{number:,}" if number else "" for number in (each.nans, each.infinities)),
        f"{each.executions:,}",
        source.replace("\\", "/").rpartition("/")[2],
    ]


@explained
def probe(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    device: DeviceLike = None,
    values: Sequence[XlaOp] = (),
    **by_name: Any,
) -> Probe:
    """Run a program on a device, and return statistics of the value of every op.

    The program is compiled once, with reductions of each value as further results: minimum,
    maximum, mean, and the number of NaNs and infinities. Bodies of loops, branches and called
    functions are included, over all their executions. XLA fuses ops differently in this program, so
    that results may be rounded differently.

    Args:
        computation: an XlaComputation with fixed or bounded sizes, or what `lowering.load` accepts.
        args: the arguments, as for a compiled computation.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.
        values: ops of the computation itself whose values to return too.
        by_name: arguments by the names of their parameters.

    Returns:
        A Probe, which is displayed as a table.

    Raises:
        ArgumentError, CompileError, DeviceError, ExecutionError, LoweringError: as for `compile`
            and calls.
        OperandError: an entry of `values` is not an op of the computation.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[3])
        ... def model(x):
        ...     return xb.sqrt(xb.log(x)) + 1.0
        >>> probe = lowering.probe(model, np.float32([1, 0.5, 0]), device="cpu")
        >>> first = probe.first_nonfinite
        >>> first.op.opcode, first.maximum, first.nans, first.infinities
        ('log', 0.0, 0, 1)
    """
    target = device_argument("probe", device)
    program = program_of("probe", computation, target)
    source = program if isinstance(program, XlaComputation) else to_computation(program)
    tree = source.annotations and source.annotations.nesting
    given, nest = Parameters(source.name, source.program_shape, tree).bind(args, by_name)
    wanted = _checked_values(source, values)
    b = XlaBuilder(source.name)
    if source.annotations is not None:
        b.annotations = Annotations(meshes=source.annotations.meshes)
    b._sharding_form = source._sharding_form
    shape = source.program_shape
    pairs = zip(shape.parameters, shape.parameter_names, strict=True)
    parameters = [b.parameter(parameter, name) for parameter, name in pairs]
    recorded = _record(b, source, parameters, is_entry=True)
    # The scalars are results: a concatenation of hundreds of them takes seconds to compile.
    parts = [row.reduced if isinstance(row, _Scalars) else row for row in recorded.rows]
    values_of_ops = [recorded.values[op] for op in wanted]
    root = [recorded.root, xb.tuple(*values_of_ops) if wanted else record_tuple(b, [])]
    instrumented = b.build(xb.tuple(*root, *[xb.tuple(*part) for part in parts]))
    result, found, *measured = compile(instrumented, target)(*given)
    numbers: list[Any] = []
    counts: list[Any] = []
    for row, part in zip(recorded.rows, measured, strict=True):
        arrays = [np.asarray(array) for array in part]
        if isinstance(row, _Scalars):
            *extremes, total, nans, finite = arrays
            numbers.append([[*extremes, total * row.factor]])
            nans, finite = nans * row.factor, finite * row.factor
            counts.append([[nans, row.elements - nans - finite, 1, _NEVER]])
        else:
            numbers.append(arrays[0])
            counts.append(arrays[1])
    all_numbers, all_counts = ([*chain.from_iterable(each)] for each in (numbers, counts))
    statistics = [
        _statistics_of(*each)
        for each in zip(_probed(source, is_entry=True), all_numbers, all_counts, strict=True)
    ]
    return Probe(
        source.name,
        f"{target.platform}:{target.id}",
        nest(result),
        tuple(statistics),
        dict(zip(wanted, found, strict=True)),
    )


def _checked_values(computation: XlaComputation, values: Any) -> list[XlaOp]:
    ops = set(computation.ops)
    for op in values if isinstance(values, (tuple, list)) else [values]:
        if not isinstance(op, XlaOp) or op not in ops:
            rule = "values must be a list of ops of the computation itself"
            raise error_of(OperandError, "probe", rule, got=brief(op))
    return list(values)


class _Probed(NamedTuple):
    """An op with statistics, the name of its computation, and the outermost loop around it."""

    op: XlaOp
    inside: str
    loop: XlaOp | None


def _probed(
    computation: XlaComputation,
    inside: str = "",
    *,
    loop: XlaOp | None = None,
    is_entry: bool = False,
) -> Iterator[_Probed]:
    """Yield the ops with statistics, in the order in which `_record` records them."""
    for op in computation.ops:
        around = op if loop is None and op.opcode == "while" else loop
        for part in _recorded_parts(op):
            yield from _probed(part, part.name, loop=around)
        if _has_statistics(op, is_entry=is_entry):
            yield _Probed(op, inside, loop)


def _recorded_parts(op: XlaOp) -> Sequence[XlaComputation]:
    """Return the computations that an op applies whose ops have statistics."""
    match op.opcode:
        case "call" | "conditional":
            return op.called_computations
        case "while":
            return (op.attributes["body"],)
        case _:
            return ()


def _has_statistics(op: XlaOp, *, is_entry: bool) -> bool:
    """Whether the value of an op has statistics; of the entry, also parameters and results."""
    is_value = op.opcode not in _NOT_PROBED or (is_entry and op.opcode in _OF_ENTRY)
    return is_value and isinstance(op.shape, ArrayShape) and op.shape.is_static


def _statistics_of(probed: _Probed, numbers: Any, counts: Any) -> OpStatistics:
    shape = probed.op.shape
    assert isinstance(shape, ArrayShape)
    minimum, maximum, total = map(float, numbers)
    nans, infinities, executions, first = map(int, counts)
    elements = math.prod(shape.dimensions) * executions
    finite = elements - nans - infinities
    is_number = elements - nans > 0
    return OpStatistics(
        probed.op,
        probed.inside,
        probed.loop,
        minimum if is_number else math.nan,
        maximum if is_number else math.nan,
        total / finite if finite else math.nan,
        nans,
        infinities,
        executions,
        first if probed.loop is not None and first != _NEVER else None,
    )


# Recording

_Statistics = tuple[XlaOp, XlaOp]
"""For each op a row of f32: minimum, maximum, sum; and a row of s32: the number of NaNs, of
infinities and of executions, and the first iteration with one of them."""


class _Scalars(NamedTuple):
    """The statistics of one value: the results of a reduction, which `_stacked` puts into rows.

    A row for each value would be two more kernels for each, most of the time of a compilation.

    Attributes:
        reduced: minimum, maximum and sum, of f32, and the numbers of NaNs and of finite elements.
        factor: how often the value has each element that was reduced.
        elements: the number of elements of the value.
    """

    reduced: tuple[XlaOp, ...]
    factor: int
    elements: int


class _Recorded(NamedTuple):
    """The root of a recorded computation, the statistics of its ops, and the copies of these."""

    root: XlaOp
    rows: list[_Statistics | _Scalars]
    values: dict[XlaOp, XlaOp]


def _record(
    b: XlaBuilder,
    computation: XlaComputation,
    operands: Sequence[XlaOp],
    *,
    is_entry: bool = False,
) -> _Recorded:
    """Record the ops of a computation, and the statistics of their values.

    Those of parameters and of elements of tuples are recorded for the entry only.
    """
    values: dict[XlaOp, XlaOp] = {}
    rows: list[_Statistics | _Scalars] = []
    found: dict[XlaOp, _Scalars] = {}
    for op in computation.ops:
        inputs = tuple([values[operand] for operand in op.operands])
        if is_parameter(op):
            values[op] = operands[op.attributes["number"]]
        elif op.opcode in _NESTED:
            values[op], inner = _NESTED[op.opcode](b, op, inputs)
            rows += inner
        else:
            values[op] = copy_op(op, inputs, b, op.attributes)
        if _has_statistics(op, is_entry=is_entry):
            found[op] = _of_moved(op, found) or _of_value(values[op])
            rows.append(found[op])
    return _Recorded(values[computation.root], rows, values)


def _record_call(
    b: XlaBuilder, op: XlaOp, inputs: tuple[XlaOp, ...]
) -> tuple[XlaOp, Sequence[_Statistics | _Scalars]]:
    recorded = _record(b, op.called_computations[0], inputs)
    return recorded.root, recorded.rows


def _record_loop(
    b: XlaBuilder, op: XlaOp, inputs: tuple[XlaOp, ...]
) -> tuple[XlaOp, Sequence[_Statistics | _Scalars]]:
    """Record a loop that also carries the number of the iteration and the statistics."""
    condition, body = op.attributes["condition"], op.attributes["body"]
    count = sum(1 for _ in _probed(body))
    if not count:
        return copy_op(op, inputs, b, op.attributes), []

    def step(state: XlaOp) -> tuple[XlaOp, ...]:
        inner, iteration, *before = state
        recorded = _record(state.builder, body, [inner])
        numbers, counts = _stacked(recorded.rows)
        is_bad = xb.gt(_column(counts, 0) + _column(counts, 1), 0)
        first = xb.select(is_bad, xb.broadcast_in_dim(iteration, [count, 1], []), _NEVER)
        counts = xb.concatenate([xb.slice_in_dim(counts, 0, 3, dimno=1), first], 1)
        total = _combined((before[0], before[1]), (numbers, counts))
        return recorded.root, iteration + 1, *total

    state = (inputs[0], b.constant(0, xb.s32), *_nothing(b, count))
    final = xb.while_(lambda state: inline(condition, state[0]), step, state)
    return final[0], [(final[2], final[3])]


def _record_branches(
    b: XlaBuilder, op: XlaOp, inputs: tuple[XlaOp, ...]
) -> tuple[XlaOp, Sequence[_Statistics | _Scalars]]:
    """Record a conditional whose branches return statistics for all of them too."""
    branches = op.called_computations
    sizes = [sum(1 for _ in _probed(branch)) for branch in branches]
    if not any(sizes):
        return copy_op(op, inputs, b, op.attributes), []

    def branch(number: int) -> Any:
        def recorded(operand: XlaOp) -> tuple[XlaOp, ...]:
            found = _record(operand.builder, branches[number], [operand])
            rows = [
                _stacked(found.rows) if place == number else _nothing(operand.builder, size)
                for place, size in enumerate(sizes)
                if size
            ]
            return found.root, *_stacked(rows)

        return recorded

    functions = [branch(number) for number in range(len(branches))]
    if inputs[0].shape.element_type is xb.pred:
        result = xb.conditional(inputs[0], inputs[1], functions[0], inputs[2], functions[1])
    else:
        result = xb.conditional(inputs[0], functions, list(inputs[1:]))
    return result[0], [(result[1], result[2])]


_NESTED: Final = {"call": _record_call, "while": _record_loop, "conditional": _record_branches}
"""The functions that record an op and the statistics of the computations that it applies."""


def _column(counts: XlaOp, number: int) -> XlaOp:
    return xb.slice_in_dim(counts, number, number + 1, dimno=1)


def _stacked(rows: Sequence[_Statistics | _Scalars]) -> _Statistics:
    """Return the rows of all values; there is at least one value."""
    blocks: list[_Statistics] = []
    for is_scalars, group in groupby(rows, lambda row: isinstance(row, _Scalars)):
        if is_scalars:
            blocks.append(_block([row for row in group if isinstance(row, _Scalars)]))
        else:
            blocks += [row for row in group if not isinstance(row, _Scalars)]
    if len(blocks) == 1:
        return blocks[0]
    numbers, counts = ([block[number] for block in blocks] for number in (0, 1))
    return xb.concatenate(numbers, 0), xb.concatenate(counts, 0)


def _block(scalars: Sequence[_Scalars]) -> _Statistics:
    """Return the rows of some values."""
    b = scalars[0].reduced[0].builder
    size = len(scalars)

    def column(number: int) -> XlaOp:
        return xb.concatenate([xb.reshape(row.reduced[number], [1, 1]) for row in scalars], 0)

    def numbers(values: Sequence[int]) -> XlaOp:
        return b.constant(np.array(values, np.int32).reshape(size, 1))

    minimum, maximum, total, nans, finite = map(column, range(5))
    factors = [row.factor for row in scalars]
    if any(factor != 1 for factor in factors):
        total *= xb.convert_element_type(numbers(factors), xb.f32)
        nans, finite = nans * numbers(factors), finite * numbers(factors)
    infinities = numbers([row.elements for row in scalars]) - nans - finite
    counts = [nans, infinities, numbers([1] * size), numbers([_NEVER] * size)]
    return xb.concatenate([minimum, maximum, total], 1), xb.concatenate(counts, 1)


def _nothing(b: XlaBuilder, count: int) -> _Statistics:
    """Return the statistics of ops that are not executed."""
    numbers = np.array([[math.inf, -math.inf, 0]] * count, np.float32)
    counts = np.array([[0, 0, 0, _NEVER]] * count, np.int32)
    return b.constant(numbers), b.constant(counts)


def _combined(one: _Statistics, other: _Statistics) -> _Statistics:
    """Return the statistics of two executions."""

    def part(values: XlaOp, start: int, limit: int) -> XlaOp:
        return xb.slice_in_dim(values, start, limit, dimno=1)

    (a, m), (c, n) = one, other
    numbers = [
        xb.min(part(a, 0, 1), part(c, 0, 1)),
        xb.max(part(a, 1, 2), part(c, 1, 2)),
        part(a, 2, 3) + part(c, 2, 3),
    ]
    counts = [part(m, 0, 3) + part(n, 0, 3), xb.min(part(m, 3, 4), part(n, 3, 4))]
    return xb.concatenate(numbers, 1), xb.concatenate(counts, 1)


def _of_moved(op: XlaOp, found: Mapping[XlaOp, _Scalars]) -> _Scalars | None:
    """Return the statistics of an op that only moves the elements of another, from those of it."""
    if op.opcode not in _MOVES or len(op.operands) > 1 or op.operands[0] not in found:
        return None
    before, elements = found[op.operands[0]], _elements(op)
    if not before.elements or not elements:
        return None
    factor = before.factor * elements // before.elements
    return before._replace(factor=factor, elements=elements)


def _elements(op: XlaOp) -> int:
    assert isinstance(op.shape, ArrayShape)
    return math.prod(op.shape.dimensions)


def _of_value(value: XlaOp) -> _Scalars:
    """Record the reduction of one value."""
    shape, elements = value.shape, _elements(value)
    assert isinstance(shape, ArrayShape)
    if shape.element_type.is_complex:
        value = xb.abs(value)
    if value.shape.element_type is not xb.f64:
        value = xb.convert_element_type(value, xb.f32)
    is_nan, is_finite = xb.ne(value, value), xb.is_finite(value)
    value = xb.convert_element_type(value, xb.f32)
    operands = [
        xb.select(is_nan, math.inf, value),
        xb.select(is_nan, -math.inf, value),
        xb.select(is_finite, value, 0.0),
        xb.convert_element_type(is_nan, xb.s32),
        xb.convert_element_type(is_finite, xb.s32),
    ]
    # One reduction of several arrays is one kernel, which compiles faster than five.
    reduced = xb.reduce(
        operands,
        [math.inf, -math.inf, 0.0, 0, 0],
        lambda a, b, c, d, e, f, g, h, i, j: (xb.min(a, f), xb.max(b, g), c + h, d + i, e + j),
        range(shape.rank),
    )
    return _Scalars(tuple(reduced), 1, elements)
