"""Tokens, transfers between host and device, and custom calls.

Ops without operands, and calls without operands, are methods of XlaBuilder.

Operation Semantics: AfterAll, CustomCall, Infeed, Recv, Send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from builder.attributes import ChannelHandle, ChannelHandleLike, ChannelType
from builder.attributes.host import (
    CustomCallApiVersion,
    CustomCallApiVersionLike,
    CustomCallSchedule,
    CustomCallScheduleLike,
    OutputOperandAliasing,
    OutputOperandAliasingLike,
    ffi_dictionary,
)
from builder.check import Check, flag
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import record_tuple_element
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op, need_ops
from builder.ops.rules import host as infer
from builder.schema import BUILDER_H, SCHEMAS
from builder.support.functions import NotAFunction
from builder.support.signatures import per_signature
from builder.types.shape import TOKEN_SHAPE, Shape, ShapeLike, TupleShape, shape_argument

if TYPE_CHECKING:
    from builder.graph.xla_builder import XlaBuilder


@op_by_hand(SCHEMAS["after_all"])
def after_all(*operands: XlaOp | Sequence[XlaOp]) -> XlaOp:
    """Combine several tokens into one that is ordered after all of them.

    Args:
        operands: at least one token; or one sequence of them. (Without operands, use
            ``builder.create_token()``.)

    Returns:
        A token.

    Raises:
        ShapeInferenceError: an operand is not a token, or there are no operands.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> first, second = b.create_token(), b.create_token()
        >>> xb.after_all(first, second).shape
        token[]

    Operation Semantics: AfterAll.
    """
    values: Any = operands
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        values = operands[0]
    tokens = need_ops("after_all", "operand", values)
    if not tokens:
        Check("after_all").fail(
            "at least one token is needed, got none",
            fix="record a token without operands with builder.create_token()",
        )
    return record("after_all", infer.after_all.strict([t.shape for t in tokens]), tokens)


# Infeed and outfeed.


def _text_argument(op: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OperandError(f"{name} must be a string, got {brief(value)}", op=op)
    return value


def _bytes_argument(op: str, name: str, value: Any) -> str:
    """Return a string or bytes argument as text; see `builder.schema.kinds.Bytes`."""
    if isinstance(value, str):
        try:
            value = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            rule = f"{name} must be a string that UTF-8 can encode, or bytes, got {brief(value)}"
            raise error_of(OperandError, op, rule, "pass the bytes") from None
    if not isinstance(value, (bytes, bytearray)):
        rule = f"{name} must be a string or bytes, got {brief(value)}"
        raise error_of(OperandError, op, rule)
    return value.decode("utf-8", "surrogateescape")


def _receive_attributes(data: Shape, result: TupleShape, **attributes: Any) -> Mapping[str, Any]:
    """Return the attributes of an op that receives a value of shape `data`.

    They include `shape_with_layout` if `data` has a layout.
    """
    if result.elements[0] is not data:
        attributes["shape_with_layout"] = TupleShape((data, TOKEN_SHAPE))
    return shared_attributes(**attributes)


def _check_infeed_sharding(op: str, builder: XlaBuilder, shape: Shape) -> None:
    """Refuse the shardings that XLA does not support for infeeds."""
    metadata = builder.current_metadata
    if metadata is None or metadata.sharding is None:
        return
    from builder.sharding.tiling import Tiling, parse_tilings  # lazy import

    sharding = metadata.sharding
    tiling = parse_tilings(sharding if isinstance(sharding, str) else sharding.tiling)
    kind = tiling.kind if isinstance(tiling, Tiling) else None
    rule = None
    if kind == "replicated":
        rule = "an infeed must not be replicated, got sharding {replicated}"
    elif shape.is_array and kind == "tiled":
        rule = f"an infeed of an array must not be tiled, got sharding {sharding} for {shape}"
    if rule is not None:
        fix = "record the infeed in a block of builder.sharding('{maximal device=0}')"
        Check(op).fail(rule, fix=fix)


def infeed(builder: XlaBuilder, shape: ShapeLike, config: str | bytes = "") -> XlaOp:
    """Record an infeed in `builder`; implements `XlaBuilder.infeed`."""
    data = shape_argument("infeed", "shape", shape)
    config = _bytes_argument("infeed", "config", config)
    result = infer.infeed.strict(data)
    attributes = _receive_attributes(data, result, infeed_config=config)
    _check_infeed_sharding("infeed", builder, data)
    received = append(builder, "infeed", result, (_last_token(builder, "infeed"),), attributes)
    builder.last_tokens["infeed"] = record_tuple_element(received, 1)
    return record_tuple_element(received, 0)


def _last_token(builder: XlaBuilder, stream: str) -> XlaOp:
    """Return the token of the last infeed or outfeed (`stream`); a new token before the first."""
    token = builder.last_tokens.get(stream)
    # The op may have been removed since, when a failing op was rolled back.
    if token is None or token.id >= len(builder.ops) or builder.ops[token.id] is not token:
        token = append(builder, "create_token", TOKEN_SHAPE)
    return token


@op_by_hand(SCHEMAS["infeed"], cpp_name="InfeedWithToken", section=f"Infeed; {BUILDER_H}")
def infeed_with_token(token: XlaOp, shape: ShapeLike, config: str | bytes = "") -> XlaOp:
    """Read a value from the device's infeed, ordered after a token.

    Infeeds of a computation must be totally ordered: the token of an infeed must depend, directly
    or through other values, on the token of the previous infeed. `XlaBuilder.infeed` orders infeeds
    automatically.

    Args:
        token: the token that the infeed waits for.
        shape: the shape of the value, with the layout of the data sent to the device; tuples may be
            nested. For an empty tuple nothing is read.
        config: a backend-specific string or bytes.

    Returns:
        A tuple of the value and a token.

    Raises:
        ShapeInferenceError: `token` is not a token; the sharding is not supported for infeeds.
        OperandError: `shape` is not a shape.

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
    config = _bytes_argument("infeed_with_token", "config", config)
    result = infer.infeed_with_token.strict(before.shape, data)
    _check_infeed_sharding("infeed_with_token", resolve_builder("infeed_with_token", before), data)
    attributes = _receive_attributes(data, result, infeed_config=config)
    return record("infeed", result, (before,), attributes)


