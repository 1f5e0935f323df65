"""Normalization of examples to a mean or a mean square.

Batch normalization is an op: `xb.batch_norm_training` and `xb.batch_norm_inference`. Types narrower
than f32 are computed in f32, and the result is rounded once.
"""

from __future__ import annotations

from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    Axes,
    as_type,
    axes_argument,
    finite_number,
    floating_argument,
    shape_of,
    typed_argument,
    widened,
)
from builder.lib.reductions import mean, others
from builder.lib.registry import library_function
from builder.ops import elementwise as ew


@library_function()
def layer_norm(
    x: XlaOp,
    scale: XlaOp | None = None,
    offset: XlaOp | None = None,
    axis: Axes = -1,
    epsilon: float = 1e-5,
) -> XlaOp:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset, along dimensions.

    Args:
        x: an array of floating-point numbers.
        scale, offset: arrays of the type of `x` and of its sizes along the dimensions, in their
            order in `x`.
        axis: a dimension, several, or None for all; they may be negative.
        epsilon: is added to the variance.

    Raises:
        OperandError: `epsilon` is not a finite number of at least 0.
        ShapeInferenceError: types or sizes do not match; a dimension is out of range or named
            twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, scale = b.parameter(xb.bf16[4, 16, 64]), b.parameter(xb.bf16[64])
        >>> lib.layer_norm(x, scale).shape
        bf16[4,16,64]
    """
    axes, rest = _normalized_axes("layer_norm", x, axis, {"scale": scale, "offset": offset})
    wide = widened(x)
    difference = ew.sub(wide, mean(wide, axes), rest)
    return _normalized("layer_norm", x, difference, axes, epsilon, scale, offset)


@library_function()
def rms_norm(x: XlaOp, scale: XlaOp | None = None, axis: Axes = -1, epsilon: float = 1e-6) -> XlaOp:
    """Return x / sqrt(mean(x * x) + epsilon) * scale, along dimensions.

    Args:
        x: an array of floating-point numbers.
        scale: an array of the type of `x` and of its sizes along the dimensions, in their order in
            `x`.
        axis: a dimension, several, or None for all; they may be negative.
        epsilon: is added to the mean.

    Raises:
        OperandError: `epsilon` is not a finite number of at least 0.
        ShapeInferenceError: types or sizes do not match; a dimension is out of range or named
            twice.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, scale = b.parameter(xb.f32[4, 16, 64]), b.parameter(xb.f32[64])
        >>> lib.rms_norm(x, scale).shape
        f32[4,16,64]
    """
    axes, _ = _normalized_axes("rms_norm", x, axis, {"scale": scale})
    return _normalized("rms_norm", x, widened(x), axes, epsilon, scale, None)


def _normalized_axes(
    op: str, x: XlaOp, axis: Axes, factors: dict[str, XlaOp | None]
) -> tuple[tuple[int, ...], list[int]]:
    """Check the arrays; return the dimensions in ascending order, and the others."""
    shape = floating_argument(op, "x", x)
    axes = tuple(sorted(axes_argument(op, axis, shape.rank)))
    sizes = tuple(shape.dimensions[n] for n in axes)
    for name, factor in factors.items():
        if factor is None:
            continue
        given = typed_argument(op, name, factor, shape.element_type)
        if given.dimensions != sizes:
            rule = f"{name} must have the sizes {list(sizes)} of the dimensions {list(axes)} of x"
            raise error_of(ShapeInferenceError, op, f"{rule}, got {given}", shapes={"x": shape})
    return axes, others(shape.rank, axes)


def _normalized(
    op: str,
    x: XlaOp,
    wide: XlaOp,
    axes: tuple[int, ...],
    epsilon: float,
    scale: XlaOp | None,
    offset: XlaOp | None,
) -> XlaOp:
    added = finite_number(op, "epsilon", epsilon, 0)
    factor = ew.rsqrt(mean(ew.square(wide), axes) + added)
    result = ew.mul(wide, factor, others(shape_of(wide).rank, axes))
    if scale is not None:
        result = ew.mul(result, widened(scale), axes)
    if offset is not None:
        result = ew.add(result, widened(offset), axes)
    return as_type(result, x.shape.element_type)
