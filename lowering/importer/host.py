"""Tokens, tuples, transfers to and from the host, and custom calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import builder as xb
from builder.attributes import ChannelHandle, ChannelType
from builder.attributes.host import CustomCallApiVersion, OutputOperandAliasing
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.layout import Layout
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.host.callbacks import PYTHON_CALL
from lowering.importer.by_schema import derived_importer
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope, flat_values, is_used, nested_value


@importer("stablehlo.after_all", "stablehlo.create_token")
def after_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record an after_all; without operands it is a create_token."""
    return xb.after_all(operands) if operands else scope.builder.create_token()


@importer("stablehlo.tuple")
def tuple_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.tuple_of(operands)


def _in_order(shape: Shape, minor_to_major: Sequence[int]) -> Shape:
    """Return the shape with a layout of this order, or without layout for the default order."""
    if not isinstance(shape, ArrayShape) or list(minor_to_major) == list(range(shape.rank))[::-1]:
        return shape
    return shape.with_layout(Layout(tuple(minor_to_major)))


def _joined(shapes: list[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


@importer("stablehlo.infeed")
def infeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record an infeed, whose data are several results in StableHLO."""
    *data, token = operation.results
    shapes = [scope.tables.shape(result.type) for result in data]
    orders = scope.attribute(operation, "layout")
    if orders is not None:
        shapes = list(map(_in_order, shapes, orders))
    config = scope.attribute(operation, "infeed_config", "")
    op = xb.infeed_with_token(operands[0], _joined(shapes), config)
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
    config = scope.attribute(operation, "outfeed_config", "")
    return xb.outfeed_with_token(value, token, outfeed_config=config)


def _channel(
    scope: Scope, operation: ir.Operation, host_type: ChannelType
) -> tuple[ChannelHandle, bool]:
    """Return the channel of a transfer, and whether it is a transfer to or from the host."""
    if scope.attribute(operation, "source_target_pairs") is not None:
        raise failure(operation, "XLA does not support its source_target_pairs")
    handle = stablehlo.ChannelHandle(operation.attributes["channel_handle"]).handle
    is_host = bool(scope.attribute(operation, "is_host_transfer", False))
    return ChannelHandle(handle, host_type if is_host else ChannelType.DEVICE_TO_DEVICE), is_host


@importer("stablehlo.send")
def send(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operands) != 2:
        raise failure(operation, f"it must send one array, got {len(operands) - 1}")
    value, token = operands
    channel, is_host = _channel(scope, operation, ChannelType.DEVICE_TO_HOST)
    if is_host:
        return xb.send_to_host(value, token, value.shape, channel)
    return xb.send_with_token(value, token, channel)


@importer("stablehlo.recv")
def recv(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operation.results) != 2:
        raise failure(operation, f"it must receive one array, got {len(operation.results) - 1}")
    channel, is_host = _channel(scope, operation, ChannelType.HOST_TO_DEVICE)
    receive = xb.recv_from_host if is_host else xb.recv_with_token
    return receive(operands[0], scope.result_shape(operation), channel)


_CHLO_ATTRIBUTES: Final = "mhlo.attributes"
"""The attribute of a custom call that encodes an operation of CHLO, whose name is the target."""


@importer("stablehlo.custom_call")
def custom_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    target = scope.attribute(operation, "call_target_name")
    if target == PYTHON_CALL:
        return _python_call(scope, operation, operands)
    if _CHLO_ATTRIBUTES in operation.attributes:
        return _chlo_op(scope, operation, operands, target)
    shape = _joined([scope.tables.shape(result.type) for result in operation.results])
    opaque, version = _opaque_and_version(scope, operation)
    named: dict[str, Any] = {
        "opaque": opaque,
        "has_side_effect": scope.attribute(operation, "has_side_effect", False),
        "api_version": version,
        "computation": _called_computation(scope, operation),
        "output_operand_aliasing": _aliasing(operation),
    }
    orders = scope.attribute(operation, "operand_layouts")
    if orders is not None:
        shapes = [operand.shape for operand in operands]
        named["operand_shapes_with_layout"] = list(map(_in_order, shapes, orders))
        shape = _laid_out(shape, scope.attribute(operation, "result_layouts"))
    if operands:
        return xb.custom_call(target, operands, shape, **named)
    return scope.builder.custom_call(target, shape, **named)


def _opaque_and_version(scope: Scope, operation: ir.Operation) -> tuple[str, int]:
    """Return the opaque text, and XLA's number of the API version.

    The opaque text of a typed FFI call is an MLIR dictionary. JAX names the dictionary
    mhlo.backend_config and omits the version, which XLA's importer accepts too.
    """
    attributes = operation.attributes
    config = attributes.get("mhlo.backend_config")
    if isinstance(config, ir.DictAttr):
        return str(config), CustomCallApiVersion.API_VERSION_TYPED_FFI
    version = scope.attribute(operation, "api_version", CustomCallApiVersion.API_VERSION_ORIGINAL)
    config = attributes.get("backend_config")
    if isinstance(config, ir.DictAttr):
        return str(config), version
    return scope.attribute(operation, "backend_config", ""), version


def _called_computation(scope: Scope, operation: ir.Operation) -> XlaComputation | None:
    names = scope.attribute(operation, "called_computations", ())
    if len(names) > 1:
        raise failure(operation, f"it must call one computation, got {len(names)}")
    return scope.functions[names[0]] if names else None


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
    """Record the call of a Python function, to which only modules that `lower` returned refer."""
    config = scope.attribute(operation, "backend_config")
    functions = scope.tables.python_functions
    if config.get("index", len(functions)) >= len(functions):  # HLO text has no index
        raise failure(
            operation, f"it calls the Python function {config['name']}, which files do not contain"
        )
    record = functions[config["index"]]
    leaves = iter(operands)
    arguments = [nested_value(scope, shape, leaves) for shape in record.operands]
    named = {"has_side_effect": scope.attribute(operation, "has_side_effect", False)}
    if arguments:
        op = xb.python_call(record.function, arguments, record.result, **named)
    else:
        op = scope.builder.python_call(record.function, record.result, **named)
    return list(flat_values(op)) if isinstance(op.shape, TupleShape) else op


def _chlo_op(scope: Scope, operation: ir.Operation, operands: list[XlaOp], target: str) -> XlaOp:
    """Record an operation of CHLO that a portable artifact has as a custom call."""
    attributes = scope.attribute(operation, _CHLO_ATTRIBUTES)
    recorder = derived_importer(target)
    if recorder is None or not recorder.accepts(attributes):
        raise failure(operation, f"there is no op for {target}")
    return recorder.call(operands, attributes)
