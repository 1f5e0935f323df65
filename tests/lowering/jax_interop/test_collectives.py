"""Collective ops of `to_jax` along an axis of `jax.shard_map`, against the same program of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering.errors import LoweringError
from lowering.ops import collectives as collective
from lowering.ops.registry import JAX_RULES

DEVICES = 2
PAIRS = [(0, 1), (1, 0)]
CASES: dict[str, Callable[[xb.XlaOp], xb.XlaOp]] = {
    "add": lambda x: xb.all_reduce(x, xb.add),
    "max": lambda x: xb.all_reduce(x, xb.max, [[0, 1]]),
    "min": lambda x: xb.all_reduce(x, xb.min),
    "gather": lambda x: xb.all_gather(x, 1, DEVICES),
    "scatter": lambda x: xb.reduce_scatter(x, xb.add, 0, DEVICES),
    "all_to_all": lambda x: xb.all_to_all(x, 0, 1, DEVICES),
    "tuple": lambda x: xb.tuple(
        *xb.all_to_all_tuple([x, x * 2.0], [[0, 1]]), *xb.all_reduce_tuple([x, x * 2.0], xb.add)
    ),
    "broadcast": lambda x: xb.collective_broadcast(x, [[1, 0]]),
    "permute": lambda x: xb.collective_permute(x, PAIRS),
    "id": lambda x: x * xb.convert_element_type(x.builder.replica_id(), xb.f32),
}


@pytest.mark.slow
def test_same_results_as_replicas() -> None:
    b = xb.XlaBuilder("collectives")
    x = b.parameter(xb.f32[4, 6], "x")
    computation = b.build(xb.tuple(*(case(x) for case in CASES.values())))
    values = np.random.default_rng(5).standard_normal((DEVICES, 4, 6)).astype(np.float32)
    expected = lowering.compile(computation, "cpu", num_replicas=DEVICES)(list(values))
    mesh = jax.make_mesh((DEVICES,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    part = jax.sharding.PartitionSpec("i")
    function = lowering.to_jax(computation, axis="i")

    def of_rows(rows: jax.Array) -> Any:
        return jax.tree_util.tree_map(lambda leaf: leaf[None], function(rows[0]))

    mapped = jax.jit(
        jax.shard_map(of_rows, mesh=mesh, in_specs=part, out_specs=part, check_vma=False)
    )
    result = mapped(values)
    batched = jax.jit(jax.vmap(function, axis_name="i"))(values)
    for device in range(DEVICES):
        references = jax.tree_util.tree_leaves(expected[device])
        for results in (result, batched):
            leaves = jax.tree_util.tree_leaves(results)
            for leaf, reference in zip(leaves, references, strict=True):
                np.testing.assert_array_equal(leaf[device], reference)


@each_row(
    "record, axis, message",
    [
        (CASES["add"], None, "all_reduce, recorded at .*: its replicas must be the positions"),
        (lambda x: xb.all_reduce(x, xb.mul), "i", "jax reduces along an axis by add, max and min"),
        (lambda x: xb.reduce_scatter(x, xb.max, 0, 2), "i", "reduces and scatters by add only"),
        (lambda x: xb.all_reduce(x, xb.add, [[0], [1]]), "i", "must be one group in ascending"),
        (lambda x: xb.all_reduce(x, xb.add, [[1, 0]]), "i", r"got \(\(1, 0\),\)"),
    ],
)
def test_refused(record: Callable[[xb.XlaOp], xb.XlaOp], axis: str | None, message: str) -> None:
    b = xb.XlaBuilder("refused")
    computation = b.build(record(b.parameter(xb.f32[4])))
    with pytest.raises(LoweringError, match=message):
        lowering.to_jax(computation, axis=axis)


def test_the_source_of_a_broadcast() -> None:
    x = xb.XlaBuilder("broadcast").parameter(xb.f32[2])
    computation = x.builder.build(xb.collective_broadcast(x, [[2, 0, 1]]))
    function = jax.vmap(lowering.to_jax(computation, axis="i"), axis_name="i")
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(function(values), values[[2, 2, 2]])


def test_every_collective_op_is_compared() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[4, 6])
    for case in CASES.values():
        case(x)
    collectives = {
        name for name, rule in JAX_RULES.items() if rule.__module__ == collective.__name__
    }
    assert collectives <= {op.opcode for op in x.builder.ops}


@pytest.mark.slow
def test_derivatives() -> None:
    """Of sums along the axis of jax.vmap, against central differences."""
    b = xb.XlaBuilder("collectives")
    x = b.parameter(xb.f64[4, 6], "x")
    differentiable = ["add", "gather", "scatter", "all_to_all", "tuple", "permute", "broadcast"]
    squares = [case * case for name in differentiable for case in flat_ops(CASES[name](x))]
    random = np.random.default_rng(6)
    weights = [b.constant(random.standard_normal(y.shape.dimensions)) for y in squares]
    terms = [xb.reduce_all(y * w, 0.0, xb.add) for y, w in zip(squares, weights, strict=True)]
    computation = b.build(sum(terms[1:], start=terms[0]))
    with jax.enable_x64(True):
        mapped = jax.vmap(lowering.to_jax(computation, axis="i"), axis_name="i")
        values, direction = random.standard_normal((2, DEVICES, 4, 6))
        loss = jax.jit(lambda x: mapped(x).sum())
        slope = (loss(values + 1e-5 * direction) - loss(values - 1e-5 * direction)) / 2e-5
        _, tangent = jax.jvp(loss, (values,), (direction,))
        np.testing.assert_allclose(tangent, slope, rtol=1e-6)
        gradient = jax.grad(loss)(values)
        np.testing.assert_allclose(np.vdot(gradient, direction), slope, rtol=1e-6)


def flat_ops(op: xb.XlaOp) -> list[xb.XlaOp]:
    return [leaf for part in op for leaf in flat_ops(part)] if op.shape.is_tuple else [op]
