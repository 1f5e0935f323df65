"""Infeed and outfeed: values that a host sends to a running program, and takes from it.

Each device has a queue of values sent and a queue of values to be taken, first in, first out. On
a CPU, where XLA gives a client no way to feed a program, the queues are here: `lowering.compile`
has the program call Python for each infeed and outfeed.
"""

from __future__ import annotations

import collections
import math
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from builder.errors import brief
from builder.types import primitive_type as pt
from builder.types.shape import (
    ArrayShape,
    Shape,
    ShapeLike,
    TokenShape,
    TupleShape,
    intern_array,
    leaves,
    shape_of,
)
from lowering.errors import ArgumentError, DeviceError, ExecutionError
from lowering.mlir.flattening import unflatten
from lowering.pjrt.devices import DeviceLike, device as find_device
from lowering.pjrt.host_arrays import read_array

__all__ = [
    "clear_transfers",
    "timeout",
    "transfer_from_outfeed",
    "transfer_to_infeed",
]

timeout: float = 60.0
"""How many seconds a program waits for a value that it reads, and `transfer_from_outfeed` for one
that is written, before they fail. To be set as ``lowering.infeed.timeout = 5.0``. One of several
devices that run a program waits for 30 seconds at the most while another does not go on."""

Item = tuple[Shape, list[np.ndarray[Any, Any]]]
"""A value: its shape, and its arrays."""


