"""Linear algebra, Fourier transforms, batch normalization and random bits."""

from __future__ import annotations

from builder.attributes import FftType, RandomAlgorithm, Transpose
from builder.schema.definition import Attribute, CostClass, Schema, define
from builder.schema.kinds import FLAG, FLOAT32, INTEGER, INTEGERS, Enumeration

define(
    Schema(
        "fft",
        "operand",
        (
            Attribute("fft_type", Enumeration("fft_type", FftType)),
            Attribute("fft_length", INTEGERS),
        ),
        cost=CostClass.RULE,
    )
)
define(Schema("cholesky", "a", (Attribute("lower", FLAG, absent=False),), cost=CostClass.RULE))
define(
    Schema(
        "triangular_solve",
        "a b",
        (
            Attribute("left_side", FLAG),
            Attribute("lower", FLAG),
            Attribute("unit_diagonal", FLAG),
            Attribute("transpose_a", Enumeration("transpose", Transpose)),
        ),
        cost=CostClass.RULE,
    )
)
for _opcode, _operands in (
    ("batch_norm_training", "operand scale offset"),
    ("batch_norm_inference", "operand scale offset mean variance"),
    ("batch_norm_grad", "operand scale mean variance grad_output"),
):
    define(
        Schema(
            _opcode,
            _operands,
            (Attribute("epsilon", FLOAT32), Attribute("feature_index", INTEGER)),
        )
    )
define(
    Schema(
        "rng_bit_generator",
        "initial_state",
        (
            Attribute(
                "algorithm",
                Enumeration("rng_algorithm", RandomAlgorithm, prefix="RNG_", is_lower=True),
                stablehlo="rng_algorithm",
            ),
        ),
        cost=CostClass.RULE,
    )
)
