"""Ops that read and write at indices computed at run time."""

from __future__ import annotations

import math
from typing import Any

from builder.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from builder.schema.definition import Attribute, CostClass, define
from builder.schema.element_types import ANY, INTEGER
from builder.schema.kinds import COMPUTATION, FLAG, INTEGERS, DimensionNumbers, Field
from builder.schema.tolerance import Tolerance

define(
    "dynamic_slice",
    "operand *start_indices",
    (Attribute("slice_sizes", INTEGERS, "dynamic_slice_sizes", parameter="size_indices"),),
    element_types={"operand": ANY, "start_indices": INTEGER},
    cost=CostClass.RULE,
)
define(
    "dynamic_update_slice",
    "operand update *start_indices",
    element_types={"operand": ANY, "update": ANY, "start_indices": INTEGER},
    cost=CostClass.RULE,
)


def _numbers(bundle: type[Any], mnemonic: str) -> DimensionNumbers:
    """Return the attribute kind of `bundle`; HLO and StableHLO have the same field names."""
    names = bundle.__match_args__
    fields = [Field(name, name, name, name.endswith("batching_dims")) for name in names]
    return DimensionNumbers(bundle, mnemonic, fields)


define(
    "gather",
    "operand start_indices",
    (
        Attribute("dimension_numbers", _numbers(GatherDimensionNumbers, "stablehlo.gather")),
        Attribute("indices_are_sorted", FLAG, omitted=False, absent=False),
        Attribute("slice_sizes", INTEGERS),
    ),
    element_types={"operand": ANY, "start_indices": INTEGER},
    cost=CostClass.RULE,
)


def _windows(op: Any) -> int:
    """Return the number of windows of a scatter; all windows may update the same element."""
    in_window = op.attributes["dimension_numbers"].update_window_dims
    sizes = op.operands[-1].shape.dimensions
    return math.prod(size for d, size in enumerate(sizes) if d not in in_window)


define(
    "scatter",
    "*operands scatter_indices *updates",
    (
        Attribute(
            "dimension_numbers",
            _numbers(ScatterDimensionNumbers, "stablehlo.scatter"),
            stablehlo="scatter_dimension_numbers",
        ),
        Attribute("indices_are_sorted", FLAG, omitted=False, absent=False),
        Attribute("unique_indices", FLAG, omitted=False, absent=False),
        Attribute("to_apply", COMPUTATION, parameter="update_computation"),
    ),
    element_types={"operands": ANY, "scatter_indices": INTEGER, "updates": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_windows),
)
