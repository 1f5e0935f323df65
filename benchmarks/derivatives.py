"""Measure recorded gradients of training steps, compared with those of jax.

The steps are those of `benchmarks.training_steps`. Before anything is measured, the gradients of
both sides are compared.

A product is a `dot_general` or a convolution. Products are counted in the program that is recorded
(for jax: in its StableHLO), and in XLA's optimized program. A call counts as the products of its
computation; so does a loop, independent of the number of iterations.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import jax
import numpy as np

import builder as xb
import lowering
from benchmarks import training_steps
from benchmarks.imports import fresh_interpreter
from benchmarks.timing import in_turns, spread, timed
from benchmarks.training_steps import Model, step_of_jax, step_of_ours, values_of

__all__ = ["MODELS", "compare", "measure_derivatives"]

MODELS: Final = {"full": training_steps.FULL, "small": training_steps.SMALL}

PRODUCTS: Final = frozenset(("dot", "dot_general", "convolution", "ragged_dot"))
_OPTIMIZED: Final = re.compile(
    r" (?:dot|ragged-dot|convolution)\("
    r"|custom-call\([^\n]*custom_call_target=\"[^\"]*(?:matmul|gemm|conv)[^\"]*\"",
    re.IGNORECASE,
)


def compare(model: Model) -> dict[str, Any]:
    """Compile the step of both sides, run them once, and compare the loss and the gradients.

    Args:
        model: a model of `benchmarks.training_steps`.

    Returns:
        The numbers of "products" and of "optimized" products of "ours" and "jax", the largest
        "error" of a gradient, and the "calls": functions without arguments that execute a step.

    Raises:
        AssertionError: an error exceeds the tolerance of the model.
    """
    computation = step_of_ours(model)
    lowered = jax.jit(step_of_jax(model)).lower(*_arrays(model))
    ours, theirs = lowering.compile(computation), lowered.compile()
    arrays = [jax.numpy.asarray(array) for array in _arrays(model)]
    calls = {"ours": partial(ours, *arrays), "jax": partial(theirs, *arrays)}
    results = [[np.asarray(leaf) for leaf in jax.tree.leaves(call())] for call in calls.values()]
    names = ["loss", *[f"{kind} {name}" for kind in ("new", "d") for name in model.weights()]]
    errors = {name: _error(one, other) for name, one, other in zip(names, *results, strict=True)}
    worst = max(errors, key=lambda name: errors[name])
    if not errors[worst] <= model.tolerance:
        raise AssertionError(
            f"{model.title}: {worst} differs from jax's by {errors[worst]:.2g} of its norm; "
            f"the tolerance is {model.tolerance:g}"
        )
    return {
        "products": {"ours": _recorded(computation), "jax": _lowered(lowered)},
        "optimized": {
            "ours": len(_OPTIMIZED.findall(ours.hlo_text())),
            "jax": len(_OPTIMIZED.findall(theirs.as_text())),
        },
        "error": errors[worst],
        "calls": calls,
    }


def _arrays(model: Model) -> list[np.ndarray]:
    weights, data = values_of(model)
    return [*weights.values(), *map(np.zeros_like, weights.values()), *data.values()]


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    difference = np.linalg.norm(found.astype(np.float64) - expected)
    return float(difference / np.linalg.norm(expected.astype(np.float64)))


def _recorded(computation: xb.XlaComputation) -> int:
    """Return the number of products in a computation and in those that it calls."""
    known: dict[xb.XlaComputation, int] = {}

    def total(of: xb.XlaComputation) -> int:
        if of not in known:
            known[of] = sum(
                (op.opcode in PRODUCTS) + sum(map(total, op.called_computations)) for op in of.ops
            )
        return known[of]

    return total(computation)


def _lowered(lowered: Any) -> int:
    """Return the number of products in the StableHLO of jax, with those of called functions."""
    text = lowered.as_text()
    products: Counter[str] = Counter()
    calls: dict[str, list[str]] = {}
    function = ""
    for line in text.splitlines():
        if match := re.search(r"func\.func (?:\w+ )?@([\w.]+)", line):
            function = match[1]
            calls[function] = []
        products[function] += len(
            re.findall(r"\bstablehlo\.(?:dot_general|dot|convolution)\b", line)
        )
        calls.setdefault(function, []).extend(re.findall(r"(?<!func\.func )\bcall @([\w.]+)", line))

    def total(name: str) -> int:
        return products[name] + sum(map(total, calls[name]))

    return total("main")


def measure_derivatives(
    size: str, *, rounds: int, cold_rounds: int, seconds: float, on_progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure the training step of each model, xlabuilder and jax in turns.

    Args:
        size: "full" or "small".
        rounds: the maximum number of rounds.
        cold_rounds: the number of processes for each side of each model.
        seconds: the time after which a contender is left out of further rounds.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "derivatives", as documented in `benchmarks/figures.py`.
    """
    entries = []
    with tempfile.TemporaryDirectory() as cache:
        python = fresh_interpreter(cache)

        def cold(number: int, side: str) -> dict[str, float]:
            done = python("-m", "benchmarks.derivatives", size, str(number), side)
            return {side: float(json.loads(done.stdout))}

        for number, model in enumerate(MODELS[size]):
            on_progress(f"{model.title}: products")
            compared = compare(model)
            calls = compared.pop("calls")
            kinds: Mapping[str, tuple[dict[str, Callable[[], dict[str, float]]], int]] = {
                "step": (
                    {side: partial(_timed_step, side, c) for side, c in calls.items()},
                    rounds,
                ),
                "warm": ({side: partial(_timed_trace, model, side) for side in calls}, rounds),
                "cold": ({side: partial(cold, number, side) for side in calls}, cold_rounds),
            }
            ms = {}
            for kind, (contenders, count) in kinds.items():
                on_progress(f"{model.title}: {kind}")
                for run in contenders.values():
                    run()  # fills the caches of this process, or of compiled modules
                times, _ = in_turns(contenders, rounds=count, seconds=seconds)
                ms[kind] = {side: spread([t * 1e3 for t in times[side]]) for side in calls}
            ratios = {
                f"{kind}, ours/jax": sides["ours"]["median"] / sides["jax"]["median"]
                for kind, sides in ms.items()
            }
            entries.append({"model": model.title, **compared, "ms": ms, "ratios": ratios})
    return entries


