"""Infeed and outfeed: values that the host sends to a running program, and receives from it.

Each device has a queue of values sent and a queue of values to be received, first in, first out.
XLA gives a client no access to the queues of its CPU backend, so this module implements the queues:
`lowering.compile` replaces each infeed and outfeed by a call of a Python function.
"""

from __future__ import annotations

import collections
import math
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from builder.errors import PrimitiveTypeError, brief, error_of
from builder.graph.calls import explained
from builder.types import primitive_type as pt
from builder.types.expected_arrays import NUMBERS
from builder.types.shape import (
    ArrayShape,
    Shape,
    ShapeLike,
    TokenShape,
    TupleShape,
    intern_array,
    leaves,
    shape_argument,
)
from lowering.errors import ArgumentError, DeviceError, ExecutionError
from lowering.jaxlib_api.lazy_jax import jax
from lowering.pjrt.devices import DeviceLike, device_argument
from lowering.pjrt.host_arrays import MismatchError, array_or_jax_array, read_leaves, result_packer

timeout: float = 60.0
"""The maximum number of seconds that a program waits for a value in its infeed, and that
`transfer_from_outfeed` waits for a value in the outfeed. To change it, assign
``lowering.infeed.timeout = 5.0``. If several devices run a program, a device waits for at most 30
seconds while the other devices make no progress."""

Item = tuple[Shape, list[np.ndarray[Any, Any]]]
"""A value in a queue: its shape, and the arrays of its leaves."""


class _Queues:
    """The infeed and the outfeed of a device: queues of values not yet read or received."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.to_device: collections.deque[Item] = collections.deque()
        self.from_device: collections.deque[Item] = collections.deque()


_QUEUES: Final[dict[jax.Device, _Queues]] = collections.defaultdict(_Queues)
_LOCK: Final = threading.Lock()

PLATFORMS: Final = ("cpu",)
"""The platforms that support infeed and outfeed."""


def _queues(device: jax.Device) -> _Queues:
    with _LOCK:
        return _QUEUES[device]


def _queues_of(op: str, device: DeviceLike) -> tuple[jax.Device, _Queues]:
    """Return the device that the argument `device` of a user names, and the device's queues."""
    target = device_argument(op, device)
    if target.platform not in PLATFORMS:
        rule = f"jaxlib gives no access to the infeed and outfeed of {target}"
        fix = "pass values as arguments, or run the program on a CPU"
        raise error_of(DeviceError, op, rule, fix)
    return target, _queues(target)


@explained
def transfer_to_infeed(
    value: Any, device: DeviceLike = None, *, shape: ShapeLike | None = None
) -> None:
    """Send a value to a device's infeed, for an infeed of a program on this device.

    Any number of values may wait to be read. The value is copied: later writes do not change it.

    Args:
        value: a NumPy array or scalar, a jax.Array, an array of another library (see
            `lowering.device_put`), or a tuple or list of such values, nested as the infeed's shape.
            An empty tuple is not sent, because an infeed of that shape reads nothing.
        device: the device; None for jax's default device.
        shape: the infeed's shape. With it the value is checked now, not when the program reads it,
            and may contain Python numbers and nested lists of numbers, which are converted to the
            element types. None for the shape of `value`.

    Raises:
        ArgumentError: the value is none of these types, or does not have the shape.
        DeviceError: the device does not exist, or is not a CPU.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> b = xb.XlaBuilder("double")
        >>> x = b.infeed(xb.f32[3])
        >>> run = lowering.compile(b.build(x + x))
        >>> lowering.transfer_to_infeed(np.array([1, 2, 3], np.float32))
        >>> run()
        Array([2., 4., 6.], dtype=float32)
        >>> lowering.transfer_to_infeed([4, 5, 6], shape=xb.f32[3])
        >>> run()
        Array([ 8., 10., 12.], dtype=float32)
    """
    _, queues = _queues_of("transfer_to_infeed", device)
    op = "transfer_to_infeed"
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        if shape is None:
            sent = _collect(value, arrays)
        else:
            sent = _static_shape(op, shape)
            arrays += [np.array(a, copy=True) for a in read_leaves("value", value, sent)]
    except MismatchError as error:
        fix = error.fix or "pass values of exactly these types and sizes, nested like the shape"
        raise error_of(ArgumentError, op, str(error), fix, shapes={"shape": sent}) from None
    except RecursionError:
        rule = "value is nested too deep, or contains itself"
        raise error_of(ArgumentError, op, rule) from None
    if not arrays:
        return
    with queues.changed:
        queues.to_device.append((sent, arrays))
        queues.changed.notify_all()


