"""Schemas: the description of each opcode, as data.

A schema names the operands and attributes of an opcode, its names in C++, in HLO text and in
StableHLO, the element types of its operands, its traits, its cost and its tolerance. The table of
operations, HLO printing, lowering, import, cost analysis, tolerances and the reference loop over
schemas.
"""

from builder.schema.definition import (
    APPLYING as APPLYING,
    BUILDER_H as BUILDER_H,
    MATH_H as MATH_H,
    MISSING as MISSING,
    SCHEMAS as SCHEMAS,
    STABLEHLO as STABLEHLO,
    Attribute as Attribute,
    CostClass as CostClass,
    ElementTypes as ElementTypes,
    Group as Group,
    LargestTerm as LargestTerm,
    Monoid as Monoid,
    ResultType as ResultType,
    Schema as Schema,
    Tolerance as Tolerance,
    Trait as Trait,
    define as define,
    opcodes_with as opcodes_with,
)
from builder.schema.kinds import AttributeKind as AttributeKind
