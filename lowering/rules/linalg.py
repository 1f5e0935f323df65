"""Linear algebra and Fourier transforms in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowering.mlir_attributes import Attribute, i64_array, truth
from lowering.rules.registry import direct


def _flags(attributes: Mapping[str, Any], *names: str) -> dict[str, Attribute]:
    return {name: truth(attributes[name]) for name in names}


@direct("cholesky")
def cholesky(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    return _flags(attributes, "lower")


@direct("triangular_solve")
def triangular_solve(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    transpose = f"#stablehlo<transpose {attributes['transpose_a'].name}>"
    flags = _flags(attributes, "left_side", "lower", "unit_diagonal")
    return {**flags, "transpose_a": transpose}


@direct("fft")
def fft(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    return {
        "fft_type": f"#stablehlo<fft_type {attributes['fft_type'].name}>",
        "fft_length": i64_array(attributes["fft_length"]),
    }
