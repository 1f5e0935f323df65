"""Linear algebra and Fourier transforms.

Operation Semantics: Cholesky, Fft, TriangularSolve.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.attributes import FftType, FftTypeLike, Transpose, TransposeLike
from builder.check import flag, integers
from builder.graph.recording import record, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op
from builder.ops.rules import linalg as infer
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature

_cholesky_shape = per_signature(infer.cholesky.strict)
_triangular_solve_shape = per_signature(infer.triangular_solve.strict)
_fft_shape = per_signature(infer.fft.strict)


@op_by_hand(SCHEMAS["cholesky"])
def cholesky(a: XlaOp, lower: bool = True) -> XlaOp:
    """Return the Cholesky decomposition of a positive definite matrix: a triangular matrix.

    Only one triangle of `a` is read, and the same triangle of the result is written; the other
    triangle is undefined. The result for a matrix that is not positive definite is undefined; on
    CPU all its elements are NaN.

    Args:
        a: a symmetric (for complex types, Hermitian) positive definite matrix of floating-point or
            complex type, or a batch of them: ``[..., n, n]``.
        lower: True for the lower triangle l with ``a = l l^H``, False for the upper triangle u with
            ``a = u^H u``.

    Returns:
        An array of the shape of `a`.

    Raises:
        ShapeInferenceError: `a` is not an array of square matrices, or has another type; `lower` is
            not a bool.

    Example:
        >>> import builder as xb
        >>> a = xb.XlaBuilder().parameter(xb.f32[10, 4, 4])
        >>> xb.cholesky(a, lower=True).shape
        f32[10,4,4]

    Operation Semantics: Cholesky.
    """
    source = need_op("cholesky", "a", a)
    attributes = shared_attributes(lower=flag("cholesky", "lower", lower))
    return record("cholesky", _cholesky_shape(source.shape), (source,), attributes)


@op_by_hand(SCHEMAS["triangular_solve"])
def triangular_solve(
    a: XlaOp,
    b: XlaOp,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: TransposeLike,
) -> XlaOp:
    """Solve ``op(a) x = b`` or ``x op(a) = b`` for x, where `a` is a triangular matrix.

    Only one triangle of `a` is read.

    Args:
        a: a matrix of floating-point or complex type, or a batch of them: ``[..., m, m]``.
        b: an array of the same type and batch dimensions: ``[..., m, k]`` if `left_side`, else
            ``[..., k, m]``.
        left_side: True to solve ``op(a) x = b``, False to solve ``x op(a) = b``.
        lower: True to read the lower triangle of `a`, False to read the upper one.
        unit_diagonal: True to assume that the diagonal of `a` is 1, without reading it.
        transpose_a: a Transpose or its name: whether op(a) is `a`, its transpose or its conjugate
            transpose.

    Returns:
        An array of the shape of `b`.

    Raises:
        ShapeInferenceError: `a` is not an array of square matrices, or has another type; `b` has
            another type, rank or sizes; a flag is not a bool; `transpose_a` is not a Transpose.

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
    left_side = flag("triangular_solve", "left_side", left_side)
    attributes = shared_attributes(
        left_side=left_side,
        lower=flag("triangular_solve", "lower", lower),
        unit_diagonal=flag("triangular_solve", "unit_diagonal", unit_diagonal),
        transpose_a=Transpose.of(transpose_a),
    )
    shape = _triangular_solve_shape(matrix.shape, right.shape, left_side)
    return record("triangular_solve", shape, (matrix, right), attributes)


@op_by_hand(SCHEMAS["fft"])
def fft(operand: XlaOp, fft_type: FftTypeLike, fft_length: Sequence[int]) -> XlaOp:
    """Return the Fourier transform along the last one, two or three dimensions.

    A transform along several dimensions transforms each of them. If it converts between real and
    complex numbers, the conversion is along the last dimension; the others are complex to complex.
    Inverse transforms are divided by the number of elements.

    Args:
        operand: an array; complex for FFT, IFFT and IRFFT, f32 or f64 for RFFT.
        fft_type: an FftType or its name.
        fft_length: the size of each transformed dimension before the transform. For the last
            dimension of IRFFT, whose input has ``length // 2 + 1`` elements, the size after
            the transform.

    Returns:
        An array of the operand's sizes. RFFT returns complex numbers, ``length // 2 + 1`` in the
        last dimension; IRFFT returns real numbers, `length` in the last dimension. The last
        dimension is empty if `length` is 0.

    Raises:
        ShapeInferenceError: `fft_length` does not have 1 to 3 entries, or has more entries than the
            operand has dimensions; a length is negative; sizes do not match RFFT or IRFFT; the
            element type is not supported.

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
    lengths = integers("fft", "fft_length", fft_length)
    attributes = shared_attributes(fft_type=kind, fft_length=lengths)
    return record("fft", _fft_shape(source.shape, kind, lengths), (source,), attributes)
