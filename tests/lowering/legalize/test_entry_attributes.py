"""Attributes of a loaded module and of its arguments that XLA does not verify are refused."""

from __future__ import annotations

import signal
from typing import Any, NoReturn

import numpy as np
import pytest
from tables import each_row

import lowering
from lowering.running import compiling
from tests.processes import run_python

X = "tensor<2x3xf32>"
LAYOUTS = "mhlo.xla_entry_computation_parameter_layouts"
TOKEN = "!stablehlo.token"


def text(
    module: str = "",
    argument: str = "",
    result: str = "",
    *,
    of: str = X,
    to: str = X,
    function: str = "",
) -> str:
    """Return a module with attributes; `of` and `to` are the types of argument and result."""
    body = "%0 = stablehlo.add %x, %x : " + X if of == to == X else ""
    value = "%0" if body else "%x"
    if of != to:
        body, value = f"%0 = stablehlo.constant dense<0> : {to}", "%0"
    return f"""module @m attributes {{{module}}} {{
      func.func public @main(%x: {of} {{{argument}}}, %y: {X}) -> ({to} {{{result}}}) {function} {{
        {body}
        return {value} : {to}
      }}
    }}"""


TWO_RESULTS = f"func.func public @main(%x: {X}) -> ({X}, {X}) {{ return %x, %x : {X}, {X} }}"
TWO = f"""func.func public @main(%x: {X} {{tf.aliasing_output = 1 : i32}},
    %y: {X} {{tf.aliasing_output = 1 : i32}}) -> ({X}, {X}) {{ return %x, %y : {X}, {X} }}"""


def alias(kind: str = '"may_alias"', number: str = "0 : i64", index: str = "") -> str:
    size = 1 if index else 0
    inside = f"kind = {kind}, parameter_index = dense<> : tensor<0xi64>"
    alias = f"{{{inside}, parameter_number = {number}}}"
    output = f"dense<{index}> : tensor<{size}xi64>"
    return f"mhlo.input_output_alias = [{{alias = {alias}, output_index = {output}}}]"


