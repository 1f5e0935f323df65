"""Eigenvalues and eigenvectors of Hermitian matrices.

XLA: self_adjoint_eig.h of the client library.
"""

from __future__ import annotations

import numpy as np

from builder.checking import flag
from builder.errors import ShapeInferenceError, error_of
from builder.graph.decorators import computation
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.lib.constants import zeros
from builder.lib.linalg.jacobi import (
    as_real,
    even_rows,
    exchanged,
    finite_only,
    floating_matrices,
    halves,
    identities,
    nan_unless,
    orthonormal,
    rotated,
    rotation,
    scaled,
    squared_magnitude,
    swept,
    values_shape,
)
from builder.lib.linalg.matrices import (
    adjoint,
    as_batch,
    counted_along,
    decomposed,
    matmul,
    restored,
    rows_at,
)
from builder.lib.math import maybe_conjugate
from builder.lib.reductions import max, sum
from builder.lib.registry import library_function
from builder.lib.shaping import where
from builder.ops import elementwise as ew
from builder.ops.dynamic import get_dimension_size
from builder.ops.reduction import sort
from builder.ops.reshaping import pad_in_dim, reshape, slice_in_dim


@library_function("SelfAdjointEig")
def eigh(a: XlaOp, lower: bool = True, sort_eigenvalues: bool = True) -> tuple[XlaOp, XlaOp]:
    """Return the eigenvectors and eigenvalues of symmetric or Hermitian matrices.

    The function records the composite op `xlabuilder.eigh`. CPUs run it with LAPACK, NVIDIA's GPUs
    with cuSOLVER. The portable algorithm for other platforms is Jacobi's method. It ends when all
    elements off the diagonal are rounding errors, or after a fixed number of sweeps. The parameters
    `max_iter` and `tol` of XLA's function have no counterpart.

    Args:
        a: matrices [..., n, n] of floating-point or complex type. Only one triangle and the real
            part of the diagonal are read. Types other than f32, f64, c64 and c128 are computed in
            f32, and the results are converted back.
        lower: True to read the lower triangle, False to read the upper one.
        sort_eigenvalues: has no effect: the eigenvalues are always in ascending order.

    Returns:
        Two arrays. The first, of the shape of `a`, has the eigenvectors, which are orthonormal, in
        its columns. The second, of the real type and the sizes [..., n], has the eigenvalues, so
        that ``a v[:, i] == w[i] v[:, i]``. If a matrix has elements that are not finite, its
        results are NaN. A bounded size of `a` is bounded in the first array. In the second array it
        is fixed, at the bound: the eigenvalues come first, and the rest is undefined.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, is not square, has another type or
            an unbounded size; a flag is not a bool.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> v, w = lib.eigh(xb.XlaBuilder().parameter(xb.c64[5, 3, 3]))
        >>> v.shape, w.shape
        (c64[5,3,3], f32[5,3])
    """
    flag("eigh", "sort_eigenvalues", sort_eigenvalues)
    matrices, is_finite = _upper_triangle("eigh", a, lower)
    if 0 in shape_of(matrices).dimensions:
        vectors, values = matrices, zeros(a.builder, values_shape(matrices))
    else:
        vectors, values = decomposed("eigh", _eigh, matrices)
    vectors, values = nan_unless(is_finite, vectors), nan_unless(is_finite, values)
    return restored(vectors, a), as_type(values, shape_of(a).element_type.real_type)


@library_function()
def eigvalsh(a: XlaOp, lower: bool = True) -> XlaOp:
    """Return the eigenvalues of symmetric or Hermitian matrices in ascending order.

    Recorded as the composite op `xlabuilder.eigvalsh`; see `eigh`.

    Args:
        a: matrices [..., n, n] of floating-point or complex type.
        lower: True to read the lower triangle, False to read the upper one.

    Returns:
        An array of the real type and the sizes [..., n]. A bounded size becomes its bound.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, is not square, has another type or
            an unbounded size; `lower` is not a bool.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.eigvalsh(xb.XlaBuilder().parameter(xb.c64[5, 3, 3])).shape
        f32[5,3]
    """
    matrices, is_finite = _upper_triangle("eigvalsh", a, lower)
    if 0 in shape_of(matrices).dimensions:
        values = zeros(a.builder, values_shape(matrices))
    else:
        values = decomposed("eigvalsh", _eigvalsh, matrices)[0]
    return as_type(nan_unless(is_finite, values), shape_of(a).element_type.real_type)


