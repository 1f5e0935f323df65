"""Donated arguments: recording, lowering, and deletion of the arrays."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering.jaxlib_api import hlo_conversion
from tests.lowering.common import aligned

SIZE = 4096


def stepping() -> xb.XlaComputation:
    """Return a computation whose second result aliases x and which donates part of y."""
    b = xb.XlaBuilder("stepping")
    x = b.parameter(xb.f32[SIZE], "x")
    y = b.parameter([xb.f32[SIZE], xb.f32[2]], "y")
    b.setup_alias([1, 0], 0)
    b.add_buffer_donor(1, [0])
    return b.build(xb.tuple(y[1], xb.tuple(x + y[0])))


def aligned_ones() -> np.ndarray[Any, Any]:
    """Return an array whose memory the runtime would share if it were allowed to."""
    return aligned(np.ones(SIZE, np.float32))


TWO = np.float32([2, 3])


class TestRecording:
    def test_aliases_and_donors(self) -> None:
        computation = stepping()
        assert computation.aliases == (((1, 0), 0, ()),)
        assert computation.donors == ((1, (0,)),)
        plain = xb.XlaBuilder()
        assert plain.build(plain.parameter(xb.f32[2])).aliases == ()

    def test_integer_types_of_indices(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter([xb.f32[2]], "x")
        b.setup_alias(np.array([0]), np.int32(0), range(1))
        assert b.build(xb.tuple(x[0])).aliases == (((0,), 0, (0,)),)

    @each_row(
        "wrong, error, message",
        [
            (lambda b: b.setup_alias([], 2), xb.BuilderError, "there is no parameter 2 yet"),
            (lambda b: b.setup_alias([], -1), xb.BuilderError, "there is no parameter -1 yet"),
            (lambda b: b.setup_alias([], 0, [0]), xb.ShapeInferenceError, r"no element \{0\}"),
            (lambda b: b.setup_alias([], 1), xb.ShapeInferenceError, "index of each element"),
            (lambda b: b.setup_alias([], 1, [0, 1]), xb.ShapeInferenceError, r"element \{0,1\}"),
            (lambda b: b.setup_alias([], 1, [-1]), xb.ShapeInferenceError, r"element \{-1\}"),
            (lambda b: b.setup_alias([], 1, [1]), xb.ShapeInferenceError, "of fixed sizes"),
            (lambda b: b.setup_alias("", 0), xb.ShapeInferenceError, "output_index must be"),
            (lambda b: b.setup_alias([], 0.5), xb.ShapeInferenceError, "param_number must be"),
            (lambda b: b.setup_alias([], 0, 0), xb.ShapeInferenceError, r"param_index=\[0\]"),
            (lambda b: b.add_buffer_donor(2), xb.BuilderError, "add_buffer_donor: there is no"),
            (lambda b: b.add_buffer_donor(1, [2]), xb.ShapeInferenceError, "no element"),
        ],
    )
    def test_refusals(
        self, wrong: Callable[[xb.XlaBuilder], None], error: type[Exception], message: str
    ) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2], "x")
        b.parameter((xb.f32[2], "f32[<=3]"), "y")
        with pytest.raises(error, match=message):
            wrong(b)
        computation = b.build(x)
        assert computation.aliases == computation.donors == ()

    def test_duplicates_are_refused(self) -> None:
        b = xb.XlaBuilder()
        x, y, z = (b.parameter(xb.f32[2], name) for name in "xyz")
        b.setup_alias([0], 0)
        b.add_buffer_donor(1)
        with pytest.raises(
            xb.BuilderError, match=r"got two for output \{0\}\n  parameter 0\n  .* 2"
        ):
            b.setup_alias([0], 2)
        for again in (0, 1):
            with pytest.raises(xb.BuilderError, match=f"once, got parameter {again} again"):
                b.setup_alias([1], again)
            with pytest.raises(xb.BuilderError, match=f"once, got parameter {again} again"):
                b.add_buffer_donor(again)
        b.build(xb.tuple(x, y, z))
        with pytest.raises(xb.BuilderError, match="already built"):
            b.setup_alias([1], 2)

    def test_results_of_another_shape_are_refused_by_build(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2], "x")
        b.setup_alias([1], 0)
        wide = xb.broadcast(x, [2])
        with pytest.raises(xb.ShapeInferenceError, match=r"shape, got\n  output \{1\} f32\[2,2"):
            b.build(xb.tuple(x, wide))
        with pytest.raises(xb.ShapeInferenceError, match=r"the result has no element \{1\}"):
            b.build(wide)
        assert b.build(xb.tuple(wide, x)).aliases == (((1,), 0, ()),)


class TestText:
    def test_hlo_text_agrees_with_xla(self) -> None:
        text = str(stepping())
        attributes = "input_output_alias={ {1,0}: (0, {}, may-alias) }, buffer_donor={ (1, {0}) }"
        assert attributes in text
        assert attributes in hlo_conversion.parsed_hlo_text(text)

    def test_stablehlo_marks_the_arrays_in_tuples(self) -> None:
        module = lowering.lower(stepping())
        translated = hlo_conversion.stablehlo_to_hlo_text(module.bytecode)
        assert "input_output_alias={ {1}: (0, {}, may-alias) }" in translated
        assert "buffer_donor={ (1, {}) }" in translated

    def test_round_trip(self) -> None:
        module = lowering.lower(stepping())
        for read in (module, lowering.load_bytes(module.artifact("minimum"))):
            again = lowering.to_computation(read)
            assert (again.aliases, again.donors) == (stepping().aliases, stepping().donors)
            assert lowering.lower(again).text == module.text

    def test_aliases_of_called_computations_are_ignored(self) -> None:
        b = xb.XlaBuilder("outer")
        x, y = b.parameter(xb.f32[SIZE], "x"), b.parameter([xb.f32[SIZE], xb.f32[2]], "y")
        outer = b.build(xb.call(stepping(), x, y))
        assert outer.aliases == ()
        text = lowering.lower(outer).text
        assert "alias" not in text
        assert "donor" not in text

    @each_row(
        "attribute, message",
        [
            ("tf.aliasing_output = 1 : i32", "@main has no such result"),
            ('tf.aliasing_output = "x"', "@main has no such result"),
            ("tf.aliasing_output = 0 : i32", "must have the same shape"),
        ],
    )
    def test_invalid_attributes_in_files(self, attribute: str, message: str) -> None:
        module = lowering.load_bytes(f"""
            func.func @main(%x: tensor<2xf32> {{{attribute}}}) -> tensor<f32> {{
              %0 = stablehlo.constant dense<1.0> : tensor<f32>
              return %0 : tensor<f32>
            }}""")
        with pytest.raises(xb.XlaError, match=message):
            lowering.to_computation(module)


@pytest.fixture(scope="module")
def run() -> lowering.Executable:
    return lowering.compile(stepping(), "cpu")


class TestRunning:
    def test_numpy_arrays_are_preserved(self, run: lowering.Executable) -> None:
        x, y = aligned_ones(), aligned_ones()
        second, (first,) = run(x, (y, TWO))
        np.testing.assert_array_equal(first, np.full(SIZE, 2))
        np.testing.assert_array_equal(second, TWO)
        assert x.tolist() == y.tolist() == [1] * SIZE

    def test_arrays_shared_by_jax_and_dlpack_are_preserved(self, run: lowering.Executable) -> None:
        x, y = aligned_ones(), aligned_ones()
        run(jax.device_put(x), (jax.dlpack.from_dlpack(y), TWO))
        put = lowering.device_put(aligned_ones())
        seen = np.asarray(put)
        run(put, (y, TWO))
        assert x.tolist() == y.tolist() == seen.tolist() == [1] * SIZE

    def test_jax_arrays_are_deleted(self, run: lowering.Executable) -> None:
        x, y, two = (
            lowering.device_put(aligned_ones()),
            lowering.device_put(aligned_ones()),
            lowering.device_put(TWO),
        )
        run(x, (y, two))
        assert x.is_deleted()
        assert not two.is_deleted()
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            np.asarray(x)
        with pytest.raises(lowering.ArgumentError, match=r"argument 0 \(x\).*has been deleted"):
            run(x, (aligned_ones(), two))

    def test_an_array_passed_twice_is_not_donated(self, run: lowering.Executable) -> None:
        x = lowering.device_put(aligned_ones())
        with pytest.raises(
            lowering.ArgumentError, match=r"argument 1 \(y\)\[0\].*array of argument 0 \(x\), whose"
        ):
            run(x, (x, TWO))
        assert not x.is_deleted()

    def test_on_several_devices(self) -> None:
        devices = lowering.devices("cpu")[:2]
        run = lowering.compile(stepping(), num_replicas=2, devices=devices)
        x = aligned_ones()
        given = [lowering.device_put(x, device) for device in devices]
        with pytest.raises(lowering.ArgumentError, match=r"\[0\] for replica 0 .* whose memory"):
            run(given, [(one, TWO) for one in given])
        for _, (first,) in run(given, [(x, TWO)] * 2):
            np.testing.assert_array_equal(first, np.full(SIZE, 2))
        assert [one.is_deleted() for one in given] == [True, True]
        assert x.tolist() == [1] * SIZE
        with pytest.raises(lowering.ArgumentError, match=r"for replica 0 .* deleted"):
            run(given, [(x, TWO)] * 2)

    def test_a_program_of_jax_behaves_as_in_jax(self) -> None:
        step = jax.jit(lambda state, grad: (state - grad, grad.sum()), donate_argnums=0)
        module = lowering.load_bytes(step.lower(*[np.ones(SIZE, np.float32)] * 2).as_text())
        computation = lowering.to_computation(module)
        assert computation.aliases == (((0,), 0, ()),)
        state = lowering.device_put(aligned_ones())
        new, total = lowering.compile(computation, "cpu")(state, aligned_ones())
        assert state.is_deleted()
        assert (float(total), float(new[0])) == (SIZE, 0)


def counting(**more: Any) -> xb.XlaComputation:
    """The state grows by x; nothing in the computation donates it."""
    b = xb.XlaBuilder("counting")
    state = b.parameter([xb.f32[SIZE], [xb.s32[2]]], "state")
    x = b.parameter(xb.f32[SIZE], "x")
    for name, shape in more.items():
        b.parameter(shape, name)
    total = xb.reduce(x, 0.0, xb.add, dimensions=[0])
    return b.build(xb.tuple(xb.tuple(state[0] + x, xb.tuple(state[1][0] + 1)), total))


@pytest.fixture(scope="module")
def grown() -> lowering.StablehloModule:
    return lowering.lower(counting())


class TestByName:
    def test_memory_is_reused(
        self, grown: lowering.StablehloModule, tmp_path: pathlib.Path
    ) -> None:
        path = tmp_path / "counting.stablehlo"
        grown.save(path)
        text = grown.text
        for run in (
            lowering.compile(grown, "cpu", donate=["state"]),
            lowering.compile(grown, "cpu", donate=range(1)),
            lowering.compile(lowering.load(path), "cpu", donate=0),
        ):
            state: Any = (
                lowering.device_put(aligned_ones()),
                (lowering.device_put(np.int32([3, 4])),),
            )
            x = lowering.device_put(aligned_ones())
            for _ in range(2):
                given = [state[0], state[1][0]]
                places = [one.unsafe_buffer_pointer() for one in given]
                state, total = run(state, x)
                assert [state[0].unsafe_buffer_pointer(), state[1][0].unsafe_buffer_pointer()] == (
                    places
                )
                assert all(one.is_deleted() for one in given)
            np.testing.assert_array_equal(state[0], np.full(SIZE, 3))
            np.testing.assert_array_equal(state[1][0], [5, 6])
            assert float(total) == SIZE
            assert not x.is_deleted()
            with pytest.raises(lowering.ArgumentError, match=r"\(state\)\[0\].*been deleted"):
                run((given[0], state[1]), x)
            with pytest.raises(
                lowering.ArgumentError, match=r"\(x\).*array of argument 0 \(state\)"
            ):
                run((x, state[1]), x)
        assert grown.text == text

    def test_numpy_arrays_are_preserved(self, grown: lowering.StablehloModule) -> None:
        run = lowering.compile(grown, "cpu", donate=["state"])
        y, counts = aligned_ones(), np.int32([3, 4])
        run((y, (counts,)), aligned_ones())
        run((jax.device_put(y), (counts,)), aligned_ones())
        assert y.tolist() == [1] * SIZE
        assert counts.tolist() == [3, 4]

    def test_arguments_without_a_matching_result_are_preserved(self) -> None:
        b = xb.XlaBuilder("summing")
        total = xb.reduce(b.parameter(xb.f32[SIZE], "x"), 0.0, xb.add, dimensions=[0])
        run = lowering.compile(b.build(total), "cpu", donate="x")
        x = lowering.device_put(aligned_ones())
        assert [float(run(x)) for _ in range(2)] == [SIZE] * 2

    def test_on_several_devices(self, grown: lowering.StablehloModule) -> None:
        devices = lowering.devices("cpu")[:2]
        run = lowering.compile(grown, num_partitions=2, devices=devices, donate=["state"])
        given = [lowering.device_put(aligned_ones(), device) for device in devices]
        counts = np.int32([3, 4])
        results = run([(one, (counts,)) for one in given], aligned_ones())
        for (state, _), total in results:
            np.testing.assert_array_equal(state, np.full(SIZE, 2))
            assert float(total) == SIZE
        assert [one.is_deleted() for one in given] == [True, True]
        with pytest.raises(lowering.ArgumentError, match=r"for partition 0 .* deleted"):
            run([(one, (counts,)) for one in given], aligned_ones())

    @each_row(
        "donate, message",
        [
            (
                ["stat"],
                "there is no parameter 'stat' in counting\nfix: use one of state, x",
            ),
            (["x", 1], r"parameter 1 \(x\) of counting is listed twice"),
            ([4], "expected the name or number of a parameter, got 4"),
            ([-1], "parameter, got -1"),
            ([True], "parameter, got True"),
            ([1.0], "parameter, got 1.0"),
            ({"state": 1}, r"must be a list of .*\nfix: donate=\['state'\]"),
            (None, "must be a list of parameters' names or numbers, got None"),
            (["few"], r"parameter 2 \(few\) f32\[<=3\] of counting, which has bounded sizes"),
            (["after"], r"parameter 3 \(after\) token\[\] of counting, which has no memory"),
        ],
    )
    def test_refusals(self, donate: Any, message: str) -> None:
        with pytest.raises(xb.OperandError, match=message):
            lowering.compile(counting(few="f32[<=3]", after="token[]"), "cpu", donate=donate)

    def test_the_computation_donates_too(self) -> None:
        for name, path in (("x", ""), ("y", r"\[0\]")):
            message = rf"\({name}\){path} of stepping is donated already, by the computation itself"
            with pytest.raises(xb.OperandError, match=message):
                lowering.compile(stepping(), "cpu", donate=[name])
        module = lowering.load_bytes("""
            func.func @main(%a: tensor<2xf32> {xlabuilder.name = "a"},
                            %b: tensor<2xf32> {xlabuilder.name = "a"}) -> tensor<2xf32> {
              %0 = stablehlo.add %a, %b : tensor<2xf32>
              return %0 : tensor<2xf32>
            }""")
        with pytest.raises(xb.OperandError, match="'a' is the name of 2 parameters of main"):
            lowering.compile(module, "cpu", donate=["a"])
