"""Registers the ops without operands, which are methods of XlaBuilder, as operations."""

from __future__ import annotations

from builder.graph.registry import op_by_hand
from builder.graph.xla_builder import XlaBuilder
from builder.schema import SCHEMAS

for _method, _family, _rule in (
    (XlaBuilder.parameter, "control_flow", None),
    (XlaBuilder.constant, "elementwise", None),
    (XlaBuilder.create_token, "host", None),
    (XlaBuilder.infeed, "host", None),
    (XlaBuilder.recv, "host", None),
):
    _name = _method.__name__
    setattr(XlaBuilder, _name, op_by_hand(SCHEMAS[_name], _rule, family=_family)(_method))
