"""Devices, and arrays on them.

Arrays are put on a device exactly as they are: 64-bit elements stay 64-bit whatever jax's x64 flag
says, and the array on the device never shares the memory of the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

from builder.errors import OperandError, brief
from builder.types.shape import ArrayShape
from lowering.errors import DeviceError
from lowering.jaxlib_api import array_layouts, jax_arrays, topologies
from lowering.pjrt.failures import is_out_of_memory, no_room
from lowering.pjrt.platforms import missing_platform

__all__ = ["device", "devices"]

DeviceLike: TypeAlias = "str | jax.Device | None"
"""A jax.Device, "cpu", "gpu:1", or None for jax's default device."""


def devices(platform: str | None = None, *, all_processes: bool = False) -> tuple[jax.Device, ...]:
    """The devices of this process, or of all processes.

    Args:
        platform: "cpu", "gpu", "cuda", "tpu", ...; None for those that jax prefers.
        all_processes: whether those of the other processes are among them, when several compute
            together (`jax.distributed.initialize`); in all processes in the same order.

    Raises:
        DeviceError: there is no such platform here.

    Example:
        >>> import lowering
        >>> lowering.devices("cpu")[0].platform
        'cpu'
    """
    if platform is not None and not isinstance(platform, str):
        raise DeviceError(f"devices: platform must be a name such as 'cpu', got {brief(platform)}")
    try:
        if all_processes:
            return tuple(jax.devices(platform))
        return tuple(jax.local_devices(backend=platform))
    # An assertion of jax: none of the platforms that it is told to use has a device.
    except (RuntimeError, AssertionError) as error:
        raise missing_platform(platform, _known(), str(error)) from None


def _elsewhere(op: str, one: jax.Device) -> DeviceError:
    return DeviceError(
        f"{op}: {one} belongs to process {one.process_index}, this is process "
        f"{jax.process_index()}\nfix: use one of {_known()}"
    )


def is_local(one: jax.Device) -> bool:
    """Whether a device is of this process; those that are not there are of every process."""
    return bool(one.process_index == jax.process_index()) or topologies.is_absent(one)


def _known() -> str:
    """The devices there are, for messages."""
    found: dict[str, None] = {}
    for platform in (None, "cpu"):
        try:
            for one in jax.local_devices(backend=platform):
                found.setdefault(_device_text(one))
        except (RuntimeError, AssertionError):  # "cpu" may be left out of jax's platforms
            continue
    names = list(found)
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _device_text(one: jax.Device) -> str:
    """A device as `device` takes it: "cpu:0"."""
    position = jax.local_devices(backend=one.platform).index(one)
    return f"{one.platform}:{position}"


def device(which: DeviceLike = None) -> jax.Device:
    """The device that `which` names.

    Args:
        which: a jax.Device; a platform, for its first device ("cpu"); platform and number
            ("cpu:1"); None for jax's default device.

    Raises:
        DeviceError: there is no such device here, or it belongs to another process.

    Example:
        >>> import lowering
        >>> lowering.device("cpu:0") is lowering.device("cpu")
        True
    """
    if which is None:
        configured: Any = jax.config
        which = configured.jax_default_device
        if which is None:
            return devices()[0]
    if isinstance(which, jax.Device):
        if topologies.is_absent(which):
            raise DeviceError(
                f"device: {which} is one of a topology, and not there\n"
                f"fix: lowering.compile compiles for it; to have arrays there use one of {_known()}"
            )
        if which.process_index != jax.process_index():
            raise _elsewhere("device", which)
        return which
    if not isinstance(which, str):
        raise DeviceError(
            f"device: expected a jax.Device or a name such as 'cpu' or 'gpu:1', got {brief(which)}"
        )
    platform, colon, number = which.strip().lower().partition(":")
    if not platform or (colon and not (number.isascii() and number.isdecimal())):
        raise DeviceError(
            f"device: a device is named 'cpu' or 'gpu:1', got {brief(which)}\n"
            f"fix: use one of {_known()}"
        )
    found = devices(platform)
    # Python reads no more than 4300 digits; there are fewer devices.
    position = int(number[-9:]) if colon else 0
    if position >= len(found) or len(number) > 9:
        raise DeviceError(
            f"device: there is no device {brief(which)}, {platform} has {len(found)}\n"
            f"fix: use one of {_known()}"
        )
    return found[position]


