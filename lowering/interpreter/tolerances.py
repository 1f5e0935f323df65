"""The tolerances of ops and computations: the errors in ulps that a comparison permits.

The schema of an op has the op's tolerance (`builder.schema.definition`).
`lowering.legalize.elementwise` lists the ops that a platform computes less accurately. The
tolerance of a computation is the largest sum of tolerances along a path to its root. The tolerance
of an op that applies computations is the largest of their tolerances, times the number of
applications for one element.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS, LargestTerm
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape
from lowering.legalize.elementwise import INACCURATE

Array = np.ndarray[Any, Any]

MIN_OF_SUM: Final = 8.0
"""The smallest tolerance of a sum, in ulps: products may be rounded twice, or not at all."""


def may_flush(op: XlaOp) -> bool:
    """Return whether devices may flush subnormal operands to zero."""
    return SCHEMAS[op.opcode].tolerance.flushes


def is_sum(op: XlaOp) -> bool:
    """Return whether an op's result is a sum, compared in ulps of the sum's largest term."""
    tolerance = SCHEMAS[op.opcode].tolerance
    return tolerance.terms is not None or tolerance.applications is not None


def of_op(op: XlaOp, platform: str) -> float:
    """Return the permitted error in ulps of floating-point and complex results of an op.

    The compared results are assumed to be computed from equal operands.

    Args:
        op: the op.
        platform: the platform whose results are compared.
    """
    tolerance = SCHEMAS[op.opcode].tolerance
    if tolerance.applications is not None:
        called = op.called_computations
        inner = max((_of_computation(each, platform) for each in called), default=0.0)
        return inner * max(1, tolerance.applications(op)) if inner else 0.0
    ulps = tolerance.ulps
    if tolerance.complex_ulps is not None and _is_complex(op):
        ulps = tolerance.complex_ulps
    if tolerance.terms is not None:
        return max(MIN_OF_SUM, ulps * tolerance.terms(op))
    if isinstance(op.shape, ArrayShape) and platform in INACCURATE:
        ulps = max(ulps, INACCURATE[platform].get((op.opcode, op.shape.element_type), 0.0))
    return ulps


def _is_complex(op: XlaOp) -> bool:
    shapes = (op.shape, *(operand.shape for operand in op.operands))
    return any(isinstance(s, ArrayShape) and s.element_type.is_complex for s in shapes)


def _of_computation(computation: XlaComputation, platform: str) -> float:
    """Return the largest sum of tolerances along a path to the root."""
    sums: list[float] = computation.planned(accumulated, computation, platform)
    return sums[computation.root.id]


def accumulated(computation: XlaComputation, platform: str) -> list[float]:
    """Return, for each op, the largest sum of tolerances along a path that ends at the op."""
    sums: list[float] = []
    for op in computation.ops:
        before = max((sums[operand.id] for operand in op.operands), default=0.0)
        sums.append(before + of_op(op, platform))
    return sums


def largest(values: list[Array]) -> float:
    """Return the largest magnitude of the finite numbers in some arrays."""
    maximum = 0.0
    for value in values:
        if value.dtype.kind == "b" or not value.size:
            continue
        sizes = np.abs(value.astype(np.complex128 if value.dtype.kind == "c" else np.float64))
        finite = sizes[np.isfinite(sizes)]
        if finite.size:
            maximum = max(maximum, float(finite.max()))
    return maximum


def largest_term(op: XlaOp, operands: list[Array], result: Array) -> float:
    """Return an upper bound on the magnitudes of the terms that an op adds up."""
    match SCHEMAS[op.opcode].tolerance.largest_term:
        case LargestTerm.RESULT:
            return largest([result])
        case LargestTerm.PRODUCT:
            product = math.prod(largest([operand]) for operand in operands[:2])
            return max(largest([result]), product)
        case _:
            return largest([result, *operands])


def smallest_normal(element_type: PrimitiveType) -> float:
    """Return the smallest positive normal number of a float type, or of a complex type's parts."""
    info = pt.float_info(element_type.real_type)
    return float(info.smallest_normal)
