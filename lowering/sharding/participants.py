"""The participants of collective operations, and a check that the program has all of them.

With a replica group that names nonexistent replicas, XLA compiles for one replica, reads memory out
of bounds, or waits for the replicas forever. So the groups are checked before XLA compiles the
module.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxlib.mlir import ir

from lowering.errors import CompileError, LoweringError
from lowering.mlir.operations import operations_in, place_of
from lowering.sharding.axis_groups import groups_of

COLLECTIVES: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast"),
        *("collective_permute", "reduce_scatter"),
    )
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
            raise LoweringError(f"its groups must have numbers, got {np.array(table).tolist()}")
    if channel <= 0:
        mode = Mode.REPLICAS
    elif name in ("all_to_all", "collective_permute", "collective_broadcast"):
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
            f"{kind}{place_of(operation)} {rule}, got {compiled}",
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
            f"0 to {available - 1} once in its groups, got {listed_numbers}",
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
