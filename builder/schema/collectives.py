"""Ops across replicas and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.attributes import ReplicaGroups
from builder.attributes.collectives import channel_of
from builder.schema.definition import BUILDER_H, Attribute, CostClass, Group, define
from builder.schema.element_types import ANY
from builder.schema.kinds import CHANNEL, COMPUTATION, DIMENSION, GROUPS, INTEGER, PAIRS, UNIT
from builder.schema.tolerance import APPLIED_REPEATEDLY


def _all_participants(attributes: Mapping[str, Any]) -> ReplicaGroups:
    """Return the replica groups of an all_to_all; if it has none, one group of all replicas.

    HLO has no attribute for the split count, and StableHLO requires groups.
    """
    groups: ReplicaGroups = attributes["replica_groups"]
    return groups.or_one_of(attributes["split_count"])


def _layout(op: Any) -> str:
    return ", constrain_layout=true" if "shape_with_layout" in op.attributes else ""


CHANNEL_HANDLE = Attribute(
    "channel_handle",
    CHANNEL,
    "channel_id",
    omitted=None,
    absent=None,
    written=channel_of,
    parameter="channel_id",
    # The number, because files have types of channels that collectives do not have.
    argument=lambda channel: None if channel is None else channel.handle,
)
_GROUPS = Attribute("replica_groups", GROUPS)
PARTICIPANTS = (CHANNEL_HANDLE, _GROUPS, Group(_layout))
"""The attributes that define which replicas a collective op communicates between."""
DEVICES = (
    CHANNEL_HANDLE,
    _GROUPS,
    Attribute("use_global_device_ids", UNIT, omitted=False),
    Group(_layout),
)
"""The attributes of `PARTICIPANTS` for ops whose groups may contain device numbers."""

_COMPUTATION = Attribute("to_apply", COMPUTATION, parameter="computation")

define("replica_id", "")
define("partition_id", "", section="StableHLO (not in the document)")
define(
    "all_reduce",
    "*operands",
    (*DEVICES, _COMPUTATION),
    element_types={"operands": ANY},
    cost=CostClass.ELEMENTWISE,
    tolerance=APPLIED_REPEATEDLY,
)
# In StableHLO and HLO, the shapes imply it.
_SHARD_COUNT = Attribute("shard_count", INTEGER, None, None)
define(
    "all_gather",
    "*operands",
    (*DEVICES, Attribute("all_gather_dim", DIMENSION, "dimensions"), _SHARD_COUNT),
    element_types={"operands": ANY},
)
define(
    "reduce_scatter",
    "*operands",
    (
        *DEVICES,
        Attribute("scatter_dimension", DIMENSION, "dimensions"),
        _SHARD_COUNT,
        _COMPUTATION,
    ),
    element_types={"operands": ANY},
    tolerance=APPLIED_REPEATEDLY,
)
define(
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
    element_types={"operand": ANY},
)
define(
    "all_to_all_tuple",
    "*operands",
    PARTICIPANTS,
    section=BUILDER_H,
    element_types={"operands": ANY},
    hlo="all-to-all",
    stablehlo="stablehlo.all_to_all",
    synonyms=("mhlo.all_to_all",),
)
define(
    "collective_permute",
    "*operands",
    (CHANNEL_HANDLE, Attribute("source_target_pairs", PAIRS)),
    element_types={"operands": ANY},
)
define(
    "collective_broadcast",
    "operand",
    PARTICIPANTS,
    section=BUILDER_H,
    element_types={"operand": ANY},
)
