"""Predict a signal with an LSTM.

The weights of the LSTM are random, and the readout of its states is fitted by least squares.

    python examples/lstm.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import builder as xb
import lowering
from builder import lib

WIDTH = 64


@lowering.jit
def lstm(inputs: xb.XlaOp, weights: xb.XlaOp, recurrent: xb.XlaOp, bias: xb.XlaOp) -> xb.XlaOp:
    """Return the states f32[time, batch, WIDTH] for inputs f32[time, batch, features]."""

    def step(x: xb.XlaOp, state: xb.XlaOp, cell: xb.XlaOp) -> Any:
        gates = lib.linear(x, weights, bias) + lib.linear(state, recurrent)
        input, forget, new, output = lib.split(gates, 4, axis=-1)
        cell = lib.sigmoid(forget) * cell + lib.sigmoid(input) * xb.tanh(new)
        state = lib.sigmoid(output) * xb.tanh(cell)
        return state, state, cell

    zeros = lib.zeros(inputs.builder, xb.f32[inputs.shape.dimensions[1], WIDTH])
    return xb.scan(inputs, [zeros, zeros], step, 0)[0]


def random_weights(features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    sizes = ((features, 4 * WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH,))
    weights, recurrent, bias = (random.normal(0, 1.5 / np.sqrt(s[0]), s) for s in sizes)
    return weights.astype(np.float32), recurrent.astype(np.float32), bias.astype(np.float32)


def main() -> None:
    time = np.arange(2000)
    signal = (np.sin(time / 7) * np.cos(time / 23)).astype(np.float32)
    states = np.asarray(lstm(signal[:-1, None, None], *random_weights(1, seed=0)))[:, 0]
    readout, *_ = np.linalg.lstsq(states[100:1500], signal[101:1501], rcond=None)
    error = states[1500:] @ readout - signal[1501:]
    print(f"root mean square of the signal: {signal.std():.3f}, of the error: {error.std():.5f}")


if __name__ == "__main__":
    main()
