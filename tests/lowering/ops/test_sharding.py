"""Shardings in StableHLO, Shardy and HLO text, compared with those of jax and XLA."""

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


def sharded(kind: str) -> xb.XlaComputation:
    """Return a program with shardings of parameters, ops, tuples, loops and results."""

    def sharding_for(rank: int, *axes: Any) -> Any:
        named = MESH.sharding(*axes).at_rank(rank)
        return named if kind == "mesh" else named.tiling

    b = xb.XlaBuilder("sharded")
    x = b.parameter(xb.f32[8, 8], "x", sharding=sharding_for(2, "data"))
    each = [sharding_for(1, "data"), [sharding_for(0), sharding_for(2, None, "model")]]
    y = b.parameter("(f32[8], (s32[], f32[8,8]))", "y", sharding=each)
    z = b.parameter("(f32[8], f32[8])", "z", sharding=sharding_for(1, "model"))
    count = y[1][0]
    with b.sharding(sharding_for(2, "data")):
        twice = x * 2.0
        loop = xb.while_(lambda s: s[1] < 3, lambda s: (s[0] + s[0], s[1] + 1), (x, count))
    cut = xb.with_sharding(twice, sharding_for(2, "model", "data"))
    pair = xb.sort([z[0], z[1]], lambda a, c, d, e: a < c, 0)
    root = xb.tuple(cut, xb.tuple(loop[0], pair[0]))
    results = [sharding_for(2, "data", "model"), [None, sharding_for(1, ("data", "model"))]]
    return b.build(root, result_sharding=results)


@pytest.mark.parametrize("kind", ["mesh", "tilings"])
def test_round_trip(kind: str) -> None:
    computation = sharded(kind)
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    assert lowering.lower(again).bytecode == module.bytecode
    assert again.annotations.result_shardings == computation.annotations.result_shardings
    assert [p.sharding for p in again.parameters] == [p.sharding for p in computation.parameters]

    def calls(one: xb.XlaComputation) -> list[Any]:
        return [op.sharding for op in one.ops if op.opcode in ("custom_call", "while", "multiply")]

    assert calls(again) == calls(computation) != [None, None, None]
    text = module.text
    assert ("sdy.mesh" in text, "mhlo.sharding" in text) == (kind == "mesh", kind != "mesh")


def shardings_of(text: str) -> list[tuple[str, str]]:
    """Return the opcode and the sharding of each sharded instruction of HLO text."""
    results = [
        re.search(r" ([a-z\-]+)\(.*, sharding=(\{.*?\})(?:, [a-z_]+=|$)", line)
        for line in text.splitlines()
    ]
    return [(one[1], one[2]) for one in results if one is not None]


