"""Reductions over windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from jax import lax

from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.reducers import applied_opcode, is_identity
from lowering.jax_interop.registry import Context, Step, Value, rule, with_derivative_of
from lowering.jax_interop.rules.reduction import pairwise

_REDUCERS: Final[dict[str, Callable[..., Value]]] = {
    "add": lax.add,
    "maximum": lax.max,
    "minimum": lax.min,
}
"""The reducers for which jax has a primitive with a reverse derivative."""


@rule("reduce_window")
def reduce_window(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    computation = attributes["to_apply"]
    window = {
        "window_dimensions": attributes["window_dimensions"],
        "window_strides": attributes["window_strides"],
        "padding": attributes["padding"],
        "base_dilation": attributes["base_dilations"],
        "window_dilation": attributes["window_dilations"],
    }
    count = len(op.operands) // 2
    opcode = applied_opcode(computation)
    reducer = None if opcode is None or count > 1 else _REDUCERS.get(opcode)
    if reducer is not None and opcode is not None and is_identity(opcode, op.operands[1]):
        init = op.operands[1].attributes["value"]
        return lambda operand, _: lax.reduce_window(operand, init, reducer, **window)
    pairs = pairwise(ctx, computation)
    is_tuple = op.shape.is_tuple

    def general(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        results = lax.reduce_window(values, inits, pairs, **window)
        return tuple(results) if is_tuple else results[0]

    if all(init.opcode == "constant" for init in op.operands[count:]):
        exact: Step = general
    else:
        exact = pasted(ctx.computation, op)  # jax can't vmap initial values
    if opcode != "add" or reducer is None:
        return exact

    def differentiable(operand: Value, init: Value) -> Value:
        zero = operand.dtype.type(0)
        total = lax.reduce_window(operand, zero, lax.add, **window)
        return lax.add(total, lax.broadcast_in_dim(init, total.shape, ()))

    # XLA begins with the initial value, so the terms are added in another order.
    return with_derivative_of(exact, differentiable)


_SELECTORS: Final[dict[str, Any]] = {"GE": lax.ge_p, "LE": lax.le_p}


@rule("select_and_scatter")
def select_and_scatter(ctx: Context, op: XlaOp) -> Step:
    """Paste the op; that of max pooling has the derivative of jax's own pooling."""
    attributes = op.attributes
    exact = pasted(ctx.computation, op)
    select, scatter = attributes["select"], attributes["scatter"]
    selector = None
    if select.root.opcode == "compare" and list(map(id, select.root.operands)) == list(
        map(id, select.parameters)
    ):
        selector = _SELECTORS.get(select.root.attributes["comparison_direction"])
    if selector is None or applied_opcode(scatter) != "add":
        return exact
    add = partial(
        lax.select_and_scatter_add_p.bind,
        select_prim=selector,
        window_dimensions=attributes["window_dimensions"],
        window_strides=attributes["window_strides"],
        padding=attributes["padding"],
    )

    def differentiable(operand: Value, source: Value, init: Value) -> Value:
        total = add(source, operand)
        return lax.add(total, lax.broadcast_in_dim(init, total.shape, ()))

    return with_derivative_of(exact, differentiable)
