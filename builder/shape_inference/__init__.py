"""Shape inference: pure functions from shapes to the shape of an op's result.

Usable without a builder: ``shape_inference.elementwise.binary("add", f32[2, 3], f32[3], (1,))``.
One module for each family of ops; each function raises a ShapeInferenceError when the operands
break a rule of the op.
"""

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
)
from builder.shape_inference.check import Check as Check
