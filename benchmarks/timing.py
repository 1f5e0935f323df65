"""CPU times of contenders that take turns.

Times are those of `time.process_time`, the CPU time of the process. Another program on the machine
lengthens them only by its use of the caches. Compilation, which runs on several threads, is
measured in elapsed time.

The garbage collector stays enabled, as in a user's process. It runs before each measurement.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

__all__ = [
    "ContenderError",
    "Round",
    "beside",
    "in_turns",
    "keep_freed_memory",
    "spread",
    "stage_spreads",
    "timed",
]

# From glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_MAX: Final = -4

Round = Callable[[], dict[str, float]]
"""Run the steps of a contender once. Return the seconds of each step by its name."""


def keep_freed_memory() -> bool:
    """Keep freed memory in the process from now on. This can't be undone.

    The C library returns large blocks to the operating system, and the next one to allocate memory
    waits for new pages. Which contender that is depends on what the others freed before, so the
    times would depend on the order of the turns. Do not call this before measurements that are
    compared with a plain copy, such as packing: it would hide a cost that users have.

    Returns:
        Whether the C library supports this (glibc does).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc, or no C library found
        return False
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, 2**31 - 1))


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and its result."""
    gc.collect()
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def in_turns(
    contenders: Mapping[str, Round],
    *,
    rounds: int,
    seconds: float,
    before_each: Callable[[str], None] = lambda _: None,
    reverse: bool = False,
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Run contenders in rounds, each in its turn, and return the seconds of every step.

    Args:
        contenders: the contenders. Every second round runs them in reverse order.
        rounds: the number of rounds.
        seconds: the elapsed time after which a contender is left out of further rounds. Each runs
            at least once.
        before_each: called with the name of the contender before each turn.
        reverse: whether the first round, not the second, runs them in reverse order.

    Returns:
        The seconds of each step in each round, and the messages of contenders that raised
        ContenderError.
    """
    times: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    spent = dict.fromkeys(contenders, 0.0)
    for number in range(rounds):
        order = list(contenders)
        for name in reversed(order) if (number % 2 == 1) != reverse else order:
            if name in missing or (number and spent[name] >= seconds):
                continue
            before_each(name)
            start = time.perf_counter()
            try:
                steps = contenders[name]()
            except ContenderError as error:
                missing[name] = str(error)
                continue
            spent[name] += time.perf_counter() - start
            for step, step_seconds in steps.items():
                times.setdefault(step, []).append(step_seconds)
    return times, missing


class ContenderError(Exception):
    """A contender that can't run. The message is a single line."""


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the quartiles, the least and the number of measurements."""
    if len(values) > 1:
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    else:
        low = median = high = values[0]
    return {
        "median": median,
        "low": low,
        "high": high,
        "least": min(values),
        "rounds": len(values),
    }


def beside(
    ours: Callable[[], float], reference: Callable[[], float], *, rounds: int, seconds: float
) -> dict[str, Any]:
    """Run two measurements in turns, each once before it counts, and compare them.

    Args:
        ours, reference: the measurements, which return seconds.
        rounds, seconds: as for `in_turns`.

    Returns:
        "ms": the spreads of the milliseconds of "ours" and "reference"; "ratios" of their medians.
    """
    for measure in (ours, reference):
        measure()  # the first call fills caches
    contenders: dict[str, Round] = {
        "ours": lambda: {"ours": ours()},
        "reference": lambda: {"reference": reference()},
    }
    times, _ = in_turns(contenders, rounds=rounds, seconds=seconds)
    ms = {name: spread([t * 1e3 for t in found]) for name, found in times.items()}
    return {
        "ms": ms,
        "ratios": {"ours/reference": ms["ours"]["median"] / ms["reference"]["median"]},
    }


def stage_spreads(
    times: Mapping[str, Sequence[float]], sums: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the spreads of the milliseconds of each stage and of sums of stages, for each side.

    Args:
        times: the seconds of each stage in each round, named ``"ours record"``.
        sums: the stages of each sum.
    """
    columns: dict[str, dict[str, list[float]]] = {}
    for name, seconds in times.items():
        side, _, stage = name.partition(" ")
        columns.setdefault(side, {})[stage] = [value * 1e3 for value in seconds]
    for stages in columns.values():
        for name, parts in sums.items():
            rows = zip(*(stages[part] for part in parts), strict=True)
            stages[name] = [sum(row) for row in rows]
    return {
        side: {stage: spread(values) for stage, values in stages.items()}
        for side, stages in columns.items()
    }
