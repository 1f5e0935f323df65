"""Shapes of tokens, of what comes from the host, and of code that XLA does not know.

Operation Semantics: AfterAll, CustomCall, Infeed, Recv, Send.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.attributes import ChannelHandle, ChannelType
from builder.attributes.host import OutputOperandAliasing
from builder.check import Check
from builder.layout.program_layouts import check_supported_layout
from builder.shape_inference.control_flow import same_shape
from builder.shape_inference.public import public
from builder.types.shape import (
    TOKEN_SHAPE,
    ArrayShape,
    Shape,
    TokenShape,
    TupleShape,
    without_layout,
)

__all__ = [
    "after_all",
    "custom_call",
    "infeed",
    "infeed_with_token",
    "outfeed",
    "outfeed_with_token",
    "python_call",
    "recv",
    "recv_from_host",
    "recv_with_token",
    "send",
    "send_to_host",
    "send_with_token",
]


def _need_token(check: Check, name: str) -> None:
    shape = check.shapes[name]
    if not isinstance(shape, TokenShape):
        check.fail(
            f"{name} must be a token, got {shape}",
            fix="a first token is builder.create_token(); the token of an op that gives a value "
            "too is element 1 of its result",
        )


@public
def after_all(operands: Sequence[Shape]) -> TokenShape:
    """Shape of a token that stands for all of these tokens.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.after_all([xb.TOKEN_SHAPE, xb.TOKEN_SHAPE])
        token[]
    """
    check = Check.numbered("after_all", "operand", operands)
    for name in list(check.shapes):
        _need_token(check, name)
    return TOKEN_SHAPE


@public
def infeed(shape: Shape) -> TupleShape:
    """Shape of what an infeed gives: the value, and a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.infeed(xb.f32[2, 3])
        (f32[2,3], token[])
    """
    if isinstance(shape, TupleShape) and any(isinstance(e, TupleShape) for e in shape.elements):
        Check("infeed", shape=shape).fail(
            "shape must not be a tuple of tuples",
            fix="take a tuple of arrays, or one infeed for each tuple; xb.infeed_with_token takes "
            "nested tuples",
        )
    return _value_and_token("infeed", shape)


def _value_and_token(op: str, shape: Shape) -> TupleShape:
    check_supported_layout(op, "shape", shape)
    return TupleShape((without_layout(shape), TOKEN_SHAPE))


@public
def infeed_with_token(token: Shape, shape: Shape) -> TupleShape:
    """Shape of what an infeed gives after a token: the value, and a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.infeed_with_token(xb.TOKEN_SHAPE, xb.f32[2, 3])
        (f32[2,3], token[])
    """
    _need_token(Check("infeed_with_token", token=token), "token")
    return _value_and_token("infeed_with_token", shape)


def _need_compatible(check: Check, shape_with_layout: Shape) -> None:
    operand = check.shapes["operand"]
    if not same_shape.strict(operand, shape_with_layout):
        check.fail(
            f"shape_with_layout must be the operand's shape but for layouts, {operand}, "
            f"got {shape_with_layout}"
        )
    check_supported_layout(check.op, "shape_with_layout", shape_with_layout)


@public
def outfeed(operand: Shape, shape_with_layout: Shape) -> TokenShape:
    """Shape of what an outfeed gives: a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.outfeed(xb.f32[2, 3], xb.f32[2, 3])
        token[]
    """
    _need_compatible(Check("outfeed", operand=operand), shape_with_layout)
    return TOKEN_SHAPE


@public
def outfeed_with_token(operand: Shape, token: Shape, shape_with_layout: Shape) -> TokenShape:
    """Shape of what an outfeed gives after a token: a token.

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


def _need_channel(check: Check, channel_handle: ChannelHandle, kind: ChannelType) -> None:
    if channel_handle.type is not kind:
        words = kind.name.lower().replace("_", "-")
        check.fail(
            f"channel_handle must be a {words} channel, got {channel_handle!r}",
            fix=f"xb.ChannelHandle({channel_handle.handle}, xb.ChannelType.{kind.name})",
        )


@public
def send(operand: Shape, channel_handle: ChannelHandle) -> TokenShape:
    """Shape of what a send gives: no data, but a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.send(xb.f32[2], xb.ChannelHandle(1))
        token[]
    """
    check = Check("send", operand=operand)
    check.array("operand")
    _need_channel(check, channel_handle, ChannelType.DEVICE_TO_DEVICE)
    return TOKEN_SHAPE


@public
def send_with_token(operand: Shape, token: Shape, channel_handle: ChannelHandle) -> TokenShape:
    """Shape of what a send gives after a token: a token.

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1)
        >>> xb.shape_inference.host.send_with_token(xb.f32[2], xb.TOKEN_SHAPE, channel)
        token[]
    """
    check = Check("send_with_token", operand=operand, token=token)
    check.array("operand")
    _need_token(check, "token")
    _need_channel(check, channel_handle, ChannelType.DEVICE_TO_DEVICE)
    return TOKEN_SHAPE


