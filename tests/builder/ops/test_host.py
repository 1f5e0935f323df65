"""Tokens, infeed and outfeed, send and recv, custom calls: shapes, recorded ops, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.attributes.host import ffi_dictionary

TO_HOST, FROM_HOST = xb.ChannelType.DEVICE_TO_HOST, xb.ChannelType.HOST_TO_DEVICE


@pytest.fixture
def b() -> xb.XlaBuilder:
    return xb.XlaBuilder("host")


def opcodes(b: xb.XlaBuilder) -> list[str]:
    return [op.opcode for op in b.ops]


# Tokens.


def test_create_token_and_after_all(b: xb.XlaBuilder) -> None:
    tokens = [b.create_token() for _ in range(3)]
    assert tokens[0].shape is xb.TOKEN_SHAPE
    assert tokens[0].opcode == "create_token"
    for joined in (xb.after_all(*tokens), xb.after_all(tokens), xb.after_all(tokens[0])):
        assert joined.shape is xb.TOKEN_SHAPE
        assert joined.opcode == "after_all"
    assert xb.after_all(*tokens).operands == tuple(tokens)


def test_create_token_is_recorded_in_the_open_builder(b: xb.XlaBuilder) -> None:
    tokens: list[xb.XlaOp] = []

    def body(token: xb.XlaOp) -> xb.XlaOp:
        tokens.append(b.create_token())
        return xb.after_all(token, tokens[0])

    xb.call(body, b.create_token())
    assert tokens[0].builder is not b
    b.build()
    with pytest.raises(xb.BuilderError, match="create_token: builder 'host' was already built"):
        b.create_token()


# Infeed and outfeed.


def test_infeed(b: xb.XlaBuilder) -> None:
    first = b.infeed(xb.f32[2, 3], "config")
    second = b.infeed("(s32[], f32[4])")
    assert str(first.shape) == "f32[2,3]"
    assert str(second.shape) == "(s32[], f32[4])"
    assert opcodes(b) == [
        *("create_token", "infeed", "get_tuple_element", "get_tuple_element"),
        *("infeed", "get_tuple_element", "get_tuple_element"),
    ]
    received = b.ops[1]
    assert str(received.shape) == "(f32[2,3], token[])"
    assert received.attributes["infeed_config"] == "config"
    # The second infeed depends on the first.
    assert b.ops[4].operands == (b.ops[2],)
    assert str(b.infeed("()").shape) == "()"


def test_infeed_preserves_the_layout_of_the_data(b: xb.XlaBuilder) -> None:
    assert str(b.infeed("f32[2,3]{0,1}").shape) == "f32[2,3]"
    assert str(b.ops[1].shape) == "(f32[2,3], token[])"
    text = str(b.build())
    assert "(f32[2,3]{0,1}, token[]) infeed(" in text


def test_infeed_after_a_failure(b: xb.XlaBuilder) -> None:
    with pytest.raises(xb.SignatureError):
        xb.while_(lambda s: b.infeed(xb.s32[()]), lambda s: s, b.constant(1, xb.s32))
    value = b.infeed(xb.s32[()])
    assert value.operands[0].operands[0].opcode == "create_token"
    b.build(value)


def test_infeed_with_token(b: xb.XlaBuilder) -> None:
    token = b.create_token()
    for shape in ("f32[2]", "()", "((s32[], f32[]), s8[2])", "(token[], f32[<=3])"):
        op = xb.infeed_with_token(token, shape)
        assert str(op.shape) == f"({shape}, token[])"
        assert op.operands == (token,)
    one, other = (xb.infeed_with_token(token, xb.f32[2]) for _ in range(2))
    assert one.attributes is other.attributes


def test_outfeed(b: xb.XlaBuilder) -> None:
    x = b.parameter("(f32[2,3], s32[])")
    first = xb.outfeed(x, None, "config")
    second = xb.outfeed(x[0], "f32[2,3]{0,1}")
    assert first.shape is second.shape is xb.TOKEN_SHAPE
    assert second.operands[1] is first
    assert first.attributes["outfeed_config"] == "config"
    after = xb.outfeed_with_token(x, second, "(f32[2,3], s32[])")
    assert after.operands == (x, second)
    text = str(b.build(after))
    assert 'outfeed_shape=(f32[2,3]{1,0}, s32[]), outfeed_config="config"' in text
    assert "outfeed_shape=f32[2,3]{0,1}" in text


def test_infeeds_and_outfeeds_have_separate_tokens(b: xb.XlaBuilder) -> None:
    token = xb.outfeed(b.infeed(xb.f32[2]))
    assert token.operands[1].opcode == "create_token"


# Send and recv.


def test_send_and_recv(b: xb.XlaBuilder) -> None:
    x, token = b.parameter(xb.f32[2, 3]), b.create_token()
    assert xb.send(x, 1).shape is xb.TOKEN_SHAPE
    assert xb.send_with_token(x, token, xb.ChannelHandle(2)).operands == (x, token)
    assert xb.send_to_host(x, token, "f32[2,3]{0,1}", 3).shape is xb.TOKEN_SHAPE
    received = b.recv(xb.f32[2, 3], 4)
    assert received.shape is xb.f32[2, 3]
    assert str(xb.recv_with_token(token, xb.f32[2], 5).shape) == "(f32[2], token[])"
    last = xb.recv_from_host(token, "f32[2,3]{0,1}", xb.ChannelHandle(6, FROM_HOST))
    assert str(last.shape) == "(f32[2,3], token[])"
    channels = [
        op.attributes["channel_handle"] for op in b.ops if "channel_handle" in op.attributes
    ]
    assert [c.handle for c in channels] == [*range(1, 7)]
    assert [int(c.type) for c in channels] == [1, 1, 2, 1, 1, 3]
    text = str(b.build(last))
    assert "(f32[2,3]{1,0}, u32[], token[]) send(%p0, %after-all.2), channel_id=1\n" in text
    assert "token[] send-done(%send.3.start), channel_id=1\n" in text
    assert "(f32[2,3]{0,1}, u32[], token[]) recv(%after-all.1), channel_id=6, is_host_tr" in text


# Custom calls.


@each_row("shape", ["f32[3,3]", "(f32[], (s8[2], token[]))", "()", "token[]", "f32[<=4]", "f32[?]"])
def test_custom_call_has_the_requested_shape(b: xb.XlaBuilder, shape: str) -> None:
    x, y = b.parameter(xb.f32[2]), b.parameter("(f32[2,3], token[])")
    op = xb.custom_call("myfunc", [x, y], shape)
    assert str(op.shape) == shape
    assert op.operands == (x, y)
    assert str(xb.custom_call("myfunc", x, shape).shape) == shape
    assert str(b.custom_call("myfunc", shape, has_side_effect=True).shape) == shape


def test_attributes_of_a_custom_call(b: xb.XlaBuilder) -> None:
    x = b.parameter(xb.f32[4, 2])

    @xb.computation(xb.f32[()])
    def helper(v: xb.XlaOp) -> xb.XlaOp:
        return v

    op = xb.custom_call(
        "f",
        x,
        "f32[4,2]{0,1}",
        opaque='o"x',
        has_side_effect=True,
        api_version="API_VERSION_STATUS_RETURNING",
        operand_shapes_with_layout=["f32[4,2]{0,1}"],
        computation=helper,
        output_operand_aliasing=[((), (0, ()))],
        schedule=xb.CustomCallSchedule.SCHEDULE_EARLIEST,
    )
    assert op.shape is xb.f32[4, 2]
    assert op.called_computations == (helper,)
    assert op.attributes["api_version"] is xb.CustomCallApiVersion.API_VERSION_STATUS_RETURNING
    line = next(line for line in str(b.build(op)).splitlines() if "custom-call(" in line)
    assert line.strip() == (
        "ROOT %custom-call.1 = f32[4,2]{0,1} custom-call(%p0), "
        'custom_call_target="f", operand_layout_constraints={f32[4,2]{0,1}}, '
        "custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})}, "
        "called_computations={%helper}, schedule=SCHEDULE_EARLIEST, "
        'api_version=API_VERSION_STATUS_RETURNING, backend_config="o\\"x"'
    )


def test_equal_custom_calls_share_their_attributes(b: xb.XlaBuilder) -> None:
    x = b.parameter(xb.f32[2])
    calls = [xb.custom_call("f", x, xb.f32[2], attributes={"axes": [1, 2]}) for _ in range(2)]
    assert calls[0].attributes is calls[1].attributes


def test_attributes_select_the_typed_ffi(b: xb.XlaBuilder) -> None:
    x = b.parameter(xb.f32[2])
    typed = xb.custom_call("f", x, xb.f32[2], attributes={})
    assert typed.attributes["api_version"] is xb.CustomCallApiVersion.API_VERSION_TYPED_FFI
    plain = xb.custom_call("f", x, xb.f32[2])
    assert plain.attributes["api_version"] is xb.CustomCallApiVersion.API_VERSION_ORIGINAL


@each_row(
    "value, text",
    [
        (True, "true"),
        (np.False_, "false"),
        (-3, "-3 : i64"),
        (2.5, "2.5 : f64"),
        (1e300, "1.0e+300 : f64"),
        (float("-inf"), "0xFFF0000000000000 : f64"),
        (np.float32("nan"), "0x7FC00000 : f32"),
        (np.uint8(200), "200 : ui8"),
        (np.int16(-1), "-1 : i16"),
        ('a"\\\n{é', '"a\\22\\5C\\0A\\7B\\C3\\A9"'),
        ([1, 2], "array<i64: 1, 2>"),
        ((1, 2.5), "array<f64: 1.0, 2.5>"),
        ([True], "array<i1: true>"),
        ([], "array<i64>"),
        (np.array([1, 2], np.float32), "array<f32: 1.0, 2.0>"),
        (np.array([1, 2], np.uint16), "dense<[1, 2]> : tensor<2xui16>"),
        ({"x": {}}, "{x = {}}"),
    ],
)
def test_attribute_texts(value: Any, text: str) -> None:
    assert ffi_dictionary("custom_call", {"name": value}) == f"{{name = {text}}}"


def test_aliasing_of_parts(b: xb.XlaBuilder) -> None:
    pair = b.parameter("(f32[2], s32[])")
    op = xb.custom_call(
        "f",
        [b.create_token(), pair],
        "(s32[], (f32[2]))",
        output_operand_aliasing=[xb.OutputOperandAliasing((1, 0), 1, (0,)), ([0], (1, [1]))],
    )
    assert op.attributes["output_operand_aliasing"][1] == xb.OutputOperandAliasing((0,), 1, (1,))
    assert "output_to_operand_aliasing={{1,0}: (1, {0}), {0}: (1, {1})}" in str(b.build(op))


def test_python_call(b: xb.XlaBuilder) -> None:
    x = b.parameter("(f32[2], token[])")
    op = xb.python_call(np.sort, [x, b.create_token()], ["f32[2]", "s32[]"], has_side_effect=True)
    assert str(op.shape) == "(f32[2], s32[])"
    assert op.attributes["function"] is np.sort
    assert str(b.python_call(lambda: 1, "s32[3]{0}").shape) == "s32[3]"
    text = str(b.build(op))
    assert 'custom_call_target="xlabuilder.python_call", custom_call_has_side_effect=true' in text
    assert 'backend_config={name = "sort"}' in text


# Refusals.


class Host:
    """Operands of the calls below."""

    def __init__(self) -> None:
        self.b = b = xb.XlaBuilder("host")
        self.x, self.token = b.parameter(xb.f32[2, 3], "x"), b.create_token()
        self.pair = xb.tuple(self.x, self.token)


def sharded(sharding: str, call: Callable[[Host], Any]) -> Callable[[Host], Any]:
    def with_sharding(h: Host) -> Any:
        with h.b.sharding(sharding):
            return call(h)

    return with_sharding


SHAPE, OPERAND = xb.ShapeInferenceError, xb.OperandError
D2H = xb.ChannelHandle(1, TO_HOST)
CALL = xb.custom_call

REFUSED: dict[str, tuple[Callable[[Host], Any], type[Exception], str]] = {
    # AfterAll takes tokens.
    "after_all: none": (
        lambda h: xb.after_all(),
        SHAPE,
        "after_all: at least one token is needed, got none\nfix: record a token without operands",
    ),
    "after_all: an array": (
        lambda h: xb.after_all(h.token, h.x),
        SHAPE,
        (
            "after_all: operand 1 must be a token, got f32[2,3]\n  operand 0 token[]\n"
            "  operand 1 f32[2,3]\nfix: create the first token with builder.create_token()"
        ),
    ),
    "after_all: a tuple": (
        lambda h: xb.after_all(xb.tuple(h.token)),
        SHAPE,
        "after_all: operand 0 must be a token, got (token[])",
    ),
    "after_all: not an op": (
        lambda h: xb.after_all(3),
        OPERAND,
        "after_all: operand 0 must be an Xla",
    ),
    # Infeed: nested tuples are not supported.
    "infeed: nested": (
        lambda h: h.b.infeed("((f32[2]), s32[])"),
        SHAPE,
        "infeed: shape must not be a tuple of tuples, got\n  shape ((f32[2]), s32[])\nfix: use a",
    ),
    "infeed: an empty tuple in a tuple": (
        lambda h: h.b.infeed("((), s32[])"),
        SHAPE,
        "infeed: shape must not be a tuple of tuples",
    ),
    "infeed: not a shape": (lambda h: h.b.infeed(3), OPERAND, "infeed: shape: expected a shape"),
    "infeed: element type": (
        lambda h: h.b.infeed(xb.f32),
        OPERAND,
        "infeed: shape: expected a shape, got the element type f32",
    ),
    "infeed: text": (
        lambda h: h.b.infeed("f32[-1]"),
        xb.ShapeTextError,
        "infeed: shape: shape text: expected",
    ),
    "infeed: config": (
        lambda h: h.b.infeed(xb.f32[2], 3),
        OPERAND,
        "infeed: config must be a string or bytes, got 3",
    ),
    "infeed: replicated": (
        sharded("{replicated}", lambda h: h.b.infeed(xb.f32[2])),
        SHAPE,
        "infeed: an infeed must not be replicated, got sharding {replicated}\nfix: record the",
    ),
    "infeed: replicated, with spaces and metadata": (
        sharded('{ replicated metadata={op_name="x"}}', lambda h: h.b.infeed(xb.f32[2])),
        SHAPE,
        "infeed: an infeed must not be replicated, got sharding {replicated}\nfix: record the",
    ),
    "infeed_with_token: tiled": (
        sharded("{devices=[2]<=[2]}", lambda h: xb.infeed_with_token(h.token, xb.f32[2])),
        SHAPE,
        "infeed_with_token: an infeed of an array must not be tiled, got sharding {devices=",
    ),
    "infeed_with_token: not a token": (
        lambda h: xb.infeed_with_token(h.x, xb.f32[2]),
        SHAPE,
        "infeed_with_token: token must be a token, got f32[2,3]",
    ),
    "infeed_with_token: a pair": (
        lambda h: xb.infeed_with_token(h.pair, xb.f32[2]),
        SHAPE,
        "infeed_with_token: token must be a token, got (f32[2,3], token[])",
    ),
    "infeed_with_token: None": (
        lambda h: xb.infeed_with_token(None, xb.f32[2]),
        OPERAND,
        "infeed_with_token: token must be an XlaOp, got NoneType",
    ),
    # Outfeed.
    "outfeed: sizes": (
        lambda h: xb.outfeed(h.x, "f32[3,2]"),
        SHAPE,
        (
            "outfeed: shape_with_layout must be the operand's shape apart from layouts, f32[2,3], "
            "got f32[3,2]\n  operand f32[2,3]"
        ),
    ),
    "outfeed: type": (
        lambda h: xb.outfeed(h.x, "s32[2,3]"),
        SHAPE,
        "outfeed: shape_with_layout mu",
    ),
    "outfeed: tuple": (lambda h: xb.outfeed(h.x, "(f32[2,3])"), SHAPE, "outfeed: shape_with_layou"),
    "outfeed: not a shape": (
        lambda h: xb.outfeed(h.x, 1),
        OPERAND,
        "outfeed: shape_with_layout: exp",
    ),
    "outfeed: not an op": (lambda h: xb.outfeed(1.0), OPERAND, "outfeed: operand must be an XlaOp"),
    "outfeed: config": (
        lambda h: xb.outfeed(h.x, None, 3),
        OPERAND,
        "outfeed: outfeed_config must be a string or bytes, got 3",
    ),
    "outfeed_with_token: sizes": (
        lambda h: xb.outfeed_with_token(h.x, h.token, "f32[]"),
        SHAPE,
        "outfeed_with_token: shape_with_layout must be the operand's shape apart from layouts",
    ),
    "outfeed_with_token: not a token": (
        lambda h: xb.outfeed_with_token(h.x, h.x),
        SHAPE,
        "outfeed_with_token: token must be a token, got f32[2,3]",
    ),
    # Send and recv: arrays, of channels between devices.
    "send: a tuple": (
        lambda h: xb.send(h.pair, 1),
        SHAPE,
        "send: operand must be an array, got a t",
    ),
    "send: a token": (
        lambda h: xb.send(h.token, 1),
        SHAPE,
        "send: operand must be an array, got a",
    ),
    "send: not a channel": (
        lambda h: xb.send(h.x, None),
        SHAPE,
        "send: channel_handle must be a ChannelHandle or its number, got None\nfix: pass xb.Cha",
    ),
    "send: channel 0": (lambda h: xb.send(h.x, 0), SHAPE, "send: "),
    "send: channel of text": (lambda h: xb.send(h.x, "one"), SHAPE, "send: "),
    "send: to host": (
        lambda h: xb.send(h.x, D2H),
        SHAPE,
        (
            "send: channel_handle must be a device-to-device channel, got ChannelHandle(handle=1, "
            "type=ChannelType.DEVICE_TO_HOST)\n  operand f32[2,3]\n"
            "fix: write xb.ChannelHandle(1, xb.ChannelType.DEVICE_TO_DEVICE)"
        ),
    ),
    "send_with_token: to host": (
        lambda h: xb.send_with_token(h.x, h.token, D2H),
        SHAPE,
        "send_with_token: channel_handle must be a device-to-device channel",
    ),
    "send_with_token: not a token": (
        lambda h: xb.send_with_token(h.x, h.x, 1),
        SHAPE,
        "send_with_token: token must be a token, got f32[2,3]",
    ),
    "send_with_token: a tuple": (
        lambda h: xb.send_with_token(h.pair, h.token, 1),
        SHAPE,
        "send_with_token: operand must be an array, got a tuple",
    ),
    "send_to_host: sizes": (
        lambda h: xb.send_to_host(h.x, h.token, "f32[3]", 1),
        SHAPE,
        "send_to_host: shape_with_layout must be the operand's shape apart from layouts",
    ),
    "send_to_host: a tuple": (
        lambda h: xb.send_to_host(h.pair, h.token, "(f32[2,3], token[])", 1),
        SHAPE,
        "send_to_host: operand must be an array, got a tuple",
    ),
    "send_to_host: not a token": (
        lambda h: xb.send_to_host(h.x, h.x, "f32[2,3]", 1),
        SHAPE,
        "send_to_host: token must be a token",
    ),
    "send_to_host: between devices": (
        lambda h: xb.send_to_host(h.x, h.token, "f32[2,3]", xb.ChannelHandle(1)),
        SHAPE,
        "send_to_host: channel_handle must be a device-to-host channel",
    ),
    "recv: a tuple": (
        lambda h: h.b.recv("(f32[])", 1),
        SHAPE,
        "recv: shape must be an array, got ",
    ),
    "recv: not a shape": (lambda h: h.b.recv(None, 1), OPERAND, "recv: shape: expected a shape"),
    "recv: not a channel": (
        lambda h: h.b.recv(xb.f32[2], None),
        SHAPE,
        "recv: channel_handle must be",
    ),
    "recv: to host": (
        lambda h: h.b.recv(xb.f32[2], D2H),
        SHAPE,
        "recv: channel_handle must be a device-to-device channel",
    ),
    "recv_with_token: a token": (
        lambda h: xb.recv_with_token(h.token, "token[]", 1),
        SHAPE,
        "recv_with_token: shape must be an array, got a token",
    ),
    "recv_with_token: not a token": (
        lambda h: xb.recv_with_token(h.x, xb.f32[2], 1),
        SHAPE,
        "recv_with_token: token must be a token",
    ),
    "recv_with_token: to host": (
        lambda h: xb.recv_with_token(h.token, xb.f32[2], D2H),
        SHAPE,
        "recv_with_token: channel_handle must be a device-to-device channel",
    ),
    "recv_from_host: a tuple": (
        lambda h: xb.recv_from_host(h.token, "()", 1),
        SHAPE,
        "recv_from_host: shape must be an array, got a tuple",
    ),
    "recv_from_host: not a token": (
        lambda h: xb.recv_from_host(h.x, xb.f32[2], 1),
        SHAPE,
        "recv_from_host: token must be a token",
    ),
    "recv_from_host: to host": (
        lambda h: xb.recv_from_host(h.token, xb.f32[2], D2H),
        SHAPE,
        "recv_from_host: channel_handle must be a host-to-device channel",
    ),
    # CustomCall.
    "custom_call: dollar": (
        lambda h: CALL("$f", h.x, "f32[]"),
        SHAPE,
        "custom_call: target_name must not begin with '$', which XLA reserves, got '$f'",
    ),
    "custom_call: name": (
        lambda h: CALL(b"f", h.x, "f32[]"),
        OPERAND,
        "custom_call: target_name must be a string, got b'f'",
    ),
    "custom_call: no operand": (
        lambda h: CALL("f", [], "f32[]"),
        OPERAND,
        "custom_call: at least one operand is needed to determine the builder, got none\nfix: ",
    ),
    "custom_call: not an op": (
        lambda h: CALL("f", [h.x, 1.0], "f32[]"),
        OPERAND,
        "custom_call: operand 1 must be an XlaOp, got float",
    ),
    "custom_call: not a shape": (
        lambda h: CALL("f", h.x, None),
        OPERAND,
        "custom_call: shape: expected a shape",
    ),
    "custom_call: opaque": (
        lambda h: CALL("f", h.x, "f32[]", opaque={"a": 1}),
        OPERAND,
        "custom_call: opaque must be a string or bytes, got {'a': 1}",
    ),
    "custom_call: a surrogate without a byte": (
        lambda h: CALL("f", h.x, "f32[]", opaque="\ud800"),
        OPERAND,
        "custom_call: opaque must be a string that UTF-8 can encode, or bytes, got '\\ud800'\n",
    ),
    "custom_call: bytes in a dictionary": (
        lambda h: CALL("f", h.x, "f32[]", opaque=b'{a = "\xff"}', api_version=4),
        SHAPE,
        "custom_call: opaque of a typed FFI call must be text, got bytes that are not UTF-8",
    ),
    "custom_call: side effect": (
        lambda h: CALL("f", h.x, "f32[]", has_side_effect=1),
        SHAPE,
        "custom_call: has_side_effect must be True or False, got 1",
    ),
    "custom_call: version": (
        lambda h: CALL("f", h.x, "f32[]", api_version=5),
        SHAPE,
        "custom_call: api_version must be one of API_VERSION_ORIGINAL, API_VERSION_STATUS_RETURN",
    ),
    "custom_call: version's name": (
        lambda h: CALL("f", h.x, "f32[]", api_version="ORIGINAL"),
        SHAPE,
        "custom_call: api_version must be one of",
    ),
    "custom_call: schedule": (
        lambda h: CALL("f", h.x, "f32[]", schedule=None),
        SHAPE,
        "custom_call: schedule must be one of SCHEDULE_NONE, SCHEDULE_LATEST, SCHEDULE_EARLIEST",
    ),
    "custom_call: computation": (
        lambda h: CALL("f", h.x, "f32[]", computation=lambda v: v),
        OPERAND,
        "custom_call: computation must be an XlaComputation, got <function",
    ),
    "custom_call: fewer layouts": (
        lambda h: CALL("f", h.x, "f32[]", operand_shapes_with_layout=[]),
        SHAPE,
        "custom_call: operand_shapes_with_layout must have one entry for each operand: 1, got 0",
    ),
    "custom_call: more layouts": (
        lambda h: h.b.custom_call("f", "f32[]", operand_shapes_with_layout=["f32[]"]),
        SHAPE,
        "custom_call: operand_shapes_with_layout must have one entry for each operand: 0, got 1",
    ),
    "custom_call: layouts of other shapes": (
        lambda h: CALL("f", h.x, "f32[]", operand_shapes_with_layout=["f32[7,7]{0,1}"]),
        SHAPE,
        (
            "custom_call: operand_shapes_with_layout must be the operands' shapes apart from "
            "layouts, got f32[7,7]{0,1} for operand 0"
        ),
    ),
    "custom_call: layouts as text": (
        lambda h: CALL("f", h.x, "f32[]", operand_shapes_with_layout="f32[]"),
        OPERAND,
        "custom_call: operand_shapes_with_layout must be a sequence of shapes, got 'f32[]'",
    ),
    "custom_call: attributes of an untyped call": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a": 1}, api_version=1),
        SHAPE,
        "custom_call: attributes require API_VERSION_TYPED_FFI, got API_VERSION_ORIGINAL\nfix",
    ),
    "custom_call: attributes and opaque": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a": 1}, opaque="x"),
        SHAPE,
        "custom_call: at most one of opaque and attributes is allowed, got opaque='x'",
    ),
    "custom_call: attributes of a list": (
        lambda h: CALL("f", h.x, "f32[]", attributes=["a"]),
        SHAPE,
        "custom_call: attributes must map names to values, got ['a']",
    ),
    "custom_call: an attribute's name": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a b": 1}),
        SHAPE,
        "custom_call: the name of an attribute must consist of letters, digits, '_', '$' and '.'",
    ),
    "custom_call: an attribute of an unsupported type": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a": 1j}),
        SHAPE,
        "custom_call: attribute 'a' must be a bool, a string, a number of type int, float, int8",
    ),
    "custom_call: an attribute of rank 2": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a": np.zeros((2, 2))}),
        SHAPE,
        "custom_call: attribute 'a' must be a bool, a string,",
    ),
    "custom_call: a mixed attribute": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a": [1, "b"]}),
        SHAPE,
        "custom_call: attribute 'a' must be",
    ),
    "custom_call: a large int": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a": 2**63}),
        SHAPE,
        "custom_call: attribute 'a' must fit the int64_t that the handler receives, got 922337203",
    ),
    "custom_call: a lone surrogate": (
        lambda h: CALL("f", h.x, "f32[]", attributes={"a": "\ud800"}),
        SHAPE,
        "custom_call: attribute 'a' must be a string that UTF-8 can encode",
    ),
    "custom_call: alias of unequal shapes": (
        lambda h: CALL("f", h.x, "f32[3,2]", output_operand_aliasing=[((), (0, ()))]),
        SHAPE,
        "custom_call: output_operand_aliasing must pair equal shapes, got f32[3,2] of the result",
    ),
    "custom_call: alias of a missing operand": (
        lambda h: CALL("f", h.x, "f32[2,3]", output_operand_aliasing=[((), (1, ()))]),
        SHAPE,
        (
            "custom_call: output_operand_aliasing's operand_number must be at least 0 and "
            "less than the number of operands, 1, got 1"
        ),
    ),
    "custom_call: alias of a missing element": (
        lambda h: CALL("f", h.x, "(f32[2,3])", output_operand_aliasing=[((1,), (0, ()))]),
        SHAPE,
        "custom_call: output_operand_aliasing's output_index must be the index of an array",
    ),
    "custom_call: alias of a token": (
        lambda h: CALL("f", h.token, "token[]", output_operand_aliasing=[((), (0, ()))]),
        SHAPE,
        "custom_call: output_operand_aliasing's output_index must be the index of an array",
    ),
    "custom_call: alias twice": (
        lambda h: CALL("f", [h.x, h.x], h.x.shape, output_operand_aliasing=[((), (0, ()))] * 2),
        SHAPE,
        (
            "custom_call: output_operand_aliasing must name each part of the result at most once, "
            "got () twice"
        ),
    ),
    "custom_call: alias of another form": (
        lambda h: CALL("f", h.x, h.x.shape, output_operand_aliasing=[0]),
        SHAPE,
        "custom_call: output_operand_aliasing must be a sequence of OutputOperandAliasing, or of p",
    ),
    "custom_call: alias as a number": (
        lambda h: CALL("f", h.x, h.x.shape, output_operand_aliasing=5),
        SHAPE,
        "custom_call: output_operand_aliasing must be a sequence",
    ),
    "custom_call: an unknown argument": (
        lambda h: h.b.custom_call("f", "f32[]", side_effects=True),
        OPERAND,
        "custom_call: unknown argument 'side_effects'\nfix: use one of opaque, has_side_eff",
    ),
    # Python functions.
    "python_call: not a callable": (
        lambda h: xb.python_call("f", h.x, "f32[]"),
        OPERAND,
        "python_call: function must be a Python callable, got 'f'",
    ),
    "python_call: a computation": (
        lambda h: xb.python_call(xb.computation(xb.f32[()])(lambda v: v), h.x, "f32[]"),
        OPERAND,
        "python_call: function must be a Python callable, got <XlaComputation",
    ),
    "python_call: no operand": (
        lambda h: xb.python_call(print, [], "f32[]"),
        OPERAND,
        "python_call: at least one operand is needed to determine the builder, got none\nfix: ",
    ),
    "python_call: not a shape": (
        lambda h: xb.python_call(print, h.x, 5),
        OPERAND,
        "python_call: shape: expected a shape",
    ),
    "python_call: side effect": (
        lambda h: xb.python_call(print, h.x, "f32[]", has_side_effect=None),
        SHAPE,
        "python_call: has_side_effect must be True or False, got None",
    ),
    "python_call: a bound": (
        lambda h: xb.python_call(print, h.x, "f32[<=3]"),
        SHAPE,
        "python_call: shape must have static sizes, got f32[<=3]",
    ),
    "python_call: a bounded operand": (
        lambda h: xb.python_call(print, h.b.parameter("f32[<=3]"), "f32[]"),
        SHAPE,
        "python_call: operand 0 must have static sizes, got f32[<=3]",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, message = REFUSED[name]
    host = Host()
    before = len(host.b.ops)
    with pytest.raises(error) as caught:
        call(host)
    assert str(caught.value).startswith(message)
    if not isinstance(caught.value, xb.ShapeTextError):
        assert caught.value.op == name.partition(":")[0]
    # Only the operands that the call expression recorded remain.
    assert all(op.opcode in ("parameter", "tuple") for op in host.b.ops[before:])


def endless() -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    attributes["again"] = attributes
    return attributes


def test_a_recursive_attribute(b: xb.XlaBuilder) -> None:
    with pytest.raises(xb.ShapeInferenceError, match="is nested too deep, or contains itself"):
        b.custom_call("f", "f32[]", attributes=endless())


def test_operands_of_another_builder(b: xb.XlaBuilder) -> None:
    x, token = b.parameter(xb.f32[2]), xb.XlaBuilder("other").create_token()
    for call in (
        lambda: xb.outfeed_with_token(x, token),
        lambda: xb.send_with_token(x, token, 1),
        lambda: xb.custom_call("f", [x, token], "f32[]"),
        lambda: xb.python_call(print, [x, token], "f32[]"),
        lambda: xb.after_all(b.create_token(), token),
    ):
        with pytest.raises(xb.BuilderError, match="operands belong to different builders"):
            call()
    b.build(x)
    for method in (b.infeed, lambda s: b.recv(s, 1), lambda s: b.custom_call("f", s)):
        with pytest.raises(xb.BuilderError, match="was already built"):
            method(xb.f32[2])
    with pytest.raises(xb.BuilderError, match="already built"):
        xb.outfeed(x)
