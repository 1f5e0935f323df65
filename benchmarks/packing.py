"""Measure packing arrays into the buffers of layouts, compared with a copy of their bytes."""

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
    elements: int, *, rounds: int, seconds: float, on_progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure `pack` and `unpack` of a square array for each layout.

    Args:
        elements: the approximate number of elements.
        rounds: the maximum number of rounds.
        seconds: the time after which a step is left out of further rounds.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "packing", as documented in `benchmarks/figures.py`, one for each layout.
    """
    side = math.isqrt(elements)
    entries = []
    for element, text in LAYOUTS:
        shape = xb.array_shape(element, [side, side], layout=text)
        on_progress(str(shape))
        entries.append(_measured(shape, rounds, seconds))
    return entries


def _measured(shape: xb.ArrayShape, rounds: int, seconds: float) -> dict[str, Any]:
    count = shape.element_count
    numbers = np.arange(count, dtype=f"u{shape.element_type.byte_width}")
    array = numbers.view(shape.element_type.dtype).reshape(shape.dimensions)
    existing = array.copy()
    buffer = layout.pack(array, shape)
    unpacked = layout.unpack(buffer, shape).view(numbers.dtype).reshape(-1)
    assert np.array_equal(unpacked, numbers), shape
    del unpacked

    def step(name: str, function: Callable[[], Any]) -> Round:
        return lambda: {name: timed(function)[0]}

    steps = {
        "pack": step("pack", lambda: layout.pack(array, shape)),
        "unpack": step("unpack", lambda: layout.unpack(buffer, shape)),
        "copy": step("copy", lambda: np.copyto(existing, array)),
        "fresh": step("fresh", lambda: np.copyto(np.empty_like(array), array)),
    }
    times, _ = in_turns(steps, rounds=rounds, seconds=seconds)
    ms = {name: spread([value * 1e3 for value in values]) for name, values in times.items()}
    ratios = {
        f"{ours}/{copy}": ms[ours]["median"] / ms[copy]["median"]
        for ours in ("pack", "unpack")
        for copy in ("copy", "fresh")
        if ms[copy]["median"]  # the clock may not resolve a copy of a few elements
    }
    return {"shape": str(shape), "elements": count, "ms": ms, "ratios": ratios}