@public
def recv(shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    """Shape of what a recv gives: the value received, and a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.recv(xb.f32[2], xb.ChannelHandle(1))
        (f32[2], token[])
    """
    check = Check("recv", shape=shape)
    check.array("shape")
    _need_channel(check, channel_handle, ChannelType.DEVICE_TO_DEVICE)
    return _value_and_token("recv", shape)


@public
def recv_with_token(token: Shape, shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    """Shape of what a recv gives after a token: the value received, and a token.

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1)
        >>> xb.shape_inference.host.recv_with_token(xb.TOKEN_SHAPE, xb.f32[2], channel)
        (f32[2], token[])
    """
    check = Check("recv_with_token", token=token, shape=shape)
    check.array("shape")
    _need_token(check, "token")
    _need_channel(check, channel_handle, ChannelType.DEVICE_TO_DEVICE)
    return _value_and_token("recv_with_token", shape)


@public
def send_to_host(
    operand: Shape, token: Shape, shape_with_layout: Shape, channel_handle: ChannelHandle
) -> TokenShape:
    """Shape of what a send to the host gives: a token.

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1, xb.ChannelType.DEVICE_TO_HOST)
        >>> shape = xb.f32[2]
        >>> xb.shape_inference.host.send_to_host(shape, xb.TOKEN_SHAPE, shape, channel)
        token[]
    """
    check = Check("send_to_host", operand=operand, token=token)
    _need_compatible(check, shape_with_layout)
    check.array("operand")
    _need_token(check, "token")
    _need_channel(check, channel_handle, ChannelType.DEVICE_TO_HOST)
    return TOKEN_SHAPE


@public
def recv_from_host(token: Shape, shape: Shape, channel_handle: ChannelHandle) -> TupleShape:
    """Shape of what comes from the host: the value received, and a token.

    Example:
        >>> import builder as xb
        >>> channel = xb.ChannelHandle(1, xb.ChannelType.HOST_TO_DEVICE)
        >>> xb.shape_inference.host.recv_from_host(xb.TOKEN_SHAPE, xb.f32[2], channel)
        (f32[2], token[])
    """
    check = Check("recv_from_host", token=token, shape=shape)
    check.array("shape")
    _need_token(check, "token")
    _need_channel(check, channel_handle, ChannelType.HOST_TO_DEVICE)
    return _value_and_token("recv_from_host", shape)


@public
def custom_call(
    target_name: str,
    operands: Sequence[Shape],
    shape: Shape,
    operand_shapes_with_layout: Sequence[Shape] | None = None,
    output_operand_aliasing: Sequence[OutputOperandAliasing] = (),
) -> Shape:
    """Shape of what a custom call gives: the one that it is said to give.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.custom_call("myfunc", [xb.f32[2], xb.f32[2, 3]], xb.f32[3, 3])
        f32[3,3]
    """
    check = Check.numbered("custom_call", "operand", operands)
    if target_name.startswith("$"):
        check.fail(
            f"target_name must not begin with '$', which XLA keeps for itself, got {target_name!r}"
        )
    if operand_shapes_with_layout is not None and len(operand_shapes_with_layout) != len(operands):
        check.fail(
            f"operand_shapes_with_layout must have one shape for each operand: {len(operands)}, "
            f"got {len(operand_shapes_with_layout)}"
        )
    for number, laid_out in enumerate(operand_shapes_with_layout or ()):
        if not same_shape.strict(operands[number], laid_out):
            check.fail(
                f"operand_shapes_with_layout must be the operands' shapes but for layouts, "
                f"got {laid_out} for operand {number}"
            )
        check_supported_layout("custom_call", "operand_shapes_with_layout", laid_out)
    check_supported_layout("custom_call", "shape", shape)
    result = without_layout(shape)
    taken: set[tuple[int, ...]] = set()
    for alias in output_operand_aliasing:
        output = _part(check, "output_index", result, alias.output_index)
        if not 0 <= alias.operand_number < len(operands):
            check.fail(
                f"output_operand_aliasing's operand_number must be that of an operand, "
                f"got {alias.operand_number} of {len(operands)}"
            )
        operand = operands[alias.operand_number]
        source = _part(check, "operand_index", operand, alias.operand_index)
        if output is not source:
            check.fail(
                f"output_operand_aliasing must pair equal shapes, got {output} of the result and "
                f"{source} of operand {alias.operand_number}"
            )
        if alias.output_index in taken:
            check.fail(
                f"output_operand_aliasing must name a part of the result once, "
                f"got {alias.output_index} twice"
            )
        taken.add(alias.output_index)
    return result


@public
def python_call(operands: Sequence[Shape], shape: Shape) -> Shape:
    """Shape of what a Python function gives: the one that it is said to give.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.host.python_call([xb.f32[8]], xb.s32[()])
        s32[]
    """
    check = Check.numbered("python_call", "operand", operands, shape=shape)
    for name, one in check.shapes.items():
        if not one.is_static:
            check.fail(
                f"{name} must have static sizes, got {one}",
                fix="pass the array in its largest size, and the size beside it as an s32[]",
            )
    return without_layout(shape)


def _part(check: Check, name: str, shape: Shape, index: tuple[int, ...]) -> ArrayShape:
    """The array at a place in a nested tuple."""
    part = shape
    for number in index:
        if not isinstance(part, TupleShape) or not 0 <= number < len(part.elements):
            check.fail(f"output_operand_aliasing's {name} must be a place in {shape}, got {index}")
        part = part.elements[number]
    if not isinstance(part, ArrayShape):
        check.fail(
            f"output_operand_aliasing's {name} must be the place of an array in {shape}, "
            f"got {index}"
        )
    return part
