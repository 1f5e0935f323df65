"""Import of tokens, transfers to and from the host, and custom calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from imported import imported_from_jax, of_text, returned
from tables import each_row

import builder as xb
import lowering
from builder.attributes.host import CustomCallApiVersion, OutputOperandAliasing

X = np.arange(6, dtype=np.float32).reshape(2, 3)

INDEX = ", backend_config = {index = %d : i64}"


def test_tokens() -> None:
    b = xb.XlaBuilder("tokens")
    one, other = b.create_token(), b.parameter("token[]", "t")
    returned(b.build(xb.after_all(one, xb.after_all(other, one))))


def test_create_token() -> None:
    computation = of_text("""
        func.func @main() -> !stablehlo.token {
          %0 = stablehlo.create_token : !stablehlo.token
          return %0 : !stablehlo.token
        }
    """)
    assert [op.opcode for op in computation.ops] == ["create_token"]


@each_row("shape", ["f32[2,3]", "f32[2,3]{0,1}", "(s32[], bf16[4])"])
def test_infeed_and_outfeed(shape: str) -> None:
    b = xb.XlaBuilder("streams")
    value, token = xb.infeed_with_token(b.create_token(), shape, "one")
    returned(b.build(xb.outfeed_with_token(value, token, outfeed_config="two")))


@pytest.mark.parametrize("shape", ["f32[2,3]{0,1}", "(s32[], bf16[4])"])
def test_the_layout_of_an_infeed_is_preserved(shape: str) -> None:
    b = xb.XlaBuilder("streams")
    b.infeed(shape)
    computation = returned(b.build())
    (op,) = [op for op in computation.ops if op.opcode == "infeed"]
    assert ("shape_with_layout" in op.attributes) == ("{" in shape)


def test_an_outfeed_of_nothing_and_an_unused_infeed() -> None:
    computation = of_text(
        """
        func.func @main(%t: !stablehlo.token) -> !stablehlo.token {
          %0:3 = "stablehlo.infeed"(%t)
            : (!stablehlo.token) -> (tensor<2xf32>, tensor<s>, !stablehlo.token)
          %1 = "stablehlo.outfeed"(%0#2) : (!stablehlo.token) -> !stablehlo.token
          return %1 : !stablehlo.token
        }
    """.replace("tensor<s>", "tensor<i32>")
    )
    opcodes = [op.opcode for op in computation.ops]
    assert opcodes == ["parameter", "infeed", "get_tuple_element", "tuple", "outfeed"]


def test_send_and_recv() -> None:
    b = xb.XlaBuilder("transfers")
    x = b.parameter(xb.f32[2, 3], "x")
    last = xb.send_with_token(x, b.create_token(), 2)
    last = xb.send_to_host(x, last, "f32[2,3]", 3)
    more, last = xb.recv_with_token(last, xb.s8[()], 5)
    most, last = xb.recv_from_host(last, xb.bf16[2, 0], 6)
    returned(b.build(xb.tuple(more, most, last)))


@each_row(
    "operation, kinds, message",
    [
        (
            "send",
            "(tensor<f32>, tensor<f32>, !stablehlo.token) -> !stablehlo.token",
            "one array operand",
        ),
        ("send", "(!stablehlo.token) -> !stablehlo.token", "one array operand, got 0"),
        (
            "recv",
            "(!stablehlo.token) -> (tensor<f32>, tensor<f32>, !stablehlo.token)",
            "one array result, got 2",
        ),
    ],
)
def test_transfers_of_several_arrays(operation: str, kinds: str, message: str) -> None:
    count = kinds.partition(" ->")[0].count("tensor")
    operands = ", ".join(["%x"] * count + ["%t"])
    results = kinds.rpartition("-> ")[2].count(",") + 1
    assigned = f"%0:{results}" if results > 1 else "%0"
    last = f"%0#{results - 1}" if results > 1 else "%0"
    with pytest.raises(lowering.LoweringError, match=rf"stablehlo\.{operation}.*{message}"):
        of_text(f"""
            func.func @main(%x: tensor<f32>, %t: !stablehlo.token) -> !stablehlo.token {{
              {assigned} = "stablehlo.{operation}"({operands}) <{{
                channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
              }}> : {kinds}
              return {last} : !stablehlo.token
            }}
        """)


@pytest.mark.parametrize("config", [b"\xff\x00a", b"\xc3\xa9"])
def test_configurations_of_any_bytes(config: bytes) -> None:
    b = xb.XlaBuilder("streams")
    value, token = xb.infeed_with_token(b.create_token(), "f32[2]", config)
    computation = b.build(xb.outfeed_with_token(value, token, outfeed_config=config))
    recorded = [op.attributes for op in returned(computation).ops]
    configs = [a.get("infeed_config", a.get("outfeed_config")) for a in recorded]
    text = config.decode("utf-8", "surrogateescape")
    assert [one for one in configs if one is not None] == [text, text]


# Custom calls.


def test_a_custom_call_with_all_attributes() -> None:
    b = xb.XlaBuilder("caller")
    x, y = b.parameter(xb.f32[2, 3], "x"), b.parameter(xb.s32[4], "y")
    given = xb.custom_call(
        "function",
        [x, y],
        "(f32[2,3]{0,1}, s32[4])",
        opaque='text "with" \n everything',
        has_side_effect=True,
        api_version=3,
        operand_shapes_with_layout=["f32[2,3]{0,1}", "s32[4]"],
        computation=xb.computation(xb.f32[()])(lambda a: a + 1.0),
        output_operand_aliasing=[((1,), (1, ()))],
    )
    returned(b.build(given[0]))


def test_attributes_of_a_typed_call() -> None:
    computation = of_text("""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.custom_call @scale(%x) {
            api_version = 4 : i32,
            backend_config = {axes = array<i64: 0, 1>, factor = 2.5 : f32, name = "a\\22b"},
            output_operand_aliases = [#stablehlo.output_operand_alias<
              output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]
          } : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """)
    attributes = computation.root.attributes
    assert attributes["api_version"] is CustomCallApiVersion.API_VERSION_TYPED_FFI
    assert attributes["output_operand_aliasing"] == (OutputOperandAliasing((), 0),)
    again = returned(computation)
    assert again.root.attributes["opaque"] == attributes["opaque"]
    text = lowering.lower(again).text
    assert 'axes = array<i64: 0, 1>, factor = 2.500000e+00 : f32, name = "a\\22b"' in text


def test_no_operands_no_results_and_a_tuple_of_one() -> None:
    b = xb.XlaBuilder("caller")
    clock = b.custom_call("clock", xb.s64[()], has_side_effect=True)
    xb.custom_call("log", clock, "()", has_side_effect=True)
    whole = xb.custom_call("alone", clock, "(s64[])")
    returned(b.build(whole[0]))


def test_sharding_custom_calls() -> None:
    computation = of_text("""
        func.func @main(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
          %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[2,1]<=[2]}"}
            : (tensor<8x4xf32>) -> tensor<8x4xf32>
          %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"}
            : (tensor<8x4xf32>) -> tensor<4x4xf32>
          return %1 : tensor<4x4xf32>
        }
    """)
    names = [op.attributes.get("call_target_name") for op in computation.ops]
    assert names == [None, "Sharding", "SPMDFullToShardShape"]
    shardings = [op.metadata and op.metadata.sharding for op in computation.ops]
    assert shardings == [None, "{devices=[2,1]<=[2]}", "{manual}"]
    returned(computation)


def test_lapack_as_jax_calls_it() -> None:
    matrix = (X @ X.T + np.eye(2)).astype(np.float32)
    imported_from_jax(jnp.linalg.eigh, matrix)


@pytest.mark.parametrize("function", [jax.lax.approx_max_k, jax.lax.approx_min_k])
def test_approximate_top_k_as_jax_calls_it(function: Callable[..., Any]) -> None:
    """The comparator ends with `stablehlo.return`, and XLA requires that layouts are absent."""
    returned(imported_from_jax(lambda x: function(x, 2), X))


def test_python_functions_of_the_module() -> None:
    b = xb.XlaBuilder("caller")
    x, y = b.parameter(xb.f32[2, 3]), b.parameter(xb.f32[2])
    pair = xb.python_call(
        lambda both, t: (both[0] * 2, (both[1] + 1, t)),
        [xb.tuple(x, y), b.create_token()],
        "(f32[2,3], (f32[2], token[]))",
    )
    nothing = b.python_call(lambda: np.float32(7), xb.f32[()])
    computation = returned(b.build(xb.tuple(pair[0], pair[1][0], nothing)))
    doubled, more, seven = lowering.compile(computation)(X, X[:, 0])
    assert np.array_equal(doubled, X * 2)
    assert np.array_equal(more, X[:, 0] + 1)
    assert float(seven) == 7


def test_python_functions_are_not_in_texts() -> None:
    b = xb.XlaBuilder("caller")
    text = lowering.lower(b.build(b.python_call(np.random.rand, xb.f64[()]))).text
    with pytest.raises(lowering.LoweringError, match=r"Python function .*files contain no Python"):
        of_text(text)


@each_row(
    "config",
    ["", ", backend_config = {}", ', backend_config = {index = "a"}', INDEX % -1, INDEX % 0],
)
def test_python_calls_of_other_programs(config: str) -> None:
    """A file may contain any attributes."""
    with pytest.raises(lowering.LoweringError, match="needs the Python function without a name"):
        of_text(
            """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
                 %0 = stablehlo.custom_call @xlabuilder.python_call(%x)
                      {api_version = 4 : i32CONFIG}
                      : (tensor<2xf32>) -> tensor<2xf32>
                 return %0 : tensor<2xf32>
               }""".replace("CONFIG", config)
        )


@each_row(
    "called, kinds, message",
    [
        ('@"$hidden"(%x)', "(tensor<4xf32>) -> tensor<4xf32>", r"must not begin with '\$'"),
        (
            "@two(%x) {called_computations = [@one, @other]}",
            "(tensor<4xf32>) -> tensor<4xf32>",
            "calls one computation, got 2",
        ),
        (
            "@mhlo.unheard_of(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64}",
            "(tensor<4xf32>) -> tensor<4xf32>",
            "there is no op for mhlo.unheard_of",
        ),
    ],
)
def test_refusals(called: str, kinds: str, message: str) -> None:
    with pytest.raises(lowering.LoweringError, match=rf"stablehlo\.custom_call.*{message}"):
        of_text(f"""
            func.func private @one(%a: tensor<f32>) -> tensor<f32> {{
              return %a : tensor<f32>
            }}
            func.func private @other(%a: tensor<f32>) -> tensor<f32> {{
              return %a : tensor<f32>
            }}
            func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
              %0 = stablehlo.custom_call {called} : {kinds}
              return %0 : tensor<4xf32>
            }}
        """)


def test_operations_of_chlo_in_files_of_jax() -> None:
    """Artifacts have custom calls with the names of MHLO."""

    def functions(x: jax.Array) -> tuple[jax.Array, ...]:
        values, places = jax.lax.top_k(x, 2)
        return jax.lax.erf(x), jnp.tan(x), jnp.sinh(x), values, places

    exported = jax.export.export(jax.jit(functions))(X)
    module = lowering.load_bytes(exported.mlir_module_serialized)
    computation = lowering.to_computation(module)
    actual = lowering.compile(computation)(X)
    for mine, theirs in zip(actual, jax.jit(functions)(X), strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


def test_a_top_k_in_an_older_file() -> None:
    computation = of_text("""
        func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
          %0:2 = stablehlo.custom_call @mhlo.topk(%x) {
            mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64
          } : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
          return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xi32>
        }
    """)
    values, places = lowering.compile(computation)(X)
    assert np.array_equal(values, X[:, [2, 1]])
    assert np.asarray(places).tolist() == [[2, 1], [2, 1]]


def test_tuples_in_converted_hlo() -> None:
    computation = of_text("""
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<i32>) -> tensor<2x3xf32> {
          %0 = stablehlo.tuple %x, %y : tuple<tensor<2x3xf32>, tensor<i32>>
          %1 = stablehlo.tuple %0 : tuple<tuple<tensor<2x3xf32>, tensor<i32>>>
          %2 = stablehlo.get_tuple_element %1[0]
            : (tuple<tuple<tensor<2x3xf32>, tensor<i32>>>) -> tuple<tensor<2x3xf32>, tensor<i32>>
          %3 = stablehlo.get_tuple_element %2[0]
            : (tuple<tensor<2x3xf32>, tensor<i32>>) -> tensor<2x3xf32>
          return %3 : tensor<2x3xf32>
        }
    """)
    assert np.array_equal(lowering.compile(computation)(X, np.int32(1)), X)
