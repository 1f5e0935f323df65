"""Errors of operations that can't be imported."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.errors import XlaError
from lowering.errors import LoweringError
from lowering.mlir.operations import place_of

_REASONS: Final = {
    "stablehlo.async_start": ": XLA's compiler creates asynchronous operations itself",
}
"""Reasons, by operation name, why there is no op for an operation."""


def failure(
    operation: ir.Operation, reason: str | XlaError, *inner: str, fix: str = ""
) -> LoweringError:
    """Return the LoweringError for an operation that can't be imported.

    Args:
        operation: the operation.
        reason: the broken rule, or the error of an op, whose facts remain.
        inner: the names of parts of the operation that the reason is about.
        fix: the fix.
    """
    op = str(operation.name)
    context = ("to_computation", f"{op}{place_of(operation).rstrip(',')}", *inner)
    if isinstance(reason, XlaError):
        context += reason.context
        return reason.as_kind(LoweringError, op=op, context=context, fix=fix or reason.fix)
    return LoweringError(reason, op=op, context=context, fix=fix)


def unsupported(operation: ir.Operation) -> LoweringError:
    """Return the LoweringError for an operation without a corresponding op."""
    return failure(
        operation, f"there is no op for this operation{_REASONS.get(operation.name, '')}"
    )
