"""Programs that XLA partitions: sharded arrays, checked before the program runs."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tables import each_row

import builder as xb
import lowering
from builder import lib
from lowering import ArgumentError, CompileError, ExecutionError
from lowering.jaxlib_api.compilation import compile_and_load
from lowering.jaxlib_api.hlo_conversion import hlo_text_to_stablehlo

N = 8
ROWS = xb.Mesh({"data": 2, "model": 4})
RNG = np.random.default_rng(8)


def devices() -> tuple[jax.Device, ...]:
    return lowering.devices("cpu")


def compiled(text: str | xb.XlaComputation, **options: Any) -> lowering.PartitionedExecutable:
    module = lowering.load_bytes(text) if isinstance(text, str) else text
    result = lowering.compile(module, **{"num_partitions": N, **options})
    assert isinstance(result, lowering.PartitionedExecutable)
    return result


def array(*sizes: int) -> Any:
    return RNG.normal(size=sizes).astype(np.float32)


def matmul(left: Any, right: Any, **options: Any) -> lowering.PartitionedExecutable:
    """Return x @ y and y, with shardings of x and y."""
    b = xb.XlaBuilder("matmul")
    x = b.parameter(xb.f32[4, 8], "x", sharding=left)
    y = b.parameter(xb.f32[8, 8], "y", sharding=right)
    return compiled(b.build(xb.tuple(xb.dot(x, y), y)), **options)


def test_a_tensor_parallel_step_communicates_as_much_as_jaxs() -> None:
    """Two layers with divided features: the collectives of loss, gradients and update."""
    x_of, first, second = (
        ROWS.sharding("data"),
        ROWS.sharding(None, "model"),
        ROWS.sharding("model"),
    )
    b = xb.XlaBuilder("step")
    x = b.parameter(xb.f32[8, 16], "x", sharding=x_of)
    weights = [
        b.parameter(shape, f"w{n}", sharding=sharding)
        for n, (shape, sharding) in enumerate(
            [(xb.f32[16, 32], first), (xb.f32[32, 16], second)] * 2
        )
    ]
    y = x
    for up, down in zip(weights[::2], weights[1::2], strict=True):
        y = y + lib.gelu(y @ up) @ down
    loss = lib.mean(y * y)
    gradients = lowering.gradients(loss, weights)
    updated = [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]
    ours = compiled(b.build(xb.tuple(loss, *updated))).hlo_text()

    def jax_loss(weights: list[Any], x: Any) -> Any:
        for up, down in zip(weights[::2], weights[1::2], strict=True):
            x = x + jax.nn.gelu(x @ up) @ down
        return jnp.mean(x * x)

    def step(weights: list[Any], x: Any) -> Any:
        loss, gradients = jax.value_and_grad(jax_loss)(weights, x)
        return loss, [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]

    mesh = Mesh(np.array(devices()).reshape(2, 4), ("data", "model"))
    of_weights = [NamedSharding(mesh, P(*axes)) for axes in [(None, "model"), ("model",)] * 2]
    shardings = (of_weights, NamedSharding(mesh, P("data")))
    arguments = [array(16, 32), array(32, 16)] * 2, array(8, 16)
    theirs = jax.jit(step, in_shardings=shardings).lower(*arguments).compile().as_text()
    counts = [Counter(_COLLECTIVE.findall(text)) for text in (ours, theirs)]
    assert counts[0] == counts[1]
    assert counts[0]["all-reduce"] >= 3


_COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute)(?:-start)?\(")


@cache
def with_tiles() -> lowering.PartitionedExecutable:
    return matmul(
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
    )


@cache
def with_axes() -> lowering.PartitionedExecutable:
    return matmul(ROWS.sharding("data"), ROWS.sharding(None, "model"))


@pytest.mark.parametrize("make", [with_tiles, with_axes])
def test_a_matrix_product_over_a_2x4_mesh(make: Any) -> None:
    """Compare with NumPy, and with the shards of jax.jit with the same shardings."""
    run = make()
    names = run.parameter_shardings["x"].mesh.axis_names
    mesh = Mesh(np.array(devices()).reshape(2, 4), names)
    rows, columns = NamedSharding(mesh, P(names[0])), NamedSharding(mesh, P(None, names[1]))
    assert run.parameter_shardings == {"x": rows, "y": columns}
    x, y = array(4, 8), array(8, 8)
    expected = jax.jit(jnp.matmul, in_shardings=(rows, columns))(x, y)
    product, right = run(x, y)
    assert product.sharding == expected.sharding == NamedSharding(mesh, P(*names))
    assert (right.sharding, run.result_shardings) == (columns, (product.sharding, columns))
    np.testing.assert_allclose(np.asarray(product), x @ y, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(product.addressable_shards, expected.addressable_shards, strict=True):
        assert (ours.device, ours.index) == (theirs.device, theirs.index)
        np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-5, atol=1e-6)
    # Arrays with the sharding of the parameter, in any notation, are not copied.
    again, same = run(jax.device_put(x, rows), y=right)
    np.testing.assert_array_equal(again, product)
    assert same.sharding == columns
    other = NamedSharding(Mesh(np.array(devices()).reshape(2, 2, 2), ("a", "b", "c")), P("a"))
    np.testing.assert_array_equal(run(jax.device_put(x, other), right)[0], product)
    # Results are ordinary jax.Arrays.
    assert float(jax.jit(jnp.sum)(product)) == pytest.approx(float((x @ y).sum()), rel=1e-4)


def test_devices_in_another_order() -> None:
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    listed = [devices()[n] for n in order]
    run = matmul(ROWS.sharding("data"), ROWS.sharding(None, "model"), devices=listed)
    assert run.devices == tuple(listed)
    x, y = array(4, 8), array(8, 8)
    product, _ = run(x, y)
    np.testing.assert_allclose(np.asarray(product), x @ y, rtol=1e-5, atol=1e-6)
    first = product.addressable_shards[0]
    assert (first.device.id, first.index) == (3, (slice(0, 2), slice(0, 2)))
    straight = jax.device_put(x, with_axes().parameter_shardings["x"])
    with pytest.raises(ArgumentError, match=r"of devices 3, 1, 0, 2, .*got one .*devices 0, 1, 2"):
        run(straight, y)


@pytest.mark.parametrize(
    ("head", "sharding"),
    [
        ("", 'mhlo.sharding = "{devices=[2,4]0,3,1,2,7,6,5,4}"'),
        (
            'sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[0, 3, 1, 2, 7, 6, 5, 4]>',
            'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>',
        ),
    ],
)
def test_shards_in_another_device_order(head: str, sharding: str) -> None:
    """The sharding lists the device of each shard; 64-bit elements are exact."""
    run = compiled(
        f"""{head}
