"""Tokens, transfers between host and device, and custom calls.

Ops without operands, and calls without operands, are methods of XlaBuilder. Lowering has a rule for
most of these ops, because an op that returns a tuple in XLA returns several values in StableHLO.

Operation Semantics: AfterAll, CustomCall, Infeed, Recv, Send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

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
from builder.checking import Check, first_duplicate, same_shape
from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation, is_debug_call
from builder.graph.recording import append, record, resolve_builder, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import record_tuple_element
from builder.graph.xla_op import XlaOp
from builder.layout.program_layouts import check_supported_layout
from builder.ops.definition import builder_method, op
from builder.ops.operands import need_op, need_ops
from builder.schema.definition import (
    ANY,
    APPLIED_REPEATEDLY,
    BUILDER_H,
    Attribute,
    CostClass,
    Group,
    Trait,
    define,
)
from builder.schema.kinds import (
    ALIASES,
    BYTES,
    CHANNEL,
    FLAG,
    OPTIONAL_COMPUTATION,
    OPTIONAL_FLAG,
    SHAPE,
    SHAPES,
    TEXT,
    Channel,
    NumberedEnumeration,
)
from builder.schema.syntax import quoted
from builder.support.arguments import NotAFunction
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import (
    TOKEN_SHAPE,
    ArrayShape,
    Shape,
    ShapeLike,
    TokenShape,
    TupleShape,
    element_at,
    without_layout,
)

if TYPE_CHECKING:
    from builder.graph.xla_builder import XlaBuilder

Attributes = Mapping[str, Any]


# --- Tokens -------------------------------------------------------------------------------------


def _need_token(check: Check, name: str) -> None:
    shape = check.shapes[name]
    # StableHLO after_all (I1), infeed (I1), outfeed (I2), send (I2), recv (I1)
    if not isinstance(shape, TokenShape):
        check.fail(
            f"{name} must be a token",
            got=shape,
            fix="create the first token with builder.create_token(); if an op "
            "returns a value and a token, pass element 1 of its result",
        )


def _create_token_shape() -> TokenShape:
    return TOKEN_SHAPE


CREATE_TOKEN: Final = define(
    "create_token",
    "",
    section=BUILDER_H,
    hlo="after-all",
    stablehlo="stablehlo.after_all",
    cost=CostClass.FREE,
)

builder_method(CREATE_TOKEN, _create_token_shape)


def _after_all_shape(operands: Sequence[Shape]) -> TokenShape:
    check = Check.numbered("after_all", "operand", operands)
    # Not in XLA: the operands determine the builder
    if not operands:
        fix = "record a token without operands with builder.create_token()"
        check.fail("at least one token is needed", got="none", fix=fix)
    for name in check.shapes:
        _need_token(check, name)
    return TOKEN_SHAPE


AFTER_ALL: Final = define("after_all", "*operands", cost=CostClass.FREE)


@op(AFTER_ALL, _after_all_shape)
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


# --- Infeed and outfeed -------------------------------------------------------------------------


def _last_token(builder: XlaBuilder, stream: str) -> XlaOp:
    """Return the token of the last infeed or outfeed (`stream`); a new token before the first."""
    token = builder._last_tokens.get(stream)
    # The op may have been removed since, when a failing op was rolled back.
    if token is None or token.id >= len(builder.ops) or builder.ops[token.id] is not token:
        token = append(builder, "create_token", TOKEN_SHAPE)
    return token


def _infeed_shape(shape: Shape) -> TupleShape:
    check = Check("infeed", shape=shape)
    # StableHLO infeed (C2)
    if isinstance(shape, TupleShape) and any(isinstance(e, TupleShape) for e in shape.elements):
        check.fail(
            "shape must not be a tuple of tuples",
            fix="use a tuple of arrays, or one infeed for each tuple; xb.infeed_with_token "
            "supports nested tuples",
        )
    return _value_and_token(check, shape)


def _value_and_token(check: Check, shape: Shape) -> TupleShape:
    check_supported_layout(check.op, "shape", shape)
    return TupleShape((without_layout(shape), TOKEN_SHAPE))


def _infeed_with_token_shape(token: Shape, shape: Shape) -> TupleShape:
    check = Check("infeed_with_token", token=token)
    _need_token(check, "token")
    return _value_and_token(check, shape)


def _laid_out(shape: Shape) -> Attributes:
    """Return the attribute that has the layout of a received value, if its shape has one."""
    if without_layout(shape) is shape:
        return {}
    return {"shape_with_layout": TupleShape((shape, TOKEN_SHAPE))}


INFEED: Final = define(
    "infeed",
    "token",
    (Attribute("infeed_config", BYTES, omitted="", absent="", parameter="config"),),
    traits=Trait.STATEFUL | Trait.TRANSFER,
)

builder_method(INFEED, _infeed_shape)


def infeed(builder: XlaBuilder, shape: ShapeLike, config: str | bytes = "") -> XlaOp:
    """Record an infeed in `builder`; implements `XlaBuilder.infeed`."""
    data = SHAPE.convert("infeed", "shape", shape)
    result = _infeed_shape(data)
    attributes = _infeed_attributes("infeed", builder, data, config)
    received = append(builder, "infeed", result, (_last_token(builder, "infeed"),), attributes)
    builder._last_tokens["infeed"] = record_tuple_element(received, 1)
    return record_tuple_element(received, 0)


def _infeed_attributes(
    op: str, builder: XlaBuilder, data: Shape, config: str | bytes
) -> Attributes:
    """Return the attributes of an infeed that `builder` records."""
    text = BYTES.convert(op, "config", config)
    _check_infeed_sharding(op, builder, data)
    return shared_attributes(infeed_config=text, **_laid_out(data))


def _check_infeed_sharding(op: str, builder: XlaBuilder, shape: Shape) -> None:
    """Refuse the shardings that XLA does not support for infeeds."""
    metadata = builder._current_metadata
    if metadata is None or metadata.sharding is None:
        return
    from builder.sharding.tiling import Tiling, parse_tilings  # lazy import

    sharding = metadata.sharding
    tiling = parse_tilings(sharding if isinstance(sharding, str) else sharding.tiling)
    kind = tiling.kind if isinstance(tiling, Tiling) else None
    fix = "record the infeed in a block of builder.sharding('{maximal device=0}')"
    if kind == "replicated":
        Check(op).fail("an infeed must not be replicated", got="sharding {replicated}", fix=fix)
    if shape.is_array and kind == "tiled":
        rule = "an infeed of an array must not be tiled"
        Check(op).fail(rule, got=f"sharding {sharding} for {shape}", fix=fix)


@op_by_hand(  # the sharding of the builder's block is checked
    INFEED,
    _infeed_with_token_shape,
    cpp_name="InfeedWithToken",
    section=f"Infeed; {BUILDER_H}",
)
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
    name = "infeed_with_token"
    before = need_op(name, "token", token)
    data = SHAPE.convert(name, "shape", shape)
    result = _infeed_with_token_shape(before.shape, data)
    attributes = _infeed_attributes(name, resolve_builder(name, before), data, config)
    return record("infeed", result, (before,), attributes)


def _need_compatible(check: Check, shape_with_layout: Shape | None) -> None:
    if shape_with_layout is None:
        return
    operand = check.shapes["operand"]
    # xla_builder.h: Outfeed
    if not same_shape(operand, shape_with_layout):
        check.fail(
            f"shape_with_layout must be the operand's shape apart from layouts, {operand}",
            got=shape_with_layout,
        )
    check_supported_layout(check.op, "shape_with_layout", shape_with_layout)


def _outfeed_shape(operand: Shape, shape_with_layout: Shape | None = None) -> TokenShape:
    _need_compatible(Check("outfeed", operand=operand), shape_with_layout)
    return TOKEN_SHAPE


def _outfeed_attributes(
    operand: Shape, shape_with_layout: Shape | None, outfeed_config: str
) -> Attributes:
    data = operand if shape_with_layout is None else shape_with_layout
    return {"outfeed_shape": data, "outfeed_config": outfeed_config}


OUTFEED: Final = define(
    "outfeed",
    "operand token",
    (
        Attribute("outfeed_shape", SHAPE, stablehlo=None),
        Attribute("outfeed_config", BYTES, omitted="", absent=""),
    ),
    section=BUILDER_H,
    cost=CostClass.RULE,
    traits=Trait.STATEFUL | Trait.TRANSFER,
)


@op_by_hand(OUTFEED, _outfeed_shape)  # the builder has the last token
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
    data = shape_with_layout
    if data is not None:
        data = SHAPE.convert("outfeed", "shape_with_layout", data)
    config = BYTES.convert("outfeed", "outfeed_config", outfeed_config)
    shape = _outfeed_shape(value.shape, data)
    builder = resolve_builder("outfeed", value)
    attributes = shared_attributes(**_outfeed_attributes(value.shape, data, config))
    token = record("outfeed", shape, (value, _last_token(builder, "outfeed")), attributes)
    builder._last_tokens["outfeed"] = token
    return token


def _outfeed_with_token_shape(
    operand: Shape, token: Shape, shape_with_layout: Shape | None = None
) -> TokenShape:
    check = Check("outfeed_with_token", operand=operand, token=token)
    _need_compatible(check, shape_with_layout)
    _need_token(check, "token")
    return TOKEN_SHAPE


@op(
    OUTFEED,
    _outfeed_with_token_shape,
    _outfeed_attributes,
    cpp_name="OutfeedWithToken",
    shape_with_layout=SHAPE,
)
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


# --- Send and recv ------------------------------------------------------------------------------


def _transfer(
    check: Check,
    name: str,
    channel_handle: ChannelHandle,
    kind: ChannelType = ChannelType.DEVICE_TO_DEVICE,
) -> None:
    """Check a transfer's array operand `name`, its token (if it has one) and its channel type."""
    # Operation Semantics: Send, Recv
    check.array(name)
    if "token" in check.shapes:
        _need_token(check, "token")
    # StableHLO send (C5), recv (C5)
    if channel_handle.type is not kind:
        check.fail(
            f"channel_handle must be a {kind.name.lower().replace('_', '-')} channel",
            got=repr(channel_handle),
            fix=f"write xb.ChannelHandle({channel_handle.handle}, xb.ChannelType.{kind.name})",
        )


