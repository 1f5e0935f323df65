"""jax.Arrays: their class, its getters, how they are created and assembled, and memory layouts."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from lowering.jaxlib_api.lazy_jax import jax, lax
from lowering.jaxlib_api.native import jax_extension, xla_client


def put(array: Any, aval: Any, sharding: Any, device: Any) -> Any:
    """Copy a NumPy array to `device`; the NumPy array may be modified right afterwards.

    Args:
        array: a C-contiguous NumPy array of exactly the shape and dtype of `aval`.
        aval: a jax.core.ShapedArray.
        sharding: the SingleDeviceSharding of the device.
        device: a jax.Device.
    """
    # Without enable_x64 a 64-bit array would get a 32-bit buffer, or be refused, when jax's flag
    # is off. With ZERO_COPY, the default, later writes of the caller would change the array.
    return jax_extension.batched_device_put(
        aval, sharding, [array], [device], True, False, _DURING_CALL, True
    )


def put_shards(shards: Sequence[Any], aval: Any, sharding: Any, devices: Sequence[Any]) -> Any:
    """Copy a NumPy array to each of several devices, as `put` does, and return one jax.Array.

    Args:
        shards: C-contiguous NumPy arrays, each in memory of its own.
        aval: a jax.core.ShapedArray of the result.
        sharding: the sharding of the result.
        devices: the devices of the shards, which are those of this process, in the order of the
            sharding.
    """
    return jax_extension.batched_device_put(
        aval, sharding, list(shards), list(devices), True, False, _DURING_CALL, True
    )


def device_assignment(sharding: Any) -> Sequence[Any]:
    """Return the devices of a jax sharding, in its order."""
    devices: Sequence[Any] = sharding._device_assignment
    return devices


def share(array: Any, aval: Any, sharding: Any, device: Any) -> Any:
    """Return a jax.Array like `put`, which may use the memory of the NumPy array.

    XLA does so on CPU if the memory is aligned. The NumPy array must not be modified afterwards.
    """
    return jax_extension.batched_device_put(
        aval, sharding, [array], [device], True, False, _ZERO_COPY, True
    )


_ZERO_COPY: Final = xla_client.HostBufferSemantics.ZERO_COPY
_DURING_CALL: Final = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL


def refuse_values(kind: type[Any], error: Callable[[Any], Exception]) -> None:
    """Make functions of jax raise ``error(value)`` for values of a type that is not jax's.

    Otherwise jax reports a value that is neither an array nor a static argument. jax replaces a
    TypeError by its own, so `error` should return another kind of exception.
    """
    from jax._src import core, dtypes

    def refuse(value: Any, *_: Any) -> Any:
        raise error(value)

    core.pytype_aval_mappings[kind] = refuse
    dtypes.canonicalize_value_handlers[kind] = refuse


array_type: Final[type[Any]] = xla_client.ArrayImpl
"""The class of ordinary jax.Arrays; tracers and key arrays have other classes."""

# The getters of the properties: calling them directly skips the lookup for each argument of a call.
# They accept only instances of `array_type`.
aval_of: Final[Callable[[Any], Any]] = array_type.aval.fget
"""Return the jax.core.ShapedArray of a jax.Array; equal results are usually the same object."""


def sharding_getter() -> Callable[[Any], Any]:
    """Return the getter of a jax.Array's sharding.

    The property exists only after `import jax`, which helper processes avoid.
    """
    getter: Callable[[Any], Any] = array_type.sharding.fget
    return getter


is_deleted: Final[Callable[[Any], bool]] = array_type.is_deleted
"""Return whether a jax.Array was deleted or donated."""


def memory_of(array: Any) -> int:
    """Return a number that is equal for jax.Arrays that share their memory.

    For an array on several devices, the number identifies the memory on this process's first
    device. Empty arrays, deleted arrays and arrays on platforms without addresses have numbers of
    their own.
    """
    if array.size and not array.is_deleted():
        try:
            address: int = array._fully_replicated_shard().unsafe_buffer_pointer()
        except RuntimeError:
            pass
        else:
            return address
    return id(array)


def assemble(aval: Any, sharding: Any, arrays: Sequence[Any]) -> Any:
    """Assemble a jax.Array from arrays on several devices.

    Args:
        aval: the jax.core.ShapedArray of the result.
        sharding: a jax sharding over the devices, with shards of the shapes of the arrays.
            `sharded_runner` requires a replicated sharding.
        arrays: the jax.Arrays of this process, in the order of the devices.
    """
    return array_type(aval, sharding, arrays, committed=True, _skip_checks=True)


def varying_axes(value: Any) -> frozenset[Any]:
    """Return the axes of jax.shard_map along which a value may differ; empty outside of it."""
    axes: frozenset[Any] = jax.typeof(value).mat.varying
    return axes


def axes_of(values: Any) -> frozenset[Any]:
    """Return the axes of jax.shard_map along which any of some nested values may differ."""
    return frozenset().union(*map(varying_axes, jax.tree_util.tree_leaves(values)))


def varying(values: Any, axes: frozenset[Any]) -> Any:
    """Mark nested values as values that may differ along `axes`."""
    if not axes:
        return values
    return jax.tree_util.tree_map(partial(_cast, axes=axes), values)


def alike(values: Any) -> Any:
    """Mark nested values as values that may differ along the same axes of jax.shard_map.

    jax requires it of branches and of the steps of a loop. A constant differs along no axis, so it
    is converted where another value may differ.
    """
    return varying(values, axes_of(values))


def _cast(leaf: Any, axes: frozenset[Any]) -> Any:
    missing = tuple(axes - varying_axes(leaf))
    return lax.pcast(leaf, missing, to="varying") if missing else leaf


def random_key(bits: Any, dtype: Any) -> Any:
    """Return a key of random numbers from the array of its bits.

    Args:
        bits: the array.
        dtype: the type of the key.
    """
    return jax.random.wrap_key_data(bits, impl=dtype._impl.name)


layout_of: Final[Callable[[Any], Any]] = array_type._pjrt_layout.fget
"""Return the memory layout of a jax.Array, to compare with `default_layout`.

