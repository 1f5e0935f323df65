"""Memory layouts of arrays, of parameters and of results; GSPMD shardings of a program."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from lowering.jaxlib_api.jax_arrays import array_type
from lowering.jaxlib_api.native import xla_client

__all__ = [
    "default_layout",
    "layout_of",
    "layout_text",
    "parameter_layouts",
    "parameter_tilings",
    "put_in_layout",
    "result_layouts",
    "result_tilings",
]

layout_of: Final[Callable[[Any], Any]] = array_type._pjrt_layout.fget
"""The memory layout of a jax.Array, to be compared with `default_layout`.

The array must not be deleted: jaxlib 0.10 crashes then."""


def default_layout(device: Any, dtype: Any, dimensions: tuple[int, ...]) -> Any:
    """The memory layout that arrays have on a device where no other was asked for."""
    return device.client.get_default_layout(dtype, dimensions, device)


def layout_text(layout: Any) -> str:
    """A memory layout as it stands in shapes: "{1,0}", on some platforms with tiles."""
    return str(layout)


def parameter_layouts(loaded: Any) -> list[Any] | None:
    """The layouts that a LoadedExecutable takes its arguments in; None if it does not tell."""
    try:
        return list(loaded.get_parameter_layouts())
    except RuntimeError:  # 0.10, where an argument is a token
        return None


def result_layouts(loaded: Any) -> list[Any] | None:
    """The layouts that a LoadedExecutable gives its results in; None if it does not tell."""
    try:
        return list(loaded.get_output_layouts())
    except RuntimeError:  # 0.10, where a result is a token
        return None


def parameter_tilings(loaded: Any) -> list[str] | None:
    """How a LoadedExecutable of several partitions takes its arguments: GSPMD's texts.

    None if it does not tell.
    """
    return _tilings(loaded.get_parameter_shardings())


def result_tilings(loaded: Any) -> list[str] | None:
    """The same for its results. Of a program without any it tells of the empty tuple."""
    return _tilings(loaded.get_output_shardings())


def _tilings(found: Sequence[Any] | None) -> list[str] | None:
    if found is None:
        return None
    return [str(xla_client.HloSharding.from_proto(one)) for one in found]


def put_in_layout(
    array: Any, major_to_minor: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], sharding: Any
) -> Any:
    """A copy of a jax.Array in another memory layout; 64-bit elements are kept.

    Args:
        array: on the device of `sharding`.
        major_to_minor, tiles: the layout.
        sharding: SingleDeviceSharding of the device.
    """
    jax: Any = importlib.import_module("jax")
    # A function that jax is tracing may call this with arrays of its own; and what jax does not
    # compile it does not lay out.
    with jax.ensure_compile_time_eval(), jax.disable_jit(False):
        return _copier(major_to_minor, tiles, sharding)(array)


@functools.lru_cache(maxsize=256)
def _copier(
    major_to_minor: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], sharding: Any
) -> Callable[[Any], Any]:
    """A function that copies arrays into a layout: in a tenth of the time of jax.device_put."""
    jax: Any = importlib.import_module("jax")
    layouts: Any = importlib.import_module("jax.experimental.layout")
    layout = layouts.Layout(major_to_minor, tiles) if tiles else layouts.Layout(major_to_minor)

    def copied(array: Any) -> Any:
        return array

    made: Callable[[Any], Any] = jax.jit(copied, out_shardings=layouts.Format(layout, sharding))
    return made
