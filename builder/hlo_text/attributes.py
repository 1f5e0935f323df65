"""The attributes of an instruction in HLO text, from the schema of its opcode."""

from __future__ import annotations

from collections.abc import Callable

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import MISSING, Group, Schema
from builder.schema.kinds import Computation


def attributes_text(schema: Schema, op: XlaOp, called: Callable[[XlaComputation], str]) -> str:
    """Return the attributes of an op as they follow the operands in HLO text: ``, index=1``.

    Args:
        schema: the schema of the opcode.
        op: the op.
        called: a function that returns the reference to a computation, such as "%body".
    """
    parts = []
    for attribute in schema.attributes:
        if isinstance(attribute, Group):
            parts.append(attribute.hlo(op))
        elif isinstance(attribute.kind, Computation):
            computation = op.attributes.get(attribute.name)
            if computation is not None:
                name = attribute.hlo or attribute.name
                parts.append(attribute.kind.hlo(name, called(computation)))
        elif attribute.hlo is not None:
            value = attribute.value(op.attributes)
            if attribute.omitted is MISSING or value != attribute.omitted:
                parts.append(attribute.kind.hlo(attribute.hlo or attribute.name, value))
    return "".join(parts)
