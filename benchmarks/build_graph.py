"""How long it takes to record and to lower a graph, beside JAX's trace and lower of the same.

    python benchmarks/build_graph.py [--ops N] [--rounds N] [--json FILE]

Three chains of N ops (elementwise, reshaping, dot) are built in turn by xlabuilder and by jax.lax,
interleaved, each round in the same process. Times are medians of the rounds in microseconds for
each op recorded; ratios compare the two within a round, so that a machine that is busy with other
things slows both.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax

import builder as xb
import lowering

SIZE = 128


def elementwise_ours(count: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("elementwise")
    x, v = b.parameter(xb.f32[SIZE, SIZE], "x"), b.parameter(xb.f32[SIZE], "v")
    while len(b.ops) < count:
        y = xb.add(x, v, broadcast_dimensions=[1])
        y = xb.mul(y, x)
        y = xb.tanh(y)
        x = xb.max(y, x)
    return b.build(x)


def elementwise_jax(count: int) -> Callable[..., Any]:
    def chain(x: Any, v: Any) -> Any:
        for _ in range(count // 5):
            y = lax.add(x, lax.broadcast_in_dim(v, (SIZE, SIZE), (1,)))
            y = lax.mul(y, x)
            y = lax.tanh(y)
            x = lax.max(y, x)
        return x

    return chain


def reshaping_ours(count: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("reshaping")
    x = b.parameter(xb.f32[SIZE, SIZE], "x")
    while len(b.ops) < count:
        y = xb.transpose(x, [1, 0])
        y = xb.reshape(y, [SIZE * SIZE])
        y = xb.slice(y, [0], [SIZE], [1])
        x = xb.broadcast_in_dim(y, [SIZE, SIZE], [1])
    return b.build(x)


def reshaping_jax(count: int) -> Callable[..., Any]:
    def chain(x: Any, _: Any) -> Any:
        for _ in range(count // 4):
            y = lax.transpose(x, (1, 0))
            y = lax.reshape(y, (SIZE * SIZE,))
            y = lax.slice(y, (0,), (SIZE,))
            x = lax.broadcast_in_dim(y, (SIZE, SIZE), (1,))
        return x

    return chain


def dot_ours(count: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("dot")
    x, w = b.parameter(xb.f32[SIZE, SIZE], "x"), b.parameter(xb.f32[SIZE, SIZE], "w")
    while len(b.ops) < count:
        x = xb.dot(x, w)
    return b.build(x)


def dot_jax(count: int) -> Callable[..., Any]:
    def chain(x: Any, w: Any) -> Any:
        for _ in range(count):
            x = lax.dot_general(x, w, (((1,), (0,)), ((), ())))
        return x

    return chain


CHAINS = {
    "elementwise": (elementwise_ours, elementwise_jax),
    "reshaping": (reshaping_ours, reshaping_jax),
    "dot": (dot_ours, dot_jax),
}


def trace_and_lower(function: Callable[..., Any], *arguments: Any) -> Any:
    return jax.jit(function).trace(*arguments).lower()


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    gc.collect()
    began = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - began, result


def measure(name: str, count: int, rounds: int) -> dict[str, float]:
    ours, theirs = CHAINS[name]
    x = np.zeros((SIZE, SIZE), np.float32)
    v = np.zeros((SIZE,) if name == "elementwise" else (SIZE, SIZE), np.float32)
    record_times, lower_times, jax_times = [], [], []
    lowering.lower(ours(100))  # imports, the MLIR context and the caches are not what is measured
    jax.jit(theirs(100)).trace(x, v).lower()
    for _ in range(rounds):
        seconds, computation = timed(ours, count)
        recorded = len(computation.ops)
        record_times.append(seconds / recorded * 1e6)
        seconds, _ = timed(lowering.lower, computation)
        lower_times.append(seconds / recorded * 1e6)
        # A new function each time: jax caches the trace of one that it has seen.
        function = theirs(count)
        seconds, _ = timed(trace_and_lower, function, x, v)
        jax_times.append(seconds / recorded * 1e6)
    ratios = [j / (r + w) for r, w, j in zip(record_times, lower_times, jax_times, strict=True)]
    return {
        "ops": recorded,
        "record_us": statistics.median(record_times),
        "lower_us": statistics.median(lower_times),
        "jax_us": statistics.median(jax_times),
        "jax_to_ours": statistics.median(ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, {options.ops} ops, medians of {options.rounds} rounds, us an op")
    print(f"{'chain':<12} {'record':>8} {'lower':>8} {'jax trace+lower':>16} {'jax / ours':>11}")
    figures = {}
    for name in CHAINS:
        row = figures[name] = measure(name, options.ops, options.rounds)
        print(
            f"{name:<12} {row['record_us']:>8.2f} {row['lower_us']:>8.2f} "
            f"{row['jax_us']:>16.2f} {row['jax_to_ours']:>10.1f}x"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
