"""Convolutions in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from builder.attributes import ConvolutionDimensionNumbers
from lowering.mlir_attributes import Attribute, i64, i64_array
from lowering.rules.contraction.dot_product import precision_text
from lowering.rules.registry import direct


@lru_cache(maxsize=65536)
def _numbers_text(numbers: ConvolutionDimensionNumbers) -> str:
    labels = numbers.labels(len(numbers.input_spatial_dimensions) + 2)
    source, kernel, result = (f"[{', '.join(part)}]" for part in labels)
    return f"#stablehlo.conv<{source}x{kernel}->{result}>"


@direct("convolution")
def convolution(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    pairs = attributes["padding"]
    padding = f"dense<{[list(pair) for pair in pairs]}>" if pairs else "dense<>"
    reversal = ", ".join(str(r).lower() for r in attributes["window_reversal"])
    return {
        "window_strides": i64_array(attributes["window_strides"]),
        "padding": f"{padding} : tensor<{len(pairs)}x2xi64>",
        "lhs_dilation": i64_array(attributes["lhs_dilation"]),
        "rhs_dilation": i64_array(attributes["rhs_dilation"]),
        "window_reversal": f"array<i1{': ' if reversal else ''}{reversal}>",
        "dimension_numbers": _numbers_text(attributes["dimension_numbers"]),
        "feature_group_count": i64(attributes["feature_group_count"]),
        "batch_group_count": i64(attributes["batch_group_count"]),
        "precision_config": precision_text(attributes["precision"]),
    }