@op_by_hand(SCHEMAS["outfeed"])
def outfeed(
    operand: XlaOp, shape_with_layout: ShapeLike | None = None, outfeed_config: str | bytes = ""
) -> XlaOp:
    """Write a value to the device's outfeed, after the outfeeds that this function recorded before.

    Args:
        operand: an array or a tuple. Nothing is written for an empty tuple.
        shape_with_layout: the operand's shape with the layout in which the host receives it; None
            for the default layout.
        outfeed_config: a backend-specific string or bytes.

    Returns:
        A token, to order later ops.

    Raises:
        ShapeInferenceError: the shape differs from the operand's.
        OperandError: the operand is not an op, or `shape_with_layout` not a shape.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2])
        >>> xb.outfeed(x).shape
        token[]

    Not in Operation Semantics; XlaBuilder's Outfeed.
    """
    value = need_op("outfeed", "operand", operand)
    attributes = _outfeed_attributes("outfeed", value, shape_with_layout, outfeed_config)
    shape = infer.outfeed.strict(value.shape, attributes["outfeed_shape"])
    builder = resolve_builder("outfeed", value)
    token = record("outfeed", shape, (value, _last_token(builder, "outfeed")), attributes)
    builder.last_tokens["outfeed"] = token
    return token


def _outfeed_attributes(
    op: str, operand: XlaOp, shape_with_layout: ShapeLike | None, config: str | bytes
) -> Mapping[str, Any]:
    shape = operand.shape
    if shape_with_layout is not None:
        shape = shape_argument(op, "shape_with_layout", shape_with_layout)
    config = _bytes_argument(op, "outfeed_config", config)
    return shared_attributes(outfeed_shape=shape, outfeed_config=config)


