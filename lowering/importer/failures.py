"""Errors of operations that can't be imported."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.errors import LoweringError
from lowering.mlir.operations import place_of

_REASONS: Final = {
    "stablehlo.async_start": ": XLA's compiler creates asynchronous operations itself",
}
"""Reasons, by operation name, why there is no op for an operation."""


def failure(operation: ir.Operation, reason: str) -> LoweringError:
    """Return the LoweringError for an operation that can't be imported because of `reason`."""
    where = place_of(operation).rstrip(",")
    return LoweringError(
        f"to_computation: {operation.name}{where}: {reason}", op=str(operation.name)
    )


def unsupported(operation: ir.Operation) -> LoweringError:
    """Return the LoweringError for an operation without a corresponding op."""
    return failure(
        operation, f"there is no op for this operation{_REASONS.get(operation.name, '')}"
    )
