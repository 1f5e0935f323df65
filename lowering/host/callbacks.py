"""Python functions that a running program calls.

XLA passes NumPy arrays that refer to XLA's memory. It does not check the shapes and types of the
results, crashes if there are too few results, and reports an exception only as text. So each
function is wrapped: arguments are copied, results are checked, and an exception is stored under a
number that XLA's report then contains.
"""

from __future__ import annotations

import inspect
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

import numpy as np

from builder.support.frames import shown_file
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape
from lowering.errors import ExecutionError
from lowering.pjrt.host_arrays import MismatchError, read_leaves, result_packer

R = TypeVar("R")


class Disagreement:
    """A Python function that raises an error; a program calls it if conditions of devices differ.

    Attributes:
        op: the name of the operation whose conditions differ.
        rule, fix, context: facts of the error for the user.
        noticed: whether the function was called.
    """

    def __init__(self, op: str, rule: str, fix: str, context: tuple[str, ...]) -> None:
        self.op = op
        self.rule = rule
        self.fix = fix
        self.context = context
        self.noticed = False

    def __call__(self, *_: Any) -> tuple[np.ndarray[Any, Any], ...]:
        self.noticed = True
        raise RuntimeError(self.rule)


@dataclass(frozen=True, slots=True, eq=False)
class PythonFunction:
    """A Python function that a module calls.

    Attributes:
        function: the function.
        name: its name, for messages.
        operands: the shapes of its arguments.
        result: the shape of its result.
    """

    function: Callable[..., Any]
    name: str
    operands: tuple[Shape, ...]
    result: Shape

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for calls of one function with the same shapes."""
        return id(self.function), self.operands, self.result

    @property
    def place(self) -> str:
        """The source location of the function, for messages; empty if unknown."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return "" if code is None else f" ({shown_file(code.co_filename)}:{code.co_firstlineno})"


# Failures, and how they pass through XLA

_FAILURES: Final[dict[int, BaseException]] = {}
_NUMBERS: Final = itertools.count()
_LOCK: Final = threading.Lock()
_MARK: Final = re.compile(r"xlabuilder-failure-(\d+)-(\d+)")


class _FailureError(Exception):
    """Replaces the exception of a Python function; the text is the number of that exception."""


