"""Linear algebra and Fourier transforms.

jax computes factors and solutions by LAPACK on CPU, XLA by its own expansions. So the values are
XLA's, and the derivatives follow from them by jax's formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from builder.attributes import FftType, Transpose
from builder.graph.xla_op import XlaOp
from lowering.jaxlib_api.lazy_jax import jnp, lax
from lowering.ops.derivatives import factors
from lowering.ops.derivatives.steps import Tangents, with_tangents
from lowering.ops.registry import Context, Step, Value, array_of, jax_rule

if TYPE_CHECKING:
    pass


@jax_rule("fft")
def jax_fft(ctx: Context, op: XlaOp) -> Step:
    lengths = op.attributes["fft_length"]
    if op.attributes["fft_type"] in (FftType.FFT, FftType.IFFT):
        sizes = array_of(op.shape).dimensions
        if tuple(lengths) != sizes[len(sizes) - len(lengths) :]:
            return ctx.pasted(op)  # jax refuses other lengths, and so does legalize
    return partial(lax.fft, fft_type=op.attributes["fft_type"].name, fft_lengths=lengths)


@jax_rule("cholesky")
def jax_cholesky(ctx: Context, op: XlaOp) -> Step:
    is_lower = op.attributes["lower"]

    def tangents_of(_: Any, factor: Value, tangents: Tangents) -> Value:
        # XLA reads one triangle of the matrix and the real part of its diagonal.
        d_a = factors.hermitian(tangents[0], lower=is_lower)
        if is_lower:
            return jnp.tril(factors.cholesky(factor, d_a))
        return factors.adjoint(jnp.tril(factors.cholesky(factors.adjoint(factor), d_a)))

    return with_tangents(ctx.pasted(op), tangents_of)


@jax_rule("triangular_solve")
def jax_triangular_solve(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    transpose = attributes["transpose_a"]
    options = {
        "left_side": attributes["left_side"],
        "lower": attributes["lower"],
        "transpose_a": transpose is not Transpose.NO_TRANSPOSE,
        "conjugate_a": transpose is Transpose.ADJOINT,
    }
    is_unit = attributes["unit_diagonal"]

    def tangents_of(operands: Sequence[Value], solution: Value, tangents: Tangents) -> Value:
        return factors.triangular_solve(operands[0], solution, *tangents, unit=is_unit, **options)

    return with_tangents(ctx.pasted(op), tangents_of)
