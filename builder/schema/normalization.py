"""Batch normalization."""

from __future__ import annotations

import math
from typing import Any

from builder.schema.definition import Attribute, define
from builder.schema.element_types import FLOATING
from builder.schema.kinds import FLOAT32, INTEGER
from builder.schema.tolerance import Tolerance

_ATTRIBUTES = (Attribute("epsilon", FLOAT32), Attribute("feature_index", INTEGER))


def _averaged(op: Any) -> int:
    """Return the number of operand elements over which the mean of a feature is computed."""
    sizes = op.operands[0].shape.dimensions
    return math.prod(size for d, size in enumerate(sizes) if d != op.attributes["feature_index"])


for _opcode, _operands in (
    ("batch_norm_training", "operand scale offset"),
    ("batch_norm_inference", "operand scale offset mean variance"),
    ("batch_norm_grad", "operand scale mean variance grad_output"),
):
    define(
        _opcode,
        _operands,
        _ATTRIBUTES,
        element_types=dict.fromkeys(_operands.split(), FLOATING),
        tolerance=Tolerance(2, terms=_averaged),
    )
