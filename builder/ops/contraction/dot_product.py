"""Dot products of vectors, matrices and batches of them.

Operation Semantics: Dot, DotGeneral.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from builder.attributes import (
    DotAlgorithm,
    DotDimensionNumbers,
    DotDimensionNumbersLike,
    Precision,
    PrecisionLike,
)
from builder.errors import ShapeInferenceError
from builder.graph.recording import record
from builder.graph.registry import op
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op
from builder.schema import SCHEMAS
from builder.shape_inference import contraction as infer
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import ArrayShape, Shape

__all__ = ["dot", "dot_general"]

Plan = tuple[ArrayShape, Mapping[str, Any]]


def _attributes(
    numbers: DotDimensionNumbers,
    precision: tuple[Precision, Precision],
    algorithm: DotAlgorithm | None = None,
) -> Mapping[str, Any]:
    return MappingProxyType(
        {"dimension_numbers": numbers, "precision": precision, "algorithm": algorithm}
    )


@per_signature
def _dot_plan(
    lhs: Shape,
    rhs: Shape,
    precision: tuple[Precision, Precision],
    preferred_element_type: PrimitiveType | None,
) -> Plan:
    shape = infer.dot.strict(lhs, rhs, preferred_element_type)
    return shape, _attributes(infer.dot_dimension_numbers.strict(lhs, rhs), precision)


@per_signature
def _dot_general_plan(
    lhs: Shape,
    rhs: Shape,
    numbers: DotDimensionNumbers,
    precision: tuple[Precision, Precision],
    preferred_element_type: PrimitiveType | None,
    algorithm: DotAlgorithm | None,
) -> Plan:
    shape = infer.dot_general.strict(lhs, rhs, numbers, preferred_element_type, algorithm)
    return shape, _attributes(numbers, precision, algorithm)


_DEFAULT = Precision.pair(None)
_listed_numbers = per_signature(DotDimensionNumbers.of)
_SEQUENCES = (list, tuple)


def _plain_numbers(value: Any) -> Any:
    """A pair of pairs of lists or tuples of ints as tuples, to be a key; None for all else."""
    if type(value) not in _SEQUENCES or len(value) != 2:
        return None
    contracting, batch = value
    if type(contracting) not in _SEQUENCES or type(batch) not in _SEQUENCES:
        return None
    if len(contracting) != 2 or len(batch) != 2:
        return None
    lists = (*contracting, *batch)
    for numbers in lists:
        if type(numbers) not in _SEQUENCES:
            return None
        for number in numbers:
            if type(number) is not int:
                return None
    lhs, rhs, lhs_batch, rhs_batch = lists
    return (tuple(lhs), tuple(rhs)), (tuple(lhs_batch), tuple(rhs_batch))


@op(SCHEMAS["dot_general"], cpp_name="Dot", section="Dot")
def dot(
    lhs: XlaOp,
    rhs: XlaOp,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """The dot product of vectors, or of a matrix with a vector or a matrix; ``lhs @ rhs``.

    Sums over dimension 1 of lhs (0 if it is a vector) and dimension 0 of rhs. Recorded as
    `dot_general`.

    Args:
        lhs, rhs: arrays of one element type, not scalars. Higher ranks are taken too; for batches
            of matrices use `dot_general`.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT when not
            given.
        preferred_element_type: the element type of the result: the operands' (when not given), or
            a wider one of its kind, in which the sums are then made.

    Returns:
        An array of the other dimensions of lhs, then those of rhs.

    Raises:
        ShapeInferenceError: element types differ, or the sizes that are summed over; an operand
            is a scalar.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> m, v = b.parameter(xb.f32[3, 4]), b.parameter(xb.f32[4])
        >>> xb.dot(m, v).shape, xb.dot(v, v).shape
        (f32[3], f32[])

    Operation Semantics: Dot.
    """
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        need_op("dot", "lhs", lhs)
        need_op("dot", "rhs", rhs)
    pair = _DEFAULT if precision is None else Precision.pair(precision, op="dot")
    if preferred_element_type is not None:
        preferred_element_type = pt.element_type_argument(
            "dot", "preferred_element_type", preferred_element_type
        )
    shape, attributes = _dot_plan(lhs.shape, rhs.shape, pair, preferred_element_type)
    return record("dot_general", shape, (lhs, rhs), attributes)


@op(SCHEMAS["dot_general"])
def dot_general(
    lhs: XlaOp,
    rhs: XlaOp,
    dimension_numbers: DotDimensionNumbersLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
    algorithm: DotAlgorithm | str | None = None,
) -> XlaOp:
    """Sums products over the contracting dimensions, once for each index of the batch dimensions.

    Args:
        lhs, rhs: arrays of one element type.
        dimension_numbers: DotDimensionNumbers, or a pair of pairs
            ``((lhs contracting, rhs contracting), (lhs batch, rhs batch))``. Dimensions of lhs and
            rhs that go together have equal sizes.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT when not
            given.
        preferred_element_type: the element type of the result: the operands' (when not given), or
            a wider one of its kind, in which the sums are then made.
        algorithm: a DotAlgorithm or its name, where it matters exactly how the product is
            computed; instead of `precision`. Which there are depends on the device.

    Returns:
        An array of the batch dimensions, then the other dimensions of lhs, then those of rhs.

    Raises:
        ShapeInferenceError: element types differ; dimensions are out of range, named twice, or do
            not go together; the algorithm does not take these types.

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
    if type(lhs) is not XlaOp or type(rhs) is not XlaOp:
        need_op("dot_general", "lhs", lhs)
        need_op("dot_general", "rhs", rhs)
    numbers: DotDimensionNumbers | None = None
    if type(dimension_numbers) is DotDimensionNumbers:
        numbers = dimension_numbers
    elif (key := _plain_numbers(dimension_numbers)) is not None:
        with suppress(ShapeInferenceError):  # which is then said of what was given
            numbers = _listed_numbers(key)
    if numbers is None:
        numbers = DotDimensionNumbers.of(dimension_numbers)
    pair = _DEFAULT if precision is None else Precision.pair(precision, op="dot_general")
    if preferred_element_type is not None:
        preferred_element_type = pt.element_type_argument(
            "dot_general", "preferred_element_type", preferred_element_type
        )
    if algorithm is not None:
        algorithm = DotAlgorithm.of(algorithm)
        if pair != _DEFAULT:
            raise ShapeInferenceError(
                f"dot_general: precision and algorithm can't both be given, "
                f"got {pair} and {algorithm.value}\n"
                f"fix: leave precision out",
                op="dot_general",
            )
    shape, attributes = _dot_general_plan(
        lhs.shape, rhs.shape, numbers, pair, preferred_element_type, algorithm
    )
    return record("dot_general", shape, (lhs, rhs), attributes)
