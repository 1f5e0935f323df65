"""Broadcasting: the rules by which shapes match, and broadcasts to sizes known only at run time.

A scalar matches any array. Explicit `broadcast_dimensions` map each dimension of the operand of
lower rank to a dimension of the operand of higher rank. A dimension of size 1 matches any size.
Except for scalars, ranks are never raised implicitly.

An implicit broadcast to a size that is known only at run time, such as an unbounded size, is
recorded as in XlaBuilder: a `get_dimension_size` for each dynamic size, a concatenation of all
sizes to a vector, and a `dynamic_broadcast_in_dim`.

Broadcasting (the document).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from builder.checking import Check
from builder.graph.recording import append, record, shared_attributes
from builder.graph.xla_op import XlaOp
from builder.ops.operands import broadcast_to, dimensions_attribute
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array

Sizes = tuple[tuple[int, ...], tuple[bool, ...]]
"""A pair of tuples: the sizes of all dimensions, and whether each dimension is dynamic."""


def broadcast_sizes(
    check: Check, lhs: ArrayShape, rhs: ArrayShape, broadcast_dimensions: tuple[int, ...] | None
) -> Sizes:
    """Return the sizes of the result of an elementwise op of two arrays.

    Args:
        check: the op and its operands, for messages; the operands are named "lhs" and "rhs".
        lhs, rhs: array shapes; element types are not checked.
        broadcast_dimensions: for each dimension of the operand of lower rank the corresponding
            dimension of the other operand; None or empty if the ranks are equal or one operand is a
            scalar.

    Raises:
        ShapeInferenceError: the shapes do not match.
    """
    dimensions = broadcast_dimensions or ()
    if lhs.rank == rhs.rank:
        # XLA shape_inference.cc: InferElementwiseBinaryOpShape
        if dimensions and dimensions != tuple(range(lhs.rank)):
            check.fail(
                "broadcast_dimensions of operands of equal rank must be absent or "
                f"{list(range(lhs.rank))}",
                got=list(dimensions),
                fix="omit broadcast_dimensions; to permute dimensions use xb.transpose",
            )
        if lhs.dimensions == rhs.dimensions:
            if lhs.dynamic_dimensions == rhs.dynamic_dimensions:  # saves time for new shapes
                return lhs.dimensions, lhs.dynamic_dimensions
            pairs = zip(lhs.dynamic_dimensions, rhs.dynamic_dimensions, strict=True)
            return lhs.dimensions, tuple(a or b for a, b in pairs)
        return _degenerate(check, lhs, rhs, lhs.dimensions, lhs.dynamic_dimensions)
    if not lhs.rank or not rhs.rank:
        # XLA shape_inference.cc: InferInDimBroadcastShape
        if dimensions:
            check.fail(
                "a scalar is broadcast without broadcast_dimensions",
                got=list(dimensions),
                fix="omit broadcast_dimensions",
            )
        array = lhs if lhs.rank else rhs
        return array.dimensions, array.dynamic_dimensions
    lower, higher, name = (lhs, rhs, "lhs") if lhs.rank < rhs.rank else (rhs, lhs, "rhs")
    # Operation Semantics: Broadcasting, Broadcasting to higher dimensional arrays
    if not dimensions:
        check.fail(
            "operands of different rank need broadcast_dimensions",
            fix=_suggestion(check.op, lower, higher, name),
        )
    return _degenerate(check, lower, higher, *_in_dim(check, lower, higher, name, dimensions))


def _suggestion(op: str, lower: ArrayShape, higher: ArrayShape, name: str) -> str:
    """Return the fix of a message; include `broadcast_dimensions` that match the sizes, if any."""
    other = "rhs" if name == "lhs" else "lhs"
    fix = f"map each dimension of {name} to a dimension of {other}"
    places = matching_places(lower.dimensions, higher.dimensions)
    if places is None:
        return f"{fix} with an equal size (size 1 matches any size)"
    direction = ", direction" if op == "compare" else ""
    call = f"xb.{op}(lhs, rhs{direction}, broadcast_dimensions={places})"
    return f"{fix}, for instance {call}"


def matching_places(sizes: Sequence[int], places: Sequence[int]) -> list[int] | None:
    """Return the rightmost increasing positions in `places` with these sizes, or None.

    A size of 1 matches every size, but is placed at a 1 if the other sizes permit.

    Example:
        >>> matching_places([2, 1], [2, 3, 4]), matching_places([4], [4, 8])
        ([0, 2], [0])
    """
    for matching in ((), (1,)):
        found: list[int] = []
        place = len(places)
        for size in reversed(sizes):
            place -= 1
            while place >= 0 and size not in (places[place], *matching):
                place -= 1
            found.insert(0, place)
        if place >= 0 or not sizes:
            return found
    return None


def _in_dim(
    check: Check, lower: ArrayShape, higher: ArrayShape, name: str, dimensions: tuple[int, ...]
) -> Sizes:
    """Return the sizes of `higher`, replaced at `dimensions` by the sizes of `lower`."""
    other = "rhs" if name == "lhs" else "lhs"
    # XLA shape_inference.cc: InferInDimBroadcastShape
    if len(dimensions) != lower.rank:
        check.fail(
            f"broadcast_dimensions must have one entry for each dimension of {name}, the operand "
            f"of lower rank: {lower.rank}",
            got=f"{len(dimensions)}: {list(dimensions)}",
            fix=_suggestion(check.op, lower, higher, name),
        )
    previous = -1
    for place in dimensions:
        if not 0 <= place < higher.rank:
            check.fail(
                f"broadcast_dimensions must be dimensions of {other}, 0 to {higher.rank - 1}",
                got=f"{place} in {list(dimensions)}",
                dimension=place,
                fix=_suggestion(check.op, lower, higher, name),
            )
        if place <= previous:
            check.fail(
                "broadcast_dimensions must be strictly increasing",
                got=list(dimensions),
                dimension=place,
                fix="transpose the operand of lower rank first",
            )
        previous = place
    sizes = list(higher.dimensions)
    dynamic = list(higher.dynamic_dimensions)
    for index, place in enumerate(dimensions):
        small, large = lower.dimensions[index], higher.dimensions[place]
        small_dynamic = lower.dynamic_dimensions[index]
        large_dynamic = higher.dynamic_dimensions[place]
        is_equal = small == large
        if not is_equal and 1 not in (small, large):
            rule, fix = (
                "the sizes must be equal, or one size must be 1",
                _suggestion(check.op, lower, higher, name),
            )
        elif not (
            is_equal
            or small_dynamic == large_dynamic
            or UNBOUNDED in (small, large)
            or (small == 1 and not small_dynamic)
            or (large == 1 and not large_dynamic)
        ):
            rule, fix = "only a static size 1 can be broadcast to a dynamic size", None
        else:
            sizes[place], dynamic[place] = small, small_dynamic
            continue
        check.fail(
            f"broadcast_dimensions: dimension {index} of {name} has size "
            f"{lower.dimension_text(index)}, dimension {place} of {other} has size "
            f"{higher.dimension_text(place)}; {rule}",
            dimension=index,
            fix=fix,
        )
    return tuple(sizes), tuple(dynamic)


def _degenerate(
    check: Check,
    lower: ArrayShape,
    higher: ArrayShape,
    sizes: tuple[int, ...],
    dynamic: tuple[bool, ...],
) -> Sizes:
    """Return the sizes of the result, where a dimension of size 1 matches any size.

    `sizes` and `dynamic` describe `lower` after its dimensions are mapped to the dimensions of
    `higher`. As in XLA, where both sizes are 1, the result is dynamic if the dimension of `higher`
    is dynamic. If an operand is unbounded, both operands are broadcast at run time, and a dynamic
    size <=1 can be broadcast, too.
    """
    if sizes == higher.dimensions and lower.is_static and higher.is_static:
        return sizes, dynamic  # the usual case: no dimension is degenerate
    at_run_time = not (lower.is_bounded and higher.is_bounded)
    result: list[tuple[int, bool]] = []
    rows = zip(sizes, dynamic, higher.dimensions, higher.dynamic_dimensions, strict=True)
    for index, (a, a_dynamic, b, b_dynamic) in enumerate(rows):
        if a == b:
            result.append((a, b_dynamic or (a_dynamic and a != 1)))
        elif UNBOUNDED in (a, b):
            # A size or bound above 1 is the one that the unbounded size must have.
            other = (b, b_dynamic) if a == UNBOUNDED else (a, a_dynamic)
            result.append((UNBOUNDED, True) if other[0] == 1 else other)
        elif 1 not in (a, b):
            # XLA shape_inference.cc: InferDegenerateDimensionBroadcastShape
            check.fail(
                f"dimension {index} has sizes {_size(a, a_dynamic)} and {_size(b, b_dynamic)}; "
                f"the sizes must be equal, or one size must be 1",
                dimension=index,
                fix=_fix_of_sizes(lower, higher, index),
            )
        elif not at_run_time and (a_dynamic if a == 1 else b_dynamic):
            # XLA shape_inference.cc: InferDegenerateDimensionBroadcastShape
            check.fail(
                f"dimension {index}: a dynamic size <=1 can't be broadcast",
                got=f"sizes <=1 and {b if a == 1 else a}",
                dimension=index,
            )
        else:
            result.append((b, b_dynamic) if a == 1 else (a, a_dynamic))
    return tuple(size for size, _ in result), tuple(is_dynamic for _, is_dynamic in result)


def _fix_of_sizes(first: ArrayShape, second: ArrayShape, index: int) -> str | None:
    """Return the fix for operands whose sizes of dimension `index` do not match."""
    if first.rank != second.rank or not first.is_static or not second.is_static:
        return None
    places = list(range(first.rank))
    if first.dimensions == second.dimensions[::-1]:
        return f"transpose an operand with xb.transpose(operand, {places[::-1]})"
    if first.element_count == second.element_count:
        return f"reshape rhs with xb.reshape(rhs, {list(first.dimensions)})"
    small, large = sorted((first.dimensions[index], second.dimensions[index]))
    return (
        f"take a part of the operand of size {large} with "
        f"xb.slice_in_dim(operand, 0, {small}, dimno={index})"
    )


def _size(size: int, dynamic: bool) -> str:
    return f"<={size}" if dynamic else str(size)


class SizeOf(NamedTuple):
    """The runtime size of one dimension of an operand.

    Attributes:
        operand: the number of the operand.
        dimension: the dimension of that operand.
    """

    operand: int
    dimension: int


RuntimeSizes = tuple[int | SizeOf, ...]
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


def sizes_from(
    target: ArrayShape, operands: Sequence[tuple[ArrayShape, Sequence[int]]]
) -> RuntimeSizes:
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
    operands: Sequence[XlaOp],
    target: ArrayShape,
    attributes: Mapping[str, Any],
    sizes: RuntimeSizes,
) -> XlaOp:
    """Record the broadcast of the first operand to `target`.

    `sizes` has one entry for each dimension of `target`: a number, or a `SizeOf` for a size that is
    read from one of `operands` at run time.
    """
    joined = sizes_vector(operands, sizes)
    return record("dynamic_broadcast_in_dim", target, (operands[0], joined), attributes)


def sizes_vector(operands: Sequence[XlaOp], sizes: RuntimeSizes) -> XlaOp:
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
def _scalar_sizes(target: ArrayShape, beside: tuple[Shape, ...]) -> RuntimeSizes:
    scalar = intern_array(target.element_type, ())
    arrays = [shape if isinstance(shape, ArrayShape) else scalar for shape in beside]
    return sizes_from(target, [(array, range(array.rank)) for array in (scalar, *arrays)])