def test_tilings_agree_with_xla() -> None:
    """`MeshSharding.tiling` agrees with XLA's conversion from Shardy to GSPMD."""
    named, tiled = (
        hlo_conversion.stablehlo_to_hlo_text(lowering.lower(sharded(kind)).bytecode)
        for kind in ("mesh", "tilings")
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
    expected = [("parameter", one.at_rank(2).tiling) for one in specs]
    assert [one for one in shardings_of(text) if one[0] == "parameter"] == expected


@pytest.mark.parametrize("kind", ["mesh", "tilings"])
def test_shardings_in_hlo_text_agree_with_xla(kind: str) -> None:
    """Compare the HLO text, parsed by XLA, with XLA's conversion of the StableHLO."""
    computation = sharded(kind)
    parsed = hlo_conversion.parsed_hlo_text(str(computation))
    translated = hlo_conversion.stablehlo_to_hlo_text(lowering.lower(computation).bytecode)
    if kind == "tilings":
        results = shardings_of(parsed)[-1]
        assert results == shardings_of(translated)[-1]
        assert results[0] == "tuple"
        return
    key = r'xla\.sdy\.(?:sharding|meshes)=(?:"(?:[^"\\]|\\.)*"|\{[^}]*\})'
    mine, other = (set(re.findall(key, text)) for text in (parsed, translated))
    # XLA prints the shardings of a tuple parameter at the arrays, which are parameters there.
    assert sorted([one.count("<@mesh") for one in mine - other]) == [2, 3]
    assert not [one for one in other - mine if "per_value" in one]
    assert len(mine & other) > 5
    assert parsed.count("xla.sdy.FuncResultSharding") == 2
    assert translated.count("xla.sdy.FuncResultSharding") == 2


def test_the_module_agrees_with_jax() -> None:
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
    matches = [re.findall(pattern, text) for text in (ours, theirs)]
    assert matches[0] == matches[1]
    assert len(matches[0]) == 5
    imported = lowering.to_computation(lowering.load_bytes(theirs))
    assert [p.sharding for p in imported.parameters] == [x.sharding, y.sharding]
    assert imported.annotations.result_shardings == built.annotations.result_shardings


def test_mixed_kinds_of_shardings_are_refused() -> None:
    inner = xb.XlaBuilder("tiled")
    p = inner.parameter(xb.f32[8], "p", sharding="{devices=[2]<=[2]}")
    tiled = inner.build(xb.neg(p))
    b = xb.XlaBuilder("mixed")
    x = b.parameter(xb.f32[8], "x", sharding=MESH.sharding("data"))
    mixed = b.build(xb.call(tiled, x))
    for use in (lowering.lower, str):
        with pytest.raises(xb.BuilderError, match="GSPMD's tilings, in 'tiled'"):
            use(mixed)


def test_a_sharded_program_on_one_device() -> None:
    """Partitioning is an option of compilation."""
    b = xb.XlaBuilder("one")
    x = b.parameter(xb.f32[8, 8], "x", sharding=MESH.sharding("data"))
    y = xb.with_sharding(x + x, MESH.sharding("model"))
    actual = lowering.compile(b.build(y, result_sharding=MESH.sharding()), "cpu")(DATA)
    assert_identical(np.asarray(actual), DATA + DATA)


@pytest.mark.parametrize("kind", ["mesh", "tilings"])
def test_a_sharded_program_on_partitions(kind: str) -> None:
    def sharding_for(*axes: Any) -> Any:
        named = MESH.sharding(*axes).at_rank(2)
        return named if kind == "mesh" else named.tiling

    b = xb.XlaBuilder("product")
    x = b.parameter(xb.f32[8, 8], "x", sharding=sharding_for("data"))
    y = b.parameter(xb.f32[8, 8], "y", sharding=sharding_for(None, "model"))
    z = xb.with_sharding(xb.dot(x, y), sharding_for("data", "model"))
    computation = b.build(xb.abs(z), result_sharding=sharding_for("data", "model"))
    actual = lowering.compile(computation, "cpu", num_partitions=8)(DATA, DATA)
    assert actual.sharding.shard_shape(actual.shape) == (4, 2)
    assert_identical(np.asarray(actual), np.abs(DATA @ DATA))


def test_manual_shards() -> None:
    """Each of 8 devices has a row of a matrix; the sum is over all devices."""
    rows = xb.Mesh({"rows": 8}).sharding("rows", None)
    b = xb.XlaBuilder("parts")
    x = b.parameter(xb.f32[8, 8], "x", sharding=rows.tiling)
    part = xb.spmd_full_to_shard_shape(x, rows)
    total = xb.all_reduce(part, xb.add, channel_id=1)
    whole = xb.spmd_shard_to_full_shape(part / total, x.shape, rows)
    computation = b.build(whole, result_sharding=rows.tiling)
    actual = lowering.compile(computation, "cpu", num_partitions=8)(DATA + 1)
    expected = (DATA + 1) / (DATA + 1).sum(0, keepdims=True)
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)


def test_manual_shards_of_an_unpartitioned_program() -> None:
    """XLA does not support the conversion there, and its own error message is unclear."""
    b = xb.XlaBuilder("alone")
    x = b.parameter(xb.f32[8, 8], "x")
    part = xb.spmd_full_to_shard_shape(x, "{devices=[2,1]<=[2]}")
    computation = b.build(xb.spmd_shard_to_full_shape(part, x.shape, "{devices=[2,1]<=[2]}"))
    message = (
        "spmd_full_to_shard_shape, recorded at .*, requires a program that XLA partitions, got"
    )
    with pytest.raises(lowering.CompileError, match=message):
        lowering.compile(computation, "cpu")
    b = xb.XlaBuilder("whole")
    part = xb.spmd_full_to_shard_shape(b.parameter(xb.f32[8, 8], "x"), "{replicated}")
    whole = b.build(xb.spmd_shard_to_full_shape(part + part, part.shape, "{replicated}"))
    assert_identical(np.asarray(lowering.compile(whole, "cpu")(DATA)), DATA + DATA)
