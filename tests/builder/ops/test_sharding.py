"""Shardings: meshes, tilings, text, recording, and invalid input."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh as JaxMesh, NamedSharding, PartitionSpec
from tables import each_row

import builder as xb
import lowering
from builder import lib
from builder.sharding.text import as_per_value, join_leaf_texts, leaf_texts
from lowering.jaxlib_api import hlo_conversion

MESH = xb.Mesh({"data": 2, "model": 4})
ROWS = "{devices=[2,1]<=[2]}"


def refused(error: type[Exception], words: str, call: Callable[[], Any]) -> str:
    with pytest.raises(error, match=re.escape(words)) as caught:
        call()
    return str(caught.value)


# Meshes, compared with jax's.


def test_a_mesh() -> None:
    assert (MESH.axis_names, MESH.axis_sizes, MESH.size) == (("data", "model"), (2, 4), 8)
    assert str(MESH) == '#sdy.mesh<["data"=2, "model"=4]>'
    assert xb.Mesh([("data", 2), ("model", np.int64(4))], range(8)) == MESH
    assert xb.Mesh({"model": 4, "data": 2}) != MESH
    turned = xb.Mesh({"x": 2}, [1, 0], name="turned")
    assert str(turned) == '#sdy.mesh<["x"=2], device_ids=[1, 0]>'
    assert str(turned.sharding("x")) == '#sdy.sharding<@turned, [{"x"}]>'
    assert pickle.loads(pickle.dumps(turned.sharding("x"))) == turned.sharding("x")
    with pytest.raises(AttributeError):
        MESH.name = "other"  # type: ignore[misc]  # the wrong type is the test
    assert str(xb.Mesh({}).sharding()) == "#sdy.sharding<@mesh, []>"


ENTRIES = (
    None,
    "a",
    "b",
    "c",
    ("a", "b"),
    ("b", "a"),
    ("c", "a"),
    ("a", "b", "c"),
    ("c", "b", "a"),
)


@each_row("sizes", [(2, 2, 2), (1, 2, 4), (2, 4, 1), (4, 1, 2), (1, 1, 8)])
@each_row("order", [None, (3, 1, 4, 0, 5, 2, 6, 7)])
def test_shardings_of_a_mesh_are_those_of_jax(
    sizes: tuple[int, ...], order: tuple[int, ...] | None
) -> None:
    """The shard of each device, from jax's indices; and the shapes of shards."""
    axes = dict(zip("abc", sizes, strict=True))
    mesh = xb.Mesh(axes, order)
    devices = np.array(jax.devices("cpu")[:8])
    jax_mesh = JaxMesh(devices[list(order or range(8))].reshape(sizes), tuple("abc"))
    shape = (8, 16)
    tried = 0
    for pair in itertools.product(ENTRIES, ENTRIES):
        named = [axis for axes in pair if axes for axis in axes]
        if len(set(named)) < len(named):
            continue
        tried += 1
        ours, other = mesh.sharding(*pair), NamedSharding(jax_mesh, PartitionSpec(*pair))
        part = other.shard_shape(shape)
        assert ours.shard_shape(xb.f32[shape]).dimensions == part
        jax_indices = {d.id: index for d, index in other.devices_indices_map(shape).items()}
        tiling = xb.parse_tiling(ours.tiling)
        assert tiling.shard_shape(xb.f32[shape]).dimensions == part
        if tiling.kind == "replicated":
            assert part == shape
            continue
        tiles = np.array(tiling.devices).reshape(*tiling.tiles[:2], -1)
        for row, column in np.ndindex(*tiling.tiles[:2]):
            for device in tiles[row, column]:
                found = [s.indices(n)[:2] for s, n in zip(jax_indices[device], shape, strict=True)]
                places = zip((row, column), part, strict=True)
                assert found == [(place * n, place * n + n) for place, n in places]
    assert tried == 29  # 17 with an unsharded dimension, 12 with two sharded ones


def test_uneven_shards_are_padded() -> None:
    assert str(MESH.sharding("model").shard_shape("f32[9,5]{0,1}")) == "f32[3,5]"
    assert str(xb.parse_tiling("{devices=[4,2]<=[8]}").shard_shape("s8[9,<=5]")) == "s8[3,<=3]"
    assert str(xb.parse_tiling("{manual}").shard_shape("s8[9]")) == "s8[9]"
    assert str(MESH.sharding("data").shard_shape("f32[?,4]")) == "f32[?,4]"


