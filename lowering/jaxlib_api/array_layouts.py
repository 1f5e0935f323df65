"""Memory layouts of arrays, parameters and results; GSPMD shardings of executables."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from lowering.jaxlib_api.jax_arrays import array_type
from lowering.jaxlib_api.native import xla_client

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
