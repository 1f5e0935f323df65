"""Tokens, the host, and code that XLA does not know.

Operation Semantics: AfterAll, CustomCall, Infeed, Recv, Send. Those of them that have no operand
are methods of XlaBuilder, and so are the forms of others that have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from builder import shape_inference
from builder.attributes import ChannelHandle, ChannelHandleLike, ChannelType
from builder.attributes.host import (
    CustomCallApiVersion,
    CustomCallSchedule,
    OutputOperandAliasing,
    OutputOperandAliasingLike,
    ffi_dictionary,
)
from builder.check import Check, flag
from builder.errors import OperandError, ShapeInferenceError, brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op, need_ops
from builder.schema import BUILDER_H, SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import TOKEN_SHAPE, Shape, ShapeLike, TupleShape, shape_argument

if TYPE_CHECKING:
    from builder.graph.xla_builder import XlaBuilder

__all__ = [
    "after_all",
    "custom_call",
    "infeed_with_token",
    "outfeed",
    "outfeed_with_token",
    "python_call",
    "recv_from_host",
    "recv_with_token",
    "send",
    "send_to_host",
    "send_with_token",
]


_after_all_shape = per_signature(shape_inference.host.after_all.strict)


@op(SCHEMAS["after_all"])
def after_all(*operands: XlaOp | Sequence[XlaOp]) -> XlaOp:
    """One token for several: what takes it happens after all that gave them.

    Args:
        operands: at least one token; or one sequence of them. (A token after nothing is
            ``builder.create_token()``.)

    Returns:
        A token.

    Raises:
        ShapeInferenceError: an operand is no token, or there is none.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> first, second = b.create_token(), b.create_token()
        >>> xb.after_all(first, second).shape
        token[]

    Operation Semantics: AfterAll.
    """
    given: Any = operands
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        given = operands[0]
    tokens = need_ops("after_all", "operand", given)
    if not tokens:
        Check("after_all").fail(
            "at least one token is needed, got none",
            fix="a token after nothing is builder.create_token()",
        )
    return record("after_all", _after_all_shape(tuple([t.shape for t in tokens])), tokens)


# Infeed and outfeed.


def _config_argument(op: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OperandError(f"{op}: {name} must be a string, got {brief(value)}", op=op)
    return value


def _check_infeed_sharding(op: str, builder: XlaBuilder, shape: Shape) -> None:
    """Refuses the shardings that XLA has no infeed for."""
    metadata = builder.current_metadata
    if metadata is None or metadata.sharding is None:
        return
    sharding = metadata.sharding
    text = (sharding if isinstance(sharding, str) else sharding.tiling).replace(" ", "")
    if text == "{replicated}":
        Check(op).fail(
            "an infeed can't be replicated, got sharding {replicated}",
            fix="record it under builder.sharding('{maximal device=0}'), or None",
        )
    if shape.is_array and text.startswith("{devices="):
        Check(op).fail(
            f"an infeed of an array can't be tiled, got sharding {sharding} for {shape}",
            fix="record it under builder.sharding('{maximal device=0}'), or None",
        )


@per_signature
def _infeed_plan(
    op: str, token: Shape, shape: Shape, config: str
) -> tuple[TupleShape, Mapping[str, Any]]:
    if op == "infeed":
        whole = shape_inference.host.infeed.strict(shape)
    else:
        whole = shape_inference.host.infeed_with_token.strict(token, shape)
    attributes: dict[str, Any] = {"infeed_config": config}
    if whole.elements[0] is not shape:
        attributes["shape_with_layout"] = TupleShape((shape, TOKEN_SHAPE))
    return whole, MappingProxyType(attributes)


def infeed(builder: XlaBuilder, shape: ShapeLike, config: str = "") -> XlaOp:
    """What `XlaBuilder.infeed` records in the innermost builder."""
    data = shape_argument("infeed", "shape", shape)
    config = _config_argument("infeed", "config", config)
    whole, attributes = _infeed_plan("infeed", TOKEN_SHAPE, data, config)
    _check_infeed_sharding("infeed", builder, data)
    received = append(builder, "infeed", whole, (_last_token(builder, "infeed"),), attributes)
    token = append(builder, "get_tuple_element", TOKEN_SHAPE, (received,), _SECOND)
    builder.last_tokens["infeed"] = token
    return append(builder, "get_tuple_element", whole.elements[0], (received,), _FIRST)


_FIRST: Mapping[str, int] = MappingProxyType({"index": 0})
_SECOND: Mapping[str, int] = MappingProxyType({"index": 1})


def _last_token(builder: XlaBuilder, stream: str) -> XlaOp:
    """The token of the op of this kind before, which orders them; a fresh one for the first."""
    token = builder.last_tokens.get(stream)
    # What a failing op had recorded may have been taken back since.
    if token is None or token.id >= len(builder.ops) or builder.ops[token.id] is not token:
        token = append(builder, "create_token", TOKEN_SHAPE)
    return token


@op(SCHEMAS["infeed"], cpp_name="InfeedWithToken", section=f"Infeed; {BUILDER_H}")
def infeed_with_token(token: XlaOp, shape: ShapeLike, config: str = "") -> XlaOp:
    """A value read from the device's infeed, after what gave a token.

    Infeeds of a computation must be in one order: each takes, directly or through other values,
    what the one before gave. `XlaBuilder.infeed` sees to it alone.

    Args:
        token: what the infeed waits for.
        shape: the shape of the value, with the layout of the data sent to the device; tuples may
            be nested. An empty tuple is given without anything being read.
        config: a text for the device.

    Returns:
        A tuple of the value and a token.

    Raises:
        ShapeInferenceError: `token` is no token; a sharding that infeeds can't have.
        OperandError: no shape.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> value, token = xb.infeed_with_token(b.create_token(), xb.f32[2, 3])
        >>> xb.infeed_with_token(token, "(s32[], f32[4])").shape
        ((s32[], f32[4]), token[])

    Operation Semantics: Infeed (XlaBuilder's InfeedWithToken).
    """
    before = need_op("infeed_with_token", "token", token)
    data = shape_argument("infeed_with_token", "shape", shape)
    config = _config_argument("infeed_with_token", "config", config)
    whole, attributes = _infeed_plan("infeed_with_token", before.shape, data, config)
    builder = resolve_builder("infeed_with_token", before)
    _check_infeed_sharding("infeed_with_token", builder, data)
    return record("infeed", whole, (before,), attributes)


@per_signature
def _outfeed_plan(
    op: str, operand: Shape, token: Shape, shape_with_layout: Shape, config: str
) -> tuple[Shape, Mapping[str, Any]]:
    if op == "outfeed":
        shape = shape_inference.host.outfeed.strict(operand, shape_with_layout)
    else:
        shape = shape_inference.host.outfeed_with_token.strict(operand, token, shape_with_layout)
    attributes = {"outfeed_shape": shape_with_layout, "outfeed_config": config}
    return shape, MappingProxyType(attributes)


@op(SCHEMAS["outfeed"])
def outfeed(
    operand: XlaOp, shape_with_layout: ShapeLike | None = None, outfeed_config: str = ""
) -> XlaOp:
    """Writes a value to the device's outfeed, after the outfeeds recorded by this function before.

    Args:
        operand: an array or a tuple. Nothing is written for an empty tuple.
        shape_with_layout: its shape with the layout in which the host takes it; None for the
            default one.
        outfeed_config: a text for the device.

    Returns:
        A token, for what has to happen afterwards.

    Raises:
        ShapeInferenceError: another shape than the operand's.
        OperandError: no op, or no shape.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2])
        >>> xb.outfeed(x).shape
        token[]

    Operation Semantics: Infeed (XlaBuilder's Outfeed, its counterpart).
    """
    value = need_op("outfeed", "operand", operand)
    wanted = _outfeed_shape("outfeed", value, shape_with_layout)
    config = _config_argument("outfeed", "outfeed_config", outfeed_config)
    shape, attributes = _outfeed_plan("outfeed", value.shape, TOKEN_SHAPE, wanted, config)
    builder = resolve_builder("outfeed", value)
    before = _last_token(builder, "outfeed")
    token = record("outfeed", shape, (value, before), attributes)
    builder.last_tokens["outfeed"] = token
    return token


def _outfeed_shape(op: str, operand: XlaOp, given: ShapeLike | None) -> Shape:
    return operand.shape if given is None else shape_argument(op, "shape_with_layout", given)


@op(SCHEMAS["outfeed"], cpp_name="OutfeedWithToken")
def outfeed_with_token(
    operand: XlaOp,
    token: XlaOp,
    shape_with_layout: ShapeLike | None = None,
    outfeed_config: str = "",
) -> XlaOp:
    """Writes a value to the device's outfeed, after what gave a token.

    Outfeeds of a computation must be in one order, as infeeds must; `outfeed` sees to it alone.

    Args:
        operand: an array or a tuple. Nothing is written for an empty tuple.
        token: what the outfeed waits for.
        shape_with_layout: its shape with the layout in which the host takes it; None for the
            default one.
        outfeed_config: a text for the device.

    Returns:
        A token.

    Raises:
        ShapeInferenceError: another shape than the operand's, or `token` is no token.
        OperandError: no op, or no shape.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2])
        >>> xb.outfeed_with_token(x, b.create_token()).shape
        token[]

    Operation Semantics: Infeed (XlaBuilder's OutfeedWithToken, its counterpart).
    """
    value = need_op("outfeed_with_token", "operand", operand)
    before = need_op("outfeed_with_token", "token", token)
    wanted = _outfeed_shape("outfeed_with_token", value, shape_with_layout)
    config = _config_argument("outfeed_with_token", "outfeed_config", outfeed_config)
    shape, attributes = _outfeed_plan(
        "outfeed_with_token", value.shape, before.shape, wanted, config
    )
    return record("outfeed", shape, (value, before), attributes)


# Send and recv.


_numbered_channel = per_signature(ChannelHandle)


def _channel(op: str, value: Any) -> ChannelHandle:
    if type(value) is ChannelHandle:
        return value
    kind = _KINDS.get(op, ChannelType.DEVICE_TO_DEVICE)
    if type(value) is int and 0 < value < 2**63:
        return _numbered_channel(value, kind)
    channel = ChannelHandle.of(value, op=op, type=kind, name="channel_handle")
    if channel is None:
        raise ShapeInferenceError(
            f"{op}: channel_handle must be a ChannelHandle or its number, got None\n"
            f"fix: xb.ChannelHandle(1, xb.ChannelType.{kind.name}); the number is one that no "
            f"other pair of a send and a recv has",
            op=op,
        )
    return channel


_KINDS = {
    "send_to_host": ChannelType.DEVICE_TO_HOST,
    "recv_from_host": ChannelType.HOST_TO_DEVICE,
}

_Plan = tuple[Any, Mapping[str, Any]]


@per_signature
def _send_plan(
    op: str, operand: Shape, token: Shape, channel: ChannelHandle, wanted: Shape
) -> _Plan:
    """The shape and the attributes of a send."""
    if op == "send":
        shape = shape_inference.host.send.strict(operand, channel)
    elif op == "send_with_token":
        shape = shape_inference.host.send_with_token.strict(operand, token, channel)
    else:
        shape = shape_inference.host.send_to_host.strict(operand, token, wanted, channel)
    return shape, _channel_attributes(channel, wanted, shape)


@per_signature
def _recv_plan(op: str, token: Shape, data: Shape, channel: ChannelHandle) -> _Plan:
    """The shape and the attributes of a recv."""
    if op == "recv":
        whole = shape_inference.host.recv.strict(data, channel)
    elif op == "recv_with_token":
        whole = shape_inference.host.recv_with_token.strict(token, data, channel)
    else:
        whole = shape_inference.host.recv_from_host.strict(token, data, channel)
    return whole, _channel_attributes(channel, data, whole)


def _channel_attributes(channel: ChannelHandle, data: Shape, op_shape: Shape) -> Mapping[str, Any]:
    """The attributes of a transfer of data of this shape, with its layout."""
    attributes: dict[str, Any] = {
        "channel_handle": channel,
        "is_host_transfer": channel.type is not ChannelType.DEVICE_TO_DEVICE,
        "data_shape": data,
    }
    if isinstance(op_shape, TupleShape) and op_shape.elements[0] is not data:
        attributes["shape_with_layout"] = TupleShape((data, TOKEN_SHAPE))
    return MappingProxyType(attributes)


@op(SCHEMAS["send"])
def send(operand: XlaOp, channel_handle: ChannelHandleLike) -> XlaOp:
    """Sends an array to the recv of the same channel in another computation.

    Args:
        operand: an array.
        channel_handle: a device-to-device channel, or its number: one that no other pair of a send
            and a recv has.

    Returns:
        No data, but a token, for what has to happen afterwards.

    Raises:
        ShapeInferenceError: the operand is no array; a channel of another kind.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2])
        >>> xb.send(x, 1).shape
        token[]

    Operation Semantics: Send.
    """
    value = need_op("send", "operand", operand)
    channel = _channel("send", channel_handle)
    shape, attributes = _send_plan("send", value.shape, TOKEN_SHAPE, channel, value.shape)
    before = append(resolve_builder("send", value), "create_token", TOKEN_SHAPE)
    return record("send", shape, (value, before), attributes)


@op(SCHEMAS["send"], cpp_name="SendWithToken", section=BUILDER_H)
def send_with_token(operand: XlaOp, token: XlaOp, channel_handle: ChannelHandleLike) -> XlaOp:
    """Sends an array to the recv of the same channel, after what gave a token.

    Args:
        operand: an array.
        token: what the send waits for.
        channel_handle: a device-to-device channel, or its number.

    Returns:
        A token.

    Raises:
        ShapeInferenceError: the operand is no array, `token` no token; a channel of another kind.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> xb.send_with_token(b.parameter(xb.f32[2]), b.create_token(), 1).shape
        token[]

    Operation Semantics: Send (XlaBuilder's SendWithToken).
    """
    value = need_op("send_with_token", "operand", operand)
    before = need_op("send_with_token", "token", token)
    channel = _channel("send_with_token", channel_handle)
    shape, attributes = _send_plan(
        "send_with_token", value.shape, before.shape, channel, value.shape
    )
    return record("send", shape, (value, before), attributes)


@op(SCHEMAS["send"], cpp_name="SendToHost", section=BUILDER_H)
def send_to_host(
    operand: XlaOp,
    token: XlaOp,
    shape_with_layout: ShapeLike,
    channel_handle: ChannelHandleLike,
) -> XlaOp:
    """Sends an array to the host, after what gave a token.

    Args:
        operand: an array.
        token: what the send waits for.
        shape_with_layout: its shape with the layout in which the host takes it.
        channel_handle: a device-to-host channel, or its number.

    Returns:
        A token.

    Raises:
        ShapeInferenceError: the operand is no array, or of another shape; `token` is no token; a
            channel of another kind.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2])
        >>> xb.send_to_host(x, b.create_token(), xb.f32[2], 1).shape
        token[]

    Operation Semantics: Send (XlaBuilder's SendToHost).
    """
    value = need_op("send_to_host", "operand", operand)
    before = need_op("send_to_host", "token", token)
    channel = _channel("send_to_host", channel_handle)
    wanted = shape_argument("send_to_host", "shape_with_layout", shape_with_layout)
    shape, attributes = _send_plan("send_to_host", value.shape, before.shape, channel, wanted)
    return record("send", shape, (value, before), attributes)


def recv(builder: XlaBuilder, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
    """What `XlaBuilder.recv` records in the innermost builder."""
    data = shape_argument("recv", "shape", shape)
    channel = _channel("recv", channel_handle)
    whole, attributes = _recv_plan("recv", TOKEN_SHAPE, data, channel)
    before = append(builder, "create_token", TOKEN_SHAPE)
    received = append(builder, "recv", whole, (before,), attributes)
    return append(builder, "get_tuple_element", whole.elements[0], (received,), _FIRST)


@op(SCHEMAS["recv"], cpp_name="RecvWithToken", section=BUILDER_H)
def recv_with_token(token: XlaOp, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
    """Receives what the send of the same channel sends, after what gave a token.

    Args:
        token: what the recv waits for.
        shape: the shape of the array.
        channel_handle: a device-to-device channel, or its number.

    Returns:
        A tuple of the array and a token.

    Raises:
        ShapeInferenceError: the shape is no array's; `token` is no token; a channel of another
            kind.

    Example:
        >>> import builder as xb
        >>> xb.recv_with_token(xb.XlaBuilder().create_token(), xb.f32[2], 1).shape
        (f32[2], token[])

    Operation Semantics: Recv (XlaBuilder's RecvWithToken).
    """
    before = need_op("recv_with_token", "token", token)
    data = shape_argument("recv_with_token", "shape", shape)
    channel = _channel("recv_with_token", channel_handle)
    whole, attributes = _recv_plan("recv_with_token", before.shape, data, channel)
    return record("recv", whole, (before,), attributes)


@op(SCHEMAS["recv"], cpp_name="RecvFromHost", section=BUILDER_H)
def recv_from_host(token: XlaOp, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
    """Receives an array from the host, after what gave a token.

    Args:
        token: what the recv waits for.
        shape: the shape of the array, with the layout of the host's data.
        channel_handle: a host-to-device channel, or its number.

    Returns:
        A tuple of the array and a token.

    Raises:
        ShapeInferenceError: the shape is no array's; `token` is no token; a channel of another
            kind.

    Example:
        >>> import builder as xb
        >>> xb.recv_from_host(xb.XlaBuilder().create_token(), xb.f32[2], 1).shape
        (f32[2], token[])

    Operation Semantics: Recv (XlaBuilder's RecvFromHost).
    """
    before = need_op("recv_from_host", "token", token)
    data = shape_argument("recv_from_host", "shape", shape)
    channel = _channel("recv_from_host", channel_handle)
    whole, attributes = _recv_plan("recv_from_host", before.shape, data, channel)
    return record("recv", whole, (before,), attributes)


# Custom calls.


@op(SCHEMAS["custom_call"])
def custom_call(
    target_name: str,
    operands: XlaOp | Sequence[XlaOp],
    shape: ShapeLike,
    *,
    opaque: str = "",
    has_side_effect: bool = False,
    api_version: CustomCallApiVersion | str | int | None = None,
    attributes: Mapping[str, Any] | None = None,
    operand_shapes_with_layout: Sequence[ShapeLike] | None = None,
    computation: XlaComputation | None = None,
    output_operand_aliasing: Sequence[OutputOperandAliasingLike] = (),
    schedule: CustomCallSchedule | str | int = CustomCallSchedule.SCHEDULE_NONE,
) -> XlaOp:
    """The result of a function that XLA does not know, and that a platform has registered by name.

    Unless `has_side_effect` is said, the function must have no side effects, and give the same
    whenever it is called with the same: XLA may call it twice, or not at all.

    `lowering.register_custom_call_target` registers C functions, ``jax.ffi.register_ffi_target``
    handlers of XLA's FFI. For a Python function there is `python_call`. Without operands it is
    ``builder.custom_call(target_name, shape, ...)``.

    Args:
        target_name: the name that the function is registered by; it must not begin with "$".
        operands: any number of arrays, tokens and tuples, which are passed to the function.
        shape: the shape of the result. For several results it is a tuple.
        opaque: a text for the function; for a typed FFI call the text of an MLIR dictionary.
        has_side_effect: whether the function does more than computing its result.
        api_version: how the function is called; see CustomCallApiVersion. Typed FFI if there are
            `attributes`, else the document's form.
        attributes: for a typed FFI call, in place of `opaque`: names and values. Bools, ints
            (int64_t), floats (double), strings, NumPy scalars of other types, lists of numbers
            and arrays of rank 1, and mappings of these.
        operand_shapes_with_layout: the operands' shapes with the layouts in which the function
            wants them; `shape` then says the layout of the result. Row-major where none is said.
        computation: a computation for the compiler, which few targets want.
        output_operand_aliasing: which parts of the result lie in the memory of which operands:
            OutputOperandAliasing, or pairs ``(output_index, (operand_number, operand_index))``.
        schedule: a hint for compilers that order instructions; it is not said in StableHLO.

    Returns:
        A value of that shape.

    Raises:
        ShapeInferenceError: a name that begins with "$"; another number of shapes than of
            operands; an alias of unequal shapes; no such version or schedule; an attribute that
            the FFI can't pass; attributes for a call that is not typed.
        OperandError: an argument is of another type.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[2]), b.parameter(xb.f32[2, 3])
        >>> xb.custom_call("myfunc", [x, y], xb.f32[3, 3]).shape
        f32[3,3]
        >>> xb.custom_call("scale", x, xb.f32[2], attributes={"factor": 2.0}).shape
        f32[2]

    Operation Semantics: CustomCall.
    """
    arguments = need_ops("custom_call", "operand", operands)
    if not arguments:
        raise OperandError(
            "custom_call: at least one operand is needed to know the builder, got none\n"
            "fix: without operands it is builder.custom_call(target_name, shape)",
            op="custom_call",
        )
    shapes = tuple([a.shape for a in arguments])
    inferred, recorded = custom_call_plan(
        target_name,
        shapes,
        shape,
        opaque=opaque,
        has_side_effect=has_side_effect,
        api_version=api_version,
        attributes=attributes,
        operand_shapes_with_layout=operand_shapes_with_layout,
        computation=computation,
        output_operand_aliasing=output_operand_aliasing,
        schedule=schedule,
    )
    return record("custom_call", inferred, arguments, recorded)


def custom_call_arguments(
    target_name: Any, shape: Any, more: dict[str, Any]
) -> tuple[Shape, Mapping[str, Any]]:
    """The same for a call without operands, whose further arguments come as they are."""
    for name in more:
        if name not in _CUSTOM_CALL_NAMES:
            raise OperandError(
                f"custom_call: there is no argument {name!r}\n"
                f"fix: the names are {', '.join(_CUSTOM_CALL_NAMES)}",
                op="custom_call",
            )
    return custom_call_plan(target_name, (), shape, **more)


def custom_call_plan(
    target_name: Any,
    operands: tuple[Shape, ...],
    shape: Any,
    *,
    opaque: Any = "",
    has_side_effect: Any = False,
    api_version: Any = None,
    attributes: Any = None,
    operand_shapes_with_layout: Any = None,
    computation: Any = None,
    output_operand_aliasing: Any = (),
    schedule: Any = CustomCallSchedule.SCHEDULE_NONE,
) -> tuple[Shape, Mapping[str, Any]]:
    """The shape and the attributes of a custom call with operands of these shapes."""
    op = "custom_call"
    _config_argument(op, "target_name", target_name)
    _config_argument(op, "opaque", opaque)
    side_effect = flag(op, "has_side_effect", has_side_effect)
    if computation is not None and not isinstance(computation, XlaComputation):
        raise OperandError(
            f"{op}: computation must be an XlaComputation, got {brief(computation)}", op=op
        )
    typed = CustomCallApiVersion.API_VERSION_TYPED_FFI
    if api_version is None:
        original = CustomCallApiVersion.API_VERSION_ORIGINAL
        version = original if attributes is None else typed
    else:
        version = CustomCallApiVersion.of(api_version, op=op)
    dictionary = None
    if attributes is not None:
        if version is not typed:
            Check(op).fail(
                f"attributes are for API_VERSION_TYPED_FFI, got {version.name}",
                fix="give a text as opaque",
            )
        if opaque:
            Check(op).fail(
                f"opaque and attributes can't both be given, got opaque={brief(opaque)}",
                fix="give it among the attributes",
            )
        dictionary = ffi_dictionary(op, attributes)
    layouts = None
    if operand_shapes_with_layout is not None:
        if isinstance(operand_shapes_with_layout, str) or not isinstance(
            operand_shapes_with_layout, Sequence
        ):
            raise OperandError(
                f"{op}: operand_shapes_with_layout must be a sequence of shapes, "
                f"got {brief(operand_shapes_with_layout)}",
                op=op,
            )
        layouts = tuple(
            shape_argument(op, "operand_shapes_with_layout", s) for s in operand_shapes_with_layout
        )
    return _custom_call_plan(
        target_name,
        operands,
        shape_argument(op, "shape", shape),
        opaque if dictionary is None else dictionary,
        side_effect,
        version,
        layouts,
        computation,
        OutputOperandAliasing.all_of(output_operand_aliasing, op=op),
        CustomCallSchedule.of(schedule, op=op),
    )


_CUSTOM_CALL_NAMES = tuple(custom_call_plan.__kwdefaults__ or ())


@per_signature
def _custom_call_plan(
    target_name: str,
    operands: tuple[Shape, ...],
    shape: Shape,
    opaque: str,
    has_side_effect: bool,
    api_version: CustomCallApiVersion,
    operand_shapes_with_layout: tuple[Shape, ...] | None,
    computation: XlaComputation | None,
    output_operand_aliasing: tuple[OutputOperandAliasing, ...],
    schedule: CustomCallSchedule,
) -> tuple[Shape, Mapping[str, Any]]:
    inferred = shape_inference.host.custom_call.strict(
        target_name, operands, shape, operand_shapes_with_layout, output_operand_aliasing
    )
    attributes: dict[str, Any] = {
        "call_target_name": target_name,
        "opaque": opaque,
        "has_side_effect": has_side_effect,
        "api_version": api_version,
        "operand_shapes_with_layout": operand_shapes_with_layout,
        "output_operand_aliasing": output_operand_aliasing,
        "schedule": schedule,
    }
    if inferred is not shape:
        attributes["shape_with_layout"] = shape
    if computation is not None:
        attributes["to_apply"] = computation
    return inferred, MappingProxyType(attributes)


_python_call_shape = per_signature(shape_inference.host.python_call.strict)


@op(SCHEMAS["python_call"])
def python_call(
    function: Callable[..., Any],
    operands: XlaOp | Sequence[XlaOp],
    shape: ShapeLike,
    *,
    has_side_effect: bool = False,
) -> XlaOp:
    """The result of a Python function, called with NumPy arrays whenever the op is executed.

    Unless `has_side_effect` is said, the function must have no side effects, and give the same
    whenever it is called with the same: XLA may call it twice, or not at all. It may be called
    from any thread. What it raises ends the run with a lowering.ExecutionError. Where a program
    runs on several devices it should give its result within half a minute: XLA ends a process
    whose devices wait for each other for longer.

    The function belongs to this process: the module can't be saved to a file. Without operands it
    is ``builder.python_call(function, shape, ...)``.

    Args:
        function: takes one argument for each operand: a NumPy array, None for a token, a
            Python tuple for a tuple. It gives the result in the same way.
        operands: any number of arrays, tokens and tuples.
        shape: the shape of the result; a sequence of shapes for a tuple.
        has_side_effect: whether the function does more than computing its result.

    Returns:
        A value of that shape.

    Raises:
        OperandError: no callable, no op, or no shape.
        ShapeInferenceError: an operand or the result has a dynamic size.

    Example:
        >>> import builder as xb, numpy as np
        >>> x = xb.XlaBuilder().parameter(xb.f32[8])
        >>> xb.python_call(np.sort, x, xb.f32[8]).shape
        f32[8]

    Operation Semantics: CustomCall (a Python function in place of a C function).
    """
    arguments = need_ops("python_call", "operand", operands)
    if not arguments:
        raise OperandError(
            "python_call: at least one operand is needed to know the builder, got none\n"
            "fix: without operands it is builder.python_call(function, shape)",
            op="python_call",
        )
    inferred, attributes = python_call_plan(function, arguments, shape, has_side_effect)
    return record("python_call", inferred, arguments, attributes)


def python_call_plan(
    function: Any, operands: Sequence[XlaOp], shape: Any, has_side_effect: Any
) -> tuple[Shape, Mapping[str, Any]]:
    """The shape and the attributes of a call of a Python function."""
    if not callable(function) or isinstance(function, (XlaOp, XlaComputation)):
        fix = ""
        if isinstance(function, XlaComputation):
            fix = "\nfix: a computation is called with xb.call(computation, *operands)"
        raise OperandError(
            f"python_call: function must be a Python callable, got {brief(function)}{fix}",
            op="python_call",
        )
    side_effect = flag("python_call", "has_side_effect", has_side_effect)
    result = shape_argument("python_call", "shape", shape)
    inferred = _python_call_shape(tuple([o.shape for o in operands]), result)
    attributes = {
        "function": function,
        "name": str(getattr(function, "__qualname__", type(function).__name__)),
        "has_side_effect": side_effect,
    }
    return inferred, MappingProxyType(attributes)
