"""Reductions over windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from builder.graph.xla_op import XlaOp
from lowering.jaxlib_api.lazy_jax import jax, lax
from lowering.ops.derivatives.steps import forward_only, with_derivative_of
from lowering.ops.elementwise import FUNCTIONS
from lowering.ops.reducers import applied_opcode, identity, is_identity
from lowering.ops.reduction.reductions import pairwise, vectorized
from lowering.ops.registry import Context, Step, Value, array_of, jax_rule, place

if TYPE_CHECKING:
    pass


_REDUCERS: Final = frozenset(("add", "maximum", "minimum"))
"""The reducers for which jax has a primitive with a reverse derivative."""


@jax_rule("reduce_window")
def jax_reduce_window(ctx: Context, op: XlaOp) -> Step:
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
    opcode = applied_opcode(computation) if count == 1 else None
    reducer = FUNCTIONS[opcode]() if opcode is not None and opcode in _REDUCERS else None
    if reducer is not None and opcode is not None and is_identity(opcode, op.operands[1]):
        init = op.operands[1].attributes["value"]
        return lambda operand, _: lax.reduce_window(operand, init, reducer, **window)
    pairs = pairwise(ctx, computation)
    is_tuple = op.shape.is_tuple

    def general(*operands: Value) -> Value:
        values, inits = operands[:count], operands[count:]
        results = lax.reduce_window(values, inits, pairs, **window)
        return tuple(results) if is_tuple else results[0]

    inits = [init.attributes["value"] for init in op.operands[count:] if init.opcode == "constant"]
    # jax can't vmap or differentiate initial values.
    exact = general if len(inits) == count else ctx.pasted(op)
    cumulative = _cumulative(ctx, op) if count == 1 else None
    if cumulative is not None:
        return with_derivative_of(exact, cumulative)
    if opcode is None or (reducer is None and opcode != "multiply"):
        if len(inits) < count:
            return exact
        reason = (
            f"reduce_window{place(op)}: reverse-mode differentiation requires one operand and the "
            "reducer add, mul, max or min, or windows of all elements up to each one"
        )
        fix = "use such a reducer, or write the derivative with xb.custom_gradient"
        restrict = forward_only("reduce_window", reason, fix)
        return with_derivative_of(
            exact, lambda *operands: restrict(general(*operands[:count], *inits))
        )
    start = identity(opcode, op.operands[0].shape.element_type)
    combine = FUNCTIONS[opcode]()

    def differentiable(operand: Value, init: Value) -> Value:
        if reducer is None:
            total = _products(operand, start, **window)
        else:
            total = lax.reduce_window(operand, start, reducer, **window)
        return combine(total, lax.broadcast_in_dim(init, total.shape, ()))

    # XLA begins with the initial value, so the elements are combined in another order.
    return with_derivative_of(exact, differentiable)


def _products(
    operand: Value,
    one: Value,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> Value:
    """Return the products over windows, from an array with all elements of each window."""
    config = [
        (low, high, base - 1) for (low, high), base in zip(padding, base_dilation, strict=True)
    ]
    elements = lax.pad(operand, one, config)
    sizes = elements.shape
    for d in reversed(range(len(sizes))):
        within = np.arange(window_dimensions[d]) * window_dilation[d]
        starts = np.arange(0, sizes[d] - within[-1], window_strides[d])
        elements = jax.numpy.take(elements, starts[:, None] + within, axis=d)
    return lax.reduce_prod(elements, axes=range(1, elements.ndim, 2))


def _cumulative(ctx: Context, op: XlaOp) -> Step | None:
    """Return the function of a window that begins at the first element, or ends at the last one.

    None for other windows. `lax.associative_scan` of the reducer can be differentiated.
    """
    attributes = op.attributes
    sizes = array_of(op.operands[0].shape).dimensions
    dilated = (*attributes["base_dilations"], *attributes["window_dilations"])
    if any(factor != 1 for factor in (*dilated, *attributes["window_strides"])):
        return None
    window, padding = attributes["window_dimensions"], attributes["padding"]
    (axis, *others) = [d for d, pads in enumerate(padding) if window[d] > 1 or any(pads)] or [0]
    low, high = padding[axis]
    if others or window[axis] != sizes[axis] or min(low, high) != 0:
        return None
    is_reverse = high > 0
    combine = vectorized(ctx, attributes["to_apply"], len(sizes))
    # The results are those for the last `added` + 1 numbers of elements, from none to all.
    added, size = max(low, high), sizes[axis]

    def accumulated(operand: Value, init: Value) -> Value:
        (found,) = lax.associative_scan(combine, [operand], reverse=is_reverse, axis=axis)
        (found,) = combine([lax.broadcast_in_dim(init, found.shape, ())], [found])
        empty = list(found.shape)
        empty[axis] = max(added + 1 - size, 0)
        parts = [lax.broadcast_in_dim(init, empty, ()), found]
        every = lax.concatenate(parts[::-1] if is_reverse else parts, axis)
        first = 0 if is_reverse else every.shape[axis] - added - 1
        return lax.slice_in_dim(every, first, first + added + 1, axis=axis)

    return accumulated


_SELECTORS: Final[dict[str, Callable[[], Any]]] = {"GE": lambda: lax.ge_p, "LE": lambda: lax.le_p}


@jax_rule("select_and_scatter")
def jax_select_and_scatter(ctx: Context, op: XlaOp) -> Step:
    """Paste the op; that of max pooling has the derivative of jax's own pooling."""
    attributes = op.attributes
    exact = ctx.pasted(op)
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
        select_prim=selector(),
        window_dimensions=attributes["window_dimensions"],
        window_strides=attributes["window_strides"],
        padding=attributes["padding"],
    )

    def differentiable(operand: Value, source: Value, init: Value) -> Value:
        total = add(source, operand)
        return lax.add(total, lax.broadcast_in_dim(init, total.shape, ()))

    return with_derivative_of(exact, differentiable)