def test_invalid_meshes() -> None:
    check = refused
    check(
        xb.OperandError, "Mesh: axes must be a mapping of names to sizes, got 3", lambda: xb.Mesh(3)
    )
    check(xb.OperandError, "Mesh: axes must be", lambda: xb.Mesh("ab"))
    jax_mesh = jax.sharding.AbstractMesh((2, 4), ("data", "model"))
    check(xb.OperandError, "fix: write xb.Mesh(mesh.shape)", lambda: xb.Mesh(jax_mesh))
    assert xb.Mesh(jax_mesh.shape) == MESH
    named = NamedSharding(jax_mesh, PartitionSpec("data", None))
    message = "fix: write xb.Mesh(sharding.mesh.shape).sharding(*sharding.spec)"
    x = xb.XlaBuilder().parameter("f32[8,4]")
    check(xb.OperandError, message, lambda: xb.with_sharding(x, named))
    assert xb.Mesh(named.mesh.shape).sharding(*named.spec) == MESH.sharding("data", None)
    check(xb.OperandError, "Mesh: the name of an axis must be a string", lambda: xb.Mesh({1: 2}))
    check(xb.ShapeInferenceError, "got 'a b'", lambda: xb.Mesh({"a b": 2}))
    check(xb.ShapeInferenceError, "got '@'", lambda: xb.Mesh({"a": 2}, name="@"))
    check(
        xb.ShapeInferenceError,
        "names of axes must be unique",
        lambda: xb.Mesh([("a", 2), ("a", 2)]),
    )
    check(xb.ShapeInferenceError, "must be 1 or more, got 0 for 'a'", lambda: xb.Mesh({"a": 0}))
    check(xb.ShapeInferenceError, "must be an integer", lambda: xb.Mesh({"a": 2.0}))
    check(xb.ShapeInferenceError, "devices at most", lambda: xb.Mesh({"a": 2**40}))
    for devices in ([0, 0], [0], [1, 2], [0, 1, 2]):
        check(
            xb.ShapeInferenceError,
            "the numbers from 0 to 1",
            lambda d=devices: xb.Mesh({"a": 2}, d),
        )
    check(
        xb.ShapeInferenceError,
        "each axis must be one of mesh 'mesh'",
        lambda: MESH.sharding("x"),
    )
    check(
        xb.ShapeInferenceError, "got 'data' twice", lambda: MESH.sharding("data", ("model", "data"))
    )
    check(xb.OperandError, "Mesh.sharding: dimensions must be names", lambda: MESH.sharding(0))
    check(xb.OperandError, "MeshSharding: mesh must be an xb.Mesh", lambda: xb.MeshSharding("mesh"))
    check(xb.OperandError, "dimensions must be a list or tuple", lambda: xb.MeshSharding(MESH, 3))
    check(
        xb.ShapeInferenceError,
        "shard_shape: a sharding can't have more entries than the array has dimensions, got 2",
        lambda: MESH.sharding("data", None).shard_shape("f32[8]"),
    )
    check(
        xb.ShapeInferenceError,
        "for an array of rank 0",
        lambda: MESH.sharding("data").at_rank(0),
    )
    check(
        xb.ShapeInferenceError,
        "must be the shape of an array",
        lambda: MESH.sharding().shard_shape("()"),
    )


# Tilings, compared with XLA's parser.

TILINGS = [
    "{replicated}",
    "{ manual }",
    "{unknown}",
    "{maximal device=3}",
    "{devices=[2,1]1,0}",
    "{devices=[2, 2] <= [4]}",
    "{devices=[2,2]<=[2,2]T(1,0)}",
    "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
    "{devices=[2,1,2,2]<=[2,2,2]T(2,0,1) last_tile_dims={manual,replicated}}",
    "{devices=[2,1]<=[2] metadata={op_name=\"a}\" op_type='b'} shard_as 1}",
    '{replicated metadata={{op_name="a"}, {op_name="b"}} shard_like 2}',
]


def parsed(shape: str, sharding: str) -> str:
    """The sharding of a parameter from XLA's parser."""
    text = f"HloModule m\nENTRY e {{\n  ROOT p = {shape} parameter(0), sharding={sharding}\n}}\n"
    return hlo_conversion.parsed_hlo_text(text).partition("sharding=")[2].splitlines()[0]


