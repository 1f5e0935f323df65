"""Schemas of opcodes: each op has one, and its tables are complete."""

from __future__ import annotations

import pytest

import builder as xb
from builder.hlo_text.printer import RULES as HLO_RULES
from builder.inspection.costs import RULES as COST_RULES
from builder.schema import SCHEMAS, Attribute, CostClass, Schema, define
from builder.schema.kinds import INTEGERS


def test_every_opcode_has_a_schema() -> None:
    assert {info.opcode for info in xb.OPERATIONS.values()} == set(SCHEMAS)


def test_every_schema_is_under_its_opcode() -> None:
    assert all(schema.opcode == opcode for opcode, schema in SCHEMAS.items())


def test_a_rule_for_costs_belongs_to_each_schema_that_asks_for_one() -> None:
    wanted = {opcode for opcode, schema in SCHEMAS.items() if schema.cost is CostClass.RULE}
    assert set(COST_RULES) == wanted


def test_rules_of_hlo_text_belong_to_opcodes() -> None:
    assert set(HLO_RULES) <= set(SCHEMAS)


def test_an_opcode_is_defined_once() -> None:
    with pytest.raises(ValueError, match="'reverse' has a schema already"):
        define(Schema("reverse", "operand"))


def test_what_a_schema_derives() -> None:
    schema = Schema("a_b", "operand", (Attribute("sizes", INTEGERS),))
    assert (schema.hlo, schema.stablehlo) == ("a-b", "stablehlo.a_b")
    assert [one.name for one in schema.plain] == ["sizes"]
    assert schema.computations == ()
    assert repr(schema) == "Schema('a_b')"
