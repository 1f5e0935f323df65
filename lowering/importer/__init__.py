"""From StableHLO to a computation: every operation recorded again, through the public ops.

One module a family, with the names of `builder/ops` and `lowering/stablehlo/rules`; `scope` is the
walk.
"""

from lowering.importer import (
    chlo as chlo,
    collectives as collectives,
    constants as constants,
    contraction as contraction,
    control_flow as control_flow,
    dynamic as dynamic,
    elementwise as elementwise,
    host as host,
    indexing as indexing,
    mhlo as mhlo,
    random as random,
    reduction as reduction,
    reshaping as reshaping,
    sharding as sharding,
)
from lowering.importer.importing import to_computation as to_computation

__all__ = ["to_computation"]
