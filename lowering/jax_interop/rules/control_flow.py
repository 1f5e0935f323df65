"""Tuples, calls, loops and branches."""

from __future__ import annotations

import builtins
from functools import partial
from operator import itemgetter
from typing import Any, Final

from jax import lax

from builder.graph.xla_op import XlaOp
from builder.inspection.trip_count import trip_count
from builder.ops.control_flow import CUSTOM_DERIVATIVE, DERIVATIVE, ZERO_DERIVATIVE
from builder.types import primitive_type as pt
from lowering.jax_interop.forward_only import forward_only
from lowering.jax_interop.registry import (
    COMPOSITES,
    Context,
    Step,
    Value,
    place,
    refusal,
    rule,
    with_derivative_of,
)
from lowering.jax_interop.varying import alike


@rule("tuple")
def tuple(ctx: Context, op: XlaOp) -> Step:
    return lambda *operands: operands


@rule("get_tuple_element")
def get_tuple_element(ctx: Context, op: XlaOp) -> Step:
    return itemgetter(op.attributes["index"])


@rule("optimization_barrier")
def optimization_barrier(ctx: Context, op: XlaOp) -> Step:
    kind = (op.frontend_attributes or {}).get(DERIVATIVE)
    if kind == ZERO_DERIVATIVE:
        return lambda operand: lax.stop_gradient(operand)
    if kind == CUSTOM_DERIVATIVE:

        def refuse(_: Value) -> Value:
            raise refusal(op, *_LOST)

        return with_derivative_of(lambda operand: operand, refuse)
    barrier: Any = lax.optimization_barrier  # jax has no types for it
    if len(op.operands) == 1:
        return lambda operand: barrier(operand)
    return lambda *operands: barrier(operands)


_LOST: Final = (
    "a rule of a jax function defines its derivative, and edited programs and files do not have it",
    "differentiate the computation of lowering.from_jax or the ops of lowering.apply",
)


@rule("call")
def call(ctx: Context, op: XlaOp) -> Step:
    return ctx.shared(op.attributes["to_apply"])


@rule("composite")
def composite(ctx: Context, op: XlaOp) -> Step:
    """Evaluate the decomposition: jax neither differentiates nor vmaps a composite."""
    decomposition = ctx.shared(op.attributes["to_apply"])
    known = COMPOSITES.get(op.attributes["name"])
    step = None if known is None else known(op, decomposition)
    return decomposition if step is None else step


@rule("while")
def while_(ctx: Context, op: XlaOp) -> Step:
    """Return a `lax.scan` for a known trip count, which jax differentiates in both modes."""
    body = ctx.function(op.attributes["body"])
    count = trip_count(op)
    if count is not None:

        def scanned(init: Value) -> Value:
            return lax.scan(lambda state, _: (body(state), None), alike(init), None, length=count)[
                0
            ]

        return scanned
    condition = ctx.function(op.attributes["condition"])
    reason = (
        f"while{place(op)}: reverse-mode differentiation requires a trip count that is known when "
        "the computation is built"
    )
    fix = (
        "let the loop count from a constant to a constant by a constant step, use xb.scan, write "
        "the derivative with xb.custom_gradient, or differentiate forward with jax.jvp"
    )
    restrict = forward_only("while", reason, fix)
    return lambda init: restrict(lax.while_loop(condition, body, alike(init)))


@rule("conditional")
def conditional(ctx: Context, op: XlaOp) -> Step:
    branches = [ctx.function(branch) for branch in op.attributes["branch_computations"]]

    # Each branch takes its own operand.
    def taking(number: int, operands: Value) -> Value:
        return branches[number](operands[number])

    functions = [partial(taking, number) for number in range(len(branches))]
    if op.operands[0].shape.element_type is pt.pred:
        return lambda pred, *operands: lax.cond(pred, *functions, alike(operands))
    last = len(branches) - 1

    def switch(index: Value, *operands: Value) -> Value:
        # XLA takes the last branch for an index out of range, jax the nearest one.
        zero, end = (lax.full_like(index, limit) for limit in (0, last))
        is_inside = lax.bitwise_and(lax.ge(index, zero), lax.le(index, end))
        return lax.switch(lax.select(is_inside, index, end), functions, alike(operands))

    return switch


@rule("scan")
def scan(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    dimension, num_carries = attributes["scan_dimension"], attributes["num_carries"]
    num_inputs = len(op.operands) - num_carries
    step = ctx.function(attributes["to_apply"])
    num_outputs = len(op.shape.elements) - num_carries  # type: ignore[union-attr]  # a tuple
    length = trip_count(op)
    is_reverse = attributes["is_reverse"]

    def moved(value: Value, source: int, target: int) -> Value:
        order = [d for d in range(value.ndim) if d != source]
        order.insert(target, source)
        return lax.transpose(value, order)

    def one(carries: Value, inputs: Value) -> Value:
        results = step(*inputs, *carries)
        results = results if isinstance(results, builtins.tuple) else (results,)
        return results[num_outputs:], results[:num_outputs]

    def scanned(*operands: Value) -> Value:
        operands = alike(operands)
        inputs = [moved(value, dimension, 0) for value in operands[:num_inputs]]
        inits = builtins.tuple(operands[num_inputs:])
        carries, outputs = lax.scan(one, inits, inputs, length=length, reverse=is_reverse)
        return (*(moved(value, 0, dimension) for value in outputs), *carries)

    return scanned