@each_row("text", TILINGS)
def test_tilings_that_xla_reads(text: str) -> None:
    xla_sharding = parsed("f32[8,4]", text)
    tiling = xb.parse_tiling(text)
    again = xb.parse_tiling(xla_sharding)  # as XLA prints it
    assert tiling.text == text
    assert [getattr(tiling, name) for name in ("kind", "tiles", "subgroups", "devices")] == [
        getattr(again, name) for name in ("kind", "tiles", "subgroups", "devices")
    ]
    x = xb.XlaBuilder().parameter("f32[8,4]", "x", sharding=text)
    assert xla_sharding == parsed("f32[8,4]", x.sharding)


REFUSED = {
    "{devices=[2,1]0}": "there must be one device for each tile: 2 for [2, 1], got 1",
    "{devices=[2,1]<=[1,2]x}": "expected replicated, manual",
    "{devices=[2,2]<=[4]T(0,1)}": "be a permutation of [0], got [0, 1]",
    "{devices=[2,1]0,0}": "devices must be unique, got device 0 twice",
    "{devices=[2,1]<=[3]}": "there must be one device for each tile: 2 for [2, 1], got 3",
    "{devices=[2,2]<=[2,2]T(1,1)}": "be a permutation of [0, 1], got [1, 1]",
    "{devices=[0,1]<=[0]}": "sizes must be 1 or more",
    "{devices=[]<=[]}": "sizes must be 1 or more",
    "{devices=[1,1]<=[1]}": "write {replicated} or {maximal device=0}",
    "{devices=[2,1]-1,0}": "expected a device or '<='",
    "{devices=[9999999999,1]<=[9999999999]}": "product of 16777216 at most",
    "{devices=[2,1,2]<=[4] last_tile_dims={maximal}}": "replicated, manual or unreduced",
    "{devices=[2,1,2]<=[4] last_tile_dims={}}": "replicated, manual or unreduced",
    "{devices=[2]<=[2] last_tile_dims={manual, manual}}": "more entries than devices=[2]",
    "{last_tile_dim_replicate}": "must follow devices=[...]",
    "{replicated manual}": "two kinds, got replicated and manual",
    "{devices=[2,1]<=[2] device=0}": "expected replicated",  # XLA's parser aborts on it
    "{mesh['a'=2], [{'a'}, {}]}": "expected replicated",
    "{maximal}": "expected 'device'",
    "{shard_as 1}": "expected replicated",
    "{replicated} {manual}": "expected the end of the tiling",
    "{replicated": "expected replicated",
    '{replicated metadata={op_name="}"}': "got the end",
}


@each_row("text", REFUSED)
def test_malformed_tilings(text: str) -> None:
    message = refused(xb.ShapeTextError, REFUSED[text], lambda: xb.parse_tiling(text))
    assert message.startswith("tiling text: ")
    b = xb.XlaBuilder()
    message = refused(
        xb.ShapeTextError, REFUSED[text], lambda: b.parameter("f32[8,4]", sharding=text)
    )
    assert message.startswith("parameter: tiling text: ")
    assert "\nfix: write " in message
    assert "{replicated}" in message
    assert b.ops == []


def test_not_the_tiling_of_one_array() -> None:
    refused(xb.OperandError, "parse_tiling: expected", lambda: xb.parse_tiling(3))
    two = "{{replicated}, {manual}}"
    refused(xb.ShapeInferenceError, "got the tiling of a tuple", lambda: xb.parse_tiling(two))
    fits = xb.parse_tiling(ROWS).shard_shape
    refused(xb.ShapeInferenceError, "of rank 2, for f32[8]", lambda: fits("f32[8]"))
    refused(xb.ShapeInferenceError, "must be the shape of an array", lambda: fits("(f32[8])"))


def test_texts_of_tuples() -> None:
    shardy = ['#sdy.sharding<@mesh, [{"x"}, {}]>', "#sdy.sharding<@mesh, []>"]
    for each in (shardy, ['{devices=[2,1]<=[2] metadata={op_name="},{"}}', "{replicated}"]):
        assert leaf_texts(join_leaf_texts(each), 2) == each
        assert leaf_texts(each[0], 3) == each[:1] * 3
    assert leaf_texts(as_per_value(shardy[0]), 1) == shardy[:1]
    assert as_per_value(join_leaf_texts(shardy)) == join_leaf_texts(shardy)
    assert as_per_value("{manual}") == "{manual}"


