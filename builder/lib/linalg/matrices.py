"""Arguments, types, sizes and the composite op that the decompositions share.

A decomposition is recorded as a `composite` op on matrices of fixed sizes, in f32, f64, c64 or
c128. The computation of the op is a portable algorithm. `lowering.legalize.linalg` replaces the
op by a call of LAPACK or cuSOLVER where one exists. The names and versions of these ops are
stable:

| Name | Version | Operands | Results |
| --- | --- | --- | --- |
| `xlabuilder.lu` | 1 | `[..., m, n]` | the factors, as large; the pivots `s32[..., min(m, n)]` |
| `xlabuilder.qr` | 1 | `[..., m, n]` | R and the reflectors, as large; taus `[..., min(m, n)]` |
| `xlabuilder.householder_product` | 1 | `[..., m, n]`, taus `[..., k]` | `[..., m, n]` |
| `xlabuilder.eigh` | 1 | `[..., n, n]` | the eigenvectors, as large; the eigenvalues `[..., n]` |
| `xlabuilder.eigvalsh` | 1 | `[..., n, n]` | the eigenvalues `[..., n]` |
| `xlabuilder.svd` | 1 | `[..., m, n]` | u `[..., m, m]`; d `[..., n]`; v^H `[..., n, n]` |
| `xlabuilder.thin_svd` | 1 | `[..., m, n]` | u `[..., m, n]`; d `[..., n]`; v^H `[..., n, n]` |
| `xlabuilder.svdvals` | 1 | `[..., m, n]` | d `[..., n]` |
| `xlabuilder.tridiagonal_solve` | 1 | three `[..., n]`, `[..., n, k]` | `[..., n, k]` |
| `xlabuilder.triangular_solve` | 1 | `[..., n, n]`, `[..., n, k]` | `[..., n, k]` |

The operands of `eigh` and `eigvalsh` are Hermitian matrices with a real diagonal. Elements below
the diagonal are not read. In `svd`, `thin_svd` and `svdvals`, m is at least n.

`xlabuilder.triangular_solve` has the attributes `lower`, `unit_diagonal` (bools) and `transpose_a`
(a string) of the op `triangular_solve`; the unknown is on the right of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from builder.attributes import GatherDimensionNumbers
from builder.checking import CONVERT
from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    bounded_argument,
    shape_of,
    static_argument,
)
from builder.lib.math import maybe_conjugate
from builder.ops import elementwise as ew
from builder.ops.contraction import dot_general
from builder.ops.control_flow import composite_call, get_tuple_element
from builder.ops.dynamic import get_dimension_size, remove_dynamic_dimension, set_dimension_size
from builder.ops.indexing import gather
from builder.ops.reshaping import concatenate, reshape, transpose
from builder.types.primitive_type import PrimitiveType, f32, f64, s32
from builder.types.shape import ArrayShape, TupleShape

VERSION: Final = 1
"""The version of all composite ops."""

_F32_BITS: Final = 16
"""f32 represents all integers of at most so many bits."""


def matrices_argument(op: str, name: str, value: Any) -> ArrayShape:
    """Return the shape of argument `name`, an array of matrices without unbounded sizes."""
    shape = array_argument(op, name, value)
    if shape.rank < 2:
        rule = f"{name} must have at least two dimensions"
        fix = "reshape a vector to a matrix of one row or one column"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape, shapes={name: shape})
    bounded_argument(op, name, shape)
    return shape


def numbers_argument(op: str, name: str, value: Any) -> ArrayShape:
    """Return the shape of matrices of floating-point or complex numbers and of fixed sizes."""
    shape = matrices_argument(op, name, value)
    static_argument(op, name, shape)
    if not (shape.element_type.is_floating or shape.element_type.is_complex):
        rule = f"{name} must be of a floating-point or complex type"
        raise error_of(ShapeInferenceError, op, rule, CONVERT, got=shape, shapes={name: shape})
    return shape


def square_argument(op: str, name: str, value: Any, fix: str = "") -> ArrayShape:
    """Return the shape of square matrices; see `numbers_argument`."""
    shape = numbers_argument(op, name, value)
    if shape.dimensions[-1] != shape.dimensions[-2]:
        rule = f"{name} must be square"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape, shapes={name: shape})
    return shape


def working_type(element_type: PrimitiveType) -> PrimitiveType:
    """Return the type in which matrices are decomposed: f32, f64, c64 or c128."""
    if element_type.is_complex or element_type is f64:
        return element_type
    is_wide = element_type.is_integral and element_type.bits > _F32_BITS
    return f64 if is_wide else f32


def prepared(array: XlaOp, masked: Sequence[int] = ()) -> XlaOp:
    """Return an array in the working type, with the bounds as fixed sizes.

    Args:
        array: an array.
        masked: the dimensions along which the elements beyond a bounded size become 0.
    """
    shape = shape_of(array)
    masks = []
    for dimension, is_dynamic in enumerate(shape.dynamic_dimensions):
        if is_dynamic:
            if dimension in masked:
                masks.append((dimension, get_dimension_size(array, dimension)))
            array = remove_dynamic_dimension(array, dimension)
    array = as_type(array, working_type(shape.element_type))
    for dimension, size in masks:
        index = array.builder.iota(shape_of(array).with_element_type(s32), dimension)
        array = ew.select(index < size, array, 0)
    return array


def restored(result: XlaOp, array: XlaOp) -> XlaOp:
    """Return a result with the element type and the bounded sizes of an array."""
    shape = shape_of(array)
    result = as_type(result, shape.element_type)
    for dimension, is_dynamic in enumerate(shape.dynamic_dimensions):
        if is_dynamic:
            result = set_dimension_size(result, get_dimension_size(array, dimension), dimension)
    return result


def decomposed(
    name: str, algorithm: Callable[..., Any], *operands: XlaOp, **attributes: Any
) -> list[XlaOp]:
    """Record the composite op `xlabuilder.NAME`; return its results.

    Args:
        name: the name, without the namespace.
        algorithm: the computation, a function decorated with `computation`.
        operands: arrays of fixed sizes in a working type.
        attributes: the attributes of the op.
    """
    result = composite_call(algorithm, operands, f"xlabuilder.{name}", attributes or None, VERSION)
    if not isinstance(result.shape, TupleShape):
        return [result]
    return [get_tuple_element(result, index) for index in range(len(result.shape.elements))]


def as_batch(array: XlaOp, rank: int = 2) -> XlaOp:
    """Return an array with one batch dimension in front of its last `rank` dimensions."""
    sizes = shape_of(array).dimensions
    count = 1
    for size in sizes[: len(sizes) - rank]:
        count *= size
    return reshape(array, (count, *sizes[len(sizes) - rank :]))


def matmul(lhs: XlaOp, rhs: XlaOp) -> XlaOp:
    """Return the products of two batches of matrices, [b, m, k] and [b, k, n]."""
    return dot_general(lhs, rhs, (([2], [1]), ([0], [0])), precision="HIGHEST")


def identity(batch: XlaOp) -> XlaOp:
    """Return ones on the diagonal, in the shape of a batch of matrices [b, m, n]."""
    is_diagonal = ew.eq(counted_along(batch, 1), counted_along(batch, 2))
    return as_type(is_diagonal, shape_of(batch).element_type)


def adjoint(matrices: XlaOp) -> XlaOp:
    """Return the conjugate transposes of matrices [..., m, n]."""
    rank = shape_of(matrices).rank
    order = [*range(rank - 2), rank - 1, rank - 2]
    return transpose(maybe_conjugate(matrices, True), order)


def magnitude(x: XlaOp) -> XlaOp:
    """Return |x|, and |real| + |imaginary| for complex numbers, as LAPACK compares them."""
    if not shape_of(x).element_type.is_complex:
        return ew.abs(x)
    return ew.abs(ew.real(x)) + ew.abs(ew.imag(x))


def triangle(a: XlaOp, *, upper: bool, diagonal: int | None = None) -> XlaOp:
    """Return matrices of fixed sizes with zeros below (`upper`) or above the diagonal.

    Args:
        a: matrices, [..., m, n].
        upper: which triangle remains.
        diagonal: a number for the elements of the diagonal; None for those of `a`.
    """
    rank = shape_of(a).rank
    row, column = counted_along(a, rank - 2), counted_along(a, rank - 1)
    result = ew.select(row <= column if upper else row >= column, a, 0)
    return result if diagonal is None else ew.select(ew.eq(row, column), diagonal, result)


def counted_along(array: XlaOp, dimension: int) -> XlaOp:
    """Return the index of each element of an array along a dimension, in s32."""
    return array.builder.iota(shape_of(array).with_element_type(s32), dimension)


def rows_at(batch: XlaOp, rows: XlaOp) -> XlaOp:
    """Return the rows of each matrix of a batch [b, m, n] at its indices s32[b, k]."""
    count, chosen = shape_of(rows).dimensions
    indices = reshape(rows, (count, chosen, 1))
    indices = concatenate([counted_along(indices, 0), indices], 2)
    width = shape_of(batch).dimensions[2]
    return gather(batch, indices, GatherDimensionNumbers((2,), (0, 1), (0, 1), 2), [1, 1, width])