The array must not be deleted: jaxlib 0.10 crashes otherwise."""


def default_layout(device: Any, dtype: Any, dimensions: tuple[int, ...]) -> Any:
    """Return the default memory layout of arrays on a device."""
    return device.client.get_default_layout(dtype, dimensions, device)


def layout_text(layout: Any) -> str:
    """Return a memory layout in the syntax of HLO: "{1,0}", on some platforms with tiles."""
    return str(layout)


def parameter_layouts(loaded: Any) -> list[Any] | None:
    """Return the layouts of an executable's parameters, or None if they are not available."""
    try:
        return list(loaded.get_parameter_layouts())
    except RuntimeError:  # jaxlib 0.10, if an argument is a token
        return None


def result_layouts(loaded: Any) -> list[Any] | None:
    """Return the layouts of an executable's results, or None if they are not available."""
    try:
        return list(loaded.get_output_layouts())
    except RuntimeError:  # jaxlib 0.10, if a result is a token
        return None


def parameter_tilings(loaded: Any) -> list[str] | None:
    """Return the GSPMD shardings of a partitioned executable's parameters as text.

    Return None if they are not available.
    """
    return _tilings(loaded.get_parameter_shardings())


def result_tilings(loaded: Any) -> list[str] | None:
    """Return the GSPMD shardings of a partitioned executable's results as text.

    Return None if they are not available. An executable without results has one sharding, that of
    the empty tuple.
    """
    return _tilings(loaded.get_output_shardings())


def _tilings(protos: Sequence[Any] | None) -> list[str] | None:
    if protos is None:
        return None
    return [str(xla_client.HloSharding.from_proto(proto)) for proto in protos]


def put_in_layout(
    array: Any, major_to_minor: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], sharding: Any
) -> Any:
    """Copy a jax.Array to another memory layout; 64-bit elements are preserved.

    Args:
        array: an array on the device of `sharding`.
        major_to_minor, tiles: the layout.
        sharding: the SingleDeviceSharding of the device.
    """
    jax: Any = importlib.import_module("jax")
    # The caller may be a function that jax is tracing, and only compiled functions apply layouts.
    with jax.ensure_compile_time_eval(), jax.disable_jit(False):
        return _copier(major_to_minor, tiles, sharding)(array)


@functools.lru_cache(maxsize=256)
def _copier(
    major_to_minor: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], sharding: Any
) -> Callable[[Any], Any]:
    """Return a function that copies arrays to a layout, much faster than jax.device_put."""
    jax: Any = importlib.import_module("jax")
    layouts: Any = importlib.import_module("jax.experimental.layout")
    layout = layouts.Layout(major_to_minor, tiles) if tiles else layouts.Layout(major_to_minor)

    def copy(array: Any) -> Any:
        return array

    copier: Callable[[Any], Any] = jax.jit(copy, out_shardings=layouts.Format(layout, sharding))
    return copier
