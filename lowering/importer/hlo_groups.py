"""Expand HLO's replica groups along mesh axes to lists, before jaxlib's converter reads the HLO.

In HLO text, groups along mesh axes are ``replica_groups=mesh['a'=2,'b'=2], device_ids=(0,2,1,3)
{'a'}``. The converter ignores `device_ids`, so its module would have wrong groups.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lowering.reading.protocol_buffers import (
    encoded_field,
    encoded_number,
    fields_of,
    numbers_in,
    replaced,
)
from lowering.sharding.axis_groups import AxisPart, groups_along

_COMPUTATIONS: Final = 3
"""The number of the field HloModuleProto.computations."""
_INSTRUCTIONS: Final = 2
"""The number of the field HloComputationProto.instructions."""
_LISTED_GROUPS: Final = 87
"""The number of the field HloInstructionProto.collective_device_list."""
_GROUPS_ALONG_AXES: Final = 93
"""The number of the field HloInstructionProto.mesh_axes_replica_group_list."""

_TAG: Final = encoded_field(_GROUPS_ALONG_AXES, b"")[:-1]


def with_listed_groups(module: bytes) -> bytes:
    """Return an HloModuleProto with replica groups along mesh axes replaced by lists of groups.

    A damaged message is returned unchanged, because XLA refuses it.
    """
    if _TAG not in module:
        return module
    path = (_COMPUTATIONS, _INSTRUCTIONS, _GROUPS_ALONG_AXES)
    try:
        return replaced(memoryview(module), path, _listed)
    except (IndexError, KeyError, ValueError):
        return module


def _listed(value: memoryview) -> bytes:
    """Encode a MeshAxesReplicaGroupListProto as the field `_LISTED_GROUPS`, a list of groups."""
    fields = fields_of(value)
    mesh = fields_of(fields[1][0])
    sizes = [_number(fields_of(axis), 2) for axis in mesh.get(1, ())]
    parts = [_part(axis) for axis in fields.get(2, ())]
    groups = groups_along(sizes, parts, _device_ids(mesh, math.prod(sizes)))
    message = b"".join(
        encoded_field(1, encoded_field(1, b"".join(map(encoded_number, group)))) for group in groups
    )
    return encoded_field(_LISTED_GROUPS, message)


def _number(fields: dict[int, list[memoryview]], number: int) -> int:
    """Return the integer value of the field `number`; 0 for an absent field."""
    return numbers_in(fields[number])[-1] if number in fields else 0


def _part(value: memoryview) -> AxisPart:
    """Return the part of a mesh axis that an AxisRefProto describes."""
    fields = fields_of(value)
    axis = _number(fields, 1)
    if 2 not in fields:
        return AxisPart(axis)
    part = fields_of(fields[2][0])
    return AxisPart(axis, _number(part, 1), _number(part, 2))


def _device_ids(mesh: dict[int, list[memoryview]], count: int) -> list[int]:
    """Return the device ids of a mesh in order: those listed, or a transposed range(count)."""
    if 3 not in mesh:
        return numbers_in(mesh.get(2, ()))
    order = fields_of(mesh[3][0])
    sizes, permutation = numbers_in(order[1]), numbers_in(order[2])
    devices: list[int] = np.arange(count).reshape(sizes).transpose(permutation).ravel().tolist()
    return devices
