"""Functions of jax with derivatives of their own, which the rules of several families share.

Elementary functions: the formulas of jax have a square or a quotient of squares as intermediate
result. In f32 it is 0 or infinite for numbers that are 1e20 times smaller or larger than 1, and the
derivative is 0, infinite or NaN. Each function here is a primitive of jax with the name, the
lowering and the values of the one in jax.lax, so that programs are the same.

A step is a function of jax (`lowering.ops.registry`): of arrays, tracers, and tuples of them.

Factors of matrices: the formulas are jax's, or follow from them. The arguments are values of jax:
matrices behind batch dimensions, and their tangents. All functions are linear in the tangents.

Derivatives of eigenvectors and singular vectors divide by the differences of the values. They are
NaN or infinite if values are repeated; those of the values themselves are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import Any

from builder.errors import error_of
from lowering.errors import LoweringError
from lowering.jaxlib_api.jax_arrays import alike
from lowering.jaxlib_api.lazy_jax import ad, batching, jax, jax_core, jax_mlir, jnp, lax
from lowering.ops.registry import Step, Value


def _with_slopes(name: str, *slopes: Step) -> Step:
    """Return a function of jax.lax with another derivative for real numbers.

    Args:
        name: the name of the function's primitive.
        slopes: for each operand the tangent of the result, as a function of the operand's tangent,
            the result and the operands.
    """

    @cache
    def primitive() -> Any:
        function, original = getattr(lax, name), getattr(lax, f"{name}_p")
        new: Any = jax_core.Primitive(name)
        new.def_impl(function)
        new.def_effectful_abstract_eval(original.abstract_eval)
        jax_mlir.register_lowering(new, jax_mlir.lower_fun(function, multiple_results=False))
        batch: Any = batching.defbroadcasting if len(slopes) > 1 else batching.defvectorized
        batch(new)
        define: Any = ad.defjvp2
        define(new, *slopes)
        if original in ad.primitive_transposes:
            ad.primitive_transposes[new] = ad.primitive_transposes[original]
        return new

    def step(*operands: Value) -> Value:
        if not jnp.issubdtype(operands[0].dtype, jnp.floating):
            return getattr(lax, name)(*operands)
        if len(operands) > 1:
            operands = tuple(alike(jnp.broadcast_arrays(*operands)))
        return primitive().bind(*operands)

    return step


def _divisor_slope(g: Value, quotient: Value, _: Value, y: Value) -> Value:
    # XLA replaces a quotient of a quotient by one with a product as divisor, which may overflow.
    return g * lax.neg(quotient * divide(lax.full_like(y, 1), y))


def _dividend_slope(g: Value, _: Value, __: Value, y: Value) -> Value:
    return divide(g, y)


divide: Step = _with_slopes("div", _dividend_slope, _divisor_slope)


def _base_slope(g: Value, _: Value, x: Value, y: Value) -> Value:
    # Where the exponent is 0, the result is 1 for all bases.
    is_constant = y == 0
    slope = y * power(x, lax.select(is_constant, lax.full_like(y, 1), y - 1))
    return g * lax.select(is_constant, lax.full_like(y, 0), slope)


def _exponent_slope(g: Value, result: Value, x: Value, _: Value) -> Value:
    logarithm = lax.log(lax.select(x == 0, lax.full_like(x, 1), x))
    # An infinite base has a power of 0.
    is_zero = result == 0
    slope = lax.select(is_zero, lax.full_like(x, 0), logarithm) * result
    return g * slope


power: Step = _with_slopes("pow", _base_slope, _exponent_slope)


def _inverse_square_ratio(x: Value, y: Value) -> tuple[Value, Value]:
    """Return x / (x * x + y * y) and y / (x * x + y * y)."""
    size = lax.max(lax.abs(x), lax.abs(y))
    is_infinite = size == jnp.inf
    scale = lax.select(is_infinite, lax.full_like(size, 1), size)
    inverse = divide(lax.full_like(size, 1), scale)
    ratios = [operand * inverse for operand in (x, y)]
    square = ratios[0] * ratios[0] + ratios[1] * ratios[1]
    first, second = [
        lax.select(is_infinite, lax.full_like(x, 0), divide(ratio, square) * inverse)
        for ratio in ratios
    ]
    return first, second


atan2 = _with_slopes(
    "atan2",
    lambda g, _, y, x: g * _inverse_square_ratio(x, y)[0],
    lambda g, _, y, x: g * lax.neg(_inverse_square_ratio(x, y)[1]),
)


def _asinh_slope(g: Value, _: Value, x: Value) -> Value:
    # For large numbers 1 / sqrt(x * x + 1) is 1 / |x|.
    limits: Any = jnp.finfo(x.dtype)  # type: ignore[no-untyped-call]  # of jax
    is_large = lax.abs(x) > float(limits.eps) ** -0.5
    one = lax.full_like(x, 1)
    near = lax.select(is_large, one, x)
    far = lax.select(is_large, lax.abs(x), one)
    return g * lax.select(is_large, divide(one, far), lax.rsqrt(near * near + 1))


asinh = _with_slopes("asinh", _asinh_slope)

acosh = _with_slopes(
    "acosh",
    lambda g, _, x: g * (lax.rsqrt(x - 1) * lax.rsqrt(x + 1)),
)


def with_derivative_of(exact: Step, differentiable: Step) -> Step:
    """Return a function with the values of `exact` and the derivatives of `differentiable`.

    For ops that jax computes with other operations than XLA, whose results are rounded differently.
    """
    function: Any = jax.custom_jvp(exact)

    def derivative(primals: tuple[Value, ...], tangents: tuple[Value, ...]) -> Any:
        # An operand without a tangent need not have a derivative.
        wanted = [n for n, t in enumerate(tangents) if not _is_symbolic_zero(t)]

        def of_wanted(*some: Value) -> Value:
            every = list(primals)
            for number, value in zip(wanted, some, strict=True):
                every[number] = value
            return differentiable(*every)

        some = [primals[number] for number in wanted]
        _, tangent = jax.jvp(of_wanted, some, [tangents[number] for number in wanted])
        return function(*primals), tangent

    function.defjvp(derivative, symbolic_zeros=True)
    step: Step = function
    return step


Tangents = Sequence[Value | None]
"""A tangent for each operand or result. None is a tangent of zeros: of an integer, of a pred, or of
an operand that does not depend on what is differentiated."""


def with_rule(exact: Step, rule: Callable[[Sequence[Value], Tangents], Any]) -> Step:
    """Return a function that computes `exact`, and that jax differentiates by calling `rule`.

    Args:
        exact: a function of arrays that returns an array or a tuple of arrays.
        rule: a function ``(operands, tangents of the operands) -> (results, tangents of the
            results)``, linear in the tangents. When jax differentiates, it calls `rule` instead of
            `exact`, so the results of the two may differ where `exact` has several correct
            results. For a second derivative jax differentiates `rule`.
    """
    custom: Any = jax.custom_jvp  # jax has no types for it
    function = custom(exact)

    def derivative(primals: tuple[Value, ...], tangents: tuple[Value, ...]) -> Any:
        results, found = rule(primals, [_tangent(tangent) for tangent in tangents])
        if not isinstance(results, tuple):
            return results, _instantiated(results, found)
        return results, tuple(map(_instantiated, results, found))

    function.defjvp(derivative, symbolic_zeros=True)
    step: Step = function
    return step


def with_tangents(
    exact: Step, tangents_of: Callable[[Sequence[Value], Any, Tangents], Any]
) -> Step:
    """Return a function with the values of `exact`, and a derivative in terms of its results.

    Reverse mode with known results evaluates `exact` neither once more nor by other operations.

    Args:
        exact: a function of arrays that returns an array or a tuple of arrays.
        tangents_of: a linear function of the tangents: ``(operands, results, tangents of the
            operands) -> tangents of the results``, a tuple if the results are.
    """

    def derivative(operands: Sequence[Value], tangents: Tangents) -> Any:
        results = function(*operands)
        return results, tangents_of(operands, results, tangents)

    function = with_rule(exact, derivative)
    return function


def _tangent(tangent: Value) -> Value | None:
    """Return a tangent, or None for one of zeros."""
    is_zero = _is_symbolic_zero(tangent) or tangent.dtype == jax.dtypes.float0
    return None if is_zero else tangent


def _instantiated(result: Value, tangent: Value | None) -> Value:
    """Return the tangent of a result; zeros for None."""
    zero: Any = jax.custom_derivatives.zero_from_primal  # jax has no types for it
    return zero(result, symbolic_zeros=True) if tangent is None else tangent


def _is_symbolic_zero(tangent: Value) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


class _Refusal:
    """The error of reverse mode.

    Attributes:
        opcode: the opcode, for the text of jax's programs.
        rule: the rule of the message.
        fix: its fix.
    """

    def __init__(self, opcode: str, rule: str, fix: str) -> None:
        self.opcode = opcode
        self.rule = rule
        self.fix = fix

    def __repr__(self) -> str:
        return self.opcode


def forward_only(opcode: str, rule: str, fix: str) -> Step:
    """Return the identity of nested values; its reverse derivative raises LoweringError."""
    restrict = partial(_forward_only().bind, refusal=_Refusal(opcode, rule, fix))
    return partial(jax.tree_util.tree_map, restrict)


def _transposed(*_: Any, refusal: _Refusal) -> Any:
    raise error_of(LoweringError, "to_jax", refusal.rule, refusal.fix)


def _identity(value: Any, **_: Any) -> Any:
    return value


@cache
def _forward_only() -> Any:
    primitive: Any = jax_core.Primitive("xlabuilder_forward_only")
    primitive.def_impl(_identity)
    primitive.def_abstract_eval(_identity)
    jax_mlir.register_lowering(primitive, lambda _, value, **_refusal: [value])
    linear: Any = ad.deflinear2  # jax has no types for it
    linear(primitive, _transposed)
    vectorized: Any = batching.defvectorized
    vectorized(primitive)
    return primitive


def _linalg() -> Any:
    return lax.linalg  # jax has no types for some of it


def transposed(matrix: Value) -> Value:
    return jnp.swapaxes(matrix, -1, -2)


def adjoint(matrix: Value) -> Value:
    return jnp.conj(transposed(matrix))


def product(*matrices: Value) -> Value:
    """Return the product of matrices, in the precision of their type."""
    return reduce(lambda lhs, rhs: jnp.matmul(lhs, rhs, precision=lax.Precision.HIGHEST), matrices)


def diagonal(matrix: Value) -> Value:
    return jnp.diagonal(matrix, axis1=-2, axis2=-1)


def real_diagonal(matrix: Value) -> Value:
    return jnp.real(diagonal(matrix))


def hermitian(matrix: Value, *, lower: bool) -> Value:
    """Return the Hermitian matrix of one triangle and of the real part of the diagonal."""
    strict = jnp.tril(matrix, -1) if lower else jnp.triu(matrix, 1)
    return strict + adjoint(strict) + _with_diagonal(matrix, jnp.real(matrix))


def _with_diagonal(matrix: Value, values: Value) -> Value:
    """Return a matrix of zeros with the diagonal of `values`, of the type of `matrix`."""
    m, n = matrix.shape[-2:]
    return jnp.eye(m, n, dtype=matrix.dtype) * values.astype(matrix.dtype)


def _solved(a: Value, b: Value, *, left: bool = True, lower: bool = True, **options: Any) -> Value:
    return _linalg().triangular_solve(a, b, left_side=left, lower=lower, **options)


def cholesky(factor: Value, d_a: Value) -> Value:
    """Return the tangent of the lower factor, from that of a Hermitian matrix."""
    inner = _solved(factor, d_a, left=False, transpose_a=True, conjugate_a=True)
    inner = jnp.tril(_solved(factor, inner))
    return product(factor, inner - 0.5 * _with_diagonal(inner, inner))


def triangular_solve(
    a: Value, solution: Value, d_a: Value | None, d_b: Value | None, *, unit: bool, **options: Any
) -> Value:
    """Return the tangent of the solution.

    Args:
        a: the triangular matrices.
        solution: the solution.
        d_a, d_b: the tangents of the matrices and of the right sides; None for zeros.
        unit: whether the diagonal is 1, whatever `a` has there.
        options: the other arguments of `jax.lax.linalg.triangular_solve`.
    """
    right = d_b
    if d_a is not None:
        strict = 1 if unit else 0
        d_a = jnp.tril(d_a, -strict) if options["lower"] else jnp.triu(d_a, strict)
        d_a = transposed(d_a) if options["transpose_a"] else d_a
        d_a = jnp.conj(d_a) if options["conjugate_a"] else d_a
        of_a = product(d_a, solution) if options["left_side"] else product(solution, d_a)
        right = -of_a if right is None else right - of_a
    return _linalg().triangular_solve(a, right, unit_diagonal=unit, **options)


def lu(factors: Value, pivots: Value, d_a: Value) -> Value:
    """Return the tangent of the factors, which are in one matrix; pivots are counted from 0."""
    *batch, m, n = factors.shape
    k = min(m, n)
    rows = _linalg().lu_pivots_to_permutation(pivots, m)
    permuted = jnp.take_along_axis(d_a, rows[..., None], axis=-2)
    batch_pads = [(0, 0, 0)] * len(batch)
    zero = factors.dtype.type(0)
    left = lax.pad(jnp.tril(factors[..., :k], -1), zero, [*batch_pads, (0, 0, 0), (0, m - k, 0)])
    left = left + jnp.eye(m, dtype=factors.dtype)
    right = lax.pad(jnp.triu(factors[..., :k, :]), zero, [*batch_pads, (0, n - k, 0), (0, 0, 0)])
    right = right + jnp.diag(jnp.asarray([0] * k + [1] * (n - k), factors.dtype))
    inner = _solved(left, permuted, unit_diagonal=True)
    inner = _solved(right, inner, left=False, lower=False)
    return product(left, jnp.tril(inner, -1)) + product(jnp.triu(inner), right)


def eigh(vectors: Value, values: Value, d_a: Value) -> tuple[Value, Value]:
    """Return the tangents of the eigenvectors and eigenvalues of a Hermitian matrix."""
    identity = jnp.eye(values.shape[-1], dtype=values.dtype)
    differences = identity + values[..., None, :] - values[..., :, None]
    inner = product(adjoint(vectors), d_a, vectors)
    factor = (1 / differences - identity).astype(inner.dtype)
    return product(vectors, factor * inner), real_diagonal(inner)


def eigvalsh(vectors: Value, d_a: Value) -> Value:
    """Return the tangent of the eigenvalues of a Hermitian matrix."""
    return jnp.real(jnp.sum(jnp.conj(vectors) * product(d_a, vectors), axis=-2))


def eig(vectors: Value, values: Value, d_a: Value) -> tuple[Value, Value]:
    """Return the tangents of the right eigenvectors and of the eigenvalues of any matrix.

    The vectors are scaled as LAPACK scales them: each has the norm 1 and a real largest element.
    """
    identity = jnp.eye(values.shape[-1], dtype=values.dtype)
    differences = identity + values[..., None, :] - values[..., :, None]
    solved = jnp.linalg.solve(vectors, d_a.astype(vectors.dtype))
    inner = product(solved, vectors)
    moved = product(vectors, (1 / differences - identity) * inner)
    largest = jnp.argmax(jnp.abs(vectors), axis=-2, keepdims=True)
    at_largest = jnp.take_along_axis(moved, largest, axis=-2)
    scale = jnp.real(jnp.take_along_axis(vectors, largest, axis=-2))
    along = jnp.real(jnp.sum(jnp.conj(vectors) * moved, axis=-2, keepdims=True))
    factor = lax.complex(-along, -jnp.imag(at_largest) / scale)
    return moved + vectors * factor, diagonal(inner)


def eigvals(vectors: Value, d_a: Value) -> Value:
    """Return the tangent of the eigenvalues of any matrix, from its right eigenvectors."""
    solved = jnp.linalg.solve(vectors, d_a.astype(vectors.dtype))
    return jnp.sum(solved * transposed(vectors), axis=-1)


def svdvals(u: Value, vh: Value, d_a: Value) -> Value:
    """Return the tangent of the singular values."""
    return jnp.real(jnp.sum(jnp.conj(u) * product(d_a, adjoint(vh)), axis=-2))


def svd(u: Value, s: Value, vh: Value, d_a: Value) -> tuple[Value, Value, Value]:
    """Return the tangents of the singular vectors and values, in the order of the results.

    If u or vh has more vectors than there are singular values, these span the rest of the space:
    their tangents are orthogonal to them.
    """
    k = s.shape[-1]
    thin_u, thin_vh = u[..., :k], vh[..., :k, :]
    v = adjoint(thin_vh)
    of_v, of_u = product(d_a, v), product(adjoint(d_a), thin_u)
    inner = product(adjoint(thin_u), of_v)
    columns, rows = s[..., None, :], s[..., :, None]
    identity = jnp.eye(k, dtype=s.dtype)
    factor = 1 / ((columns + rows) * (columns - rows) + identity) - identity
    factor, wide = (each.astype(inner.dtype) for each in (factor, columns))
    by_columns, by_rows = wide * inner, transposed(wide) * inner
    zeros = (s == 0).astype(s.dtype)
    inverse = (1 / (s + zeros) - zeros)[..., None, :].astype(inner.dtype)
    phase = 0.5 * _with_diagonal(inner, diagonal(inner - adjoint(inner))[..., None, :] * inverse)
    d_u = product(thin_u, factor * (by_columns + adjoint(by_columns)) + phase)
    d_v = product(v, factor * (by_rows + adjoint(by_rows)))
    if u.shape[-2] > k:
        d_u = d_u + (of_v - product(thin_u, adjoint(thin_u), of_v)) / wide
    if vh.shape[-1] > k:
        d_v = d_v + (of_u - product(v, thin_vh, of_u)) / wide
    d_u = _completed(u, thin_u, d_u)
    d_v = _completed(adjoint(vh), v, d_v)
    return d_u, real_diagonal(inner), adjoint(d_v)


def _completed(vectors: Value, first: Value, d_first: Value) -> Value:
    """Return the tangent of orthonormal vectors, from that of the first of them."""
    rest = vectors[..., first.shape[-1] :]
    if not rest.shape[-1]:
        return d_first
    d_rest = -product(first, adjoint(d_first), rest)
    return lax.concatenate([d_first, d_rest], vectors.ndim - 1)


def householder_product(a: Value, taus: Value) -> Value:
    """Return the first columns of a product of reflectors, by differentiable operations.

    The product of k reflectors is I - Y T Y^H, where Y has the vectors of the reflectors and T is
    an upper triangular matrix.
    """
    *_, m, n = a.shape
    y, t = _compact(a, taus)
    first = jnp.eye(m, n, dtype=a.dtype)
    return first - product(y, t, adjoint(y[..., :n, :]))


def _compact(a: Value, taus: Value) -> tuple[Value, Value]:
    """Return the matrices Y and T of reflectors."""
    m, k = a.shape[-2], taus.shape[-1]
    identity = jnp.eye(k, dtype=a.dtype)
    y = jnp.tril(a[..., :k], -1) + jnp.eye(m, k, dtype=a.dtype)
    scales = taus[..., :, None]
    inverse = identity + scales * jnp.triu(product(adjoint(y), y), 1)
    t = _solved(inverse, identity * scales, lower=False, unit_diagonal=True)
    return y, t


def qr(factors: Value, taus: Value, d_a: Value) -> tuple[Value, Value]:
    """Return the tangents of R with the reflectors, which are in one matrix, and of the taus.

    The tangent of Q is that of the decomposition. As the first columns of Q - I are Y (-T Y1^H),
    a product of a unit lower and an upper triangular matrix, so are those of Y and of the taus,
    the negative diagonal of the second factor.
    """
    *_, m, n = factors.shape
    k = taus.shape[-1]
    y, t = _compact(factors, taus)
    upper = -product(t, adjoint(y[..., :k, :]))
    q = jnp.eye(m, k, dtype=factors.dtype) + product(y, upper)
    r = jnp.triu(factors[..., :k, :])
    quotient = _solved(r[..., :k], d_a[..., :k], left=False, lower=False)
    inner = product(adjoint(q), quotient)
    strict = jnp.tril(inner, -1)
    rotation = strict - adjoint(strict)
    if jnp.iscomplexobj(rotation):  # the diagonal of R is real
        rotation = rotation + 1j * _with_diagonal(inner, jnp.imag(inner))
    d_q = product(q, rotation - inner) + quotient
    d_r = product(adjoint(q), d_a) - product(rotation, r)
    # The last reflector of a square real matrix is the identity: its column of Y has no tangent.
    is_identity = (taus == 0)[..., None, :]
    invertible = upper + _with_diagonal(upper, is_identity)
    top = y[..., :k, :]
    d_top = _solved(top, d_q[..., :k, :], unit_diagonal=True)
    inner_y = jnp.tril(_solved(invertible, d_top, left=False, lower=False), -1)
    d_upper = d_top - product(inner_y, upper)
    d_y = product(top, inner_y)
    if m > k:
        bottom = d_q[..., k:, :] - product(y[..., k:, :], jnp.triu(d_upper))
        d_bottom = _solved(invertible, bottom, left=False, lower=False)
        d_y = lax.concatenate([d_y, d_bottom], d_y.ndim - 2)
    d_factors = _placed(jnp.triu(d_r), m, n) + _placed(jnp.tril(d_y, -1), m, n)
    return d_factors, -diagonal(d_upper)


def _placed(matrix: Value, m: int, n: int) -> Value:
    """Return a matrix with zeros below and to the right, [..., m, n]."""
    *batch, rows, columns = matrix.shape
    pads = [*([(0, 0, 0)] * len(batch)), (0, m - rows, 0), (0, n - columns, 0)]
    return lax.pad(matrix, matrix.dtype.type(0), pads)


def tridiagonal_solve(
    diagonals: Any, solution: Value, d_diagonals: Any, d_b: Value | None
) -> Value:
    """Return the tangent of the solution; None are zeros.

    Args:
        diagonals: the lower one, whose first element is not used, the main one, and the upper one,
            whose last element is not used.
        solution: the solution.
        d_diagonals: the tangents of the diagonals.
        d_b: the tangent of the right sides.
    """
    right = jnp.zeros_like(solution) if d_b is None else d_b
    d_lower, d_main, d_upper = d_diagonals
    if d_main is not None:
        right = right - d_main[..., None] * solution
    none = jnp.zeros_like(solution[..., :1, :])
    if d_lower is not None:
        moved = d_lower[..., 1:, None] * solution[..., :-1, :]
        right = right - jnp.concatenate([none, moved], axis=-2)
    if d_upper is not None:
        moved = d_upper[..., :-1, None] * solution[..., 1:, :]
        right = right - jnp.concatenate([moved, none], axis=-2)
    return _linalg().tridiagonal_solve(*diagonals, right)


def tangent_of(function: Any, operands: Any, tangents: Any) -> Value:
    """Return the tangent of `function` at `operands`; a tangent of None stands for zeros."""
    given = [
        jnp.zeros_like(operand) if tangent is None else tangent
        for operand, tangent in zip(operands, tangents, strict=True)
    ]
    return jax.jvp(function, tuple(operands), tuple(given))[1]
