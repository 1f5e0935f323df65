"""Shardings in StableHLO, Shardy's dialect and HLO text, against what jax and XLA write."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from support import assert_identical

import builder as xb
import lowering
from lowering.jaxlib_api import hlo_conversion

MESH = xb.Mesh({"data": 2, "model": 4})
DATA = np.arange(64, dtype=np.float32).reshape(8, 8)


def sharded(words: str) -> xb.XlaComputation:
    """A program that says of all kinds of things how they lie on devices."""

    def said(rank: int, *axes: Any) -> Any:
        named = MESH.sharding(*axes).at_rank(rank)
        return named if words == "mesh" else named.tiling

    b = xb.XlaBuilder("sharded")
    x = b.parameter(xb.f32[8, 8], "x", sharding=said(2, "data"))
    each = [said(1, "data"), [said(0), said(2, None, "model")]]
    y = b.parameter("(f32[8], (s32[], f32[8,8]))", "y", sharding=each)
    z = b.parameter("(f32[8], f32[8])", "z", sharding=said(1, "model"))
    count = y[1][0]
    with b.sharding(said(2, "data")):
        twice = x * 2.0
        loop = xb.while_(lambda s: s[1] < 3, lambda s: (s[0] + s[0], s[1] + 1), (x, count))
    cut = xb.with_sharding(twice, said(2, "model", "data"))
    pair = xb.sort([z[0], z[1]], lambda a, c, d, e: a < c, 0)
    root = xb.tuple(cut, xb.tuple(loop[0], pair[0]))
    results = [said(2, "data", "model"), [None, said(1, ("data", "model"))]]
    return b.build(root, result_sharding=results)


@pytest.mark.parametrize("words", ["mesh", "tilings"])
def test_there_and_back(words: str) -> None:
    computation = sharded(words)
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    assert lowering.lower(again).bytecode == module.bytecode
    assert again.annotations.result_shardings == computation.annotations.result_shardings
    assert [p.sharding for p in again.parameters] == [p.sharding for p in computation.parameters]

    def calls(one: xb.XlaComputation) -> list[Any]:
        return [op.sharding for op in one.ops if op.opcode in ("custom_call", "while", "multiply")]

    assert calls(again) == calls(computation) != [None, None, None]
    text = module.text
    assert ("sdy.mesh" in text, "mhlo.sharding" in text) == (words == "mesh", words != "mesh")


def shardings_of(text: str) -> list[tuple[str, str]]:
    """Of each instruction of HLO text with a sharding its opcode and the sharding."""
    found = [
        re.search(r" ([a-z\-]+)\(.*, sharding=(\{.*?\})(?:, [a-z_]+=|$)", line)
        for line in text.splitlines()
    ]
    return [(one[1], one[2]) for one in found if one is not None]


def test_xla_makes_the_same_tilings_of_meshes() -> None:
    """XLA translates Shardy's words into GSPMD's; `MeshSharding.tiling` says the same."""
    named, tiled = (
        hlo_conversion.stablehlo_to_hlo_text(lowering.lower(sharded(words)).bytecode)
        for words in ("mesh", "tilings")
    )
    theirs = shardings_of(named)
    ours = shardings_of(tiled)
    assert {one for one in ours if one[0] not in ("reshape",)} <= set(theirs)
    assert len(ours) > 10
    turned = xb.Mesh({"a": 2, "b": 2, "c": 2}, [7, 6, 5, 4, 3, 2, 1, 0])
    b = xb.XlaBuilder("turned")
    specs = [turned.sharding("c"), turned.sharding(None, ("b", "a")), turned.sharding("b", "a")]
    xs = [b.parameter(xb.f32[8, 8], sharding=one) for one in specs]
    text = hlo_conversion.stablehlo_to_hlo_text(lowering.lower(b.build(xb.tuple(*xs))).bytecode)
    wanted = [("parameter", one.at_rank(2).tiling) for one in specs]
    assert [one for one in shardings_of(text) if one[0] == "parameter"] == wanted


@pytest.mark.parametrize("words", ["mesh", "tilings"])
def test_the_text_says_what_xla_says_of_the_module(words: str) -> None:
    """What XLA's parser reads of the HLO text, and what XLA makes of the StableHLO."""
    computation = sharded(words)
    parsed = hlo_conversion.parsed_hlo_text(str(computation))
    translated = hlo_conversion.stablehlo_to_hlo_text(lowering.lower(computation).bytecode)
    if words == "tilings":
        results = shardings_of(parsed)[-1]
        assert results == shardings_of(translated)[-1]
        assert results[0] == "tuple"
        return
    key = r'xla\.sdy\.(?:sharding|meshes)=(?:"(?:[^"\\]|\\.)*"|\{[^}]*\})'
    mine, other = (set(re.findall(key, text)) for text in (parsed, translated))
    # Of a tuple that is a parameter XLA says them of its arrays, which are parameters there.
    assert sorted([one.count("<@mesh") for one in mine - other]) == [2, 3]
    assert not [one for one in other - mine if "per_value" in one]
    assert len(mine & other) > 5
    assert parsed.count("xla.sdy.FuncResultSharding") == 2
    assert translated.count("xla.sdy.FuncResultSharding") == 2