# Recording.


def test_parameters() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[8,4]", "x", sharding=MESH.sharding("data"))
    assert x.sharding == '#sdy.sharding<@mesh, [{"data"}, {}]>'
    each = [MESH.sharding("data"), [MESH.sharding(), MESH.sharding(None, "model")]]
    y = b.parameter("(f32[8], (s32[], f32[8,4]))", "y", sharding=each)
    assert y.sharding == (
        '#sdy.sharding_per_value<[<@mesh, [{"data"}]>, <@mesh, []>, <@mesh, [{}, {"model"}]>]>'
    )
    z = b.parameter("(f32[8], f32[4])", "z", sharding=MESH.sharding("data"))
    assert z.sharding == '#sdy.sharding_per_value<[<@mesh, [{"data"}]>, <@mesh, [{"data"}]>]>'
    assert (x.name, y.name, z.name) == ("x", "y", "z")
    assert dict(b.annotations.meshes) == {"mesh": {"mesh": str(MESH)}}
    b = xb.XlaBuilder()
    with b.sharding("{replicated}"):
        assert b.parameter("f32[8,4]", sharding=ROWS).sharding == ROWS
        assert b.parameter("f32[8,4]").sharding == "{replicated}"


def test_blocks_and_assignments() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[8,4]", "x")
    with b.sharding(MESH.sharding("data", "model")):
        y = x * 2.0  # the number is a scalar, which can't be sharded
        assert [op.sharding for op in b.ops[1:]] == [
            None,
            *['#sdy.sharding<@mesh, [{"data"}, {"model"}]>'] * 2,
        ]
        b.set_sharding(MESH.sharding(None, "model"))
        assert xb.neg(y).sharding == '#sdy.sharding<@mesh, [{}, {"model"}]>'
    assert xb.neg(y).sharding is None
    b.set_sharding(MESH.sharding("model"))
    pair = xb.custom_call("f", x, "(f32[8], f32[], token[])")
    assert (
        pair.sharding == '#sdy.sharding_per_value<[<@mesh, [{"model"}]>, <@mesh, []>, <@mesh, []>]>'
    )
    total = xb.reduce(x, 0.0, xb.add, [0, 1])
    assert (total.sharding, b.create_token().sharding) == (None, None)
    looped = xb.while_(
        lambda s: s[1] < 3, lambda s: (s[0] * s[0], s[1] + 1), (x, b.constant(0, xb.s32))
    )
    inside = {op.opcode: op.sharding for op in looped.attributes["body"].ops}
    assert inside["multiply"] == '#sdy.sharding<@mesh, [{"model"}, {}]>'
    assert inside["add"] is None
    b.set_sharding(None)
    assert xb.neg(x).sharding is None
    assert b._current_metadata is None


def test_tilings_of_tuples() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[8,4]", "x")
    with b.sharding(ROWS):
        found = xb.custom_call("f", x, "(f32[8,4], (s32[], f32[2,2]))")
        assert xb.tuple(x, x, x).sharding == f"{{{ROWS}, {ROWS}, {ROWS}}}"
        assert (
            xb.tuple(x, xb.reduce(x, 0.0, xb.add, [0, 1])).sharding == f"{{{ROWS}, {{replicated}}}}"
        )
    assert found.sharding == f"{{{ROWS}, {{replicated}}, {ROWS}}}"
    with b.sharding(f"{{{ROWS}, {{manual}}}}"):
        assert xb.custom_call("f", x, "(f32[8,4], f32[2])").sharding == f"{{{ROWS}, {{manual}}}}"
        refused(
            xb.ShapeInferenceError,
            "neg: an array can't have the sharding of a tuple",
            lambda: xb.neg(x),
        )
        refused(
            xb.ShapeInferenceError,
            "custom_call: the sharding of a tuple must have one entry for each array: 3, got 2",
            lambda: xb.custom_call("f", x, "(f32[8,4], f32[2], f32[2])"),
        )


def test_an_op_that_does_not_fit_its_block() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[8,4]", "x")
    with b.sharding(ROWS):
        message = refused(
            xb.ShapeInferenceError,
            "reshape: a tiling must have a number of tiles for each dimension of the array, got "
            f"{ROWS}, of rank 2, for f32[32]",
            lambda: xb.reshape(x, [32]),
        )
        assert "builder.sharding(None)" in message
        pair = xb.custom_call("f", x, "(f32[8,4], s32[])")
        assert pair[1].sharding is None


