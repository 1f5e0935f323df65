"""Import StableHLO: record every operation again, through the public ops.

Most operations are imported from their schema (`by_schema`). The others have an importer in the
module of their family, named as in `builder/ops`. `scope` iterates over the operations.
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
