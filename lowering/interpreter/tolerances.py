"""The tolerance of each op: the largest difference of values that count as equal.

It is in units in the last place (ulps) of the element type; schemas define it for elementwise ops:

- 0 for integers and booleans, and for ops that move or select elements, signs, rounding to
  integers, and comparisons;
- 1 for operations that IEEE 754 rounds correctly (+ - *), since hardware may compute in another
  precision and round again; 2 for operations with approximations (division, roots);
- more for functions, whose accuracy is implementation-defined;
- 1 for each term of a sum, since the order and the type of the additions are
  implementation-defined. These are ulps of the largest term: where terms cancel, the error of the
  remainder has that magnitude.

The tolerance of an op that applies computations is the sum of tolerances along the longest path
through them, times the number of applications for one element.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, leaves

Array = np.ndarray[Any, Any]

_F64_TOLERANCES: Final[dict[str, float]] = dict.fromkeys(("log_plus_one", "atanh"), 256)
"""Functions with an inaccurate approximation for f64 on XLA's CPU backend."""

_EXACT_ARITHMETIC: Final = frozenset(
    (
        *("ceil", "floor", "round_nearest_afz", "round_nearest_even", "sign"),
        *("maximum", "minimum", "clamp", "compare"),
    )
)


def may_flush(op: XlaOp) -> bool:
    """Return whether devices may flush subnormal operands to zero.

    This holds for elementwise arithmetic and comparisons; ops that move elements preserve them.
    """
    return SCHEMAS[op.opcode].ulps > 0 or op.opcode in _EXACT_ARITHMETIC


_LOOP_STEPS: Final = 64
"""The assumed number of iterations of a loop, which is unknown before it runs."""

_APPLYING_SUMS: Final = frozenset(
    (
        *("reduce", "reduce_window", "scatter", "select_and_scatter"),
        *("call", "composite", "while", "conditional", "scan"),
    )
)
"""Opcodes whose computations may add up terms."""


def is_sum(op: XlaOp) -> bool:
    """Return whether distances are counted in ulps of the largest term of a sum."""
    return op.opcode in _APPLYING_SUMS or SCHEMAS[op.opcode].ulps_per_term > 0


def of_op(op: XlaOp) -> float:
    """Return the tolerance of an op's floating-point and complex results for equal operands."""
    ulps = SCHEMAS[op.opcode].ulps
    if ulps:
        is_double = isinstance(op.shape, ArrayShape) and op.shape.element_type in (pt.f64, pt.c128)
        return _F64_TOLERANCES.get(op.opcode, ulps) if is_double else ulps
    per_term = SCHEMAS[op.opcode].ulps_per_term
    if per_term:
        return max(8.0, per_term * _terms(op))
    called = op.called_computations
    if not called or op.opcode == "sort":
        return 0.0
    inner = max(map(_of_computation, called))
    return inner * (_LOOP_STEPS if op.opcode == "while" else max(1, _applied(op)))


def _of_computation(computation: XlaComputation) -> float:
    """Return the sum of the tolerances along the longest path to the root."""
    sums: list[float] = computation.planned(accumulated, computation)
    return sums[computation.root.id]


def accumulated(computation: XlaComputation) -> list[float]:
    """Return the sum of the tolerances along the longest path to each op."""
    sums: list[float] = []
    for op in computation.ops:
        before = max((sums[operand.id] for operand in op.operands), default=0.0)
        sums.append(before + of_op(op))
    return sums


def _terms(op: XlaOp) -> int:
    """Return an upper bound of the number of terms of one element."""
    operands = [_sizes(operand.shape) for operand in op.operands]
    if op.opcode in ("dot_general", "ragged_dot"):
        lhs = operands[0]
        numbers = op.attributes.get("dimension_numbers")
        contracted = getattr(numbers, "lhs_contracting_dimensions", range(len(lhs)))
        return math.prod(lhs[dimension] for dimension in contracted)
    if op.opcode == "convolution":
        return math.prod(operands[1])
    if op.opcode in ("triangular_solve", "cholesky"):
        return max(operands[0][-2:])
    return math.prod(operands[0])


def _applied(op: XlaOp) -> int:
    """Return an upper bound of the number of applications for one element."""
    if op.opcode in ("map", "call", "composite", "conditional"):
        return 1
    count = math.prod(_sizes(op.operands[0].shape))
    if op.opcode == "scan":
        dimension: int = op.attributes["scan_dimension"]
        scanned = [*(operand.shape for operand in op.operands), *leaves(op.shape)]
        return max((_sizes(leaf)[dimension : dimension + 1] or (1,))[0] for leaf in scanned)
    if op.opcode == "reduce":
        results = _sizes(next(iter(leaves(op.shape))))
        return max(1, count // max(1, math.prod(results)))
    if op.opcode == "scatter":
        return math.prod(_sizes(op.operands[-1].shape))
    return count


def _sizes(shape: Shape) -> tuple[int, ...]:
    return shape.dimensions if isinstance(shape, ArrayShape) else ()


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
    """Return an upper bound of the terms in the sums of an op's result."""
    if op.opcode in _PRODUCTS:
        return max(largest([result]), math.prod(largest([operand]) for operand in operands[:2]))
    return largest([result, *operands])


_PRODUCTS: Final = frozenset(("dot_general", "convolution", "ragged_dot"))


def smallest_normal(element_type: PrimitiveType) -> float:
    """Return the smallest normal number of a floating-point type."""
    info = pt.float_info(element_type)
    return float(info.smallest_normal)