def test_the_sharding_of_an_op_is_assigned() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[8,4]", "x")
    x.sharding = MESH.sharding("data")
    assert (x.sharding, x.name) == ('#sdy.sharding<@mesh, [{"data"}, {}]>', "x")
    x.sharding = None
    assert x.sharding is None

    def assign(sharding: Any) -> None:
        x.sharding = sharding

    refused(xb.OperandError, "sharding: sharding must be the text", lambda: assign(3))
    long = MESH.sharding(None, None, None)
    refused(xb.ShapeInferenceError, "got 3 entries, in #sdy.sharding", lambda: assign(long))
    b.build(x)
    refused(xb.BuilderError, "sharding: builder 'computation' was already", lambda: assign(ROWS))


def test_with_sharding() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[8,4]", "x")
    with b.sharding(MESH.sharding("model")), b.frontend_attributes({"a": "1"}):
        y = xb.with_sharding(x, MESH.sharding("data"))
    assert (y.opcode, y.operands, y.shape) == ("custom_call", (x,), x.shape)
    assert y.attributes["call_target_name"] == "Sharding"
    assert y.sharding == '#sdy.sharding<@mesh, [{"data"}, {}]>'
    assert y.frontend_attributes == {"a": "1"}
    infer = xb.shape_inference
    assert infer.with_sharding("f32[8,4]", ROWS) == x.shape
    name = "with_sharding"
    refused(xb.OperandError, f"{name}: operand must be an XlaOp", lambda: xb.with_sharding(1, ROWS))
    refused(xb.OperandError, f"{name}: sharding must be", lambda: xb.with_sharding(x, MESH))
    refused(xb.OperandError, "got Shardy's text", lambda: xb.with_sharding(x, y.sharding))
    refused(
        xb.ShapeInferenceError,
        f"{name}: a tiling must have a number of tiles",
        lambda: infer.with_sharding("f32[8]", ROWS),
    )
    pair = xb.tuple(x, x)
    refused(
        xb.ShapeInferenceError,
        f"{name}: operand must be an array, got a tuple",
        lambda: xb.with_sharding(pair, MESH.sharding()),
    )


def test_shards_and_full_arrays() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[8,4]", "x")
    both = MESH.sharding("data", "model")
    part = xb.spmd_full_to_shard_shape(x, both)
    assert str(part.shape) == "f32[4,1]"
    whole = xb.spmd_shard_to_full_shape(part, "f32[8,4]", both.tiling)
    assert whole.shape is x.shape
    calls = [(op.attributes.get("call_target_name"), op.sharding) for op in b.ops[1:]]
    tiled = "{devices=[2,4]<=[8]}"
    assert calls == [
        ("Sharding", tiled),
        ("SPMDFullToShardShape", "{manual}"),
        ("Sharding", "{manual}"),
        ("SPMDShardToFullShape", tiled),
    ]
    full, shard = xb.spmd_full_to_shard_shape, xb.spmd_shard_to_full_shape
    infer = xb.shape_inference
    assert infer.spmd_full_to_shard_shape("f32[8,4]", "{replicated}") == x.shape
    refused(
        xb.ShapeInferenceError,
        "spmd_full_to_shard_shape: each size must be divisible by its number of tiles, since all "
        "shards have the same shape, got 3 tiles for size 8",
        lambda: full(x, "{devices=[3,1]<=[3]}"),
    )
    refused(
        xb.ShapeInferenceError,
        "must be {replicated} or tiles of the full array",
        lambda: full(x, "{manual}"),
    )
    refused(xb.OperandError, "spmd_full_to_shard_shape: sharding must be", lambda: full(x, None))
    dynamic = b.parameter("f32[<=8,4]", "n")
    refused(xb.ShapeInferenceError, "can't be sharded, got 2 tiles", lambda: full(dynamic, ROWS))
    refused(
        xb.ShapeInferenceError,
        "spmd_shard_to_full_shape: operand must have the shape of one device's shard of "
        "full_shape, f32[4,2], got f32[4,1]",
        lambda: shard(part, "f32[8,8]", both),
    )
    refused(xb.ShapeInferenceError, "got 4 tiles for size 5", lambda: shard(part, "f32[8,5]", both))
    refused(xb.ShapeInferenceError, "full_shape must be an array", lambda: shard(part, "()", both))
    assert len(b.ops) == 6


