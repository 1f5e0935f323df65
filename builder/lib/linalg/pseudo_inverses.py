"""The pseudo-inverse and the rank of matrices, from their singular values."""

from __future__ import annotations

import builtins
import math

from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, finite_number, shape_of, static_argument
from builder.lib.constants import epsilon
from builder.lib.linalg.matrices import adjoint, as_batch, matmul
from builder.lib.linalg.singular_values import svd, svdvals
from builder.lib.linalg.spectra import floating_matrices
from builder.lib.reductions import max, sum
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.reshaping import reshape
from builder.types.primitive_type import s32


@library_function()
def pinv(a: XlaOp, rtol: float | None = None) -> XlaOp:
    """Return the pseudo-inverses of matrices (Moore and Penrose).

    Args:
        a: matrices [..., m, n] of floating-point or complex type and fixed sizes. Types narrower
            than f32 are computed in f32, and the result is rounded once.
        rtol: singular values up to `rtol` times the largest one count as 0. By default max(m, n)
            times the `epsilon` of the type.

    Returns:
        An array [..., n, m]. It is NaN for matrices that are not finite.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, another type or a dynamic size.
        OperandError: `rtol` is not a finite number of at least 0; `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.pinv(xb.XlaBuilder().parameter(xb.f32[7, 5, 3])).shape
        f32[7,3,5]
    """
    _check_tolerance("pinv", rtol)
    wide = floating_matrices("pinv", "a", a)
    shape = shape_of(a)
    static_argument("pinv", "a", shape)
    *batch, m, n = shape.dimensions
    u, values, v = svd(wide, full_matrices=False)
    counts = _counted(values, a, rtol)
    # Singular values that are NaN make their columns of u and v NaN, so that 0 is as good.
    inverse = ew.select(counts, 1.0 / ew.select(counts, values, 1), 0)
    inverse = reshape(inverse, (math.prod(batch), 1, builtins.min(m, n)))
    right = as_batch(v) * as_type(inverse, shape_of(wide).element_type)
    result = reshape(matmul(right, adjoint(as_batch(u))), (*batch, n, m))
    return as_type(result, shape.element_type)


@library_function()
def matrix_rank(a: XlaOp, rtol: float | None = None) -> XlaOp:
    """Return the ranks of matrices: the numbers of singular values that do not count as 0.

    Args:
        a: matrices [..., m, n] of floating-point or complex type and fixed sizes.
        rtol: see `pinv`.

    Returns:
        An array s32[...]. It is 0 for matrices that are not finite.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, another type or a dynamic size.
        OperandError: `rtol` is not a finite number of at least 0; `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.matrix_rank(xb.XlaBuilder().parameter(xb.f32[7, 5, 3])).shape
        s32[7]
    """
    _check_tolerance("matrix_rank", rtol)
    wide = floating_matrices("matrix_rank", "a", a)
    static_argument("matrix_rank", "a", shape_of(a))
    values = svdvals(wide)
    return sum(as_type(_counted(values, a, rtol), s32), -1)


def _counted(values: XlaOp, a: XlaOp, rtol: float | None) -> XlaOp:
    """Return which singular values of `a` do not count as 0."""
    largest = max(values, -1, keepdims=True)
    shape = shape_of(a)
    if rtol is None:
        eps = as_type(epsilon(a.builder, shape.element_type.real_type), values.shape.element_type)
        return ew.gt(values, largest * (eps * float(builtins.max(shape.dimensions[-2:]))))
    return ew.gt(values, largest * float(rtol))


def _check_tolerance(op: str, rtol: float | None) -> None:
    if rtol is not None:
        finite_number(op, "rtol", rtol, 0)