_DEVICE_TO_HOST: Final = Channel(ChannelType.DEVICE_TO_HOST)
_HOST_TO_DEVICE: Final = Channel(ChannelType.HOST_TO_DEVICE)

_TRANSFER: Final = (
    Attribute("channel_handle", CHANNEL, "channel_id"),
    Attribute("is_host_transfer", OPTIONAL_FLAG, omitted=False),
    Attribute("data_shape", SHAPE, None, None),
)


def _transfer_attributes(channel: ChannelHandle, data: Shape) -> Attributes:
    """Return the attributes of a send or recv of an array; `data` is its shape with its layout."""
    return {
        "channel_handle": channel,
        "is_host_transfer": channel.type is not ChannelType.DEVICE_TO_DEVICE,
        "data_shape": data,
    }


def _send_shape(operand: Shape, channel_handle: ChannelHandle) -> TokenShape:
    _transfer(Check("send", operand=operand), "operand", channel_handle)
    return TOKEN_SHAPE


def _send_attributes(operand: Shape, channel_handle: ChannelHandle) -> Attributes:
    return _transfer_attributes(channel_handle, operand)


SEND: Final = define(
    "send",
    "operand token",
    _TRANSFER,
    element_types={"operand": ANY},
    traits=Trait.STATEFUL | Trait.TRANSFER,
)


