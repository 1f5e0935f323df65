"""The attributes of StableHLO operations, written and read by the schemas of opcodes.

The kinds of attributes (`builder.schema.kinds`) have the form of each value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jaxlib.mlir import ir

from builder.errors import XlaError
from builder.graph.computation import XlaComputation
from builder.schema import MISSING, SCHEMAS, Schema
from lowering.mlir.attributes import UNREADABLE, Attribute, ReadableAttribute, symbol


def stablehlo_attributes(schema: Schema, attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    """Return the attributes of the StableHLO operation of an op, as MLIR text.

    Args:
        schema: the schema of the op's opcode.
        attributes: the attributes of the op.
    """
    written: dict[str, Attribute] = {}
    for attribute in schema.value_attributes:
        name = attribute.stablehlo
        if name is None or (attribute.unless and attributes[attribute.unless] is not None):
            continue
        value = attribute.value(attributes)
        if value is None:
            continue
        form = attribute.kind.stablehlo(value)
        if attribute.kind.PARTS:
            written.update(zip(attribute.kind.PARTS, form, strict=True))
        elif form is not None:
            written[name or attribute.name] = form
    return written


def function_attributes(
    schema: Schema, attributes: Mapping[str, Any], functions: Mapping[XlaComputation, str]
) -> dict[str, Attribute]:
    """Return the attributes of a StableHLO operation that name functions, as MLIR text.

    Args:
        schema: the schema of the op's opcode.
        attributes: the attributes of the op.
        functions: the symbols of the functions, by computation.
    """
    return {
        attribute.stablehlo: attribute.kind.stablehlo(symbol(functions[attributes[attribute.name]]))
        for attribute in schema.computation_attributes
        if attribute.stablehlo and attribute.name in attributes
    }


def reader_of(opcode: str, name: str) -> Callable[[ir.Attribute], Any]:
    """Return a function that reads an attribute of an opcode from an MLIR attribute."""
    attributes = SCHEMAS[opcode].value_attributes
    (kind,) = (attribute.kind for attribute in attributes if attribute.name == name)
    return lambda attribute: kind.read(ReadableAttribute(attribute))


def attribute_names(schema: Schema) -> tuple[str, ...]:
    """Return the names of the StableHLO attributes that `read_attributes` looks up."""
    names: list[str] = []
    for attribute in schema.value_attributes:
        if attribute.stablehlo is not None:
            names += attribute.kind.PARTS or [attribute.stablehlo or attribute.name]
    return tuple(names)


def read_attributes(
    schema: Schema, attributes: Mapping[str, ir.Attribute] | ir.OpAttributeMap
) -> dict[str, Any]:
    """Convert the attributes of a StableHLO operation to the attributes of an op.

    An attribute that the operation does not have gets the value `absent` of its schema, or is
    omitted if the schema has no such value.

    Raises:
        XlaError: an attribute has no counterpart in XLA, or can't be read.
    """
    values: dict[str, Any] = {}
    for attribute in schema.value_attributes:
        kind = attribute.kind
        if attribute.stablehlo is None:
            continue
        name = attribute.stablehlo or attribute.name
        if kind.PARTS:
            values[attribute.name] = kind.read(
                [ReadableAttribute(attributes[n]) for n in kind.PARTS]
            )
        elif name in attributes:
            try:
                values[attribute.name] = kind.read(ReadableAttribute(attributes[name]))
            except TypeError:  # MLIR's Python has no class for an entry of a dictionary
                raise XlaError(f"{name} {UNREADABLE}") from None
        elif kind.ABSENT is not None:
            values[attribute.name] = kind.ABSENT
        elif attribute.absent is not MISSING:
            values[attribute.name] = attribute.absent
    return values
