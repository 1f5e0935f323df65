"""What eigenvalues and singular values share: arguments, and results for infinities and NaNs."""

from __future__ import annotations

import numpy as np

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import shape_of
from builder.lib.linalg.matrices import matrices_argument, prepared, working_type
from builder.lib.reductions import sum
from builder.lib.shaping import where
from builder.ops import elementwise as ew
from builder.ops.reshaping import reshape
from builder.types.shape import ArrayShape


def floating_matrices(op: str, name: str, value: XlaOp) -> XlaOp:
    """Return an argument, matrices of floating-point or complex type, in the working type.

    Bounded sizes become their bounds, and elements beyond a matrix's size become 0.
    """
    shape = matrices_argument(op, name, value)
    element_type = shape.element_type
    if not (element_type.is_floating or element_type.is_complex):
        rule = f"{name} must be of floating-point or complex type, got {shape}"
        fix = f"convert with xb.convert_element_type({name}, xb.{working_type(element_type)})"
        raise error_of(ShapeInferenceError, op, rule, fix, shapes={name: shape})
    return prepared(value, (shape.rank - 2, shape.rank - 1))


def finite_only(matrices: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return zeros instead of matrices that are not finite; and whether they are, [..., 1, 1].

    Libraries may loop forever on NaNs.
    """
    rank = shape_of(matrices).rank
    # The product of 0 and a number is 0 only if the number is finite.
    zero = sum(matrices * 0.0, (rank - 2, rank - 1), keepdims=True)
    is_finite = ew.is_finite(as_real(zero))
    return where(is_finite, matrices, 0), is_finite


def nan_unless(is_finite: XlaOp, result: XlaOp) -> XlaOp:
    """Return NaNs instead of results for matrices that are not finite.

    Args:
        is_finite: [..., 1, 1].
        result: matrices, or a vector for each matrix.
    """
    sizes = shape_of(is_finite).dimensions
    if shape_of(result).rank < len(sizes):
        is_finite = reshape(is_finite, sizes[:-1])
    return where(is_finite, result, np.nan)


def as_real(x: XlaOp) -> XlaOp:
    """Return the real parts of real or complex numbers."""
    return ew.real(x) if shape_of(x).element_type.is_complex else x


def values_shape(matrices: XlaOp) -> ArrayShape:
    """Return the shape of the eigenvalues or singular values of matrices, of the real type."""
    shape = shape_of(matrices)
    *batch, m, n = shape.dimensions
    return shape.element_type.real_type[(*batch, min(m, n))]
