"""Sizes that are computed at run time."""

from __future__ import annotations

from builder.schema.definition import BUILDER_H, Attribute, define
from builder.schema.element_types import ANY, S32
from builder.schema.kinds import DIMENSION

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
