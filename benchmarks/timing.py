"""Time that the processor worked, and rounds that take turns.

Times are of `time.process_time`: what the process had of the processor. Another program on the
machine makes them longer by its use of the caches alone, not by the turns it takes. Where something
waits or runs on several threads (compilation, fresh processes) time that passed is measured.

The garbage collector stays on, as a user has it; what is left over from before is collected first.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

__all__ = ["ContenderError", "Round", "in_turns", "keep_freed_memory", "spread", "timed"]

# Of glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_MAX: Final = -4

Round = Callable[[], dict[str, float]]
"""Runs the steps of one contender once: the name of each step, and its seconds."""


def keep_freed_memory() -> bool:
    """From now on memory that is freed stays with the process. It can't be taken back.

    The C library gives large blocks back to the system, and who needs memory next waits for pages:
    of 100 MB longer than for a copy of the data. Whose turn that is depends on who freed what
    before, so without this the order of the turns would be measured. Where one is measured beside
    a plain copy, as arrays that are packed, it would hide what a user waits for.

    Returns:
        Whether the C library can be told (glibc can).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library; no C library by that name
        return False
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, 2**31 - 1))


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Seconds that the processor worked for a call, and its result."""
    gc.collect()
    began = time.process_time()
    result = function(*arguments)
    return time.process_time() - began, result


def in_turns(
    contenders: Mapping[str, Round],
    *,
    rounds: int,
    seconds: float,
    before_each: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """The seconds of every step, from rounds in which each contender has its turn.

    Args:
        contenders: what is to be compared; the order in a round changes from one to the next.
        rounds: how many rounds.
        seconds: what passes before a contender is left out of further rounds, so that a slow one
            doesn't use up the time of all; each runs once at least.
        before_each: is told whose turn it is.

    Returns:
        The seconds of each step, one for each round; and why a contender has none, if it raised
        ContenderError.
    """
    found: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    spent = dict.fromkeys(contenders, 0.0)
    for number in range(rounds):
        order = list(contenders)
        for name in order if number % 2 == 0 else reversed(order):
            if name in missing or (number and spent[name] >= seconds):
                continue
            before_each(name)
            began = time.perf_counter()
            try:
                steps = contenders[name]()
            except ContenderError as error:
                missing[name] = str(error)
                continue
            spent[name] += time.perf_counter() - began
            for step, step_seconds in steps.items():
                found.setdefault(step, []).append(step_seconds)
    return found, missing


class ContenderError(Exception):
    """A contender can't run; the message says why, on one line."""


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the quartiles and the least of some measurements, and how many there were."""
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
