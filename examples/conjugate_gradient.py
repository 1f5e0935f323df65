"""Solve the Poisson equation in a square by conjugate gradients, without storing its matrix.

python examples/conjugate_gradient.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import builder as xb
import lowering
from builder import lib


def laplacian(u: xb.XlaOp) -> xb.XlaOp:
    """Return 4 u minus the four neighbours of each element of a square; 0 is beyond the border."""
    p = xb.pad(u, 0.0, [(1, 1, 0)] * 2)
    return 4.0 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]


@lowering.jit
def solve(f: xb.XlaOp, tolerance: xb.XlaOp) -> Any:
    """Return u with laplacian(u) = f up to a residual, and the number of iterations."""

    def step(state: Any) -> Any:
        u, residual, direction, square, count = state
        image = laplacian(direction)
        length = square / lib.sum(direction * image)
        u, residual = u + length * direction, residual - length * image
        new_square = lib.sum(xb.square(residual))
        return u, residual, residual + new_square / square * direction, new_square, count + 1

    start = (lib.zeros_like(f), f, f, lib.sum(xb.square(f)), 0)
    u, _, _, _, count = xb.while_(lambda state: state[3] > xb.square(tolerance), step, start)
    return u, count


def main() -> None:
    n = 200
    x = np.arange(1, n + 1) / (n + 1)
    hill = x * (1 - x)
    u = np.outer(hill, hill)  # 0 at the border
    f = 2 * (hill[:, None] + hill) / (n + 1) ** 2
    solution, count = solve(f.astype(np.float32), 1e-8)
    print(f"{int(count)} iterations; largest error {np.abs(solution - u).max():.1e}")


if __name__ == "__main__":
    main()
