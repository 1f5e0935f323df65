"""Dot products of vectors, of matrices, and of batches of matrices.

Operation Semantics: Dot, DotGeneral.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Never

from builder.attributes import (
    DotAlgorithm,
    DotAlgorithmLike,
    DotDimensionNumbers,
    DotDimensionNumbersLike,
    Precision,
    PrecisionLike,
)
from builder.errors import ShapeInferenceError, error_of
from builder.graph.calls import unknown_arguments
from builder.graph.recording import record, shared_attributes
from builder.graph.registry import op_by_hand
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op
from builder.ops.rules import contraction as infer
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import ArrayShape, Shape


@per_signature
def _dot_plan(
    lhs: Shape,
    rhs: Shape,
    precision: tuple[Precision, Precision],
    preferred_element_type: PrimitiveType | None,
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = infer.dot.strict(lhs, rhs, preferred_element_type)
    numbers = infer.dot_dimension_numbers.strict(lhs, rhs)
    return shape, shared_attributes(dimension_numbers=numbers, precision=precision, algorithm=None)


@per_signature
def _dot_general_plan(
    lhs: Shape,
    rhs: Shape,
    numbers: DotDimensionNumbers,
    precision: tuple[Precision, Precision],
    preferred_element_type: PrimitiveType | None,
    algorithm: DotAlgorithm | None,
) -> tuple[ArrayShape, Mapping[str, Any]]:
    shape = infer.dot_general.strict(lhs, rhs, numbers, preferred_element_type, algorithm)
    return shape, shared_attributes(
        dimension_numbers=numbers, precision=precision, algorithm=algorithm
    )


def preferred_type(op: str, element_type: PrimitiveTypeLike | None) -> PrimitiveType | None:
    """Convert the optional argument `preferred_element_type`; return None if it is None."""
    if element_type is None:
        return None
    return pt.element_type_argument(op, "preferred_element_type", element_type)


_DEFAULT = Precision.pair(None)
_listed_numbers = per_signature(DotDimensionNumbers.of)


_SEQUENCES = (list, tuple)


def _key(dimension_numbers: Any) -> Any:
    """Return a cache key for a pair of pairs of int lists or tuples: the same as nested tuples.

    Return None for any other value. The loop is unrolled, which is faster than `integer_key`.
    """
    pairs: Any = dimension_numbers if type(dimension_numbers) in _SEQUENCES else ()
    if [len(pair) for pair in pairs if type(pair) in _SEQUENCES] != [2, 2] or len(pairs) != 2:
        return None
    (lhs, rhs), (lhs_batch, rhs_batch) = pairs
    for numbers in (lhs, rhs, lhs_batch, rhs_batch):
        if type(numbers) not in _SEQUENCES:
            return None
        for number in numbers:
            if type(number) is not int:
                return None
    return (tuple(lhs), tuple(rhs)), (tuple(lhs_batch), tuple(rhs_batch))


@op_by_hand(SCHEMAS["dot_general"], cpp_name="Dot", section="Dot")
def dot(
    lhs: XlaOp,
    rhs: XlaOp,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
    **unknown: Never,
) -> XlaOp:
    """Return the dot product of vectors, or of a matrix with a vector or a matrix: ``lhs @ rhs``.

    The sum is over dimension 1 of lhs (0 if it is a vector) and dimension 0 of rhs. Recorded as
    `dot_general`.

    Args:
        lhs, rhs: arrays of one element type, not scalars. Higher ranks are accepted; for batches of
            matrices use `dot_general`.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT if omitted.
        preferred_element_type: the element type of the result and of the sums: a wider type of the
            same kind; by default the operands' element type.

    Returns:
        An array of the remaining dimensions of lhs, then the remaining dimensions of rhs.

    Raises:
        ShapeInferenceError: the element types or the summed sizes differ; an operand is a scalar.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> m, v = b.parameter(xb.f32[3, 4]), b.parameter(xb.f32[4])
        >>> xb.dot(m, v).shape, xb.dot(v, v).shape
        (f32[3], f32[])

    Operation Semantics: Dot.
    """
    if unknown:
        raise unknown_arguments(dot, unknown)
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        need_op("dot", "lhs", lhs, rhs)
        need_op("dot", "rhs", rhs, lhs)
    pair = _DEFAULT if precision is None else Precision.pair(precision, op="dot")
    preferred = preferred_type("dot", preferred_element_type)
    shape, attributes = _dot_plan(lhs.shape, rhs.shape, pair, preferred)
    return record("dot_general", shape, (lhs, rhs), attributes)


@op_by_hand(SCHEMAS["dot_general"])
def dot_general(
    lhs: XlaOp,
    rhs: XlaOp,
    dimension_numbers: DotDimensionNumbersLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
    algorithm: DotAlgorithmLike | None = None,
    **unknown: Never,
) -> XlaOp:
    """Sum products over the contracting dimensions, for each index of the batch dimensions.

    Args:
        lhs, rhs: arrays of one element type.
        dimension_numbers: DotDimensionNumbers, or a pair of pairs
            ``((lhs contracting, rhs contracting), (lhs batch, rhs batch))``. Corresponding
            dimensions of lhs and rhs have equal sizes.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT if omitted.
        preferred_element_type: the element type of the result and of the sums: a wider type of the
            same kind; by default the operands' element type.
        algorithm: a DotAlgorithm or its name, to fix exactly how the product is computed. It
            replaces `precision`. The available algorithms depend on the device.

    Returns:
        An array of the batch dimensions, then the remaining dimensions of lhs, then the remaining
        dimensions of rhs.

    Raises:
        ShapeInferenceError: element types differ; dimensions are out of range, duplicated or do not
            match; the algorithm does not support these types.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[7, 3, 4]), b.parameter(xb.f32[7, 4, 5])
        >>> xb.dot_general(x, y, xb.DotDimensionNumbers([2], [1], [0], [0])).shape
        f32[7,3,5]
        >>> xb.dot_general(x, y, (([2], [1]), ([], []))).shape
        f32[7,3,7,5]

    Operation Semantics: DotGeneral.
    """
    if unknown:
        raise unknown_arguments(dot_general, unknown)
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        need_op("dot_general", "lhs", lhs, rhs)
        need_op("dot_general", "rhs", rhs, lhs)
    numbers: DotDimensionNumbers | None = None
    if type(dimension_numbers) is DotDimensionNumbers:
        numbers = dimension_numbers
    elif (key := _key(dimension_numbers)) is not None:
        with suppress(ShapeInferenceError):  # `of` raises it for the original value
            numbers = _listed_numbers(key)
    if numbers is None:
        numbers = DotDimensionNumbers.of(dimension_numbers)
    pair = _DEFAULT if precision is None else Precision.pair(precision, op="dot_general")
    preferred = preferred_type("dot_general", preferred_element_type)
    if algorithm is not None:
        algorithm = DotAlgorithm.of(algorithm)
        if pair != _DEFAULT:
            got = f"{pair} and {algorithm.value}"
            rule = f"at most one of precision and algorithm is allowed, got {got}"
            raise error_of(ShapeInferenceError, "dot_general", rule, "omit precision")
    shape, attributes = _dot_general_plan(lhs.shape, rhs.shape, numbers, pair, preferred, algorithm)
    return record("dot_general", shape, (lhs, rhs), attributes)
