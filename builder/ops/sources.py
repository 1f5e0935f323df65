"""Parameters and constants: ops without operands, which are methods of XlaBuilder."""

from __future__ import annotations

from typing import Final

from builder.ops.definition import builder_method
from builder.schema import BUILDER_H, Trait
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
    traits=Trait.STRUCTURE,
)

builder_method(PARAMETER, family="sources")


CONSTANT: Final = define(
    "constant", "", cpp_name="ConstantLiteral", section=BUILDER_H, cost=CostClass.FREE
)

builder_method(CONSTANT, family="sources")
