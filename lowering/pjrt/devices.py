"""Find devices, and copy NumPy arrays to devices.

Arrays are copied to a device bit for bit. 64-bit elements remain 64-bit, whatever jax's x64 flag
is. The array on the device never shares memory with the caller's array.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from builder.checking import first_duplicate, flag
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.types.shape import ArrayShape
from lowering.errors import DeviceError
from lowering.jaxlib_api import compilation, jax_arrays
from lowering.jaxlib_api.lazy_jax import jax
from lowering.pjrt.failures import host_memory, is_out_of_memory, missing_platform, transfer_error

DeviceLike: TypeAlias = "str | jax.Device | None"
"""A jax.Device, a name such as "cpu" or "gpu:1", or None for jax's default device."""


@explained
def devices(platform: str | None = None, *, all_processes: bool = False) -> tuple[jax.Device, ...]:
    """Return the devices of this process, or of all processes.

    Args:
        platform: "cpu", "gpu", "cuda", "tpu", ...; None for jax's default platform.
        all_processes: whether to include the devices of other processes, if several processes
            compute together (`jax.distributed.initialize`). The order of these devices is the same
            in all processes.

    Raises:
        DeviceError: the platform is not available.

    Example:
        >>> import lowering
        >>> lowering.devices("cpu")[0].platform
        'cpu'
    """
    if platform is not None and not isinstance(platform, str):
        rule = "platform must be a name such as 'cpu'"
        raise error_of(DeviceError, "devices", rule, got=brief(platform))
    return _devices("devices", platform, flag("devices", "all_processes", all_processes))


def _devices(op: str, platform: str | None, all_processes: bool = False) -> tuple[jax.Device, ...]:
    try:
        if all_processes:
            return tuple(jax.devices(platform))
        return tuple(jax.local_devices(backend=platform))
    # jax raises AssertionError if none of the enabled platforms has a device.
    except (RuntimeError, AssertionError) as error:
        raise missing_platform(op, platform, _available(), str(error)) from None


def is_local(target: jax.Device) -> bool:
    """Whether a device belongs to this process; True for each device of a topology."""
    return bool(target.process_index == jax.process_index()) or compilation.is_absent(target)


def _unavailable(op: str, rule: str, got: str | None = None) -> DeviceError:
    return error_of(DeviceError, op, rule, f"use one of {_available()}", got=got)


def _foreign_device(op: str, target: jax.Device) -> DeviceError:
    here = jax.process_index()
    rule = f"{target} belongs to process {target.process_index}, but this is process {here}"
    return _unavailable(op, rule)


def _available() -> str:
    """Return the names of the available devices, for messages."""
    names: dict[str, None] = {}
    for platform in (None, "cpu"):
        try:
            names.update(dict.fromkeys(map(_name, jax.local_devices(backend=platform))))
        except (RuntimeError, AssertionError):  # "cpu" may be disabled in jax
            continue
    return ", ".join([*names][:8]) + (", ..." if len(names) > 8 else "")


def _name(target: jax.Device) -> str:
    """Return the name of a device in the form that `device` accepts: "cpu:0"."""
    position = jax.local_devices(backend=target.platform).index(target)
    return f"{target.platform}:{position}"


@explained
def device(which: DeviceLike = None) -> jax.Device:
    """Return the device that `which` names.

    Args:
        which: a jax.Device; a platform, for its first device ("cpu"); platform and number
            ("cpu:1"); None for jax's default device.

    Raises:
        DeviceError: the device does not exist, or belongs to another process.

    Example:
        >>> import lowering
        >>> lowering.device("cpu:0") is lowering.device("cpu")
        True
    """
    return device_argument("device", which)