@op_by_hand(SEND, _send_shape)  # records a token, too
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
    channel = CHANNEL.convert("send", "channel_handle", channel_handle)
    shape = _send_shape(value.shape, channel)
    before = append(resolve_builder("send", value), "create_token", TOKEN_SHAPE)
    attributes = shared_attributes(**_send_attributes(value.shape, channel))
    return record("send", shape, (value, before), attributes)


def _send_with_token_shape(
    operand: Shape, token: Shape, channel_handle: ChannelHandle
) -> TokenShape:
    _transfer(Check("send_with_token", operand=operand, token=token), "operand", channel_handle)
    return TOKEN_SHAPE


@op(
    SEND,
    _send_with_token_shape,
    _send_attributes,
    cpp_name="SendWithToken",
    section=BUILDER_H,
)
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


def _send_to_host_shape(
    operand: Shape, token: Shape, shape_with_layout: Shape, channel_handle: ChannelHandle
) -> TokenShape:
    check = Check("send_to_host", operand=operand, token=token)
    _need_compatible(check, shape_with_layout)
    _transfer(check, "operand", channel_handle, ChannelType.DEVICE_TO_HOST)
    return TOKEN_SHAPE


def _send_to_host_attributes(shape_with_layout: Shape, channel_handle: ChannelHandle) -> Attributes:
    return _transfer_attributes(channel_handle, shape_with_layout)


