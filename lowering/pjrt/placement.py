"""Copy arrays to devices bit for bit, whatever jax's x64 flag is."""

from __future__ import annotations

import functools
from typing import Any, Final, TypeAlias

import numpy as np
from jax.sharding import Mesh, PartitionSpec, Sharding, SingleDeviceSharding

from builder.errors import PrimitiveTypeError, brief, error_of
from builder.graph.calls import explained
from builder.sharding import mesh as meshes
from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.errors import ArgumentError
from lowering.jaxlib_api import jax_arrays
from lowering.jaxlib_api.lazy_jax import jax
from lowering.pjrt.devices import (
    DeviceLike,
    Target,
    device_argument,
    in_order,
    sharding_of,
)
from lowering.pjrt.entry_layouts import layout_from, put_in_layout
from lowering.pjrt.failures import is_out_of_memory, transfer_error
from lowering.pjrt.host_arrays import array_or_jax_array
from lowering.pjrt.sharded import ShardedTarget

PlaceLike: TypeAlias = "DeviceLike | Sharding"
"""A device, or a jax sharding over several devices."""


@explained
def device_put(value: Any, to: PlaceLike = None) -> jax.Array:
    """Copy an array bit for bit to one device or several, in the default memory layout.

    A jax.Array is copied from device to device, not through the memory of the host.

    Args:
        value: a NumPy array or scalar, a jax.Array, or an array of another library, which
            implements ``__array__``, ``__array_interface__``, ``__dlpack__`` or the buffer
            protocol.
        to: the device; None for jax's default device. For several devices, a jax sharding, such as
            a NamedSharding. The size of a sharded dimension must be a multiple of the number of
            its shards.

    Returns:
        A jax.Array of the same dtype and shape. Later writes to `value` do not change it.

    Raises:
        ArgumentError: `value` is not an array, or can't be read; its dtype is not an XLA element
            type; the sharding does not fit its sizes.
        DeviceError: the device does not exist.
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
    if isinstance(to, (PartitionSpec, Mesh, meshes.Mesh, meshes.MeshSharding, list, tuple)):
        rule = "argument to must be a device or a jax sharding"
        fix = "pass jax.sharding.NamedSharding(mesh, spec)"
        if isinstance(to, meshes.MeshSharding):
            fix = "pass executable.parameter_shardings[name], or " + fix.removeprefix("pass ")
        raise _error(rule, fix, argument="to", got=brief(to))
    if isinstance(to, Sharding):
        sharding = _check_complete(to)
    else:
        sharding = sharding_of(device_argument("device_put", to))
    array: Any = array_or_jax_array("device_put", value)
    try:
        element_type = pt.from_dtype(array.dtype)
    except PrimitiveTypeError as error:
        is_key = isinstance(value, jax.Array)
        fix = "pass jax.random.key_data(value) for random keys" if is_key else ""
        raise _error(error.rule, fix or error.fix) from None
    _check_fits(sharding, array.shape)
    if isinstance(array, jax.Array):
        return _copy(array, sharding)
    kind = Target if isinstance(sharding, SingleDeviceSharding) else ShardedTarget
    return kind(intern_array(element_type, array.shape), sharding).put(array)


def share_memory(array: np.ndarray[Any, Any], device: jax.Device) -> jax.Array:
    """Return a jax.Array in the memory of a NumPy array, which must not be modified afterwards.

    The array is copied unless the device is a CPU and the memory is contiguous and aligned.

    Raises:
        ArgumentError: the dtype is not an XLA element type.
    """
    try:
        element_type = pt.from_dtype(array.dtype)
    except PrimitiveTypeError as error:
        raise error._as_kind(ArgumentError, op="share_memory", context=("share_memory",)) from None
    target = Target(intern_array(element_type, array.shape), sharding_of(device))
    shared: jax.Array = jax_arrays.share(
        in_order(array), target.aval, target.sharding, target.device
    )
    return shared


_error: Final = functools.partial(error_of, ArgumentError, "device_put")


def _check_complete(sharding: Sharding) -> Sharding:
    """Return `sharding`.

    Raises:
        ArgumentError: the sharding does not determine the devices, or their parts of an array.
    """
    spec: Any = getattr(sharding, "spec", ())
    try:
        devices = sharding.device_set
    except ValueError:  # the mesh has no devices
        devices = set()
    if not devices or PartitionSpec.UNCONSTRAINED in spec:
        reason = "leaves a dimension unconstrained" if devices else "has a mesh without devices"
        rule = f"the sharding {reason}: {brief(sharding)}"
        fix = "pass NamedSharding(mesh, spec), where spec has mesh axes or None for each dimension"
        raise _error(rule, fix)
    return sharding


def _check_fits(sharding: Sharding, sizes: tuple[int, ...]) -> None:
    """Raise ArgumentError if arrays of these sizes can't be placed by a sharding."""
    kind = sharding.memory_kind
    first: Any = next(iter(sharding.device_set))
    default = first.default_memory().kind
    if kind is not None and kind != default:
        raise _error(
            f"to must be in memory of kind {default!r}",
            "use jax.device_put(lowering.device_put(value), sharding)",
            argument="to",
            got=f"memory of kind {brief(kind)}",
        )
    try:
        sharding.shard_shape(sizes)
    except (ValueError, TypeError, IndexError) as error:
        report = str(error).strip()
        reason = report.partition("\n")[0][:300]
        if isinstance(error, IndexError):
            reason = "the sharding has more dimensions than the array"
        rule = f"an array of the sizes {sizes} can't be sharded by {brief(sharding)}: {reason}"
        fix = "pad the array, or pass a sharding that fits its sizes"
        raise _error(rule, fix, detail=report) from None


def _copy(array: Any, sharding: Sharding) -> jax.Array:
    """Return a copy of a jax.Array with another sharding, in the default layout."""
    device = next(iter(array.sharding.device_set))
    shard = array.sharding.shard_shape(array.shape)
    default = jax_arrays.default_layout(device, array.dtype, shard)
    if jax_arrays.layout_of(array) != default:
        # jax.device_put would keep the layout.
        array = put_in_layout(array, layout_from(jax_arrays.layout_text(default)))
    try:
        # Without x64, jax would split 64-bit arrays by a program for 32-bit ones.
        with jax.enable_x64(True):
            copy: jax.Array = jax.device_put(array, sharding, may_alias=False)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise transfer_error(array.dtype, array.shape, sharding, error) from None
    return copy
