"""Rewrites that restore CHLO and MHLO operations from their form in a portable artifact."""

from __future__ import annotations

from jaxlib.mlir import ir

from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import ALL_PLATFORMS, INTERPRETER, REWRITES, Value, rewrite
from lowering.mlir.operations import attribute_text, checked_dictionary


@rewrite("stablehlo.composite", platforms=ALL_PLATFORMS)
def composite_for_chlo(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Restore the CHLO operation that a composite represents, if that operation has rewrites.

    A portable artifact represents operations of CHLO as composites. XLA restores the operations
    too, but only after the rewrites.
    """
    return _restored(b, operation, "chlo.", "name", "composite_attributes")


@rewrite("stablehlo.custom_call", platforms=(*ALL_PLATFORMS, INTERPRETER))
def custom_call_for_mhlo(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Restore the MHLO operation that a custom call represents, if that operation has rewrites.

    A portable artifact represents operations of MHLO as custom calls. XLA restores some of the
    operations, but not top_k of the smallest elements.
    """
    return _restored(b, operation, "mhlo.", "call_target_name", "mhlo.attributes")


def _restored(
    b: OpBuilder, operation: ir.Operation, dialect: str, name_key: str, attributes_key: str
) -> list[Value] | None:
    """Restore an operation, and return its results; None for other composites and custom calls.

    An operation with list attributes (ragged_dot) is not restored, because the CHLO or MHLO
    operation has these attributes in another form.
    """
    name = attribute_text(operation.attributes[name_key]) or ""
    if not (name.startswith(dialect) and any(name in known.names for known in REWRITES)):
        return None
    attributes = {}
    if attributes_key in operation.attributes:
        attributes = checked_dictionary(operation.attributes[attributes_key])
    if any(isinstance(value, ir.ArrayAttr) for value in attributes.values()):
        return None
    types = [result.type for result in operation.results]
    return list(b.create(name, types, operation.operands, attributes).results)
