"""Tokens, and transfers to and from the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.layout import Layout
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, leaves
from lowering.mlir.attributes import array, order_text
from lowering.mlir.flattening import flatten, unflatten
from lowering.ops.emitting import error, need_orders
from lowering.ops.importing import failure, is_used
from lowering.ops.registry import (
    REFUSED,
    Context,
    Imported,
    Step,
    Value,
    importer,
    jax_rule,
    stablehlo_check,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


@importer("stablehlo.after_all", "stablehlo.create_token")
def import_after_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record an after_all, or a create_token if there are no operands."""
    return xb.after_all(operands) if operands else scope.builder.create_token()


@jax_rule("create_token", "after_all")
def jax_token(ctx: Context, op: XlaOp) -> Step:
    return lambda *_: None


_TRANSFER: Final = (
    "jax has no infeed, outfeed or channel to the host",
    "pass the data as an argument or a result, or call a Python function with xb.python_call",
)


REFUSED.update(dict.fromkeys(("infeed", "outfeed", "send", "recv"), _TRANSFER))


def _need_static(op: XlaOp, shape: Shape) -> None:
    if not shape.is_static:
        rule = f"transferred data must have static sizes in StableHLO, got {shape}"
        fix = "transfer an array with static sizes, the bounds, and the actual size as an s32[]"
        raise error(op, rule, fix)


def in_order(shape: Shape, minor_to_major: Sequence[int]) -> Shape:
    """Return the shape with the layout `minor_to_major`; without a layout for the default order."""
    if not isinstance(shape, ArrayShape) or list(minor_to_major) == list(range(shape.rank))[::-1]:
        return shape
    return shape.with_layout(Layout(tuple(minor_to_major)))


def joined(shapes: list[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


@stablehlo_rule("infeed")
def emit_infeed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    ctx.has_streams = True
    shape = op.attributes.get("shape_with_layout", op.shape)
    assert isinstance(shape, TupleShape)  # checked by inference
    assert isinstance(op.shape, TupleShape)
    data = shape.elements[0]
    _need_static(op, data)
    need_orders(op, data)
    arrays = [leaf for leaf in leaves(data) if isinstance(leaf, ArrayShape)]
    attributes = {**ctx.attributes_of(op), "layout": array(map(order_text, arrays))}
    shape = TupleShape((*[a.with_layout(None) for a in arrays], op.shape.elements[1]))
    *values, token = ctx.value("stablehlo.infeed", shape, operands, attributes)
    return _with_tokens(op.shape, values, token)


def _with_tokens(shape: Shape, values: list[Value], token: Value) -> Value:
    """Nest `values` like `shape`, with `token` in the place of each token."""
    arrays = iter(values)
    flat = (token if isinstance(leaf, TokenShape) else next(arrays) for leaf in leaves(shape))
    return unflatten(shape, flat)


@importer("stablehlo.infeed")
def import_infeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record an infeed. StableHLO's operation has a result for each array; the op has a tuple."""
    *data, token = operation.results
    shapes = [scope.tables.shape(result.type) for result in data]
    orders = scope.attribute(operation, "layout")
    if orders is not None:
        shapes = list(map(in_order, shapes, orders))
    op = scope.by_schema("infeed", operation, operands, shape=joined(shapes))
    values: list[XlaOp | None] = [None] * len(data)
    used = [number for number, result in enumerate(data) if is_used(result)]
    if used:
        content = op[0]
        for number in used:
            values[number] = content if len(data) == 1 else content[number]
    return [*values, op[1] if is_used(token) else None]


@stablehlo_rule("outfeed")
def emit_outfeed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    ctx.has_streams = True
    data = op.operands[0].shape
    _need_static(op, data)
    need_orders(op, op.attributes["outfeed_shape"])
    values: list[Value] = []
    tokens = [operands[1]]
    for value, leaf in zip(flatten([operands[0]]), leaves(data), strict=True):
        (tokens if isinstance(leaf, TokenShape) else values).append(value)
    token = tokens[0]
    if len(tokens) > 1:
        token = ctx.value("stablehlo.after_all", op.shape, tokens)
    return ctx.value("stablehlo.outfeed", op.shape, [*values, token], ctx.attributes_of(op))


@importer("stablehlo.outfeed")
def import_outfeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    *values, token = operands
    value = values[0] if len(values) == 1 else scope.tuple_of(values)
    return scope.by_schema("outfeed", operation, [value, token])


@stablehlo_check("send", "recv")
def check_transfer(op: XlaOp) -> None:
    """Check that the array has static sizes, and that its layout is only an order of dimensions."""
    _need_static(op, op.attributes["data_shape"])
    need_orders(op, op.attributes["data_shape"])


def _channel(scope: Scope, operation: ir.Operation) -> tuple[int, bool]:
    """Return a transfer's channel number, and whether the other end of the transfer is the host.

    The channel type in the file may be wrong. It is ignored: the op that is recorded sets it.
    """
    if "source_target_pairs" in operation.attributes:
        raise failure(operation, "XLA's send and recv have no source_target_pairs")
    recorded = scope.attributes("send", operation)
    channel = recorded["channel_handle"]
    return 0 if channel is None else channel.handle, recorded["is_host_transfer"]


@importer("stablehlo.send")
def import_send(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operands) != 2:
        raise failure(operation, f"a send must have one array operand, got {len(operands) - 1}")
    value, token = operands
    channel, is_host = _channel(scope, operation)
    if is_host:
        return xb.send_to_host(value, token, value.shape, channel)
    return xb.send_with_token(value, token, channel)


@importer("stablehlo.recv")
def import_recv(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operation.results) != 2:
        raise failure(
            operation, f"a recv must have one array result, got {len(operation.results) - 1}"
        )
    channel, is_host = _channel(scope, operation)
    receive = xb.recv_from_host if is_host else xb.recv_with_token
    return receive(operands[0], scope.result_shape(operation), channel)
