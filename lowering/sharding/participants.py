"""The participants of collective operations, and a check that the program has all of them.

jax 0.12 and XLA write the groups of a collective operation as a mesh and some of its axes, or parts
of axes: ``#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name =
"a">]>``.

With a replica group that names nonexistent replicas, XLA compiles for one replica, reads memory out
of bounds, or waits for the replicas forever. So the groups are checked before XLA compiles the
module.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from builder.schema import SCHEMAS, Trait, opcodes_with
from lowering.errors import CompileError, LoweringError
from lowering.mlir.operations import (
    enclosing,
    operations_in,
    operations_where,
    place_of,
    symbol_name,
)


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
            f"the mesh of replica groups must list {count} devices", got=list(device_ids)
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
        raise LoweringError("replica_groups must be a table of numbers", got=attribute)
    groups: Any = stablehlo.ReplicaGroupMeshAxesAttr(attribute)
    sizes, device_ids = _mesh(groups.mesh, operation)
    names = list(sizes)
    parts = []
    for entry in groups.axes:
        reference = stablehlo.AxisRefAttr(entry)
        if reference.name not in sizes:
            raise LoweringError(
                f"replica groups must be along axes of the mesh {groups.mesh}, {sizes}",
                got=f"the axis {reference.name!r}",
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


COLLECTIVES: Final = frozenset(
    schema.stablehlo for schema in SCHEMAS.values() if Trait.COLLECTIVE in schema.traits
) | {"mhlo.all_to_all"}
"""The names of the collective operations, which communicate with other devices."""

_NAMES_IN_BYTECODE: Final = tuple(
    name.partition(".")[2].encode() + b"\0" for name in (*COLLECTIVES, "stablehlo.partition_id")
)


def may_contain_collectives(strings: bytes) -> bool:
    """Whether a module may contain collectives; `strings` are the strings in its bytecode."""
    return any(name in strings for name in _NAMES_IN_BYTECODE)


class Mode(enum.Enum):
    """What the numbers in replica groups denote. StableHLO: Collective ops."""

    REPLICAS = "replicas"
    REPLICAS_AND_PARTITIONS = "replicas (each with all of its partitions)"
    PARTITIONS = "partitions"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class Participants:
    """The devices that take part in one collective operation.

    Attributes:
        mode: what the numbers in `groups` denote.
        groups: lists of numbers; empty if all participants form one group.
        channel: the channel number; 0 for no channel.
    """

    mode: Mode
    groups: tuple[tuple[int, ...], ...]
    channel: int

    def count(self, num_replicas: int, num_partitions: int) -> int:
        """Return how many numbers the groups must contain in total."""
        if self.mode is Mode.PARTITIONS:
            return num_partitions
        return num_replicas * (num_partitions if self.mode is Mode.DEVICES else 1)

    def group_sizes(self, num_replicas: int, num_partitions: int) -> set[int]:
        """Return the sizes of the groups, in devices; equal sizes give one element."""
        sizes = {len(group) for group in self.groups} or {self.count(num_replicas, num_partitions)}
        if self.mode is Mode.REPLICAS_AND_PARTITIONS:
            return {size * num_partitions for size in sizes}
        return sizes


_NUMBERING_PARTITIONS: Final = frozenset(
    opcode
    for opcode in opcodes_with(Trait.COLLECTIVE)
    if all(a.name != "use_global_device_ids" for a in SCHEMAS[opcode].value_attributes)
)
"""Collectives whose groups have numbers of partitions if there is a channel, and never devices'."""

_HANDLE: Final = re.compile(r"handle = (\d+)")


def participants(operation: ir.Operation) -> Participants:
    """Return the participants of a collective operation.

    Raises:
        LoweringError: the operation's groups do not fit their mesh, or have no numbers.
    """
    attributes = operation.attributes
    channel = 0
    if "channel_handle" in attributes:
        # Its text is parsed because a module converted from HLO text may have MHLO's attribute.
        text = _HANDLE.search(str(attributes["channel_handle"]))
        channel = int(text[1]) if text else 0
    name = operation.name.partition(".")[2]
    groups: tuple[tuple[int, ...], ...] = ()
    if "replica_groups" in attributes:
        table = groups_of(operation)
        rows = (tuple(n for n in row if n >= 0) for row in table)
        groups = tuple(row for row in rows if row)
        if len(table) and not groups:
            raise LoweringError("its groups must have numbers", got=np.array(table).tolist())
    if channel <= 0:
        mode = Mode.REPLICAS
    elif name in _NUMBERING_PARTITIONS:
        mode = Mode.PARTITIONS
    elif "use_global_device_ids" in attributes:
        mode = Mode.DEVICES
    else:
        mode = Mode.REPLICAS_AND_PARTITIONS
    return Participants(mode, groups, channel)


