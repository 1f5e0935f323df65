"""Random numbers."""

from __future__ import annotations

from builder.attributes import RandomAlgorithm
from builder.schema.definition import Attribute, CostClass, define
from builder.schema.element_types import ORDERED, UNSIGNED
from builder.schema.kinds import Enumeration

define(
    "rng",
    "a b",
    (
        Attribute(
            "distribution",
            Enumeration("rng_distribution", prefix="rng_"),
            stablehlo="rng_distribution",
        ),
    ),
    element_types={"a": ORDERED, "b": ORDERED},
    cost=CostClass.TRANSCENDENTAL,
)
define(
    "rng_bit_generator",
    "initial_state",
    (
        Attribute(
            "algorithm",
            Enumeration("rng_algorithm", RandomAlgorithm, prefix="RNG_", is_lower=True),
            stablehlo="rng_algorithm",
        ),
    ),
    element_types={"initial_state": UNSIGNED},
    cost=CostClass.TRANSCENDENTAL,
)
