"""Reductions, windows, sorts."""

from __future__ import annotations

import math
from typing import Any

from builder.attributes import Padding
from builder.schema.definition import BUILDER_H, Attribute, CostClass, Group, define
from builder.schema.element_types import ANY
from builder.schema.kinds import COMPUTATION, DIMENSION, FLAG, INTEGER, INTEGERS, PAIRS
from builder.schema.tolerance import Tolerance
from builder.schema.window import window_text


def _reduced(op: Any) -> int:
    """Return the number of operand elements that are reduced to one element of the result."""
    sizes = op.operands[0].shape.dimensions
    return math.prod(sizes[d] for d in op.attributes["dimensions"])


def _window_size(op: Any) -> int:
    """Return the number of elements in a window."""
    return math.prod(op.attributes["window_dimensions"])


define(
    "reduce",
    "*operands *init_values",
    (
        Attribute("dimensions", INTEGERS),
        Attribute("to_apply", COMPUTATION, parameter="computation"),
    ),
    element_types={"operands": ANY, "init_values": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_reduced),
)


def _window(op: Any) -> str:
    attributes = op.attributes
    lists = {
        "stride": attributes["window_strides"],
        "lhs_dilate": attributes.get("base_dilations", ()),
        "rhs_dilate": attributes.get("window_dilations", ()),
    }
    return window_text(attributes["window_dimensions"], attributes["padding"], lists)


define(
    "reduce_window",
    "*operands *init_values",
    (
        Attribute("window_dimensions", INTEGERS, None),
        Attribute("window_strides", INTEGERS, None, absent=None),
        Attribute("base_dilations", INTEGERS, None),
        Attribute("window_dilations", INTEGERS, None),
        Attribute("padding", PAIRS, None, absent=Padding.VALID),
        Group(_window),
        Attribute("to_apply", COMPUTATION, parameter="computation"),
    ),
    element_types={"operands": ANY, "init_values": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_window_size),
)
define(
    "select_and_scatter",
    "operand source init_value",
    (
        Attribute("window_dimensions", INTEGERS, None, absent=()),  # of a scalar
        Attribute("window_strides", INTEGERS, None, absent=None),
        Attribute("padding", PAIRS, None, absent=Padding.VALID),
        Group(_window),
        Attribute("select", COMPUTATION),
        Attribute("scatter", COMPUTATION),
    ),
    element_types={"operand": ANY, "source": ANY, "init_value": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_window_size),
)
define(
    "sort",
    "*operands",
    (
        Attribute("dimension", DIMENSION, "dimensions"),
        Attribute("is_stable", FLAG, omitted=False, absent=False),
        Attribute("to_apply", COMPUTATION, parameter="comparator"),
    ),
    element_types={"operands": ANY},
    cost=CostClass.RULE,
)
define(
    "top_k",
    "operand",
    (Attribute("k", INTEGER), Attribute("largest", FLAG, stablehlo=None)),
    section=BUILDER_H,
    element_types={"operand": ANY},
    hlo="topk",
    stablehlo="chlo.top_k",
    synonyms=("mhlo.topk",),
)
