"""Who takes part in the operations across devices of a module, and whether all of them are there.

XLA takes a group of replicas that do not exist for a program of one, gathers from them out of
bounds of memory, or waits for them. So this is looked at before XLA sees the module.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from lowering.errors import CompileError, recorded_at
from lowering.mlir.types import attribute_text

__all__ = [
    "COLLECTIVES",
    "Mode",
    "Participants",
    "check_participants",
    "may_contain_collectives",
    "participants",
]

COLLECTIVES: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast"),
        *("collective_permute", "reduce_scatter"),
    )
) | {"mhlo.all_to_all"}
"""Operations that wait for other devices."""

_IN_BYTES: Final = tuple(
    one.partition(".")[2].encode() + b"\0" for one in (*COLLECTIVES, "stablehlo.partition_id")
)


def may_contain_collectives(words: bytes) -> bool:
    """Whether operations across devices may be in bytecode with these words: a quick look."""
    return any(name in words for name in _IN_BYTES)


_HANDLE: Final = re.compile(r"handle = (\d+)")


class Mode(enum.Enum):
    """What the numbers in replica groups are numbers of. StableHLO: Collective ops."""

    REPLICAS = "replicas"
    REPLICAS_AND_PARTITIONS = "replicas, with all of their partitions"
    PARTITIONS = "partitions"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class Participants:
    """Who takes part in one operation.

    Attributes:
        mode: what the numbers are numbers of.
        groups: lists of numbers; none for one group of all.
        channel: the number of the channel; 0 for none.
    """

    mode: Mode
    groups: tuple[tuple[int, ...], ...]
    channel: int

    def count(self, num_replicas: int, num_partitions: int) -> int:
        """How many numbers there are, which the groups have to hold."""
        if self.mode is Mode.PARTITIONS:
            return num_partitions
        return num_replicas * (num_partitions if self.mode is Mode.DEVICES else 1)

    def group_sizes(self, num_replicas: int, num_partitions: int) -> set[int]:
        """How many devices there are in each group."""
        all_of_them = self.count(num_replicas, num_partitions)
        sizes = {len(group) for group in self.groups} or {all_of_them}
        if self.mode is Mode.REPLICAS_AND_PARTITIONS:
            return {size * num_partitions for size in sizes}
        return sizes


def participants(operation: ir.Operation) -> Participants:
    """Who takes part in an operation across devices."""
    attributes = operation.attributes
    channel = 0
    if "channel_handle" in attributes:
        # By its text: what jaxlib makes of HLO text may have one of mhlo's.
        text = _HANDLE.search(str(attributes["channel_handle"]))
        channel = int(text[1]) if text else 0
    name = operation.name.partition(".")[2]
    groups: tuple[tuple[int, ...], ...] = ()
    if "replica_groups" in attributes:
        listed = attributes["replica_groups"]
        table = np.array(listed) if isinstance(listed, ir.DenseElementsAttr) else _along(operation)
        groups = tuple(tuple(int(n) for n in row if n >= 0) for row in table)
    if channel <= 0:
        mode = Mode.REPLICAS
    elif name in ("all_to_all", "collective_permute", "collective_broadcast"):
        mode = Mode.PARTITIONS
    elif "use_global_device_ids" in attributes:
        mode = Mode.DEVICES
    else:
        mode = Mode.REPLICAS_AND_PARTITIONS
    return Participants(mode, tuple(g for g in groups if g), channel)


def _along(operation: ir.Operation) -> np.ndarray[Any, Any]:
    """The groups of an operation along axes of a mesh: a row for each.

    jax 0.12 says them so. Of parts of axes nothing is known: no rows.
    """
    text = str(operation.attributes["replica_groups"])
    named = _MESH.search(text)
    axes = _AXIS.findall(text)
    module = operation
    while module.parent is not None:
        module = module.parent
    for view in module.regions[0].blocks[0].operations:
        one = view.operation
        if one.name != "sdy.mesh" or named is None or "sub_axis_info" in text:
            continue
        if attribute_text(one.attributes["sym_name"]) != named[1]:
            continue
        mesh = sdy.MeshAttr(one.attributes["mesh"])
        names = [sdy.MeshAxisAttr(axis).name for axis in mesh.axes]
        sizes = [sdy.MeshAxisAttr(axis).size for axis in mesh.axes]
        numbers = np.array(list(mesh.device_ids) or range(math.prod(sizes))).reshape(sizes)
        inside = [names.index(axis) for axis in axes]
        outside = [n for n in range(len(names)) if n not in inside]
        count = math.prod(sizes[n] for n in inside)
        return numbers.transpose(*outside, *inside).reshape(-1, count)
    return np.zeros((0, 0), np.int64)


_MESH: Final = re.compile(r"mesh(?:_name)? = @\"?([^\s,>\"]+)")
_AXIS: Final = re.compile(r'axis_ref<name = "([^"]+)"')


def check_participants(
    module: ir.Operation, name: str, num_replicas: int, num_partitions: int
) -> None:
    """Raises CompileError when an operation across devices counts on others than there are.

    Args:
        module: the operation of a verified StableHLO module.
        name: the computation's name, for messages.
        num_replicas, num_partitions: for how many it is compiled.
    """
    wrong: list[CompileError] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in COLLECTIVES:
            error = _wrong(operation, name, num_replicas, num_partitions)
            if error is not None:
                wrong.append(error)
                return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.walk(look)
    if wrong:
        raise wrong[0]


def _wrong(
    operation: ir.Operation, name: str, num_replicas: int, num_partitions: int
) -> CompileError | None:
    """What is wrong with the participants of one operation; None if they are all there."""
    kind = operation.name.partition(".")[2]
    one = participants(operation)
    there = one.count(num_replicas, num_partitions)

    def error(reason: str, needed: int) -> CompileError:
        compiled = f"num_replicas={num_replicas}"
        if num_partitions > 1 or one.mode is not Mode.REPLICAS:
            compiled += f", num_partitions={num_partitions}"
        if one.mode is Mode.PARTITIONS:
            fix = f"lowering.compile(computation, num_partitions={needed})"
        elif one.mode is Mode.DEVICES:
            fix = (
                f"lowering.compile(computation, num_replicas={needed}), or as many replicas and "
                f"partitions as make {needed} devices"
            )
        elif needed == num_replicas * num_partitions and num_partitions > 1:
            fix = "use_global_device_ids=True, if these are numbers of devices"
            if one.mode is Mode.REPLICAS:
                fix = f"channel_id=1, {fix}"
        else:
            fix = f"lowering.compile(computation, num_replicas={needed})"
        return CompileError(
            f"compile: {name}: {kind}{recorded_at(operation.location)} {reason}, and the program "
            f"is compiled for {compiled}\nfix: {fix}",
            op=kind,
        )

    if "source_target_pairs" in operation.attributes:
        ids = np.array(operation.attributes["source_target_pairs"]).reshape(-1)
        largest = int(ids.max(initial=-1))
        if largest >= there:
            kinds = one.mode.value
            return error(f"sends between {kinds} up to number {largest}", largest + 1)
        return None
    listed = sum(map(len, one.groups))
    if one.groups and listed != there:
        return error(f"has groups of {listed} {one.mode.value} in all", listed)
    counted = _group_size(operation)
    if counted is None:
        return None
    sizes = one.group_sizes(num_replicas, num_partitions)
    if sizes != {counted}:
        per_partition = num_partitions if one.mode is Mode.REPLICAS_AND_PARTITIONS else 1
        needed = counted // per_partition or 1
        return error(f"counts on {counted} participants in each group", needed)
    return None


def _group_size(operation: ir.Operation) -> int | None:
    """How many members the shapes of an operation say that each group has; None if they don't."""
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
    sizes = sorted((before.get_dim_size(dimension), after.get_dim_size(dimension)))
    return None if sizes[0] == 0 else sizes[1] // sizes[0]
