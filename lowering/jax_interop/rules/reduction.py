"""Reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jax import lax

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.reducers import applied_opcode, is_identity
from lowering.jax_interop.registry import Context, Step, Value, rule, with_derivative_of
from lowering.jax_interop.rules.elementwise import FUNCTIONS

MONOIDS: Final[dict[str, Callable[..., Value]]] = {
    "add": lax.reduce_sum,
    "multiply": lax.reduce_prod,
    "maximum": lax.reduce_max,
    "minimum": lax.reduce_min,
    "and": lax.reduce_and,
    "or": lax.reduce_or,
    "xor": lax.reduce_xor,
}
"""The reduction by each opcode from its identity."""


def pairwise(ctx: Context, computation: XlaComputation) -> Callable[..., Any]:
    """Return a reducer as jax takes it: of two tuples."""
    function = ctx.function(computation)

    def reducer(lhs: Value, rhs: Value) -> Value:
        result = function(*lhs, *rhs)
        return result if isinstance(result, tuple) else (result,)

    return reducer


@rule("reduce")
def reduce(ctx: Context, op: XlaOp) -> Step:
    computation = op.attributes["to_apply"]
    dimensions = op.attributes["dimensions"]
    count = len(op.operands) // 2
    opcode = applied_opcode(computation)
    monoid = None if opcode is None else MONOIDS[opcode]
    if monoid is not None and opcode is not None and count == 1:
        if is_identity(opcode, op.operands[1]):
            return lambda operand, _: monoid(operand, axes=dimensions)
        combine = FUNCTIONS[opcode]
    reducer = pairwise(ctx, computation)
    is_tuple = op.shape.is_tuple

    def general(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        results = lax.reduce(tuple(values), tuple(inits), reducer, dimensions)
        return tuple(results) if is_tuple else results[0]

    if all(init.opcode == "constant" for init in op.operands[count:]):
        exact: Step = general
    else:
        exact = pasted(ctx.computation, op)  # jax can't vmap initial values
    if monoid is None or count > 1:
        return exact

    def differentiable(operand: Value, init: Value) -> Value:
        reduced = monoid(operand, axes=dimensions)
        return combine(reduced, lax.broadcast_in_dim(init, reduced.shape, ()))

    # XLA begins with the initial value, so the terms are added in another order.
    return with_derivative_of(exact, differentiable)
