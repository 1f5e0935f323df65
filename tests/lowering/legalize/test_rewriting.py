"""Run computations derived from others, and compare the results with NumPy."""

from __future__ import annotations

import random
from typing import Any

import graphs
import jax
import numpy as np
import pytest
from support import assert_identical, flat, run

import builder as xb
import lowering
from builder.rewriting.replacing import Operands

X = np.array([[-3.0, -0.5, 0.0], [0.25, 2.0, 40.0]], np.float32)


def recipe(seed: int) -> list[graphs.Step]:
    choose = random.Random(seed)
    kinds = [*range(len(graphs.STEPS) - 1)]  # all but parameters
    choose.shuffle(kinds)
    return [(kind, choose.randrange(2, 30), choose.randrange(30)) for kind in kinds]


@pytest.mark.parametrize("seed", range(2))
def test_two_parts_equal_the_original_bit_by_bit(seed: int) -> None:
    graph = graphs.recorded(recipe(seed))
    arguments = graphs.arguments_of(graph)
    expected = graphs.evaluate(graph, *arguments)
    assert_identical(run(graph, *arguments), expected)
    cut = random.Random(seed).sample(list(graph.ops[4:-1]), 3)
    front, rest = graph.extract(cut), graph.extract(graph.root, inputs=cut)
    middle = run(front, *graphs.arguments_of(front))
    values = graphs.values_of(graph, *arguments)
    for actual, op in zip(middle, cut, strict=True):
        for one, other in zip(flat(actual), flat(values[op.id]), strict=True):
            assert_identical(one, np.asarray(other))
    others = [dict(zip("xy", arguments, strict=True))[p.name] for p in rest.parameters[3:]]
    assert_identical(run(rest, *middle, *others), expected)


def test_inline_equals_a_call() -> None:
    graph = graphs.recorded(recipe(7))

    def whole(apply: Any) -> xb.XlaComputation:
        b = xb.XlaBuilder("whole")
        x, y = b.parameter(graphs.SHAPE, "x"), b.parameter(graphs.SHAPE, "y")
        return b.build(apply(graph, apply(graph, x, y), y))

    called, inlined = whole(xb.call), whole(xb.inline)
    assert "func.call" in str(lowering.lower(called)) or "call @" in str(lowering.lower(called))
    assert "call @graph" not in str(lowering.lower(inlined))
    arguments = graphs.arguments_of(graph)
    expected = graphs.evaluate(called, *arguments)
    assert_identical(run(called, *arguments), expected)
    assert_identical(run(inlined, *arguments), expected)


def test_an_op_with_side_effects_is_inlined() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append(np.array(x))
        return x

    @xb.computation(xb.f32[2, 3])
    def watched(x: xb.XlaOp) -> xb.XlaOp:
        xb.python_call(look, x, xb.f32[2, 3], has_side_effect=True)
        return x * 2.0

    b = xb.XlaBuilder()
    c = b.build(xb.neg(xb.inline(watched, b.parameter(xb.f32[2, 3]))))
    assert_identical(np.asarray(lowering.compile(c)(X)), X * np.float32(-2))
    (once,) = seen
    assert_identical(once, X)


def test_replacing_tanh_by_a_rational_function() -> None:
    @xb.computation("f32[2,3]{0,1}", xb.f32[2, 3], result="(f32[2,3]{0,1}, f32[2,3])")
    def model(x: xb.XlaOp, y: xb.XlaOp) -> list[xb.XlaOp]:
        return [xb.tanh(x * y), xb.tanh(y) - xb.tanh(y), xb.max(x, y)][0::2]

    def rational(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
        if op.opcode != "tanh":
            return None
        (x,) = operands
        return x / (xb.abs(x) + 1.0)

    y = np.float32(0.5) - X
    before, after = run(model, X, y), run(model.replace(rational), X, y)
    product = X * y
    np.testing.assert_allclose(before[0], np.tanh(product), rtol=1e-6)
    np.testing.assert_allclose(after[0], product / (np.abs(product) + 1), rtol=1e-6)
    assert_identical(before[1], np.maximum(X, y))
    assert_identical(after[1], np.maximum(X, y))


def test_rewriting_in_a_loop_and_in_branches() -> None:
    @xb.computation(xb.s32[()], xb.s32[3])
    def model(count: xb.XlaOp, x: xb.XlaOp) -> xb.XlaOp:
        def body(state: xb.XlaOp) -> list[xb.XlaOp]:
            i, total = state
            is_even = xb.eq(xb.rem(i, 2), 0)
            return [i + 1, xb.conditional(is_even, total, lambda v: v * 3, total, xb.neg)]

        return xb.while_(lambda state: state[0] < count, body, [x.builder.constant(0, xb.s32), x])[
            1
        ]

    def replace_3_by_5(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
        if op.opcode == "constant" and op.attributes["value"] == 3:
            return operands.builder.constant(5, xb.s32)
        return None

    x = np.array([1, -2, 7], np.int32)
    four = np.int32(4)
    assert_identical(run(model, four, x), x * 9)
    assert_identical(run(model.replace(replace_3_by_5, nested=True), four, x), x * 25)
    assert_identical(run(model.replace(replace_3_by_5), four, x), x * 9)


def test_rewriting_a_program_of_jax() -> None:
    @jax.jit
    def layer(x: Any) -> Any:
        return jax.nn.log_softmax(x) + 1

    c = lowering.to_computation(jax.export.export(layer)(jax.ShapeDtypeStruct((2, 3), "f")))
    expected = np.asarray(layer(X))
    halved = c.replace(lambda op, operands: operands.keep() * 0.5 if op is c.root else None)
    assert_identical(run(halved, X), expected / 2)
    assert halved.program_shape is c.program_shape
    assert halved.annotations == c.annotations
    b = xb.XlaBuilder("twice")
    twice = b.build(xb.inline(c, xb.inline(c, b.parameter(xb.f32[2, 3]))))
    np.testing.assert_allclose(run(twice, X), layer(expected), rtol=1e-6)


def test_rewriting_preserves_shardings() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("rows",))
    rows = jax.NamedSharding(mesh, jax.P("rows"))

    @jax.jit
    def step(x: Any) -> Any:
        return {"y": jax.lax.with_sharding_constraint(jax.numpy.tanh(x) + 1, rows)}

    shape = jax.ShapeDtypeStruct((2, 3), np.float32, sharding=rows)
    c = lowering.to_computation(jax.export.export(step)(shape))
    text = lowering.lower(c).to_text(locations=True)
    assert "sdy.sharding" in text
    assert lowering.lower(c.replace(lambda op, operands: None)).to_text(locations=True) == text
    # The mesh moves with the ops that refer to it.
    b = xb.XlaBuilder("around")
    inlined = b.build(xb.inline(c, b.parameter(xb.f32[2, 3])))
    (tanh,) = c.find("tanh")
    for other in (inlined, c.extract(c.root), c.extract(c.root, inputs=tanh)):
        assert "sdy.mesh" in str(lowering.lower(other))
