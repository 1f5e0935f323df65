"""Track a moving point through noisy measurements with a Kalman filter.

python examples/kalman.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import builder as xb
import lowering
from builder import lib


@lowering.jit
def track(
    measured: xb.XlaOp, a: xb.XlaOp, h: xb.XlaOp, q: xb.XlaOp, r: xb.XlaOp, p: xb.XlaOp
) -> xb.XlaOp:
    """Return the estimated states for measurements f32[time, sizes of a measurement].

    Args:
        measured: the measurements.
        a: the matrix from a state to the next one.
        h: the matrix from a state to its measurement.
        q, r: the covariances of the noise of states and of measurements.
        p: the covariance of the first state, whose mean is 0.
    """
    a_t, h_t = xb.transpose(a, [1, 0]), xb.transpose(h, [1, 0])

    def step(z: xb.XlaOp, x: xb.XlaOp, p: xb.XlaOp) -> Any:
        x, p = a @ x, a @ p @ a_t + q
        factor = xb.cholesky(h @ p @ h_t + r)
        gain = xb.transpose(lib.cholesky_solve(factor, h @ p), [1, 0])
        x, p = x + gain @ (z - h @ x), p - gain @ (h @ p)
        return x, x, p

    return xb.scan(measured, [lib.zeros_like(a[0]), p], step, 0)[0]


def model(noise: float) -> tuple[np.ndarray, ...]:
    """Return the matrices for positions and velocities in a plane; only positions are measured."""
    a = np.eye(4) + 0.1 * np.eye(4, k=2)
    q = np.diag([1e-5, 1e-5, 1e-2, 1e-2])
    matrices = (a, np.eye(2, 4), q, noise**2 * np.eye(2), np.eye(4))
    return tuple(matrix.astype(np.float32) for matrix in matrices)


def main() -> None:
    time = np.arange(0, 20, 0.1)
    path = np.stack([np.cos(time), np.sin(time)], -1)
    noise = 0.3
    measured = path + np.random.default_rng(0).normal(0, noise, path.shape)
    estimated = np.asarray(track(measured.astype(np.float32), *model(noise)))[:, :2]
    for name, positions in (("measured", measured), ("estimated", estimated)):
        print(f"{name}: root mean square error {np.sqrt(((positions - path) ** 2).mean()):.3f}")


if __name__ == "__main__":
    main()