@op(
    SEND,
    _send_to_host_shape,
    _send_to_host_attributes,
    cpp_name="SendToHost",
    section=BUILDER_H,
    shape_with_layout=SHAPE,
    channel_handle=_DEVICE_TO_HOST,
)
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


def _recv_shape(shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    check = Check("recv", shape=shape)
    _transfer(check, "shape", channel_handle)
    return _value_and_token(check, shape)


def _recv_attributes(shape: Shape, channel_handle: ChannelHandle) -> Attributes:
    return {**_transfer_attributes(channel_handle, shape), **_laid_out(shape)}


RECV: Final = define("recv", "token", _TRANSFER, traits=Trait.STATEFUL | Trait.TRANSFER)

builder_method(RECV, _recv_shape)


def recv(builder: XlaBuilder, shape: ShapeLike, channel_handle: ChannelHandleLike) -> XlaOp:
    """Record a recv in `builder`; implements `XlaBuilder.recv`."""
    data = SHAPE.convert("recv", "shape", shape)
    channel = CHANNEL.convert("recv", "channel_handle", channel_handle)
    result = _recv_shape(data, channel)
    attributes = shared_attributes(**_recv_attributes(data, channel))
    before = append(builder, "create_token", TOKEN_SHAPE)
    return record_tuple_element(append(builder, "recv", result, (before,), attributes), 0)


def _recv_with_token_shape(token: Shape, shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    check = Check("recv_with_token", token=token, shape=shape)
    _transfer(check, "shape", channel_handle)
    return _value_and_token(check, shape)


@op(
    RECV,
    _recv_with_token_shape,
    _recv_attributes,
    cpp_name="RecvWithToken",
    section=BUILDER_H,
    shape=SHAPE,
)
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


def _recv_from_host_shape(token: Shape, shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    check = Check("recv_from_host", token=token, shape=shape)
    _transfer(check, "shape", channel_handle, ChannelType.HOST_TO_DEVICE)
    return _value_and_token(check, shape)


@op(
    RECV,
    _recv_from_host_shape,
    _recv_attributes,
    cpp_name="RecvFromHost",
    section=BUILDER_H,
    shape=SHAPE,
    channel_handle=_HOST_TO_DEVICE,
)
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


# --- Custom calls -------------------------------------------------------------------------------


@per_signature
def _custom_call_shape(
    target_name: str,
    operands: Sequence[Shape],
    shape: Shape,
    operand_shapes_with_layout: Sequence[Shape] | None = None,
    output_operand_aliasing: Sequence[OutputOperandAliasing] = (),
) -> Shape:
    check = Check.numbered("custom_call", "operand", operands)
    # xla_builder.h: CustomCall
    if target_name.startswith("$"):
        check.fail("target_name must not begin with '$', which XLA reserves", got=repr(target_name))
    # xla_builder.h: CustomCallWithLayout
    if operand_shapes_with_layout is not None:
        name, shapes = "operand_shapes_with_layout", operand_shapes_with_layout
        check.one_for_each(shapes, len(operands), of="operand", name=name)
        for number, (operand, laid_out) in enumerate(zip(operands, shapes, strict=True)):
            if not same_shape(operand, laid_out):
                rule = f"{name} must be the operands' shapes apart from layouts"
                check.fail(rule, got=f"{laid_out} for operand {number}")
            check_supported_layout("custom_call", name, laid_out)
    check_supported_layout("custom_call", "shape", shape)
    result = without_layout(shape)
    # xla_builder.h: CustomCall
    for alias in output_operand_aliasing:
        output = _part(check, "output_index", result, alias.output_index)
        if not 0 <= alias.operand_number < len(operands):
            check.fail(
                "output_operand_aliasing's operand_number must be at least 0 and less than the "
                f"number of operands, {len(operands)}",
                got=alias.operand_number,
            )
        operand = operands[alias.operand_number]
        source = _part(check, "operand_index", operand, alias.operand_index)
        if output is not source:
            check.fail(
                "output_operand_aliasing must pair equal shapes",
                got=f"{output} of the result and {source} of operand {alias.operand_number}",
            )
    twice = first_duplicate([alias.output_index for alias in output_operand_aliasing])
    if twice is not None:
        rule = "output_operand_aliasing must name each part of the result at most once"
        check.fail(rule, got=f"{twice} twice")
    return result


def _part(check: Check, name: str, shape: Shape, index: tuple[int, ...]) -> ArrayShape:
    """Return the array shape at `index` of tuple `shape`; `name` is the index in messages."""
    part = element_at(shape, index)
    # xla_builder.h: CustomCall
    if not isinstance(part, ArrayShape):
        check.fail(
            f"output_operand_aliasing's {name} must be the index of an array in {shape}", got=index
        )
    return part


_HAS_SIDE_EFFECT: Final = Attribute(
    "has_side_effect", OPTIONAL_FLAG, "custom_call_has_side_effect", omitted=False
)
_VERSION: Final = CustomCallApiVersion.API_VERSION_ORIGINAL


def _backend_config(op: Any) -> str:
    opaque = op.attributes["opaque"]
    is_typed = op.attributes["api_version"] is CustomCallApiVersion.API_VERSION_TYPED_FFI
    # An MLIR dictionary is not quoted.
    text = opaque if is_typed and opaque.startswith("{") else BYTES.text(opaque)
    return f", backend_config={text}" if opaque else ""


SIZE_CHECK: Final = "shape_assertion"
"""The target of custom calls that check the sizes of a call, in programs of `jax.export`.

The operands are a condition, and sizes for the message. The calls are evaluated and removed when
the sizes are known, before the program is compiled.
"""


def is_size_check(op: XlaOp) -> bool:
    """Return whether an op is a custom call that checks sizes; see `SIZE_CHECK`."""
    if op.attributes.get("call_target_name") != SIZE_CHECK or not op.operands:
        return False
    return op.operands[0].shape is pt.pred[()]


def is_observer(op: XlaOp) -> bool:
    """Return whether an op checks sizes, prints or checks: no value depends on it."""
    return is_debug_call(op) or is_size_check(op)


def observers(ops: Sequence[XlaOp]) -> list[XlaOp]:
    """Return the observers among ops, and the ops that apply computations with observers.

    Functions that copy what a result depends on copy these ops too.
    """
    observe: dict[XlaComputation, bool] = {}

    def contains(part: XlaComputation) -> bool:
        if part not in observe:
            every = (part, *part.called_computations())
            observe[part] = any(is_observer(op) for each in every for op in each.ops)
        return observe[part]

    return [op for op in ops if is_observer(op) or any(map(contains, op.called_computations))]


CUSTOM_CALL: Final = define(
    "custom_call",
    "*operands",
    (
        Attribute("call_target_name", TEXT, "custom_call_target", parameter="target_name"),
        Attribute(
            "operand_shapes_with_layout", SHAPES, "operand_layout_constraints", None, omitted=None
        ),
        _HAS_SIDE_EFFECT,
        Attribute(
            "output_operand_aliasing", ALIASES, "output_to_operand_aliasing", None, omitted=()
        ),
        Attribute(
            "to_apply",
            OPTIONAL_COMPUTATION,
            "called_computations",
            "called_computations",
            parameter="computation",
        ),
        Attribute(
            "schedule",
            NumberedEnumeration(CustomCallSchedule),
            stablehlo=None,
            omitted=CustomCallSchedule.SCHEDULE_NONE,
        ),
        Attribute(
            "api_version",
            NumberedEnumeration(CustomCallApiVersion),
            omitted=_VERSION,
            absent=_VERSION,
        ),
        # In StableHLO the attribute is text or a dictionary.
        Attribute("opaque", BYTES, None, None),
        Group(_backend_config),
    ),
    cost=CostClass.CUSTOM,
    tolerance=APPLIED_REPEATEDLY,
)


@op_by_hand(CUSTOM_CALL, _custom_call_shape)  # arguments depend on each other
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
    TEXT.convert(op, "target_name", target_name)
    opaque = BYTES.convert(op, "opaque", opaque)
    has_side_effect = FLAG.convert(op, "has_side_effect", has_side_effect)
    if computation is not None and not isinstance(computation, XlaComputation):
        rule = "computation must be an XlaComputation"
        raise error_of(OperandError, op, rule, got=brief(computation))
    typed = CustomCallApiVersion.API_VERSION_TYPED_FFI
    if api_version is None:
        original = CustomCallApiVersion.API_VERSION_ORIGINAL
        version = original if attributes is None else typed
    else:
        version = CustomCallApiVersion.of(api_version, op=op)
    if attributes is not None:
        if version is not typed:
            Check(op).fail(
                "attributes require API_VERSION_TYPED_FFI",
                got=version.name,
                fix="pass a string as opaque",
            )
        if opaque:
            Check(op).fail(
                "at most one of opaque and attributes is allowed",
                got=f"opaque={brief(opaque)}",
                fix="omit opaque, and pass its content as one of the attributes",
            )
        opaque = ffi_dictionary(op, attributes)
    if version is typed and any("\udc80" <= character <= "\udcff" for character in opaque):
        Check(op).fail(
            "opaque of a typed FFI call must be text",
            got=f"bytes that are not UTF-8: {brief(opaque)}",
            fix=r"write each of these bytes as a backslash and two hexadecimal digits, as in \FF",
        )
    layouts = operand_shapes_with_layout
    if layouts is not None:
        layouts = SHAPES.convert(op, "operand_shapes_with_layout", layouts)
    result = SHAPE.convert(op, "shape", shape)
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


_CUSTOM_CALL_NAMES: Final = tuple(custom_call_plan.__kwdefaults__ or ())


def _python_call_shape(operands: Sequence[Shape], shape: Shape) -> Shape:
    check = Check.numbered("python_call", "operand", operands, shape=shape)
    # Not in XLA: a callback receives and returns NumPy arrays.
    for name, value in check.shapes.items():
        if not value.is_static:
            fix = "pass the array padded to its bound, and the size as a separate s32[] operand"
            check.fail(f"{name} must have static sizes", got=value, fix=fix)
    return without_layout(shape)


PYTHON_CALL_TARGET: Final = "xlabuilder.python_call"
"""The target of custom calls that represent calls of Python functions."""


def _python_function(op: Any) -> str:
    """Return the HLO attributes with the name of the Python function that is called."""
    name = ffi_dictionary("python_call", {"name": op.attributes["name"]})
    return f", api_version=API_VERSION_TYPED_FFI, backend_config={name}"


PYTHON_CALL: Final = define(
    "python_call",
    "*operands",
    (
        Group(lambda _: f", custom_call_target={quoted(PYTHON_CALL_TARGET)}"),
        _HAS_SIDE_EFFECT,
        Attribute("name", TEXT, None, None),
        Group(_python_function),
    ),
    cpp_name="(none)",
    section="CustomCall, of a Python function",
    hlo="custom-call",
    stablehlo="stablehlo.custom_call",
    cost=CostClass.CUSTOM,
)


@op_by_hand(PYTHON_CALL, _python_call_shape)  # the function is an attribute
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
        rule = "function must be a Python callable"
        raise error_of(OperandError, "python_call", rule, fix, got=brief(function))
    result = SHAPE.convert("python_call", "shape", shape)
    return _python_call_shape([o.shape for o in operands], result), {
        "function": function,
        "name": str(getattr(function, "__qualname__", type(function).__name__)),
        "has_side_effect": FLAG.convert("python_call", "has_side_effect", has_side_effect),
    }