def test_results() -> None:
    def built(shape: str, sharding: Any, **more: Any) -> tuple[str | None, ...]:
        b = xb.XlaBuilder("c")
        computation = b.build(b.parameter(shape), result_sharding=sharding, **more)
        return computation.annotations.result_shardings

    assert built("f32[8,4]", ROWS, result="f32[8,4]{0,1}") == (ROWS,)
    assert built("(f32[8], (f32[4,2], s32[]))", [None, [ROWS, None]]) == (None, ROWS, None)
    assert built("(f32[8,4], f32[2,2])", ROWS) == (ROWS, ROWS)
    assert built("f32[8]", MESH.sharding("data")) == ('#sdy.sharding<@mesh, [{"data"}]>',)
    name = "build: "
    each = "a sequence in result_sharding must have an entry for each element of a tuple, got 1"
    for error, words, shape, sharding in [
        (xb.ShapeInferenceError, "a tiling must have a number of tiles", "f32[]", ROWS),
        (xb.ShapeInferenceError, "a token can't be sharded", "(f32[8,4], token[])", ROWS),
        (xb.ShapeInferenceError, each, "(f32[], f32[])", [None]),
        (xb.ShapeInferenceError, each, "f32[8,4]", [ROWS]),
        (xb.OperandError, "result_sharding must be the text", "f32[8,4]", 3),
        (xb.OperandError, "result_sharding must be the text", "f32[8,4]", ("data", None)),
        (xb.ShapeTextError, "tiling text: expected", "f32[8,4]", "{x}"),
    ]:
        refused(error, name + words, lambda s=shape, g=sharding: built(s, g))
    refused(
        xb.OperandError,
        "parameter: sharding must cover each array of the tuple",
        lambda: xb.XlaBuilder().parameter("(f32[8,4], f32[2])", sharding=[ROWS, None]),
    )


# One dialect, and one mesh.


def test_tilings_beside_meshes_are_refused() -> None:
    b = xb.XlaBuilder("mixed")
    x = b.parameter("f32[8,4]", "x", sharding=MESH.sharding("data"))
    words = "a program can't have both GSPMD's tilings and shardings by the axes of a mesh"
    for name, call in {
        "with_sharding": lambda: xb.with_sharding(x, ROWS),
        "sharding": lambda: b.sharding(ROWS),
        "set_sharding": lambda: b.set_sharding(ROWS),
        "parameter": lambda: b.parameter("f32[8,4]", sharding=ROWS),
        "build": lambda: b.build(x, result_sharding=ROWS),
        "spmd_full_to_shard_shape": lambda: xb.spmd_full_to_shard_shape(x, MESH.sharding("data")),
        "call": lambda: xb.call(lambda v: xb.with_sharding(v, ROWS), x),
    }.items():
        message = refused(xb.BuilderError, words, call)
        assert message.startswith("with_sharding: " if name == "call" else f"{name}: ")
    assert len(b.ops) == 1
    tiled = xb.XlaBuilder("tiled")
    y = tiled.parameter("f32[8,4]", "y", sharding=ROWS)
    message = refused(
        xb.BuilderError, words, lambda: xb.with_sharding(y, MESH.sharding("data", None))
    )
    assert "fix: write mesh.sharding('data', None).tiling here" in message
    inner = tiled.build(xb.neg(y))
    refused(xb.BuilderError, "inline: " + words, lambda: xb.inline(inner, x))


def test_two_meshes_need_two_names() -> None:
    b = xb.XlaBuilder("both")
    x = b.parameter("f32[8,4]", "x", sharding=MESH.sharding("data"))
    other = {"data": 8}
    message = refused(
        xb.BuilderError,
        "with_sharding: mesh 'mesh' must equal the mesh in builder 'both'",
        lambda: xb.with_sharding(x, xb.Mesh(other).sharding("data")),
    )
    assert str(MESH) in message
    assert '["data"=8]' in message
    y = xb.with_sharding(x, xb.Mesh(other, name="line").sharding("data"))
    assert sorted(b.build(y).annotations.meshes) == ["line", "mesh"]


# Rewriting.


