"""Copies of ops in another builder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import OpMetadata, XlaOp, with_metadata

_new: Final = object.__new__


def copy_op(
    op: XlaOp, operands: tuple[XlaOp, ...], builder: XlaBuilder, attributes: Mapping[str, Any]
) -> XlaOp:
    """Record a copy of `op` in `builder`, on operands of the same shapes.

    The copy has the fields that `recording.record` sets, but keeps the source line and the metadata
    of `op`.
    """
    new = _new(XlaOp)
    new.opcode = op.opcode
    new.shape = op.shape
    new.operands = operands
    new.attributes = attributes
    new.builder = builder
    new.metadata = op.metadata
    new._code = op._code
    new._lasti = op._lasti
    ops = builder.ops
    new.id = len(ops)
    ops.append(new)
    return new


def copy_parameter(op: XlaOp, name: str, number: int, builder: XlaBuilder) -> XlaOp:
    """Record a parameter in the place of `op`, with its shape, source line and metadata."""
    shape, replicated = op.shape, ()
    if op.opcode == "parameter":
        shape = op.attributes.get("shape_with_layout", shape)
        replicated = op.attributes.get("replicated_at_leaf_buffers", ())
    new = builder._add_parameter(shape, name, number, replicated)
    new.metadata = with_metadata(op.metadata, name=name)
    new._code, new._lasti = op._code, op._lasti
    return new


def merge_metadata(metadata: OpMetadata | None, defaults: OpMetadata | None) -> OpMetadata | None:
    """Return `metadata`, with entries that are missing copied from `defaults`."""
    if metadata is None or defaults is None:
        return metadata or defaults
    attributes = {**(defaults.frontend_attributes or {}), **(metadata.frontend_attributes or {})}
    missing = {
        name: value for name, value in defaults._asdict().items() if getattr(metadata, name) is None
    }
    return metadata._replace(**{**missing, "frontend_attributes": attributes or None})