ALIASING = "tf.aliasing_output of parameter arg0"
REFUSED = {
    "a result that does not exist": (
        text(argument="tf.aliasing_output = 1 : i32"),
        f"{ALIASING} must be the number of a result, from 0 to 0, got 1 : i32",
    ),
    "a negative number": (text(argument="tf.aliasing_output = -1 : i32"), ALIASING),
    "a bool": (text(argument="tf.aliasing_output = true"), ALIASING),
    "a text": (text(argument='tf.aliasing_output = "0"'), ALIASING),
    "another size": (
        text(argument="tf.aliasing_output = 0 : i32", to="tensor<2xi8>"),
        f"{ALIASING} must be the number of a result of as many bytes, 24, got 0, s8[2] of 2 bytes",
    ),
    "a result twice": (
        TWO,
        "of parameter arg1 must be the number of a result that no other argument aliases, got 1",
    ),
    "donated twice": (
        text(argument="tf.aliasing_output = 0 : i32, jax.buffer_donor = true"),
        (
            "tf.aliasing_output of parameter arg0 must be used without jax.buffer_donor, because "
            "each of the two donates the argument, got both"
        ),
    ),
    "a donor that is none": (
        text(argument="jax.buffer_donor = false"),
        "jax.buffer_donor of parameter arg0 must be true, got false",
    ),
    "a donated token": (
        text(argument="jax.buffer_donor = true", of=TOKEN, to=TOKEN),
        "jax.buffer_donor of parameter arg0 must be an attribute of an array",
    ),
    "the memory of an argument": (
        text(argument='mhlo.memory_kind = "a"'),
        "memory_kind of parameter arg0 must be one of device, pinned_host, unpinned_host, got 'a'",
    ),
    "the memory of a result": (
        text(result='mhlo.memory_kind = ""'),
        "mhlo.memory_kind of the result must be one of",
    ),
    "attributes of no result": (
        text(function="attributes {res_attrs = []}").replace(f"({X} {{}})", X),
        "the attribute res_attrs of @main must be a list of 1 dictionaries, got []",
    ),
    "an alias that is not a dictionary": (
        text("mhlo.input_output_alias = [1]"),
        "the module's mhlo.input_output_alias must be a list of dictionaries",
    ),
    "an empty alias": (text("mhlo.input_output_alias = [{}]"), "mhlo.input_output_alias must be"),
    "an alias of no argument": (text(alias(number="9 : i64")), "mhlo.input_output_alias must be"),
    "an alias of no result": (text(alias(index="0")), "mhlo.input_output_alias must be"),
    "an alias of no kind": (text(alias(kind="1 : i64")), "mhlo.input_output_alias must be"),
    "more tiles than partitions": (
        text('mhlo.spmd_output_sharding = "{devices=[2,1]0,1}"'),
        "the module's mhlo.spmd_output_sharding must be the sharding of 1 results over 1",
    ),
    "too many shardings": (
        text('mhlo.spmd_output_sharding = "{{replicated},{replicated}}"'),
        "the module's mhlo.spmd_output_sharding must be the sharding of 1 results",
    ),
    "one sharding for two results": (
        f'module attributes {{mhlo.spmd_output_sharding = "{{replicated}}"}} {{ {TWO_RESULTS} }}',
        "the module's mhlo.spmd_output_sharding must be the sharding of 2 results",
    ),
    "one sharding, in a protocol buffer, for two results": (
        f'module attributes {{mhlo.spmd_output_sharding = "()"}} {{ {TWO_RESULTS} }}',
        "the module's mhlo.spmd_output_sharding must be the sharding of 2 results",
    ),
    "a replication that is not a bool": (
        text(argument="mhlo.parameter_replication = [{}]"),
        "mhlo.parameter_replication of parameter arg0 must be [true] or [false], got [{}]",
    ),
    "a sharding that is not a text": (
        text('mhlo.spmd_parameters_shardings = ["{replicated}", 1]'),
        "the module's mhlo.spmd_parameters_shardings must be a list of strings",
    ),
    "layouts of no integers": (
        text("mhlo.xla_entry_computation_parameter_layouts = [true]"),
        f"the module's {LAYOUTS} must be a list with a layout such as",
    ),
    "more layouts than parameters": (
        text(f"{LAYOUTS} = [dense<[1, 0]> : tensor<2xindex>]")
        .replace(f"%x: {X} {{}}, ", "", 1)
        .replace("%y", "%x")
        .replace("[dense", "[dense<[1, 0]> : tensor<2xindex>, dense"),
        "for each of the 1 parameters, got [dense<[1, 0]> : tensor<2xindex>, ",
    ),
    "a layout of another rank": (
        text(f"{LAYOUTS} = [dense<0> : tensor<1xindex>, dense<[1, 0]> : tensor<2xindex>]"),
        "must be a list with a layout such as dense<[1, 0]> for each of the 2 parameters",
    ),
    "a layout of huge rank": (
        text(f"{LAYOUTS} = [dense<0> : tensor<999999999999xindex>]"),
        "must be a list with a layout",
    ),
    "negative tiles": (
        text("mhlo.xla_entry_computation_result_tiles = [[dense<-1> : tensor<2xindex>]]"),
        "must be a list with a list of tiles such as [dense<[8, 128]>] for each of the 1 results",
    ),
    "an alias that is an array": (
        text("mhlo.input_output_alias = [dense<0> : tensor<1xindex>]"),
        "the module's mhlo.input_output_alias must be a list of dictionaries",
    ),
    "an alias of another size": (
        text(alias(), to="tensor<2xi32>"),
        "the module's mhlo.input_output_alias must be the number of a result of as many bytes, 24",
    ),
    "a result that two attributes alias": (
        text(alias(number="1 : i64"), argument="tf.aliasing_output = 0 : i32"),
        "must be the number of a result that no other argument aliases, got 0, as parameter arg1",
    ),
    "a thread": (
        text(function='attributes {execution_thread = "x"}'),
        "execution_thread of @main must be \"main\", got 'x'",
    ),
    "tiles of several results": (
        TWO_RESULTS.join(
            (
                (
                    "module attributes {mhlo.xla_entry_computation_result_tiles = [[dense<2> : "
                    "tensor<1xindex>]]} {"
                ),
                "}",
            )
        ),
        "the module's mhlo.xla_entry_computation_result_tiles must be an attribute of a program ",
    ),
    "tiles of no integers": (
        text('mhlo.xla_entry_computation_result_tiles = ["a"]'),
        "mhlo.xla_entry_computation_result_tiles must be a list with a list of tiles such as",
    ),
    "an attribute of Shardy": (text("sdy.x"), "the module's sdy.x must be"),
}