def guarded(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Wrap a Python function for XLA: store an exception, which `raise_failure` raises again."""

    def call(*arguments: Any) -> tuple[Any, ...]:
        try:
            return function(*arguments)
        except BaseException as error:
            with _LOCK:
                number = next(_NUMBERS)
                _FAILURES[number] = error
            # Not chained: XLA would write the traceback into its report.
            raise _FailureError(f"xlabuilder-failure-{os.getpid()}-{number}") from None

    return call


_MAX_WAIT: Final = 30.0
"""The maximum number of seconds that a device waits for the host while others may wait for it.

XLA ends a process in which one device waits for another for 60 seconds.
"""


class WaitTimes:
    """How long each device has waited for the host, while other devices may be waiting for it.

    A device that calls no Python function may be waiting for the other devices in a collective
    operation. So for each pair of devices A and B, this class adds up how long A has waited for the
    host since the last Python function of B ended. `left` limits these times to `_MAX_WAIT`
    seconds. A run on one device has no limit.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ended: dict[Any, float] = {}
        # For two devices, how long the first has waited since a function of the second ended.
        self.waited: dict[tuple[Any, Any], float] = {}

    def left(self, device: Any) -> float:
        """Return how many more seconds a device may wait for the host."""
        with self.lock:
            spent = [seconds for (first, _), seconds in self.waited.items() if first == device]
        return max(_MAX_WAIT - max(spent, default=0.0), 0.0)

    def add(self, device: Any, seconds: float, devices: Sequence[Any]) -> None:
        """Record that a Python function of `device` waited `seconds` for the host and has ended."""
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
        """Reset all times when a run has ended."""
        with self.lock:
            self.ended.clear()
            self.waited.clear()


class SharedFailure:
    """The first exception of a Python function in a run on several devices.

    A Python function can't raise in such a run: the other devices would wait for its device in the
    next collective operation, and XLA would end the process. Instead, the function that fails and
    all functions called after it return zeros until the program has ended.

    Attributes:
        error: the exception; None before a failure.
        waits: how long the devices have waited for values from the host.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.calls = 0
        self.lock = threading.Lock()
        self.running = threading.Lock()
        self.waits = WaitTimes()

    def raised_by(self, run: Callable[[], R]) -> R:
        """Call `run`, which waits until the program ends; return its result or raise `error`.

        Runs do not overlap, so `error` belongs to this run.
        """
        with self.running:
            try:
                return run()
            finally:
                error = self._reset()
                if error is not None:
                    raise error from error.__cause__

    def _reset(self) -> BaseException | None:
        self.waits.clear()
        with self.lock:
            error, self.error, self.calls = self.error, None, 0
        return error


_MAX_CALLS: Final = 100_000
"""The maximum number of calls after a failure.

After a failure functions return zeros, with which a loop of the program may never end.
"""


@dataclass(frozen=True, slots=True, eq=False)
class SharedCallback:
    """A function that XLA calls on several devices; it records an exception instead of raising it.

    Attributes:
        function: the function.
        results: the shapes of its results.
        failure: the failure that all functions of the program share.
    """

    function: Callable[..., tuple[Any, ...]]
    results: Sequence[ArrayShape | TokenShape]
    failure: SharedFailure

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
            if failure.calls > _MAX_CALLS:
                raise _FailureError("a loop of the program does not end after a function failed")
        return tuple(
            np.zeros(s.dimensions, s.element_type.dtype) if isinstance(s, ArrayShape) else None
            for s in self.results
        )


def shared_failure(callbacks: Sequence[Callable[..., Any]]) -> SharedFailure | None:
    """Return the `SharedFailure` of a program's callbacks; None for a program on one device."""
    return next((c.failure for c in callbacks if isinstance(c, SharedCallback)), None)


def raise_failure(error: BaseException) -> None:
    """Raise the stored exception of a `guarded` function if jaxlib's error has its number."""
    match = _MARK.search(str(error))
    if match is None or int(match[1]) != os.getpid():
        return
    with _LOCK:
        failure = _FAILURES.pop(int(match[2]), None)
    if failure is not None:
        raise failure from failure.__cause__


def python_callback(
    called: PythonFunction, computation: str, place: str, op: str = "python_call"
) -> Callable[..., tuple[Any, ...]]:
    """Return the function that XLA calls for a Python function, before `guarded` wraps it.

    Args:
        called: the function, with the shapes of its arguments and its result.
        computation: the name of the calling computation, for messages.
        place: where the call was recorded, for messages.
        op: the operation that calls the function, for messages.
    """

    def fail(reason: str, fix: str, cause: BaseException | None = None) -> ExecutionError:
        shapes = {f"operand {i}": s for i, s in enumerate(called.operands)}
        return ExecutionError(
            f"{op}{place} function {called.name}{called.place} {reason}",
            context=(computation,),
            fix=fix,
            op=op,
            shapes={**shapes, "result": called.result},
            detail="" if cause is None else "".join(traceback.format_exception(cause)),
        )

    pack_arguments = result_packer(TupleShape(called.operands))

    def call(*flat: Any) -> tuple[Any, ...]:
        # Copied: XLA reuses the memory when the function has returned.
        arguments = pack_arguments([None if a is None else np.array(a) for a in flat])
        try:
            result = called.function(*arguments)
        except Exception as error:
            raise fail(
                f"raised {type(error).__name__}{_line_of(error)}: {_text_of(error)}",
                "correct the function; this error's __cause__ is its exception",
                error,
            ) from error
        try:
            return tuple(read_leaves("the result", result, called.result))
        except MismatchError as error:
            raise fail(
                f"returned a result that differs from its declaration: {error}",
                error.fix or _RESULT_FIX,
            ) from None

    return call


_RESULT_FIX: Final = (
    "return NumPy arrays of exactly these types and sizes, for instance by "
    "numpy.asarray(result, dtype).reshape(sizes)"
)


def _text_of(error: BaseException) -> str:
    """Return the text of an exception; converting it may fail."""
    try:
        return str(error)
    except Exception:
        return "(the exception can't be printed)"


def _line_of(error: BaseException) -> str:
    """Return the line that raised an exception; empty if the call itself raised it."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return f" at {shown_file(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
