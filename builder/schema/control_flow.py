"""Control flow, calls and tuples.

Attributes do not describe most of these ops completely, so HLO printing or lowering has a rule for
them.
"""

from __future__ import annotations

from typing import Any, Final

from builder.schema.definition import BUILDER_H, Attribute, CostClass, Group, define
from builder.schema.element_types import ANY
from builder.schema.kinds import (
    COMPUTATION,
    DICTIONARY,
    DIMENSION,
    FLAG,
    INTEGER,
    INTEGER32,
    TEXT,
)
from builder.schema.tolerance import APPLIED_ONCE, APPLIED_REPEATEDLY, Tolerance
from builder.types.shape import ArrayShape, leaves

DERIVATIVE: Final = "xlabuilder.derivative"
"""The frontend attribute of an `optimization_barrier` that has another derivative than its operand.

The barrier computes nothing, and is removed before a program is compiled."""

ZERO_DERIVATIVE: Final = "zero"
"""The value of `DERIVATIVE` for `lib.stop_gradient`."""

CUSTOM_DERIVATIVE: Final = "custom"
"""The value of `DERIVATIVE` for an identity whose derivative a rule of jax defines."""

define("tuple", "*operands", cost=CostClass.FREE)
define("get_tuple_element", "operand", (Attribute("index", INTEGER),), cost=CostClass.FREE)
define("optimization_barrier", "*operands", hlo="opt-barrier")
define(
    "while",
    "init",
    (Attribute("condition", COMPUTATION), Attribute("body", COMPUTATION)),
    cost=CostClass.FREE,
    tolerance=APPLIED_REPEATEDLY,
)
define(
    "call",
    "*operands",
    (Attribute("to_apply", COMPUTATION, stablehlo="callee"),),
    stablehlo="func.call",
    cost=CostClass.FREE,
    tolerance=APPLIED_ONCE,
)
define(
    "composite",
    "*operands",
    (
        Attribute("to_apply", COMPUTATION, stablehlo="decomposition", parameter="computation"),
        Attribute(
            "composite_attributes",
            DICTIONARY,
            None,
            frontend="composite.attributes",
            absent=None,
            parameter="attributes",
        ),
        Attribute("name", TEXT, None, frontend="composite.name"),
        Attribute("version", INTEGER32, None, frontend="composite.version", absent=0),
        Group(lambda _: ", is_composite=true"),
    ),
    cpp_name="CompositeCall",
    section=BUILDER_H,
    hlo="call",
    cost=CostClass.FREE,
    tolerance=APPLIED_ONCE,
)
define(
    "conditional",
    "pred *operands",
    (Attribute("branch_computations", COMPUTATION),),
    stablehlo="stablehlo.case",
    cost=CostClass.FREE,
    tolerance=APPLIED_ONCE,
)


def _steps(op: Any) -> int:
    """Return the size of the scanned dimension; 1 if no operand or result has this dimension."""
    dimension = op.attributes["scan_dimension"]
    shapes = [*(operand.shape for operand in op.operands), *leaves(op.shape)]
    ranked = [s.dimensions for s in shapes if isinstance(s, ArrayShape) and s.rank > dimension]
    return max((sizes[dimension] for sizes in ranked), default=1)


define(
    "scan",
    "*operands",
    (
        Attribute("scan_dimension", DIMENSION, "dimensions"),
        Attribute("is_reverse", FLAG, omitted=False),
        Attribute("num_carries", INTEGER),
        Attribute("is_associative", FLAG, omitted=None),
        Attribute("to_apply", COMPUTATION),
    ),
    section=BUILDER_H,
    element_types={"operands": ANY},
    stablehlo="stablehlo.while",
    tolerance=Tolerance(applications=_steps),
)
