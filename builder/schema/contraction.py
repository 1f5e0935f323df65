"""Dot products and convolutions."""

from __future__ import annotations

import math
from typing import Any

from builder.attributes import DotDimensionNumbers, Padding, Precision, RaggedDotDimensionNumbers
from builder.schema.definition import BUILDER_H, Attribute, CostClass, Group, define
from builder.schema.element_types import ANY, INTEGER as INTEGER_TYPES
from builder.schema.kinds import (
    ALGORITHM,
    CONVOLUTION_DIMENSIONS,
    FLAGS,
    INTEGER,
    INTEGERS,
    PAIRS,
    PRECISION,
    DimensionNumbers,
    Field,
    Precisions,
)
from builder.schema.tolerance import LargestTerm, Tolerance
from builder.schema.window import window_text

_DEFAULT = (Precision.DEFAULT, Precision.DEFAULT)
_PRECISION = Attribute(
    "precision",
    PRECISION,
    "operand_precision",
    "precision_config",
    omitted=_DEFAULT,
    absent=_DEFAULT,
    # None is the default of the public ops, which need not check it.
    argument=lambda pair: None if pair == _DEFAULT else pair,
)


def _dot_fields(inside: str = "") -> list[Field]:
    return [
        Field(
            f"{inside}{side}_{kind}_dimensions",
            f"{side}_{kind}_dims",
            f"{side}_{stablehlo}_dimensions",
            kind == "batch",
        )
        for side in ("lhs", "rhs")
        for kind, stablehlo in (("batch", "batching"), ("contracting", "contracting"))
    ]


_DOT = DimensionNumbers(DotDimensionNumbers, "stablehlo.dot", _dot_fields())
_RAGGED_DOT = DimensionNumbers(
    RaggedDotDimensionNumbers,
    "chlo.ragged_dot",
    [
        *_dot_fields("dot_dimension_numbers."),
        Field("lhs_ragged_dimensions", "lhs_ragged_dims", "lhs_ragged_dimensions"),
        Field("rhs_group_dimensions", "rhs_group_dims", "rhs_group_dimensions", True),
    ],
)


def _contracted(op: Any) -> int:
    """Return the number of products that are added up for each element of a dot product."""
    numbers = op.attributes["dimension_numbers"]
    dot_numbers = getattr(numbers, "dot_dimension_numbers", numbers)
    sizes = op.operands[0].shape.dimensions
    return math.prod(sizes[d] for d in dot_numbers.lhs_contracting_dimensions)


_DOT_TOLERANCE = Tolerance(2, terms=_contracted, largest_term=LargestTerm.PRODUCT)

define(
    "dot_general",
    "lhs rhs",
    (
        Attribute("dimension_numbers", _DOT, stablehlo="dot_dimension_numbers"),
        _PRECISION._replace(unless="algorithm"),
        Attribute("algorithm", ALGORITHM, omitted=None, absent=None),
    ),
    element_types={"lhs": ANY, "rhs": ANY},
    hlo="dot",
    cost=CostClass.RULE,
    tolerance=_DOT_TOLERANCE,
)

define(
    "ragged_dot",
    "lhs rhs group_sizes",
    (
        Attribute("dimension_numbers", _RAGGED_DOT, stablehlo="ragged_dot_dimension_numbers"),
        _PRECISION._replace(kind=Precisions("chlo")),
    ),
    section=BUILDER_H,
    element_types={"lhs": ANY, "rhs": ANY, "group_sizes": INTEGER_TYPES},
    stablehlo="chlo.ragged_dot",
    synonyms=("mhlo.ragged_dot",),
    cost=CostClass.RULE,
    tolerance=_DOT_TOLERANCE,
)


def _kernel_size(op: Any) -> int:
    """Return the maximum number of products that are added up for an element of a convolution."""
    kernel = op.operands[1].shape.dimensions
    output = op.attributes["dimension_numbers"].kernel_output_feature_dimension
    return math.prod(size for d, size in enumerate(kernel) if d != output)


def _window(op: Any) -> str:
    attributes = op.attributes
    kernel = op.operands[1].shape.dimensions
    size = [kernel[d] for d in attributes["dimension_numbers"].kernel_spatial_dimensions]
    lists = {
        "stride": attributes["window_strides"],
        "lhs_dilate": attributes["lhs_dilation"],
        "rhs_dilate": attributes["rhs_dilation"],
        "rhs_reversal": [int(is_reversed) for is_reversed in attributes["window_reversal"]],
    }
    return window_text(size, attributes["padding"], lists)


define(
    "convolution",
    "lhs rhs",
    (
        Group(_window),
        Attribute("window_strides", INTEGERS, None, absent=()),
        Attribute("padding", PAIRS, None, absent=Padding.VALID),
        Attribute("lhs_dilation", INTEGERS, None, absent=None),
        Attribute("rhs_dilation", INTEGERS, None, absent=None),
        Attribute("window_reversal", FLAGS, None),
        Attribute("dimension_numbers", CONVOLUTION_DIMENSIONS, "dim_labels"),
        Attribute("feature_group_count", INTEGER, omitted=1),
        Attribute("batch_group_count", INTEGER, omitted=1),
        _PRECISION,
    ),
    cpp_name="ConvGeneralDilated",
    section=BUILDER_H,
    element_types={"lhs": ANY, "rhs": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(2, terms=_kernel_size, largest_term=LargestTerm.PRODUCT),
)
