"""Shape inference: functions from shapes and attributes to the shape of an op's result.

The functions need no builder, record nothing and have no state:

    >>> import builder as xb
    >>> infer = xb.shape_inference
    >>> infer.contraction.dot_general(xb.f32[32, 784], "f32[784,10]", (([1], [0]), ([], [])))
    f32[32,10]

There is one module for each family of ops, and one function for each op. The arguments are those of
the op, with shapes in place of ops and a ProgramShape in place of a computation. A shape may be
passed as text. Other arguments may have any form that the op accepts. For invalid arguments, a
function raises the same ShapeInferenceError as the op.

A comment above each check cites the rule that it implements; docs/shape_inference.md explains the
form of the citations.
"""

from builder.check import Check as Check
from builder.ops.rules import (
    collectives as collectives,
    contraction as contraction,
    control_flow as control_flow,
    dynamic as dynamic,
    host as host,
    indexing as indexing,
    linalg as linalg,
    reduction as reduction,
    sharding as sharding,
)
