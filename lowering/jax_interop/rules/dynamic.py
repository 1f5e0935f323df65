"""Sizes that are computed at run time, where the shapes are static nevertheless."""

from __future__ import annotations

import numpy as np
from jax import lax

from builder.graph.xla_op import XlaOp
from lowering.jax_interop.registry import Context, Step, array_of, rule
from lowering.jax_interop.rules.reshaping import broadcast_in_dim


@rule("get_dimension_size")
def get_dimension_size(ctx: Context, op: XlaOp) -> Step:
    size = array_of(op.operands[0].shape).dimensions[op.attributes["dimension"]]
    return lambda _: np.array(size, np.int32)


@rule("set_dimension_size")
def set_dimension_size(ctx: Context, op: XlaOp) -> Step:
    # A static size cannot be set to another one.
    return lambda operand, _: operand


@rule("dynamic_reshape")
def dynamic_reshape(ctx: Context, op: XlaOp) -> Step:
    sizes = array_of(op.shape).dimensions
    return lambda operand, *_: lax.reshape(operand, sizes)


@rule("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(ctx: Context, op: XlaOp) -> Step:
    step = broadcast_in_dim(ctx, op)
    return lambda operand, _: step(operand)
