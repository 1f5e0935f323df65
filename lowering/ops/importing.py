"""Functions for importers: the error for an operation that can't be imported, and tuples of values.

An importer records ops in a `lowering.importer.scope.Scope`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir

from builder.errors import XlaError
from builder.graph.xla_op import XlaOp
from builder.types.shape import Shape, TupleShape, fold
from lowering.errors import LoweringError
from lowering.mlir.operations import attribute_text, place_of

if TYPE_CHECKING:
    from lowering.importer.scope import Scope

INLINED_CALL: Final = "xlabuilder.inlined_call"
"""The target of a custom call that marks the operations before it as those of a function.

Modules that `lowering.jax_interop` makes have it. Its operands are the operands and the results of
the function; it has no results, and no op is recorded."""

_REASONS: Final = {
    "stablehlo.async_start": ": XLA's compiler creates asynchronous operations itself",
}
"""Reasons, by operation name, why there is no op for an operation."""


def failure(
    operation: ir.Operation,
    reason: str | XlaError,
    *inner: str,
    got: object = None,
    fix: str = "",
) -> LoweringError:
    """Return the LoweringError for an operation that can't be imported.

    Args:
        operation: the operation.
        reason: the broken rule, or the error of an op, whose facts remain.
        inner: the names of parts of the operation that the reason is about.
        got: the value that broke the rule.
        fix: the fix.
    """
    op = str(operation.name)
    context = ("to_computation", f"{op}{place_of(operation).rstrip(',')}", *inner)
    if isinstance(reason, XlaError):
        context += reason.context
        return reason._as_kind(LoweringError, op=op, context=context, fix=fix or reason.fix)
    return LoweringError(reason, op=op, got=got, context=context, fix=fix)


def unsupported(operation: ir.Operation) -> LoweringError:
    """Return the LoweringError for an operation without a corresponding op."""
    return failure(
        operation, f"there is no op for this operation{_REASONS.get(operation.name, '')}"
    )


def is_used(value: ir.Value[Any]) -> bool:
    """Return whether any operation uses a value, other than the marker of an inlined call."""
    return any(not _is_marker(use.owner.operation) for use in value.uses)


def _is_marker(operation: ir.Operation) -> bool:
    """Return whether an operation marks an inlined call."""
    if len(operation.results) or operation.name != "stablehlo.custom_call":
        return False
    return attribute_text(operation.attributes["call_target_name"]) == INLINED_CALL


def flat_values(op: XlaOp) -> Iterator[XlaOp]:
    """Yield an op for each leaf of a value, which may be a nested tuple."""
    pending = [op]
    while pending:
        value = pending.pop()
        if isinstance(value.shape, TupleShape):
            pending.extend(reversed([value[i] for i in range(len(value.shape.elements))]))
        else:
            yield value


def nested_value(scope: Scope, shape: Shape, leaves: Iterator[XlaOp]) -> XlaOp:
    """Return an op of shape `shape`: take an op from `leaves` for each leaf, and record tuples."""
    return fold(shape, lambda _: next(leaves), scope.tuple_of)
