"""Find operations in a module."""

from __future__ import annotations

from collections.abc import Callable

from jaxlib.mlir import ir

__all__ = ["operations_where"]


def operations_where(
    root: ir.Module | ir.Operation, condition: Callable[[ir.Operation], bool]
) -> list[ir.Operation]:
    """Return the operations in `root` that satisfy a condition, inner ones before outer ones."""
    matches: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if condition(operation):
            matches.append(operation)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit)
    return matches
