"""Raise errors for programs that fail, and decide whether a call waits for the program's end.

As in jax, a call returns before the program has ended, and XLA reports a later failure when a
result is read. If a failure is likely, the call waits instead, and raises an error that names the
cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import jax
import numpy as np

from builder.inspection.rendering import bytes_text
from lowering.errors import ExecutionError
from lowering.jaxlib_api import compilation
from lowering.pjrt.failures import (
    host_memory,
    is_out_of_memory,
    requested_bytes_text,
    without_status_code,
)
from lowering.running.program import ProgramInfo


def must_wait(info: ProgramInfo, loaded: Any, device: jax.Device) -> bool:
    """Return whether a call waits for the end of the program.

    A call waits for a program that calls Python functions, that calls registered functions on CPU
    that can report an error, or that needs more memory than the device has.
    """
    if info.callbacks or (info.handlers and device.platform == "cpu"):
        return True
    return sum(_memory(loaded).values()) > _memory_of(device)


def may_lack_memory(loaded: Any) -> bool:
    """Return whether a program needs so much memory that an out-of-memory error is possible.

    For smaller programs, calls do not translate out-of-memory errors: it would slow down each call.
    """
    return sum(_memory(loaded).values()) > _LITTLE_MEMORY


_LITTLE_MEMORY: Final = 1 << 20


def _memory(loaded: Any) -> dict[str, int]:
    """Return the sizes in bytes of the arguments, results and temporary values.

    The dictionary is empty if XLA does not report the sizes.
    """
    try:
        memory = compilation.compiled_memory(loaded)
    except (RuntimeError, AttributeError):
        return {}
    return {name: memory[name] for name in ("arguments", "results", "temporary")}


@lru_cache(maxsize=256)
def _memory_of(device: jax.Device) -> float:
    """Return the size of a device's memory in bytes; infinity if it is not reported."""
    any_device: Any = device
    if any_device.platform == "cpu":
        return host_memory()
    try:
        return float(any_device.memory_stats()["bytes_limit"])
    except (AttributeError, KeyError, RuntimeError, TypeError, NotImplementedError):
        return float("inf")  # each is the answer of some plugin that does not report its memory


def check_numbers(name: str, results: Sequence[jax.Array]) -> None:
    """Raise FloatingPointError for a NaN or an infinity, if jax's flags request it.

    jax itself checks the results of calls that jaxlib executes without Python.

    Args:
        name: the program's name.
        results: the program's results.
    """
    # Reading the flags through jax.config is much slower.
    nans, infs = jax.debug_nans.value, jax.debug_infs.value
    if not nans and not infs:
        return
    for is_enabled, test, kind in ((nans, np.isnan, "nan"), (infs, np.isinf, "inf")):
        for array in results if is_enabled else ():
            if jax.numpy.issubdtype(array.dtype, np.inexact) and test(np.asarray(array)).any():
                raise FloatingPointError(f"invalid value ({kind}) encountered in {name}")


def raise_execution_error(
    error: RuntimeError | ValueError, info: ProgramInfo, loaded: Any, where: str
) -> None:
    """Raise ExecutionError if memory ran out, or a registered function of a custom_call failed.

    Args:
        error: jaxlib's error, raised by the call or by waiting for its end.
        info: the program's metadata.
        loaded: the LoadedExecutable.
        where: the device or devices, for messages.
    """
    if isinstance(error, ExecutionError):
        return  # raised by a Python function that several devices call
    if is_out_of_memory(error):
        parts = ", ".join(f"{bytes_text(n)} of {name}" for name, n in _memory(loaded).items())
        needs = f"; the program needs {parts} on each device" if parts else ""
        raise ExecutionError(
            f"out of memory on {where}{requested_bytes_text(error)}{needs}",
            context=(info.name,),
            fix="make the program's arrays smaller, donate arguments that are not needed "
            "afterwards (donate=[...]), or delete arrays (array.delete())",
            detail=str(error),
        ) from None
    report = without_status_code(str(error))
    # XLA refuses deleted and donated arguments before it calls a handler.
    if info.handlers and not re.search("deleted|donated", report):
        fix = ""
        if re.search("attributes|decode|Wrong number of", report):
            fix = (
                "pass the attributes, operands and results of the handler's binding, with "
                "exactly the types of the binding: numpy.float32(2.5) for a float, 2.5 for a "
                "double, 2 for an int64_t"
            )
        raise ExecutionError(
            f"custom_call of {' or '.join(info.handlers)} failed: {report}",
            context=(info.name,),
            fix=fix,
            op="custom_call",
            detail=str(error),
        ) from None
