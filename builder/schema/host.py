"""Tokens, transfers, and calls of code outside XLA.

Lowering has a rule for most of these ops, because an op that returns a tuple in XLA returns several
values in StableHLO.
"""

from __future__ import annotations

from typing import Any, Final

from builder.attributes.host import CustomCallApiVersion, CustomCallSchedule, ffi_dictionary
from builder.schema.definition import BUILDER_H, Attribute, CostClass, Group, define
from builder.schema.element_types import ANY
from builder.schema.kinds import (
    ALIASES,
    BYTES,
    CHANNEL,
    OPTIONAL_COMPUTATION,
    OPTIONAL_FLAG,
    SHAPE,
    SHAPES,
    TEXT,
    NumberedEnumeration,
)
from builder.schema.syntax import quoted
from builder.schema.tolerance import APPLIED_REPEATEDLY

PYTHON_CALL: Final = "xlabuilder.python_call"
"""The target of custom calls that represent calls of Python functions."""

define(
    "create_token",
    "",
    section=BUILDER_H,
    hlo="after-all",
    stablehlo="stablehlo.after_all",
    cost=CostClass.FREE,
)
define("after_all", "*operands", cost=CostClass.FREE)

define(
    "infeed",
    "token",
    (Attribute("infeed_config", BYTES, omitted="", absent="", parameter="config"),),
)
define(
    "outfeed",
    "operand token",
    (
        Attribute("outfeed_shape", SHAPE, stablehlo=None),
        Attribute("outfeed_config", BYTES, omitted="", absent=""),
    ),
    section=BUILDER_H,
    cost=CostClass.RULE,
)

_TRANSFER = (
    Attribute("channel_handle", CHANNEL, "channel_id"),
    Attribute("is_host_transfer", OPTIONAL_FLAG, omitted=False),
    Attribute("data_shape", SHAPE, None, None),
)

define("send", "operand token", _TRANSFER, element_types={"operand": ANY})
define("recv", "token", _TRANSFER)

_HAS_SIDE_EFFECT = Attribute(
    "has_side_effect", OPTIONAL_FLAG, "custom_call_has_side_effect", omitted=False
)
_VERSION = CustomCallApiVersion.API_VERSION_ORIGINAL


def _backend_config(op: Any) -> str:
    opaque = op.attributes["opaque"]
    is_typed = op.attributes["api_version"] is CustomCallApiVersion.API_VERSION_TYPED_FFI
    # An MLIR dictionary is not quoted.
    text = opaque if is_typed and opaque.startswith("{") else BYTES.text(opaque)
    return f", backend_config={text}" if opaque else ""


define(
    "custom_call",
    "*operands",
    (
        Attribute("call_target_name", TEXT, "custom_call_target", parameter="target_name"),
        Attribute(
            "operand_shapes_with_layout", SHAPES, "operand_layout_constraints", None, omitted=None
        ),
        _HAS_SIDE_EFFECT,
        Attribute(
            "output_operand_aliasing", ALIASES, "output_to_operand_aliasing", None, omitted=()
        ),
        Attribute(
            "to_apply",
            OPTIONAL_COMPUTATION,
            "called_computations",
            "called_computations",
            parameter="computation",
        ),
        Attribute(
            "schedule",
            NumberedEnumeration(CustomCallSchedule),
            stablehlo=None,
            omitted=CustomCallSchedule.SCHEDULE_NONE,
        ),
        Attribute(
            "api_version",
            NumberedEnumeration(CustomCallApiVersion),
            omitted=_VERSION,
            absent=_VERSION,
        ),
        # In StableHLO the attribute is text or a dictionary.
        Attribute("opaque", BYTES, None, None),
        Group(_backend_config),
    ),
    cost=CostClass.CUSTOM,
    tolerance=APPLIED_REPEATEDLY,
)


def _python_function(op: Any) -> str:
    """Return the HLO attributes with the name of the Python function that is called."""
    name = ffi_dictionary("python_call", {"name": op.attributes["name"]})
    return f", api_version=API_VERSION_TYPED_FFI, backend_config={name}"


define(
    "python_call",
    "*operands",
    (
        Group(lambda _: f", custom_call_target={quoted(PYTHON_CALL)}"),
        _HAS_SIDE_EFFECT,
        Attribute("name", TEXT, None, None),
        Group(_python_function),
    ),
    cpp_name="(none)",
    section="CustomCall, of a Python function",
    hlo="custom-call",
    stablehlo="stablehlo.custom_call",
    cost=CostClass.CUSTOM,
)