func.func @main(%x: tensor<4x8xf64> {{{sharding}, tf.aliasing_output = 0 : i32}}, %s: tensor<i64>)
    -> (tensor<4x8xf64>, tensor<i64>) {{
  %0 = stablehlo.add %x, %x : tensor<4x8xf64>
  return %0, %s : tensor<4x8xf64>, tensor<i64>
}}"""
    )
    x = RNG.normal(size=(4, 8))
    result, number = run(x, 2**60 + 1)
    np.testing.assert_array_equal(np.asarray(result), 2 * x)
    assert int(number) == 2**60 + 1
    assert [one.id for one in result.sharding.mesh.devices.flat] == [0, 3, 1, 2, 7, 6, 5, 4]
    shards = {one.device.id: one.index for one in result.addressable_shards}
    assert shards[7] == (slice(2, 4), slice(0, 2))
    given = lowering.device_put(x, devices()[0])
    with pytest.raises(ArgumentError, match="must be sharded"):
        run(given, 1)
    np.testing.assert_array_equal(np.asarray(run(result, 1)[0]), 4 * x)
    assert result.is_deleted()


@pytest.mark.parametrize("shardy", [False, True])
def test_a_training_step(shardy: bool) -> None:
    """Batches over "data", hidden units over "model": compared with NumPy; donated."""
    b = xb.XlaBuilder("step")
    along = [ROWS.sharding("data"), ROWS.sharding(None, "model"), ROWS.sharding("model")]
    data, across, down = along if shardy else [one.at_rank(2).tiling for one in along]
    x = b.parameter(xb.f32[8, 4], "x", sharding=data)
    target = b.parameter(xb.f32[8, 2], "target", sharding=data)
    w1 = b.parameter(xb.f32[4, 8], "w1", sharding=across)
    w2 = b.parameter(xb.f32[8, 2], "w2", sharding=down)
    hidden = xb.tanh(xb.dot(x, w1))
    error = xb.dot(hidden, w2) - target
    back = xb.dot_general(error, w2, xb.DotDimensionNumbers([1], [1]))
    back = xb.with_sharding(
        back * (1 - hidden * hidden),
        ROWS.sharding("data", "model") if shardy else ROWS.sharding("data", "model").tiling,
    )
    first = xb.dot_general(x, back, xb.DotDimensionNumbers([0], [0]))
    second = xb.dot_general(hidden, error, xb.DotDimensionNumbers([0], [0]))
    rate = b.constant(np.float32(0.1))
    root = xb.tuple(
        xb.tuple(w1 - rate * first, w2 - rate * second),
        xb.reduce(error * error, np.float32(0), xb.add, [0, 1]),
    )
    b.setup_alias((0, 0), 2)
    b.setup_alias((0, 1), 3)
    step = compiled(b.build(root))
    xs, targets, a, c = array(8, 4), array(8, 2), array(4, 8), array(8, 2)
    weights: Any = (a, c)
    for _ in range(3):
        before = weights
        (weights, loss) = step(xs, targets, *weights)
        h = np.tanh(xs @ a)
        e = h @ c - targets
        assert float(loss) == pytest.approx(float((e * e).sum()), rel=1e-4)
        a, c = (
            a - np.float32(0.1) * (xs.T @ ((e @ c.T) * (1 - h * h))),
            c - np.float32(0.1) * (h.T @ e),
        )
    np.testing.assert_allclose(np.asarray(weights[0]), a, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(weights[1]), c, rtol=1e-4, atol=1e-5)
    assert weights[0].sharding == step.parameter_shardings["w1"]
    assert [one.is_deleted() for one in before] == [True, True]
    with pytest.raises(ArgumentError, match="has been deleted"):
        step(xs, targets, *before)


def test_parameters_and_results_without_shardings() -> None:
    """Parameters are replicated; XLA chooses the results; results may be nested in any way."""
    run = compiled(
        """
