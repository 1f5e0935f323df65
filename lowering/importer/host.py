"""Tokens, the host, and code that XLA does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import builder as xb
from builder.attributes import ChannelHandle, ChannelType
from builder.attributes.host import CustomCallApiVersion, OutputOperandAliasing
from builder.graph.xla_op import XlaOp
from builder.types.layout import Layout
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.host.callbacks import PYTHON_CALL
from lowering.importer.by_schema import derived_importer
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope, closed, opened


@importer("stablehlo.after_all", "stablehlo.create_token")
def after_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.after_all(operands) if operands else scope.builder.create_token()


# Tuples, which StableHLO has left of HLO.


@importer("stablehlo.tuple")
def tuple_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.tuple(*operands) if operands else scope.builder.empty_tuple()


# Infeed and outfeed, send and recv.


def _in_order(shape: Shape, order: Sequence[int]) -> Shape:
    """The shape with its dimensions in this order in memory, minor to major."""
    if not isinstance(shape, ArrayShape) or list(order) == list(range(shape.rank))[::-1]:
        return shape
    return shape.with_layout(Layout(tuple(order)))


def _together(shapes: list[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def _with_token(scope: Scope, operation: ir.Operation, found: XlaOp) -> Imported:
    """The results of an operation that gives data and a token."""
    assert isinstance(found.shape, TupleShape)  # inference has said so
    *used, of_token = [next(iter(one.uses), None) is not None for one in operation.results]
    values: list[XlaOp | None] = [None] * len(used)
    if True in used:
        data = found[0]
        whole = len(used) == 1
        values = [
            (data if whole else data[number]) if one else None for number, one in enumerate(used)
        ]
    return [*values, found[1] if of_token else None]


@importer("stablehlo.infeed")
def infeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    data: list[Shape] = [
        scope.result_shape(operation, number) for number in range(len(operation.results) - 1)
    ]
    orders = scope.attribute(operation, "layout")
    if orders is not None:
        data = [_in_order(*pair) for pair in zip(data, orders, strict=True)]
    config = scope.attribute(operation, "infeed_config", "")
    found = xb.infeed_with_token(operands[0], _together(data), config)
    return _with_token(scope, operation, found)


@importer("stablehlo.outfeed")
def outfeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    *values, token = operands
    config = scope.attribute(operation, "outfeed_config", "")
    return xb.outfeed_with_token(_value(scope, values), token, outfeed_config=config)


def _value(scope: Scope, values: list[XlaOp]) -> XlaOp:
    if len(values) == 1:
        return values[0]
    return xb.tuple(*values) if values else scope.builder.empty_tuple()


def _channel(scope: Scope, operation: ir.Operation) -> tuple[ChannelHandle, bool]:
    """The channel of a transfer, and whether it goes to or from the host."""
    if scope.attribute(operation, "source_target_pairs") is not None:
        raise failure(operation, "it names the devices it is between, which XLA's can't")
    said = stablehlo.ChannelHandle(operation.attributes["channel_handle"])
    is_host = bool(scope.attribute(operation, "is_host_transfer", False))
    to_host = ChannelType.DEVICE_TO_HOST
    if operation.name == "stablehlo.recv":
        to_host = ChannelType.HOST_TO_DEVICE
    return ChannelHandle(said.handle, to_host if is_host else ChannelType.DEVICE_TO_DEVICE), is_host


@importer("stablehlo.send")
def send(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operands) != 2:
        raise failure(operation, f"it sends one array, got {len(operands) - 1}")
    value, token = operands
    channel, is_host = _channel(scope, operation)
    if is_host:
        return xb.send_to_host(value, token, value.shape, channel)
    return xb.send_with_token(value, token, channel)


@importer("stablehlo.recv")
def recv(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    if len(operation.results) != 2:
        raise failure(operation, f"it receives one array, got {len(operation.results) - 1}")
    channel, is_host = _channel(scope, operation)
    receive = xb.recv_from_host if is_host else xb.recv_with_token
    return receive(operands[0], scope.result_shape(operation), channel)


# Custom calls.

_ENCODED: Final = "mhlo.attributes"
"""What a custom call carries that stands for an operation of CHLO, whose name it calls."""


@importer("stablehlo.custom_call")
def custom_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    target = scope.attribute(operation, "call_target_name")
    if target == PYTHON_CALL:
        return _python_call(scope, operation, operands)
    if _ENCODED in operation.attributes:
        return _encoded(scope, operation, operands, target)
    shapes = [scope.tables.shape(result.type) for result in operation.results]
    shape = _together(shapes)
    opaque, version = _said(scope, operation)
    more = {
        "opaque": opaque,
        "has_side_effect": scope.attribute(operation, "has_side_effect", False),
        "api_version": version,
        "computation": _called(scope, operation),
        "output_operand_aliasing": _aliases(operation),
    }
    orders = scope.attribute(operation, "operand_layouts")
    if orders is not None:
        pairs = zip([op.shape for op in operands], orders, strict=True)
        more["operand_shapes_with_layout"] = [_in_order(*pair) for pair in pairs]
        shape = _laid_out(shape, scope.attribute(operation, "result_layouts"))
    if operands:
        return xb.custom_call(target, operands, shape, **more)
    return scope.builder.custom_call(target, shape, **more)


def _said(scope: Scope, operation: ir.Operation) -> tuple[str, int]:
    """What is said to the function, and the number of the API version, which is XLA's.

    To a typed FFI call it is the text of a dictionary. JAX gives the dictionary another name, and
    leaves the version out; XLA's own importer takes that so, too.
    """
    attributes = operation.attributes
    if "mhlo.backend_config" in attributes:
        said = attributes["mhlo.backend_config"]
        if isinstance(said, ir.DictAttr):
            return str(said), CustomCallApiVersion.API_VERSION_TYPED_FFI
    version = scope.attribute(operation, "api_version", CustomCallApiVersion.API_VERSION_ORIGINAL)
    if "backend_config" not in attributes:
        return "", version
    said = attributes["backend_config"]
    if isinstance(said, ir.DictAttr):
        return str(said), version
    return scope.attribute(operation, "backend_config"), version


def _called(scope: Scope, operation: ir.Operation) -> Any:
    names = scope.attribute(operation, "called_computations") or ()
    if len(names) > 1:
        raise failure(operation, f"it names {len(names)} computations, and XLA's one")
    return scope.functions[names[0]] if names else None


def _aliases(operation: ir.Operation) -> tuple[OutputOperandAliasing, ...]:
    name = "output_operand_aliases"
    if name not in operation.attributes:
        return ()
    listed: Any = operation.attributes[name]
    said = map(stablehlo.OutputOperandAlias, listed)
    return tuple(
        OutputOperandAliasing(
            tuple(one.output_tuple_indices), one.operand_index, tuple(one.operand_tuple_indices)
        )
        for one in said
    )


def _laid_out(shape: Shape, orders: Sequence[Sequence[int]]) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape([_in_order(*pair) for pair in zip(shape.elements, orders, strict=True)])
    return _in_order(shape, orders[0])


def _python_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """The call of a Python function, which the module, if it is not out of a file, holds."""
    said = scope.attribute(operation, "backend_config")
    known = scope.tables.python_functions
    if said.get("index", len(known)) >= len(known):  # HLO text has none
        raise failure(
            operation, f"it calls the Python function {said['name']}, which is not in files"
        )
    record = known[said["index"]]
    leaves = iter(operands)
    arguments = [closed(scope.builder, shape, leaves) for shape in record.operands]
    more = {"has_side_effect": scope.attribute(operation, "has_side_effect", False)}
    if arguments:
        found = xb.python_call(record.function, arguments, record.result, **more)
    else:
        found = scope.builder.python_call(record.function, record.result, **more)
    return list(opened(found)) if isinstance(found.shape, TupleShape) else found


def _encoded(scope: Scope, operation: ir.Operation, operands: list[XlaOp], target: str) -> Imported:
    """An operation of CHLO, as portable artifacts of some programs have them."""
    name = "chlo.top_k" if target == "mhlo.topk" else target.replace("mhlo.", "chlo.", 1)
    said = scope.attribute(operation, _ENCODED)
    recorder = derived_importer(name)
    if recorder is None or not recorder.accepts(said):
        raise failure(operation, f"it stands for {target}, which there is no op for")
    return recorder.call(operands, said)
