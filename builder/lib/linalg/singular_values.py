"""The singular value decomposition, the pseudo-inverse and the rank of matrices.

XLA: svd.h of the client library.
"""

from __future__ import annotations

import builtins
import math

import numpy as np

from builder.checking import flag
from builder.graph.decorators import computation
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, finite_number, shape_of, static_argument
from builder.lib.constants import epsilon, zeros
from builder.lib.linalg.jacobi import (
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
    rows_at,
)
from builder.lib.linalg.orthogonal import qr
from builder.lib.math import maybe_conjugate
from builder.lib.reductions import all, max, sum
from builder.lib.registry import library_function
from builder.lib.shaping import eye, where
from builder.ops import elementwise as ew
from builder.ops.dynamic import get_dimension_size, set_dimension_size
from builder.ops.reduction import sort
from builder.ops.reshaping import broadcast, concatenate, reshape, slice_in_dim, transpose
from builder.types.primitive_type import s32


@library_function("SVD")
def svd(a: XlaOp, *, full_matrices: bool = True) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Decompose matrices as u diag(d) v^H, with singular values d.

    The function records the composite op `xlabuilder.svd` or `xlabuilder.thin_svd`. CPUs run these
    with LAPACK, NVIDIA's GPUs with cuSOLVER. The portable algorithm for other platforms is Jacobi's
    one-sided method. It ends when the columns are orthogonal up to rounding errors, or after a
    fixed number of sweeps. The parameters `max_iter` and `epsilon` of XLA's function have no
    counterpart.

    Args:
        a: matrices [..., m, n] of floating-point or complex type. Types other than f32, f64, c64
            and c128 are computed in f32, and the results are converted back.
        full_matrices: whether u and v are square; otherwise they have k = min(m, n) columns.

    Returns:
        Three arrays: u [..., m, m] or [..., m, k], whose columns are orthonormal; d [..., k] of the
        real type, nonnegative and in descending order; and v [..., n, n] or [..., n, k], whose
        columns are orthonormal. v is not transposed. If a matrix has elements that are not finite,
        its results are NaN. If a size of `a` is bounded, the numbers of columns and of singular
        values of the results are bounded, and their numbers of rows are the bounds. Elements beyond
        the size count as zeros.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, another type or an unbounded size;
            `full_matrices` is not a bool.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> a = xb.XlaBuilder().parameter(xb.c64[7, 5, 3])
        >>> [x.shape for x in lib.svd(a)]
        [c64[7,5,5], f32[7,3], c64[7,3,3]]
        >>> [x.shape for x in lib.svd(a, full_matrices=False)]
        [c64[7,5,3], f32[7,3], c64[7,3,3]]
    """
    flag("svd", "full_matrices", full_matrices)
    tall, is_finite = _tall_matrices("svd", a)
    if 0 in shape_of(tall).dimensions:
        results = _of_empty(tall, full_matrices)
    elif full_matrices:
        results = decomposed("svd", _svd, tall)
    else:
        results = decomposed("thin_svd", _thin_svd, tall)
    left, values, right = (nan_unless(is_finite, result) for result in results)
    u, v = (left, adjoint(right)) if _is_tall(a) else (adjoint(right), left)
    rows, columns, smaller = shape_of(a).rank - 2, shape_of(a).rank - 1, _smaller_dimension(a)
    return (
        _columns_restored(u, a, rows if full_matrices else smaller),
        _columns_restored(values, a, smaller),
        _columns_restored(v, a, columns if full_matrices else smaller),
    )


@library_function()
def svdvals(a: XlaOp) -> XlaOp:
    """Return the singular values of matrices in descending order.

    Recorded as the composite op `xlabuilder.svdvals`; see `svd`.

    Args:
        a: matrices [..., m, n] of floating-point or complex type.

    Returns:
        An array of the real type and the sizes [..., min(m, n)]. The last size is bounded if that
        of `a` is.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, another type or an unbounded size.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.svdvals(xb.XlaBuilder().parameter(xb.c64[7, 5, 3])).shape
        f32[7,3]
    """
    tall, is_finite = _tall_matrices("svdvals", a)
    if 0 in shape_of(tall).dimensions:
        values = zeros(a.builder, values_shape(tall))
    else:
        values = decomposed("svdvals", _svdvals, tall)[0]
    return _columns_restored(nan_unless(is_finite, values), a, _smaller_dimension(a))


def _smaller_dimension(a: XlaOp) -> int:
    """Return the dimension with min(m, n) elements; for square matrices, that of the columns."""
    *_, m, n = shape_of(a).dimensions
    return shape_of(a).rank - (1 if m >= n else 2)


def _is_tall(a: XlaOp) -> bool:
    """Return whether there are more rows than columns.

    Square matrices are not tall, because LAPACK reads the rows of a row-major array as columns: it
    gets the adjoint without a copy.
    """
    *_, m, n = shape_of(a).dimensions
    return m > n


def _tall_matrices(op: str, a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the matrices or their conjugate transposes, and whether they are finite."""
    full = floating_matrices(op, "a", a)
    return finite_only(full if _is_tall(a) else adjoint(full))


