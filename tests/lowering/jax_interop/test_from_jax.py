"""lowering.from_jax: computations of jax functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import run_python
from tables import each_row

import builder as xb
import lowering


def layer(params: Any, x: Any, *, scale: Any = 1.0) -> Any:
    y = jax.nn.softmax(x @ params["w"] + params["b"][0]) * scale
    return {"y": y, "sums": [y.sum(axis=0), jnp.float32(3)]}


SHAPES: Any = {"w": xb.f32[3, 4], "b": [xb.f32[4]]}
rng = np.random.default_rng(0)
PARAMS: Any = {"w": rng.random((3, 4), np.float32), "b": [rng.random(4, np.float32)]}
X = rng.random((2, 3), np.float32)


def test_nested_arguments_and_results() -> None:
    c = lowering.from_jax(layer, SHAPES, xb.f32[2, 3], scale=xb.f32[()])
    assert str(c.program_shape) == (
        "(params['b'][0]: f32[4], params['w']: f32[3,4], x: f32[2,3], scale: f32[]) -> "
        "(f32[4], f32[], f32[2,4])"
    )
    result = lowering.compile(c)(PARAMS, X, scale=np.float32(2))
    expected = jax.jit(layer)(PARAMS, X, scale=np.float32(2))
    jax.tree.map(np.testing.assert_array_equal, result, expected)
    with pytest.raises(lowering.ArgumentError, match=r"args\[0\] must be a dict"):
        lowering.compile(c)(X, X, scale=np.float32(2))


def without_barriers(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
    return operands[0] if op.opcode == "optimization_barrier" else None


def test_it_equals_the_import_of_what_jax_lowers() -> None:
    abstract = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), PARAMS)
    lowered = jax.jit(layer).lower(PARAMS, X)
    expected = lowering.to_computation(lowered)
    assert not lowering.from_jax(lowered).diff(expected)
    for c in (
        lowering.from_jax(layer, SHAPES, xb.f32[2, 3]),
        lowering.from_jax(layer, PARAMS, X),
        lowering.from_jax(jax.jit(layer), abstract, X),
        lowering.from_jax(jax.jit(layer).trace(PARAMS, X)),
    ):
        # jax lowers stop_gradient, which softmax uses, to no operation.
        stopped = c.find("optimization_barrier", nested=True)
        assert len(stopped) == 1
        assert not c.replace(without_barriers, nested=True).diff(expected)
        assert c.program_shape == expected.program_shape
    exported = lowering.from_jax(jax.export.export(jax.jit(layer))(PARAMS, X))
    assert exported.program_shape == expected.program_shape
    result = lowering.compile(exported)(PARAMS, X)
    jax.tree.map(np.testing.assert_array_equal, result, jax.jit(layer)(PARAMS, X))


def test_ops_have_lines_of_the_caller() -> None:
    c = lowering.from_jax(lambda x: x / 3.0, xb.f32[2])
    assert {op.opcode for op in c.ops} >= {"constant", "divide"}
    sources = [op.source for op in c.ops if op.opcode != "parameter"]
    assert {source and source.file for source in sources} == {__file__}


def test_the_nesting_survives_edits_and_lowering() -> None:
    c = lowering.from_jax(layer, SHAPES, xb.f32[2, 3])

    def doubled(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
        return operands[0] + operands[0] if op.opcode == "exponential" else None

    result = lowering.compile(lowering.lower(c.replace(doubled)))(PARAMS, X)
    assert result.keys() == {"y", "sums"}
    # A part has other results, so it is called with flat arguments.
    part = c.extract(c.ops[-1].operands[2])
    (flat,) = jax.tree.leaves(
        lowering.compile(part)(PARAMS["b"][0], PARAMS["w"], X)  # no number, and no dict
    )
    np.testing.assert_allclose(flat, layer(PARAMS, X)["y"], rtol=1e-6)


def test_static_arguments_are_those_of_jit() -> None:
    @jax.jit
    def unused(x: Any, y: Any) -> Any:
        return x + 1

    power = jax.jit(lambda x, n: x**n, static_argnames="n")
    c = lowering.from_jax(power, xb.f32[3], n=3)
    np.testing.assert_array_equal(lowering.compile(c)(X[0]), power(X[0], n=3))
    assert len(lowering.from_jax(unused, xb.f32[2], xb.f32[3]).parameters) == 1
    kept = lowering.from_jax(lambda x, y: x + 1, xb.f32[2], xb.f32[3])
    assert len(kept.parameters) == 2


def test_tuples_and_numbers() -> None:
    pair = xb.tuple_shape([xb.f32[2], xb.tuple_shape([xb.s32[()]])])
    c = lowering.from_jax(lambda p, n: p[0] * p[1][0] + n, pair, 2.5)
    assert str(c.program_shape) == "(p[0]: f32[2], p[1][0]: s32[], n: f32[]) -> f32[2]"
    nested = (np.float32([1, 2]), (np.int32(3),))
    np.testing.assert_array_equal(lowering.compile(c)(nested, np.float32(1)), [4, 7])


@each_row("name", ["f64", "s64", "u64", "c128", "bf16", "f8e4m3fn", "s4", "pred"])
def test_element_types(name: str) -> None:
    element_type = getattr(xb, name)
    c = lowering.from_jax(lambda x: jnp.concatenate([x, x]), element_type[3])
    assert c.program_shape.result == element_type[6]
    assert not jax.config.jax_enable_x64


def test_effects_are_refused() -> None:
    def prints(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    def calls(x: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda x: jax.pure_callback(np.sin, x, x), jnp.cos, x)

    def ordered(x: Any) -> Any:
        return jax.experimental.io_callback(np.sin, x, x, ordered=True)

    with pytest.raises(lowering.LoweringError, match=r"from_jax: .* can't have: DebugEffect\n"):
        lowering.from_jax(prints, xb.f32[3])
    with pytest.raises(
        lowering.LoweringError, match=r"an axis of .*\nfix: apply jax.vmap .* inside"
    ):
        jax.vmap(lowering.edit_jax(lambda x: jax.lax.psum(x, "i"), lambda c: c), axis_name="i")(X)
    with pytest.raises(lowering.LoweringError, match="OrderedIOEffect"):
        lowering.from_jax(jax.jit(ordered).trace(X[0]))
    with pytest.raises(lowering.LoweringError, match="the function calls Python"):
        lowering.from_jax(jax.jit(ordered).lower(X[0]))
    line = calls.__code__.co_firstlineno + 1
    with pytest.raises(lowering.LoweringError, match=rf"pure_callback\), at .*py:{line}"):
        lowering.from_jax(calls, xb.f32[3])


def test_wrong_arguments() -> None:
    identity = xb.computation(xb.f32[2])(lambda x: x)
    traced = jax.jit(layer).trace(PARAMS, X)
    for arguments, message in (
        ((3,), "must be a function of jax arrays, got 3"),
        ((identity, xb.f32[2]), "fix: record xb.call"),
        ((jnp.sin, xb.f32["<=3"]), "jax has no bounded sizes, got f32"),
        ((jnp.sin, xb.TokenShape()), "jax has no arrays of shape token"),
        ((jnp.sin, "f32[3]"), r"got 'f32\[3\]'\nfix: write xb.parse_shape\('f32\[3\]'\)"),
        ((lambda x: x, "sine"), "got 'sine'\nfix: pass the value to the function otherwise"),
        ((jax.jit(layer), PARAMS, "f32[3]"), r"fix: write xb.parse_shape\('f32\[3\]'\)"),
        ((traced, xb.f32[2]), "a Traced has its arguments, got others"),
    ):
        with pytest.raises(xb.OperandError, match=message):
            lowering.from_jax(*arguments)
    static = jax.jit(lambda x, kind: getattr(jnp, kind)(x), static_argnames="kind")
    for c in (
        lowering.from_jax(static, xb.f32[3], "tanh"),
        lowering.from_jax(static, xb.f32[3], kind="tanh"),
    ):
        assert c.root.opcode == "tanh"


def test_constants_have_the_line_of_the_call() -> None:
    """In a fresh process: the frames that jax ignores are those of the whole process."""
    program = (
        "import numpy as np, builder as xb, lowering\n"
        "table = np.arange(5, dtype=np.float32)\n"
        "c = lowering.from_jax(lambda x: x + table, xb.f32[5])\n"
        "print(*[op.source for op in c.ops if op.opcode == 'constant'])\n"
    )
    done = run_python("-c", program)
    assert [line.rpartition(":")[2] for line in done.stdout.split()] == ["3"], done.stdout
