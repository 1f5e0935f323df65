"""Translate the errors that XLA and jax raise when memory runs out or a program fails."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from builder.errors import error_of
from builder.inspection.rendering import bytes_text
from builder.types import primitive_type as pt
from lowering.errors import ExecutionError

_REQUEST: Final = re.compile(r"(?:allocating|allocate) (\d+) ?bytes?", re.IGNORECASE)
_CODES: Final = re.compile(r"^(?:[A-Z_]+: )+")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error reports that memory ran out, on a device or on the host."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def requested_bytes_text(error: BaseException) -> str:
    """Return the size of the failed allocation as ": 3.0 GiB at once"; "" if not reported."""
    match = _REQUEST.search(str(error))
    return "" if match is None else f": {bytes_text(int(match[1]))} at once"


def without_status_code(report: str) -> str:
    """Return XLA's report without the status codes at its start, such as INVALID_ARGUMENT."""
    return _CODES.sub("", report.strip())


def transfer_error(
    dtype: Any, sizes: tuple[int, ...], sharding: Any, error: BaseException
) -> ExecutionError:
    """Return the error for an array that does not fit a device's memory.

    Args:
        dtype, sizes: the dtype and the sizes of the array.
        sharding: the jax sharding of the array on the devices.
        error: the error that jax raised.
    """
    size = bytes_text(dtype.itemsize * math.prod(sizes))
    devices = sorted(sharding.device_set, key=lambda device: int(device.id))
    shape = f"{pt.from_dtype(dtype)}[{','.join(map(str, sizes))}]"
    on = str(devices[0]) if len(devices) == 1 else f"{len(devices)} devices"
    rule = f"there is no memory for {shape} ({size}) on {on}"
    fix = "delete arrays that are no longer needed (array.delete()), or copy a smaller array"
    return error_of(ExecutionError, "device_put", rule, fix, detail=str(error))
