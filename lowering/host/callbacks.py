"""Python functions that a running program calls.

XLA hands a function NumPy arrays that lie in its own memory, takes whatever comes back without
looking at shapes and types, dies of too few results, and makes a text of what the function raises.
So each function is wrapped: arguments are copied, results are checked, and an exception is kept
under a number, which XLA's report then holds.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import jax
import numpy as np

from builder.errors import ConstantError, brief
from builder.types.constant import scalar_array
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape
from lowering.errors import ExecutionError
from lowering.mlir.flattening import unflatten
from lowering.pjrt.host_arrays import describe, host_array

__all__ = [
    "PYTHON_CALL",
    "PythonFunction",
    "SharedCallback",
    "SharedFailure",
    "Waits",
    "array_of",
    "failure_of",
    "guarded",
    "python_callback",
    "raise_failure",
    "shared_failure",
]

R = TypeVar("R")

PYTHON_CALL: Final = "xlabuilder.python_call"
"""The target of custom calls that stand for calls of Python functions."""


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function that a module calls.

    Attributes:
        function: the function.
        name: its name, for messages.
        operands: the shapes of its arguments.
        result: the shape of what it gives.
    """

    function: Callable[..., Any]
    name: str
    operands: tuple[Shape, ...]
    result: Shape

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for calls of one function with the same shapes."""
        return id(self.function), self.operands, self.result

    @property
    def place(self) -> str:
        """Where the function is written, for messages; nothing where that isn't known."""
        code = getattr(self.function, "__code__", None)
        if code is None:
            return ""
        return f" ({code.co_filename}:{code.co_firstlineno})"


# Failures, on their way through XLA.

_FAILURES: Final[dict[int, BaseException]] = {}
_NUMBERS: Final = itertools.count()
_LOCK: Final = threading.Lock()
_MARK: Final = re.compile(r"xlabuilder-failure-(\d+)-(\d+)")


class _FailureError(Exception):
    """What XLA is told in place of an exception: the number that the exception is kept under."""


