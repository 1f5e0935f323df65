"""Lowering rules for the opcodes that need more than a schema; importing this registers them."""

from builder.schema import SCHEMAS
from lowering.stablehlo.rules import (
    collectives as collectives,
    control_flow as control_flow,
    dynamic as dynamic,
    elementwise as elementwise,
    host as host,
    random as random,
    reduction as reduction,
)
from lowering.stablehlo.rules.registry import EXCEPTIONS, ONE_TO_ONE, RULES

ONE_TO_ONE.update(
    {
        opcode: schema.stablehlo
        for opcode, schema in SCHEMAS.items()
        if opcode != "parameter" and (opcode not in RULES or opcode in EXCEPTIONS)
    }
)
