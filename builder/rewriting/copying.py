"""Ops recorded again, in another builder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import OpMetadata, XlaOp, with_metadata
from builder.types.shape import Shape

__all__ = ["copied", "merged", "parameter_shape"]

_new: Final = object.__new__


def copied(
    op: XlaOp,
    operands: tuple[XlaOp, ...],
    builder: XlaBuilder,
    attributes: Mapping[str, Any],
) -> XlaOp:
    """Records an op again in `builder`, on operands of the same shapes.

    Field by field, as `recording.record` does it, which would look for the user's line as well.
    """
    new = _new(XlaOp)
    new.opcode = op.opcode
    new.shape = op.shape
    new.operands = operands
    new.attributes = attributes
    new.builder = builder
    new.metadata = op.metadata
    new.code = op.code
    new.lasti = op.lasti
    ops = builder.ops
    new.id = len(ops)
    ops.append(new)
    return new


def merged(metadata: OpMetadata | None, others: OpMetadata | None) -> OpMetadata | None:
    """The metadata, and of the others what these do not say."""
    if others is None:
        return metadata
    if metadata is None:
        return others
    attributes = {**(others.frontend_attributes or {}), **(metadata.frontend_attributes or {})}
    return with_metadata(
        metadata,
        name=others.name if metadata.name is None else metadata.name,
        frontend_attributes=attributes or None,
        sharding=others.sharding if metadata.sharding is None else metadata.sharding,
        others=others.others if metadata.others is None else metadata.others,
    )


def parameter_shape(parameter: XlaOp) -> Shape:
    """The shape of a parameter, with the layout that was asked for."""
    shape: Shape = parameter.attributes.get("shape_with_layout", parameter.shape)
    return shape
