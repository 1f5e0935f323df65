"""Batch normalization."""

from __future__ import annotations

from builder.schema.definition import Attribute, define
from builder.schema.element_types import FLOATING
from builder.schema.kinds import FLOAT32, INTEGER

_ATTRIBUTES = (Attribute("epsilon", FLOAT32), Attribute("feature_index", INTEGER))

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
        ulps_per_term=2,
    )
