"""Convolve long signals with long kernels by Fourier transforms.

python examples/fft_convolution.py
"""

from __future__ import annotations

import time

import numpy as np

import builder as xb
import lowering


@lowering.jit
def convolve(signals: xb.XlaOp, kernels: xb.XlaOp) -> xb.XlaOp:
    """Return the full convolution of each row, f32[rows, m + n - 1] for m and n elements."""
    m, n = signals.shape.dimensions[1], kernels.shape.dimensions[1]
    length = 1 << (m + n - 2).bit_length()

    def spectrum(x: xb.XlaOp) -> xb.XlaOp:
        return xb.fft(xb.pad_in_dim(x, 0.0, 1, 0, length - x.shape.dimensions[1]), "RFFT", [length])

    return xb.fft(spectrum(signals) * spectrum(kernels), "IRFFT", [length])[:, : m + n - 1]


def main() -> None:
    random = np.random.default_rng(0)
    signal = random.normal(size=(2, 200_000)).astype(np.float32)
    decay = np.exp(-np.arange(50_000) / 8000)  # an echo
    kernel = (random.normal(size=(2, 50_000)) * decay).astype(np.float32)
    convolve(signal, kernel)  # compiles
    start = time.perf_counter()
    result = np.asarray(convolve(signal, kernel))
    seconds = time.perf_counter() - start
    k = 123_456
    expected = np.dot(signal[0, k - 49_999 : k + 1].astype(np.float64), kernel[0, ::-1])
    print(f"{result.shape} in {seconds:.3f} s; error of one element {result[0, k] - expected:.1e}")


if __name__ == "__main__":
    main()