@each_row("name", REFUSED)
def test_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_or_read(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("XLA compiles the module")

    monkeypatch.setattr(compiling, "compile_or_read", compile_or_read)
    module, rule = REFUSED[name]
    with pytest.raises(lowering.CompileError) as raised:
        lowering.compile(lowering.load_bytes(module), "cpu")
    assert rule in str(raised.value)
    assert "fix: " in str(raised.value)


def test_accepted() -> None:
    """These have a meaning for XLA, or XLA ignores them."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    dense = "dense<[1, 0]> : tensor<2xindex>"
    for module in (
        text(argument='tf.aliasing_output = 0 : i32, mhlo.memory_kind = "device"'),
        text(argument="jax.buffer_donor = true", result='mhlo.memory_kind = "pinned_host"'),
        text(argument="mhlo.parameter_replication = [false]"),
        text(alias()),
        text('mhlo.spmd_output_sharding = "{replicated}", mhlo.input_output_alias = 1 : i32'),
        text('mhlo.spmd_output_sharding = "()"'),
        text("mhlo.xla_entry_computation_parameter_tiles = [[], []]"),
        text(f"mhlo.xla_entry_computation_parameter_layouts = [{dense}, {dense}]"),
        text("mhlo.xla_entry_computation_result_tiles = [[dense<2> : tensor<1xindex>]]"),
        text(function='attributes {execution_thread = "main"}'),
        text("mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32, tf.versions = {}"),
    ):
        result = lowering.compile(lowering.load_bytes(module), "cpu")(x.copy(), x)
        np.testing.assert_array_equal(result, x + x)


def test_empty_tiles_of_several_results() -> None:
    """jaxlib's conversion of HLO writes them."""
    head = "module attributes {mhlo.xla_entry_computation_result_tiles = [[], []]} {"
    program = lowering.compile(lowering.load_bytes(f"{head} {TWO_RESULTS} }}"), "cpu")
    x = np.ones((2, 3), np.float32)
    assert len(program(x)) == 2


def test_of_a_bounded_signature() -> None:
    """Sizes become parameters and results, which these attributes do not list."""
    bounded = "tensor<?xf32, #stablehlo.bounds<4>>"
    attributes = 'mhlo.spmd_output_sharding = "{replicated}", ' + alias()
    module = f"""module attributes {{{attributes}}} {{
      func.func public @main(%x: {bounded}) -> {bounded} {{
        %0 = stablehlo.negate %x : {bounded}
        return %0 : {bounded}
      }}
    }}"""
    result = lowering.compile(lowering.load_bytes(module), "cpu")(np.float32([1, 2, 3]))
    np.testing.assert_array_equal(result, [-1, -2, -3])


@pytest.mark.slow
def test_xla_crashes_without_the_check() -> None:
    run_python(
        "-c",
        "import lowering\n"
        "from lowering.running import compiling\n"
        "compiling.check_entry_attributes = lambda *_: None\n"
        f"module = lowering.load_bytes({text('mhlo.input_output_alias = [1]')!r})\n"
        "lowering.compile(module, 'cpu')",
        status=-signal.SIGSEGV,
    )


@each_row("number", [0, 1])
def test_an_alias_of_each_of_two_results(number: int) -> None:
    attribute, index = alias(number=f"{number} : i64", index=str(number)), f"dense<{number}>"
    function = TWO.replace("{tf.aliasing_output = 1 : i32}", "")
    module = lowering.load(f"module attributes {{{attribute}}} {{ {function} }}")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    one, other = lowering.compile(module, "cpu")(x, x + 1)
    assert (one.tolist(), other.tolist()) == (x.tolist(), (x + 1).tolist())
    as_list = attribute.replace(f"{index} : tensor<1xi64>", f"[{number} : i64]")
    listed = lowering.load(f"module attributes {{{as_list}}} {{ {function} }}")
    with pytest.raises(lowering.CompileError, match=r"of a result, such as dense<0> : tensor<1xi"):
        lowering.compile(listed, "cpu")
