"""Rewrites that restore CHLO and MHLO operations from their form in a portable artifact."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from lowering.errors import CompileError
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import ALL_PLATFORMS, INTERPRETER, REWRITES, Value, rewrite
from lowering.mlir.operations import attribute_text, checked_dictionary, place_of

_COMPOSITE: Final = (("chlo.", "mhlo."), "name", "composite_attributes")
"""The dialects of the operations that composites encode, and the attributes of the composites."""


@rewrite("stablehlo.composite", platforms=ALL_PLATFORMS)
def composite_for_chlo(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Restore the CHLO or MHLO operation of a composite, if that operation has rewrites.

    A portable artifact represents operations of CHLO, and top_k of the smallest elements, as
    composites. XLA restores the operations
    too, but only after the rewrites.
    """
    return _restored(b, operation, *_COMPOSITE)


@rewrite("stablehlo.custom_call", platforms=(*ALL_PLATFORMS, INTERPRETER))
def custom_call_for_mhlo(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Restore the MHLO operation that a custom call represents, if that operation has rewrites.

    A portable artifact represents operations of MHLO as custom calls. XLA restores some of the
    operations, but not top_k of the smallest elements.
    """
    return _restored(b, operation, ("mhlo.",), "call_target_name", "mhlo.attributes")


def is_restored(operation: ir.Operation) -> bool:
    """Return whether a composite is replaced by an operation, so that its function is not used."""
    return _encoded(operation, *_COMPOSITE) is not None


def _restored(
    b: OpBuilder, operation: ir.Operation, dialects: tuple[str, ...], name: str, attributes: str
) -> list[Value] | None:
    """Restore an operation, and return its results; None for other composites and custom calls."""
    encoded = _encoded(operation, dialects, name, attributes)
    if encoded is None:
        return None
    types = [result.type for result in operation.results]
    restored = b.create(encoded[0], types, operation.operands, encoded[1])
    try:
        restored.verify()
    except ir.MLIRError as error:
        kind, short = operation.name.partition(".")[2], encoded[0].partition(".")[2]
        message = error.error_diagnostics[0].message if error.error_diagnostics else str(error)
        raise CompileError(
            f"{kind} of {encoded[0]!r}{place_of(operation)} "
            f"must have the operands, results and attributes of {short}",
            got=f"a call that MLIR refuses: {message}",
            context=("compile", b.target.name),
            fix="correct the call, or save the module again",
            op=kind,
        ) from None
    return list(restored.results)


def _encoded(
    operation: ir.Operation, dialects: tuple[str, ...], name_key: str, attributes_key: str
) -> tuple[str, dict[str, ir.Attribute]] | None:
    """Return the name and the attributes of the operation to restore; None if there is none.

    An operation with list attributes (ragged_dot) is not restored, because the CHLO or MHLO
    operation has these attributes in another form.
    """
    name = attribute_text(operation.attributes[name_key]) or ""
    if not (name.startswith(dialects) and any(name in known.names for known in REWRITES)):
        return None
    attributes = {}
    if attributes_key in operation.attributes:
        attributes = checked_dictionary(operation.attributes[attributes_key])
    if any(isinstance(value, ir.ArrayAttr) for value in attributes.values()):
        return None
    return name, attributes
