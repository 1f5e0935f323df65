"""Reductions along dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from lowering.jaxlib_api.lazy_jax import jax, lax
from lowering.ops.derivatives.steps import with_derivative_of
from lowering.ops.elementwise import FUNCTIONS
from lowering.ops.reducers import applied_opcode, is_identity
from lowering.ops.registry import Context, Step, Value, array_of, jax_rule

if TYPE_CHECKING:
    pass


_MONOIDS: Final[dict[str, Callable[[], Callable[..., Value]]]] = {
    "add": lambda: lax.reduce_sum,
    "multiply": lambda: lax.reduce_prod,
    "maximum": lambda: lax.reduce_max,
    "minimum": lambda: lax.reduce_min,
    "and": lambda: lax.reduce_and,
    "or": lambda: lax.reduce_or,
    "xor": lambda: lax.reduce_xor,
}
"""By opcode, a function that returns jax's reduction from the identity."""


def pairwise(ctx: Context, computation: XlaComputation) -> Callable[..., Any]:
    """Return a reducer as jax takes it: of two tuples."""
    function = ctx.function(computation)

    def reducer(lhs: Value, rhs: Value) -> Value:
        result = function(*lhs, *rhs)
        return result if isinstance(result, tuple) else (result,)

    return reducer


def vectorized(ctx: Context, computation: XlaComputation, rank: int) -> Callable[..., Any]:
    """Return a reducer of scalars as one of two lists of arrays, which returns a list."""
    function = pairwise(ctx, computation)
    for _ in range(rank):
        function = jax.vmap(function)
    return lambda lhs, rhs: list(function(tuple(lhs), tuple(rhs)))


@jax_rule("reduce")
def jax_reduce(ctx: Context, op: XlaOp) -> Step:
    computation = op.attributes["to_apply"]
    dimensions = op.attributes["dimensions"]
    count = len(op.operands) // 2
    opcode = applied_opcode(computation)
    monoid = None if opcode is None else _MONOIDS[opcode]()
    if monoid is not None and opcode is not None and count == 1:
        if is_identity(opcode, op.operands[1]):
            return lambda operand, _: monoid(operand, axes=dimensions)
        combine = FUNCTIONS[opcode]()
    reducer = pairwise(ctx, computation)
    is_tuple = op.shape.is_tuple

    def general(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        results = lax.reduce(tuple(values), tuple(inits), reducer, dimensions)
        return tuple(results) if is_tuple else results[0]

    if all(init.opcode == "constant" for init in op.operands[count:]):
        exact: Step = general
    else:
        exact = ctx.pasted(op)  # jax can't vmap initial values
    if monoid is None or count > 1:
        return with_derivative_of(exact, _folded(ctx, op))

    def differentiable(operand: Value, init: Value) -> Value:
        reduced = monoid(operand, axes=dimensions)
        return combine(reduced, lax.broadcast_in_dim(init, reduced.shape, ()))

    # XLA begins with the initial value, so the terms are added in another order.
    return with_derivative_of(exact, differentiable)


def _folded(ctx: Context, op: XlaOp) -> Step:
    """Return a reduction that combines neighbouring elements until one is left.

    jax differentiates reducers of one floating-point operand only.
    """
    combine = vectorized(ctx, op.attributes["to_apply"], array_of(op.operands[0].shape).rank)
    dimensions = op.attributes["dimensions"]
    count = len(op.operands) // 2
    is_tuple = op.shape.is_tuple

    def folded(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        for d in dimensions:
            size = values[0].shape[d]
            while size > 1:
                rest = size % 2
                even, odd = (
                    [lax.slice_in_dim(v, first, size - rest, 2, d) for v in values]
                    for first in (0, 1)
                )
                pairs = combine(even, odd)
                if rest:
                    last = [lax.slice_in_dim(v, size - 1, size, axis=d) for v in values]
                    pairs = [lax.concatenate(p, d) for p in zip(pairs, last, strict=True)]
                values, size = pairs, len(range(0, size, 2))
        sizes = values[0].shape
        kept = [size for d, size in enumerate(sizes) if d not in dimensions]
        if 0 in [sizes[d] for d in dimensions]:
            results = [lax.broadcast_in_dim(init, kept, ()) for init in inits]
        else:
            starts = [lax.broadcast_in_dim(init, sizes, ()) for init in inits]
            results = [lax.reshape(value, kept) for value in combine(starts, values)]
        return tuple(results) if is_tuple else results[0]

    return folded
