"""Operations across devices in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builder.attributes import ChannelHandle, ReplicaGroups
from builder.shape import ArrayShape, TupleShape, intern_array
from builder.workarounds import carried_by, channel_of, explicit_groups, is_empty_exchange
from builder.xla_op import XlaOp
from lowering.mlir_attributes import UNIT, i64, i64_array
from lowering.rules.elementwise import filled
from lowering.rules.orders import need_orders
from lowering.rules.registry import DIRECT, Value, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter

Attributes = dict[str, str]

DIRECT["replica_id"] = "stablehlo.replica_id"
DIRECT["partition_id"] = "stablehlo.partition_id"


def _table(rows: tuple[tuple[int, ...], ...], width: int) -> str:
    """Rows of numbers as a dense attribute; short rows are filled up with -1."""
    if not rows:
        return f"dense<> : tensor<0x{width}xi64>"
    width = max(map(len, rows))
    filled = [list(row) + [-1] * (width - len(row)) for row in rows]
    return f"dense<{filled}> : tensor<{len(rows)}x{width}xi64>"


def _channel(channel: ChannelHandle) -> str:
    return f"#stablehlo.channel_handle<handle = {channel.handle}, type = {int(channel.type)}>"


def _participants(op: XlaOp) -> Attributes:
    laid_out = op.attributes.get("shape_with_layout")
    if laid_out is not None:
        need_orders(op, laid_out)
    groups: ReplicaGroups = explicit_groups(op)
    found = {"replica_groups": _table(groups.groups, 0)}
    channel = channel_of(op)
    if channel is not None:
        found["channel_handle"] = _channel(channel)
    if op.attributes.get("use_global_device_ids"):
        found["use_global_device_ids"] = UNIT
    return found


@rule("all_reduce")
def all_reduce(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = _participants(op)
    reducer = op.attributes["to_apply"]
    return ctx.value("stablehlo.all_reduce", op.shape, operands, attributes, [reducer])


def _parts(ctx: Emitter, op: XlaOp, operands: list[Value], one: Any) -> Value:
    """What `one` makes of each operand and the shape of its result; nothing of what is empty."""
    shapes = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    values = []
    for position, (shape, operand) in enumerate(zip(shapes, operands, strict=True)):
        assert isinstance(shape, ArrayShape)  # inference has said so
        if is_empty_exchange(op, position):
            values.append(filled(ctx, shape, 0))
        else:
            values.append(one(shape, operand))
    return values if isinstance(op.shape, TupleShape) else values[0]


@rule("all_gather")
def all_gather(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = _participants(op)
    attributes["all_gather_dim"] = i64(op.attributes["all_gather_dim"])
    name = "stablehlo.all_gather"
    if any(is_empty_exchange(op, position) for position in range(len(operands))):
        return _parts(ctx, op, operands, lambda s, v: ctx.value(name, s, [v], attributes))
    return ctx.value(name, op.shape, operands, attributes)


@rule("reduce_scatter")
def reduce_scatter(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """One operation for each array: StableHLO's takes one."""
    attributes = _participants(op)
    attributes["scatter_dimension"] = i64(op.attributes["scatter_dimension"])

    def one(shape: ArrayShape, operand: Value) -> Value:
        reducer = op.attributes["to_apply"]
        return ctx.value("stablehlo.reduce_scatter", shape, [operand], attributes, [reducer])

    return _parts(ctx, op, operands, one)


@rule("all_to_all")
def all_to_all(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    names = ("split_dimension", "concat_dimension", "split_count")
    attributes = _participants(op)
    attributes.update((name, i64(op.attributes[name])) for name in names)
    return ctx.value("stablehlo.all_to_all", op.shape, operands, attributes)


@rule("all_to_all_tuple")
def all_to_all_tuple(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """The operands as one array with a dimension more, whose blocks are exchanged.

    StableHLO's all_to_all of several operands is another operation: it cuts each of them.
    """
    count = len(operands)
    assert isinstance(op.shape, TupleShape)  # inference has said so
    one = op.shape.elements[0]
    assert isinstance(one, ArrayShape)
    if count == 1:
        return operands  # a group of one, in which everybody keeps what is his
    carrier = carried_by(one.element_type)
    how = "convert" if one.element_type.bits == 2 else "bitcast_convert"
    plain = one if carrier is None else one.with_element_type(carrier)
    if carrier is not None:
        operands = [ctx.value(f"stablehlo.{how}", plain, [operand]) for operand in operands]
    dynamic = (False, *one.dynamic_dimensions)
    row = intern_array(plain.element_type, (1, *one.dimensions), dynamic)
    table = intern_array(plain.element_type, (count, *one.dimensions), dynamic)
    rows = [ctx.value("stablehlo.reshape", row, [operand]) for operand in operands]
    joined = ctx.value("stablehlo.concatenate", table, rows, {"dimension": i64(0)})
    attributes = _participants(op)
    attributes["split_dimension"] = attributes["concat_dimension"] = i64(0)
    attributes["split_count"] = i64(count)
    exchanged = ctx.value("stablehlo.all_to_all", table, [joined], attributes)
    results = []
    for index in range(count):
        bounds: dict[str, Any] = {
            "start_indices": (index, *(0 for _ in one.dimensions)),
            "limit_indices": (index + 1, *one.dimensions),
            "strides": tuple(1 for _ in row.dimensions),
        }
        cut = {name: i64_array(values) for name, values in bounds.items()}
        taken = ctx.value("stablehlo.slice", row, [exchanged], cut)
        value = ctx.value("stablehlo.reshape", plain, [taken])
        if carrier is not None:
            value = ctx.value(f"stablehlo.{how}", one, [value])
        results.append(value)
    return results


@rule("collective_permute")
def collective_permute(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = {"source_target_pairs": _table(op.attributes["source_target_pairs"], 2)}
    channel = op.attributes["channel_handle"]
    if channel is not None:
        attributes["channel_handle"] = _channel(channel)
    return ctx.value("stablehlo.collective_permute", op.shape, operands, attributes)


@rule("collective_broadcast")
def collective_broadcast(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    attributes = _participants(op)
    return ctx.value("stablehlo.collective_broadcast", op.shape, operands, attributes)
