"""The QR decomposition, by Householder reflectors."""

from __future__ import annotations

from typing import Any, Final

from builder.checking import CONVERT, flag
from builder.errors import ShapeInferenceError, error_of
from builder.graph.decorators import computation
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import array_argument, as_type, bounded_argument, shape_of
from builder.lib.linalg.matrices import (
    adjoint,
    as_batch,
    counted_along,
    decomposed,
    identity,
    magnitude,
    matmul,
    matrices_argument,
    prepared,
    restored,
    triangle,
    working_type,
)
from builder.lib.math import maybe_conjugate
from builder.lib.reductions import max as maximum, sum as total
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.control_flow import while_
from builder.ops.indexing import dynamic_slice, dynamic_update_slice
from builder.ops.linalg import triangular_solve
from builder.ops.reshaping import (
    broadcast,
    broadcast_in_dim,
    concatenate,
    pad_in_dim,
    reshape,
    slice_in_dim,
    transpose,
)
from builder.types.primitive_type import s32

_PANEL: Final = 128
"""The number of columns that are eliminated before the columns right of them are updated."""


@library_function("QrExplicit")
def qr(a: XlaOp, full_matrices: bool = False) -> tuple[XlaOp, XlaOp]:
    """Decompose matrices as a = Q R, with orthonormal columns in Q and an upper triangular R.

    Args:
        a: matrices [..., m, n]; see `qr_decomposition`.
        full_matrices: whether Q is square. If not, it has min(m, n) columns, and R as many rows.

    Returns:
        Q and R: [..., m, k] and [..., k, n], where k is m if `full_matrices`, and else min(m, n).
        The diagonal of R may be negative. A bounded size of `a` is bounded in the results where it
        occurs unchanged.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, or an unbounded size;
            `full_matrices` is not a bool.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> q, r = lib.qr(xb.XlaBuilder().parameter(xb.f32[5, 3]))
        >>> q.shape, r.shape
        (f32[5,3], f32[3,3])
    """
    flag("qr", "full_matrices", full_matrices)
    shape = matrices_argument("qr", "a", a)
    *_, m, n = shape.dimensions
    row, column, count = shape.rank - 2, shape.rank - 1, min(m, n)
    factors, taus = qr_decomposition(as_type(a, working_type(shape.element_type)))
    reflectors = factors
    if m < n:
        reflectors = slice_in_dim(factors, 0, m, 1, column)
    elif full_matrices:
        reflectors = pad_in_dim(factors, 0, column, 0, m - n)
    q = product_of_elementary_householder_reflectors(reflectors, taus)
    if not full_matrices:
        q = slice_in_dim(q, 0, count, 1, column)
        factors = slice_in_dim(factors, 0, count, 1, row)
    r = restored(triangle(prepared(factors), upper=True), factors)
    return as_type(q, shape.element_type), as_type(r, shape.element_type)


