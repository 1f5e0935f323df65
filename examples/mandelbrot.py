"""Draw the Mandelbrot set in the terminal.

python examples/mandelbrot.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import builder as xb
import lowering


@lowering.jit
def steps(points: xb.XlaOp, limit: xb.XlaOp) -> xb.XlaOp:
    """Return for each complex point c after how many steps z = z * z + c leaves a circle."""

    def step(state: Any) -> Any:
        z, counts, number = state
        z = z * z + points
        # NaN after overflow is outside too.
        is_inside = xb.abs(z) <= 2.0
        return z, counts + xb.convert(is_inside, xb.s32), number + 1

    zeros = np.zeros(points.shape.dimensions, np.int32)
    return xb.while_(lambda state: state[2] < limit, step, [points, zeros, 0])[1]


def main() -> None:
    real, imaginary = np.linspace(-2.2, 0.8, 100), np.linspace(-1.2, 1.2, 36)
    counts = np.asarray(steps((real + 1j * imaginary[:, None]).astype(np.complex64), 60))
    for row in counts:
        print("".join(" .:-=+*#%@"[min(count // 6, 9)] for count in row))


if __name__ == "__main__":
    main()
