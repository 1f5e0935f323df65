"""Collective operations that XLA's backends lack, or get wrong.

The CPU backend has no collective_broadcast. CPU and GPU backends reduce with add, multiply,
maximum and minimum, and preds with and and or, and with nothing else. Rewrites express the rest by
gathering, and by sums of bits of which all but one are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.errors import CompileError, recorded_at
from lowering.legalize.data_movement import carrier_of
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of, attributes_of
from lowering.legalize.registry import ALL_PLATFORMS, Target, Value, rewrite
from lowering.sharding.participants import Mode, participants

_REDUCES: Final = ("add", "multiply", "maximum", "minimum")

_TWO_BITS: Final = frozenset((pt.s2, pt.u2))

_MOVING: Final = ("stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.collective_permute")


@rewrite(*_MOVING, platforms=("gpu",))
def moved_in_bytes(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Send 2-bit elements as bytes.

    The communication library of GPUs has no type for them.
    """
    if any(b.element_type(operand) in _TWO_BITS for operand in operation.operands):
        return _one_by_one(b, operation, _carried)
    return None


@rewrite(*_MOVING, platforms=("cpu",))
def moved(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Send floats of 8 bits and bf16 as bits, and 2-bit elements as bytes.

    XLA converts f8e5m2, f8e4m3, f8e3m4 and bf16 to larger floats and back, which replaces the
    payloads of NaNs. Devices to which nothing is sent get NaNs in f8e8m0fnu, instead of zero bits.
    With 2-bit elements XLA gathers wrong elements, or aborts.

    Shown by: all_gather_s2, all_gather_f8e5m2_nan, all_to_all_bf16_nan,
    collective_permute_bf16_nan.
    """
    if all(carrier_of(b.element_type(operand)) is None for operand in operation.operands):
        return None
    return _one_by_one(b, operation, _carried)


@rewrite(*_MOVING, "stablehlo.all_reduce", platforms=("cpu",))
def one_operand_each(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Give each operand an operation of its own.

    XLA's CPU compiler has no code for several operands that the partitioner has seen.
    """
    return _one_by_one(b, operation, _alone) if len(operation.operands) > 1 else None


@rewrite("mhlo.all_to_all", platforms=("cpu",))
def exchange_with_oneself(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Return the operand of an all_to_all within groups of one device.

    An all_to_all without a dimension to split has one operand for each device of a group. XLA's
    conversion from MHLO takes it for the other form if there is one operand, and aborts.

    Shown by: all_to_all_of_one.
    """
    if len(operation.operands) > 1 or "split_dimension" in operation.attributes:
        return None
    return list(operation.operands)


@rewrite("mhlo.all_to_all", platforms=("cpu",))
def exchanged(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Exchange floats of 8 bits and bf16 as bits, and 2-bit elements as bytes.

    The defect is that of the other collective operations. This is the all_to_all with one operand
    for each device of a group.

    Shown by: all_to_all_tuple_f8e5m2_nan.
    """
    element_type = b.element_type(operation.operands[0])
    carrier = carrier_of(element_type)
    if carrier is None or element_type is None or not array_of(operation.operands[0]).is_static:
        return None
    values = [b.carried(operand, carrier) for operand in operation.operands]
    made = b.like(operation, values, [value.type for value in values])
    return [b.carried(value, element_type) for value in made.results]


@rewrite("stablehlo.all_reduce", platforms=("cpu", "gpu"))
def all_reduce(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Gather the operands of a group, and fold them with the reducer.

    XLA reduces with the reducers that it recognizes: add, multiply, maximum, minimum, and and and
    or of preds. Its compiler refuses others on CPU, and aborts on GPU. It reduces no 2-bit
    elements.

    Shown by: all_reduce_with_subtraction, all_reduce_with_a_conditional.
    """
    if _is_reduced_by_xla(operation):
        return None
    return _one_by_one(b, operation, _folded)


@rewrite("stablehlo.all_reduce", platforms=("tpu",))
def all_reduce_of_halves(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Gather 64-bit and complex elements, and fold them with the reducer.

    A TPU represents them as pairs of 32-bit numbers, and only adds those across devices.
    """
    if any(_is_in_halves(o) for o in operation.operands) and not _is_added(operation):
        return _one_by_one(b, operation, _folded)
    return None


@rewrite("stablehlo.reduce_scatter", platforms=ALL_PLATFORMS)
def reduce_scatter(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Gather the operands of a group, fold them with the reducer, and slice the device's block.

    CPU and GPU backends reduce with add, multiply, maximum and minimum, and preds with and and or.
    A TPU represents 64-bit and complex elements as pairs of 32-bit numbers, and only adds integers
    so.

    Shown by: reduce_scatter_with_subtraction.
    """
    (operand,) = operation.operands
    if b.target.platform == "tpu":
        integral = b.element_type(operand) in (pt.s64, pt.u64)
        if not _is_in_halves(operand) or (integral and _is_added(operation)):
            return None
    elif _is_reduced_by_xla(operation):
        return None
    count = _one_group_size(b.target, operation)
    whole = _folded(b, operation, operand, array_of(operand))
    # The number of the device's block: each device gets its own of numbers that all devices have.
    numbers = b.counted(intern_array(pt.s32, (count,)), 0)
    attributes: Attributes = {**_participating(operation), "scatter_dimension": 0}
    number = intern_array(pt.s32, (1,))
    made = b.create("reduce_scatter", [number], [numbers], attributes, regions=1)
    b.reducer(made.regions[0], pt.s32, "maximum")
    block = b.reshaped(made.results[0], ())
    dimension = ir.IntegerAttr(operation.attributes["scatter_dimension"]).value
    result = array_of(operation.results[0])
    size = b.number(result.dimensions[dimension], pt.s32)
    starts = [b.number(0, pt.s32)] * result.rank
    starts[dimension] = b("multiply", array_of(block), [block, size])
    return [b("dynamic_slice", result, [whole, *starts], {"slice_sizes": result.dimensions})]


@rewrite("stablehlo.collective_broadcast", platforms=("cpu", "tpu"))
def collective_broadcast(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    """Broadcast as the sum of the source's bits and of zeros.

    The backends have no code for the operation.

    Shown by: collective_broadcast_of_replicas.
    """
    who = participants(operation)
    count = who.count(b.target.num_replicas, b.target.num_partitions)
    sources = [group[0] for group in who.groups]
    # A device in no group gets zeros: it forms a group of its own, and is no source.
    named = {number for group in who.groups for number in group}
    groups = [*who.groups, *((n,) for n in range(count) if n not in named)]
    scalar = intern_array(pt.u32, ())
    if who.mode is Mode.PARTITIONS:
        device = b("partition_id", scalar, [])
        partitions = b.target.num_partitions
        groups = [
            tuple(replica * partitions + n for n in group)
            for replica in range(b.target.num_replicas)
            for group in groups
        ]
    else:
        device = b("replica_id", scalar, [])
    is_source = b.number(False, pt.pred)
    for source in sources:
        equal = b.compared("EQ", device, b.number(source, pt.u32))
        is_source = b("or", array_of(is_source), [is_source, equal])
    attributes: dict[str, ir.Attribute | str] = {"replica_groups": _table(groups)}
    if "channel_handle" in operation.attributes and who.mode is Mode.PARTITIONS:
        attributes["channel_handle"] = operation.attributes["channel_handle"]
        attributes["use_global_device_ids"] = "unit"

    def sent(bits: Value) -> Value:
        shape = array_of(bits)
        mine = b.masked(is_source, bits)
        made = b.create("all_reduce", [shape], [mine], attributes, regions=1)
        b.reducer(made.regions[0], shape.element_type, "add")
        return made.results[0]

    return [_by_bits(b, operation.operands[0], sent)]


def _by_bits(b: OpBuilder, value: Value, through: Callable[[Value], Value]) -> Value:
    """Apply a function of unsigned integers, of 8 bits at least, to the bits of a value."""
    shape = array_of(value)
    element_type = shape.element_type
    if element_type.is_complex:
        part = shape.with_element_type(element_type.real_type)
        parts = [_by_bits(b, b(name, part, [value]), through) for name in ("real", "imag")]
        return b("complex", shape, parts)
    if element_type is pt.f4e2m1fn:
        bits = b.bitcast(value, pt.u4)
        return b.bitcast(_by_bits(b, bits, through), element_type)
    if element_type is pt.pred or element_type.bits < 8:
        wide = pt.s8 if element_type in (pt.s2, pt.s4) else pt.u8
        return b.converted(through(b.converted(value, wide)), element_type)
    if element_type.is_integral:
        return through(value)
    bits = b.bitcast(value, pt.from_name(f"u{element_type.bits}"))
    return b.bitcast(through(bits), element_type)


# One operand of an operation

_OneOperand = Callable[[OpBuilder, ir.Operation, Value, ArrayShape], Value]


def _one_by_one(b: OpBuilder, operation: ir.Operation, how: _OneOperand) -> list[Value]:
    """Apply a function to each operand of an operation and the shape of its result."""
    pairs = zip(operation.operands, operation.results, strict=True)
    return [how(b, operation, operand, array_of(result)) for operand, result in pairs]


def _alone(b: OpBuilder, operation: ir.Operation, operand: Value, result: ArrayShape) -> Value:
    """The same operation with one operand."""
    regions = len(operation.regions)
    attributes = attributes_of(operation)
    made = b.create(operation.name, [result], [operand], attributes, regions=regions)
    if regions:
        _copy_reducer(b, operation, made.regions[0])
    return made.results[0]


def _carried(b: OpBuilder, operation: ir.Operation, operand: Value, result: ArrayShape) -> Value:
    """The same operation with one operand, in the integers that carry its elements."""
    element_type = result.element_type
    carrier = carrier_of(element_type)
    if carrier is None or not (result.is_static and array_of(operand).is_static):
        return _alone(b, operation, operand, result)
    result, operand = result.with_element_type(carrier), b.carried(operand, carrier)
    return b.carried(_alone(b, operation, operand, result), element_type)


def _folded(b: OpBuilder, operation: ir.Operation, operand: Value, _: ArrayShape) -> Value:
    """Gather the operands of a group, and fold them with the reducer in the order of the group."""
    count = _one_group_size(b.target, operation)
    shape = array_of(operand)
    sizes = shape.dimensions
    table = intern_array(shape.element_type, (count, *sizes))
    attributes: Attributes = {**_participating(operation), "all_gather_dim": 0}
    gathered = b("all_gather", table, [b.reshaped(operand, (1, *sizes))], attributes)
    total: Value = None
    for index in range(count):
        row = b.sliced(gathered, [index, *[0] * shape.rank], [index + 1, *sizes])
        one = b.reshaped(row, sizes)
        if total is None:
            total = one
            continue
        dimensions = {"dimensions": range(shape.rank)}
        mapped = b.create("map", [shape], [total, one], dimensions, regions=1)
        _copy_reducer(b, operation, mapped.regions[0])
        total = mapped.results[0]
    return total


def _copy_reducer(b: OpBuilder, operation: ir.Operation, region: ir.Region) -> None:
    """Fill an empty region with the reducer of an operation."""
    kinds = [argument.type for argument in operation.regions[0].blocks[0].arguments]
    inside, arguments = b.block_in(region, kinds)
    inside.end(inside.inline(operation, 0, arguments))


def _one_group_size(target: Target, operation: ir.Operation) -> int:
    """The number of devices in each group of a reduction that is expanded."""
    sizes = participants(operation).group_sizes(target.num_replicas, target.num_partitions)
    if len(sizes) == 1:
        return sizes.pop()
    kind = operation.name.partition(".")[2]
    raise CompileError(
        f"compile: {target.name}: {kind}{recorded_at(operation.location)} can't run on "
        f"{target.platform}: in groups of several sizes XLA reduces there only with add, mul, "
        f"min and max, and preds with and and or\n"
        f"fix: write it with groups of one size",
        op=kind,
    )


def _is_reduced_by_xla(operation: ir.Operation) -> bool:
    """Whether XLA's backends reduce with this reducer, and elements of this type."""
    block = operation.regions[0].blocks[0]
    if len(block.operations) != 2:
        return False
    body, end = (one.operation for one in block.operations)
    element_type = array_of(block.arguments[0]).element_type
    known = _REDUCES + (("and", "or") if element_type is pt.pred else ())
    return (
        body.name.partition(".")[2] in known
        and {*body.operands} == {*block.arguments}
        and len({*block.arguments}) == 2
        and end.operands[0] == body.result
        and element_type not in _TWO_BITS
    )


def _is_added(operation: ir.Operation) -> bool:
    """Whether the reducer is an addition."""
    first = operation.regions[0].blocks[0].operations[0].operation
    return first.name == "stablehlo.add" and _is_reduced_by_xla(operation)


def _is_in_halves(value: Value) -> bool:
    """Whether a TPU represents the elements by several numbers."""
    element_type = array_of(value).element_type
    return element_type in (pt.s64, pt.u64, pt.f64) or element_type.is_complex


def _participating(operation: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes that name the participants."""
    names = ("replica_groups", "channel_handle", "use_global_device_ids")
    return {name: one for name, one in attributes_of(operation).items() if name in names}


def _table(rows: Sequence[Sequence[int]]) -> str:
    width = max(map(len, rows))
    filled = [[*row, *[-1] * (width - len(row))] for row in rows]
    return f"dense<{filled}> : tensor<{len(rows)}x{width}xi64>"
