"""Importers of elementwise operations that are recorded as several ops for complex operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.importer.by_schema import schema_importer
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope

_EXTREMA = {
    "maximum": (schema_importer("maximum"), xb.gt),
    "minimum": (schema_importer("minimum"), xb.lt),
}


@importer("stablehlo.maximum", "stablehlo.minimum")
def extremum(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp], **arguments: Any
) -> Imported:
    """Record a maximum or minimum. For complex numbers record a lexicographic selection, because
    XLA's op compares only the real parts."""
    record, order = _EXTREMA[
        operation.name.removeprefix("stablehlo.").removeprefix("chlo.broadcast_")
    ]
    lhs, rhs = operands
    if _is_complex(lhs) and _is_complex(rhs):
        return _lexicographic(lhs, rhs, order)
    return record(scope, operation, operands, **arguments)


def _is_complex(op: XlaOp) -> bool:
    return isinstance(op.shape, ArrayShape) and op.shape.element_type.is_complex


def _lexicographic(lhs: XlaOp, rhs: XlaOp, order: Callable[..., XlaOp]) -> XlaOp:
    """Select `lhs` or `rhs` by their real parts; where these are equal, by the imaginary parts."""
    real, other_real = xb.real(lhs), xb.real(rhs)
    by_imaginary = order(xb.imag(lhs), xb.imag(rhs))
    first = xb.select(xb.eq(real, other_real), by_imaginary, order(real, other_real))
    return xb.select(first, lhs, rhs)


_convert = schema_importer("convert")


@importer("stablehlo.convert")
def convert(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a conversion. StableHLO converts complex numbers to pred by the real part alone; the
    public op compares both parts with 0."""
    if _is_complex(operands[0]) and scope.result_shape(operation).element_type is pt.pred:
        operands = [xb.real(operands[0])]
    return _convert(scope, operation, operands)