def check_participants(
    module: ir.Operation, name: str, num_replicas: int, num_partitions: int
) -> None:
    """Raise CompileError if the groups of a collective operation do not fit the program's devices.

    Args:
        module: the operation of a verified StableHLO module.
        name: the computation's name, for messages.
        num_replicas, num_partitions: the numbers that the module is compiled for.
    """
    for operation in operations_in(module, COLLECTIVES):
        _check_operation(operation, name, num_replicas, num_partitions)


def _check_operation(
    operation: ir.Operation, name: str, num_replicas: int, num_partitions: int
) -> None:
    kind = operation.name.partition(".")[2]
    try:
        parties = participants(operation)
    except LoweringError as reason:
        place = place_of(operation)
        raise CompileError(
            f"{kind}{place} is invalid: {reason}",
            context=("compile", name),
            op=kind,
        ) from None
    available = parties.count(num_replicas, num_partitions)

    def error(rule: str, needed: int) -> CompileError:
        compiled = f"num_replicas={num_replicas}"
        if num_partitions > 1 or parties.mode is not Mode.REPLICAS:
            compiled += f", num_partitions={num_partitions}"
        fix = f"call lowering.compile(computation, num_replicas={needed})"
        if parties.mode is Mode.PARTITIONS:
            fix = f"call lowering.compile(computation, num_partitions={needed})"
        elif parties.mode is Mode.DEVICES:
            fix += f", or compile for replicas and partitions on {needed} devices"
        elif needed == num_replicas * num_partitions and num_partitions > 1:
            channel = "channel_id=1, " if parties.mode is Mode.REPLICAS else ""
            fix = f"pass {channel}use_global_device_ids=True if the groups contain device numbers"
        return CompileError(
            f"{kind}{place_of(operation)} {rule}",
            got=compiled,
            context=("compile", name),
            fix=fix,
            op=kind,
        )

    if "source_target_pairs" in operation.attributes:
        largest = int(np.array(operation.attributes["source_target_pairs"]).max(initial=-1))
        if largest >= available:
            raise error(f"requires {parties.mode.value} numbered up to {largest}", largest + 1)
        return
    listed = sum(map(len, parties.groups))
    if parties.groups and listed != available:
        raise error(f"requires {listed} {parties.mode.value} in its groups", listed)
    numbers = sorted(number for group in parties.groups for number in group)
    if parties.groups and numbers != list(range(available)):
        listed_numbers = ", ".join(map(str, numbers[:8])) + ", ..." * (len(numbers) > 8)
        raise CompileError(
            f"{kind}{place_of(operation)} must have each number from "
            f"0 to {available - 1} once in its groups",
            got=listed_numbers,
            context=("compile", name),
            fix="correct the replica groups",
            op=kind,
        )
    group_size = _group_size(operation)
    if group_size is None:
        return
    if parties.group_sizes(num_replicas, num_partitions) != {group_size}:
        is_multiplied = parties.mode is Mode.REPLICAS_AND_PARTITIONS
        needed = group_size // (num_partitions if is_multiplied else 1) or 1
        raise error(f"requires {group_size} participants in each group", needed)


def _group_size(operation: ir.Operation) -> int | None:
    """The group size that the shapes of an operation imply; None if they imply none."""
    kind = operation.name
    if kind == "mhlo.all_to_all":
        return len(operation.operands) if len(operation.operands) > 1 else None
    if kind == "stablehlo.all_to_all":
        return ir.IntegerAttr(operation.attributes["split_count"]).value
    attribute = {
        "stablehlo.all_gather": "all_gather_dim",
        "stablehlo.reduce_scatter": "scatter_dimension",
    }.get(kind)
    if attribute is None:
        return None
    dimension = ir.IntegerAttr(operation.attributes[attribute]).value
    before, after = (
        ir.RankedTensorType(values[0].type) for values in (operation.operands, operation.results)
    )
    if before.is_dynamic_dim(dimension) or after.is_dynamic_dim(dimension):
        return None
    smaller, larger = sorted((before.get_dim_size(dimension), after.get_dim_size(dimension)))
    return None if smaller == 0 else larger // smaller
