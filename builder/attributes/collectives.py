"""The participants of an operation across devices: ReplicaGroups, ChannelHandle."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from builder.attributes.fields import NamedEnum, sequence_or_none
from builder.checking import integer, integers, refusal
from builder.errors import ShapeInferenceError, brief
from builder.support.bundles import Bundle, bundle, set_fields
from builder.support.caches import integer_key, per_signature


@bundle
class ReplicaGroups(Bundle):
    """The groups of replicas that perform a collective operation together.

    An id is the number, from 0, of a replica, a partition or a device, depending on the operation.
    Each id is in exactly one group. The order within a group is significant.

    Attributes:
        groups: a tuple of ids for each group; empty if all replicas are one group.

    Example:
        >>> import builder as xb
        >>> xb.ReplicaGroups([[0, 2], [1, 3]]).groups
        ((0, 2), (1, 3))
    """

    groups: tuple[tuple[int, ...], ...]

    def __init__(self, groups: Sequence[Sequence[int]] = ()) -> None:
        set_fields(self, _as_groups("ReplicaGroups", groups))

    @classmethod
    def of(cls, value: ReplicaGroupsLike | None, op: str = "ReplicaGroups") -> ReplicaGroups:
        """Return `value` as ReplicaGroups; convert a list of lists of ids, and None to no groups.

        Raises:
            ShapeInferenceError: `value` is not a sequence of sequences of integers.
        """
        if isinstance(value, ReplicaGroups):
            return value
        if value is None or (type(value) is tuple and not value):
            return _ALL
        numbers = integer_key(value, 2)
        if numbers is not None:
            with suppress(ShapeInferenceError):  # raised below, for the original value
                return _of_numbers(numbers)
        return cls(_as_groups(op, value))

    def or_one_of(self, count: int) -> ReplicaGroups:
        """Return self if it has groups, otherwise one group of the ids 0 to ``count - 1``."""
        return self if self.groups else ReplicaGroups((tuple(range(count)),))


def _as_groups(op: str, value: Any) -> tuple[tuple[int, ...], ...]:
    groups = sequence_or_none(value)
    if groups is None or any(isinstance(g, str) or not isinstance(g, Iterable) for g in groups):
        fix = "write for instance [[0, 2], [1, 3]], or [] for one group of all replicas"
        if groups and len(groups) <= 64 and all(type(number) is int for number in groups):
            fix = (
                f"write {brief([list(groups)])} for one group of these ids, or [] for one group of "
                "all replicas"
            )
        rule = "replica_groups must be a sequence of groups, which are sequences of integers"
        raise refusal(op, rule, value, fix)
    return tuple(integers(op, "a group", group) for group in groups)


_ALL = ReplicaGroups()
_of_numbers = per_signature(ReplicaGroups)

ReplicaGroupsLike = ReplicaGroups | Sequence[Sequence[int]]
"""ReplicaGroups, or a list of lists of ids."""


class ChannelType(NamedEnum, enum.IntEnum, op="ChannelHandle", argument="type"):
    """The two ends of a channel, devices or host; numbered as in XLA's ChannelHandle."""

    DEVICE_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_DEVICE = 3


@bundle
class ChannelHandle(Bundle):
    """A channel. Only operations on the same channel communicate with each other.

    Attributes:
        handle: the number of the channel, 1 or more.
        type: the two ends of the channel, devices or host.

    Example:
        >>> import builder as xb
        >>> xb.ChannelHandle(3)
        ChannelHandle(handle=3, type=ChannelType.DEVICE_TO_DEVICE)
    """

    handle: int
    type: ChannelType

    def __init__(
        self, handle: int, type: ChannelType | str | int = ChannelType.DEVICE_TO_DEVICE
    ) -> None:
        set_fields(self, _handle("ChannelHandle", "handle", handle), ChannelType.of(type))

    @classmethod
    def of(
        cls,
        value: ChannelHandleLike | None,
        op: str = "ChannelHandle",
        type: ChannelType = ChannelType.DEVICE_TO_DEVICE,
        name: str = "channel_id",
    ) -> ChannelHandle | None:
        """Return `value` as a ChannelHandle; convert a number, return None for None.

        Args:
            value: a ChannelHandle, its number, or None.
            op: the op, for messages.
            type: the type of the channel if `value` is a number.
            name: the argument, for messages.

        Raises:
            ShapeInferenceError: `value` is none of these, or the number is less than 1.
        """
        if value is None or isinstance(value, ChannelHandle):
            return value
        return cls(_handle(op, name, value), type)


def _handle(op: str, name: str, value: Any) -> int:
    number = integer(op, name, value)
    if number < 1:
        raise refusal(op, f"{name} must be 1 or more", number)
    return number


def channel_of(attributes: Mapping[str, Any]) -> ChannelHandle | None:
    """Return the channel of the collective op with these attributes, or None.

    StableHLO and HLO require a channel if replica groups contain device ids. In this case an op
    without a channel gets channel 1.
    """
    channel: ChannelHandle | None = attributes["channel_handle"]
    if channel is None and attributes.get("use_global_device_ids"):
        return ChannelHandle(1)
    return channel


ChannelHandleLike = ChannelHandle | int
"""A ChannelHandle, or its number."""