def _of_empty(tall: XlaOp, full_matrices: bool) -> list[XlaOp]:
    """Return the results for no matrices, or for matrices without columns."""
    b, shape = tall.builder, shape_of(tall)
    *batch, m, n = shape.dimensions
    left = eye(b, m, m if full_matrices else n, shape.element_type)
    right = zeros(b, shape.element_type[(*batch, n, n)])
    return [broadcast(left, batch), zeros(b, values_shape(tall)), right]


def _columns_restored(result: XlaOp, a: XlaOp, last: int) -> XlaOp:
    """Return a result in the type of `a`, with the bounded batch sizes of `a`.

    The last size has the bound of dimension `last` of `a`. As in XLA's library, a size <=1 becomes
    1.
    """
    shape = shape_of(a)
    result_rank = shape_of(result).rank
    is_real = not shape_of(result).element_type.is_complex
    result = as_type(result, shape.element_type.real_type if is_real else shape.element_type)
    places = {dimension: dimension for dimension in range(shape.rank - 2)}
    places[last] = result_rank - 1
    for dimension, place in places.items():
        if shape.dynamic_dimensions[dimension] and shape.dimensions[dimension] > 1:
            result = set_dimension_size(result, get_dimension_size(a, dimension), place)
    return result


@computation
def _svd(a: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    return _from_rotations(a, True)


@computation
def _thin_svd(a: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    return _from_rotations(a, False)


@computation
def _svdvals(a: XlaOp) -> XlaOp:
    sizes = shape_of(a).dimensions
    return reshape(_rotated_columns(as_batch(a))[0], (*sizes[:-2], sizes[-1]))


def _from_rotations(a: XlaOp, full_matrices: bool) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Return u, d and v^H of tall matrices."""
    batch = as_batch(a)
    n = shape_of(batch).dimensions[2]
    values, columns, right = _rotated_columns(batch)
    # The columns are orthogonal and in descending order, so that the factor r is diagonal. Columns
    # of zeros come last: the factor q has an orthonormal basis there, too.
    q, r = qr(transpose(columns, [0, 2, 1]), full_matrices=full_matrices)
    r = slice_in_dim(r, 0, n, 1, 1)
    own = ew.eq(counted_along(r, 1), counted_along(r, 2))
    pivots = sum(ew.select(own, r, 0), 1, keepdims=True)
    size = ew.abs(pivots)
    phases = ew.select(ew.eq(size, 0), 1, pivots / as_type(size, shape_of(r).element_type))
    left = slice_in_dim(q, 0, n, 1, 2) * phases
    if full_matrices:
        left = concatenate([left, slice_in_dim(q, n, shape_of(q).dimensions[2], 1, 2)], 2)
    outer = shape_of(a).dimensions[:-2]
    u, d, v = (
        reshape(result, (*outer, *shape_of(result).dimensions[1:]))
        for result in (left, values, maybe_conjugate(right, True))
    )
    return u, d, v


def _rotated_columns(batch: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Rotate pairs of columns until all columns are orthogonal.

    Returns:
        The lengths of the columns in descending order; the rotated columns, as rows; and the
        rotations. The rotated columns are the product of the rotations and the transposed matrix.
    """
    matrix, power = scaled(batch)
    count, m, n = shape_of(matrix).dimensions
    rows = transpose(matrix, [0, 2, 1])
    eps = float(np.finfo(shape_of(power).element_type.dtype).eps)

    def is_done(columns: XlaOp, _: XlaOp) -> XlaOp:
        """Compare the cosines of the angles between columns with the rounding errors."""
        sizes = ew.abs(matmul(columns, adjoint(columns)))
        own = ew.eq(counted_along(sizes, 1), counted_along(sizes, 2))
        squares = sum(ew.select(own, sizes, 0), 2, keepdims=True)
        # Columns as small as rounding errors have no direction.
        smallest = sum(squares, 1, keepdims=True) * eps**2
        norms = where(squares > smallest, ew.sqrt(squares), np.inf)
        limits = norms * transpose(norms, [0, 2, 1]) * (4 * eps * m**0.5)
        return all(ew.or_(own, sizes <= limits), (1, 2))

    padded = even_rows(rows)
    _, rotations = swept(_rotate_pairs, is_done, (padded, identities(padded)))
    rotations = slice_in_dim(slice_in_dim(orthonormal(rotations), 0, n, 1, 1), 0, n, 1, 2)
    columns = matmul(rotations, rows)
    lengths = ew.sqrt(sum(squared_magnitude(columns), 2))
    descending, order = sort([-lengths, counted_along(lengths, 1)], is_stable=True)
    values = -descending * reshape(power, (count, 1))
    return values, rows_at(columns, order), rows_at(rotations, order)


def _rotate_pairs(columns: XlaOp, rotations: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Make the columns of each pair orthogonal. Columns are rows of the array here."""
    first, second = halves(columns, 1)
    b = sum(maybe_conjugate(first, True) * second, 2, keepdims=True)
    a, d = (sum(squared_magnitude(half), 2, keepdims=True) for half in (first, second))
    c, s = rotation(a, b, d)
    return exchanged(rotated(columns, c, s, 1), 1), exchanged(rotated(rotations, c, s, 1), 1)


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