@op_by_hand(SCHEMAS["outfeed"], cpp_name="OutfeedWithToken")
def outfeed_with_token(
    operand: XlaOp,
    token: XlaOp,
    shape_with_layout: ShapeLike | None = None,
    outfeed_config: str | bytes = "",
) -> XlaOp:
    """Write a value to the device's outfeed, ordered after a token.

    Outfeeds of a computation must be totally ordered by their tokens; `outfeed` orders them
    automatically.

    Args:
        operand: an array or a tuple. Nothing is written for an empty tuple.
        token: the token that the outfeed waits for.
        shape_with_layout, outfeed_config: see `outfeed`.

    Returns:
        A token.

    Raises:
        ShapeInferenceError: the shape differs from the operand's; `token` is not a token.
        OperandError: see `outfeed`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2])
        >>> xb.outfeed_with_token(x, b.create_token()).shape
        token[]

    Not in Operation Semantics; XlaBuilder's OutfeedWithToken.
    """
    value = need_op("outfeed_with_token", "operand", operand)
    before = need_op("outfeed_with_token", "token", token)
    attributes = _outfeed_attributes("outfeed_with_token", value, shape_with_layout, outfeed_config)
    data = attributes["outfeed_shape"]
    shape = infer.outfeed_with_token.strict(value.shape, before.shape, data)
    return record("outfeed", shape, (value, before), attributes)


# Send and recv.


_CHANNEL_TYPES = {
    "send_to_host": ChannelType.DEVICE_TO_HOST,
    "recv_from_host": ChannelType.HOST_TO_DEVICE,
}


def _channel(op: str, value: Any) -> ChannelHandle:
    channel_type = _CHANNEL_TYPES.get(op, ChannelType.DEVICE_TO_DEVICE)
    channel = ChannelHandle.of(value, op=op, type=channel_type, name="channel_handle")
    if channel is None:
        raise ShapeInferenceError(
            "channel_handle must be a ChannelHandle or its number, got None",
            fix=f"pass xb.ChannelHandle(1, xb.ChannelType.{channel_type.name}), with a number "
            "that no other pair of a send and a recv uses",
            op=op,
        )
    return channel


def _channel_attributes(channel: ChannelHandle, data: Shape) -> Mapping[str, Any]:
    """Return the attributes of a send or recv of an array; `data` is its shape with its layout."""
    return shared_attributes(
        channel_handle=channel,
        is_host_transfer=channel.type is not ChannelType.DEVICE_TO_DEVICE,
        data_shape=data,
    )


@op_by_hand(SCHEMAS["send"])
def send(operand: XlaOp, channel_handle: ChannelHandleLike) -> XlaOp:
    """Send an array to the recv of the same channel in another computation.

    Args:
        operand: an array.
        channel_handle: a device-to-device channel, or its number. No other pair of a send and a
            recv may use this number.

    Returns:
        A token, to order later ops.

    Raises:
        ShapeInferenceError: the operand is not an array; the channel is not device-to-device.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[2])
        >>> xb.send(x, 1).shape
        token[]

    Operation Semantics: Send.
    """
    value = need_op("send", "operand", operand)
    channel = _channel("send", channel_handle)
    shape = infer.send.strict(value.shape, channel)
    before = append(resolve_builder("send", value), "create_token", TOKEN_SHAPE)
    return record("send", shape, (value, before), _channel_attributes(channel, value.shape))


@op_by_hand(SCHEMAS["send"], cpp_name="SendWithToken", section=BUILDER_H)
def send_with_token(operand: XlaOp, token: XlaOp, channel_handle: ChannelHandleLike) -> XlaOp:
    """Send an array to the recv of the same channel, ordered after a token.

    Args:
        operand: an array.
        token: the token that the send waits for.
        channel_handle: a device-to-device channel, or its number.

    Returns:
        A token.

    Raises:
        ShapeInferenceError: the operand is not an array; `token` is not a token; the channel is
            not device-to-device.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> xb.send_with_token(b.parameter(xb.f32[2]), b.create_token(), 1).shape
        token[]

    Not in Operation Semantics; XlaBuilder's SendWithToken.
    """
    value = need_op("send_with_token", "operand", operand)
    before = need_op("send_with_token", "token", token)
    channel = _channel("send_with_token", channel_handle)
    shape = infer.send_with_token.strict(value.shape, before.shape, channel)
    return record("send", shape, (value, before), _channel_attributes(channel, value.shape))


