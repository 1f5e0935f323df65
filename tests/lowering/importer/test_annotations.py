"""The annotations of a module are preserved."""

from __future__ import annotations

import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from imported import of_text
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from support import assert_identical
from tables import each_row

import builder as xb
import lowering
from lowering.jaxlib_api import hlo_conversion

EVERYTHING = """
module @everything attributes {mhlo.num_partitions = 2 : i32, my.note = [1, "two"]} {
  sdy.mesh @mesh = <["x"=2]> {my.mesh = true}
  func.func public @main(
      %x: tensor<4xf32> {mhlo.layout_mode = "default", sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>,
                         tf.aliasing_output = 1 : i32},
      %y: tensor<4xf32> {jax.buffer_donor = true, mhlo.memory_kind = "device",
                         mhlo.sharding = "{replicated}"})
      -> (tensor<4xf32> {jax.result_info = "result[0]", mhlo.layout_mode = "default"},
          tensor<4xf32> {jax.result_info = "result['b']",
                         sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      attributes {my.function = 3 : i32} {
    %0 = sdy.sharding_constraint %x <@mesh, [{}]> : tensor<4xf32>
    %1 = stablehlo.add %0, %y {my.op = 1.5 : f32,
      sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<4xf32>
    %2:2 = func.call @pair(%1) {mhlo.frontend_attributes = {stage = "1"}}
      : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %3:2 = stablehlo.while(%i = %2#0, %j = %2#1) : tensor<4xf32>, tensor<4xf32>
      attributes {mhlo.frontend_attributes = {loop = "yes"}, my.loop}
      cond {
        %c = stablehlo.constant {my.constant = "c"} dense<false> : tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        stablehlo.return %j, %i : tensor<4xf32>, tensor<4xf32>
      }
    %4 = stablehlo.transpose %3#1, dims = [0] {mhlo.sharding = "{maximal device=0}"}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %3#0, %4 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @pair(%x: tensor<4xf32> {mhlo.sharding = "{replicated}", my.argument = 7 : i64})
      -> (tensor<4xf32> {my.result = "r"}, tensor<4xf32>) attributes {no_inline} {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
}"""


def foreign_attributes(module: lowering.StablehloModule) -> Counter[tuple[str, str, str]]:
    """Count the attributes of other dialects by operation, name and value."""
    counts: Counter[tuple[str, str, str]] = Counter()

    def look(operation: ir.Operation) -> ir.WalkResult:
        attributes = operation.attributes
        for name in attributes:
            if name in ("arg_attrs", "res_attrs"):
                for number, one in enumerate(ir.ArrayAttr(attributes[name])):
                    inside = ir.DictAttr(one)
                    for index in range(len(inside)):
                        key = inside[index].name
                        counts[f"{operation.name} {name} {number}", key, str(inside[key])] += 1
            else:
                counts[operation.name, name, str(attributes[name])] += 1
        return ir.WalkResult.ADVANCE

    module.module.operation.walk(look)
    return Counter({key: count for key, count in counts.items() if "xlabuilder." not in key[1]})


def check(text: str) -> xb.XlaComputation:
    """Import a module, and check that its annotations are neither lost nor extended."""
    module = lowering.load_bytes(text)
    computation = lowering.to_computation(module)
    again = lowering.lower(computation)
    before, after = foreign_attributes(module), foreign_attributes(again)
    assert before - after == Counter()
    assert not {name for _, name, _ in after - before} - {"sym_name", "sym_visibility"}
    once_more = lowering.lower(lowering.to_computation(again))
    assert once_more.to_text(locations=True) == again.to_text(locations=True)
    return computation