def _timed_step(side: str, call: Callable[[], Any]) -> dict[str, float]:
    return {side: timed(lambda: jax.block_until_ready(jax.tree.leaves(call())))[0]}


def _timed_trace(model: Model, side: str) -> dict[str, float]:
    """Return the CPU seconds of `lowering.gradients`, or of the trace and lowering of `jax.grad`.

    The loss is recorded before the time of `gradients` starts. jax traces and lowers it together
    with the gradients.
    """
    if side == "ours":
        b = xb.XlaBuilder("gradients")
        weights, data = (
            {name: b.parameter(xb.f32[sizes]) for name, sizes in found.items()}
            for found in (model.weights(), model.data())
        )
        loss = model.ours(weights, data)
        return {side: timed(lowering.gradients, loss, weights)[0]}
    values = values_of(model)
    # A new function each time, because jax caches traces by function.
    function = jax.jit(jax.grad(lambda weights, data: model.theirs(weights, data)))
    return {side: timed(lambda: function.trace(*values).lower())[0]}


def _main(arguments: Sequence[str]) -> None:
    """Print the seconds of the first call of `_timed_trace` in this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=MODELS)
    parser.add_argument("number", type=int)
    parser.add_argument("side", choices=("ours", "jax"))
    options = parser.parse_args(arguments)
    print(
        json.dumps(_timed_trace(MODELS[options.size][options.number], options.side)[options.side])
    )


if __name__ == "__main__":
    import sys

    _main(sys.argv[1:])
