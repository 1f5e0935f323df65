"""Ops without operands in the table of operations: they are methods of XlaBuilder.

Each belongs to the family in whose modules its shape inference and its lowering rule stand.
"""

from __future__ import annotations

from builder.graph.registry import op
from builder.graph.xla_builder import XlaBuilder

__all__: list[str] = []

_BUILDER_H = "xla_builder.h (not in the document)"

op("Parameter", opcode="parameter", section=_BUILDER_H, family="control_flow", is_method=True)(
    XlaBuilder.parameter
)
op(
    "ConstantLiteral",
    opcode="constant",
    section=_BUILDER_H,
    family="elementwise",
    is_method=True,
)(XlaBuilder.constant)
op("Iota", opcode="iota", section="Iota", family="reshaping", is_method=True)(XlaBuilder.iota)
op("ReplicaId", opcode="replica_id", section="ReplicaId", family="collectives", is_method=True)(
    XlaBuilder.replica_id
)
op(
    "PartitionId",
    opcode="partition_id",
    section="StableHLO (not in the document)",
    family="collectives",
    is_method=True,
)(XlaBuilder.partition_id)
op("CreateToken", opcode="create_token", section=_BUILDER_H, family="host", is_method=True)(
    XlaBuilder.create_token
)
op("Infeed", opcode="infeed", section="Infeed", family="host", is_method=True)(XlaBuilder.infeed)
op("Recv", opcode="recv", section="Recv", family="host", is_method=True)(XlaBuilder.recv)
