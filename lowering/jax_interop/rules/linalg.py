"""Linear algebra and Fourier transforms.

jax computes factors and solutions by LAPACK on CPU, XLA by its own expansions. So the values are
XLA's, and the derivatives follow from them by jax's formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from builder.attributes import FftType, Transpose
from builder.graph.xla_op import XlaOp
from lowering.jax_interop import factors
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import (
    Context,
    Step,
    Tangents,
    Value,
    array_of,
    rule,
    with_tangents,
)


@rule("fft")
def fft(ctx: Context, op: XlaOp) -> Step:
    lengths = op.attributes["fft_length"]
    if op.attributes["fft_type"] in (FftType.FFT, FftType.IFFT):
        sizes = array_of(op.shape).dimensions
        if tuple(lengths) != sizes[len(sizes) - len(lengths) :]:
            return pasted(ctx.computation, op)  # jax refuses other lengths, and so does legalize
    return partial(lax.fft, fft_type=op.attributes["fft_type"].name, fft_lengths=lengths)


@rule("cholesky")
def cholesky(ctx: Context, op: XlaOp) -> Step:
    is_lower = op.attributes["lower"]

    def tangents_of(_: Any, factor: Value, tangents: Tangents) -> Value:
        # XLA reads one triangle of the matrix and the real part of its diagonal.
        d_a = factors.hermitian(tangents[0], lower=is_lower)
        if is_lower:
            return jnp.tril(factors.cholesky(factor, d_a))
        return factors.adjoint(jnp.tril(factors.cholesky(factors.adjoint(factor), d_a)))

    return with_tangents(pasted(ctx.computation, op), tangents_of)


@rule("triangular_solve")
def triangular_solve(ctx: Context, op: XlaOp) -> Step:
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

    return with_tangents(pasted(ctx.computation, op), tangents_of)
