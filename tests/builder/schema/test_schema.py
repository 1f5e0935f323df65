"""Schemas of opcodes: each op has one, and the tables of rules are complete."""

from __future__ import annotations

import copy
import inspect
import math
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.hlo_text.printer import RULES as HLO_RULES
from builder.inspection.stats import RULES as COST_RULES
from builder.schema import SCHEMAS, Attribute, CostClass, Schema, define
from builder.schema.kinds import INTEGERS
from builder.types import primitive_type as pt


def test_every_opcode_has_a_schema() -> None:
    assert {info.opcode for info in xb.OPERATIONS.values()} == set(SCHEMAS)


def test_keys_are_the_opcodes_of_the_schemas() -> None:
    assert all(schema.opcode == opcode for opcode, schema in SCHEMAS.items())


def test_schemas_with_a_cost_rule_are_those_of_the_rules() -> None:
    by_rule = {opcode for opcode, schema in SCHEMAS.items() if schema.cost is CostClass.RULE}
    assert set(COST_RULES) == by_rule


def test_hlo_rules_are_of_opcodes() -> None:
    assert set(HLO_RULES) <= set(SCHEMAS)


def test_an_opcode_is_defined_once() -> None:
    with pytest.raises(ValueError, match="'reverse' has a schema already"):
        define("reverse", "operand")


FUNCTIONS_OF_PYTHON = {
    "add": operator.add,
    "and": operator.and_,
    "maximum": max,
    "minimum": min,
    "multiply": operator.mul,
    "or": operator.or_,
    "xor": operator.xor,
}


def samples(element_type: pt.PrimitiveType) -> list[Any]:
    if element_type is pt.pred:
        return [False, True]
    if element_type.is_complex:
        return [1 + 2j, -3j]
    number = int if element_type.is_integral else float
    values = [number(element_type.min), number(element_type.max)]
    if element_type.is_floating:
        infinities = np.array([-math.inf, math.inf]).astype(element_type.dtype).astype(float)
        values += [value for value in infinities.tolist() if math.isinf(value)]
    return values


@each_row("opcode", [o for o, schema in SCHEMAS.items() if schema.monoid])
def test_identity_of_a_monoid_changes_no_value(opcode: str) -> None:
    schema, function = SCHEMAS[opcode], FUNCTIONS_OF_PYTHON[opcode]
    assert schema.monoid is not None
    for element_type in schema.element_types["lhs"].types:
        if opcode == "add" and element_type is pt.f8e8m0fnu:
            continue  # it has no zero
        identity = schema.monoid.identity(element_type)
        assert identity.dtype == element_type.dtype
        assert identity.shape == ()
        number = complex if element_type.is_complex else float
        if element_type is pt.pred or element_type.is_integral:
            number = int
        for value in samples(element_type):
            assert function(number(identity), value) == value, element_type


def test_defaults_and_derived_attributes() -> None:
    schema = Schema("a_b", "operand", (Attribute("sizes", INTEGERS),))
    assert (schema.hlo, schema.stablehlo) == ("a-b", "stablehlo.a_b")
    assert (schema.cpp_name, schema.section) == ("AB", "AB")
    assert [attribute.name for attribute in schema.value_attributes] == ["sizes"]
    assert schema.computations == ()
    assert repr(schema) == "Schema('a_b')"


def test_element_types_are_of_operands() -> None:
    for schema in SCHEMAS.values():
        names = {name.removeprefix("*") for name in schema.operands.split()}
        assert schema.element_types.keys() <= names


def test_copies_are_the_same_object() -> None:
    schema = SCHEMAS["reverse"]
    assert copy.deepcopy(schema) is schema
    assert pickle.loads(pickle.dumps(schema)) is schema


def test_parameters_are_those_of_public_ops() -> None:
    for schema in SCHEMAS.values():
        functions = [info.function for info in xb.OPERATIONS.values() if info.schema is schema]
        names = {name for function in functions for name in inspect.signature(function).parameters}
        attributes = (*schema.value_attributes, *schema.computation_attributes)
        assert {one.parameter for one in attributes if one.parameter} <= names, schema


def test_a_synonym_is_of_one_schema() -> None:
    operations = {schema.stablehlo for schema in SCHEMAS.values()}
    synonyms = [name for schema in SCHEMAS.values() for name in schema.synonyms]
    assert len(operations.union(synonyms)) == len(operations) + len(synonyms)
