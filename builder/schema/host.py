"""Tokens, transfers, and calls of code outside XLA.

HLO text or StableHLO has a rule for most of these, which prints or reads the remaining attributes.
"""

from __future__ import annotations

from builder.schema.definition import BUILDER_H, Attribute, CostClass, define
from builder.schema.element_types import ANY
from builder.schema.kinds import COMPUTATION
from builder.schema.tolerance import APPLIED_REPEATEDLY

define(
    "create_token",
    "",
    section=BUILDER_H,
    hlo="after-all",
    stablehlo="stablehlo.after_all",
    cost=CostClass.FREE,
)
define("after_all", "*operands", cost=CostClass.FREE)
define("infeed", "token")
define("outfeed", "operand token", section=BUILDER_H, cost=CostClass.RULE)
define("send", "operand token", element_types={"operand": ANY})
define("recv", "token")
define(
    "custom_call",
    "*operands",
    (Attribute("to_apply", COMPUTATION),),
    cost=CostClass.CUSTOM,
    tolerance=APPLIED_REPEATEDLY,
)
define(
    "python_call",
    "*operands",
    cpp_name="(none)",
    section="CustomCall, of a Python function",
    hlo="custom-call",
    stablehlo="stablehlo.custom_call",
    cost=CostClass.CUSTOM,
)
