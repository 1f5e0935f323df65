"""How jax evaluates each opcode: one module per family.

Importing this package fills `RULES`.
"""

from lowering.jax_interop.rules import (
    collectives as collectives,
    contraction as contraction,
    control_flow as control_flow,
    convolution as convolution,
    decompositions as decompositions,
    dynamic as dynamic,
    elementwise as elementwise,
    host as host,
    indexing as indexing,
    linalg as linalg,
    normalization as normalization,
    random as random,
    reduction as reduction,
    reshaping as reshaping,
    sorting as sorting,
    windows as windows,
)
