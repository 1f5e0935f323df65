"""Find clusters of points with Lloyd's algorithm, until no point changes its cluster.

python examples/k_means.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import builder as xb
import lowering
from builder import lib


@lowering.jit
def k_means(points: xb.XlaOp, centers: xb.XlaOp) -> xb.XlaOp:
    """Return the centers of clusters, the cluster of each point, and the number of iterations."""
    clusters = centers.shape.dimensions[0]

    def step(state: Any) -> Any:
        centers, nearest, _, count = state
        # |point - center|^2, without |point|^2, which is equal for all centers.
        products = lib.linear(points, xb.transpose(centers, [1, 0]))
        distances = xb.add(-2.0 * products, lib.sum(xb.square(centers), -1), [1])
        new = lib.arg_min(distances, xb.s32, -1)
        members = lib.one_hot(new, clusters, xb.f32)
        sums = lib.linear(xb.transpose(members, [1, 0]), points)
        centers = xb.div(sums, xb.max(lib.sum(members, 0), 1.0), [0])
        return centers, new, lib.any(xb.ne(new, nearest)), count + 1

    nearest = xb.broadcast(points.builder.constant(-1, xb.s32), points.shape.dimensions[:1])
    centers, nearest, _, count = xb.while_(lambda s: s[2], step, [centers, nearest, True, 0])
    return xb.tuple(centers, nearest, count)


def main() -> None:
    random = np.random.default_rng(0)
    true = random.uniform(-10, 10, (5, 2))
    points = (true[random.integers(0, 5, 2000)] + random.normal(size=(2000, 2))).astype(np.float32)
    centers, nearest, count = k_means(points, points[:5])
    print(f"{int(count)} iterations")
    for center, size in zip(np.asarray(centers), np.bincount(nearest, minlength=5), strict=True):
        print(f"{size} points around {np.round(center, 2)}")


if __name__ == "__main__":
    main()
