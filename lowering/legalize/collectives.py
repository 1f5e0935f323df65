"""Rewrites of collective operations that XLA's backends do not support, or get wrong.

The CPU backend does not support collective_broadcast. The CPU and GPU backends reduce only with
add, multiply, maximum and minimum; preds also with `and` and `or`. The rewrites express other
reductions by an all_gather, and collective_broadcast by a sum of bits that are zero on all devices
but one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array
from lowering.errors import CompileError
from lowering.legalize.data_movement import CARRIERS, TWO_BITS
from lowering.legalize.op_builder import (
    Attributes,
    OpBuilder,
    array_of,
    attributes_of,
    integer_of,
    is_static,
)
from lowering.legalize.registry import ALL_PLATFORMS, Target, Value, rewrite
from lowering.mlir.operations import place_of
from lowering.sharding.participants import Mode, participants

_REDUCERS: Final = ("add", "multiply", "maximum", "minimum")
"""The binary operations that XLA's CPU and GPU backends support as reducers of collectives."""

_MOVING: Final = ("stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.collective_permute")


@rewrite("stablehlo.all_gather", "stablehlo.reduce_scatter", platforms=ALL_PLATFORMS)
def collectives_without_elements(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace results without elements by constants.

    On one device, XLA divides by the number of elements while it compiles, and a signal ends the
    process.

    Shown by: all_gather_without_elements, reduce_scatter_without_elements.
    """
    shapes = [b.array_of(result) for result in operation.results]
    if not all(shape.is_static and 0 in shape.dimensions for shape in shapes):
        return None
    return [b.filled(shape, 0) for shape in shapes]


@rewrite(*_MOVING, platforms=("gpu",))
def collectives_of_two_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Send elements of s2 and u2 as s8 and u8.

    The communication library for GPUs has no type for 2-bit elements.
    """
    return _moved_in(b, operation, TWO_BITS)


@rewrite(*_MOVING, platforms=("cpu",))
def collectives_of_short_elements(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Send 8-bit floats as u8, bf16 as u16, and elements of s2 and u2 as s8 and u8.

    XLA converts f8e5m2, f8e4m3, f8e3m4 and bf16 to larger floats and back, which replaces the
    payloads of NaNs. In a collective_permute, a device that is the target of no other device should
    receive zero bits, but receives NaNs in f8e8m0fnu, which has no zero. XLA gathers 2-bit elements
    incorrectly, or aborts.

    Shown by: all_gather_s2, all_gather_f8e5m2_nan, all_to_all_bf16_nan,
    collective_permute_bf16_nan.
    """
    return _moved_in(b, operation, CARRIERS)


def _moved_in(
    b: OpBuilder, operation: ir.Operation, types: Mapping[PrimitiveType, PrimitiveType]
) -> list[Value] | None:
    values = (*operation.operands, *operation.results)
    return b.in_types(operation, types) if all(is_static(v.type) for v in values) else None


@rewrite(*_MOVING, "stablehlo.all_reduce", platforms=("cpu",))
def collectives_of_several_operands(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Split an operation with several operands into operations with one operand.

    XLA's CPU compiler does not support several operands after partitioning.
    """
    if len(operation.operands) == 1:
        return None
    results = []
    for operand, result in zip(operation.operands, operation.results, strict=True):
        count, attributes = len(operation.regions), attributes_of(operation)
        single = b.create(operation.name, [result.type], [operand], attributes, regions=count)
        if count:
            _copy_reducer(b, operation, single.regions[0])
        results.append(single.results[0])
    return results


@rewrite("mhlo.all_to_all", platforms=("cpu",))
def all_to_all_in_groups_of_one(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace an all_to_all within groups of one device by its operand.

    An all_to_all without a split dimension has one operand for each device of a group. With one
    operand, XLA's conversion from MHLO assumes that there is a split dimension, and aborts.

    Shown by: all_to_all_of_one.
    """
    if len(operation.operands) > 1 or "split_dimension" in operation.attributes:
        return None
    return list(operation.operands)


@rewrite("mhlo.all_to_all", platforms=("cpu",))
def all_to_all_of_short_elements(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Exchange 8-bit floats as u8, bf16 as u16, and elements of s2 and u2 as s8 and u8.

    The reason is the same as for `collectives_of_short_elements`: XLA converts the elements to
    larger floats and back. This is the all_to_all without a split dimension, which has
    one operand for each device of a group.

    Shown by: all_to_all_tuple_f8e5m2_nan.
    """
    return _moved_in(b, operation, CARRIERS)


@rewrite("stablehlo.all_reduce", "stablehlo.reduce_scatter", platforms=("cpu",))
def reductions_of_replicas_with_a_channel(
    b: OpBuilder, operation: ir.Operation
) -> Sequence[Value] | None:
    """Remove the channel in a program for one partition.

    The participants are the same without a channel: the number of a replica is its global number.
    With a channel, XLA's CPU compiler does not convert 4-bit integers and floats of at most 8 bits,
    which it can't reduce, to wider types.

    Shown by: all_reduce_with_a_channel, reduce_scatter_with_a_channel.
    """
    names = [name for name in _CHANNEL if name in operation.attributes]
    if b.target.num_partitions > 1 or not names:
        return None
    for name in names:
        del operation.attributes[name]
    return operation.results


_CHANNEL: Final = ("channel_handle", "use_global_device_ids")


@rewrite("stablehlo.all_reduce", platforms=("cpu", "gpu"))
def all_reduce_with_other_reducers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Gather the operands of a group, and combine them with the reducer.

    XLA supports the reducers add, multiply, maximum and minimum; for preds, also `and` and `or`.
    With other reducers its compiler fails on CPU, and aborts on GPU. It does not reduce 2-bit
    elements.

    Shown by: all_reduce_with_subtraction, all_reduce_with_a_conditional.
    """
    if _is_reducible(operation):
        return None
    return [_combined(b, operation, operand) for operand in operation.operands]


@rewrite("stablehlo.all_reduce", platforms=("tpu",))
def all_reduce_of_pairs(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Gather 64-bit and complex elements, and combine them with the reducer.

    A TPU represents 64-bit and complex elements as pairs of 32-bit numbers, and can only add these
    across devices.
    """
    if _is_sum(operation) or not any(map(_is_pair, operation.operands)):
        return None
    return [_combined(b, operation, operand) for operand in operation.operands]


@rewrite("stablehlo.reduce_scatter", platforms=ALL_PLATFORMS)
def reduce_scatter_with_other_reducers(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Gather the operands of a group, combine them with the reducer, and slice the device's block.

    XLA's CPU and GPU backends support the reducers add, multiply, maximum and minimum; for preds,
    also `and` and `or`. A TPU represents 64-bit and complex elements as pairs of 32-bit numbers.
    Its reduce_scatter of pairs supports only the addition of integers.

    Shown by: reduce_scatter_with_subtraction.
    """
    (operand,) = operation.operands
    if b.target.platform == "tpu":
        is_integral = b.element_type(operand) in (pt.s64, pt.u64)
        if not _is_pair(operand) or (is_integral and _is_sum(operation)):
            return None
    elif _is_reducible(operation):
        return None
    count = _uniform_group_size(b.target, operation)
    full = _combined(b, operation, operand)
    # The device's block number: a reduce_scatter of [0, 1, ...], which is equal on all devices.
    numbers = b.counted(intern_array(pt.s32, (count,)), 0)
    attributes: Attributes = {**_participant_attributes(operation), "scatter_dimension": 0}
    number = intern_array(pt.s32, (1,))
    made = b.create("reduce_scatter", [number], [numbers], attributes, regions=1)
    b.reducer(made.regions[0], pt.s32, "maximum")
    block = b.reshaped(made.results[0], ())
    dimension = integer_of(operation, "scatter_dimension")
    result = array_of(operation.results[0])
    starts = [b.number(0, pt.s32)] * result.rank
    size = b.number(result.dimensions[dimension], pt.s32)
    starts[dimension] = b.elementwise("multiply", block, size)
    return [b("dynamic_slice", result, [full, *starts], {"slice_sizes": result.dimensions})]


@rewrite("stablehlo.collective_broadcast", platforms=("cpu", "tpu"))
def collective_broadcast(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    """Broadcast as an all_reduce: the sum of the source's bits and of zeros.

    XLA's CPU and TPU backends do not support the operation.

    Shown by: collective_broadcast_of_replicas.
    """
    parties = participants(operation)
    count = parties.count(b.target.num_replicas, b.target.num_partitions)
    sources = [group[0] for group in parties.groups]
    # A device in no group receives zeros: it forms a group alone, and is not a source.
    members = {number for group in parties.groups for number in group}
    groups = [*parties.groups, *((n,) for n in range(count) if n not in members)]
    across_partitions = parties.mode is Mode.PARTITIONS
    if across_partitions:
        partitions = b.target.num_partitions
        groups = [
            tuple(replica * partitions + n for n in group)
            for replica in range(b.target.num_replicas)
            for group in groups
        ]
    name = "partition_id" if across_partitions else "replica_id"
    device = b(name, intern_array(pt.u32, ()), [])
    is_source = b.number(False, pt.pred)
    for source in sources:
        is_equal = b.compared("EQ", device, b.number(source, pt.u32))
        is_source = b.elementwise("or", is_source, is_equal)
    attributes: dict[str, ir.Attribute | str] = {"replica_groups": _table(groups)}
    if "channel_handle" in operation.attributes and across_partitions:
        attributes["channel_handle"] = operation.attributes["channel_handle"]
        attributes["use_global_device_ids"] = "unit"

    def broadcast(bits: Value) -> Value:
        shape = array_of(bits)
        addend = b.masked(is_source, bits)
        made = b.create("all_reduce", [shape], [addend], attributes, regions=1)
        b.reducer(made.regions[0], shape.element_type, "add")
        return made.results[0]

    return [_on_bits(b, operation.operands[0], broadcast)]


def _on_bits(b: OpBuilder, value: Value, function: Callable[[Value], Value]) -> Value:
    """Apply a function to the bits of a value, as integers of at least 8 bits."""
    shape = array_of(value)
    element_type = shape.element_type
    if element_type.is_complex:
        return b("complex", shape, [_on_bits(b, part, function) for part in b.parts(value)])
    if element_type is pt.f4e2m1fn:
        bits = b.bitcast(value, pt.u4)
        return b.bitcast(_on_bits(b, bits, function), element_type)
    if element_type.is_integral and element_type.bits >= 8:
        return function(value)
    carrier = pt.s8 if element_type in (pt.s2, pt.s4) else pt.u8
    if element_type.is_floating:
        carrier = pt.from_name(f"u{element_type.bits}")
    return b.recast(function(b.recast(value, carrier)), element_type)


def _combined(b: OpBuilder, operation: ir.Operation, operand: Value) -> Value:
    """Gather an operand from a group's devices, and reduce the gathered values in device order."""
    count = _uniform_group_size(b.target, operation)
    shape = array_of(operand)
    sizes = shape.dimensions
    table = intern_array(shape.element_type, (count, *sizes))
    attributes: Attributes = {**_participant_attributes(operation), "all_gather_dim": 0}
    gathered = b("all_gather", table, [b.reshaped(operand, (1, *sizes))], attributes)
    total: Value = None
    for index in range(count):
        row = b.sliced(gathered, [index, *[0] * shape.rank], [index + 1, *sizes])
        addend = b.reshaped(row, sizes)
        if total is None:
            total = addend
            continue
        dimensions = {"dimensions": range(shape.rank)}
        mapped = b.create("map", [shape], [total, addend], dimensions, regions=1)
        _copy_reducer(b, operation, mapped.regions[0])
        total = mapped.results[0]
    return total


def _copy_reducer(b: OpBuilder, operation: ir.Operation, region: ir.Region) -> None:
    """Copy the reducer of an operation to an empty region."""
    types = [argument.type for argument in operation.regions[0].blocks[0].arguments]
    block, arguments = b.block_in(region, types)
    block.end(block.inline(operation, 0, arguments))


def _uniform_group_size(target: Target, operation: ir.Operation) -> int:
    """The number of devices in each group of a reduction; CompileError if the sizes differ."""
    sizes = participants(operation).group_sizes(target.num_replicas, target.num_partitions)
    if len(sizes) == 1:
        return sizes.pop()
    kind = operation.name.partition(".")[2]
    raise CompileError(
        f"{kind}{place_of(operation)} can't run on "
        f"{target.platform}: in groups of different sizes XLA reduces only with add, mul, min and "
        "max, and preds also with and_ and or_",
        got=f"groups of {sorted(sizes)} devices",
        context=("compile", target.name),
        fix="use groups of the same size",
        op=kind,
    )


def _is_reducible(operation: ir.Operation) -> bool:
    """Whether XLA's backends support the reducer and the element type."""
    block = operation.regions[0].blocks[0]
    if len(block.operations) != 2:
        return False
    body, terminator = (view.operation for view in block.operations)
    element_type = array_of(block.arguments[0]).element_type
    supported = _REDUCERS + (("and", "or") if element_type is pt.pred else ())
    return (
        body.name.partition(".")[2] in supported
        and {*body.operands} == {*block.arguments}
        and len({*block.arguments}) == 2
        and terminator.operands[0] == body.result
        and element_type not in TWO_BITS
    )


def _is_sum(operation: ir.Operation) -> bool:
    """Whether the reducer is an addition."""
    first = operation.regions[0].blocks[0].operations[0].operation
    return first.name == "stablehlo.add" and _is_reducible(operation)


def _is_pair(value: Value) -> bool:
    """Whether a TPU represents each element as a pair of 32-bit numbers."""
    element_type = array_of(value).element_type
    return element_type in (pt.s64, pt.u64, pt.f64) or element_type.is_complex


def _participant_attributes(operation: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes that define the groups of devices of a collective operation."""
    names = ("replica_groups", "channel_handle", "use_global_device_ids")
    return {n: operation.attributes[n] for n in names if n in operation.attributes}


def _table(rows: Sequence[Sequence[int]]) -> str:
    width = max(map(len, rows))
    padded = [[*row, *[-1] * (width - len(row))] for row in rows]
    return f"dense<{padded}> : tensor<{len(rows)}x{width}xi64>"
