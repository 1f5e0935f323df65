"""Arrays of bounded sizes, as a program takes and gives them.

A program takes and gives arrays of the largest sizes, and the sizes beside them: see
`lowering.legalize.dynamic`. The caller gives and gets arrays of the sizes themselves.
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

__all__ = ["SIZE", "Filled", "cut_off", "fill_up", "passing_sizes", "too_large"]

SIZE: Final = intern_array(pt.s32, ())
"""The shape of a size."""


@dataclass(frozen=True, slots=True)
class Filled:
    """An argument in its largest size.

    Attributes:
        array: the elements, and zeros behind them.
        sizes: how many of them there are, for each bounded dimension.
    """

    array: jax.Array
    sizes: list[jax.Array]


def too_large(shape: ArrayShape, sizes: Sequence[int]) -> str | None:
    """What is wrong with the sizes of an array that is given for `shape`; None if nothing is."""
    if len(sizes) != shape.rank:
        return f"give an array of {shape.rank} dimension{'s' * (shape.rank != 1)}"
    for dimension, (size, bound) in enumerate(zip(sizes, shape.dimensions, strict=True)):
        if size > bound and shape.dynamic_dimensions[dimension]:
            cut = ", ".join([":"] * dimension + [f":{bound}"])
            return f"dimension {dimension} may be of size {bound} at most: array[{cut}]"
        if size != bound and not shape.dynamic_dimensions[dimension]:
            return f"dimension {dimension} must be of size {bound}"
    return None


def fill_up(array: Any, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """A host or device array in the largest sizes of `shape`, with zeros behind its elements."""
    elements = np.asarray(array)
    whole = np.zeros(shape.dimensions, elements.dtype)
    whole[tuple(slice(size) for size in elements.shape)] = elements
    return whole


def passing_sizes(
    run: Callable[[list[Any]], list[Any]], places: Sequence[int]
) -> Callable[[list[Any]], list[Any]]:
    """`run` for arguments of which those at `places` are `Filled`: their sizes go behind all."""

    def run_with_sizes(arguments: list[Any]) -> list[Any]:
        sizes: list[Any] = []
        for place in places:
            filled = arguments[place]
            arguments[place] = filled.array
            sizes += filled.sizes
        return run([*arguments, *sizes])

    return run_with_sizes


def cut_off(
    pack: Callable[[list[Any]], Any], places: Sequence[tuple[int, int]], targets: Sequence[Target]
) -> Callable[[list[Any]], Any]:
    """`pack` for results in their largest sizes, behind which the sizes stand.

    Args:
        pack: puts the results of their own sizes together.
        places: of each size the number of the result, and the dimension.
        targets: for each result where its arrays go, in their largest sizes.
    """
    count = len(targets)

    def pack_cut(results: list[Any]) -> Any:
        whole, sizes = results[:count], results[count:]
        wanted: dict[int, list[int]] = {}
        for (number, dimension), size in zip(places, sizes, strict=True):
            found = wanted.setdefault(number, list(targets[number].dimensions))
            # A program may have set a size out of bounds: nothing is there.
            found[dimension] = min(max(int(size), 0), found[dimension])
        for number, dimensions in wanted.items():
            if tuple(dimensions) != targets[number].dimensions:
                whole[number] = _cut(whole[number], dimensions, targets[number])
        return pack(whole)

    return pack_cut


def _cut(array: jax.Array, sizes: list[int], target: Target) -> jax.Array:
    """The first elements of an array in each dimension, on the same device."""
    if is_host(target.device):
        # The host's memory is the device's: nothing is compiled, and once copied.
        shape = intern_array(target.shape.element_type, tuple(sizes))
        return Target(shape, target.sharding).put(np.asarray(array)[tuple(map(slice, sizes))])
    with jax.enable_x64(True):
        return jax.lax.slice(array, [0] * len(sizes), sizes)


def is_host(device: Any) -> bool:
    """Whether a device's memory is the host's."""
    return bool(device.platform == "cpu")
