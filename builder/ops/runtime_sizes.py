"""Broadcasts to sizes that are known only at run time, such as unbounded sizes.

An implicit broadcast is recorded as in XlaBuilder: a `get_dimension_size` for each dynamic size, a
concatenation of all sizes to a vector, and a `dynamic_broadcast_in_dim`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from builder.graph.recording import append, record, shared_attributes
from builder.graph.xla_op import XlaOp
from builder.ops.operands import broadcast_to, dimensions_attribute
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, intern_array


class SizeOf(NamedTuple):
    """The runtime size of one dimension of an operand.

    Attributes:
        operand: the number of the operand.
        dimension: the dimension of that operand.
    """

    operand: int
    dimension: int


Sizes = tuple[int | SizeOf, ...]
"""The size of each dimension of a result: a number if static, a `SizeOf` if dynamic."""


def needs_runtime_sizes(source: ArrayShape, target: ArrayShape, places: Sequence[int]) -> bool:
    """Return whether a broadcast needs `dynamic_broadcast_in_dim`, with sizes as an operand.

    `broadcast_in_dim` does not support unbounded sizes, and expands only static sizes 1.
    """
    if source.is_static and target.is_bounded:
        return False
    return not (source.is_bounded and target.is_bounded) or any(
        source.dynamic_dimensions[index] and source.dimensions[index] != target.dimensions[place]
        for index, place in enumerate(places)
    )


def sizes_from(target: ArrayShape, operands: Sequence[tuple[ArrayShape, Sequence[int]]]) -> Sizes:
    """Return the sizes of a broadcast: a number for a static size, a `SizeOf` for a dynamic size.

    Args:
        target: the shape that the first operand is broadcast to.
        operands: for each operand of the op its shape, and a sequence that maps its dimensions to
            dimensions of `target`. A dynamic size is read from the first operand that has the size.
    """
    sizes: list[int | SizeOf] = list(target.dimensions)
    for place, is_dynamic in enumerate(target.dynamic_dimensions):
        if is_dynamic:
            sizes[place] = next(
                SizeOf(number, index)
                for number, (shape, places) in enumerate(operands)
                for index, to in enumerate(places)
                if to == place
                and shape.dynamic_dimensions[index]
                and shape.dimensions[index] == target.dimensions[place]
            )
    return tuple(sizes)


def record_broadcast(
    operands: Sequence[XlaOp], target: ArrayShape, attributes: Mapping[str, Any], sizes: Sizes
) -> XlaOp:
    """Record the broadcast of the first operand to `target`.

    `sizes` has one entry for each dimension of `target`: a number, or a `SizeOf` for a size that is
    read from one of `operands` at run time.
    """
    joined = sizes_vector(operands, sizes)
    return record("dynamic_broadcast_in_dim", target, (operands[0], joined), attributes)


def sizes_vector(operands: Sequence[XlaOp], sizes: Sizes) -> XlaOp:
    """Record ops that compute sizes, and return them as one vector of s32.

    Args:
        operands: arrays.
        sizes: numbers, and sizes that are read from the arrays.
    """
    builder = operands[0].builder
    row = intern_array(pt.s32, (1,))
    parts: list[XlaOp] = []
    for is_static, group in groupby(sizes, key=lambda size: isinstance(size, int)):
        if is_static:
            numbers = tuple(size for size in group if isinstance(size, int))
            shape = intern_array(pt.s32, (len(numbers),))
            parts.append(append(builder, "constant", shape, (), _constant(numbers)))
            continue
        for size in group:
            assert isinstance(size, SizeOf)  # by the key
            attributes = shared_attributes(dimension=size.dimension)
            operand = operands[size.operand]
            scalar = intern_array(pt.s32, ())
            value = record("get_dimension_size", scalar, (operand,), attributes)
            parts.append(record("reshape", row, (value,)))
    if len(parts) == 1:
        return parts[0]
    vector = intern_array(pt.s32, (len(sizes),))
    return record("concatenate", vector, tuple(parts), shared_attributes(dimension=0))


@per_signature
def _constant(numbers: tuple[int, ...]) -> Mapping[str, Any]:
    """Return the attributes of a constant vector of s32."""
    value = np.array(numbers, np.int32)
    value.flags.writeable = False
    return MappingProxyType({"value": value})


def broadcast_scalar(scalar: XlaOp, target: ArrayShape, beside: Sequence[XlaOp]) -> XlaOp:
    """Record the broadcast of a scalar to the sizes of a shape.

    Args:
        scalar: the operand.
        target: the shape of the result.
        beside: the other operands of the op, which have the dynamic sizes.
    """
    if target.is_bounded:
        return broadcast_to(scalar, target, ())
    sizes = _scalar_sizes(target, tuple([op.shape for op in beside]))
    attributes = dimensions_attribute("broadcast_dimensions", ())
    return record_broadcast([scalar, *beside], target, attributes, sizes)


@per_signature
def _scalar_sizes(target: ArrayShape, beside: tuple[Shape, ...]) -> Sizes:
    scalar = intern_array(target.element_type, ())
    arrays = [shape if isinstance(shape, ArrayShape) else scalar for shape in beside]
    return sizes_from(target, [(array, range(array.rank)) for array in (scalar, *arrays)])
