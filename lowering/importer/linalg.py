"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from lowering.importer.registry import importer
from lowering.importer.scope import Scope


@importer("stablehlo.cholesky")
def cholesky(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    # Where nothing is said it is the upper triangle, the other way round than here.
    return xb.cholesky(operands[0], scope.attribute(operation, "lower", False))


@importer("stablehlo.triangular_solve")
def triangular_solve(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    a, b = operands
    names = ("left_side", "lower", "unit_diagonal", "transpose_a")
    left, lower, unit, transpose = (scope.attribute(operation, name) for name in names)
    return xb.triangular_solve(a, b, left, lower, unit, transpose)


@importer("stablehlo.fft")
def fft(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    kind, length = (scope.attribute(operation, name) for name in ("fft_type", "fft_length"))
    return xb.fft(operands[0], kind, length)
