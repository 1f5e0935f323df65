"""The public operations, one module for each family.

Each function takes XlaOps and attributes, infers the shape of the result, and records one op, or
the few ops that XLA's C++ XlaBuilder records for the same function.
"""

from builder.graph import xla_op
from builder.graph.registry import OPERATIONS
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
    sharding as sharding,
    sources as sources,
)
from builder.ops.elementwise.binary import (
    division_operator,
    remainder_operator,
    right_shift_operator,
)

xla_op.OPERATOR_FUNCTIONS.update(
    {name: info.function for name, info in OPERATIONS.items() if not info.is_method},
    division_operator=division_operator,
    remainder_operator=remainder_operator,
    right_shift_operator=right_shift_operator,
)

# The functions replace the methods of XlaOp that only call them, which saves a call for each
# operator. `__pow__` is not replaced, because its third argument is not that of `pow`, and
# `__matmul__` not, because only some products are dot products.
for _name, (_method, _) in xla_op.OPERATORS.items():
    if _name not in ("pow", "dot"):
        setattr(xla_op.XlaOp, _method, xla_op.OPERATOR_FUNCTIONS[_name])
