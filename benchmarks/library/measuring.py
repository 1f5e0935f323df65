"""Measure the execution of functions of `builder.lib`, and of jax's under `jax.jit`.

The time is elapsed time until the result is available, because XLA executes on several threads. The
arguments are device arrays. Both sides compile one function for the same device, and their results
are compared before anything is measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np

import builder as xb
import lowering
from benchmarks.library.programs import Case, Program, cases
from benchmarks.timing import Round, in_turns, spread

__all__ = ["in_ms", "measure_library"]

_LEAST_SECONDS: Final = 200e-6
"""How long a turn takes at least: calls that take less are repeated in it."""

_FEWEST_ROUNDS: Final = 5
"""The least number of rounds, so that one slow execution does not decide."""

_TOLERANCES: Final = {xb.f32: 1e-3, xb.bf16: 0.05}
"""The largest difference from jax's result for each floating-point type."""


def measure_library(
    programs: Sequence[Program],
    *,
    rounds: int,
    seconds: float,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure each program at each size and with each type, xlabuilder and jax in turns.

    Args:
        programs: the programs.
        rounds: the maximum number of rounds.
        seconds: about how long each contender is measured. Slow programs have fewer rounds than
            `rounds`, but at least five of them.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "library", as documented in `benchmarks/figures.py`.

    Raises:
        AssertionError: a result differs from jax's.
    """
    entries = []
    for program in programs:
        for case in cases(program):
            on_progress(str(case))
            entry = {
                "function": program.name,
                "size": case.size,
                "type": str(case.element_type),
                "arguments": ", ".join(map(str, case.shapes)),
            }
            entries.append(entry | _measured(case, rounds, seconds))
    return entries


def _measured(case: Case, rounds: int, seconds: float) -> dict[str, Any]:
    ms = in_ms({"": case}, rounds, seconds)
    return {"ms": ms, "ratios": {"ours/jax": ms["ours"]["median"] / ms["jax"]["median"]}}


def in_ms(cases: Mapping[str, Case], rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Measure cases with the same arguments, xlabuilder and jax in turns.

    Args:
        cases: the cases by a suffix for the names of the contenders.
        rounds, seconds: see `measure_library`.

    Returns:
        The spreads of the milliseconds of each contender: "ours" and "jax", each with the suffix.

    Raises:
        AssertionError: a result differs from jax's.
    """
    device = lowering.device()
    arrays = next(iter(cases.values())).arrays()
    values = [lowering.device_put(array, device) for array in arrays]
    calls: dict[str, Callable[..., Any]] = {}
    for suffix, case in cases.items():
        ours = lowering.compile(case.recorded(), device)
        theirs = jax.jit(case.jax_function())
        _compare(case, *(jax.tree.leaves(call(*values)) for call in (ours, theirs)))
        calls |= {f"ours{suffix}": ours, f"jax{suffix}": theirs}

    def elapsed(call: Callable[..., Any], count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            jax.block_until_ready(call(*values))
        return (time.perf_counter() - start) / count

    once = max(min(elapsed(call, 1) for _ in range(3)) for call in calls.values())
    count = max(1, math.ceil(_LEAST_SECONDS / once))
    rounds = min(rounds, max(_FEWEST_ROUNDS, int(seconds / (once * count))))

    def round_of(name: str, call: Callable[..., Any]) -> Round:
        return lambda: {name: elapsed(call, count)}

    contenders = {name: round_of(name, call) for name, call in calls.items()}
    times, _ = in_turns(contenders, rounds=rounds, seconds=math.inf)
    return {name: spread([t * 1e3 for t in seconds]) for name, seconds in times.items()}


def _compare(case: Case, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Raise AssertionError if a result differs from jax's by more than several roundings.

    Differences are relative to the largest element: an element near 0 may be the difference of
    large numbers.
    """
    tolerance = _TOLERANCES[case.element_type]
    for result, reference in zip(ours, theirs, strict=True):
        assert result.dtype == reference.dtype, case
        # NumPy compares bf16 with no tolerance.
        wide = np.result_type(reference.dtype, np.float32)
        arrays = [np.asarray(array).astype(wide) for array in (result, reference)]
        if case.program.any_sign:
            arrays = [np.abs(array) for array in arrays]
        finite = arrays[1][np.isfinite(arrays[1])]
        largest = max(1.0, np.abs(finite).max(initial=0))
        np.testing.assert_allclose(
            *arrays, rtol=tolerance, atol=tolerance * largest, err_msg=str(case)
        )
