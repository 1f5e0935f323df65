"""Linear algebra and Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from builder.attributes import FftType, Transpose
from builder.schema.definition import Attribute, CostClass, define
from builder.schema.element_types import FLOATING_OR_COMPLEX
from builder.schema.kinds import FLAG, INTEGERS, Enumeration
from builder.schema.tolerance import LargestTerm, Tolerance


def _rows(op: Any) -> int:
    """Return the number of rows of the operand's matrices."""
    return int(op.operands[0].shape.dimensions[-1])


def _stages(op: Any) -> int:
    """Return the number of additions per element of the result of a fast Fourier transform."""
    return int(math.prod(op.attributes["fft_length"])).bit_length()


_SOLVED = Tolerance(2, terms=_rows)

define(
    "fft",
    "operand",
    (Attribute("fft_type", Enumeration("fft_type", FftType)), Attribute("fft_length", INTEGERS)),
    cost=CostClass.RULE,
    # The norm of the result is that of the operand, apart from a factor.
    tolerance=Tolerance(2, terms=_stages, largest_term=LargestTerm.RESULT),
)
define(
    "cholesky",
    "a",
    (Attribute("lower", FLAG, absent=False),),
    element_types={"a": FLOATING_OR_COMPLEX},
    cost=CostClass.RULE,
    tolerance=_SOLVED,
)
define(
    "triangular_solve",
    "a b",
    (
        Attribute("left_side", FLAG),
        Attribute("lower", FLAG),
        Attribute("unit_diagonal", FLAG),
        Attribute("transpose_a", Enumeration("transpose", Transpose)),
    ),
    element_types={"a": FLOATING_OR_COMPLEX, "b": FLOATING_OR_COMPLEX},
    cost=CostClass.RULE,
    tolerance=_SOLVED,
)
