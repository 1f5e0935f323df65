"""A front end with the rules of NumPy, on the public API of `builder` alone.

Arrays broadcast and promote as in NumPy. Source lines and errors are those of its callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import builder as xb

xb.declare_internal(__name__)


class Array:
    """An array of a computation that is being recorded."""

    def __init__(self, op: xb.XlaOp) -> None:
        self.op = op

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.op.shape.dimensions)

    def __add__(self, other: Any) -> Array:
        return _binary(xb.add, self, other)

    def __mul__(self, other: Any) -> Array:
        return _binary(xb.mul, self, other)

    def __matmul__(self, other: Array) -> Array:
        return Array(xb.dot(self.op, other.op))

    def sum(self, axis: int) -> Array:
        zero = np.zeros((), self.op.shape.element_type.dtype)
        return Array(xb.reduce(self.op, self.op.builder.constant(zero), xb.add, [axis]))

    def repeat(self, count: int, body: Callable[[Array], Array]) -> Array:
        """Apply `body` `count` times."""
        zero = self.op.builder.constant(0, xb.s32)

        def step(i: xb.XlaOp, value: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
            return i + 1, body(Array(value)).op

        state = xb.tuple(zero, self.op)
        loop = xb.while_(lambda s: s[0] < count, lambda s: xb.tuple(*step(*s)), state)
        return Array(loop[1])


def product(lhs: xb.XlaOp, rhs: xb.XlaOp) -> xb.XlaOp:
    """The product of two elements, for `xb.reduce`."""
    return lhs * rhs


def exp(array: Array) -> Array:
    return Array(xb.exp(array.op))


def _binary(function: Callable[..., xb.XlaOp], lhs: Array, other: Any) -> Array:
    rhs = other if isinstance(other, Array) else Array(lhs.op.builder.constant(np.asarray(other)))
    element_type = xb.as_primitive_type(
        np.result_type(lhs.op.shape.element_type.dtype, rhs.op.shape.element_type.dtype)
    )
    sizes = np.broadcast_shapes(lhs.shape, rhs.shape)
    left, right = (
        xb.broadcast_in_dim(
            xb.convert_element_type(array.op, element_type),
            sizes,
            range(len(sizes) - len(array.shape), len(sizes)),
        )
        for array in (lhs, rhs)
    )
    return Array(function(left, right))


def computation(function: Callable[..., Array], *arguments: Any) -> xb.XlaComputation:
    """Record `function` for arguments like these NumPy arrays."""
    builder = xb.XlaBuilder(function.__name__)
    shapes = (xb.as_primitive_type(a.dtype)[a.shape] for a in map(np.asarray, arguments))
    return builder.build(function(*(Array(builder.parameter(shape)) for shape in shapes)).op)
