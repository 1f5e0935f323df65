"""Registers the ops without operands, which are methods of XlaBuilder, as operations."""

from __future__ import annotations

from builder.graph.registry import op_by_hand
from builder.graph.xla_builder import XlaBuilder
from builder.ops.rules import collectives
from builder.schema import BUILDER_H, SCHEMAS, CostClass, define

define("constant", "", cpp_name="ConstantLiteral", section=BUILDER_H, cost=CostClass.FREE)

for _method, _family, _rule in (
    (XlaBuilder.parameter, "control_flow", None),
    (XlaBuilder.constant, "elementwise", None),
    (XlaBuilder.replica_id, "collectives", collectives.replica_id),
    (XlaBuilder.partition_id, "collectives", collectives.partition_id),
    (XlaBuilder.create_token, "host", None),
    (XlaBuilder.infeed, "host", None),
    (XlaBuilder.recv, "host", None),
):
    _name = _method.__name__
    setattr(XlaBuilder, _name, op_by_hand(SCHEMAS[_name], _rule, family=_family)(_method))