func.func @main(%x: tensor<8x3xf64>, %t: !stablehlo.token, %n: tensor<i64>)
    -> (tensor<8x3xf64>, !stablehlo.token, tensor<8x3xf64>) {
  %0 = stablehlo.convert %n : (tensor<i64>) -> tensor<f64>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<8x3xf64>
  %2 = stablehlo.add %x, %1 {mhlo.sharding = "{devices=[8,1]<=[8]}"} : tensor<8x3xf64>
  return %2, %t, %1 : tensor<8x3xf64>, !stablehlo.token, tensor<8x3xf64>
}"""
    )
    assert all(one is None or one.is_fully_replicated for one in run.parameter_shardings.values())
    x = RNG.normal(size=(8, 3))
    total, token, number = run(np.asfortranarray(x), None, 3)
    assert (token, total.sharding) == (None, run.result_shardings[0])
    assert run.result_shardings[0].spec == P("d0")
    np.testing.assert_array_equal(np.asarray(total), x + 3)
    np.testing.assert_array_equal(np.asarray(number), np.full((8, 3), 3.0))


@each_row(
    "value, message",
    [
        (lambda x: x[:2], r"must be f32\[4,8\], got f32\[2,8\]"),
        (lambda x: x.T, r"got f32\[8,4\]\nfix: .*transpose"),
        (lambda x: x.astype(np.float64), r"got f64\[4,8\]"),
        (lambda x: x.tolist()[:2], r"got a list of sizes \(2, 8\)"),
        (lambda x: None, "got None"),
        (lambda x: 1.0, "got the Python number 1.0"),
        (lambda x: [x] * N, "got a list of sizes"),
        (lambda x: jnp.asarray(x), "got one on .*\nfix: pass jax.device_put"),
        (lambda x: jax.device_put(x, devices()[3]), "got one on"),
        (
            lambda x: jax.device_put(x, with_axes().result_shardings[0]),
            r"must be sharded as P\('data',?\).*got one sharded as P\('data', 'model'\)",
        ),
        (
            lambda x: jax.device_put(x, NamedSharding(Mesh(np.array(devices()), ("d",)), P())),
            "got one replicated on devices 0, 1, 2, 3, 4, 5, 6, 7",
        ),
        (
            lambda x: jax.device_put(x, NamedSharding(Mesh(np.array(devices()[:2]), "d"), P("d"))),
            "got one sharded as .* of devices 0, 1",
        ),
        (lambda x: deleted(jax.device_put(x, with_axes().parameter_shardings["x"])), "deleted"),
    ],
)
def test_wrong_arguments(value: Any, message: str) -> None:
    x, y = array(4, 8), array(8, 8)
    for _ in range(2):  # refused again by the direct call
        with pytest.raises(ArgumentError, match=message):
            with_axes()(value(x), y)
    np.testing.assert_allclose(np.asarray(with_axes()(x, y)[0]), x @ y, rtol=1e-5, atol=1e-6)


def deleted(one: jax.Array) -> jax.Array:
    one.delete()
    return one


def test_wrong_counts_and_names() -> None:
    run, x = with_axes(), array(4, 8)
    with pytest.raises(ArgumentError, match="takes 2 arguments"):
        run(x)
    with pytest.raises(ArgumentError, match="there is no parameter 'z'"):
        run(x, z=x)
    with pytest.raises(ArgumentError, match="a tracer of jax"):
        jax.jit(run)(x, array(8, 8))


def test_an_array_passed_twice_is_not_donated() -> None:
    """jaxlib would crash."""
    b = xb.XlaBuilder("given")
    cut = "{devices=[8]<=[8]}"
    x, y = (b.parameter(xb.f32[8], name, sharding=cut) for name in "xy")
    b.setup_alias((), 0)
    run = compiled(b.build(x + y))
    one = run(np.ones(8, np.float32), np.ones(8, np.float32))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"the array of argument 0 \(x\), whose"):
            run(one, one)
    # Another array with the same memory.
    mesh = jax.sharding.Mesh(np.array(run.devices), ("other",))
    spec = jax.sharding.PartitionSpec("other")
    same = jax.device_put(one, jax.sharding.NamedSharding(mesh, spec))
    with pytest.raises(ArgumentError, match=r"the array of argument 0 \(x\), whose"):
        run(one, same)
    two = jax.device_put(np.ones(8, np.float32), run.parameter_shardings["y"])
    np.testing.assert_array_equal(run(one, two), np.full(8, 3.0))
    assert [one.is_deleted(), two.is_deleted()] == [True, False]


def test_collectives_in_manual_shards() -> None:
    """Manual partitions: numbers of partitions, sums in groups, broadcasts."""
    b = xb.XlaBuilder("manual")
    cut = "{devices=[8]<=[8]}"
    x = b.parameter(xb.f32[8], "x", sharding=cut)
    part = xb.spmd_full_to_shard_shape(x, cut)
    with b.sharding("{manual}"):
        part = part + xb.convert(b.partition_id(), xb.f32)
        groups, channel = [[0, 1, 2, 3], [4, 5, 6, 7]], xb.ChannelHandle(1, 1)
        summed = xb.all_reduce(part, xb.add, groups, channel_id=channel, use_global_device_ids=True)
    whole = xb.spmd_shard_to_full_shape(summed, xb.f32[8], cut)
    run = compiled(b.build(whole))
    values = array(8)
    expected = (values + np.arange(8)).reshape(2, 4).sum(1).repeat(4)
    np.testing.assert_allclose(np.asarray(run(values)), expected, rtol=1e-5)


def per_shard(inside: Any) -> xb.XlaComputation:
    """Apply a function on each of 8 devices to its shard of f32[8,2] and a replicated f32[1,2]."""
    b = xb.XlaBuilder("parts")
    cut = "{devices=[8,1]<=[8]}"
    x = b.parameter(xb.f32[8, 2], "x", sharding=cut)
    y = b.parameter(xb.f32[1, 2], "y")
    part = inside(xb.spmd_full_to_shard_shape(x, cut), y)
    return b.build(xb.spmd_shard_to_full_shape(part, xb.f32[8, 2], cut))


def test_diverging_control_flow_in_manual_shards() -> None:
    """Conditions that depend on shards are detected as different without an annotation."""

    def positive(one: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce(one, one.builder.constant(np.float32(0)), xb.add, [0, 1]) > 0

    def chosen(part: xb.XlaOp) -> xb.XlaOp:
        def total(one: xb.XlaOp) -> xb.XlaOp:
            return xb.all_reduce(one, xb.add, channel_id=1)

        return xb.conditional(positive(part), part, total, part, lambda one: one)

    def loop(part: xb.XlaOp, whole: xb.XlaOp) -> xb.XlaOp:
        def ended(state: Any) -> Any:
            return xb.all_reduce(state[0], xb.add, channel_id=2) * 0.0 - state[1], state[1]

        own = xb.convert(part.builder.partition_id(), xb.f32)
        first = xb.call(chosen, part) + own
        whole = xb.spmd_full_to_shard_shape(whole, "{replicated}")
        return xb.while_(lambda s: positive(s[0]), ended, (first, whole))[0]

    run = compiled(per_shard(loop))
    ones, whole = np.ones((8, 2), np.float32), np.full((1, 2), 7, np.float32)
    mixed = ones * np.where(np.arange(8) == 3, -1, 1).astype(np.float32)[:, None]
    for kind, values in (("if", mixed), ("while", -ones)):
        with pytest.raises(ExecutionError, match=f"{kind}, .* must have the same condition"):
            run(values, whole)
    np.testing.assert_array_equal(run(ones, whole), -7 * ones)
    np.testing.assert_array_equal(run(-50 * ones, whole), np.arange(8)[:, None] - 50 * ones)


@pytest.mark.parametrize("kind", ["mesh", "tilings"])
def test_branches_with_different_shardings(kind: str) -> None:
    """XLA fails on them if no operation follows the annotation of the results."""

    def sharded(op: xb.XlaOp, *axes: Any) -> xb.XlaOp:
        sharding = ROWS.sharding(*axes).at_rank(2)
        return xb.with_sharding(op, sharding if kind == "mesh" else sharding.tiling)

    b = xb.XlaBuilder("branches")
    x, which = b.parameter(xb.f32[4, 8], "x"), b.parameter(xb.s32[()], "which")
    branches = [
        lambda v: xb.tuple(v, sharded(v + 1.0, "data", "model")),
        lambda v: xb.tuple(sharded(v, "model"), sharded(v * 2.0, None, "data")),
        lambda v: xb.tuple(v, -v),
    ]
    pair = xb.conditional(which, branches, [x] * 3)
    alone = xb.conditional(
        which > 0, x, lambda v: sharded(v + 3.0, None, "model"), x, lambda v: sharded(v, "model")
    )
    run = compiled(b.build(xb.tuple(pair[0], pair[1], alone)))
    values = array(4, 8)
    for number, second in enumerate((values + 1, values * 2, -values)):
        actual = run(values, number)
        last = values + 3 if number else values
        for one, expected in zip(actual, (values, second, last), strict=True):
            np.testing.assert_array_equal(one, expected)


def test_collectives_on_unpartitioned_arrays() -> None:
    """XLA aborts on one in a manual region; elsewhere its result depends on the partitioning."""

    def among_parts(part: xb.XlaOp, whole: xb.XlaOp) -> xb.XlaOp:
        return part + xb.exp(xb.all_reduce(xb.exp(whole), xb.add, channel_id=1))

    def among_rounds(part: xb.XlaOp, whole: xb.XlaOp) -> xb.XlaOp:
        def grown(state: Any) -> Any:
            return state[0] * whole, state[1] + 1

        zero = part.builder.constant(np.int32(0))
        return xb.while_(lambda state: state[1] < 3, grown, (part, zero))[0]

    with pytest.raises(
        CompileError, match=r"mul.*inside a loop or a branch.*\nfix: .*'{replicated}'"
    ):
        compiled(per_shard(among_rounds))
    b = xb.XlaBuilder("cut")
    x = b.parameter(xb.f32[8], "x", sharding=ROWS.sharding("model"))
    ring = [(number, (number + 1) % N) for number in range(N)]
    alone = b.build(xb.collective_permute(x * 2.0, ring, channel_id=1))
    for one in (per_shard(among_parts), alone):
        with pytest.raises(CompileError, match=r"got a full array.*\nfix: .*spmd_full_to_"):
            compiled(one)
    with pytest.raises(CompileError, match=r"requires 8 .*\nfix: pass use_global_device_ids=True"):
        compiled(per_shard(lambda p, _: xb.all_reduce(p, xb.add, [[*range(N)]], channel_id=1)))
    b = xb.XlaBuilder("left")
    x = b.parameter(xb.f32[8], "x")
    left = b.build(xb.spmd_full_to_shard_shape(x, "{devices=[8]<=[8]}"))
    with pytest.raises(CompileError, match=r"sharding {manual}.*\nfix: .*spmd_shard_to_full_shape"):
        compiled(left)


_SUM = """HloModule summed
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
ENTRY main {
  x = f32[8] parameter(0), sharding={X}
  y = f32[8] multiply(x, x)
  z = f32[8] all-reduce(y), replica_groups=GROUPS, to_apply=addZ
  ROOT r = f32[8] negate(z), sharding={replicated}
}
"""
_GLOBAL = ", channel_id=1, use_global_device_ids=true"


@pytest.mark.parametrize(
    ("x", "groups", "z"),
    [
        ("replicated", "{{0,1,2,3}}", _GLOBAL),
        ("replicated", "{{0,2},{1,3}}", _GLOBAL),
        ("replicated", "{{0}}", ", channel_id=1"),
        ("devices=[4]<=[4]", "{{0,1,2,3}}", _GLOBAL + ", sharding={replicated}"),
    ],
)
def test_a_sum_of_replicated_arrays(x: str, groups: str, z: str) -> None:
    """Each partition adds up the full array, as in XLA's program of the same HLO text."""
    text = _SUM.replace("X", x).replace("GROUPS", groups).replace("addZ", f"add{z}")
    run = compiled(lowering.from_hlo(text), num_partitions=4)
    four = devices()[:4]
    plain = compile_and_load(four, hlo_text_to_stablehlo(text), num_partitions=4)
    values = array(8)
    placed = jax.device_put(values, NamedSharding(Mesh(np.array(four), "d"), run_spec(x)))
    [expected] = plain.execute_sharded([placed]).disassemble_into_single_device_arrays()
    actual = run(values).addressable_shards
    assert len(actual) == len(expected) == 4
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one.data, other)


