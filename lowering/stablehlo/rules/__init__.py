"""Lowering rules for the opcodes that need more than a schema; importing this registers them."""

from lowering.stablehlo.rules import (
    collectives as collectives,
    control_flow as control_flow,
    dynamic as dynamic,
    elementwise as elementwise,
    host as host,
    random as random,
    reduction as reduction,
)
