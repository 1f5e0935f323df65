"""How far the values of each op may be apart before they count as different.

In units in the last place (ulps) of the element type; the schemas have those of elementwise ops.
Exact are:

- integers and booleans, whatever the op; ops that move or choose elements, signs, rounding to
  integers, comparisons;
- one ulp for what IEEE 754 rounds correctly (+ - *), as hardware may work in another precision and
  round again; two where it has approximations (division, roots);
- more for functions, which the specification leaves to the implementation;
- for sums one ulp a term: the order of the terms is left open, and in which type they are added.
  These are counted in ulps of the largest term, which is the error that a sum can have: where terms
  cancel, what is left is rounded off by as much.

Ops that apply computations have the tolerances of the ops in these, added up along the longest way
through them, as often as they are applied to get one element.
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

__all__ = [
    "along",
    "is_sum",
    "largest",
    "largest_term",
    "may_flush",
    "of_op",
    "smallest_normal",
    "ways",
]

Array = np.ndarray[Any, Any]

_OF_DOUBLES: Final[dict[str, float]] = dict.fromkeys(("log_plus_one", "atanh"), 256)
"""Those that XLA's CPU has a poor approximation of in f64: 126 ulps about -0.414."""

_EXACT_ARITHMETIC: Final = frozenset(
    (
        *("ceil", "floor", "round_nearest_afz", "round_nearest_even", "sign"),
        *("maximum", "minimum", "clamp", "compare"),
    )
)


def may_flush(op: XlaOp) -> bool:
    """Whether devices may take operands below the smallest normal number for zero.

    It is so of arithmetic and comparisons, element by element; what moves elements keeps them.
    """
    return SCHEMAS[op.opcode].ulps > 0 or op.opcode in _EXACT_ARITHMETIC


_LOOP_STEPS: Final = 64
"""How many steps a loop is taken to have: how many it has only running it tells."""

_SUMS: Final = frozenset(
    (
        *("dot_general", "convolution", "ragged_dot", "triangular_solve", "cholesky", "fft"),
        *("batch_norm_training", "batch_norm_inference", "batch_norm_grad"),
        *("reduce", "reduce_window", "scatter", "select_and_scatter"),
        *("call", "composite", "while", "conditional", "scan"),
    )
)


def is_sum(op: XlaOp) -> bool:
    """Whether distances are counted in ulps of the largest number that may have been added."""
    return op.opcode in _SUMS


def of_op(op: XlaOp) -> float:
    """The tolerance of an op, given equal operands; for its floating-point and complex results."""
    found = SCHEMAS[op.opcode].ulps
    if found:
        is_double = isinstance(op.shape, ArrayShape) and op.shape.element_type in (pt.f64, pt.c128)
        return _OF_DOUBLES.get(op.opcode, found) if is_double else found
    per_term = SCHEMAS[op.opcode].ulps_per_term
    if per_term:
        return max(8.0, per_term * _terms(op))
    called = op.called_computations
    if not called or op.opcode == "sort":
        return 0.0
    inside = max(map(along, called))
    return inside * (_LOOP_STEPS if op.opcode == "while" else max(1, _applied(op)))


def along(computation: XlaComputation) -> float:
    """The tolerances of a computation's ops, added up along the longest way to its root."""
    key = "interpreter.tolerance"
    found: float = computation.planned(key, ways, computation)[computation.root.id]
    return found


def ways(computation: XlaComputation) -> list[float]:
    """For each op the tolerances added up along the longest way to it."""
    sums: list[float] = []
    for op in computation.ops:
        before = max((sums[operand.id] for operand in op.operands), default=0.0)
        sums.append(before + of_op(op))
    return sums


def _terms(op: XlaOp) -> int:
    """At most so many terms are added up for one element."""
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
    """At most so often computations are applied to get one element."""
    if op.opcode in ("map", "call", "composite", "conditional"):
        return 1
    whole = math.prod(_sizes(op.operands[0].shape))
    if op.opcode == "scan":
        dimension: int = op.attributes["scan_dimension"]
        return max((_sizes(leaf)[dimension : dimension + 1] or (1,))[0] for leaf in _cut(op))
    if op.opcode == "reduce":
        results = _sizes(next(iter(leaves(op.shape))))
        return max(1, whole // max(1, math.prod(results)))
    if op.opcode == "scatter":
        return math.prod(_sizes(op.operands[-1].shape))
    return whole


def _cut(op: XlaOp) -> list[Shape]:
    return [*(operand.shape for operand in op.operands), *leaves(op.shape)]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return shape.dimensions if isinstance(shape, ArrayShape) else ()


def largest(values: list[Array]) -> float:
    """The largest magnitude of the finite numbers in some arrays."""
    found = 0.0
    for value in values:
        if value.dtype.kind == "b" or not value.size:
            continue
        sizes = np.abs(value.astype(np.complex128 if value.dtype.kind == "c" else np.float64))
        finite = sizes[np.isfinite(sizes)]
        if finite.size:
            found = max(found, float(finite.max()))
    return found


def largest_term(op: XlaOp, operands: list[Array], result: Array) -> float:
    """The largest number that may have been added to get an element of an op's result."""
    if op.opcode in _PRODUCTS:
        return max(largest([result]), math.prod(largest([one]) for one in operands[:2]))
    return largest([result, *operands])


_PRODUCTS: Final = frozenset(("dot_general", "convolution", "ragged_dot"))


def smallest_normal(element_type: PrimitiveType) -> float:
    """The smallest number of a floating-point type that has all its digits."""
    info = pt.float_info(element_type)
    return float(info.smallest_normal)
