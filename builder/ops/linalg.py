"""Linear algebra and Fourier transforms.

Operation Semantics: Cholesky, Fft, TriangularSolve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from builder.attributes import FftType, FftTypeLike, Transpose, TransposeLike
from builder.check import flag, integers
from builder.graph.recording import record
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op
from builder.schema import SCHEMAS
from builder.shape_inference import linalg as infer
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape

__all__ = ["cholesky", "fft", "triangular_solve"]

Plan = tuple[ArrayShape, Mapping[str, Any]]


@per_signature
def _cholesky_plan(a: Shape, lower: bool) -> Plan:
    return infer.cholesky.strict(a), MappingProxyType({"lower": lower})


@op(SCHEMAS["cholesky"])
def cholesky(a: XlaOp, lower: bool = True) -> XlaOp:
    """The triangular matrix whose product with its own adjoint is a positive definite matrix.

    One triangle of `a` is read, and the same triangle of the result is written; what stands in the
    other one is not defined. Nor is the result for a matrix that is not positive definite: on a CPU
    it is NaN throughout.

    Args:
        a: a symmetric (for complex numbers Hermitian) positive definite matrix of floating-point
            or complex type, or a batch of them: ``[..., n, n]``.
        lower: True for the lower triangle l with ``a = l l^H``, False for the upper triangle u
            with ``a = u^H u``.

    Returns:
        An array of the shape of `a`.

    Raises:
        ShapeInferenceError: `a` is no array of square matrices, or not of such a type; `lower` is
            no bool.

    Example:
        >>> import builder as xb
        >>> a = xb.XlaBuilder().parameter(xb.f32[10, 4, 4])
        >>> xb.cholesky(a, lower=True).shape
        f32[10,4,4]

    Operation Semantics: Cholesky.
    """
    source = need_op("cholesky", "a", a)
    shape, attributes = _cholesky_plan(source.shape, flag("cholesky", "lower", lower))
    return record("cholesky", shape, (source,), attributes)


@per_signature
def _triangular_solve_plan(
    a: Shape, b: Shape, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: Transpose
) -> Plan:
    return infer.triangular_solve.strict(a, b, left_side), MappingProxyType(
        {
            "left_side": left_side,
            "lower": lower,
            "unit_diagonal": unit_diagonal,
            "transpose_a": transpose_a,
        }
    )


@op(SCHEMAS["triangular_solve"])
def triangular_solve(
    a: XlaOp,
    b: XlaOp,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: TransposeLike,
) -> XlaOp:
    """The solution x of ``op(a) x = b`` or ``x op(a) = b`` for a triangular matrix `a`.

    One triangle of `a` is read, whatever stands in the other one.

    Args:
        a: a matrix of floating-point or complex type, or a batch of them: ``[..., m, m]``.
        b: an array of the same type and of equal batch dimensions: ``[..., m, k]`` if `left_side`,
            else ``[..., k, m]``.
        left_side: True to solve ``op(a) x = b``, False to solve ``x op(a) = b``.
        lower: True to read the lower triangle of `a`, False to read the upper one.
        unit_diagonal: True to take the diagonal of `a` for 1, and not read it.
        transpose_a: a Transpose or its name: whether op(a) is `a` itself, transposed, or transposed
            and conjugated.

    Returns:
        An array of the shape of `b`.

    Raises:
        ShapeInferenceError: `a` is no array of square matrices, or not of such a type; `b` is of
            another type or rank, or its sizes do not fit; a flag is no bool, `transpose_a` no
            Transpose.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder()
        >>> a, b = x.parameter(xb.f32[4, 4]), x.parameter(xb.f32[4, 2])
        >>> xb.triangular_solve(a, b, True, True, False, xb.Transpose.NO_TRANSPOSE).shape
        f32[4,2]

    Operation Semantics: TriangularSolve.
    """
    matrix = need_op("triangular_solve", "a", a)
    right = need_op("triangular_solve", "b", b)
    shape, attributes = _triangular_solve_plan(
        matrix.shape,
        right.shape,
        flag("triangular_solve", "left_side", left_side),
        flag("triangular_solve", "lower", lower),
        flag("triangular_solve", "unit_diagonal", unit_diagonal),
        Transpose.of(transpose_a),
    )
    return record("triangular_solve", shape, (matrix, right), attributes)


@per_signature
def _fft_plan(operand: Shape, fft_type: FftType, fft_length: tuple[int, ...]) -> Plan:
    shape = infer.fft.strict(operand, fft_type, fft_length)
    return shape, MappingProxyType({"fft_type": fft_type, "fft_length": fft_length})


@op(SCHEMAS["fft"])
def fft(operand: XlaOp, fft_type: FftTypeLike, fft_length: Sequence[int]) -> XlaOp:
    """The Fourier transform along the last one, two or three dimensions.

    That along several dimensions is a transform along each of them; if it is between real and
    complex numbers, that happens along the last one, the others are from complex to complex.
    Inverse transforms are divided by the number of elements.

    Args:
        operand: an array; complex for FFT, IFFT and IRFFT, f32 or f64 for RFFT.
        fft_type: an FftType or its name.
        fft_length: for each dimension that is transformed its size before the transform; for
            IRFFT, whose last dimension holds ``length // 2 + 1`` elements, after it.

    Returns:
        An array of the operand's sizes. RFFT gives complex numbers, and ``length // 2 + 1`` of them
        in the last dimension, IRFFT real numbers, `length` of them; nothing if `length` is 0.

    Raises:
        ShapeInferenceError: not 1 to 3 lengths, or more than the operand has dimensions, or a
            negative one; sizes that are not those of RFFT or IRFFT; another element type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3, 16])
        >>> y = xb.fft(x, xb.FftType.RFFT, [16])
        >>> y.shape, xb.fft(y, "IRFFT", [16]).shape, xb.fft(y, "FFT", [3, 9]).shape
        (c64[3,9], f32[3,16], c64[3,9])

    Operation Semantics: Fft.
    """
    source = need_op("fft", "operand", operand)
    kind = FftType.of(fft_type)
    shape, attributes = _fft_plan(source.shape, kind, integers("fft", "fft_length", fft_length))
    return record("fft", shape, (source,), attributes)
