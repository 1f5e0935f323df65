"""Infer the result shapes of token ops, infeed, outfeed, send, recv and custom calls.

Operation Semantics: AfterAll, CustomCall, Infeed, Recv, Send.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.attributes import ChannelHandle, ChannelType
from builder.attributes.host import OutputOperandAliasing
from builder.check import Check, first_duplicate, same_shape
from builder.layout.program_layouts import check_supported_layout
from builder.ops.rules.public import public
from builder.types.shape import (
    TOKEN_SHAPE,
    ArrayShape,
    Shape,
    TokenShape,
    TupleShape,
    element_at,
    without_layout,
)


def _need_token(check: Check, name: str) -> None:
    shape = check.shapes[name]
    # StableHLO after_all (I1), infeed (I1), outfeed (I2), send (I2), recv (I1)
    if not isinstance(shape, TokenShape):
        check.fail(
            f"{name} must be a token, got {shape}",
            fix="create the first token with builder.create_token(); if an op "
            "returns a value and a token, pass element 1 of its result",
        )


@public
def after_all(operands: Sequence[Shape]) -> TokenShape:
    """Return the shape of the token that joins the operands, which must be tokens.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.after_all([xb.TOKEN_SHAPE, xb.TOKEN_SHAPE])
        token[]
    """
    check = Check.numbered("after_all", "operand", operands)
    for name in check.shapes:
        _need_token(check, name)
    return TOKEN_SHAPE


@public
def infeed(shape: Shape) -> TupleShape:
    """Return the shape of an infeed's result: the tuple (value, token).

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.infeed(xb.f32[2, 3])
        (f32[2,3], token[])
    """
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


@public
def infeed_with_token(token: Shape, shape: Shape) -> TupleShape:
    """Return the shape of an infeed's result: the tuple (value, token).

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.infeed_with_token(xb.TOKEN_SHAPE, xb.f32[2, 3])
        (f32[2,3], token[])
    """
    check = Check("infeed_with_token", token=token)
    _need_token(check, "token")
    return _value_and_token(check, shape)


def _need_compatible(check: Check, shape_with_layout: Shape) -> None:
    operand = check.shapes["operand"]
    # xla_builder.h: Outfeed
    if not same_shape(operand, shape_with_layout):
        check.fail(
            f"shape_with_layout must be the operand's shape apart from layouts, {operand}, "
            f"got {shape_with_layout}"
        )
    check_supported_layout(check.op, "shape_with_layout", shape_with_layout)


@public
def outfeed(operand: Shape, shape_with_layout: Shape) -> TokenShape:
    """Return the shape of an outfeed's result: a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.outfeed(xb.f32[2, 3], xb.f32[2, 3])
        token[]
    """
    _need_compatible(Check("outfeed", operand=operand), shape_with_layout)
    return TOKEN_SHAPE


@public
def outfeed_with_token(operand: Shape, token: Shape, shape_with_layout: Shape) -> TokenShape:
    """Return the shape of an outfeed's result: a token.

    Example:
        >>> import builder as xb
        >>> shape = xb.f32[2, 3]
        >>> xb.shape_inference.host.outfeed_with_token(shape, xb.TOKEN_SHAPE, shape)
        token[]
    """
    check = Check("outfeed_with_token", operand=operand, token=token)
    _need_compatible(check, shape_with_layout)
    _need_token(check, "token")
    return TOKEN_SHAPE


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
            f"channel_handle must be a {kind.name.lower().replace('_', '-')} channel, "
            f"got {channel_handle!r}",
            fix=f"write xb.ChannelHandle({channel_handle.handle}, xb.ChannelType.{kind.name})",
        )


@public
def send(operand: Shape, channel_handle: ChannelHandle) -> TokenShape:
    """Return the shape of a send's result: a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.send(xb.f32[2], xb.ChannelHandle(1))
        token[]
    """
    _transfer(Check("send", operand=operand), "operand", channel_handle)
    return TOKEN_SHAPE


@public
def send_with_token(operand: Shape, token: Shape, channel_handle: ChannelHandle) -> TokenShape:
    """Return the shape of a send's result: a token.

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1)
        >>> xb.shape_inference.host.send_with_token(xb.f32[2], xb.TOKEN_SHAPE, channel)
        token[]
    """
    _transfer(Check("send_with_token", operand=operand, token=token), "operand", channel_handle)
    return TOKEN_SHAPE


@public
def recv(shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    """Return the shape of a recv's result: the tuple (value received, token).

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.recv(xb.f32[2], xb.ChannelHandle(1))
        (f32[2], token[])
    """
    check = Check("recv", shape=shape)
    _transfer(check, "shape", channel_handle)
    return _value_and_token(check, shape)


@public
def recv_with_token(token: Shape, shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    """Return the shape of a recv's result: the tuple (value received, token).

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1)
        >>> xb.shape_inference.host.recv_with_token(xb.TOKEN_SHAPE, xb.f32[2], channel)
        (f32[2], token[])
    """
    check = Check("recv_with_token", token=token, shape=shape)
    _transfer(check, "shape", channel_handle)
    return _value_and_token(check, shape)


@public
def send_to_host(
    operand: Shape, token: Shape, shape_with_layout: Shape, channel_handle: ChannelHandle
) -> TokenShape:
    """Return the shape of the result of a send to the host: a token.

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1, xb.ChannelType.DEVICE_TO_HOST)
        >>> shape = xb.f32[2]
        >>> xb.shape_inference.host.send_to_host(shape, xb.TOKEN_SHAPE, shape, channel)
        token[]
    """
    check = Check("send_to_host", operand=operand, token=token)
    _need_compatible(check, shape_with_layout)
    _transfer(check, "operand", channel_handle, ChannelType.DEVICE_TO_HOST)
    return TOKEN_SHAPE


@public
def recv_from_host(token: Shape, shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    """Return the shape of the result of a recv from the host: the tuple (value received, token).

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1, xb.ChannelType.HOST_TO_DEVICE)
        >>> xb.shape_inference.host.recv_from_host(xb.TOKEN_SHAPE, xb.f32[2], channel)
        (f32[2], token[])
    """
    check = Check("recv_from_host", token=token, shape=shape)
    _transfer(check, "shape", channel_handle, ChannelType.HOST_TO_DEVICE)
    return _value_and_token(check, shape)


@public
def custom_call(
    target_name: str,
    operands: Sequence[Shape],
    shape: Shape,
    operand_shapes_with_layout: Sequence[Shape] | None = None,
    output_operand_aliasing: Sequence[OutputOperandAliasing] = (),
) -> Shape:
    """Return the shape of a custom call's result: `shape` without layouts.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.custom_call("myfunc", [xb.f32[2], xb.f32[2, 3]], xb.f32[3, 3])
        f32[3,3]
    """
    check = Check.numbered("custom_call", "operand", operands)
    # xla_builder.h: CustomCall
    if target_name.startswith("$"):
        check.fail(f"target_name must not begin with '$', which XLA reserves, got {target_name!r}")
    # xla_builder.h: CustomCallWithLayout
    if operand_shapes_with_layout is not None:
        name, shapes = "operand_shapes_with_layout", operand_shapes_with_layout
        check.one_for_each(shapes, len(operands), of="operand", name=name)
        for number, (operand, laid_out) in enumerate(zip(operands, shapes, strict=True)):
            if not same_shape(operand, laid_out):
                rule = f"{name} must be the operands' shapes apart from layouts"
                check.fail(f"{rule}, got {laid_out} for operand {number}")
            check_supported_layout("custom_call", name, laid_out)
    check_supported_layout("custom_call", "shape", shape)
    result = without_layout(shape)
    # xla_builder.h: CustomCall
    for alias in output_operand_aliasing:
        output = _part(check, "output_index", result, alias.output_index)
        if not 0 <= alias.operand_number < len(operands):
            check.fail(
                "output_operand_aliasing's operand_number must be at least 0 and less than the "
                f"number of operands, {len(operands)}, got {alias.operand_number}"
            )
        operand = operands[alias.operand_number]
        source = _part(check, "operand_index", operand, alias.operand_index)
        if output is not source:
            check.fail(
                f"output_operand_aliasing must pair equal shapes, got {output} of the result and "
                f"{source} of operand {alias.operand_number}"
            )
    twice = first_duplicate([alias.output_index for alias in output_operand_aliasing])
    if twice is not None:
        rule = "output_operand_aliasing must name each part of the result at most once"
        check.fail(f"{rule}, got {twice} twice")
    return result


@public
def python_call(operands: Sequence[Shape], shape: Shape) -> Shape:
    """Return the shape of the result of a call to a Python function: `shape` without layouts.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.python_call([xb.f32[8]], xb.s32[()])
        s32[]
    """
    check = Check.numbered("python_call", "operand", operands, shape=shape)
    # Not in XLA: a callback receives and returns NumPy arrays.
    for name, value in check.shapes.items():
        if not value.is_static:
            fix = "pass the array padded to its bound, and the size as a separate s32[] operand"
            check.fail(f"{name} must have static sizes, got {value}", fix=fix)
    return without_layout(shape)


def _part(check: Check, name: str, shape: Shape, index: tuple[int, ...]) -> ArrayShape:
    """Return the array shape at `index` of tuple `shape`; `name` is the index in messages."""
    part = element_at(shape, index)
    # xla_builder.h: CustomCall
    if not isinstance(part, ArrayShape):
        check.fail(
            f"output_operand_aliasing's {name} must be the index of an array in {shape}, "
            f"got {index}"
        )
    return part