def guarded(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """A function for XLA to call: what `function` raises is found again by `failure_of`."""

    def call(*arguments: Any) -> tuple[Any, ...]:
        try:
            return function(*arguments)
        except BaseException as error:
            with _LOCK:
                number = next(_NUMBERS)
                _FAILURES[number] = error
            # Not chained: XLA would write the whole of it into its report.
            raise _FailureError(f"xlabuilder-failure-{os.getpid()}-{number}") from None

    return call


_MOST_TOGETHER: Final = 30.0
"""XLA ends a process in which one device waits for another for 60 seconds."""


class Waits:
    """How long the devices of a program have waited for the host, of which others wait for them.

    A device that has called nothing for a while may be waiting for the others, in an operation
    across them. What counts is therefore how long one has waited, all in all, since each other
    called its last function. A run on one device is not bounded.
    """

    __slots__ = ("ended", "lock", "waited")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ended: dict[Any, float] = {}
        # Of two devices how long the first has waited since a function of the second ended.
        self.waited: dict[tuple[Any, Any], float] = {}

    def left(self, device: Any) -> float:
        """For how many seconds a device may wait now."""
        with self.lock:
            spent = [s for (one, _), s in self.waited.items() if one == device]
        return max(_MOST_TOGETHER - max(spent, default=0.0), 0.0)

    def add(self, device: Any, seconds: float, devices: Sequence[Any]) -> None:
        """Notes that a function of one of `devices` ends, in which it waited for so long."""
        now = time.monotonic()
        with self.lock:
            for other in devices:
                if other != device:
                    since = min(seconds, now - self.ended.get(other, -math.inf))
                    pair = device, other
                    self.waited[pair] = self.waited.get(pair, 0.0) + since
                    self.waited.pop((other, device), None)
            self.ended[device] = now

    def clear(self) -> None:
        """Forgets all: the run has ended."""
        with self.lock:
            self.ended.clear()
            self.waited.clear()


class SharedFailure:
    """What went wrong first in a run on several devices, and how long they have waited.

    There a failing function can't just raise: the other devices would wait for its device in the
    next operation across them, and XLA would end the process. So zeros are given for its results,
    and for those of all functions that are called afterwards, until the program has ended.

    Attributes:
        error: what was raised; None as long as nothing was.
        waits: how long the devices have waited for values that they read.
    """

    __slots__ = ("calls", "error", "lock", "running", "waits")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.calls = 0
        self.lock = threading.Lock()
        self.running = threading.Lock()
        self.waits = Waits()

    def carried(self, run: Callable[[], R]) -> R:
        """What `run` gives, which runs the program to its end; raises what went wrong in it.

        One run at a time, whose failure it is.
        """
        with self.running:
            try:
                return run()
            finally:
                failed = self.taken()
                if failed is not None:
                    raise failed from failed.__cause__

    def taken(self) -> BaseException | None:
        """What was raised, when a run has ended; it is forgotten then."""
        self.waits.clear()
        with self.lock:
            error, self.error, self.calls = self.error, None, 0
        return error


_MOST_CALLS: Final = 100_000
"""So many calls after a failure are those of a loop that ends with the right values alone."""


class SharedCallback:
    """A function for XLA to call on several devices: it does not raise.

    Attributes:
        function: the function.
        results: the shapes of what it gives.
        failure: of all functions of the program.
    """

    __slots__ = ("failure", "function", "results")

    def __init__(
        self,
        function: Callable[..., tuple[Any, ...]],
        results: Sequence[ArrayShape | TokenShape],
        failure: SharedFailure,
    ) -> None:
        self.function: Final = function
        self.results: Final = results
        self.failure: Final = failure

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        failure = self.failure
        if failure.error is None:
            try:
                return self.function(*arguments)
            except BaseException as error:
                with failure.lock:
                    if failure.error is None:
                        failure.error = error
        with failure.lock:
            failure.calls += 1
            if failure.calls > _MOST_CALLS:
                raise _FailureError("a loop does not end after a failure")
        return tuple(
            np.zeros(s.dimensions, s.element_type.dtype) if isinstance(s, ArrayShape) else None
            for s in self.results
        )


def shared_failure(callbacks: Sequence[Callable[..., Any]]) -> SharedFailure | None:
    """What the callbacks of a program on several devices note their failures in, if it has any."""
    return next((c.failure for c in callbacks if isinstance(c, SharedCallback)), None)


def failure_of(error: BaseException) -> BaseException | None:
    """What a guarded function raised, if an error of jaxlib reports that; it is forgotten then."""
    found = _MARK.search(str(error))
    if found is None or int(found[1]) != os.getpid():
        return None
    with _LOCK:
        return _FAILURES.pop(int(found[2]), None)


def raise_failure(error: BaseException) -> None:
    """Raises what a guarded function raised, if an error of jaxlib reports that."""
    failed = failure_of(error)
    if failed is not None:
        raise failed from failed.__cause__


# Values.


def array_of(value: Any, shape: ArrayShape) -> np.ndarray[Any, Any] | str:
    """`value` as an array of exactly this type and these sizes, or what it is instead."""
    if type(value) in (bool, int, float, complex):
        if shape.rank:
            return f"the Python number {brief(value)}"
        try:
            return scalar_array(value, shape.element_type, "")
        except ConstantError as error:
            reason = str(error).partition("\n")[0].partition(": ")[2]
            return f"the Python number {brief(value)}: {reason}"
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        array: Any = np.asarray(value)
    else:
        array = host_array(value)
    if array is None:
        return describe(value)
    if array.dtype == shape.element_type.dtype and array.shape == shape.dimensions:
        result: np.ndarray[Any, Any] = np.asarray(array, order="C")
        return result
    return describe(array)


def _result_leaves(value: Any, shape: Shape) -> list[Any] | str:
    """What a function gave as flat arrays, None for tokens; or what is wrong with it."""
    flat: list[Any] = []
    stack: list[tuple[Any, Shape, str]] = [(value, shape, "the result")]
    while stack:
        part, wanted, what = stack.pop()
        if isinstance(wanted, TokenShape):
            if part is not None:
                return f"{what} must be None for a token, got {describe(part)}"
            flat.append(None)
        elif isinstance(wanted, TupleShape):
            count = len(wanted.elements)
            if not isinstance(part, (tuple, list)) or len(part) != count:
                got = describe(part)
                if isinstance(part, (tuple, list)):
                    got = f"a {type(part).__name__} of {len(part)}"
                return f"{what} must be a tuple of {count}, {wanted}, got {got}"
            pairs = list(zip(part, wanted.elements, strict=True))
            for index in range(count - 1, -1, -1):
                stack.append((*pairs[index], f"element {index} of {what}"))
        else:
            array = array_of(part, wanted)
            if isinstance(array, str):
                return f"{what} must be {wanted}, got {array}"
            flat.append(array)
    return flat


def python_callback(
    called: PythonFunction, computation: str, place: str
) -> Callable[..., tuple[Any, ...]]:
    """What is to be called for a call of a Python function; not guarded yet.

    Args:
        called: the function, with the shapes of its arguments and its result.
        computation: the name of the computation that calls it, for messages.
        place: where the call was recorded, for messages.
    """

    def fail(reason: str, fix: str, cause: BaseException | None = None) -> ExecutionError:
        shapes = {f"operand {i}": s for i, s in enumerate(called.operands)}
        return ExecutionError(
            f"{computation}: python_call{place} function {called.name}{called.place} {reason}\n"
            f"fix: {fix}",
            op="python_call",
            shapes={**shapes, "result": called.result},
            detail="" if cause is None else "".join(traceback.format_exception(cause)),
        )

    def call(*flat: Any) -> tuple[Any, ...]:
        # Copied: the memory is XLA's, and has other values when the function has returned.
        copies = iter([None if a is None else np.array(a) for a in flat])
        arguments = [_as_tuples(unflatten(s, copies)) for s in called.operands]
        try:
            result = called.function(*arguments)
        except Exception as error:
            raise fail(
                f"raised {type(error).__name__}{_line_of(error)}: {_text_of(error)}",
                "see the error that this one comes from",
                error,
            ) from error
        try:
            found = _result_leaves(result, called.result)
        except Exception as error:  # whatever an object's __dlpack__ or __array__ may raise
            raise fail(
                f"gave a result that can't be read: {type(error).__name__}: {_text_of(error)}",
                _RESULT_FIX,
                error,
            ) from error
        if isinstance(found, str):
            raise fail(f"gave another result than was said: {found}", _RESULT_FIX)
        return tuple(found)

    return call


_RESULT_FIX: Final = (
    "give NumPy arrays of these very types and sizes, for instance by "
    "numpy.asarray(result, dtype).reshape(sizes)"
)


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(v) for v in value) if isinstance(value, list) else value


def _text_of(error: BaseException) -> str:
    """The text of an exception, which may itself fail."""
    try:
        return str(error)
    except Exception:
        return "(it can't be written)"


def _line_of(error: BaseException) -> str:
    """The line that an exception comes from; nothing where it is that of the call itself."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
