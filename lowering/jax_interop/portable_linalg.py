"""Decompositions of matrices in traces of jax, lowered to the composites of `builder.lib.linalg`.

jax's own rules call the libraries of the platform that it lowers for, such as LAPACK. A file with
these calls can't be read elsewhere. The composites contain portable algorithms, and
`lowering.legalize` replaces them by the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from typing import Any, Final

from builder import lib
from builder.attributes import TransposeLike
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.linalg.matrices import adjoint
from builder.lib.linalg.solving import triangle_solved
from builder.ops.control_flow import tuple as record_tuple
from builder.ops.linalg import cholesky as record_cholesky
from builder.types.shape import ArrayShape, array_shape
from lowering.jax_interop.pasting import paste
from lowering.jaxlib_api import jaxprs
from lowering.jaxlib_api.mlir import without_locations
from lowering.ops.registry import array_of
from lowering.stablehlo.lower import lower

Results = Sequence[XlaOp]


def _cholesky(a: XlaOp) -> Results:
    return [record_cholesky(a)]


def _lu(a: XlaOp) -> Results:
    return lib.lu(a)


def _geqrf(a: XlaOp) -> Results:
    return lib.qr_decomposition(a)


def _householder_product(a: XlaOp, taus: XlaOp) -> Results:
    return [lib.product_of_elementary_householder_reflectors(a, taus)]


def _eigh(a: XlaOp, *, lower: bool, **_: Any) -> Results:
    return lib.eigh(a, lower)


def _svd(a: XlaOp, *, compute_uv: bool, full_matrices: bool, **_: Any) -> Results:
    if not compute_uv:
        return [lib.svdvals(a)]
    u, d, v = lib.svd(a, full_matrices=full_matrices)
    return d, u, adjoint(v)


def _triangular_solve(
    a: XlaOp,
    b: XlaOp,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Results:
    if 0 in array_of(b.shape).dimensions:
        return [b]
    right = b if left_side else lib.transpose_in_minor_dims(b)
    # x op(a) = b is op(a)^T x^T = b^T
    is_transposed = transpose_a if left_side else not transpose_a
    if conjugate_a and not is_transposed:
        a = lib.maybe_conjugate(a, True)
    option: TransposeLike = "ADJOINT" if conjugate_a else "TRANSPOSE"
    x = triangle_solved(
        a,
        right,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a=option if is_transposed else "NO_TRANSPOSE",
    )
    return [x if left_side else lib.transpose_in_minor_dims(x)]


_FUNCTIONS: Final[dict[str, Callable[..., Results]]] = {
    "cholesky": _cholesky,
    "eigh": _eigh,
    "geqrf": _geqrf,
    "householder_product": _householder_product,
    "lu": _lu,
    "svd": _svd,
    "triangular_solve": _triangular_solve,
}
"""By the name of jax's primitive: the ops of its operands, with its parameters."""


def portable_rules(primitives: Set[Any]) -> dict[Any, jaxprs.LoweringRule]:
    """Return the rules for a trace with these primitives; jax's rules for some apply others."""
    linalg = jaxprs.linalg_primitives()
    if primitives.isdisjoint(linalg):
        return {}
    return {p: _lowered for p in linalg if p.name in _FUNCTIONS}


_TYPES: Final = frozenset(("float32", "float64", "complex64", "complex128"))


def _lowered(context: Any, *operands: Any, **params: Any) -> Sequence[Any]:
    """Lower an equation by `_FUNCTIONS`, or by jax's rule if it has other types or options."""
    avals = context.avals_in
    is_static = all(isinstance(size, int) for aval in avals for size in aval.shape)
    is_partial = params.get("subset_by_index") is not None or params.get("algorithm") is not None
    if is_partial or not is_static or not _TYPES.issuperset(aval.dtype.name for aval in avals):
        return jaxprs.lowered_by_jax(context, *operands, **params)
    name = context.primitive.name
    shapes = tuple(array_shape(aval.dtype, aval.shape) for aval in avals)
    key = name, shapes, tuple(sorted(params.items()))
    return list(paste(context, key, name, lambda: _code(*key), operands))


@lru_cache(maxsize=256)
def _code(name: str, shapes: Sequence[ArrayShape], params: tuple[tuple[str, Any], ...]) -> bytes:
    """Return the bytecode of an equation's module, without lines, which would be those of jax."""
    builder = XlaBuilder(name)
    operands = [builder.parameter(shape) for shape in shapes]
    results = _FUNCTIONS[name](*operands, **dict(params))
    return without_locations(lower(builder.build(record_tuple(*results))).bytecode)
