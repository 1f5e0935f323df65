"""jax.Arrays: their class, its getters, and how they are created and assembled."""

from __future__ import annotations

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
