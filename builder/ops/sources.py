"""Registers the ops without operands, which are methods of XlaBuilder, as operations."""

from __future__ import annotations

from builder.graph.registry import op_by_hand
from builder.graph.xla_builder import XlaBuilder
from builder.schema import SCHEMAS

for _method, _family in (
    (XlaBuilder.constant, "elementwise"),
    (XlaBuilder.create_token, "host"),
    (XlaBuilder.infeed, "host"),
    (XlaBuilder.recv, "host"),
):
    _name = _method.__name__
    setattr(XlaBuilder, _name, op_by_hand(SCHEMAS[_name], None, family=_family)(_method))
