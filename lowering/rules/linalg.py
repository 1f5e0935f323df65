"""Linear algebra and Fourier transforms in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir

from lowering.mlir_context import MlirContext
from lowering.rules.registry import direct


def _flags(
    mlir: MlirContext, attributes: Mapping[str, Any], *names: str
) -> dict[str, ir.Attribute]:
    return {name: mlir.parsed(str(attributes[name]).lower()) for name in names}


@direct("cholesky")
def cholesky(mlir: MlirContext, attributes: Mapping[str, Any]) -> dict[str, ir.Attribute]:
    return _flags(mlir, attributes, "lower")


@direct("triangular_solve")
def triangular_solve(mlir: MlirContext, attributes: Mapping[str, Any]) -> dict[str, ir.Attribute]:
    transpose = mlir.parsed(f"#stablehlo<transpose {attributes['transpose_a'].name}>")
    flags = _flags(mlir, attributes, "left_side", "lower", "unit_diagonal")
    return {**flags, "transpose_a": transpose}


@direct("fft")
def fft(mlir: MlirContext, attributes: Mapping[str, Any]) -> dict[str, ir.Attribute]:
    return {
        "fft_type": mlir.parsed(f"#stablehlo<fft_type {attributes['fft_type'].name}>"),
        "fft_length": mlir.i64_array(attributes["fft_length"]),
    }
