"""Convert arrays of bounded sizes to and from the padded arrays of a program.

A program takes and returns arrays padded to their bounds, together with the actual sizes: see
`lowering.legalize.dynamic`. The caller passes and receives arrays of the actual sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.pjrt.devices import Target

SIZE: Final = intern_array(pt.s32, ())
"""The shape of the scalar that passes the actual size of a bounded dimension."""


@dataclass(frozen=True, slots=True)
class Padded:
    """An argument padded to its bounds.

    Attributes:
        array: the elements, padded with zeros.
        sizes: the actual size of each bounded dimension.
    """

    array: jax.Array
    sizes: list[jax.Array]


def too_large(shape: ArrayShape, sizes: Sequence[int]) -> str | None:
    """Return the fix for an array of `sizes` that does not fit `shape`; None if it fits."""
    if len(sizes) != shape.rank:
        return f"pass an array of {shape.rank} dimension{'s' * (shape.rank != 1)}"
    for dimension, (size, bound) in enumerate(zip(sizes, shape.dimensions, strict=True)):
        is_bounded = shape.dynamic_dimensions[dimension]
        if size > bound and is_bounded:
            index = ", ".join([":"] * dimension + [f":{bound}"])
            return f"reduce dimension {dimension} to size {bound} or less: array[{index}]"
        if size != bound and not is_bounded:
            return f"pass an array of size {bound} in dimension {dimension}"
    return None


def pad(array: Any, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """Return a host or device array padded with zeros to the bounds of `shape`."""
    elements = np.asarray(array)
    padded = np.zeros(shape.dimensions, elements.dtype)
    padded[tuple(slice(size) for size in elements.shape)] = elements
    return padded


def passing_sizes(
    run: Callable[[list[Any]], list[Any]], positions: Sequence[int]
) -> Callable[[list[Any]], list[Any]]:
    """Return a function that calls `run` with arrays and sizes instead of `Padded` arguments.

    Args:
        run: executes the program.
        positions: the positions of the `Padded` arguments. Each is replaced by its array; its sizes
            are appended to the arguments.
    """

    def run_with_sizes(arguments: list[Any]) -> list[Any]:
        sizes: list[Any] = []
        for position in positions:
            padded = arguments[position]
            arguments[position] = padded.array
            sizes += padded.sizes
        return run([*arguments, *sizes])

    return run_with_sizes


def slicing_results(
    pack: Callable[[list[Any]], Any],
    bounded_dimensions: Sequence[tuple[int, int]],
    targets: Sequence[Target],
) -> Callable[[list[Any]], Any]:
    """Return a function that slices a program's padded results to actual sizes, and packs them.

    The program returns the padded results, followed by the sizes.

    Args:
        pack: packs the sliced results.
        bounded_dimensions: for each returned size, the number of the result and the dimension.
        targets: the targets of the padded results.
    """
    count = len(targets)

    def pack_sliced(results: list[Any]) -> Any:
        arrays, sizes = results[:count], results[count:]
        actual: dict[int, list[int]] = {}
        for (number, dimension), size in zip(bounded_dimensions, sizes, strict=True):
            dimensions = actual.setdefault(number, list(targets[number].dimensions))
            # A program may set a size out of bounds; there are no elements there.
            dimensions[dimension] = min(max(int(size), 0), dimensions[dimension])
        for number, dimensions in actual.items():
            if tuple(dimensions) != targets[number].dimensions:
                arrays[number] = first_elements(arrays[number], dimensions, targets[number])
        return pack(arrays)

    return pack_sliced


def first_elements(array: jax.Array, sizes: Sequence[int], target: Target) -> jax.Array:
    """Return the first `sizes` elements of an array along each dimension, on its device."""
    if is_host(target.device):
        # NumPy reads the memory of the device: one copy, and nothing is compiled.
        shape = intern_array(target.shape.element_type, tuple(sizes))
        return Target(shape, target.sharding).put(np.asarray(array)[tuple(map(slice, sizes))])
    with jax.enable_x64(True):
        return jax.lax.slice(array, [0] * len(sizes), sizes)


def is_host(device: Any) -> bool:
    """Return whether a device uses the host's memory."""
    return bool(device.platform == "cpu")
