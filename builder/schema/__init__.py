"""Schemas: what is known of each opcode, as data.

A schema names the operands and attributes of an opcode, its names in HLO text and in StableHLO,
what it costs, and how exact it is. HLO printing, lowering, import, cost analysis, tolerances and
the reference loop over schemas.
"""

from builder.schema import (
    collectives as collectives,
    contraction as contraction,
    elementwise as elementwise,
    indexing as indexing,
    linalg as linalg,
    reduction as reduction,
    reshaping as reshaping,
    structure as structure,
)
from builder.schema.definition import (
    MISSING as MISSING,
    SCHEMAS as SCHEMAS,
    Attribute as Attribute,
    CostClass as CostClass,
    Group as Group,
    Schema as Schema,
    define as define,
)
from builder.schema.kinds import AttributeKind as AttributeKind
