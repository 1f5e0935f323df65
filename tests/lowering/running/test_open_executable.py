"""Programs of unbounded sizes are compiled for the sizes of each call."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder import lib
from lowering.running import open_executable
from lowering.running.open_executable import OpenExecutable

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
WEIGHTS = np.array([[1, 2], [0, 1], [3, -1]], np.float32)


def layer() -> xb.XlaComputation:
    b = xb.XlaBuilder("layer")
    x, w = b.parameter(xb.f32["?", 3], "x"), b.parameter(xb.f32[3, 2], "w")
    return b.build(xb.tanh(x @ w))


def scaled(x: Any) -> Any:
    return x * 2.0


def compiled(computation: Any, **options: Any) -> OpenExecutable:
    executable = lowering.compile(computation, "cpu", **options)
    assert isinstance(executable, OpenExecutable)
    return executable


def test_each_size_is_compiled_once() -> None:
    run = compiled(layer())
    for rows in (ROWS, ROWS[:1], ROWS[:0], ROWS, jnp.asarray(ROWS)):
        np.testing.assert_allclose(run(rows, WEIGHTS), np.tanh(rows @ WEIGHTS), rtol=1e-6)
    np.testing.assert_array_equal(run(w=WEIGHTS, x=ROWS.tolist()), run(ROWS, WEIGHTS))
    shapes = [shape.parameters[0] for shape in run.compiled_for()]
    assert shapes == [xb.f32[1, 3], xb.f32[0, 3], xb.f32[4, 3]]
    assert "compiled for 3 sizes" in repr(run)


def test_an_executable_can_be_compiled_ahead() -> None:
    run = compiled(layer(), sizes=[[xb.f32[8, 3], xb.f32[3, 2]], ["f32[2,3]", "f32[3,2]"]])
    assert [shape.result for shape in run.compiled_for()] == [xb.f32[8, 2], xb.f32[2, 2]]
    array = jax.ShapeDtypeStruct((8, 3), np.float32)
    assert run.compile(array, xb.f32[3, 2]) is run.compile(ROWS.repeat(2, 0), WEIGHTS)
    assert len(run.compiled_for()) == 2


def test_the_executables_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_executable, "MOST_KEPT", 2)
    b = xb.XlaBuilder("double")
    run = compiled(b.build(b.parameter(xb.f32["?"]) * 2.0))
    for size in (1, 2, 1, 3):
        run(np.ones(size, np.float32))
    assert [shape.result for shape in run.compiled_for()] == [xb.f32[1], xb.f32[3]]


@each_row(
    "arguments, message",
    [
        ((ROWS[0], WEIGHTS), r"argument 0 \(x\) must be f32\[\?,3\], got f32\[3\]"),
        ((ROWS[:, :2], WEIGHTS), r"argument 0 \(x\) must be f32\[\?,3\], got f32\[4,2\]"),
        ((ROWS.astype(np.float64), WEIGHTS), r"got f64\[4,3\][^?]*fix: convert it: array.astype"),
        ((ROWS, WEIGHTS.T), r"argument 1 \(w\) must be f32\[3,2\], got f32\[2,3\]"),
        ((ROWS,), r"takes 2 arguments \(x f32\[\?,3\], w f32\[3,2\]\), got 1"),
        ((2.5, WEIGHTS), r"got a float\nfix: pass numpy.array\(value, numpy.float32, ndmin=2\)"),
        (("rows", WEIGHTS), r"argument 0 \(x\) must be f32\[\?,3\], got a str"),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, message: str) -> None:
    with pytest.raises(lowering.ArgumentError, match=message):
        compiled(layer())(*arguments)


def test_sizes_that_contradict_one_another() -> None:
    b = xb.XlaBuilder("sums")
    x, y = b.parameter(xb.f32["?", 3], "x"), b.parameter(xb.f32["?", 3], "y")
    run = compiled(b.build(x + y))
    with pytest.raises(
        lowering.ArgumentError,
        match=r"dimension 0 of x and dimension 0 of y must be equal at .*\.py:\d+, got 4 and 2",
    ):
        run(ROWS, ROWS[:2])
    np.testing.assert_array_equal(run(ROWS, ROWS), ROWS + ROWS)


def test_a_file_of_jax_with_a_symbolic_batch() -> None:
    shape = jax.export.symbolic_shape("b, 3")
    arguments = {"x": jax.ShapeDtypeStruct(shape, np.float32)}, WEIGHTS
    exported = jax.export.export(jax.jit(lambda tree, w: {"y": tree["x"] @ w}))(*arguments)
    run = compiled(exported)
    for rows in (ROWS, ROWS[:2], jnp.asarray(ROWS)):
        np.testing.assert_allclose(run({"x": rows}, WEIGHTS)["y"], rows @ WEIGHTS)
    assert len(run.compiled_for()) == 2


def test_tuples_and_donated_arrays() -> None:
    b = xb.XlaBuilder("pairs")
    pair = b.parameter("(f32[?], (s32[?], f32[2]))", "pair")
    run = compiled(b.build(xb.tuple(xb.get_tuple_element(pair, 0) + 1.0, pair)), donate=["pair"])
    first, (same, (counts, fixed)) = run(
        (np.ones(3, np.float32), (np.arange(2, dtype=np.int32), [5, 6]))
    )
    assert first.tolist() == [2, 2, 2]
    assert (same.tolist(), counts.tolist(), fixed.tolist()) == ([1, 1, 1], [0, 1], [5, 6])
    array = jnp.ones(3)
    run((array, (np.arange(2, dtype=np.int32), [5, 6])))
    assert array.is_deleted()


def test_threads_compile_a_size_once() -> None:
    run = compiled(layer())
    wrong: list[int] = []

    def serve(number: int) -> None:
        for size in range(1, 5):
            rows = np.full((size, 3), number, np.float32)
            if not np.allclose(run(rows, WEIGHTS), np.tanh(rows @ WEIGHTS), rtol=1e-6):
                wrong.append(size)

    threads = [threading.Thread(target=serve, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(run.compiled_for()) == 4


def test_several_devices() -> None:
    b = xb.XlaBuilder("total")
    x = b.parameter(xb.f32["?"], "x")
    run = compiled(b.build(xb.all_reduce(x, xb.add)), num_replicas=2)
    for size in (3, 1):
        ones = np.ones(size, np.float32)
        assert [np.asarray(r).tolist() for r in run([ones, ones])] == [[2.0] * size] * 2
    mesh = jax.make_mesh((2,), ("x",), devices=lowering.devices("cpu")[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    b = xb.XlaBuilder("sharded")
    with b.sharding("{devices=[2,1]<=[2]}"):
        x = b.parameter(xb.f32["?", 3], "x")
    parts = compiled(b.build(x * 2.0), num_partitions=2)
    for size in (4, 2):
        rows = jax.device_put(ROWS[:size], sharding)
        np.testing.assert_array_equal(parts(rows), ROWS[:size] * 2)


def test_a_saved_executable_has_what_was_compiled(tmp_path: Path) -> None:
    path = tmp_path / "double.executable"
    b = xb.XlaBuilder("double")
    run = compiled(
        b.build(b.parameter(xb.f32["?", 3], "x") * 2.0),
        donate=["x"],
        options={"optimization_level": 1},
    )
    run(ROWS)
    run.save(path)
    again = lowering.load_executable(path)
    assert isinstance(again, OpenExecutable)
    assert again.compiled_for() == run.compiled_for()
    for size in (4, 2):
        rows = jnp.asarray(ROWS[:size])
        np.testing.assert_array_equal(again(rows), ROWS[:size] * 2)
        assert rows.is_deleted()
    assert len(again.compiled_for()) == 2


class TestJit:
    """`lowering.jit` with open_sizes."""

    def test_the_executable_for_some_sizes(self) -> None:
        double = lowering.jit(lambda x: x * 2.0, open_sizes={"x": 0}, device="cpu")
        run = double.compile(xb.f32[3])
        assert isinstance(run, lowering.Executable)
        assert run.program_shape.parameters == (xb.f32[3],)
        assert run(np.ones(3, np.float32)).tolist() == [2, 2, 2]

    def test_one_recording_for_all_sizes(self) -> None:
        recorded: list[Any] = []

        @lowering.jit(open_sizes={"batch": 0}, device="cpu")
        def loss(params: Any, batch: Any) -> Any:
            recorded.append(batch["x"].shape)
            logits = batch["x"] @ params
            return {"loss": lib.cross_entropy(logits, batch["y"]), "logits": logits}

        for size in (4, 1, 4):
            for kind in (np.asarray, jnp.asarray):
                batch = {"x": kind(ROWS[:size]), "y": kind(np.zeros(size, np.int32))}
                result = loss(WEIGHTS, batch)
                logits = np.float64(ROWS[:size] @ WEIGHTS)
                want = np.log(np.exp(logits).sum(1)) - logits[:, 0]
                np.testing.assert_allclose(result["loss"], want, rtol=1e-5, atol=1e-6)
        assert recorded == [xb.f32["?", 3]]
        info = loss.cache_info()
        assert (info.recorded, info.compiled) == (1, 2)
        with jax.enable_x64(True):
            gradient = jax.grad(lambda params: loss(params, batch)["loss"].sum())(WEIGHTS)
        assert gradient.shape == WEIGHTS.shape

    def test_replicas(self) -> None:
        total = lowering.jit(
            lambda x: xb.all_reduce(x, xb.add), device="cpu", num_replicas=2, open_sizes={"x": [0]}
        )
        for size in (3, 1):
            ones = np.ones(size, np.float32)
            assert [np.asarray(r).tolist() for r in total([ones, ones])] == [[2.0] * size] * 2
        assert total.cache_info().compiled == 2

    @each_row(
        "open_sizes, message",
        [
            ({"y": 0}, "there is no parameter 'y'"),
            (["x"], "must be a dict of parameters and dimensions"),
            ({"x": -1}, "must not be negative"),
            ({"n": 0}, "must not be static"),
        ],
    )
    def test_the_option_is_checked(self, open_sizes: Any, message: str) -> None:
        with pytest.raises(xb.OperandError, match=message):
            lowering.jit(lambda x, n: x, static=["n"], open_sizes=open_sizes)

    def test_an_array_without_the_dimension(self) -> None:
        function = lowering.jit(scaled, open_sizes={"x": 1})
        with pytest.raises(
            lowering.ArgumentError, match=r"an array with dimension 1.*got f32\[3\]"
        ):
            function(ROWS[0])


class TestBuckets:
    def test_arguments_are_padded(self) -> None:
        run = compiled(layer(), buckets="powers of two")
        for size in (3, 4, 2, 3, 1):
            rows = ROWS[:size]
            np.testing.assert_allclose(run(rows, WEIGHTS), np.tanh(rows @ WEIGHTS), rtol=1e-6)
        assert {shape.parameters[0] for shape in run.compiled_for()} == {
            xb.f32[1, 3],
            xb.f32[2, 3],
            xb.f32[4, 3],
        }
        listed = compiled(layer(), buckets=[4])
        assert listed(ROWS[:0], WEIGHTS).shape == (0, 2)
        with pytest.raises(
            lowering.ArgumentError, match="sizes up to the largest bucket, 4, got size 5"
        ):
            listed(np.ones((5, 3), np.float32), WEIGHTS)

    def test_results_that_depend_on_the_padding_are_refused(self) -> None:
        b = xb.XlaBuilder("average")
        run = compiled(b.build(lib.mean(b.parameter(xb.f32["?", 3], "x"), 0)), buckets=[4])
        with pytest.raises(
            lowering.ArgumentError, match=r"result 0 for x: f32\[3,3\] differs.*x: f32\[4,3\]"
        ):
            run(ROWS[:3])

    def test_each_set_of_padded_dimensions_is_checked(self) -> None:
        b = xb.XlaBuilder("averages")
        run = compiled(b.build(lib.mean(b.parameter(xb.f32["?", "?"], "x"), 1)), buckets=[4, 8])
        ones = np.ones((3, 5), np.float32)
        for _ in range(2):  # a call that only pads rows does not permit others
            with pytest.raises(lowering.ArgumentError, match="must not depend on elements"):
                run(ones)
            np.testing.assert_array_equal(run(ones[:, :4]), np.ones(3))

    @each_row(
        "function",
        [
            lambda x: lib.max(x, 0),
            lambda x: lib.min(x, 0),
            lambda x: lib.flip(x, 0),
            lambda x: xb.sort([x], dimension=0),
            lambda x: lib.sum(x * x + 1, 0),
        ],
    )
    def test_the_values_of_the_call_do_not_hide_a_dependence(self, function: Any) -> None:
        for element_type in (xb.f32, xb.s32):
            b = xb.XlaBuilder("program")
            x = b.parameter(element_type["?", 3], "x")
            program = b.build(function(x))
            run = compiled(program, buckets=[4])
            for value in (0, 1, -1):
                with pytest.raises(lowering.ArgumentError, match="must not depend on elements"):
                    run(np.full((3, 3), value, element_type.dtype))

    def test_buckets_of_one_dimension(self, tmp_path: Path) -> None:
        b = xb.XlaBuilder("averages")
        x, y = b.parameter(xb.f32["?", "?"], "x"), b.parameter(xb.f32["?"], "y")
        program = b.build(xb.add(lib.mean(x, 1), y))
        run = compiled(program, buckets={"x": {0: [4, 8]}, "y": "powers of two"})
        for rows, columns in ((3, 5), (4, 7), (5, 5)):
            got = run(np.ones((rows, columns), np.float32), np.ones(rows, np.float32))
            np.testing.assert_array_equal(got, np.full(rows, 2))
        run.save(tmp_path / "program.executable")
        again = lowering.load_executable(tmp_path / "program.executable")
        np.testing.assert_array_equal(again(np.ones((7, 2), np.float32), np.ones(7, np.float32)), 2)
        shapes = [shape.parameters[0] for shape in again.compiled_for()]
        assert sorted(map(str, shapes)) == ["f32[4,5]", "f32[4,7]", "f32[8,2]", "f32[8,5]"]

    @each_row(
        "options, message",
        [
            ({"buckets": [0, 4]}, "buckets must be 'powers of two' or a list of positive sizes"),
            ({"buckets": {"w": [4]}}, "must be for parameters with unbounded sizes, got 'w'"),
            ({"buckets": {"x": {1: [4]}}}, "for its unbounded dimensions, 0, got 1"),
            ({"buckets": {"x": {0: [-4]}}}, "buckets must be 'powers of two' or a list of"),
            ({"buckets": "twos"}, "buckets must be 'powers of two' or a list of positive sizes"),
            ({"buckets": [4], "num_replicas": 2}, "buckets are for one device"),
            ({"sizes": 4}, "sizes must be a list of argument_shapes"),
            (
                {"sizes": [["f32[4,3]", "f32[3,2]"]], "argument_shapes": ["f32[4,3]", "f32[3,2]"]},
                "for parameters of unbounded sizes, which layer does not have",
            ),
        ],
    )
    def test_options_are_checked(self, options: Any, message: str) -> None:
        with pytest.raises(xb.OperandError, match=message):
            lowering.compile(layer(), "cpu", **options)


class TestToJax:
    """`lowering.to_jax` of programs of unbounded sizes."""

    def test_derivatives(self) -> None:
        b = xb.XlaBuilder("loss")
        x, y = b.parameter(xb.f32["?", 3], "x"), b.parameter(xb.s32["?"], "labels")
        normed = lib.layer_norm(xb.reshape(lib.repeat(x, 2, 1), ["?", 6])[:, 1:])
        open_loss = lowering.to_jax(b.build(lib.mean(lib.cross_entropy(normed, y))))

        def loss(x: Any, labels: Any) -> Any:
            z = jnp.repeat(x, 2, axis=1)[:, 1:]
            centred = z - z.mean(1, keepdims=True)
            z = centred / jnp.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
            chosen = jnp.take_along_axis(jax.nn.log_softmax(z), labels[:, None], 1)
            return -chosen.mean()

        with jax.enable_x64(True):
            for size in (1, 4):
                rows, labels = np.sin(ROWS[:size]), np.arange(size, dtype=np.int32)
                got = jax.jit(jax.value_and_grad(open_loss))(rows, labels)
                want = jax.jit(jax.value_and_grad(loss))(rows, labels)
                np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
                np.testing.assert_allclose(got[1], want[1], rtol=1e-3, atol=1e-5)

    def test_vmap_and_control_flow(self) -> None:
        b = xb.XlaBuilder("loop")
        x = b.parameter(xb.f32["?"], "x")
        start = b.constant(0, xb.s32)
        _, result = xb.while_(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2.0), (start, x))
        function = jax.vmap(lowering.to_jax(b.build(result)))
        np.testing.assert_array_equal(function(ROWS), ROWS * 8)
        np.testing.assert_array_equal(function(ROWS[:, :2]), ROWS[:, :2] * 8)

    def test_arguments_are_checked(self) -> None:
        function = lowering.to_jax(layer())
        with pytest.raises(
            lowering.ArgumentError, match=r"x must be f32\[\?,3\], got float32\[3,4\]"
        ):
            function(ROWS.T, WEIGHTS)
