"""Devices, and arrays on them.

Arrays are put on a device exactly as they are: 64-bit elements stay 64-bit whatever jax's x64 flag
says, and the array on the device never shares the memory of the caller's.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from builder import primitive_type as pt
from builder.shape import ArrayShape, intern_array
from lowering import jaxlib_api
from lowering.errors import ArgumentError, DeviceError

__all__ = ["device", "devices", "put"]

DeviceLike: TypeAlias = "str | jax.Device | None"
"""A jax.Device, "cpu", "gpu:1", or None for jax's default device."""


def devices(platform: str | None = None) -> tuple[jax.Device, ...]:
    """The devices of this process.

    Args:
        platform: "cpu", "gpu", "cuda", "tpu", ...; None for those that jax prefers.

    Raises:
        DeviceError: there is no such platform here.

    Example:
        >>> import lowering
        >>> lowering.devices("cpu")[0].platform
        'cpu'
    """
    try:
        return tuple(jax.local_devices(backend=platform))
    except RuntimeError as error:
        raise DeviceError(
            f"device: there is no platform {platform!r} here\nfix: use one of {_known()}",
            detail=str(error),
        ) from None


def _known() -> str:
    """The devices there are, for messages."""
    found: dict[str, None] = {}
    for platform in (None, "cpu"):
        try:
            for one in jax.local_devices(backend=platform):
                found.setdefault(_device_text(one))
        except RuntimeError:  # "cpu" may be left out of jax's platforms
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
            return jax.local_devices()[0]
    if isinstance(which, jax.Device):
        if which.process_index != jax.process_index():
            raise DeviceError(
                f"device: {which} belongs to process {which.process_index}, this is process "
                f"{jax.process_index()}\nfix: use one of {_known()}"
            )
        return which
    if not isinstance(which, str):
        raise DeviceError(
            f"device: expected a jax.Device or a name such as 'cpu' or 'gpu:1', got {which!r}"
        )
    platform, colon, number = which.strip().lower().partition(":")
    if not platform or (colon and not (number.isascii() and number.isdecimal())):
        raise DeviceError(
            f"device: a device is named 'cpu' or 'gpu:1', got {which!r}\nfix: use one of {_known()}"
        )
    found = devices(platform)
    position = int(number) if colon else 0
    if position >= len(found):
        raise DeviceError(
            f"device: there is no device {which!r}, {platform} has {len(found)}\n"
            f"fix: use one of {_known()}"
        )
    return found[position]


_SHARDINGS: Final[dict[jax.Device, SingleDeviceSharding]] = {}


def sharding_of(one: jax.Device) -> SingleDeviceSharding:
    """The sharding "whole, on this device"; one object a device, so that `is` can compare it."""
    found = _SHARDINGS.get(one)
    if found is None:
        found = _SHARDINGS.setdefault(one, SingleDeviceSharding(one))
    return found


class Target:
    """Where the arrays of one shape go on one device, with all that is looked up only once.

    Attributes:
        shape: the array shape.
        device: the device.
        sharding: the sharding that says so.
        aval: jax's description of shape and dtype.
        dtype, dimensions: of the NumPy arrays put there.
        default: the memory layout of arrays there when no other is asked for.
    """

    __slots__ = ("aval", "default", "device", "dimensions", "dtype", "shape", "sharding")

    def __init__(self, shape: ArrayShape, sharding: SingleDeviceSharding) -> None:
        self.shape: Final = shape
        self.sharding: Final = sharding
        (self.device,) = sharding.device_set
        self.dtype: Final = shape.element_type.dtype
        self.dimensions: Final = shape.dimensions
        self.aval: Final[Any] = jax.core.ShapedArray(shape.dimensions, self.dtype)
        self.default: Final = jaxlib_api.default_layout(self.device, self.dtype, self.dimensions)

    def put(self, array: np.ndarray[Any, Any]) -> jax.Array:
        """Copies a NumPy array of exactly this dtype and shape to the device."""
        if not array.flags.c_contiguous:
            array = np.array(array, order="C", copy=True)
        result: jax.Array = jaxlib_api.put(array, self.aval, self.sharding, self.device)
        return result


def host_array(value: Any) -> np.ndarray[Any, Any] | None:
    """The elements of NumPy arrays and scalars and of dlpack objects as a NumPy array.

    The array may share the memory of `value`. None when `value` is nothing of the kind, or can't
    be read from the host.
    """
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            return None
        plain = np.asarray(value)
        if not plain.dtype.isnative:
            plain = plain.astype(plain.dtype.newbyteorder("="))
        return plain
    if not hasattr(value, "__dlpack__"):
        return None
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass  # a type that NumPy lacks (bfloat16), or memory of a device
    try:
        # Without x64, jax would make 64-bit elements into 32-bit ones.
        with jax.enable_x64(True):
            return np.asarray(jax.dlpack.from_dlpack(value))
    except Exception:  # whatever the exporter raises
        return None


def put(value: Any, to: DeviceLike = None) -> jax.Array:
    """Copies an array to a device, bit for bit, in the device's default memory layout.

    Args:
        value: a NumPy array or scalar, a jax.Array, or an object with ``__dlpack__``.
        to: the device; None for jax's default device.

    Returns:
        A jax.Array of the same dtype and shape. Later writes to `value` do not reach it.

    Raises:
        ArgumentError: no array, or of a dtype that XLA has no type for.
        DeviceError: there is no such device.

    Example:
        >>> import lowering, numpy as np
        >>> lowering.put(np.array([1.0, 0.1])).dtype
        dtype('float64')
    """
    target_device = device(to)
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        array: Any = np.asarray(value)
    else:
        array = host_array(value)
    if array is None:
        masked = isinstance(value, np.ma.MaskedArray)
        raise ArgumentError(
            f"put: expected a NumPy array, a jax.Array or a dlpack object, "
            f"got {type(value).__name__}\n"
            f"fix: {'array.filled(value)' if masked else 'numpy.asarray(value, dtype)'}",
            op="put",
        )
    try:
        element_type = pt.from_dtype(array.dtype)
    except ValueError as error:
        raise ArgumentError(f"put: {error}", op="put") from None
    shape = intern_array(element_type, array.shape)
    return Target(shape, sharding_of(target_device)).put(array)
