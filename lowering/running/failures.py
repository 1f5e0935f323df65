"""Programs that fail while they run: for whom a call waits, and what XLA reports, in words.

A call comes back before the program has ended, and what goes wrong afterwards is reported, in
XLA's words, when a result is read. So it is with jax too, and so it has to be, to be fast. Where a
failure is to be expected, though, the call waits, and raises an error that says whose it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import jax
import numpy as np

from builder.inspection.rendering import bytes_text
from lowering.errors import ExecutionError
from lowering.jaxlib_api import executables
from lowering.pjrt.failures import is_out_of_memory, requested_bytes_text, without_status_code
from lowering.running.program import ProgramInfo

__all__ = ["check_numbers", "may_lack_memory", "must_wait", "raise_execution_error"]


def must_wait(info: ProgramInfo, loaded: Any, device: jax.Device) -> bool:
    """Whether a call of a program waits for its end.

    It does for what calls Python, for functions of the user's on CPU that can report an error,
    and for what needs more memory than there is on the device.
    """
    if info.callbacks or (info.handlers and device.platform == "cpu"):
        return True
    needed = _memory(loaded)
    return sum(needed.values()) > _memory_of(device)


def may_lack_memory(loaded: Any) -> bool:
    """Whether a program takes so much memory that the host may not have it to give.

    There is always some for the others: what they fail of is not said in words, which saves them
    0.9 us a call. A program that takes more is busy for longer than that a hundred times.
    """
    return sum(_memory(loaded).values()) > _LITTLE_MEMORY


_LITTLE_MEMORY: Final = 1 << 20


def _memory(loaded: Any) -> dict[str, int]:
    """The bytes that a program takes; empty where a platform does not tell."""
    try:
        found = executables.compiled_memory(loaded)
    except (RuntimeError, AttributeError):
        return {}
    return {name: found[name] for name in ("arguments", "results", "temporary")}


@lru_cache(maxsize=256)
def _memory_of(device: jax.Device) -> float:
    """The bytes of memory that a device has; infinitely many where that isn't known."""
    one: Any = device
    if one.platform == "cpu":
        try:
            return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, OSError, ValueError):
            return float("inf")
    try:
        return float(one.memory_stats()["bytes_limit"])
    except (KeyError, RuntimeError, TypeError, NotImplementedError):
        return float("inf")


def check_numbers(name: str, results: Sequence[jax.Array]) -> None:
    """Raises FloatingPointError of a NaN or an infinity, where jax's flags ask for it.

    As jax itself does of the calls that jaxlib executes alone.

    Args:
        name: of the program.
        results: what it gave.
    """
    # The flags themselves: by way of jax.config they take 2 us a call, so 0.1.
    nans, infs = jax.debug_nans.value, jax.debug_infs.value
    if not nans and not infs:
        return
    for is_asked, test, what in ((nans, np.isnan, "nan"), (infs, np.isinf, "inf")):
        for array in results if is_asked else ():
            if jax.numpy.issubdtype(array.dtype, np.inexact) and test(np.asarray(array)).any():
                raise FloatingPointError(f"invalid value ({what}) encountered in {name}")


def raise_execution_error(
    error: RuntimeError | ValueError, info: ProgramInfo, loaded: Any, where: str
) -> None:
    """Raises ExecutionError if an error of jaxlib's says that memory ran out, or a handler failed.

    Args:
        error: what a call raised, or waiting for its end.
        info: the program.
        loaded: the LoadedExecutable.
        where: its device or devices, for messages.
    """
    if isinstance(error, ExecutionError):
        return  # what a Python function raised, which several devices called
    if is_out_of_memory(error):
        parts = ", ".join(f"{bytes_text(n)} of {name}" for name, n in _memory(loaded).items())
        needs = f"; the program takes {parts} on each device" if parts else ""
        raise ExecutionError(
            f"{info.name}: out of memory on {where}{requested_bytes_text(error)}{needs}\n"
            f"fix: make its arrays smaller, donate arguments that are not needed afterwards "
            f"(donate=[...]), or delete arrays (array.delete())",
            detail=str(error),
        ) from None
    report = without_status_code(error)
    # An argument that has been deleted or donated is refused by XLA, before it calls anything.
    if info.handlers and not re.search("deleted|donated", report):
        whose = " or ".join(info.handlers)
        fix = ""
        if re.search("attributes|decode|Wrong number of", report):
            fix = (
                "\nfix: give the attributes, operands and results of the handler's binding, of its "
                "very types: numpy.float32(2.5) for a float, 2.5 for a double, 2 for an int64_t"
            )
        raise ExecutionError(
            f"{info.name}: custom_call of {whose} failed: {report}{fix}",
            op="custom_call",
            detail=str(error),
        ) from None
