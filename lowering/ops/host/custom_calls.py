"""Calls of code outside XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import builder as xb
from builder.attributes.host import CustomCallApiVersion, OutputOperandAliasing
from builder.graph.inlined_calls import InlinedCall
from builder.graph.xla_op import XlaOp
from builder.ops.host import PYTHON_CALL_TARGET
from builder.schema.kinds import BYTES
from builder.sharding.text import is_shardy, leaf_texts
from builder.types.shape import ArrayShape, Shape, TupleShape, leaf_count, leaves
from lowering.host.custom_calls import is_reserved_target
from lowering.mlir.attribute_values import ReadableAttribute
from lowering.mlir.attributes import Attribute, array, i32, layouts_text
from lowering.mlir.flattening import flatten, unflatten
from lowering.mlir.types import type_text
from lowering.ops.emitting import dictionary_text, error, need_orders
from lowering.ops.host.python_calls import import_python_call
from lowering.ops.host.transfers import in_order, joined
from lowering.ops.importing import INLINED_CALL, failure
from lowering.ops.registry import (
    CUSTOM_CALLS,
    Context,
    Imported,
    Step,
    Value,
    importer,
    jax_rule,
    refusal,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


@stablehlo_rule("custom_call")
def emit_custom_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    recorded = op.attributes
    target = recorded["call_target_name"]
    if not target:
        raise error(op, "the target name must not be empty in MLIR", "pass the name of a function")
    if target == "Sharding" and is_shardy(op.sharding or "") and not op.shape.is_tuple:
        (text,) = leaf_texts(op.sharding, 1)
        values = flatten(operands)
        return ctx.value("sdy.sharding_constraint", op.shape, values, {"sharding": text})
    attributes = ctx.call_attributes(op)
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


_CHLO_ATTRIBUTES: Final = "mhlo.attributes"
"""An attribute of custom calls that encode a CHLO operation: the CHLO operation's attributes."""


@importer("stablehlo.custom_call")
def import_custom_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    target = scope.attribute(operation, "call_target_name")
    if target == INLINED_CALL:
        return _inlined_call(scope, operation, list(operands))
    if target == PYTHON_CALL_TARGET:
        return import_python_call(scope, operation, operands)
    if _CHLO_ATTRIBUTES in operation.attributes:
        op = scope.chlo_op(operation, operands, target, _CHLO_ATTRIBUTES)
        if op is None:
            raise failure(operation, f"there is no op for {target}")
        return op
    shape = joined([scope.tables.shape(result.type) for result in operation.results])
    named = {
        **scope.arguments("custom_call", operation, "shape"),
        **_opaque(operation),
        "output_operand_aliasing": _aliasing(operation),
    }
    orders = scope.attribute(operation, "operand_layouts")
    if orders is not None:
        shapes = [operand.shape for operand in operands]
        named["operand_shapes_with_layout"] = list(map(in_order, shapes, orders))
        shape = _laid_out(shape, scope.attribute(operation, "result_layouts"))
    if operands:
        return xb.custom_call(operands=operands, shape=shape, **named)
    return scope.builder.custom_call(shape=shape, **named)


def _opaque(operation: ir.Operation) -> dict[str, Any]:
    """Return the opaque text of a custom call, and its API version if the text determines it.

    The opaque text of a typed FFI call is a dictionary in MLIR text. JAX names the dictionary
    mhlo.backend_config and omits the version; XLA's importer accepts this form too.
    """
    attributes = operation.attributes
    config = attributes.get("mhlo.backend_config")
    if isinstance(config, ir.DictAttr):
        typed = CustomCallApiVersion.API_VERSION_TYPED_FFI
        return {"opaque": str(config), "api_version": typed}
    config = attributes.get("backend_config")
    if isinstance(config, ir.DictAttr):
        return {"opaque": str(config)}
    return {"opaque": "" if config is None else BYTES.read(ReadableAttribute(config))}


def _aliasing(operation: ir.Operation) -> tuple[OutputOperandAliasing, ...]:
    aliases: Any = operation.attributes.get("output_operand_aliases") or ()
    return tuple(
        OutputOperandAliasing(
            tuple(alias.output_tuple_indices),
            alias.operand_index,
            tuple(alias.operand_tuple_indices),
        )
        for alias in map(stablehlo.OutputOperandAlias, aliases)
    )


def _laid_out(shape: Shape, orders: Sequence[Sequence[int]]) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(list(map(in_order, shape.elements, orders)))
    return in_order(shape, orders[0])


def _inlined_call(scope: Scope, operation: ir.Operation, values: list[XlaOp | None]) -> Imported:
    """Note a call of one of the functions of `Tables.inlined_functions`."""
    config = scope.attribute(operation, "backend_config")
    functions = scope.tables.inlined_functions
    if not isinstance(config, dict) or config["number"] >= len(functions):
        raise failure(operation, f"files contain no custom call of {INLINED_CALL}")
    count = config["operands"]
    operands = [op for op in values[:count] if op is not None]
    results = tuple(values[count:])
    if len(operands) == count and any(op is not None for op in results):
        call = InlinedCall(functions[config["number"]], tuple(operands), results)
        scope.builder.inlined_calls.append(call)
    return []


@jax_rule("custom_call")
def jax_custom_call(ctx: Context, op: XlaOp) -> Step:
    target = op.attributes["call_target_name"]
    if target == "Sharding":
        return lambda operand: operand
    if target.startswith("SPMD"):
        raise refusal(op, f"{target} depends on partitions", "use jax.shard_map instead")
    known = CUSTOM_CALLS.get(target)
    step = None if known is None else known(ctx, op)
    return ctx.pasted(op) if step is None else step
