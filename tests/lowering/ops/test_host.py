"""Tokens, send, recv and custom calls in StableHLO, and the errors for those that a CPU can't run.

Execution of custom calls, infeeds and outfeeds is tested in test_custom_call.py and test_infeed.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import run, stablehlo_of_text, trusted_module
from tables import each_row

import builder as xb
import lowering
from lowering.jaxlib_api import hlo_conversion
from lowering.legalize.precompile_checks import check_compilable


def operations(module: lowering.StablehloModule) -> list[str]:
    """Return the StableHLO operations of a module as lines, without redundant attributes of XLA."""
    results = []
    for line in module.text.splitlines():
        _, equals, text = line.strip().partition("= ")
        if equals and text.lstrip('"').startswith("stablehlo."):
            text = text.replace("create_token", "after_all").replace(' {xla_shape = "token[]"}', "")
            text = text.replace(' {backend_config = ""}', "").replace('backend_config = "", ', "")
            text = text.replace(", is_host_transfer = false", "")
            results.append(" ".join(text.split()))
    return results


def operations_in_both(computation: xb.XlaComputation) -> list[str]:
    """Return the operations of the lowered module; the HLO text must convert to the same ones."""
    mine = operations(lowering.lower(computation))
    assert mine == operations(trusted_module(stablehlo_of_text(computation)))
    return mine


# Tokens.


def test_tokens_run() -> None:
    b = xb.XlaBuilder("tokens")
    given = b.parameter("(token[], f32[2])")
    many = xb.after_all(*(b.create_token() for _ in range(5)), given[0])
    root = xb.tuple(xb.tuple(many), given[1] + given[1], b.create_token())
    program = lowering.compile(b.build(root))
    (nothing,), doubled, none = program((None, np.array([1, 2], np.float32)))
    assert (nothing, none) == (None, None)
    assert np.asarray(doubled).tolist() == [2, 4]


def test_tokens_in_stablehlo() -> None:
    b = xb.XlaBuilder("tokens")
    root = xb.after_all(b.create_token(), b.create_token())
    assert operations_in_both(b.build(root)) == [
        *["stablehlo.after_all : !stablehlo.token"] * 2,
        "stablehlo.after_all %0, %1 : !stablehlo.token",
    ]


def test_tokens_through_control_flow() -> None:
    b = xb.XlaBuilder("flow")
    state = xb.tuple(b.constant(0, xb.s32), b.parameter("token[]"), b.create_token())

    def body(s: xb.XlaOp) -> tuple[xb.XlaOp, ...]:
        i, one, other = s
        return i + 1, xb.after_all(one, other), one

    looped = xb.while_(lambda s: s[0] < 7, body, state)
    chosen = xb.conditional(
        looped[0] > 3, looped, lambda s: (s[1], s[0]), looped, lambda s: (s[2], s[0])
    )
    called = xb.call(lambda pair: xb.tuple(pair[1], xb.after_all(pair[0])), chosen)
    program = lowering.compile(b.build(called))
    number, token = program(None)
    assert (int(number), token) == (7, None)


def test_a_token_is_returned_at_most_once() -> None:
    b = xb.XlaBuilder("twice")
    token = b.create_token()
    with pytest.raises(
        lowering.CompileError, match="the result must contain each token at most once"
    ):
        lowering.compile(b.build(xb.tuple(token, token)))
    b = xb.XlaBuilder("joined")
    token = b.create_token()
    program = lowering.compile(b.build(xb.tuple(token, xb.after_all(token))))
    assert program() == (None, None)


# Send and recv.


def transfers() -> xb.XlaComputation:
    b = xb.XlaBuilder("transfers")
    x = b.parameter(xb.f32[2, 3])
    last = xb.send(x, 1)
    last = xb.send_with_token(x, last, 2)
    last = xb.send_to_host(x, last, "f32[2,3]{0,1}", 3)
    received = b.recv(xb.s32[4], 4)
    more, last = xb.recv_with_token(last, xb.s8[()], 5)
    most, last = xb.recv_from_host(last, xb.bf16[2, 0], 6)
    return b.build(xb.tuple(received, more, most, last))


def test_send_and_recv_in_stablehlo() -> None:
    lines = operations(lowering.lower(transfers()))
    theirs = operations(trusted_module(stablehlo_of_text(transfers())))

    def unnumbered(all_lines: list[str]) -> list[str]:
        return sorted(re.sub(r"%[\w#:]+", "%", line) for line in all_lines)

    # XLA writes them in another order.
    assert unnumbered(lines) == unnumbered(theirs)
    with_channels = [line for line in lines if "channel_handle" in line]
    for line, (handle, kind) in zip(with_channels, enumerate([1, 1, 2, 1, 1, 3], 1), strict=True):
        assert f"handle = {handle}, type = {kind}>" in line
        assert ("is_host_transfer = true" in line) is (kind != 1)
    assert with_channels[0].endswith("(tensor<2x3xf32>, !stablehlo.token) -> !stablehlo.token")
    assert with_channels[5].endswith("(!stablehlo.token) -> (tensor<2x0xbf16>, !stablehlo.token)")


def test_saved_and_loaded() -> None:
    module = lowering.lower(transfers())
    assert lowering.load_bytes(module.artifact(version="minimum")).text == module.text


@each_row("name", ["send", "recv", "send_to_host", "recv_from_host"])
def test_send_and_recv_do_not_run_on_a_cpu(name: str) -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[2])
    if name == "send":
        xb.send(x, 1)
    elif name == "recv":
        b.recv(xb.f32[2], 1)
    elif name == "send_to_host":
        xb.send_to_host(x, b.create_token(), xb.f32[2], 1)
    else:
        xb.recv_from_host(b.create_token(), xb.f32[2], 1)
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(b.build())
    message = str(caught.value)
    assert message.startswith(f"compile: program: {name}, recorded at {__file__}:")
    refusal = f"can't run on cpu: XLA's CPU backend does not support {name[:4]}\n"
    assert f"{refusal}fix: use xb.collective_permute" in message
    assert ("xb.outfeed" if name.startswith("send") else "xb.infeed_with_token") in message
    assert caught.value.op == name


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_send_and_recv_on_other_platforms(platform: str) -> None:
    """A GPU's compiler requires pairs of source and target; a TPU's compiler aborts."""
    why = {"gpu": "XLA requires the attribute source_target_pairs", "tpu": "XLA's compiler aborts"}
    b = xb.XlaBuilder("between")
    xb.send(b.parameter(xb.f32[2]), 1)
    b.recv(xb.f32[2], 2)
    module = lowering.lower(b.build()).module
    with pytest.raises(lowering.CompileError, match=f"send, .* on {platform}: {why[platform]}"):
        check_compilable(module.operation, "between", platform)
    pairs = "{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_"
    text = str(module).replace("{channel_", pairs)
    assert text.count("source_target_pairs") == 2
    if platform == "gpu":
        check_compilable(lowering.load_bytes(text).module.operation, "between", platform)
    for name in ("send_to_host", "recv_from_host"):
        b = xb.XlaBuilder("program")
        if name == "send_to_host":
            xb.send_to_host(b.parameter(xb.f32[2]), b.create_token(), xb.f32[2], 1)
        else:
            xb.recv_from_host(b.create_token(), xb.f32[2], 1)
        module = lowering.lower(b.build()).module
        with pytest.raises(lowering.CompileError) as caught:
            check_compilable(module.operation, "program", platform)
        assert (
            f"can't run on {platform}: jaxlib has no interface for the host's side of the "
            "transfer\nfix: pass values as arguments and results"
        ) in str(caught.value)
        assert caught.value.op == name


@pytest.mark.parametrize("opcode", ["send", "recv"])
def test_sizes_that_are_not_fixed(opcode: str) -> None:
    b = xb.XlaBuilder("bounded")
    if opcode == "send":
        xb.send(b.parameter("f32[<=2]"), 1)
    else:
        b.recv("f32[<=2]", 1)
    with pytest.raises(lowering.LoweringError) as caught:
        lowering.lower(b.build())
    assert f"lower: {opcode}, recorded at {__file__}:" in str(caught.value)
    assert "transferred data must have static sizes in StableHLO, got f32[<=2]" in str(caught.value)


# Custom calls.


def call(*operands: Any, shape: Any = xb.f32[4, 2], **more: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("caller")
    given = [b.parameter(o) for o in operands or [xb.f32[4, 2]]]
    return b.build(xb.custom_call("f", given, shape, **more))


def operation_of(computation: xb.XlaComputation) -> str:
    (line,) = operations_in_both(computation)
    return line


def test_custom_calls_in_stablehlo() -> None:
    def vector(**more: Any) -> xb.XlaComputation:
        return call("f32[4]", shape="f32[4]", **more)

    arrow = "(tensor<4xf32>) -> tensor<4xf32>"
    assert operation_of(vector()) == f"stablehlo.custom_call @f(%arg0) : {arrow}"
    line = operation_of(vector(opaque='x"y', has_side_effect=True, api_version=3))
    assert '{api_version = 3 : i32, backend_config = "x\\22y", has_side_effect = true}' in line
    line = operation_of(vector(attributes={"b": 1, "a": [True, False]}))
    assert (
        "api_version = 4 : i32, backend_config = {a = array<i1: true, false>, b = 1 : i64}" in line
    )
    line = operation_of(vector(output_operand_aliasing=[((), (0, ()))]))
    assert "<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>" in line


def test_multidimensional_arrays_have_row_major_layouts() -> None:
    """In the HLO text, the layouts are left to XLA."""
    (line,) = operations(lowering.lower(call()))
    rows = "[dense<[1, 0]> : tensor<2xindex>]"
    assert line == (
        f"stablehlo.custom_call @f(%arg0) "
        f"{{operand_layouts = {rows}, result_layouts = {rows}}} : "
        "(tensor<4x2xf32>) -> tensor<4x2xf32>"
    )


def test_results_and_operands_are_flat() -> None:
    module = lowering.lower(
        call(
            "(f32[2], (s32[], token[]))",
            "f32[3]",
            shape="((s32[]), (f32[3], f32[2]))",
            output_operand_aliasing=[((0, 0), (0, (1, 0))), ((1, 0), (1, ()))],
        )
    )
    (line,) = operations(module)
    assert line.startswith("stablehlo.custom_call @f(%arg0, %arg1, %arg2, %arg3) {")
    assert line.endswith(") -> (tensor<i32>, tensor<3xf32>, tensor<2xf32>)")
    assert "output_tuple_indices = [0], operand_index = 1" in line
    assert "output_tuple_indices = [1], operand_index = 3" in line


def test_layouts() -> None:
    module = lowering.lower(
        call(
            "(f32[4,2], token[])",
            shape="(f32[4,2,3]{1,0,2}, s32[])",
            operand_shapes_with_layout=["(f32[4,2]{0,1}, token[])"],
        )
    )
    (line,) = operations(module)
    assert "operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]" in line
    assert "result_layouts = [dense<[1, 0, 2]> : tensor<3xindex>, dense<> : tensor<0x" in line
    (line,) = operations(lowering.lower(call(shape="f32[4,2]{0,1}")))
    assert (
        "operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[0, 1]"
        in (line)
    )


def test_a_called_computation_is_a_function() -> None:
    @xb.computation(xb.f32[()], xb.f32[()])
    def helper(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return a + b

    module = lowering.lower(call(computation=helper))
    assert "called_computations = [@helper]" in module.text
    assert "func.func private @helper(" in module.text
    # The same function can also be called, and applied by a reduction.
    b = xb.XlaBuilder("both")
    x = b.parameter(xb.f32[4])
    total = xb.reduce(x, 0.0, helper, [0])
    again = xb.call(helper, total, total)
    foreign = xb.custom_call("f", again, xb.f32[()], computation=helper)
    text = lowering.lower(b.build(foreign)).text
    assert text.count("func.func private @helper") == 1
    assert hlo_conversion.hlo_text_to_stablehlo(str(call(computation=helper)))


def test_bounded_sizes_of_custom_calls() -> None:
    module = lowering.lower(call("f32[<=4]", shape="f32[<=8]"))
    assert "(tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<?xf32, #stablehlo.bounds<8>>" in (
        module.text
    )
    with pytest.raises(lowering.CompileError):
        lowering.compile(module)


@each_row(
    "make, message",
    [
        (
            lambda: call(opaque="abc", api_version=4),
            (
                "opaque of a typed FFI call must be the text of an MLIR dictionary, "
                "got 'abc'\nfix: pass attributes={name: value, ...} instead of opaque"
            ),
        ),
        (lambda: call(opaque="1 : i32", api_version=4), "must be the text of an MLIR dictionary"),
        (lambda: call(opaque="{a = 1", api_version=4), "must be the text of an MLIR dictionary"),
        (
            lambda: call(shape="(f32[4,2]{0,1})"),
            "a tuple of one array must not have a layout in StableHLO, got (f32[4,2]{0,1})",
        ),
    ],
)
def test_custom_calls_that_stablehlo_cannot_express(
    make: Callable[[], xb.XlaComputation], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(lowering.LoweringError) as caught:
        lowering.lower(make())
    assert str(caught.value).startswith(f"lower: custom_call, recorded at {__file__}:")
    assert message in str(caught.value)
    assert caught.value.op == "custom_call"
    assert capfd.readouterr().err == ""


def test_an_empty_target_name() -> None:
    b = xb.XlaBuilder("nameless")
    with pytest.raises(lowering.LoweringError, match="target name must not be empty"):
        lowering.lower(b.build(b.custom_call("", xb.f32[2])))


@each_row("name", ["x.y", "a b", "é", 'qu"ote', "new\nline", "@at", "0"])
def test_names(name: str) -> None:
    b = xb.XlaBuilder("named")
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(b.build(b.custom_call(name, xb.f32[2])))
    assert f"custom_call of {name!r}, recorded at" in str(caught.value)


def test_python_calls_in_stablehlo() -> None:
    def double(v: np.ndarray) -> np.ndarray:
        return v + v

    b = xb.XlaBuilder("python")
    x = b.parameter(xb.f32[2])
    y = xb.python_call(double, xb.python_call(double, x, x.shape), x.shape)
    z = xb.python_call(np.sum, y, xb.f32[()])
    module = lowering.lower(b.build(xb.add(y, z)))
    lines = [line for line in operations(module) if "custom_call" in line]
    for line, index in zip(lines, (0, 0, 1), strict=True):
        assert line.startswith("stablehlo.custom_call @xlabuilder.python_call(")
        assert f"index = {index} : i64" in line
    assert [f.function for f in module.functions] == [double, np.sum]
    assert lowering.lower(python_sort()).bytecode == lowering.lower(python_sort()).bytecode


def python_sort() -> xb.XlaComputation:
    b = xb.XlaBuilder("same")
    x = b.parameter(xb.f32[2])
    return b.build(xb.python_call(np.sort, x, x.shape))


def test_dead_code_beside_tokens() -> None:
    """Unused tokens do not prevent a program from running."""
    b = xb.XlaBuilder("beside")
    x = b.parameter(xb.f32[2])
    xb.after_all(b.create_token())
    assert run(b.build(x + x), np.array([1, 2], np.float32)).tolist() == [2, 4]
