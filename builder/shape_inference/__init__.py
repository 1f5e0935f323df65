"""Shape inference: functions from shapes and attributes to the shape of an op's result.

They need no builder, record nothing and remember nothing:

    >>> import builder as xb
    >>> infer = xb.shape_inference
    >>> infer.contraction.dot_general(xb.f32[32, 784], "f32[784,10]", (([1], [0]), ([], [])))
    f32[32,10]

One module for each family of ops, one function for each op, or for all ops that follow one rule
(`elementwise.unary`, `elementwise.binary`). Arguments are those of the op, with shapes in the place
of ops and a ProgramShape in the place of a computation; a shape may be given as text, and what else
the op takes in the forms that the op takes. A rule that is broken raises the ShapeInferenceError
that the op raises. docs/shape_inference.md shows more.
"""

from builder.check import Check as Check
from builder.shape_inference import (
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
)
