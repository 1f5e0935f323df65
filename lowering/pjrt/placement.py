"""Arrays put on devices, whole or cut up: exactly as they are, whatever jax's x64 flag says."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec, Sharding, SingleDeviceSharding

from builder.errors import brief
from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.errors import ArgumentError
from lowering.jaxlib_api import array_layouts
from lowering.pjrt.devices import DeviceLike, Target, device, sharding_of
from lowering.pjrt.entry_layouts import layout_from, put_in_layout
from lowering.pjrt.failures import is_out_of_memory, no_room
from lowering.pjrt.host_arrays import host_array

__all__ = ["device_put"]

PlaceLike: TypeAlias = "DeviceLike | Sharding"
"""What names a device, or a jax sharding over several."""


def device_put(value: Any, to: PlaceLike = None) -> jax.Array:
    """Copies an array to a device, or to several, bit for bit, in their default memory layout.

    An array that is on a device goes to others without passing through the memory of the host.

    Args:
        value: a NumPy array or scalar, a jax.Array, or an object with ``__dlpack__``.
        to: the device; None for jax's default device. Or a sharding of jax's, such as a
            NamedSharding, which says for each of its devices which part it gets; sizes that are
            cut must be multiples of the numbers of parts.

    Returns:
        A jax.Array of the same dtype and shape. Later writes to `value` do not reach it.

    Raises:
        ArgumentError: no array, of a dtype that XLA has no type for, or one that the sharding
            can't cut.
        DeviceError: there is no such device.
        ExecutionError: the device has not enough memory.

    Example:
        >>> import lowering, numpy as np
        >>> lowering.device_put(np.array([1.0, 0.1])).dtype
        dtype('float64')
        >>> from jax.sharding import Mesh, NamedSharding, PartitionSpec
        >>> mesh = Mesh(np.array(lowering.devices("cpu")[:1]), ("x",))
        >>> lowering.device_put(np.ones((4, 2)), NamedSharding(mesh, PartitionSpec("x"))).shape
        (4, 2)
    """
    if isinstance(to, (PartitionSpec, Mesh)):
        raise ArgumentError(
            f"device_put: to must be a device or a sharding, got {brief(to)}\n"
            f"fix: jax.sharding.NamedSharding(mesh, spec)",
            op="device_put",
        )
    sharding = _need_devices(to) if isinstance(to, Sharding) else sharding_of(device(to))
    if isinstance(value, jax.core.Tracer):
        raise ArgumentError(
            "device_put: expected an array, got a tracer of jax\n"
            "fix: call it outside of jax.jit, jax.grad and other transformations",
            op="device_put",
        )
    array: Any = value
    if not isinstance(value, jax.Array):
        array = host_array(value)
        if array is None:
            masked = isinstance(value, np.ma.MaskedArray)
            raise ArgumentError(
                f"device_put: expected a NumPy array, a jax.Array or a dlpack object, "
                f"got {type(value).__name__}\n"
                f"fix: {'array.filled(value)' if masked else 'numpy.asarray(value, dtype)'}",
                op="device_put",
            )
    elif value.is_deleted():
        raise ArgumentError(
            "device_put: expected an array, got a jax.Array that has been deleted", op="device_put"
        )
    elif not value.is_fully_addressable:
        raise ArgumentError(
            "device_put: expected an array of this process, got a jax.Array on devices of others",
            op="device_put",
        )
    try:
        element_type = pt.from_dtype(array.dtype)
    except ValueError as error:
        fix = ""
        if isinstance(value, jax.Array):
            fix = "\nfix: for random keys, jax.random.key_data(value)"
        raise ArgumentError(f"device_put: {error}{fix}", op="device_put") from None
    # Looked at first, for all: jaxlib would be given parts that do not fit.
    parts = _parts(sharding, array.shape)
    if isinstance(array, jax.Array):
        return _moved(array, sharding)
    if isinstance(sharding, SingleDeviceSharding):
        return Target(intern_array(element_type, array.shape), sharding).put(array)
    pieces = [array[index] for index in parts.values()]
    arrays = [
        Target(intern_array(element_type, piece.shape), sharding_of(one)).put(piece)
        for one, piece in zip(parts, pieces, strict=True)
    ]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, arrays)


def _need_devices(sharding: Sharding) -> Sharding:
    """The sharding, which must say all of where an array lies."""
    spec: Any = getattr(sharding, "spec", ())
    try:
        there = sharding.device_set
    except ValueError:  # of a mesh without devices
        there = set()
    if not there or PartitionSpec.UNCONSTRAINED in spec:
        lacks = "leaves a dimension open" if there else "is of a mesh without devices"
        raise ArgumentError(
            f"device_put: the sharding {lacks}: {brief(sharding)}\n"
            f"fix: give a NamedSharding of a jax.sharding.Mesh that names each dimension's axes",
            op="device_put",
        )
    return sharding


def _parts(sharding: Sharding, sizes: tuple[int, ...]) -> dict[jax.Device, Any]:
    """By device of this process the part of an array that a sharding gives it."""
    kind = sharding.memory_kind
    one: Any = next(iter(sharding.device_set))
    default = one.default_memory().kind
    if kind is not None and kind != default:
        raise ArgumentError(
            f"device_put: to must be in the devices' own memory ({default}), got memory of kind "
            f"{brief(kind)}\nfix: jax.device_put(lowering.device_put(value), sharding)",
            op="device_put",
        )
    try:
        sharding.shard_shape(sizes)
        found: dict[jax.Device, Any] = dict(sharding.addressable_devices_indices_map(sizes))
    except (ValueError, TypeError, IndexError) as error:
        report = str(error).strip()
        reason = report.partition("\n")[0][:300]
        if isinstance(error, IndexError):
            reason = "it names more dimensions than the array has"
        raise ArgumentError(
            f"device_put: an array of the sizes {sizes} can't be cut as {brief(sharding)} says: "
            f"{reason}\nfix: pad the array, or leave that dimension whole",
            op="device_put",
            detail=report,
        ) from None
    return found


def _moved(array: Any, sharding: Sharding) -> jax.Array:
    """A jax.Array copied to other devices, or in place, in the layout that is usual there."""
    one = next(iter(array.sharding.device_set))
    piece = array.sharding.shard_shape(array.shape)
    usual = array_layouts.default_layout(one, array.dtype, piece)
    if array_layouts.layout_of(array) != usual:
        # jax.device_put would keep it.
        array = put_in_layout(array, layout_from(array_layouts.layout_text(usual)))
    try:
        # Without x64, jax would cut 64-bit arrays by a program for 32-bit ones.
        with jax.enable_x64(True):
            moved: jax.Array = jax.device_put(array, sharding, may_alias=False)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise no_room("device_put", array.dtype, array.shape, sharding, error) from None
    return moved
