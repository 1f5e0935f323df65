"""Shape inference: pure functions from shapes to the shape of an op's result.

Usable without a builder: ``shape_inference.elementwise.binary("add", f32[2, 3], f32[3], (1,))``.
One module for each family of ops; each function raises a ShapeInferenceError when the operands
break a rule of the op.
"""

from builder.shape_inference import contraction as contraction
from builder.shape_inference import control_flow as control_flow
from builder.shape_inference import elementwise as elementwise
from builder.shape_inference import reduction as reduction
from builder.shape_inference import reshaping as reshaping
from builder.shape_inference.check import Check as Check
