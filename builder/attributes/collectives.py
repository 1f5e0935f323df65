"""Who takes part in an operation across devices: ReplicaGroups, ChannelHandle."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from builder.attributes.fields import enum_member, sequence_or_none
from builder.errors import ShapeInferenceError, brief

__all__ = [
    "ChannelHandle",
    "ChannelHandleLike",
    "ChannelType",
    "ReplicaGroups",
    "ReplicaGroupsLike",
    "channel_of",
]


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """The groups of replicas within which an operation is done; none for one group of all.

    The numbers are those of replicas, of partitions or of devices, as the operation says: each
    stands in one group and once, from 0 on without a gap. Their order within a group counts.

    Attributes:
        groups: tuples of numbers.

    Example:
        >>> import builder as xb
        >>> xb.ReplicaGroups([[0, 2], [1, 3]]).groups
        ((0, 2), (1, 3))
    """

    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        from builder.check import integers  # inference builds on this module

        given: Any = self.groups
        groups = sequence_or_none(given)
        if groups is None or any(isinstance(g, str) or not isinstance(g, Iterable) for g in groups):
            _refuse("replica_groups", given)
        object.__setattr__(
            self, "groups", tuple(integers("replica_groups", "a group", g) for g in groups)
        )

    @classmethod
    def of(cls, value: ReplicaGroupsLike | None, op: str = "replica_groups") -> ReplicaGroups:
        """`value` itself, or the groups that it lists; no groups for None.

        Raises:
            ShapeInferenceError: it is no sequence of sequences of whole numbers.
        """
        if isinstance(value, ReplicaGroups):
            return value
        if value is None:
            return _ALL
        try:
            return cls(value)  # type: ignore[arg-type]  # made tuples there
        except ShapeInferenceError as error:
            text = str(error).partition(": ")[2]
            raise ShapeInferenceError(f"{op}: {text}", op=op) from None

    def or_one_of(self, count: int) -> ReplicaGroups:
        """These groups; one group of the numbers below `count` if there are none."""
        return self if self.groups else ReplicaGroups((tuple(range(count)),))


def _refuse(op: str, given: Any) -> NoReturn:
    fix = "for instance [[0, 2], [1, 3]]; [] for one group of all replicas"
    flat = sequence_or_none(given)
    if flat and len(flat) <= 64 and all(type(number) is int for number in flat):
        fix = f"write {brief([list(flat)])} for the one group of them, or " + fix.partition("; ")[2]
    raise ShapeInferenceError(
        f"{op}: replica_groups must be a sequence of groups, which are sequences of whole "
        f"numbers, got {brief(given)}\n"
        f"fix: {fix}",
        op=op,
    )


_ALL = ReplicaGroups()

ReplicaGroupsLike = ReplicaGroups | Sequence[Sequence[int]]
"""ReplicaGroups, or a list of lists of numbers."""


class ChannelType(enum.IntEnum):
    """Between whom a channel runs, with the numbers of XLA's ChannelHandle."""

    DEVICE_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_DEVICE = 3

    def __repr__(self) -> str:
        return f"ChannelType.{self.name}"


@dataclass(frozen=True, slots=True)
class ChannelHandle:
    """A channel: only operations of the same channel talk to each other.

    Attributes:
        handle: the number of the channel, 1 or more.
        type: between whom it runs.

    Example:
        >>> import builder as xb
        >>> xb.ChannelHandle(3)
        ChannelHandle(handle=3, type=ChannelType.DEVICE_TO_DEVICE)
    """

    handle: int
    type: ChannelType = ChannelType.DEVICE_TO_DEVICE

    def __post_init__(self) -> None:
        from builder.check import integer  # inference builds on this module

        number = integer("channel_id", "a channel's handle", self.handle)
        if number < 1:
            raise ShapeInferenceError(
                f"channel_id: a channel's handle must be 1 or more, got {number}", op="channel_id"
            )
        object.__setattr__(self, "handle", number)
        kind = enum_member(ChannelType, "channel_id", "a channel's type", self.type)
        object.__setattr__(self, "type", kind)

    @classmethod
    def of(
        cls,
        value: ChannelHandleLike | None,
        op: str = "channel_id",
        type: ChannelType = ChannelType.DEVICE_TO_DEVICE,
        name: str = "channel_id",
    ) -> ChannelHandle | None:
        """`value` itself, the channel of that number, or None for none.

        Args:
            value: a ChannelHandle, its number, or None.
            op: for messages.
            type: between whom a channel runs that is given by its number.
            name: the argument, for messages.

        Raises:
            ShapeInferenceError: it is neither, or the number is not 1 or more.
        """
        if value is None or isinstance(value, ChannelHandle):
            return value
        try:
            return cls(value, type)
        except ShapeInferenceError as error:
            text = str(error).partition(": ")[2]
            where = name if op == name else f"{op}: {name}"
            raise ShapeInferenceError(f"{where}: {text}", op=op) from None


def channel_of(attributes: Mapping[str, Any]) -> ChannelHandle | None:
    """The channel of a collective op with these attributes.

    StableHLO and HLO require one where replica groups hold numbers of devices: it is 1 if none was
    given.
    """
    channel: ChannelHandle | None = attributes["channel_handle"]
    if channel is None and attributes.get("use_global_device_ids"):
        return ChannelHandle(1)
    return channel


ChannelHandleLike = ChannelHandle | int
"""A ChannelHandle, or its number."""
