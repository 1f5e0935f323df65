"""Importers of tokens, tuples, transfers to and from the host, and custom calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import builder as xb
from builder.attributes.host import CustomCallApiVersion, OutputOperandAliasing
from builder.graph.xla_op import XlaOp
from builder.ops.host import PYTHON_CALL_TARGET
from builder.schema import SCHEMAS
from builder.types.layout import Layout
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.importer.by_schema import derived_importer, schema_importer
from lowering.importer.control_flow import inlined_call
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import INLINED_CALL, Scope, flat_values, is_used, nested_value
from lowering.stablehlo.schema_attributes import read_attributes, reader_of


@importer("stablehlo.after_all", "stablehlo.create_token")
def after_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record an after_all, or a create_token if there are no operands."""
    return xb.after_all(operands) if operands else scope.builder.create_token()


@importer("stablehlo.tuple")
def tuple_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.tuple_of(operands)


def _in_order(shape: Shape, minor_to_major: Sequence[int]) -> Shape:
    """Return the shape with the layout `minor_to_major`; without a layout for the default order."""
    if not isinstance(shape, ArrayShape) or list(minor_to_major) == list(range(shape.rank))[::-1]:
        return shape
    return shape.with_layout(Layout(tuple(minor_to_major)))


def _joined(shapes: list[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


_infeed = schema_importer("infeed", "shape")
_outfeed = schema_importer("outfeed")


@importer("stablehlo.infeed")
def infeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record an infeed. StableHLO's operation has a result for each array; the op has a tuple."""
    *data, token = operation.results
    shapes = [scope.tables.shape(result.type) for result in data]
    orders = scope.attribute(operation, "layout")
    if orders is not None:
        shapes = list(map(_in_order, shapes, orders))
    op = _infeed(scope, operation, operands, shape=_joined(shapes))
    values: list[XlaOp | None] = [None] * len(data)
    used = [number for number, result in enumerate(data) if is_used(result)]
    if used:
        content = op[0]
        for number in used:
            values[number] = content if len(data) == 1 else content[number]
    return [*values, op[1] if is_used(token) else None]


@importer("stablehlo.outfeed")
def outfeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    *values, token = operands
    value = values[0] if len(values) == 1 else scope.tuple_of(values)
    return _outfeed(scope, operation, [value, token])


def _channel(operation: ir.Operation) -> tuple[int, bool]:
    """Return a transfer's channel number, and whether the other end of the transfer is the host.

    The channel type in the file may be wrong. It is ignored: the op that is recorded sets it.
    """
    if "source_target_pairs" in operation.attributes:
        raise failure(operation, "XLA's send and recv have no source_target_pairs")
    recorded = read_attributes(SCHEMAS["send"], operation.attributes)
    channel = recorded["channel_handle"]
    return 0 if channel is None else channel.handle, recorded["is_host_transfer"]


@importer("stablehlo.send")
def send(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operands) != 2:
        raise failure(operation, f"a send must have one array operand, got {len(operands) - 1}")
    value, token = operands
    channel, is_host = _channel(operation)
    if is_host:
        return xb.send_to_host(value, token, value.shape, channel)
    return xb.send_with_token(value, token, channel)


@importer("stablehlo.recv")
def recv(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operation.results) != 2:
        raise failure(
            operation, f"a recv must have one array result, got {len(operation.results) - 1}"
        )
    channel, is_host = _channel(operation)
    receive = xb.recv_from_host if is_host else xb.recv_with_token
    return receive(operands[0], scope.result_shape(operation), channel)


_custom_call = schema_importer("custom_call", "shape")

_CHLO_ATTRIBUTES: Final = "mhlo.attributes"
"""An attribute of custom calls that encode a CHLO operation: the CHLO operation's attributes."""


@importer("stablehlo.custom_call")
def custom_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    target = scope.attribute(operation, "call_target_name")
    if target == INLINED_CALL:
        return inlined_call(scope, operation, list(operands))
    if target == PYTHON_CALL_TARGET:
        return _python_call(scope, operation, operands)
    if _CHLO_ATTRIBUTES in operation.attributes:
        return _chlo_op(scope, operation, operands, target)
    shape = _joined([scope.tables.shape(result.type) for result in operation.results])
    named = {
        **_custom_call.arguments(scope, operation),
        **_opaque(operation),
        "output_operand_aliasing": _aliasing(operation),
    }
    orders = scope.attribute(operation, "operand_layouts")
    if orders is not None:
        shapes = [operand.shape for operand in operands]
        named["operand_shapes_with_layout"] = list(map(_in_order, shapes, orders))
        shape = _laid_out(shape, scope.attribute(operation, "result_layouts"))
    if operands:
        return xb.custom_call(operands=operands, shape=shape, **named)
    return scope.builder.custom_call(shape=shape, **named)


_read_opaque = reader_of("custom_call", "opaque")


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
    return {"opaque": "" if config is None else _read_opaque(config)}


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
        return TupleShape(list(map(_in_order, shape.elements, orders)))
    return _in_order(shape, orders[0])


def _python_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record the call of a Python function; only modules from `lower` contain such calls."""
    config = scope.attribute(operation, "backend_config") or {}
    functions = scope.tables.python_functions
    index = config.get("index")  # HLO text has none
    if not isinstance(index, int) or not 0 <= index < len(functions):
        name = config.get("name", "without a name")
        raise failure(
            operation,
            f"the custom call needs the Python function {name}, and files contain no Python "
            f"functions",
        )
    record = functions[index]
    leaves = iter(operands)
    arguments = [nested_value(scope, shape, leaves) for shape in record.operands]
    named = read_attributes(SCHEMAS["python_call"], operation.attributes)
    if arguments:
        op = xb.python_call(record.function, arguments, record.result, **named)
    else:
        op = scope.builder.python_call(record.function, record.result, **named)
    return list(flat_values(op)) if isinstance(op.shape, TupleShape) else op


def _chlo_op(scope: Scope, operation: ir.Operation, operands: list[XlaOp], target: str) -> XlaOp:
    """Record the CHLO operation that a portable artifact encodes as a custom call."""
    attributes = scope.attribute(operation, _CHLO_ATTRIBUTES)
    recorder = derived_importer(target)
    if recorder is None or not recorder.accepts(attributes):
        raise failure(operation, f"there is no op for {target}")
    return recorder.call(operands, attributes)
