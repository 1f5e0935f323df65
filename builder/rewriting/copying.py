"""Ops recorded again, in another builder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import Notes, XlaOp, noted
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
    new.notes = op.notes
    new.code = op.code
    new.lasti = op.lasti
    ops = builder.ops
    new.id = len(ops)
    ops.append(new)
    return new


def merged(notes: Notes | None, others: Notes | None) -> Notes | None:
    """The notes, and of the others what these do not say."""
    if others is None:
        return notes
    if notes is None:
        return others
    attributes = {**(others.frontend_attributes or {}), **(notes.frontend_attributes or {})}
    return noted(
        notes,
        name=others.name if notes.name is None else notes.name,
        frontend_attributes=attributes or None,
        sharding=others.sharding if notes.sharding is None else notes.sharding,
        others=others.others if notes.others is None else notes.others,
    )


def parameter_shape(parameter: XlaOp) -> Shape:
    """The shape of a parameter, with the layout that was asked for."""
    shape: Shape = parameter.attributes.get("shape_with_layout", parameter.shape)
    return shape
