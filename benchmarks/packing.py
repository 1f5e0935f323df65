"""How long arrays take to be packed into the buffer of a layout, beside one copy of their bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import builder as xb
from benchmarks.timing import Round, in_turns, spread, timed
from builder import layout

__all__ = ["ELEMENTS", "LAYOUTS", "measure_packing"]

ELEMENTS: Final = 100_000_000

LAYOUTS: Final = (
    ("f32", "{1,0}"),
    ("f32", "{0,1}"),
    ("f32", "{1,0:T(8,128)}"),
    ("f32", "{0,1:T(8,128)}"),
    ("bf16", "{1,0:T(8,128)(2,1)}"),
    ("bf16", "{0,1:T(8,128)(2,1)}"),
)


def measure_packing(
    elements: int, *, rounds: int, seconds: float, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Milliseconds of `pack` and `unpack` for each layout, of a square array.

    Args:
        elements: about how many elements the array has.
        rounds: how many rounds at most.
        seconds: what a step may use up before it is left out of further rounds.
        tell: is told what is measured now.

    Returns:
        For each layout "shape", "elements"; "ms", spreads of "pack", "unpack", "copy" (one
        `numpy.copyto` of the array to another that is there) and "fresh" (the same to a new array,
        which `pack` and `unpack` make too); and the ratios of the medians.
    """
    side = math.isqrt(elements)
    found = []
    for element, text in LAYOUTS:
        shape = xb.array_shape(element, [side, side], layout=text)
        tell(f"{shape}")
        found.append(_measured(shape, rounds, seconds))
    return found


def _measured(shape: xb.ArrayShape, rounds: int, seconds: float) -> dict[str, Any]:
    count = shape.element_count
    numbers = np.arange(count, dtype=f"u{shape.element_type.byte_width}")
    array = numbers.view(shape.element_type.dtype).reshape(shape.dimensions)
    there = array.copy()
    buffer = layout.pack(array, shape)
    # A figure of something that gives wrong results would be worth nothing.
    back = layout.unpack(buffer, shape).view(numbers.dtype).reshape(-1)
    assert np.array_equal(back, numbers), shape
    del back

    def step(name: str, function: Callable[[], Any]) -> Round:
        return lambda: {name: timed(function)[0]}

    steps = {
        "pack": step("pack", lambda: layout.pack(array, shape)),
        "unpack": step("unpack", lambda: layout.unpack(buffer, shape)),
        "copy": step("copy", lambda: np.copyto(there, array)),
        "fresh": step("fresh", lambda: np.copyto(np.empty_like(array), array)),
    }
    times, _ = in_turns(steps, rounds=rounds, seconds=seconds)
    ms = {name: spread([second * 1e3 for second in each]) for name, each in times.items()}
    ratios = {
        f"{one}/{other}": ms[one]["median"] / ms[other]["median"]
        for one in ("pack", "unpack")
        for other in ("copy", "fresh")
        # A processor's clock may not see a copy of a few elements.
        if ms[other]["median"]
    }
    return {"shape": str(shape), "elements": count, "ms": ms, "ratios": ratios}
