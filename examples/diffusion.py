"""Draw handwritten digits by a diffusion process that is run backwards.

Noise of a level sigma is added to images. A denoiser returns the mean of the images that a noisy
one may come from; for a finite set of images it is a softmax over the set. The loop starts with
noise, and each step denoises, and adds noise of the next, lower level. Random numbers are drawn
inside the loop.

    python examples/diffusion.py [--seed N]
"""

from __future__ import annotations

import argparse
from typing import Any

import digits
import numpy as np

import builder as xb
import lowering
from builder import lib


def denoise(x: xb.XlaOp, sigma: xb.XlaOp, images: xb.XlaOp) -> xb.XlaOp:
    """Return the expected images for noisy ones f32[batch, pixels]."""
    products = x @ xb.transpose(images, [1, 0]) - lib.sum(images * images, 1)[None] / 2.0
    return lib.softmax(products / (sigma * sigma)) @ images


@lowering.jit(static=["batch"])
def sample(seed: xb.XlaOp, sigmas: xb.XlaOp, images: xb.XlaOp, batch: int) -> xb.XlaOp:
    """Return samples f32[batch, pixels].

    Args:
        seed: of the random numbers, u32.
        sigmas: levels of noise in descending order, f32[steps].
        images: the set of images, f32[count, pixels].
        batch: the number of samples.
    """
    key = lib.random_key(seed.builder, seed)
    shape = xb.f32[batch, images.shape.dimensions[1]]

    def step(sigma: xb.XlaOp, following: xb.XlaOp, number: xb.XlaOp, x: xb.XlaOp) -> Any:
        # Half of the variance of the next level is noise of this level, the other half is new.
        mean = denoise(x, sigma, images)
        old = following / sigma * np.sqrt(0.5).astype(np.float32)
        new = following * np.sqrt(0.5).astype(np.float32)
        noise = lib.normal(lib.fold_in(key, number), shape)
        return number + 1, mean + old * (x - mean) + new * noise

    start = [np.uint32(1), sigmas[0] * lib.normal(lib.fold_in(key, 0), shape)]
    return xb.scan([sigmas[:-1], sigmas[1:]], start, step, 0)[1]


def levels(steps: int) -> np.ndarray:
    """Return levels of noise in a geometric sequence."""
    return np.geomspace(20, 0.05, steps).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    images = digits.load_digits()[0].reshape(-1, digits.PIXELS)
    seed = np.uint32(parser.parse_args().seed)
    samples = np.asarray(sample(seed, levels(100), images, 8))
    shades = np.array(list(" .:-=+*#%@"))
    for rows in (shades[np.clip(samples * 10, 0, 9).astype(int)]).reshape(-1, 8, 8).swapaxes(0, 1):
        print("  ".join("".join(row) for row in rows))
    distances = np.linalg.norm(samples[:, None] - images, axis=-1).min(1) / np.sqrt(digits.PIXELS)
    print(f"root mean square difference from the nearest image: {distances.mean():.3f}")


if __name__ == "__main__":
    main()
