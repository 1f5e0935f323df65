"""Linear algebra and Fourier transforms, and the derivatives of decompositions.

jax computes factors and solutions by LAPACK on CPU, XLA by its own expansions. So the values are
XLA's, and the derivatives follow from them by jax's formulas.

Decompositions are composites of `builder.lib.linalg`, and in programs of jax custom calls of LAPACK
and cuSOLVER. The values are those of the decomposition or of the call; the tangents are computed
from the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from builder.attributes import FftType, Transpose
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape, leaves
from lowering.jaxlib_api.lazy_jax import jnp, lax
from lowering.ops import derivatives
from lowering.ops.derivatives import Tangents, with_tangents
from lowering.ops.registry import (
    Context,
    Step,
    Value,
    array_of,
    composite_rule,
    custom_call_rule,
    jax_rule,
)

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
        d_a = derivatives.hermitian(tangents[0], lower=is_lower)
        if is_lower:
            return jnp.tril(derivatives.cholesky(factor, d_a))
        return derivatives.adjoint(jnp.tril(derivatives.cholesky(derivatives.adjoint(factor), d_a)))

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
        return derivatives.triangular_solve(
            operands[0], solution, *tangents, unit=is_unit, **options
        )

    return with_tangents(ctx.pasted(op), tangents_of)


if TYPE_CHECKING:
    pass


def _linalg() -> Any:
    return lax.linalg  # jax has no types for some of it


Attributes = Mapping[str, Any]
"""The numbers and bools among the attributes of a composite or of a custom call."""


TangentsOf = Callable[[Sequence[Value], Any, Tangents], Any]
"""Returns the tangents of the results, see `with_tangents`. The first operand has a tangent."""


def _attributes(text: str) -> Attributes:
    """Return the numbers, bools and strings in the text of a dictionary of MLIR."""
    found = re.findall(r'(\w+) = (?:(-?\d+)|(true|false)|"(\w*)")', text)
    return {
        name: int(number) if number else flag == "true" if flag else string
        for name, number, flag, string in found
    }


def _of_first(tangents_of: Callable[[Sequence[Value], Any, Value], Any]) -> TangentsOf:
    """Return the tangents for an op that is a function of its first operand."""
    return lambda operands, results, tangents: tangents_of(operands, results, tangents[0])


def _householder_product(operands: Sequence[Value], _: Value, tangents: Tangents) -> Value:
    return derivatives.tangent_of(derivatives.householder_product, operands, tangents)


def _qr(_: Any, results: Any, d_a: Value) -> Any:
    found, taus = results
    return derivatives.qr(found, taus, d_a)


def _lu(_: Any, results: Any, d_a: Value) -> Any:
    found, pivots = results
    return derivatives.lu(found, pivots, d_a), None


def _eigh(_: Any, results: Any, d_a: Value) -> Any:
    vectors, values = results
    return derivatives.eigh(vectors, values, derivatives.hermitian(d_a, lower=False))


def _eigvalsh(operands: Sequence[Value], _: Any, d_a: Value) -> Value:
    full = derivatives.hermitian(operands[0], lower=False)
    vectors = _linalg().eigh(full, symmetrize_input=False)[0]
    return derivatives.eigvalsh(vectors, derivatives.hermitian(d_a, lower=False))


def _svd(_: Any, results: Any, d_a: Value) -> Any:
    u, s, vh = results
    return derivatives.svd(u, s, vh, d_a)


def _svdvals(operands: Sequence[Value], _: Any, d_a: Value) -> Value:
    u, _, vh = _linalg().svd(operands[0], full_matrices=False)
    return derivatives.svdvals(u, vh, d_a)


def _tridiagonal_solve(operands: Sequence[Value], solution: Value, tangents: Tangents) -> Value:
    return derivatives.tridiagonal_solve(operands[:3], solution, tangents[:3], tangents[3])


_COMPOSITES: Final[dict[str, TangentsOf]] = {
    "lu": _of_first(_lu),
    "qr": _of_first(_qr),
    "householder_product": _householder_product,
    "eigh": _of_first(_eigh),
    "eigvalsh": _of_first(_eigvalsh),
    "svd": _of_first(_svd),
    "thin_svd": _of_first(_svd),
    "svdvals": _of_first(_svdvals),
    "tridiagonal_solve": _tridiagonal_solve,
}
"""By name, the tangents of the composites of `builder.lib.linalg` that have no attributes."""


def _triangle_of(attributes: Attributes) -> TangentsOf:
    transpose = attributes["transpose_a"]
    is_unit = attributes["unit_diagonal"]
    options = {
        "left_side": True,
        "lower": attributes["lower"],
        "transpose_a": transpose != "NO_TRANSPOSE",
        "conjugate_a": transpose == "ADJOINT",
    }

    def tangents_of(operands: Sequence[Value], solution: Value, tangents: Tangents) -> Value:
        return derivatives.triangular_solve(
            operands[0], solution, *tangents, unit=is_unit, **options
        )

    return tangents_of


@composite_rule(*(f"xlabuilder.{name}" for name in (*_COMPOSITES, "triangular_solve")))
def decomposition(op: XlaOp, step: Step) -> Step | None:
    from builder.lib.linalg.matrices import VERSION  # lazy import: lowering needs no `builder.lib`

    if op.attributes["version"] != VERSION:
        return None
    name = op.attributes["name"].removeprefix("xlabuilder.")
    if name == "triangular_solve":
        return with_tangents(step, _triangle_of(_attributes(op.attributes["composite_attributes"])))
    return with_tangents(step, _COMPOSITES[name])


def _is(attributes: Attributes, name: str, letter: str) -> bool:
    return bool(attributes[name] == ord(letter))


def _is_lower(attributes: Attributes) -> bool:
    return bool(attributes["lower"]) if "lower" in attributes else _is(attributes, "uplo", "L")


def _potrf(attributes: Attributes) -> TangentsOf:
    is_lower = _is_lower(attributes)

    def tangents_of(_: Any, results: Any, d_a: Value) -> Any:
        # The elements of the other triangle are those of the operand.
        factor = jnp.tril(results[0]) if is_lower else derivatives.adjoint(jnp.triu(results[0]))
        tangent = derivatives.cholesky(factor, derivatives.hermitian(d_a, lower=is_lower))
        if is_lower:
            return jnp.tril(tangent) + jnp.triu(d_a, 1), None
        return derivatives.adjoint(jnp.tril(tangent)) + jnp.tril(d_a, -1), None

    return _of_first(tangents_of)


def _getrf(_: Attributes) -> TangentsOf:
    """Return the derivative of LAPACK's LU decomposition, whose pivots count from 1."""
    return _of_first(
        lambda _, results, d_a: (derivatives.lu(results[0], results[1] - 1, d_a), None, None)
    )