class _Queues:
    """The values on their way to a device and from it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.to_device: collections.deque[Item] = collections.deque()
        self.from_device: collections.deque[Item] = collections.deque()


_QUEUES: Final[dict[jax.Device, _Queues]] = {}
_LOCK: Final = threading.Lock()

PLATFORMS: Final = ("cpu",)
"""Where infeed and outfeed are known to work."""


def _queues(device: jax.Device) -> _Queues:
    with _LOCK:
        found = _QUEUES.get(device)
        if found is None:
            found = _QUEUES[device] = _Queues()
        return found


def _queues_of(op: str, device: DeviceLike) -> tuple[jax.Device, _Queues]:
    """The queues of the device that a user names."""
    found = find_device(device)
    if found.platform not in PLATFORMS:
        raise DeviceError(
            f"{op}: jaxlib gives no way to the infeed and outfeed of {found}\n"
            f"fix: pass values as arguments, or run the program on a CPU",
            op=op,
        )
    return found, _queues(found)


def transfer_to_infeed(value: Any, device: DeviceLike = None) -> None:
    """Sends a value to a device's infeed, for an infeed of the programs that run there.

    Values wait until they are read, as many as there are. What is sent is copied: later writes do
    not reach it.

    Args:
        value: a NumPy array or scalar, a jax.Array, an object with ``__dlpack__``, or a tuple or
            list of such, as nested as the infeed's shape. An empty tuple is not sent, as the
            infeed of one reads nothing.
        device: the device; None for jax's default device.

    Raises:
        ArgumentError: it is none of these.
        DeviceError: there is no such device, or it is no CPU.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> b = xb.XlaBuilder("double")
        >>> x = b.infeed(xb.f32[3])
        >>> run = lowering.compile(b.build(x + x))
        >>> lowering.transfer_to_infeed(np.array([1, 2, 3], np.float32))
        >>> run()
        Array([2., 4., 6.], dtype=float32)
    """
    _, queues = _queues_of("transfer_to_infeed", device)
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        shape = _collect(value, arrays)
    except RecursionError:
        raise ArgumentError(
            "transfer_to_infeed: a tuple nested too deep, or one that holds itself",
            op="transfer_to_infeed",
        ) from None
    if not arrays:
        return
    with queues.changed:
        queues.to_device.append((shape, arrays))
        queues.changed.notify_all()


def _collect(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Shape:
    """The shape of a value to be sent; copies of its arrays are appended."""
    if isinstance(value, (tuple, list)):
        return TupleShape([_collect(v, arrays) for v in value])
    array = read_array("transfer_to_infeed", value)
    if array is None:
        fix = "numpy.asarray(value, dtype), which says the type"
        if not isinstance(value, (bool, int, float, complex)):
            fix = "give a NumPy array, a jax.Array, a dlpack object, or a tuple of such"
        raise ArgumentError(
            f"transfer_to_infeed: expected arrays, got {type(value).__name__}: {brief(value, 80)}\n"
            f"fix: {fix}",
            op="transfer_to_infeed",
        )
    try:
        element_type = pt.from_dtype(array.dtype)
    except ValueError as error:
        raise ArgumentError(f"transfer_to_infeed: {error}", op="transfer_to_infeed") from None
    arrays.append(np.array(array, order="C", copy=True))
    return intern_array(element_type, array.shape)


def transfer_from_outfeed(
    shape: ShapeLike, device: DeviceLike = None, *, timeout: float | None = None
) -> Any:
    """The next value of a device's outfeed; waits until there is one.

    Args:
        shape: its shape. A value of another shape stays where it is, to be asked for again.
        device: the device; None for jax's default device.
        timeout: how many seconds to wait; None for ``lowering.infeed.timeout``.

    Returns:
        A NumPy array, or a tuple of such nested as the shape is. An empty tuple is given at once,
        as the outfeed of one writes nothing.

    Raises:
        ArgumentError: no shape of arrays, or no time.
        ExecutionError: the next value is of another shape, or there was none in time.
        DeviceError: there is no such device, or it is no CPU.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> b = xb.XlaBuilder("tell")
        >>> token = xb.outfeed(b.parameter(xb.s32[2]))
        >>> lowering.compile(b.build())(np.array([4, 5], np.int32))
        >>> lowering.transfer_from_outfeed(xb.s32[2])
        array([4, 5], dtype=int32)
    """
    op = "transfer_from_outfeed"
    one, queues = _queues_of(op, device)
    wanted = shape_of(shape)
    parts = list(leaves(wanted))
    for part in parts:
        if isinstance(part, TokenShape) or not part.is_static:
            raise ArgumentError(
                f"{op}: a value is of arrays of static sizes, got {wanted}",
                op=op,
                shapes={"shape": wanted},
            )
    seconds = _seconds(op, timeout)
    if not parts:
        return _as_tuples(unflatten(wanted, iter([])))
    with queues.changed:
        if not queues.changed.wait_for(lambda: queues.from_device, seconds):
            raise ExecutionError(
                f"{op}: {wanted} was waited for on {one} for {seconds:g} seconds, and no program "
                f"wrote anything\n"
                f"fix: call the program before, or in another thread; or wait longer: timeout=",
                op=op,
                shapes={"shape": wanted},
            )
        given, arrays = queues.from_device[0]
        if not _is_same(parts, given):
            raise ExecutionError(
                f"{op}: the next value on {one} is of {given}, got {wanted}\n"
                f"fix: ask for {given}; or throw away what is waiting: lowering.clear_transfers()",
                op=op,
                shapes={"shape": wanted, "value": given},
            )
        queues.from_device.popleft()
    return _as_tuples(unflatten(wanted, iter(arrays)))


def _seconds(op: str, value: Any) -> float:
    seconds = timeout if value is None else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ArgumentError(f"{op}: timeout is a number of seconds, got {brief(seconds)}", op=op)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ArgumentError(
            f"{op}: timeout is a number of seconds, from 0 to {threading.TIMEOUT_MAX:.0f}, "
            f"got {brief(seconds)}",
            op=op,
        )
    return float(seconds)


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(v) for v in value) if isinstance(value, list) else value


def _is_same(parts: Sequence[Any], given: Shape) -> bool:
    """Whether a value has these arrays; how they are nested is not known to a program."""
    others = list(leaves(given))
    return len(parts) == len(others) and all(
        isinstance(a, ArrayShape)
        and isinstance(b, ArrayShape)
        and a.element_type is b.element_type
        and a.dimensions == b.dimensions
        for a, b in zip(parts, others, strict=True)
    )


def clear_transfers(device: DeviceLike = None) -> tuple[int, int]:
    """Throws away what waits in a device's infeed and outfeed: after a run that failed.

    Args:
        device: the device; None for jax's default device.

    Returns:
        How many values waited to be read by a program, and how many to be taken from one.

    Raises:
        DeviceError: there is no such device, or it is no CPU.

    Example:
        >>> import lowering, numpy as np
        >>> lowering.transfer_to_infeed(np.zeros(2))
        >>> lowering.clear_transfers()
        (1, 0)
    """
    _, queues = _queues_of("clear_transfers", device)
    with queues.changed:
        counts = len(queues.to_device), len(queues.from_device)
        queues.to_device.clear()
        queues.from_device.clear()
    return counts


# The program's side.


def read(
    device: jax.Device,
    shapes: Sequence[ArrayShape],
    computation: str,
    place: str,
    *,
    most: float = math.inf,
) -> list[np.ndarray[Any, Any]]:
    """The next value sent to a device, for an infeed of these arrays; waits until there is one.

    Args:
        device: where the program runs.
        shapes: the arrays that it reads.
        computation: its name, for messages.
        place: where the infeed was recorded, for messages.
        most: how many seconds it may wait, whatever `timeout` says.

    Raises:
        ExecutionError: there was none in time, or one of another shape, which is gone then.
    """
    queues = _queues(device)
    seconds = _seconds("infeed", None)
    note, fix = "", "; to wait longer, set lowering.infeed.timeout"
    if most < seconds:
        seconds, note, fix = most, ", no longer as other devices may wait for it", ""
    wanted = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    with queues.changed:
        deadline = time.monotonic() + seconds
        while not queues.to_device:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise ExecutionError(
                    f"{computation}: infeed{place} of {wanted} waited on {device} for "
                    f"{seconds:.3g} seconds{note}, and nothing was sent\n"
                    f"fix: lowering.transfer_to_infeed(value, device) before the program is "
                    f"called, or in another thread{fix}",
                    op="infeed",
                    shapes={"shape": wanted},
                )
            queues.changed.wait(remaining)
        given, arrays = queues.to_device.popleft()
    if not _is_same(shapes, given):
        raise ExecutionError(
            f"{computation}: infeed{place} must read {wanted}, got a value of {given} on {device}\n"
            f"fix: send values of the shapes, and in the order, in which the program reads them; "
            f"this one is gone",
            op="infeed",
            shapes={"shape": wanted, "value": given},
        )
    return arrays


def write(device: jax.Device, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """Puts what a program writes, of these arrays, into a device's outfeed."""
    shapes = [intern_array(pt.from_dtype(a.dtype), a.shape) for a in arrays]
    shape: Shape = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    queues = _queues(device)
    with queues.changed:
        queues.from_device.append((shape, [np.array(a, order="C", copy=True) for a in arrays]))
        queues.changed.notify_all()
