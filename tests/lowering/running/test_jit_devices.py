"""lowering.jit on several devices, compared with jax.jit and NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tables import each_row

import builder as xb
import lowering
from lowering import ArgumentError, CompileError, DeviceError

P: Any = PartitionSpec
DEVICES = jax.devices("cpu")[:8]
MESH = Mesh(np.array(DEVICES).reshape(2, 4), ("data", "model"))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
W = np.cos(np.arange(128, dtype=np.float32)).reshape(8, 16)


def put(array: Any, *spec: Any, mesh: Mesh = MESH) -> jax.Array:
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


def layer(params: Any, x: Any) -> Any:
    return {"y": xb.max(x @ params["w"], 0.0)}


def jax_layer(params: Any, x: Any) -> Any:
    return {"y": jnp.maximum(x @ params["w"], 0.0)}


class TestPartitions:
    @pytest.mark.parametrize(
        ("x_spec", "w_spec"),
        [
            (("data", None), (None, "model")),
            (("data",), ()),
            ((None, "model"), ("model", None)),
            ((("data", "model"),), ()),
            ((("model", "data"),), (None, ("data", "model"))),
        ],
        ids=str,
    )
    def test_the_result_is_that_of_jax(self, x_spec: Any, w_spec: Any) -> None:
        params, x = {"w": put(W, *w_spec)}, put(X, *x_spec)
        function = lowering.jit(layer, num_partitions=8)
        ours, theirs = function(params, x)["y"], jax.jit(jax_layer)(params, x)["y"]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        np.testing.assert_allclose(ours, np.maximum(X @ W, 0), rtol=1e-4)
        assert ours.sharding.device_set == theirs.sharding.device_set
        executable = function.compile(params, x)
        for array, name in ((params["w"], "params['w']"), (x, "x")):
            expected = executable.parameter_shardings[name]  # type: ignore[union-attr]
            assert array.sharding.is_equivalent_to(expected, 2)

    def test_results_have_the_sharding_and_the_axes_of_jax(self) -> None:
        params, x = {"w": put(W, None, "model")}, put(X, "data")
        ours = lowering.jit(layer, num_partitions=8)(params, x)["y"]
        assert ours.sharding == jax.jit(jax_layer)(params, x)["y"].sharding
        assert ours.sharding.spec == P("data", "model")

    def test_the_shape_is_that_of_the_global_array(self) -> None:
        module = lowering.jit(layer, num_partitions=8).computation({"w": put(W)}, put(X, "data"))
        assert str(module.program_shape) == ("(params['w']: f32[8,16], x: f32[8,8]) -> f32[8,16]")
        assert module.parameters[1].sharding == '#sdy.sharding<@mesh, [{"data"}, {}]>'

    def test_results_are_arguments_of_the_next_call(self) -> None:
        step = lowering.jit(
            lambda w, x: w + xb.reduce(x, 0.0, xb.add, [0, 1]), num_partitions=8, donate=["w"]
        )
        w = first = put(W, "data", "model")
        for _ in range(3):
            w = step(w, put(X, "data"))
        np.testing.assert_allclose(w, W + 3 * X.sum(), rtol=1e-6)
        assert first.is_deleted()
        assert step.cache_info()[:3] == (1, 1, 1)

    def test_each_sharding_is_compiled_once(self) -> None:
        function = lowering.jit(layer, num_partitions=8)
        for _ in range(3):
            for spec in ("data", "model"):
                np.testing.assert_allclose(
                    function({"w": put(W)}, put(X, spec))["y"], np.maximum(X @ W, 0), rtol=1e-4
                )
        assert function.cache_info()[:3] == (2, 2, 2)

    def test_other_arrays_are_replicated(self) -> None:
        function = lowering.jit(lambda x, y, z: x + y * z, num_partitions=8)
        two, uncommitted = np.full((8, 8), 2, np.float32), jnp.ones((8, 8), jnp.float32)
        result = function(put(X, "data"), two, uncommitted)
        assert np.array_equal(result, X + 2)
        uncommitted.delete()
        with pytest.raises(ArgumentError, match=r"argument 2 .z. must be .* that has been deleted"):
            function(put(X, "data"), two, uncommitted)

    def test_arrays_of_64_bits_are_not_converted(self) -> None:
        double = lowering.jit(lambda x: x + x, num_partitions=8)
        array = lowering.device_put(X.astype(np.float64), NamedSharding(MESH, P("data")))
        assert double(array).dtype == np.float64

    def test_the_mesh_determines_the_order_of_the_devices(self) -> None:
        mesh = Mesh(np.array(DEVICES[::-1]).reshape(4, 2), ("a", "b"))
        function = lowering.jit(lambda x, y: x - y, num_partitions=8)
        x, y = put(X, "b", "a", mesh=mesh), put(X.T.copy(), "data", "model")
        assert np.array_equal(function(x, y), X - X.T)
        assert function.compile(x, y).devices == tuple(DEVICES[::-1])
        assert np.array_equal(function(y, x), X.T - X)

    def test_some_of_the_devices(self) -> None:
        mesh = Mesh(np.array(DEVICES[5:7]), ("i",))
        result = lowering.jit(lambda x: x + x, num_partitions=2)(put(X, "i", mesh=mesh))
        assert np.array_equal(result, X + X)
        assert result.sharding.device_set == {*DEVICES[5:7]}

    def test_shardings_of_ops_need_no_sharded_argument(self) -> None:
        mesh = xb.Mesh({"i": 8})

        @lowering.jit(num_partitions=8, device="cpu")
        def function(x: Any) -> Any:
            return xb.with_sharding(x + x, mesh.sharding("i"))

        result = function(X)
        assert np.array_equal(result, X + X)
        assert result.sharding.spec == P("i")
        assert np.array_equal(function(result), 4 * X)

    def test_static_and_nested_arguments(self) -> None:
        @dataclass
        class State:
            x: Any
            scale: Any

        @lowering.jit(num_partitions=8, static=["times"])
        def function(state: State, times: int) -> State:
            return State(state.x * state.scale * float(times), state.scale)

        state = State(put(X, "data"), np.float32(2))
        assert np.array_equal(function(state, times=3).x, 6 * X)
        assert np.array_equal(function(times=1, state=state).x, 2 * X)

    def test_calls_while_recording(self) -> None:
        inner = lowering.jit(lambda x: x + x, num_partitions=8)
        outer = lowering.jit(lambda x: inner(x) * 3.0)
        assert np.array_equal(outer(X), 6 * X)

    def test_programs_without_a_sharding_are_refused(self) -> None:
        function = lowering.jit(layer, num_partitions=8, device="cpu", name="layer")
        for _ in range(2):
            with pytest.raises(CompileError, match=r"layer: XLA partitions a program by its shar"):
                function({"w": W}, X)

    def test_arrays_on_other_devices_are_refused(self) -> None:
        function = lowering.jit(layer, num_partitions=8)
        with pytest.raises(
            ArgumentError, match=r"w'\] must be on devices .*, got an array on cpu:3"
        ):
            function({"w": jax.device_put(W, DEVICES[3])}, put(X, "data"))
        few = put(X, "i", mesh=Mesh(np.array(DEVICES[:4]), ("i",)))
        with pytest.raises(
            ArgumentError, match=r"x must be on 8 devices .*, got an array on 4 dev"
        ):
            function({"w": W}, few)
        with pytest.raises(ArgumentError, match=r"pass num_partitions=4 to lowering.jit"):
            lowering.jit(layer)({"w": W}, few)


def summed(x: Any, scale: Any) -> Any:
    return {"sum": xb.all_reduce(x, xb.add) * scale}


ROWS = np.arange(32, dtype=np.float32).reshape(8, 4)
BY_ROW = Mesh(np.array(DEVICES), ("i",))


class TestReplicas:
    def test_lists_and_single_values(self) -> None:
        function = lowering.jit(summed, num_replicas=8, device="cpu")
        results = function(list(ROWS), np.float32(2))
        assert len(results) == 8
        for result, device in zip(results, DEVICES, strict=True):
            assert np.array_equal(result["sum"], 2 * ROWS.sum(0))
            assert result["sum"].devices() == {device}
        # An array is one value for all devices, whatever its sizes are.
        assert np.array_equal(function(ROWS, np.float32(1))[5]["sum"], 8 * ROWS)

    def test_the_result_is_that_of_the_executable(self) -> None:
        function = lowering.jit(summed, num_replicas=8, device="cpu")
        arguments = list(ROWS), np.float32(2)
        executable = function.compile(*arguments)
        assert isinstance(executable, lowering.ReplicatedExecutable)
        for ours, theirs in zip(function(*arguments), executable(*arguments), strict=True):
            assert np.array_equal(ours["sum"], theirs["sum"])

    def test_the_result_is_that_of_jax(self) -> None:
        theirs = jax.jit(
            jax.shard_map(
                lambda x: jax.lax.psum(x, "i") * 2, mesh=BY_ROW, in_specs=P("i"), out_specs=P("i")
            )
        )(put(ROWS, "i", mesh=BY_ROW))
        function = lowering.jit(summed, num_replicas=8, results="sharded")
        ours = function(put(ROWS, "i", mesh=BY_ROW), np.float32(2))["sum"]
        assert np.array_equal(ours, theirs)
        assert ours.sharding.is_equivalent_to(theirs.sharding, 2)

    def test_results_are_arguments_of_the_next_call(self) -> None:
        for results in ("list", "sharded"):
            function = lowering.jit(
                lambda x: x + xb.all_reduce(x, xb.add),
                num_replicas=8,
                results=results,  # type: ignore[arg-type]
                device="cpu",
            )
            x: Any = put(ROWS, "i", mesh=BY_ROW)
            expected = ROWS
            for _ in range(3):
                x, expected = function(x), expected + expected.sum(0)
            assert np.array_equal(np.stack(x), expected)
            assert function.cache_info().recorded == 1

    def test_nested_lists(self) -> None:
        function = lowering.jit(
            lambda state, pair: {"w": state["w"] + pair[0][1]}, num_replicas=2, device="cpu"
        )
        state = {"w": [np.float32(1), np.float32(2)]}
        pair = [([np.float32(9), np.float32(n)],) for n in (10, 20)]
        assert [float(r["w"]) for r in function(state, pair)] == [11, 22]
        # A tuple is nesting, also with a value for each device.
        both = ((np.float32(9), np.float32(10)),)
        assert [float(r["w"]) for r in function(state, both)] == [11, 12]

    def test_replicas_of_partitions(self) -> None:
        function = lowering.jit(
            lambda x: x.builder.replica_id() * 10 + x.builder.partition_id() + x,
            num_replicas=2,
            num_partitions=4,
            device="cpu",
        )
        numbers = [int(each) for each in function(np.uint32(100))]
        assert numbers == [100, 101, 102, 103, 110, 111, 112, 113]

    def test_replicated_arrays_and_arrays_on_one_device(self) -> None:
        function = lowering.jit(lambda x, y: x + y, num_replicas=8)
        results = function(put(ROWS, mesh=BY_ROW), jax.device_put(ROWS, DEVICES[3]))
        assert all(np.array_equal(result, ROWS + ROWS) for result in results)

    def test_one_replica_with_rows(self) -> None:
        function = lowering.jit(summed, results="sharded", device="cpu:2")
        result = function([ROWS[0]], np.float32(2))["sum"]
        assert np.array_equal(result, 2 * ROWS[:1])
        assert result.devices() == {DEVICES[2]}
        assert np.array_equal(function(result, np.float32(1))["sum"], 2 * ROWS[:1])

    def test_shapes(self) -> None:
        function = lowering.jit(summed, num_replicas=8, device="cpu")
        computation = function.computation([xb.f32[4]] * 8, xb.f32[()])
        assert str(computation.program_shape) == "(x: f32[4], scale: f32[]) -> f32[4]"
        assert function.compile(xb.f32[4], xb.f32[()]) is function.compile(
            list(ROWS), np.float32(1)
        )
        with pytest.raises(ArgumentError, match="got the shape"):
            function(xb.f32[4], np.float32(1))

    def test_wrong_lists(self) -> None:
        function = lowering.jit(summed, num_replicas=8, device="cpu")
        with pytest.raises(ArgumentError, match="argument x must be a list with a value for each"):
            function(list(ROWS[:3]), np.float32(1))
        with pytest.raises(ArgumentError, match=r"of 8 devices, got a list of 0\n"):
            function([], np.float32(1))
        with pytest.raises(ArgumentError, match=r"of one structure, got\n  \[0\].*\n  \[1\]"):
            function([ROWS[0], (ROWS[0],)] * 4, np.float32(1))
        with pytest.raises(ArgumentError, match="for replica 1 must be f32"):
            function([ROWS[0], ROWS[0, :2]] * 4, np.float32(1))

    def test_other_shardings_are_refused(self) -> None:
        function = lowering.jit(summed, num_replicas=8)
        for array in (put(X, None, "i", mesh=BY_ROW), put(np.ones((16, 2)), "i", mesh=BY_ROW)):
            with pytest.raises(
                ArgumentError, match=r"x must be replicated, or sharded into one row"
            ):
                function(array, np.float32(1))
        reversed_rows = Mesh(np.array(DEVICES[::-1]), ("i",))
        results = lowering.jit(lambda x, y: x - y, num_replicas=8)
        with pytest.raises(ArgumentError, match=r"argument y must be replicated, or sharded into"):
            results(put(ROWS, "i", mesh=BY_ROW), put(ROWS, "i", mesh=reversed_rows))

    def test_too_few_devices(self) -> None:
        with pytest.raises(DeviceError, match=r"summed: num_replicas=100 .* need 100 devices"):
            lowering.jit(summed, num_replicas=100, device="cpu")(ROWS, np.float32(1))


@each_row(
    "settings, message",
    [
        ({"num_replicas": 0}, "jit: num_replicas must be an integer, 1 or more, got 0"),
        ({"num_partitions": 2.0}, "jit: num_partitions must be an integer, 1 or more, got 2.0"),
        ({"results": "rows"}, "jit: results must be 'list' or 'sharded', got 'rows'"),
    ],
)
def test_wrong_settings(settings: Any, message: str) -> None:
    with pytest.raises(xb.OperandError, match=message):
        lowering.jit(summed, **settings)