def _collect(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Shape:
    """Return the shape of a value to be sent, and append copies of its arrays to `arrays`."""
    if isinstance(value, (tuple, list)):
        return TupleShape([_collect(v, arrays) for v in value])
    if type(value) in NUMBERS:
        rule = "a Python number has no element type"
        fix = "pass numpy.asarray(value, dtype), or the infeed's shape: shape=..."
        raise error_of(ArgumentError, "transfer_to_infeed", rule, fix, got=brief(value, 80))
    array = np.asarray(array_or_jax_array("transfer_to_infeed", value))
    try:
        element_type = pt.from_dtype(array.dtype)
    except PrimitiveTypeError as error:
        raise error._as_kind(
            ArgumentError, op="transfer_to_infeed", context=("transfer_to_infeed",)
        ) from None
    arrays.append(np.array(array, order="C", copy=True))
    return intern_array(element_type, array.shape)


@explained
def transfer_from_outfeed(
    shape: ShapeLike, device: DeviceLike = None, *, timeout: float | None = None
) -> Any:
    """Return the next value of a device's outfeed, waiting for it if necessary.

    Args:
        shape: the value's shape. A value of another shape remains in the queue.
        device: the device; None for jax's default device.
        timeout: how many seconds to wait; None for ``lowering.infeed.timeout``.

    Returns:
        A NumPy array, or a tuple of arrays nested as the shape is. For the shape of an empty tuple,
        an empty tuple, without waiting: an outfeed of that shape writes nothing.

    Raises:
        ArgumentError: `shape` has leaves that are not arrays of static sizes, or `timeout` is
            invalid.
        ExecutionError: the next value has another shape, or none was written in time.
        DeviceError: the device does not exist, or is not a CPU.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> b = xb.XlaBuilder("report")
        >>> token = xb.outfeed(b.parameter(xb.s32[2]))
        >>> lowering.compile(b.build())(np.array([4, 5], np.int32))
        >>> lowering.transfer_from_outfeed(xb.s32[2])
        array([4, 5], dtype=int32)
    """
    op = "transfer_from_outfeed"
    target, queues = _queues_of(op, device)
    expected = _static_shape(op, shape)
    parts = list(leaves(expected))
    seconds = _seconds(op, timeout)
    pack = result_packer(expected)
    if not parts:
        return pack([])
    with queues.changed:
        if not queues.changed.wait_for(lambda: queues.from_device, seconds):
            raise error_of(
                ExecutionError,
                op,
                f"waited for {expected} on {target} for {seconds:g} seconds, and no program wrote "
                f"anything",
                "call the program first, or in another thread; or pass a longer timeout=",
                shapes={"shape": expected},
            )
        actual, arrays = queues.from_device[0]
        if not _is_same(parts, actual):
            raise error_of(
                ExecutionError,
                op,
                f"the next value on {target} is of shape {actual}, not of the requested shape "
                f"{expected}",
                f"receive {actual}; or discard the waiting values: lowering.clear_transfers()",
                shapes={"shape": expected, "value": actual},
            )
        queues.from_device.popleft()
    return pack(arrays)


def _static_shape(op: str, shape: ShapeLike) -> Shape:
    """Return the argument `shape` of `op`, whose leaves must be arrays of static sizes."""
    expected = shape_argument(op, "shape", shape)
    for leaf in leaves(expected):
        if isinstance(leaf, TokenShape) or not leaf.is_static:
            rule = "shape must consist of arrays of static sizes"
            raise error_of(ArgumentError, op, rule, got=expected, shapes={"shape": expected})
    return expected


def _seconds(op: str, value: Any) -> float:
    seconds = timeout if value is None else value
    longest = threading.TIMEOUT_MAX
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        rule = "timeout must be a number of seconds"
        raise error_of(ArgumentError, op, rule, got=brief(seconds))
    if not 0 <= seconds <= longest:
        rule = f"timeout must be a number of seconds, from 0 to {longest:.0f}"
        raise error_of(ArgumentError, op, rule, got=brief(seconds))
    return float(seconds)


def _is_same(parts: Sequence[Any], shape: Shape) -> bool:
    """Whether the leaves of `shape` are arrays of the shapes `parts`; nesting is ignored."""
    others = list(leaves(shape))
    return len(parts) == len(others) and all(
        isinstance(a, ArrayShape)
        and isinstance(b, ArrayShape)
        and a.element_type is b.element_type
        and a.dimensions == b.dimensions
        for a, b in zip(parts, others, strict=True)
    )


@explained
def clear_transfers(device: DeviceLike = None) -> tuple[int, int]:
    """Discard the values in a device's infeed and outfeed, such as after a failed run.

    Args:
        device: the device; None for jax's default device.

    Returns:
        The number of values sent to the device but not read, and the number of values written by
        the device but not received.

    Raises:
        DeviceError: the device does not exist, or is not a CPU.

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


# Called by programs


def _read(
    device: jax.Device,
    shapes: Sequence[ArrayShape],
    computation: str,
    place: str,
    *,
    most: float = math.inf,
) -> list[np.ndarray[Any, Any]]:
    """Return the next value sent to a device, waiting for it if necessary.

    Args:
        device: the device that runs the program.
        shapes: the shapes of the arrays that the infeed reads.
        computation: the program's name, for messages.
        place: where the infeed was recorded, for messages.
        most: the maximum number of seconds to wait, even if `timeout` is larger.

    Raises:
        ExecutionError: no value was sent in time; or the value has another shape, and is discarded.
    """
    queues = _queues(device)
    seconds = _seconds("infeed", None)
    note, fix = "", "; to wait longer, set lowering.infeed.timeout"
    if most < seconds:
        seconds, note, fix = (
            most,
            ", the limit while other devices may be waiting for this device",
            "",
        )
    expected = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    with queues.changed:
        if not queues.changed.wait_for(lambda: queues.to_device, seconds):
            raise ExecutionError(
                f"infeed{place} of {expected} waited on {device} for "
                f"{seconds:.3g} seconds{note}, and nothing was sent",
                context=(computation,),
                fix="call lowering.transfer_to_infeed(value, device) before the program is "
                f"called, or in another thread{fix}",
                op="infeed",
                shapes={"shape": expected},
            )
        actual, arrays = queues.to_device.popleft()
    if not _is_same(shapes, actual):
        raise ExecutionError(
            f"infeed{place} must read {expected}",
            got=f"a value of {actual} on {device}, and discards the value",
            context=(computation,),
            fix="send values of the shapes, and in the order, in which the program reads them",
            op="infeed",
            shapes={"shape": expected, "value": actual},
        )
    return arrays


def _write(device: jax.Device, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """Append the arrays that a program writes to a device's outfeed."""
    shapes = [intern_array(pt.from_dtype(a.dtype), a.shape) for a in arrays]
    shape: Shape = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    queues = _queues(device)
    with queues.changed:
        queues.from_device.append((shape, [np.array(a, order="C", copy=True) for a in arrays]))
        queues.changed.notify_all()
