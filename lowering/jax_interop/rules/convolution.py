"""Convolutions."""

from __future__ import annotations

from functools import partial

from jax import lax

from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import Context, Step, Value, rule, with_derivative_of
from lowering.jax_interop.rules.contraction import precision_of, result_type


@rule("convolution")
def convolution(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    n = attributes["dimension_numbers"]
    step = partial(
        lax.conv_general_dilated,
        window_strides=attributes["window_strides"],
        padding=attributes["padding"],
        lhs_dilation=attributes["lhs_dilation"],
        rhs_dilation=attributes["rhs_dilation"],
        dimension_numbers=lax.ConvDimensionNumbers(
            (n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions),
            (
                n.kernel_output_feature_dimension,
                n.kernel_input_feature_dimension,
                *n.kernel_spatial_dimensions,
            ),
            (n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions),
        ),
        feature_group_count=attributes.get("feature_group_count", 1),
        batch_group_count=attributes.get("batch_group_count", 1),
        precision=precision_of(op),
        preferred_element_type=result_type(op),
    )
    pairs = zip(n.kernel_spatial_dimensions, attributes["window_reversal"], strict=True)
    reversed_dimensions = [dimension for dimension, is_reversed in pairs if is_reversed]
    if any(operand.shape.element_type.bits < 8 for operand in op.operands):
        # XLA fails for these types, without the rewrites of `legalize`.
        return pasted(ctx.computation, op)
    if not reversed_dimensions:
        return step

    def of_reversed(lhs: Value, rhs: Value) -> Value:
        return step(lhs, lax.rev(rhs, reversed_dimensions))

    # jax.lax has no window reversal. With a reversed kernel XLA adds in another order.
    return with_derivative_of(pasted(ctx.computation, op), of_reversed)
