"""Updates at indices whose type can't count to the size of the dimension.

Without the rewrite XLA may write outside of the buffer, so the programs run in another process.
"""

from __future__ import annotations

import numpy as np
import pytest
from processes import run_python
from tables import each_row

import builder as xb
import lowering
from lowering.legalize import legalize

_PROGRAM = """
import sys

import numpy as np

import builder as xb
import lowering

NUMBERS = xb.ScatterDimensionNumbers([1], [], [0], 1)


def update(x, part, i, op):
    if op == "dynamic_update_slice":
        return xb.dynamic_update_slice(x, part, [i])
    size = part.shape.dimensions[0]
    indices, parts = xb.reshape(i, [1, 1]), xb.reshape(part, [1, size])
    return xb.scatter(x, indices, parts, lambda old, new: new, NUMBERS)


def in_branch(x, part, i, op):
    p = x.builder.constant(True)
    return xb.conditional(p, i, lambda j: update(x, part, j, op), i, lambda j: x)


def in_function(x, part, i, op):
    return xb.call(lambda *values: update(*values, op), x, part, i)


def in_loop(x, part, i, op):
    zero = x.builder.constant(0, i.shape.element_type)

    def body(s):
        return xb.tuple(s[0] + 1, update(s[1], part, s[0], op))

    return xb.while_(lambda s: s[0] <= i, body, (zero, x))[1]


def expected(x, size, place, op, places):
    want = x.copy()
    if places is in_loop:
        want[: place + 1] = -1
        return want
    if op == "dynamic_update_slice":
        place = min(max(place, 0), x.size - size)
    want[[p for p in range(place, place + size) if 0 <= p < x.size]] = -1
    return want


def counted(x, t, numbers, size, *all_places):
    b = xb.XlaBuilder("counted")
    shapes = xb.f32[x.size], xb.f32[size], t[()]
    parameters = [*map(b.parameter, shapes)]
    cases = [(op, f) for op in ("dynamic_update_slice", "scatter") for f in all_places]
    root = xb.tuple(*(places(*parameters, op) for op, places in cases))
    run = lowering.compile(b.build(root), "cpu")
    for place in numbers:
        results = run(x, np.full(size, -1, np.float32), np.asarray(place).astype(t.dtype))
        for (op, places), got in zip(cases, map(np.asarray, results), strict=True):
            want = expected(x, size, place, op, places)
            assert got.tobytes() == want.tobytes(), (t, x.size, place, op, places.__name__, got)


for t, size in (each.split() for each in sys.argv[1:]):
    t, size = getattr(xb, t), int(size)
    x = np.arange(size, dtype=np.float32)
    largest = int(t.max)
    counted(x, t, (largest, largest // 2, -1 if t.is_signed else 0), 1, update)
    counted(x, t, [largest - 1], 1, in_branch, in_loop)
    counted(x, t, [largest - 1], 2, in_function)
print("done")
"""

# The test of the converted types has the exact limits.
_SIZES = {
    "s8": (127, 128, 300),
    "u8": (256,),
    "s16": (32769,),
    "u16": (65537,),
    "s4": (8, 40),
    "u4": (17,),
}


@pytest.mark.slow
def test_updates_at_narrow_indices() -> None:
    sizes = [f"{t} {size}" for t, each in _SIZES.items() for size in each]
    assert run_python("-c", _PROGRAM, *sizes).stdout == "done\n"


def _module(t: xb.PrimitiveType, size: int) -> lowering.StablehloModule:
    b = xb.XlaBuilder("update")
    x, i = b.parameter(xb.u8[size]), b.parameter(xb.array_shape(t, []))
    return lowering.lower(b.build(xb.dynamic_update_slice(x, xb.slice(x, [0], [1]), [i])))


@each_row(
    "t, size, wide",
    [
        (xb.s8, 127, None),
        (xb.s8, 128, "i32"),
        (xb.u8, 255, None),
        (xb.u16, 2**16, "i32"),
        (xb.u16, 2**31, "i64"),
        (xb.s32, 2**31 - 1, None),
        (xb.s32, 2**31, "i64"),
        (xb.u32, 2**31, None),
        (xb.u32, 2**32, "i64"),
        (xb.s64, 2**40, None),
        (xb.u64, 2**40, "i64"),  # by the rewrite of indices from 2^63 on
    ],
)
def test_indices_are_converted_to_the_narrowest_wide_type(
    t: xb.PrimitiveType, size: int, wide: str | None
) -> None:
    module = _module(t, size)
    text = str(legalize(module.module, "update", "cpu").operation)
    assert ("convert" in text) == (wide is not None)
    assert wide is None or f"-> tensor<{wide}>" in text
    assert "convert" not in str(module)


def test_constant_windows_in_bounds_are_not_padded() -> None:
    """Also where the type of their indices changes."""
    b = xb.XlaBuilder("window")
    x = b.parameter(xb.f32[300])
    indices = b.constant(np.array([[100]], np.uint8))
    parts = b.constant(np.array([[1, 2]], np.float32))
    numbers = xb.ScatterDimensionNumbers([1], [], [0], 1)
    module = lowering.lower(b.build(xb.scatter(x, indices, parts, xb.add, numbers)))
    text = str(legalize(module.module, "window", "cpu").operation)
    assert "convert" in text
    assert "pad" not in text
