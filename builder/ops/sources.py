"""Parameters and constants: ops without operands, which are methods of XlaBuilder."""

from __future__ import annotations

from typing import Final

from builder.graph.registry import op_by_hand
from builder.graph.xla_builder import XlaBuilder
from builder.ops.definition import builder_method
from builder.ops.rules import collectives
from builder.schema import BUILDER_H, SCHEMAS
from builder.schema.definition import Attribute, CostClass, define
from builder.schema.kinds import FLAGS

PARAMETER: Final = define(
    "parameter",
    "",
    (
        Attribute(
            "replicated_at_leaf_buffers",
            FLAGS,
            hlo="parameter_replication",
            stablehlo=None,  # an attribute of the function's arguments
            omitted=(),
        ),
    ),
    section=BUILDER_H,
    cost=CostClass.FREE,
)

builder_method(PARAMETER, family="sources")


CONSTANT: Final = define(
    "constant", "", cpp_name="ConstantLiteral", section=BUILDER_H, cost=CostClass.FREE
)

builder_method(CONSTANT, family="sources")


for _method, _family, _rule in (
    (XlaBuilder.replica_id, "collectives", collectives.replica_id),
    (XlaBuilder.partition_id, "collectives", collectives.partition_id),
    (XlaBuilder.create_token, "host", None),
    (XlaBuilder.infeed, "host", None),
    (XlaBuilder.recv, "host", None),
):
    _name = _method.__name__
    setattr(XlaBuilder, _name, op_by_hand(SCHEMAS[_name], _rule, family=_family)(_method))