def _upper_triangle(op: str, a: XlaOp, lower: bool) -> tuple[XlaOp, XlaOp]:
    """Return the upper triangle of Hermitian matrices, from their lower or upper triangle.

    LAPACK reads the rows of a row-major array as columns, so it gets the adjoint without a copy.
    Beyond bounded sizes, the elements of the diagonal are larger than all eigenvalues, so that the
    eigenvalues of this padding come last.

    Returns:
        The triangles, and whether each is finite, [..., 1, 1].
    """
    flag(op, "lower", lower)
    full = floating_matrices(op, "a", a)
    shape = shape_of(a)
    rows, columns = shape.rank - 2, shape.rank - 1
    if shape.dimensions[rows] != shape.dimensions[columns]:
        rule = "a must be an array of square matrices"
        raise error_of(ShapeInferenceError, op, rule, got=shape, shapes={"a": shape})
    if lower:
        full = adjoint(full)
    element_type = shape_of(full).element_type
    row, column = counted_along(full, rows), counted_along(full, columns)
    full = ew.select(row <= column, full, 0)
    if element_type.is_complex:
        full = ew.select(ew.eq(row, column), as_type(ew.real(full), element_type), full)
    full, is_finite = finite_only(full)
    dynamic = [d for d in (rows, columns) if shape.dynamic_dimensions[d]]
    if dynamic:
        sizes = [get_dimension_size(a, dimension) for dimension in dynamic]
        padding = ew.and_(ew.eq(row, column), row >= ew.min(sizes[0], sizes[-1]))
        # No eigenvalue is larger than the largest sum of the absolute values of a row.
        size = ew.abs(full)
        sums = [
            max(sum(size, axis, keepdims=True), (rows, columns), True) for axis in (rows, columns)
        ]
        full = where(padding, as_type(sums[0] + sums[1] + 1.0, element_type), full)
    return full, is_finite


@computation
def _eigh(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Rotate pairs of rows and columns until all elements off the diagonal vanish."""
    upper, power = scaled(as_batch(a))
    count, n, _ = shape_of(upper).dimensions
    is_upper = counted_along(upper, 1) <= counted_along(upper, 2)
    batch = ew.select(is_upper, upper, adjoint(upper))
    padded = pad_in_dim(even_rows(batch), 0, 2, 0, n % 2)
    total = sum(squared_magnitude(padded), (1, 2))
    tolerance = float(np.finfo(shape_of(power).element_type.dtype).eps) ** 2

    def is_done(matrix: XlaOp, _: XlaOp) -> XlaOp:
        own = ew.eq(counted_along(matrix, 1), counted_along(matrix, 2))
        beside = sum(ew.select(own, 0, squared_magnitude(matrix)), (1, 2))
        return beside <= total * tolerance

    _, vectors = swept(_rotate_pairs, is_done, (padded, identities(padded)))
    vectors = slice_in_dim(slice_in_dim(orthonormal(vectors), 0, n, 1, 1), 0, n, 1, 2)
    # Rayleigh's quotients are more exact than the diagonal of the rotated matrix.
    product = matmul(vectors, batch) * maybe_conjugate(vectors, True)
    values = sum(as_real(product), 2)
    values, order = sort([values, counted_along(values, 1)], is_stable=True)
    values = values * reshape(power, (count, 1))
    sizes = shape_of(a).dimensions
    return reshape(adjoint(rows_at(vectors, order)), sizes), reshape(values, sizes[:-1])


@computation
def _eigvalsh(a: XlaOp) -> XlaOp:
    return _eigh(a)[1]


def _rotate_pairs(matrix: XlaOp, vectors: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Make an element of each pair of rows zero. The rows of `vectors` become eigenvectors."""
    top, bottom = halves(matrix, 1)
    first, beside = halves(top, 2)
    second = halves(bottom, 2)[1]
    own = ew.eq(counted_along(first, 1), counted_along(first, 2))
    a, b, d = (sum(ew.select(own, x, 0), 2) for x in (first, beside, second))
    c, s = rotation(as_real(a), b, as_real(d))
    count, pairs = shape_of(c).dimensions
    c_rows, s_rows = (reshape(x, (count, pairs, 1)) for x in (c, maybe_conjugate(s, True)))
    c_columns, s_columns = (reshape(x, (count, 1, pairs)) for x in (c, s))
    matrix = rotated(rotated(matrix, c_columns, s_columns, 2), c_rows, s_rows, 1)
    distance = ew.abs(counted_along(matrix, 1) - counted_along(matrix, 2))
    matrix = ew.select(ew.eq(distance, pairs), 0, matrix)
    vectors = exchanged(rotated(vectors, c_rows, s_rows, 1), 1)
    return exchanged(exchanged(matrix, 1), 2), vectors
