"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from builder.attributes import FftType, Transpose
from builder.schema.definition import Attribute, CostClass, define
from builder.schema.element_types import FLOATING_OR_COMPLEX
from builder.schema.kinds import FLAG, INTEGERS, Enumeration

define(
    "fft",
    "operand",
    (Attribute("fft_type", Enumeration("fft_type", FftType)), Attribute("fft_length", INTEGERS)),
    cost=CostClass.RULE,
    ulps_per_term=2,
)
define(
    "cholesky",
    "a",
    (Attribute("lower", FLAG, absent=False),),
    element_types={"a": FLOATING_OR_COMPLEX},
    cost=CostClass.RULE,
    ulps_per_term=2,
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
    ulps_per_term=2,
)