def test_annotations_are_preserved() -> None:
    computation = check(EVERYTHING)
    annotations = computation.annotations
    assert annotations is not None
    assert dict(annotations.module) == {"mhlo.num_partitions": "2 : i32", "my.note": '[1, "two"]'}
    assert annotations.meshes["mesh"]["mesh"] == '#sdy.mesh<["x"=2]>'
    assert annotations.results[1]["jax.result_info"] == "\"result['b']\""
    x, y = computation.parameters
    assert (x.sharding, y.sharding) == ('#sdy.sharding<@mesh, [{"x"}]>', "{replicated}")
    named = {op.opcode: op for op in computation.ops}
    assert named["call"].frontend_attributes == {"stage": "1"}
    assert named["while"].frontend_attributes == {"loop": "yes"}
    assert named["add"].metadata.others == {"my.op": "1.500000e+00 : f32"}
    assert computation.aliases == (((1,), 0, ()),)
    assert computation.donors == ((1, ()),)


def test_names_of_operations_with_several_results() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0:2 = "stablehlo.optimization_barrier"(%x, %x)
        : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("hold"("a.py":1:2))
      return %0#1 : tensor<4xf32>
    }"""
    computation = check(text)
    assert [op.name for op in computation.ops if op.opcode == "optimization_barrier"] == ["hold"]


def test_shardings_in_hlo_text() -> None:
    """The text is that of XLA for the same module, and XLA parses the printed form."""
    text = str(of_text(EVERYTHING))
    translated = hlo_conversion.stablehlo_to_hlo_text(lowering.load_bytes(EVERYTHING).bytecode)
    parsed = hlo_conversion.parsed_hlo_text(text)
    for message in (
        'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>}}',
        r'xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}]>]>"',
        r'xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>"',
        r'xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}]>"',
    ):
        assert message in parsed
        assert message in translated


def test_replicated_parameters() -> None:
    """They are those of XLA in HLO text, in protocol buffers, and in StableHLO modules."""
    inner = xb.XlaBuilder("inner")
    doubled = inner.parameter(xb.f32[2], "v", replicated_at_leaf_buffers=[True]) * 2.0
    b = xb.XlaBuilder("replicated")
    x = b.parameter(xb.f32[2], "x", sharding="{replicated}", replicated_at_leaf_buffers=[True])
    pair = b.parameter("(f32[2], f32[3]{0})", "pair", replicated_at_leaf_buffers=[True, False])
    b.parameter(xb.f32[2], "y", replicated_at_leaf_buffers=[False])
    computation = b.build(xb.call(inner.build(doubled), pair[0]) + x)
    module = lowering.lower(computation)
    for same in (
        lowering.from_hlo(computation.to_hlo_text()),
        lowering.from_hlo(lowering.to_hlo_proto(computation)),
        lowering.to_computation(lowering.load_bytes(module.artifact())),
    ):
        called = next(op.attributes["to_apply"] for op in same.ops if op.opcode == "call")
        parameters = [*same.parameters, *called.parameters]
        flags = [p.attributes.get("replicated_at_leaf_buffers") for p in parameters]
        assert flags == [(True,), (True, False), None, (True,)]
        assert same.annotations is None
    text = hlo_conversion.hlo_proto_text(lowering.to_hlo_proto(computation))
    flags_in_text = re.findall(r"parameter_replication=\{(.*?)\}", text)
    assert sorted(flags_in_text) == ["true", "true", "true,false"]
    # XLA's translation of the module has a parameter for each array.
    text = hlo_conversion.stablehlo_to_hlo_text(module.bytecode)
    assert re.findall(r"parameter_replication=\{(.*?)\}", text) == ["true"] * 3


def test_a_sharded_program_of_jax() -> None:
    mesh = Mesh(np.array(jax.devices("cpu")[:4]).reshape(2, 2), ("a", "b"))
    rows = NamedSharding(mesh, PartitionSpec("a", "b"))

    def function(x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
        z = jax.lax.with_sharding_constraint(x + y, rows)
        return {"z": z, "total": jnp.max(z)}

    x, y = (np.arange(n, n + 16, dtype=np.float32).reshape(4, 4) for n in (0, 5))
    lowered = jax.jit(function, in_shardings=rows, donate_argnums=0).lower(x, y)
    computation = check(lowered.as_text())
    total, z = lowering.compile(computation, "cpu")(x, y)
    assert_identical(np.asarray(z), x + y)
    assert float(total) == 35
    # Used in another program whose shardings refer to the mesh.
    outer = xb.XlaBuilder("outer")
    p, q = (outer.parameter(xb.f32[4, 4], name) for name in "pq")
    whole = outer.build(xb.call(computation, q, p)[1])
    text = lowering.lower(whole).text
    assert text.count("sdy.mesh @mesh") == 1
    assert_identical(np.asarray(lowering.compile(whole, "cpu")(x, y)), x + y)


def test_two_meshes_with_the_same_name() -> None:
    text = EVERYTHING.replace('["x"=2]', '["x"=4]')
    b = xb.XlaBuilder("both")
    x, y = (b.parameter(xb.f32[4], name) for name in "xy")
    first = xb.call(of_text(EVERYTHING), x, y)
    both = b.build(xb.call(of_text(text), first[0], first[1]))
    with pytest.raises(xb.BuilderError, match="different meshes with the same name, 'mesh'"):
        lowering.lower(both)


def refusal(body: str, before: str = "") -> str:
    """Return the error of a module with this body of @main."""
    with pytest.raises(lowering.LoweringError) as caught:
        of_text(f"""{before}
            func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
              {body}
            }}""")
    return str(caught.value)


MESH = 'sdy.mesh @mesh = <["x"=2]>'


@each_row(
    "name, pattern, body, before",
    [
        (
            "sdy.manual_computation",
            "a manual_computation must have a result",
            """sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>]
                 out_shardings=[] manual_axes={"x"} (%a: tensor<2xf32>) {
                 sdy.return
               } : (tensor<4xf32>) -> ()
               return %x : tensor<4xf32>""",
            MESH,
        ),
        (
            "stablehlo.negate",
            "only one sharding is supported",
            """%0 = stablehlo.negate %x {mhlo.sharding = "{replicated}",
                 sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : tensor<4xf32>
               return %0 : tensor<4xf32>""",
            MESH,
        ),
        (
            "stablehlo.async_start",
            "there is no op for this operation",
            """%0 = "stablehlo.async_start"(%x) ({
               ^bb0(%a: tensor<4xf32>):
                 %1 = "stablehlo.collective_permute"(%a) <{
                   source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
                   : (tensor<4xf32>) -> tensor<4xf32>
                 stablehlo.return %1 : tensor<4xf32>
               }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
               %2 = "stablehlo.async_done"(%0)
                 : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
               return %2 : tensor<4xf32>""",
            "",
        ),
        (
            "sdy.return",
            "@main must end with func.return",
            '"sdy.return"(%x) : (tensor<4xf32>) -> ()',
            "",
        ),
        (
            "func.call",
            "@f is declared without a body",
            """%0 = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
               return %0 : tensor<4xf32>""",
            "func.func private @f(tensor<4xf32>) -> tensor<4xf32>",
        ),
        (
            "builtin.module",
            "XLA supports only functions at the top level",
            "return %x : tensor<4xf32>",
            "builtin.module @other {}",
        ),
    ],
)
def test_unsupported_operations_are_refused(
    name: str, pattern: str, body: str, before: str
) -> None:
    message = refusal(body, before)
    assert message.startswith(f"to_computation: {name}, recorded at ")
    assert pattern in message


def test_functions_that_end_with_stablehlo_return() -> None:
    """XLA accepts the same text."""
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %x, %x : tensor<4xf32>
      stablehlo.return %0 : tensor<4xf32>
    }"""
    x = np.arange(4, dtype=np.float32)
    for program in (of_text(text), lowering.load_bytes(text.encode())):
        assert np.array_equal(lowering.compile(program)(x), x + x)


def test_invalid_main_functions() -> None:
    private = (
        "func.func private @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    )
    with pytest.raises(lowering.LoweringError, match="@main must be public, got private"):
        of_text(private)
    two_blocks = """
        "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
        ^bb0(%x: tensor<4xf32>):
          "func.return"(%x) : (tensor<4xf32>) -> ()
        ^bb1(%y: tensor<4xf32>):
          "func.return"(%y) : (tensor<4xf32>) -> ()
        }) : () -> ()"""
    with pytest.raises(lowering.LoweringError, match="@main has 2 blocks"):
        of_text(two_blocks)
