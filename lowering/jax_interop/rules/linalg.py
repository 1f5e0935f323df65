"""Linear algebra and Fourier transforms.

jax computes factors and solutions by LAPACK on CPU, XLA by its own expansions. So the values are
XLA's, and the derivatives jax's.
"""

from __future__ import annotations

from functools import partial

from jax import lax

from builder.attributes import FftType, Transpose
from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import Context, Step, Value, array_of, rule, with_derivative_of


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
    shape = array_of(op.shape)
    order = (*range(shape.rank - 2), shape.rank - 1, shape.rank - 2)

    def adjoint(matrix: Value) -> Value:
        transposed = lax.transpose(matrix, order)
        return lax.conj(transposed) if shape.element_type.is_complex else transposed

    def triangle(matrix: Value, *, strict: bool) -> Value:
        rows = lax.broadcasted_iota("int32", matrix.shape, shape.rank - 2)
        columns = lax.broadcasted_iota("int32", matrix.shape, shape.rank - 1)
        is_inside = (lax.gt if strict else lax.ge)(rows, columns)
        return lax.select(is_inside, matrix, lax.full_like(matrix, 0))

    def differentiable(a: Value) -> Value:
        # XLA reads one triangle of the matrix and the real part of its diagonal.
        lower = a if is_lower else adjoint(a)
        strict = triangle(lower, strict=True)
        diagonal = lax.sub(triangle(lower, strict=False), strict)
        if shape.element_type.is_complex:
            diagonal = lax.complex(lax.real(diagonal), lax.full_like(lax.real(diagonal), 0))
        full = lax.add(diagonal, lax.add(strict, adjoint(strict)))
        factor = lax.linalg.cholesky(full, symmetrize_input=False)
        return factor if is_lower else adjoint(factor)

    return with_derivative_of(pasted(ctx.computation, op), differentiable)


@rule("triangular_solve")
def triangular_solve(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    transpose = attributes["transpose_a"]
    differentiable = partial(
        lax.linalg.triangular_solve,
        left_side=attributes["left_side"],
        lower=attributes["lower"],
        transpose_a=transpose is not Transpose.NO_TRANSPOSE,
        conjugate_a=transpose is Transpose.ADJOINT,
        unit_diagonal=attributes["unit_diagonal"],
    )
    return with_derivative_of(pasted(ctx.computation, op), differentiable)
