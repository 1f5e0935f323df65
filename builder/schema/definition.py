"""Schema: what is known of an opcode, as data."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from builder.schema.kinds import COMPUTATION, AttributeKind

__all__ = ["MISSING", "SCHEMAS", "Attribute", "CostClass", "Group", "Schema", "define"]


class _Missing(enum.Enum):
    MISSING = "MISSING"


MISSING: Final = _Missing.MISSING
"""No value, where None is one."""


class Attribute(NamedTuple):
    """An attribute of an opcode.

    Attributes:
        name: in the recorded op.
        kind: how it is printed, lowered and read.
        hlo: the name in HLO text, if it differs; None if a `Group` writes it.
        stablehlo: the name in StableHLO, if it differs; None if StableHLO has no such attribute.
        omitted: the value for which HLO text leaves it out.
        absent: the value of an operation in StableHLO that does not have it.
        unless: StableHLO has it only where this other attribute is None.
        written: a function of the op's attributes that gives the value to write instead.
    """

    name: str
    kind: AttributeKind
    hlo: str | None = ""
    stablehlo: str | None = ""
    omitted: Any = MISSING
    absent: Any = MISSING
    unless: str = ""
    written: Callable[[Mapping[str, Any]], Any] | None = None


class Group(NamedTuple):
    """Several attributes that HLO text has in one: ``slice={[0:4:1]}``.

    Attributes:
        hlo: a function of the op that gives the text; empty where there is nothing to write.
    """

    hlo: Callable[[Any], str]


class CostClass(enum.Enum):
    """What an op costs besides reading its operands and writing its result."""

    FREE = "nothing; it moves no data either"
    DATA_MOVEMENT = "nothing"
    ELEMENTWISE = "one operation for each element of the result"
    TRANSCENDENTAL = "one transcendental operation for each element of the result"
    RULE = "given by a function in builder.inspection.costs"
    CUSTOM = "unknown"


class Schema:
    """What is known of an opcode.

    Attributes:
        opcode: as in `XlaOp.opcode`.
        operands: the names of the operands, separated by spaces; ``*name`` is any number of them.
        attributes: in the order of HLO text.
        hlo: the name of the instruction in HLO text.
        stablehlo: the name of the operation, with its dialect.
        cost: see `CostClass`.
        ulps: how far results of two implementations may differ, in units in the last place; 0 for
            exact.
        plain: the attributes that are values.
        computations: the names of the computations, in the order of StableHLO's regions.
    """

    __slots__ = (
        "attributes",
        "computations",
        "cost",
        "hlo",
        "opcode",
        "operands",
        "plain",
        "stablehlo",
        "ulps",
    )

    def __init__(
        self,
        opcode: str,
        operands: str,
        attributes: Iterable[Attribute | Group] = (),
        *,
        hlo: str = "",
        stablehlo: str = "",
        cost: CostClass = CostClass.DATA_MOVEMENT,
        ulps: float = 0,
    ) -> None:
        self.opcode = opcode
        self.operands = operands
        self.attributes = tuple(attributes)
        self.hlo = hlo or opcode.replace("_", "-")
        self.stablehlo = stablehlo or f"stablehlo.{opcode}"
        self.cost = cost
        self.ulps = ulps
        values = [one for one in self.attributes if isinstance(one, Attribute)]
        self.plain = tuple(one for one in values if one.kind is not COMPUTATION)
        self.computations = tuple(one.name for one in values if one.kind is COMPUTATION)

    def __repr__(self) -> str:
        return f"Schema({self.opcode!r})"


SCHEMAS: Final[dict[str, Schema]] = {}
"""By opcode."""


def define(schema: Schema) -> Schema:
    """Enter a schema into `SCHEMAS`, and return it.

    Raises:
        ValueError: the opcode has one already.
    """
    if schema.opcode in SCHEMAS:
        raise ValueError(f"the opcode {schema.opcode!r} has a schema already")
    SCHEMAS[schema.opcode] = schema
    return schema
