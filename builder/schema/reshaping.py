"""Ops that broadcast, reorder, concatenate, pad and slice: the elements keep their values."""

from __future__ import annotations

from typing import Any

from builder.schema.definition import Attribute, CostClass, Group, define
from builder.schema.element_types import ANY
from builder.schema.kinds import DIMENSION, INTEGER, INTEGERS, PADDING

define("iota", "", (Attribute("iota_dimension", INTEGER),))
define("reshape", "operand", element_types={"operand": ANY})
define(
    "reverse",
    "operand",
    (Attribute("dimensions", INTEGERS),),
    cpp_name="Rev",
    section="Rev (reverse)",
    element_types={"operand": ANY},
)
define(
    "transpose",
    "operand",
    (Attribute("permutation", INTEGERS, "dimensions"),),
    element_types={"operand": ANY},
)
define(
    "broadcast_in_dim",
    "operand",
    (Attribute("broadcast_dimensions", INTEGERS, "dimensions"),),
    element_types={"operand": ANY},
    hlo="broadcast",
)
define(
    "concatenate",
    "*operands",
    (Attribute("dimension", DIMENSION, "dimensions"),),
    cpp_name="ConcatInDim",
    section="Concatenate",
    element_types={"operands": ANY},
)
define(
    "pad",
    "operand padding_value",
    (Attribute("padding_config", PADDING, "padding"),),
    element_types={"operand": ANY, "padding_value": ANY},
)

_BOUNDS = ("start_indices", "limit_indices", "strides")


def _slice(op: Any) -> str:
    bounds = zip(*(op.attributes[name] for name in _BOUNDS), strict=True)
    parts = [f"[{start}:{limit}:{stride}]" for start, limit, stride in bounds]
    return f", slice={{{', '.join(parts)}}}"


define(
    "slice",
    "operand",
    (*(Attribute(name, INTEGERS, None) for name in _BOUNDS), Group(_slice)),
    element_types={"operand": ANY},
    cost=CostClass.RULE,
)
