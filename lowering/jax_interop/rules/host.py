"""Tokens, calls of Python functions, and calls of code outside XLA."""

from __future__ import annotations

from typing import Any, Final

import jax
from jax.experimental import io_callback

from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, TokenShape, leaves
from lowering.host.callbacks import PythonFunction, python_callback
from lowering.jax_interop.pasting import nested, pasted
from lowering.jax_interop.python_calls import can_record, traced_call
from lowering.jax_interop.registry import (
    CUSTOM_CALLS,
    REFUSED,
    Context,
    Step,
    Value,
    place,
    refusal,
    rule,
    with_derivative_of,
)

_TRANSFER: Final = (
    "jax has no infeed, outfeed or channel to the host",
    "pass the data as an argument or a result, or call a Python function with xb.python_call",
)
REFUSED.update(dict.fromkeys(("infeed", "outfeed", "send", "recv"), _TRANSFER))


@rule("create_token", "after_all")
def token(ctx: Context, op: XlaOp) -> Step:
    return lambda *_: None


@rule("custom_call")
def custom_call(ctx: Context, op: XlaOp) -> Step:
    target = op.attributes["call_target_name"]
    if target == "Sharding":
        return lambda operand: operand
    if target.startswith("SPMD"):
        raise refusal(op, f"{target} depends on partitions", "use jax.shard_map instead")
    known = CUSTOM_CALLS.get(target)
    step = None if known is None else known(ctx, op)
    return pasted(ctx.computation, op) if step is None else step


@rule("python_call")
def python_call(ctx: Context, op: XlaOp) -> Step:
    recorded = op.attributes
    shapes = [leaf for leaf in leaves(op.shape) if isinstance(leaf, ArrayShape)]
    if any(isinstance(leaf, TokenShape) for leaf in leaves(op.shape)):
        raise refusal(op, "jax can't pass a token to it", "call the function without a token")
    called = PythonFunction(
        recorded["function"], recorded["name"], tuple(o.shape for o in op.operands), op.shape
    )
    function = python_callback(called, ctx.computation.name, place(op))
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    results = [described(s.dimensions, s.element_type.dtype) for s in shapes]
    has_effect = recorded["has_side_effect"]

    def step(*operands: Value) -> Value:
        flat = jax.tree_util.tree_leaves(operands)
        if has_effect:
            values = io_callback(function, results, *flat)
        elif can_record(op):
            values = traced_call(op, flat)
        else:
            values = jax.pure_callback(function, results, *flat, vmap_method="sequential")
        return nested(op.shape, values)

    def differentiable(*_: Value) -> Value:
        raise refusal(op, *_NO_DERIVATIVE)

    return step if has_effect else with_derivative_of(step, differentiable)


_NO_DERIVATIVE: Final = (
    "a Python function has no derivative",
    "call it in a computation with a derivative of its own: xb.custom_gradient",
)
