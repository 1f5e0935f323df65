"""What lowering, import and jax need of an op beyond its data; one module or folder per family.

Importing the package fills the tables of `registry`. A family has, for each op: its rule for
StableHLO, its importer, its rule for jax, and the derivative if that is not jax's. jax is imported
when a rule for jax is first used.
"""

from lowering.ops import (
    collectives as collectives,
    contraction as contraction,
    control_flow as control_flow,
    debugging as debugging,
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
