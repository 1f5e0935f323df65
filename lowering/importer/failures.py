"""Errors of operations that can't be imported."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.errors import LoweringError, recorded_at

__all__ = ["failure", "unknown"]

_LACKING: Final = {
    "sdy.manual_computation": "what it holds is done by each device with its part of the arrays, "
    "and no op of XLA's has such a computation",
    "stablehlo.async_start": "what begins and ends apart is made by XLA itself",
}
"""Why there is no op for some operations."""


def failure(operation: ir.Operation, reason: str) -> LoweringError:
    """The error of an operation that can't be imported."""
    where = recorded_at(operation.location).rstrip(",")
    return LoweringError(
        f"to_computation: {operation.name}{where}: {reason}", op=str(operation.name)
    )


def unknown(operation: ir.Operation) -> LoweringError:
    """The error of an operation that there is no op for."""
    why = _LACKING.get(operation.name)
    return failure(operation, "there is no op for it" + (f": {why}" if why else ""))
