"""`lowering.to_jax`: arguments, results, names, transformations of jax, errors."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder.errors import ConstantError, OperandError
from lowering.errors import ArgumentError, LoweringError


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@xb.computation(xb.f32[3], xb.f32[3])
def product(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    return xb.tanh(x * y) * 2.0


X = np.array([0.5, -1.0, 2.0], np.float32)
Y = np.array([1.0, 0.25, -0.5], np.float32)

OTHER_SIZE = 4 * float(np.finfo(np.float32).eps)
"""Relative difference of tanh in arrays of other sizes, which XLA may vectorize differently."""


def test_same_bits_as_compile() -> None:
    expected = lowering.compile(product)(X, Y)
    result = jax.jit(lowering.to_jax(product))(X, Y)
    assert np.asarray(result).tobytes() == np.asarray(expected).tobytes()


def test_evaluates_without_jit() -> None:
    np.testing.assert_allclose(lowering.to_jax(product)(X, Y), np.tanh(X * Y) * 2, rtol=1e-6)


def test_name_and_signature() -> None:
    function = lowering.to_jax(product)
    assert function.__name__ == "product"
    assert list(inspect.signature(function).parameters) == ["x", "y"]
    assert "jit(product)" in jax.jit(function).lower(X, Y).as_text(debug_info=True)


def test_arguments_by_name() -> None:
    function = lowering.to_jax(product)
    np.testing.assert_array_equal(function(y=Y, x=X), function(X, Y))


def test_transformations() -> None:
    function = lowering.to_jax(product)
    slope = 2 * (1 - np.tanh(X * Y) ** 2)
    gradient = jax.jit(jax.grad(lambda x: function(x, Y).sum()))(X)
    np.testing.assert_allclose(gradient, slope * Y, rtol=1e-5)
    _, tangent = jax.jvp(function, (X, Y), (np.ones_like(X), np.ones_like(Y)))
    np.testing.assert_allclose(tangent, slope * (X + Y), rtol=1e-5)
    np.testing.assert_allclose(jax.jacrev(function)(X, Y), np.diag(slope * Y), rtol=1e-5)
    rows = jax.vmap(function, in_axes=(0, None))(np.stack([X, 2 * X]), Y)
    np.testing.assert_allclose(rows[1], function(2 * X, Y), rtol=OTHER_SIZE)
    saved = jax.grad(lambda x: jax.checkpoint(function)(x, Y).sum())(X)
    np.testing.assert_allclose(saved, gradient, rtol=1e-6)


def test_export() -> None:
    exported = jax.export.export(jax.jit(lowering.to_jax(product)))(X, Y)
    np.testing.assert_array_equal(exported.call(X, Y), jax.jit(lowering.to_jax(product))(X, Y))


def test_shard_map() -> None:
    mesh = jax.make_mesh((3,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    part = jax.sharding.PartitionSpec("i")
    b = xb.XlaBuilder("part")
    x, y = b.parameter(xb.f32[1]), b.parameter(xb.f32[1])
    function = lowering.to_jax(b.build(xb.tanh(x * y) * 2.0))
    mapped = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=part, out_specs=part))
    expected = jax.jit(lowering.to_jax(product))(X, Y)
    np.testing.assert_allclose(mapped(X, Y), expected, rtol=OTHER_SIZE)


def _computed(x: xb.XlaOp) -> xb.XlaOp:
    """Loops, branches and a pasted op, whose constants do not differ between devices."""
    b = x.builder
    zeros = b.constant(np.zeros(2, np.float32))
    start = xb.tuple(b.constant(0, xb.s32), zeros)
    counted = xb.while_(lambda s: s[0] < 3, lambda s: xb.tuple(s[0] + 1, s[1] + x), start)
    looped = xb.while_(lambda v: xb.reduce(v, 0.0, xb.add, [0]) < 9.0, lambda v: v + x, zeros)
    chosen = xb.conditional(b.constant(True), x, lambda v: v, zeros, lambda v: v)
    outputs, _ = xb.scan(x, b.constant(0.0, xb.f32), lambda v, c: (v + c, v + c), 0)
    drawn = xb.convert_element_type(xb.pow(xb.convert_element_type(x, xb.s32), 2), xb.f32)
    return counted[1] + looped + chosen + outputs + drawn


def test_shard_map_of_loops_and_branches() -> None:
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    part = jax.sharding.PartitionSpec("i")
    b = xb.XlaBuilder("computed")
    function = lowering.to_jax(b.build(_computed(b.parameter(xb.f32[2]))))
    values = np.array([1, 2, 3, 4], np.float32)
    mapped = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=part, out_specs=part))
    expected = np.concatenate([function(values[:2]), function(values[2:])])
    np.testing.assert_array_equal(mapped(values), expected)


def test_nested_arguments_and_results() -> None:
    b = xb.XlaBuilder("nested")
    state = b.parameter("(f32[2], (s32[], token[]))", "state")
    pair = state[1]
    computation = b.build(xb.tuple(xb.tuple(pair[0] + 1, pair[1]), state[0] * 2))
    function = lowering.to_jax(computation)
    result = function([np.ones(2, np.float32), (np.int32(4), None)])
    assert jax.tree_util.tree_structure(result) == jax.tree_util.tree_structure(((0, None), 0))
    assert result[0][0] == 5
    np.testing.assert_array_equal(result[1], [2, 2])


def test_python_numbers() -> None:
    @xb.computation(xb.f32[()], xb.s8[()])
    def scaled(x: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        return x * xb.convert_element_type(n, xb.f32)

    function = lowering.to_jax(scaled)
    assert function(1.5, 3) == 4.5
    gradient = jax.grad(function)(1.5, 3)
    assert gradient == 3
    with pytest.raises(ConstantError, match=r"^scaled: s8 can't represent the Python number 300"):
        function(1.5, 300)


@each_row(
    "arguments, message",
    [
        ((X,), r"expected 2 arguments \(x, y\), got 1 by position"),
        ((X, Y, Y), r"expected 2 arguments \(x, y\), got 3 by position"),
        ((X, Y[:2]), r"argument y must be f32\[3\], got float32\[2\]"),
        ((X, Y.astype(np.int32)), r"argument y must be f32\[3\], got int32\[3\]"),
        ((X, "text"), r"argument y must be f32\[3\], got 'text'"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^product: {message}"):
        lowering.to_jax(product)(*arguments)


def test_wrong_names() -> None:
    with pytest.raises(ArgumentError, match="got 1 by position and z by name"):
        lowering.to_jax(product)(X, z=Y)


def test_not_a_computation() -> None:
    with pytest.raises(OperandError, match=r"^to_jax: expected an XlaComputation, got 3"):
        lowering.to_jax(3)  # type: ignore[arg-type]
    for value, fix in (
        (lowering.compile(product), "pass the computation that was compiled"),
        (lowering.lower(product), r"pass lowering.to_computation\(module\)"),
        (jax.jit(np.tanh), r"pass lowering.from_jax\(function, shape, ...\)"),
    ):
        with pytest.raises(OperandError, match=rf"expected an XlaComputation, .*\nfix: {fix}"):
            lowering.to_jax(value)  # type: ignore[arg-type]
    with pytest.raises(OperandError, match=r"^to_jax: axis must be the name of an axis, got 0"):
        lowering.to_jax(product, axis=0)  # type: ignore[arg-type]


def test_64_bit_numbers_need_x64() -> None:
    @xb.computation(xb.f32[2])
    def sums(x: xb.XlaOp) -> xb.XlaOp:
        wide = xb.convert_element_type(x, xb.f64)
        return xb.convert_element_type(xb.reduce(wide, 0, xb.add, [0]), xb.f32)

    function = lowering.to_jax(sums)
    values = np.array([1e8, 1], np.float32)
    with jax.enable_x64(False), pytest.raises(LoweringError) as caught:
        jax.jit(function)(values)
    assert "sums: convert, recorded at " in str(caught.value)
    assert 'jax.config.update("jax_enable_x64", True)' in str(caught.value)
    with jax.enable_x64(True):
        assert jax.jit(function)(values) == np.float32(1e8 + 1)


def test_dynamic_sizes_are_refused() -> None:
    b = xb.XlaBuilder("dynamic")
    x = b.parameter("f32[<=4]")
    with pytest.raises(LoweringError, match=r"parameter, rec.*no bounded sizes, got f32\[<=4"):
        lowering.to_jax(b.build(xb.neg(x)))


def test_locations_and_scopes() -> None:
    @xb.computation(xb.f32[3])
    def named(x: xb.XlaOp) -> xb.XlaOp:
        y = xb.exp(x)
        y.name = "layer"
        return y + x

    text = jax.jit(lowering.to_jax(named)).lower(X).as_text(debug_info=True)
    sources = {op.opcode: op.source for op in named.ops if op.source is not None}
    for opcode in ("exponential", "add"):
        source = sources[opcode]
        assert f'test_to_jax.py":{source.line}:{source.column - 1} ' in text
    assert "jit(named)/layer/exp" in text
    assert "lowering/jax_interop/evaluation.py" not in text


def test_errors_of_jax_name_the_op() -> None:
    @xb.computation(xb.f32[3])
    def gathered(x: xb.XlaOp) -> xb.XlaOp:
        return xb.all_reduce(x, xb.add)

    function = lowering.to_jax(gathered, axis="missing")
    with pytest.raises(NameError) as caught:
        jax.jit(function)(X)
    (line,) = {op.source.line for op in gathered.ops if op.opcode == "all_reduce" and op.source}
    note = f"to_jax: raised by all_reduce(f32[3]) -> f32[3], recorded at {__file__}:{line}"
    assert caught.value.__notes__[0] == note
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert (__file__, line) in [(frame.filename, frame.lineno) for frame in frames]


@pytest.mark.usefixtures("x64")
def test_weak_types_do_not_leak() -> None:
    @xb.computation(xb.f32[()])
    def doubled(x: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda v: v < 100, lambda v: v + v, x)

    assert jax.jit(lowering.to_jax(doubled))(3.0) == 192


class TestArgumentsOfTheFunction:
    """Computations of functions of jax and of `lowering.jit` are called like the functions."""

    @staticmethod
    def layer(parameters: dict[str, Any], x: Any, *, scale: Any) -> dict[str, Any]:
        return {"y": jnp.tanh(x @ parameters["w"] + parameters["b"]) * scale, "sum": x.sum()}

    PARAMETERS: ClassVar = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    X = np.float32([[0.1, 0.2, 0.3]])

    @pytest.mark.parametrize("source", ["function", "Exported"])
    def test_jax(self, source: str) -> None:
        arguments = (self.PARAMETERS, self.X)
        scale = np.float32(2)
        if source == "function":
            computation = lowering.from_jax(self.layer, *arguments, scale=scale)
        else:
            exported = jax.export.export(jax.jit(self.layer))(*arguments, scale=scale)
            computation = lowering.to_computation(exported)
        function = lowering.to_jax(computation)

        def loss(f: Callable[..., Any]) -> Callable[[Any], Any]:
            return lambda parameters: f(parameters, self.X, scale=scale)["y"].sum()

        expected = self.layer(*arguments, scale=scale)
        for mine in (function, jax.jit(function)):
            results = mine(*arguments, scale=scale)
            assert results.keys() == expected.keys()
            np.testing.assert_allclose(results["y"], expected["y"], rtol=1e-6)
        mine = jax.grad(loss(function))(self.PARAMETERS)
        theirs = jax.grad(loss(self.layer))(self.PARAMETERS)
        for name, gradient in theirs.items():
            np.testing.assert_allclose(mine[name], gradient, rtol=1e-6)
        with pytest.raises(lowering.ArgumentError, match=r"args must be a tuple of 2, got"):
            function(self.PARAMETERS, scale=scale)

    def test_one_array_for_each_parameter(self) -> None:
        computation = lowering.from_jax(self.layer, self.PARAMETERS, self.X, scale=np.float32(2))
        flat = [self.PARAMETERS["b"], self.PARAMETERS["w"], self.X, np.float32(2)]
        results = lowering.to_jax(computation)(*flat)
        assert [result.shape for result in results] == [(), (1, 2)]

    def test_jit(self) -> None:
        add = lowering.jit(lambda pair, y: {"z": pair["x"] + y})
        function = lowering.to_jax(add.computation({"x": xb.f32[2]}, xb.f32[2]))
        two = np.float32([1, 2])
        np.testing.assert_array_equal(jax.jit(function)({"x": two}, two)["z"], [2, 4])