def _geqrf(_: Attributes) -> TangentsOf:
    return _of_first(_qr)


def _geqp3(_: Attributes) -> TangentsOf:
    def tangents_of(_: Any, results: Any, d_a: Value) -> Any:
        found, order, taus = results
        permuted = jnp.take_along_axis(d_a, order[..., None, :] - 1, axis=-1)
        d_found, d_taus = derivatives.qr(found, taus, permuted)
        return d_found, None, d_taus

    return _of_first(tangents_of)


def _orgqr(_: Attributes) -> TangentsOf:
    return _householder_product


def _syevd(attributes: Attributes) -> TangentsOf:
    is_lower = _is_lower(attributes)
    has_vectors = "mode" not in attributes or _is(attributes, "mode", "V")

    def tangents_of(operands: Sequence[Value], results: Any, d_a: Value) -> Any:
        d_full = derivatives.hermitian(d_a, lower=is_lower)
        if has_vectors:
            return *derivatives.eigh(results[0], results[1], d_full), None
        full = derivatives.hermitian(operands[0], lower=is_lower)
        vectors = _linalg().eigh(full, symmetrize_input=False)[0]
        return None, derivatives.eigvalsh(vectors, d_full), None

    return _of_first(tangents_of)


def _gesdd(attributes: Attributes) -> TangentsOf | None:
    if "mode" in attributes and not any(_is(attributes, "mode", letter) for letter in "ASN"):
        return None  # a result is in the place of the operand
    is_cpu = "mode" in attributes
    has_vectors = not _is(attributes, "mode", "N") if is_cpu else attributes["compute_uv"]
    is_transposed = attributes.get("transposed", False)

    def tangents_of(operands: Sequence[Value], results: Any, d_a: Value) -> Any:
        if not has_vectors:
            return None, _svdvals(operands, None, d_a), None, None, None
        _, s, *vectors, _ = results
        u, vh = reversed(vectors) if is_transposed else vectors
        d_u, d_s, d_vh = derivatives.svd(u, s, vh, d_a)
        return (None, d_s, *((d_vh, d_u) if is_transposed else (d_u, d_vh)), None)

    return _of_first(tangents_of)


def _gesvdj(attributes: Attributes) -> TangentsOf:
    """Return the tangents of the routines that return v instead of v^H."""
    has_vectors = attributes["compute_uv"]

    def tangents_of(operands: Sequence[Value], results: Any, d_a: Value) -> Any:
        if not has_vectors:
            return None, _svdvals(operands, None, d_a), None, None, None
        _, s, u, v, _ = results
        d_u, d_s, d_vh = derivatives.svd(u, s, derivatives.adjoint(v), d_a)
        return None, d_s, d_u, derivatives.adjoint(d_vh), None

    return _of_first(tangents_of)


