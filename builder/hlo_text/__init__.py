"""HLO text of a computation, in the form that XLA prints and its parser reads.

Most opcodes are written as they are recorded. A few say in one op what HLO says in two; they are
written as the two: a broadcast that also stretches dimensions of size 1, a constant that is one
value throughout. Ops that XLA gets wrong (`builder.workarounds`) are written in other words, the
same as those that `lowering` finds. The rules stand in one module for each family of ops.
"""

from builder.hlo_text import (
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
from builder.hlo_text.module import module_text as module_text
