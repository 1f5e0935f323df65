"""The public operations, one module for each family.

Each function takes XlaOps and attributes, infers the shape of the result, and records one op, or
the few that XlaBuilder itself records for it.
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
from builder.ops.elementwise.binary import right_shift_operator

xla_op.OPERATOR_FUNCTIONS.update(
    {name: info.function for name, info in OPERATIONS.items() if not info.is_method},
    right_shift_operator=right_shift_operator,
)

# The functions replace the methods of XlaOp that only call them, which saves a call for each
# operator. `__pow__` is not replaced, because its third argument is not that of `pow`.
for _method, _name in {
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "__mod__": "rem",
    "__matmul__": "dot",
    "__and__": "and_",
    "__or__": "or_",
    "__xor__": "xor",
    "__lshift__": "shift_left",
    "__rshift__": "right_shift_operator",
    "__neg__": "neg",
    "__abs__": "abs",
    "__invert__": "not_",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
}.items():
    setattr(xla_op.XlaOp, _method, xla_op.OPERATOR_FUNCTIONS[_name])