def test_rewriting_keeps_shardings() -> None:
    b = xb.XlaBuilder("model")
    rows = MESH.sharding("data")
    x = b.parameter("f32[8,4]", "x", sharding=rows)
    y = xb.with_sharding(xb.exp(x), MESH.sharding(None, "model"))
    c = b.build(xb.tuple(y, x), result_sharding=[rows, None])
    swapped = c.replace(
        lambda op, operands: xb.log(*operands) if op.opcode == "exponential" else None
    )
    assert [op.sharding for op in swapped.ops] == [op.sharding for op in c.ops]
    assert swapped.annotations == c.annotations
    part = c.extract(y)
    assert part.root.sharding == y.sharding
    assert part.annotations.result_shardings == ()
    outer = xb.XlaBuilder("outer")
    z = outer.parameter("f32[8,4]", "z")
    with outer.sharding(MESH.sharding("model")):
        inside = xb.inline(c, z)
    whole = outer.build(inside)
    found = {op.opcode: op.sharding for op in whole.ops}
    assert found["exponential"] == '#sdy.sharding<@mesh, [{"model"}, {}]>'
    assert found["custom_call"] == y.sharding
    assert whole.annotations.meshes == c.annotations.meshes
    tiled = xb.XlaBuilder("tiled")
    t = tiled.parameter("f32[8,4]", "t", sharding=ROWS)
    for program in (swapped, part):
        refused(xb.BuilderError, "inline: a program", lambda program=program: xb.inline(program, t))


def test_shardings_require_a_program() -> None:
    b = xb.XlaBuilder("plain")
    plain = b.build(xb.exp(b.parameter("f32[8,4]", "x")))
    rows = MESH.sharding("data")
    sharded = plain.replace(
        lambda op, operands: (
            xb.with_sharding(operands.keep(), rows) if op.opcode == "exponential" else None
        )
    )
    assert sharded.root.sharding == '#sdy.sharding<@mesh, [{"data"}, {}]>'
    assert dict(sharded.annotations.meshes) == {"mesh": {"mesh": str(MESH)}}
    assert plain.annotations is None


def test_infeeds_under_a_mesh() -> None:
    b = xb.XlaBuilder()
    with b.sharding(MESH.sharding("data")):
        refused(
            xb.ShapeInferenceError,
            "infeed: an infeed of an array must not be tiled, got sharding #sdy.sharding",
            lambda: b.infeed(xb.f32[8]),
        )


@each_row("sharding", [MESH.sharding("data", None), "{devices=[2,1]<=[2]}"])
def test_functions_of_the_library_in_a_block(sharding: Any) -> None:
    """Their ops of other ranks than the sharding's have no sharding."""
    b = xb.XlaBuilder("block")
    x = b.parameter(xb.f32[8, 16])
    with b.sharding(sharding):
        y = lib.softmax(x)
        with pytest.raises(xb.ShapeInferenceError, match="sharding"):
            xb.reduce(y, 0.0, xb.add, [1])
        with pytest.raises(xb.ShapeInferenceError, match="sharding"):
            lib.for_each_index(3, xb.s32, lambda i, v: [xb.reduce(v[0], 0.0, xb.add, [1])], [y])
    assert y.sharding is not None
    arrays = [op for op in b.ops[1:] if isinstance(op.shape, xb.ArrayShape)]
    by_rank = {op.shape.rank: op.sharding for op in arrays}
    assert by_rank[2] == y.sharding
    assert by_rank[1] is None
    lowering.lower(b.build(y)).verify()


def test_the_axes_of_a_mesh_are_not_a_sharding() -> None:
    x = xb.XlaBuilder().parameter("f32[8,4]")
    for axes in (("data", None), ["data", None], PartitionSpec("data", None)):
        for call in (
            lambda axes=axes: xb.XlaBuilder().parameter("f32[8,4]", sharding=axes),
            lambda axes=axes: xb.with_sharding(x, axes),
        ):
            text = refused(xb.OperandError, "must be the text of a tiling or an xb.Mesh", call)
            assert "\nfix: write xb.Mesh({...}).sharding('data', None)" in text


def test_arrays_are_not_shardings() -> None:
    b = xb.XlaBuilder()
    for value in ([np.arange(2)], (None, np.arange(2)), np.arange(2)):
        text = "sharding: sharding must be the text of a tiling or an xb.MeshSharding, got "
        assert text in refused(xb.OperandError, "array", lambda value=value: b.sharding(value))
