"""Control flow, tuples, constants, the host, and code unknown to XLA.

Most of these have a rule by hand in HLO text, in StableHLO, or in both: a table of attributes does
not describe them.
"""

from __future__ import annotations

from builder.schema.definition import Attribute, CostClass, Schema, define
from builder.schema.kinds import COMPUTATION, DIMENSION, FLAG, INTEGER, Enumeration

for _opcode, _operands in (
    ("parameter", ""),
    ("constant", ""),
    ("tuple", "*operands"),
):
    define(Schema(_opcode, _operands, cost=CostClass.FREE))
define(Schema("get_tuple_element", "operand", (Attribute("index", INTEGER),), cost=CostClass.FREE))
define(
    Schema(
        "create_token", "", hlo="after-all", stablehlo="stablehlo.after_all", cost=CostClass.FREE
    )
)
define(Schema("after_all", "*operands", cost=CostClass.FREE))
define(Schema("optimization_barrier", "*operands", hlo="opt-barrier"))
define(
    Schema(
        "while",
        "init",
        (Attribute("condition", COMPUTATION), Attribute("body", COMPUTATION)),
        cost=CostClass.RULE,
    )
)
define(
    Schema(
        "call",
        "*operands",
        (Attribute("to_apply", COMPUTATION),),
        stablehlo="func.call",
        cost=CostClass.RULE,
    )
)
define(
    Schema(
        "composite",
        "*operands",
        (Attribute("to_apply", COMPUTATION),),
        hlo="call",
        cost=CostClass.RULE,
    )
)
define(
    Schema(
        "conditional",
        "pred *operands",
        (Attribute("branch_computations", COMPUTATION),),
        stablehlo="stablehlo.case",
        cost=CostClass.RULE,
    )
)
define(
    Schema(
        "scan",
        "*operands",
        (
            Attribute("scan_dimension", DIMENSION, "dimensions"),
            Attribute("is_reverse", FLAG, omitted=False),
            Attribute("num_carries", INTEGER),
            Attribute("is_associative", FLAG, omitted=None),
            Attribute("to_apply", COMPUTATION),
        ),
        stablehlo="stablehlo.while",
        cost=CostClass.RULE,
    )
)
define(
    Schema(
        "rng",
        "a b",
        (
            Attribute(
                "distribution",
                Enumeration("rng_distribution", prefix="rng_"),
                stablehlo="rng_distribution",
            ),
        ),
        cost=CostClass.RULE,
    )
)
define(Schema("stochastic_convert", "operand random", cost=CostClass.ELEMENTWISE))
define(Schema("dynamic_reshape", "operand *sizes"))
define(Schema("infeed", "token"))
define(Schema("outfeed", "operand token", cost=CostClass.RULE))
define(Schema("send", "operand token"))
define(Schema("recv", "token"))
define(
    Schema(
        "custom_call",
        "*operands",
        (Attribute("to_apply", COMPUTATION),),
        cost=CostClass.CUSTOM,
    )
)
define(
    Schema(
        "python_call",
        "*operands",
        hlo="custom-call",
        stablehlo="stablehlo.custom_call",
        cost=CostClass.CUSTOM,
    )
)
