"""The operations of the graphs in jax.lax."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from benchmarks.graphs.graph import Graph

# The functions of lax accept Python numbers and trace faster than the operators of arrays.
add = add_number = add_integer = lax.add
sub = lax.sub
mul = mul_number = lax.mul
max = max_number = lax.max
exp, log, logistic, neg, rsqrt, tanh = lax.exp, lax.log, lax.logistic, lax.neg, lax.rsqrt, lax.tanh
gt_number = lax.gt
lt_integer = lax.lt
reshape, transpose, slice, concatenate = lax.reshape, lax.transpose, lax.slice, lax.concatenate
dot_general, conv_general_dilated = lax.dot_general, lax.conv_general_dilated
while_, conditional = lax.while_loop, lax.cond
# Equivalent to `lax.reduce` with `lax.add`, and faster to trace.
reduce_sum, reduce_max = lax.reduce_sum, lax.reduce_max


def add_along(x: jax.Array, v: jax.Array, dimensions: Sequence[int]) -> jax.Array:
    return lax.add(x, lax.broadcast_in_dim(v, x.shape, dimensions))


def sub_along(x: jax.Array, v: jax.Array, dimensions: Sequence[int]) -> jax.Array:
    return lax.sub(x, lax.broadcast_in_dim(v, x.shape, dimensions))


def mul_along(x: jax.Array, v: jax.Array, dimensions: Sequence[int]) -> jax.Array:
    return lax.mul(x, lax.broadcast_in_dim(v, x.shape, dimensions))


def div_along(x: jax.Array, v: jax.Array, dimensions: Sequence[int]) -> jax.Array:
    return lax.div(x, lax.broadcast_in_dim(v, x.shape, dimensions))


def dot_numbers(
    lhs_contracting: Sequence[int],
    rhs_contracting: Sequence[int],
    lhs_batch: Sequence[int] = (),
    rhs_batch: Sequence[int] = (),
) -> Any:
    return (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)


def conv_numbers(text: str) -> lax.ConvDimensionNumbers:
    lhs, rhs, out = text.upper().replace("->", "_").replace("F", "C").split("_")
    letters = str.maketrans("B01", "NHW")
    specification = (lhs.translate(letters), rhs.translate(letters), out.translate(letters))
    return lax.conv_dimension_numbers((1,) * len(lhs), (1,) * len(rhs), specification)


def shared(make: Callable[[float], Callable[..., Any]]) -> Callable[[float], Callable[..., Any]]:
    return make


# jax.lax accepts NumPy arrays as operands.
def constant(value: np.ndarray[Any, Any], operand: jax.Array) -> Any:
    return value


def max_pool(
    operand: jax.Array,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> jax.Array:
    pooled: jax.Array = lax.reduce_window(operand, -np.inf, lax.max, window, strides, padding)
    return pooled


def record(
    graph: Graph, size: int
) -> tuple[Callable[..., Sequence[jax.Array]], list[jax.ShapeDtypeStruct]]:
    """Return a function and arguments for ``jax.jit(function).trace(*arguments)``.

    The function is new in each call, because jax caches the traces of functions.
    """
    g = sys.modules[__name__]

    def function(*values: jax.Array) -> Sequence[jax.Array]:
        return graph.body(g, size, *values)

    abstract: Callable[..., jax.ShapeDtypeStruct] = jax.ShapeDtypeStruct  # it has no annotations
    return function, [
        abstract(dimensions, np.dtype(dtype)) for _, dtype, dimensions in graph.arguments(size)
    ]
