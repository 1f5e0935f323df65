"""jax.Arrays: their class, its getters, and how they are created and assembled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lowering.jaxlib_api.native import jax_extension, xla_client

__all__ = [
    "array_type",
    "assemble",
    "aval_of",
    "is_deleted",
    "memory_of",
    "put",
    "sharding_getter",
]


def put(array: Any, aval: Any, sharding: Any, device: Any) -> Any:
    """A jax.Array on `device` with the elements of a NumPy array, which may change right after.

    Args:
        array: a C-contiguous NumPy array of exactly the shape and dtype of `aval`.
        aval: a jax.core.ShapedArray.
        sharding: SingleDeviceSharding of the device.
        device: a jax.Device.
    """
    # Without enable_x64 a 64-bit array would get a 32-bit buffer, or be refused, when jax's flag
    # is off; ZERO_COPY, the default of the semantics, would let the caller's writes show through.
    return jax_extension.batched_device_put(
        aval, sharding, [array], [device], True, False, _DURING_CALL, True
    )


_DURING_CALL: Final = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL

array_type: Final[type[Any]] = xla_client.ArrayImpl
"""The class of ordinary jax.Arrays; tracers and key arrays have others."""

# What stands behind the properties of these arrays: called without a look-up of the property, they
# take a third less time, which every argument of a call pays. None takes another object.
aval_of: Final[Callable[[Any], Any]] = array_type.aval.fget
"""The jax.core.ShapedArray of a jax.Array; jax keeps one for all that are equal."""


def sharding_getter() -> Callable[[Any], Any]:
    """A function that gives the sharding of a jax.Array.

    jax defines the property; it has to be loaded, as it isn't in the process that reads files.
    """
    found: Callable[[Any], Any] = array_type.sharding.fget
    return found


is_deleted: Final[Callable[[Any], bool]] = array_type.is_deleted
"""Whether a jax.Array was deleted, or given away to a program."""


def memory_of(array: Any) -> int:
    """A number that is the same for jax.Arrays that share their memory.

    Of an array over several devices the memory on the first one of this process is asked for. What
    has no memory shares none: empty arrays, deleted ones, and where a platform does not tell.
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
    """One jax.Array of arrays on several devices.

    Args:
        aval: a jax.core.ShapedArray: of the whole.
        sharding: a jax sharding over the devices, that gives each an array of the shape that it
            has; as `sharded_runner` takes them, one that says that each has the whole.
        arrays: jax.Arrays, in the order of the devices; those of this process.
    """
    return array_type(aval, sharding, arrays, committed=True, _skip_checks=True)
