"""Transfers to and from the host, and custom calls, in StableHLO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.attributes import CustomCallApiVersion
from builder.attributes.host import OutputOperandAliasing, ffi_dictionary
from builder.graph.xla_op import XlaOp
from builder.ops.host import PYTHON_CALL_TARGET
from builder.schema.kinds import BYTES
from builder.sharding.text import is_shardy, leaf_texts
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, leaf_count, leaves
from lowering.host.callbacks import PythonFunction
from lowering.host.custom_calls import is_reserved_target
from lowering.mlir.attributes import (
    Attribute,
    array,
    i32,
    layouts_text,
    order_text,
    quoted,
)
from lowering.mlir.flattening import flatten, unflatten
from lowering.mlir.types import type_text
from lowering.stablehlo.rules.common import dictionary_text, error
from lowering.stablehlo.rules.operand_layouts import need_orders
from lowering.stablehlo.rules.registry import Value, attributes_of, call_attributes, check, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


def _need_static(op: XlaOp, shape: Shape) -> None:
    if not shape.is_static:
        rule = f"transferred data must have static sizes in StableHLO, got {shape}"
        fix = "transfer an array with static sizes, the bounds, and the actual size as an s32[]"
        raise error(op, rule, fix)


# Tokens among the data are omitted: the op's own token has the same order.


@rule("infeed")
def infeed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    ctx.has_streams = True
    shape = op.attributes.get("shape_with_layout", op.shape)
    assert isinstance(shape, TupleShape)  # checked by inference
    assert isinstance(op.shape, TupleShape)
    data = shape.elements[0]
    _need_static(op, data)
    need_orders(op, data)
    arrays = [leaf for leaf in leaves(data) if isinstance(leaf, ArrayShape)]
    attributes = {**attributes_of(op), "layout": array(map(order_text, arrays))}
    shape = TupleShape((*[a.with_layout(None) for a in arrays], op.shape.elements[1]))
    *values, token = ctx.value("stablehlo.infeed", shape, operands, attributes)
    return _with_tokens(op.shape, values, token)


def _with_tokens(shape: Shape, values: list[Value], token: Value) -> Value:
    """Nest `values` like `shape`, with `token` in the place of each token."""
    arrays = iter(values)
    flat = (token if isinstance(leaf, TokenShape) else next(arrays) for leaf in leaves(shape))
    return unflatten(shape, flat)


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
    return ctx.value("stablehlo.outfeed", op.shape, [*values, token], attributes_of(op))


@check("send", "recv")
def check_transfer(op: XlaOp) -> None:
    """Check that the array has static sizes, and that its layout is only an order of dimensions."""
    _need_static(op, op.attributes["data_shape"])
    need_orders(op, op.attributes["data_shape"])


@rule("custom_call")
def custom_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    recorded = op.attributes
    target = recorded["call_target_name"]
    if not target:
        raise error(op, "the target name must not be empty in MLIR", "pass the name of a function")
    if target == "Sharding" and is_shardy(op.sharding or "") and not op.shape.is_tuple:
        (text,) = leaf_texts(op.sharding, 1)
        values = flatten(operands)
        return ctx.value("sdy.sharding_constraint", op.shape, values, {"sharding": text})
    attributes = call_attributes(ctx, op)
    if recorded["api_version"] is CustomCallApiVersion.API_VERSION_TYPED_FFI:
        fix = "pass attributes={name: value, ...} instead of opaque"
        text = recorded["opaque"] or "{}"
        attributes["backend_config"] = dictionary_text(op, "opaque of a typed FFI call", text, fix)
    elif recorded["opaque"]:
        attributes["backend_config"] = BYTES.stablehlo(recorded["opaque"])
    shape = recorded.get("shape_with_layout", op.shape)
    # A function returns a tuple of one leaf as an array of one pointer. A single StableHLO result
    # is not such a tuple, so the operation has one result of a tuple type.
    is_tuple_of_one = isinstance(shape, TupleShape) and leaf_count(shape) == 1
    _add_layouts(op, shape, attributes, is_tuple_of_one=is_tuple_of_one)
    if recorded["output_operand_aliasing"]:
        is_tuple = is_tuple_of_one or leaf_count(op.shape) > 1
        aliases = recorded["output_operand_aliasing"]
        texts = [_alias_text(op, alias, is_tuple=is_tuple) for alias in aliases]
        attributes["output_operand_aliases"] = array(texts)
    values = flatten(operands)
    if not is_tuple_of_one:
        return ctx.value("stablehlo.custom_call", op.shape, values, attributes)
    (leaf,) = leaves(op.shape)
    tuple_type = ctx.writer.type(f"tuple<{type_text(leaf)}>")
    result = ctx.create_typed("stablehlo.custom_call", [tuple_type], values, attributes)
    element = ctx.value("stablehlo.get_tuple_element", leaf, result, {"index": i32(0)})
    return unflatten(op.shape, iter([element]))


def _add_layouts(
    op: XlaOp, shape: Shape, attributes: dict[str, Attribute], *, is_tuple_of_one: bool
) -> None:
    """Add the layouts of operands and results, by default row-major.

    XLA chooses the layouts of a custom call without layouts, depending on the ops around it, and
    does not pass its choice to the function.
    """
    operands = op.attributes["operand_shapes_with_layout"]
    if operands is None:
        operands = [operand.shape for operand in op.operands]
        is_reserved = is_reserved_target(op.attributes["call_target_name"])
        if shape is op.shape and (is_reserved or not _have_orders(*operands, shape)):
            return
    if is_tuple_of_one and shape is not op.shape:
        rule = f"a tuple of one array must not have a layout in StableHLO, got {shape}"
        fix = "pass the array's shape instead of the tuple, or a tuple of several arrays"
        raise error(op, rule, fix)
    need_orders(op, *operands, shape)
    attributes["operand_layouts"] = layouts_text(operands)
    attributes["result_layouts"] = layouts_text([shape])


def _have_orders(*shapes: Shape) -> bool:
    """Return whether any array has several dimensions, so that it has several possible layouts."""
    return any(
        isinstance(leaf, ArrayShape) and leaf.rank > 1 for shape in shapes for leaf in leaves(shape)
    )


def _alias_text(op: XlaOp, alias: OutputOperandAliasing, *, is_tuple: bool) -> str:
    output = [_leaf_number(op.shape, alias.output_index)] if is_tuple else []
    operand = sum(leaf_count(o.shape) for o in op.operands[: alias.operand_number])
    operand += _leaf_number(op.operands[alias.operand_number].shape, alias.operand_index)
    return (
        f"#stablehlo.output_operand_alias<output_tuple_indices = {output}, "
        f"operand_index = {operand}, operand_tuple_indices = []>"
    )


def _leaf_number(shape: Shape, index: tuple[int, ...]) -> int:
    """Return the number of a leaf of a nested tuple."""
    position = 0
    for number in index:
        assert isinstance(shape, TupleShape)  # checked by inference
        position += sum(map(leaf_count, shape.elements[:number]))
        shape = shape.elements[number]
    return position


@rule("python_call")
def python_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a custom call with the function's name, and its number among the module's functions."""
    recorded = op.attributes
    function = PythonFunction(
        recorded["function"], recorded["name"], tuple(o.shape for o in op.operands), op.shape
    )
    # A call may be emitted more than once, for instance one in a reducer.
    functions = ctx.python_functions
    index, _ = functions.setdefault(function.key, (len(functions), function))
    config = {"index": index, "name": recorded["name"]}
    attributes = {
        **attributes_of(op),
        "call_target_name": quoted(PYTHON_CALL_TARGET),
        "api_version": i32(int(CustomCallApiVersion.API_VERSION_TYPED_FFI)),
        "backend_config": ffi_dictionary("python_call", config),
    }
    return ctx.value("stablehlo.custom_call", op.shape, flatten(operands), attributes)