def test_jax_writes_the_same() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def named(*spec: Any) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*spec))

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        product = jax.lax.with_sharding_constraint(x * y, named(("data", "model"), None))
        return jnp.tanh(product)

    jitted = jax.jit(
        function,
        in_shardings=(named("data", None), named("model", "data")),
        out_shardings=named(None, "model"),
    )
    theirs = jitted.lower(DATA, DATA).as_text()
    b = xb.XlaBuilder("same")
    x = b.parameter(xb.f32[8, 8], "x", sharding=MESH.sharding("data"))
    y = b.parameter(xb.f32[8, 8], "y", sharding=MESH.sharding("model", "data"))
    product = xb.with_sharding(x * y, MESH.sharding(("data", "model")))
    built = b.build(xb.tanh(product), result_sharding=MESH.sharding(None, "model"))
    ours = lowering.lower(built).text
    pattern = (
        r"sdy\.mesh @\w+ = <.*?>|sdy\.sharding = #sdy\.sharding<.*?\]>|sdy\.sharding_constraint .*"
    )
    words = [re.findall(pattern, text) for text in (ours, theirs)]
    assert words[0] == words[1]
    assert len(words[0]) == 5
    imported = lowering.to_computation(lowering.load_bytes(theirs))
    assert [p.sharding for p in imported.parameters] == [x.sharding, y.sharding]
    assert imported.annotations.result_shardings == built.annotations.result_shardings


def test_computations_in_other_words_are_refused() -> None:
    inner = xb.XlaBuilder("tiled")
    p = inner.parameter(xb.f32[8], "p", sharding="{devices=[2]<=[2]}")
    tiled = inner.build(xb.neg(p))
    b = xb.XlaBuilder("mixed")
    x = b.parameter(xb.f32[8], "x", sharding=MESH.sharding("data"))
    mixed = b.build(xb.call(tiled, x))
    for use in (lowering.lower, str):
        with pytest.raises(xb.BuilderError, match="GSPMD's tilings, in 'tiled'"):
            use(mixed)


def test_one_device_runs_what_is_sharded() -> None:
    """Whether a program is partitioned is said where it is compiled."""
    b = xb.XlaBuilder("one")
    x = b.parameter(xb.f32[8, 8], "x", sharding=MESH.sharding("data"))
    y = xb.with_sharding(x + x, MESH.sharding("model"))
    found = lowering.compile(b.build(y, result_sharding=MESH.sharding()), "cpu")(DATA)
    assert_identical(np.asarray(found), DATA + DATA)


@pytest.mark.parametrize("words", ["mesh", "tilings"])
def test_partitions_run_what_is_sharded(words: str) -> None:
    def said(*axes: Any) -> Any:
        named = MESH.sharding(*axes).at_rank(2)
        return named if words == "mesh" else named.tiling

    b = xb.XlaBuilder("product")
    x = b.parameter(xb.f32[8, 8], "x", sharding=said("data"))
    y = b.parameter(xb.f32[8, 8], "y", sharding=said(None, "model"))
    z = xb.with_sharding(xb.dot(x, y), said("data", "model"))
    computation = b.build(xb.abs(z), result_sharding=said("data", "model"))
    found = lowering.compile(computation, "cpu", num_partitions=8)(DATA, DATA)
    assert found.sharding.shard_shape(found.shape) == (4, 2)
    assert_identical(np.asarray(found), np.abs(DATA @ DATA))


def test_each_device_works_on_its_part() -> None:
    """Rows of a matrix on 8 devices: each sums up its own, and then all of them."""
    rows = xb.Mesh({"rows": 8}).sharding("rows", None)
    b = xb.XlaBuilder("parts")
    x = b.parameter(xb.f32[8, 8], "x", sharding=rows.tiling)
    part = xb.spmd_full_to_shard_shape(x, rows)
    total = xb.all_reduce(part, xb.add, channel_id=1)
    whole = xb.spmd_shard_to_full_shape(part / total, x.shape, rows)
    computation = b.build(whole, result_sharding=rows.tiling)
    found = lowering.compile(computation, "cpu", num_partitions=8)(DATA + 1)
    wanted = (DATA + 1) / (DATA + 1).sum(0, keepdims=True)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


def test_parts_of_a_program_that_is_not_partitioned() -> None:
    """XLA has no code for the change, and ends a compilation with words of its own."""
    b = xb.XlaBuilder("alone")
    x = b.parameter(xb.f32[8, 8], "x")
    part = xb.spmd_full_to_shard_shape(x, "{devices=[2,1]<=[2]}")
    computation = b.build(xb.spmd_shard_to_full_shape(part, x.shape, "{devices=[2,1]<=[2]}"))
    words = "spmd_full_to_shard_shape, recorded at .*, requires a program that XLA partitions, got"
    with pytest.raises(lowering.CompileError, match=words):
        lowering.compile(computation, "cpu")
    b = xb.XlaBuilder("whole")
    part = xb.spmd_full_to_shard_shape(b.parameter(xb.f32[8, 8], "x"), "{replicated}")
    whole = b.build(xb.spmd_shard_to_full_shape(part + part, part.shape, "{replicated}"))
    assert_identical(np.asarray(lowering.compile(whole, "cpu")(DATA)), DATA + DATA)
