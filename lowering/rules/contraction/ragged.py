"""Dot products with groups of unequal sizes in CHLO; StableHLO has none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from builder.attributes import RaggedDotDimensionNumbers
from lowering.rules.contraction.dot_product import dot_fields, precision_text
from lowering.rules.registry import ATTRIBUTES, DIRECT


@lru_cache(maxsize=65536)
def _numbers_text(numbers: RaggedDotDimensionNumbers) -> str:
    fields = dot_fields(numbers.dot_dimension_numbers) | {
        "lhs_ragged_dimensions": numbers.lhs_ragged_dimensions,
        "rhs_group_dimensions": numbers.rhs_group_dimensions,
    }
    parts = ", ".join(f"{name} = {list(values)}" for name, values in fields.items())
    return f"#chlo.ragged_dot<{parts}>"


def ragged_dot(attributes: Mapping[str, Any]) -> dict[str, str]:
    precision = precision_text(attributes["precision"]).replace("#stablehlo", "#chlo")
    return {
        "ragged_dot_dimension_numbers": _numbers_text(attributes["dimension_numbers"]),
        "precision_config": precision,
    }


DIRECT["ragged_dot"] = "chlo.ragged_dot"
ATTRIBUTES["ragged_dot"] = ragged_dot
