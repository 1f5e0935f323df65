"""Dot products."""

from __future__ import annotations

from functools import partial
from typing import Any

from jax import lax

from builder.attributes import DotDimensionNumbers
from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import Context, Step, rule, with_derivative_of


def dot_numbers(numbers: DotDimensionNumbers) -> Any:
    """Return dimension numbers in jax's form."""
    return (
        (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
        (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions),
    )


def precision_of(op: XlaOp) -> Any:
    """Return the precision of the operands; always explicit, because None is a setting of jax."""
    return tuple(lax.Precision[p.name] for p in op.attributes["precision"])


def result_type(op: XlaOp) -> Any:
    """Return the dtype of the result if it differs from the operands', otherwise None."""
    element_type = op.shape.element_type
    types = {operand.shape.element_type for operand in op.operands[:2]}
    return None if types == {element_type} else element_type.dtype


@rule("dot_general")
def dot_general(ctx: Context, op: XlaOp) -> Step:
    algorithm = op.attributes.get("algorithm")
    precision = precision_of(op)
    if algorithm is not None:
        precision = lax.DotAlgorithmPreset[algorithm.name.removeprefix("DOT_")]
    return partial(
        lax.dot_general,
        dimension_numbers=dot_numbers(op.attributes["dimension_numbers"]),
        precision=precision,
        preferred_element_type=result_type(op),
    )


@rule("ragged_dot")
def ragged_dot(ctx: Context, op: XlaOp) -> Step:
    numbers = op.attributes["dimension_numbers"]
    jax_numbers: Any = lax.RaggedDotDimensionNumbers  # jax has no types for it
    differentiable = partial(
        lax.ragged_dot_general,
        ragged_dot_dimension_numbers=jax_numbers(
            dot_numbers(numbers.dot_dimension_numbers),
            numbers.lhs_ragged_dimensions,
            numbers.rhs_group_dimensions,
        ),
        precision=precision_of(op),
        preferred_element_type=result_type(op),
    )
    # jax multiplies densely where it does not know the platform, with other roundings.
    return with_derivative_of(pasted(ctx.computation, op), differentiable)
