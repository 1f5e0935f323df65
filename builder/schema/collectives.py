"""Ops across replicas and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.attributes import ReplicaGroups
from builder.attributes.collectives import channel_of
from builder.schema.definition import BUILDER_H, Attribute, CostClass, Group, Schema, define
from builder.schema.kinds import CHANNEL, COMPUTATION, DIMENSION, GROUPS, INTEGER, PAIRS, UNIT


def _all_participants(attributes: Mapping[str, Any]) -> ReplicaGroups:
    """HLO has no split count: it is the size of the groups. StableHLO's verifier wants groups."""
    groups: ReplicaGroups = attributes["replica_groups"]
    return groups.or_one_of(attributes["split_count"])


def _layout(op: Any) -> str:
    return ", constrain_layout=true" if "shape_with_layout" in op.attributes else ""


CHANNEL_HANDLE = Attribute(
    "channel_handle", CHANNEL, "channel_id", omitted=None, absent=None, written=channel_of
)
_GROUPS = Attribute("replica_groups", GROUPS)
PARTICIPANTS = (CHANNEL_HANDLE, _GROUPS, Group(_layout))
"""The attributes that name the replicas that take part."""
DEVICES = (
    CHANNEL_HANDLE,
    _GROUPS,
    Attribute("use_global_device_ids", UNIT, omitted=False),
    Group(_layout),
)
"""The same of ops whose groups may hold numbers of devices."""

_APPLIED = Attribute("to_apply", COMPUTATION)

define(Schema("replica_id", ""))
define(Schema("partition_id", "", section="StableHLO (not in the document)"))
define(Schema("all_reduce", "*operands", (*DEVICES, _APPLIED), cost=CostClass.RULE))
define(
    Schema(
        "all_gather",
        "*operands",
        (*DEVICES, Attribute("all_gather_dim", DIMENSION, "dimensions")),
    )
)
define(
    Schema(
        "reduce_scatter",
        "*operands",
        (*DEVICES, Attribute("scatter_dimension", DIMENSION, "dimensions"), _APPLIED),
    )
)
define(
    Schema(
        "all_to_all",
        "operand",
        (
            CHANNEL_HANDLE,
            Attribute("replica_groups", GROUPS, written=_all_participants),
            Group(_layout),
            Attribute("split_dimension", DIMENSION, "dimensions"),
            Attribute("concat_dimension", INTEGER, None),
            Attribute("split_count", INTEGER, None),
        ),
    )
)
define(
    Schema(
        "all_to_all_tuple",
        "*operands",
        PARTICIPANTS,
        section=BUILDER_H,
        hlo="all-to-all",
        stablehlo="stablehlo.all_to_all",
    )
)
define(
    Schema(
        "collective_permute", "*operands", (CHANNEL_HANDLE, Attribute("source_target_pairs", PAIRS))
    )
)
define(Schema("collective_broadcast", "operand", PARTICIPANTS, section=BUILDER_H))