def device_argument(op: str, which: DeviceLike) -> jax.Device:
    """Return the device that `which` names, as `device` does.

    Args:
        op: the function that the user called, for messages.
        which: see `device`.

    Raises:
        DeviceError: the device does not exist, or belongs to another process or to a topology.
    """
    if which is None:
        configured: Any = jax.config
        which = configured.jax_default_device
        if which is None:
            return _devices(op, None)[0]
    if isinstance(which, jax.Device):
        if compilation.is_absent(which):
            reason = "belongs to a topology, which only lowering.compile accepts"
            raise _unavailable(op, f"{which} {reason}")
        if which.process_index != jax.process_index():
            raise _foreign_device(op, which)
        return which
    if not isinstance(which, str):
        rule = "expected a jax.Device or a name such as 'cpu' or 'gpu:1'"
        if isinstance(which, int):
            raise _unavailable(op, rule, brief(which))
        raise error_of(DeviceError, op, rule, got=brief(which))
    platform, colon, number = which.strip().lower().partition(":")
    if not platform or (colon and not (number.isascii() and number.isdecimal())):
        raise _unavailable(op, "expected a name such as 'cpu' or 'gpu:1'", brief(which))
    available = _devices(op, platform)
    # Python refuses to parse more than 4300 digits; there are fewer devices.
    position = int(number[-9:]) if colon else 0
    if position >= len(available) or len(number) > 9:
        count = len(available)
        raise _unavailable(op, f"there is no device {brief(which)}, {platform} has {count}")
    return available[position]