@library_function("Qr")
def qr_decomposition(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Decompose matrices as a = Q R, with Q as a product of Householder reflectors.

    The function records the composite op `xlabuilder.qr`, which CPUs run with LAPACK and NVIDIA's
    GPUs with cuSOLVER. `qr` returns Q and R.

    Args:
        a: matrices [..., m, n] of any type. Types other than f32, f64, c64 and c128 are computed in
            f32, integers of more than 16 bits in f64, and the results are converted back.

    Returns:
        Two arrays. The first has the shape of `a`: R on and above the diagonal, and below it the
        reflectors, each in a column without its leading 1. The second, [..., min(m, n)], has the
        factors ``tau`` of the reflectors, ``I - tau v v^H``. Q is the product of the reflectors. A
        bounded size of `a` is bounded in the first array, and becomes its bound in the second.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, or an unbounded size.
        OperandError: `a` is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> factors, taus = lib.qr_decomposition(xb.XlaBuilder().parameter(xb.f32[5, 3]))
        >>> factors.shape, taus.shape
        (f32[5,3], f32[3])
    """
    shape = matrices_argument("qr_decomposition", "a", a)
    full = prepared(a, (shape.rank - 2, shape.rank - 1))
    if 0 in shape.dimensions:
        sizes = (*shape.dimensions[:-2], min(shape.dimensions[-2:]))
        return a, broadcast(a.builder.constant(0, shape.element_type), sizes)
    factors, taus = decomposed("qr", _qr, full)
    return restored(factors, a), as_type(taus, shape.element_type)


@library_function("ProductOfElementaryHouseholderReflectors")
def product_of_elementary_householder_reflectors(a: XlaOp, taus: XlaOp) -> XlaOp:
    """Return the first columns of a product of Householder reflectors ``I - tau v v^H``.

    The function records the composite op `xlabuilder.householder_product`, which CPUs run with
    LAPACK and NVIDIA's GPUs with cuSOLVER.

    Args:
        a: matrices [..., m, n], with n not greater than m. Column i has the elements of vector v_i
            below the diagonal; element i of the vector is 1, and those before it are 0.
        taus: the factors [..., k] of the reflectors, with k not greater than n, of the type of `a`.
            They belong to the first k columns of `a`; its other columns are ignored.

    Returns:
        The first n columns of the product, an array of the shape of `a`.

    Raises:
        ShapeInferenceError: `a` has fewer than two dimensions, or more columns than rows; `taus`
            has another type, other batch sizes, or too many elements; a size is unbounded.
        OperandError: an argument is not an array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> factors, taus = lib.qr_decomposition(xb.XlaBuilder().parameter(xb.f32[5, 3]))
        >>> lib.product_of_elementary_householder_reflectors(factors, taus).shape
        f32[5,3]
    """
    op = "product_of_elementary_householder_reflectors"
    shape = matrices_argument(op, "a", a)
    *batch, m, n = shape.dimensions
    factors = array_argument(op, "taus", taus)
    bounded_argument(op, "taus", factors)
    shapes = {"a": shape, "taus": factors}
    if m < n:
        rule = "a must not have more columns than rows"
        raise error_of(ShapeInferenceError, op, rule, "slice its columns", got=shape, shapes=shapes)
    if factors.element_type is not shape.element_type:
        rule = f"taus must have the type of a, {shape.element_type}"
        raise error_of(ShapeInferenceError, op, rule, CONVERT, got=factors, shapes=shapes)
    if list(factors.dimensions[:-1]) != batch or not factors.rank or factors.dimensions[-1] > n:
        rule = f"taus must have at most {n} elements, and the batch sizes {batch} of a"
        raise error_of(ShapeInferenceError, op, rule, got=factors, shapes=shapes)
    full = prepared(a, (shape.rank - 2, shape.rank - 1))
    if 0 in (*factors.dimensions, *shape.dimensions):
        result = identity(as_batch(full))
        return restored(reshape(result, shape.dimensions), a)
    scales = prepared(taus, (factors.rank - 1,))
    (result,) = decomposed("householder_product", _product, full, scales)
    return restored(result, a)


@computation
def _qr(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Eliminate panels of columns; after each, apply its reflectors to the columns right of it."""
    sizes = shape_of(a).dimensions
    batch = as_batch(a)
    _, m, n = shape_of(batch).dimensions
    count = min(m, n)
    all_taus = []
    for start in range(0, count, _PANEL):
        end = min(start + _PANEL, count)
        below = slice_in_dim(batch, start, m, 1, 1)
        panel, taus = _eliminated(slice_in_dim(below, start, end, 1, 2))
        all_taus.append(taus)
        parts = [slice_in_dim(below, 0, start, 1, 2), panel]
        if end < n:
            parts.append(_reflected(panel, taus, slice_in_dim(below, end, n, 1, 2)))
        above = slice_in_dim(batch, 0, start, 1, 1)
        batch = concatenate([above, concatenate(parts, 2)], 1)
    return reshape(batch, sizes), reshape(concatenate(all_taus, 1), (*sizes[:-2], count))


def _eliminated(panel: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the factors of a batch of panels, which have no more columns than rows; and taus."""
    shape = shape_of(panel)
    batch, _, count = shape.dimensions
    start = panel.builder.constant(0, s32)
    taus = broadcast(panel.builder.constant(0, shape.element_type), (batch, count))
    state = while_(lambda s: s[0] < count, _eliminate_column, (start, panel, taus))
    return state[1], state[2]


def _eliminate_column(state: Any) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Compute the reflector of a column, and apply it to the columns right of it."""
    step, panel, taus = state
    batch, m, n = shape_of(panel).dimensions
    v, tau, diagonal = _reflector(dynamic_slice(panel, [0, 0, step], [batch, m, 1]), step)
    reflected = panel - v * (maybe_conjugate(tau, True) * matmul(adjoint(v), panel))
    row, column = counted_along(panel, 1), counted_along(panel, 2)
    panel = ew.select(column > step, reflected, panel)
    is_below = ew.and_(ew.eq(column, step), row > step)
    panel = ew.select(is_below, broadcast_in_dim(v, (batch, m, n), [0, 1, 2]), panel)
    panel = dynamic_update_slice(panel, diagonal, [0, step, step])
    taus = dynamic_update_slice(taus, reshape(tau, (batch, 1)), [0, step])
    return step + 1, panel, taus


def _reflector(x: XlaOp, step: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Compute the reflectors that make the elements below row `step` of vectors zero.

    Args:
        x: a batch of vectors, [b, m, 1].
        step: a row, s32[].

    Returns:
        The vectors of the reflectors, the factors tau, and the remaining elements at row `step`;
        the latter have one row.
    """
    shape = shape_of(x)
    kind, batch = shape.element_type, shape.dimensions[0]
    row = counted_along(x, 1)
    # Squares of scaled elements do not overflow.
    size = maximum(magnitude(ew.select(row < step, 0, x)), 1, keepdims=True)
    size = as_type(ew.select(size > 0, size, 1), kind)
    x = x / size
    own = dynamic_slice(x, [0, step, 0], [batch, 1, 1])
    tail = ew.select(row > step, x, 0)
    real, imaginary = _parts(own)
    rest = total(_square(tail), 1, keepdims=True)
    is_zero = ew.eq(rest, 0) if imaginary is None else ew.eq(rest + imaginary * imaginary, 0)
    norm = ew.sqrt(rest + _square(own))
    remaining = as_type(ew.select(is_zero, real, ew.select(real < 0, norm, -norm)), kind)
    divisor = ew.select(is_zero, 1, remaining)
    tau = ew.select(is_zero, 0, (remaining - own) / divisor)
    v = tail / ew.select(is_zero, 1, own - remaining)
    return ew.select(ew.eq(row, step), 1, v), tau, remaining * size


def _parts(x: XlaOp) -> tuple[XlaOp, XlaOp | None]:
    """Return the real and the imaginary part; None for that of real numbers."""
    return (ew.real(x), ew.imag(x)) if shape_of(x).element_type.is_complex else (x, None)


def _square(x: XlaOp) -> XlaOp:
    """Return |x|^2."""
    real, imaginary = _parts(x)
    return real * real if imaginary is None else real * real + imaginary * imaginary


def _compact(factors: XlaOp, taus: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Return V, D and B, where the product of reflectors is ``I - V D B^-1 V^H``.

    This is the compact WY form. The columns of V are the vectors of the reflectors; D, [b, k, 1],
    is the diagonal matrix of taus. B is an upper triangle with a diagonal of ones; only its
    elements above the diagonal are valid.
    """
    count = shape_of(taus).dimensions[1]
    factors = slice_in_dim(factors, 0, count, 1, 2)
    v = triangle(factors, upper=False, diagonal=1)
    scales = reshape(taus, (*shape_of(taus).dimensions, 1))
    return v, scales, matmul(adjoint(v), v) * transpose(scales, [0, 2, 1])


def _reflected(panel: XlaOp, taus: XlaOp, right: XlaOp) -> XlaOp:
    """Multiply matrices from the left by the adjoint of the product of a panel's reflectors."""
    v, scales, unit = _compact(panel, taus)
    products = maybe_conjugate(scales, True) * matmul(adjoint(v), right)
    return right - matmul(v, triangular_solve(unit, products, True, False, True, "ADJOINT"))


@computation
def _product(a: XlaOp, taus: XlaOp) -> XlaOp:
    batch = as_batch(a)
    n = shape_of(batch).dimensions[2]
    v, scales, unit = _compact(batch, as_batch(taus, 1))
    top = adjoint(slice_in_dim(v, 0, n, 1, 1))
    products = scales * triangular_solve(unit, top, True, False, True, "NO_TRANSPOSE")
    return reshape(identity(batch) - matmul(v, products), shape_of(a).dimensions)
