"""The operations: what the user calls, one module for each family.

Each function takes XlaOps and attributes, has the result's shape inferred, and records one op (or
the few that XlaBuilder itself records for it).
"""

from builder import xla_op
from builder.ops import (
    collectives as collectives,
    contraction as contraction,
    control_flow as control_flow,
    dynamic as dynamic,
    elementwise as elementwise,
    host as host,
    indexing as indexing,
    linalg as linalg,
    normalization as normalization,
    random as random,
    reduction as reduction,
    reshaping as reshaping,
    sources as sources,
)
from builder.ops.elementwise.binary import right_shift_operator
from builder.ops.registry import OPERATIONS

xla_op.OPERATOR_FUNCTIONS.update(
    {name: info.function for name, info in OPERATIONS.items() if not info.is_method},
    right_shift_operator=right_shift_operator,
)
