"""Replica groups along axes of a mesh, expanded to lists of device numbers.

jax 0.12 and XLA write the groups of a collective operation as a mesh and some of its axes, or parts
of axes: ``#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name =
"a">]>``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from lowering.errors import LoweringError
from lowering.mlir.operations import enclosing, operations_where, symbol_name


class AxisPart(NamedTuple):
    """An axis of a mesh, or a part of it.

    Attributes:
        axis: the number of the axis.
        pre_size: the product of the sizes of the parts of the axis before this part.
        size: the size of the part; None for the part up to the end of the axis.
    """

    axis: int
    pre_size: int = 1
    size: int | None = None


def groups_along(
    sizes: Sequence[int], parts: Sequence[AxisPart], device_ids: Sequence[int] = ()
) -> list[list[int]]:
    """Group the devices of a mesh: those in a group differ only in their positions along `parts`.

    Args:
        sizes: the sizes of the mesh's axes.
        parts: the axes, or parts of axes, along which devices are grouped, from major to minor.
        device_ids: the devices of the mesh in row-major order; empty for 0, 1, 2, ...

    Raises:
        LoweringError: a part does not divide its axis, or the parts overlap.

    Example:
        >>> groups_along([2, 2], [AxisPart(0)])
        [[0, 2], [1, 3]]
        >>> groups_along([4], [AxisPart(0, 2, 2)])
        [[0, 1], [2, 3]]
    """
    ranges = [_range(part, sizes) for part in parts]
    # Each axis becomes one dimension for each range between two ends of parts.
    dimensions: list[tuple[int, int, int]] = []
    for axis, size in enumerate(sizes):
        ends = sorted({1, size, *(end for n, *pair in ranges if n == axis for end in pair)})
        if any(after % before for before, after in itertools.pairwise(ends)):
            raise LoweringError(f"the parts of a mesh axis of size {size} must divide the size")
        dimensions += [(axis, *pair) for pair in itertools.pairwise(ends)]
    inside = [
        number
        for axis, start, stop in ranges
        for number, (other, low, high) in enumerate(dimensions)
        if axis == other and start <= low and high <= stop
    ]
    if len(set(inside)) < len(inside):
        raise LoweringError("the axes of replica groups must not overlap")
    outside = [number for number in range(len(dimensions)) if number not in inside]
    count = math.prod(sizes)
    if device_ids and len(device_ids) != count:
        raise LoweringError(
            f"the mesh of replica groups must list {count} devices, got {list(device_ids)}"
        )
    lengths = [high // low for _, low, high in dimensions]
    devices = np.array(device_ids or range(count)).reshape(lengths)
    length = math.prod(lengths[number] for number in inside)
    groups: list[list[int]] = devices.transpose(*outside, *inside).reshape(-1, length).tolist()
    return groups


def _range(part: AxisPart, sizes: Sequence[int]) -> tuple[int, int, int]:
    """Return the axis of a part, and the `pre_size` of the part and of the next part."""
    size = sizes[part.axis]
    stop = size if part.size is None else part.pre_size * part.size
    if not 1 <= part.pre_size <= stop <= size:
        raise LoweringError(f"the parts of a mesh axis of size {size} must divide the size")
    return part.axis, part.pre_size, stop


def groups_of(operation: ir.Operation) -> list[list[int]]:
    """Return the replica groups of an operation: one row for each group, padded with -1.

    Raises:
        LoweringError: the groups do not fit their mesh, or have an unknown form.
    """
    attribute = operation.attributes["replica_groups"]
    if isinstance(attribute, ir.DenseElementsAttr):
        table: list[list[int]] = np.array(attribute).tolist()
        return table
    if not stablehlo.ReplicaGroupMeshAxesAttr.isinstance(attribute):
        raise LoweringError(f"replica_groups must be a table of numbers, got {attribute}")
    groups: Any = stablehlo.ReplicaGroupMeshAxesAttr(attribute)
    sizes, device_ids = _mesh(groups.mesh, operation)
    names = list(sizes)
    parts = []
    for entry in groups.axes:
        reference = stablehlo.AxisRefAttr(entry)
        if reference.name not in sizes:
            raise LoweringError(
                f"replica groups must be along axes of the mesh {groups.mesh}, {sizes}, got "
                f"the axis {reference.name!r}"
            )
        axis = names.index(reference.name)
        info: Any = reference.sub_axis_info
        if info is None:
            parts.append(AxisPart(axis))
        else:
            part = stablehlo.SubAxisInfoAttr(info)
            parts.append(AxisPart(axis, part.pre_size, part.size))
    return groups_along(list(sizes.values()), parts, device_ids)


def _mesh(reference: ir.Attribute, operation: ir.Operation) -> tuple[dict[str, int], list[int]]:
    """Return the sizes of the axes of a mesh by name, and the order of its devices."""
    if not isinstance(reference, ir.FlatSymbolRefAttr):
        inline: Any = stablehlo.MeshAttr(reference)
        axes: list[Any] = [stablehlo.MeshAxisAttr(axis) for axis in inline.axes]
        order = inline.device_ids
        device_ids = [] if order is None else np.array(order).tolist()
    else:
        (*_, module) = enclosing(operation)
        symbols = (view.operation for view in module.regions[0].blocks[0].operations)
        declaration = next(  # verified by MLIR
            operation
            for operation in symbols
            if operation.name == "sdy.mesh" and symbol_name(operation) == reference.value
        )
        mesh = sdy.MeshAttr(declaration.attributes["mesh"])
        axes = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
        device_ids = list(mesh.device_ids)
    return {axis.name: axis.size for axis in axes}, device_ids


def operations_along_axes(module: ir.Operation) -> list[ir.Operation]:
    """List the operations whose replica groups are along axes of a mesh."""

    def is_other(operation: ir.Operation) -> bool:
        groups = operation.attributes.get("replica_groups")
        return groups is not None and not isinstance(groups, ir.DenseElementsAttr)

    return operations_where(module, is_other)


def set_groups(operation: ir.Operation, groups: Sequence[Sequence[int]]) -> None:
    """Set the replica groups of an operation to a table of numbers."""
    table: Any = np.array(groups, np.int64).reshape(len(groups), -1)
    with operation.context:
        operation.attributes["replica_groups"] = ir.DenseElementsAttr.get(table)