def devices_for(
    first: DeviceLike,
    listed: Sequence[DeviceLike] | None,
    num_replicas: int,
    num_partitions: int,
    *,
    op: str = "compile",
) -> list[jax.Device]:
    """The devices on which a program of so many replicas and partitions runs.

    Args:
        first: the first of them, if they are not `listed`.
        listed: all of them, or None.
        num_replicas, num_partitions: as `compile` was given them.
        op: the function that was given them.

    Returns:
        The devices. Where several processes compute together those of others are among them if
        they were listed, or if nothing was and so many are all that there are.

    Raises:
        DeviceError: there are not enough, too many are listed, they do not go together, or none
            is of this process.
        OperandError: a number is none, or less than 1.
    """
    for name, number in (("num_replicas", num_replicas), ("num_partitions", num_partitions)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise OperandError(
                f"{op}: {name} must be a whole number, 1 or more, got {brief(number)}",
                op=op,
            )
    count = num_replicas * num_partitions
    if isinstance(first, jax.Device) and listed is None and topologies.is_absent(first):
        whole = topologies.devices_of_topology(first)
        listed, first = whole[whole.index(first) :][:count], None
    if listed is None:
        if count == 1:
            return [device(first)]
        start = device(first)
        there: list[jax.Device] = jax.local_devices(backend=start.platform)
        found = there[there.index(start) :][:count]
        if len(found) == count:
            return found
        everywhere: list[jax.Device] = jax.devices(start.platform)
        if start is there[0] and len(everywhere) == count:
            return everywhere
        after = f" from {_device_text(start)} on" if start is not there[0] else ""
        raise DeviceError(
            f"{op}: num_replicas={brief(num_replicas)} and "
            f"num_partitions={brief(num_partitions)} need {brief(count)} devices, "
            f"{start.platform} has {len(found)}{after}"
            + (
                f" in this process, {len(everywhere)} in all"
                if len(everywhere) > len(there)
                else ""
            )
            + f"\n{_how_to_have_more(start, count)}",
            op=op,
        )
    if first is not None:
        raise DeviceError(f"{op}: device and devices were both given\nfix: give one of them")
    if isinstance(listed, (str, jax.Device)) or not isinstance(listed, Sequence):
        raise DeviceError(
            f"{op}: devices must be a sequence of devices, got {brief(listed)}", op=op
        )
    # Devices of others may take part, where some of this process do.
    found = [one if isinstance(one, jax.Device) else device(one) for one in listed]
    if len(found) != count:
        raise DeviceError(
            f"{op}: num_replicas={brief(num_replicas)} and "
            f"num_partitions={brief(num_partitions)} need {brief(count)} devices, "
            f"got {len(found)} in devices",
            op=op,
        )
    if len(set(found)) != len(found):
        raise DeviceError(f"{op}: devices must be different ones, got one twice", op=op)
    if len({one.client for one in found}) > 1:
        raise DeviceError(
            f"{op}: devices must be of one platform, got "
            f"{', '.join(sorted({one.platform for one in found}))}",
            op=op,
        )
    if not any(map(is_local, found)):
        raise _elsewhere(op, found[0])
    return found


def _how_to_have_more(one: jax.Device, count: int) -> str:
    if jax.process_count() > 1:
        return (
            "fix: ask for as many as all processes have, or list them: "
            "devices=lowering.devices(all_processes=True)[:n]"
        )
    if one.platform != "cpu":
        return f"fix: ask for fewer, or for devices of another platform: {_known()}"
    return (
        f"fix: have the host count as {brief(count)} devices, before jax is first used: set "
        f"XLA_FLAGS=--xla_force_host_platform_device_count={brief(count)} in the environment, or "
        f'jax.config.update("jax_num_cpu_devices", {brief(count)})'
    )


_SHARDINGS: Final[dict[jax.Device, SingleDeviceSharding]] = {}


def sharding_of(one: jax.Device) -> SingleDeviceSharding:
    """The sharding "whole, on this device"; one object a device, so that `is` can compare it."""
    found = _SHARDINGS.get(one)
    if found is None:
        found = _SHARDINGS.setdefault(one, SingleDeviceSharding(one))
    return found


class Target:
    """Where the arrays of one shape go on one device, with all that is looked up only once.

    `lowering.running.shards` has the same for arrays that are cut up over several.

    Attributes:
        shape: the array shape.
        device: the device; of several the first that is of this process.
        sharding: the sharding that says so.
        aval: jax's description of shape and dtype.
        dtype, dimensions: of the NumPy arrays put there.
        default: the memory layout of arrays there when no other is asked for.
    """

    __slots__ = ("aval", "default", "device", "dimensions", "dtype", "shape", "sharding")

    def __init__(self, shape: ArrayShape, sharding: Sharding) -> None:
        self.shape: Final = shape
        self.sharding: Final = sharding
        self.device = self._first_device()
        self.dtype: Final = shape.element_type.dtype
        self.dimensions: Final = shape.dimensions
        self.aval: Final = self._described()
        there = sharding.shard_shape(shape.dimensions)
        self.default: Final = array_layouts.default_layout(self.device, self.dtype, there)

    def _first_device(self) -> jax.Device:
        (device,) = self.sharding.device_set
        return device

    def _described(self) -> Any:
        return jax.core.ShapedArray(self.dimensions, self.dtype)

    def put(self, array: np.ndarray[Any, Any]) -> jax.Array:
        """Copies a NumPy array of exactly this dtype and shape to the device.

        Raises:
            ExecutionError: there is not enough memory.
        """
        try:
            result = self._put(array)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise no_room("device_put", self.dtype, self.dimensions, self.sharding, error) from None
        return result

    def _put(self, array: np.ndarray[Any, Any]) -> jax.Array:
        there: jax.Array = jax_arrays.put(in_order(array), self.aval, self.sharding, self.device)
        return there


def in_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, or a copy of it that lies in one piece in the order of its indices."""
    return array if array.flags.c_contiguous else np.array(array, order="C", copy=True)
