"""Programs of shard_map, read from StableHLO and HLO, changed and run; compared with jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec as P
from tables import each_row

import builder as xb
import lowering
from lowering.sharding.frontend_shardings import FROM_SHARDS, TO_SHARDS

pytestmark = pytest.mark.usefixtures("read_here")

N = 4
X = np.arange(128, dtype=np.float32).reshape(8, 16)


def mesh() -> Mesh:
    return Mesh(np.array(lowering.devices("cpu")[:N])[[2, 0, 1, 3]].reshape(2, 2), ("a", "b"))


def summed(x: Any) -> Any:
    return jax.shard_map(
        lambda part: jax.lax.psum(part, "a"),
        mesh=mesh(),
        in_specs=P("a", "b"),
        out_specs=P(None, "b"),
    )(x)


def several(x: Any) -> Any:
    """Several operands and results, and operations outside."""
    first, second = jax.shard_map(
        lambda x, y: (jax.lax.psum(x, "a") + y, y * 2),
        mesh=mesh(),
        in_specs=(P("a", "b"), P(None, "b")),
        out_specs=(P(None, "b"), P(None, "b")),
    )(x * 2, x[:4])
    return second, first + 1


def without_operands(x: Any) -> Any:
    index = jax.shard_map(
        lambda: jax.lax.axis_index("a")[None] * jnp.ones(2, jnp.int32),
        mesh=mesh(),
        in_specs=(),
        out_specs=P("a"),
    )()
    return x[:4, 0] + index


def along_one_axis(x: Any) -> Any:
    """XLA partitions along the other axis."""
    return jax.shard_map(
        lambda part: jax.lax.psum(part, "a"),
        mesh=mesh(),
        in_specs=P("a"),
        out_specs=P(),
        axis_names={"a"},
    )(x)


def nested(x: Any) -> Any:
    """Twice the same computation, with another one in a loop in it."""

    def inner(part: Any) -> Any:
        return jax.shard_map(
            lambda y: jax.lax.psum(y, "b") * jax.lax.axis_index("b"),
            in_specs=P(None, "b"),
            out_specs=P(None, "b"),
            axis_names={"b"},
            check_vma=False,
        )(part)

    outer = jax.shard_map(
        lambda part: jax.lax.fori_loop(0, 2, lambda _, x: inner(x), part) + 1,
        mesh=mesh(),
        in_specs=P("a"),
        out_specs=P("a"),
        axis_names={"a"},
        check_vma=False,
    )
    return outer(outer(x))


SOURCES: dict[str, Callable[[Any], Any]] = {
    "StableHLO": lambda lowered: lowering.to_computation(lowering.load_bytes(lowered.as_text())),
    "HLO text": lambda lowered: lowering.from_hlo(lowered.as_text("hlo")),
    "HLO protocol buffer": lowering.from_hlo,
    "printed again": lambda lowered: lowering.from_hlo(
        str(lowering.to_computation(lowering.load_bytes(lowered.as_text())))
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("program", [summed, several, without_operands, along_one_axis, nested])
def test_programs_of_jax(program: Callable[[Any], Any], source: str) -> None:
    jitted = jax.jit(program)
    computation = SOURCES[source](jitted.lower(X))
    result = lowering.compile(computation, "cpu", num_partitions=N)(X)
    leaves = jax.tree_util.tree_leaves
    for ours, theirs in zip(leaves(result), leaves(jitted(X)), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs)


def test_a_changed_body() -> None:
    """Each device negates the sum over devices."""
    text = jax.jit(several).lower(X).as_text()
    computation = lowering.to_computation(lowering.load_bytes(text))
    (body,) = (op.called_computations[0] for op in computation.ops if op.opcode == "call")
    assert body.name == "xla.sdy.manual_computation_body"
    assert body.program_shape.parameters == (xb.f32[4, 8], xb.f32[4, 8])

    def negated(op: xb.XlaOp, operands: Any) -> Any:
        return xb.neg(operands.keep()) if op.opcode == "all_reduce" else None

    changed = computation.replace(negated, nested=True)
    second, first = lowering.compile(changed, "cpu", num_partitions=N)(X)
    np.testing.assert_allclose(first, -2 * (X[:4] + X[4:]) + X[:4] + 1)
    np.testing.assert_allclose(second, X[:4] * 2)


def recorded(record: Callable[[xb.XlaOp], xb.XlaOp]) -> xb.XlaComputation:
    b = xb.XlaBuilder("recorded")
    return b.build(record(b.parameter(xb.f32[4])))


@each_row(
    "record, target",
    [
        (lambda x: xb.custom_call(TO_SHARDS, [x], xb.f32[2]), TO_SHARDS),
        (lambda x: xb.custom_call(FROM_SHARDS, [x], xb.f32[8]), FROM_SHARDS),
        (lambda x: xb.custom_call(FROM_SHARDS, [xb.neg(x)], xb.f32[8]), FROM_SHARDS),
    ],
)
def test_conversions_without_a_call(record: Any, target: str) -> None:
    """XLA's partitioner reports a failed internal check."""
    with pytest.raises(
        lowering.LoweringError,
        match=rf"compile: the custom call {target}.* must .* all .* of one xb.call\nfix",
    ):
        lowering.compile(recorded(record), "cpu", num_partitions=N)


def test_conversions_without_shardings() -> None:
    b = xb.XlaBuilder("body")
    body = b.build(xb.neg(b.parameter(xb.f32[2])))

    def record(x: xb.XlaOp) -> xb.XlaOp:
        part = xb.custom_call(TO_SHARDS, [x], xb.f32[2])
        return xb.custom_call(FROM_SHARDS, [xb.call(body, part)], xb.f32[4])

    with pytest.raises(
        lowering.LoweringError, match=r"must have the frontend attribute xla\.sdy\.in_shardings"
    ):
        lowering.compile(recorded(record), "cpu", num_partitions=N)


def test_a_program_that_is_not_partitioned() -> None:
    """XLA has no function for the conversions between the shards and the array."""
    doubled = jax.shard_map(lambda x: x * 2, mesh=mesh(), in_specs=P("a"), out_specs=P("a"))
    text = jax.jit(doubled).lower(X).as_text("hlo")
    with pytest.raises(xb.XlaError, match="fix: pass num_partitions to compile"):
        lowering.compile(lowering.from_hlo(text), "cpu")
