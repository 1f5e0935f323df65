"""Random initial weights: the distributions of Glorot and He, and orthogonal matrices.

The arguments are those of `lib.normal`. The inputs of a weight are along `in_axis` and its outputs
along `out_axis`, by default the last two dimensions. The sizes of the other dimensions, such as the
window of a convolution, multiply the numbers of inputs and outputs.
"""

from __future__ import annotations

import math
from typing import Any, Final

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    axis_argument,
    finite_number,
    shape_of,
    static_shape_argument,
)
from builder.lib.linalg import qr
from builder.lib.matrix import get_matrix_diagonal
from builder.lib.random import normal, truncated_normal, uniform
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.reshaping import reshape, transpose
from builder.types.shape import ArrayShape, ShapeLike, array_shape

_TRUNCATED: Final = 0.87962566103423978
"""The standard deviation of a standard normal distribution between -2 and 2."""


@library_function()
def glorot_uniform(key: XlaOp, shape: ShapeLike, in_axis: int = -2, out_axis: int = -1) -> XlaOp:
    """Return uniform numbers of variance 2 / (inputs + outputs), like `jax.nn.initializers`.

    Args:
        key: a key.
        shape: an array shape of floating-point type, of fixed sizes and of two dimensions or more.
        in_axis, out_axis: the dimensions of the inputs and of the outputs.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not supported; a size is dynamic; a dimension is out of
            range, or both are the same.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.glorot_uniform(lib.random_key(xb.XlaBuilder(), 0), xb.f32[784, 128]).shape
        f32[784,128]
    """
    result, inputs, outputs = _fans("glorot_uniform", shape, in_axis, out_axis)
    return _uniform(key, result, 2 / max(inputs + outputs, 1))


@library_function()
def glorot_normal(key: XlaOp, shape: ShapeLike, in_axis: int = -2, out_axis: int = -1) -> XlaOp:
    """Return normal numbers of variance 2 / (inputs + outputs), truncated at 2 deviations.

    Args:
        key: a key.
        shape: an array shape of floating-point type, of fixed sizes and of two dimensions or more.
        in_axis, out_axis: the dimensions of the inputs and of the outputs.

    Raises:
        OperandError, ShapeInferenceError: see `glorot_uniform`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.glorot_normal(lib.random_key(xb.XlaBuilder(), 0), xb.f32[784, 128]).shape
        f32[784,128]
    """
    result, inputs, outputs = _fans("glorot_normal", shape, in_axis, out_axis)
    return _truncated(key, result, 2 / max(inputs + outputs, 1))


@library_function()
def he_uniform(key: XlaOp, shape: ShapeLike, in_axis: int = -2, out_axis: int = -1) -> XlaOp:
    """Return uniform numbers of variance 2 / inputs, for layers before a `relu`.

    Args:
        key: a key.
        shape: an array shape of floating-point type, of fixed sizes and of two dimensions or more.
        in_axis, out_axis: the dimensions of the inputs and of the outputs.

    Raises:
        OperandError, ShapeInferenceError: see `glorot_uniform`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.he_uniform(lib.random_key(xb.XlaBuilder(), 0), xb.f32[784, 128]).shape
        f32[784,128]
    """
    result, inputs, _ = _fans("he_uniform", shape, in_axis, out_axis)
    return _uniform(key, result, 2 / max(inputs, 1))


@library_function()
def he_normal(key: XlaOp, shape: ShapeLike, in_axis: int = -2, out_axis: int = -1) -> XlaOp:
    """Return normal numbers of variance 2 / inputs, truncated at 2 deviations.

    Args:
        key: a key.
        shape: an array shape of floating-point type, of fixed sizes and of two dimensions or more.
        in_axis, out_axis: the dimensions of the inputs and of the outputs.

    Raises:
        OperandError, ShapeInferenceError: see `glorot_uniform`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> key = lib.random_key(xb.XlaBuilder(), 0)
        >>> lib.he_normal(key, xb.f32[3, 3, 16, 32]).shape  # a kernel of a convolution
        f32[3,3,16,32]
    """
    result, inputs, _ = _fans("he_normal", shape, in_axis, out_axis)
    return _truncated(key, result, 2 / max(inputs, 1))


@library_function()
def orthogonal(key: XlaOp, shape: ShapeLike, scale: float = 1.0) -> XlaOp:
    """Return a random matrix with orthogonal rows or columns, like `jax.nn.initializers`.

    The last dimension is the columns; all other dimensions together are the rows. If there are
    fewer rows than columns, the rows are orthogonal vectors of length `scale`, otherwise the
    columns are.

    Args:
        key: a key.
        shape: an array shape of floating-point or complex type, of fixed sizes and of two
            dimensions or more.
        scale: the length of the vectors.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape; `scale` is not a finite
            number.
        ShapeInferenceError: the type is not supported; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.orthogonal(lib.random_key(xb.XlaBuilder(), 0), xb.f32[64, 16]).shape
        f32[64,16]
    """
    result = _matrix_shape("orthogonal", shape)
    length = finite_number("orthogonal", "scale", scale)
    *rest, columns = result.dimensions
    rows = math.prod(rest)
    sizes = (max(rows, columns), min(rows, columns))
    q, r = qr(normal(key, array_shape(result.element_type, sizes)), full_matrices=False)
    # The signs of the diagonal make the distribution uniform.
    q = ew.mul(q, ew.sign(get_matrix_diagonal(r)), broadcast_dimensions=[1])
    if rows < columns:
        q = transpose(q, [1, 0])
    if shape_of(q).dimensions != result.dimensions:
        q = reshape(q, result.dimensions)
    return q if length == 1 else q * length


def _matrix_shape(op: str, shape: Any) -> ArrayShape:
    result = static_shape_argument(op, "shape", shape)
    if result.rank < 2:
        rule = "shape must have two dimensions or more: those of the inputs and of the outputs"
        fix = "use lib.normal, or for a bias lib.zeros(builder, shape)"
        raise error_of(ShapeInferenceError, op, rule, fix, got=result)
    return result


def _fans(op: str, shape: Any, in_axis: Any, out_axis: Any) -> tuple[ArrayShape, int, int]:
    """Return the shape, the number of inputs and the number of outputs of a weight."""
    result = _matrix_shape(op, shape)
    first = axis_argument(op, "in_axis", in_axis, result.rank)
    second = axis_argument(op, "out_axis", out_axis, result.rank)
    if first == second:
        rule = "in_axis and out_axis must differ"
        raise error_of(ShapeInferenceError, op, rule, got=f"{in_axis} and {out_axis}")
    sizes = result.dimensions
    window = math.prod(size for n, size in enumerate(sizes) if n not in (first, second))
    return result, sizes[first] * window, sizes[second] * window


def _uniform(key: XlaOp, shape: ArrayShape, variance: float) -> XlaOp:
    return uniform(key, shape, -1.0, 1.0) * math.sqrt(3 * variance)


def _truncated(key: XlaOp, shape: ArrayShape, variance: float) -> XlaOp:
    return truncated_normal(key, -2.0, 2.0, shape) * (math.sqrt(variance) / _TRUNCATED)
