"""The errors that `lowering` raises, below `builder.XlaError`.

Their messages say what was wrong, what was got and how to mend it, in a line or two. What MLIR or
XLA reported in its own words is kept in `detail`, for whoever wants to dig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from builder.errors import XlaError

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "ExecutionError",
    "LoweringError",
    "ModuleFileError",
    "VersionError",
    "recorded_at",
]


class _DetailedError(XlaError):
    """An error that keeps what the library underneath reported.

    Attributes:
        detail: the report, possibly long; empty where there was none.
    """

    _op: ClassVar[str | None] = None
    """What `op` is unless it is said: the function of `lowering` that raises such errors."""

    def __init__(
        self,
        message: str,
        *,
        op: str | None = None,
        shapes: Mapping[str, Any] | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, op=op if op is not None else self._op, shapes=shapes)
        self.detail = detail


class LoweringError(_DetailedError, ValueError):
    """A computation, or a part of it, can't be said in StableHLO, or the other way round.

    `op` is the opcode at fault, or "lower" where it is not a single op.
    """

    _op = "lower"


class ModuleFileError(_DetailedError, ValueError):
    """A module can't be read from a file or from bytes, or not be written to a file.

    An executable, likewise. `op` is "load", "save" or "load_executable".

    Attributes:
        path: the file, or None for bytes and text in memory.
        line, column: where in the text the fault is, counted from 1; None where that isn't known.
    """

    _op = "load"

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        op: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, op=op, detail=detail)
        self.path = path
        self.line = line
        self.column = column


class VersionError(_DetailedError, ValueError):
    """No portable artifact can be written for the StableHLO version asked for.

    `op` is "artifact" or "save".

    Attributes:
        version: what was asked for.
    """

    _op = "artifact"

    def __init__(
        self, message: str, *, version: Any = None, op: str | None = None, detail: str = ""
    ) -> None:
        super().__init__(message, op=op, detail=detail)
        self.version = version


class ArgumentError(_DetailedError, TypeError, ValueError):
    """A compiled computation is called with arguments that it does not take.

    A TypeError and a ValueError, since Python has the one for a wrong number of arguments and the
    other for a wrong value. `op` is the name of the computation called, `shapes` are those of its
    parameters, by name.

    Attributes:
        computation: name of the computation.
        argument: number of the argument at fault, or None.
        name: name of its parameter, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        computation: str | None = None,
        argument: int | None = None,
        name: str | None = None,
        op: str | None = None,
        shapes: Mapping[str, Any] | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, op=op or computation, shapes=shapes, detail=detail)
        self.computation = computation
        self.argument = argument
        self.name = name


class CompileError(_DetailedError, RuntimeError):
    """XLA can't compile a module for a device."""

    _op = "compile"


class DeviceError(_DetailedError, RuntimeError):
    """There is no such device, or this process can't use it."""

    _op = "device"


class ExecutionError(_DetailedError, RuntimeError):
    """A program failed while it ran.

    `op` is the operation at fault.
    """

    _op = "execute"


_FILE_AND_LINE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):\d+')


def recorded_at(location: object) -> str:
    """Where an operation with this MLIR location was recorded, for messages; or nothing."""
    found = _FILE_AND_LINE.search(str(location))
    return f", recorded at {found[1]}:{found[2]}," if found else ""