@op_by_hand(SCHEMAS["send"], cpp_name="SendToHost", section=BUILDER_H)
def send_to_host(
    operand: XlaOp, token: XlaOp, shape_with_layout: ShapeLike, channel_handle: ChannelHandleLike
) -> XlaOp:
    """Send an array to the host, ordered after a token.

    Args:
        operand: an array.
        token: the token that the send waits for.
        shape_with_layout: the operand's shape with the layout in which the host receives it.
        channel_handle: a device-to-host channel, or its number.

    Returns:
        A token.

    Raises:
        ShapeInferenceError: the operand is not an array; `shape_with_layout` is not its shape;
            `token` is not a token; the channel is not device-to-host.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2])
        >>> xb.send_to_host(x, b.create_token(), xb.f32[2], 1).shape
        token[]

    Not in Operation Semantics; XlaBuilder's SendToHost.
    """
    value = need_op("send_to_host", "operand", operand)
    before = need_op("send_to_host", "token", token)
    channel = _channel("send_to_host", channel_handle)
    data = shape_argument("send_to_host", "shape_with_layout", shape_with_layout)
    shape = infer.send_to_host.strict(value.shape, before.shape, data, channel)
    return record("send", shape, (value, before), _channel_attributes(channel, data))


def recv(builder: XlaBuilder, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
    """Record a recv in `builder`; implements `XlaBuilder.recv`."""
    data = shape_argument("recv", "shape", shape)
    channel = _channel("recv", channel_handle)
    result = infer.recv.strict(data, channel)
    attributes = _receive_attributes(data, result, **_channel_attributes(channel, data))
    before = append(builder, "create_token", TOKEN_SHAPE)
    return record_tuple_element(append(builder, "recv", result, (before,), attributes), 0)


def _recv_after(
    name: str, token: Any, shape: Any, handle: Any, infer_shape: Callable[..., TupleShape]
) -> XlaOp:
    before = need_op(name, "token", token)
    data = shape_argument(name, "shape", shape)
    channel = _channel(name, handle)
    result = infer_shape(before.shape, data, channel)
    attributes = _receive_attributes(data, result, **_channel_attributes(channel, data))
    return record("recv", result, (before,), attributes)


@op_by_hand(SCHEMAS["recv"], cpp_name="RecvWithToken", section=BUILDER_H)
def recv_with_token(token: XlaOp, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
    """Receive the array that the send of the same channel sends, ordered after a token.

    Args:
        token: the token that the recv waits for.
        shape: the shape of the array.
        channel_handle: a device-to-device channel, or its number.

    Returns:
        A tuple of the array and a token.

    Raises:
        ShapeInferenceError: the shape is not an array's; `token` is not a token; the channel is
            not device-to-device.

    Example:
        >>> import builder as xb
        >>> xb.recv_with_token(xb.XlaBuilder().create_token(), xb.f32[2], 1).shape
        (f32[2], token[])

    Not in Operation Semantics; XlaBuilder's RecvWithToken.
    """
    return _recv_after(
        "recv_with_token", token, shape, channel_handle, infer.recv_with_token.strict
    )


@op_by_hand(SCHEMAS["recv"], cpp_name="RecvFromHost", section=BUILDER_H)
def recv_from_host(token: XlaOp, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
    """Receive an array from the host, ordered after a token.

    Args:
        token: the token that the recv waits for.
        shape: the shape of the array, with the layout of the host's data.
        channel_handle: a host-to-device channel, or its number.

    Returns:
        A tuple of the array and a token.

    Raises:
        ShapeInferenceError: the shape is not an array's; `token` is not a token; the channel is
            not host-to-device.

    Example:
        >>> import builder as xb
        >>> xb.recv_from_host(xb.XlaBuilder().create_token(), xb.f32[2], 1).shape
        (f32[2], token[])

    Not in Operation Semantics; XlaBuilder's RecvFromHost.
    """
    return _recv_after("recv_from_host", token, shape, channel_handle, infer.recv_from_host.strict)


# Custom calls.


@op_by_hand(SCHEMAS["custom_call"])
def custom_call(
    target_name: str,
    operands: XlaOp | Sequence[XlaOp],
    shape: ShapeLike,
    *,
    opaque: str | bytes = "",
    has_side_effect: bool = False,
    api_version: CustomCallApiVersionLike | None = None,
    attributes: Mapping[str, Any] | None = None,
    operand_shapes_with_layout: Sequence[ShapeLike] | None = None,
    computation: XlaComputation | None = None,
    output_operand_aliasing: Sequence[OutputOperandAliasingLike] = (),
    schedule: CustomCallScheduleLike = CustomCallSchedule.SCHEDULE_NONE,
) -> XlaOp:
    """Call a function that is registered for the platform by name.

    Unless `has_side_effect` is set, the function must have no side effects and return equal results
    for equal operands: XLA may call it several times, or not at all.

    `lowering.register_custom_call_target` registers C functions, ``jax.ffi.register_ffi_target``
    registers handlers of XLA's FFI. For Python functions use `python_call`. Without operands, use
    ``builder.custom_call(target_name, shape, ...)``.

    Args:
        target_name: the name under which the function is registered; it must not begin with "$".
        operands: any number of arrays, tokens and tuples, which are passed to the function.
        shape: the shape of the result; a tuple for several results.
        opaque: a string or bytes for the function; for a typed FFI call, an MLIR dictionary as
            text. Bytes that are not UTF-8 are recorded as surrogates (Python's "surrogateescape").
        has_side_effect: whether the function has side effects.
        api_version: the calling convention; see CustomCallApiVersion. By default typed FFI if there
            are `attributes`, else API_VERSION_ORIGINAL.
        attributes: for a typed FFI call, instead of `opaque`: a mapping of names to values. Values
            are bools, ints (int64_t), floats (double), strings, NumPy scalars of other types, lists
            of numbers and arrays of rank 1, and mappings of these.
        operand_shapes_with_layout: the operands' shapes with the layouts that the function
            requires; `shape` then has the layout of the result. Row-major where a layout is
            omitted.
        computation: a computation for the compiler, which few targets need.
        output_operand_aliasing: the parts of the result that share memory with operands:
            OutputOperandAliasing, or pairs ``(output_index, (operand_number, operand_index))``.
        schedule: a hint for compilers that schedule instructions; StableHLO has no attribute for
            it.

    Returns:
        A value of shape `shape`.

    Raises:
        ShapeInferenceError: the name begins with "$"; `operand_shapes_with_layout` does not have
            one shape for each operand; aliased shapes differ; the version or schedule does not
            exist; an attribute has a type that the FFI does not support; attributes are passed to a
            call that is not typed.
        OperandError: an argument has an unsupported Python type.

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
    resolve_builder(
        "custom_call", *arguments, fix="without operands, call builder.custom_call(...)"
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
    """Return the shape and the attributes of a custom call without operands.

    `more` contains the keyword arguments of `custom_call_plan`; an unknown name raises an
    OperandError.
    """
    for name in more:
        if name not in _CUSTOM_CALL_NAMES:
            rule = f"unknown argument {name!r}"
            fix = f"use one of {', '.join(_CUSTOM_CALL_NAMES)}"
            raise error_of(OperandError, "custom_call", rule, fix)
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
    """Return the shape and the attributes of a custom call; `operands` are the operands' shapes."""
    op = "custom_call"
    _text_argument(op, "target_name", target_name)
    opaque = _bytes_argument(op, "opaque", opaque)
    has_side_effect = flag(op, "has_side_effect", has_side_effect)
    if computation is not None and not isinstance(computation, XlaComputation):
        rule = f"computation must be an XlaComputation, got {brief(computation)}"
        raise error_of(OperandError, op, rule)
    typed = CustomCallApiVersion.API_VERSION_TYPED_FFI
    if api_version is None:
        original = CustomCallApiVersion.API_VERSION_ORIGINAL
        version = original if attributes is None else typed
    else:
        version = CustomCallApiVersion.of(api_version, op=op)
    if attributes is not None:
        if version is not typed:
            Check(op).fail(
                f"attributes require API_VERSION_TYPED_FFI, got {version.name}",
                fix="pass a string as opaque",
            )
        if opaque:
            Check(op).fail(
                f"at most one of opaque and attributes is allowed, got opaque={brief(opaque)}",
                fix="omit opaque, and pass its content as one of the attributes",
            )
        opaque = ffi_dictionary(op, attributes)
    if version is typed and any("\udc80" <= character <= "\udcff" for character in opaque):
        Check(op).fail(
            f"opaque of a typed FFI call must be text, got bytes that are not UTF-8: "
            f"{brief(opaque)}",
            fix=r"write each of these bytes as a backslash and two hexadecimal digits, as in \FF",
        )
    layouts = operand_shapes_with_layout
    if layouts is not None:
        if isinstance(layouts, str) or not isinstance(layouts, Sequence):
            rule = f"operand_shapes_with_layout must be a sequence of shapes, got {brief(layouts)}"
            raise error_of(OperandError, op, rule)
        layouts = tuple([shape_argument(op, "operand_shapes_with_layout", s) for s in layouts])
    result = shape_argument(op, "shape", shape)
    aliasing = OutputOperandAliasing.all_of(output_operand_aliasing, op=op)
    schedule = CustomCallSchedule.of(schedule, op=op)
    inferred = _custom_call_shape(target_name, operands, result, layouts, aliasing)
    optional: dict[str, Any] = {}
    if inferred is not result:
        optional["shape_with_layout"] = result
    if computation is not None:
        optional["to_apply"] = computation
    return inferred, shared_attributes(
        call_target_name=target_name,
        opaque=opaque,
        has_side_effect=has_side_effect,
        api_version=version,
        operand_shapes_with_layout=layouts,
        output_operand_aliasing=aliasing,
        schedule=schedule,
        **optional,
    )


_custom_call_shape = per_signature(infer.custom_call.strict)
_CUSTOM_CALL_NAMES = tuple(custom_call_plan.__kwdefaults__ or ())


@op_by_hand(SCHEMAS["python_call"])
def python_call(
    function: Callable[..., Any],
    operands: XlaOp | Sequence[XlaOp],
    shape: ShapeLike,
    *,
    has_side_effect: bool = False,
) -> XlaOp:
    """Call a Python function on NumPy arrays whenever the op is executed.

    Unless `has_side_effect` is set, the function must have no side effects and return equal results
    for equal operands: XLA may call it several times, or not at all. It may be called from any
    thread. If it raises an exception, the run fails with a lowering.ExecutionError. In a program
    that runs on several devices, the function should return within half a minute: XLA terminates a
    process whose devices wait longer for each other.

    The function belongs to this process, so the module can't be saved to a file. Without operands,
    use ``builder.python_call(function, shape, ...)``.

    Args:
        function: takes one argument for each operand: a NumPy array, None for a token, a Python
            tuple for a tuple. It returns the result in the same form.
        operands: any number of arrays, tokens and tuples.
        shape: the shape of the result; a sequence of shapes for a tuple.
        has_side_effect: whether the function has side effects.

    Returns:
        A value of shape `shape`.

    Raises:
        OperandError: the function is not callable, an operand is not an op, or `shape` is not a
            shape.
        ShapeInferenceError: an operand or the result has a dynamic size.

    Example:
        >>> import builder as xb, numpy as np
        >>> x = xb.XlaBuilder().parameter(xb.f32[8])
        >>> xb.python_call(np.sort, x, xb.f32[8]).shape
        f32[8]

    Operation Semantics: CustomCall (a Python function in place of a C function).
    """
    arguments = need_ops("python_call", "operand", operands)
    resolve_builder(
        "python_call", *arguments, fix="without operands, call builder.python_call(...)"
    )
    inferred, attributes = python_call_plan(function, arguments, shape, has_side_effect)
    return record("python_call", inferred, arguments, attributes)


def python_call_plan(
    function: Any, operands: Sequence[XlaOp], shape: Any, has_side_effect: Any
) -> tuple[Shape, Mapping[str, Any]]:
    """Return the shape and the attributes of a call of a Python function."""
    if not callable(function) or isinstance(function, (XlaOp, NotAFunction)):
        fix = ""
        if isinstance(function, XlaComputation):
            fix = "call the computation with xb.call(computation, *operands)"
        rule = f"function must be a Python callable, got {brief(function)}"
        raise error_of(OperandError, "python_call", rule, fix)
    result = shape_argument("python_call", "shape", shape)
    return infer.python_call.strict([o.shape for o in operands], result), {
        "function": function,
        "name": str(getattr(function, "__qualname__", type(function).__name__)),
        "has_side_effect": flag("python_call", "has_side_effect", has_side_effect),
    }
