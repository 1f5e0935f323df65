"""Sizes that are computed at run time."""

from __future__ import annotations

from builder.schema.definition import BUILDER_H, Attribute, define
from builder.schema.element_types import ANY, S32, S32_OR_S64
from builder.schema.kinds import DIMENSION, INTEGERS

_DIMENSION = (Attribute("dimension", DIMENSION, "dimensions"),)

define("get_dimension_size", "operand", _DIMENSION, element_types={"operand": ANY})
define(
    "set_dimension_size", "operand size", _DIMENSION, element_types={"operand": ANY, "size": S32}
)
define(
    "dynamic_reshape",
    "operand *sizes",
    section=BUILDER_H,
    element_types={"operand": ANY, "sizes": S32},
)
define(
    "dynamic_broadcast_in_dim",
    "operand output_dimensions",
    (Attribute("broadcast_dimensions", INTEGERS),),
    cpp_name="MhloDynamicBroadcastInDim",
    section=BUILDER_H,
    element_types={"operand": ANY, "output_dimensions": S32_OR_S64},
)