def check_counts(op: str, num_replicas: Any, num_partitions: Any) -> None:
    """Raise OperandError unless the numbers of replicas and partitions are positive integers."""
    for name, number in (("num_replicas", num_replicas), ("num_partitions", num_partitions)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            rule = f"{name} must be an integer, 1 or more"
            raise error_of(OperandError, op, rule, got=brief(number))


def devices_for(
    first: DeviceLike,
    listed: Sequence[DeviceLike] | None,
    num_replicas: int,
    num_partitions: int,
    *,
    op: str = "compile",
) -> list[jax.Device]:
    """Return the devices on which a program with replicas and partitions runs.

    Args:
        first: the first device, used if `listed` is None.
        listed: all devices, in order; None for devices from `first` on.
        num_replicas, num_partitions: the arguments of `compile`.
        op: the function that the user called.

    Returns:
        The devices. They include devices of other processes in two cases: if `listed` does, or if
        `listed` is None and the program needs exactly the devices of all processes.

    Raises:
        DeviceError: there are not enough devices; too many devices are listed; the listed devices
            are of different platforms, or none of them is of this process.
        OperandError: `num_replicas` or `num_partitions` is not an integer, or is less than 1.
    """
    check_counts(op, num_replicas, num_partitions)
    count = num_replicas * num_partitions
    need = (
        f"num_replicas={brief(num_replicas)} and num_partitions={brief(num_partitions)} need "
        f"{brief(count)} device{'s' if count != 1 else ''}"
    )

    error = functools.partial(error_of, DeviceError, op)
    if isinstance(first, jax.Device) and listed is None and compilation.is_absent(first):
        topology = compilation.devices_of_topology(first)
        listed, first = topology[topology.index(first) :][:count], None
    if listed is None:
        if isinstance(first, (list, tuple)):
            fix = "pass devices=[...], and num_replicas or num_partitions"
            raise error("device must be one device", fix, argument="device", got=brief(first))
        start = device_argument(op, first)
        if count == 1:
            return [start]
        local: list[jax.Device] = jax.local_devices(backend=start.platform)
        chosen = local[local.index(start) :][:count]
        if len(chosen) == count:
            return chosen
        all_devices: list[jax.Device] = jax.devices(start.platform)
        if start is local[0] and len(all_devices) == count:
            return all_devices
        after = f" from {_name(start)} on" if start is not local[0] else ""
        if len(all_devices) > len(local):
            after += f" in this process, {len(all_devices)} in all processes"
        fix = _more_devices(start, count)
        raise error(f"{need}, {start.platform} has {len(chosen)}{after}", fix)
    if first is not None:
        raise error("device and devices must not both be passed", "omit device or devices")
    if isinstance(listed, (str, jax.Device)) or not isinstance(listed, Sequence):
        fix = f"pass a list, such as devices=lowering.devices()[:{max(count, 2)}]"
        rule = "devices must be a sequence of devices"
        raise error(rule, fix, argument="devices", got=brief(listed))
    # `device` would refuse devices of other processes.
    chosen = [
        target if isinstance(target, jax.Device) else device_argument(op, target)
        for target in listed
    ]
    if len(chosen) != count:
        fix = f"pass num_replicas={len(chosen)} or num_partitions={len(chosen)}"
        fix = fix if count == 1 and chosen else f"list {brief(count)} devices"
        raise error(need, fix, argument="devices", got=f"{len(chosen)} in devices")
    if len(set(chosen)) != len(chosen):
        got = f"{first_duplicate(chosen)} twice"
        raise error("devices must be unique", argument="devices", got=got)
    if len({target.client for target in chosen}) > 1:
        platforms = ", ".join(sorted({target.platform for target in chosen}))
        raise error("devices must be of one platform", argument="devices", got=platforms)
    if not any(map(is_local, chosen)):
        raise _foreign_device(op, chosen[0])
    return chosen


def _more_devices(target: jax.Device, count: int) -> str:
    """Return the fix for a program that needs `count` devices, more than there are."""
    if jax.process_count() > 1:
        return (
            "request as many devices as all processes have, or list the devices to use: "
            "devices=lowering.devices(all_processes=True)[:n]"
        )
    if target.platform != "cpu":
        return f"request fewer devices, or devices of another platform: {_available()}"
    return (
        f"split the host into {brief(count)} devices before jax is first used: set "
        f"XLA_FLAGS=--xla_force_host_platform_device_count={brief(count)} in the environment, or "
        f'call jax.config.update("jax_num_cpu_devices", {brief(count)})'
    )


@functools.cache
def sharding_of(target: jax.Device) -> jax.sharding.SingleDeviceSharding:
    """Return the sharding of arrays on one device; the same object for each call with a device."""
    return jax.sharding.SingleDeviceSharding(target)


class Target:
    """The shape and the device of arrays, and what is needed to copy NumPy arrays to the device.

    The subclass for several devices is in `lowering.running.shards`.

    Attributes:
        shape: the shape of the arrays.
        sharding: the sharding of the arrays.
        device: the device; if there are several, the first one of this process.
        aval: jax's ShapedArray of the shape and dtype.
        dtype, dimensions: the dtype and the sizes of the NumPy arrays.
        default: the default memory layout of the arrays on the device.
    """

    def __init__(self, shape: ArrayShape, sharding: jax.sharding.Sharding) -> None:
        self.shape: Final = shape
        self.sharding: Final = sharding
        self.device = self._first_device()
        self.dtype: Final = shape.element_type.dtype
        self.dimensions: Final = shape.dimensions
        self.aval: Final = self._aval()
        shard = sharding.shard_shape(shape.dimensions)
        self.default: Final = jax_arrays.default_layout(self.device, self.dtype, shard)

    def _first_device(self) -> jax.Device:
        (device,) = self.sharding.device_set
        return device

    def _aval(self) -> Any:
        return jax.core.ShapedArray(self.dimensions, self.dtype)

    def put(self, array: np.ndarray[Any, Any]) -> jax.Array:
        """Copy a NumPy array of exactly the target's dtype and sizes to the device.

        Raises:
            ExecutionError: there is not enough memory.
        """
        try:
            return self._put(array)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise transfer_error(self.dtype, self.dimensions, self.sharding, error) from None

    def _put(self, array: np.ndarray[Any, Any]) -> jax.Array:
        put: jax.Array = jax_arrays.put(in_order(array), self.aval, self.sharding, self.device)
        return put


def in_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return `array` if it is C-contiguous, else a C-contiguous copy.

    Raises:
        MemoryError: the copy is larger than the host's memory. This is checked first, because the
            operating system may end a process that uses memory beyond the host's.
    """
    if array.flags.c_contiguous:
        return array
    if array.nbytes > host_memory():
        raise MemoryError("the array is larger than the memory of the host, where it is copied")
    return np.array(array, order="C", copy=True)