def run_spec(tiling: str) -> P:
    return P("d") if tiling.startswith("devices") else P()


@pytest.mark.parametrize(
    ("x", "groups", "fix"),
    [
        ("devices=[4]<=[4]", "{{0,1,2,3}}", r"with b.sharding\('{replicated}'\)"),  # XLA aborts
        ("replicated", "{{0},{1,2,3}}", "has its own arrays$"),  # the devices get different sums
    ],
)
def test_refused_sums_of_full_arrays(x: str, groups: str, fix: str) -> None:
    text = _SUM.replace("X", x).replace("GROUPS", groups).replace("addZ", f"add{_GLOBAL}")
    with pytest.raises(CompileError, match=f"(?m)got a full array.*\nfix: .*{fix}"):
        compiled(lowering.from_hlo(text), num_partitions=4)


_MANUAL = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%x: tensor<4x8xf32>, %first: tensor<i32>) -> tensor<4x8xf32> {
  %r = sdy.manual_computation(%x, %first)
      in_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, []>] out_shardings=[<@mesh, [{"x"}, {"y"}]>]
      manual_axes={"x", "y"} (%v0: tensor<2x2xf32>, %f: tensor<i32>) {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %limit = stablehlo.constant dense<9> : tensor<i32>
    %p = stablehlo.partition_id : tensor<ui32>
    %own = stablehlo.convert %p : (tensor<ui32>) -> tensor<i32>
    %off = stablehlo.multiply %own, %f : tensor<i32>
    %start = stablehlo.add %off, %one : tensor<i32>
    %w:2 = stablehlo.while(%i = %start, %v = %v0) : tensor<i32>, tensor<2x2xf32> cond {
      %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %limit : tensor<i32>
      %s = "stablehlo.all_reduce"(%v) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          use_global_device_ids} : (tensor<2x2xf32>) -> tensor<2x2xf32>
      stablehlo.return %next, %s : tensor<i32>, tensor<2x2xf32>
    }
    %out = "stablehlo.collective_broadcast"(%w#1) {
      replica_groups = dense<[[3, 1, 2, 0], [4, 5, 6, 7]]> : tensor<2x4xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
    } : (tensor<2x2xf32>) -> tensor<2x2xf32>
    sdy.return %out : tensor<2x2xf32>
  } : (tensor<4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}"""


def test_collectives_over_a_mesh() -> None:
    """In a manual region; devices that take different branches cause an error."""
    run = compiled(_MANUAL)
    x = array(4, 8)
    result = np.asarray(run(x, 0))
    halves = x[:2] + x[2:]  # over "x"; then one shard for all devices of a row
    expected = np.vstack([np.tile(halves[:, 6:], 4), np.tile(halves[:, :2], 4)])
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    with pytest.raises(
        ExecutionError, match=r"while.* must have the same condition on all devices"
    ):
        run(x, 9)
    np.testing.assert_array_equal(np.asarray(run(x, 0)), result)


def test_a_loop_over_some_axes_of_a_mesh() -> None:
    """Manual along one axis, and partitioned by XLA along the other."""
    mesh = Mesh(np.array(devices()).reshape(2, 4), ("x", "y"))

    def summed(part: Any, rounds: Any) -> Any:
        def step(state: Any) -> Any:
            return jax.lax.psum(state[0], "x") * 0.25, state[1] + 1

        return jax.lax.while_loop(lambda state: state[1] < rounds, step, (part, 0))[0]

    mapped = jax.shard_map(
        summed,
        mesh=mesh,
        in_specs=(P("x"), P()),
        out_specs=P("x"),
        axis_names={"x"},
        check_vma=False,
    )
    run = compiled(jax.jit(mapped).lower(array(4, 2), 2).as_text())
    x = array(4, 2)
    # Two iterations: (a + b) / 4, then the sum of two of these divided by 4.
    expected = np.vstack([(x[:2] + x[2:]) / 8] * 2)
    np.testing.assert_allclose(run(x, np.int32(2)), expected, rtol=1e-6)


def test_a_program_of_jax() -> None:
    mesh = Mesh(np.array(devices()).reshape(2, 4), ("a", "b"))

    def spread(x: Any, y: Any) -> Any:
        part = jax.shard_map(
            lambda p: jax.lax.psum(p, "a"), mesh=mesh, in_specs=P("a", "b"), out_specs=P(None, "b")
        )(x)
        return jax.lax.with_sharding_constraint(part @ y, NamedSharding(mesh, P("b")))

    rows = NamedSharding(mesh, P("a"))
    lowered = jax.jit(spread, in_shardings=(rows, None)).lower(
        jax.ShapeDtypeStruct((8, 8), np.float32), jax.ShapeDtypeStruct((8, 2), np.float32)
    )
    run = compiled(lowered.as_text())
    x, y = array(8, 8), array(8, 2)
    result = run(jax.device_put(x, rows), y)
    np.testing.assert_allclose(np.asarray(result), (x[:4] + x[4:]) @ y, rtol=1e-5, atol=1e-6)
    assert result.sharding.mesh.axis_names == ("a", "b")


def test_a_layout_and_a_split_mesh_axis() -> None:
    """Half of an axis is not a mesh axis, so the array has a separate mesh."""
    run = compiled(
        """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(1)2}, {}]>,
                                     mhlo.layout_mode = "{0,1}"})
    -> (tensor<4x8xf32> {mhlo.layout_mode = "{0,1}"}) {
  %0 = stablehlo.negate %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"""
    )
    x = array(4, 8)
    there = run.parameter_shardings["arg0"]
    assert there.shard_shape((4, 8)) == (2, 8)
    places = there.devices_indices_map((4, 8))
    assert [places[one][0].start for one in devices()] == [0, 0, 2, 2] * 2
    for given in (x, jax.device_put(x, there)):
        result = run(given)
        np.testing.assert_array_equal(np.asarray(result), -x)
        assert result.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(np.asarray(compiled_nothing()(np.zeros(8, np.float32))), [])


def compiled_nothing() -> lowering.PartitionedExecutable:
    return compiled(
        'func.func @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}) { return }'
    )


def doubling(argument: str, result: str = "", head: str = "", shape: str = "5x8xf32") -> str:
    of_argument, of_result = (f" {{{text}}}" if text else "" for text in (argument, result))
    return f"""{head}
func.func @main(%x: tensor<{shape}>{of_argument}) -> (tensor<{shape}>{of_result}) {{
  %0 = stablehlo.add %x, %x : tensor<{shape}>
  return %0 : tensor<{shape}>
}}"""


def tiles(text: str) -> str:
    return f'mhlo.sharding = "{text}"'


def axes(text: str) -> str:
    return f"sdy.sharding = #sdy.sharding<@mesh, {text}>"


MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>'


@each_row(
    "text, message",
    [
        (
            doubling(tiles("{devices=[2,4]<=[8]}")),
            r"dimension 0 of parameter arg0 of main must be .*\nfix: pad the dimension to 6",
        ),
        (doubling("", tiles("{devices=[2,4]<=[8]}")), "dimension 0 of the result of main must be"),
        (
            doubling(axes('[{"x"}, {"y"}]'), "", MESH),
            r"dimension 0 of parameter arg0 .*\nfix: pad the dimension to 6",
        ),
        (doubling("", axes('[{"y"}, {}]'), MESH), "dimension 0 of the result .* 4 shards"),
        (doubling(tiles("{devices=[1,8]<=[9]}")), r"the sharding .* can't be parsed"),
        (doubling(tiles("{devices=[1,8]0,1,2}")), r"the sharding .* can't be parsed"),
        (doubling(tiles("whole")), r"the sharding .* can't be parsed"),
        (doubling(tiles("{devices=[1,4]<=[4]}")), r"is over 4 devices.*\nfix: .*num_partitions=4"),
        (doubling("", "", MESH.replace("4", "8")), None),
        (
            doubling(axes('[{}, {"y"}]'), "", MESH.replace("4", "8")),
            r"the mesh is over 16 devices.*\nfix: .*num_partitions=16",
        ),
        (
            doubling(tiles("{devices=[8]<=[8]}")),
            "a sharding must have a number for each dimension, got",
        ),
        (doubling(tiles("{manual}")), "remove all shardings"),
        (doubling("", tiles("{maximal device=3}")), "got .* with the sharding {maximal device=3}"),
        (
            doubling(tiles("{devices=[1,4,2]<=[8] last_tile_dims={manual}}")),
            "must be replicated or tiled",
        ),
        (
            doubling(axes('[{}, {"y"}]'), tiles("{replicated}"), MESH),
            "a module must have shardings of one form only, got mhlo.sharding and sdy.sharding",
        ),
        (
            doubling(
                tiles("{devices=[1,8]<=[8]}") + ", tf.aliasing_output = 0 : i32",
                tiles("{replicated}"),
            ),
            r"the result of main is written to the memory of parameter arg0.*\nfix: ",
        ),
    ],
)
def test_shardings_that_are_refused(text: str, message: str | None) -> None:
    if message is None:  # an unused mesh has no effect
        assert isinstance(
            lowering.compile(lowering.load_bytes(text), num_partitions=2),
            lowering.ReplicatedExecutable,
        )
        return
    with pytest.raises(CompileError, match=message):
        compiled(text)


def test_replicas_are_refused() -> None:
    text = doubling(tiles("{devices=[1,4]<=[4]}"))
    with pytest.raises(CompileError, match=r"must run on one replica.*\nfix: .*num_partitions=8"):
        compiled(text, num_partitions=4, num_replicas=2)


def test_calls_of_python() -> None:
    """A function gets unpartitioned arrays on each device; its exceptions are raised."""
    b = xb.XlaBuilder("calling")
    x = b.parameter(xb.f32[8], "x", sharding="{devices=[8]<=[8]}")

    def flipped(values: Any) -> Any:
        if values[0] < 0:
            raise KeyError("negative")
        return values[::-1].copy()

    run = compiled(b.build(xb.python_call(flipped, [x], xb.f32[8])))
    np.testing.assert_array_equal(run(np.arange(8, dtype=np.float32)), np.arange(8)[::-1])
    with pytest.raises(ExecutionError, match="negative"):
        run(np.full(8, -1, np.float32))
    np.testing.assert_array_equal(run(np.arange(8, dtype=np.float32)), np.arange(8)[::-1])
