"""Sizes that are computed at run time."""

from __future__ import annotations

from builder.schema.definition import BUILDER_H, Attribute, Schema, define
from builder.schema.kinds import DIMENSION

_DIMENSION = (Attribute("dimension", DIMENSION, "dimensions"),)

define(Schema("get_dimension_size", "operand", _DIMENSION))
define(Schema("set_dimension_size", "operand size", _DIMENSION))
define(Schema("dynamic_reshape", "operand *sizes", section=BUILDER_H))
