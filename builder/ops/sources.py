"""Registers the ops without operands, which are methods of XlaBuilder, as operations."""

from __future__ import annotations

from builder.graph.registry import op
from builder.graph.xla_builder import XlaBuilder
from builder.schema import SCHEMAS

for _method, _family in (
    (XlaBuilder.parameter, "control_flow"),
    (XlaBuilder.constant, "elementwise"),
    (XlaBuilder.iota, "reshaping"),
    (XlaBuilder.replica_id, "collectives"),
    (XlaBuilder.partition_id, "collectives"),
    (XlaBuilder.create_token, "host"),
    (XlaBuilder.infeed, "host"),
    (XlaBuilder.recv, "host"),
):
    _name = _method.__name__
    setattr(XlaBuilder, _name, op(SCHEMAS[_name], family=_family)(_method))
