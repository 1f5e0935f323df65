"""Tokens, the host, and code that XLA does not know, in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir

from builder.attributes import CustomCallApiVersion
from builder.attributes.host import ffi_dictionary
from builder.errors import brief
from builder.graph.xla_op import XlaOp
from builder.sharding.text import is_shardy
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, leaf_count, leaves
from lowering.errors import LoweringError
from lowering.host.callbacks import PYTHON_CALL, PythonFunction
from lowering.host.custom_calls import is_reserved_target
from lowering.mlir.attributes import array, boolean, i32, quoted, symbol
from lowering.mlir.context import shared_context
from lowering.mlir.flattening import flatten, unflatten
from lowering.mlir.types import type_text
from lowering.stablehlo.rules.operand_layouts import layouts_text, need_orders, order_text
from lowering.stablehlo.rules.registry import Value, rule
from lowering.stablehlo.rules.sharding import sharding_constraint

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


def _error(op: XlaOp, reason: str, fix: str) -> LoweringError:
    place = f", recorded at {op.source.file}:{op.source.line}," if op.source is not None else ""
    return LoweringError(
        f"lower: {op.opcode}{place} {reason}\nfix: {fix}",
        op=op.opcode,
        shapes={"result": op.shape, **{f"operand {i}": o.shape for i, o in enumerate(op.operands)}},
    )


def _need_static(op: XlaOp, shape: Shape) -> None:
    if not shape.is_static:
        raise _error(
            op,
            f"moves {shape}: in StableHLO what is moved has static sizes",
            "move the array in its largest size, and its size beside it as an s32[]",
        )


# Tokens among the data hold nothing: they are left out, and the op's own token orders as they do.


@rule("infeed")
def infeed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    ctx.has_streams = True
    whole = op.attributes.get("shape_with_layout", op.shape)
    assert isinstance(whole, TupleShape)  # inference has said so
    assert isinstance(op.shape, TupleShape)
    data = whole.elements[0]
    _need_static(op, data)
    need_orders(op, data)
    arrays = [leaf for leaf in leaves(data) if isinstance(leaf, ArrayShape)]
    attributes = {
        "infeed_config": quoted(op.attributes["infeed_config"]),
        "layout": array(map(order_text, arrays)),
    }
    shape = TupleShape((*[a.with_layout(None) for a in arrays], op.shape.elements[1]))
    *values, token = ctx.create("stablehlo.infeed", shape, operands, attributes)
    return _with_tokens(op.shape, values, token)


def _with_tokens(shape: Shape, values: list[Value], token: Value) -> Value:
    """The values arranged as `shape` is nested; one token in all places of tokens."""
    remaining = iter(values)
    flat = [token if isinstance(leaf, TokenShape) else next(remaining) for leaf in leaves(shape)]
    return unflatten(shape, iter(flat))


@rule("outfeed")
def outfeed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
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
    attributes = {"outfeed_config": quoted(op.attributes["outfeed_config"])}
    return ctx.value("stablehlo.outfeed", op.shape, [*values, token], attributes)


@rule("send")
@rule("recv")
def transfer(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    _need_static(op, op.attributes["data_shape"])
    need_orders(op, op.attributes["data_shape"])
    channel = op.attributes["channel_handle"]
    attributes = {
        "channel_handle": f"#stablehlo.channel_handle<handle = {channel.handle}, "
        f"type = {int(channel.type)}>",
    }
    if op.attributes["is_host_transfer"]:
        attributes["is_host_transfer"] = boolean(True)
    return ctx.value(f"stablehlo.{op.opcode}", op.shape, flatten(operands), attributes)


@rule("custom_call")
def custom_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    given = op.attributes
    if not given["call_target_name"]:
        raise _error(op, "has an empty name, which MLIR can't say", "name a function")
    is_one = given["call_target_name"] == "Sharding" and not isinstance(op.shape, TupleShape)
    if is_one and is_shardy(op.sharding or ""):
        return sharding_constraint(ctx, op, operands)
    version = given["api_version"]
    attributes = {
        "call_target_name": quoted(given["call_target_name"]),
        "api_version": i32(int(version)),
    }
    if given["has_side_effect"]:
        attributes["has_side_effect"] = boolean(True)
    if version is CustomCallApiVersion.API_VERSION_TYPED_FFI:
        attributes["backend_config"] = _dictionary(op, given["opaque"] or "{}")
    elif given["opaque"]:
        attributes["backend_config"] = quoted(given["opaque"])
    if "to_apply" in given:
        attributes["called_computations"] = array([symbol(ctx.functions[given["to_apply"]])])
    shape = given.get("shape_with_layout", op.shape)
    # A function that gives a tuple of one gets an array of one pointer; StableHLO would take one
    # result for no tuple at all.
    alone = isinstance(shape, TupleShape) and leaf_count(shape) == 1
    _add_layouts(op, shape, attributes, alone=alone)
    if given["output_operand_aliasing"]:
        texts = [_alias_text(op, alias, alone=alone) for alias in given["output_operand_aliasing"]]
        attributes["output_operand_aliases"] = array(texts)
    values = flatten(operands)
    if not alone:
        return ctx.value("stablehlo.custom_call", op.shape, values, attributes)
    (leaf,) = leaves(op.shape)
    pair = ctx.writer.type(f"tuple<{type_text(leaf)}>")
    whole = ctx.create_typed("stablehlo.custom_call", [pair], values, attributes)
    only = ctx.value("stablehlo.get_tuple_element", leaf, whole, {"index": i32(0)})
    return unflatten(op.shape, iter([only]))


def _dictionary(op: XlaOp, text: str) -> str:
    """The MLIR dictionary that a typed FFI call has, in the words of MLIR."""
    context: Any = shared_context()
    handler = context.attach_diagnostic_handler(lambda _: True)  # prints nothing
    try:
        found: Any = ir.Attribute.parse(text, context)
    except (ir.MLIRError, ValueError):
        found = None
    finally:
        handler.detach()
    if not isinstance(found, ir.DictAttr):
        raise _error(
            op,
            f"is a typed FFI call, whose opaque must be the text of an MLIR dictionary, "
            f"got {brief(text)}",
            "give attributes={name: value, ...} in place of opaque",
        )
    return str(found)


def _add_layouts(op: XlaOp, shape: Shape, attributes: dict[str, Any], *, alone: bool) -> None:
    """The layouts of operands and results: row-major where none were asked for.

    Of what has no layouts XLA chooses them, by what gives the operands and takes the results (the
    end of a program, or another call, that wants columns), and tells the function nothing of it.
    """
    wanted = op.attributes["operand_shapes_with_layout"]
    if wanted is None:
        wanted = [o.shape for o in op.operands]
        if shape is op.shape and (
            is_reserved_target(op.attributes["call_target_name"])
            or not _have_orders(*wanted, shape)
        ):
            return
    if alone and shape is not op.shape:
        raise _error(
            op,
            f"gives a tuple of one with a layout, {shape}, which StableHLO can't say",
            "give the array itself, or two",
        )
    need_orders(op, *wanted, shape)
    attributes["operand_layouts"] = layouts_text(wanted)
    attributes["result_layouts"] = layouts_text([shape])


def _have_orders(*shapes: Shape) -> bool:
    """Whether arrays among them have several dimensions, which lie in one order or another."""
    return any(
        isinstance(leaf, ArrayShape) and leaf.rank > 1 for shape in shapes for leaf in leaves(shape)
    )


def _alias_text(op: XlaOp, alias: Any, *, alone: bool) -> str:
    output = _flat_index(op.shape, alias.output_index)
    number = sum(leaf_count(o.shape) for o in op.operands[: alias.operand_number])
    number += _flat_index(op.operands[alias.operand_number].shape, alias.operand_index)
    several = alone or leaf_count(op.shape) > 1
    return (
        f"#stablehlo.output_operand_alias<output_tuple_indices = {[output] if several else []}, "
        f"operand_index = {number}, operand_tuple_indices = []>"
    )


def _flat_index(shape: Shape, index: tuple[int, ...]) -> int:
    """The number, among the leaves of a nested tuple, of the one at a place."""
    position = 0
    for number in index:
        assert isinstance(shape, TupleShape)  # inference has said so
        position += sum(leaf_count(e) for e in shape.elements[:number])
        shape = shape.elements[number]
    return position


@rule("python_call")
def python_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """A custom call that says the function's name, and its number among those of the module."""
    given = op.attributes
    record = PythonFunction(
        given["function"], given["name"], tuple(o.shape for o in op.operands), op.shape
    )
    # The same call, in a reducer for instance, may be emitted more than once.
    known = ctx.python_functions
    index, _ = known.setdefault(record.key, (len(known), record))
    names = {"index": index, "name": given["name"]}
    attributes = {
        "call_target_name": quoted(PYTHON_CALL),
        "api_version": i32(int(CustomCallApiVersion.API_VERSION_TYPED_FFI)),
        "backend_config": ffi_dictionary("python_call", names),
    }
    if given["has_side_effect"]:
        attributes["has_side_effect"] = boolean(True)
    return ctx.value("stablehlo.custom_call", op.shape, flatten(operands), attributes)