def _trsm(attributes: Attributes) -> TangentsOf:
    options = {
        "left_side": _is(attributes, "side", "L"),
        "lower": _is_lower(attributes),
        "transpose_a": not _is(attributes, "trans_x", "N"),
        "conjugate_a": _is(attributes, "trans_x", "C"),
    }
    is_unit = _is(attributes, "diag", "U")

    def tangents_of(operands: Sequence[Value], solution: Value, tangents: Tangents) -> Value:
        return derivatives.triangular_solve(
            operands[0], solution, *tangents, unit=is_unit, **options
        )

    return tangents_of


def _gtsv(_: Attributes) -> TangentsOf:
    def tangents_of(operands: Sequence[Value], results: Any, tangents: Tangents) -> Any:
        d_x = derivatives.tridiagonal_solve(operands[:3], results[3], tangents[:3], tangents[3])
        return None, None, None, d_x, None

    return tangents_of


def _geev(attributes: Attributes) -> TangentsOf:
    has_left, has_right = (_is(attributes, f"compute_{side}", "V") for side in ("left", "right"))

    def tangents_of(operands: Sequence[Value], results: Any, d_a: Value) -> Any:
        *parts, left, right, _ = results
        values = parts[0] if len(parts) == 1 else lax.complex(*parts)
        d_left = d_right = d_values = None
        if has_left:
            d_left, d_conjugates = derivatives.eig(left, jnp.conj(values), derivatives.adjoint(d_a))
            d_values = jnp.conj(d_conjugates)
        if has_right:
            d_right, d_values = derivatives.eig(right, values, d_a)
        if d_values is None:
            vectors, _ = _right_eigenvectors()(operands[0])
            d_values = derivatives.eigvals(vectors, d_a)
        d_parts = [d_values] if len(parts) == 1 else [jnp.real(d_values), jnp.imag(d_values)]
        return *d_parts, d_left, d_right, None

    return _of_first(tangents_of)


def _eig(a: Value) -> tuple[Value, Value]:
    values, vectors = _linalg().eig(a, compute_left_eigenvectors=False)
    return vectors, values


@cache
def _right_eigenvectors() -> Step:
    """Return the function of the right eigenvectors and the eigenvalues.

    jax differentiates only the eigenvalues.
    """
    return with_tangents(
        _eig, _of_first(lambda _, results, d_a: derivatives.eig(results[0], results[1], d_a))
    )


_ROUTINES: Final[dict[str, Callable[[Attributes], TangentsOf | None]]] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": _geqp3,
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
    "gesvd": _gesdd,
    "gesvdj": _gesvdj,
    "gesvdp": _gesvdj,
    "trsm": _trsm,
    "gtsv": _gtsv,
    "geev": _geev,
}
"""By the routine's name, the tangents of a call."""


_TARGETS: Final = {
    target: routine
    for routine in _ROUTINES
    for target in (
        *(f"lapack_{letter}{routine}_ffi" for letter in "sdcz"),
        *(f"{library}solver_{routine}_ffi" for library in ("cu", "hip")),
        *(f"{library}hybrid_{routine}" for library in ("cu", "hip") if routine == "geqp3"),
    )
}
"""The routine of each target."""


def _has_known_layouts(op: XlaOp, attributes: Attributes) -> bool:
    """Return whether the columns of all matrices are contiguous; their rows for a transposed SVD.

    The matrices are the arrays of the largest rank.
    """
    operands = op.attributes["operand_shapes_with_layout"] or [o.shape for o in op.operands]
    shapes: list[Shape] = [op.attributes.get("shape_with_layout") or op.shape, *operands]
    arrays = [leaf for shape in shapes for leaf in leaves(shape) if isinstance(leaf, ArrayShape)]
    rank = max(array.rank for array in arrays)
    minor = (rank - 1, rank - 2) if attributes.get("transposed", False) else (rank - 2, rank - 1)
    for array in arrays:
        if array.rank == rank:
            order = range(rank)[::-1] if array.layout is None else array.layout.minor_to_major
            if tuple(order[:2]) != minor:
                return False
    return True


@custom_call_rule(*_TARGETS)
def library_routine(ctx: Context, op: XlaOp) -> Step | None:
    attributes = _attributes(op.attributes["opaque"])
    try:
        tangents_of = _ROUTINES[_TARGETS[op.attributes["call_target_name"]]](attributes)
    except KeyError:  # an attribute that jax passes is absent
        return None
    if tangents_of is None or not _has_known_layouts(op, attributes):
        return None
    return with_tangents(ctx.pasted(op), tangents_of)
