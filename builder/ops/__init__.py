"""The operations: what the user calls, one module for each family.

Each function takes XlaOps and attributes, has the result's shape inferred, and records one op (or
the few that XlaBuilder itself records for it).
"""

from builder import xla_op
from builder.ops import contraction as contraction
from builder.ops import control_flow as control_flow
from builder.ops import elementwise as elementwise
from builder.ops import reduction as reduction
from builder.ops import reshaping as reshaping
from builder.ops import sources as sources
from builder.ops.elementwise.binary import right_shift_operator
from builder.ops.registry import OPERATIONS

xla_op.OPERATOR_FUNCTIONS.update(
    {name: info.function for name, info in OPERATIONS.items() if not info.is_method},
    right_shift_operator=right_shift_operator,
)
