"""What XLA and jax report when memory runs out or a program fails, in words."""

from __future__ import annotations

import re
from typing import Any, Final

from builder.inspection.rendering import bytes_text
from builder.types import primitive_type as pt
from lowering.errors import ExecutionError

__all__ = ["is_out_of_memory", "no_room", "requested_bytes_text", "without_status_code"]

_ASKED: Final = re.compile(r"(?:allocating|allocate) (\d+) ?bytes?", re.IGNORECASE)
_CODES: Final = re.compile(r"^(?:[A-Z_]+: )+")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory, on a device or on the host."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def requested_bytes_text(error: BaseException) -> str:
    """How much memory was asked for at once, ": 3.0 GiB"; nothing where that isn't said."""
    found = _ASKED.search(str(error))
    return "" if found is None else f": {bytes_text(int(found[1]))} at once"


def without_status_code(error: BaseException) -> str:
    """XLA's report without its codes: INVALID_ARGUMENT and the like."""
    return _CODES.sub("", str(error).strip())


def no_room(
    op: str, dtype: Any, sizes: tuple[int, ...], where: Any, error: BaseException
) -> ExecutionError:
    """The error for an array that a device has no memory for.

    Args:
        op: what wanted to put it there.
        dtype, sizes: of the array.
        where: a jax sharding.
        error: what was reported.
    """
    size = dtype.itemsize
    for one in sizes:
        size *= one
    devices = sorted(where.device_set, key=lambda one: int(one.id))
    shape = f"{pt.from_dtype(dtype)}[{','.join(map(str, sizes))}]"
    on = str(devices[0]) if len(devices) == 1 else f"{len(devices)} devices"
    return ExecutionError(
        f"{op}: there is no memory for {shape} ({bytes_text(size)}) on {on}\n"
        f"fix: delete arrays that are not needed any more (array.delete(), del array), or put less",
        op=op,
        detail=str(error),
    )
